//! The code of a call asks models: within the limits of its task and of all above it, reserved before and settled after
//! (`books_balance`, `limits_hold`).

use baton_types::call::CallStatus;
use baton_types::config::EffectClass;
use baton_types::entry::{Adoption, BudgetSettled, CallRequest, Entry, Fork, ForkPoint, ForkedEffects};
use baton_types::event::{CallAsk, Event, Outcome, Refusal};
use baton_types::id::{ContentHash, RunId, TaskId};
use baton_types::limits::{LimitKind, Limits};
use baton_types::model::{ModelTurn, Usage};
use baton_types::money::{Cost, Money};
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, call, function, handoff, job, route, turn};

/// The most tokens of a turn of an agent here.
const OUTPUT: u64 = 100;

fn by(call: &str, request: u32) -> CallRequest {
    CallRequest { call: call.into(), request }
}

/// Returns a request from code: tokens of its input and of the longest answer, at 2 picodollars each if priced.
fn asks(call: &str, request: u32, (input_tokens, output_tokens): (u64, u64), is_priced: bool) -> Event {
    let worst_cost = is_priced.then(|| Money::from_picos(2 * (input_tokens + output_tokens)));
    Event::CallAsksModel(CallAsk { by: by(call, request), model: "helper".to_owned(), input_tokens, output_tokens, worst_cost })
}

fn heard(call: &str, request: u32, (input_tokens, output_tokens): (u64, u64)) -> Event {
    let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
    Event::CallHeardModel { by: by(call, request), used: Some((usage, Some(Money::from_picos(2 * usage.total())))) }
}

/// Returns a root that calls `work`, which runs until the test ends it.
fn worker(limits: Limits) -> JobDraft {
    let root = agent("root", "work").settings(json!({"max_tokens": OUTPUT}));
    job([root]).tool(function("work")).limits(limits)
}

fn working(draft: &JobDraft) -> Sim {
    let calls = turn([call("work", "a"), call("work", "b")]);
    Sim::new(draft).agent("root", [calls, turn([handoff("done")])]).holding("work").start()
}

fn settled(sim: &Sim) -> Vec<&BudgetSettled> {
    let settled = sim.entries().filter_map(|entry| match entry {
        Entry::BudgetSettled(settled) if settled.by.is_some() => Some(settled),
        _ => None,
    });
    settled.collect()
}

fn tokens(tokens: u64) -> Limits {
    Limits { tokens: Some(tokens), ..Limits::default() }
}

fn usd(picos: u64) -> Limits {
    Limits { cost_usd: Some(Money::from_picos(picos).as_usd()), ..Limits::default() }
}

#[test]
fn what_code_asks_counts_as_its_tasks_and_above() {
    let team = [agent("root", "route_to_child"), agent("child", "work").limits(tokens(50_000))];
    let draft = job(team).tool(function("work")).limits(tokens(100_000));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a"), call("work", "b")]), turn([handoff("child")])])
        .holding("work")
        .start();
    let before = (sim.run.totals().usage.total(), sim.task("0/1.1").spent);
    sim.event(asks("0/1.1/1.1", 1, (300, 200), true)).unwrap();
    sim.event(asks("0/1.1/1.2", 1, (30, 20), true)).unwrap();
    sim.event(asks("0/1.1/1.1", 2, (3, 2), true)).unwrap();
    let totals = sim.run.totals();
    assert_eq!((totals.reserved.tokens, totals.reserved.cost), (555, Money::from_picos(1_110)));
    sim.event(heard("0/1.1/1.1", 1, (250, 50))).unwrap();
    assert_eq!((sim.run.totals().reserved.tokens, sim.run.totals().reserved.cost), (55, Money::from_picos(110)));
    sim.event(heard("0/1.1/1.1", 2, (1, 1))).unwrap();
    sim.event(Event::CallHeardModel { by: by("0/1.1/1.2", 1), used: None }).unwrap();
    assert_eq!((sim.run.totals().reserved.tokens, sim.run.totals().reserved.cost), (0, Money::ZERO));
    let costs: Vec<_> = settled(&sim).iter().map(|settled| (settled.usage, settled.cost.unwrap().picos())).collect();
    let usage = |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
    let unknown = Usage { estimated: true, ..usage(30, 20) };
    assert_eq!(costs, [(usage(250, 50), 600), (usage(1, 1), 4), (unknown, 100)], "what nobody knows costs all that was reserved");
    assert_eq!(sim.run.totals().usage.total(), before.0 + 352);
    assert_eq!(sim.task("0/1.1").spent, before.1 + 352);
    assert_eq!(sim.run.spent(&"0".into()).unwrap().cost.total(), Some(Money::from_picos(704)), "scripts cost nothing");
    sim.release("work");
    sim.assert_over();
}

