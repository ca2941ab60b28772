//! The tool `vowel_count`.

use baton::{ToolError, tool};

/// Output of `vowel_count`.
#[derive(serde::Serialize)]
struct Vowels {
    count: usize,
}

/// Counts the vowels of `text`. The tool's description for agents is in `tool-configs/vowel_count.json`.
#[tool]
fn vowel_count(text: String, include_y: Option<bool>) -> Result<Vowels, ToolError> {
    let vowels = if include_y.unwrap_or(false) { "aeiouy" } else { "aeiou" };
    Ok(Vowels { count: text.to_lowercase().chars().filter(|letter| vowels.contains(*letter)).count() })
}
