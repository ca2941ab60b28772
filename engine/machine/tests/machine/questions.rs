//! Questions: who answers, in whose name, when, and what the others learn of it (`every_question_has_one_end`).

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::entry::{Entry, FinalState, Holder, Master, QuestionEnd, TaskCreated, TaskKind};
use baton_types::event::{Event, Refusal};
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::message::Part;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use expect_test::expect;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::{
    Sim, agent, ask, call, call_with, check, check_so_far, function, handoff, handoff_with, job, note, route, says, turn, write,
    writes,
};

fn two_agents() -> JobDraft {
    job([agent("root", "route_to_child ask_master"), agent("child", "ask_master")])
}

fn created(sim: &Sim, task: &str) -> TaskCreated {
    sim.ledger.tasks[&TaskId::from(task)].created.clone()
}

#[test]
fn a_master_answers_while_it_is_blocked_on_the_asker() {
    let sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which quarter?")]), turn([handoff("child done")])])
        .answers("root", [says("the third")])
        .start();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: route_to_child
        0/1.1 route_to_child started → child
          0/1.1 created: task for child, "do it" master 0
          0/1.1 turn 1 asked
          0/1.1 turn 1: ask_master
          0/1.1/1.1 ask_master started → root
            0/1.1/1.1 created: question for root, "which quarter?" master you in the name of 0
            Q1 opened: 0/1.1 asks root, on deadline fail
            0/1.1/1.1 turn 1 asked
            0/1.1/1.1 turn 1: "the third"
            Q1 closed: root answers "the third"
            0/1.1/1.1 completed: success "the third"
          0/1.1/1.1 ask_master success "the third"
          0/1.1 turn 2 asked
          0/1.1 turn 2: handoff
          0/1.1/2.1 handoff success "child done" [terminate]
          0/1.1 completed: success "child done"
        0/1.1 route_to_child success "child done" (answered child: "which quarter?" "the third")
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn the_answer_is_given_on_the_masters_transcript_whose_open_calls_wait() {
    let sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which quarter?")]), turn([handoff("child done")])])
        .answers("root", [says("the third")])
        .start();
    let question = sim.request("0/1.1/1.1");
    assert!(question.is_question);
    assert_eq!(question.agent.as_str(), "root");
    let parts: Vec<&Part> = question.messages.iter().flat_map(|message| &message.parts).collect();
    let requests: Vec<&Part> = parts.iter().copied().filter(|part| matches!(part, Part::Request(_))).collect();
    assert_eq!(requests, [&Part::Request("go".to_owned())], "the master's own request, and no other");
    assert!(
        parts.iter().any(|part| matches!(part, Part::Result { call, result: None, .. } if call.as_str() == "0/1.1")),
        "its open call waits: {parts:?}"
    );
    assert!(
        matches!(parts.last(), Some(Part::Question { asker, question, answer_schema: _ }) if asker.as_str() == "child" && question == "which quarter?"),
        "the question comes last: {parts:?}"
    );
    // Only this rendering shows the open call: the master's own next request shows its result.
    let own = sim.request("0");
    let open =
        own.messages.iter().flat_map(|message| &message.parts).filter(|part| matches!(part, Part::Result { result: None, .. }));
    assert_eq!(open.count(), 0);
}

#[test]
fn the_master_learns_with_the_callers_result_what_was_said_in_its_name() {
    let sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([ask("a?"), ask("b?")]), turn([ask("c?")]), turn([handoff("child done")])])
        .answers_with("root", |prompted| {
            let last = prompted.request.messages.last().and_then(|message| message.parts.last().cloned());
            let Some(Part::Question { question, .. }) = last else { panic!("a question ends with itself: {last:?}") };
            Ok(says(&question.to_uppercase()))
        })
        .start();
    sim.assert_over();
    let request = sim.request("0");
    let said: Vec<(String, String)> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::Result { said, .. } => Some(said),
            _ => None,
        })
        .flatten()
        .map(|said| (said.question.clone(), said.answer.text().to_owned()))
        .collect();
    let expected = [("a?", "\"A?\""), ("b?", "\"B?\""), ("c?", "\"C?\"")];
    assert_eq!(said, expected.map(|(question, answer)| (question.to_owned(), answer.to_owned())));
}

