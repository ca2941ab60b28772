//! Documents: versions, bases, conflicts, and who is shown what (`versions_form_a_chain`, `handed_over_arrives_once`).

use expect_test::expect;
use std::collections::BTreeMap;

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{Adoption, Entry};
use baton_types::event::{Event, Outcome, Refusal};
use baton_types::limits::Limits;
use baton_types::message::Part;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::random::Random;
use crate::support::requests::shown;
use crate::support::script::{Execution, document_path, facts};
use crate::support::{
    Sim, agent, call, call_with, check, function, handoff, handoff_with, job, print, route_with, says, started, turn, write,
    writes,
};

fn code(sim: &Sim, call: &str) -> Option<ErrorCode> {
    sim.result(call).error.as_ref().map(|error| error.code)
}

/// Returns the versions that were written, in order.
fn written(sim: &Sim) -> Vec<&DocumentVersion> {
    let versions = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::DocumentWritten(version) => Some(&**version),
        _ => None,
    });
    versions.collect()
}

fn names(documents: &[DocumentRef]) -> Vec<String> {
    documents.iter().map(DocumentRef::to_string).collect()
}

fn shown_to(sim: &Sim, task: &str) -> Vec<String> {
    names(&shown(&sim.request(task)))
}

/// Returns an executor that makes the writes in the call's `x`: `path=text`, several separated by `;`.
fn save(execution: &Execution) -> Outcome {
    let input = execution.input.value();
    let asked = input["x"].as_str().expect("x is a string").to_owned();
    let all = asked.split(';').filter_map(|write| write.split_once('='));
    writes(json!("saved"), all.map(|(path, text)| write(path, text)).collect())
}

/// Returns an executor that loads the newest version of the document named by `x`, which the test knows.
fn load(path: &'static str, version: u32) -> impl FnMut(&Execution) -> Outcome {
    move |_| Outcome { loads: vec![DocumentRef { path: document_path(path), version }], ..Outcome::success(json!("loaded")) }
}

fn writers() -> JobDraft {
    job([agent("root", "save load route_to_child"), agent("child", "save load")])
        .tools([function("save").writing(), function("load")])
}

#[test]
fn versions_count_from_one_and_each_names_its_base_and_author() {
    let sim = Sim::new(&writers())
        .agent(
            "root",
            [
                turn([call("save", "a.md=1")]),
                turn([call("save", "a.md=2")]),
                turn([call("save", "a.md=3;b.md=1")]),
                turn([handoff("done")]),
            ],
        )
        .tool("save", save)
        .start();
    sim.assert_over();
    let seen: Vec<(String, Option<u32>, Option<&str>)> = written(&sim)
        .into_iter()
        .map(|version| {
            (version.reference().to_string(), version.base, version.call.as_ref().map(baton_types::id::CallId::as_str))
        })
        .collect();
    let expected =
        [("a.md v1", None, "0/1.1"), ("a.md v2", Some(1), "0/2.1"), ("a.md v3", Some(2), "0/3.1"), ("b.md v1", None, "0/3.1")];
    assert_eq!(seen, expected.map(|(name, base, call)| (name.to_owned(), base, Some(call))));
    assert!(written(&sim).iter().all(|version| version.task.as_ref().is_some_and(|task| task.as_str() == "0")));
}

#[test]
fn a_new_version_keeps_description_and_tags_that_its_writer_left_out() {
    let sim = Sim::new(&writers())
        .agent("root", [turn([call("save", "1")]), turn([call("save", "2")]), turn([handoff("done")])])
        .tool("save", |execution| {
            let mut write = write("a.md", execution.input.text());
            if execution.call.as_str() == "0/1.1" {
                write.description = Some("the report".to_owned());
                write.tags = Some(vec!["q3".to_owned()]);
            }
            writes(json!("saved"), vec![write])
        })
        .start();
    sim.assert_over();
    let second = written(&sim)[1];
    assert_eq!((second.description.as_str(), second.tags.as_slice()), ("the report", ["q3".to_owned()].as_slice()));
}

#[test]
fn a_write_over_a_document_that_the_task_does_not_know_is_a_conflict() {
    // No base means: it must not exist.
    let sim = Sim::new(&writers())
        .agent("root", [turn([call("save", "a.md=root's")]), turn([route_with("child", "x", &[])]), turn([handoff("done")])])
        .agent("child", [turn([call("save", "a.md=child's")]), turn([handoff("child")])])
        .tool("save", save)
        .start();
    sim.assert_over();
    assert_eq!(code(&sim, "0/2.1/1.1"), Some(ErrorCode::Conflict));
    assert_eq!(written(&sim).len(), 1, "nothing was written silently");
}

