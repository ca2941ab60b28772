//! Keys that a person wrote into a file by mistake. Messages show neither these values nor their lines.
//!
//! A file names the variable of a key, never the key. So a value is hidden if the name of its key is one of keys, or if the
//! value looks like a key itself. Names of variables are shown.

use jsonc_parser::ast;

/// Last words of the names of keys.
const WORDS: [&str; 13] = [
    "key",
    "keys",
    "apikey",
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];

/// Beginnings of keys that providers issue, and of headers with keys.
const BEGINNINGS: [&str; 9] = ["sk-", "sk_", "gsk_", "xai-", "ghp_", "hf_", "AIza", "Bearer ", "Basic "];

/// Number of letters and digits in a row that make a text a key, if it has both.
const ROW: usize = 16;

/// Parts of a tool's file that declare fields, whose names say nothing about values.
const DECLARATIONS: [&str; 4] = ["/parameters", "/returns", "/input_schema", "/output_schema"];

/// Whether `value`, at `pointer` of a file, may be a key or hold one.
pub(crate) fn is_secret(pointer: &str, value: &ast::Value<'_>) -> bool {
    let is_declared = DECLARATIONS.iter().any(|part| pointer.starts_with(part));
    let is_named = !is_declared && pointer.split('/').skip(1).any(names_key);
    match value {
        ast::Value::StringLit(text) => looks_like_key(&text.value) || (is_named && !is_variable(&text.value)),
        ast::Value::NumberLit(_) => is_named,
        ast::Value::Object(object) => is_named && object.properties.iter().any(|property| is_secret(pointer, &property.value)),
        ast::Value::Array(array) => is_named && array.elements.iter().any(|element| is_secret(pointer, element)),
        ast::Value::BooleanLit(_) | ast::Value::NullKeyword(_) => false,
    }
}

/// Whether a line of a file has a text that may be a key.
pub(crate) fn is_secret_line(line: &str) -> bool {
    let mut name = None;
    // Every second part is within quotation marks. An escaped one only ends a text early.
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 0 {
            name = name.filter(|_| part.trim() == ":");
        } else if looks_like_key(part) || name.is_some_and(|name| names_key(name) && !is_variable(part)) {
            return true;
        } else {
            name = Some(part);
        }
    }
    false
}

/// Whether the last word of `name` is one of keys, as in `api_key` and `clientSecret`.
fn names_key(name: &str) -> bool {
    let begins = |(at, each): (usize, char)| each.is_uppercase() && name[..at].ends_with(char::is_lowercase);
    let last_hump = name.char_indices().rfind(|&hump| begins(hump)).map_or(0, |(at, _)| at);
    let last = name[last_hump..].rsplit(|each: char| !each.is_alphanumeric()).next().unwrap_or_default();
    WORDS.contains(&last.to_lowercase().as_str())
}

/// Whether `text` looks like a key: by its beginning, or by a long row of letters and digits.
fn looks_like_key(text: &str) -> bool {
    let is_mixed =
        |row: &str| row.contains(|each: char| each.is_ascii_digit()) && row.contains(|each: char| each.is_alphabetic());
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || text.split(|each: char| !each.is_ascii_alphanumeric()).any(|row| row.len() >= ROW && is_mixed(row))
}

/// Whether `text` is a name as variables have it: `TEAM_KEY`.
fn is_variable(text: &str) -> bool {
    text.is_empty() || text.bytes().all(|each| each.is_ascii_uppercase() || each.is_ascii_digit() || each == b'_')
}

#[cfg(test)]
mod tests {
    use jsonc_parser::{CollectOptions, ParseOptions};

    use super::{is_secret, is_secret_line, looks_like_key, names_key};

    #[test]
    fn names_of_keys_end_with_a_word_of_keys() {
        for name in ["key", "api_key", "apiKey", "apikey", "API-KEY", "token", "accessToken", "client_secret", "Authorization"] {
            assert!(names_key(name), "{name}");
        }
        for name in ["max_tokens", "token_count", "tokens_per_minute", "keyword", "key_variable", "monkey", "secretary", ""] {
            assert!(!names_key(name), "{name}");
        }
    }

    #[test]
    fn keys_are_told_from_names_of_models_and_variables() {
        for key in ["sk-abcdef", "Ab3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY", "0123456789abcdef0123", "Bearer x"] {
            assert!(looks_like_key(key), "{key}");
        }
        for name in [
            "google/gemini-2.0-flash-001",
            "claude-sonnet-4-5-20250929",
            "gpt4o",
            "TEAM_OPENROUTER_KEY",
            "route_to_researcher",
            "internationalization",
            "2025092920250929",
        ] {
            assert!(!looks_like_key(name), "{name}");
        }
        assert!(is_secret_line(r#"  "api_key": "hush", "a": 1"#) && is_secret_line(r#"{"a": ["sk-1"]}"#));
        assert!(!is_secret_line(r#"  "key": {"env": "MY_KEY"}, "a": "key", "b": "c""#) && !is_secret_line(r#""key": "MY_KEY""#));
    }

    #[test]
    fn a_value_is_secret_by_its_name_or_by_what_it_holds() {
        let is_secret = |pointer: &str, text: &str| {
            let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).unwrap();
            is_secret(pointer, &parsed.value.unwrap())
        };
        for (pointer, text) in [
            ("/settings/api_key", r#""hush""#),
            ("/settings/api_key", "12"),
            ("/settings/token", r#"["hush"]"#),
            ("/settings/token", r#"{"a": "hush"}"#),
            ("/settings/name", r#""sk-hush""#),
            ("/parameters/api_key", r#""sk-hush""#),
        ] {
            assert!(is_secret(pointer, text), "{pointer} {text}");
        }
        for (pointer, text) in [
            ("/settings/api_key", r#""TEAM_KEY""#),
            ("/settings/api_key", r#"{"env": "TEAM_KEY"}"#),
            ("/settings/api_key", "null"),
            ("/settings/name", r#""hush""#),
            ("/settings/name", "12"),
            ("/settings/name", r#"["hush", {"a": "b"}]"#),
            // Messages show no lists and objects, and their lines are judged one by one.
            ("/settings/name", r#"["sk-hush"]"#),
            ("/settings/name", r#"{"a": "sk-hush"}"#),
            ("/parameters/api_key", r#""hush""#),
            ("/parameters/api_key", "12"),
        ] {
            assert!(!is_secret(pointer, text), "{pointer} {text}");
        }
    }
}
