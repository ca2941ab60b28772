//! Budgets: money and tokens are reserved before a request and settled after, on every task above, so that parallel
//! tasks cannot overshoot (`limits_hold`). A request's time is limited.

use std::cell::RefCell;
use std::rc::Rc;

use baton_machine::Spent;
use baton_proof::jobs::{JobDraft, ToolDraft};
use baton_proof::random::Random;
use baton_proof::script::Prompted;
use baton_proof::{Sim, agent, call, function, handoff, job, print, route, turn, write, writes};
use baton_types::call::CallStatus;
use baton_types::entry::Entry;
use baton_types::id::TaskId;
use baton_types::limits::{LimitKind, Limits};
use baton_types::model::{ModelTurn, Usage};
use baton_types::money::{Money, Price};
use serde_json::json;

/// Picodollars for a token of a request, one that was cached, and one of an answer.
fn price(input: u64, cached_input: u64, output: u64) -> Price {
    let [input, cached_input, output] = [input, cached_input, output].map(Money::from_picos);
    Price {
        input,
        cached_input,
        output,
        source: "a test".to_owned(),
        context_tokens: None,
        output_tokens: None,
        is_estimate: false,
    }
}

fn usd(picos: u64) -> Limits {
    Limits { cost_usd: Some(Money::from_picos(picos).as_usd()), ..Limits::default() }
}

fn is_last(prompted: &Prompted<'_>) -> bool {
    prompted.request.tools.iter().all(|tool| tool.id.as_str() == "handoff")
}

/// Returns a turn that used all that was reserved for it.
fn spending_all(prompted: &Prompted<'_>, turn: ModelTurn) -> ModelTurn {
    let output_tokens = prompted.reserved - prompted.input;
    ModelTurn { usage: Some(Usage { input_tokens: prompted.input, output_tokens, ..Usage::default() }), ..turn }
}

pub(crate) fn result_of(sim: &Sim, task: &str) -> (CallStatus, String) {
    let result = sim.task(task).result.clone().expect("the task has ended");
    (result.status, result.output.text().into_owned())
}

pub(crate) fn limit_of(sim: &Sim, task: &str) -> Option<LimitKind> {
    sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::TaskEnded(ended) if ended.task.as_str() == task => ended.limit,
        _ => None,
    })
}

/// Returns the tree of one random run: a root with up to 64 children at once, some of which have children of their
/// own. It has three models of random prices, and limits on the run, on agents and on the tools that delegate.
fn random_tree(random: &mut Random) -> JobDraft {
    let mut limits = |of_tokens: usize, of_picos: usize| Limits {
        tokens: random.once_in(3).then(|| 500 + random.below(of_tokens) as u64),
        cost_usd: random.once_in(2).then(|| Money::from_picos(1_000 + random.below(of_picos) as u64).as_usd()),
        children: Some(200),
        ..Limits::default()
    };
    let (of_run, of_middle, of_leaf) = (limits(200_000, 4_000_000), limits(30_000, 600_000), limits(4_000, 100_000));
    let of_edge = limits(60_000, 2_000_000);
    let tokens = |random: &mut Random| json!({"max_tokens": 20 + random.below(150)});
    let draft = job([
        agent("root", "route_to_middle route_to_leaf").model("one").settings(tokens(random)),
        agent("middle", "route_to_leaf").model("two").settings(tokens(random)).limits(of_middle),
        agent("leaf", "work").model("three").settings(tokens(random)).limits(of_leaf),
    ]);
    let mut draft = draft.tools([function("work"), ToolDraft::route("middle").limits(of_edge)]).limits(of_run);
    for model in ["one", "two", "three"] {
        let mut rate = |most: usize| random.below(most) as u64;
        draft = draft.price(model, price(rate(40), rate(40), rate(200)));
    }
    draft
}

