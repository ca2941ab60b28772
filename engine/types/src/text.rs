//! Shortened texts of models, tools and providers, for messages.

/// Maximum number of characters of a model's text in a message.
pub const MODEL_TEXT_SHOWN: usize = 200;

/// Returns at most the first `characters` characters of `text`, with a mark if it was cut.
pub fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_longer_text_is_cut_and_never_within_a_character() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("", 0), "");
    }
}
