//! Shared test tools: jobs made of JSON, models made of closures, stores that fail on time, and tools.

pub(crate) mod failing;
pub(crate) mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baton_config::{Role, Sources};
use baton_machine::Run;
use baton_models::{FunctionModel, Model};
use baton_runtime::{Engine, InitialDocument, LoadedJob, RunHandle, RunOutcome, StartOptions, replay};
use baton_store::Store;
use baton_tool::{ToolFunction, registered_functions};
use baton_types::call::ModelCall;
use baton_types::config::Origin;
use baton_types::document::Documents;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::TaskId;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::path::DocumentPath;
use futures_util::StreamExt;
use serde_json::{Value, json};

/// The tools that run no code, as the product ships them.
const FLOW_TOOLS: [(&str, &str); 3] = [
    ("tool-configs/handoff.json", include_str!("../../../tool-configs/handoff.json")),
    ("tool-configs/ask_master.json", include_str!("../../../tool-configs/ask_master.json")),
    ("tool-configs/describe_tools.json", include_str!("../../../tool-configs/describe_tools.json")),
];

/// A job in the making.
pub(crate) struct TestJob {
    sources: Sources,
    functions: Vec<&'static ToolFunction>,
    documents: Vec<InitialDocument>,
}

impl TestJob {
    /// Returns a job whose root agent is `root`; `extra` is merged into `job.json`.
    pub(crate) fn new(root: &str, extra: Value) -> Self {
        let mut job = json!({
            "job_id": "test",
            "description": "A test.",
            "root": root,
            "request": "Begin.",
            "models": {"m": {"provider": "scripted", "script": "m.script.json"}},
        });
        merge(&mut job, extra);
        let mut sources = Sources::new("test");
        sources.add(Role::Job, "job.json", job.to_string());
        sources.add(Role::ModelScript, "m.script.json", json!({"agents": {}}).to_string());
        for (path, text) in FLOW_TOOLS {
            sources.add(Role::BuiltinTool, path, text);
        }
        Self { sources, functions: Vec::new(), documents: Vec::new() }
    }

    /// Adds models and providers, in the form of `models.json`.
    pub(crate) fn models(mut self, models: Value) -> Self {
        self.sources.add(Role::Models, "models.json", models.to_string());
        self
    }

    /// Adds a script that a model of the job answers by.
    pub(crate) fn script(mut self, file: &str, script: &Value) -> Self {
        self.sources.add(Role::ModelScript, file, script.to_string());
        self
    }

    /// Adds an agent with these tools.
    pub(crate) fn agent(self, id: &str, tools: &[&str]) -> Self {
        self.agent_with(id, tools, json!({}))
    }

    /// Adds an agent with these tools; `extra` is merged into its config.
    pub(crate) fn agent_with(mut self, id: &str, tools: &[&str], extra: Value) -> Self {
        let mut agent = json!({
            "agent_id": id,
            "description": format!("Does the work of {id}."),
            "model": "m",
            "system_prompt": format!("You are {id}."),
            "tools": tools,
        });
        merge(&mut agent, extra);
        self.sources.add(Role::Agent, format!("agents/{id}.json"), agent.to_string());
        self
    }

    /// Adds an agent that is the program `source`, with these tools; `extra` is merged into its config.
    pub(crate) fn program(mut self, id: &str, source: &str, tools: &[&str], extra: Value) -> Self {
        let file = format!("programs/{id}.py");
        let mut agent = json!({
            "agent_id": id,
            "description": format!("Does the work of {id}."),
            "program": file,
            "tools": tools,
        });
        merge(&mut agent, extra);
        self.sources.add(Role::Agent, format!("agents/{id}.json"), agent.to_string());
        self.sources.add(Role::Program, file, source);
        self
    }