/// Returns up to 64 delegations at once in the first turn, then some work, then a handoff; uses any part of what was reserved.
fn random_turn(random: &mut Random, prompted: &Prompted<'_>) -> ModelTurn {
    let said = match (prompted.request.agent.as_str(), prompted.turn) {
        _ if is_last(prompted) => turn([handoff("what I have")]),
        ("root", 1) => turn((0..64).map(|child| route(if child % 8 == 0 { "middle" } else { "leaf" }, &child.to_string()))),
        ("middle", 1) => turn((0..=random.below(6)).map(|child| route("leaf", &child.to_string()))),
        ("leaf", made) if !random.once_in(3) && made < 6 => turn([call("work", &made.to_string())]),
        _ => turn([handoff("done")]),
    };
    let input_tokens = random.below(prompted.input as usize + 1) as u64;
    let usage = Usage {
        input_tokens,
        output_tokens: random.below((prompted.reserved - prompted.input) as usize + 1) as u64,
        cached_tokens: random.below(input_tokens as usize + 1) as u64,
        ..Usage::default()
    };
    ModelTurn { usage: Some(usage), ..said }
}

/// Figures of some random runs.
#[derive(Default)]
struct Found {
    tasks: usize,
    partial: usize,
    requests: u64,
}

fn run_tree(seed: u64, found: &mut Found) {
    let mut random = Random::seeded(seed);
    let draft = random_tree(&mut random);
    let chance = Rc::new(RefCell::new(random));
    let mut sim = Sim::new(&draft).by_chance(seed);
    for agent in ["root", "middle", "leaf"] {
        let chance = Rc::clone(&chance);
        sim = sim.agent_with(agent, move |prompted| Ok(random_turn(&mut chance.borrow_mut(), prompted)));
    }
    // After every commit the shell checks that no node holds more than its limits, and that the books are those of the run.
    let sim = sim.start();
    sim.assert_over();
    let totals = sim.run.totals();
    assert_eq!(totals.usage, sim.used, "what the models used is what the run counts");
    assert_eq!(totals.reserved.cost, Money::ZERO);
    for id in sim.ledger.tasks.keys() {
        let spent = sim.run.spent(id).expect("every task is in the graph");
        assert_eq!(spent.cost.total().map(|cost| u128::from(cost.picos())), Some(sim.ledger.money(id)), "{id}");
        assert_eq!(spent.usage.total(), sim.ledger.tokens(id), "{id}");
    }
    let root = sim.run.spent(&TaskId::root()).expect("there is a root");
    assert_eq!((root.cost, root.usage), (totals.cost, totals.usage), "the tree adds up to the run");
    let mut settled = Spent::default();
    for entry in sim.entries() {
        if let Entry::BudgetSettled(entry) = entry {
            settled.settle(&entry.usage, entry.cost);
        }
    }
    assert_eq!(settled, root, "the settled requests add up to the run");
    let asked_below = u64::from(sim.ledger.turns) > u64::from(sim.task("0").turns);
    assert!(!asked_below || result_of(&sim, "0").1 != "null", "whatever is spent below it, the root has its last turn");
    let is_partial = |status: CallStatus| status == CallStatus::Partial;
    found.tasks += sim.ledger.tasks.len();
    found.requests += u64::from(sim.ledger.turns);
    found.partial +=
        sim.ledger.tasks.values().filter(|book| book.result.as_ref().is_some_and(|result| is_partial(result.status))).count();
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// `BATON_BUDGET_RUNS=10000 cargo test --release -p baton-machine --test machine budgets::` is the large figure.
#[test]
fn parallel_children_of_any_price_never_overshoot_at_any_node() {
    let (first, runs) = (number("BATON_FIRST_BUDGET_RUN", 0), number("BATON_BUDGET_RUNS", 100));
    let mut found = Found::default();
    for seed in first..first + runs {
        let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_tree(seed, &mut found)));
        walked.unwrap_or_else(|_| panic!("seed {seed} breaks: BATON_FIRST_BUDGET_RUN={seed} BATON_BUDGET_RUNS=1 runs it again"));
    }
    println!("{runs} runs, {} tasks, {} requests, {} partial, overshoot 0", found.tasks, found.requests, found.partial);
    if runs >= 100 {
        assert!(found.partial * 20 > found.tasks, "limits were reached: {} of {} tasks", found.partial, found.tasks);
        assert!(found.partial * 2 < found.tasks, "and most tasks were done: {} of {}", found.partial, found.tasks);
    }
}