#[test]
fn a_conflict_drops_all_writes_of_the_call_and_shows_both_versions() {
    // The child was given v1; the root's other child has written v2 meanwhile.
    let draft = job([agent("root", "save route_to_first route_to_second"), agent("first", "save"), agent("second", "save")])
        .tool(function("save").writing());
    let mut sim = Sim::new(&draft)
        .agent(
            "root",
            [
                turn([call("save", "a.md=one")]),
                turn([route_with("first", "x", &["a.md"]), route_with("second", "y", &["a.md"])]),
                turn([handoff("done")]),
            ],
        )
        .agent("first", [turn([call("save", "a.md=two")]), turn([handoff("first")])])
        .agent(
            "second",
            [turn([call("save", "c.md=new;a.md=mine;d.md=new")]), turn([call("save", "a.md=merged")]), turn([handoff("second")])],
        )
        .tool("save", save);
    sim.begin(Vec::new());
    sim.settle();
    sim.assert_over();
    let conflict = sim.finished("0/2.2/1.1");
    assert_eq!(conflict.result.status, CallStatus::Failed);
    assert!(conflict.result.output.is_null(), "an output would claim that the write took effect");
    let error = conflict.result.error.as_ref().expect("a conflict is an error");
    assert_eq!(error.code, ErrorCode::Conflict);
    let detail = error.detail.text();
    assert!(detail.contains("a.md") && detail.contains('1') && detail.contains('2'), "path, base and current version: {detail}");
    let all: Vec<String> = written(&sim).iter().map(|version| version.reference().to_string()).collect();
    assert_eq!(all, ["a.md v1", "a.md v2", "a.md v3"], "no other write of the call took hold");

    let request = sim.request("0/2.2");
    let sides: Vec<(Option<u32>, u32)> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::Conflict { base, current, with_changes: true } => {
                Some((base.as_ref().map(|base| base.version), current.version))
            }
            _ => None,
        })
        .collect();
    assert_eq!(sides, [(Some(1), 2)], "both versions are shown");
    assert_eq!(written(&sim)[2].base, Some(2), "a version shown in a conflict is a base");
}

#[test]
fn a_version_that_was_loaded_is_a_base() {
    let sim = Sim::new(&writers())
        .agent("root", [turn([call("save", "a.md=1")]), turn([route_with("child", "x", &[])]), turn([handoff("done")])])
        .agent("child", [turn([call("load", "x")]), turn([call("save", "a.md=2")]), turn([handoff("child")])])
        .tool("save", save)
        .tool("load", load("a.md", 1))
        .start();
    sim.assert_over();
    assert_eq!(written(&sim).len(), 2);
    assert_eq!(shown_to(&sim, "0/2.1"), ["a.md v1"], "what was loaded is injected");
}

#[test]
fn a_version_handed_back_is_a_base_for_the_caller() {
    let sim = Sim::new(&writers())
        .agent(
            "root",
            [
                turn([call("save", "a.md=1")]),
                turn([route_with("child", "x", &["a.md"])]),
                turn([call("save", "a.md=3")]),
                turn([handoff("done")]),
            ],
        )
        .agent("child", [turn([call("save", "a.md=2")]), turn([handoff_with("child", &["a.md"])])])
        .tool("save", save)
        .start();
    sim.assert_over();
    assert_eq!(written(&sim).len(), 3);
}

#[test]
fn a_version_that_a_child_wrote_and_did_not_hand_back_is_no_base() {
    let sim = Sim::new(&writers())
        .agent(
            "root",
            [
                turn([call("save", "a.md=1")]),
                turn([route_with("child", "x", &["a.md"])]),
                turn([call("save", "a.md=3")]),
                turn([handoff("done")]),
            ],
        )
        .agent("child", [turn([call("save", "a.md=2")]), turn([handoff("child")])])
        .tool("save", save)
        .start();
    sim.assert_over();
    assert_eq!(code(&sim, "0/3.1"), Some(ErrorCode::Conflict));
}

#[test]
fn a_failed_call_writes_nothing() {
    let sim = Sim::new(&writers())
        .agent("root", [turn([call("save", "a")]), turn([handoff("done")])])
        .tool("save", |_| Outcome {
            writes: vec![write("a.md", "text")],
            ..Outcome::error(CallStatus::Failed, crate::support::error(ErrorCode::ToolFailed))
        })
        .start();
    sim.assert_over();
    assert!(written(&sim).is_empty());
}

