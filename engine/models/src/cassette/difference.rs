//! The first difference of two JSON values, as people read it.

use baton_types::text::shortened;
use serde_json::Value;

/// Largest number of characters shown of a value.
const SHOWN_CHARACTERS: usize = 120;
/// Number of characters shown of a text before the place where it differs.
const CHARACTERS_BEFORE: usize = 30;

/// The first place where two values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// JSON pointer to it.
    pub(super) pointer: String,
    /// Value in the first of them, shortened.
    pub(super) first: String,
    /// Value in the second, shortened.
    pub(super) second: String,
}

/// Returns the first place where `first` and `second` differ; `None` if they are the same. `pointer` leads to both.
/// The order of names in an object is ignored.
pub(super) fn difference(pointer: &str, first: &Value, second: &Value) -> Option<Difference> {
    if first == second {
        return None;
    }
    let below = |name: &str, first: Option<&Value>, second: Option<&Value>| {
        let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        match (first, second) {
            (Some(first), Some(second)) => difference(&pointer, first, second),
            (None, None) => None,
            (first, second) => Some(Difference { pointer, first: shown(first), second: shown(second) }),
        }
    };
    match (first, second) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            names.find_map(|name| below(name, one.get(name), other.get(name)))
        }
        (Value::Array(one), Value::Array(other)) => {
            (0..one.len().max(other.len())).find_map(|at| below(&at.to_string(), one.get(at), other.get(at)))
        }
        (Value::String(one), Value::String(other)) => {
            let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
            let from = same.saturating_sub(CHARACTERS_BEFORE);
            Some(Difference { pointer: pointer.to_owned(), first: excerpt(one, from), second: excerpt(other, from) })
        }
        _ => Some(Difference { pointer: pointer.to_owned(), first: shown(Some(first)), second: shown(Some(second)) }),
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => excerpt(text, 0),
        Some(value) => shortened(&value.to_string(), SHOWN_CHARACTERS),
    }
}

/// Returns some characters of `text` in quotation marks, starting with number `from`.
fn excerpt(text: &str, from: usize) -> String {
    let before = if from > 0 { "…" } else { "" };
    let mut rest = text.chars().skip(from);
    let piece: String = rest.by_ref().take(SHOWN_CHARACTERS).collect();
    let after = if rest.next().is_some() { "…" } else { "" };
    Value::from(format!("{before}{piece}{after}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_and_both_sides_are_shown_in_short() {
        let long = "x".repeat(1_000);
        let table = [
            (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), None),
            (json!({"a": [1, {"b/c": 2}]}), json!({"a": [1, {"b/c": 3}]}), Some(("/a/1/b~1c", "2", "3"))),
            (json!([1]), json!([1, "two"]), Some(("/1", "nothing", "\"two\""))),
            (json!({"a": 1}), json!({}), Some(("/a", "1", "nothing"))),
            (json!({"a": null}), json!({"a": "1"}), Some(("/a", "null", "\"1\""))),
            (json!("one way"), json!("one wax"), Some(("", "\"one way\"", "\"one wax\""))),
        ];
        for (first, second, expected) in table {
            let found = difference("", &first, &second);
            let found = found.as_ref().map(|found| (found.pointer.as_str(), found.first.as_str(), found.second.as_str()));
            assert_eq!(found, expected, "{first} {second}");
        }
        let found = difference("/body", &json!(format!("{long}a{long}")), &json!(format!("{long}b{long}"))).unwrap();
        assert_eq!(found.first, format!("\"…{}a{}…\"", "x".repeat(30), "x".repeat(89)));
        assert_eq!(found.second, found.first.replace('a', "b"));
        let lists = difference("", &json!({"l": [long]}), &json!({"l": {}})).unwrap();
        assert!(lists.first.chars().count() <= SHOWN_CHARACTERS + 1, "{}", lists.first);
    }
}
