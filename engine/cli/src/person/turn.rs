//! Lines of a person as a turn of a model: texts and calls.
//!
//! A line that begins with the name of an offered tool, followed by nothing, `{` or `@`, is a call. So is a line of that form
//! with an unknown name, which gets a message: it is rather a typing error than a text.

use std::path::PathBuf;
use std::sync::Arc;

use baton_types::call::ModelCall;
use baton_types::json::{self, Json};
use baton_types::model::{ModelTurn, ToolDefinition};
use serde_json::{Map, Value};

use super::MAX_BYTES;

/// The turn that a person is typing.
pub(super) struct Draft {
    tools: Arc<[Arc<ToolDefinition>]>,
    folder: PathBuf,
    lines: Vec<String>,
    calls: Vec<ModelCall>,
    /// Whether the last call that was typed is not in the turn.
    lacks_line: bool,
}

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It is part of the turn.
    More,
    /// It ends the turn.
    Send,
    /// It asks for the tools.
    Help,
    /// It is left out, for this reason.
    Fault(String),
}

impl Draft {
    /// Returns an empty turn that may call `tools`. `@FILE` is read from `folder`.
    pub(super) fn new(tools: Arc<[Arc<ToolDefinition>]>, folder: PathBuf) -> Self {
        Self { tools, folder, lines: Vec::new(), calls: Vec::new(), lacks_line: false }
    }

    /// Returns true if the turn has neither text nor calls.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.calls.is_empty()
    }

    /// Adds a line, or returns what else it means.
    pub(super) fn add(&mut self, line: &str) -> Step {
        if line.len() >= MAX_BYTES {
            return Step::Fault(format!("a line has at most {MAX_BYTES} bytes; use @FILE for a longer input"));
        }
        match line.trim() {
            "" if self.is_empty() => {
                return Step::Fault("the turn is empty; type a text or a call first, or ? for help".to_owned());
            }
            // Without the line that was left out, the rest may end the task.
            "" if std::mem::take(&mut self.lacks_line) => {
                let fault = "a line was left out; type it again, or send the turn without it by another empty line";
                return Step::Fault(fault.to_owned());
            }
            "" => return Step::Send,
            "?" | "help" => return Step::Help,
            _ => {}
        }
        match self.call(line.trim()) {
            Some(Ok(call)) => {
                self.calls.push(call);
                self.lacks_line = false;
            }
            Some(Err(fault)) => {
                self.lacks_line = true;
                return Step::Fault(fault);
            }
            None => self.lines.push(line.strip_prefix('\\').unwrap_or(line).to_owned()),
        }
        Step::More
    }

    /// Returns the turn.
    pub(super) fn turn(self) -> ModelTurn {
        let text = self.lines.join("\n");
        if self.calls.is_empty() { ModelTurn::text(text) } else { ModelTurn { text, ..ModelTurn::calls(self.calls) } }
    }

    /// Returns the call in `line`, or its fault; `None` if the line is text.
    fn call(&self, line: &str) -> Option<Result<ModelCall, String>> {
        let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
        let (name, rest) = line.split_at(line.find(|character| !is_part(character)).unwrap_or(line.len()));
        let input = rest.trim_start();
        if rest.starts_with('(') && self.tools.iter().any(|tool| names(tool).any(|known| known == name)) {
            return Some(Err(format!("{name} was not called: write {name} {{…}}, without parentheses")));
        }
        let is_separate = input.len() < rest.len();
        let is_call = input.starts_with('{') || (is_separate && input.starts_with('@'));
        if name.is_empty() || !(is_call || input.is_empty()) {
            return None;
        }
        let Some(tool) = self.tools.iter().find(|tool| names(tool).any(|known| known == name)) else {
            // A single word is text, and so is a word before a brace that begins no JSON.
            let is_call = is_call && (input.starts_with('@') || input[1..].trim_start().starts_with(['"', '}']));
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.shown_name()).collect();
            return is_call.then(|| {
                Err(format!("no tool {name} is offered; there are {}. A line of text may begin with \\", known.join(", ")))
            });
        };
        let input = match input.strip_prefix('@') {
            Some(file) => self.file(file.trim()),
            None if input.is_empty() => Ok(Map::new()),
            None => object(input),
        };
        Some(
            input
                .map(|input| ModelCall {
                    name: tool.name.as_deref().map(Box::from),
                    ..ModelCall::new(tool.id.as_str(), Json::from(Value::Object(input)))
                })
                .map_err(|fault| format!("{name} was not called: {fault}")),
        )
    }

    /// Reads an input from `file`.
    fn file(&self, file: &str) -> Result<Map<String, Value>, String> {
        let path = self.folder.join(file);
        let failed = |error: std::io::Error| format!("{file} cannot be read: {error}");
        let size = std::fs::metadata(&path).map_err(failed)?;
        if !size.is_file() || size.len() > MAX_BYTES as u64 {
            return Err(format!("{file} must be a file of at most {MAX_BYTES} bytes"));
        }
        object(&std::fs::read_to_string(&path).map_err(failed)?).map_err(|fault| format!("{file}: {fault}"))
    }
}

