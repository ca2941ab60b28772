//! Secrets, taken out of what is shown or kept, in any spelling that somebody may send them back in.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

/// What stands in a secret's place.
const IN_ITS_PLACE: &str = "[key]";

/// Secrets that must not get out.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// All spellings of all of them, the longest first: what is left of a long one must not be shown because it begins with
    /// a short one.
    spellings: Vec<SecretString>,
}

impl Secrets {
    /// One secret.
    pub(crate) fn of(secret: &str) -> Self {
        let mut secrets = Self::default();
        secrets.add(secret);
        secrets
    }

    /// Takes `secret` out from now on, too.
    pub(crate) fn add(&mut self, secret: &str) {
        for spelling in spellings(secret) {
            if !spelling.is_empty() && !self.spellings.iter().any(|known| known.expose_secret() == spelling) {
                self.spellings.push(SecretString::from(spelling));
            }
        }
        self.spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.expose_secret().len()));
    }

    /// `text` without them.
    pub(crate) fn scrubbed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.spellings.iter().map(ExposeSecret::expose_secret).fold(Cow::Borrowed(text), |text, spelling| {
            if text.contains(spelling) { Cow::Owned(text.replace(spelling, IN_ITS_PLACE)) } else { text }
        })
    }

    /// Takes them out of every text and name in `value`; says whether there was one.
    pub(crate) fn scrub(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.scrubbed(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(scrubbed) => {
                    *text = scrubbed;
                    true
                }
            },
            // A number that is a secret can only go as a whole.
            Value::Number(number) if self.is_in(&number.to_string()) => {
                *value = Value::from(IN_ITS_PLACE);
                true
            }
            Value::Array(list) => list.iter_mut().fold(false, |found, element| self.scrub(element) | found),
            Value::Object(object) => {
                let found = object.values_mut().fold(false, |found, value| self.scrub(value) | found);
                let in_names = object.keys().any(|name| self.is_in(name));
                if in_names {
                    let named = std::mem::take(object).into_iter();
                    *object = named.map(|(name, value)| (self.scrubbed(&name).into_owned(), value)).collect::<Map<_, _>>();
                }
                found || in_names
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Whether one of them is in `text`.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.spellings.iter().any(|spelling| text.contains(spelling.expose_secret()))
    }
}

/// How `secret` may be spelt: as it is, in a text of JSON, percent-encoded, in base64.
fn spellings(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap_or_default();
    let json = json.trim_matches('"').to_owned();
    let percent = |hexadecimal: fn(u8) -> String| -> String {
        let spelt = |byte: u8| match byte {
            plain if plain.is_ascii_alphanumeric() || b"-_.~".contains(&plain) => char::from(plain).to_string(),
            other => hexadecimal(other),
        };
        secret.bytes().map(spelt).collect()
    };
    vec![
        secret.to_owned(),
        json.replace('/', "\\/"),
        json,
        percent(|byte| format!("%{byte:02X}")),
        percent(|byte| format!("%{byte:02x}")),
        STANDARD.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_taken_out_of_every_place_in_every_spelling() {
        let mut secrets = Secrets::of("k+/=\"y");
        secrets.add("12345678");
        let mut value = json!({
            "plain": "a k+/=\"y b", "name k+/=\"y": 1, "in JSON": "{\"x\":\"k+/=\\\"y\"}", "by others": "k+\\/=\\\"y",
            "percent": ["k%2B%2F%3D%22y", "k%2b%2f%3d%22y"], "base64": {"padded": "aysvPSJ5", "url": "aysvPSJ5"},
            "number": 12_345_678, "other": 1.5, "none": null,
        });
        assert!(secrets.scrub(&mut value));
        let expected = json!({
            "plain": "a [key] b", "name [key]": 1, "in JSON": "{\"x\":\"[key]\"}", "by others": "[key]",
            "percent": ["[key]", "[key]"], "base64": {"padded": "[key]", "url": "[key]"},
            "number": "[key]", "other": 1.5, "none": null,
        });
        assert_eq!(value, expected);
        assert!(!secrets.scrub(&mut value), "nothing is left");
    }

    #[test]
    fn a_secret_that_begins_with_another_leaves_nothing_behind() {
        let mut secrets = Secrets::of("sk-1");
        secrets.add("sk-1-long");
        assert_eq!(secrets.scrubbed("sk-1-long, sk-1"), "[key], [key]");
    }
}