#[test]
fn questions_climb_three_levels_to_a_person() {
    let draft = job([
        agent("root", "route_to_middle ask_master"),
        agent("middle", "route_to_leaf ask_master"),
        agent("leaf", "ask_master"),
    ]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("middle", "m")]), turn([handoff("done")])])
        .agent("middle", [turn([route("leaf", "l")]), turn([handoff("middle")])])
        .agent("leaf", [turn([ask("colour?")]), turn([handoff("leaf")])])
        .answers("middle", [turn([ask("they ask: colour?")]), says("blue, I hear")])
        .answers("root", [turn([ask("somebody asks: colour?")]), says("blue")])
        .start();
    let (first, second, third) = ("0/1.1/1.1/1.1", "0/1.1/1.1/1.1/1.1", "0/1.1/1.1/1.1/1.1/1.1");
    assert_eq!(sim.asked, [TaskId::from(third)]);
    assert!(sim.run.waits_only_for_people());
    let (first, second, third) = (created(&sim, first), created(&sim, second), created(&sim, third));
    assert_eq!(first.holder, Holder::Agent("middle".into()));
    assert_eq!(first.answers_for, Some("0/1.1".into()));
    assert_eq!(first.master, Master::Task("0".into()), "its master is that task's master");
    assert_eq!(second.holder, Holder::Agent("root".into()));
    assert_eq!(second.answers_for, Some("0".into()));
    assert_eq!(second.master, Master::Person);
    assert_eq!((third.holder.clone(), third.answers_for.clone()), (Holder::Person, None));
    assert!([&first, &second, &third].iter().all(|question| question.depth == 2), "questions do not count towards depth");
    sim.person_answers(third.task.as_str(), "blue").expect("the question is open");
    sim.assert_over();
    assert_eq!(sim.result("0/1.1/1.1/1.1").output, Json::from(json!("blue, I hear")).into());
    assert_eq!(sim.ledger.questions.len(), 3);
}

#[test]
fn an_agent_whose_master_is_a_person_asks_past_its_caller() {
    let draft = job([agent("root", "route_to_child"), agent("child", "ask_master").asks_a_person()]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which?")]), turn([handoff("child")])])
        .start();
    check_so_far(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: route_to_child
        0/1.1 route_to_child started → child
          0/1.1 created: task for child, "x" master you
          0/1.1 turn 1 asked
          0/1.1 turn 1: ask_master
          0/1.1/1.1 ask_master started → you
            0/1.1/1.1 created: question for you, "which?" master you
            Q1 opened: 0/1.1 asks you, on deadline fail
        "#]],
    );
    sim.person_answers("0/1.1/1.1", "that").expect("the question is open");
    sim.assert_over();
    let said =
        sim.timeline.iter().any(|recorded| matches!(&recorded.entry, Entry::CallFinished(finished) if !finished.said.is_empty()));
    assert!(!said, "nothing was said in the root's name");
}

#[test]
fn the_first_valid_answer_wins_and_later_ones_are_refused_with_the_reason() {
    let mut sim = Sim::new(&job([agent("root", "ask_master")]))
        .agent("root", [turn([ask("a?"), ask("b?")]), turn([handoff("done")])])
        .start();
    assert_eq!(sim.asked.len(), 2);
    sim.person_answers("0/1.1", "first").expect("the question is open");
    let late = sim.person_answers("0/1.1", "second").expect_err("it is answered");
    let Refusal::QuestionClosed { number, how } = &late else { panic!("{late:?}") };
    assert_eq!(*number, 1);
    assert!(how.contains("ada") && how.contains("first"), "{how}");
    assert_eq!(sim.result("0/1.1").output, Json::from(json!("first")).into());
    sim.person_answers("0/1.2", "b").expect("the other is open still");
    sim.assert_over();
    assert_eq!(sim.person_answers("0/1.2", "c").expect_err("the run is over"), Refusal::Ended { task: TaskId::root() });
}

#[test]
fn an_answer_must_meet_the_schema_that_the_asker_named() {
    let question = call_with("ask_master", json!({"question": "how many?", "answer_schema": {"type": "integer", "minimum": 1}}));
    let mut sim =
        Sim::new(&job([agent("root", "ask_master")])).agent("root", [turn([question]), turn([handoff("done")])]).start();
    for wrong in [json!("three"), json!(0), json!(null), json!([1])] {
        let refusal = sim.person_answers("0/1.1", wrong).expect_err("it does not fit");
        assert!(matches!(refusal, Refusal::InvalidAnswer { .. }), "{refusal:?}");
    }
    sim.person_answers("0/1.1", 3).expect("it fits");
    assert_eq!(sim.result("0/1.1").output, Json::from(json!(3)).into());
    sim.assert_over();
}

#[test]
fn a_master_that_is_an_agent_must_meet_the_schema_too() {
    let question = call_with("ask_master", json!({"question": "how many?", "answer_schema": {"type": "integer"}}));
    let sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([question]), turn([handoff("child")])])
        .answers("root", [turn([handoff("three")]), says("three"), says("3")])
        .start();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1/1.1").output, Json::from(json!(3)).into());
}

