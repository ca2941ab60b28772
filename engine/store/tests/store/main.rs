//! What every store promises, and what the one on disk promises besides.

mod disk;
mod group_commit;
mod keeping;
mod lost;
mod promises;
mod received;
mod support;
