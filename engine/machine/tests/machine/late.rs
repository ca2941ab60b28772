//! Late, duplicate and unexpected events are recorded or refused, and never applied (`every_call_has_one_result`,
//! `ended_stays_ended`).

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::entry::{ControlAction, Entry, FinalState, Notice, ReminderReason, RunStarted};
use baton_types::event::{Event, Outcome, Refusal};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::message::Part;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, ask, call, function, handoff, job, print, route, turn, write, writes};

fn two_agents() -> JobDraft {
    job([agent("root", "route_to_child work ask_master"), agent("child", "work save")])
        .tools([function("work"), function("save").writing()])
}

/// Returns the number of `late` entries.
fn late(sim: &Sim) -> usize {
    let late = sim.timeline.iter().filter(|recorded| match &recorded.entry {
        Entry::Control(control) => matches!(control.action, ControlAction::Late { .. }),
        _ => false,
    });
    late.count()
}

/// Sends an event that nothing waits for. Checks that the run recorded it and changed nothing else.
fn told_in_vain(sim: &mut Sim, event: Event) {
    let (entries, known) = (sim.timeline.len(), late(sim));
    let effects = sim.pending.len();
    match sim.event(event) {
        Ok(()) => {
            assert_eq!(late(sim), known + 1, "{}", print::timeline(&sim.timeline));
            assert_eq!(sim.timeline.len(), entries + 1, "{}", print::timeline(&sim.timeline));
        }
        Err(_) => assert_eq!(sim.timeline.len(), entries, "a refusal writes nothing"),
    }
    assert_eq!(sim.pending.len(), effects, "nothing begins because of it");
}

fn returned(call: &str) -> Event {
    Event::CallReturned { call: CallId::from(call), outcome: Outcome::success(json!("late")) }
}

fn answered(task: &str, turn: u32) -> Event {
    let answer = ModelTurn::text("late");
    Event::ModelAnswered { task: TaskId::from(task), turn, request: ContentHash::of(b"late"), answer, recorded: None }
}

#[test]
fn a_second_result_for_one_call_is_never_applied() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([call("work", "a"), call("work", "b")]), turn([handoff("done")])])
        .holding("work")
        .start();
    sim.returned("0/1.1", Outcome::success(json!("first"))).expect("it runs");
    told_in_vain(&mut sim, returned("0/1.1"));
    sim.release("work");
    sim.assert_over();
    let results = sim.timeline.iter().filter(|recorded| match &recorded.entry {
        Entry::CallFinished(finished) => finished.call.as_str() == "0/1.1",
        _ => false,
    });
    assert_eq!(results.count(), 1);
}

#[test]
fn results_for_calls_that_nobody_made_are_never_applied() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([call("work", "a"), route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("child")])])
        .holding("work")
        .start();
    for unknown in
        ["0/1.3", "0/2.1", "0/1.0", "0/0.1", "0/99.99", "1/1.1", "0", "", "nonsense", "0/1.2/1.1", "0/1.x", "0/4294967296.1"]
    {
        told_in_vain(&mut sim, returned(unknown));
    }
    // A delegation that waits is a call, but no executor's.
    told_in_vain(&mut sim, returned("0/1.2"));
    for (task, turn) in [("0", 1), ("0", 2), ("0/9.9", 1), ("", 0)] {
        told_in_vain(&mut sim, answered(task, turn));
    }
    sim.release("work");
    sim.assert_over();
}

