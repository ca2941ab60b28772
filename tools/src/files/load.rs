//! `load_to_context`: a document's content, or a part of it, brought into the calling task.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use serde::Serialize;

use super::{PartOfText, one_line, pages, parts_of};
use crate::reading::{DocumentText, Format, text_of};

/// The most blocks that are listed.
const MAX_BLOCKS: usize = 500;
/// The most characters of a block's preview.
const PREVIEW_CHARACTERS: usize = 80;
/// The most bytes of a part: a longer result would be kept as a document.
const MAX_PART_BYTES: usize = 32 << 10;
/// The most bytes of a page: short enough for a model with a small window.
const MAX_PAGE_BYTES: usize = 8 << 10;
/// Note in the result for a PDF, which many models cannot read.
const PDF_NOTE: &str = "A model without PDF input is shown a record only. Then read the text by page, by lines or by block.";
/// Number of known paths in the error for an unknown document.
const MAX_KNOWN: usize = 20;

#[derive(Default, Serialize)]
struct Loaded {
    /// `document`, `part` or `error`.
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
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<bool>,
    /// Note on content that the text of a PDF, DOCX or XLSX lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
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

/// Asks for the newest version of `path` to be injected into the calling task, for good. With lines, a block or a page it
/// returns that part instead, at most 32 KiB of it. A page of a text has at most 8 KiB; a page of a PDF is its own page.
/// No model is shown a DOCX or an XLSX, so its text is returned from the beginning.
#[tool]
async fn load_to_context(
    context: &ToolContext,
    path: String,
    with_blocks: Option<bool>,
    from_line: Option<usize>,
    to_line: Option<usize>,
    block_id: Option<String>,
    page: Option<usize>,
) -> Result<Loaded, ToolError> {
    let by_lines = from_line.or(to_line).is_some();
    let wanted = [by_lines, block_id.is_some(), page.is_some()];
    if wanted.iter().filter(|wanted| **wanted).count() > 1 {
        return Err(ToolError::new("name one part only: lines, a block or a page"));
    }
    let part = match (block_id, page) {
        (Some(block), _) => Part::Block(block),
        (_, Some(page)) => Part::Page(page),
        _ if by_lines => Part::Lines(from_line.unwrap_or(1), to_line.unwrap_or(usize::MAX)),
        _ => return load_whole(context, path, with_blocks == Some(true)).await,
    };
    match read_part(context, &path, &part).await {
        Ok(loaded) => Ok(loaded),
        Err(error) => Ok(Loaded { r#type: "error", path, error: Some(explained(context, error)), ..Loaded::default() }),
    }
}

/// A part of a text. Lines and pages count from 1, blocks from 0.
enum Part {
    /// From the first line to the last one.
    Lines(usize, usize),
    Block(String),
    Page(usize),
}

/// Returns a part of the newest version of `path`, which counts as read from here on.
async fn read_part(context: &ToolContext, path: &str, part: &Part) -> Result<Loaded, ToolError> {
    let document = text_of(context, path).await?;
    let version = context.document(path)?;
    let refuse = |message: String| Err(ToolError::new(message));
    let text = document.as_str();
    let lines = text.lines().count();
    let mut loaded = Loaded {
        r#type: "part",
        path: version.path.to_string(),
        version: Some(version.version),
        lines_count: Some(lines),
        note: document.form().and_then(|form| form.note.clone()),
        ..Loaded::default()
    };
    let shown = match part {
        Part::Lines(first, last) => {
            if *first == 0 || first > last || *first > lines {
                return refuse(format!("{path} has {lines} lines, counted from 1; name a first and a last line among them"));
            }
            loaded.first_line = Some(*first);
            text.split_inclusive('\n').skip(first - 1).take(last - first + 1).collect()
        }
        Part::Block(id) => {
            let found = match parts_of(&document, version) {
                Ok(found) => found,
                Err(reason) => return refuse(format!("{path} has no blocks: {reason}")),
            };
            match id.parse::<usize>().ok().and_then(|id| found.get(id)) {
                Some(block) => text[block.range.clone()].to_owned(),
                None => {
                    return refuse(format!("{path} has no block {id:?}: its blocks are 0 to {}", found.len().saturating_sub(1)));
                }
            }
        }
        Part::Page(page) => {
            let pages = pages_of(&document);
            loaded.pages_count = Some(pages.len());
            match page.checked_sub(1).and_then(|page| pages.get(page)) {
                Some(page) => (*page).to_owned(),
                None if pages.is_empty() => return refuse(format!("{path} has no text, and so no pages")),
                None => return refuse(format!("{path} has no page {page}: its pages are 1 to {}", pages.len())),
            }
        }
    };
    context.note_read(path)?;
    loaded.show(&shown);
    Ok(loaded)
}

impl Loaded {
    /// Sets the text, cut to what a part may have.
    fn show(&mut self, shown: &str) {
        let part = pages(shown, MAX_PART_BYTES).first().copied().unwrap_or_default();
        self.cut = (part.len() < shown.len()).then_some(true);
        self.last_line = self.first_line.map(|first| first + part.lines().count().saturating_sub(1));
        self.text = Some(part.to_owned());
    }
}

/// Returns the pages of a document: those of a PDF, or pieces of the text.
fn pages_of(document: &DocumentText) -> Vec<&str> {
    match document {
        DocumentText::Form(Format::Pdf, form) => form.sections.iter().map(|section| &form.text[section.range.clone()]).collect(),
        DocumentText::Own(_) | DocumentText::Form(..) => pages(document.as_str(), MAX_PAGE_BYTES),
    }
}

async fn load_whole(context: &ToolContext, path: String, with_blocks: bool) -> Result<Loaded, ToolError> {
    match whole(context, &path, with_blocks).await {
        Ok(loaded) => Ok(loaded),
        Err(error) => Ok(Loaded { r#type: "error", path, error: Some(explained(context, error)), ..Loaded::default() }),
    }
}

async fn whole(context: &ToolContext, path: &str, with_blocks: bool) -> Result<Loaded, ToolError> {
    let version = context.document(path)?;
    let mut loaded = Loaded {
        r#type: "document",
        path: version.path.to_string(),
        version: Some(version.version),
        mime_type: Some(version.content.mime_type.clone()),
        token_count: Some(version.content.token_count),
        ..Loaded::default()
    };
    let format = Format::of(&version.content.mime_type);
    let document = match format {
        None if !with_blocks => None,
        _ => Some(text_of(context, path).await),
    };
    match (format, &document) {
        (Some(Format::Docx | Format::Xlsx), Some(document)) => {
            let document = document.as_ref().map_err(Clone::clone)?;
            context.note_read(path)?;
            loaded.r#type = "part";
            loaded.first_line = Some(1);
            loaded.lines_count = Some(document.as_str().lines().count());
            loaded.pages_count = Some(pages_of(document).len());
            loaded.note = document.form().and_then(|form| form.note.clone());
            loaded.show(document.as_str());
        }
        (Some(Format::Pdf), Some(document)) => {
            context.load(path)?;
            // A model with PDF input can read pages that have no text.
            loaded.note = Some(match document {
                Ok(document) => {
                    loaded.pages_count = Some(pages_of(document).len());
                    let lacks = document.form().and_then(|form| form.note.as_deref()).unwrap_or_default();
                    format!("{PDF_NOTE} {lacks}").trim_end().to_owned()
                }
                Err(error) => format!("{PDF_NOTE} But {}.", error.message),
            });
        }
        _ => _ = context.load(path)?,
    }
    if with_blocks && let Some(document) = document {
        let found = document.map_err(|error| error.message).and_then(|document| {
            let found = parts_of(&document, version)?;
            Ok((
                found.len(),
                found.iter().take(MAX_BLOCKS).enumerate().map(|(id, block)| numbered(document.as_str(), id, block)).collect(),
            ))
        });
        match found {
            Ok((count, found)) => {
                loaded.blocks_count = Some(count);
                loaded.blocks = Some(found);
            }
            // The document is loaded all the same.
            Err(reason) => loaded.error = Some(format!("{path} has no blocks: {reason}")),
        }
    }
    Ok(loaded)
}

fn numbered(text: &str, id: usize, block: &PartOfText) -> Numbered {
    // No more than can show is looked at: a block may be a whole document.
    let shown: String = text[block.range.clone()].chars().take(4 * PREVIEW_CHARACTERS).collect();
    let titled = block.title.as_ref().map_or_else(String::new, |title| format!("{title}: "));
    let preview = one_line(&format!("{titled}{shown}"), PREVIEW_CHARACTERS);
    Numbered { block_id: id.to_string(), block_type: block.block_type, preview }
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
