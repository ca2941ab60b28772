//! A disk that misbehaves under the store's SQLite: it loses power, fails, fills up and rots.
//!
//! [`vfs`] is the layer between SQLite and the system's files, and the only file with `unsafe` code. [`disk`] records
//! operations and plans failures. [`image`] computes possible states after a loss of power from a recording.
//! [`workload`] writes realistic data, and knows the required state afterwards. [`trials`] are the experiments, in any
//! number.
//!
//! The ordinary store is tried, as programs open it: the layer makes itself SQLite's default one and only touches the folders
//! that a [`disk::Disk`] watches. It is *not* part of any program that people run.

pub mod disk;
pub mod image;
pub mod random;
pub mod trials;
mod vfs;
pub mod workload;
