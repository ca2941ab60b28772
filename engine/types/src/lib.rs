//! The shared vocabulary: ids, payloads, documents, messages, events, entries and resolved configs.
//!
//! Values and what can be computed from them alone. Every other crate may use this one, and this one uses none of them.
//! A JSON Schema is here what a [judge](schema::Judge) decides; a tool function is here a [name](config::FunctionName).
//!
//! This crate has *no* futures, contexts, files, clocks or randomness: moments, ids and contents are given to it.

pub mod approval;
pub mod breadcrumb;
pub mod call;
pub mod config;
pub mod document;
pub mod entry;
pub mod estimate;
pub mod event;
pub mod id;
pub mod json;
pub mod limits;
pub mod message;
pub mod model;
pub mod money;
pub mod path;
pub mod principal;
pub mod schema;
pub mod spelling;
pub mod text;
pub mod time;
pub mod tool_type;
mod usage;
