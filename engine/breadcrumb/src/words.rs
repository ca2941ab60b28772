//! The texts of a record as words: for searches and for its keywords.

use std::collections::BTreeMap;

use baton_types::breadcrumb::Breadcrumb;
use serde_json::Value;

/// The most keywords of a record.
const KEYWORDS: usize = 12;
/// The shortest keyword, in characters.
const SHORTEST: usize = 4;
/// Words that are frequent in every text.
const COMMON: [&str; 20] = [
    "about", "after", "also", "been", "from", "have", "into", "more", "must", "only", "over", "than", "that", "their", "then",
    "they", "this", "when", "will", "with",
];

/// Returns the texts and numbers of a context, and the names of its fields, separated by spaces.
pub(crate) fn of_value(context: &Value) -> String {
    let mut text = String::new();
    collect(context, &mut text);
    text
}

// Recursion is bounded: a context has a bounded depth.
fn collect(value: &Value, text: &mut String) {
    let mut push = |part: &str| {
        text.push_str(part);
        text.push(' ');
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => push(&number.to_string()),
        Value::String(part) => push(part),
        Value::Array(values) => values.iter().for_each(|value| collect(value, text)),
        Value::Object(fields) => {
            for (name, value) in fields {
                text.push_str(name);
                text.push(' ');
                collect(value, text);
            }
        }
    }
}

/// Returns the runs of letters and digits.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns the most frequent words of the record's texts, the most frequent first.
pub(crate) fn keywords(record: &Breadcrumb, context: &Value) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let context = of_value(context);
    for text in [record.title.as_str(), record.description.as_deref().unwrap_or_default(), &context] {
        for word in words_of(text) {
            let word = word.to_lowercase();
            let is_word = word.chars().count() >= SHORTEST && word.contains(char::is_alphabetic);
            if is_word && COMMON.binary_search(&word.as_str()).is_err() {
                *counts.entry(word).or_default() += 1;
            }
        }
    }
    let mut words: Vec<(String, usize)> = counts.into_iter().collect();
    // Stable, so words of the same frequency stay in the order of the alphabet.
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    words.into_iter().take(KEYWORDS).map(|(word, _)| word).collect()
}