#[test]
fn a_tool_that_may_not_write_writes_nothing() {
    let sim = Sim::new(&writers())
        .agent("root", [turn([call("load", "a")]), turn([handoff("done")])])
        .tool("load", |_| writes(json!(1), vec![write("a.md", "text")]))
        .start();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Failed);
    assert!(written(&sim).is_empty());
}

#[test]
fn two_spellings_never_become_two_documents() {
    let twins = [["Report.md", "report.md"], ["a/B.md", "a/b.md"]];
    for [first, second] in twins {
        let one_after_the_other = Sim::new(&writers())
            .agent(
                "root",
                [
                    turn([call("save", &format!("{first}=1"))]),
                    turn([call("save", &format!("{second}=2"))]),
                    turn([handoff("done")]),
                ],
            )
            .tool("save", save)
            .start();
        assert_eq!(written(&one_after_the_other).len(), 1, "{first} and {second}");
        let at_once = Sim::new(&writers())
            .agent("root", [turn([call("save", &format!("{first}=1;{second}=2"))]), turn([handoff("done")])])
            .tool("save", save)
            .start();
        assert!(written(&at_once).is_empty(), "{first} and {second} in one call: all or nothing");
        let mut of_the_job = Sim::new(&writers());
        let refusal = start(&mut of_the_job, vec![write(first, "1"), write(second, "2")]);
        assert!(matches!(refusal, Err(Refusal::InvalidDocument { .. })), "{refusal:?}");
    }
}

/// Documents from outside are refused before anything of them is appended.
#[test]
fn documents_that_look_alike_are_refused_with_an_answer_and_with_configs_and_leave_the_run_as_it_was() {
    let draft = job([agent("root", "ask_master")]);
    let asks = turn([crate::support::ask("which?")]);
    let mut sim = Sim::new(&draft).agent("root", [asks, turn([handoff("done")])]).start();
    let twins = || vec![write("a.md", "1"), write("A.md", "2")];
    let before = sim.run.clone();
    let answered = sim.person_sends("0/1.1", "this", twins());
    assert!(matches!(answered, Err(Refusal::InvalidDocument { .. })), "{answered:?}");
    let configs = sim.run.started().unwrap().configs;
    let adoption = Adoption::of(configs);
    let event = Event::Adopted { adoption, documents: twins(), by: Principal::person("ada") };
    let adopted = sim.event(event);
    assert!(matches!(adopted, Err(Refusal::InvalidDocument { .. })), "{adopted:?}");
    assert!(sim.run == before, "a refusal changes nothing");
    sim.person_sends("0/1.1", "this", vec![write("a.md", "1")]).unwrap();
    assert_eq!(written(&sim).len(), 1);
}

fn start(sim: &mut Sim, documents: Vec<baton_types::document::Write>) -> Result<(), Refusal> {
    let run = started(&sim.configs);
    sim.event(Event::Started { run, root: "root".into(), documents })
}

