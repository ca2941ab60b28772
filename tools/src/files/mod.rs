//! Tools that write, change, list, search and load documents.

mod blocks;
mod edit;
mod list;
mod load;
mod search;
mod write;

use std::ops::Range;

use baton_types::document::{Content, DocumentVersion};
use blocks::DocType;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::reading::{DocumentText, Format, Section, TextForm, read_here};

/// Returns the text of the block that has the number `id` in a document, counted as agents count blocks; `None` if there is none.
pub fn block_text<'t>(text: &'t str, mime_type: &str, id: usize) -> Option<&'t str> {
    let blocks = blocks::blocks(text, DocType::of(mime_type)).ok()?;
    text.get(blocks.get(id)?.range.clone())
}

/// A block of a document with its whole content.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContentBlock {
    /// Such as `heading`; `page` in a PDF and `sheet` in an XLSX.
    pub r#type: &'static str,
    /// Its fields, such as `level` and `text`.
    pub data: Map<String, Value>,
}

/// Returns all blocks of a document, counted as agents count blocks. Blocks for a process of its own that reads a PDF, DOCX or XLSX.
///
/// # Errors
///
/// The reason why the document has no blocks, as a fragment of a sentence.
pub fn content_blocks(content: &Content, mime_type: &str) -> Result<Vec<ContentBlock>, String> {
    let form = match Format::of(mime_type) {
        Some(format) => Some((format, read_here(format, content)?)),
        None => None,
    };
    let sections = |name, form: &TextForm| {
        let block = |section: &Section| ContentBlock {
            r#type: name,
            data: Map::from_iter([
                ("title".to_owned(), section.title.clone().into()),
                ("text".to_owned(), form.text[section.range.clone()].into()),
            ]),
        };
        form.sections.iter().map(block).collect()
    };
    let (text, doc_type) = match &form {
        Some((Format::Pdf, form)) => return Ok(sections("page", form)),
        Some((Format::Xlsx, form)) => return Ok(sections("sheet", form)),
        Some((Format::Docx, form)) => (form.text.as_str(), DocType::Markdown),
        None => match (std::str::from_utf8(content), DocType::of(mime_type)) {
            (Ok(text), doc_type) if doc_type != DocType::Binary => (text, doc_type),
            _ => return Err(format!("it is {mime_type}, not text")),
        },
    };
    let found = blocks::contents(text, doc_type).map_err(|reason| reason.to_string())?;
    Ok(found.into_iter().map(|(block_type, data)| ContentBlock { r#type: block_type.as_str(), data }).collect())
}

/// Returns the kind of a document: by its media type, if it is text.
fn doc_type(content: &[u8], version: &DocumentVersion) -> DocType {
    if std::str::from_utf8(content).is_ok() { DocType::of(&version.content.mime_type) } else { DocType::Binary }
}

/// A block of a document as text: its type, its title if it has one, and its bytes of the text.
struct PartOfText {
    block_type: &'static str,
    title: Option<String>,
    range: Range<usize>,
}

/// Returns the blocks of a document as text. The pages of a PDF and the sheets of an XLSX are its blocks.
fn parts_of(document: &DocumentText, version: &DocumentVersion) -> Result<Vec<PartOfText>, String> {
    let (format, form) = match document {
        DocumentText::Own(_) => (None, None),
        DocumentText::Form(format, form) => (Some(*format), Some(form)),
    };
    let of_kind = |block_type| {
        let sections = form.iter().flat_map(|form| &form.sections);
        sections
            .map(|section| PartOfText { block_type, title: Some(section.title.clone()), range: section.range.clone() })
            .collect()
    };
    let doc_type = match format {
        Some(Format::Pdf) => return Ok(of_kind("page")),
        Some(Format::Xlsx) => return Ok(of_kind("sheet")),
        Some(Format::Docx) => DocType::Markdown,
        None => DocType::of(&version.content.mime_type),
    };
    let found = blocks::blocks(document.as_str(), doc_type).map_err(|reason| reason.to_string())?;
    Ok(found
        .into_iter()
        .map(|block| PartOfText { block_type: block.block_type.as_str(), title: None, range: block.range })
        .collect())
}

/// Returns the pages of `text`: at most `bytes` bytes each, and cut at the ends of lines unless a line is longer.
pub(crate) fn pages(text: &str, bytes: usize) -> Vec<&str> {
    let mut pages = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let most = rest.floor_char_boundary(bytes);
        let end = if most == rest.len() { most } else { rest[..most].rfind('\n').map_or(most, |line| line + 1) };
        let (page, after) = rest.split_at(end);
        pages.push(page);
        rest = after;
    }
    pages
}

/// `text` on one line, at most `limit` characters long.
fn one_line(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit { line } else { line.chars().take(limit.saturating_sub(1)).chain(['…']).collect() }
}
