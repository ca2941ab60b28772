//! Wide, deep and long runs: they complete, and what they cost is printed.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use baton_models::Model;
use baton_runtime::{LoadedJob, RunOutcome, StartOptions};
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::TaskId;
use baton_types::model::ModelTurn;
use serde_json::json;

use crate::support::failing::FailingStore;
use crate::support::tools::Gate;
use crate::support::{TestJob, call_output, calls, engine, finish, handoff, model, root, run_to_end};

/// Returns the most memory that this process ever had resident, in MiB.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or_default() / 1_024
}

/// Runs a job in both stores and prints what it cost. Replaying it is part of the time.
async fn measure(name: &str, tasks: usize, job: impl Fn() -> LoadedJob, answers: &Arc<dyn Model>) {
    let folder = tempfile::tempdir().unwrap();
    let stores: [(&str, Arc<dyn Store>); 2] = [
        ("memory", Arc::new(MemoryStore::default())),
        ("sqlite", Arc::new(SqliteStore::open(folder.path().join("runs.db")).unwrap())),
    ];
    for (kind, store) in stores {
        let engine = engine(store, answers);
        let began = Instant::now();
        let handle = engine.start(job(), StartOptions::default()).await.unwrap();
        handle.outcome().await;
        let (ran, ended) = (began.elapsed(), Instant::now());
        let finished = finish(&engine, &handle).await;
        assert_eq!(finished.status, "success");
        assert_eq!(finished.run.graph().iter().count(), tasks);
        let (entries, peak) = (finished.entries.len(), peak_mebibytes());
        println!("{name} in {kind}: {entries} entries in {ran:.2?}, replayed in {:.2?}, peak {peak} MiB", ended.elapsed());
    }
}

/// Returns a root that delegates to `children` workers in one turn.
fn wide(children: usize) -> (impl Fn() -> LoadedJob, Arc<dyn Model>) {
    let job = move || {
        let limits = json!({"limits": {"children": 10_000, "parallel_calls": 10_000}});
        TestJob::new("lead", json!({"limits": {"live_tasks": 10_000}}))
            .agent_with("lead", &["route_to_worker", "handoff"], limits)
            .agent("worker", &["handoff"])
            .load()
    };
    let answers = model(move |agent, turn, _| match (agent, turn) {
        ("lead", 1) => calls(&vec![("route_to_worker", json!({"request": "Go."})); children]),
        ("lead", _) => handoff("done", &[]),
        _ => ModelTurn::text("ok"),
    });
    (job, answers)
}

#[tokio::test]
async fn a_thousand_children_work_in_parallel() {
    for children in [250, 500, 1_000] {
        let (job, answers) = wide(children);
        measure(&format!("{children} children"), children + 1, job, &answers).await;
    }
}

#[tokio::test]
async fn one_commit_holds_a_bounded_number_of_entries() {
    let (leads, workers) = (14, 600);
    let limits = json!({"limits": {"children": 1_000, "parallel_calls": 1_000}});
    let job = TestJob::new("chief", json!({"limits": {"live_tasks": 10_000, "turns": 20_000}}))
        .agent("chief", &["route_to_lead", "handoff"])
        .agent_with("lead", &["route_to_worker", "handoff"], limits)
        .agent("worker", &["handoff"])
        .load();
    let request = |tool: &'static str, number| vec![(tool, json!({"request": "Go."})); number];
    let answers = model(move |agent, turn, _| match (agent, turn) {
        ("chief", 1) => calls(&request("route_to_lead", leads)),
        ("lead", 1) => calls(&request("route_to_worker", workers)),
        ("worker", _) => ModelTurn::text("ok"),
        _ => handoff("done", &[]),
    });
    let store = Arc::new(FailingStore::watching(Arc::new(MemoryStore::default())));
    let watched: Arc<dyn Store> = Arc::<FailingStore>::clone(&store);
    let finished = run_to_end(&engine(watched, &answers), job).await;
    let commits = finished.entries.chunk_by(|one, next| store.commit_of(one.seq) == store.commit_of(next.seq));
    let decisions = finished.entries.chunk_by(|one, next| one.decision == next.decision);
    let (commit, decision) = (commits.map(<[_]>::len).max().unwrap(), decisions.map(<[_]>::len).max().unwrap());
    // All leads answer at the same time.
    assert!(leads * decision > 16_384 && commit > decision, "the job is too small: {commit} and {decision} entries");
    assert!(commit < 16_384 + decision, "one commit has {commit} entries, one decision {decision}");
    // The answers for which the first commit has no room are decided next, in their order.
    let answered: Vec<&TaskId> = finished.entries.iter().filter_map(|recorded| answered_task(recorded)).skip(1).collect();
    let leads: Vec<TaskId> = (1..=14).map(|position| root().call(1, position).created_task()).collect();
    assert_eq!(answered[..leads.len()], leads.iter().collect::<Vec<_>>());
}

