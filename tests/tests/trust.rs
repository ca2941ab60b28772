//! Trust in the library: no engine without a policy, and no way to run configs past it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use baton_models::Model;
use baton_runtime::trust::{TrustPolicy, TrustRequest, Untrusted};
use baton_runtime::{Engine, ForkOptions, LoadedJob, RunError, RunHandle, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_types::config::{Origin, Target};
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::{TestJob, calls, handoff, model};

/// Trusts while it is switched on, and remembers what it judged.
#[derive(Clone, Default)]
struct Switch {
    trusts: Arc<AtomicBool>,
    judged: Arc<Mutex<Vec<(Origin, Target)>>>,
}

impl TrustPolicy for Switch {
    fn judge(&self, request: &TrustRequest<'_>) -> Result<(), Untrusted> {
        let reaches = request.reaches.iter().map(|reach| (reach.origin, reach.target.clone()));
        self.judged.lock().unwrap().extend(reaches);
        if self.trusts.load(Ordering::SeqCst) { Ok(()) } else { Err(Untrusted { reason: "not now".to_owned() }) }
    }
}

/// Returns a job whose agent asks a person before it calls a command, with a description of its own.
fn job(description: &str) -> LoadedJob {
    let exec = json!({"type": "function_tool", "parameters": {}, "exec": {"command": ["true"], "env": ["WORD"]}});
    let description = json!({"description": description});
    TestJob::new("lead", description).agent("lead", &["ask_master", "command", "handoff"]).tool_by_schema("command", exec).load()
}

/// Returns a job whose only granted command may call another one, which may call a third one.
fn job_with_calls() -> LoadedJob {
    let command = |program: &str, calls: &[&str]| {
        let mut tool = json!({"type": "function_tool", "parameters": {}, "exec": {"command": [program]}});
        if !calls.is_empty() {
            tool["calls"] = json!(calls);
            tool["effect"] = json!("keyed");
        }
        tool
    };
    TestJob::new("lead", json!({}))
        .agent("lead", &["ask_master", "first", "handoff"])
        .tool_by_schema("first", command("true", &["second", "*"]))
        .tool_by_schema("second", command("false", &["first", "third"]))
        .tool_by_schema("third", command("sleep", &[]))
        .tool_by_schema("fourth", command("rm", &[]))
        .load()
}

#[tokio::test]
async fn commands_that_only_code_may_call_are_judged() {
    let switch = Switch::default();
    let engine = Engine::builder().trust(switch.clone()).store(Arc::new(MemoryStore::default())).model("m", asking());
    assert!(is_refused(engine.build().unwrap().start(job_with_calls(), StartOptions::default()).await));
    let judged = std::mem::take(&mut *switch.judged.lock().unwrap());
    let commands = judged.iter().filter_map(|(_, target)| match target {
        Target::Command(command) => Some(command.concat()),
        _ => None,
    });
    assert_eq!(commands.collect::<Vec<_>>(), ["true", "false", "sleep"]);
}

/// Asks a person first, and finishes by the answer.
fn asking() -> Arc<dyn Model> {
    model(|_, turn, _| match turn {
        1 => calls(&[("ask_master", json!({"question": "Go?"}))]),
        _ => handoff("done", &[]),
    })
}

fn is_refused(result: Result<RunHandle, RunError>) -> bool {
    matches!(result, Err(RunError::Untrusted { reason }) if reason == "not now")
}

#[test]
fn an_engine_needs_a_policy() {
    let builder = Engine::builder().store(Arc::new(MemoryStore::default()));
    assert!(matches!(builder.build(), Err(RunError::NoTrust)));
}

#[tokio::test]
async fn every_way_to_a_run_asks_the_policy() {
    let (switch, store): (Switch, Arc<dyn Store>) = (Switch::default(), Arc::new(MemoryStore::default()));
    let engine = Engine::builder().trust(switch.clone()).store(store).model("m", asking()).build().unwrap();
    assert!(is_refused(engine.start(job("A"), StartOptions::default()).await));
    assert!(engine.store().runs().await.unwrap().is_empty(), "nothing is stored of what was refused");
    switch.trusts.store(true, Ordering::SeqCst);
    let handle = engine.start(job("A"), StartOptions::default()).await.unwrap();
    let id = handle.id().clone();
    let _waits = handle.outcome_without_people().await;
    handle.stop().await;
    switch.trusts.store(false, Ordering::SeqCst);
    switch.judged.lock().unwrap().clear();
    assert!(is_refused(engine.resume(&id).await));
    assert!(is_refused(engine.fork(&id, &Principal::person("ann"), ForkOptions::default()).await));
    let command = Target::Command(vec!["true".to_owned()]);
    let judged = std::mem::take(&mut *switch.judged.lock().unwrap());
    assert_eq!(judged.iter().filter(|judged| **judged == (Origin::Store, command.clone())).count(), 2, "{judged:?}");
    let other = job("B");
    assert!(is_refused(engine.migrate(&id, other.sources(), &Principal::person("ann")).await));
    assert!(switch.judged.lock().unwrap().contains(&(Origin::Job, command)), "what a folder says is the job's");
    let sources = Some(other.sources().clone());
    assert!(is_refused(engine.fork(&id, &Principal::person("ann"), ForkOptions { sources, ..ForkOptions::default() }).await));
    assert_eq!(engine.store().runs().await.unwrap().len(), 1);
    switch.trusts.store(true, Ordering::SeqCst);
    engine.resume(&id).await.unwrap();
}
