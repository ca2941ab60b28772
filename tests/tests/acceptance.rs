//! Results of delegations that an agent or a tool must accept, in the whole engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use baton_macros::tool;
use baton_models::Model;
use baton_runtime::{ForkOptions, LoadedJob, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_tool::ToolError;
use baton_types::entry::Entry;
use baton_types::id::TaskId;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use serde_json::{Map, Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::{
    Finished, TestJob, call_error, call_output, call_result, calls, engine, finish, handoff, model, name_of, run_to_end,
};

/// Accepts results with a title, of a task with documents.
#[tool]
fn has_title(request: String, result: Map<String, Value>, documents: Vec<Map<String, Value>>) -> Result<Value, ToolError> {
    let summary = result.get("summary").and_then(Value::as_str).unwrap_or_default();
    let is_bad = !summary.starts_with("# ") || documents.is_empty();
    Ok(json!({"accepted": !is_bad, "reason": format!("{request}: the title is missing")}))
}

/// Turns of each task that a model answered.
type Asked = Arc<Mutex<BTreeMap<(TaskId, u32), u32>>>;

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Returns a job whose root maps `writer` over a list and delegates to `thinker` in the background and to the program `counter`. A tool
/// judges the writers, and the agent `editor` the others.
fn job() -> LoadedJob {
    let text = |about: &str| json!({"type": "string", "description": about, "required": true});
    let parameters = json!({
        "request": text("The request."),
        "result": {"type": "object", "description": "The result.", "required": true},
        "documents": {"type": "array", "items": {"type": "object"}, "description": "The documents.", "required": true},
    });
    let by_editor = |rounds: u32| json!({"accept": {"by": "agent:editor", "rounds": rounds}});
    TestJob::new("root", json!({}))
        .agent("root", &["map", "route_to_writer", "route_to_thinker", "route_to_counter", "wait_tasks", "handoff"])
        .agent("writer", &["write_file", "handoff"])
        .agent("thinker", &["handoff"])
        .agent("editor", &["handoff"])
        .program("counter", "{'summary': request}", &[], json!({}))
        .built_in("map")
        .built_in("wait_tasks")
        .built_in("run_own_program")
        .built_in("write_file")
        .tool("has_title", parameters, json!({"effect": "pure"}))
        .changed_tool("route_to_writer", json!({"accept": {"by": "tool:has_title", "rounds": 2}}))
        .changed_tool("route_to_thinker", {
            let mut keys = by_editor(3);
            keys["background"] = json!(true);
            keys
        })
        .changed_tool("route_to_counter", by_editor(3))
        .load()
}

/// Returns a model whose writers add the title after the first refusal, except for the one that never does.
fn authors(asked: &Asked) -> Arc<dyn Model> {
    let asked = Arc::clone(asked);
    model(move |agent, turn, request| {
        *asked.lock().unwrap().entry((request.task.clone(), turn)).or_default() += 1;
        let shown = serde_json::to_string(request.messages.as_ref()).unwrap();
        match (agent, turn) {
            ("root", 1) => calls(&[
                ("route_to_thinker", json!({"request": "think", "wait": false})),
                ("map", json!({"tool": "route_to_writer", "input": {"request": "${item}"}, "items": ["good", "bad"]})),
            ]),
            ("root", 2) => calls(&[("route_to_counter", json!({"request": "one"})), ("wait_tasks", json!({}))]),
            ("root", 3) => calls(&[("route_to_counter", json!({"request": "accept"}))]),
            ("writer", 1) => {
                let path = format!("{}.md", if shown.contains("\"good\"") { "good" } else { "bad" });
                calls(&[("write_file", json!({"path": path, "content": "text", "why_created": "a test"}))])
            }
            ("writer", 2) => handoff("a text", &[if shown.contains("good.md") { "good.md" } else { "bad.md" }]),
            ("writer", _) if shown.contains("good.md") => handoff("# a text", &["good.md"]),
            ("writer", _) => handoff("still no title", &["bad.md"]),
            ("thinker", _) => handoff(if turn == 1 { "too short" } else { "accept" }, &[]),
            ("editor", _) => {
                let accepted =
                    shown.contains("\\\\\\\"summary\\\\\\\":\\\\\\\"accept") || shown.contains("\\\"summary\\\":\\\"accept");
                calls(&[("handoff", json!({"result": {"accepted": accepted, "reason": "as you wish"}}))])
            }
            _ => handoff("done", &[]),
        }
    })
}

fn check_results_of(finished: &Finished, what: &str) {
    assert_eq!(finished.status, "success", "{what}");
    let mapped = call_output(&finished.entries, "0/1.2");
    let written = mapped["results"].as_array().unwrap_or_else(|| panic!("{what}: {mapped}"));
    assert_eq!(written[0]["output"], json!({"summary": "# a text"}), "{what}: {mapped}");
    let error = "not accepted (round 2 of 2): bad: the title is missing";
    assert_eq!((&written[1]["status"], &written[1]["error"]), (&json!("failed"), &json!(error)), "{what}: {mapped}");
    let reported = finished.entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::TaskReported(reported) => Some(reported.result.output.value()),
        _ => None,
    });
    assert_eq!(reported, Some(json!({"summary": "accept"})), "{what}");
    assert_eq!(call_result(&finished.entries, "0/2.1"), "failed not_accepted", "{what}");
    assert_eq!(call_output(&finished.entries, "0/3.1"), json!({"summary": "accept"}), "{what}");
}

