//! Runs from start to end: delegation in parallel, tools that misbehave, questions, cancellation.

use std::sync::Arc;

use baton_models::{FunctionModel, Model, ModelError};
use baton_runtime::{Delivery, Engine, InitialDocument, InputValue, Progress, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::entry::{Entry, FinalState, UserOutput};
use baton_types::event::Refusal;
use baton_types::id::RunId;
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::path::DocumentPath;
use baton_types::principal::Principal;
use futures_util::StreamExt;
use serde_json::json;

use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::Gate;
use crate::support::{TestJob, call_error, call_result, calls, engine, finish, handoff, model, root, run_to_end};

const NONE: fn() -> serde_json::Value = || json!({});

fn text(description: &str) -> serde_json::Value {
    json!({"type": "string", "description": description, "required": true})
}

#[tokio::test]
async fn children_of_one_turn_work_at_the_same_time_and_hand_back_their_documents() {
    let write = json!({"path": text("Where."), "content": text("What.")});
    let meet = json!({"name": text("Where."), "count": {"type": "integer", "description": "Who.", "required": true}});
    let job = TestJob::new("lead", NONE())
        .agent("lead", &["route_to_worker", "handoff"])
        .agent("worker", &["meet", "write_note", "handoff"])
        .tool("meet", meet, json!({"effect": "pure"}))
        .tool("write_note", write, json!({"effect": "idempotent", "writes": true}))
        .load();
    let answers = model(|agent, turn, request| match (agent, turn) {
        ("lead", 1) => {
            let routes: Vec<_> = ["a", "b", "c"].map(|name| ("route_to_worker", json!({"request": name}))).into();
            calls(&routes)
        }
        ("lead", _) => handoff("all is done", &["b.md"]),
        ("worker", 1) => calls(&[("meet", json!({"name": "three workers", "count": 3}))]),
        ("worker", 2) => {
            let name = request_text(request);
            calls(&[("write_note", json!({"path": format!("{name}.md"), "content": format!("by {name}")}))])
        }
        (_, _) => handoff("written", &[&format!("{}.md", request_text(request))]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.status, "success");
    assert_eq!(finished.result, json!({"summary": "all is done"}));
    let paths: Vec<String> = finished.run.documents().iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(paths, ["a.md", "b.md", "c.md"]);
    assert_eq!(finished.run.graph().iter().count(), 4);
    assert_eq!(finished.run.task(&"0/1.2".into()).unwrap().kind, baton_types::entry::TaskKind::Delegation);
}

fn request_text(request: &ModelRequest) -> String {
    let found = request.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
        baton_types::message::Part::Request(text) => Some(text.clone()),
        _ => None,
    });
    found.expect("every conversation begins with a request")
}

#[tokio::test(start_paused = true)]
async fn tools_that_misbehave_become_results_that_the_agent_reads() {
    let gate = json!({"gate": text("Whom to tell.")});
    let job = TestJob::new("solo", NONE())
        .agent("solo", &["explode", "explode_on_a_thread", "dawdle", "spin", "lie", "handoff"])
        .tool("explode", NONE(), NONE())
        .tool("explode_on_a_thread", NONE(), NONE())
        .tool("dawdle", NONE(), json!({"timeout_seconds": 2}))
        .tool("spin", gate, json!({"timeout_seconds": 1}))
        .tool("lie", NONE(), json!({"returns": {"count": "integer"}}))
        .load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("explode", json!({})), ("explode_on_a_thread", json!({})), ("dawdle", json!({})), ("lie", json!({}))]),
        2 => calls(&[("dawdle", json!({"for": 1})), ("missing", json!({}))]),
        _ => handoff("went on", &[]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.status, "success");
    assert_eq!(call_result(&finished.entries, "0/1.1"), "failed panicked");
    assert_eq!(call_error(&finished.entries, "0/1.1"), "the tool's code panicked: the fuse was short");
    assert_eq!(call_result(&finished.entries, "0/1.2"), "failed panicked");
    assert_eq!(call_error(&finished.entries, "0/1.2"), "the tool's code panicked: the fuse was short");
    assert_eq!(call_result(&finished.entries, "0/1.3"), "timeout timed_out");
    assert_eq!(call_result(&finished.entries, "0/1.4"), "failed invalid_output");
    assert_eq!(call_result(&finished.entries, "0/2.1"), "refused invalid_input");
    assert_eq!(call_result(&finished.entries, "0/2.2"), "refused unknown_tool");
}

