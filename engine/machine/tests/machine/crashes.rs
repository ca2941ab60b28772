//! Another process takes the run over at any step: nothing finished runs again, calls in doubt are reported, and the
//! same tasks wait for the same things (`no_effect_twice`, `acknowledged_is_durable`).

use std::collections::BTreeSet;

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::config::{Approver, EffectClass};
use baton_types::document::Write;
use baton_types::entry::{Entry, FinalState};
use baton_types::event::Event;
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::Execution;
use crate::support::sim::Work;
use crate::support::{
    Sim, agent, ask, call, function, handoff, handoff_with, job, note, print, route, route_with, says, turn, write, writes,
};

/// Returns the job of the seed, as a machine sees it: an analyst with data, a chart drawn by another, questions up to a person.
fn sales() -> JobDraft {
    job([
        agent("root", "route_to_analyst ask_master"),
        agent("analyst", "query save think route_to_artist ask_master"),
        agent("artist", "draw"),
    ])
    .tools([
        function("query").effect(EffectClass::Pure),
        function("save").effect(EffectClass::Idempotent).writing(),
        function("draw").effect(EffectClass::Keyed).writing(),
        note("think"),
    ])
}

fn sales_run() -> Sim {
    Sim::new(&sales())
        .agent(
            "root",
            [
                turn([route_with("analyst", "analyse", &["sales.csv"])]),
                turn([ask("good?")]),
                turn([handoff_with("done", &["analysis.md", "chart.png"])]),
            ],
        )
        .agent(
            "analyst",
            [
                turn([call("think", "first"), call("query", "q1"), call("query", "q2")]),
                turn([call("save", "analysis.md"), ask("which colour?")]),
                turn([route_with("artist", "draw", &["analysis.md"])]),
                turn([handoff_with("analysed", &["analysis.md", "chart.png"])]),
            ],
        )
        .agent("artist", [turn([call("draw", "chart.png")]), turn([handoff_with("drawn", &["chart.png"])])])
        .answers("root", [says("blue")])
        .tool("save", keep)
        .tool("draw", keep)
}

fn keep(execution: &Execution) -> baton_types::event::Outcome {
    let input = execution.input.value();
    let path = input["x"].as_str().expect("x is a string").to_owned();
    writes(json!("kept"), vec![write(&path, &format!("{path} by {}", execution.call))])
}

fn data() -> Vec<Write> {
    vec![write("sales.csv", "a,b\n1,2\n")]
}

/// Continues until a person is asked or nothing more happens, answers, and repeats.
fn finish(sim: &mut Sim) {
    sim.settle();
    while let Some(question) = sim.asked.first().cloned() {
        sim.person_answers(question.as_str(), "yes").expect("the question is open");
    }
}

fn final_documents(sim: &Sim) -> Vec<(String, u32, ContentHash)> {
    let documents = sim.run.documents().iter();
    documents.map(|(path, document)| (path.to_string(), document.current().version, document.current().content.hash)).collect()
}

#[test]
fn a_crash_at_every_step_changes_nothing_of_what_comes_out() {
    let mut unbroken = sales_run();
    unbroken.begin(data());
    finish(&mut unbroken);
    unbroken.assert_over();
    let steps = unbroken.batches.len();
    assert!(steps > 15);
    for crash_after in 0..steps {
        let mut sim = sales_run();
        sim.begin(data());
        for _ in 0..crash_after {
            if !sim.step() && !sim.asked.is_empty() {
                let question = sim.asked[0].clone();
                sim.person_answers(question.as_str(), "yes").expect("the question is open");
            }
        }
        if sim.ended {
            continue;
        }
        let finished: BTreeSet<CallId> = finished_calls(&sim);
        let waiting = waiting(&sim);
        sim.crash();
        assert_eq!(waiting, self::waiting(&sim), "every waiting task waits for the same thing, {crash_after} steps in");
        for work in &sim.pending {
            if let Work::Execute(execution) = work {
                assert!(!finished.contains(&execution.call), "the finished call {} is run again", execution.call);
            }
        }
        finish(&mut sim);
        sim.assert_over();
        assert_eq!(final_documents(&sim), final_documents(&unbroken), "{crash_after} steps in");
        assert_eq!(sim.task("0").result, unbroken.task("0").result, "{crash_after} steps in");
        assert_eq!(sim.request("0").hash, unbroken.request("0").hash, "the last request is the same, {crash_after} steps in");
    }
}

