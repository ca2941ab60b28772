//! Contents of the jobs' documents and results. The engine's benchmark includes this file and has the same.

/// Bytes of each document.
const DOCUMENT_BYTES: usize = 4_096;

/// Returns a table of 4 KB.
pub(crate) fn table() -> String {
    filled("region,month,units,price\n", "north,2025-07,123,9.99\n")
}

/// Returns a report of 4 KB.
pub(crate) fn report() -> String {
    filled("", "Q3 sales up 15% quarter on quarter; see the table below. ")
}

/// Returns the note that makes a result of `calc` about 200 bytes long.
pub(crate) fn note() -> String {
    "x".repeat(170)
}

/// `head`, then `text` repeated up to the size of a document.
fn filled(head: &str, text: &str) -> String {
    let mut filled = format!("{head}{}", text.repeat(DOCUMENT_BYTES / text.len() + 1));
    filled.truncate(DOCUMENT_BYTES);
    filled
}
