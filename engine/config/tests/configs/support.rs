//! A small sound job in texts, and functions for it.

use baton_config::{Faults, ModelRules, Role, Sources, Unconfigured, load};
use baton_tool::{BoxFuture, ToolContext, ToolError, ToolFunction};
use baton_types::config::{Configs, Origin};
use baton_types::json::Json;
use serde_json::{Value, json};

fn unused<'a>(_: &'a ToolContext, _: &'a Json) -> BoxFuture<'a, Result<Json, ToolError>> {
    Box::pin(async { Ok(Json::null()) })
}

fn word_count_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"text": {"type": "string"}, "limit": {"type": ["integer", "null"], "format": "uint32", "minimum": 0}},
        "required": ["text"],
        "additionalProperties": false
    })
}

/// A registered function, as `#[tool]` would write it.
pub(crate) static WORD_COUNT: ToolFunction = ToolFunction {
    id: "word_count",
    name: "word_count",
    file: "tools/src/word_count.rs",
    line: 4,
    parameters: word_count_parameters,
    blocking: false,
    invoke: unused,
};

pub(crate) const JOB: &str = r#"{
  "job_id": "demo",
  "description": "A demonstration",
  "root": "lead",
  "request": {
    "text": "Count the words of {{ inputs.year }}.",
    "inputs": { "year": { "type": "integer", "description": "Which year", "default": 2024 } }
  },
  "documents": ["notes.txt"],
  "models": { "scripted": { "provider": "scripted", "script": "demo.script.json" } }
}"#;

pub(crate) const LEAD: &str = r#"{
  "agent_id": "lead",
  "description": "Leads",
  "model": "scripted",
  "system_prompt": { "file": "prompts/lead.md" },
  "tools": ["route_to_counter", "handoff"]
}"#;

pub(crate) const COUNTER: &str = r#"{
  "agent_id": "counter",
  "description": "Counts",
  "model": "scripted",
  "system_prompt": "You are {{ agent.id }}. The year is {{ inputs.year }}.",
  "tools": ["word_count", "handoff", "ask_master", "note"],
  "limits": { "turns": 7 }
}"#;

pub(crate) const WORD_COUNT_CONFIG: &str = r#"{
  "tool_id": "word_count",
  "type": "function_tool",
  "description": "Counts words",
  "parameters": {
    "text": { "type": "string", "description": "Input text", "required": true },
    "limit": { "type": "integer", "description": "At most", "required": false }
  },
  "returns": { "count": "integer" },
  "examples": [{ "explanation": "Two words", "input": { "text": "a b" }, "output": { "count": 2 } }],
  "effect": "pure"
}"#;

pub(crate) const HANDOFF: &str = r#"{
  "tool_id": "handoff",
  "type": "handoff",
  "description": "Finish",
  "parameters": {
    "result": { "type": "object", "description": "The result", "required": true },
    "documents": { "type": "array", "items": { "type": "string" }, "description": "Paths", "required": false }
  }
}"#;

pub(crate) const ASK_MASTER: &str = r#"{
  "tool_id": "ask_master",
  "type": "ask_master",
  "description": "Ask",
  "parameters": { "question": { "type": "string", "description": "The question", "required": true } }
}"#;

pub(crate) const NOTE: &str = r#"{
  "tool_id": "note",
  "type": "non_function_tool",
  "description": "Note something",
  "input_schema": { "type": "object", "properties": { "text": { "type": "string", "pattern": "^[a-z ]+$" } } }
}"#;

/// The files of the job; a test replaces, adds and removes.
pub(crate) struct Files {
    texts: Vec<(Role, String, Vec<u8>)>,
    documents: Vec<String>,
    functions: Vec<&'static ToolFunction>,
    /// Origin of the tool configs outside of `tools/`.
    builtin: Origin,
}