fn finished_calls(sim: &Sim) -> BTreeSet<CallId> {
    sim.ledger.calls.iter().filter(|(_, call)| call.status.is_some()).map(|(id, _)| id.clone()).collect()
}

/// Returns the tasks that wait, and the calls they wait for.
fn waiting(sim: &Sim) -> Vec<(TaskId, Vec<CallId>)> {
    let tasks = sim.ledger.live_tasks().map(|(id, _)| sim.run.task(id).expect("a live task exists"));
    let waiting = tasks.map(|task| {
        (task.id.clone(), task.calls().filter(|call| call.is_awaited()).map(|call| call.id.clone()).collect::<Vec<_>>())
    });
    waiting.filter(|(_, awaited)| !awaited.is_empty()).collect()
}

#[test]
fn crash_after_crash_changes_nothing_either() {
    let mut sim = sales_run();
    sim.begin(data());
    for _ in 0..1_000 {
        if sim.ended {
            break;
        }
        sim.crash();
        sim.crash();
        if !sim.step()
            && let Some(question) = sim.asked.first().cloned()
        {
            sim.person_answers(question.as_str(), "yes").expect("the question is open");
        }
    }
    sim.assert_over();
    let mut unbroken = sales_run();
    unbroken.begin(data());
    finish(&mut unbroken);
    assert_eq!(final_documents(&sim), final_documents(&unbroken));
}

#[test]
fn what_a_crash_may_do_to_a_call_follows_from_its_effect() {
    use EffectClass::{AtMostOnce, Idempotent, Keyed, Pure};
    for (effect, repeated) in [(Pure, true), (Idempotent, true), (Keyed, true), (AtMostOnce, false)] {
        let draft = job([agent("root", "work")]).tool(function("work").effect(effect));
        let mut sim =
            Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work").start();
        assert_eq!(sim.executions("0/1.1"), 1);
        sim.crash();
        sim.release("work");
        sim.assert_over();
        assert_eq!(sim.executions("0/1.1"), if repeated { 2 } else { 1 }, "{effect:?}");
        let status = sim.ledger.calls[&CallId::from("0/1.1")].status;
        assert_eq!(status, Some(if repeated { CallStatus::Success } else { CallStatus::UnknownOutcome }), "{effect:?}");
    }
}

#[test]
fn an_interrupted_effect_is_shown_to_the_agent_and_its_late_result_is_not_applied() {
    let draft = job([agent("root", "once look")])
        .tools([function("once").effect(EffectClass::AtMostOnce), function("look").effect(EffectClass::Pure)]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([call("once", "a")]), turn([call("look", "b")]), turn([handoff("done")])])
        .holding("once")
        .start();
    sim.crash();
    let late = sim.stopped.remove(0);
    sim.finish(late).expect("what comes late is recorded");
    sim.settle();
    sim.assert_over();
    let request = sim.request("0");
    let shown = format!("{:?}", request.messages);
    assert!(shown.contains("UnknownOutcome"), "{shown}");
    let code = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallFinished(finished) if finished.tool == "once" => finished.result.error.as_ref().map(|error| error.code),
        _ => None,
    });
    assert_eq!(code, Some(ErrorCode::UnknownOutcome));
}

