//! Calls that must be approved: who is asked, what waits, what a grant holds for, and what becomes of a denial.

use std::sync::Arc;

use expect_test::expect;

use baton_machine::Run;
use baton_types::call::{AfterExecution, CallStatus, ErrorCode};
use baton_types::config::{Approver, EffectClass, Join};
use baton_types::entry::{Adoption, Concern, Entry, FinalState, Holder};
use baton_types::event::{Effect, Event};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::jobs::{JobDraft, ToolDraft};
use crate::support::sim::Work;
use crate::support::{Sim, agent, ask, call, check, function, handoff, handoff_with, job, note, route, says, then, turn, write};

fn yes() -> Value {
    json!({"approved": true})
}

fn no(reason: &str) -> Value {
    json!({"approved": false, "reason": reason})
}

/// Returns a root with a tool of its own that a person must approve.
fn careful() -> JobDraft {
    job([agent("root", "delete work look save")]).tools([
        function("delete").approved_by(Approver::Person),
        function("work"),
        function("look").effect(EffectClass::Pure),
        function("save").writing().approved_by(Approver::Person),
    ])
}

#[test]
fn a_call_begins_once_it_is_approved() {
    let mut sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a")]), turn([handoff("done")])]).start();
    assert!(sim.begun().is_empty() && sim.pending.is_empty());
    assert!(sim.run.waits_only_for_people());
    assert!(sim.run.task(&TaskId::root()).unwrap().phase.as_str() == "waiting");
    sim.person_answers("0/1.1/approval", yes()).unwrap();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: delete
            0/1.1/approval created: question for you, its own words master you [approval]
            Q1 opened: 0 asks you, on deadline fail
            Q1 closed: ada (person) answers {"approved":true}
            0/1.1/approval completed: success {"approved":true}
        0/1.1 delete approved
        0/1.1 delete started
        0/1.1 delete success "0/1.1"
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn the_question_shows_the_tool_and_the_whole_input() {
    let sim = Sim::new(&careful()).agent("root", [turn([call("delete", "everything")])]).start();
    let created = &sim.task("0/1.1/approval").created;
    assert!(created.request.contains("delete") && created.request.contains(r#"{"x":"everything"}"#), "{}", created.request);
    assert!(matches!(created.concern, Some(Concern::Approval { .. })));
}

#[test]
fn a_denial_is_an_error_result_with_its_reason_and_the_agent_goes_on() {
    let mut sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a")]), turn([handoff("done")])]).start();
    sim.person_answers("0/1.1/approval", no("there is no backup")).unwrap();
    sim.assert_over();
    let error = sim.refusal("0/1.1");
    assert_eq!(error.code, ErrorCode::Denied);
    assert!(error.message.contains("there is no backup"), "{}", error.message);
    assert_eq!(sim.executions("0/1.1"), 0);
    assert_eq!(sim.task("0").turns, 2, "the agent is asked again");
}

#[test]
fn silence_is_no_grant() {
    let mut sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a")]), turn([handoff("done")])]).start();
    assert!(sim.person_answers("0/1.1/approval", "yes").is_err(), "only an answer that says so approves");
    sim.cancel("0/1.1/approval").unwrap();
    sim.assert_over();
    assert_eq!(sim.refusal("0/1.1").code, ErrorCode::Denied);
    assert_eq!(sim.executions("0/1.1"), 0);
}

#[test]
fn calls_behind_one_that_waits_for_its_approval_wait_with_it_and_all_are_asked_about_at_once() {
    let calls = [call("look", "a"), call("delete", "b"), call("work", "c"), call("save", "d")];
    let mut sim = Sim::new(&careful()).agent("root", [turn(calls), turn([handoff("done")])]).start();
    assert_eq!(sim.begun(), ["0/1.1"], "what comes before it begins");
    assert_eq!(sim.asked.len(), 2, "both approvals are asked for at once");
    sim.person_answers("0/1.4/approval", yes()).unwrap();
    assert_eq!(sim.begun(), ["0/1.1"], "its place has not come");
    sim.person_answers("0/1.2/approval", yes()).unwrap();
    sim.assert_over();
    assert_eq!(sim.begun(), ["0/1.1", "0/1.2", "0/1.3", "0/1.4"]);
}

#[test]
fn a_delegation_is_approved_before_its_task_exists_and_its_documents_are_shown() {
    let draft =
        job([agent("root", "route_to_child"), agent("child", "")]).tool(ToolDraft::route("child").approved_by(Approver::Person));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([baton_proof::route_with("child", "do it", &["a.md"])]), turn([handoff("done")])])
        .agent("child", [says("worked")])
        .start_with(vec![write("a.md", "text")]);
    assert!(!sim.ledger.tasks.contains_key(&TaskId::from("0/1.1")));
    assert_eq!(sim.task("0/1.1/approval").created.documents.len(), 1);
    sim.person_answers("0/1.1/approval", yes()).unwrap();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success);
}