/// Returns the sound job.
pub(crate) fn sound() -> Files {
    let files = [
        (Role::Job, "job.json", JOB),
        (Role::Agent, "agents/lead.json", LEAD),
        (Role::Agent, "agents/counter.json", COUNTER),
        (Role::BuiltinTool, "tool-configs/word_count.json", WORD_COUNT_CONFIG),
        (Role::BuiltinTool, "tool-configs/handoff.json", HANDOFF),
        (Role::BuiltinTool, "tool-configs/ask_master.json", ASK_MASTER),
        (Role::Tool, "tools/note.json", NOTE),
        (Role::Prompt, "prompts/lead.md", "You lead {% for agent in agents %}{{ agent.id }} {% endfor %}in {{ job.id }}."),
        (Role::ModelScript, "demo.script.json", "{}"),
    ];
    Files {
        texts: files.map(|(role, path, text)| (role, path.to_owned(), text.as_bytes().to_vec())).to_vec(),
        documents: vec!["documents/notes.txt".to_owned()],
        functions: vec![&WORD_COUNT],
        builtin: Origin::BuiltIn,
    }
}

impl Files {
    /// Adds or replaces a file.
    pub(crate) fn with(mut self, role: Role, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.texts.retain(|(_, known, _)| known != path);
        self.texts.push((role, path.to_owned(), content.as_ref().to_vec()));
        self
    }

    /// Replaces a piece of a file's text; the piece must be there.
    pub(crate) fn edited(mut self, path: &str, piece: &str, by: &str) -> Self {
        let file = self.texts.iter_mut().find(|(_, known, _)| known == path).expect("the file exists");
        let text = String::from_utf8(file.2.clone()).expect("the file is text");
        assert!(text.contains(piece), "{path} does not contain {piece}");
        file.2 = text.replacen(piece, by, 1).into_bytes();
        self
    }

    pub(crate) fn without(mut self, path: &str) -> Self {
        self.texts.retain(|(_, known, _)| known != path);
        self.documents.retain(|known| known != path);
        self
    }

    pub(crate) fn functions(mut self, functions: &[&'static ToolFunction]) -> Self {
        self.functions = functions.to_vec();
        self
    }

    /// Sets the origin of the tool configs outside of `tools/`.
    pub(crate) fn said_by(mut self, origin: Origin) -> Self {
        self.builtin = origin;
        self
    }

    pub(crate) fn sources(&self) -> Sources {
        let mut sources = Sources::new("demo");
        for (role, path, content) in &self.texts {
            let origin = match role {
                Role::BuiltinTool => self.builtin,
                Role::UserModels => Origin::Person,
                _ => Origin::Job,
            };
            sources.add_from(origin, *role, path.as_str(), content);
        }
        for document in &self.documents {
            sources.add_existing(document.as_str());
        }
        sources
    }

    pub(crate) fn load(&self) -> Result<Configs, Faults> {
        self.load_from(&self.sources())
    }

    pub(crate) fn load_from(&self, sources: &Sources) -> Result<Configs, Faults> {
        load(sources, &self.functions, Unconfigured::Refused, &rules())
    }

    /// Returns the message about a faulty job.
    pub(crate) fn faults(&self) -> String {
        self.load().expect_err("the job is faulty").to_string()
    }

    /// Returns the message; empty if the job is valid.
    pub(crate) fn told(&self) -> String {
        self.load().err().map(|faults| faults.to_string()).unwrap_or_default()
    }
}

/// Returns a program that knows two providers.
pub(crate) fn rules() -> ModelRules<'static> {
    ModelRules {
        check_script: &check_script,
        providers: &["acme", "local"],
        media: |_| baton_types::config::Media::ALL,
        embeds: |_| true,
        own_settings: &["messages"],
        boolean_settings: &["calls_in_text"],
        refused_settings: &[("later", "nothing waits")],
    }
}

/// Scripts that say `"bad"` are bad, at that key.
fn check_script(text: &str) -> Vec<(String, String)> {
    let script: Value = serde_json::from_str(text).expect("the loader checks that scripts are JSON");
    script.get("bad").map(|_| ("/bad".to_owned(), "this script cannot be followed".to_owned())).into_iter().collect()
}

/// Loads a faulty job and compares what a person sees with `expected`, which begins and ends with a line break.
#[track_caller]
pub(crate) fn check(files: Files, expected: &str) {
    let shown = files.faults();
    assert!(shown == expected.trim_matches('\n'), "expected:{expected}\nshown:\n{shown}\n");
}
