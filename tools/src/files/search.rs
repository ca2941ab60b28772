//! `search_documents`: finds a text in documents.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::document::DocumentVersion;
use serde::Serialize;

use super::one_line;
use crate::reading::{DocumentText, Format, text_of};

/// Number of reported documents (default).
const DEFAULT_LIMIT: u32 = 20;
/// Number of snippets of a document (default).
const DEFAULT_SNIPPETS: u32 = 5;
/// The most snippets of one answer. Beyond it, each document has one.
const MAX_SNIPPETS: usize = 200;
/// The most documents that are named as unreadable.
const MAX_UNREAD: usize = 20;
/// The most characters of a snippet.
const SNIPPET_CHARACTERS: usize = 200;
/// Number of characters of a snippet before the hit.
const LEAD_CHARACTERS: usize = 60;

#[derive(Serialize)]
struct Found {
    matches: Vec<Match>,
    /// Number of documents with the text, reported or not.
    total: usize,
    /// PDF, DOCX and XLSX documents whose content could not be searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Unread>,
}

#[derive(Serialize)]
struct Unread {
    path: String,
    reason: String,
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
    /// Places in the content, from the beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    snippets: Vec<Snippet>,
}

/// A place in the content with the text.
#[derive(Serialize)]
struct Snippet {
    /// The line, from 1, as `load_to_context` counts lines.
    line: usize,
    /// The page of a PDF or the sheet of an XLSX.
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    text: String,
}

/// Finds the documents that hold `query`, upper and lower case alike. Those where more fields match come first.
#[tool]
async fn search_documents(
    context: &ToolContext,
    query: String,
    limit: Option<u32>,
    snippets: Option<u32>,
) -> Result<Found, ToolError> {
    let needle = query.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    if needle.is_empty() {
        return Err(ToolError::new("the query is empty").of_kind(ToolErrorKind::InvalidInput));
    }
    let most = snippets.unwrap_or(DEFAULT_SNIPPETS) as usize;
    let (mut matches, mut unread) = (Vec::new(), Vec::new());
    for (path, document) in context.documents().iter() {
        context.check_cancelled()?;
        let version = document.current();
        let text = match text_of(context, path.as_str()).await {
            Ok(text) => Some(text),
            Err(error) if error.kind == ToolErrorKind::Cancelled => return Err(error),
            // Images and the like have no text.
            Err(error) => {
                if Format::of(&version.content.mime_type).is_some() && unread.len() < MAX_UNREAD {
                    unread.push(Unread { path: path.to_string(), reason: error.message });
                }
                None
            }
        };
        matches.extend(search(version, text.as_ref(), &needle, most));
    }
    matches.sort_by_key(|found: &Match| std::cmp::Reverse(found.matched_in.len()));
    let total = matches.len();
    matches.truncate(limit.unwrap_or(DEFAULT_LIMIT) as usize);
    let mut room = MAX_SNIPPETS;
    for found in &mut matches {
        found.snippets.truncate(room.max(1));
        room = room.saturating_sub(found.snippets.len());
    }
    Ok(Found { matches, total, unread })
}

/// Searches a version with its text, if it has one. Returns at most `most` snippets.
fn search(version: &DocumentVersion, document: Option<&DocumentText>, needle: &str, most: usize) -> Option<Match> {
    let tags = version.tags.join(", ");
    let fields = [
        ("path", version.path.as_str()),
        ("description", version.description.as_str()),
        ("summary", version.content.summary.as_str()),
        ("tags", tags.as_str()),
    ];
    let holding: Vec<_> = fields.iter().filter(|(_, text)| text.to_lowercase().contains(needle)).collect();
    let mut matched_in: Vec<&'static str> = holding.iter().map(|(name, _)| *name).collect();
    let mut lines_matched = 0;
    let mut snippets: Vec<Snippet> = Vec::new();
    let mut start = 0;
    for (number, line) in document.map_or("", DocumentText::as_str).split_inclusive('\n').enumerate() {
        let found = hits(line, needle, most - snippets.len());
        lines_matched += usize::from(found.holds);
        let section = |at| document?.form()?.section_at(at).map(|section| section.title.clone());
        snippets.extend(found.snippets.into_iter().map(|text| Snippet { line: number + 1, section: section(start), text }));
        start += line.len();
    }
    if lines_matched > 0 {
        matched_in.push("content");
    }
    (!matched_in.is_empty()).then(|| Match {
        path: version.path.to_string(),
        version: version.version,
        matched_in,
        line: snippets.first().map(|snippet| snippet.line),
        lines_matched,
        snippet: match (snippets.first(), holding.first()) {
            (Some(snippet), _) => snippet.text.clone(),
            (None, Some((_, text))) => hits(text, needle, 1).snippets.concat(),
            (None, None) => String::new(),
        },
        snippets,
    })
}

/// The occurrences of a text in a line.
struct Hits {
    holds: bool,
    snippets: Vec<String>,
}

/// Returns the parts of `line` around the first occurrences of `needle`, each on one line. Occurrences that a snippet shows already
/// get none of their own.
fn hits(line: &str, needle: &str, most: usize) -> Hits {
    let lowered = line.to_lowercase();
    let mut found = Hits { holds: lowered.contains(needle), snippets: Vec::new() };
    let mut from = 0;
    // Lower case may be longer than the original (`İ`), so places are mapped back character by character.
    let mut origins = line.char_indices().scan(0, |lowered, (at, character)| {
        let begin = *lowered;
        *lowered += character.to_lowercase().map(char::len_utf8).sum::<usize>();
        Some((begin..*lowered, at))
    });
    while found.snippets.len() < most
        && let Some(hit) = lowered.get(from..).and_then(|rest| rest.find(needle)).map(|at| from + at)
    {
        let origin = origins.find(|(place, _)| place.contains(&hit)).map_or(0, |(_, at)| at);
        let start = line[..origin].char_indices().rev().take(LEAD_CHARACTERS).last().map_or(origin, |(at, _)| at);
        let cut = one_line(head(&line[start..]), SNIPPET_CHARACTERS);
        found.snippets.push(if start > 0 { format!("…{cut}") } else { cut });
        from = lowered.ceil_char_boundary(hit + needle.len() + SNIPPET_CHARACTERS);
    }
    found
}

/// Returns as much of the beginning of `text` as a snippet can show.
fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(8 * SNIPPET_CHARACTERS)]
}
