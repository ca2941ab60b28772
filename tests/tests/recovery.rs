//! State after a crash: a resumed run comes to the same end.

use std::sync::Arc;
use std::time::Duration;

use baton_config::Sources;
use baton_models::Model;
use baton_runtime::{LoadedJob, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, NewRun, SqliteStore, Store, StoreError};
use baton_types::entry::{ControlAction, Entry, Recorded};
use baton_types::id::RunId;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::{Gate, effects_of};
use crate::support::{
    Finished, TestJob, call_output, call_result, calls, engine, finish, handoff, model, name_of, run_to_end, workspace,
};

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description, "required": true})
}

/// Returns a job with two writers in parallel, of which one asks its master; then a summary. The tools that write have
/// this effect.
fn job(effect: &str) -> LoadedJob {
    let write = json!({"path": text("Where."), "content": text("What.")});
    let line = json!({"path": text("Where."), "line": text("What.")});
    TestJob::new("lead", json!({}))
        .agent("lead", &["route_to_worker", "append_line", "handoff"])
        .agent("worker", &["write_note", "ask_master", "handoff"])
        .tool("write_note", write, json!({"effect": effect, "writes": true}))
        .tool("append_line", line, json!({"effect": effect, "writes": true}))
        .document("plan.md", "The plan.\n")
        .load()
}

fn answers() -> Arc<dyn Model> {
    model(|agent, turn, request| {
        let is_first = request.task.as_str().starts_with("0/1.1");
        let path = if is_first { "first.md" } else { "second.md" };
        match (agent, turn, request.is_question) {
            ("lead", _, true) => ModelTurn::text("yes"),
            ("lead", 1, _) => {
                let route = |name: &str| ("route_to_worker", json!({"request": name, "documents": ["plan.md"]}));
                calls(&[route("first"), route("second")])
            }
            ("lead", 2, _) => calls(&[("append_line", json!({"path": "plan.md", "line": "Both are done."}))]),
            ("lead", _, _) => handoff("done", &["plan.md", "first.md", "second.md"]),
            (_, 1, _) => calls(&[("write_note", json!({"path": path, "content": "A draft."}))]),
            (_, 2, _) if is_first => calls(&[("ask_master", json!({"question": "Is it good?"}))]),
            (_, 2 | 3, _) if is_first == (turn == 3) => {
                calls(&[("write_note", json!({"path": path, "content": format!("Final, in turn {turn}.")}))])
            }
            (_, _, _) => handoff("written", &[path]),
        }
    })
}

/// Resumes the only run of `store` until it ends.
async fn resume_to_end(store: &Arc<dyn Store>) -> Finished {
    let engine = engine(Arc::clone(store), &answers());
    let id = store.runs().await.unwrap()[0].id.clone();
    let handle = engine.resume(&id).await.unwrap();
    finish(&engine, &handle).await
}

/// Crashes a run at every one of its commits, before and after the commit is durable, and resumes it each time.
async fn check_every_crash(effect: &str, fresh: impl Fn() -> Arc<dyn Store>) -> u32 {
    let expected = run_to_end(&engine(fresh(), &answers()), job(effect)).await;
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let store = fresh();
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, failing)), &answers());
            match doomed.start(job(effect), StartOptions::default()).await {
                Ok(handle) => match handle.outcome().await {
                    RunOutcome::Failed(RunError::Store(error)) => assert!(matches!(*error, StoreError::Closed)),
                    RunOutcome::Ended { .. } => break,
                    other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
                },
                Err(RunError::Store(_)) if failing == Failing::Before => {
                    // A run and its first entries are one write: none is known that never started.
                    assert_eq!(store.runs().await.unwrap(), []);
                    continue;
                }
                Err(RunError::Store(_)) => {}
                Err(error) => panic!("crash {failing:?} {commits}: {error}"),
            }
            crashes += 1;
            let finished = resume_to_end(&store).await;
            assert_eq!(finished.status, expected.status, "crash {failing:?} {commits}");
            assert_eq!(finished.result, expected.result, "crash {failing:?} {commits}");
            assert_eq!(workspace(finished.run.documents()), workspace(expected.run.documents()), "crash {failing:?} {commits}");
        }
    }
    crashes
}