#[test]
fn a_call_that_would_be_refused_anyway_asks_nobody() {
    let draft = job([agent("root", "route_to_child").needs_approval("handoff", Approver::Person), agent("child", "")])
        .tool(ToolDraft::route("child").approved_by(Approver::Person));
    let mut sim = Sim::new(&draft)
        .agent(
            "root",
            [
                turn([baton_proof::route_with("child", "do it", &["missing.md"])]),
                turn([handoff("early"), handoff("twice")]),
                turn([handoff("done")]),
            ],
        )
        .start();
    assert_eq!(sim.asked, [TaskId::from("0/3.1/approval")], "only what could begin is asked about");
    assert_eq!(sim.refusal("0/1.1").code, ErrorCode::UnknownDocument);
    sim.person_answers("0/3.1/approval", yes()).unwrap();
    sim.assert_over();
}

#[test]
fn a_result_is_approved_before_it_is_handed_back() {
    let draft = job([agent("root", "route_to_child"), agent("child", "").needs_approval("handoff", Approver::Master)]);
    let mut answers = 0;
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("a draft")]), turn([handoff("better")])])
        .answers_with("root", move |_| {
            answers += 1;
            Ok(turn([handoff(if answers == 1 { no("too short") } else { yes() })]))
        })
        .start();
    sim.assert_over();
    assert!(sim.refusal("0/1.1/1.1").message.contains("too short"));
    assert_eq!(sim.task("0/1.1").result.clone().unwrap().output.text(), r#""better""#);
    assert_eq!(sim.finished("0/1.1").said.len(), 2, "the master learns what was said in its name");
}

#[test]
fn the_roots_master_is_a_person_and_a_person_outranks_a_master() {
    let draft = job([agent("root", "look route_to_child"), agent("child", "work").needs_approval("work", Approver::Person)])
        .tools([
            function("look").effect(EffectClass::Pure).approved_by(Approver::Master),
            function("work").approved_by(Approver::Master),
        ]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([call("look", "a")]), turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "b")]), says("worked")])
        .start();
    sim.person_answers("0/1.1/approval", yes()).unwrap();
    assert_eq!(sim.task("0/2.1/1.1/approval").created.holder, Holder::Person);
    sim.person_answers("0/2.1/1.1/approval", yes()).unwrap();
    sim.assert_over();
}

#[test]
fn an_approval_climbs_like_any_question() {
    let draft = job([agent("root", "route_to_child ask_master"), agent("child", "work")])
        .tool(function("work").approved_by(Approver::Master));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")]), says("worked")])
        .answers("root", [turn([ask("may it?")]), turn([handoff(yes())])])
        .start();
    sim.person_answers("0/1.1/1.1/approval/1.1", "by all means").unwrap();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.1/1.1"), 1);
}

#[test]
fn an_answer_is_given_without_the_approval_that_other_handoffs_need() {
    let root = agent("root", "route_to_worker").needs_approval("handoff", Approver::Person);
    let mut sim = Sim::new(&job([root, agent("worker", "ask_master")]))
        .agent("root", [turn([route("worker", "work")]), turn([handoff("done")])])
        .answers("root", [turn([handoff("42")])])
        .agent("worker", [turn([ask("how many?")]), turn([handoff("worked")])])
        .start();
    assert_eq!(sim.result("0/1.1/1.1").output.value(), json!("42"));
    assert_eq!(sim.asked.len(), 1, "a person approves the result of the root alone");
    sim.person_answers("0/2.1/approval", yes()).unwrap();
    sim.assert_over();
}

