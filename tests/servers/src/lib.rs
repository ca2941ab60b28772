//! Servers that tests start, and that end with the test program, also when it is killed.
//!
//! Only tests and the cluster kit depend on this crate. PostgreSQL listens on a Unix socket in a folder of its own, which only the server's user
//! and the superuser may enter. NATS listens on the loopback interface.

mod nats;
mod pooler;
mod postgres;

pub use nats::{Nats, nats_server};
pub use pooler::Pooler;
pub use postgres::{Database, Postgres};
