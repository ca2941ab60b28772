//! PDF: the text of each page, laid out by the places of its characters.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, PlainTextOutput, output_doc_page};

use super::TextForm;

/// The most pages that are named as unreadable.
const MAX_NAMED: usize = 20;

/// Returns the text. A page that cannot be read is empty, and named in the note.
pub(super) fn read(content: &[u8]) -> Result<TextForm, String> {
    let mut document = Document::load_mem(content).map_err(|error| format!("it is damaged: {error}"))?;
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err("it is encrypted with a password".to_owned());
    }
    let mut form = TextForm::default();
    let mut unread = Vec::new();
    let mut has_text = false;
    for number in document.get_pages().into_keys() {
        let page = catch_unwind(AssertUnwindSafe(|| {
            let mut text = String::new();
            output_doc_page(&document, &mut PlainTextOutput::new(&mut text), number).map(|()| text)
        }));
        let text = page.ok().and_then(Result::ok).unwrap_or_else(|| {
            unread.push(number.to_string());
            String::new()
        });
        let text = tidy(&text);
        has_text |= !text.is_empty();
        if !form.push_section(format!("page {number}"), "", &text) {
            break;
        }
    }
    if form.sections.is_empty() {
        return Err("it has no pages".to_owned());
    }
    if !has_text {
        form.add_note("No text was found. The pages may be images.");
    }
    if !unread.is_empty() {
        let more = if unread.len() > MAX_NAMED { ", …" } else { "" };
        unread.truncate(MAX_NAMED);
        form.add_note(&format!("These pages could not be read: {}{more}.", unread.join(", ")));
    }
    Ok(form)
}

/// Returns `text` without control characters, blanks at the ends of lines, and more than one empty line in a row.
fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.trim().lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty > 1 {
            continue;
        }
        tidied.extend(line.chars().filter(|character| *character == '\t' || !character.is_control()));
        tidied.push('\n');
    }
    tidied
}