#[test]
fn an_agent_that_answers_a_question_is_offered_nothing_that_must_be_approved() {
    let draft =
        job([agent("root", "route_to_child look").needs_approval("look", Approver::Person), agent("child", "ask_master")])
            .tool(function("look").effect(EffectClass::Pure));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([ask("what is there?")]), says("asked")])
        .answers("root", [turn([call("look", "a")]), says("nothing")])
        .start();
    sim.assert_over();
    assert_eq!(sim.refusal("0/1.1/1.1/1.1").code, ErrorCode::UnknownTool);
    let offered: Vec<String> = sim.request("0/1.1/1.1").tools.iter().map(|tool| tool.id.to_string()).collect();
    assert_eq!(offered, ["handoff"]);
}

/// Returns the run as it is, in a process that has other configs by now.
fn with_other_configs(sim: &Sim, draft: &JobDraft) -> Run {
    Run::fold(draft.build(), &sim.timeline)
}

fn grant(mut run: Run, sim: &Sim) -> Vec<Entry> {
    let answer = Json::from(yes());
    let event = Event::PersonAnswered {
        question: TaskId::from("0/1.1/approval"),
        by: Principal::person("ada"),
        answer,
        documents: Vec::new(),
        recorded: None,
    };
    let decision = run.handle(sim.now, event).unwrap();
    assert!(!decision.effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "nothing is executed");
    decision.entries.into_iter().map(|recorded| Arc::unwrap_or_clone(recorded).entry).collect()
}

#[test]
fn a_grant_holds_for_what_was_asked_and_for_nothing_else() {
    let sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a")])]).start();
    let repeated =
        job([agent("root", "delete")]).tool(function("delete").approved_by(Approver::Person).effect(EffectClass::Pure));
    let entries = grant(with_other_configs(&sim, &repeated), &sim);
    assert!(!entries.iter().any(|entry| matches!(entry, Entry::CallApproved(_))), "{entries:?}");
    assert!(asks(&entries, "0/1.1/approval.2"), "{entries:?}");
    let gone = job([agent("root", "")]);
    assert!(grant(with_other_configs(&sim, &gone), &sim).iter().any(|entry| matches!(entry, Entry::CallRefused(_))));
}

#[test]
fn a_definition_that_changed_between_the_grant_and_the_start_is_not_what_was_approved() {
    // The granted call waits for the one place among the parallel calls.
    let draft = |effect| {
        job([agent("root", "route_to_one route_to_two"), agent("one", "work"), agent("two", "delete")])
            .tools([function("work"), function("delete").effect(effect).approved_by(Approver::Person)])
            .limits(Limits { parallel_calls: Some(1), ..Limits::default() })
    };
    let mut sim = Sim::new(&draft(EffectClass::Keyed))
        .holding("work")
        .agent("root", [turn([route("one", "1"), route("two", "2")])])
        .agent("one", [turn([call("work", "a")])])
        .agent("two", [turn([call("delete", "b")])])
        .start();
    sim.person_answers("0/1.2/1.1/approval", yes()).unwrap();
    assert_eq!(sim.begun(), ["0/1.1", "0/1.2", "0/1.1/1.1"]);
    let mut run = with_other_configs(&sim, &draft(EffectClass::Idempotent));
    let outcome = baton_types::event::Outcome::success(json!("worked"));
    let decision = run.handle(sim.now, Event::CallReturned { call: CallId::from("0/1.1/1.1"), outcome }).unwrap();
    let entries: Vec<Entry> = decision.entries.into_iter().map(|recorded| Arc::unwrap_or_clone(recorded).entry).collect();
    assert!(asks(&entries, "0/1.2/1.1/approval.2"), "{entries:?}");
    assert!(!entries.iter().any(|entry| matches!(entry, Entry::CallStarted(_))), "{entries:?}");
}

