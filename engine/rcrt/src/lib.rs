//! RCRT's view of the engine (seeds 000, 001 and 003): the catalog of tools, and agents that are records.
//!
//! [`Listener`] starts a run for each trigger that a store has noted, and writes the record that answers it. It does not decide what
//! triggers: the store does, in the transaction that writes a version.

mod catalog;
mod listen;

pub use catalog::{Filter, NoSuchName, ToolCatalog};
pub use listen::{Heard, Listener, Outcome, ProjectFiles, ReadProject};
