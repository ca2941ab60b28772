//! Strict JSON with positions: one value, in UTF-8, no duplicate key, every number exact.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::ops::Range;

use baton_schema::push_token;
use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::fault::{Fault, FaultKind, MAX_FAULTS_PER_FILE};
use crate::secrecy::is_secret;

/// The most bytes a file may have.
pub const MAX_FILE_BYTES: usize = 8 << 20;

/// The largest magnitude below which every integer has its own `f64`.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Meaning of a pointer: the value there, its key, or the object in which it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// The value.
    Value,
    /// The key of the value.
    Key,
}

/// A file that was read: its tree and, on demand, its places.
pub(crate) struct Text<'s> {
    /// The path as messages show it.
    pub(crate) file: String,
    content: &'s str,
    places: OnceCell<Option<ast::Value<'s>>>,
    /// Number of placed faults. Placing one reads the text, so the number is limited.
    placed: Cell<usize>,
}

impl<'s> Text<'s> {
    /// Returns a text whose faults are shown as those of `file`.
    pub(crate) fn new(file: String, text: &'s str) -> Self {
        Self { file, content: text, places: OnceCell::new(), placed: Cell::new(0) }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &'s str {
        self.content
    }

    /// Reads the text. Returns the tree if the text is JSON, even if keys are duplicated.
    pub(crate) fn read(&self, invalid_at: Option<usize>, faults: &mut Vec<Fault>) -> Option<Value> {
        let fault = |message: &str, at: usize| Fault::of_file(FaultKind::Syntax, &self.file, message).at(self.content, at..at);
        if let Some(at) = invalid_at {
            faults.push(fault("the file is not text in UTF-8", at));
            return None;
        }
        if self.content.len() > MAX_FILE_BYTES {
            faults.push(
                Fault::of_file(FaultKind::Syntax, &self.file, "the file is too large")
                    .expected(format!("at most {MAX_FILE_BYTES} bytes"))
                    .found(self.content.len().to_string()),
            );
            return None;
        }
        if self.content.starts_with('\u{FEFF}') {
            faults.push(fault("the file begins with a byte order mark", 0).expected("plain UTF-8 without one"));
            return None;
        }
        let suspect = Cell::new(false);
        let mut reader = serde_json::Deserializer::from_str(self.content);
        let read = Strict { suspect: &suspect }.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
        match read {
            Ok(value) => {
                if suspect.get()
                    && let Some(root) = self.places()
                {
                    self.find_suspects(root, &mut String::new(), faults);
                }
                Some(value)
            }
            Err(error) => {
                faults.push(fault(&reason(&error), self.offset(error.line(), error.column())));
                None
            }
        }
    }

    /// Returns a fault at `spot` of `pointer`; if nothing is there, at the nearest value around it.
    pub(crate) fn fault(&self, kind: FaultKind, pointer: &str, spot: Spot, message: impl Into<String>) -> Fault {
        self.fault_at(kind, pointer, || self.range(pointer, spot), message.into())
    }

    /// Returns a fault at `range`, which is computed only while not too many faults were placed.
    fn fault_at(&self, kind: FaultKind, pointer: &str, range: impl FnOnce() -> Range<usize>, message: String) -> Fault {
        let mut fault = Fault::of_file(kind, &self.file, message);
        pointer.clone_into(&mut fault.pointer);
        self.placed.set(self.placed.get() + 1);
        // Others are not shown.
        if self.placed.get() > MAX_FAULTS_PER_FILE {
            return fault;
        }
        fault = fault.at(self.content, range());
        match self.value(pointer).filter(|value| is_secret(pointer, value)) {
            Some(ast::Value::StringLit(text)) => fault.without_value(&text.value),
            Some(_) => fault.without_value(""),
            None => fault,
        }
    }

