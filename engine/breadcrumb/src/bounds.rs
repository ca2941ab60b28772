//! Bounds of a record: sizes, nesting, numbers.

use baton_types::breadcrumb::Breadcrumb;
use baton_types::json::{Json, nesting};
use baton_types::path::is_blank;

use crate::BreadcrumbError;

/// The most bytes of a context.
pub const MAX_CONTEXT_BYTES: usize = 1 << 20;
/// The most bytes of hints.
const MAX_HINT_BYTES: usize = 64 << 10;
/// The most objects and arrays inside each other.
pub const MAX_DEPTH: usize = 64;
/// The most tags.
pub const MAX_TAGS: usize = 64;
/// The most bytes of a tag, a schema's name and a version for people.
const MAX_NAME_BYTES: usize = 128;
/// The most bytes of a title.
const MAX_TITLE_BYTES: usize = 500;
/// The most bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 10_000;

/// Checks the bounds of every field that a writer sets.
pub(crate) fn check(record: &Breadcrumb) -> Result<(), BreadcrumbError> {
    check_line("title", &record.title, MAX_TITLE_BYTES)?;
    if let Some(name) = &record.schema_name {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        check_line("schema_name", name, MAX_NAME_BYTES)?;
        if !is_plain {
            let reason = "it has characters other than letters, digits, `.`, `_` and `-`; expected a name such as note.text.v1";
            return Err(BreadcrumbError::invalid("schema_name", reason));
        }
    }
    if let Some(description) = &record.description {
        check_size("description", description.len(), MAX_DESCRIPTION_BYTES)?;
    }
    if let Some(version) = &record.semantic_version {
        check_line("semantic_version", version, MAX_NAME_BYTES)?;
    }
    if record.tags.len() > MAX_TAGS {
        let reason = format!("there are {} tags, and a record has {MAX_TAGS} at most", record.tags.len());
        return Err(BreadcrumbError::invalid("tags", reason));
    }
    for tag in &record.tags {
        check_line("tags", tag, MAX_NAME_BYTES)?;
        if tag.contains(char::is_whitespace) {
            return Err(BreadcrumbError::invalid("tags", format!("{tag:?} has white space; write words with hyphens")));
        }
        if tag.chars().any(is_blank) {
            let reason = format!("{tag:?} has an invisible character, so it looks like another tag");
            return Err(BreadcrumbError::invalid("tags", reason));
        }
    }
    check_json("context", &record.context, MAX_CONTEXT_BYTES)?;
    if let Some(hints) = &record.llm_hints {
        check_json("llm_hints", hints, MAX_HINT_BYTES)?;
        if !hints.text().trim_start().starts_with('{') {
            return Err(BreadcrumbError::invalid("llm_hints", "expected an object with `exclude`, `transform` or `mode`"));
        }
    }
    Ok(())
}

/// Checks a text of one line that people read.
fn check_line(field: &'static str, text: &str, most: usize) -> Result<(), BreadcrumbError> {
    if text.trim().is_empty() {
        return Err(BreadcrumbError::invalid(field, "it is empty"));
    }
    if text.contains(char::is_control) {
        return Err(BreadcrumbError::invalid(field, "it has a line break or another control character"));
    }
    check_size(field, text.len(), most)
}

/// Checks the size and the nesting of a payload, before anything parses it into a tree.
pub(crate) fn check_json(field: &'static str, json: &Json, most: usize) -> Result<(), BreadcrumbError> {
    check_size(field, json.text().len(), most)?;
    if nesting(json.text()) > MAX_DEPTH {
        let reason = format!("objects and arrays are nested deeper than {MAX_DEPTH}; keep inner parts in records of their own");
        return Err(BreadcrumbError::invalid(field, reason));
    }
    Ok(())
}

fn check_size(field: &'static str, size: usize, most: usize) -> Result<(), BreadcrumbError> {
    if size <= most {
        return Ok(());
    }
    let reason = format!("it has {size} bytes, and {most} is the most; keep a longer text in a document and name its path");
    Err(BreadcrumbError::invalid(field, reason))
}
