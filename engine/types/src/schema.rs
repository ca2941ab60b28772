//! A JSON Schema as everybody but its judge sees it: its text, and whether a value meets it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::json::Json;

/// Decides whether values meet one schema.
///
/// The machine judges inputs, outputs and results through this trait, so it knows nothing of how a schema is compiled.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Whether the JSON `text` meets the schema. If it is false, [`Judge::check`] decides.
    fn accepts_text(&self, text: &str) -> bool;

    /// Checks `value`; each fault has the place and what was expected there.
    fn check(&self, value: &Value) -> Result<(), Vec<SchemaFault>>;
}

/// Compiles a JSON Schema (2020-12); the error names the place where it is not one.
pub type CompileSchema = fn(&Value) -> Result<Schema, String>;

/// A JSON Schema (2020-12) with its judge.
#[derive(Clone, Debug)]
pub struct Schema {
    json: Json,
    judge: Arc<dyn Judge>,
}

impl Schema {
    /// Returns the schema of this text, judged by `judge`.
    pub fn new(json: Json, judge: impl Judge + 'static) -> Self {
        Self { json, judge: Arc::new(judge) }
    }

    /// Returns the schema as JSON.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// Checks `value`; each fault has the place and what was expected there.
    pub fn check(&self, value: &Value) -> Result<(), Vec<SchemaFault>> {
        self.judge.check(value)
    }

    /// Checks `json` as [`Schema::check`] does, in most cases without parsing it into a tree.
    pub fn check_text(&self, json: &Json) -> Result<(), Vec<SchemaFault>> {
        if self.judge.accepts_text(json.text()) { Ok(()) } else { self.check(&json.value()) }
    }

    /// Returns an answer as the schema reads it: the whole answer, or the value under its key `answer`.
    pub fn answer_in<'v>(&self, result: &'v Value) -> Result<&'v Value, Vec<SchemaFault>> {
        match (self.check(result), result.get("answer")) {
            (Ok(()), _) => Ok(result),
            (Err(faults), Some(inner)) => self.check(inner).map(|()| inner).map_err(|_| faults),
            (Err(faults), None) => Err(faults),
        }
    }
}

/// One way in which a value breaks a schema.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemaFault {
    /// JSON pointer into the value.
    pub pointer: String,
    /// Expected and present value.
    pub message: String,
}
