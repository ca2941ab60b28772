//! UTP, the wire of seed 004: what a worker and a tool service send each other over a message bus.
//!
//! - [`subject`]: the addresses of messages, and the wildcards by which programs subscribe.
//! - [`command`], [`callback`], [`exchange`]: the payloads.
//! - [`card`], [`view`], [`result`]: cards, which hold inputs and results. Payloads only name them.
//! - [`control`], [`resume`]: the meaning of a callback for the call that waits for it.
//! - [`row`]: rows of `resource.tools`, and their form as tool configs.
//! - [`published`]: JSON Schemas and the `AsyncAPI` document.
//!
//! A payload is read strictly in what it must have and leniently in the rest: unknown fields are ignored and dropped.
//!
//! This crate is not a client of a bus. It sends nothing, waits for nothing, and reads no clock.

pub mod callback;
pub mod card;
pub mod command;
pub mod control;
pub mod error_code;
pub mod exchange;
pub mod id;
pub mod published;
pub mod read;
pub mod result;
pub mod resume;
pub mod row;
pub mod status;
pub mod subject;
pub mod view;

/// Version of the protocol: the second token of every subject. Seed 004 describes `v1r3`.
pub const VERSION: &str = "v1r3";

/// Most bytes of a command, a callback or a wake-up: 64 KiB. They hold names only, so a longer one is an attack or a mistake.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

/// Most bytes of a message with a card: 1,000,000. It leaves room for headers below the 1 MiB that NATS allows by default.
pub const MAX_CARD_BYTES: usize = 1_000_000;
