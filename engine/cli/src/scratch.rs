//! Makes one call of one tool in a run of its own, which is kept in memory, or prepares the job of such runs. Machine, runtime and checks are those of any run, so
//! the call behaves as it does for an agent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_config::Role;
use baton_models::FunctionModel;
use baton_runtime::{InitialDocument, LoadedJob, RunHandle, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::config::{ALL_GRANTED, Origin, Tool};
use baton_types::document::DocumentVersion;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json;
use baton_types::model::ModelTurn;
use baton_types::tool_type::Then;
use serde_json::{Value, json};

use crate::app::engine::{builder, run_failure};
use crate::exit::Failure;
use crate::export::{Plan, Target};
use crate::place::Place;
use crate::signals::Interruptions;
use crate::text::text;
use crate::trust::Manner;
use crate::{environment, job, words};

/// The id of the job and of its agent, and the name of the agent's model.
pub(crate) const CALLER: &str = "tool-caller";

/// The outcome of a call.
pub(crate) struct Called {
    /// The result of the call.
    pub(crate) result: Arc<CallResult>,
    /// The duration of the call.
    pub(crate) duration: Duration,
    /// The documents that the call wrote.
    pub(crate) written: Vec<Arc<DocumentVersion>>,
    store: Arc<dyn Store>,
}

impl Called {
    /// Writes the call's documents into the folder of `target`.
    pub(crate) async fn export(&self, target: &Target, place: &Place) -> Result<(), Failure> {
        let written: Vec<&DocumentVersion> = self.written.iter().map(Arc::as_ref).collect();
        let plan = Plan::new(&written, target);
        plan.notices(place).iter().for_each(|line| place.screen.tell(&text!("writes      {line}")));
        plan.carry_out(&self.store).await?.files().map(drop)
    }
}

/// Returns a job whose only agent may call `tool`. It has the tools, agents and documents of the job `name`, or else the tools
/// of the program. If the code of the tool calls what its agent was granted, the agent has all of them.
pub(crate) fn job(place: &Place, name: Option<&Path>, tool: &str) -> Result<LoadedJob, Failure> {
    let job = job_with(place, name, &[tool])?;
    let calls_all = job.configs.tools.get(tool).is_some_and(|tool| tool.calls.iter().any(|called| called == ALL_GRANTED));
    if !calls_all {
        return Ok(job);
    }
    let may_be_called = |tool: &Tool| {
        let is_own = tool.agent.as_ref().is_some_and(|agent| *agent == CALLER);
        matches!(tool.tool_type.behavior().then, Then::Continue | Then::Block) && !tool.describes_tools && !is_own
    };
    let others = job.configs.tools.values().filter(|tool| may_be_called(tool)).map(|tool| tool.id.as_str());
    job_with(place, name, &others.collect::<Vec<_>>())
}

fn job_with(place: &Place, name: Option<&Path>, tools: &[&str]) -> Result<LoadedJob, Failure> {
    let mut config = json!({"models": {}});
    let (mut sources, folder, documents);
    if let Some(name) = name {
        let original = job::load(place, name)?;
        let of_job = original.sources().of(Role::Job).next();
        config = of_job.and_then(|source| serde_json::from_str(&source.text).ok()).unwrap_or(config);
        sources = original.sources().clone().without(Role::Job);
        (folder, documents) = (original.folder, original.documents);
    } else {
        (sources, folder) = job::without_job(place)?;
        documents = Vec::new();
        if let Some((path, content)) = environment::user_models()? {
            sources.add_from(Origin::Person, Role::UserModels, path, content);
        }
    }
    config["job_id"] = json!(CALLER);
    config["description"] = json!("Calls one tool once.");
    config["root"] = json!(CALLER);
    config["request"] = json!("Call the tool.");
    config["models"][CALLER] = json!({"provider": "scripted", "script": "scratch.script.json"});
    let agent = json!({
        "agent_id": CALLER, "description": "Calls one tool once.", "model": CALLER, "system_prompt": "Call the tool.", "tools": tools,
    });
    let script = json!({"agents": {CALLER: {"turns": [{"text": "never asked"}]}}});
    sources.add(Role::Job, "job.json", config.to_string());
    sources.add(Role::Agent, format!("agents/{CALLER}.json"), agent.to_string());
    sources.add(Role::ModelScript, "scratch.script.json", script.to_string());
    let mut loaded = LoadedJob::from_sources(sources, &baton_tool::registered_functions())
        .map_err(|faults| Failure::Faults(faults.to_string()))?;
    loaded.folder = folder;
    loaded.documents = documents;
    Ok(loaded)
}

/// Makes the call in a new run, and returns its outcome.
pub(crate) async fn call(
    place: &Place,
    job: LoadedJob,
    tool: &str,
    input: &Value,
    documents: Vec<InitialDocument>,
    manner: Manner,
) -> Result<Called, Failure> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let call = ModelCall::new(tool, Json::from(input));
    let model = FunctionModel::new(move |request| {
        Ok(if request.turn == 1 { ModelTurn::calls(vec![call.clone()]) } else { ModelTurn::text("done") })
    });
    let engine = builder(&store, None, place, manner)?.model(CALLER, Arc::new(model)).build().map_err(run_failure)?;
    let mut interruptions = Interruptions::catch()?;
    let handle = engine.start(job, StartOptions { documents, ..StartOptions::default() }).await.map_err(run_failure)?;
    let outcome = tokio::select! {
        outcome = outcome_of(&handle) => outcome?,
        _ = interruptions.next() => {
            let _already_over = handle.cancel(TaskId::root(), "interrupted", &crate::terminal::person()).await;
            handle.outcome().await
        }
    };
    if let RunOutcome::Failed(error) = outcome {
        return Err(Failure::Store(error.to_string()));
    }
    let entries = store.entries(handle.id(), 0, usize::MAX).await.map_err(Failure::of_store)?;
    let id = TaskId::root().call(1, 1);
    let (result, duration) =
        result_of(&entries, &id).ok_or_else(|| Failure::Engine("the run ended before the call had a result".to_owned()))?;
    // The tools that its code called wrote for it.
    let is_of_call = |call: &CallId| {
        let outer = |call: &CallId| call.outer().map(|(outer, _)| outer);
        std::iter::successors(Some(call.clone()), outer).any(|call| call == id)
    };
    let written = entries
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::DocumentWritten(version) if version.call.as_ref().is_some_and(is_of_call) => Some(Arc::clone(version)),
            _ => None,
        })
        .collect();
    Ok(Called { result, duration, written, store })
}