/// Returns a job whose root asks a person for a word and writes it down.
fn asking_job() -> baton_runtime::LoadedJob {
    TestJob::new("solo", NONE()).agent("solo", &["ask_master", "handoff"]).load()
}

/// Asks once, then hands off with the answer.
fn asking_model() -> Arc<dyn Model> {
    model(|_, turn, request| {
        if turn == 1 {
            calls(&[("ask_master", json!({"question": "Which word?", "answer_schema": {"enum": ["red", "blue"]}}))])
        } else {
            let answer = request.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
                baton_types::message::Part::Result { result: Some(result), .. } => Some(result.output.text().into_owned()),
                _ => None,
            });
            handoff(&answer.unwrap_or_default(), &[])
        }
    })
}

#[tokio::test]
async fn a_question_waits_for_a_person_and_takes_the_first_valid_answer() {
    let engine = engine(Arc::new(MemoryStore::default()), &asking_model());
    let handle = engine.start(asking_job(), StartOptions::default()).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
    let questions = handle.open_questions().await;
    assert_eq!(questions.len(), 1);
    assert_eq!((questions[0].number, questions[0].text.as_str()), (1, "Which word?"));
    assert_eq!(engine.store().run(handle.id()).await.unwrap().unwrap().status, "waiting");

    let question = questions[0].task.clone();
    let answer = |word: &str| Json::from(json!(word));
    let wrong = handle.answer(question.clone(), &Principal::person("ann"), answer("green"), Vec::new()).await;
    assert!(matches!(wrong, Err(RunError::Refused(Refusal::InvalidAnswer { .. }))), "{wrong:?}");
    let nobody = handle.answer(root(), &Principal::person("ann"), answer("red"), Vec::new()).await;
    assert!(matches!(nobody, Err(RunError::Refused(Refusal::NotAsked { .. }))), "{nobody:?}");
    let (ann, bob) = (Principal::person("ann"), Principal::person("bob"));
    let (first, second) = tokio::join!(
        handle.answer(question.clone(), &ann, answer("red"), Vec::new()),
        handle.answer(question.clone(), &bob, answer("blue"), Vec::new()),
    );
    assert!(first.is_ok());
    let refused = second.unwrap_err();
    assert!(refused.to_string().starts_with("question Q1 is closed"), "{refused}");
    let finished = finish(&engine, &handle).await;
    assert!(finished.result["summary"].as_str().unwrap().contains("red"), "{}", finished.result);
    let late = handle.answer(question, &Principal::person("cid"), answer("red"), Vec::new()).await;
    assert!(matches!(late, Err(RunError::NotRunning(_))), "{late:?}");
}

#[tokio::test]
async fn a_run_whose_caller_leaves_it_proceeds_with_its_open_calls() {
    let job = TestJob::new("solo", NONE())
        .agent("solo", &["report", "handoff"])
        .tool("report", json!({"gate": text("Where to wait.")}), NONE())
        .load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("report", json!({"gate": "left"}))]),
        _ => handoff("done alone", &[]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let (id, gate) = (RunId::new("left"), Gate::named("left"));
    let mut run = Box::pin(engine.run(job, StartOptions { run: Some(id.clone()), ..StartOptions::default() }));
    tokio::select! {
        _ = &mut run => panic!("the call waits at the gate"),
        () = gate.reached() => drop(run),
    }
    let handle = engine.live(&id).unwrap();
    gate.open();
    assert_eq!(finish(&engine, &handle).await.result, json!({"summary": "done alone"}));
}