/// Parses the input of a call.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    match json::read(text) {
        Ok(Value::Object(input)) => Ok(input),
        Ok(_) => Err("the input must be a JSON object, such as {\"message\": \"hello\"}".to_owned()),
        Err(error) => Err(format!("the input is not JSON: {error}")),
    }
}

fn names(tool: &ToolDefinition) -> impl Iterator<Item = &str> {
    [Some(tool.id.as_str()), tool.name.as_deref()].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use baton_types::id::ToolId;
    use baton_types::model::FinishReason;
    use serde_json::json;

    use super::*;

    fn draft(folder: &std::path::Path) -> Draft {
        let tool = |id: &str, name: Option<&str>| {
            let (id, name) = (ToolId::new(id), name.map(str::to_owned));
            Arc::new(ToolDefinition { id, name, description: String::new(), input_schema: Json::from(json!({"type": "object"})) })
        };
        Draft::new([tool("echo", None), tool("http_post", Some("post"))].into(), folder.to_owned())
    }

    fn fault(step: Step) -> String {
        match step {
            Step::Fault(fault) => fault,
            step => panic!("{step:?} is no fault"),
        }
    }

    #[test]
    fn a_turn_without_a_line_that_was_left_out_is_sent_only_on_purpose() {
        let folder = tempfile::tempdir().unwrap();
        let mut draft = draft(folder.path());
        assert_eq!(draft.add("I echo."), Step::More);
        assert!(fault(draft.add("echo({\"message\": \"a\"})")).contains("without parentheses"));
        assert!(fault(draft.add("")).contains("a line was left out"));
        assert_eq!(draft.add(""), Step::Send);
        assert!(fault(draft.add("echo {")).contains("not JSON"));
        assert_eq!(draft.add("echo {}"), Step::More);
        assert_eq!(draft.add(""), Step::Send, "the call was typed again");
    }

    #[test]
    fn texts_and_calls_make_one_turn() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("in.json"), r#"{"message": "from a file"}"#).unwrap();
        let mut draft = draft(folder.path());
        for line in ["I echo twice.", "echo {\"message\": \"a\"}", "echo @in.json", "post", "\\help", "", "more"] {
            assert_eq!(draft.add(line), if line.is_empty() { Step::Send } else { Step::More }, "{line}");
            if line.is_empty() {
                break;
            }
        }
        let turn = draft.turn();
        assert_eq!((turn.text.as_str(), turn.finish), ("I echo twice.\nhelp", FinishReason::ToolCalls));
        let calls: Vec<_> =
            turn.calls.iter().map(|call| (call.tool.as_str(), call.name.as_deref(), call.input.value())).collect();
        let expected = [
            ("echo", None, json!({"message": "a"})),
            ("echo", None, json!({"message": "from a file"})),
            ("http_post", Some("post"), json!({})),
        ];
        assert_eq!(calls, expected);
    }

    #[test]
    fn a_text_is_an_answer_without_calls() {
        let mut draft = draft("/".as_ref());
        for line in ["done", "", "{\"json\": true}", "nothing {is} called here", "mail@example.org"] {
            if !line.is_empty() {
                assert_eq!(draft.add(line), Step::More, "{line}");
            }
        }
        assert_eq!(draft.add("?"), Step::Help);
        let turn = draft.turn();
        assert_eq!(turn, ModelTurn::text("done\n{\"json\": true}\nnothing {is} called here\nmail@example.org"));
    }

    #[test]
    fn a_bad_call_is_left_out_and_explained() {
        let folder = tempfile::tempdir().unwrap();
        let mut draft = draft(folder.path());
        assert!(fault(draft.add("")).contains("the turn is empty"));
        assert!(fault(draft.add("ecko {\"message\": 1}")).starts_with("no tool ecko is offered; there are echo, post"));
        assert!(fault(draft.add("echo {\"message\": ")).starts_with("echo was not called: the input is not JSON: EOF"));
        assert!(fault(draft.add("echo @nowhere.json")).starts_with("echo was not called: nowhere.json cannot be read"));
        std::fs::write(folder.path().join("list.json"), "[1]").unwrap();
        assert!(fault(draft.add("echo @list.json")).contains("list.json: the input must be a JSON object"));
        assert!(fault(draft.add(&"x".repeat(MAX_BYTES))).contains("use @FILE"));
        assert!(draft.is_empty());
    }
}
