//! Findings in words, for the author of a value.

use std::fmt;

use baton_types::spelling::nearest;
use baton_types::text::shortened;
use serde_json::Value;

use crate::findings::{Broken, Finding};
use crate::program::{Bound, Sizes, type_names, type_of};
use crate::walk::size;

/// The most characters of a value that a message shows.
const SHOWN: usize = 60;

/// The most values or keys that a message lists.
const LISTED: usize = 20;

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = show(self.value);
        match &self.broken {
            Broken::Forbidden => write!(f, "no value is allowed here"),
            Broken::Type(names) => write!(f, "{found} is not {}", alternatives(names.iter().map(|name| with_article(name)))),
            Broken::Unlisted([only]) => write!(f, "{found} is not {}", show(only)),
            Broken::Unlisted(values) => {
                write!(f, "{found} is not one of {}{}", listed(values.iter()), meant(self.value, values.iter()))
            }
            Broken::Beyond(Bound::Least, limit) => write!(f, "{found} is less than the minimum of {limit}"),
            Broken::Beyond(Bound::Most, limit) => write!(f, "{found} is greater than the maximum of {limit}"),
            Broken::Beyond(Bound::MoreThan, limit) => write!(f, "{found} is not more than {limit}"),
            Broken::Beyond(Bound::LessThan, limit) => write!(f, "{found} is not less than {limit}"),
            Broken::NoMultiple(step) => write!(f, "{found} is not a multiple of {step}"),
            Broken::TooFew(sizes, limit) => {
                write!(f, "{found} has {}, and at least {limit} {} needed", self.counted(*sizes), verb(*limit))
            }
            Broken::TooMany(sizes, limit) => {
                write!(f, "{found} has {}, and at most {limit} {} allowed", self.counted(*sizes), verb(*limit))
            }
            Broken::Missing(key) => write!(f, "key {key:?} is missing"),
            Broken::Needed { by, key } => write!(f, "key {key:?} is missing, which key {by:?} needs"),
            Broken::Pattern(pattern) => write!(f, "{found} does not match {pattern}"),
            Broken::KeyName(key, reason) => write!(f, "key {} is not allowed: {reason}", shortened(&format!("{key:?}"), SHOWN)),
            Broken::UnknownKey(key, known) => {
                write!(f, "unknown key {}", shortened(&format!("{key:?}"), SHOWN))?;
                match nearest(key, known.iter().copied()) {
                    Some(nearest) => write!(f, "; did you mean {nearest:?}?"),
                    None if known.is_empty() => Ok(()),
                    None => write!(f, "; the keys are {}", limited(known.iter().map(|key| (*key).to_owned())).join(", ")),
                }
            }
            Broken::Repeated(index) => write!(f, "element {index} equals an earlier one, and the elements must differ"),
            Broken::Contained(0) => write!(f, "no element has the form that is needed"),
            Broken::Contained(found) => write!(f, "the number of elements of a certain form is {found}, which is not allowed"),
            Broken::NoForm(names, words) => {
                let types = names.iter().map(|name| with_article(name));
                let allowed = types.chain(limited(words.iter().map(|word| show(word))));
                write!(f, "{found} is not {}{}", alternatives(allowed), meant(self.value, words.iter().copied()))
            }
            Broken::SeveralForms => write!(f, "the value has more than one of the forms of which it must have exactly one"),
            Broken::NotAllowed => write!(f, "{found} is of a form that is not allowed"),
            Broken::TooCostly => write!(f, "the value is too costly to judge by its schema: write it smaller"),
            Broken::TooDeep => write!(f, "the value is nested too deeply to judge by its schema"),
        }
    }
}

impl Finding<'_> {
    fn counted(&self, sizes: Sizes) -> String {
        let count = size(sizes, self.value).unwrap_or_default();
        let unit = match sizes {
            Sizes::Text => "character",
            Sizes::Array => "element",
            Sizes::Object => "key",
        };
        format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
    }
}

fn verb(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Returns a value as a message shows it. Long lists and objects are named, since their text is no help.
fn show(value: &Value) -> String {
    let is_nested = value.is_array() || value.is_object();
    let text = value.to_string();
    if is_nested && text.chars().count() > SHOWN {
        return type_names(type_of(value)).first().map(|name| format!("the {name}")).unwrap_or_default();
    }
    shortened(&text, SHOWN)
}

fn with_article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {name}"),
        name => format!("a {name}"),
    }
}

fn limited(texts: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = texts.len().saturating_sub(LISTED);
    let mut shown: Vec<String> = texts.take(LISTED).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown
}

fn listed<'v>(values: impl ExactSizeIterator<Item = &'v Value>) -> String {
    alternatives(limited(values.map(show)))
}

/// Joins texts as in `a, b or c`.
fn alternatives(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().collect();
    match texts.as_slice() {
        [] => "allowed here".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn meant<'v>(found: &Value, words: impl Iterator<Item = &'v Value>) -> String {
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let nearest = found.as_str().and_then(|found| nearest(found, words.iter().copied()));
    nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"))
}
