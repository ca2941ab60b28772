//! Calls that have no effect but their result begin before their entries are durable: a turn of them is one commit. What
//! they see is what they would see later, and a commit that fails takes all of them back.

use std::sync::Arc;

use baton_models::Model;
use baton_runtime::{Engine, LoadedJob, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::RunId;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::effects_of;
use crate::support::{TestJob, call_output, calls, engine, finish, handoff, model, name_of, run_to_end, workspace};

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description, "required": true})
}

/// Returns a job whose document tools have this effect.
fn notes_job(effect: &str) -> LoadedJob {
    let line = json!({"path": text("Where."), "line": text("What.")});
    TestJob::new("solo", json!({}))
        .agent("solo", &["append_line", "read_note", "handoff"])
        .tool("append_line", line, json!({"effect": effect, "writes": true, "timeout_seconds": 10}))
        .tool("read_note", json!({"path": text("Where.")}), json!({"effect": effect, "timeout_seconds": 10}))
        .load()
}

/// Writes `line` and one more, reads after each, all in one turn; then hands off.
fn notes_model(line: &str) -> Arc<dyn Model> {
    let line = line.to_owned();
    model(move |_, turn, _| match turn {
        1 => calls(&[
            ("append_line", json!({"path": "a.md", "line": line})),
            ("read_note", json!({"path": "a.md"})),
            ("append_line", json!({"path": "a.md", "line": "more"})),
            ("read_note", json!({"path": "a.md"})),
        ]),
        _ => handoff("done", &["a.md"]),
    })
}

/// Returns the number of the only entry that `is_it` accepts.
fn number_of(entries: &[Arc<Recorded>], is_it: impl Fn(&Entry) -> bool) -> u64 {
    let found: Vec<u64> = entries.iter().filter(|recorded| is_it(&recorded.entry)).map(|recorded| recorded.seq).collect();
    assert_eq!(found.len(), 1, "entries {found:?}");
    found[0]
}

/// Returns the notes job on `store`, with a cache for documents of `cache` bytes and a first line of `length`: each of its calls
/// sees what the calls before it wrote. Returns whether the turn was one commit.
async fn check_reads(store: Arc<dyn Store>, effect: &str, cache: usize, length: usize) -> bool {
    let store = Arc::new(FailingStore::watching(store));
    let line = "x".repeat(length);
    let watched: Arc<dyn Store> = Arc::<FailingStore>::clone(&store);
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(watched)
        .model("m", notes_model(&line))
        .content_cache_bytes(cache)
        .build()
        .unwrap();
    let entries = run_to_end(&engine, notes_job(effect)).await.entries;
    assert_eq!(call_output(&entries, "0/1.1"), json!({"lines": 1}), "{effect} {cache} {length}");
    assert_eq!(call_output(&entries, "0/1.2"), json!({"content": format!("{line}\n")}), "{effect} {cache} {length}");
    assert_eq!(call_output(&entries, "0/1.3"), json!({"lines": 2}), "{effect} {cache} {length}");
    assert_eq!(call_output(&entries, "0/1.4"), json!({"content": format!("{line}\nmore\n")}), "{effect} {cache} {length}");
    let commit_of = |is_it: &dyn Fn(&Entry) -> bool| store.commit_of(number_of(&entries, is_it));
    let answered = commit_of(&|entry| matches!(entry, Entry::ModelAnswered(entry) if entry.turn == 1));
    let written = commit_of(&|entry| matches!(entry, Entry::DocumentWritten(version) if version.version == 1));
    let began = commit_of(&|entry| matches!(entry, Entry::CallStarted(entry) if entry.call.as_str() == "0/1.2"));
    let over = commit_of(&|entry| matches!(entry, Entry::CallFinished(entry) if entry.call.as_str() == "0/1.4"));
    if effect == "pure" {
        assert_eq!((written, began), (answered, answered), "the first read began before the write was durable");
    }
    over == answered
}

#[tokio::test]
async fn a_call_reads_what_the_calls_before_it_wrote_although_nothing_of_it_is_durable_yet() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("runs.db")).unwrap());
    for store in [Arc::new(MemoryStore::default()), sqlite] {
        assert!(check_reads(Arc::clone(&store), "pure", 1 << 20, 10).await, "a turn at once is one commit");
        // More than a quarter of what may stay in memory, and more than nothing: only the store has it, after the commit.
        assert!(!check_reads(Arc::clone(&store), "pure", 1_000, 300).await);
        assert!(!check_reads(Arc::clone(&store), "pure", 0, 10).await);
    }
}