    /// Adds a function tool of this binary without further parameters; `extra` is merged into its config.
    pub(crate) fn tool(mut self, id: &str, parameters: Value, extra: Value) -> Self {
        let registered = registered_functions().into_iter().find(|function| function.id == id);
        self.functions.extend(registered);
        let mut tool = json!({
            "tool_id": id,
            "type": "function_tool",
            "description": format!("Does {id}."),
            "parameters": parameters,
        });
        merge(&mut tool, extra);
        self.sources.add(Role::Tool, format!("tools/{id}.json"), tool.to_string());
        self
    }

    /// Changes keys of a tool that follows from other configs, such as `route_to_worker`.
    pub(crate) fn changed_tool(mut self, id: &str, keys: Value) -> Self {
        let mut tool = json!({"tool_id": id});
        merge(&mut tool, keys);
        self.sources.add(Role::Tool, format!("tools/{id}.json"), tool.to_string());
        self
    }

    /// Adds a built-in function tool.
    pub(crate) fn built_in(mut self, id: &str) -> Self {
        self.functions.extend(registered_functions().into_iter().find(|function| function.id == id));
        let file = format!("tool-configs/{id}.json");
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&file)).unwrap();
        self.sources.add(Role::BuiltinTool, file, text);
        self
    }

    /// Adds a built-in function tool, which comes with the program and needs no trust.
    pub(crate) fn built_in_of_program(mut self, id: &str) -> Self {
        self = self.built_in(id);
        self.sources.attribute(|source| (source.role == Role::BuiltinTool).then_some(Origin::BuiltIn));
        self
    }

    /// Adds a function tool whose config is `extra` with its id and description.
    pub(crate) fn tool_by_schema(mut self, id: &str, extra: Value) -> Self {
        let mut tool = json!({"tool_id": id, "type": "function_tool", "description": format!("Does {id}.")});
        merge(&mut tool, extra);
        self.sources.add(Role::Tool, format!("tools/{id}.json"), tool.to_string());
        self
    }

    /// Adds a configuration of a tool.
    pub(crate) fn configuration(mut self, id: &str, configuration: &Value) -> Self {
        self.sources.add(Role::Configuration, format!("configs/{id}.json"), configuration.to_string());
        self
    }

    /// Adds an initial document.
    pub(crate) fn document(mut self, path: &str, content: &str) -> Self {
        self.documents.push(InitialDocument::new(DocumentPath::parse(path).unwrap(), content.as_bytes()));
        self
    }

    /// Returns the job, loaded.
    pub(crate) fn load(self) -> LoadedJob {
        let loaded = LoadedJob::from_sources(self.sources, &self.functions);
        let mut job = loaded.unwrap_or_else(|faults| panic!("the test's job has faults:\n{faults}"));
        job.documents = self.documents;
        job
    }
}

fn merge(into: &mut Value, extra: Value) {
    let (Value::Object(into), Value::Object(extra)) = (into, extra) else { panic!("configs are objects") };
    into.extend(extra);
}

/// Returns a model that answers by agent and turn.
pub(crate) fn model(answer: impl Fn(&str, u32, &ModelRequest) -> ModelTurn + Send + Sync + 'static) -> Arc<dyn Model> {
    Arc::new(FunctionModel::new(move |request| Ok(answer(request.agent.as_str(), request.turn, request))))
}

/// Returns a turn that makes these calls.
pub(crate) fn calls(calls: &[(&str, Value)]) -> ModelTurn {
    ModelTurn::calls(calls.iter().map(|(tool, input)| ModelCall::new(*tool, input.clone())).collect())
}

/// Returns a turn that hands off.
pub(crate) fn handoff(summary: &str, documents: &[&str]) -> ModelTurn {
    calls(&[("handoff", json!({"result": {"summary": summary}, "documents": documents}))])
}

/// Returns an engine on `store` whose agents are answered by `model`.
pub(crate) fn engine(store: Arc<dyn Store>, model: &Arc<dyn Model>) -> Engine {
    Engine::builder().trust(baton_runtime::TrustEverything).store(store).model("m", Arc::clone(model)).build().unwrap()
}

/// Starts `job` and waits for its end.
pub(crate) async fn run_to_end(engine: &Engine, job: LoadedJob) -> Finished {
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    finish(engine, &handle).await
}