/// Runs 64 children whose provider counts twice as many tokens as estimated, and returns the run with the largest error of one
/// request: tokens and picodollars that it used beyond its estimate.
fn underestimated(limits: Limits, seed: u64) -> (Sim, u64) {
    let limits = Limits { children: Some(64), ..limits };
    let draft = job([
        agent("root", "route_to_child").settings(json!({"max_tokens": 100})),
        agent("child", "work").settings(json!({"max_tokens": 100})),
    ]);
    let draft = draft.tool(function("work")).limits(limits).price("script", price(1, 1, 1));
    let error = Rc::new(RefCell::new(0));
    let largest = Rc::clone(&error);
    let uses = move |prompted: &Prompted<'_>, turn: ModelTurn| {
        // The first answers are as estimated, so the run cannot know the ratio from them.
        let input_tokens = if prompted.turn < 3 { prompted.input } else { 2 * prompted.input };
        let mut largest = largest.borrow_mut();
        *largest = (input_tokens - prompted.input).max(*largest);
        ModelTurn { usage: Some(Usage { input_tokens, output_tokens: 100, ..Usage::default() }), ..turn }
    };
    let of_child = uses.clone();
    let sim = Sim::new(&draft).by_chance(seed).agent_with("root", move |prompted| {
        let said = if prompted.turn == 1 {
            (0..64).map(|child| route("child", &child.to_string())).collect()
        } else {
            vec![handoff("done")]
        };
        Ok(uses(prompted, turn(said)))
    });
    let sim = sim.agent_with("child", move |prompted| {
        let is_done = is_last(prompted) || prompted.turn == 8;
        let said = if is_done { handoff("done") } else { call("work", &"x".repeat(2_000 + prompted.turn as usize)) };
        Ok(of_child(prompted, turn([said])))
    });
    let sim = sim.start();
    sim.assert_over();
    let error = *error.borrow();
    (sim, error)
}

#[test]
fn a_limit_is_exceeded_by_the_error_of_one_estimate_at_most() {
    let mut reached = 0;
    for seed in 0..10 {
        for limit in [60_000, 150_000, 250_000] {
            for limits in [Limits { tokens: Some(limit), ..Limits::default() }, usd(limit)] {
                let (sim, error) = underestimated(limits, seed);
                let used = sim.run.totals().usage.total();
                assert_eq!(sim.run.totals().cost.known.picos(), used, "every token costs the same");
                assert!(used <= limit + error, "{used} of {limit}, and the largest error of one request is {error}");
                reached += usize::from(limit_of(&sim, "0").is_some() || result_of(&sim, "0/1.64").0 == CallStatus::Partial);
            }
        }
    }
    assert!(reached >= 30, "limits were reached {reached} times");
}

#[test]
fn a_run_learns_how_many_tokens_its_provider_counts() {
    let twice = |prompted: &Prompted<'_>| {
        let said = if prompted.turn < 4 { call("work", &prompted.turn.to_string()) } else { handoff("done") };
        let usage = Usage { input_tokens: 2 * prompted.input, output_tokens: 10, ..Usage::default() };
        Ok(ModelTurn { usage: Some(usage), ..turn([said]) })
    };
    let draft = job([agent("root", "work").settings(json!({"max_tokens": 100}))]).tool(function("work"));
    let sim = Sim::new(&draft).agent_with("root", twice).start();
    sim.assert_over();
    let requested = sim.entries().filter_map(|entry| match entry {
        Entry::ModelRequested(requested) => Some((requested.input_tokens, requested.reserved_tokens - 100)),
        _ => None,
    });
    let requested: Vec<(u64, u64)> = requested.collect();
    assert_eq!(requested[0].0, requested[0].1, "the first estimate is taken as it is");
    for (input, reserved) in &requested[1..] {
        assert_eq!(*reserved, 2 * input, "the estimate stays, and twice as much is reserved");
    }
}