#[test]
fn a_call_that_began_as_approved_does_not_begin_again_as_something_else() {
    let draft = |effect| job([agent("root", "delete")]).tool(function("delete").effect(effect).approved_by(Approver::Person));
    let mut sim = Sim::new(&draft(EffectClass::Keyed)).holding("delete").agent("root", [turn([call("delete", "a")])]).start();
    sim.person_answers("0/1.1/approval", yes()).unwrap();
    let executed = |effect| {
        let mut run = with_other_configs(&sim, &draft(effect));
        let decision = run.handle(sim.now, Event::TakenOver { process: "another".to_owned(), after_death: false }).unwrap();
        let denied = decision.entries.iter().any(|recorded| {
            matches!(&recorded.entry, Entry::CallFinished(finished)
                if finished.result.error.as_ref().is_some_and(|error| error.code == ErrorCode::Denied))
        });
        (decision.effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), denied)
    };
    assert_eq!(executed(EffectClass::Keyed), (true, false));
    assert_eq!(executed(EffectClass::Idempotent), (false, true));
}

/// Whether `entries` open the question `id` to a person.
fn asks(entries: &[Entry], id: &str) -> bool {
    let is_asked =
        |entry: &Entry| matches!(entry, Entry::QuestionOpened(opened) if opened.task == id && opened.holder == Holder::Person);
    entries.iter().any(is_asked)
}

#[test]
fn configs_that_change_a_call_withdraw_the_question_about_it_and_ask_again() {
    let draft = |effect| job([agent("root", "delete")]).tool(function("delete").effect(effect).approved_by(Approver::Person));
    let mut sim =
        Sim::new(&draft(EffectClass::Keyed)).agent("root", [turn([call("delete", "a")]), turn([handoff("done")])]).start();
    let adopted = |sim: &Sim, effect, name: &[u8]| {
        let mut run = sim.fold();
        let hash = ContentHash::of(name);
        run.know_configs(hash, draft(effect).build());
        let adoption = Adoption::of(hash);
        let by = Principal::person("ada");
        run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by }).unwrap()
    };
    let same = adopted(&sim, EffectClass::Keyed, b"the same");
    assert!(!same.entries.iter().any(|recorded| matches!(recorded.entry, Entry::QuestionOpened(_))), "nothing has changed");
    let changed = adopted(&sim, EffectClass::Idempotent, b"changed");
    let people: Vec<&Effect> = changed.effects.iter().filter(|effect| matches!(effect, Effect::AskPerson { .. })).collect();
    assert_eq!(people, [&Effect::AskPerson { question: "0/1.1/approval.2".into() }]);
    let entries: Vec<Entry> = changed.entries.into_iter().map(|recorded| Arc::unwrap_or_clone(recorded).entry).collect();
    let withdrawn = |entry: &Entry| matches!(entry, Entry::TaskEnded(ended) if ended.task == "0/1.1/approval" && ended.state == FinalState::Cancelled);
    assert!(asks(&entries, "0/1.1/approval.2") && entries.iter().any(withdrawn), "{entries:?}");
    sim.person_answers("0/1.1/approval", yes()).unwrap();
    assert_eq!(sim.executions("0/1.1"), 1, "the run that adopted nothing goes on by the first answer");
}

#[test]
fn a_crash_while_an_approval_is_open_asks_the_person_again_and_nothing_else() {
    let mut sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a")]), turn([handoff("done")])]).start();
    sim.crash();
    assert_eq!(sim.asked, [TaskId::from("0/1.1/approval")]);
    assert!(sim.pending.is_empty());
    sim.person_answers("0/1.1/approval", yes()).unwrap();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.1"), 1);
}

#[test]
fn the_end_of_the_caller_withdraws_the_question() {
    let mut sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a"), call("work", "b")])]).start();
    sim.cancel("0").unwrap();
    sim.assert_over();
    assert!(sim.begun().is_empty());
    assert!(sim.person_answers("0/1.1/approval", yes()).is_err());
}

#[test]
fn a_join_that_is_met_cancels_a_delegation_that_waits_for_its_approval() {
    let draft = job([
        agent("root", "route_to_quick route_to_careful").join(Join::FirstSuccess),
        agent("quick", ""),
        agent("careful", ""),
    ])
    .tools([
        ToolDraft::route("careful").approved_by(Approver::Person).after(AfterExecution::Terminate),
        ToolDraft::route("quick"),
    ]);
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("careful", "c"), route("quick", "q")]), turn([handoff("done")])])
        .agent("quick", [says("first")])
        .start();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Cancelled);
    assert!(sim.task("0/1.1/approval").ended.is_some());
}