#[tokio::test]
async fn a_run_in_the_calling_task_takes_answers_from_others() {
    let engine = engine(Arc::new(MemoryStore::default()), &asking_model());
    let id = RunId::new("kept");
    let run = engine.run(asking_job(), StartOptions { run: Some(id.clone()), ..StartOptions::default() });
    let answer = async {
        let handle = loop {
            match engine.live(&id) {
                Some(handle) => break handle,
                None => tokio::task::yield_now().await,
            }
        };
        handle.outcome_without_people().await;
        let question = handle.open_questions().await[0].task.clone();
        handle.answer(question, &Principal::person("ann"), Json::from(json!("blue")), Vec::new()).await
    };
    let (outcome, answered) = tokio::join!(run, answer);
    answered.unwrap();
    let RunOutcome::Ended { end, run, .. } = outcome.unwrap() else { panic!("the run did not end") };
    assert_eq!((end.status.as_str(), &run.started().unwrap().run), ("success", &id));
    assert!(engine.live(&id).is_none());
}

#[tokio::test]
async fn a_run_in_the_calling_task_survives_a_failure_of_the_store_at_any_commit() {
    let write = json!({"path": text("Where."), "content": text("What.")});
    let job = || {
        TestJob::new("solo", NONE())
            .agent("solo", &["write_note", "handoff"])
            .tool("write_note", write.clone(), json!({"effect": "idempotent", "writes": true}))
            .load()
    };
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("write_note", json!({"path": "a.md", "content": "once"}))]),
        _ => handoff("noted", &["a.md"]),
    });
    let id = RunId::new("failing");
    for failing in [Failing::Before, Failing::After] {
        for commits in 0..=100 {
            assert!(commits < 100, "{failing:?}: the run never ends");
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, failing)), &answers);
            match doomed.run(job(), StartOptions { run: Some(id.clone()), ..StartOptions::default() }).await {
                Ok(RunOutcome::Failed(RunError::Store(_))) => {}
                Ok(RunOutcome::Ended { .. }) if commits > 2 => break,
                Err(RunError::Store(_)) if commits == 0 => {}
                other => panic!("{failing:?} {commits}: {:?}", other.map(|_| "another outcome")),
            }
            assert!(doomed.live(&id).is_none(), "{failing:?} {commits}");
            if (failing, commits) == (Failing::Before, 0) {
                assert_eq!(store.runs().await.unwrap(), [], "the run and its first entries are one write");
                continue;
            }
            let engine = engine(store, &answers);
            let handle = engine.resume(&id).await.unwrap();
            let finished = finish(&engine, &handle).await;
            assert_eq!(finished.result, json!({"summary": "noted"}), "{failing:?} {commits}");
            let note = finished.run.documents().get(&DocumentPath::parse("a.md").unwrap()).unwrap();
            assert_eq!(note.current().version, 1, "{failing:?} {commits}");
        }
    }
}

