//! Tool functions: what `#[tool]` registers, and the context that a function is given.
//!
//! A function sees a snapshot of the workspace. What it writes is collected and committed with its result as one
//! entry batch, so a function that fails has written nothing.
//!
//! This crate does *not* run calls of a job: the runtime does. [`testing`] and [`run_example`] run a function by itself.

mod ask;
mod breadcrumb;
mod context;
mod error;
mod example;
mod function;
mod host;
pub mod long_output;
pub mod measure;
mod scope;
pub mod signature;
pub mod testing;

pub use ask::{ModelAsk, ModelReply};
pub use breadcrumb::{BreadcrumbAsk, BreadcrumbReply};
pub use context::{Caller, CollectedEffects, PendingWrite, ToolContext};
pub use error::{ToolError, ToolErrorKind, parse_path};
pub use example::{Difference, ExampleFailure, compare_output, run_example};
pub use function::{
    PreviewText, ToolFunction, ToolPreview, from_input, registered_functions, registered_preview, schema_of, to_output,
};
pub use host::{BoxFuture, RecallScope, RecalledCall, ToolHost};
pub use scope::{Arrange, RunProgram, RunScope};

/// Items for the code that `#[tool]` writes; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use baton_types::json::Json;
    pub use {inventory, schemars, serde, serde_json};
}