#[test]
fn no_executor_and_no_model_can_answer_for_a_task_or_a_person() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([ask("?"), route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")]), turn([handoff("child")])])
        .holding("work")
        .start();
    told_in_vain(&mut sim, returned("0/1.1"));
    told_in_vain(&mut sim, returned("0/1.2"));
    told_in_vain(&mut sim, answered("0/1.1", 1));
    told_in_vain(&mut sim, answered("0", 2));
    sim.person_answers("0/1.1", "yes").expect("the question is open");
    sim.release("work");
    sim.assert_over();
}

#[test]
fn what_a_cancelled_task_had_running_changes_nothing_when_it_comes() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x"), call("work", "r")]), turn([call("work", "again")]), turn([handoff("done")])])
        .agent("child", [turn([call("save", "a")]), turn([handoff("child")])])
        .holding("work")
        .holding("save");
    sim.begin(Vec::new());
    sim.settle();
    sim.release("work");
    let before = sim.timeline.len();
    sim.cancel("0/1.1").expect("it lives");
    assert!(sim.timeline.len() > before);
    let save =
        Event::CallReturned { call: CallId::from("0/1.1/1.1"), outcome: writes(json!("saved"), vec![write("late.md", "text")]) };
    if sim.ended {
        assert_eq!(sim.event(save), Err(Refusal::Ended { task: TaskId::root() }));
    } else {
        told_in_vain(&mut sim, save);
    }
    sim.settle();
    sim.assert_over();
    assert!(sim.ledger.heads.is_empty(), "a late write is no version");
}

#[test]
fn cancelling_the_root_ends_the_run_with_everything_in_it() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x"), route("child", "y"), ask("?")])])
        .agent("child", [turn([call("work", "a"), call("save", "b")])])
        .holding("work")
        .start();
    sim.cancel("0").expect("it lives");
    sim.assert_over();
    assert_eq!(sim.task("0").ended, Some(FinalState::Cancelled));
    assert!(sim.ledger.tasks.values().all(|book| book.ended == Some(FinalState::Cancelled)));
    let stopped: Vec<&str> = sim.stopped.iter().map(|work| work.task().as_str()).collect();
    assert_eq!(stopped, ["0/1.1", "0/1.2"], "what ran is stopped");
}

#[test]
fn after_the_end_everything_is_refused_and_nothing_is_written() {
    let mut sim = Sim::new(&two_agents()).agent("root", [turn([handoff("done")])]).start();
    let entries = sim.timeline.len();
    let run = match &sim.timeline[0].entry {
        Entry::RunStarted(run) => RunStarted { request: "again".to_owned(), ..(**run).clone() },
        other => panic!("a run begins with its start, not {other:?}"),
    };
    let events = [
        Event::Started { run, root: "root".into(), documents: Vec::new() },
        answered("0", 1),
        answered("0", 2),
        Event::ModelFailed {
            task: TaskId::root(),
            turn: 2,
            model: "script".to_owned(),
            error: Sim::model_error(),
            uncharged: false,
        },
        returned("0/1.1"),
        Event::PersonAnswered {
            question: TaskId::root(),
            by: Principal::person("ada"),
            answer: Json::null(),
            documents: Vec::new(),
            recorded: None,
        },
        Event::CancelRequested { task: TaskId::root(), reason: "late".to_owned(), by: Principal::person("ada") },
        Event::PauseRequested { by: Principal::person("ada") },
        Event::UnpauseRequested { by: Principal::person("ada") },
        Event::Steered { task: TaskId::root(), text: "hurry".to_owned(), by: Principal::person("ada") },
        Event::TimePassed,
        Event::TakenOver { process: "another".to_owned(), after_death: false },
    ];
    for event in events {
        let shown = format!("{event:?}");
        let refusal = sim.event(event).expect_err(&shown);
        assert!(matches!(refusal, Refusal::Ended { .. } | Refusal::Start { started: true }), "{shown}: {refusal:?}");
    }
    assert_eq!(sim.timeline.len(), entries);
    sim.assert_over();
}

#[test]
fn before_the_start_everything_is_refused_and_it_starts_only_once() {
    let mut sim = Sim::new(&two_agents()).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work");
    for event in [
        answered("0", 1),
        returned("0/1.1"),
        Event::TimePassed,
        Event::TakenOver { process: "another".to_owned(), after_death: false },
    ] {
        assert_eq!(sim.event(event), Err(Refusal::Start { started: false }));
    }
    let mut sim = sim.start();
    let Entry::RunStarted(run) = sim.timeline[0].entry.clone() else { panic!("a run begins with its start") };
    let again = sim.event(Event::Started { run: *run, root: "root".into(), documents: Vec::new() });
    assert_eq!(again, Err(Refusal::Start { started: true }));
    sim.release("work");
    sim.assert_over();
}

