//! Universal invocation in whole runs: a model that only writes text does what a model with tool calls does.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use baton_models::{FunctionModel, Model};
use baton_runtime::{Engine, LoadedJob, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_types::call::{CallStatus, ModelCall};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::TaskId;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use crate::examples::{examples, load, outcome, run};
use crate::scripted_jobs::write_jobs;
use crate::support::failing::{Failing, FailingStore};
use crate::support::{Finished, TestJob, call_output, call_result, engine, finish, run_to_end, workspace};

/// The turns of a run: text and calls, by task and turn.
type Turns = HashMap<(TaskId, u32), (String, Vec<Arc<ModelCall>>)>;

fn turns(entries: &[Arc<Recorded>]) -> Turns {
    let answered = entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelAnswered(entry) => Some(((entry.task.clone(), entry.turn), (entry.text.clone(), entry.calls.clone()))),
        _ => None,
    });
    answered.collect()
}

/// Returns each call with its tool and input, by id.
fn calls(turns: &Turns) -> Vec<(String, String, Value)> {
    let calls = turns.iter().flat_map(|((task, turn), (_, calls))| {
        (1..).zip(calls).map(|(position, call)| (task.call(*turn, position).to_string(), call.tool.clone(), call.input.value()))
    });
    let mut calls: Vec<_> = calls.collect();
    calls.sort_by(|one, other| one.0.cmp(&other.0));
    calls
}

/// Returns a turn as the text of a model.
fn envelope((text, calls): &(String, Vec<Arc<ModelCall>>)) -> String {
    let requests: Vec<Value> = calls
        .iter()
        .map(|call| json!({"tool": call.tool, "input": call.input, "return_to_llm": call.return_to_llm.unwrap_or(true)}))
        .collect();
    let context = json!({"message": text, "tool_requests": requests});
    let breadcrumb =
        json!({"schema_name": "agent.response.v1", "title": "Response", "tags": ["agent:response"], "context": context});
    format!("```json\n{}\n```", json!({"action": "create", "breadcrumb": breadcrumb}))
}

/// Copies the folder of a job; its agents use universal invocation.
fn copy_as_universal(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_as_universal(&path, &target);
        } else if from.ends_with("agents") {
            let mut agent: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            // A program calls tools in its own way.
            if agent.get("program").is_none() {
                agent["invocation"] = json!("universal");
            }
            std::fs::write(target, agent.to_string()).unwrap();
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_job_has_the_same_calls_and_documents_in_universal_invocation() {
    let small = tempfile::tempdir().unwrap();
    let names = write_jobs(small.path());
    assert!(examples().len() + names.len() >= 11, "the examples, and jobs for what they do not cover");
    for folder in examples().into_iter().chain(names.iter().map(|name| small.path().join(name))) {
        let native = run(&folder).await;
        let expected = turns(&native.entries);
        let copy = tempfile::tempdir().unwrap();
        copy_as_universal(&folder, copy.path());
        let answers = expected.clone();
        let model = FunctionModel::new(move |request: &ModelRequest| {
            assert!(request.tools.is_empty() && request.system.contains("=== TOOLS ("), "{}", request.system);
            Ok(ModelTurn::text(envelope(&answers[&(request.task.clone(), request.turn)])))
        });
        let engine = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::new(MemoryStore::default()));
        let engine = engine.model("scripted", Arc::new(model)).build().unwrap();
        let handle = engine.start(load(copy.path()), StartOptions::default()).await.unwrap();
        outcome(&handle).await;
        // Also checks that a replay renders the same requests.
        let universal = finish(&engine, &handle).await;
        assert_eq!(universal.status, CallStatus::Success.as_str(), "{}: {}", folder.display(), universal.result);
        assert_eq!(universal.result, native.result, "{}", folder.display());
        assert_eq!(calls(&turns(&universal.entries)), calls(&expected), "{}", folder.display());
        assert_eq!(workspace(universal.run.documents()), workspace(native.run.documents()), "{}", folder.display());
    }
}