#[test]
fn a_limit_of_money_leaves_a_last_turn_to_whoever_reaches_it() {
    let draft = job([agent("root", "work").settings(json!({"max_tokens": 100})).limits(usd(20_000))])
        .tool(function("work"))
        .price("script", price(2, 1, 30));
    let sim = Sim::new(&draft)
        .agent_with("root", |prompted| {
            let said = if is_last(prompted) { handoff("what I have") } else { call("work", &prompted.turn.to_string()) };
            Ok(spending_all(prompted, turn([said])))
        })
        .start();
    sim.assert_over();
    assert_eq!(result_of(&sim, "0"), (CallStatus::Partial, "\"what I have\"".to_owned()));
    assert_eq!(limit_of(&sim, "0"), Some(LimitKind::Cost));
    assert!(sim.ledger.turns > 2, "{}", print::timeline(&sim.timeline));
    assert!(sim.ledger.settled_cost <= 20_000);
}

#[test]
fn a_request_that_only_others_reserved_money_hinders_waits_and_is_made_later() {
    let draft = job([
        agent("root", "route_to_child").settings(json!({"max_tokens": 10})),
        agent("child", "").settings(json!({"max_tokens": 1_000})),
    ])
    .limits(usd(150_000))
    .price("script", price(0, 0, 30));
    let frugal = |prompted: &Prompted<'_>| {
        let said = match (prompted.request.agent.as_str(), prompted.turn) {
            ("root", 1) => turn((0..12).map(|child| route("child", &child.to_string()))),
            _ => turn([handoff("done")]),
        };
        Ok(ModelTurn { usage: Some(Usage { output_tokens: 5, ..Usage::default() }), ..said })
    };
    let mut sim = Sim::new(&draft).agent_with("root", frugal).agent_with("child", frugal);
    sim.begin(Vec::new());
    let mut waited = false;
    while sim.step() {
        waited |= sim.run.totals().ready.values().count() > 0;
    }
    sim.assert_over();
    assert!(waited, "there was no room for all of them at once");
    let done = sim.ledger.tasks.values().filter(|book| book.result.as_ref().is_some_and(|it| it.status == CallStatus::Success));
    assert_eq!(done.count(), 13);
}

#[test]
fn a_limit_of_money_on_the_edge_holds_the_callee_and_all_below_it() {
    let draft = job([
        agent("root", "route_to_middle"),
        agent("middle", "route_to_leaf").settings(json!({"max_tokens": 50})),
        agent("leaf", "work").settings(json!({"max_tokens": 50})),
    ])
    .tools([function("work"), ToolDraft::route("middle").limits(usd(9_000))])
    .price("script", price(1, 1, 10));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("middle", "x")]), turn([handoff("done")])])
        .agent_with("middle", |prompted| {
            let said = if is_last(prompted) || prompted.turn > 1 { handoff("middle") } else { route("leaf", "y") };
            Ok(spending_all(prompted, turn([said])))
        })
        .agent_with("leaf", |prompted| {
            let said = if is_last(prompted) { handoff("leaf") } else { call("work", &prompted.turn.to_string()) };
            Ok(spending_all(prompted, turn([said])))
        })
        .start();
    sim.assert_over();
    assert_eq!(limit_of(&sim, "0/1.1/1.1"), Some(LimitKind::CostAbove));
    assert_eq!(result_of(&sim, "0/1.1").1, "\"middle\"", "the one that is held has a turn left");
    assert_eq!(result_of(&sim, "0").0, CallStatus::Success, "and the root is not held");
    assert!(sim.ledger.money(&TaskId::from("0/1.1")) <= 9_000);
}