#[test]
fn a_request_is_admitted_only_if_the_last_turn_of_its_task_still_fits() {
    let (input, output) = (400, 300);
    let context = |sim: &Sim| sim.run.task(&"0".into()).unwrap().context_tokens;
    let sim = working(&worker(Limits::default()));
    // What was spent, the request, and a last turn that holds an answer of that length.
    let spent = sim.run.totals().usage.total();
    let needed = spent + input + output + (context(&sim) + 64 + output) + OUTPUT;
    for (limit, expected) in [(needed, Ok(())), (needed - 1, Err(LimitKind::TokensAbove))] {
        let mut sim = working(&worker(tokens(limit)));
        let answer = sim.event(asks("0/1.1", 1, (input, output), true));
        assert_eq!(answer, expected.map_err(|limit| Refusal::LimitReached { limit }));
        if answer.is_ok() {
            sim.event(Event::CallHeardModel { by: by("0/1.1", 1), used: None }).unwrap();
        }
        let said = "x".repeat(4 * usize::try_from(output).unwrap());
        sim.returned("0/1.1", Outcome::success(json!(said))).unwrap();
        sim.release("work");
        sim.assert_over();
        let result = sim.task("0").result.clone().unwrap();
        assert_eq!(result.output.text(), "\"done\"", "its agent says what it has");
    }
}

#[test]
fn money_is_held_alike_and_what_has_no_price_fits_no_limit_of_it() {
    let mut draft = worker(usd(10_000));
    // Scripts cost nothing, so nothing is set aside in money.
    for (tokens, expected) in [(5_000, Ok(())), (5_001, Err(Refusal::LimitReached { limit: LimitKind::CostAbove }))] {
        let mut sim = working(&draft);
        assert_eq!(sim.event(asks("0/1.1", 1, (tokens - 1, 1), true)), expected);
    }
    let mut sim = working(&draft);
    let unpriced = sim.event(asks("0/1.1", 1, (1, 1), false));
    assert_eq!(unpriced, Err(Refusal::LimitReached { limit: LimitKind::CostAbove }));
    draft = worker(tokens(100_000));
    let mut sim = working(&draft);
    sim.event(asks("0/1.1", 1, (10, 10), false)).unwrap();
    sim.event(Event::CallHeardModel { by: by("0/1.1", 1), used: None }).unwrap();
    assert_eq!((settled(&sim)[0].cost, sim.run.totals().cost.unpriced), (None, 1), "nobody knows what it cost");
}

#[test]
fn a_request_waits_for_reservations_of_others_until_they_are_settled() {
    let sim = working(&worker(Limits::default()));
    let context = sim.run.task(&"0".into()).unwrap().context_tokens;
    let spent = sim.run.totals().usage.total();
    let mut sim = working(&worker(tokens(spent + 500 + (context + 64 + 250) + OUTPUT)));
    sim.event(asks("0/1.1", 1, (250, 250), true)).unwrap();
    assert_eq!(sim.event(asks("0/1.2", 1, (250, 250), true)), Err(Refusal::NoRoom));
    sim.event(heard("0/1.1", 1, (0, 0))).unwrap();
    sim.event(asks("0/1.2", 1, (250, 250), true)).unwrap();
    sim.event(heard("0/1.2", 1, (1, 0))).unwrap();
    let reached = Err(Refusal::LimitReached { limit: LimitKind::TokensAbove });
    assert_eq!(sim.event(asks("0/1.2", 1, (250, 250), true)), reached, "one token too much was spent");
}

