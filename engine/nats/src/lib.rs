//! NATS: the commands of tool services, their callbacks, cards, and the wake-ups of workers.
//!
//! Only the store is authoritative. A lost message only delays work: a command is sent again while its call waits, and a
//! callback that no worker has acknowledged comes again.
//!
//! - [`Bus`]: the connection of a process that executes runs. It sends commands ([`baton_runtime::ToolServices`]), announces runs
//!   that need an owner ([`baton_runtime::Bus`]), and [`Bus::serve`] takes callbacks and answers requests for cards.
//! - [`service`]: the engine as a tool service.
//! - [`address`]: the address of the server and the credentials.
//! - [`streams`]: what JetStream keeps.

pub mod address;
mod callbacks;
mod cards;
mod commands;
mod connection;
mod error;
mod messages;
pub mod service;
mod serving;
pub mod streams;
mod wakeups;

pub use connection::Bus;
pub use error::BusError;