#[test]
fn an_open_request_is_settled_at_its_worst_case_and_asked_again_alike() {
    let draft = job([agent("root", "work")]).tool(function("work"));
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]);
    sim.begin(Vec::new());
    let before = sim.request("0");
    let reserved = sim.task("0").request.as_ref().map(|request| request.reserved).expect("a request is open");
    sim.crash();
    assert_eq!(sim.ledger.settled.total(), reserved);
    let again = sim.request("0");
    assert_eq!((before.hash, before.turn), (again.hash, again.turn));
    assert_eq!(before.messages, again.messages);
    sim.settle();
    sim.assert_over();
    assert_eq!(sim.task("0").turns, 2);
}

/// Returns a run whose call does not end.
fn stuck() -> Sim {
    let draft = job([agent("root", "work")]).tool(function("work").effect(EffectClass::Keyed));
    Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work").start()
}

#[test]
fn a_run_whose_owners_die_is_quarantined_until_a_person_unpauses_it() {
    let mut sim = stuck();
    sim.die();
    sim.die();
    assert_eq!((sim.executions("0/1.1"), sim.run.totals().quarantined), (3, false));
    sim.die();
    assert_eq!((sim.executions("0/1.1"), sim.run.totals().quarantined), (3, true), "the third death is the last");
    assert!(sim.run.is_idle() && sim.run.next_wake().is_none());
    // Nothing begins in later owners either.
    sim.crash();
    sim.die();
    assert_eq!((sim.executions("0/1.1"), sim.run.totals().quarantined), (3, true));
    sim.event(Event::UnpauseRequested { by: Principal::person("ann") }).unwrap();
    assert_eq!((sim.executions("0/1.1"), sim.run.totals().deaths), (4, 0));
    sim.die();
    assert!(!sim.run.totals().quarantined, "after the pause, deaths count anew");
    sim.release("work");
    sim.assert_over();
}

#[test]
fn a_call_that_a_quarantine_interrupts_is_in_doubt_when_the_pause_ends() {
    let once = function("once").effect(EffectClass::AtMostOnce).approved_by(Approver::Person);
    let draft = job([agent("root", "once")]).tool(once);
    let turns = [turn([call("once", "a")]), turn([handoff("done")])];
    let mut sim = Sim::new(&draft).agent("root", turns).holding("once").start();
    sim.die();
    sim.die();
    sim.person_answers("0/1.1/approval", json!({"approved": true})).unwrap();
    sim.die();
    assert_eq!((sim.executions("0/1.1"), sim.run.totals().quarantined), (1, true));
    sim.event(Event::UnpauseRequested { by: Principal::person("ann") }).unwrap();
    sim.settle();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.1"), 1);
    let in_doubt = sim.batch_with(|entry| matches!(entry, Entry::CallFinished(call) if call.call.as_str() == "0/1.1"));
    assert!(in_doubt.iter().any(|recorded| match &recorded.entry {
        Entry::CallFinished(call) => call.result.status == CallStatus::UnknownOutcome,
        _ => false,
    }));
}

#[test]
fn deaths_count_only_while_nothing_ends_between_them() {
    let mut sim = stuck();
    // A person who resumes the run knows what happened, and a process that was stopped did not die.
    for _ in 0..4 {
        sim.crash();
    }
    assert_eq!(sim.run.totals().deaths, 0);
    sim.die();
    sim.die();
    sim.release("work");
    assert_eq!(sim.run.totals().deaths, 0, "a call has ended");
    let mut sim = Sim::new(&job([agent("root", "work")]).tool(function("work")))
        .agent("root", [turn([call("work", "a")]), turn([call("work", "b")]), turn([handoff("done")])])
        .holding("work");
    sim.begin(Vec::new());
    sim.die();
    sim.die();
    sim.step();
    assert_eq!(sim.run.totals().deaths, 0, "a turn has ended");
}

