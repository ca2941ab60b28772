//! Delegations by name: `delegate_async`, `launch_principal`, `ask_expert`, `fork_join` and `provision_agent`.

use std::sync::Arc;
use std::time::Duration;

use baton_models::Model;
use baton_runtime::{LoadedJob, RunError, RunOutcome, StartOptions, WorkOptions};
use baton_store::{MemoryStore, RunRecord, SqliteStore, Store, StoreError};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{CallId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::message::Part;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::failing::{Failing, FailingStore};
use crate::support::{
    Finished, TestJob, call_error, call_output, call_result, calls, engine, handoff, model, name_of, run_to_end,
};

const TOOLS: [&str; 5] = ["delegate_async", "launch_principal", "ask_expert", "fork_join", "provision_agent"];

/// Returns a job whose root delegates by name to workers.
fn job() -> LoadedJob {
    let granted = [&TOOLS[..], &["route_to_worker", "route_to_clerk", "wait_tasks", "handoff"]].concat();
    let input = json!({
        "gate": {"type": "string", "description": "Where to wait.", "required": false},
        "milliseconds": {"type": "integer", "description": "How long to wait.", "required": false},
    });
    let mut job = TestJob::new("root", json!({}))
        .agent("root", &granted)
        .agent("worker", &["hand_over", "sleep", "handoff"])
        .agent("clerk", &["handoff"])
        .agent("stranger", &["handoff"])
        .changed_tool("route_to_worker", json!({"background": true, "follow_up": true}))
        .tool("hand_over", input, json!({"effect": "keyed", "suspends": true}))
        .built_in("wait_tasks")
        .built_in("sleep");
    for tool in TOOLS {
        job = job.built_in(tool);
    }
    job.load()
}

fn target(strategy: &str, target: &str, instruction: &str) -> Value {
    json!({"target_strategy": strategy, "target_ref": target, "instruction": instruction})
}

fn wait() -> ModelTurn {
    calls(&[("wait_tasks", json!({}))])
}

/// Runs the job: `root` gives the turns of the root. A worker fails, waits for ever or hands off the number of requests in its conversation.
async fn run(root: impl Fn(u32) -> ModelTurn + Send + Sync + 'static) -> Finished {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    run_to_end(&engine(store, &answering(root)), job()).await
}

fn answering(root: impl Fn(u32) -> ModelTurn + Send + Sync + 'static) -> Arc<dyn Model> {
    model(move |agent, turn, request| {
        if agent == "root" {
            return root(turn);
        }
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        let texts: Vec<&String> =
            parts.filter_map(|part| if let Part::Request(text) = part { Some(text) } else { None }).collect();
        match texts.last() {
            Some(last) if last.contains("fail") => ModelTurn::text(""),
            Some(last) if turn == 1 && last.contains("never") => calls(&[("hand_over", json!({}))]),
            _ => handoff(&format!("{} requests", texts.len()), &[]),
        }
    })
}

/// Returns the task that each task of `entries` begins from.
fn beginnings(entries: &[Arc<Recorded>]) -> Vec<(String, Option<String>)> {
    let created = entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::TaskCreated(created) if !created.task.is_root() => {
            Some((created.task.to_string(), created.begins_from.as_ref().map(TaskId::to_string)))
        }
        _ => None,
    });
    created.collect()
}

#[tokio::test]
async fn a_delegation_by_name_is_accepted_at_once_and_its_result_follows() {
    let finished = run(|turn| match turn {
        1 => calls(&[
            ("delegate_async", target("new", "worker", "one")),
            ("launch_principal", json!({"profile_name": "worker", "instruction": "two"})),
        ]),
        2 => wait(),
        _ => handoff("done", &[]),
    })
    .await;
    for (call, task) in [("0/1.1", "0/1.1:task"), ("0/1.2", "0/1.2:task")] {
        let accepted = json!({"accepted": true, "agent_turn_id": task, "turn_epoch": 1});
        assert_eq!(call_output(&finished.entries, call), accepted);
    }
    let reported = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::TaskReported(_))).count();
    assert_eq!((finished.status, reported), ("success", 2));
}

