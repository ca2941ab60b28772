//! Servers that tests start, and that end with the test program, also when it is killed.
//!
//! Only tests depend on this crate. A server listens on a Unix socket in a folder of its own, which only the server's user and
//! the superuser may enter.

mod pooler;
mod postgres;

pub use pooler::Pooler;
pub use postgres::{Database, Postgres};