/// A finished run.
pub(crate) struct Finished {
    pub(crate) run: Arc<Run>,
    pub(crate) result: Value,
    pub(crate) status: &'static str,
    pub(crate) entries: Vec<Arc<Recorded>>,
}

/// Waits for the end of a run, and checks what must hold of every ended run: its entries are numbered without gaps, its
/// state is their fold, and replaying them renders the same requests.
pub(crate) async fn finish(engine: &Engine, handle: &RunHandle) -> Finished {
    let outcome = handle.outcome().await;
    let RunOutcome::Ended { end, result, run } = outcome else { panic!("the run did not end: {}", name_of(&outcome)) };
    let entries: Vec<Arc<Recorded>> = handle.entries().map(Result::unwrap).collect().await;
    for (expected, recorded) in (1..).zip(&entries) {
        assert_eq!(recorded.seq, expected);
    }
    let report = replay(engine, handle.id()).await.unwrap();
    assert_eq!(report.mismatches, []);
    assert_eq!(report.entries, entries.len() as u64);
    assert!(report.run == *run, "the state is not the fold of the timeline");
    check_results(&entries);
    Finished { run, result: result.output.value(), status: end.status.as_str(), entries }
}

pub(crate) fn name_of(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Ended { end, .. } => format!("ended {}", end.status.as_str()),
        RunOutcome::WaitingForPerson => "waiting for answers".to_owned(),
        RunOutcome::Stopped => "stopped".to_owned(),
        RunOutcome::ProviderAway(away) => format!("waiting for a provider: {away:?}"),
        RunOutcome::Failed(error) => format!("failed: {error}"),
    }
}

/// Checks that every call that began has exactly one result, or was closed with its subtree
/// (`every_call_has_one_result`).
fn check_results(entries: &[Arc<Recorded>]) {
    let mut results: BTreeMap<String, u32> = BTreeMap::new();
    for recorded in entries {
        match &recorded.entry {
            Entry::CallStarted(entry) => _ = results.entry(entry.call.to_string()).or_default(),
            Entry::CallFinished(entry) => *results.entry(entry.call.to_string()).or_default() += 1,
            Entry::CallRefused(entry) => *results.entry(entry.call.to_string()).or_default() += 1,
            _ => {}
        }
    }
    let wrong: Vec<_> = results.iter().filter(|(_, count)| **count > 1).collect();
    assert!(wrong.is_empty(), "calls with several results: {wrong:?}");
}

/// Returns the content of the workspace: path, version and hash of every newest document.
pub(crate) fn workspace(documents: &Documents) -> Vec<String> {
    documents
        .iter()
        .map(|(path, document)| format!("{path} v{} {}", document.current().version, document.current().content.hash))
        .collect()
}

/// Returns the result of the call `call`, as `status code`.
pub(crate) fn call_result(entries: &[Arc<Recorded>], call: &str) -> String {
    let found = entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallFinished(entry) if entry.call.as_str() == call => {
            let code = entry.result.error.as_ref().map_or("", |error| error.code.as_str());
            Some(format!("{} {code}", entry.result.status.as_str()).trim().to_owned())
        }
        Entry::CallRefused(entry) if entry.call.as_str() == call => Some(format!("refused {}", entry.error.code.as_str())),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("call {call} has no result"))
}

/// Returns the message of the error of call `call`.
pub(crate) fn call_error(entries: &[Arc<Recorded>], call: &str) -> String {
    let found = entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallFinished(entry) if entry.call.as_str() == call => {
            entry.result.error.as_ref().map(|error| error.message.clone())
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("call {call} has no error"))
}

/// Returns the output of the call `call`.
pub(crate) fn call_output(entries: &[Arc<Recorded>], call: &str) -> Value {
    let found = entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallFinished(entry) if entry.call.as_str() == call => Some(entry.result.output.value()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("call {call} has no result"))
}

/// Returns the root task.
pub(crate) fn root() -> TaskId {
    TaskId::root()
}

/// Returns true if a process exists and is not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}