#[test]
fn a_model_that_used_more_than_was_reserved_is_recorded_and_nothing_further_is_asked_for() {
    let hostile = |usage: Usage| {
        let draft = job([agent("root", "route_to_child"), agent("child", "work")])
            .tool(function("work"))
            .limits(Limits { tokens: Some(40_000), ..usd(1_000_000) })
            .price("script", price(2, 1, 30));
        Sim::new(&draft)
            .agent("root", [turn([route("child", "a"), route("child", "b")])])
            .agent_with("child", move |prompted| {
                Ok(ModelTurn { usage: Some(usage), ..turn([call("work", &prompted.turn.to_string())]) })
            })
            .start()
    };
    let much = Usage { input_tokens: 90_000, output_tokens: 50_000, ..Usage::default() };
    let all = Usage { input_tokens: u64::MAX, output_tokens: u64::MAX, cached_tokens: u64::MAX, ..Usage::default() };
    for usage in [much, all] {
        let sim = hostile(usage);
        sim.assert_over();
        let first = sim.timeline.iter().position(|recorded| match &recorded.entry {
            Entry::BudgetSettled(settled) => settled.usage.output_tokens >= 50_000,
            _ => false,
        });
        let after = &sim.timeline[first.expect("it is settled")..];
        let asked = after.iter().filter(|recorded| matches!(recorded.entry, Entry::ModelRequested(_))).count();
        assert_eq!(asked, 0, "nothing is asked for once the limit is passed:\n{}", print::timeline(&sim.timeline));
        assert_eq!(limit_of(&sim, "0"), Some(LimitKind::TokensAbove));
        let spent = sim.run.totals();
        assert!(spent.usage.total() > 40_000 && spent.cost.known > Money::from_picos(1_000_000), "and the books say so");
        assert_eq!(spent.usage, sim.ledger.settled);
    }
}

#[test]
fn a_price_that_is_not_known_is_counted_and_never_taken_for_nothing() {
    let draft =
        job([agent("root", "route_to_child").model("known"), agent("child", "").model("brought")]).price("known", price(1, 1, 1));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("done")])]);
    sim.prices.remove("brought");
    let sim = sim.start();
    sim.assert_over();
    let child = sim.run.spent(&TaskId::from("0/1.1")).expect("there is the task");
    assert_eq!((child.cost.known, child.cost.unpriced, child.cost.total()), (Money::ZERO, 1, None));
    assert_eq!(sim.run.totals().cost.to_string(), "?");
    assert!(sim.run.totals().cost.known > Money::ZERO, "the others' cost is known");

    let limited = job([agent("root", "").limits(usd(1_000_000_000))]);
    let mut sim = Sim::new(&limited).agent("root", [turn([handoff("done")])]);
    sim.prices.clear();
    let sim = sim.start();
    assert_eq!(sim.ledger.turns, 0, "what may cost anything does not fit a limit");
    assert_eq!(limit_of(&sim, "0"), Some(LimitKind::Cost));
}

#[test]
fn the_model_s_own_output_limit_holds_unless_a_setting_or_a_budget_bounds_the_answer() {
    let own = |settings: serde_json::Value, limits: Limits, window: Option<u64>| {
        let known = Price { context_tokens: window, output_tokens: Some(64_000), ..price(1, 1, 1) };
        let draft = job([agent("root", "").settings(settings)]).limits(limits).price("script", known);
        let mut sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]);
        sim.begin(Vec::new());
        sim.run.own_output_limit(&TaskId::root())
    };
    assert_eq!(own(json!({}), Limits::default(), None), Some(64_000));
    assert_eq!(own(json!({}), Limits::default(), Some(200_000)), Some(50_000), "three quarters are left to the request");
    assert_eq!(own(json!({"max_tokens": 100}), Limits::default(), None), None);
    assert_eq!(own(json!({}), usd(1_000_000_000), None), None);
    assert_eq!(own(json!({}), Limits { tokens: Some(1_000_000), ..Limits::default() }, None), None);
}

