//! `tool.request.v1`: a record that asks for the execution of a tool (seed 003).
//!
//! The tool runs with the authority of the record's creator, which the store knows: what the record claims about its author does not
//! count. An agent's request has the function tools, the approvals and the limits of the agent in the run that wrote it, and the limits of
//! that run's job. Where another agent of that run needs an approval for the tool, the request needs it too, so that no agent avoids an
//! approval by a request. Requests delegate nothing: the rules of the tasks above would have to hold for the callees.

use std::path::PathBuf;
use std::sync::Arc;

use baton_breadcrumb::Trigger;
use baton_config::{Role, Sources};
use baton_runtime::{LoadedJob, RunError};
use baton_types::breadcrumb::Breadcrumb;
use baton_types::config::{Configs, Tool};
use baton_types::id::{AgentId, ToolId};
use baton_types::principal::Principal;
use baton_types::tool_type::Then;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Listener, NoRun, Planned};

/// The agent that calls the tools that persons and programs ask for.
const RUNNER: &str = "tool-runner";

/// The model of the run: a script with the one call.
const MODEL: &str = "request";
const SCRIPT: &str = "request.script.json";

/// The context of a request. Further keys are for people and other programs.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) tool: String,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default, rename = "requestId", alias = "request_id")]
    pub(super) id: Option<String>,
    #[serde(default)]
    config_id: Option<String>,
}

impl Request {
    /// Reads a request.
    pub(super) fn read(record: &Breadcrumb) -> Result<Self, String> {
        let context = record.context.text();
        if !context.trim_start().starts_with('{') {
            return Err("the request is not an object".to_owned());
        }
        let read: Self = serde_json::from_str(context).map_err(|error| format!("the request cannot be read: {error}"))?;
        Ok(Self { id: read.id.filter(|id| !id.is_empty()), ..read })
    }
}

/// Plans the run that executes the tool, or refuses the request.
pub(super) async fn plan(listener: &Listener, trigger: &Trigger, record: &Breadcrumb) -> Result<Planned, NoRun> {
    let request = Request::read(record).map_err(NoRun::Refused)?;
    if request.input.as_ref().is_some_and(|input| !input.is_object()) {
        return Err(NoRun::Refused("`input` is an object with the tool's parameters".to_owned()));
    }
    let job = match (&record.created_by, &trigger.cause) {
        (Principal::Agent(agent), Some(cause)) => {
            let state = match listener.engine.state(cause).await {
                Err(RunError::UnknownRun(_)) => {
                    return Err(NoRun::Refused("the run that made the request was removed".to_owned()));
                }
                state => state?,
            };
            let started =
                state.started().cloned().ok_or_else(|| NoRun::Refused("the run that made the request is empty".to_owned()))?;
            let sources = listener.engine.pinned_sources(&started).await?;
            let folder = started.folder.as_ref().map(Into::into);
            in_folder(folder, of_agent(listener, &sources, state.configs(), agent, &request)?)
        }
        (Principal::Agent(_), None) => {
            return Err(NoRun::Refused("the run that wrote the request is unknown, so its author's rights are too".to_owned()));
        }
        (Principal::Person(_) | Principal::Program(_) | Principal::Engine, _) => {
            let configurations: Vec<&String> = request.config_id.iter().collect();
            let agent = json!({"agent_id": RUNNER, "tools": [request.tool], "configs": configurations});
            let job = job_of(RUNNER, &request, Map::new()).to_string();
            let files = (listener.read_project)(&job).map_err(NoRun::Failed)?;
            let mut sources = files.sources;
            let tools = listener.engine.load_tools(&sources).map_err(|faults| NoRun::Failed(faults.to_string()))?;
            check_tool(tools.get(&ToolId::new(request.tool.as_str())), &request.tool)?;
            check_configuration(&sources, request.config_id.as_deref())?;
            add_agent(&mut sources, agent, &request);
            // The files of a project can be corrected.
            let loaded = listener.engine.load(sources.in_order()).map_err(|faults| NoRun::Failed(faults.to_string()))?;
            in_folder(Some(files.folder), loaded)
        }
    };
    Ok(Planned { job, request: format!("Call {}.", request.tool), documents: Vec::new(), model: None })
}