#[tokio::test]
async fn an_answer_from_another_engine_reaches_the_owner_or_waits_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("runs.db")).unwrap());
    // A second connection to the file acts as another process: nothing in memory is shared.
    let elsewhere: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("runs.db")).unwrap());
    let (owner, other) = (engine(Arc::clone(&store), &asking_model()), engine(elsewhere, &asking_model()));

    // The owner lives: the command wakes it.
    let handle = owner.start(asking_job(), StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    let question = other.open_questions(handle.id()).await.unwrap()[0].task.clone();
    let delivery =
        other.answer(handle.id(), question, &Principal::person("ann"), Json::from(json!("blue")), Vec::new()).await.unwrap();
    assert_eq!(delivery, Delivery::Done);
    let finished = finish(&owner, &handle).await;
    assert!(finished.result["summary"].as_str().unwrap().contains("blue"));

    // The owner is gone: the answer waits in the inbox, with its document, until somebody resumes the run.
    let handle = owner.start(asking_job(), StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let question = other.open_questions(handle.id()).await.unwrap()[0].task.clone();
    let refused =
        other.answer(handle.id(), question.clone(), &Principal::person("ann"), Json::from(json!("green")), Vec::new()).await;
    assert!(matches!(refused, Err(RunError::Refused(Refusal::InvalidAnswer { .. }))));
    let note = InitialDocument::new(DocumentPath::parse("why.md").unwrap(), *b"Because.");
    other.answer(handle.id(), question.clone(), &Principal::person("ann"), Json::from(json!("red")), vec![note]).await.unwrap();
    let second = other.answer(handle.id(), question, &Principal::person("bob"), Json::from(json!("blue")), Vec::new()).await;
    assert!(matches!(second, Err(RunError::Refused(Refusal::QuestionClosed { .. }))), "{second:?}");
    let resumed = other.resume(handle.id()).await.unwrap();
    let finished = finish(&other, &resumed).await;
    assert!(finished.result["summary"].as_str().unwrap().contains("red"));
    let why = finished.run.documents().get(&DocumentPath::parse("why.md").unwrap()).unwrap().current().content.hash;
    assert_eq!(&*other.content(why).await.unwrap().unwrap(), b"Because.");
    assert_eq!(store.take_commands(handle.id(), 0).await.unwrap(), []);
}

#[tokio::test]
async fn of_answers_given_at_the_same_moment_one_wins_and_the_others_are_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let connect = || -> Arc<dyn Store> { Arc::new(SqliteStore::open(folder.path().join("runs.db")).unwrap()) };
    let owner = engine(connect(), &asking_model());
    let others: Vec<_> = (0..8).map(|_| engine(connect(), &asking_model())).collect();
    let handle = owner.start(asking_job(), StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    handle.stop().await;
    let question = owner.open_questions(handle.id()).await.unwrap()[0].task.clone();
    let answers = others.iter().map(|other| {
        let (id, question) = (handle.id().clone(), question.clone());
        async move { other.answer(&id, question, &Principal::person("ann"), Json::from(json!("blue")), Vec::new()).await }
    });
    let told = futures_util::future::join_all(answers).await;
    let (won, lost): (Vec<_>, Vec<_>) = told.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1, "{lost:?}");
    for refused in lost {
        assert!(matches!(refused, Err(RunError::Refused(Refusal::QuestionClosed { .. }))), "{refused:?}");
    }
}

