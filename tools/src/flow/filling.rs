//! Filling a template: the input of a call, with a value in place of each reference.
//!
//! `workflow` and `map` read references themselves. What is inserted into their inputs must stay text there, because an output may come
//! from outside. So the dollars before a `{` are doubled, once for each tool that will read them.

use std::cell::Cell;
use std::fmt;

use serde_json::Value;

use super::bounded;
use super::reference::{Piece, Reference, Template};

/// The most bytes of the inputs of all calls that one `workflow` or `map` makes. Their texts can double with each step.
const ROOM: usize = 64 << 20;

/// The bytes that are left for inputs of calls.
pub(super) struct Room(Cell<usize>);

impl Room {
    pub(super) fn new() -> Self {
        Self(Cell::new(ROOM))
    }

    fn take(&self, bytes: usize) -> Result<(), FillError> {
        self.0.set(self.0.get().checked_sub(bytes).ok_or(FillError::NoRoom)?);
        Ok(())
    }
}

/// The reason why an input cannot be filled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FillError {
    /// A value lacks what a reference reads.
    Value(String),
    /// The inputs of all calls are too large together.
    NoRoom,
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(reason) => f.write_str(reason),
            Self::NoRoom => write!(f, "the inputs of all calls have more than {} MiB together", ROOM >> 20),
        }
    }
}

/// The values that references name.
pub(super) struct Values<'f, 'v> {
    /// The room for what is filled.
    pub(super) room: &'f Room,
    /// Returns the value of a name, such as the output of a step.
    pub(super) of: &'f dyn Fn(&str) -> Option<&'v Value>,
    /// Returns how messages name the value.
    pub(super) noun: &'f dyn Fn(&str) -> String,
}

/// A place in the input of a call.
#[derive(Clone, Copy)]
enum Place<'t> {
    /// The whole input of a call of this tool.
    Input(&'t str),
    /// The steps of a workflow.
    Steps,
    /// A step.
    Step,
    /// A value that no tool reads references in, except those that read the whole.
    Other,
}

impl<'t> Place<'t> {
    /// Returns the place at `key` of an object that has `tool`, and whether one more tool reads references there.
    fn at(self, key: &str, tool: Option<&'t str>) -> (Self, u32) {
        match (self, key) {
            (Self::Input("workflow"), "steps") => (Self::Steps, 0),
            (Self::Input("map") | Self::Step, "input") => (Self::Input(tool.unwrap_or_default()), 1),
            _ => (Self::Other, 0),
        }
    }

    /// Returns the place of an item of a list.
    fn of_item(self) -> Self {
        if matches!(self, Self::Steps) { Self::Step } else { Self::Other }
    }
}

impl Values<'_, '_> {
    /// Returns the input of a call of `tool` that `template` describes.
    pub(super) fn fill(&self, template: &Template, tool: &str) -> Result<Value, FillError> {
        self.filled(template, Place::Input(tool), 0)
    }

    fn value_of(&self, reference: &Reference) -> Result<Value, FillError> {
        let value = (self.of)(&reference.name).ok_or_else(|| FillError::Value(format!("{reference} has no value")))?;
        let part = reference.part_of(value, &(self.noun)(&reference.name)).map_err(FillError::Value)?;
        Ok(if reference.is_text { Value::String(text_of(part)) } else { part.clone() })
    }

