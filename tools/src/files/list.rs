//! `list_files`: what there is in the workspace.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::document::DocumentVersion;
use globset::GlobBuilder;
use serde::Serialize;

use super::blocks;
use super::doc_type;

/// Number of listed documents (default).
const DEFAULT_LIMIT: u32 = 200;
/// The most bytes a pattern may have; its automaton grows with it.
const MAX_PATTERN_BYTES: usize = 1_000;

#[derive(Serialize)]
struct Listed {
    files: Vec<Listing>,
    /// Number of matching documents, listed or not.
    total: usize,
}

/// One document.
#[derive(Serialize)]
struct Listing {
    path: String,
    doc_type: &'static str,
    blocks_count: usize,
    version: u32,
    mime_type: String,
    size_bytes: u64,
    token_count: u64,
    description: String,
    tags: Vec<String>,
    summary: String,
    created_by: String,
    updated_by: String,
    updated_at: String,
}

/// Lists the documents that meet every given condition, ordered by path.
#[tool]
async fn list_files(
    context: &ToolContext,
    pattern: Option<String>,
    mime_type: Option<String>,
    tags: Option<Vec<String>>,
    created_by: Option<String>,
    limit: Option<u32>,
) -> Result<Listed, ToolError> {
    let pattern = pattern.unwrap_or_else(|| "*".to_owned());
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(invalid(format!("the pattern has more than {MAX_PATTERN_BYTES} bytes")));
    }
    let matcher = GlobBuilder::new(&pattern)
        .build()
        .map_err(|error| invalid(format!("{pattern:?} is not a glob pattern: {}", error.kind())))?
        .compile_matcher();
    let author = created_by.map(|author| if author == "me" { context.task().to_string() } else { author });
    let fits = |version: &DocumentVersion, creator: &str| {
        matcher.is_match(version.path.as_str())
            && mime_type.as_deref().is_none_or(|wanted| has_type(&version.content.mime_type, wanted))
            && tags.as_ref().is_none_or(|wanted| wanted.iter().any(|tag| version.tags.contains(tag)))
            && author.as_deref().is_none_or(|author| author == creator)
    };
    let mut listed = Listed { files: Vec::new(), total: 0 };
    for (path, document) in context.documents().iter() {
        let version = document.current();
        let creator = document.versions().next().map_or_else(|| "job".to_owned(), |first| first.author());
        if !fits(version, &creator) {
            continue;
        }
        listed.total += 1;
        if listed.files.len() >= limit.unwrap_or(DEFAULT_LIMIT) as usize {
            continue;
        }
        context.check_cancelled()?;
        let content = context.read(path.as_str()).await?;
        listed.files.push(Listing {
            path: path.to_string(),
            doc_type: doc_type(&content, version).as_str(),
            blocks_count: blocks::count(&content, &version.content.mime_type),
            version: version.version,
            mime_type: version.content.mime_type.clone(),
            size_bytes: version.content.size_bytes,
            token_count: version.content.token_count,
            description: version.description.clone(),
            tags: version.tags.clone(),
            summary: version.content.summary.clone(),
            created_by: creator,
            updated_by: version.author(),
            updated_at: version.at.to_string(),
        });
    }
    Ok(listed)
}

/// Whether a media type is the wanted one, or of the kind that `image/*` names. Parameters do not matter.
fn has_type(mime_type: &str, wanted: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    let wanted = wanted.trim().to_lowercase();
    match wanted.strip_suffix('*') {
        Some(kind) => essence.starts_with(kind),
        None => essence == wanted,
    }
}

fn invalid(message: String) -> ToolError {
    ToolError::new(message).of_kind(ToolErrorKind::InvalidInput)
}