#[tokio::test]
async fn a_crash_at_any_commit_changes_nothing_in_the_end() {
    // A turn of pure calls is one commit, so there are fewer of them to crash at.
    for (effect, least) in [("pure", 14), ("idempotent", 20)] {
        let crashes = check_every_crash(effect, || Arc::new(MemoryStore::default())).await;
        assert!(crashes >= least, "only {crashes} crashes were tried with {effect} calls");
    }
}

#[tokio::test]
async fn a_crash_at_any_commit_changes_nothing_in_the_end_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicU32::new(0);
    let fresh = || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Arc::new(SqliteStore::open(folder.path().join(format!("{number}.db"))).unwrap()) as Arc<dyn Store>
    };
    for (effect, least) in [("pure", 14), ("idempotent", 20)] {
        let crashes = check_every_crash(effect, fresh).await;
        assert!(crashes >= least, "only {crashes} crashes were tried with {effect} calls");
    }
}

#[tokio::test]
async fn a_run_that_is_known_but_was_never_begun_is_not_resumed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let run = NewRun { id: "lost".into(), job: "test".into(), at: Timestamp::from_micros(1), past: None, trigger: None };
    store.create(run).await.unwrap();
    let resumed = engine(store, &answers()).resume(&"lost".into()).await;
    assert!(matches!(resumed, Err(RunError::NeverStarted(id)) if id == "lost"));
}

#[tokio::test]
async fn a_run_whose_every_process_dies_young_still_comes_to_its_end() {
    let expected = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers()), job("idempotent")).await;
    for commits in [2, 3, 5] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let young = || engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, Failing::After)), &answers());
        let mut handle = young().start(job("idempotent"), StartOptions::default()).await.unwrap();
        let mut lives = 1;
        let finished = loop {
            match handle.outcome().await {
                RunOutcome::Ended { .. } => break finish(&engine(Arc::clone(&store), &answers()), &handle).await,
                RunOutcome::Failed(RunError::Store(_)) => {}
                other => panic!("{}", name_of(&other)),
            }
            let id = handle.id().clone();
            assert!(lives < 100, "it does not come to an end");
            handle = loop {
                lives += 1;
                match young().resume(&id).await {
                    Ok(handle) => break handle,
                    Err(RunError::Store(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
        };
        assert!(lives > 2, "{lives} processes with {commits} commits each");
        assert_eq!(finished.result, expected.result);
        assert_eq!(workspace(finished.run.documents()), workspace(expected.run.documents()));
    }
}

/// Returns a job that strikes once and reports the result.
fn striking_job(effect: &str) -> LoadedJob {
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    TestJob::new("solo", json!({})).agent("solo", &["strike", "handoff"]).tool("strike", gate, json!({"effect": effect})).load()
}

fn striking_model(gate: &str) -> Arc<dyn Model> {
    let gate = gate.to_owned();
    model(move |_, turn, _| match turn {
        1 => calls(&[("strike", json!({"gate": gate}))]),
        _ => handoff("done", &[]),
    })
}

/// Kills a process while its call is at the gate, and resumes the run in another.
fn killed_while_striking(effect: &str) -> (Finished, Vec<(String, u32)>) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let gate = format!("kill {effect}");
    let doomed = tokio::runtime::Runtime::new().unwrap();
    let id = doomed.block_on(async {
        let engine = engine(Arc::clone(&store), &striking_model(&gate));
        let handle = engine.start(striking_job(effect), StartOptions::default()).await.unwrap();
        Gate::named(&gate).reached().await;
        handle.id().clone()
    });
    // After this nothing of the process continues.
    doomed.shutdown_timeout(Duration::from_secs(10));
    Gate::named(&gate).open();
    let next = tokio::runtime::Runtime::new().unwrap();
    next.block_on(async {
        let engine = engine(Arc::clone(&store), &striking_model(&gate));
        let handle = engine.resume(&id).await.unwrap();
        (finish(&engine, &handle).await, effects_of(id.as_str()))
    })
}

#[test]
fn a_call_that_may_be_repeated_is_run_again_under_the_same_key() {
    for effect in ["pure", "idempotent", "keyed"] {
        let (finished, effects) = killed_while_striking(effect);
        assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"struck": true}), "{effect}");
        assert_eq!(effects, [("0/1.1".to_owned(), 2)], "{effect}");
        let starts = |entry: &Entry| matches!(entry, Entry::CallStarted(started) if started.tool == "strike");
        assert_eq!(finished.entries.iter().filter(|recorded| starts(&recorded.entry)).count(), 1, "{effect}");
    }
}