#[test]
fn a_finished_task_cannot_be_cancelled_or_steered() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x")]), turn([call("work", "a")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("child")])])
        .holding("work")
        .start();
    let child = TaskId::from("0/1.1");
    assert_eq!(sim.cancel("0/1.1"), Err(Refusal::Ended { task: child.clone() }));
    let steered = sim.event(Event::Steered { task: child.clone(), text: "hurry".to_owned(), by: Principal::person("ada") });
    assert_eq!(steered, Err(Refusal::Ended { task: child }));
    assert_eq!(sim.cancel("0/7.7"), Err(Refusal::UnknownTask { task: "0/7.7".into() }));
    sim.release("work");
    sim.assert_over();
}

#[test]
fn a_cancel_and_a_completion_at_one_moment_give_one_end_in_both_orders() {
    for cancel_first in [true, false] {
        let mut sim = Sim::new(&two_agents())
            .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
            .agent("child", [turn([handoff("child")])]);
        sim.begin(Vec::new());
        sim.step();
        let work = sim.take_work("0/1.1");
        let cancel = |sim: &mut Sim| {
            sim.event(Event::CancelRequested { task: "0/1.1".into(), reason: "enough".to_owned(), by: Principal::person("ada") })
        };
        if cancel_first {
            cancel(&mut sim).expect("it lives");
            sim.finish(work).expect("what comes late is recorded");
        } else {
            sim.finish(work).expect("it is awaited");
            assert_eq!(cancel(&mut sim), Err(Refusal::Ended { task: "0/1.1".into() }));
        }
        sim.settle();
        sim.assert_over();
        let expected = if cancel_first { FinalState::Cancelled } else { FinalState::Completed };
        assert_eq!(sim.task("0/1.1").ended, Some(expected));
    }
}

#[test]
fn a_pause_lets_what_runs_finish_and_begins_nothing() {
    let mut sim =
        Sim::new(&two_agents()).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work").start();
    sim.event(Event::PauseRequested { by: Principal::person("ada") }).expect("a run may be paused");
    sim.release("work");
    assert!(!sim.ended && sim.pending.is_empty(), "no further step is taken");
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success);
    sim.event(Event::UnpauseRequested { by: Principal::person("ada") }).expect("a run may go on");
    sim.settle();
    sim.assert_over();
}

#[test]
fn an_answer_that_comes_during_a_pause_begins_no_function() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([call("work", "a"), call("work", "b")]), turn([handoff("done")])])
        .holding("work");
    sim.begin(Vec::new());
    sim.event(Event::PauseRequested { by: Principal::person("ada") }).expect("a run may be paused");
    sim.settle();
    let begun = |sim: &Sim| ["0/1.1", "0/1.2"].map(|call| sim.executions(call));
    assert_eq!((begun(&sim), sim.pending.len()), ([0, 0], 0));
    sim.event(Event::UnpauseRequested { by: Principal::person("ada") }).expect("a run may go on");
    sim.settle();
    assert_eq!(begun(&sim), [1, 1]);
    sim.release("work");
    sim.settle();
    sim.assert_over();
}

/// Returns the notices at the heads of the turns of `task`, one list per turn that has any.
fn heads(sim: &Sim, task: &str) -> Vec<Vec<Notice>> {
    let notices = |parts: &[Part]| {
        let notices = parts.iter().filter_map(|part| match part {
            Part::Notice(notice) => Some(notice.clone()),
            _ => None,
        });
        notices.collect::<Vec<_>>()
    };
    let request = sim.request(task);
    request.messages.iter().map(|message| notices(&message.parts)).filter(|notices| !notices.is_empty()).collect()
}

fn steer(text: &str) -> Notice {
    Notice::Steer { text: text.to_owned() }
}

#[test]
fn all_of_a_persons_messages_stand_at_the_head_of_the_next_turn_in_order_and_only_there() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([call("work", "a")]), turn([call("work", "b")]), turn([handoff("done")])])
        .holding("work")
        .start();
    for text in ["one", "two"] {
        sim.event(Event::Steered { task: TaskId::root(), text: text.to_owned(), by: Principal::person("ada") })
            .expect("it lives");
    }
    sim.release("work");
    sim.assert_over();
    assert_eq!(heads(&sim, "0"), [[steer("one"), steer("two")]]);
}

