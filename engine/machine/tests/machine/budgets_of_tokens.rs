//! Budgets of tokens: which requests fit into what is left, and how each is settled.

use baton_machine::{Counted, Run};
use baton_proof::{Sim, agent, call, function, handoff, job, route, turn};
use baton_types::entry::{Entry, Recorded};
use baton_types::event::Event;
use baton_types::id::TaskId;
use baton_types::limits::Limits;
use baton_types::model::{ModelTurn, Usage};
use baton_types::money::{Money, Price};
use baton_types::principal::Principal;
use serde_json::json;

fn tokens(tokens: u64) -> Limits {
    Limits { tokens: Some(tokens), ..Limits::default() }
}

/// Returns a root that calls `callees`, each of which may answer with so many tokens; stopped where they have been asked.
fn callees_asked(limit: u64, callees: &[(&str, u64)]) -> Sim {
    let of_100 = |id: &str, tools: &str, most: u64| agent(id, tools).settings(json!({"max_tokens": most}));
    let routes: Vec<String> = callees.iter().map(|(id, _)| format!("route_to_{id}")).collect();
    let callee = |(id, most): &(&str, u64)| of_100(id, "", *most);
    let agents = [of_100("root", &routes.join(" "), 100)].into_iter().chain(callees.iter().map(callee));
    let calls: Vec<_> = callees.iter().map(|(id, _)| route(id, "x")).collect();
    let mut sim = Sim::new(&job(agents).limits(tokens(limit))).agent("root", [turn(calls), turn([handoff("done")])]);
    for (id, _) in callees {
        sim = sim.agent(id, [turn([handoff("done")])]);
    }
    sim.begin(Vec::new());
    assert!(sim.step(), "the root answers");
    sim
}

/// Returns the tasks that are being asked now, in their normal turns.
fn asked(sim: &Sim) -> Vec<String> {
    let normal = sim.pending.iter().filter(|work| sim.run.task(work.task()).is_some_and(|task| task.last_turn().is_none()));
    normal.map(|work| work.task().to_string()).collect()
}

#[test]
fn a_request_is_made_where_its_worst_case_and_a_last_turn_just_fit() {
    // The reserve for the last turn holds this request and one more answer.
    let needed = |context: u64| (context + 100) + (context + 100 + 100);
    let limits = |callees: &[(&str, u64)]| {
        let sim = callees_asked(1_000_000, callees);
        let context = |task: &str| sim.run.task(&TaskId::from(task)).unwrap().context_tokens;
        // Requests side by side must fit with four times the tokens of their estimates.
        let others: u64 = (1..callees.len()).map(|other| 4 * context(&format!("0/1.{other}")) + 100).sum();
        let last = context(&format!("0/1.{}", callees.len()));
        let bound = if others > 0 { 3 * last } else { 0 };
        // The root's last turn: what it holds, a frame for each result, one result of any length, its answer.
        let of_root = context("0") + callees.len() as u64 * 64 + 100 + 100;
        sim.run.totals().usage.total() + others + of_root + needed(last) + bound
    };
    let one = [("one", 100)];
    assert_eq!(asked(&callees_asked(limits(&one), &one)), ["0/1.1"]);
    assert_eq!(asked(&callees_asked(limits(&one) - 1, &one)), Vec::<String>::new());
    let two = [("one", 100), ("two", 100)];
    assert_eq!(asked(&callees_asked(limits(&two), &two)), ["0/1.1", "0/1.2"]);
    assert_eq!(asked(&callees_asked(limits(&two) - 1, &two)), ["0/1.1"]);
}

#[test]
fn a_request_that_fits_does_not_wait_for_an_earlier_one_that_does_not_fit() {
    let callees = [("one", 100), ("big", 10_000), ("two", 100)];
    let sim = callees_asked(1_000_000, &callees);
    let spent = sim.run.task(&TaskId::root()).unwrap().work().usage.total();
    let context = sim.run.task(&TaskId::from("0/1.2")).unwrap().context_tokens;
    // The big one fits alone, and not while anything is reserved.
    let mut sim = callees_asked(spent + 2 * context + 30_000, &callees);
    assert_eq!(asked(&sim), ["0/1.1", "0/1.3"]);
    sim.settle();
    sim.assert_over();
}

/// Returns the settled usage and cost of the root's requests.
fn settled(sim: &Sim) -> Vec<(Usage, Option<Money>)> {
    let settled = sim.entries().filter_map(|entry| match entry {
        Entry::BudgetSettled(settled) if settled.task == "0" => Some((settled.usage, settled.cost)),
        _ => None,
    });
    settled.collect()
}