#[tokio::test]
async fn cancelling_reaches_running_calls_and_ends_the_run() {
    let gate = json!({"gate": text("Whom to tell.")});
    let job = TestJob::new("lead", NONE())
        .agent("lead", &["route_to_worker", "handoff"])
        .agent("worker", &["spin", "dawdle", "handoff"])
        .tool("spin", gate, json!({"effect": "pure"}))
        .tool("dawdle", NONE(), json!({"effect": "pure"}))
        .load();
    let answers = model(|agent, _, _| match agent {
        "lead" => calls(&[("route_to_worker", json!({"request": "Spin."}))]),
        _ => calls(&[("spin", json!({"gate": "cancelled"})), ("dawdle", json!({}))]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let mut entries = handle.entries();
    while let Some(entry) = entries.next().await {
        if matches!(&entry.unwrap().entry, Entry::CallStarted(started) if started.tool == "dawdle") {
            break;
        }
    }
    handle.cancel(root(), "enough", &Principal::person("ann")).await.unwrap();
    // The thread that spins has noticed.
    Gate::named("cancelled").reached().await;
    let finished = finish(&engine, &handle).await;
    assert_eq!(finished.status, "cancelled");
    assert!(finished.run.graph().iter().all(|task| !task.is_live()));
    let again = handle.cancel(root(), "enough", &Principal::person("ann")).await;
    assert!(matches!(again, Err(RunError::NotRunning(_))), "{again:?}");
}

#[tokio::test]
async fn many_runs_proceed_at_the_same_time_and_share_nothing_but_the_store() {
    let write = json!({"path": text("Where."), "content": text("What.")});
    let meet = json!({"name": text("Where."), "count": {"type": "integer", "description": "Who.", "required": true}});
    let answers = model(|_, turn, request| match turn {
        // No run can pass this before every other has come here.
        1 => calls(&[("meet", json!({"name": "all runs", "count": 8}))]),
        2 => calls(&[("write_note", json!({"path": "same.md", "content": request_text(request)}))]),
        _ => handoff("done", &["same.md"]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let mut handles = Vec::new();
    for number in 0..8 {
        let job = TestJob::new("solo", NONE())
            .agent("solo", &["meet", "write_note", "handoff"])
            .tool("meet", meet.clone(), json!({"effect": "pure"}))
            .tool("write_note", write.clone(), json!({"writes": true}))
            .load();
        let options = StartOptions { request: Some(format!("run {number}")), ..StartOptions::default() };
        handles.push(engine.start(job, options).await.unwrap());
    }
    for (number, handle) in handles.iter().enumerate() {
        let finished = finish(&engine, handle).await;
        let (_, document) = finished.run.documents().iter().next().unwrap();
        let content = engine.content(document.current().content.hash).await.unwrap().unwrap();
        assert_eq!(content.as_ref(), format!("run {number}").as_bytes());
        assert_eq!(document.current().version, 1);
    }
}

#[tokio::test]
async fn two_writers_of_one_document_never_overwrite_each_other() {
    let line = json!({"path": text("Where."), "line": text("What.")});
    let job = TestJob::new("lead", NONE())
        .agent("lead", &["route_to_worker", "handoff"])
        .agent_with("worker", &["append_line", "handoff"], json!({"limits": {"turns": 60, "repeats": 1_000}}))
        .tool("append_line", line, json!({"writes": true, "effect": "idempotent"}))
        .document("log.md", "start\n")
        .load();
    let workers = 6;
    let answers = model(move |agent, turn, request| match (agent, turn) {
        ("lead", 1) => {
            let routes: Vec<_> = (0..workers)
                .map(|worker| ("route_to_worker", json!({"request": format!("worker {worker}"), "documents": ["log.md"]})))
                .collect();
            calls(&routes)
        }
        ("worker", _) if !has_success(request) => {
            calls(&[("append_line", json!({"path": "log.md", "line": request_text(request)}))])
        }
        _ => handoff("done", &["log.md"]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.status, "success");
    let (_, document) = finished.run.documents().iter().next().unwrap();
    let content = engine.content(document.current().content.hash).await.unwrap().unwrap();
    let mut lines: Vec<&str> = std::str::from_utf8(&content).unwrap().lines().collect();
    assert_eq!(lines.remove(0), "start");
    lines.sort_unstable();
    assert_eq!(lines, (0..workers).map(|worker| format!("worker {worker}")).collect::<Vec<_>>());
    assert_eq!(document.versions().len(), workers + 1);
}

/// Whether the conversation holds a successful result.
fn has_success(request: &ModelRequest) -> bool {
    request.messages.iter().flat_map(|message| &message.parts).any(|part| match part {
        baton_types::message::Part::Result { result: Some(result), .. } => {
            result.status == baton_types::call::CallStatus::Success
        }
        _ => false,
    })
}

#[tokio::test]
async fn entries_come_from_the_first_on_without_gaps_however_late_one_listens() {
    let job = TestJob::new("lead", NONE()).agent("lead", &["route_to_worker", "handoff"]).agent("worker", &[]).load();
    let answers = model(|agent, turn, _| match (agent, turn) {
        ("lead", 1..=20) => calls(&vec![("route_to_worker", json!({"request": "Go."})); 4]),
        ("lead", _) => handoff("done", &[]),
        _ => ModelTurn::text("ok"),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let early = tokio::spawn({
        let mut entries = handle.entries();
        async move {
            let mut numbers = Vec::new();
            while let Some(entry) = entries.next().await {
                numbers.push(entry.unwrap().seq);
            }
            numbers
        }
    });
    let finished = finish(&engine, &handle).await;
    let expected: Vec<u64> = (1..=finished.entries.len() as u64).collect();
    assert_eq!(early.await.unwrap(), expected);
    let after: Vec<u64> = handle.entries_after(expected.len() as u64 - 2).map(|entry| entry.unwrap().seq).collect().await;
    assert_eq!(after, expected[expected.len() - 2..]);
    let ended = engine.resume(handle.id()).await.unwrap();
    assert_eq!(ended.entries().count().await, expected.len());
    assert!(matches!(ended.outcome().await, RunOutcome::Ended { end, .. } if end.state == FinalState::Completed));
}

#[tokio::test]
async fn progress_is_told_to_whoever_watches() {
    let gate = json!({"gate": text("Whom to tell.")});
    let job =
        TestJob::new("solo", NONE()).agent("solo", &["report", "handoff"]).tool("report", gate, json!({"effect": "pure"})).load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("report", json!({"gate": "progress"}))]),
        _ => handoff("done", &[]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let mut progress = handle.progress().unwrap();
    let gate = Gate::named("progress");
    gate.reached().await;
    gate.open();
    let told = progress.recv().await.unwrap();
    let Progress::Call { call, message } = &*told else { panic!("{told:?}") };
    assert_eq!((call.as_str(), message.as_str()), ("0/1.1", "half of it"));
    finish(&engine, &handle).await;
    assert!(handle.progress().is_none());
}

#[tokio::test]
async fn a_message_is_durable_when_a_watcher_receives_it() {
    let gate = json!({"gate": {"type": "string", "description": "Whom to tell.", "required": false}});
    let job = TestJob::new("solo", NONE()).agent("solo", &["strike", "handoff"]).tool("strike", gate, NONE()).load();
    let answers = model(|_, turn, _| match turn {
        1 => ModelTurn { text: "I strike now.".to_owned(), ..calls(&[("strike", json!({"gate": "message"}))]) },
        _ => handoff("done", &[]),
    });
    let store = Arc::new(MemoryStore::default());
    let engine = engine(Arc::clone(&store) as Arc<dyn Store>, &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let mut entries = handle.entries();
    let received = loop {
        let recorded = entries.next().await.unwrap().unwrap();
        if recorded.entry.user_output().is_some() {
            break recorded;
        }
    };
    let expected = UserOutput::Message { task: &root(), turn: 1, message: "I strike now." };
    assert_eq!(received.entry.user_output(), Some(expected), "it arrives while the call of its turn runs");
    let stored = store.entries(handle.id(), received.seq - 1, 1).await.unwrap();
    assert_eq!(stored[0], received);
    Gate::named("message").open();
    finish(&engine, &handle).await;
    let later: Vec<_> = entries.map(Result::unwrap).collect().await;
    assert!(later.iter().all(|recorded| recorded.entry.user_output().is_none()), "it arrives once");
}

#[tokio::test]
async fn a_script_that_parts_ways_with_the_run_fails_the_whole_run() {
    let job = TestJob::new("lead", NONE()).agent("lead", &["route_to_worker", "handoff"]).agent("worker", &["handoff"]).load();
    let answers: Arc<dyn Model> = Arc::new(FunctionModel::new(|request: &ModelRequest| {
        if request.agent.as_str() == "lead" {
            return Ok(calls(&[("route_to_worker", json!({"request": "Go."}))]));
        }
        let reason = "it has no turns".to_owned();
        Err(ModelError::Unexpected { agent: request.agent.clone(), turn: request.turn, reason })
    }));
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let RunOutcome::Ended { end, result, .. } = handle.outcome().await else { panic!("the run did not end") };
    assert_eq!(end.state, FinalState::Failed);
    assert!(result.error.as_ref().unwrap().message.contains("agent worker in task 0/1.1, turn 1"));
}

#[tokio::test]
async fn a_model_that_panics_fails_its_task_and_the_caller_goes_on() {
    let job = TestJob::new("lead", NONE()).agent("lead", &["route_to_worker", "handoff"]).agent("worker", &["handoff"]).load();
    let answers = model(|agent, turn, _| match (agent, turn) {
        ("lead", 1) => calls(&[("route_to_worker", json!({"request": "Go."}))]),
        ("lead", _) => handoff("without it", &[]),
        _ => panic!("out of words"),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.result, json!({"summary": "without it"}));
    assert_eq!(call_result(&finished.entries, "0/1.1"), "failed model_failed");
}

#[tokio::test]
async fn a_deadline_wakes_a_run_that_waits() {
    tokio::time::pause();
    let job = TestJob::new("solo", NONE()).agent("solo", &["ask_master", "handoff"]).load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("ask_master", json!({"question": "Anybody?", "deadline_seconds": 600, "on_deadline": "fail"}))]),
        _ => handoff("nobody", &[]),
    });
    let clock = baton_runtime::SteadyClock::starting_at(baton_types::time::Timestamp::from_micros(1));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = baton_runtime::Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(store)
        .model("m", answers)
        .clock(Arc::new(clock))
        .build()
        .unwrap();
    let before = tokio::time::Instant::now();
    let finished = run_to_end(&engine, job).await;
    assert_eq!(before.elapsed().as_secs(), 600);
    assert_eq!(call_result(&finished.entries, "0/1.1"), "timeout unanswered");
}

#[tokio::test]
async fn a_job_whose_functions_the_engine_lacks_does_not_start() {
    let job = |granted: &[&str]| {
        let read = json!({"path": text("Where.")});
        let write = json!({"path": text("Where."), "content": text("What.")});
        TestJob::new("solo", NONE())
            .agent("solo", granted)
            .tool("read_note", read, json!({"effect": "pure"}))
            .tool("write_note", write, json!({"effect": "idempotent", "writes": true}))
            .load()
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let answers = model(|_, _, _| handoff("done", &[]));
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&store)).model("m", answers);
    let engine = builder.functions(Vec::new()).build().unwrap();
    let started = engine.start(job(&["read_note", "write_note", "handoff"]), StartOptions::default()).await;
    let Err(error @ RunError::MissingFunctions(_)) = started.map(|_| ()) else { panic!("its calls would all fail") };
    let listed = "fn read_note (tool read_note), fn write_note (tool write_note)";
    assert_eq!(error.to_string(), format!("the job needs functions that this engine does not have: {listed}"));
    assert_eq!(store.runs().await.unwrap(), [], "nothing is stored");
    // Tools that no agent is granted are never called.
    assert_eq!(run_to_end(&engine, job(&["handoff"])).await.status, "success");
}

#[tokio::test]
async fn inputs_are_checked_before_anything_is_stored() {
    let request = json!({"text": "Look at {{ inputs.year }}, {{ inputs.region }}.", "inputs": {
        "year": {"type": "integer", "minimum": 2000},
        "region": {"type": "string", "default": "north"},
    }});
    let job = || TestJob::new("solo", json!({"request": request})).agent("solo", &["handoff"]).load();
    let answers = model(|_, _, request| handoff(&request_text(request), &[]));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = engine(Arc::clone(&store), &answers);
    let given = |pairs: &[(&str, &str)]| StartOptions {
        inputs: pairs.iter().map(|(name, value)| ((*name).to_owned(), InputValue::Text((*value).to_owned()))).collect(),
        ..StartOptions::default()
    };
    let Err(RunError::Inputs(faults)) = engine.start(job(), given(&[("yaer", "2024")])).await.map(|_| ()) else {
        panic!("the inputs were accepted");
    };
    let told = faults.to_string();
    assert!(told.contains("yaer") && told.contains("\"year\" is missing"), "{told}");
    assert!(matches!(engine.start(job(), given(&[("year", "1999")])).await, Err(RunError::Inputs(_))));
    let unknown = StartOptions { model: Some("n".to_owned()), ..given(&[("year", "2024")]) };
    assert!(matches!(engine.start(job(), unknown).await, Err(RunError::UnknownModel { .. })));
    let twins = ["a.md", "A.md"].map(|path| InitialDocument::new(DocumentPath::parse(path).unwrap(), *b"x"));
    let twins = StartOptions { documents: twins.into(), ..given(&[("year", "2024")]) };
    let refused = engine.start(job(), twins).await;
    assert!(matches!(refused, Err(RunError::Refused(Refusal::InvalidDocument { .. }))));
    assert_eq!(store.runs().await.unwrap(), []);

    let handle = engine.start(job(), given(&[("year", "2024")])).await.unwrap();
    assert_eq!(finish(&engine, &handle).await.result, json!({"summary": "Look at 2024, north."}));
}
