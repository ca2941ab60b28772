//! One budget for everything new in a request: contents without room become records, and no returned work ends a task.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode};
use baton_types::document::DocumentRef;
use baton_types::entry::{Entry, ModelRequested};
use baton_types::event::Outcome;
use baton_types::id::{ContentHash, TaskId};
use baton_types::limits::Limits;
use baton_types::message::{Part, request_tokens};
use baton_types::model::ModelTurn;
use serde_json::{Value, json};

use crate::support::jobs::JobDraft;
use crate::support::script::{Execution, document_path, route_with};
use crate::support::{Sim, agent, call, call_with, function, handoff, handoff_with, job, route, turn, write, writes};

/// The tokens of the window of the root agent.
const WINDOW: u64 = 8_000;

/// Returns a root with a window and these tools, and a child that writes documents.
fn gathering(tools: &str) -> JobDraft {
    let limits = Limits { context_tokens: Some(WINDOW), inject_tokens: Some(1_000_000), ..Limits::default() };
    let root = agent("root", tools).limits(limits).settings(json!({"max_tokens": 500}));
    job([root, agent("child", "save")]).tools([function("save").writing(), function("load"), function("work")])
}

fn reference(path: &str, version: u32) -> DocumentRef {
    DocumentRef { path: document_path(path), version }
}

fn result_of_root(sim: &Sim) -> Arc<CallResult> {
    sim.task("0").result.clone().expect("the root has ended")
}

/// Returns the error with which `call` was refused.
fn refusal(sim: &Sim, call: &str) -> Option<CallError> {
    sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallRefused(refused) if refused.call.as_str() == call => Some(refused.error.clone()),
        _ => None,
    })
}

/// Returns the requests of the root.
fn requests(sim: &Sim) -> Vec<&ModelRequested> {
    let requested = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(requested) if requested.task == TaskId::root() => Some(requested),
        _ => None,
    });
    requested.collect()
}

/// Returns the kinds and documents of the parts of the root's newest request that show documents.
fn shown(sim: &Sim) -> Vec<String> {
    let messages = sim.request("0").messages.clone();
    let parts = messages.iter().flat_map(|message| message.parts.clone());
    let shown = parts.filter_map(|part| match part {
        Part::Document(version) => Some(format!("whole {}", version.path)),
        Part::Pointer(version) => Some(format!("record {}", version.path)),
        Part::Repeated(version) => Some(format!("repeated {}", version.path)),
        _ => None,
    });
    shown.collect()
}

/// Returns a turn in which the root delegates to `count` children.
fn delegations(count: usize) -> ModelTurn {
    turn((0..count).map(|number| route("child", &number.to_string())))
}

/// Runs children that each do what `child` returns for the number in its request.
fn with_children(sim: Sim, child: impl Fn(&str) -> Vec<ModelTurn> + 'static) -> Sim {
    sim.agent_with("child", move |prompted| {
        let Some(Part::Request(number)) = prompted.request.messages[0].parts.first() else {
            panic!("a delegation has a request")
        };
        Ok(child(number)[prompted.request.turn as usize - 1].clone())
    })
}

fn saves(execution: &Execution) -> Outcome {
    let number = execution.input.value()["x"].as_str().unwrap().to_owned();
    writes(json!("saved"), vec![write(&format!("{number}.md"), &"r".repeat(6_000))])
}

#[test]
fn documents_of_many_children_share_the_window() {
    let sim = Sim::new(&gathering("route_to_child")).agent("root", [delegations(8), turn([handoff("done")])]).tool("save", saves);
    let sim = with_children(sim, |number| {
        vec![turn([call("save", number)]), turn([handoff_with("report", &[&format!("{number}.md")])])]
    });
    let sim = sim.start();
    sim.assert_over();
    assert_eq!(result_of_root(&sim).status, CallStatus::Success);
    let shown = shown(&sim);
    let whole = shown.iter().filter(|shown| shown.starts_with("whole")).count();
    // A document has 1,500 tokens, and four fifths of the window have room for three beside the rest.
    assert_eq!((whole, shown.len()), (3, 8), "{shown:?}");
    assert_eq!(shown[0], "whole 0.md", "documents of the same size go in call order");
    let newest = requests(&sim)[1];
    let names: Vec<String> = newest.pointers.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["3.md v1", "4.md v1", "5.md v1", "6.md v1", "7.md v1"]);
    assert!(newest.reserved_tokens <= WINDOW);
}

