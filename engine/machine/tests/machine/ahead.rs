//! Limits that must leave room for the calls that code is about to make.

use baton_types::call::{CallError, ErrorCode, ModelCall};
use baton_types::config::EffectClass;
use baton_types::entry::Entry;
use baton_types::id::CallId;
use baton_types::limits::{LimitKind, Limits, SessionLimits};
use baton_types::model::{ModelTurn, Usage};
use baton_types::money::{Money, Price};
use serde_json::json;

use baton_machine::Least;

use crate::support::{Sim, agent, call, function, handoff, job, route, turn};

/// Picodollars for a token of a request. A token of an answer costs twice as much.
const PICOS: u64 = 10;

/// Limits of the task whose code is about to make calls, of its caller, of the run and of the session.
#[derive(Default)]
struct Allowed {
    own: Limits,
    above: Limits,
    run: Limits,
    session: SessionLimits,
}

/// Returns a turn that used 120 tokens, which cost 1,400 picodollars.
fn used(calls: impl IntoIterator<Item = ModelCall>) -> ModelTurn {
    ModelTurn { usage: Some(Usage { input_tokens: 100, output_tokens: 20, ..Usage::default() }), ..turn(calls) }
}

/// Begins a run whose worker calls `flow` twice. The code of neither call has made a call.
fn begun(allowed: Allowed) -> Sim {
    let settings = json!({"max_tokens": 50});
    let agents = [
        agent("root", "route_to_worker").settings(settings.clone()).limits(allowed.above),
        agent("worker", "flow look route_to_helper").settings(settings.clone()).limits(allowed.own),
        agent("helper", "look").settings(settings),
    ];
    let price = Price { input: Money::from_picos(PICOS), output: Money::from_picos(2 * PICOS), ..Price::scripted() };
    let draft = job(agents)
        .tools([function("flow").effect(EffectClass::Pure).calls(&["*"]), function("look").effect(EffectClass::Pure)])
        .limits(allowed.run)
        .session_limits(allowed.session)
        .price("script", price);
    Sim::new(&draft)
        .agent("root", [used([route("worker", "work")]), used([handoff("done")])])
        .agent("worker", [used([call("flow", "a"), call("flow", "b")]), used([handoff("worked")])])
        .agent("helper", [used([handoff("helped")])])
        .holding("flow")
        .start()
}

/// Returns a delegation whose request is longer than all else in the run.
fn long_route() -> ModelCall {
    route("helper", &"word ".repeat(8_000))
}

fn ahead(sim: &Sim, by: &str, calls: &[ModelCall]) -> Result<Least, CallError> {
    sim.run.check_ahead(&CallId::from(by), calls)
}