#[test]
fn an_answer_that_stands_under_its_key_is_the_value_that_meets_the_schema() {
    let question = call_with("ask_master", json!({"question": "how many?", "answer_schema": {"type": "integer"}}));
    let sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([question]), turn([handoff("child")])])
        .answers("root", [turn([handoff(json!({"answer": 3, "why": "counted"}))])])
        .start();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1/1.1").output, Json::from(json!(3)).into());
}

#[test]
fn a_schema_that_is_none_is_refused_before_anybody_is_asked() {
    let question = call_with("ask_master", json!({"question": "how many?", "answer_schema": {"type": "wholeness"}}));
    let sim = Sim::new(&job([agent("root", "ask_master")])).agent("root", [turn([question]), turn([handoff("done")])]).start();
    sim.assert_over();
    assert!(sim.ledger.questions.is_empty());
}

#[test]
fn nobody_and_nothing_else_can_be_answered() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([call_with("ask_master", json!({"question": "which?"}))]), turn([handoff("child")])])
        .answers("root", [turn([ask("up?")]), says("so")])
        .start();
    let unknown = sim.person_answers("0/9.9", "x").expect_err("there is no such task");
    assert_eq!(unknown, Refusal::UnknownTask { task: "0/9.9".into() });
    for not_asked in ["0", "0/1.1", "0/1.1/1.1"] {
        let refusal = sim.person_answers(not_asked, "x").expect_err("a person does not hold it");
        assert_eq!(refusal, Refusal::NotAsked { task: not_asked.into() });
    }
    sim.person_answers("0/1.1/1.1/1.1", "x").expect("that one is a person's");
    sim.assert_over();
}

#[test]
fn a_question_that_nobody_answers_does_what_its_asker_wanted() {
    let with = |more: serde_json::Value| {
        let mut input = json!({"question": "which?", "deadline_seconds": 60});
        input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let mut sim = Sim::new(&job([agent("root", "ask_master")]))
            .agent("root", [turn([call_with("ask_master", input)]), turn([handoff("done")])])
            .start();
        sim.wait(59);
        assert!(!sim.ended, "the deadline has not come");
        sim.wait(2);
        sim.assert_over();
        let refusal = sim.person_answers("0/1.1", "too late").expect_err("it is closed");
        assert!(matches!(refusal, Refusal::Ended { .. } | Refusal::QuestionClosed { .. }));
        sim.result("0/1.1")
    };
    let fails = with(json!({}));
    assert_eq!((fails.status, fails.error.map(|error| error.code)), (CallStatus::Timeout, Some(ErrorCode::Unanswered)));
    let default = with(json!({"default_answer": "blue", "on_deadline": "default"}));
    assert_eq!((default.status, default.output), (CallStatus::Success, Json::from(json!("blue")).into()));
    let from_a_person = with(json!({"on_deadline": "escalate"}));
    assert_eq!(from_a_person.status, CallStatus::Timeout, "nobody is above a person");
}

