//! Tools that write, change, list, search and load documents.

mod blocks;
mod edit;
mod list;
mod load;
mod search;
mod write;

use baton_types::document::DocumentVersion;
use blocks::DocType;

/// Returns the text of the block that has the number `id` in a document, counted as agents count blocks; `None` if there is none.
pub fn block_text<'t>(text: &'t str, mime_type: &str, id: usize) -> Option<&'t str> {
    let blocks = blocks::blocks(text, DocType::of(mime_type)).ok()?;
    text.get(blocks.get(id)?.range.clone())
}

/// Returns the kind of a document: by its media type, if it is text.
fn doc_type(content: &[u8], version: &DocumentVersion) -> DocType {
    if std::str::from_utf8(content).is_ok() { DocType::of(&version.content.mime_type) } else { DocType::Binary }
}

/// `text` on one line, at most `limit` characters long.
fn one_line(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit { line } else { line.chars().take(limit.saturating_sub(1)).chain(['…']).collect() }
}
