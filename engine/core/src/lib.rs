//! The machine: decides what every event of a run means.
//!
//! [`Run::handle`] checks an event against the state: it refuses it and changes nothing, or appends the entries that answer
//! it and returns them with the effects to perform. [`Run::apply`] is the only code that changes state; `handle` uses it
//! for each entry, and so does replay. It cannot fail. State is the fold of the timeline.
//!
//! The shell owns: files, clocks, ids of runs, models, executors, contents, the store.
//! The core owns: the task graph, the turn rules, limits, documents' versions, what a model is shown, and the configs.
//!
//! This crate is *not* asynchronous and touches nothing outside itself: its manifest has no tokio, no HTTP, no database.

pub mod call;
pub mod config;
pub mod document;
pub mod entry;
pub mod estimate;
pub mod event;
pub mod function;
pub mod id;
pub mod json;
pub mod limits;
pub mod long_output;
pub mod machine;
pub mod measure;
pub mod model;
pub mod money;
pub mod path;
pub mod principal;
pub mod render;
pub mod template;
pub mod time;
pub mod tool_type;

pub use machine::Run;

/// What the code that `#[tool]` writes refers to; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use {inventory, schemars, serde, serde_json};
}
