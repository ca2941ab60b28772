//! Promises of every store, and further promises of the store on disk.

mod disk;
mod group_commit;
mod keeping;
mod lost;
mod promises;
mod received;
mod support;
