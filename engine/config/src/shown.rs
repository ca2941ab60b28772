//! Facts that people are shown about a tool's calls before they begin: a title, and the change of a document.

use baton_types::config::{Changes, NewContent};
use serde_json::{Value, json};

use crate::fault::FaultKind;
use crate::form::{ChangesForm, ToolForm};
use crate::loader::Loader;
use crate::reader::{Spot, pointer};
use crate::shape::show;
use crate::tool::Texts;

impl From<ChangesForm> for Changes {
    fn from(form: ChangesForm) -> Self {
        let content = match (form.content, form.block) {
            (Some(content), _) => NewContent::Whole { content, encoding: form.encoding },
            (None, Some(block)) => NewContent::Block { block, data: form.data },
            (None, None) => NewContent::Unknown,
        };
        Self { path: form.path, content }
    }
}

impl<'s> Loader<'s> {
    /// Reports a `value` of `key` that is not one line of text.
    pub(super) fn check_line(&mut self, key: &str, value: Option<&str>, texts: &Texts<'_, 's>) {
        let Some(value) = value else { return };
        let is_line = |character: char| !character.is_control() && !"\u{2028}\u{2029}".contains(character);
        if value.trim() != value || !value.chars().all(is_line) {
            let message = format!("\"{key}\" is not well-formed");
            let fault = texts.fault(FaultKind::OutOfRange, &pointer(&[key]), Spot::Value, message);
            self.faults.push(fault.expected("one line without spaces around it").found(show(&json!(value))));
        }
    }

    /// Reports a change that names no inputs of the tool, is ambiguous, or belongs to a tool that writes nothing.
    pub(super) fn check_changes(&mut self, form: &ToolForm, schema: &Value, texts: &Texts<'_, 's>) {
        let Some(changes) = &form.changes else { return };
        let mut wrong = |kind: FaultKind, key: &str, message: String, expected: &str| {
            let place = if key.is_empty() { pointer(&["changes"]) } else { pointer(&["changes", key]) };
            let spot = if kind == FaultKind::MisplacedKey { Spot::Key } else { Spot::Value };
            self.faults.push(texts.fault(kind, &place, spot, message).expected(expected));
        };
        if form.writes != Some(true) {
            let message = "\"changes\" does not apply to a tool that writes no documents".to_owned();
            wrong(FaultKind::MisplacedKey, "", message, "this key only with \"writes\": true");
        }
        for (key, is_given, beside, has_both) in [
            ("encoding", changes.encoding.is_some(), "content", changes.content.is_some()),
            ("data", changes.data.is_some(), "block", changes.block.is_some()),
        ] {
            if is_given && !has_both {
                wrong(FaultKind::MisplacedKey, key, format!("\"{key}\" needs \"{beside}\""), "both or neither");
            }
        }
        if changes.content.is_some() && changes.block.is_some() {
            wrong(FaultKind::MisplacedKey, "block", "\"content\" and \"block\" exclude each other".to_owned(), "one of them");
        }
        let named = [
            ("path", Some(&changes.path), &["string"][..]),
            ("content", changes.content.as_ref(), &["string"]),
            ("encoding", changes.encoding.as_ref(), &["string"]),
            ("block", changes.block.as_ref(), &["string", "integer"]),
            ("data", changes.data.as_ref(), &[]),
        ];
        for (key, name, kinds) in named {
            let Some(name) = name else { continue };
            let Some(input) = schema.get("properties").and_then(|properties| properties.get(name)) else {
                wrong(
                    FaultKind::MissingInput,
                    key,
                    format!("the tool has no input {}", show(&json!(name))),
                    "the name of an input",
                );
                continue;
            };
            let has_one_type = input.get("type").is_some_and(Value::is_string);
            if has_one_type && !kinds.is_empty() && !kinds.iter().any(|kind| input["type"] == *kind) {
                let message = format!("the input {} is of another type", show(&json!(name)));
                wrong(FaultKind::ParameterType, key, message, &format!("an input of type {}", kinds.join(" or ")));
            }
        }
    }
}
