//! Values that the templates of a turn can use: built on first use, searched from the end.
//!
//! Everything here is read from the request and the inputs of the job, so an answer is a pure function of these.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_types::call::CallResult;
use baton_types::document::DocumentVersion;
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json as JsonText;
use baton_types::message::{Message, Part};
use baton_types::model::ModelRequest;
use minijinja::value::{Enumerator, Object, Serde, Value};
use serde_json::{Value as Json, json};

/// The names that templates may use.
pub(crate) const VARIABLES: [&str; 7] = ["request", "inputs", "turn", "results", "calls", "documents", "question"];

/// The names that the condition of a case may use: what stays the same for a whole task.
pub(crate) const CASE_VARIABLES: [&str; 3] = ["request", "inputs", "question"];

/// Names given by `as` to calls of a script: (turn, position), both from 1 → name.
pub(crate) type CallNames = Arc<HashMap<(u32, u32), String>>;

/// A request as its templates see it.
#[derive(Clone, Debug)]
pub(crate) struct TurnContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    task: TaskId,
    turn: u32,
    messages: Arc<Vec<Arc<Message>>>,
    /// The inputs of the job, as an object.
    inputs: JsonText,
    asks: bool,
    /// Names of the task's own calls, and of those of the task in whose name a question is answered.
    own: CallNames,
    master: CallNames,
    found: Mutex<HashMap<String, Value>>,
}

impl TurnContext {
    /// Returns the context of `request` in a run with `inputs`. Its question is visible if `asks` is true.
    pub(crate) fn new(request: &ModelRequest, inputs: &JsonText, asks: bool, own: CallNames, master: CallNames) -> Self {
        Self(Arc::new(Inner {
            task: request.task.clone(),
            turn: request.turn,
            messages: Arc::clone(&request.messages),
            inputs: inputs.clone(),
            asks,
            own,
            master,
            found: Mutex::default(),
        }))
    }

    /// Returns the root value that templates are filled with.
    pub(crate) fn value(&self) -> Value {
        Value::from_dyn_object(Arc::clone(&self.0))
    }

    /// Returns about the number of bytes that templates can use.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.0.parts().map(|part| match part {
            Part::Request(text) => text.len(),
            Part::Result { asked, result, .. } => {
                asked.input.text().len() + result.as_ref().map_or(0, |result| result.output.text().len())
            }
            Part::TaskResult(ended) => ended.result.output.text().len(),
            _ => 0,
        });
        self.0.inputs.text().len() + parts.sum::<usize>()
    }
}

impl Object for Inner {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "request" => Some(self.once("\u{1}request", || Value::from(self.request()))),
            "inputs" => Some(self.once("\u{1}inputs", || Value::from(Serde(self.inputs())))),
            "turn" => Some(Value::from(self.turn)),
            "results" => Some(Value::from_object(Results(Arc::clone(self)))),
            "calls" => Some(self.once("\u{1}calls", || Value::from(Serde(self.calls())))),
            "documents" => Some(self.once("\u{1}documents", || Value::from(Serde(self.documents())))),
            "question" => Some(self.once("\u{1}question", || Value::from(Serde(self.question())))),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&VARIABLES)
    }
}

impl Inner {
    /// Returns the value called `name`, built on first use: a template that uses it often holds it once.
    fn once(&self, name: &str, make: impl FnOnce() -> Value) -> Value {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(name.to_owned()).or_insert_with(make).clone()
    }

    fn parts(&self) -> impl DoubleEndedIterator<Item = &Part> {
        self.messages.iter().flat_map(|message| message.parts.iter())
    }

    /// Returns the text of the task's request; for a question, that of the task on whose behalf it is answered. Earlier requests
    /// belong to the conversation that the task begins with.
    fn request(&self) -> String {
        self.parts()
            .rev()
            .find_map(|part| if let Part::Request(text) = part { Some(text.clone()) } else { None })
            .unwrap_or_default()
    }

    fn inputs(&self) -> Json {
        if self.inputs.is_null() { json!({}) } else { self.inputs.value() }
    }

    fn question(&self) -> Json {
        if !self.asks {
            return Json::Null;
        }
        self.parts()
            .rev()
            .find_map(|part| match part {
                Part::Question { asker, question, .. } => Some(json!({"asker": asker.as_str(), "text": question})),
                _ => None,
            })
            .unwrap_or_default()
    }

    fn calls(&self) -> Json {
        let calls = self.parts().filter_map(|part| match part {
            Part::Result { call, asked, result: Some(result), .. } => Some(json!({
                "tool": asked.tool,
                "name": self.name(call),
                "input": asked.input.value(),
                "status": result.status.as_str(),
                "output": result.output.value(),
                "error": result.error.as_ref().map(baton_types::call::CallError::to_value),
            })),
            _ => None,
        });
        Json::Array(calls.collect())
    }

    fn documents(&self) -> Json {
        Json::Array(
            self.parts()
                .filter_map(|part| match part {
                    Part::Document(version) => Some(document(version, true)),
                    Part::Pointer(version) | Part::Repeated(version) => Some(document(version, false)),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Returns the name that the script gave to `call` with `as`.
    fn name(&self, call: &CallId) -> Option<&str> {
        let names = if call.task() == self.task { &self.own } else { &self.master };
        names.get(&call.position()?).map(String::as_str)
    }

    /// Returns the newest result of the tool or the named call `wanted`.
    fn newest(&self, wanted: &str) -> Option<&CallResult> {
        self.parts().rev().find_map(|part| match part {
            Part::Result { call, asked, result: Some(result), .. } if asked.tool == wanted || self.name(call) == Some(wanted) => {
                Some(&**result)
            }
            Part::TaskResult(ended) if ended.tool.as_str() == wanted || self.name(&ended.call) == Some(wanted) => {
                Some(&*ended.result)
            }
            _ => None,
        })
    }
}

fn document(version: &DocumentVersion, whole: bool) -> Json {
    json!({
        "path": version.path.as_str(),
        "version": version.version,
        "mime_type": version.content.mime_type,
        "size_bytes": version.content.size_bytes,
        "token_count": version.content.token_count,
        "summary": version.content.summary,
        "description": version.description,
        "whole": whole,
    })
}

/// `results.<tool or name>`: the output of the newest such call.
#[derive(Debug)]
struct Results(Arc<Inner>);

impl Object for Results {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let wanted = key.as_str()?;
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = found.get(wanted) {
            return Some(value.clone());
        }
        let value = Value::from(Serde(self.0.newest(wanted)?.output.value()));
        found.insert(wanted.to_owned(), value.clone());
        Some(value)
    }
}