#[test]
fn the_smallest_documents_are_shown_first() {
    let sizes = [16_000, 400, 9_000, 800];
    let draft = gathering("load");
    let documents =
        sizes.iter().zip(["a.md", "b.md", "c.md", "d.md"]).map(|(size, path)| write(path, &"x".repeat(*size))).collect();
    let sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]).start_with(documents);
    sim.assert_over();
    assert_eq!(shown(&sim), ["record a.md", "whole b.md", "whole c.md", "whole d.md"]);
}

#[test]
fn outputs_without_room_are_kept_as_documents() {
    let sim = Sim::new(&gathering("route_to_child")).agent("root", [delegations(12), turn([handoff("done")])]);
    let sim = with_children(sim, |number| vec![turn([handoff(format!("{number} ").repeat(2_000))])]).start();
    sim.assert_over();
    assert_eq!(result_of_root(&sim).status, CallStatus::Success);
    let newest = requests(&sim)[1];
    assert!(newest.kept.len() >= 7 && newest.kept.len() < 12, "{} of 12", newest.kept.len());
    assert!(newest.reserved_tokens <= WINDOW);
    for kept in &newest.kept {
        let version = sim.run.documents().version(&kept.output.document).expect("the document exists");
        let Value::String(output) = sim.result(kept.call.as_str()).output.value() else { panic!("the result is a text") };
        assert_eq!(version.content.hash, ContentHash::of(output.as_bytes()), "it holds what the call returned");
    }
    let request = sim.request("0");
    let results = request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Result { result: Some(result), .. } => Some(result.output.kept().is_some()),
        _ => None,
    });
    assert_eq!(results.filter(|kept| *kept).count(), newest.kept.len(), "the request names the documents");
}

#[test]
fn an_output_over_the_inline_limit_is_kept_even_without_a_window() {
    let draft = job([agent("root", "route_to_child"), agent("child", "work")]).tool(function("work"));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("w".repeat(200_000))])])
        .start();
    sim.assert_over();
    let requests = requests(&sim);
    assert_eq!((requests[1].kept.len(), requests[1].kept[0].output.size_bytes), (1, 200_000));
    assert!(requests[1].input_tokens < 2_000, "{}", requests[1].input_tokens);
}

#[test]
fn a_handoff_over_the_result_limit_is_an_error_for_the_child() {
    let limits = Limits { result_bytes: Some(1_000), ..Limits::default() };
    let draft = job([agent("root", "route_to_child"), agent("child", "work").limits(limits)]).tool(function("work"));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("w".repeat(999))]), turn([handoff("w".repeat(998))])])
        .start();
    sim.assert_over();
    let refused = refusal(&sim, "0/1.1/1.1").expect("its text with quotes is one byte too long");
    assert_eq!(refused.code, ErrorCode::LimitReached);
    assert!(refused.message.contains("attach it to the handoff"), "{}", refused.message);
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success, "the child could go on");
}

#[test]
fn a_version_in_the_conversation_is_named_and_not_repeated() {
    let draft = gathering("route_to_child");
    let sim = Sim::new(&draft).agent("root", [delegations(8), turn([handoff("done")])]);
    let sim = with_children(sim, |_| vec![turn([handoff_with("fine", &["n.md"])])]);
    let sim = sim.start_with(vec![write("n.md", &"n".repeat(4_000))]);
    sim.assert_over();
    let shown = shown(&sim);
    assert_eq!((shown[0].as_str(), shown.len()), ("whole n.md", 9));
    assert!(shown[1..].iter().all(|shown| shown == "repeated n.md"), "{shown:?}");
    assert!(requests(&sim)[1].pointers.is_empty());
}