/// Runs an agent with universal invocation whose model writes `texts`, and returns the run with the texts that it received.
async fn conversation(texts: &[&str]) -> (Finished, Vec<String>) {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let received = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&received);
    let model = FunctionModel::new(move |request: &ModelRequest| {
        let is_own = |message: &&Arc<Message>| message.role == Role::Assistant;
        let new = request.messages.iter().rev().take_while(|message| !is_own(message));
        let parts: Vec<String> = new
            .flat_map(|message| &message.parts)
            .map(|part| match part {
                Part::Text(text) | Part::Request(text) => text.clone(),
                Part::Notice(notice) => notice.text(),
                other => panic!("{other:?} is not text"),
            })
            .collect();
        sees.lock().unwrap().push(parts.join("\n"));
        Ok(ModelTurn::text(texts[request.turn as usize - 1].clone()))
    });
    let engine = engine(Arc::new(MemoryStore::default()), &(Arc::new(model) as Arc<_>));
    let job = TestJob::new("solo", json!({})).agent_with("solo", &["handoff"], json!({"invocation": "universal"})).load();
    let finished = run_to_end(&engine, job).await;
    let received = received.lock().unwrap().clone();
    (finished, received)
}

#[tokio::test]
async fn an_agent_learns_why_its_envelope_cannot_be_used() {
    let broken = r#"{"action": "create", "breadcrumb": {"schema_name": "note.v1", "context": {}}}"#;
    let handoff = r#"{"tool_requests": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]}"#;
    let (finished, received) = conversation(&[broken, r#"{"tool_requests": [{"tool": "hand-off"}]}"#, handoff]).await;
    assert_eq!((finished.status, &finished.result), ("success", &json!({"summary": "done"})));
    assert!(received[1].contains("only \\\"agent.response.v1\\\" can be sent"), "{}", received[1]);
    assert!(received[2].contains("hand-off-2") && received[2].contains("unknown_tool"), "{}", received[2]);
}

#[tokio::test]
async fn a_third_answer_without_a_readable_envelope_fails_the_task() {
    let broken = r#"{"tool_requests": ["#;
    let (finished, received) = conversation(&[broken, broken, broken]).await;
    assert_eq!((finished.status, received.len()), ("failed", 3), "{}", finished.result);
    assert!(received[2].contains("Reminder 2 of 2"), "{}", received[2]);
}

#[tokio::test]
async fn an_answer_without_requests_is_the_result() {
    let (finished, _) = conversation(&[r#"{"message": "The sum is 2.", "tool_requests": []}"#]).await;
    assert_eq!((finished.status, &finished.result), ("success", &json!("The sum is 2.")));
}

/// Returns a job whose agent writes documents by requests, and its answers: the second repeats a request of the first, and the
/// third has the id of another request.
fn repeating() -> (LoadedJob, Arc<dyn Model>) {
    let text = json!({"type": "string", "description": "A text.", "required": true});
    let job = TestJob::new("solo", json!({}))
        .agent_with("solo", &["append_line", "handoff"], json!({"invocation": "universal"}))
        .tool("append_line", json!({"path": text, "line": text}), json!({"effect": "idempotent", "writes": true}))
        .document("log.md", "");
    let append = |id: &str, line: &str| {
        let input = json!({"path": "log.md", "line": line});
        json!({"tool_requests": [{"tool": "append_line", "input": input, "requestId": id}]}).to_string()
    };
    let handoff =
        json!({"tool_requests": [{"tool": "handoff", "input": {"result": {"summary": "done"}, "documents": ["log.md"]}}]});
    let texts = [append("a", "one"), append("a", "one"), append("a", "two"), append("b", "two"), handoff.to_string()];
    let model = FunctionModel::new(move |request: &ModelRequest| Ok(ModelTurn::text(texts[request.turn as usize - 1].clone())));
    (job.load(), Arc::new(model))
}

fn assert_repeated(finished: &Finished) {
    let entries = &finished.entries;
    let started = entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallStarted(_))).count();
    assert_eq!((finished.status, started), ("success", 2), "the repetition does not start");
    assert_eq!(call_output(entries, "0/2.1"), call_output(entries, "0/1.1"));
    assert_eq!(["0/2.1", "0/3.1", "0/4.1"].map(|call| call_result(entries, call)), ["success", "refused conflict", "success"]);
    assert_eq!(workspace(finished.run.documents()).len(), 1);
    let log = finished.run.documents().iter().next().unwrap().1.current().version;
    assert_eq!(log, 3, "the document itself, and two lines");
}

#[tokio::test]
async fn a_repeated_request_is_not_executed_again_after_any_crash() {
    let (job, model) = repeating();
    assert_repeated(&run_to_end(&engine(Arc::new(MemoryStore::default()), &model), job).await);
    let mut crashes = 0;
    for commits in 0.. {
        let (job, model) = repeating();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, Failing::After)), &model);
        // The store may already fail while the run is started.
        if let Ok(handle) = doomed.start(job, StartOptions::default()).await
            && let RunOutcome::Ended { .. } = handle.outcome().await
        {
            break;
        }
        crashes += 1;
        let engine = engine(Arc::clone(&store), &model);
        let handle = engine.resume(&store.runs().await.unwrap()[0].id).await.unwrap();
        assert_repeated(&finish(&engine, &handle).await);
    }
    assert!(crashes >= 8, "only {crashes} crashes were tried");
}