#[tokio::test]
async fn a_conversation_continues_under_an_id_and_a_clone_leaves_it_alone() {
    let finished = run(|turn| match turn {
        1 => calls(&[
            ("provision_agent", json!({"action": "ensure", "agent_id": "bob", "profile_name": "worker"})),
            ("delegate_async", target("new", "worker", "first")),
        ]),
        2 | 4 | 6 => wait(),
        3 => calls(&[("delegate_async", target("reuse", "bob", "b1"))]),
        // A turn later, the conversation of bob continues, and a clone begins with it.
        5 => calls(&[("delegate_async", target("reuse", "bob", "b2")), ("delegate_async", target("clone", "bob", "c1"))]),
        7 => calls(&[
            ("delegate_async", target("reuse", "bob", "b3")),
            ("delegate_async", target("reuse", "0/5.2:task", "c2")),
            ("delegate_async", target("reuse", "0/1.2:task", "second")),
        ]),
        8 => calls(&[
            ("wait_tasks", json!({})),
            ("provision_agent", json!({"action": "derive", "agent_id": "carol", "derived_from": "bob"})),
        ]),
        9 => calls(&[("fork_join", json!({"tasks": [target("reuse", "carol", "d1"), target("reuse", "bob", "b4")]}))]),
        _ => handoff("done", &[]),
    })
    .await;
    let expected = [
        ("0/1.2:task", None),
        ("0/3.1:task", None),
        ("0/5.1:task", Some("0/3.1:task")),
        ("0/5.2:task", Some("0/3.1:task")),
        ("0/7.1:task", Some("0/5.1:task")),
        ("0/7.2:task", Some("0/5.2:task")),
        ("0/7.3:task", Some("0/1.2:task")),
        ("0/9.1:1", Some("0/7.1:task")),
        ("0/9.1:2", Some("0/7.1:task")),
    ];
    let mut begun = beginnings(&finished.entries);
    begun.sort();
    assert_eq!(begun, expected.map(|(task, from)| (task.to_owned(), from.map(str::to_owned))));
    assert_eq!(finished.status, "success");
}

#[tokio::test]
async fn agents_that_cannot_be_meant_are_refused() {
    let provision = |action: &str, id: &str, further: Value| {
        let mut input = json!({"action": action, "agent_id": id});
        input.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
        ("provision_agent", input)
    };
    let finished = run(move |turn| match turn {
        1 => calls(&[provision("create", "bob", json!({"profile_name": "worker", "tags": ["a"]}))]),
        2 => calls(&[
            provision("ensure", "bob", json!({"profile_name": "worker"})),
            provision("ensure", "bob", json!({"profile_name": "clerk"})),
            provision("create", "bob", json!({"profile_name": "worker"})),
            provision("create", "Bob", json!({"profile_name": "worker"})),
            provision("create", "eve", json!({"profile_name": "stranger"})),
            provision("create", "eve", json!({})),
            provision("derive", "eve", json!({"derived_from": "bobb"})),
            provision("derive", "eve", json!({"derived_from": "bob", "profile_name": "worker"})),
            ("delegate_async", target("reuse", "bobb", "x")),
            ("delegate_async", target("new", "stranger", "x")),
            ("delegate_async", target("new", "clerk", "x")),
            ("fork_join", json!({"tasks": [target("reuse", "bob", "x"), target("reuse", "bob", "y")]})),
            ("fork_join", json!({"tasks": [target("new", "worker", "x"), target("new", "stranger", "y")]})),
        ]),
        _ => handoff("done", &[]),
    })
    .await;
    let created = json!({"agent_id": "bob", "profile_name": "worker", "created": true, "tags": ["a"], "metadata": {}});
    assert_eq!(call_output(&finished.entries, "0/1.1"), created);
    assert_eq!(call_output(&finished.entries, "0/2.1")["created"], false);
    let mut refused: Vec<String> = (2..=13).map(|place| call_error(&finished.entries, &format!("0/2.{place}"))).collect();
    let of_limits = refused.remove(3);
    let expected = [
        "there is an agent \"bob\", of the profile worker",
        "there is an agent \"bob\", of the profile worker",
        "\"Bob\" cannot be an id: use at most 64 small letters, digits, '_' and '-'",
        "ensure and create need profile_name, and no derived_from",
        "there is no agent \"bobb\" to derive from",
        "derive needs derived_from, and no profile_name: the profile is the same",
        "\"bobb\" is not an agent that you provisioned or delegated to in an earlier turn; did you mean \"bob\"?",
        "you cannot delegate to an agent \"stranger\"",
        "clerk takes no work in the background: its tool route_to_clerk needs \"background\": true",
        "the agent \"bob\" is reused twice: its conversation can continue only once",
        "there is no tool \"route_to_stranger\" that the code of fork_join may call",
    ];
    assert_eq!(refused, expected);
    assert!(of_limits.contains("stranger"), "{of_limits}");
    assert_eq!(beginnings(&finished.entries), [], "nothing was delegated");
}

