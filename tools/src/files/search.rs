//! `search_documents`: finds a text in documents.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::document::DocumentVersion;
use serde::Serialize;

use super::one_line;

/// Number of reported documents (default).
const DEFAULT_LIMIT: u32 = 20;
/// The most characters of a snippet.
const SNIPPET_CHARACTERS: usize = 200;
/// Number of characters of a snippet before the hit.
const LEAD_CHARACTERS: usize = 60;

#[derive(Serialize)]
struct Found {
    matches: Vec<Match>,
    /// Number of documents with the text, reported or not.
    total: usize,
}

#[derive(Serialize)]
struct Match {
    path: String,
    version: u32,
    /// Of `path`, `description`, `summary`, `tags`, `content`: those that hold the text.
    matched_in: Vec<&'static str>,
    /// The first line of the content that holds it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Number of lines of the content with the text.
    lines_matched: usize,
    /// That line, or the first field that holds it.
    snippet: String,
}

/// Finds the documents that hold `query`, upper and lower case alike. Those where more fields match come first.
#[tool]
async fn search_documents(context: &ToolContext, query: String, limit: Option<u32>) -> Result<Found, ToolError> {
    let needle = query.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    if needle.is_empty() {
        return Err(ToolError::new("the query is empty").of_kind(ToolErrorKind::InvalidInput));
    }
    let mut matches = Vec::new();
    for (path, document) in context.documents().iter() {
        context.check_cancelled()?;
        let content = context.read(path.as_str()).await?;
        matches.extend(search(document.current(), &content, &needle));
    }
    matches.sort_by_key(|found: &Match| std::cmp::Reverse(found.matched_in.len()));
    let total = matches.len();
    matches.truncate(limit.unwrap_or(DEFAULT_LIMIT) as usize);
    Ok(Found { matches, total })
}

fn search(version: &DocumentVersion, content: &[u8], needle: &str) -> Option<Match> {
    let tags = version.tags.join(", ");
    let fields = [
        ("path", version.path.as_str()),
        ("description", version.description.as_str()),
        ("summary", version.content.summary.as_str()),
        ("tags", tags.as_str()),
    ];
    let holding: Vec<_> = fields.iter().filter(|(_, text)| text.to_lowercase().contains(needle)).collect();
    let mut matched_in: Vec<&'static str> = holding.iter().map(|(name, _)| *name).collect();
    let mut snippet = holding.first().map(|(_, text)| around(text, needle)).unwrap_or_default();
    let mut first_line = None;
    let mut lines_matched = 0;
    for (number, line) in std::str::from_utf8(content).unwrap_or_default().lines().enumerate() {
        if line.to_lowercase().contains(needle) {
            lines_matched += 1;
            if first_line.is_none() {
                first_line = Some(number + 1);
                snippet = around(line, needle);
                matched_in.push("content");
            }
        }
    }
    (!matched_in.is_empty()).then(|| Match {
        path: version.path.to_string(),
        version: version.version,
        matched_in,
        line: first_line,
        lines_matched,
        snippet,
    })
}

/// Returns the part of `text` around the first occurrence of `needle`, on one line.
fn around(text: &str, needle: &str) -> String {
    // Lower case may be longer than the original (`İ`), so places are mapped back character by character.
    let mut lowered = String::new();
    let mut origins = Vec::new();
    for (at, character) in text.char_indices() {
        for lower in character.to_lowercase() {
            lowered.push(lower);
            origins.resize(lowered.len(), at);
        }
    }
    let hit = lowered.find(needle).and_then(|at| origins.get(at)).copied().unwrap_or_default();
    let start = text[..hit].char_indices().rev().take(LEAD_CHARACTERS).last().map_or(hit, |(at, _)| at);
    let cut = one_line(&text[start..], SNIPPET_CHARACTERS);
    if start > 0 { format!("…{cut}") } else { cut }
}
