//! Texts and documents that are given on the command line.

use std::io::Read;

use baton_runtime::InitialDocument;
use baton_runtime::folder::read_document;
use baton_types::path::DocumentPath;

use crate::exit::Failure;
use crate::place::Place;

/// Returns `text`, or the content of stdin if `text` is `-`. An empty text is refused with the message `empty`.
pub(crate) fn text_or_stdin(text: String, empty: &str) -> Result<String, Failure> {
    let mut text = text;
    if text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text)?;
        text.truncate(text.trim_end().len());
    }
    non_empty(text, empty)
}

fn non_empty(text: String, empty: &str) -> Result<String, Failure> {
    if text.trim().is_empty() { Err(Failure::Usage(empty.to_owned())) } else { Ok(text) }
}

/// Returns the request in `text`: the text itself, the content of stdin for `-`, or the content of FILE for `@FILE`. An empty
/// request is refused with the message `empty`.
pub(crate) fn given_text(place: &Place, text: String, empty: &str) -> Result<String, Failure> {
    if text.starts_with('@') {
        return non_empty(text_or_file(place, text)?, empty);
    }
    text_or_stdin(text, empty)
}

/// Returns `text`, or the content of FILE if `text` is `@FILE`. A text that begins with `@` is written with `@@`.
pub(crate) fn text_or_file(place: &Place, text: String) -> Result<String, Failure> {
    match text.strip_prefix('@') {
        Some(rest) if rest.starts_with('@') => Ok(rest.to_owned()),
        Some(file) => {
            let file = place.current.join(file);
            let content = read_document(&file).map_err(|error| Failure::file(&file, error))?;
            let text = String::from_utf8(content);
            let text = text.map_err(|_| Failure::Usage(format!("{} is not text in UTF-8", place.shown(&file))))?;
            Ok(text.trim_end().to_owned())
        }
        None => Ok(text),
    }
}

/// Reads a document that the command line names: `FILE`, or `FILE=PATH`.
pub(crate) fn document(place: &Place, text: &str) -> Result<InitialDocument, Failure> {
    let whole = place.current.join(text);
    let (file, path) = match text.rsplit_once('=') {
        Some((file, path)) if !whole.exists() => (place.current.join(file), path.to_owned()),
        _ => {
            let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (whole, name)
        }
    };
    let path = DocumentPath::parse(&path).map_err(|error| Failure::Usage(error.to_string()))?;
    let content = read_document(&file).map_err(|error| Failure::file(&file, error))?;
    Ok(InitialDocument::new(path, content))
}