/// Waits for the end of the run. A call that is suspended is cancelled.
async fn outcome_of(handle: &RunHandle) -> Result<RunOutcome, Failure> {
    tokio::select! {
        outcome = approved_outcome(handle) => outcome,
        () = handle.until_suspended() => {
            let reason = "it waits for a delivery or a moment, and a call by hand does not";
            let _already_over = handle.cancel(TaskId::root(), reason, &crate::terminal::person()).await;
            Ok(handle.outcome().await)
        }
    }
}

/// Waits for the end of the run. A person who makes a call by hand approves it, and the calls that its code makes. Any
/// other question ends the call, because a call by hand has no person to answer it.
async fn approved_outcome(handle: &RunHandle) -> Result<RunOutcome, Failure> {
    loop {
        let outcome = handle.outcome_without_people().await;
        if !matches!(outcome, RunOutcome::WaitingForPerson) {
            return Ok(outcome);
        }
        let person = crate::terminal::person();
        for question in handle.open_questions().await {
            let about = question.task.originating_call();
            let is_approval = (1..=question.number).any(|number| about.approval(number) == question.task);
            if !is_approval || about.task() != TaskId::root() {
                let asker = &question.asker;
                let reason = format!("task {asker} asks a person, and a call by hand answers no questions: {}", question.text);
                let _already_over = handle.cancel(TaskId::root(), words::preview(&reason, 500).as_str(), &person).await;
                return Ok(handle.outcome().await);
            }
            let yes = Json::from(json!({"approved": true}));
            handle.answer(question.task.clone(), &person, yes, Vec::new()).await.map_err(run_failure)?;
        }
    }
}

/// Returns the result of `call`, and its duration.
fn result_of(entries: &[Arc<Recorded>], call: &CallId) -> Option<(Arc<CallResult>, Duration)> {
    let mut began = None;
    for recorded in entries {
        match &recorded.entry {
            Entry::CallStarted(started) if started.call == *call => began = Some(recorded.at),
            Entry::CallFinished(finished) if finished.call == *call => {
                return Some((Arc::clone(&finished.result), recorded.at.since(began.unwrap_or(recorded.at))));
            }
            Entry::CallRefused(refused) if refused.call == *call => {
                return Some((Arc::new(CallResult::error(CallStatus::Failed, refused.error.clone())), Duration::ZERO));
            }
            _ => {}
        }
    }
    None
}
