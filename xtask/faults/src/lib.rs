//! A disk that misbehaves under the store's SQLite: it loses power, fails, fills up and rots.
//!
//! [`vfs`] lies between SQLite and the system's files and is the only file with `unsafe` code; [`disk`] says what it records
//! and where it fails. [`image`] makes of a recording what a loss of power may leave. [`workload`] writes what a store is
//! for, and knows what must be there afterwards. [`trials`] are the experiments, as many of each as one asks for.
//!
//! The ordinary store is tried, as programs open it: the layer makes itself SQLite's default one and only touches the folders
//! that a [`disk::Disk`] watches. It is *not* part of any program that people run.

pub mod disk;
pub mod image;
pub mod random;
pub mod trials;
mod vfs;
pub mod workload;
