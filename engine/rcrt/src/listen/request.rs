//! `tool.request.v1`: a record that asks for the execution of a tool (seed 003).
//!
//! The tool runs with the authority of the record's creator, which the store knows: what the record claims about its author does not
//! count. An agent's request has the grants, the approvals and the limits of the agent in the run that wrote it. Where another agent of
//! that run needs an approval for the tool, the request needs it too, so that no agent avoids an approval by a request.

use std::collections::BTreeSet;
use std::path::PathBuf;

use baton_breadcrumb::Trigger;
use baton_config::{Role, Sources};
use baton_runtime::{LoadedJob, RunError};
use baton_types::breadcrumb::Breadcrumb;
use baton_types::config::{Agent, Configs, Tool};
use baton_types::id::{AgentId, ToolId};
use baton_types::principal::Principal;
use baton_types::tool_type::Then;
use serde::Deserialize;
use serde_json::{Value, json};

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
        serde_json::from_str(record.context.text()).map_err(|error| format!("the request cannot be read: {error}"))
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
            return Err(NoRun::Refused("no run is known that made the request, so its author's rights are not".to_owned()));
        }
        (Principal::Person(_) | Principal::Program(_) | Principal::Engine, _) => {
            let agent = json!({"agent_id": RUNNER, "tools": [request.tool]});
            let job = job_of(RUNNER, &request).to_string();
            let files = (listener.read_project)(&job).map_err(NoRun::Failed)?;
            let mut sources = files.sources;
            let tools = listener.engine.load_tools(&sources).map_err(|faults| NoRun::Failed(faults.to_string()))?;
            if !tools.contains_key(&ToolId::new(request.tool.as_str())) {
                return Err(NoRun::Refused(format!("there is no tool {:?}", request.tool)));
            }
            add_agent(&mut sources, agent, &request);
            in_folder(Some(files.folder), loaded(listener, sources)?)
        }
    };
    check_type(&job.configs, &request.tool)?;
    Ok(Planned { job, request: format!("Call {}.", request.tool), documents: Vec::new(), model: None })
}

/// Returns the job of a request by an agent, from the files of the run that made it.
fn of_agent(
    listener: &Listener,
    sources: &Sources,
    configs: &Configs,
    agent: &AgentId,
    request: &Request,
) -> Result<LoadedJob, NoRun> {
    let config = configs.agents.get(agent).ok_or_else(|| NoRun::Refused(format!("the agent {agent} is not in its run")))?;
    if !config.tools.contains_key(&ToolId::new(request.tool.as_str())) {
        return Err(NoRun::Refused(format!("there is no tool {:?} for {agent}", request.tool)));
    }
    let grant = |tool: &Tool| {
        let strictest =
            configs.agents.values().filter(|other| other.tools.contains_key(&tool.id)).map(|other| other.approver(tool)).max();
        match strictest.flatten() {
            Some(approver) => json!({"tool": tool.id, "approval": approver}),
            None => json!(tool.id),
        }
    };
    let tools: Vec<Value> = config.tools.values().map(|tool| grant(tool)).collect();
    let configurations: Vec<&str> = config.configurations.keys().map(|id| &**id).collect();
    let form = json!({"agent_id": agent, "tools": tools, "configs": configurations, "limits": config.limits});
    // Other agents would need their models and keys.
    let callees = callees(configs, config);
    let is_callee = |path: &str| callees.iter().any(|callee| path == format!("agents/{callee}.json"));
    let mut kept = sources.clone().without(Role::Job).with_agents(is_callee);
    kept.add(Role::Job, "job.json", job_of(agent.as_str(), request).to_string());
    add_agent(&mut kept, form, request);
    loaded(listener, kept)
}

fn in_folder(folder: Option<PathBuf>, mut job: LoadedJob) -> LoadedJob {
    job.folder = folder;
    job
}

fn loaded(listener: &Listener, sources: Sources) -> Result<LoadedJob, NoRun> {
    listener.engine.load(sources.in_order()).map_err(|faults| NoRun::Refused(faults.to_string()))
}

/// Returns the agents that work for `agent` or for one of them, without itself.
fn callees<'c>(configs: &'c Configs, agent: &'c Agent) -> BTreeSet<&'c AgentId> {
    let of = |agent: &'c Agent| agent.tools.values().filter_map(|tool| tool.agent.as_ref());
    let (mut found, mut open) = (BTreeSet::new(), vec![agent]);
    while let Some(next) = open.pop() {
        for callee in of(next).filter(|callee| **callee != agent.id) {
            if found.insert(callee) {
                open.extend(configs.agents.get(callee).map(|agent| &**agent));
            }
        }
    }
    found
}

fn job_of(agent: &str, request: &Request) -> Value {
    json!({
        "job_id": RUNNER,
        "description": format!("Executes {} for a tool.request.v1.", request.tool),
        "root": agent,
        "request": "Call the tool.",
        "models": {MODEL: {"provider": "scripted", "script": SCRIPT}},
    })
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
    let script = json!({"agents": {&id: {"turns": [{"calls": [call]}, {"text": "done"}]}}});
    sources.add(Role::Agent, format!("agents/{id}.json"), agent.to_string());
    sources.add(Role::ModelScript, SCRIPT, script.to_string());
}

/// Refuses a tool that acts on its calling task: a request has no such task.
fn check_type(configs: &Configs, tool: &str) -> Result<(), NoRun> {
    let found = configs.tools.get(&ToolId::new(tool));
    match found.map(|tool| (tool.tool_type, tool.tool_type.behavior().then)) {
        None => Err(NoRun::Refused(format!("there is no tool {tool:?}"))),
        Some((_, Then::Continue | Then::Block)) => Ok(()),
        Some((kind, Then::Stop | Then::Enter)) => {
            Err(NoRun::Refused(format!("{tool} is of type {kind}: it acts on its calling task, and a request has none")))
        }
    }
}