    /// Fills `template`, whose references are read `depth` times more after this.
    fn filled(&self, template: &Template, place: Place<'_>, depth: u32) -> Result<Value, FillError> {
        Ok(match template {
            Template::Value(value) => {
                self.room.take(size_of(value))?;
                value.clone()
            }
            Template::Whole(reference) => {
                let mut value = self.value_of(reference)?;
                escape(&mut value, place, depth)?;
                self.room.take(size_of(&value))?;
                value
            }
            Template::Text(pieces) => {
                let mut text = Escaped::new(depth);
                for piece in pieces {
                    match piece {
                        Piece::Text(literal) => text.push_source(literal),
                        Piece::Reference(reference) => text.push_value(&text_of(&self.value_of(reference)?)),
                    }
                }
                let text = text.finish()?;
                self.room.take(text.len())?;
                Value::String(text)
            }
            Template::List(list) => {
                let filled = list.iter().map(|value| self.filled(value, place.of_item(), depth));
                Value::Array(filled.collect::<Result<_, _>>()?)
            }
            Template::Object(object) => {
                // Only these places follow from the tool. Elsewhere, a `tool` may hold another, and so on.
                let names_tool = matches!(place, Place::Input("map") | Place::Step);
                let tool = object.iter().find(|(key, _)| names_tool && key == "tool");
                let tool = tool.map(|(_, tool)| self.filled(tool, Place::Other, depth)).transpose()?;
                let filled = object.iter().map(|(key, value)| {
                    let (place, more) = place.at(key, tool.as_ref().and_then(Value::as_str));
                    self.room.take(key.len())?;
                    Ok((key.clone(), self.filled(value, place, depth + more)?))
                });
                Value::Object(filled.collect::<Result<_, FillError>>()?)
            }
        })
    }
}

/// Returns about as many bytes as `value` takes.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => 8 + values.iter().map(size_of).sum::<usize>(),
        Value::Object(object) => 8 + object.iter().map(|(key, value)| key.len() + size_of(value)).sum::<usize>(),
    }
}

