//! The words of records and searches, as PostgreSQL compares them.
//!
//! Words are found here and not by a configuration of the database. So they are those of the index in SQLite: runs of letters and digits,
//! in lower case, without accents. A database's own parser would find addresses and numbers with signs, and its result depends on the
//! locale of the database.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unicode_normalization::UnicodeNormalization as _;

/// The last position that PostgreSQL keeps. Later words have none, and are in no phrase.
const LAST_POSITION: u32 = 16_383;

/// The most positions of one word that PostgreSQL keeps.
const MAX_POSITIONS: usize = 255;

/// The most bytes of a word, fewer than PostgreSQL keeps. Longer words are the same if their beginnings are.
const MAX_WORD_BYTES: usize = 500;

/// The most bytes of all different words of a record, and of the words with their positions. PostgreSQL keeps up to 1,048,575.
const MAX_BYTES: (usize, usize) = (1_040_000, 1_048_000);

/// The most words of a phrase.
const MAX_PHRASE: usize = 64;

/// The texts of a record that a search looks through.
pub(super) struct Texts<'a> {
    pub(super) title: &'a str,
    pub(super) description: &'a str,
    pub(super) tags: &'a [String],
    pub(super) context: &'a str,
}

/// Returns the words of a text.
fn words_in(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.nfd().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).nfc() {
        if !c.is_alphanumeric() {
            words.push(String::new());
        } else if let Some(word) = words.last_mut()
            && word.len() < MAX_WORD_BYTES
        {
            // The two small forms of sigma are one letter.
            word.extend(if c == 'ς' { 'σ' } else { c }.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The words of a record, each with its positions and their weights.
#[derive(Default)]
struct Vector {
    words: BTreeMap<String, usize>,
    positions: Vec<Vec<(u32, char)>>,
    /// Bytes of the words.
    bytes: usize,
}

impl Vector {
    /// Returns the index of a word; `None` if it is new and there is no room for it.
    fn index_of(&mut self, word: String) -> Option<usize> {
        if let Some(known) = self.words.get(&word) {
            return Some(*known);
        }
        if self.bytes + word.len() > MAX_BYTES.0 {
            return None;
        }
        self.bytes += word.len();
        self.words.insert(word, self.positions.len());
        self.positions.push(Vec::new());
        Some(self.positions.len() - 1)
    }

    /// Adds a position of a word if there is room for it. Positions get the room that words leave.
    fn add_position(&mut self, word: usize, position: u32, weight: char) {
        let positions = &mut self.positions[word];
        // PostgreSQL needs two bytes for each, two for their number, and up to one before it.
        let bytes = if positions.is_empty() { 5 } else { 2 };
        if position <= LAST_POSITION && positions.len() < MAX_POSITIONS && self.bytes + bytes <= MAX_BYTES.1 {
            positions.push((position, weight));
            self.bytes += bytes;
        }
    }
}

/// Returns the words of a record as the text of a `tsvector`.
pub(super) fn vector_of(texts: &Texts<'_>) -> String {
    let (mut vector, mut places, mut position) = (Vector::default(), Vec::new(), 0);
    let tags = texts.tags.join(" ");
    for (text, weight) in [(texts.title, 'A'), (&tags, 'B'), (texts.description, 'C'), (texts.context, 'D')] {
        for word in words_in(text) {
            position += 1;
            places.extend(vector.index_of(word).map(|word| (word, position, weight)));
        }
        // No phrase begins in one text and ends in the next.
        position += 1;
    }
    for (word, position, weight) in places {
        vector.add_position(word, position, weight);
    }
    let mut text = String::new();
    for (word, index) in vector.words {
        let _infallible = write!(text, "'{word}'");
        for (nth, (position, weight)) in vector.positions[index].iter().enumerate() {
            let _infallible = write!(text, "{}{position}{weight}", if nth == 0 { ':' } else { ',' });
        }
        text.push(' ');
    }
    text
}

/// Returns the words of a search as the text of a `tsquery`: one of them is enough, and a word with other characters in it is a phrase.
/// `None` if nothing is left to search for.
pub(super) fn query_of(words: &[String]) -> Option<String> {
    let phrase = |word: &String| {
        let parts = words_in(word).into_iter().take(MAX_PHRASE).map(|part| format!("'{part}'")).collect::<Vec<_>>();
        (!parts.is_empty()).then(|| format!("({})", parts.join(" <-> ")))
    };
    let phrases: Vec<String> = words.iter().filter_map(phrase).collect();
    (!phrases.is_empty()).then(|| phrases.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_no_accents_no_case_and_no_other_characters() {
        assert_eq!(words_in("Crème-BRÛLÉE, Ünï_code 1.50 Σίσυφος"), ["creme", "brulee", "uni", "code", "1", "50", "σισυφοσ"]);
        assert!(words_in(" \0'\\:*()&|!<->").is_empty());
    }

    #[test]
    fn a_search_is_a_list_of_phrases() {
        let words = ["e-mail", "Soup'; --", "!!"].map(str::to_owned);
        assert_eq!(query_of(&words).as_deref(), Some("('e' <-> 'mail') | ('soup')"));
        assert_eq!(query_of(&["'".to_owned()]), None);
    }

    #[test]
    fn no_phrase_goes_from_one_text_into_the_next() {
        let texts = Texts { title: "one two", description: "", tags: &["one".to_owned()], context: "two" };
        assert_eq!(vector_of(&texts), "'one':1A,4B 'two':2A,7D ");
    }
}
