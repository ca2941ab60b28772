//! `load_to_context`: a document's content, brought into the calling task.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use serde::Serialize;

use super::blocks;
use super::{doc_type, one_line};

/// The most blocks that are listed.
const MAX_BLOCKS: usize = 500;
/// The most characters of a block's preview.
const PREVIEW_CHARACTERS: usize = 80;
/// Number of known paths in the error for an unknown document.
const MAX_KNOWN: usize = 20;

#[derive(Default, Serialize)]
struct Loaded {
    /// `document`, or `error`.
    r#type: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<Vec<Numbered>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A block and the number it is edited by.
#[derive(Serialize)]
struct Numbered {
    block_id: String,
    block_type: &'static str,
    preview: String,
}

/// Asks for the newest version of `path` to be injected into the calling task, for good.
#[tool]
async fn load_to_context(context: &ToolContext, path: String, with_blocks: Option<bool>) -> Result<Loaded, ToolError> {
    let reference = match context.load(&path) {
        Ok(reference) => reference,
        Err(error) => return Ok(Loaded { r#type: "error", path, error: Some(explained(context, error)), ..Loaded::default() }),
    };
    let version = context.document(&path)?;
    let mut loaded = Loaded {
        r#type: "document",
        path: reference.path.to_string(),
        version: Some(reference.version),
        mime_type: Some(version.content.mime_type.clone()),
        token_count: Some(version.content.token_count),
        ..Loaded::default()
    };
    if with_blocks == Some(true) {
        let content = context.read(&path).await?;
        let text = std::str::from_utf8(&content).unwrap_or_default();
        match blocks::blocks(text, doc_type(&content, version)) {
            Ok(found) => {
                loaded.blocks_count = Some(found.len());
                loaded.blocks =
                    Some(found.iter().take(MAX_BLOCKS).enumerate().map(|(id, block)| numbered(text, id, block)).collect());
            }
            // The document is loaded all the same.
            Err(reason) => loaded.error = Some(format!("{path} has no blocks: {reason}")),
        }
    }
    Ok(loaded)
}

fn numbered(text: &str, id: usize, block: &blocks::Block) -> Numbered {
    // No more than can show is looked at: a block may be a whole document.
    let shown: String = text[block.range.clone()].chars().take(4 * PREVIEW_CHARACTERS).collect();
    Numbered { block_id: id.to_string(), block_type: block.block_type.as_str(), preview: one_line(&shown, PREVIEW_CHARACTERS) }
}

/// Returns the reason, with the existing documents.
fn explained(context: &ToolContext, error: ToolError) -> String {
    if error.kind != ToolErrorKind::UnknownDocument {
        return error.message;
    }
    let known: Vec<&str> = context.documents().iter().map(|(path, _)| path.as_str()).take(MAX_KNOWN).collect();
    match known.len() {
        0 => format!("{}; the workspace is empty", error.message),
        _ if context.documents().len() > MAX_KNOWN => format!("{}; the workspace holds {}, …", error.message, known.join(", ")),
        _ => format!("{}; the workspace holds {}", error.message, known.join(", ")),
    }
}
