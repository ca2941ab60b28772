//! Commands that make calls: what they may do, how they misbehave, and what a crash does to them.

mod calls;
mod interrupted;
mod misbehaving;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_models::Model;
use baton_runtime::LoadedJob;
use baton_store::{MemoryStore, Store};
use serde_json::{Value, json};

use crate::support::{Finished, TestJob, calls, engine, handoff, is_alive, model, run_to_end};

/// The longest time of a command that misbehaves, on a machine that is busy.
const MOST: Duration = Duration::from_secs(30);

/// The beginning of each script in Python.
const PYTHON: &str = r#"
import json, os, sys, time

def read():
    return json.loads(sys.stdin.readline())

def write(line):
    print(json.dumps(line), flush=True)

def call(tool, name=None, **fields):
    named = {} if name is None else {"name": name}
    write({"call": {"tool": tool, "input": fields, **named}})

def result():
    return read()["result"]

here = os.path.dirname(sys.argv[0])
given = read()["input"]
"#;

/// The beginning of each script for the shell: it reads its input, and writes a call of the calculator with its number.
const SHELL: &str = r#"
here=$(dirname "$0")
read -r input
call() { echo "{\"call\": {\"tool\": \"calculator\", \"input\": {\"expression\": \"$1\"}}}"; }
"#;

/// A job folder with the script of the tool `errand`.
struct Errand {
    folder: tempfile::TempDir,
    command: Vec<String>,
    config: Value,
    limits: Value,
}

impl Errand {
    fn new(program: &str, file: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        let command = vec![program.to_owned(), file.to_owned()];
        Self { folder, command, config: json!({}), limits: json!({}) }
    }

    fn python(text: &str) -> Self {
        Self::new("python3", "errand.py", &format!("{PYTHON}{text}"))
    }

    fn shell(text: &str) -> Self {
        Self::new("sh", "errand.sh", &format!("{SHELL}{text}"))
    }

    fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    fn limits(mut self, limits: Value) -> Self {
        self.limits = limits;
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the job. Besides `errand` it has tools that a command may call, of every kind.
    fn job(&self) -> LoadedJob {
        let mut errand = json!({
            "exec": {"command": self.command},
            "input_schema": {"type": "object"},
            "effect": "keyed",
            "calls": ["*"],
        });
        errand.as_object_mut().unwrap().extend(self.config.as_object().unwrap().clone());
        let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
        let pretty = json!({
            "exec": {"command": ["printf", "{\\n  \"a\":\\r\\n  [1,\\n  9007199254740993]\\n}\\n"]},
            "input_schema": {"type": "object"},
            "effect": "pure",
        });
        let slow =
            json!({"exec": {"command": ["sh", "-c", "sleep 2; echo 1"]}, "input_schema": {"type": "object"}, "effect": "pure"});
        let granted = [
            "errand",
            "calculator",
            "write_file",
            "strike",
            "pretty",
            "slow",
            "ask_master",
            "route_to_worker",
            "sleep",
            "handoff",
        ];
        let mut job = TestJob::new("root", json!({"limits": {"calls": 20_000}}))
            .agent_with("root", &granted, json!({"limits": self.limits}))
            .agent("worker", &["handoff"])
            .built_in("calculator")
            .built_in("write_file")
            .built_in("sleep")
            .tool("strike", gate, json!({"effect": "keyed"}))
            .tool_by_schema("pretty", pretty)
            .tool_by_schema("slow", slow)
            .tool_by_schema("errand", errand)
            .document("notes.md", "A note.")
            .load();
        job.folder = Some(self.folder.path().to_owned());
        job
    }

    /// Runs the command once with `input`.
    async fn call(&self, input: Value) -> Finished {
        run_to_end(&engine(memory(), &running(input)), self.job()).await
    }
}

/// Returns a model whose root calls `errand` once, and whose worker answers with its task.
fn running(input: Value) -> Arc<dyn Model> {
    model(move |agent, turn, request| match (agent, turn) {
        ("root", 1) => calls(&[("errand", input.clone())]),
        ("root", _) => handoff("done", &[]),
        _ => handoff(&format!("answer of {}", request.task), &[]),
    })
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Waits until the process whose number is in `file` is gone.
async fn gone(file: &Path) {
    let number = std::fs::read_to_string(file).unwrap();
    let began = Instant::now();
    while is_alive(number.trim()) {
        assert!(began.elapsed() < MOST, "process {number} is still there");
        tokio::task::yield_now().await;
    }
}