#[test]
fn documents_travel_down_pinned_and_come_back_only_when_handed_off() {
    let sim = Sim::new(&writers())
        .agent("root", [turn([route_with("child", "analyse", &["sales.csv"])]), turn([handoff_with("done", &["analysis.md"])])])
        .agent(
            "child",
            [turn([call("save", "analysis.md=up;notes.md=private")]), turn([handoff_with("child", &["analysis.md"])])],
        )
        .tool("save", save)
        .start_with(vec![write("sales.csv", "a,b")]);
    assert_eq!(shown_to(&sim, "0"), ["sales.csv v1", "analysis.md v1"], "once each, and not the CSV back");
    assert_eq!(shown_to(&sim, "0/1.1"), ["sales.csv v1"]);
    check(
        &sim,
        expect![[r#"
        run started: go
        sales.csv v1 by job
        0 created: root for root, "go" [sales.csv v1] master you
        0 turn 1 asked
        0 turn 1: route_to_child
        0/1.1 route_to_child started → child [sales.csv v1]
          0/1.1 created: task for child, "analyse" [sales.csv v1] master 0
          0/1.1 turn 1 asked
          0/1.1 turn 1: save
          0/1.1/1.1 save started
          analysis.md v1 by 0/1.1/1.1
          notes.md v1 by 0/1.1/1.1
          0/1.1/1.1 save success "saved"
          0/1.1 turn 2 asked
          0/1.1 turn 2: handoff
          0/1.1/2.1 handoff success "child" [analysis.md v1] [terminate]
          0/1.1 completed: success "child" [analysis.md v1]
        0/1.1 route_to_child success "child" [analysis.md v1]
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "done" [analysis.md v1] [terminate]
        0 completed: success "done" [analysis.md v1]
        run completed (success)
        "#]],
    );
}

#[test]
fn documents_arrive_in_the_order_in_which_they_were_named_and_once_each() {
    let sim = Sim::new(&writers())
        .agent("root", [turn([route_with("child", "x", &["c.md", "a.md", "c.md", "./a.md", "b.md"])]), turn([handoff("done")])])
        .agent("child", [turn([handoff_with("child", &["b.md", "a.md", "b.md"])])])
        .start_with(vec![write("a.md", "1"), write("b.md", "2"), write("c.md", "3")]);
    sim.assert_over();
    assert_eq!(shown_to(&sim, "0/1.1"), ["c.md v1", "a.md v1", "b.md v1"]);
    assert_eq!(names(&sim.result("0/1.1").documents), ["b.md v1", "a.md v1"]);
}

#[test]
fn a_pinned_version_stays_what_it_was_while_newer_ones_are_written() {
    let draft = job([agent("root", "save route_to_first route_to_second"), agent("first", "save"), agent("second", "look")])
        .tools([function("save").writing(), function("look")]);
    let sim = Sim::new(&draft)
        .agent(
            "root",
            [turn([route_with("first", "x", &["a.md"]), route_with("second", "y", &["a.md"])]), turn([handoff("done")])],
        )
        .agent("first", [turn([call("save", "a.md=two")]), turn([handoff("first")])])
        .agent("second", [turn([call("look", "1")]), turn([call("look", "2")]), turn([handoff("second")])])
        .tool("save", save)
        .start_with(vec![write("a.md", "one")]);
    sim.assert_over();
    assert_eq!(shown_to(&sim, "0/1.2"), ["a.md v1"]);
    let request = sim.request("0/1.2");
    let hashes = request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Document(version) => Some(version.content.hash),
        _ => None,
    });
    assert_eq!(hashes.collect::<Vec<_>>(), [facts("one").hash]);
}

#[test]
fn attached_documents_are_resolved_when_the_call_acts_and_not_before() {
    // Rule 3: delegations act after the functions of their turn, so what those wrote can be attached.
    let sim = Sim::new(&writers())
        .agent("root", [turn([route_with("child", "x", &["a.md"]), call("save", "a.md=fresh")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("child")])])
        .tool("save", save)
        .start();
    sim.assert_over();
    assert_eq!(shown_to(&sim, "0/1.1"), ["a.md v1"]);
}

#[test]
fn a_missing_document_is_the_error_of_its_call_alone() {
    let sim = Sim::new(&writers())
        .agent(
            "root",
            [
                turn([
                    route_with("child", "x", &["missing.md"]),
                    route_with("child", "y", &["a.md"]),
                    route_with("child", "z", &["../x"]),
                ]),
                turn([handoff("done")]),
            ],
        )
        .agent("child", [turn([handoff("child")])])
        .start_with(vec![write("a.md", "1")]);
    sim.assert_over();
    let refused: BTreeMap<String, ErrorCode> = sim
        .timeline
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::CallRefused(refused) => Some((refused.call.to_string(), refused.error.code)),
            _ => None,
        })
        .collect();
    let expected = [("0/1.1".to_owned(), ErrorCode::UnknownDocument), ("0/1.3".to_owned(), ErrorCode::UnknownDocument)];
    assert_eq!(refused, BTreeMap::from(expected));
    assert_eq!(sim.result("0/1.2").status, CallStatus::Success);
}

#[test]
fn a_question_brings_its_documents_to_whoever_answers() {
    let draft = job([agent("root", "route_to_child"), agent("child", "ask_master save")]).tool(function("save").writing());
    let question = call_with("ask_master", json!({"question": "is it good?", "documents": ["a.md"]}));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route_with("child", "x", &[])]), turn([handoff("done")])])
        .agent("child", [turn([call("save", "a.md=1")]), turn([question]), turn([handoff("child")])])
        .answers("root", [crate::support::says("yes")])
        .tool("save", save)
        .start();
    sim.assert_over();
    assert_eq!(shown_to(&sim, "0/1.1/2.1"), ["a.md v1"]);
    assert!(shown_to(&sim, "0").is_empty(), "the master's own transcript is not changed");
}