#[test]
fn a_crash_settles_money_at_the_worst_case() {
    let draft = job([agent("root", "").settings(json!({"max_tokens": 100}))]).price("script", price(2, 1, 30));
    let mut sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]);
    sim.begin(Vec::new());
    let reserved = sim.run.totals().reserved.cost;
    assert!(reserved >= Money::from_picos(3_000));
    sim.crash();
    assert_eq!(sim.run.totals().cost.known, reserved);
    sim.settle();
    sim.assert_over();
    assert!(sim.run.totals().cost.known > reserved, "the turn was asked for again");
}

#[test]
fn what_a_caller_needs_for_its_last_turn_is_not_spent_below_it() {
    let draft = job([
        agent("root", "route_to_middle").settings(json!({"max_tokens": 400})),
        agent("middle", "route_to_leaf").settings(json!({"max_tokens": 200})),
        agent("leaf", "work").settings(json!({"max_tokens": 50})),
    ])
    .tool(function("work"))
    .limits(Limits { tokens: Some(8_000), ..usd(60_000) })
    .price("script", price(1, 1, 10));
    let delegating = |to: &'static str| {
        move |prompted: &Prompted<'_>| {
            let said = if is_last(prompted) { handoff("what I have") } else { route(to, &prompted.turn.to_string()) };
            Ok(spending_all(prompted, turn([said])))
        }
    };
    let sim = Sim::new(&draft)
        .agent_with("root", delegating("middle"))
        .agent_with("middle", delegating("leaf"))
        .agent_with("leaf", |prompted| {
            let said = if is_last(prompted) { handoff("leaf") } else { call("work", &prompted.turn.to_string()) };
            Ok(spending_all(prompted, turn([said])))
        })
        .start();
    sim.assert_over();
    for task in ["0", "0/1.1", "0/1.1/1.1"] {
        let said = if task.ends_with("1.1/1.1") { "\"leaf\"" } else { "\"what I have\"" };
        assert_eq!(result_of(&sim, task), (CallStatus::Partial, said.to_owned()), "{task}:\n{}", print::timeline(&sim.timeline));
    }
    assert!(sim.ledger.settled.total() <= 8_000 && sim.ledger.settled_cost <= 60_000);
}

/// Spending of siblings under a common limit leaves room for their caller, not for the last turns of the others. A
/// sibling that comes too late ends with its present result, without a further turn. No limit is exceeded, and its
/// documents are kept.
#[test]
fn a_task_whose_siblings_spent_the_shared_limit_ends_partial_with_its_documents() {
    let draft = job([
        agent("root", "route_to_slow route_to_greedy").settings(json!({"max_tokens": 50})),
        agent("slow", "save").settings(json!({"max_tokens": 1_000})),
        agent("greedy", "work").settings(json!({"max_tokens": 50})),
    ])
    .tools([function("work"), function("save").writing()])
    .limits(Limits { tokens: Some(6_000), ..Limits::default() });
    let greedy = |prompted: &Prompted<'_>| {
        let said = if is_last(prompted) { handoff("greedy") } else { call("work", &prompted.turn.to_string()) };
        Ok(spending_all(prompted, turn([said])))
    };
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("slow", "x"), route("greedy", "y")]), turn([handoff("both")])])
        .agent("slow", [turn([call("save", "a")])])
        .agent_with("greedy", greedy)
        .tool("save", |_| writes(json!({}), vec![write("a.md", "what I have")]))
        .holding("save")
        .start();
    assert_eq!(result_of(&sim, "0/1.2"), (CallStatus::Partial, "\"greedy\"".to_owned()), "the one that spent had its last turn");
    sim.release("save");
    sim.assert_over();
    let slow = sim.task("0/1.1").result.clone().expect("it has ended");
    assert_eq!((slow.status, &*slow.output.text()), (CallStatus::Partial, "null"));
    assert_eq!(sim.task("0/1.1").turns, 1, "it had no last turn");
    assert_eq!(slow.documents.len(), 1, "its document is kept");
    assert_eq!(result_of(&sim, "0").1, "\"both\"", "what the caller of both needs was not theirs to spend");
    assert!(sim.ledger.settled.total() <= 6_000);
}
