//! Models that are not available, and those that are asked in their place.

use baton_types::call::{CallError, CallStatus, ErrorCode};
use baton_types::entry::{ControlAction, Entry};
use baton_types::event::Event;
use baton_types::id::TaskId;
use baton_types::limits::Limits;
use baton_types::model::{ModelTurn, Usage};
use baton_types::money::{Money, Price};
use expect_test::expect;

use crate::support::jobs::JobDraft;
use crate::support::script::{Answer, Prompted, error};
use crate::support::{Sim, agent, call, check, function, handoff, job, route, turn};

/// Returns an agent on `script`, which falls back to `second` and then to `third`.
fn with_fallbacks() -> JobDraft {
    let price = |output| Price {
        input: Money::from_picos(1),
        cached_input: Money::from_picos(1),
        output: Money::from_picos(output),
        source: "a test".to_owned(),
        context_tokens: None,
        output_tokens: None,
        is_estimate: false,
    };
    let root = agent("root", "work").settings(serde_json::json!({"max_tokens": 100}));
    job([root])
        .tool(function("work"))
        .fallbacks("script", &["second", "third"])
        .price("script", price(2))
        .price("second", price(7))
        .price("third", price(3))
}

/// Uses up what was reserved for it.
fn spending_all(prompted: &Prompted<'_>, said: ModelTurn) -> ModelTurn {
    let usage = Usage { input_tokens: prompted.input, output_tokens: prompted.reserved - prompted.input, ..Usage::default() };
    ModelTurn { usage: Some(usage), ..said }
}

fn unavailable() -> Answer {
    Err(error(ErrorCode::ModelUnavailable))
}

#[test]
fn a_model_that_is_not_available_gives_way_to_the_next_and_is_asked_again_in_the_next_turn() {
    let sim = Sim::new(&with_fallbacks())
        .agent_with("root", |prompted| match (prompted.turn, prompted.request.model.as_str()) {
            (1, "third") => Ok(spending_all(prompted, turn([call("work", "a")]))),
            (2, "script") => Ok(turn([handoff("done")])),
            _ => unavailable(),
        })
        .start();
    sim.assert_over();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1 asks second instead of script: model_unavailable
        0 turn 1 asks third instead of second: model_unavailable
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
    let asked = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(asked) => Some(asked.clone()),
        _ => None,
    });
    let settled = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::BudgetSettled(settled) => settled.cost,
        _ => None,
    });
    let asked = asked.unwrap();
    assert_eq!(asked.reserved_cost.picos(), asked.input_tokens + 100 * 7, "the dearest of all that may be asked");
    assert_eq!(settled.unwrap().picos(), asked.input_tokens + 100 * 3, "the price of the one that answered");
}

#[test]
fn where_nobody_is_left_and_where_the_request_is_at_fault_the_task_fails() {
    for (code, asked) in [(ErrorCode::ModelUnavailable, 3), (ErrorCode::ModelFailed, 1)] {
        let sim = Sim::new(&with_fallbacks()).agent_with("root", move |_| Err(error(code))).start();
        sim.assert_over();
        let fallen = sim.timeline.iter().filter(|recorded| matches!(recorded.entry, Entry::FellBack(_))).count();
        assert_eq!(fallen + 1, asked, "{code:?}");
        let result = sim.ledger.tasks[&TaskId::root()].result.clone().unwrap();
        assert_eq!((result.status, result.error.as_ref().map(|error| error.code)), (CallStatus::Failed, Some(code)));
    }
}

#[test]
fn a_second_word_of_a_model_that_has_given_way_changes_nothing() {
    let mut sim = Sim::new(&with_fallbacks()).agent_with("root", |prompted| match prompted.request.model.as_str() {
        "second" => Ok(turn([handoff("done")])),
        _ => unavailable(),
    });
    sim.begin(Vec::new());
    sim.step();
    let told = |model: &str| Event::ModelFailed {
        task: TaskId::root(),
        turn: 1,
        model: model.to_owned(),
        error: CallError::new(ErrorCode::ModelUnavailable, "it went wrong"),
        uncharged: false,
    };
    for model in ["script", "third", "nobody"] {
        sim.event(told(model)).unwrap();
        let last = &sim.timeline.last().unwrap().entry;
        let is_late = matches!(last, Entry::Control(control) if matches!(control.action, ControlAction::Late { .. }));
        assert!(is_late, "{model}: {last:?}");
    }
    assert_eq!(sim.pending.len(), 1, "the fallback is still asked");
    sim.settle();
    sim.assert_over();
}

#[test]
fn a_crash_while_a_fallback_is_asked_begins_with_the_first_again() {
    let mut sim = Sim::new(&with_fallbacks()).agent_with("root", |prompted| match prompted.request.model.as_str() {
        "second" => Ok(turn([handoff("done")])),
        _ => unavailable(),
    });
    sim.begin(Vec::new());
    sim.step();
    sim.crash();
    sim.settle();
    sim.assert_over();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1 asks second instead of script: model_unavailable
        engine → run: taken over
        0 turn 1 asked
        0 turn 1 asks second instead of script: model_unavailable
        0 turn 1: handoff
        0/1.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn a_limit_of_money_holds_for_the_dearest_that_may_be_asked() {
    // Enough for a turn and a last one of the model that answers first, and not of the one it may fall back to.
    let tight = |picos: u64| {
        let limits = Limits { cost_usd: Some(Money::from_picos(picos).as_usd()), ..Limits::default() };
        let sim = Sim::new(&with_fallbacks().limits(limits))
            .agent_with("root", |prompted| match prompted.request.model.as_str() {
                "second" => Ok(spending_all(prompted, turn([handoff("done")]))),
                _ => unavailable(),
            })
            .start();
        sim.assert_over();
        let spent = sim.ledger.money(&TaskId::root());
        assert!(spent <= u128::from(picos), "{spent} of {picos}");
        sim.timeline.iter().filter(|recorded| matches!(recorded.entry, Entry::FellBack(_))).count()
    };
    assert_eq!(tight(100_000), 1);
    assert_eq!(tight(600), 0, "what the fallback may cost is not there, so nobody is asked");
}

#[test]
fn a_model_for_the_whole_run_replaces_every_model_and_no_program() {
    for is_program in [true, false] {
        let worker = agent("worker", "").model("two");
        let worker = if is_program { worker.works_by_program() } else { worker };
        let draft = job([agent("root", "route_to_worker").model("one"), worker]);
        let sim = Sim::new(&draft)
            .agent("root", [turn([route("worker", "work")]), turn([handoff("done")])])
            .agent("worker", [turn([handoff("worked")])])
            .with_model("other")
            .start();
        let asked = sim.entries().filter_map(|entry| match entry {
            Entry::ModelRequested(requested) => Some(requested.model.as_str()),
            _ => None,
        });
        let of_worker = if is_program { "two" } else { "other" };
        assert_eq!(asked.collect::<Vec<_>>(), ["other", of_worker, "other"]);
        sim.assert_over();
    }
}
