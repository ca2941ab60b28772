//! Patterns of schemas, which are those of ECMA-262, as expressions that never backtrack.
//!
//! Look-around and back-references have no such form: a schema that uses them is refused when it is read.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

use baton_types::id::ID_PATTERN;

use crate::patterns::{
    DAY_PATTERN, ENV_PATTERN, NAME_PATTERN, PAGE_PATTERN, is_day, is_environment_name, is_page, is_template_name,
};

/// The most bytes a compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A pattern that texts are searched for.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// A pattern of the engine's own files, which needs no expression.
    Known(fn(&str) -> bool),
    Expression(Box<Regex>),
}

impl Pattern {
    /// Reads a pattern; the error is the reason why it is none.
    pub(crate) fn read(pattern: &str) -> Result<Self, String> {
        let form = match known(pattern) {
            Some(known) => Form::Known(known),
            None => Form::Expression(Box::new(compiled(pattern)?)),
        };
        Ok(Self { text: pattern.into(), form })
    }

    /// Returns the pattern as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether some part of `text` matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match &self.form {
            Form::Known(known) => known(text),
            Form::Expression(expression) => expression.is_match(text),
        }
    }
}

fn known(pattern: &str) -> Option<fn(&str) -> bool> {
    match pattern {
        ID_PATTERN => Some(is_id),
        NAME_PATTERN => Some(is_template_name),
        ENV_PATTERN => Some(is_environment_name),
        DAY_PATTERN => Some(is_day),
        PAGE_PATTERN => Some(is_page),
        _ => None,
    }
}

/// Whether `text` matches [`ID_PATTERN`], which has no limit of length.
fn is_id(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit());
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.split(['_', '-']).all(is_part)
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    let mut expression = RegexBuilder::new(&translated(pattern));
    expression.size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    expression.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
        _ if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| pattern.contains(look)) => {
            "look-around in a pattern is not supported; test one thing with one pattern, and join them with \"allOf\"".to_owned()
        }
        error => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
            format!("the pattern is invalid: {reason}")
        }
    })
}

/// Members of `\s` in ECMA-262 (<https://tc39.es/ecma262/#sec-white-space>, and its line terminators).
const SPACES: &str = "\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}";

/// Part of a class, such as `[a-z_]`, before a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that could begin a range.
    Nothing,
    /// A character, which begins a range if `-` follows.
    Character,
    /// The beginning of a range.
    Range,
}

/// Whether an escape with this letter matches several characters.
fn is_set_letter(letter: char) -> bool {
    matches!(letter, 'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P')
}

/// Returns the pattern in the syntax of the expressions. In ECMA-262 `\d` and `\w` are ASCII, and a class has no
/// operators.
fn translated(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    let mut before = Before::Nothing;
    while let Some(each) = characters.next() {
        let mut is_set = false;
        match each {
            '\\' => {
                let Some(escaped) = characters.next() else {
                    text.push('\\');
                    break;
                };
                is_set = is_set_letter(escaped);
                match escaped {
                    'd' => text.push_str("[0-9]"),
                    'D' => text.push_str("[^0-9]"),
                    'w' => text.push_str("[0-9A-Za-z_]"),
                    'W' => text.push_str("[^0-9A-Za-z_]"),
                    's' => text.extend(["[", SPACES, "]"]),
                    'S' => text.extend(["[^", SPACES, "]"]),
                    'p' | 'P' => {
                        text.extend(['\\', escaped]);
                        if characters.peek() == Some(&'{') {
                            for each in characters.by_ref() {
                                text.push(each);
                                if each == '}' {
                                    break;
                                }
                            }
                        }
                    }
                    'b' if in_class => text.push_str("\\x08"),
                    'b' => text.push_str("(?-u:\\b)"),
                    'c' => {
                        let letter = characters.next().filter(char::is_ascii_alphabetic);
                        text.push_str(&letter.map_or("\\c".to_owned(), |letter| format!("\\x{{{:x}}}", letter as u32 % 32)));
                    }
                    '0' => text.push_str("\\x00"),
                    'u' => match surrogates(&mut characters) {
                        Some(code) => drop(write!(text, "\\x{{{code:x}}}")),
                        None => text.push_str("\\u"),
                    },
                    // The expressions would read word boundaries.
                    '<' | '>' => text.push(escaped),
                    // Any other escaped character is itself; the expressions know fewer escapes.
                    other if other.is_alphanumeric() || other.is_ascii_punctuation() => text.extend(['\\', other]),
                    other => text.push(other),
                }
            }
            '[' if in_class => text.push_str("\\["),
            '&' | '~' if in_class => text.extend(['\\', each]),
            // Two of them would be an operator.
            '-' if in_class => {
                let mut ahead = characters.clone();
                let is_end = match ahead.next() {
                    Some('\\') => !ahead.next().is_some_and(is_set_letter),
                    next => next.is_some_and(|next| next != ']'),
                };
                let begins_range = before == Before::Character && is_end;
                text.push_str(if begins_range { "-" } else { "\\-" });
                if begins_range {
                    before = Before::Range;
                    continue;
                }
            }
            '[' => {
                in_class = true;
                // The bracket begins no range.
                is_set = true;
                text.push('[');
                if characters.peek() == Some(&'^') {
                    characters.next();
                    text.push('^');
                }
                // `[]` is empty and `[^]` is everything, while the expressions read the bracket as a member.
                if characters.peek() == Some(&']') {
                    characters.next();
                    let is_everything = text.ends_with('^');
                    text.truncate(text.len() - if is_everything { 2 } else { 1 });
                    text.push_str(if is_everything { "[\\s\\S]" } else { "[^\\s\\S]" });
                    in_class = false;
                }
            }
            ']' => {
                in_class = false;
                text.push(']');
            }
            '$' if !in_class => text.push_str("\\z"),
            '.' if !in_class => text.push_str("[^\\n\\r\\x{2028}\\x{2029}]"),
            other => text.push(other),
        }
        before = if is_set || before == Before::Range { Before::Nothing } else { Before::Character };
    }
    text
}