#[test]
fn a_version_whose_turn_was_replaced_is_shown_again() {
    let load = |_: &Execution| Outcome { loads: vec![reference("a.md", 1)], ..Outcome::success(json!("loaded")) };
    let works: Vec<ModelTurn> = (0..8).map(|number| turn([call("work", &number.to_string())])).collect();
    let turns = [
        vec![turn([call("save", "x")]), turn([call("load", "x")])],
        works,
        vec![turn([call("load", "y")]), turn([handoff("done")])],
    ]
    .concat();
    let draft = gathering("load work save");
    let sim = Sim::new(&draft)
        .agent("root", turns)
        .tool("load", load)
        .tool("work", |_| Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "e".repeat(3_600))))
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "brief")]))
        .start();
    sim.assert_over();
    assert!(sim.timeline.iter().any(|recorded| matches!(recorded.entry, Entry::Compacted(_))));
    assert_eq!(shown(&sim), ["whole a.md"], "the first time is gone with its turn");
}

#[test]
fn a_document_that_cannot_fit_is_not_loaded() {
    let load = |_: &Execution| Outcome { loads: vec![reference("long.md", 1)], ..Outcome::success(json!("loaded")) };
    let sim = Sim::new(&gathering("load route_to_child"))
        .agent("root", [turn([call("load", "x")]), turn([handoff("done")])])
        .tool("load", load);
    let sim = with_children(sim, |_| Vec::new()).start_with(vec![write("long.md", &"l".repeat(100_000))]);
    sim.assert_over();
    let refused = sim.result("0/1.1").error.clone().expect("it is refused");
    assert_eq!(refused.code, ErrorCode::LimitReached);
    assert!(refused.message.contains("long.md has about 25000 tokens"), "{}", refused.message);
}

#[test]
fn a_record_is_no_base_for_a_write() {
    let draft = gathering("save load");
    let overwrites = |_: &Execution| writes(json!("saved"), vec![write("long.md", "short")]);
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("save", "x")]), turn([handoff_with("done", &["long.md"])])])
        .tool("save", overwrites)
        .start_with(vec![write("long.md", &"l".repeat(100_000))]);
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").error.as_ref().map(|error| error.code), Some(ErrorCode::Conflict));
    let ended = result_of_root(&sim);
    assert_eq!(
        (ended.status, ended.documents.clone()),
        (CallStatus::Success, vec![reference("long.md", 1)]),
        "it may be handed on"
    );
}

#[test]
fn a_handoff_delivers_the_version_that_its_task_knows() {
    let draft = job([agent("root", "route_to_slow"), agent("slow", "save")]).tool(function("save").writing());
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route_with("slow", "x", &["d.md"]), route_with("slow", "y", &["d.md"])]), turn([handoff("done")])])
        .agent_with("slow", |prompted| {
            let Some(Part::Request(which)) = prompted.request.messages[0].parts.first() else {
                panic!("a delegation has a request")
            };
            Ok(match (which.as_str(), prompted.request.turn) {
                ("x", 1) => turn([call("save", "first")]),
                ("y", 1) => turn([call("save", "second")]),
                _ => turn([handoff_with("mine", &["d.md"])]),
            })
        })
        .tool("save", |execution| match execution.input.value()["x"].as_str() {
            Some("first") => writes(json!("saved"), vec![write("d.md", "by the first")]),
            _ => Outcome::success(json!("nothing")),
        })
        .holding("save");
    sim.begin(vec![write("d.md", "of the job")]);
    sim.settle();
    sim.release("save");
    sim.settle();
    let refused = refusal(&sim, "0/1.2/2.1").expect("the second task has not seen version 2");
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains("d.md is at version 2 and you know version 1"), "{}", refused.message);
}

