//! `fork`, `replay` and `migrate`: what is done again, what is taken over, and what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use baton_config::Sources;
use baton_macros::tool;
use baton_models::Model;
use baton_runtime::{Cause, Engine, ForkOptions, InitialDocument, LoadedJob, RunError, StartOptions, diff, replay};
use baton_store::{MemoryStore, Store};
use baton_tool::{ToolError, ToolFunction};
use baton_types::entry::{Entry, ForkedEffects, Recorded};
use baton_types::id::{RunId, TaskId};
use baton_types::path::DocumentPath;
use baton_types::principal::Principal;
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{Finished, TestJob, call_error, call_result, calls, engine, finish, handoff, model, workspace};

const BRANCHES: usize = 9;
const LEAVES: usize = 10;

/// Counts requests by agent.
type Asked = Arc<Mutex<BTreeMap<String, u32>>>;

/// The effects that took place, outside every run.
static PAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[tool]
fn pay(to: String) -> Result<String, ToolError> {
    PAID.lock().unwrap().push(to.clone());
    Ok(format!("paid {to}"))
}

/// Returns the number of payments to names with this prefix.
fn paid(whom: &str) -> usize {
    PAID.lock().unwrap().iter().filter(|to| to.starts_with(whom)).count()
}

/// Returns a root with nine branches of ten leaves each: 100 tasks. Each leaf pays, then reports. Branches and root
/// combine the reports they receive.
fn tree() -> LoadedJob {
    let mut job = TestJob::new("root", json!({}));
    let routes = |kind: &str, of: std::ops::Range<usize>| -> Vec<String> {
        of.map(|index| format!("route_to_{kind}{index}")).chain(["handoff".to_owned()]).collect()
    };
    let root = routes("branch", 0..BRANCHES);
    job = job.agent("root", &root.iter().map(String::as_str).collect::<Vec<_>>());
    for branch in 0..BRANCHES {
        let tools = routes("leaf", branch * LEAVES..(branch + 1) * LEAVES);
        job = job.agent(&format!("branch{branch}"), &tools.iter().map(String::as_str).collect::<Vec<_>>());
    }
    for leaf in 0..BRANCHES * LEAVES {
        job = job.agent(&format!("leaf{leaf}"), &["pay", "handoff"]);
    }
    job.tool("pay", json!({"to": {"type": "string", "description": "Whom.", "required": true}}), json!({})).load()
}

/// Delegates, pays and reports; what a leaf reports begins with the first word of its prompt.
fn worker(asked: &Asked) -> Arc<dyn Model> {
    let asked = Arc::clone(asked);
    model(move |agent, turn, request| {
        *asked.lock().unwrap().entry(agent.to_owned()).or_default() += 1;
        let delegate = |kind: &str, of: std::ops::Range<usize>| {
            let names: Vec<String> = of.map(|index| format!("route_to_{kind}{index}")).collect();
            calls(&names.iter().map(|name| (name.as_str(), json!({"request": "Do your part."}))).collect::<Vec<_>>())
        };
        let number = |kind: &str| agent.strip_prefix(kind).and_then(|number| number.parse::<usize>().ok());
        match (number("branch"), number("leaf"), turn) {
            (None, None, 1) => delegate("branch", 0..BRANCHES),
            (Some(branch), _, 1) => delegate("leaf", branch * LEAVES..(branch + 1) * LEAVES),
            (_, Some(leaf), 1) => calls(&[("pay", json!({"to": format!("supplier {leaf}")}))]),
            (_, Some(_), _) => handoff(request.system.split(' ').next().unwrap_or_default(), &[]),
            // The reports of the callees determine the next report.
            _ => handoff(&format!("{:x}", summed(&format!("{:?}", request.messages.last()))), &[]),
        }
    })
}

fn summed(text: &str) -> u64 {
    text.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

fn edited(job: &LoadedJob, place: &str, value: serde_json::Value) -> Sources {
    let mut sources = job.sources().clone();
    sources.set(place, value).unwrap();
    sources
}

fn answers(entries: &[Arc<Recorded>]) -> impl Iterator<Item = bool> {
    entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelAnswered(answered) => Some(answered.recorded.is_some()),
        _ => None,
    })
}

async fn forked(engine: &Engine, original: &RunId, options: ForkOptions) -> (RunId, Finished) {
    let handle = engine.fork(original, &Principal::person("ada"), options).await.unwrap();
    (handle.id().clone(), finish(engine, &handle).await)
}

