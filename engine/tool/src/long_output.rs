//! Outputs that are too long for an agent's requests. Each becomes a document, and the agent receives where it is.
//!
//! The document is named after its tool and its content, so that the same output is the same document, whichever call made it.

use baton_types::document::{Content, Write, output_content};
use baton_types::id::{ContentHash, ToolId};
use baton_types::json::Json;
use baton_types::path::kept_output_paths;

use crate::measure::measure;

/// Returns `output` of `tool` as a document: a string as plain text, anything else as JSON.
pub fn document(tool: &ToolId, output: &Json) -> (Write, Content) {
    let (content, _, ending) = output_content(output);
    let path = kept_output_paths(tool, ContentHash::of(&content), ending).next().expect("the paths have no end");
    let facts = measure(&path, &content, None);
    let description = format!("An output of {tool} that was too long to be shown");
    (Write { path, content: facts, description: Some(description), tags: None }, content)
}