#[test]
fn reminders_and_last_turns_survive_a_crash() {
    let limits = baton_types::limits::Limits { turns: Some(3), ..Default::default() };
    let draft = job([agent("root", "work").limits(limits)]).tool(function("work"));
    let with = |crashes: bool| {
        let mut sim = Sim::new(&draft).agent("root", [says(""), turn([call("work", "a")]), turn([handoff("what I have")])]);
        sim.begin(Vec::new());
        while !sim.ended {
            if crashes {
                sim.crash();
            }
            sim.step();
        }
        sim.assert_over();
        (sim.request("0").hash, sim.task("0").result.clone())
    };
    assert_eq!(with(true), with(false));
}

#[test]
fn several_requests_open_at_a_crash_do_not_overshoot_a_limit_together() {
    for limit in (300..6_000).step_by(130) {
        let draft = job([
            agent("root", "route_to_child").settings(json!({"max_tokens": 50})),
            agent("child", "").settings(json!({"max_tokens": 50})),
        ])
        .limits(baton_types::limits::Limits { tokens: Some(limit), ..Default::default() });
        let mut sim = Sim::new(&draft)
            .agent("root", [turn((0..6).map(|child| route("child", &child.to_string()))), turn([handoff("done")])])
            .agent("child", [turn([handoff("child")])]);
        sim.begin(Vec::new());
        sim.step();
        if !sim.ended {
            sim.crash();
        }
        sim.settle();
        sim.assert_over();
        assert!(sim.ledger.settled.total() <= limit, "{} of {limit} tokens", sim.ledger.settled.total());
    }
}

#[test]
fn a_run_that_waits_for_a_person_is_asked_again_after_a_crash_and_not_before() {
    let draft = job([agent("root", "ask_master")]);
    let mut sim = Sim::new(&draft).agent("root", [turn([ask("which?")]), turn([handoff("done")])]).start();
    let entries = sim.timeline.len();
    sim.crash();
    assert_eq!(sim.asked, [TaskId::from("0/1.1")]);
    assert_eq!(sim.timeline.len(), entries + 1, "only the take-over is new:\n{}", print::timeline(&sim.timeline));
    sim.person_answers("0/1.1", "that").expect("the question is open");
    sim.assert_over();
    assert_eq!(sim.task("0").ended, Some(FinalState::Completed));
}

#[test]
fn a_cancel_at_every_step_of_every_task_ends_what_is_below_it_and_nothing_else_begins_there() {
    let mut cancels = 0;
    for steps in 0..40 {
        let at = |steps: usize| {
            let mut sim = sales_run();
            sim.begin(data());
            for _ in 0..steps {
                if !sim.step() && !sim.asked.is_empty() {
                    let question = sim.asked[0].clone();
                    sim.person_answers(question.as_str(), "yes").expect("the question is open");
                }
            }
            sim
        };
        let live: Vec<TaskId> = at(steps).ledger.live_tasks().map(|(id, _)| id.clone()).collect();
        for task in live {
            let mut sim = at(steps);
            let entries = sim.timeline.len();
            // The analyst's caller takes what it got and hands off without the chart, which may not exist.
            sim = sim.agent_with("root", |_| Ok(turn([handoff("what there is")])));
            sim = sim.agent_with("analyst", |_| Ok(turn([handoff("what there is")])));
            sim.cancel(task.as_str()).expect("it lives");
            finish(&mut sim);
            sim.assert_over();
            cancels += 1;
            for recorded in &sim.timeline[entries..] {
                let begins = match &recorded.entry {
                    Entry::ModelRequested(asked) => Some(&asked.task),
                    Entry::CallStarted(started) => Some(&started.task),
                    Entry::TaskCreated(created) => Some(&created.task),
                    _ => None,
                };
                let below = begins.is_some_and(|begun| *begun == task || sim.ledger.is_below(begun, &task));
                assert!(!below, "cancelled_stays_quiet: {recorded:?} after {task} was cancelled, {steps} steps in");
            }
        }
    }
    assert!(cancels >= 30, "{cancels} cancels");
}