#[test]
fn only_a_function_that_runs_asks_and_each_request_once_at_a_time() {
    let draft = job([agent("root", "work route_to_child"), agent("child", "wait")]).tools([function("work"), function("wait")]);
    let calls = turn([call("work", "a"), call("nobody", "b"), route("child", "x")]);
    let mut sim = Sim::new(&draft)
        .agent("root", [calls, turn([handoff("done")])])
        .agent("child", [turn([call("wait", "a")]), turn([handoff("child")])])
        .holding("work")
        .holding("wait")
        .start();
    for call in ["0/1.2", "0/1.3", "0/1.4", "0/2.1", "0/7.1/1.1", "nobody"] {
        let refused = sim.event(asks(call, 1, (1, 1), true));
        assert_eq!(refused, Err(Refusal::NotRunning { call: call.into() }), "{call}");
    }
    sim.event(asks("0/1.1", 1, (1, 1), true)).unwrap();
    let again = sim.event(asks("0/1.1", 1, (1, 1), true));
    assert_eq!(again, Err(Refusal::AlreadyAsked { call: "0/1.1".into(), request: 1 }));
    sim.release("work");
    let late = sim.event(asks("0/1.1", 1, (1, 1), true));
    assert_eq!(late, Err(Refusal::NotRunning { call: "0/1.1".into() }));
    let entries = sim.timeline.len();
    sim.event(heard("0/1.1", 1, (1, 1))).unwrap();
    assert_eq!(sim.timeline.len(), entries, "it was settled with its call");
}

#[test]
fn whatever_ends_a_call_settles_what_its_code_asks_at_the_worst() {
    let asking = || {
        let mut sim = working(&worker(tokens(100_000)));
        sim.event(asks("0/1.1", 1, (30, 20), true)).unwrap();
        sim.event(asks("0/1.2", 1, (3, 2), true)).unwrap();
        sim
    };
    let worst =
        |sim: &Sim| settled(sim).iter().map(|settled| (settled.usage.total(), settled.usage.estimated)).collect::<Vec<_>>();
    let mut sim = asking();
    sim.returned("0/1.1", Outcome::success(json!("a"))).unwrap();
    assert_eq!(worst(&sim), [(50, true)], "the other call still asks");
    let names: Vec<&str> = sim.entries().map(Entry::name).collect();
    let (settles, ends) =
        (names.iter().rposition(|name| *name == "budget_settled"), names.iter().rposition(|name| *name == "call_finished"));
    assert!(settles < ends, "{names:?}");
    let mut sim = asking();
    sim.cancel("0").unwrap();
    assert_eq!(worst(&sim), [(50, true), (5, true)]);
    let mut sim = asking();
    sim.crash();
    assert_eq!(worst(&sim), [(50, true), (5, true)]);
    sim.event(asks("0/1.1", 1, (30, 20), true)).unwrap();
    sim.release("work");
    assert_eq!(worst(&sim), [(50, true), (5, true), (50, true)], "it ran again, and asked again");
    sim.assert_over();
    assert_eq!(sim.task("0").result.as_ref().unwrap().status, CallStatus::Success);
}

