//! `write_file`: the whole content of a document.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use baton_macros::tool;
use baton_tool::{PendingWrite, ToolContext, ToolError, ToolErrorKind, parse_path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks;

/// The most tags that a document may have.
const MAX_TAGS: usize = 32;

/// Standard base64; models often forget the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Encoding of the content of a call.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
enum Encoding {
    /// As it is.
    #[serde(rename = "utf-8")]
    Utf8,
    /// Bytes that are no text.
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Serialize)]
struct Written {
    path: String,
    size_bytes: u64,
    token_count: u64,
    blocks_count: usize,
    mime_type: String,
    summary: String,
}

/// Creates the document at `path`, or adds a version to it.
#[tool]
#[expect(clippy::unused_async, reason = "it is short, so it is awaited in place rather than on a thread of its own")]
async fn write_file(
    context: &ToolContext,
    path: String,
    content: String,
    mime_type: Option<String>,
    why_created: Option<String>,
    tags: Option<Vec<String>>,
    encoding: Option<Encoding>,
) -> Result<Written, ToolError> {
    let path = parse_path(&path)?;
    let content = match encoding.unwrap_or(Encoding::Utf8) {
        Encoding::Utf8 => content.into_bytes(),
        Encoding::Base64 => decode(&content)?,
    };
    let mut write = PendingWrite::new(path.clone(), content);
    write.mime_type = mime_type.filter(|given| !given.trim().is_empty());
    write.description = why_created.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    write.tags = tags.map(tidy).transpose()?;
    let content = Arc::clone(&write.content);
    let facts = context.write(write)?;
    Ok(Written {
        path: path.to_string(),
        size_bytes: facts.size_bytes,
        token_count: facts.token_count,
        blocks_count: blocks::count(&content, &facts.mime_type),
        mime_type: facts.mime_type,
        summary: facts.summary,
    })
}

fn decode(content: &str) -> Result<Vec<u8>, ToolError> {
    let compact: String = content.split_ascii_whitespace().collect();
    BASE64.decode(compact).map_err(|error| {
        ToolError::new(format!("content is not base64: {error}; leave encoding out for text"))
            .of_kind(ToolErrorKind::InvalidInput)
    })
}

/// Tags without blanks around them, each once.
fn tidy(tags: Vec<String>) -> Result<Vec<String>, ToolError> {
    let mut tidied: Vec<String> = Vec::new();
    for tag in tags.iter().map(|tag| tag.trim()).filter(|tag| !tag.is_empty()) {
        if !tidied.iter().any(|known| known == tag) {
            tidied.push(tag.to_owned());
        }
    }
    if tidied.len() > MAX_TAGS {
        let message = format!("a document has at most {MAX_TAGS} tags, not {}", tidied.len());
        return Err(ToolError::new(message).of_kind(ToolErrorKind::InvalidInput));
    }
    Ok(tidied)
}
