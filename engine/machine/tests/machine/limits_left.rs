//! Agents that are told what is left of their limits (`"tell_limits": true`).

use std::time::Duration;

use baton_types::call::CallStatus;
use baton_types::entry::{Entry, LimitsLeft, Notice};
use baton_types::limits::{Limits, SessionLimits};
use baton_types::message::Part;
use baton_types::model::{ModelTurn, Usage};
use baton_types::money::{Money, Price};

use crate::support::{Sim, agent, call, function, handoff, job, route, turn};

/// Returns the notices about limits in the entries of `task`, in order.
fn told(sim: &Sim, task: &str) -> Vec<Option<LimitsLeft>> {
    let told = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(requested) if requested.task.as_str() == task => Some(requested.limits_left.as_deref().copied()),
        _ => None,
    });
    told.collect()
}

fn no_limits() -> Limits {
    Limits { turns: Some(5), ..Limits::default() }
}

#[test]
fn each_request_ends_with_what_is_left() {
    let limits = Limits { tokens: Some(100_000), worked_seconds: Some(600), cost_usd: Some(2.0), ..no_limits() };
    let draft = job([agent("root", "look").limits(limits).tells_limits()]).tool(function("look"));
    let turns = [turn([call("look", "a")]), turn([call("look", "b")]), turn([handoff("done")])];
    let sim = Sim::new(&draft).agent("root", turns).start();
    let told = told(&sim, "0");
    assert_eq!(told.iter().map(|left| left.unwrap().turns).collect::<Vec<_>>(), [5, 4, 3].map(Some));
    let tokens: Vec<u64> = told.iter().map(|left| left.unwrap().tokens.unwrap()).collect();
    assert!(tokens[0] == 100_000 && tokens.windows(2).all(|pair| pair[0] > pair[1]), "{tokens:?}");
    assert_eq!(told[0].unwrap().cost, Some(Money::from_usd(2.0)));
    assert!(told[0].unwrap().seconds.unwrap() <= 600);
    let request = sim.requests.newest(&"0".into());
    let last = request.messages.last().unwrap().parts.last().unwrap();
    assert_eq!(*last, Part::Notice(Notice::LimitsLeft(Box::new(told[2].unwrap()))), "it is the end of the request");
    let text = told[2].unwrap().text();
    assert!(text.starts_with("Left of your limits, with this turn: 3 turns, ") && text.ends_with("$2.00."), "{text}");
    let notices = request.messages.iter().flat_map(|message| &message.parts);
    let notices = notices.filter(|part| matches!(part, Part::Notice(Notice::LimitsLeft(_)))).count();
    assert_eq!(notices, 3, "earlier messages stay, so that a provider's cache of the prefix holds");
    sim.assert_over();
}

#[test]
fn the_least_of_the_task_of_those_above_and_of_the_run_is_told() {
    let caller = Limits { tokens: Some(50_000), deadline_seconds: Some(90), ..no_limits() };
    let agents = [agent("root", "route_to_worker").limits(caller), agent("worker", "").limits(no_limits()).tells_limits()];
    let draft = job(agents).limits(Limits { turns: Some(4), ..Limits::default() });
    let root = [turn([route("worker", "work")]), turn([handoff("done")])];
    let sim = Sim::new(&draft).agent("root", root).agent("worker", [turn([handoff("worked")])]).start();
    assert_eq!(told(&sim, "0"), [None, None], "only the agent that wants it is told");
    let left = told(&sim, "0/1.1")[0].unwrap();
    assert_eq!(left.turns, Some(2), "of 4 of the run, one is used and one is set aside for the caller");
    assert!(left.tokens.is_some_and(|tokens| tokens < 50_000) && left.seconds.is_some_and(|seconds| seconds <= 90));
    assert_eq!(left.cost, None);
    sim.assert_over();
}

#[test]
fn what_earlier_runs_of_the_session_used_is_subtracted() {
    let draft = job([agent("root", "").limits(no_limits()).tells_limits()])
        .session_limits(SessionLimits { turns: Some(4), ..SessionLimits::default() });
    let mut sim = Sim::new(&draft).agent("root", [turn([handoff("one")]), turn([handoff("two")])]).start();
    let left = |sim: &Sim, task: &str| told(sim, task)[0].unwrap().turns;
    let first = left(&sim, "0");
    sim.follow_up("Again.").unwrap();
    assert_eq!((first, left(&sim, "1")), (Some(4), Some(3)));
    sim.assert_over();
}

#[test]
fn money_that_earlier_runs_of_the_session_used_is_subtracted() {
    let price = Price { input: Money::from_picos(10), output: Money::from_picos(20), ..Price::scripted() };
    let draft = job([agent("root", "").limits(no_limits()).tells_limits()])
        .session_limits(SessionLimits { cost_usd: Some(2.0), ..SessionLimits::default() })
        .price("script", price);
    let usage = Usage { input_tokens: 100, output_tokens: 20, ..Usage::default() };
    let used = |result: &str| ModelTurn { usage: Some(usage), ..turn([handoff(result)]) };
    let mut sim = Sim::new(&draft).agent("root", [used("one"), used("two")]).start();
    sim.follow_up("Again.").unwrap();
    let all = Money::from_usd(2.0);
    let left = ["0", "1"].map(|task| told(&sim, task)[0].unwrap().cost);
    assert_eq!(left, [all, all.minus(Money::from_picos(1_400))].map(Some));
    sim.assert_over();
}

#[test]
fn a_request_that_is_made_again_tells_the_same() {
    let limits = Limits { worked_seconds: Some(600), ..no_limits() };
    let draft = job([agent("root", "").limits(limits).tells_limits()]);
    let mut sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]).holding("root");
    sim.begin(Vec::new());
    let before = sim.requests.newest(&"0".into()).hash;
    sim.now = sim.now.plus(Duration::from_secs(30));
    sim.crash();
    sim.settle();
    let told = told(&sim, "0");
    assert!(told[0].is_some() && told[1..].iter().all(Option::is_none), "{told:?}");
    assert_eq!(sim.requests.newest(&"0".into()).hash, before);
    assert_eq!(sim.task("0").result.as_ref().unwrap().status, CallStatus::Success);
    sim.assert_over();
}