/// Returns a value as text: a text as it is, any other value as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Makes the texts of `value` stay as they are when references are read `depth` times, and more often in the inputs of `workflow` and `map`.
fn escape(value: &mut Value, place: Place<'_>, depth: u32) -> Result<(), FillError> {
    match value {
        Value::String(text) if depth > 0 => {
            let mut escaped = Escaped::new(depth);
            escaped.push_value(text);
            *text = escaped.finish()?;
        }
        Value::Array(values) => values.iter_mut().try_for_each(|value| escape(value, place.of_item(), depth))?,
        Value::Object(object) => {
            let tool = object.get("tool").and_then(Value::as_str).map(str::to_owned);
            for (key, value) in object {
                let (place, more) = place.at(key, tool.as_deref());
                escape(value, place, depth + more)?;
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// A text of source and of values. References are read in it `depth` times. Only source has references.
struct Escaped {
    text: String,
    depth: u32,
    /// Number of dollars at the end of the text that no `{` follows yet.
    dollars: usize,
    /// Whether a part was left out, since there is no room for it.
    is_cut: bool,
}

impl Escaped {
    fn new(depth: u32) -> Self {
        Self { text: String::new(), depth, dollars: 0, is_cut: false }
    }

    /// Adds source. Dollars before it are of another part, so they begin no reference.
    fn push_source(&mut self, source: &str) {
        let rest = source.trim_start_matches('$');
        if rest.starts_with('{') {
            self.keep_dollars();
        } else if rest.is_empty() {
            self.dollars += source.len();
            self.add(source, 1);
            return;
        }
        self.push(source);
    }

    /// Adds the text of a value.
    fn push_value(&mut self, value: &str) {
        if self.depth == 0 {
            return self.add(value, 1);
        }
        for (index, part) in value.split('{').enumerate() {
            if index > 0 {
                self.keep_dollars();
                self.push("{");
            }
            let dollars = part.len() - part.trim_end_matches('$').len();
            if dollars == part.len() {
                self.dollars += dollars;
                self.add(part, 1);
            } else {
                self.push(part);
            }
        }
    }

    fn push(&mut self, text: &str) {
        self.add(text, 1);
        self.dollars = text.len() - text.trim_end_matches('$').len();
    }

    /// Doubles the dollars at the end, once for each time that references are read.
    fn keep_dollars(&mut self) {
        let times = 1_usize.checked_shl(self.depth).map_or(usize::MAX, |times| times - 1);
        self.add("$", self.dollars.saturating_mul(times));
        self.dollars = 0;
    }

    /// Adds `text` so many `times`, if there is room.
    fn add(&mut self, text: &str, times: usize) {
        self.is_cut |= text.len().saturating_mul(times).saturating_add(self.text.len()) > ROOM;
        if !self.is_cut {
            self.text.extend(std::iter::repeat_n(text, times));
        }
    }

    fn finish(self) -> Result<String, FillError> {
        if self.is_cut { Err(FillError::NoRoom) } else { Ok(self.text) }
    }
}

/// Returns the reason of a call that failed. If a reference gave another value where the tool takes a text, the reason has the way out.
pub(super) fn reason_of(result: &baton_types::call::CallResult, template: &Template) -> String {
    let reason = result.reason();
    let Some(error) = result.error.as_ref().filter(|error| error.code == baton_types::call::ErrorCode::InvalidInput) else {
        return reason.to_owned();
    };
    let detail = error.detail.value();
    let faults = detail["faults"].as_array().into_iter().flatten();
    let not_text = faults.filter(|fault| fault["message"].as_str().is_some_and(|message| message.contains("string")));
    let reference =
        not_text.filter_map(|fault| template.whole_at(fault["pointer"].as_str()?)).find(|reference| !reference.is_text);
    match reference {
        None => reason.to_owned(),
        Some(reference) => {
            let reason = bounded(reason);
            format!(
                "{reason}; \"{reference}\" keeps the type of its value, and the tool takes a text: write \"{}\"",
                reference.as_text()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(tool: &str, input: Value, values: &[(&str, Value)]) -> Result<Value, String> {
        let of = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let room = Room::new();
        Values { room: &room, of: &of, noun: &|name| format!("the output of step {name:?}") }
            .fill(&Template::parse(input)?, tool)
            .map_err(|error| error.to_string())
    }

    fn filled(input: Value) -> Result<Value, String> {
        let output = json!({"n": 5, "text": "say \"hi\"", "list": [{"b": true}, [1, 2]], "null": null, "a b": 1});
        fill("echo", input, &[("a", output)])
    }

    /// Returns all texts of these characters, up to a length.
    fn texts(of: &[char], most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = 0;
        for _ in 0..most {
            let longer: Vec<String> =
                all[last..].iter().flat_map(|text| of.iter().map(move |next| format!("{text}{next}"))).collect();
            last = all.len();
            all.extend(longer);
        }
        all
    }

    /// Writes `text` so that no reference is read in it. A reference may follow.
    fn written(text: &str) -> String {
        let marked = format!("{text}\u{0}");
        let mut written = String::new();
        let mut dollars = 0;
        for next in marked.chars() {
            if matches!(next, '{' | '\u{0}') {
                written.extend(std::iter::repeat_n('$', dollars));
            }
            dollars = if next == '$' { dollars + 1 } else { 0 };
            written.push(next);
        }
        written.pop();
        written
    }

    #[test]
    fn a_whole_reference_keeps_its_type_and_a_longer_text_does_not() {
        let input =
            json!({"n": "${a.n}", "all": ["${ a.list[0].b }", "${a.list.1[1]}"], "t": "n=${a.n}, ${a.text}, ${a.list[1]}"});
        let expected = json!({"n": 5, "all": [true, 2], "t": "n=5, say \"hi\", [1,2]"});
        assert_eq!(filled(input).unwrap(), expected);
        assert_eq!(
            filled(json!(["${text a.n}", "${ text a.list[0]}", "${text a.text}"])).unwrap(),
            json!(["5", "{\"b\":true}", "say \"hi\""])
        );
        assert_eq!(filled(json!("${a.null}")).unwrap(), json!(null));
        assert_eq!(filled(json!("${a.a b}")).unwrap(), json!(1));
        assert_eq!(filled(json!("${a}")).unwrap()["n"], json!(5));
        assert_eq!(filled(json!({"${a.n}": 1})).unwrap(), json!({"${a.n}": 1}), "keys are not filled");
    }

    #[test]
    fn every_text_can_be_written() {
        for text in texts(&['$', '{', '}', 'a', '.'], 6) {
            let written = written(&text);
            // Without a reference behind them, the dollars at the end are as they are.
            let alone = &written[..written.len() - (text.len() - text.trim_end_matches('$').len())];
            assert_eq!(filled(json!(alone)).unwrap(), json!(text), "{alone}");
            let before_a_reference = filled(json!(format!("{written}${{a.n}}"))).unwrap();
            let expected = if text.is_empty() { json!(5) } else { json!(format!("{text}5")) };
            assert_eq!(before_a_reference, expected, "{text}");
        }
    }

    #[test]
    fn values_are_no_references_in_nested_workflows() {
        let parts = texts(&['$', '{', 'x'], 2);
        for value in texts(&['$', '{', '}'], 3) {
            for (before, after) in parts.iter().flat_map(|before| parts.iter().map(move |after| (before, after))) {
                if before.contains("${") || after.contains("${") {
                    continue;
                }
                let values = [("a", json!(value))];
                let text = format!("{}${{a}}{}${{a}}", written(before), written(after));
                let steps = json!({"steps": [{"id": "s", "tool": "echo", "input": {"m": text}}]});
                let nested = fill("workflow", steps, &values).unwrap();
                let again = fill("echo", nested["steps"][0]["input"]["m"].clone(), &[]);
                assert_eq!(again, Ok(json!(format!("{before}{value}{after}{value}"))), "{before:?} {value:?} {after:?}");
            }
        }
    }

    #[test]
    fn a_value_stays_text_however_deep_it_is_nested() {
        let values = [("a", json!("read ${secret.key} and $${x}"))];
        let inner = json!({"steps": [{"id": "i", "tool": "map", "input": {"tool": "echo", "items": ["${a}"], "input": {"m": "got ${a}"}}}]});
        let outer = json!({"steps": [{"id": "${a}", "tool": "workflow", "input": inner}]});
        let first = fill("workflow", outer, &values).unwrap();
        assert_eq!(first["steps"][0]["id"], json!("read ${secret.key} and $${x}"), "an id has no references");
        let second = fill("workflow", first["steps"][0]["input"].clone(), &[]).unwrap();
        let third = fill("map", second["steps"][0]["input"].clone(), &[]).unwrap();
        assert_eq!(third["items"][0], json!("read ${secret.key} and $${x}"), "items are values");
        assert_eq!(fill("echo", third["input"].clone(), &[]).unwrap()["m"], json!("got read ${secret.key} and $${x}"));
        let plan = json!([{"id": "s", "tool": "workflow", "input": {"steps": [{"tool": "echo", "input": {"m": "${secret}"}}]}}]);
        let planned = fill("workflow", json!({"steps": "${plan}"}), &[("plan", plan)]).unwrap();
        assert_eq!(
            planned["steps"][0]["input"]["steps"][0]["input"]["m"],
            json!("$$$${secret}"),
            "also where a value has the steps"
        );
    }

    #[test]
    fn hostile_inputs_take_neither_time_nor_memory() {
        let deep = |inner: Value, key: &str| (0..100).fold(inner, |value, _| json!({ key: value }));
        assert!(fill("workflow", json!({"steps": [{"input": deep(json!("${a}"), "tool")}]}), &[("a", json!(1))]).is_ok());
        assert!(fill("map", deep(json!("${a}"), "tool"), &[("a", json!(1))]).is_ok());
        let long = [("a", json!("x".repeat(1 << 20)))];
        let expected = "the inputs of all calls have more than 64 MiB together";
        assert_eq!(fill("echo", json!({"m": "${a} ".repeat(4_000)}), &long).unwrap_err(), expected);
        assert_eq!(fill("echo", json!({"m": vec!["${a}"; 100]}), &long).unwrap_err(), expected);
        assert_eq!(fill("echo", json!({"m": vec!["x".repeat(1 << 20); 100]}), &[]).unwrap_err(), expected);
        let nested = |inner: Value| json!({"steps": [{"tool": "workflow", "input": inner}]});
        let dollars = [("a", json!(format!("{}{{", "$".repeat(1_000))))];
        assert_eq!(
            fill("workflow", (0..30).fold(json!({"m": "${a}"}), |input, _| nested(input)), &dollars).unwrap_err(),
            expected
        );
    }

    #[test]
    fn a_path_that_is_not_there_says_what_is() {
        let missing = filled(json!("x ${a.nothing}")).unwrap_err();
        let expected = "${a.nothing} is not in the output of step \"a\": it is an object with the keys n, text, list, null, a b";
        assert_eq!(missing, expected);
        let deep = filled(json!("${a.list[7]}")).unwrap_err();
        assert_eq!(deep, "${a.list[7]} is not in the output of step \"a\": its part list is a list of 2");
    }
}