#[test]
fn a_call_that_waits_for_a_person_keeps_no_place_from_others() {
    let draft = job([agent("root", "route_to_one route_to_two"), agent("one", "delete work"), agent("two", "work")])
        .tools([function("delete").approved_by(Approver::Person), function("work")])
        .limits(Limits { parallel_calls: Some(1), ..Limits::default() });
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("one", "1"), route("two", "2")]), turn([handoff("done")])])
        .agent("one", [turn([call("delete", "a"), call("work", "b")]), says("worked")])
        .agent("two", [turn([call("work", "c"), call("work", "d")]), says("worked")])
        .start();
    assert!(sim.task("0/1.2").ended.is_some(), "the other task went on");
    sim.person_answers("0/1.1/1.1/approval", yes()).unwrap();
    sim.assert_over();
}

#[test]
fn where_nobody_more_may_be_asked_the_call_is_refused() {
    let draft = careful().limits(Limits { live_tasks: Some(1), ..Limits::default() });
    let sim = Sim::new(&draft).agent("root", [turn([call("delete", "a")]), turn([handoff_with("done", &[])])]).start();
    sim.assert_over();
    assert_eq!(sim.refusal("0/1.1").code, ErrorCode::LimitReached);
    assert_eq!(sim.executions("0/1.1"), 0);
}

#[test]
fn a_waiting_call_whose_approval_cannot_be_asked_is_refused_and_its_turn_ends() {
    let draft = |delete: ToolDraft, live_tasks| {
        job([agent("root", "route_to_one route_to_two"), agent("one", "work"), agent("two", "jot delete")])
            .tools([function("work"), note("jot"), delete])
            .limits(Limits { parallel_calls: Some(1), live_tasks, ..Limits::default() })
    };
    // The call waits for the one place among the parallel calls.
    let sim = Sim::new(&draft(function("delete"), None))
        .holding("work")
        .agent("root", [turn([route("one", "1"), route("two", "2")])])
        .agent("one", [turn([call("work", "a")])])
        .agent("two", [turn([then(call("jot", "b"), AfterExecution::Terminate), call("delete", "c")])])
        .start();
    // Under other configs the call needs an approval, and no task may be added.
    let mut run = with_other_configs(&sim, &draft(function("delete").approved_by(Approver::Person), Some(3)));
    let outcome = baton_types::event::Outcome::success(json!("worked"));
    let decision = run.handle(sim.now, Event::CallReturned { call: CallId::from("0/1.1/1.1"), outcome }).unwrap();
    let entries: Vec<&Entry> = decision.entries.iter().map(|recorded| &recorded.entry).collect();
    let refused = |entry: &&Entry| matches!(entry, Entry::CallRefused(refused) if refused.call == "0/1.2/1.2" && refused.error.code == ErrorCode::LimitReached);
    let ended = |entry: &&Entry| matches!(entry, Entry::TaskEnded(ended) if ended.task == "0/1.2" && ended.state == FinalState::Completed);
    assert!(entries.iter().any(refused), "{entries:?}");
    assert!(entries.iter().any(ended), "the turn has a result that terminates: {entries:?}");
}

#[test]
fn every_order_of_grants_and_denials_ends() {
    let names = ["delete", "work", "save"];
    for decisions in 0..27_usize {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let draft = job([agent("root", "delete work save")]).tools([
                function("delete").approved_by(Approver::Person),
                function("work").approved_by(Approver::Person),
                function("save").writing().approved_by(Approver::Person),
            ]);
            let calls = names.map(|name| call(name, name));
            let mut sim = Sim::new(&draft).agent("root", [turn(calls), turn([handoff("done")])]).start();
            for place in order {
                let question = format!("0/1.{}/approval", place + 1);
                match decisions / 3_usize.pow(place as u32) % 3 {
                    0 => sim.person_answers(&question, yes()).unwrap(),
                    1 => sim.person_answers(&question, no("no")).unwrap(),
                    _ => sim.cancel(&question).unwrap(),
                }
            }
            sim.assert_over();
            let granted: Vec<String> = (0..3)
                .filter(|place| decisions / 3_usize.pow(*place) % 3 == 0)
                .map(|place| format!("0/1.{}", place + 1))
                .collect();
            assert_eq!(sim.begun(), granted, "{decisions} in the order {order:?}");
            assert!(!sim.pending.iter().any(|work| matches!(work, Work::Execute(_))));
        }
    }
}