#[tokio::test]
async fn results_of_every_kind_of_delegation_are_judged() {
    let asked = Asked::default();
    let finished = run_to_end(&engine(memory(), &authors(&asked)), job()).await;
    check_results_of(&finished, "a plain run");
    assert!(
        call_error(&finished.entries, "0/2.1").contains("not accepted (round 1 of 3): as you wish"),
        "a program has one round"
    );
    assert!(asked.lock().unwrap().values().all(|times| *times == 1), "{asked:?}");
    let kept = finished.run.documents().iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>();
    assert_eq!(kept, ["bad.md", "good.md"], "documents of a refused task stay");
}

#[tokio::test]
async fn no_verdict_is_lost_wherever_the_process_is_killed() {
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let (asked, store) = (Asked::default(), memory());
            let model = authors(&asked);
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, failing)), &model);
            match doomed.start(job(), StartOptions::default()).await {
                Ok(handle) => match handle.outcome().await {
                    RunOutcome::Ended { .. } => break,
                    RunOutcome::Failed(RunError::Store(_)) => {}
                    other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
                },
                Err(RunError::Store(_)) => {}
                Err(error) => panic!("crash {failing:?} {commits}: {error}"),
            }
            crashes += 1;
            let engine = engine(Arc::clone(&store), &model);
            let what = format!("crash {failing:?} {commits}");
            let finished = match store.runs().await.unwrap().first() {
                Some(run) => finish(&engine, &engine.resume(&run.id).await.unwrap()).await,
                None => run_to_end(&engine, job()).await,
            };
            check_results_of(&finished, &what);
        }
    }
    assert!(crashes >= 20, "only {crashes} crashes were tried");
}

#[tokio::test]
async fn a_fork_at_any_entry_takes_the_verdicts_of_its_original() {
    let asked = Asked::default();
    let engine = engine(memory(), &authors(&asked));
    let handle = engine.start(job(), StartOptions::default()).await.unwrap();
    let original = finish(&engine, &handle).await;
    asked.lock().unwrap().clear();
    let mut forks = 0;
    let ends = original.entries.windows(2).filter(|pair| pair[0].decision != pair[1].decision);
    for at in ends.map(|pair| pair[0].seq) {
        let options = ForkOptions { at: Some(at), ..ForkOptions::default() };
        let fork = engine.fork(handle.id(), &Principal::person("ann"), options).await.unwrap();
        check_results_of(&finish(&engine, &fork).await, &format!("fork at {at}"));
        forks += 1;
    }
    assert!(forks >= 15, "only {forks} forks were made");
}

#[tokio::test]
async fn a_text_that_answers_both_ways_is_no_result() {
    let result = json!({"type": "object", "properties": {"accepted": {"type": "boolean"}}, "required": ["accepted"]});
    let job = TestJob::new("root", json!({}))
        .agent_with("root", &["handoff"], json!({"on_text": "handoff", "result_schema": result}))
        .load();
    let answers = model(|_, turn, _| {
        ModelTurn::text(if turn == 1 { r#"{"accepted": false, "accepted": true}"# } else { r#"{"accepted": false}"# })
    });
    let finished = run_to_end(&engine(memory(), &answers), job).await;
    assert_eq!((finished.status, finished.result), ("success", json!({"accepted": false})));
}
