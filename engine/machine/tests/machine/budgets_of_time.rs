//! Limits of time: a request's own seconds, the run's deadline, and the seconds that were worked.

use baton_proof::{Sim, agent, call, function, handoff, job, route, turn};
use baton_types::call::CallStatus;
use baton_types::entry::FinalState;
use baton_types::limits::{LimitKind, Limits};

use super::budgets::{limit_of, result_of};

fn seconds(of_a_turn: u32) -> Limits {
    Limits { turn_seconds: Some(of_a_turn), ..Limits::default() }
}

#[test]
fn a_request_that_takes_too_long_is_stopped_and_its_task_times_out() {
    for (of_run, of_agent) in [(Some(30), None), (None, Some(30)), (Some(90), Some(30)), (Some(30), Some(90))] {
        let limits = |seconds: Option<u32>| Limits { turn_seconds: seconds, ..Limits::default() };
        let draft = job([agent("root", "route_to_child"), agent("child", "").limits(limits(of_agent))]).limits(limits(of_run));
        let mut sim = Sim::new(&draft).agent("root", [turn([route("child", "x")]), turn([handoff("done")])]);
        sim.begin(Vec::new());
        sim.step();
        assert_eq!(sim.pending.len(), 1, "the child is asked");
        sim.wait_idly(29);
        assert!(sim.task("0/1.1").ended.is_none());
        sim.wait_idly(2);
        assert_eq!(sim.task("0/1.1").ended, Some(FinalState::TimedOut), "run {of_run:?}, agent {of_agent:?}");
        assert_eq!(result_of(&sim, "0/1.1").0, CallStatus::Timeout);
        assert_eq!(limit_of(&sim, "0/1.1"), Some(LimitKind::TurnSeconds));
        assert_eq!(sim.stopped.len(), 1, "the request is stopped");
        sim.settle();
        sim.assert_over();
        assert_eq!(result_of(&sim, "0").0, CallStatus::Success, "the caller was told and went on");
    }
}

#[test]
fn every_request_has_its_own_time_and_none_is_left_over() {
    let draft =
        job([agent("root", "work").limits(Limits { deadline_seconds: Some(10_000), ..seconds(30) })]).tool(function("work"));
    let turns = (0..4).map(|mark| turn([call("work", &mark.to_string())])).chain([turn([handoff("done")])]);
    let mut sim = Sim::new(&draft).agent("root", turns);
    sim.begin(Vec::new());
    while !sim.ended {
        sim.wait_idly(20);
        sim.step();
        assert!(sim.run.totals().deadlines.len() <= 1, "the shell bounds requests, and the run wakes nobody for them");
    }
    sim.assert_over();
    assert_eq!(result_of(&sim, "0").0, CallStatus::Success, "80 seconds of requests, none of which took 30");
    assert_eq!(sim.run.totals().deadlines.len(), 0);
}

#[test]
fn a_request_that_a_crash_interrupted_has_its_time_again() {
    let draft = job([agent("root", "").limits(seconds(30))]);
    let mut sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]);
    sim.begin(Vec::new());
    sim.wait_idly(20);
    sim.crash();
    sim.wait_idly(20);
    assert!(!sim.ended);
    sim.settle();
    sim.assert_over();
}

#[test]
fn the_deadline_of_the_run_ends_a_request_in_flight_and_its_worked_seconds_let_it_finish() {
    let of_run = |limits| job([agent("root", "work")]).tool(function("work")).limits(limits);
    let draft = of_run(Limits { deadline_seconds: Some(30), ..Limits::default() });
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")])]);
    sim.begin(Vec::new());
    sim.wait_idly(31);
    sim.assert_over();
    assert_eq!(sim.task("0").ended, Some(FinalState::TimedOut));
    assert_eq!(sim.stopped.len(), 1);

    let draft = of_run(Limits { worked_seconds: Some(30), ..Limits::default() });
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("what I have")])]);
    sim.begin(Vec::new());
    sim.wait_idly(31);
    assert_eq!(sim.pending.len(), 1, "what runs may finish");
    sim.settle();
    sim.assert_over();
    assert_eq!(result_of(&sim, "0"), (CallStatus::Partial, "\"what I have\"".to_owned()), "and the next turn is the last");
    assert_eq!(limit_of(&sim, "0"), Some(LimitKind::WorkedSeconds));
}
