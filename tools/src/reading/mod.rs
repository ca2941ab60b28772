//! PDF, DOCX and XLSX documents as text.
//!
//! A document of these formats may be hostile: its reader may panic, never end, or exhaust the memory or the stack. So a process of its
//! own reads it, within bounds of time and memory ([`process`]). The forms that were read last are cached by the hash of the document.
//!
//! The bytes stay the document. This is a derived view, which nothing is written back from.

mod docx;
mod pdf;
mod process;
mod xlsx;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use baton_tool::{ToolContext, ToolError};
use baton_types::document::Content;
use baton_types::id::ContentHash;
use serde::{Deserialize, Serialize};

/// The most bytes of a document that is read.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// The most bytes of text that are made of a document. The rest is left out, with a note.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// The most bytes of texts that are cached.
const MAX_CACHED_BYTES: usize = 64 << 20;
/// The most results that are cached.
const MAX_CACHED: usize = 64;

/// A format that can be read as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text page by page.
    Pdf,
    /// Text as Markdown.
    Docx,
    /// Each sheet as CSV.
    Xlsx,
}

impl Format {
    /// Returns the format of a document; `None` if it is of another media type.
    pub(crate) fn of(mime_type: &str) -> Option<Self> {
        match mime_type.split(';').next().unwrap_or_default().trim() {
            "application/pdf" => Some(Self::Pdf),
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
            | "application/vnd.ms-word.document.macroenabled.12" => Some(Self::Docx),
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
            | "application/vnd.ms-excel.sheet.macroenabled.12" => Some(Self::Xlsx),
            _ => None,
        }
    }

    /// Returns the name that people use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "PDF",
            Self::Docx => "DOCX",
            Self::Xlsx => "XLSX",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Pdf, Self::Docx, Self::Xlsx].into_iter().find(|format| format.as_str() == name)
    }

    /// Reads a document of this format. The error is the reason, as a fragment of a sentence.
    fn read(self, content: &[u8]) -> Result<TextForm, String> {
        match self {
            Self::Pdf => pdf::read(content),
            Self::Docx => docx::read(content),
            Self::Xlsx => xlsx::read(content),
        }
    }
}

/// A document as text.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextForm {
    /// The whole text.
    pub(crate) text: String,
    /// The pages of a PDF, the sheets of an XLSX; empty for a DOCX.
    pub(crate) sections: Vec<Section>,
    /// Sentence on the content that the text lacks.
    pub(crate) note: Option<String>,
}

/// A page or a sheet.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    /// `page 3`, or the name of the sheet.
    pub(crate) title: String,
    /// Its bytes of the text.
    pub(crate) range: Range<usize>,
}

impl TextForm {
    /// Appends a section. Returns false once the text is as long as it may become; the section is then cut.
    fn push_section(&mut self, title: String, heading: &str, text: &str) -> bool {
        self.text.push_str(heading);
        let start = self.text.len();
        let room = MAX_TEXT_BYTES.saturating_sub(start);
        let end = text.floor_char_boundary(room);
        self.text.push_str(&text[..end]);
        self.sections.push(Section { title, range: start..self.text.len() });
        self.text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        let is_whole = end == text.len();
        if !is_whole {
            self.add_note(&format!("The text is cut after {} MiB.", MAX_TEXT_BYTES >> 20));
        }
        is_whole
    }

    fn add_note(&mut self, note: &str) {
        match &mut self.note {
            Some(before) => *before = format!("{before} {note}"),
            before => *before = Some(note.to_owned()),
        }
    }

    /// Returns the section that the byte `at` is in.
    pub(crate) fn section_at(&self, at: usize) -> Option<&Section> {
        self.sections.iter().find(|section| section.range.contains(&at))
    }
}

/// The text of a document: the document itself, or its form as text.
pub(crate) enum DocumentText {
    Own(Content),
    Form(Format, Arc<TextForm>),
}

impl DocumentText {
    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Own(content) => std::str::from_utf8(content).unwrap_or_default(),
            Self::Form(_, form) => &form.text,
        }
    }

    /// Returns the form as text; `None` for a document that is text itself.
    pub(crate) fn form(&self) -> Option<&TextForm> {
        match self {
            Self::Own(_) => None,
            Self::Form(_, form) => Some(form),
        }
    }
}

/// Returns the text of the newest version of `path`, which may be a PDF, a DOCX or an XLSX.
///
/// # Errors
///
/// The reason, if there is no such document, if it is not text, or if it cannot be read.
pub(crate) async fn text_of(context: &ToolContext, path: &str) -> Result<DocumentText, ToolError> {
    let content = context.read(path).await?;
    let mime_type = &context.document(path)?.content.mime_type;
    let Some(format) = Format::of(mime_type) else {
        if std::str::from_utf8(&content).is_ok() {
            return Ok(DocumentText::Own(content));
        }
        return Err(ToolError::new(format!("document {path} is {mime_type}; text, PDF, DOCX and XLSX can be read as text")));
    };
    let form = form_of(context, format, content).await?;
    let form =
        form.map_err(|reason| ToolError::new(format!("document {path} cannot be read as {}: {reason}", format.as_str())))?;
    Ok(DocumentText::Form(format, form))
}

/// Reads a document outside of a call. This thread waits for the process that reads it. The error is the reason why it cannot be read.
pub(crate) fn read_here(format: Format, content: &Content) -> Result<TextForm, String> {
    process::read_here(format, content)
}

/// A cached result of reading a document.
type Read = (ContentHash, Result<Arc<TextForm>, String>);

/// The results of reading, the newest last.
static CACHE: Mutex<Vec<Read>> = Mutex::new(Vec::new());

async fn form_of(context: &ToolContext, format: Format, content: Content) -> Result<Result<Arc<TextForm>, String>, ToolError> {
    let hash = ContentHash::of(&content);
    let cached = CACHE.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|(known, _)| *known == hash).cloned();
    if let Some((_, read)) = cached {
        return Ok(read);
    }
    let read = process::read(context, format, content).await?.map(Arc::new);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.push((hash, read.clone()));
    let bytes =
        |cache: &[Read]| -> usize { cache.iter().filter_map(|(_, read)| read.as_ref().ok()).map(|form| form.text.len()).sum() };
    while cache.len() > MAX_CACHED || bytes(&cache) > MAX_CACHED_BYTES {
        let _oldest = cache.remove(0);
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