#[test]
fn calls_of_code_take_at_least_the_first_requests_of_their_tasks() {
    let mut sim = begun(Allowed::default());
    let look = ahead(&sim, "0/1.1/1.1", &[call("look", "b")]).unwrap();
    assert_eq!(look, Least { calls: 1, ..Least::default() }, "a function asks no model");
    let one = ahead(&sim, "0/1.1/1.1", &[long_route()]).unwrap();
    assert_eq!((one.calls, one.tasks, one.cost.unpriced), (1, 1, 0));
    assert_eq!(one.cost.known.picos(), one.tokens * PICOS);
    let both = ahead(&sim, "0/1.1/1.1", &[long_route(), call("look", "b"), long_route()]).unwrap();
    assert_eq!((both.calls, both.tasks, both.tokens), (3, 2, 2 * one.tokens));
    assert_eq!(both.cost.known.picos(), 2 * one.cost.known.picos());
    sim.makes("0/1.1/1.1", "d", long_route()).unwrap();
    let requested = sim.entries().find_map(|entry| match entry {
        Entry::ModelRequested(requested) if requested.task.as_str() == "0/1.1/1.1:d" => Some(requested.input_tokens),
        _ => None,
    });
    assert!(requested.unwrap().abs_diff(one.tokens) < 10, "{requested:?} tokens, and {} before", one.tokens);
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn a_program_has_its_own_price_when_a_model_replaces_all_others() {
    let cost = |is_program: bool| {
        let worker = agent("worker", "");
        let worker = if is_program { worker.works_by_program() } else { worker };
        let price = Price { input: Money::from_picos(PICOS), ..Price::scripted() };
        let draft = job([agent("root", "flow route_to_worker"), worker])
            .tools([function("flow").effect(EffectClass::Pure).calls(&["*"])])
            .price("script", price);
        let sim = Sim::new(&draft).agent("root", [turn([call("flow", "a")])]).holding("flow").with_model("other").start();
        ahead(&sim, "0/1.1", &[route("worker", &"word ".repeat(8_000))]).unwrap().cost.known.picos()
    };
    assert_eq!(cost(false), 0, "the model of the run has no price");
    assert!(cost(true) > 0, "it does not replace a program");
}

#[test]
fn each_limit_must_leave_room_for_the_calls_that_code_is_about_to_make() {
    let calls = [long_route(), call("look", "c")];
    let tokens = ahead(&begun(Allowed::default()), "0/1.1/1.1", &calls).unwrap().tokens;
    let number = |of: fn(&mut Limits) -> &mut Option<u32>, amount: u64| {
        let mut limits = Limits::default();
        *of(&mut limits) = Some(u32::try_from(amount).unwrap());
        limits
    };
    let usd = |amount: u64| Some(Money::from_picos(amount).as_usd());
    let of_tokens = |amount| Limits { tokens: Some(amount), ..Limits::default() };
    let of_cost = |amount| Limits { cost_usd: usd(amount), ..Limits::default() };
    type Make<'a> = Box<dyn Fn(u64) -> Allowed + 'a>;
    let own = |limits: Limits| Allowed { own: limits, ..Allowed::default() };
    let above = |limits: Limits| Allowed { above: limits, ..Allowed::default() };
    let run = |limits: Limits| Allowed { run: limits, ..Allowed::default() };
    let session = |session: SessionLimits| Allowed { session, ..Allowed::default() };
    let cost = tokens * PICOS;
    // The limit, the amount that was used when the code asks, the amount that its calls need.
    let cases: Vec<(LimitKind, u64, u64, Make<'_>)> = vec![
        (LimitKind::Calls, 2, 2, Box::new(|amount| own(number(|limits| &mut limits.calls, amount)))),
        (LimitKind::RunCalls, 3, 2, Box::new(|amount| run(number(|limits| &mut limits.calls, amount)))),
        (
            LimitKind::SessionCalls,
            3,
            2,
            Box::new(|amount| session(SessionLimits { calls: u32::try_from(amount).ok(), ..SessionLimits::default() })),
        ),
        (LimitKind::Children, 0, 1, Box::new(|amount| own(number(|limits| &mut limits.children, amount)))),
        // Two turns were asked for, and one is set aside for each of two tasks.
        (LimitKind::RunTurns, 4, 1, Box::new(|amount| run(number(|limits| &mut limits.turns, amount)))),
        (
            LimitKind::SessionTurns,
            4,
            1,
            Box::new(|amount| session(SessionLimits { turns: u32::try_from(amount).ok(), ..SessionLimits::default() })),
        ),
        (LimitKind::Tokens, 120, tokens, Box::new(|amount| own(of_tokens(amount)))),
        (LimitKind::TokensAbove, 240, tokens, Box::new(|amount| above(of_tokens(amount)))),
        (LimitKind::TokensAbove, 240, tokens, Box::new(|amount| run(of_tokens(amount)))),
        (
            LimitKind::SessionTokens,
            240,
            tokens,
            Box::new(|amount| session(SessionLimits { tokens: Some(amount), ..SessionLimits::default() })),
        ),
        (LimitKind::Cost, 1_400, cost, Box::new(|amount| own(of_cost(amount)))),
        (LimitKind::CostAbove, 2_800, cost, Box::new(|amount| above(of_cost(amount)))),
        (LimitKind::CostAbove, 2_800, cost, Box::new(|amount| run(of_cost(amount)))),
        (
            LimitKind::SessionCost,
            2_800,
            cost,
            Box::new(|amount| session(SessionLimits { cost_usd: usd(amount), ..SessionLimits::default() })),
        ),
    ];
    for (kind, used, needed, allow) in cases {
        let enough = ahead(&begun(allow(used + needed)), "0/1.1/1.1", &calls);
        assert!(enough.is_ok(), "{kind}: {enough:?}");
        let error = ahead(&begun(allow(used + needed - 1)), "0/1.1/1.1", &calls).unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitReached, "{kind}");
        assert!(error.message.starts_with(&format!("{kind} leaves no room: ")), "{}", error.message);
        let is_money = matches!(kind, LimitKind::Cost | LimitKind::CostAbove | LimitKind::SessionCost);
        let shown = |amount: u64| if is_money { json!(Money::from_picos(amount).as_usd()) } else { json!(amount) };
        let [allowed, used, needed] = [used + needed - 1, used, needed].map(shown);
        let detail = json!({"limit": kind, "allowed": allowed, "used": used, "needed": needed});
        assert_eq!(error.detail.value(), detail, "{kind}");
    }
    let turns = SessionLimits { turns: Some(4), ..SessionLimits::default() };
    let both = Allowed { run: number(|limits| &mut limits.turns, 4), session: turns, ..Allowed::default() };
    let error = ahead(&begun(both), "0/1.1/1.1", &calls).unwrap_err();
    assert_eq!(error.detail.value()["limit"], json!(LimitKind::RunTurns), "of two limits that leave as much, that of the run");
}

#[test]
fn code_that_has_made_calls_is_not_compared_with_the_limits_again() {
    let of_children = Limits { children: Some(0), ..Limits::default() };
    let mut sim = begun(Allowed { own: of_children, ..Allowed::default() });
    assert!(ahead(&sim, "0/1.1/1.1", &[long_route()]).is_err());
    sim.makes("0/1.1/1.1", "l", call("look", "c")).unwrap();
    assert_eq!(ahead(&sim, "0/1.1/1.1", &[long_route()]).unwrap().tasks, 1, "a part of the limits is used by these calls");
    assert!(ahead(&sim, "0/1.1/1.2", &[long_route()]).is_err(), "the code of the other call has made none");
    sim.release("flow");
    sim.release("flow");
    assert_eq!(ahead(&sim, "0/1.1/1.1", &[long_route()]).unwrap(), Least::default(), "it runs no more");
    sim.assert_over();
}