#[tokio::test]
async fn a_call_that_begins_after_its_commit_reads_what_only_the_store_has() {
    for (cache, length) in [(1 << 20, 10), (1_000, 300), (0, 10)] {
        assert!(!check_reads(Arc::new(MemoryStore::default()), "idempotent", cache, length).await);
    }
}

#[tokio::test]
async fn of_calls_whose_commit_failed_nothing_is_seen_and_going_on_comes_to_the_same_end() {
    let answers = notes_model("first");
    let expected = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers), notes_job("pure")).await;
    let versions: Vec<_> = expected.run.documents().iter().flat_map(|(_, document)| document.versions()).collect();
    assert_eq!(versions.len(), 2);
    let mut crashes = 0;
    for commits in 1.. {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, Failing::Before)), &answers);
        let handle = doomed.start(notes_job("pure"), StartOptions::default()).await.unwrap();
        let (outcome, seen) = tokio::join!(handle.outcome(), handle.entries().map(Result::unwrap).collect::<Vec<_>>());
        match outcome {
            RunOutcome::Failed(RunError::Store(_)) => crashes += 1,
            RunOutcome::Ended { .. } => break,
            other => panic!("{}", name_of(&other)),
        }
        assert_eq!(seen, store.entries(handle.id(), 0, 1_000).await.unwrap(), "whoever watched saw what is durable");
        let next = engine(Arc::clone(&store), &answers);
        let state = next.state(handle.id()).await.unwrap();
        let known: Vec<_> = state.documents().iter().flat_map(|(_, document)| document.versions()).collect();
        // The first commit begins the run, the second is the turn with its four calls.
        assert_eq!(known.len(), if commits == 1 { 0 } else { 2 }, "after {commits} commits");
        for version in &versions {
            let is_known = known.iter().any(|known| known.content.hash == version.content.hash);
            assert_eq!(store.content(version.content.hash).await.unwrap().is_some(), is_known, "after {commits} commits");
        }
        let resumed = next.resume(handle.id()).await.unwrap();
        let finished = finish(&next, &resumed).await;
        assert_eq!(finished.result, expected.result);
        assert_eq!(workspace(finished.run.documents()), workspace(expected.run.documents()));
    }
    assert!(crashes >= 2, "only {crashes} crashes were tried");
}

#[tokio::test]
async fn only_a_pure_call_runs_before_its_start_is_durable() {
    let line = json!({"path": text("Where."), "line": text("What.")});
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    // The strike comes after a call that is done before the commit, so it begins in the same iteration as that one.
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("append_line", json!({"path": "a.md", "line": "first"})), ("strike", json!({}))]),
        _ => handoff("done", &[]),
    });
    for effect in ["pure", "idempotent", "keyed", "at_most_once"] {
        for commits in 1.. {
            let job = TestJob::new("solo", json!({}))
                .agent("solo", &["append_line", "strike", "handoff"])
                .tool("append_line", line.clone(), json!({"effect": "pure", "writes": true}))
                .tool("strike", gate.clone(), json!({"effect": effect}))
                .load();
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, Failing::Before)), &answers);
            let handle = doomed.start(job, StartOptions::default()).await.unwrap();
            let outcome = handle.outcome().await;
            let begun = durable_strikes(&store, handle.id()).await;
            let struck: u32 = effects_of(handle.id().as_str()).iter().map(|(_, count)| count).sum();
            match effect {
                "pure" => assert_eq!(struck, 1, "{effect}: it runs with the answer that asks for it, after {commits} commits"),
                _ => assert_eq!(struck, begun, "{effect}: it runs once it is durable that it does, after {commits} commits"),
            }
            assert_eq!(begun, u32::from(commits > 1), "{effect}: after {commits} commits");
            match outcome {
                RunOutcome::Failed(RunError::Store(_)) => {}
                RunOutcome::Ended { .. } => break,
                other => panic!("{}", name_of(&other)),
            }
        }
    }
}

/// Returns the number of durable starts of `strike`.
async fn durable_strikes(store: &Arc<dyn Store>, run: &RunId) -> u32 {
    let entries = store.entries(run, 0, 1_000).await.unwrap();
    let strikes = |recorded: &&Arc<Recorded>| matches!(&recorded.entry, Entry::CallStarted(entry) if entry.tool == "strike");
    u32::try_from(entries.iter().filter(strikes).count()).unwrap()
}