#[tokio::test]
async fn the_answer_of_an_expert_comes_back() {
    let finished = run(|turn| match turn {
        1 => calls(&[
            ("ask_expert", json!({"expert_profile": "clerk", "question": "Is it?"})),
            ("ask_expert", json!({"expert_profile": "clerk", "question": "Please fail."})),
        ]),
        _ => handoff("done", &[]),
    })
    .await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"answer": {"summary": "1 requests"}}));
    assert_eq!(call_result(&finished.entries, "0/1.2"), "failed tool_failed");
    assert!(call_error(&finished.entries, "0/1.2").starts_with("the delegation to clerk ended as failed: "));
}

/// Returns the status of the call `0/1.1`, and those of its tasks.
fn statuses(finished: &Finished) -> Vec<String> {
    let output = call_output(&finished.entries, "0/1.1");
    let tasks = output["results"].as_array().unwrap().iter();
    [&output].into_iter().chain(tasks).map(|of| of["status"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_join_ends_with_all_results_at_the_first_failure_or_at_its_deadline() {
    let cases: [(&[&str], Value, &[&str]); 6] = [
        (&["a", "b"], json!({}), &["success", "success", "success"]),
        (&["a", "fail"], json!({}), &["partial", "success", "failed"]),
        (&["fail", "fail"], json!({}), &["failed", "failed", "failed"]),
        (&["a", "never"], json!({"deadline_seconds": 1}), &["partial", "success", "timeout"]),
        (&["never", "never"], json!({"deadline_seconds": 1}), &["timeout", "timeout", "timeout"]),
        (&["fail", "never"], json!({"fail_fast": true}), &["failed", "failed", "cancelled"]),
    ];
    for (work, further, expected) in cases {
        let tasks: Vec<Value> = work.iter().map(|instruction| target("new", "worker", instruction)).collect();
        let mut input = json!({"tasks": tasks});
        input.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
        let finished = run(move |turn| match turn {
            1 => calls(&[("fork_join", input.clone())]),
            _ => handoff("done", &[]),
        })
        .await;
        assert_eq!(statuses(&finished), expected, "{work:?}");
        assert_eq!(finished.status, "success", "no task keeps the run: {work:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_under_a_worker_ends_when_its_last_task_has() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("baton.db")).unwrap());
    let input = json!({"tasks": [target("new", "worker", "never"), target("new", "clerk", "b")], "deadline_seconds": 600});
    let engine = engine(
        store.clone(),
        &answering(move |turn| if turn == 1 { calls(&[("fork_join", input.clone())]) } else { handoff("done", &[]) }),
    );
    let (working, stop) = (engine.clone(), CancellationToken::new());
    let stopped = stop.clone();
    let worker = tokio::spawn(async move { working.work(WorkOptions { slots: 1 }, stopped.cancelled(), |_| ()).await });
    let runs = [
        engine.queue(job(), StartOptions::default()).await.unwrap(),
        engine.queue(job(), StartOptions::default()).await.unwrap(),
    ];
    let is_so = async |run: &RunId, is_so: fn(&RunRecord) -> bool| {
        for _ in 0..600 {
            if is_so(&store.run(run).await.unwrap().unwrap()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", store.run(run).await);
    };
    for run in &runs {
        is_so(run, |record| record.status != "queued" && record.owner.is_none()).await;
    }
    for run in &runs {
        let call = CallId::from("0/1.1:1/1.1");
        engine.deliver(run, &call, &Principal::person("ann"), Ok(Json::from(json!({"by": "ann"})))).await.unwrap();
    }
    for run in &runs {
        is_so(run, |record| record.status == "completed").await;
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_last_attempt_of_a_delegation_is_continued() {
    let granted = [&TOOLS[..], &["route_to_worker", "handoff"]].concat();
    let mut job = TestJob::new("root", json!({})).agent("root", &granted).agent("worker", &["handoff"]).built_in("sleep");
    job = job.changed_tool("route_to_worker", json!({"follow_up": true, "on_failure": {"retry": {"times": 2}}}));
    for tool in TOOLS {
        job = job.built_in(tool);
    }
    let model = model(|agent, turn, request| match (agent, turn, request.task.as_str()) {
        ("root", 1, _) => calls(&[("fork_join", json!({"tasks": [target("new", "worker", "a")]}))]),
        ("root", 2, _) => calls(&[("fork_join", json!({"tasks": [target("reuse", "0/1.1:1", "b")]}))]),
        ("worker", _, "0/1.1:1") => ModelTurn::text(""),
        _ => handoff("done", &[]),
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let finished = run_to_end(&engine(store, &model), job.load()).await;
    let mut begun = beginnings(&finished.entries);
    begun.sort();
    let expected = [("0/1.1:1", None), ("0/1.1:1/retry.2", None), ("0/2.1:1", Some("0/1.1:1/retry.2"))];
    assert_eq!(begun, expected.map(|(task, from)| (task.to_owned(), from.map(str::to_owned))));
}

#[tokio::test]
async fn delegations_by_name_are_made_once_wherever_the_process_is_killed() {
    let root = |turn: u32| match turn {
        1 => calls(&[
            ("provision_agent", json!({"action": "ensure", "agent_id": "bob", "profile_name": "worker"})),
            ("fork_join", json!({"tasks": [target("new", "worker", "a"), target("new", "clerk", "b")]})),
        ]),
        2 => calls(&[("delegate_async", target("reuse", "bob", "b1"))]),
        3 | 5 => wait(),
        4 => calls(&[("delegate_async", target("reuse", "bob", "b2")), ("delegate_async", target("clone", "bob", "c1"))]),
        _ => handoff("done", &[]),
    };
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let inner: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let first = engine(Arc::new(FailingStore::new(Arc::clone(&inner), commits, failing)), &answering(root));
            match first.start(job(), StartOptions::default()).await {
                Ok(handle) => match handle.outcome().await {
                    RunOutcome::Ended { .. } => break,
                    RunOutcome::Failed(RunError::Store(error)) if matches!(*error, StoreError::Closed) => {}
                    other => panic!("{}", name_of(&other)),
                },
                Err(RunError::Store(error)) => assert!(matches!(*error, StoreError::Closed), "{error}"),
                Err(error) => panic!("{error}"),
            }
            crashes += 1;
            let second = engine(Arc::clone(&inner), &answering(root));
            let handle = match inner.runs().await.unwrap().first() {
                Some(run) => second.resume(&run.id).await.unwrap(),
                None => second.start(job(), StartOptions::default()).await.unwrap(),
            };
            let finished = crate::support::finish(&second, &handle).await;
            let mut begun = beginnings(&finished.entries);
            begun.sort();
            let expected = [
                ("0/1.2:1", None),
                ("0/1.2:2", None),
                ("0/2.1:task", None),
                ("0/4.1:task", Some("0/2.1:task")),
                ("0/4.2:task", Some("0/2.1:task")),
            ];
            let expected = expected.map(|(task, from)| (task.to_owned(), from.map(str::to_owned)));
            assert_eq!(begun, expected, "crash {failing:?} {commits}");
        }
    }
    assert!(crashes >= 20, "{crashes} crashes");
}