#[tokio::test]
async fn a_fork_with_one_leaf_edited_asks_only_the_models_that_the_edit_can_reach() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let asked = Asked::default();
    let engine = engine(store, &worker(&asked));
    let job = tree();
    let started = engine.start(job.clone(), StartOptions::default()).await.unwrap();
    let original = finish(&engine, &started).await;
    assert_eq!(original.run.graph().iter().count(), 1 + BRANCHES + BRANCHES * LEAVES);
    let turns: u32 = std::mem::take(&mut *asked.lock().unwrap()).values().sum();
    assert_eq!(turns, 200, "two turns of each task");
    assert_eq!(paid("supplier"), BRANCHES * LEAVES);

    let sources = edited(&job, "agents.leaf42.system_prompt", json!("Different now."));
    let changes = sources.changes_from(job.sources());
    let options = ForkOptions { sources: Some(sources), changes: changes.clone(), ..ForkOptions::default() };
    let (id, fork) = forked(&engine, started.id(), options).await;

    let asked_anew = std::mem::take(&mut *asked.lock().unwrap());
    let expected = [("branch4", 1), ("leaf42", 2), ("root", 1)].map(|(agent, times)| (agent.to_owned(), times));
    assert_eq!(asked_anew, BTreeMap::from(expected), "the leaf, and those above it whose requests changed");
    assert_eq!(answers(&fork.entries).filter(|recorded| *recorded).count(), 196);
    assert_eq!(paid("supplier"), BRANCHES * LEAVES, "no effect is repeated");
    assert_ne!(fork.result, original.result);

    let differs = diff(&engine, started.id(), &id).await.unwrap();
    assert_eq!(differs.cost, [None, None], "nobody knows what a model costs that a program brings");
    let first = differs.first.expect("the runs differ");
    assert_eq!((first.task.as_str(), first.cause), ("0/1.5/1.3", Some(Cause::Config)), "{}", first.what);
    assert_eq!(first.what, "the request of turn 1 (system prompt of agent leaf42)");
    assert_eq!(differs.configs, ["agents/leaf42.json: system_prompt"]);
    let differing: Vec<&str> = differs.tasks.iter().filter(|task| !task.is_same()).map(|task| task.task.as_str()).collect();
    assert_eq!(differing, ["0", "0/1.5", "0/1.5/1.3"], "trees are aligned by path");

    // A fork without changes makes no model request.
    let (_, same) = forked(&engine, started.id(), ForkOptions::default()).await;
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!((same.result, paid("supplier")), (original.result, BRANCHES * LEAVES));
}

/// Asks a person whom to pay, pays them, and reports. What its prompt ends with is part of the name.
fn payer() -> Arc<dyn Model> {
    model(|_, turn, request| match turn {
        1 => calls(&[("ask_master", json!({"question": "Whom shall I pay?"}))]),
        2 => {
            let answer = format!("{:?}", request.messages.last());
            let who = if answer.contains("ann") { "ann" } else { "nobody" };
            let name = request.system.rsplit(' ').next().unwrap_or_default();
            calls(&[("pay", json!({"to": format!("{who} {name}")}))])
        }
        _ => handoff("paid", &["plan.md"]),
    })
}

fn paying(name: &str) -> LoadedJob {
    TestJob::new("solo", json!({}))
        .agent_with("solo", &["ask_master", "pay", "handoff"], json!({"system_prompt": format!("Pay {name}")}))
        .tool("pay", json!({"to": {"type": "string", "description": "Whom.", "required": true}}), json!({}))
        .document("plan.md", "The plan.\n")
        .load()
}

/// Runs the paying job until a person has answered and it has ended.
async fn paid_run(engine: &Engine, job: LoadedJob) -> (RunId, Finished) {
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    let asked = handle.open_questions().await;
    handle.answer(asked[0].task.clone(), &Principal::person("ada"), json!("ann").into(), Vec::new()).await.unwrap();
    let finished = finish(engine, &handle).await;
    (handle.id().clone(), finished)
}