#[test]
fn a_fork_leaves_what_was_asked_to_the_books_of_its_original() {
    let mut sim = working(&worker(tokens(100_000)));
    sim.event(asks("0/1.1", 1, (30, 20), true)).unwrap();
    let mut run = sim.fold();
    let hash = ContentHash::of(b"configs");
    run.know_configs(hash, sim.configs.clone());
    let from = ForkPoint { run: RunId::new("run"), seq: 3 };
    let fork = Fork { run: RunId::new("fork"), from, at: sim.now, effects: ForkedEffects::default() };
    let adoption = Adoption { fork: Some(fork), ..Adoption::of(hash) };
    let decision = run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by: Principal::person("ada") }).unwrap();
    let settled = decision.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::BudgetSettled(settled) => Some((settled.usage.total(), settled.cost)),
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), [(0, Some(Money::ZERO))]);
}

#[test]
fn a_call_that_may_not_be_repeated_is_in_doubt_and_what_it_asked_is_settled() {
    let tool = function("work").effect(EffectClass::AtMostOnce);
    let draft = job([agent("root", "work")]).tool(tool).limits(tokens(100_000));
    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).holding("work").start();
    sim.event(asks("0/1.1", 1, (30, 20), true)).unwrap();
    sim.crash();
    sim.settle();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::UnknownOutcome);
    assert_eq!(settled(&sim)[0].usage.total(), 50);
}

#[test]
fn requests_are_expected_to_take_what_a_provider_counted_for_turns_and_for_nothing_else() {
    let root = agent("root", "work").settings(json!({"max_tokens": OUTPUT}));
    let mut sim = Sim::new(&job([root]).tool(function("work")))
        .agent_with("root", |prompted| {
            let usage = match prompted.turn {
                1 => Some(Usage { input_tokens: 2 * prompted.input, ..Usage::default() }),
                3 => Some(Usage { output_tokens: 5, ..Usage::default() }),
                _ => None,
            };
            let said = if prompted.turn > 3 { handoff("done") } else { call("work", &prompted.turn.to_string()) };
            Ok(ModelTurn { usage, ..turn([said]) })
        })
        .holding("work")
        .start();
    for call in ["0/1.1", "0/2.1", "0/3.1"] {
        sim.event(asks(call, 1, (300, 200), true)).unwrap();
        sim.event(heard(call, 1, (3_000, 20))).unwrap();
        sim.returned(call, Outcome::success(json!("worked"))).unwrap();
        sim.settle();
    }
    sim.assert_over();
    let requests = sim.entries().filter_map(|entry| match entry {
        Entry::ModelRequested(requested) => Some((requested.input_tokens, requested.reserved_tokens - OUTPUT)),
        _ => None,
    });
    let requests: Vec<(u64, u64)> = requests.collect();
    assert_eq!(requests[0].0, requests[0].1, "nothing is known yet");
    assert!(requests[1..].iter().all(|(estimated, expected)| *expected == 2 * estimated), "{requests:?}");
    assert_eq!(requests.len(), 4);
}

#[test]
fn a_task_has_reserved_what_its_open_requests_may_take() {
    let reserved = |sim: &Sim| sim.run.task(&TaskId::root()).unwrap().reserved();
    let priced = |tokens: u64, picos: u64| (tokens, Cost { known: Money::from_picos(picos), unpriced: 0 });
    let mut sim = Sim::new(&worker(Limits::default()))
        .agent("root", [turn([call("work", "a"), call("work", "b")]), turn([handoff("done")])])
        .holding("work");
    sim.begin(Vec::new());
    let open = sim.task("0").request.as_ref().expect("it is asked").reserved;
    assert_eq!(reserved(&sim), priced(open, 0), "a script costs nothing");
    sim.settle();
    sim.event(asks("0/1.1", 1, (300, 200), true)).unwrap();
    sim.event(asks("0/1.2", 1, (30, 20), true)).unwrap();
    assert_eq!(reserved(&sim), priced(550, 1_100));
    sim.event(heard("0/1.1", 1, (30, 20))).unwrap();
    assert_eq!(reserved(&sim), priced(50, 100));
    sim.release("work");
    sim.assert_over();
    assert_eq!(reserved(&sim), priced(0, 0));
}