#[test]
fn a_question_that_an_agent_does_not_answer_in_time_goes_on_to_the_next_master() {
    let question = call_with("ask_master", json!({"question": "which?", "deadline_seconds": 60, "on_deadline": "escalate"}));
    let held = job([agent("root", "route_to_child look"), agent("child", "ask_master")])
        .tool(function("look").effect(baton_types::config::EffectClass::Pure));
    let mut sim = Sim::new(&held)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([question]), turn([handoff("child")])])
        .answers("root", [turn([call("look", "a")]), says("late")])
        .holding("look")
        .start();
    sim.wait(61);
    assert_eq!(sim.asked.len(), 1, "a person is asked now: {}", crate::support::print::timeline(&sim.timeline));
    sim.wait(600);
    let asked = sim.asked[0].clone();
    sim.person_answers(asked.as_str(), "blue").expect("the question is open");
    sim.assert_over();
    let answered = sim.result("0/1.1/1.1");
    assert_eq!((answered.status, answered.output), (CallStatus::Success, Json::from(json!("blue")).into()));
}

/// Returns a leaf whose question the middle does not answer, until it is escalated to the root.
fn left_lying(limits: Limits) -> Sim {
    let question = call_with("ask_master", json!({"question": "which?", "deadline_seconds": 60, "on_deadline": "escalate"}));
    let draft = job([agent("root", "route_to_middle"), agent("middle", "route_to_leaf look"), agent("leaf", "ask_master")])
        .tool(function("look").effect(baton_types::config::EffectClass::Pure))
        .limits(limits);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("middle", "m")]), turn([handoff("done")])])
        .agent("middle", [turn([route("leaf", "l")]), turn([handoff("middle")])])
        .agent("leaf", [turn([question]), turn([handoff("leaf")])])
        .answers("middle", [turn([call("look", "a")])])
        .answers("root", [says("blue")])
        .holding("look")
        .start();
    sim.wait(61);
    sim.assert_over();
    sim
}

#[test]
fn an_answer_after_an_escalation_is_said_in_the_name_of_whoever_gave_it() {
    let sim = left_lying(Limits::default());
    let said = |call: &str| sim.finished(call).said.len();
    assert_eq!(sim.result("0/1.1/1.1/1.1").output, Json::from(json!("blue")).into());
    assert_eq!((said("0/1.1"), said("0/1.1/1.1")), (1, 0), "the root answered and the middle did not");
    let question = sim.request("0/1.1/1.1/1.1/escalated");
    let last = question.messages.last().and_then(|message| message.parts.last());
    assert!(
        matches!(last, Some(Part::Question { asker, question, .. }) if asker.as_str() == "leaf" && question == "which?"),
        "the root is told who asks: {last:?}"
    );
    assert_eq!(sim.ledger.questions.len(), 2, "each of the two has its number and its end");
}

#[test]
fn an_escalation_keeps_to_the_limits_of_the_run() {
    let sim = left_lying(Limits { live_tasks: Some(4), ..Limits::default() });
    assert_eq!(sim.result("0/1.1/1.1/1.1").status, CallStatus::Timeout, "one more task may not live");
    let sim = left_lying(Limits { turns: Some(9), ..Limits::default() });
    assert!(sim.ledger.turns <= 9);
}

