//! Continued conversations: runs that continue others, and tasks that begin with the conversation of their caller.

use std::sync::{Arc, Mutex};

use baton_models::Model;
use baton_runtime::{FollowUp, LoadedJob, RunError, RunOutcome};
use baton_store::{MemoryStore, Store, StoreError};
use baton_types::entry::Entry;
use baton_types::event::Refusal;
use baton_types::id::RunId;
use baton_types::message::{Message, Part};
use baton_types::path::DocumentPath;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::failing::{Failing, FailingStore};
use crate::support::{TestJob, calls, engine, finish, handoff, model, name_of, run_to_end};

fn text(description: &str) -> serde_json::Value {
    json!({"type": "string", "description": description, "required": true})
}

fn job(context: &str) -> LoadedJob {
    let write = json!({"path": text("Where."), "content": text("What.")});
    TestJob::new("lead", json!({}))
        .agent("lead", &["write_note", "route_to_worker", "handoff"])
        .agent("worker", &["write_note", "handoff"])
        .tool("write_note", write, json!({"effect": "idempotent", "writes": true}))
        .changed_tool("route_to_worker", json!({"context": context}))
        .load()
}

/// Returns the words of a conversation: requests, texts, and the tools that were called.
fn told(messages: &[Arc<Message>]) -> Vec<String> {
    let told = messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Request(text) => Some(text.clone()),
        Part::Call { asked, .. } => Some(asked.tool.clone()),
        _ => None,
    });
    told.collect()
}

/// Conversations that models were sent, by task.
type Sent = Arc<Mutex<Vec<(String, Vec<String>)>>>;

/// Returns a model: each lead writes a note and lets the worker change it.
fn answers(sent: &Sent) -> Arc<dyn Model> {
    let sent = Arc::clone(sent);
    model(move |agent, turn, request| {
        sent.lock().unwrap().push((request.task.to_string(), told(&request.messages)));
        let write = |content: String| calls(&[("write_note", json!({"path": "note.md", "content": content}))]);
        match (agent, turn) {
            ("lead", 1) => write(format!("By lead of {}.", request.task)),
            ("lead", 2) => calls(&[("route_to_worker", json!({"request": "Change it."}))]),
            ("lead", _) => handoff("done", &["note.md"]),
            (_, 1) => write(format!("By worker of {}.", request.task)),
            (_, _) => handoff("changed", &["note.md"]),
        }
    })
}

fn follow_up(request: &str) -> FollowUp {
    FollowUp { request: request.to_owned(), ..FollowUp::default() }
}

fn person() -> Principal {
    Principal::person("ann")
}

async fn only_run(store: &Arc<dyn Store>) -> RunId {
    store.runs().await.unwrap()[0].id.clone()
}

#[tokio::test]
async fn a_callee_reads_the_conversation_of_its_caller_if_its_config_says_so() {
    for (context, conversation) in
        [("request", &["Change it."][..]), ("fork", &["Begin.", "write_note", "route_to_worker", "Change it."])]
    {
        let sent = Sent::default();
        let finished = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers(&sent)), job(context)).await;
        assert_eq!(finished.status, "success");
        let first = sent.lock().unwrap().iter().find(|(task, _)| task == "0/2.1").map(|(_, told)| told.clone());
        assert_eq!(first.unwrap(), conversation, "{context}");
    }
}

#[tokio::test]
async fn a_run_goes_on_after_its_end_with_its_conversation_and_workspace() {
    let (sent, store) = (Sent::default(), Arc::new(MemoryStore::default()) as Arc<dyn Store>);
    let engine = engine(Arc::clone(&store), &answers(&sent));
    run_to_end(&engine, job("fork")).await;
    let first = only_run(&store).await;
    let handle = engine.continue_run(&first, &person(), follow_up("Once more.")).await.unwrap();
    let second = finish(&engine, &handle).await;
    assert_eq!(second.status, "success");
    let conversations = sent.lock().unwrap().clone();
    let of = |task: &str| conversations.iter().find(|(sent, _)| sent == task).map(|(_, told)| told.clone()).unwrap();
    let before = ["Begin.", "write_note", "route_to_worker", "handoff", "Once more."];
    assert_eq!(of("1"), before);
    assert_eq!(of("1/2.1"), [&before[..], &["write_note", "route_to_worker", "Change it."]].concat());
    let written = second.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::DocumentWritten(_))).count();
    assert_eq!(written, 4, "no write was a conflict");
    let third = engine.continue_run(handle.id(), &person(), follow_up("And again.")).await.unwrap();
    assert_eq!(finish(&engine, &third).await.run.root().unwrap().id.as_str(), "2");
    // The first run can be continued again, to another end.
    let other = engine.continue_run(&first, &person(), follow_up("Otherwise.")).await.unwrap();
    let started = finish(&engine, &other).await.run.started().cloned().unwrap();
    assert_eq!((started.request.as_str(), started.continues), ("Otherwise.", Some(first)));
}

#[tokio::test]
async fn a_crash_at_any_commit_of_a_continuation_changes_nothing_in_the_end() {
    let mut crashes = 0;
    let ended = async || {
        let store = Arc::new(MemoryStore::default()) as Arc<dyn Store>;
        run_to_end(&engine(Arc::clone(&store), &answers(&Sent::default())), job("fork")).await;
        let first = only_run(&store).await;
        (store, first)
    };
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let (store, first) = ended().await;
            let failing_store = Arc::new(FailingStore::new(Arc::clone(&store), commits, failing));
            let doomed = engine(failing_store, &answers(&Sent::default()));
            match doomed.continue_run(&first, &person(), follow_up("Once more.")).await {
                Ok(handle) => match handle.outcome().await {
                    RunOutcome::Failed(RunError::Store(error)) => assert!(matches!(*error, StoreError::Closed)),
                    RunOutcome::Ended { .. } => break,
                    other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
                },
                Err(RunError::Store(_)) => {}
                Err(error) => panic!("crash {failing:?} {commits}: {error}"),
            }
            crashes += 1;
            let runs = store.runs().await.unwrap();
            let Some(second) = runs.iter().find(|run| run.id != first) else {
                assert_eq!((failing, commits), (Failing::Before, 0), "the run and its first entries are one write");
                continue;
            };
            let engine = engine(Arc::clone(&store), &answers(&Sent::default()));
            let handle = engine.resume(&second.id).await.unwrap();
            let finished = finish(&engine, &handle).await;
            assert_eq!(finished.status, "success", "crash {failing:?} {commits}");
            let versions = finished.run.documents().get(&DocumentPath::parse("note.md").unwrap()).unwrap().current().version;
            assert_eq!(versions, 4, "crash {failing:?} {commits}");
        }
    }
    assert!(crashes >= 12, "only {crashes} crashes were tried");
}

#[tokio::test]
async fn a_run_that_has_not_ended_is_not_continued() {
    let store = Arc::new(MemoryStore::default()) as Arc<dyn Store>;
    let asking = model(|_, _, _| calls(&[("ask_master", json!({"question": "Which?"}))]));
    let engine = engine(Arc::clone(&store), &asking);
    let job = TestJob::new("lead", json!({})).agent("lead", &["ask_master", "handoff"]).load();
    let handle = engine.start(job, baton_runtime::StartOptions::default()).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
    let refused = engine.continue_run(handle.id(), &person(), follow_up("More.")).await.err();
    assert!(matches!(refused, Some(RunError::Refused(Refusal::NotEnded))), "{refused:?}");
}