    /// Returns the value at `pointer`.
    fn value(&self, pointer: &str) -> Option<&ast::Value<'s>> {
        let tokens = pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"));
        tokens.into_iter().try_fold(self.places()?, |here, token| match here {
            ast::Value::Object(object) => object.get(&token).map(|property| &property.value),
            ast::Value::Array(array) => token.parse::<usize>().ok().and_then(|index| array.elements.get(index)),
            _ => None,
        })
    }

    /// Returns the place of `needle` in the value at `pointer`; the value itself if it is not found.
    pub(crate) fn range_within(&self, pointer: &str, needle: &str) -> Range<usize> {
        let value = self.range(pointer, Spot::Value);
        match self.content.get(value.clone()).and_then(|raw| raw.find(needle)) {
            Some(at) => value.start + at..value.start + at + needle.len(),
            None => value,
        }
    }

    /// `line:column` of a key or value, for notes.
    pub(crate) fn place(&self, pointer: &str, spot: Spot) -> String {
        let fault = Fault::of_file(FaultKind::Syntax, &self.file, "").at(self.content, self.range(pointer, spot));
        format!("{}:{}:{}", fault.file, fault.line, fault.column)
    }

    fn range(&self, pointer: &str, spot: Spot) -> Range<usize> {
        let Some(root) = self.places() else { return 0..1 };
        let mut here = root;
        let mut key: Option<Range<usize>> = None;
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let next = match here {
                ast::Value::Object(object) => object.get(&token).map(|property| (Some(bytes(&property.name)), &property.value)),
                ast::Value::Array(array) => {
                    token.parse::<usize>().ok().and_then(|index| array.elements.get(index)).map(|element| (None, element))
                }
                _ => None,
            };
            match next {
                Some((name, value)) => {
                    key = name;
                    here = value;
                }
                // A missing value is reported at its parent.
                None => return key.unwrap_or_else(|| start(here)),
            }
        }
        match (spot, key) {
            (Spot::Key, Some(key)) => key,
            _ => match here {
                ast::Value::Object(_) | ast::Value::Array(_) => start(here),
                _ => bytes(here),
            },
        }
    }

    fn places(&self) -> Option<&ast::Value<'s>> {
        self.places
            .get_or_init(|| {
                let strict = jsonc_parser::ParseOptions {
                    allow_comments: false,
                    allow_loose_object_property_names: false,
                    allow_trailing_commas: false,
                    allow_missing_commas: false,
                    allow_single_quoted_strings: false,
                    allow_hexadecimal_numbers: false,
                    allow_unary_plus_numbers: false,
                    allow_bare_decimal_point_numbers: false,
                    allow_non_finite_numbers: false,
                    allow_extended_string_escapes: false,
                };
                jsonc_parser::parse_to_ast(self.content, &jsonc_parser::CollectOptions::default(), &strict).ok()?.value
            })
            .as_ref()
    }

    /// Reports every duplicate key and every integer that no number type holds exactly.
    fn find_suspects(&self, value: &ast::Value<'s>, pointer: &mut String, faults: &mut Vec<Fault>) {
        if self.placed.get() > MAX_FAULTS_PER_FILE {
            return;
        }
        match value {
            ast::Value::Object(object) => {
                let mut seen = std::collections::HashMap::with_capacity(object.properties.len());
                for property in &object.properties {
                    let length = pointer.len();
                    let name = property.name.as_str();
                    push_token(pointer, name);
                    let range = bytes(&property.name);
                    if let Some(first) = seen.insert(name, range.clone())
                        && self.placed.get() <= MAX_FAULTS_PER_FILE
                    {
                        let earlier = Fault::of_file(FaultKind::DuplicateKey, &self.file, "").at(self.content, first);
                        let message = format!("key \"{name}\" is used twice");
                        let fault = self.fault_at(FaultKind::DuplicateKey, pointer, || range, message);
                        faults.push(fault.note(format!("first at {}:{}", earlier.line, earlier.column)));
                    }
                    self.find_suspects(&property.value, pointer, faults);
                    pointer.truncate(length);
                }
            }
            ast::Value::Array(array) => {
                for (index, element) in array.elements.iter().enumerate() {
                    let length = pointer.len();
                    push_token(pointer, &index.to_string());
                    self.find_suspects(element, pointer, faults);
                    pointer.truncate(length);
                }
            }
            ast::Value::NumberLit(number) if !is_exact(number.value) => {
                let message = "the integer is too large to be kept exactly".to_owned();
                faults.push(
                    self.fault_at(FaultKind::OutOfRange, pointer, || bytes(value), message).expected("an integer of 64 bits"),
                );
            }
            _ => {}
        }
    }

    /// Returns the byte at serde's line and column, both from 1 and in bytes.
    fn offset(&self, line: usize, column: usize) -> usize {
        let start = match line {
            0 | 1 => 0,
            _ => self.content.match_indices('\n').nth(line - 2).map_or(self.content.len(), |(at, _)| at + 1),
        };
        (start + column.saturating_sub(1)).min(self.content.len())
    }
}

/// Returns a JSON pointer from its reference tokens.
pub(crate) fn pointer(tokens: &[&str]) -> String {
    let mut pointer = String::new();
    for token in tokens {
        push_token(&mut pointer, token);
    }
    pointer
}

fn bytes(thing: &impl Ranged) -> Range<usize> {
    let range = thing.range();
    range.start..range.end
}

/// Returns the range of a value in messages: for an object or list, only its beginning.
fn start(thing: &impl Ranged) -> Range<usize> {
    let start = bytes(thing).start;
    start..start
}

/// Returns serde's message without the place, which the fault has itself.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    match text {
        "recursion limit exceeded" => "the file is nested deeper than 127 levels".to_owned(),
        plain => plain.to_owned(),
    }
}

fn is_exact(literal: &str) -> bool {
    literal.contains(['.', 'e', 'E']) || literal.parse::<i64>().is_ok() || literal.parse::<u64>().is_ok()
}

/// Builds a tree and notes whether anything in it needs a second look.
#[derive(Clone, Copy)]
struct Strict<'c> {
    suspect: &'c Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= MAX_EXACT {
            self.suspect.set(true);
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            match object.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(_) => self.suspect.set(true),
            }
        }
        Ok(Value::Object(object))
    }
}
