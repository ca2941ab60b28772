//! Tools of other systems, as an import reads them.

use serde_json::Value;

use crate::normal::{Change, Normalizer};

/// The tools of another system's document.
#[derive(Debug, Default)]
pub struct ForeignTools {
    /// The tools, in order.
    pub tools: Vec<ForeignTool>,
    /// Parts of the document that belong to no tool, and definitions that became none: pointers into the document.
    pub unused: Vec<Change>,
}

/// A tool of another system.
#[derive(Debug)]
pub struct ForeignTool {
    /// Its name there.
    pub name: String,
    /// An id of the same meaning: small letters and digits in words joined by `_` or `-`.
    pub id: String,
    /// The name that models see, if it is not the id: the name there, in characters that providers accept.
    pub wire_name: Option<String>,
    /// A short name for people.
    pub title: Option<String>,
    /// Its purpose.
    pub description: String,
    /// The schema of its input.
    pub input: Value,
    /// The schema of its output.
    pub output: Option<Value>,
    /// Everything that is different from the original.
    pub changes: Vec<Change>,
}

/// Returns the report of a part that has no place in a tool config.
pub(crate) fn not_used(part: &str) -> Change {
    Change::new("", format!("{part:?} was not used: a tool config has no place for it"))
}

/// Returns a tool with the schemas of `document` that it needs.
pub(crate) fn tool_of(
    name: String,
    title: Option<String>,
    description: Option<String>,
    input: &Value,
    output: Option<&Value>,
    document: &Value,
) -> ForeignTool {
    let mut normalizer = Normalizer::new(document);
    let input = normalizer.input(input);
    let mut changes = normalizer.changes;
    let output = output.map(|output| {
        let mut normalizer = Normalizer::new(document);
        let output = normalizer.whole(output);
        let moved = normalizer.changes.into_iter();
        changes.extend(moved.map(|change| Change { pointer: format!("output {}", change.pointer), ..change }));
        output
    });
    let description = description.unwrap_or_else(|| {
        changes.push(Change::new("", "it has no description: its name is used"));
        name.clone()
    });
    ForeignTool { id: String::new(), name, wire_name: None, title, description, input, output, changes }
}