#[test]
fn what_exceeds_the_edges_budget_arrives_as_a_pointer() {
    let draft = job([
        agent("root", "route_to_child"),
        agent("child", "load").limits(Limits { inject_tokens: Some(100), ..Limits::default() }),
    ])
    .tool(function("load"));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route_with("child", "x", &["small.md", "large.md", "tiny.md"])]), turn([handoff("done")])])
        .agent("child", [turn([call("load", "x")]), turn([handoff("child")])])
        .tool("load", load("large.md", 1))
        .start_with(vec![write("small.md", &"s".repeat(200)), write("large.md", &"l".repeat(4_000)), write("tiny.md", "t")]);
    sim.assert_over();
    let request = sim.request("0/1.1");
    let parts: Vec<String> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::Document(version) => Some(format!("whole {}", version.path)),
            Part::Pointer(version) => Some(format!("pointer {}", version.path)),
            _ => None,
        })
        .collect();
    assert_eq!(parts, ["whole small.md", "pointer large.md", "whole tiny.md", "whole large.md"], "loading brings the rest");
}

#[test]
fn two_tasks_that_race_on_one_path_never_lose_an_update() {
    // Each writer adds its mark to what it knows, again after every conflict: 1,000 interleavings.
    let draft = job([agent("root", "save route_to_writer"), agent("writer", "save")]).tool(function("save").writing());
    let mut conflicts = 0;
    for seed in 0..1_000 {
        let mut writers = Random::seeded(seed);
        let count = 2 + writers.below(2);
        let mut sim = Sim::new(&draft)
            .agent(
                "root",
                [
                    turn([call("save", "")]),
                    turn((0..count).map(|writer| route_with("writer", &writer.to_string(), &["n.md"]))),
                    turn([handoff("done")]),
                ],
            )
            .agent_with("writer", |prompted| {
                // What the writer knows of the document is what its newest request shows.
                let mut newest =
                    prompted.request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
                        Part::Document(version) | Part::Conflict { current: version, .. } => {
                            Some(version.content.summary.clone())
                        }
                        _ => None,
                    });
                let known = newest.next_back().expect("the document was handed over");
                let wrote = prompted.request.messages.iter().flat_map(|message| &message.parts).any(
                    |part| matches!(part, Part::Result { result: Some(result), .. } if result.status == CallStatus::Success),
                );
                Ok(if wrote { turn([handoff("written")]) } else { turn([call("save", &format!("{known}+"))]) })
            })
            .tool("save", |execution| {
                let input = execution.input.value();
                writes(json!(execution.call.as_str()), vec![write("n.md", input["x"].as_str().expect("x is a string"))])
            })
            .by_chance(seed);
        sim.begin(Vec::new());
        sim.settle();
        sim.assert_over();
        let head = sim.run.documents().get(&document_path("n.md")).expect("it was written");
        assert_eq!(head.current().content.summary, "+".repeat(count), "seed {seed}:\n{}", print::timeline(&sim.timeline));
        conflicts += sim
            .timeline
            .iter()
            .filter(|recorded| match &recorded.entry {
                Entry::CallFinished(finished) => !finished.conflicts.is_empty(),
                _ => false,
            })
            .count();
    }
    assert!(conflicts > 500, "the writers did race: {conflicts} conflicts");
}

#[test]
fn a_person_may_send_a_new_version_of_what_stands() {
    let mut sim = Sim::new(&job([agent("root", "ask_master")]))
        .agent("root", [turn([crate::support::ask("which?")]), turn([handoff_with("done", &["a.md"])])])
        .start_with(vec![write("a.md", "1")]);
    sim.person_sends("0/1.1", "this", vec![write("a.md", "2")]).expect("the question is open");
    sim.assert_over();
    assert_eq!(names(&sim.result("0/2.1").documents), ["a.md v2"]);
    assert_eq!(written(&sim)[1].task, None, "it is written in the person's name");
}

#[test]
fn a_task_that_ends_partial_hands_back_each_document_once_at_its_newest_version() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let sim = Sim::new(&job([agent("root", "save").limits(limits)]).tool(function("save").writing()))
        .agent("root", [turn([call("save", "a.md"), call("save", "b.md"), call("save", "b.md")]), says("")])
        .tool("save", |execution| {
            let path = execution.input.value()["x"].as_str().expect("a mark").to_owned();
            writes(json!("saved"), vec![write(&path, &execution.call.to_string())])
        })
        .start();
    sim.assert_over();
    let result = sim.task("0").result.clone().expect("it has ended");
    let documents: Vec<String> =
        result.documents.iter().map(|document| format!("{}@{}", document.path, document.version)).collect();
    assert_eq!((result.status, documents), (CallStatus::Partial, vec!["a.md@1".to_owned(), "b.md@2".to_owned()]));
}