#[test]
fn long_answers_on_its_behalf_do_not_end_a_master() {
    let limits = Limits { context_tokens: Some(WINDOW), ..Limits::default() };
    let root = agent("root", "route_to_child").limits(limits).settings(json!({"max_tokens": 500}));
    let sim = Sim::new(&job([root, agent("child", "ask_master")]))
        .agent("root", [delegations(1), turn([handoff("done")])])
        .answers_with("root", |_| Ok(turn([handoff("a".repeat(6_000))])))
        .agent_with("child", |prompted| {
            let question =
                call_with("ask_master", json!({"question": format!("{} {}", prompted.request.turn, "q".repeat(6_000))}));
            Ok(turn([if prompted.request.turn <= 9 { question } else { handoff("asked") }]))
        })
        .start();
    sim.assert_over();
    assert_eq!(result_of_root(&sim).status, CallStatus::Success);
    assert_eq!(sim.finished("0/1.1").said.len(), 9, "the timeline has all of them");
    assert!(requests(&sim)[1].input_tokens < 4_000, "{}", requests(&sim)[1].input_tokens);
}

#[test]
fn a_part_that_was_not_shown_is_no_base_for_a_write() {
    let reads = |_: &Execution| Outcome { reads: vec![reference("long.md", 1)], ..Outcome::success(json!("p".repeat(100_000))) };
    let brief = |_: &Execution| Outcome { reads: vec![reference("long.md", 1)], ..Outcome::success(json!("one line")) };
    let overwrites = |_: &Execution| writes(json!("saved"), vec![write("long.md", "short")]);
    let sim = Sim::new(&gathering("save load work"))
        .agent(
            "root",
            [
                turn([call("load", "x")]),
                turn([call("save", "x")]),
                turn([call("work", "x")]),
                turn([call("save", "y")]),
                turn([handoff("done")]),
            ],
        )
        .tool("load", reads)
        .tool("work", brief)
        .tool("save", overwrites)
        .start_with(vec![write("long.md", &"l".repeat(100_000))]);
    sim.assert_over();
    assert_eq!(sim.result("0/2.1").error.map(|error| error.code), Some(ErrorCode::Conflict), "the part was kept as a document");
    assert_eq!(sim.result("0/4.1").status, CallStatus::Success, "a part that was shown is read");
}

#[test]
fn a_document_is_counted_for_the_load_and_for_the_conflict_of_one_turn() {
    let load = |_: &Execution| Outcome { loads: vec![reference("a.md", 1)], ..Outcome::success(json!("loaded")) };
    let saves = |execution: &Execution| {
        let length = execution.input.value()["x"].as_str().unwrap().parse().unwrap();
        writes(json!("saved"), vec![write("a.md", &"l".repeat(length))])
    };
    let sim = Sim::new(&gathering("save load route_to_child"))
        .agent("root", [delegations(1), turn([call("save", "5"), call("load", "x")]), turn([handoff("done")])])
        .tool("save", saves)
        .tool("load", load);
    let sim = with_children(sim, |_| vec![turn([call("save", "4000")]), turn([handoff("saved, and not handed on")])]).start();
    sim.assert_over();
    assert_eq!(sim.result("0/2.1").error.map(|error| error.code), Some(ErrorCode::Conflict));
    let (counted, request) = (requests(&sim)[2].input_tokens, sim.request("0"));
    assert!(counted >= 2_000 && counted + 64 >= request_tokens(&request), "{counted} of {}", request_tokens(&request));
}

#[test]
fn a_repeated_document_becomes_a_record_when_its_content_is_replaced() {
    let load = |_: &Execution| Outcome { loads: vec![reference("a.md", 1)], ..Outcome::success(json!("loaded")) };
    let works = |count| (0..count).map(|number: usize| turn([call("work", &number.to_string())]));
    let mut turns = vec![turn([call("save", "x")]), turn([call("load", "x")])];
    turns.extend(works(5));
    turns.push(turn([call("load", "y")]));
    turns.extend(works(3));
    turns.push(turn([handoff("done")]));
    let mut turns = turns.into_iter();
    let (repeated, recorded) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let seen = (Rc::clone(&repeated), Rc::clone(&recorded));
    let sim = Sim::new(&gathering("load work save"))
        .agent_with("root", move |prompted| {
            let parts = || prompted.request.messages.iter().flat_map(|message| &message.parts);
            let count = |wanted: fn(&Part) -> bool| parts().filter(|part| wanted(part)).count();
            let whole = count(|part| matches!(part, Part::Document(_)));
            let named = count(|part| matches!(part, Part::Repeated(_)));
            assert!(whole > 0 || named == 0, "turn {}: the repeated content is gone", prompted.turn);
            seen.0.set(seen.0.get().max(named));
            seen.1.set(seen.1.get().max(count(|part| matches!(part, Part::Pointer(_)))));
            Ok(turns.next().expect("there are enough turns"))
        })
        .tool("load", load)
        .tool("work", |_| Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "e".repeat(3_600))))
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "brief")]))
        .start();
    sim.assert_over();
    assert_eq!((repeated.get(), recorded.get()), (1, 1), "it was repeated, and then a record");
}

