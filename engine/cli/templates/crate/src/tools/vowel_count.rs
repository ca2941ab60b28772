//! The tool `vowel_count`.

use baton::{ToolError, tool};

/// What `vowel_count` returns.
#[derive(serde::Serialize)]
struct Vowels {
    count: usize,
}

/// Counts the vowels of `text`; its config says when an agent should use it.
#[tool]
fn vowel_count(text: String, include_y: Option<bool>) -> Result<Vowels, ToolError> {
    let vowels = if include_y.unwrap_or(false) { "aeiouy" } else { "aeiou" };
    Ok(Vowels { count: text.to_lowercase().chars().filter(|letter| vowels.contains(*letter)).count() })
}