/// Reads the four digits of `\uXXXX`, and a second half after them. `\u{…}` is left as it is.
fn surrogates(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<u32> {
    let four = |characters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let mut ahead = characters.clone();
        let digits: String = ahead.by_ref().take(4).collect();
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4)?;
        *characters = ahead;
        Some(code)
    };
    let high = four(characters)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some(high);
    }
    let mut ahead = characters.clone();
    if ahead.next() == Some('\\') && ahead.next() == Some('u') {
        let low = four(&mut ahead).filter(|low| (0xdc00..0xe000).contains(low))?;
        *characters = ahead;
        return Some(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_ecmascript() {
        for (pattern, text, expected) in [
            (r"^\d$", "1", true),
            (r"^\d$", "\u{7f0}", false),
            (r"^[\w-]+$", "a-b_1", true),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[^\d]$", "x", true),
            (r"^\S$", "\u{feff}", false),
            (r"^\s$", "\u{b}", true),
            (r"^\s$", "\u{2003}", true),
            (r"^\s$", "\u{85}", false),
            (r"^[\s.]$", "\u{85}", false),
            (r"^[\s.]$", ".", true),
            (r"^.$", "\u{85}", true),
            (r"^.$", "\r", false),
            (r"^.$", "\n", false),
            (r"^.$", "\u{2028}", false),
            (r"^\.$", "a", false),
            (r"^\cA$", "\u{1}", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[[]$", "[", true),
            (r"^[^]$", "\n", true),
            (r"^\u0041\ud83d\udc32$", "A\u{1f432}", true),
            (r"^\p{Letter}+$", "éß", true),
            (r"^a$", "a\n", false),
            (r"^https?:\/\/", "https://x", true),
            (r"^\x41(?<year>\d{4})$", "A2026", true),
            (r"^[\b]$", "\u{8}", true),
            (r"^[\b]$", "b", false),
            (r"\bcat\b", "a cat.", true),
            (r"\bcat\b", "a category", false),
            ("^[$]$", "$", true),
            ("^[a$]$", "a", true),
            ("^a&~b$", "a&~b", true),
            ("^[a~~b]+$", "~", true),
            ("^\\—$", "—", true),
            ("^ab[^]$", "ab\n", true),
            ("^(?:[]|a)$", "a", true),
            ("^[]$", "]", false),
            ("^[+--]$", ",", true),
            ("^[+--]$", "-", true),
            ("^[+--]$", ".", false),
            ("^[!--]$", "#", true),
            ("^[--0]$", "/", true),
            ("^[--0]$", "a", false),
            ("^[a-c-e]$", "-", true),
            ("^[a-c-e]$", "d", false),
            ("^[a-c--]$", "-", true),
            (r"^[\w--]$", "-", true),
            (r"^[\w-.]$", "-", true),
            (r"^[0-\d]$", "-", true),
            (r"^[0-\d]$", "7", true),
            (r"^[0-\x37]$", "5", true),
            (r"^[\p{Lu}-a]$", "-", true),
            (r"^[a-\p{Lu}]$", "-", true),
            (r"^\<a\>$", "<a>", true),
            ("^[^-a]$", "-", false),
            ("^[-a]$", "-", true),
            ("^[a-]$", "-", true),
            ("^[a]-[b]$", "a-b", true),
        ] {
            let read = Pattern::read(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(read.matches(text), expected, "{pattern} {text:?}");
        }
    }

    #[test]
    fn a_pattern_of_the_engines_own_files_needs_no_expression_and_matches_the_same_texts() {
        let long = "a".repeat(129);
        #[rustfmt::skip]
        let texts = [
            "", "a", "A", "_", "-", "a_b", "a__b", "a-b2", "a-", "1a", "A_1", "a\n", "é", &long[1..], &long,
            "2026-01-31", "2026-1-31", "2026-01-31 ", "2026_01_31", "202é-01-31",
            "https://a.b/c", "https://", "https:// ", "http://a", "https://a b",
        ];
        for pattern in [ID_PATTERN, NAME_PATTERN, ENV_PATTERN, DAY_PATTERN, PAGE_PATTERN] {
            let read = Pattern::read(pattern).expect("it is a pattern");
            assert!(matches!(read.form, Form::Known(_)), "{pattern}");
            assert_eq!(read.text(), pattern);
            let expression = compiled(pattern).expect("it is an expression");
            for text in texts {
                assert_eq!(read.matches(text), expression.is_match(text), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn what_would_backtrack_is_refused_with_the_way_out() {
        let error = Pattern::read("^(?=.*[0-9]).+$").unwrap_err();
        assert!(error.contains("look-around") && error.contains("allOf"), "{error}");
        assert!(Pattern::read(r"(a)\1").is_err());
        assert_eq!(Pattern::read("(\\w{1000}){1000}").unwrap_err(), "the pattern is too large");
        assert!(Pattern::read("(").unwrap_err().starts_with("the pattern is invalid"));
        assert!(Pattern::read(r"\p{Lu").unwrap_err().starts_with("the pattern is invalid"));
    }
}