#[tokio::test]
async fn a_fork_never_repeats_an_effect_unless_it_may() {
    let engine = engine(Arc::new(MemoryStore::default()), &payer());
    let job = paying("Bo");
    let (id, original) = paid_run(&engine, job.clone()).await;
    assert_eq!((original.status, paid("ann Bo")), ("success", 1));

    // The same again: the person's word and the call's result are the original's.
    let (_, same) = forked(&engine, &id, ForkOptions::default()).await;
    assert_eq!((same.status, paid("ann Bo")), ("success", 1));
    assert_eq!(call_result(&same.entries, "0/2.1"), call_result(&original.entries, "0/2.1"));
    let by = same.entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::QuestionClosed(closed) => Some(format!("{:?}", closed.how)),
        _ => None,
    });
    let by = by.unwrap();
    assert!(by.contains("Person(ada)") && by.contains(id.as_str()), "who answered, and where: {by}");

    // Another effect is refused, and the agent reads why.
    let other = |effects| {
        let sources = Some(edited(&job, "agents.solo.system_prompt", json!("Pay Cy")));
        ForkOptions { sources, effects, ..ForkOptions::default() }
    };
    let (_, refused) = forked(&engine, &id, other(ForkedEffects::Recorded)).await;
    assert_eq!((call_result(&refused.entries, "0/2.1").as_str(), paid("ann Cy")), ("failed effect_not_allowed", 0));
    let (_, allowed) = forked(&engine, &id, other(ForkedEffects::New)).await;
    assert_eq!((allowed.status, paid("ann Cy")), ("success", 1));

    let all = ForkOptions { effects: ForkedEffects::All, ..ForkOptions::default() };
    let (_, again) = forked(&engine, &id, all).await;
    assert_eq!((again.status, paid("ann Bo")), ("success", 2));
}

#[tokio::test]
async fn a_fork_says_that_its_original_stopped_a_call() {
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    let job = TestJob::new("solo", json!({}))
        .agent_with("solo", &["strike", "handoff"], json!({"limits": {"deadline_seconds": 1}}))
        .tool("strike", gate, json!({"effect": "idempotent"}))
        .load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("strike", json!({"gate": "a call that its original stops"}))]),
        _ => handoff("done", &[]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let original = finish(&engine, &handle).await;
    assert_eq!(call_result(&original.entries, "0/1.1"), "cancelled cancelled");
    let (_, fork) = forked(&engine, handle.id(), ForkOptions::default()).await;
    assert_eq!(call_result(&fork.entries, "0/1.1"), "failed effect_not_allowed");
    let error = call_error(&fork.entries, "0/1.1");
    assert!(error.contains(&format!("run {} stopped this call before it had a result", handle.id())), "{error}");
}

#[tokio::test]
async fn a_fork_begins_after_a_whole_decision_and_with_what_the_person_wrote() {
    let engine = engine(Arc::new(MemoryStore::default()), &payer());
    let (id, original) = paid_run(&engine, paying("Di")).await;
    let last = original.entries.len() as u64;
    assert!(matches!(engine.fork_place(&id, Some(1)).await, Err(RunError::NoSuchDecision { at: 1, first: 4.. })));
    let mut places = Vec::new();
    for at in 4..=last {
        let Ok(place) = engine.fork_place(&id, Some(at)).await else { continue };
        assert!(place <= at);
        places.push(place);
    }
    places.dedup();
    assert!(places.len() >= 5, "steps of a model, a person and a tool: {places:?}");
    let mut ends = BTreeSet::new();
    for place in places {
        let documents = vec![InitialDocument::new(DocumentPath::parse("plan.md").unwrap(), b"Another plan.\n".as_slice())];
        let (fork, finished) = forked(&engine, &id, ForkOptions { at: Some(place), documents, ..ForkOptions::default() }).await;
        assert_eq!(finished.entries[..usize::try_from(place).unwrap()], original.entries[..usize::try_from(place).unwrap()]);
        let record = engine.store().run(&fork).await.unwrap().unwrap();
        assert_eq!(record.past.map(|past| (past.run, past.seq)), Some((id.clone(), place)), "the past is not copied");
        ends.insert((finished.result.to_string(), workspace(&finished.run.documents().clone()).concat()));
        let differs = diff(&engine, &id, &fork).await.unwrap();
        assert_eq!(differs.first.as_ref().and_then(|first| first.cause), Some(Cause::Document), "{:?}", differs.first);
        assert_eq!(differs.shared, place);
    }
    assert_eq!((ends.len(), paid("ann Di")), (1, 1), "wherever a fork begins, it comes to the same end: {ends:?}");
    for at in [last, last + 1] {
        let past =
            engine.fork(&id, &Principal::person("ada"), ForkOptions { at: Some(at), ..ForkOptions::default() }).await.map(|_| ());
        let Err(RunError::PastTheEnd { end, last: latest, .. }) = past else { panic!("a run that has ended does not continue") };
        assert_eq!((end, Some(latest)), (last, engine.fork_place(&id, Some(last - 1)).await.ok()));
    }
}