#[test]
fn a_document_that_no_model_takes_is_a_record_and_no_base_for_a_write() {
    let mut package = write("a.docx", "the bytes of a package");
    package.content.mime_type = "application/vnd.openxmlformats-officedocument.wordprocessingml.document".to_owned();
    let sim = Sim::new(&gathering("save"))
        .agent("root", [turn([call("save", "x")]), turn([call("save", "y")]), turn([handoff("done")])])
        .tool("save", |_| writes(json!("saved"), vec![write("a.docx", "blind")]))
        .start_with(vec![package]);
    sim.assert_over();
    assert_eq!(requests(&sim)[0].pointers, [reference("a.docx", 1)]);
    let codes = ["0/1.1", "0/2.1"].map(|call| sim.result(call).error.map(|error| error.code));
    assert_eq!(codes, [Some(ErrorCode::Conflict); 2], "the conflict does not show its content either");
}

#[test]
fn a_document_is_shown_although_its_changes_after_a_conflict_do_not_fit() {
    let load = |_: &Execution| Outcome { loads: vec![reference("a.md", 1)], ..Outcome::success(json!("loaded")) };
    let saves = |execution: &Execution| {
        let length = execution.input.value()["x"].as_str().unwrap().parse().unwrap();
        writes(json!("saved"), vec![write("a.md", &"l".repeat(length))])
    };
    let turns =
        [delegations(1), turn([call("load", "x"), call("save", "5")]), turn([call("save", "6")]), turn([handoff("done")])];
    let sim = Sim::new(&gathering("save load route_to_child")).agent("root", turns).tool("save", saves).tool("load", load);
    let sim = with_children(sim, |_| vec![turn([call("save", "16000")]), turn([handoff("saved, and not handed on")])]).start();
    sim.assert_over();
    let newest = requests(&sim)[2];
    assert_eq!((newest.pointers.as_slice(), newest.conflicts.as_slice()), (&[][..], &[reference("a.md", 1)][..]));
    assert_eq!(shown(&sim), ["whole a.md"]);
    assert_eq!(sim.result("0/3.1").status, CallStatus::Success, "it was read");
}

#[test]
fn a_repeated_document_whose_content_stays_remains_repeated_beside_one_whose_content_is_replaced() {
    let load = |execution: &Execution| {
        let names = execution.input.value()["x"].as_str().unwrap().to_owned();
        let loads = names.chars().map(|name| reference(&format!("{name}.md"), 1)).collect();
        Outcome { loads, ..Outcome::success(json!("loaded")) }
    };
    let fails = |execution: &Execution| {
        let length = execution.input.value()["x"].as_str().unwrap().parse().unwrap();
        Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "e".repeat(length)))
    };
    let calls = [
        call("save", "x"),
        call("load", "a"),
        call("work", "7000"),
        call("work", "7001"),
        call("work", "7002"),
        call("load", "b"),
        call("load", "ab"),
        call("work", "2000"),
        handoff("done"),
    ];
    let sim = Sim::new(&gathering("load work save"))
        .agent("root", calls.map(|call| turn([call])))
        .tool("load", load)
        .tool("work", fails)
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "first"), write("b.md", "second")]))
        .start();
    sim.assert_over();
    assert_eq!(shown(&sim), ["whole b.md", "record a.md", "repeated b.md"]);
}