/// Returns the job of a request by an agent, from the files of the run that made it: the agent alone, with its function tools.
fn of_agent(
    listener: &Listener,
    sources: &Sources,
    configs: &Configs,
    agent: &AgentId,
    request: &Request,
) -> Result<LoadedJob, NoRun> {
    let config = configs.agents.get(agent).ok_or_else(|| NoRun::Refused(format!("the agent {agent} is not in its run")))?;
    check_tool(config.tools.get(&ToolId::new(request.tool.as_str())), &request.tool)?;
    let grant = |tool: &Tool| {
        let granted = configs.agents.values().filter(|other| other.tools.contains_key(&tool.id));
        match granted.map(|other| other.approver(tool)).max().flatten() {
            Some(approver) => json!({"tool": tool.id, "approval": approver}),
            None => json!(tool.id),
        }
    };
    // Without delegations: callees and their masters are not part of this run.
    let functions = config.tools.values().filter(|tool| tool.tool_type.behavior().then == Then::Continue);
    let tools: Vec<Value> = functions.map(|tool| grant(tool)).collect();
    let configurations: Vec<&str> = config.configurations.keys().map(|id| &**id).collect();
    let form = json!({"agent_id": agent, "tools": tools, "configs": configurations, "limits": config.limits});
    let of_run = sources.of(Role::Job).next().and_then(|job| serde_json::from_str(&job.text).ok()).unwrap_or_default();
    let mut kept = sources.clone().without(Role::Job).without(Role::Agent).without(Role::SharedAgent);
    kept.add(Role::Job, "job.json", job_of(agent.as_str(), request, of_run).to_string());
    add_agent(&mut kept, form, request);
    // The faults would show files to the readers of the answer.
    listener.engine.load(kept.in_order()).map_err(|faults| {
        tracing::warn!(%agent, "{faults}");
        NoRun::Refused("the files of the run that wrote the request cannot be loaded again".to_owned())
    })
}

fn in_folder(folder: Option<PathBuf>, mut job: LoadedJob) -> LoadedJob {
    job.folder = folder;
    job
}

/// Returns the job of a request. `of_run` is the job of the run that made it: its models and limits hold here too.
fn job_of(agent: &str, request: &Request, of_run: Map<String, Value>) -> Value {
    let mut job = of_run;
    job.retain(|key, _| matches!(key.as_str(), "models" | "limits" | "session_limits" | "summary_model" | "outage_seconds"));
    let mut job = Value::Object(job);
    job["job_id"] = json!(RUNNER);
    job["description"] = json!(format!("Executes {} for a tool.request.v1.", request.tool));
    job["root"] = json!(agent);
    job["request"] = json!("Call the tool.");
    job["models"][MODEL] = json!({"provider": "scripted", "script": SCRIPT});
    job
}

/// Adds the agent that makes the call, and the script of its model.
fn add_agent(sources: &mut Sources, mut agent: Value, request: &Request) {
    let id = agent["agent_id"].as_str().unwrap_or_default().to_owned();
    for (key, text) in [("description", "Calls one tool once."), ("model", MODEL), ("system_prompt", "Call the tool.")] {
        agent[key] = json!(text);
    }
    let mut call = json!({"tool": request.tool, "input": request.input.clone().unwrap_or_else(|| json!({}))});
    if let Some(config) = &request.config_id {
        call["config_id"] = json!(config);
    }
    let script = json!({"agents": {&id: {"turns": [{"calls": [call], "literal": true}, {"text": "done"}]}}});
    sources.add(Role::Agent, format!("agents/{id}.json"), agent.to_string());
    sources.add(Role::ModelScript, SCRIPT, script.to_string());
}

/// Refuses a configuration that the project does not have.
fn check_configuration(sources: &Sources, id: Option<&str>) -> Result<(), NoRun> {
    let Some(id) = id else { return Ok(()) };
    let path = format!("configs/{id}.json");
    let mut files = sources.of(Role::Configuration).chain(sources.of(Role::SharedConfiguration));
    if files.any(|file| file.path == path) { Ok(()) } else { Err(NoRun::Refused(format!("there is no configuration {id:?}"))) }
}

/// Refuses a tool that is unknown, and one that is not a function: delegations, questions and handoffs act on the task that calls them.
fn check_tool(tool: Option<&Arc<Tool>>, name: &str) -> Result<(), NoRun> {
    let tool = tool.ok_or_else(|| NoRun::Refused(format!("there is no tool {name:?} for the author of the request")))?;
    if tool.tool_type.behavior().then == Then::Continue {
        return Ok(());
    }
    let kind = tool.tool_type;
    Err(NoRun::Refused(format!(
        "{name} is of type {kind}, which acts on the task that calls it; a request can only call functions"
    )))
}
