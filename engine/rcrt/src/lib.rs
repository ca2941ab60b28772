//! RCRT's view of tools: the catalog, derived from checked configs in the forms of seeds 001 and 003.
//!
//! A catalog is computed whenever it is printed, and no file stores one. The lines of the compact form belong to
//! [`Tool`](baton_types::config::Tool), because prompts have the same lines.
//!
//! This crate does *not* load configs and knows no provider: `baton-models` encodes tools for requests.

mod catalog;

pub use catalog::{Filter, NoSuchName, ToolCatalog};
