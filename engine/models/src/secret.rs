//! Secrets: removes them from everything that is shown or kept, in every spelling in which they may come back.

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use baton_types::json::Json;
use serde_json::{Map, Value};

use crate::wire::{Answer, items};

/// Replacement of a secret.
const IN_ITS_PLACE: &str = "[key]";

/// Shorter values are placeholders such as `ollama`, and words of answers.
const SHORTEST_IN_ANSWERS: usize = 8;

/// Base64 whose last character need not be the canonical one.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new().with_encode_padding(false);

/// Secrets that must not get out. A text is read once, however many there are.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
    /// Finds every spelling of each of them, the longest first. Otherwise a short secret with which a long one begins could
    /// be replaced, and the rest of the long one shown.
    spellings: Option<Arc<AhoCorasick>>,
}

impl Secrets {
    /// Returns one secret.
    pub fn of(secret: &str) -> Self {
        let mut secrets = Self::default();
        secrets.add(secret);
        secrets
    }

    /// Returns the secret of a provider or a tool as removed from the answers of models and tools. Secrets of fewer
    /// than eight bytes are not removed.
    pub fn in_answers(secret: &str) -> Self {
        if secret.len() < SHORTEST_IN_ANSWERS { Self::default() } else { Self::of(secret) }
    }

    /// Takes `secret` out from now on, too.
    pub fn add(&mut self, secret: &str) {
        if secret.is_empty() || self.values.iter().any(|known| known == secret) {
            return;
        }
        self.values.push(secret.to_owned());
        let spellings = self.values.iter().flat_map(|value| spellings(value)).filter(|spelling| !spelling.is_empty());
        // A third of the time and a thirtieth of the memory that a DFA takes; a prefilter makes both read as fast.
        let builder = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(spellings);
        self.spellings = Some(Arc::new(builder.expect("a few short texts make an automaton")));
    }

    /// Takes what `others` have out from now on, too.
    pub fn join(&mut self, others: &Self) {
        others.values.iter().for_each(|value| self.add(value));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// `text` without them.
    pub fn scrubbed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(spellings) = self.spellings.as_ref().filter(|spellings| spellings.is_match(text)) else {
            return Cow::Borrowed(text);
        };
        let mut scrubbed = String::with_capacity(text.len());
        spellings.replace_all_with(text, &mut scrubbed, |_, _, into| {
            into.push_str(IN_ITS_PLACE);
            true
        });
        Cow::Owned(scrubbed)
    }

    /// `bytes` with secrets taken out of each piece that is text; `None` if they have none.
    pub fn scrubbed_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.spellings.as_ref().is_some_and(|spellings| spellings.is_match(bytes)) {
            return None;
        }
        let mut scrubbed = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            scrubbed.extend_from_slice(self.scrubbed(chunk.valid()).as_bytes());
            scrubbed.extend_from_slice(chunk.invalid());
        }
        Some(scrubbed)
    }

    /// Removes the secrets from every text and name in `value`. Returns true if there was one.
    pub fn scrub(&self, value: &mut Value) -> bool {
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

    /// `json` without them; as it is, byte for byte, if it has none.
    pub fn scrub_json(&self, json: &mut Json) -> bool {
        // Only an escape can hide a spelling from a look at the text.
        if self.is_empty() || !(json.text().contains("\\u") || self.is_in(json.text())) {
            return false;
        }
        let mut value = json.value();
        let found = self.scrub(&mut value);
        if found {
            *json = Json::from(value);
        }
        found
    }

    /// Removes the secrets from everything in a provider's answer. Returns true if there was one.
    ///
    /// A vendor takes back a signed item only as it was, so of one with a secret only the text and the calls are left.
    pub(crate) fn scrub_answer(&self, answer: &mut Answer) -> bool {
        if self.is_empty() {
            return false;
        }
        let Answer { text, calls, items, refusal, finish, usage: _, cost_usd: _, id, model } = answer;
        let mut found = false;
        if let Cow::Owned(scrubbed) = self.scrubbed(text) {
            found = true;
            if !items::refer_to(items, text, &scrubbed, &|piece| self.scrubbed(piece).into_owned()) {
                items.clear();
            }
            *text = scrubbed;
        }
        for text in [refusal, finish, id, model].into_iter().flatten() {
            found |= self.scrub_text(text);
        }
        for call in calls {
            found |= self.scrub_text(&mut call.tool) | self.scrub_text(&mut call.arguments);
            // Where escapes may hide one, the arguments are read.
            if call.arguments.contains("\\u")
                && let Ok(mut arguments) = serde_json::from_str(&call.arguments)
                && self.scrub(&mut arguments)
            {
                (call.arguments, found) = (arguments.to_string(), true);
            }
            found |= call.id.as_mut().is_some_and(|id| self.scrub_text(id));
        }
        found |= items::scrub(items, &|item| self.scrub(item));
        found
    }

    /// Removes the secrets from `text`. Returns true if there was one.
    pub fn scrub_text(&self, text: &mut String) -> bool {
        match self.scrubbed(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(scrubbed) => {
                *text = scrubbed;
                true
            }
        }
    }

    /// Whether one of them is in `text`.
    pub fn is_in(&self, text: &str) -> bool {
        self.spellings.as_ref().is_some_and(|spellings| spellings.is_match(text))
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").field("count", &self.values.len()).finish_non_exhaustive()
    }
}

