//! Tools for breadcrumbs: records that outlive runs and that all agents of a project can read.
//!
//! A failed write is a failed call. The seeds give it the fields `success` and `error`, which the detail of the error has.

mod scheduler;
mod search;
mod write;

use baton_tool::{ToolContext, ToolError};
use serde::Deserialize;

/// Settings of the tools.
#[derive(Deserialize)]
struct Settings {
    /// Kinds of sensitive content that calls may read.
    #[serde(default)]
    may_read: Vec<Sensitive>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sensitive {
    Pii,
}

/// Whether the tool's settings let calls read personal data.
fn may_read_pii(call: &ToolContext) -> Result<bool, ToolError> {
    call.settings::<Settings>().map(|settings| settings.may_read.contains(&Sensitive::Pii))
}