#[test]
fn a_call_that_must_not_be_repeated_is_in_doubt_and_the_agent_is_told() {
    let (finished, effects) = killed_while_striking("at_most_once");
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome");
    assert_eq!(effects, [("0/1.1".to_owned(), 1)]);
    assert_eq!(finished.result, json!({"summary": "done"}));
}

#[tokio::test]
async fn stopping_waits_for_calls_that_must_not_be_repeated() {
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    let job = TestJob::new("solo", json!({}))
        .agent_with("solo", &["strike", "handoff"], json!({"limits": {"parallel_calls": 1}}))
        .tool("strike", gate, json!({"effect": "at_most_once"}))
        .load();
    let answers = model(|_, turn, _| match turn {
        // The second call begins when the first has returned.
        1 => calls(&[("strike", json!({"gate": "stop"})), ("strike", json!({}))]),
        _ => handoff("done", &[]),
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = engine(Arc::clone(&store), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let gate = Gate::named("stop");
    gate.reached().await;
    let (outcome, ()) = tokio::join!(handle.stop(), async { gate.open() });
    assert!(matches!(outcome, RunOutcome::Stopped), "{}", name_of(&outcome));
    assert_eq!(store.run(handle.id()).await.unwrap().unwrap().status, "stopped");
    let resumed = engine.resume(handle.id()).await.unwrap();
    let finished = finish(&engine, &resumed).await;
    for call in ["0/1.1", "0/1.2"] {
        assert_eq!(call_output(&finished.entries, call), json!({"struck": true}));
    }
    assert_eq!(effects_of(handle.id().as_str()), [("0/1.1".to_owned(), 1), ("0/1.2".to_owned(), 1)]);
    assert_eq!(store.run(handle.id()).await.unwrap().unwrap().status, "completed");
}

/// Returns the timeline of a run that has stopped.
async fn stopped_entries(store: &Arc<dyn Store>, run: &RunId) -> Vec<Recorded> {
    let entries = store.entries(run, 0, 1_000).await.unwrap();
    entries.iter().map(|recorded| Recorded::clone(recorded)).collect()
}

#[tokio::test]
async fn no_request_begins_while_a_run_stops() {
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    for (name, with_second) in [("quiet", false), ("queue", true)] {
        let job = TestJob::new("solo", json!({}))
            .agent_with("solo", &["strike", "handoff"], json!({"limits": {"parallel_calls": 1}}))
            .tool("strike", gate.clone(), json!({"effect": "at_most_once"}))
            .load();
        let answers = model(move |_, turn, _| match (turn, with_second) {
            (1, false) => calls(&[("strike", json!({"gate": name}))]),
            (1, true) => calls(&[("strike", json!({"gate": name})), ("strike", json!({}))]),
            _ => handoff("done", &[]),
        });
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let engine = engine(Arc::clone(&store), &answers);
        let handle = engine.start(job, StartOptions::default()).await.unwrap();
        let gate = Gate::named(name);
        gate.reached().await;
        let (outcome, ()) = tokio::join!(handle.stop(), async { gate.open() });
        assert!(matches!(outcome, RunOutcome::Stopped), "{}", name_of(&outcome));
        let stopped = stopped_entries(&store, handle.id()).await;
        let requests = stopped.iter().filter(|recorded| matches!(recorded.entry, Entry::ModelRequested(_)));
        assert_eq!(requests.count(), 1, "{name}: no request is reserved");
        let report = baton_proof::verify(engine.state(handle.id()).await.unwrap().configs(), &stopped);
        assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
        let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
        let requests = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::ModelRequested(_)));
        assert_eq!(requests.count(), 2, "{name}: no request is made again");
        assert_eq!(finished.result, json!({"summary": "done"}), "{name}");
    }
}

#[tokio::test]
async fn stopping_drops_a_call_that_may_be_repeated() {
    let engine = engine(Arc::new(MemoryStore::default()), &striking_model("drop"));
    let handle = engine.start(striking_job("idempotent"), StartOptions::default()).await.unwrap();
    let gate = Gate::named("drop");
    gate.reached().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let resumed = engine.resume(handle.id()).await.unwrap();
    assert!(matches!(engine.resume(handle.id()).await, Err(RunError::AlreadyRunning(_))));
    gate.reached().await;
    gate.open();
    let finished = finish(&engine, &resumed).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"struck": true}));
    assert_eq!(effects_of(handle.id().as_str()), [("0/1.1".to_owned(), 2)]);
}

