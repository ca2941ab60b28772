//! No amount of returned work ends a task: results and records without room share one document.

use std::sync::Arc;

use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode};
use baton_types::document::{ContentFacts, DocumentRef};
use baton_types::entry::{Entry, ModelRequested};
use baton_types::event::Outcome;
use baton_types::id::TaskId;
use baton_types::limits::Limits;
use baton_types::message::{Part, request_tokens};
use serde_json::{Value, json};

use crate::support::jobs::JobDraft;
use crate::support::script::document_path;
use crate::support::{Sim, agent, call, call_with, function, handoff, job, turn, write, writes};

/// The tokens of the window of the root agent.
const WINDOW: u64 = 9_000;

fn crowded() -> JobDraft {
    let limits = Limits { context_tokens: Some(WINDOW), inject_tokens: Some(1_000_000), ..Limits::default() };
    let root = agent("root", "work load save").limits(limits).settings(json!({"max_tokens": 500}));
    job([root]).tools([function("work"), function("load"), function("save").writing()])
}

fn status(sim: &Sim) -> CallStatus {
    sim.assert_over();
    let result: Arc<CallResult> = sim.task("0").result.clone().expect("the root has ended");
    result.status
}

/// Returns the requests of the root.
fn requests(sim: &Sim) -> Vec<&ModelRequested> {
    let requested = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(requested) if requested.task == TaskId::root() => Some(requested),
        _ => None,
    });
    requested.collect()
}

/// Returns the JSON of a document.
fn content(sim: &Sim, reference: &DocumentRef) -> Value {
    let version = sim.run.documents().version(reference).expect("the document exists");
    let ContentFacts { hash, .. } = &version.content;
    serde_json::from_slice(sim.contents.get(hash).expect("its content is stored")).expect("it is JSON")
}

/// Returns the parts of the newest message of the root's newest request.
fn newest_parts(sim: &Sim) -> Vec<Part> {
    sim.request("0").messages.last().expect("there are messages").parts.clone()
}

fn fails(_: &crate::support::script::Execution) -> Outcome {
    Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "e".repeat(4_000)))
}

#[test]
fn two_hundred_long_errors_do_not_end_a_task() {
    for per_turn in [200, 50, 18, 5] {
        let turns = 200_u32.div_ceil(per_turn);
        let sim = Sim::new(&crowded())
            .agent_with("root", move |prompted| {
                let works = (0..per_turn).map(|number| call("work", &format!("{}-{number}", prompted.turn)));
                Ok(if prompted.turn <= turns { turn(works) } else { turn([handoff("done")]) })
            })
            .tool("work", fails)
            .start();
        assert_eq!(status(&sim), CallStatus::Success, "{per_turn} at once");
        let requests = requests(&sim);
        assert!(requests.iter().all(|request| request.reserved_tokens <= WINDOW), "{per_turn} at once");
        let Some(bundle) = &requests.last().unwrap().bundle else {
            assert_eq!(per_turn, 5, "five errors fit");
            continue;
        };
        let held = content(&sim, &bundle.document);
        let held = held["results"].as_array().unwrap();
        assert_eq!(held.len(), bundle.results.len());
        for (held, call) in held.iter().zip(&bundle.results) {
            assert_eq!((&held["call"], &held["status"]), (&json!(call), &json!("failed")));
            assert_eq!(held["error"]["message"].as_str().unwrap().len(), 4_000, "the whole error can be read");
        }
        let parts = newest_parts(&sim);
        let reduced = parts.iter().filter(|part| match part {
            Part::Result { result: Some(result), .. } => result.error.is_none(),
            _ => false,
        });
        assert_eq!(reduced.count(), bundle.results.len());
        let names = |part: &Part| matches!(part, Part::Pointer(version) if version.reference() == bundle.document);
        assert!(names(parts.last().unwrap()), "the request has the record of the document");
        let (counted, sent) = (requests.last().unwrap().input_tokens, request_tokens(&sim.request("0")));
        assert!(counted + 64 >= sent, "{counted} of {sent}");
    }
}

#[test]
fn refused_calls_and_short_results_do_not_end_a_task_either() {
    let long = "x".repeat(400);
    let sim = Sim::new(&crowded())
        .agent_with("root", move |prompted| {
            let unknown = (0..60).map(|number| call_with("nothing", json!({"x": number})));
            let works = (0..60).map(|number| call("work", &number.to_string()));
            Ok(if prompted.turn == 1 { turn(unknown.chain(works)) } else { turn([handoff("done")]) })
        })
        .tool("work", move |_| Outcome::success(json!(long)))
        .start();
    assert_eq!(status(&sim), CallStatus::Success);
    assert!(requests(&sim)[1].bundle.is_some());
}

#[test]
fn five_hundred_documents_do_not_end_a_task() {
    fn path(number: usize) -> String {
        format!("folder/{number}.md")
    }
    let reference = |number| DocumentRef { path: document_path(&path(number)), version: 1 };
    let documents = || (0..500).map(|number| write(&path(number), &format!("{number} {}", "words ".repeat(200)))).collect();
    // In the task's own request.
    let sim = Sim::new(&crowded()).agent("root", [turn([handoff("done")])]).start_with(documents());
    assert_eq!(status(&sim), CallStatus::Success);
    let first = requests(&sim)[0];
    let bundle = first.bundle.as_ref().expect("not even the records fit");
    assert!(bundle.documents.len() > 100 && first.reserved_tokens <= WINDOW);
    let held = content(&sim, &bundle.document);
    let listed = |listed: &Value| DocumentRef { path: document_path(listed["path"].as_str().unwrap()), version: 1 };
    assert_eq!(held["documents"].as_array().unwrap().iter().map(listed).collect::<Vec<_>>(), bundle.documents);
    assert!(bundle.documents.iter().all(|document| first.pointers.contains(document)), "none of them counts as read");
    // With the results of calls.
    let loads = move |execution: &crate::support::script::Execution| {
        let from: usize = execution.input.value()["x"].as_str().unwrap().parse().unwrap();
        Outcome { loads: (from..from + 50).map(reference).collect(), ..Outcome::success(json!("loaded")) }
    };
    let sim = Sim::new(&crowded())
        .agent(
            "root",
            [
                turn([call("save", "x")]),
                turn((0..10).map(|number| call("load", &(number * 50).to_string()))),
                turn([handoff("done")]),
            ],
        )
        .tool("save", move |_| writes(json!("saved"), documents()))
        .tool("load", loads)
        .start();
    assert_eq!(status(&sim), CallStatus::Success);
    let newest = requests(&sim)[2];
    let bundle = newest.bundle.as_ref().expect("not even the records fit");
    assert!(bundle.documents.len() > 100 && newest.reserved_tokens <= WINDOW);
    let shown = newest_parts(&sim).iter().filter(|part| matches!(part, Part::Pointer(_) | Part::Document(_))).count();
    assert_eq!(shown, 500 - bundle.documents.len() + 1);
}