/// Returns the task whose model answered.
fn answered_task(recorded: &Recorded) -> Option<&TaskId> {
    match &recorded.entry {
        Entry::ModelAnswered(entry) => Some(&entry.task),
        _ => None,
    }
}

#[tokio::test]
async fn a_run_that_stops_decides_what_a_full_commit_had_no_room_for() {
    let store = Arc::new(FailingStore::watching(Arc::new(MemoryStore::default())));
    let watched: Arc<dyn Store> = Arc::<FailingStore>::clone(&store);
    let held = Arc::new(Mutex::new(None));
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    let limits = json!({"limits": {"children": 1_000, "parallel_calls": 1_000}});
    let job = TestJob::new("chief", json!({"limits": {"live_tasks": 10_000, "turns": 20_000}}))
        .agent("chief", &["route_to_striker", "route_to_captain", "handoff"])
        .agent("striker", &["strike", "handoff"])
        .agent("captain", &["strike", "route_to_lead", "handoff"])
        .agent_with("lead", &["route_to_worker", "handoff"], limits)
        .agent("worker", &["handoff"])
        .tool("strike", gate, json!({"effect": "at_most_once"}))
        .load();
    let (last, captain) = (Gate::named("last"), Gate::named("captain"));
    let request = |tool: &'static str, number| vec![(tool, json!({"request": "Go."})); number];
    let (holds, guard) = (Arc::clone(&store), Arc::clone(&held));
    let answers = model(move |agent, turn, _| match (agent, turn) {
        ("chief", 1) => calls(&[request("route_to_striker", 1), request("route_to_captain", 1)].concat()),
        ("striker", 1) => calls(&[("strike", json!({"gate": "last"}))]),
        ("captain", 1) => calls(&[("strike", json!({"gate": "captain"}))]),
        ("captain", 2) => {
            // The commit with this answer waits, so the next events are taken together: the answers of all leads, the end of
            // the strike, and the request to stop.
            *guard.lock().unwrap() = Some(holds.hold_commits());
            Gate::named("last").open();
            calls(&request("route_to_lead", 14))
        }
        ("lead", 1) => calls(&request("route_to_worker", 600)),
        _ => handoff("done", &[]),
    });
    let handle = engine(Arc::clone(&watched), &answers).start(job, StartOptions::default()).await.unwrap();
    last.reached().await;
    captain.reached().await;
    captain.open();
    while held.lock().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let (outcome, ()) = tokio::join!(handle.stop(), async {
        // By then the strike has ended.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        held.lock().unwrap().take();
    });
    assert!(matches!(outcome, RunOutcome::Stopped));
    let entries = watched.entries(handle.id(), 0, usize::MAX).await.unwrap();
    assert_eq!(call_output(&entries, "0/1.1/1.1"), json!({"struck": true}));
    let leads =
        entries.iter().filter_map(|recorded| answered_task(recorded)).filter(|task| task.as_str().matches('/').count() == 2);
    assert_eq!(leads.count(), 14, "each answer is recorded");
    let strike = entries
        .iter()
        .find(|recorded| matches!(&recorded.entry, Entry::CallFinished(entry) if entry.call.as_str() == "0/1.1/1.1"));
    let first_of_leads = entries.iter().find(|recorded| answered_task(recorded).is_some_and(|task| task.as_str() == "0/1.2/2.1"));
    let commits = [first_of_leads, strike].map(|entry| store.commit_of(entry.unwrap().seq));
    assert!(commits[0] < commits[1], "one commit had room for everything");
}

#[tokio::test]
async fn delegations_nest_sixty_four_deep() {
    let job = || TestJob::new("digger", json!({"limits": {"depth": 64}})).agent("digger", &["route_to_digger", "handoff"]).load();
    let answers = model(|_, turn, request| match turn {
        1 if request.task.as_str().matches('/').count() < 64 => calls(&[("route_to_digger", json!({"request": "Deeper."}))]),
        _ => handoff("done", &[]),
    });
    measure("depth 64", 65, job, &answers).await;
}

#[tokio::test]
async fn a_task_takes_two_thousand_turns() {
    for turns in [500, 1_000, 2_000] {
        let job = move || {
            let step = json!({"n": {"type": "integer", "description": "Which.", "required": true}});
            TestJob::new("walker", json!({}))
                .agent_with("walker", &["step", "handoff"], json!({"limits": {"turns": 3_000}}))
                .tool("step", step, json!({"effect": "pure"}))
                .load()
        };
        let answers = model(move |_, turn, _| match turn {
            turn if turn < turns => calls(&[("step", json!({"n": turn}))]),
            _ => handoff("done", &[]),
        });
        measure(&format!("{turns} turns"), 1, job, &answers).await;
    }
}
