//! Strict reading of what must be there, within bytes that anybody may have sent.
//!
//! A message is one JSON object in UTF-8, within a size, without repeated keys. Each reader asks for the fields that it knows. All
//! faults are reported at once. Other fields are never looked at.

use std::fmt;

use baton_types::call::AfterExecution;
use baton_types::json;
use serde_json::{Map, Value};

use crate::id::{NAME_RULE, Name};

/// Fields that hold inputs or results. Payloads may not have them: cards hold inputs and results (seed 004, sections 4.1 and 4.2).
pub const INLINE_FIELDS: [&str; 3] = ["args", "arguments", "result"];

/// Greatest value of a `turn_epoch`: the systems of the seed store it in 64 bits with a sign.
pub const MAX_EPOCH: u64 = i64::MAX as u64;

/// A field that breaks its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// The field, with the fields around it: `card.metadata.step_id`.
    pub field: String,
    /// The rule and what was found, without the name of the field.
    pub reason: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.reason)
    }
}

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It is too long.
    #[error("the message has {bytes} bytes; at most {allowed} are allowed")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most that are allowed.
        allowed: usize,
    },
    /// It is not a JSON object that can be read without loss.
    #[error("the message is not a JSON object: {0}")]
    Unreadable(String),
    /// Fields break their rules: one fault at least.
    #[error("{}", joined(.0))]
    Fields(Vec<FieldFault>),
}

impl PayloadError {
    /// Returns the faults of fields; none if the message could not be read at all.
    pub fn fields(&self) -> &[FieldFault] {
        match self {
            Self::Fields(faults) => faults,
            Self::TooLong { .. } | Self::Unreadable(_) => &[],
        }
    }
}

fn joined(faults: &[FieldFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Reads `bytes` as one JSON object.
///
/// # Errors
/// The message is longer than `allowed`, is not UTF-8, is no JSON object, or repeats a key.
pub fn object(bytes: &[u8], allowed: usize) -> Result<Map<String, Value>, PayloadError> {
    if bytes.len() > allowed {
        return Err(PayloadError::TooLong { bytes: bytes.len(), allowed });
    }
    let unreadable = |reason: &dyn fmt::Display| PayloadError::Unreadable(reason.to_string());
    let text = std::str::from_utf8(bytes).map_err(|_| unreadable(&"it is not UTF-8"))?;
    match baton_types::json::read(text).map_err(|error| unreadable(&error))? {
        Value::Object(object) => Ok(object),
        other => Err(unreadable(&format!("it is {}", json::kind_of(&other)))),
    }
}

/// The fields of an object, and the faults found so far.
#[derive(Debug)]
pub struct Fields<'o> {
    object: &'o Map<String, Value>,
    /// Names of the objects around it, each with a dot.
    path: String,
    faults: Vec<FieldFault>,
}

impl<'o> Fields<'o> {
    /// Begins to read the fields of a whole message.
    pub fn of(object: &'o Map<String, Value>) -> Self {
        Self { object, path: String::new(), faults: Vec::new() }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// All faults, if there is one. `read` is `None` only then.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, PayloadError> {
        match read {
            Some(read) if self.faults.is_empty() => Ok(read),
            _ => Err(PayloadError::Fields(self.faults)),
        }
    }

    /// Reports that `field` breaks a rule.
    pub fn fault(&mut self, field: &str, reason: impl Into<String>) {
        self.faults.push(FieldFault { field: format!("{}{field}", self.path), reason: reason.into() });
    }

    /// Refuses the fields that hold inputs or results.
    pub fn refuse_inline(&mut self, instead: &str) {
        for field in INLINE_FIELDS {
            if self.object.contains_key(field) {
                self.fault(field, format!("must not be in this message; {instead}"));
            }
        }
    }

    fn get(&mut self, field: &str, rule: &str) -> Option<&'o Value> {
        let value = self.object.get(field);
        if value.is_none() {
            self.fault(field, format!("is missing; expected {rule}"));
        }
        value
    }

    fn wrong(&mut self, field: &str, rule: &str, found: &Value) {
        self.fault(field, format!("is {}; expected {rule}", shown(found)));
    }

    /// Returns a required name.
    pub fn name<N: Name>(&mut self, field: &str) -> Option<N> {
        let value = self.get(field, NAME_RULE)?;
        let name = value.as_str().and_then(N::parse);
        if name.is_none() {
            self.wrong(field, NAME_RULE, value);
        }
        name
    }

    /// Returns a name that may be absent or `null`. The outer `None` is a fault.
    pub fn optional_name<N: Name>(&mut self, field: &str) -> Option<Option<N>> {
        match self.object.get(field) {
            None | Some(Value::Null) => Some(None),
            Some(_) => self.name(field).map(Some),
        }
    }

    /// Returns a required whole number from 0 to [`MAX_EPOCH`].
    pub fn epoch(&mut self, field: &str) -> Option<u64> {
        const RULE: &str = "a whole number from 0 to 9223372036854775807";
        let value = self.get(field, RULE)?;
        let epoch = value.as_u64().filter(|epoch| *epoch <= MAX_EPOCH);
        if epoch.is_none() {
            self.wrong(field, RULE, value);
        }
        epoch
    }

    /// Returns a required `after_execution`.
    pub fn after(&mut self, field: &str) -> Option<AfterExecution> {
        self.choice(field, "\"suspend\" or \"terminate\"", after_execution)
    }

    /// Returns a required text for which `parse` has a value.
    pub fn choice<T>(&mut self, field: &str, rule: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
        let value = self.get(field, rule)?;
        let choice = value.as_str().and_then(parse);
        if choice.is_none() {
            self.wrong(field, rule, value);
        }
        choice
    }

    /// Returns any required value.
    pub fn value(&mut self, field: &str) -> Option<&'o Value> {
        self.get(field, "any JSON value")
    }

    /// Returns the value of a field that may be absent or `null`.
    pub fn optional(&self, field: &str) -> Option<&'o Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    /// Reads a required object with `read`.
    pub fn object<T>(&mut self, field: &str, read: impl FnOnce(&mut Fields<'o>) -> Option<T>) -> Option<T> {
        const RULE: &str = "an object";
        let value = self.get(field, RULE)?;
        let Value::Object(object) = value else {
            self.wrong(field, RULE, value);
            return None;
        };
        let path = format!("{}{field}.", self.path);
        let mut inner = Fields { object, path, faults: std::mem::take(&mut self.faults) };
        let read = read(&mut inner);
        self.faults = inner.faults;
        read
    }
}

/// Reads the two values of `after_execution`, exactly.
pub fn after_execution(text: &str) -> Option<AfterExecution> {
    match text {
        "suspend" => Some(AfterExecution::Suspend),
        "terminate" => Some(AfterExecution::Terminate),
        _ => None,
    }
}

/// Returns a value as messages show it: short values as they are, others by their type.
pub(crate) fn shown(value: &Value) -> String {
    const MOST_BYTES: usize = 60;
    let text = value.to_string();
    if text.len() <= MOST_BYTES && !text.chars().any(char::is_control) { text } else { json::kind_of(value).to_owned() }
}
