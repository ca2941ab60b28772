//! Files with the tools of other systems.

use serde_json::Value;

/// The most bytes of a file with definitions.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads a document in JSON; the error continues a sentence about the file.
pub(super) fn document(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| {
        let begins_as_json = bytes.trim_ascii_start().first().is_some_and(|first| b"{[\"".contains(first));
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let has_key = |line: &str| line.split_once(':').is_some_and(|(key, _)| key.chars().all(char::is_alphanumeric));
        if !begins_as_json && (text.starts_with("---") || text.lines().any(has_key)) {
            return "is YAML and not JSON; convert it to JSON first".to_owned();
        }
        format!("is not JSON: {error}")
    })
}