#[test]
fn a_persons_message_does_not_displace_a_reminder() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([call("work", "a")]), turn([]), turn([handoff("done")])])
        .holding("work")
        .start();
    sim.event(Event::PauseRequested { by: Principal::person("ada") }).expect("a run may be paused");
    sim.release("work");
    sim.event(Event::UnpauseRequested { by: Principal::person("ada") }).expect("a run may go on");
    // Turn 2 is asked now. A message before its empty answer is shown together with the reminder that follows.
    sim.event(Event::Steered { task: TaskId::root(), text: "hurry".to_owned(), by: Principal::person("ada") }).expect("it lives");
    sim.settle();
    sim.assert_over();
    assert_eq!(heads(&sim, "0"), [[steer("hurry"), Notice::Reminder { count: 1, reason: ReminderReason::Empty }]]);
}

#[test]
fn a_message_to_a_task_that_waits_arrives_at_its_next_request() {
    let mut sim = Sim::new(&two_agents())
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")]), turn([handoff("child")])])
        .holding("work")
        .start();
    sim.event(Event::Steered { task: TaskId::root(), text: "hurry".to_owned(), by: Principal::person("ada") }).expect("it lives");
    sim.release("work");
    sim.assert_over();
    assert_eq!(heads(&sim, "0"), [[steer("hurry")]]);
    assert_eq!(heads(&sim, "0/1.1"), Vec::<Vec<Notice>>::new());
}

#[test]
fn a_message_during_a_repeated_request_waits_for_the_next_turn() {
    let mut sim = Sim::new(&two_agents()).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]);
    sim.begin(Vec::new());
    sim.event(Event::Steered { task: TaskId::root(), text: "hurry".to_owned(), by: Principal::person("ada") }).expect("it lives");
    sim.crash();
    let again: Vec<_> = sim
        .timeline
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::ModelRequested(entry) => Some((entry.turn, entry.steers.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(again, [(1, Vec::new()), (1, Vec::new())]);
    sim.settle();
    assert_eq!(heads(&sim, "0"), [[steer("hurry")]]);
}

#[test]
fn a_model_that_fails_in_a_turn_that_is_over_fails_nothing() {
    let mut sim =
        Sim::new(&two_agents()).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work").start();
    told_in_vain(
        &mut sim,
        Event::ModelFailed {
            task: TaskId::root(),
            turn: 1,
            model: "script".to_owned(),
            error: Sim::model_error(),
            uncharged: false,
        },
    );
    sim.release("work");
    sim.assert_over();
    assert_eq!(sim.task("0").result.as_ref().and_then(|result| result.error.as_ref()).map(|error| error.code), None::<ErrorCode>);
}

#[test]
fn a_wake_up_before_its_time_and_a_second_one_change_nothing() {
    let limits = baton_types::limits::Limits { deadline_seconds: Some(60), ..Default::default() };
    let draft = job([agent("root", "route_to_child"), agent("child", "work").limits(limits)]).tool(function("work"));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([route("child", "y")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")]), turn([handoff("child")])])
        .holding("work")
        .start();
    let entries = sim.timeline.len();
    sim.event(Event::TimePassed).expect("time may pass");
    assert_eq!(sim.timeline.len(), entries);
    sim.wait(61);
    assert_eq!(sim.task("0/1.1").ended, Some(FinalState::TimedOut));
    let entries = sim.timeline.len();
    sim.event(Event::TimePassed).expect("time may pass");
    assert_eq!(sim.timeline.len(), entries);
    sim.release("work");
    sim.assert_over();
}

#[test]
fn what_a_person_says_meanwhile_is_counted_in_the_context() {
    let mut sim =
        Sim::new(&two_agents()).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work").start();
    let context = |sim: &Sim| sim.run.task(&TaskId::root()).unwrap().context_tokens;
    let before = context(&sim);
    let text = "x".repeat(4_000);
    sim.event(Event::Steered { task: TaskId::root(), text, by: Principal::person("ada") }).expect("it lives");
    assert!((1_000..1_100).contains(&(context(&sim) - before)), "{} after {before}", context(&sim));
    sim.release("work");
    sim.assert_over();
}