#[test]
fn an_agent_that_answers_a_question_may_use_pure_tools_questions_and_handoffs_only() {
    use baton_types::config::EffectClass::{AtMostOnce, Idempotent, Keyed, Pure};
    let draft = job([agent("root", "route_to_child ask_master look touch key once save jot"), agent("child", "ask_master")])
        .tools([
            function("look").effect(Pure),
            function("touch").effect(Idempotent),
            function("key").effect(Keyed),
            function("once").effect(AtMostOnce),
            function("save").effect(Pure).writing(),
            note("jot"),
        ]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which?")]), turn([handoff("child")])])
        .answers(
            "root",
            [
                turn(
                    ["look", "touch", "key", "once", "save"].map(|tool| call(tool, "a")).into_iter().chain([route("child", "y")]),
                ),
                turn([ask("up?")]),
                says("that"),
            ],
        )
        .start();
    let question = TaskId::from("0/1.1/1.1");
    let call_of = |position: u32| sim.ledger.calls[&question.call(1, position)].status;
    assert_eq!(call_of(1), Some(CallStatus::Success));
    for position in 2..=6 {
        let id = question.call(1, position);
        assert!(sim.ledger.calls[&id].refused, "{id} {} was accepted", sim.ledger.calls[&id].tool);
    }
    let request = sim.request("0/1.1/1.1");
    let offered: Vec<&str> = request.tools.iter().map(|tool| tool.id.as_str()).collect();
    assert!(offered.contains(&"look") && offered.contains(&"ask_master") && offered.contains(&"handoff"), "{offered:?}");
    assert!(!offered.iter().any(|tool| ["touch", "key", "once", "save", "route_to_child"].contains(tool)), "{offered:?}");
    let asked = sim.asked[0].clone();
    sim.person_answers(asked.as_str(), "x").expect("the question is open");
    sim.assert_over();
}

#[test]
fn cancelling_the_asker_withdraws_its_question() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which?")])])
        .answers("root", [turn([ask("up?")])])
        .start();
    assert_eq!(sim.asked, [TaskId::from("0/1.1/1.1/1.1")]);
    sim.cancel("0/1.1").expect("the asker lives");
    assert!(sim.asked.is_empty(), "nobody is asked any more");
    sim.assert_over();
    for question in ["0/1.1/1.1", "0/1.1/1.1/1.1"] {
        assert_eq!(sim.ledger.tasks[&TaskId::from(question)].ended, Some(FinalState::Cancelled));
    }
}

#[test]
fn an_answer_to_a_withdrawn_question_is_refused() {
    let draft = job([
        agent("root", "route_to_child route_to_other"),
        agent("child", "ask_master").asks_a_person(),
        agent("other", "work"),
    ])
    .tool(function("work"));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x"), route("other", "y")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which?")])])
        .agent("other", [turn([call("work", "a")]), turn([handoff("other")])])
        .holding("work")
        .start();
    sim.cancel("0/1.1").expect("the asker lives");
    let refusal = sim.person_answers("0/1.1/1.1", "that").expect_err("it was withdrawn");
    assert!(matches!(refusal, Refusal::QuestionClosed { .. } | Refusal::Ended { .. }), "{refusal:?}");
    sim.release("work");
    sim.assert_over();
}

#[test]
fn question_tasks_count_towards_live_tasks_and_not_towards_depth() {
    let shallow = job([agent("root", "route_to_child"), agent("child", "ask_master")])
        .limits(Limits { depth: Some(1), ..Limits::default() });
    let with = |draft: &JobDraft| {
        Sim::new(draft)
            .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
            .agent("child", [turn([ask("which?")]), turn([handoff("child")])])
            .answers("root", [says("that")])
            .start()
    };
    let sim = with(&shallow);
    assert_eq!(sim.result("0/1.1/1.1").status, CallStatus::Success);
    sim.assert_over();
    let crowded = job([agent("root", "route_to_child"), agent("child", "ask_master")])
        .limits(Limits { live_tasks: Some(2), ..Limits::default() });
    let sim = with(&crowded);
    assert!(sim.ledger.calls[&CallId::from("0/1.1/1.1")].refused);
    sim.assert_over();
}

#[test]
fn an_answer_may_bring_documents() {
    let draft = job([agent("root", "route_to_child save"), agent("child", "ask_master")]).tool(function("save").writing());
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("save", "a")]), turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which?")]), turn([handoff("child")])])
        .answers("root", [turn([handoff_with("this", &["a.md"])])])
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "text")]))
        .start();
    sim.assert_over();
    let names: Vec<String> = sim.result("0/2.1/1.1").documents.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a.md v1"]);

    let mut sim =
        Sim::new(&job([agent("root", "ask_master")])).agent("root", [turn([ask("which?")]), turn([handoff("done")])]).start();
    sim.person_sends("0/1.1", "this", vec![write("b.md", "text")]).expect("the question is open");
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").documents.len(), 1);
    assert_eq!(sim.ledger.heads["b.md"], 1);
}

