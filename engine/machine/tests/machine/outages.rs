//! Providers that are away: the request stays open, its time is not worked time, and what was not charged costs nothing.

use expect_test::expect;
use std::time::Duration;

use baton_types::call::{CallError, CallStatus, ErrorCode};
use baton_types::entry::{ControlAction, Entry, Waited};
use baton_types::event::Event;
use baton_types::id::TaskId;
use baton_types::limits::Limits;

use crate::support::{Sim, agent, call, check, function, handoff, job, turn};

fn worked_seconds(seconds: u64) -> Limits {
    Limits { worked_seconds: Some(seconds), ..Limits::default() }
}

/// Lets the request of the root's turn `turn` wait for `seconds`.
fn wait_for_provider(sim: &mut Sim, turn: u32, seconds: u64, stops: bool, uncharged: bool) {
    sim.wait_idly(seconds);
    let milliseconds = seconds * 1_000;
    let (provider, reason) = ("far".to_owned(), "it does not answer".to_owned());
    let waited = Waited { provider, reason, milliseconds, run_milliseconds: milliseconds, stops, uncharged };
    sim.event(Event::ModelWaited { task: TaskId::root(), turn, waited }).unwrap();
}

/// Returns the settled usage of requests, in tokens.
fn settled(sim: &Sim) -> Vec<u64> {
    let settled = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::BudgetSettled(settled) => Some(settled.usage.total()),
        _ => None,
    });
    settled.collect()
}

#[test]
fn a_request_that_waits_stays_open_and_its_time_is_not_worked() {
    let draft = job([agent("root", "work").limits(worked_seconds(30))]).tool(function("work")).limits(worked_seconds(30));
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]);
    sim.begin(Vec::new());
    wait_for_provider(&mut sim, 1, 3_600, false, false);
    assert_eq!(sim.pending.len(), 1, "the request is still open");
    let now = sim.now;
    assert!(sim.run.task(&TaskId::root()).unwrap().worked_until(now) < Duration::from_secs(1));
    sim.settle();
    sim.assert_over();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        engine → 0: waited 3600000 ms (3600000 ms of the run) for far
        0 turn 1: work
        0/1.1 work started
        0/1.1 work success "0/1.1"
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn a_wait_takes_no_more_than_was_worked_and_one_of_no_open_request_is_ignored() {
    let draft = job([agent("root", "work").limits(worked_seconds(30))]).tool(function("work"));
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]);
    sim.begin(Vec::new());
    let before = sim.timeline.len();
    wait_for_provider(&mut sim, 2, 5, false, false);
    assert_eq!(sim.timeline.len(), before, "turn 2 was not asked for");
    for _ in 0..2 {
        wait_for_provider(&mut sim, 1, 5, false, false);
    }
    sim.wait_idly(31);
    sim.settle();
    sim.assert_over();
    let status = sim.ledger.tasks[&TaskId::root()].result.as_ref().map(|result| result.status);
    assert_eq!(status, Some(CallStatus::Partial), "31 seconds were worked, whatever was told of waits");
}

#[test]
fn the_time_in_which_no_process_holds_the_run_is_not_worked() {
    let draft = job([agent("root", "work").limits(worked_seconds(30))]).tool(function("work")).limits(worked_seconds(30));
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]);
    sim.begin(Vec::new());
    wait_for_provider(&mut sim, 1, 10, true, true);
    sim.wait_idly(86_400);
    sim.crash();
    sim.settle();
    sim.assert_over();
    let status = sim.ledger.tasks[&TaskId::root()].result.as_ref().map(|result| result.status);
    assert_eq!(status, Some(CallStatus::Success));
}

#[test]
fn a_request_known_to_be_uncharged_costs_nothing_when_another_process_asks_again() {
    for (stops, uncharged) in [(true, true), (true, false), (false, true)] {
        let draft = job([agent("root", "")]);
        let mut sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]);
        sim.begin(Vec::new());
        wait_for_provider(&mut sim, 1, 10, stops, uncharged);
        sim.crash();
        sim.settle();
        sim.assert_over();
        // A process that continued may have asked again before it died.
        assert_eq!(settled(&sim)[0] == 0, stops && uncharged, "stops {stops}, uncharged {uncharged}");
    }
}

#[test]
fn a_failure_that_was_not_charged_costs_nothing() {
    for uncharged in [false, true] {
        let draft = job([agent("root", "")]);
        let mut sim = Sim::new(&draft);
        sim.begin(Vec::new());
        sim.pending.clear();
        let error = CallError::new(ErrorCode::ModelUnavailable, "there is no such model");
        let (task, model) = (TaskId::root(), "script".to_owned());
        sim.event(Event::ModelFailed { task, turn: 1, model, error, uncharged }).unwrap();
        sim.assert_over();
        assert_eq!(settled(&sim)[0] == 0, uncharged);
    }
}

#[test]
fn no_more_time_is_waited_than_was_worked() {
    let mut sim = Sim::new(&job([agent("root", "")])).agent("root", [turn([handoff("done")])]);
    sim.begin(Vec::new());
    sim.now = sim.now.plus(Duration::from_secs(2));
    let waited = Waited {
        provider: "far".to_owned(),
        reason: "it does not answer".to_owned(),
        milliseconds: 3_600_000,
        run_milliseconds: 3_600_000,
        stops: false,
        uncharged: false,
    };
    sim.event(Event::ModelWaited { task: TaskId::root(), turn: 1, waited }).unwrap();
    let recorded = sim.entries().find_map(|entry| match entry {
        Entry::Control(control) => match &control.action {
            ControlAction::Waited(waited) => Some((waited.milliseconds, waited.run_milliseconds)),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(recorded, Some((2_001, 2_001)), "a process has another clock than the one before");
    sim.settle();
    sim.assert_over();
}