#[test]
fn an_answer_without_usage_is_settled_by_an_estimate() {
    let answer = ModelTurn { usage: None, text: "four".into(), ..turn([call("work", "a")]) };
    let bytes = "four".len() + "work".len() + answer.calls[0].input.text().len();
    let sim =
        Sim::new(&job([agent("root", "work")]).tool(function("work"))).agent("root", [answer, turn([handoff("done")])]).start();
    sim.assert_over();
    let (usage, _) = settled(&sim)[0];
    assert!(usage.estimated);
    assert_eq!(usage.output_tokens, baton_types::estimate::text_tokens(bytes as u64));
    assert!(usage.input_tokens > 0);
}

#[test]
fn a_request_that_a_crash_left_open_is_settled_at_its_worst_case() {
    let crashed = |free: bool| {
        let mut sim =
            Sim::new(&job([agent("root", "").settings(json!({"max_tokens": 100}))])).agent("root", [turn([handoff("done")])]);
        if !free {
            sim.prices.clear();
        }
        sim.begin(Vec::new());
        sim.crash();
        sim
    };
    let (usage, cost) = settled(&crashed(true))[0];
    assert_eq!((usage.output_tokens, usage.estimated, cost), (100, true, Some(Money::ZERO)), "a script costs nothing");
    assert_eq!(settled(&crashed(false))[0].1, None, "what has no price is not taken for free");
}

#[test]
fn what_a_request_used_is_unknown_after_a_crash_or_a_cancellation_and_known_after_an_answer() {
    let draft = job([agent("root", "")]);
    let sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]).start();
    fn unknown<'e>(entries: impl Iterator<Item = &'e Recorded>) -> Vec<bool> {
        let settled = entries.filter_map(|recorded| match &recorded.entry {
            Entry::BudgetSettled(settled) => Some(settled.unknown),
            _ => None,
        });
        settled.collect()
    }
    assert_eq!(unknown(sim.timeline.iter()), [false]);
    let asked = sim.timeline.iter().position(|recorded| matches!(recorded.entry, Entry::ModelRequested(_))).unwrap();
    let open = Run::fold(draft.build(), &sim.timeline[..=asked]);
    let by = Principal::person("ada");
    let cancelled = Event::CancelRequested { task: "0".into(), reason: "enough".to_owned(), by };
    for event in [Event::TakenOver { process: "another".to_owned(), after_death: false }, cancelled] {
        let decision = open.clone().handle(sim.now, event).unwrap();
        assert_eq!(unknown(decision.entries.iter().map(AsRef::as_ref)), [true]);
    }
}

#[test]
fn a_limit_without_room_for_one_request_is_named_with_the_needed_amount() {
    let ended = |limits: Limits| {
        let draft = job([agent("root", "").model("one").settings(json!({"max_tokens": 100}))]);
        let draft = draft.price(
            "one",
            Price { input: Money::from_picos(1_000_000), output: Money::from_picos(2_000_000), ..Price::scripted() },
        );
        let sim = Sim::new(&draft.limits(limits)).agent("root", [turn([handoff("done")])]).start();
        sim.assert_over();
        assert_eq!(sim.task("0").turns, 0);
        let error = sim.task("0").result.as_ref().and_then(|result| result.error.clone()).expect("the run is partial");
        (error.message, error.detail.value())
    };
    let (message, detail) = ended(Limits { tokens: Some(150), ..Limits::default() });
    let needed = detail["needed"].as_u64().unwrap();
    assert!(needed > 150, "{detail}");
    assert_eq!(
        message,
        format!(
            "limits.tokens of a task above or of the run allows 150 tokens, of which 0 tokens are used; the next request may take up to \
             {needed} tokens with its answer. Raise limits.tokens (for a run also --max-tokens), or lower max_tokens in the settings of the agent"
        )
    );
    // A limit of that amount has room for the last turn.
    let agent = agent("root", "").model("one").settings(json!({"max_tokens": 100}));
    let draft = job([agent]).limits(Limits { tokens: Some(needed), ..Limits::default() });
    let sim = Sim::new(&draft).agent("root", [turn([handoff("done")])]).start();
    assert_eq!(sim.task("0").turns, 1);
    let (message, _) = ended(Limits { cost_usd: Some(0.0001), ..Limits::default() });
    assert!(
        message.starts_with("limits.cost_usd of a task above or of the run allows $0.0001, of which $0 are used; "),
        "{message}"
    );
    assert!(message.contains("Raise limits.cost_usd (for a run also --max-cost)"), "{message}");
}

#[test]
fn an_estimate_is_the_largest_for_which_the_expected_tokens_fit() {
    for (estimated, counted) in [(0, 0), (100, 250), (3, 7), (10, 5), (10, 1_000)] {
        let of = Counted { estimated, counted };
        for tokens in 0..500 {
            let most = of.estimate(tokens);
            assert!(of.expected(most) <= tokens && of.expected(most + 1) > tokens, "{tokens} of {of:?}: {most}");
        }
    }
    let [lower, higher] = [(2, 3), (4, 7)].map(|(estimated, counted)| Counted { estimated, counted });
    assert!(higher.is_higher_than(lower) && !lower.is_higher_than(higher) && !lower.is_higher_than(lower));
}