#[tokio::test]
async fn a_former_owner_commits_nothing_more() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (zombie, owner) =
        (engine(Arc::clone(&store), &striking_model("zombie")), engine(Arc::clone(&store), &striking_model("zombie")));
    let handle = zombie.start(striking_job("at_most_once"), StartOptions::default()).await.unwrap();
    let gate = Gate::named("zombie");
    gate.reached().await;
    let taken = owner.resume(handle.id()).await.unwrap();
    let finished = finish(&owner, &taken).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome");
    // The call of the process that lost the run returns only now.
    gate.open();
    let outcome = handle.outcome().await;
    let RunOutcome::Failed(RunError::Store(error)) = outcome else { panic!("{}", name_of(&outcome)) };
    assert!(matches!(*error, StoreError::StaleEpoch { .. }), "{error}");
    let record = store.run(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.last_seq, record.epoch), (finished.entries.len() as u64, 2));
}

#[tokio::test]
async fn an_entry_that_no_run_could_have_written_is_an_error() {
    let engine = engine(Arc::new(MemoryStore::default()), &answers());
    let finished = run_to_end(&engine, job("idempotent")).await;
    let entries = &finished.entries;
    let place = |name: &str| entries.iter().position(|recorded| recorded.entry.name() == name).unwrap();
    let second_task = entries.iter().skip(place("task_created") + 1).position(|recorded| recorded.entry.name() == "task_created");
    let second_task = place("task_created") + 1 + second_task.unwrap();
    // The number of entries before it, the entry, and by how much its number differs from the next one.
    for (before, entry, skipped, reason) in [
        (1, 1, 1, "without gaps"),
        (second_task + 1, second_task, 0, "was created twice"),
        (1, second_task, 0, "which no entry created"),
        (entries.len(), place("call_finished"), 0, "no turn in progress"),
        (place("model_answered") + 1, place("model_answered"), 0, "is about an open request"),
    ] {
        let mut run = engine.unstarted(finished.run.started().map(|started| &started.run).unwrap()).await.unwrap();
        for recorded in &entries[..before] {
            engine.apply(&mut run, recorded).await.unwrap();
        }
        let seq = before as u64 + 1 + skipped;
        let error = engine.apply(&mut run, &Recorded { seq, ..(*entries[entry]).clone() }).await.unwrap_err();
        let RunError::BadEntry { seq: at, reason: found, .. } = &error else { panic!("{error}") };
        assert!(*at == seq && found.contains(reason), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_processes_that_continue_a_free_run_one_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baton.db");
    let asking = || {
        let answers = model(|_, turn, _| match turn {
            1 => calls(&[("ask_master", json!({"question": "Shall I?"}))]),
            _ => handoff("done", &[]),
        });
        engine(Arc::new(SqliteStore::open(&path).unwrap()), &answers)
    };
    let first = asking();
    for _ in 0..10 {
        let job = TestJob::new("solo", json!({})).agent("solo", &["ask_master", "handoff"]).load();
        let handle = first.start(job, StartOptions::default()).await.unwrap();
        assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
        handle.stop().await;
        let processes = [asking(), asking(), asking()];
        let taken = futures_util::future::join_all(processes.iter().map(|process| process.resume_free(handle.id()))).await;
        let (owners, others): (Vec<_>, Vec<_>) = taken.into_iter().partition(Result::is_ok);
        assert_eq!((owners.len(), others.len()), (1, 2));
        assert!(others.into_iter().all(|other| matches!(other, Err(RunError::Held { .. }))));
        let owner = owners.into_iter().next().unwrap().unwrap();
        assert!(matches!(owner.outcome_without_people().await, RunOutcome::WaitingForPerson), "nobody takes it away");
        assert_eq!(first.store().run(handle.id()).await.unwrap().unwrap().epoch, 2);
        owner.stop().await;
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_still_waits_for_the_same_thing_after_a_restart() {
    let job = TestJob::new("solo", json!({})).agent("solo", &["ask_master", "handoff"]).load();
    let sources = job.sources().clone();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("ask_master", json!({"question": "Shall I?"}))]),
        _ => handoff("done", &[]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
    let asked = handle.open_questions().await;
    handle.stop().await;
    let resumed = engine.resume(handle.id()).await.unwrap();
    assert!(matches!(resumed.outcome_without_people().await, RunOutcome::WaitingForPerson));
    let questions = resumed.open_questions().await;
    assert_eq!(questions, asked);
    let last = engine.store().entries(handle.id(), 0, 100).await.unwrap().pop().unwrap();
    assert!(
        matches!(&last.entry, Entry::Control(control) if matches!(control.action, ControlAction::TakenOver { .. })),
        "{:?}",
        last.entry
    );
    // The run is pinned to what it started with.
    let started = engine.started(handle.id()).await.unwrap();
    // The origin apart: files that were read back are the store's.
    let texts = |sources: &Sources| sources.files().map(|file| (file.path.clone(), file.text.clone())).collect::<Vec<_>>();
    assert_eq!(texts(&engine.pinned_sources(&started).await.unwrap()), texts(&sources));
    resumed.answer(questions[0].task.clone(), &Principal::person("ann"), json!("yes").into(), Vec::new()).await.unwrap();
    assert_eq!(finish(&engine, &resumed).await.status, "success");
}

#[tokio::test]
async fn conversations_that_fell_out_of_memory_are_rebuilt_to_the_byte() {
    let expected = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers()), job("idempotent")).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let forgetful = baton_runtime::Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(store)
        .model("m", answers())
        .transcript_cache_bytes(0)
        .content_cache_bytes(0);
    let finished = run_to_end(&forgetful.build().unwrap(), job("idempotent")).await;
    let requests = |finished: &Finished| {
        let mut hashes: Vec<_> = finished
            .entries
            .iter()
            .filter_map(|recorded| match &recorded.entry {
                // What a question shows of its master's open calls depends on how far its sibling is by then; that the same
                // timeline renders it alike, `run_to_end` has seen by replaying it.
                Entry::ModelAnswered(entry) if entry.task.as_str() != "0/1.1/2.1" => {
                    Some((entry.task.clone(), entry.turn, entry.request))
                }
                _ => None,
            })
            .collect();
        hashes.sort();
        hashes
    };
    assert_eq!(requests(&finished), requests(&expected));
}
