//! Outputs that are too long to be shown: each is kept as a document, and its agent is told where.
//!
//! Such a document is named after its tool and its content, so the same output is the same document, whoever brought it, and
//! nothing else can stand there. The shell measures it, since it alone has bytes; the machine decides whether it is kept.

use serde_json::{Value, json};

use crate::document::{ContentFacts, Write};
use crate::function::Content;
use crate::id::ToolId;
use crate::json::Json;
use crate::measure::measure;
use crate::path::DocumentPath;

/// Hexadecimal digits of a content's hash that stand in the path.
const DIGITS: usize = 16;

/// `output` of `tool` as a document: a text as it is, anything else as JSON.
pub fn kept(tool: &ToolId, output: &Json) -> (Write, Content) {
    let (content, ending): (Content, _) = match output.value() {
        Value::String(text) => (text.into_bytes().into(), "txt"),
        _ => (output.text().as_bytes().into(), "json"),
    };
    let hash = crate::id::ContentHash::of(&content);
    let path = path(tool, &hash.to_string(), ending);
    let facts = measure(&path, &content, None);
    let description = format!("An output of {tool} that was too long to be shown");
    (Write { path, content: facts, description: Some(description), tags: None }, content)
}

/// Whether a document of these facts at `path` is a kept output of `tool`.
pub fn is_kept(tool: &ToolId, at: &DocumentPath, facts: &ContentFacts) -> bool {
    let hash = facts.hash.to_string();
    ["txt", "json"].iter().any(|ending| *at == path(tool, &hash, ending))
}

/// What stands in place of an output that is kept at `path`.
pub fn pointer(path: &DocumentPath, facts: &ContentFacts) -> Json {
    let mut pointer = json!({
        "document": path, "size_bytes": facts.size_bytes, "token_count": facts.token_count,
        "note": "the output is too long to be shown here: read or query this document for what you need of it",
    });
    if !facts.summary.is_empty() {
        pointer["summary"] = json!(facts.summary);
    }
    Json::from(pointer)
}

/// The path of the document that `output` points to, if it is a pointer.
pub fn pointed(output: &Json) -> Option<DocumentPath> {
    let value = output.value();
    value.get("note")?;
    DocumentPath::parse(value.get("document")?.as_str()?).ok()
}

fn path(tool: &ToolId, hash: &str, ending: &str) -> DocumentPath {
    let digits = &hash[hash.len().saturating_sub(DIGITS)..];
    DocumentPath::parse(&format!("results/{tool}-{digits}.{ending}")).expect("ids and digits make a path")
}