/// Returns the newest response of a tool in a request.
fn newest_response(request: &ModelRequest) -> Value {
    let texts = request.messages.last().into_iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let line = texts.flat_map(str::lines).find(|line| line.starts_with('{')).expect("a response");
    serde_json::from_str(line).unwrap()
}

/// Patterns 6 and 7 of seed 001, and its accumulation: each step uses the results of the steps before.
#[tokio::test]
async fn an_agent_creates_searches_processes_and_updates_records_by_json_in_its_text() {
    let id = Arc::new(Mutex::new(Value::Null));
    let model = FunctionModel::new(move |request: &ModelRequest| {
        let asks = |tool: &str, input: &Value| {
            let call = json!({"tool": tool, "input": input, "requestId": format!("{tool}-1"), "return_to_llm": true});
            ModelTurn::text(json!({"message": "One moment.", "tool_requests": [call]}).to_string())
        };
        let output = || newest_response(request)["context"]["output"].clone();
        let context = json!({"content": "budget of project X"});
        let note = json!({"schema_name": "note.v1", "title": "Meeting Notes", "tags": ["note", "meeting"], "context": context});
        Ok(match request.turn {
            1 => asks("breadcrumb-create", &note),
            2 => asks("breadcrumb-search", &json!({"query": "meeting notes about project", "nn": 5})),
            3 => {
                let found = &output()["breadcrumbs"][0];
                *id.lock().unwrap() = found["id"].clone();
                asks("json-transform", &json!({"data": found["context"], "operation": "extract", "path": "content"}))
            }
            4 => {
                let content = format!("updated {}", output()["result"].as_str().unwrap());
                let updates = json!({"tags": ["note", "important"], "context": {"content": content}});
                asks("breadcrumb-update", &json!({"breadcrumb_id": *id.lock().unwrap(), "updates": updates}))
            }
            _ => ModelTurn::text(json!({"message": output().to_string(), "tool_requests": []}).to_string()),
        })
    });
    let engine = engine(Arc::new(MemoryStore::default()), &(Arc::new(model) as Arc<_>));
    let tools = ["breadcrumb-create", "breadcrumb-search", "json-transform", "breadcrumb-update"];
    let job = TestJob::new("solo", json!({})).agent_with("solo", &tools, json!({"invocation": "universal"}));
    let finished = run_to_end(&engine, tools.into_iter().fold(job, TestJob::built_in).load()).await;
    let result: Value = serde_json::from_str(finished.result.as_str().unwrap_or_else(|| panic!("{}", finished.result))).unwrap();
    assert_eq!((&result["success"], &result["new_version"]), (&json!(true), &json!(2)));
    assert_eq!(result["breadcrumb"]["context"], json!({"content": "updated budget of project X"}));
}