#[tokio::test]
async fn a_migrated_run_goes_on_by_the_new_configs_and_replays_to_the_byte() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    // No conversation stays in memory, so each is rebuilt across the change.
    let forgetful = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(store)
        .model("m", payer())
        .transcript_cache_bytes(0)
        .build()
        .unwrap();
    let job = paying("Ed");
    let handle = forgetful.start(job.clone(), StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    handle.stop().await;
    let id = handle.id().clone();

    let sources = edited(&job, "agents.solo.system_prompt", json!("Pay Flo"));
    let migration = forgetful.migration(&id, &sources).await.unwrap();
    assert_eq!(migration.files, ["agents/solo.json: system_prompt"]);
    assert_eq!((migration.tasks[0].task.as_str(), &*migration.tasks[0].changes), ("0", &["system prompt".to_owned()][..]));
    assert!(migration.tasks[0].new_prefix && migration.hindrances.is_empty());

    let handle = forgetful.migrate(&id, &sources, &Principal::person("ada")).await.unwrap();
    handle.outcome_without_people().await;
    handle.stop().await;
    // A crash later, it is still pinned to what it adopted.
    let handle = forgetful.resume(&id).await.unwrap();
    let asked = handle.open_questions().await;
    handle.answer(asked[0].task.clone(), &Principal::person("ada"), json!("ann").into(), Vec::new()).await.unwrap();
    let finished = finish(&forgetful, &handle).await;
    assert_eq!((finished.status, paid("ann Ed"), paid("ann Flo")), ("success", 0, 1));
    assert_eq!(replay(&forgetful, &id).await.unwrap().requests, 3);
    // A fork from before the change knows nothing of it.
    let (_, fork) = forked(&forgetful, &id, ForkOptions::default()).await;
    assert_eq!((call_result(&fork.entries, "0/2.1").as_str(), paid("ann Ed")), ("failed effect_not_allowed", 0));
}

#[tokio::test]
async fn a_run_does_not_adopt_configs_that_lack_what_it_is_in_the_middle_of() {
    let engine = engine(Arc::new(MemoryStore::default()), &payer());
    let job = paying("Gus");
    let handle = engine.start(job.clone(), StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    handle.stop().await;
    let entries = handle.entries_after(0).count().await;
    let other = TestJob::new("lead", json!({})).agent("lead", &["handoff"]).load();
    let migration = engine.migration(handle.id(), other.sources()).await.unwrap();
    let reasons = migration.hindrances.join("; ");
    assert!(reasons.contains("lack agent solo, which holds task 0") && reasons.contains("lack tool ask_master"), "{reasons}");
    let refused = engine.migrate(handle.id(), other.sources(), &Principal::person("ada")).await.err();
    assert!(matches!(refused, Some(RunError::Refused(_))), "{refused:?}");
    assert_eq!(engine.resume(handle.id()).await.unwrap().entries_after(0).take(entries).count().await, entries);
}

#[tokio::test]
async fn only_functions_that_agents_were_granted_are_needed_to_go_on() {
    static OTHER: ToolFunction = ToolFunction {
        id: "pay",
        name: "pay",
        file: "other.rs",
        line: 1,
        parameters: || json!({"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}),
        blocking: false,
        invoke: |_, _| Box::pin(async { Err(ToolError::new("never called")) }),
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let program = |functions| {
        let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&store)).model("m", payer());
        builder.functions(functions).build().unwrap()
    };
    let whole = engine(Arc::clone(&store), &payer());
    let waiting = async |job: LoadedJob| {
        let handle = whole.start(job, StartOptions::default()).await.unwrap();
        handle.outcome_without_people().await;
        handle.stop().await;
        handle.id().clone()
    };
    let granted = waiting(paying("Hal")).await;
    let mut sources = paying("Hal").sources().clone();
    sources.set("agents.solo.tools.1", json!(null)).unwrap();
    let ungranted = LoadedJob::from_sources(sources, &[&OTHER]).err();
    assert!(ungranted.is_some(), "a start is strict about every tool");
    let pay = json!({"to": {"type": "string", "description": "Whom.", "required": true}});
    let ungranted = TestJob::new("solo", json!({})).agent("solo", &["ask_master", "handoff"]).tool("pay", pay, json!({})).load();
    let ungranted = waiting(ungranted).await;

    for (functions, reason) in [(Vec::new(), "this program links none of that name"), (vec![&OTHER], "amount")] {
        let program = program(functions);
        let Err(RunError::PinnedConfigs { faults, .. }) = program.resume(&granted).await.map(|_| ()) else {
            panic!("the run needs fn pay")
        };
        assert!(faults.to_string().contains(reason), "{faults}");
        // It can be read all the same, and a run that needs none of that continues.
        assert!(program.state(&granted).await.unwrap().task(&TaskId::root()).is_some());
        assert_eq!(replay(&program, &granted).await.unwrap().mismatches, []);
        program.resume(&ungranted).await.unwrap().stop().await;
    }
}