#[test]
fn a_denial_with_a_blank_reason_says_that_none_was_given() {
    let mut sim = Sim::new(&careful()).agent("root", [turn([call("delete", "a")]), turn([handoff("done")])]).start();
    sim.person_answers("0/1.1/approval", no("  ")).unwrap();
    sim.assert_over();
    assert!(sim.refusal("0/1.1").message.contains("no reason was given"), "{:?}", sim.refusal("0/1.1"));
}

#[test]
fn a_rule_for_a_tool_binds_all_tasks_below() {
    let draft = |root: Approver, middle: Option<Approver>| {
        let lead = agent("lead", "route_to_worker");
        let lead = middle.map_or(lead.clone(), |middle| agent("lead", "route_to_worker work").needs_approval("work", middle));
        let root_agent = agent("root", "route_to_lead work").needs_approval("work", root);
        job([root_agent, lead, agent("worker", "work")]).tool(function("work"))
    };
    let begun = |root: Approver, middle: Option<Approver>| {
        Sim::new(&draft(root, middle))
            .agent("root", [turn([route("lead", "a")]), turn([handoff("done")])])
            .agent("lead", [turn([route("worker", "b")]), turn([handoff("led")])])
            .agent("worker", [turn([call("work", "c")]), turn([handoff("worked")])])
            .start()
    };
    for (root, middle) in [
        (Approver::Person, None),
        (Approver::Person, Some(Approver::Master)),
        // The master of the root is a person. The agent between could not permit it to itself.
        (Approver::Master, None),
        (Approver::Master, Some(Approver::Master)),
        (Approver::Master, Some(Approver::Person)),
    ] {
        let mut sim = begun(root, middle);
        let question = "0/1.1/1.1/1.1/approval";
        assert_eq!(sim.task(question).created.holder, Holder::Person, "{root:?} {middle:?}");
        assert!(!sim.begun().contains(&"0/1.1/1.1/1.1"));
        sim.person_answers(question, yes()).unwrap();
        assert_eq!(sim.result("0/1.1/1.1/1.1").status, CallStatus::Success);
        sim.assert_over();
    }
}

#[test]
fn the_master_of_the_agent_with_the_rule_is_asked() {
    let agents = [
        agent("root", "route_to_lead"),
        agent("lead", "route_to_worker work").needs_approval("work", Approver::Master),
        agent("worker", "work"),
    ];
    let sim = Sim::new(&job(agents).tool(function("work")))
        .agent("root", [turn([route("lead", "a")]), turn([handoff("done")])])
        .answers("root", [turn([handoff(yes())])])
        .agent("lead", [turn([route("worker", "b")]), turn([handoff("led")])])
        .agent("worker", [turn([call("work", "c")]), turn([handoff("worked")])])
        .start();
    let question = sim.task("0/1.1/1.1/1.1/approval");
    assert_eq!(question.created.holder, Holder::Agent("root".into()), "not the lead, whose own calls the root must permit");
    assert_eq!(sim.result("0/1.1/1.1/1.1").status, CallStatus::Success);
    sim.assert_over();
}

#[test]
fn a_rule_for_a_handoff_binds_its_own_agent_alone() {
    let agents = [agent("root", "route_to_worker").needs_approval("handoff", Approver::Person), agent("worker", "")];
    let mut sim = Sim::new(&job(agents))
        .agent("root", [turn([route("worker", "a")]), turn([handoff("done")])])
        .agent("worker", [turn([handoff("worked")])])
        .start();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success);
    sim.person_answers("0/2.1/approval", yes()).unwrap();
    sim.assert_over();
}