#[test]
fn interleavings_of_askers_never_deadlock() {
    let draft = job([
        agent("root", "route_to_middle ask_master"),
        agent("middle", "route_to_leaf ask_master"),
        agent("leaf", "ask_master work"),
    ])
    .tool(function("work"));
    for seed in 0..200 {
        let mut sim = Sim::new(&draft)
            .agent("root", [turn([route("middle", "a"), route("middle", "b")]), turn([handoff("done")])])
            .agent("middle", [turn([route("leaf", "a"), ask("mine?"), route("leaf", "b")]), turn([handoff("middle")])])
            .agent("leaf", [turn([ask("which?"), call("work", "a")]), turn([handoff("leaf")])])
            .answers("middle", [turn([ask("they ask")]), says("so")])
            .answers("root", [turn([ask("one asks")]), says("so it is")])
            .by_chance(seed)
            .start();
        while let Some(question) = sim.asked.first().cloned() {
            sim.person_answers(question.as_str(), "yes").expect("the question is open");
        }
        sim.assert_over();
        assert_eq!(created(&sim, "0").kind, TaskKind::Root);
    }
}

#[test]
fn a_person_can_cancel_the_question_itself() {
    let mut sim =
        Sim::new(&job([agent("root", "ask_master")])).agent("root", [turn([ask("which?")]), turn([handoff("done")])]).start();
    sim.event(Event::CancelRequested { task: "0/1.1".into(), reason: "no idea".to_owned(), by: Principal::person("ada") })
        .expect("a live task can be cancelled");
    sim.settle();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Cancelled);
    sim.assert_over();
}

#[test]
fn what_a_master_had_said_when_its_limit_ended_it_is_the_answer_unless_it_was_nothing() {
    let ended = |last: ModelTurn| {
        let limits = Limits { turns: Some(2), ..Limits::default() };
        let draft =
            job([agent("root", "route_to_child work").limits(limits), agent("child", "ask_master")]).tool(function("work"));
        let sim = Sim::new(&draft)
            .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
            .agent("child", [turn([ask("?")]), turn([handoff("child")])])
            .answers("root", [turn([call("work", "a")]), last])
            .start();
        let closed = sim.entries().find_map(|entry| match entry {
            Entry::QuestionClosed(closed) => Some(closed.how.clone()),
            _ => None,
        });
        closed.expect("the question is closed")
    };
    assert!(matches!(ended(turn([handoff("so far")])), QuestionEnd::Answered { .. }));
    assert!(matches!(ended(turn([])), QuestionEnd::Failed { .. }));
}

#[test]
fn what_was_said_in_an_agents_name_comes_with_the_result_of_the_call_that_asked() {
    let sim =
        Sim::new(&job([agent("root", "route_to_one route_to_two"), agent("one", "ask_master"), agent("two", "ask_master")]))
            .agent("root", [turn([route("one", "1"), route("two", "2")]), turn([handoff("done")])])
            .agent("one", [turn([ask("of one?")]), says("one")])
            .agent("two", [turn([ask("of two?")]), says("two")])
            .answers_with("root", |prompted| Ok(says(&format!("for {}", prompted.task))))
            .start();
    sim.assert_over();
    let said = sim.entries().filter_map(|entry| match entry {
        Entry::CallFinished(finished) if finished.task == TaskId::root() && !finished.said.is_empty() => {
            let questions: Vec<&str> = finished.said.iter().map(|said| said.question.as_str()).collect();
            Some((finished.call.to_string(), questions))
        }
        _ => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), [("0/1.1".to_owned(), vec!["of one?"]), ("0/1.2".to_owned(), vec!["of two?"])]);
}