/// Returns the spellings of `secret`: as it is, as JSON text, percent-encoded, in hexadecimal, in base64, alone or
/// within a longer text.
fn spellings(secret: &str) -> Vec<String> {
    let in_json = |text: &str| {
        let json = serde_json::to_string(text).unwrap_or_default();
        json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned()
    };
    let json = in_json(secret);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let spelt = |is_plain: &dyn Fn(u8) -> bool, other: &dyn Fn(u8) -> String| -> String {
        let byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { other(byte) };
        secret.bytes().map(byte).collect()
    };
    let never = |_: u8| false;
    let mut all = vec![secret.to_owned(), json.replace('/', "\\/"), json];
    for other in [|byte: u8| format!("%{byte:02X}"), |byte: u8| format!("%{byte:02x}")] {
        all.extend([spelt(&is_plain, &other), spelt(&never, &other)]);
    }
    for other in [|byte: u8| format!("{byte:02X}"), |byte: u8| format!("{byte:02x}")] {
        all.push(spelt(&never, &other));
    }
    for escape in [|unit: u16| format!("\\u{unit:04X}"), |unit: u16| format!("\\u{unit:04x}")] {
        let escaped = |keep: &dyn Fn(u16) -> bool| -> String {
            let unit = |unit: u16| match u8::try_from(unit) {
                Ok(byte) if keep(unit) => char::from(byte).to_string(),
                _ => escape(unit),
            };
            secret.encode_utf16().map(unit).collect()
        };
        all.push(escaped(&|unit| u8::try_from(unit).is_ok_and(is_plain)));
        all.push(escaped(&|_| false));
    }
    for alphabet in [alphabet::STANDARD, alphabet::URL_SAFE] {
        all.extend((0..3).map(|before| within_base64(secret, before, &alphabet)));
    }
    all.extend([STANDARD.encode(secret), URL_SAFE.encode(secret)]);
    // As they are in the bytes of a JSON text that quotes one of them.
    let quoted: Vec<String> =
        all.iter().filter(|spelling| spelling.contains(['\\', '"'])).map(|spelling| in_json(spelling)).collect();
    all.extend(quoted);
    all
}

/// Returns the part of a base64 text that `secret` alone decides, where `before` bytes of its first group of three are something else's.
fn within_base64(secret: &str, before: usize, alphabet: &alphabet::Alphabet) -> String {
    let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
    let whole = GeneralPurpose::new(alphabet, LENIENT).encode(&bytes);
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    whole.get(first..end).unwrap_or_default().to_owned()
}

/// Returns the secret part of a variable's value, judged by the variable's name: all of a key or a password, the
/// password in an address.
pub fn secret_of_variable(name: &str, value: &str) -> Option<String> {
    const WORDS: [&str; 9] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTH", "COOKIE"];
    let name = name.to_uppercase();
    if WORDS.iter().any(|word| name.contains(word)) {
        return Some(value.to_owned());
    }
    let password = reqwest::Url::parse(value).ok()?.password()?.to_owned();
    Some(password)
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
            "hexadecimal": ["6B2B2F3D2279", "6b2b2f3d2279"], "unicode": ["k\\u002b\\u002f\\u003d\\u0022y"],
            "number": 12_345_678, "other": 1.5, "none": null,
        });
        assert!(secrets.scrub(&mut value));
        let expected = json!({
            "plain": "a [key] b", "name [key]": 1, "in JSON": "{\"x\":\"[key]\"}", "by others": "[key]",
            "percent": ["[key]", "[key]"], "base64": {"padded": "[key]", "url": "[key]"},
            "hexadecimal": ["[key]", "[key]"], "unicode": ["[key]"],
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
        assert_eq!(Secrets::of("abcd").scrubbed("ababcdcd"), "ab[key]cd");
    }

    #[test]
    fn a_secret_within_a_longer_base64_text_is_found_wherever_it_begins() {
        let secret = "sk-canary+/=4f9a?key>";
        let secrets = Secrets::of(secret);
        let mut tried = 0;
        for before in 0..12 {
            for after in 0..4 {
                let text = format!("{}{secret}{}", "u".repeat(before), "v".repeat(after));
                for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                    let scrubbed = secrets.scrubbed(&encoded);
                    assert!(scrubbed.contains(IN_ITS_PLACE), "{encoded}");
                    assert!(scrubbed.len() <= encoded.len() - secret.len(), "{encoded} leaves {scrubbed}");
                    tried += 1;
                }
            }
        }
        assert_eq!(tried, 96);
    }

    #[test]
    fn what_hides_behind_escapes_of_json_is_found_and_the_rest_stays_byte_for_byte() {
        let secrets = Secrets::of("sk-canary");
        let mut hidden = Json::parse("{\"a\": \"s\\u006b-can\\u0061ry\"}").unwrap();
        assert!(secrets.scrub_json(&mut hidden));
        assert_eq!(hidden.text(), "{\"a\":\"[key]\"}");
        let text = "{ \"a\" : \"\\u00e9\" , \"b\":1.0 }";
        let mut plain = Json::parse(text).unwrap();
        assert!(!secrets.scrub_json(&mut plain));
        assert_eq!(plain.text(), text);
    }

    #[test]
    fn variables_hold_secrets_by_their_names_or_in_addresses() {
        let found = |name, value| secret_of_variable(name, value);
        assert_eq!(found("GITHUB_TOKEN", "abc").as_deref(), Some("abc"));
        assert_eq!(found("my_api_key", "abc").as_deref(), Some("abc"));
        assert_eq!(found("DATABASE_URL", "postgres://me:pw-123@db/x").as_deref(), Some("pw-123"));
        assert_eq!(found("HOME", "/home/me"), None);
        assert_eq!(found("PWD", "/work"), None);
    }
}
