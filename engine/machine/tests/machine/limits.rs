//! Limits: checked before the act, kept at all times, and reached with what there is (`limits_hold`).

use std::sync::Arc;

use baton_machine::Run;
use baton_types::call::{CallStatus, ErrorCode};
use baton_types::entry::{Entry, FinalState, Notice, Recorded};
use baton_types::event::Outcome;
use baton_types::id::TaskId;
use baton_types::limits::{LimitKind, Limits};
use baton_types::message::Part;
use baton_types::model::{ModelTurn, Usage};
use serde_json::json;

use crate::support::jobs::{AgentDraft, JobDraft, ToolDraft};
use crate::support::script::{Answer, Prompted};
use crate::support::{Sim, agent, ask, call, call_with, function, handoff, job, print, route, says, turn};

fn no_limits() -> Limits {
    Limits::default()
}

fn refused<'a>(calls: &[&'a str]) -> Vec<(&'a str, ErrorCode)> {
    calls.iter().map(|call| (*call, ErrorCode::LimitReached)).collect()
}

#[test]
fn a_delegation_that_would_be_too_deep_is_refused() {
    for (of_the_run, of_the_agent) in [(Some(2), None), (None, Some(2)), (Some(5), Some(2)), (Some(2), Some(5))] {
        let draft = job([agent("root", "route_to_root").limits(Limits { depth: of_the_agent, ..no_limits() })])
            .limits(Limits { depth: of_the_run, ..no_limits() });
        let sim = Sim::new(&draft).agent("root", [turn([route("root", "deeper")]), turn([handoff("back")])]).start();
        sim.assert_over();
        assert_eq!(sim.refusals(), refused(&["0/1.1/1.1/1.1"]), "run {of_the_run:?}, agent {of_the_agent:?}");
        assert_eq!(sim.ledger.tasks.len(), 3, "depth 0, 1 and 2");
    }
}

#[test]
fn a_depth_of_none_allows_no_delegation() {
    let draft = job([agent("root", "route_to_child"), agent("child", "")]).limits(Limits { depth: Some(0), ..no_limits() });
    let sim = Sim::new(&draft).agent("root", [turn([route("child", "x")]), turn([handoff("done")])]).start();
    assert_eq!(sim.refusals(), refused(&["0/1.1"]));
    sim.assert_over();
}

#[test]
fn more_children_than_allowed_are_refused_over_the_whole_life_of_the_task() {
    let draft = job([agent("root", "route_to_child").limits(Limits { children: Some(3), ..no_limits() }), agent("child", "")]);
    let sim = Sim::new(&draft)
        .agent(
            "root",
            [
                turn([route("child", "1"), route("child", "2")]),
                turn([route("child", "3"), route("child", "4")]),
                turn([handoff("done")]),
            ],
        )
        .agent("child", [turn([handoff("child")])])
        .start();
    sim.assert_over();
    assert_eq!(sim.refusals(), refused(&["0/2.2"]));
}

#[test]
fn too_many_children_of_one_turn_are_refused_before_anything_of_it_runs() {
    let draft =
        job([agent("root", "work route_to_child").limits(Limits { children: Some(1), ..no_limits() }), agent("child", "")])
            .tool(function("work"));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a"), route("child", "1"), route("child", "2")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("child")])])
        .holding("work")
        .start();
    assert_eq!(sim.refusals(), refused(&["0/1.3"]), "rule 1: every call is checked when the turn arrives");
    sim.release("work");
    assert_eq!(sim.refusals(), refused(&["0/1.3"]));
    sim.assert_over();
}

#[test]
fn a_task_that_would_be_one_too_many_alive_is_refused_and_admitted_once_another_has_ended() {
    let draft = job([agent("root", "route_to_child"), agent("child", "")]).limits(Limits { live_tasks: Some(3), ..no_limits() });
    let sim = Sim::new(&draft)
        .agent(
            "root",
            [
                turn((0..4).map(|mark| route("child", &mark.to_string()))),
                turn([route("child", "later")]),
                turn([handoff("done")]),
            ],
        )
        .agent("child", [turn([handoff("child")])])
        .start();
    sim.assert_over();
    assert_eq!(sim.refusals(), refused(&["0/1.3", "0/1.4"]));
    assert_eq!(sim.ledger.tasks.len(), 4);
}

#[test]
fn each_task_keeps_its_last_turn_when_the_run_is_out_of_turns() {
    for turns in 1..12 {
        let draft = job([agent("root", "work route_to_child"), agent("child", "work")])
            .tool(function("work"))
            .limits(Limits { turns: Some(turns), ..no_limits() });
        let busy = |prompted: &Prompted<'_>| {
            let last = is_last(prompted);
            let delegate = prompted.turn == 2 && prompted.request.agent.as_str() == "root";
            Ok(match (last, delegate) {
                (true, _) => turn([handoff("what I have")]),
                (false, true) => turn([route("child", "a"), route("child", "b")]),
                (false, false) => turn([call("work", &prompted.turn.to_string())]),
            })
        };
        let sim = Sim::new(&draft).agent_with("root", busy).agent_with("child", busy).start();
        sim.assert_over();
        assert_eq!(sim.ledger.turns, turns, "all turns are used and none more:\n{}", print::timeline(&sim.timeline));
        for (id, book) in &sim.ledger.tasks {
            let result = book.result.as_ref().expect("every task has ended");
            assert_eq!(result.status, CallStatus::Partial, "{id} of {turns}");
            assert_eq!(result.output.text(), "\"what I have\"", "{id} had its last turn, of {turns}");
        }
    }
}

#[test]
fn questions_do_not_take_the_turns_set_aside_for_others() {
    for turns in 1..12 {
        let draft = job([agent("root", "route_to_child"), agent("child", "ask_master")])
            .limits(Limits { turns: Some(turns), ..no_limits() });
        let asking = |prompted: &Prompted<'_>| {
            let last = is_last(prompted);
            let calls = if prompted.request.agent.as_str() == "root" {
                vec![route("child", "a"), route("child", "b")]
            } else {
                vec![ask("?")]
            };
            Ok(if last { turn([handoff("what I have")]) } else { turn(calls) })
        };
        let sim = Sim::new(&draft)
            .agent_with("root", asking)
            .agent_with("child", asking)
            .answers_with("root", |_| Ok(says("an answer")))
            .start();
        sim.assert_over();
        assert!(sim.ledger.turns <= turns, "{} turns of {turns} allowed:\n{}", sim.ledger.turns, print::timeline(&sim.timeline));
    }
}

#[test]
fn the_last_turn_is_announced_with_the_limit_and_offers_a_handoff_only() {
    let draft = job([agent("root", "work").limits(Limits { turns: Some(2), ..no_limits() })]).tool(function("work"));
    let sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([call("work", "b")])]).start();
    sim.assert_over();
    let request = sim.request("0");
    let last = request.messages.last().and_then(|message| message.parts.last().cloned());
    assert_eq!(last, Some(Part::Notice(Notice::LastTurn { limit: LimitKind::Turns })));
    assert_eq!(request.tools.iter().map(|tool| tool.id.as_str()).collect::<Vec<_>>(), ["handoff"]);
    assert_eq!(sim.refusals(), refused(&["0/2.1"]), "what is not offered is refused");
    let end = sim.timeline.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::RunEnded(ended) => Some(ended.clone()),
        _ => None,
    });
    let end = end.expect("the run has ended");
    assert_eq!((end.state, end.status, end.limit), (FinalState::Completed, CallStatus::Partial, Some(LimitKind::Turns)));
}

#[test]
fn limits_of_the_tool_that_delegates_come_before_those_of_the_agent() {
    let tight = ToolDraft::route("child").limits(Limits { turns: Some(1), ..no_limits() });
    let draft = job([agent("root", "route_to_child"), agent("child", "work").limits(Limits { turns: Some(50), ..no_limits() })])
        .tools([function("work"), tight]);
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "x")])])
        .start();
    sim.assert_over();
    assert_eq!(sim.task("0/1.1").result.as_ref().map(|result| result.status), Some(CallStatus::Partial));
}

/// Usage of a turn, compared with its reservation.
#[derive(Clone, Copy)]
enum Spends {
    /// All of it: the worst case.
    All,
    /// These many tokens of the request and of the answer.
    Tokens(u64, u64),
}

/// Returns a model that makes `calls` until its last turn, and reports the usage of its turns.
fn spending(calls: impl Fn(u32) -> ModelTurn + 'static, spends: Spends) -> impl FnMut(&Prompted<'_>) -> Answer {
    move |prompted| {
        let turn = if is_last(prompted) { turn([handoff("what I have")]) } else { calls(prompted.turn) };
        let (input_tokens, output_tokens) = match spends {
            Spends::All => (prompted.reserved - 1, 1),
            Spends::Tokens(input, output) => (input, output),
        };
        Ok(ModelTurn { usage: Some(Usage { input_tokens, output_tokens, ..Usage::default() }), ..turn })
    }
}

/// Whether the turn offers a handoff only.
fn is_last(prompted: &Prompted<'_>) -> bool {
    prompted.request.tools.iter().all(|tool| tool.id.as_str() == "handoff")
}

fn frugal(id: &str, tools: &str) -> AgentDraft {
    agent(id, tools).settings(json!({"max_tokens": 100}))
}

fn tokens(tokens: u64) -> Limits {
    Limits { tokens: Some(tokens), ..no_limits() }
}

/// Runs `sim`. Checks after every batch that usage and reservations stay within `limit` for `top` and all tasks below
/// it.
fn run_within(sim: &mut Sim, top: &str, limit: u64) {
    sim.begin(Vec::new());
    loop {
        let used = sim.ledger.tokens(&top.into());
        assert!(used <= limit, "{top} and all below it hold {used} of {limit} tokens:\n{}", print::timeline(&sim.timeline));
        if !sim.step() {
            return;
        }
    }
}

#[test]
fn parallel_tasks_never_overshoot_the_tokens_of_the_run() {
    for limit in (200..6_000).step_by(290) {
        for seed in 0..3 {
            let draft =
                job([frugal("root", "route_to_child"), frugal("child", "work")]).tool(function("work")).limits(tokens(limit));
            let mut sim = Sim::new(&draft)
                .agent_with(
                    "root",
                    spending(|mark| turn((0..8).map(|child| route("child", &format!("{mark} {child}")))), Spends::All),
                )
                .agent_with("child", spending(|mark| turn([call("work", &mark.to_string())]), Spends::All))
                .by_chance(seed);
            run_within(&mut sim, "0", limit);
            sim.assert_over();
            assert!(sim.ledger.settled.total() <= limit);
        }
    }
}

#[test]
fn parallel_tasks_never_overshoot_the_tokens_of_a_task_above_them() {
    for limit in (300..4_000).step_by(310) {
        let draft = job([
            frugal("root", "route_to_middle"),
            frugal("middle", "route_to_child").limits(tokens(limit)),
            frugal("child", "work").limits(tokens(1_500)),
        ])
        .tool(function("work"));
        let mut sim = Sim::new(&draft)
            .agent("root", [turn([route("middle", "x")]), turn([handoff("done")])])
            .agent_with(
                "middle",
                spending(|mark| turn((0..5).map(|child| route("child", &format!("{mark} {child}")))), Spends::All),
            )
            .agent_with("child", spending(|mark| turn([call("work", &mark.to_string())]), Spends::All))
            .by_chance(limit);
        sim.begin(Vec::new());
        loop {
            let middle = sim.ledger.tasks.keys().find(|id| id.as_str() == "0/1.1");
            assert!(middle.is_none_or(|middle| sim.ledger.tokens(middle) <= limit), "limit {limit}");
            for child in sim.ledger.tasks.keys().filter(|id| id.as_str().starts_with("0/1.1/")) {
                assert!(sim.ledger.tokens(child) <= 1_500, "{child}");
            }
            if !sim.step() {
                break;
            }
        }
        sim.assert_over();
        assert_eq!(sim.task("0").ended, Some(FinalState::Completed), "the root is not held to its child's limit");
        assert_eq!(sim.task("0").result.as_ref().map(|result| result.status), Some(CallStatus::Success));
    }
}

#[test]
fn a_request_that_only_others_reservations_hinder_waits_and_is_made_later() {
    // Room for one worst case at a time, and for more once it is settled for much less.
    let draft = job([frugal("root", "route_to_child"), frugal("child", "")]).limits(tokens(2_000));
    let mut sim = Sim::new(&draft)
        .agent_with(
            "root",
            spending(
                |turns| {
                    if turns == 1 {
                        turn((0..12).map(|child| route("child", &child.to_string())))
                    } else {
                        turn([handoff("done")])
                    }
                },
                Spends::Tokens(10, 10),
            ),
        )
        .agent_with("child", spending(|_| turn([handoff("child")]), Spends::Tokens(10, 10)));
    run_within(&mut sim, "0", 2_000);
    sim.assert_over();
    let successes =
        sim.ledger.tasks.values().filter(|book| book.result.as_ref().is_some_and(|result| result.status == CallStatus::Success));
    assert_eq!(successes.count(), 13, "all of them were done in the end:\n{}", print::timeline(&sim.timeline));
}

#[test]
fn the_token_limit_leaves_a_last_turn_to_whoever_reaches_it() {
    let draft = job([frugal("root", "work").limits(tokens(3_000))]).tool(function("work"));
    let mut sim = Sim::new(&draft).agent_with("root", spending(|mark| turn([call("work", &mark.to_string())]), Spends::All));
    run_within(&mut sim, "0", 3_000);
    sim.assert_over();
    let result = sim.task("0").result.clone().expect("it has ended");
    assert_eq!((result.status, &*result.output.text()), (CallStatus::Partial, "\"what I have\""));
}

#[test]
fn what_models_used_is_what_the_timeline_settles() {
    let draft = job([agent("root", "route_to_child"), agent("child", "work")]).tool(function("work"));
    let sim = Sim::new(&draft)
        .agent_with(
            "root",
            spending(
                |turns| if turns == 1 { turn([route("child", "a"), route("child", "b")]) } else { turn([handoff("done")]) },
                Spends::Tokens(11, 7),
            ),
        )
        .agent_with(
            "child",
            spending(|turns| if turns == 1 { turn([call("work", "a")]) } else { turn([handoff("done")]) }, Spends::Tokens(5, 3)),
        )
        .start();
    sim.assert_over();
    assert_eq!(sim.ledger.settled, sim.used, "books_balance");
    assert_eq!(sim.run.totals().usage, sim.used);
}

/// Returns a root that makes the same call again and again until it is refused.
fn repeating(repeats: Option<u32>) -> (JobDraft, ModelTurn) {
    let draft =
        job([agent("root", "work other").limits(Limits { repeats, ..no_limits() })]).tools([function("work"), function("other")]);
    (draft, turn([call("work", "same")]))
}

#[test]
fn the_same_call_with_the_same_result_is_hinted_at_from_two_and_refused_after_the_limit() {
    let (draft, again) = repeating(Some(3));
    let turns = std::iter::repeat_n(again, 5).chain([turn([handoff("done")])]);
    let sim = Sim::new(&draft).agent("root", turns).tool("work", |_| Outcome::success(json!("same"))).start();
    sim.assert_over();
    assert_eq!(sim.refusals(), [("0/4.1", ErrorCode::Repeated), ("0/5.1", ErrorCode::Repeated)], "three times are allowed");
    let request = sim.request("0");
    let hinted: Vec<bool> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::Result { hint, .. } => Some(hint.is_some()),
            _ => None,
        })
        .collect();
    assert_eq!(hinted, [false, true, true, false, false], "a refused call has its own text");
    let blocks: Vec<String> = request
        .messages
        .iter()
        .map(|message| baton_types::message::message_blocks(message, &|_| None).to_string())
        .filter(|text| text.contains("tool_result"))
        .collect();
    let hinted: Vec<bool> = blocks.iter().map(|block| block.contains("hint")).collect();
    assert_eq!(hinted[..3], [false, true, true], "{blocks:?}");
}

#[test]
fn another_input_another_result_or_another_tool_between_starts_the_count_again() {
    let (draft, again) = repeating(Some(2));
    let other_input = turn([call("work", "different")]);
    let other_tool = turn([call("other", "same")]);
    for between in [other_input, other_tool] {
        let turns = [again.clone(), again.clone(), between, again.clone(), again.clone(), turn([handoff("done")])];
        let sim = Sim::new(&draft)
            .agent("root", turns)
            .tool("work", |_| Outcome::success(json!("same")))
            .tool("other", |_| Outcome::success(json!("same")))
            .start();
        assert!(sim.refusals().is_empty());
        sim.assert_over();
    }
    let turns = std::iter::repeat_n(again, 6).chain([turn([handoff("done")])]);
    let sim = Sim::new(&draft).agent("root", turns).start();
    assert!(sim.refusals().is_empty(), "results that differ are no repetition");
    sim.assert_over();
}

#[test]
fn a_result_that_is_too_large_is_an_error_that_says_so() {
    let draft = job([agent("root", "work").limits(Limits { result_bytes: Some(100), ..no_limits() })]).tool(function("work"));
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "fits"), call("work", "does not")]), turn([handoff("done")])])
        .tool("work", |execution| {
            let length = if execution.call.as_str() == "0/1.1" { 98 } else { 99 };
            Outcome::success(json!("x".repeat(length)))
        })
        .start();
    sim.assert_over();
    let results: Vec<(CallStatus, Option<ErrorCode>)> = sim
        .timeline
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::CallFinished(finished) if finished.tool == "work" => {
                Some((finished.result.status, finished.result.error.as_ref().map(|error| error.code)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(results, [(CallStatus::Success, None), (CallStatus::Failed, Some(ErrorCode::LimitReached))]);
}

#[test]
fn worked_seconds_count_work_and_not_the_wait_for_a_person() {
    let draft =
        job([agent("root", "work ask_master").limits(Limits { worked_seconds: Some(60), ..no_limits() })]).tool(function("work"));
    let mut sim = Sim::new(&draft).agent("root", [turn([ask("?")]), turn([call("work", "a")]), turn([handoff("done")])]).start();
    sim.wait(100_000);
    sim.person_answers("0/1.1", "yes").expect("the question is open");
    sim.assert_over();
    assert_eq!(sim.task("0").result.as_ref().map(|result| result.status), Some(CallStatus::Success));

    let mut sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("late")])]).holding("work").start();
    sim.wait(61);
    sim.release("work");
    sim.assert_over();
    let ended = sim.task("0").result.clone().expect("it has ended");
    assert_eq!(ended.status, CallStatus::Partial);
    assert_eq!(ended.output.text(), "\"late\"", "its last turn was left to it");
}

#[test]
fn a_deadline_counts_the_wait_for_a_person() {
    let draft = job([agent("root", "ask_master").limits(Limits { deadline_seconds: Some(60), ..no_limits() })]);
    let mut sim = Sim::new(&draft).agent("root", [turn([ask("?")])]).start();
    sim.wait(61);
    sim.assert_over();
    assert_eq!(sim.task("0").ended, Some(FinalState::TimedOut));
}

#[test]
fn the_deadline_of_the_run_ends_all_of_it() {
    let draft = job([agent("root", "route_to_child"), agent("child", "work")])
        .tool(function("work"))
        .limits(Limits { deadline_seconds: Some(30), ..no_limits() });
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "a"), route("child", "b")])])
        .agent("child", [turn([call("work", "a")])])
        .holding("work")
        .start();
    sim.wait(31);
    sim.assert_over();
    assert_eq!(sim.task("0").ended, Some(FinalState::TimedOut));
    assert_eq!(sim.stopped.len(), 2, "what ran was stopped");
}

#[test]
fn a_delegation_ping_pong_is_stopped_by_limits_with_everything_finished() {
    let draft =
        job([agent("ping", "route_to_pong"), agent("pong", "route_to_ping")]).limits(Limits { turns: Some(400), ..no_limits() });
    let again = |other: &'static str| move |_: &Prompted<'_>| Ok(turn([route(other, "your turn")]));
    let sim = Sim::new(&draft).agent_with("ping", again("pong")).agent_with("pong", again("ping")).start();
    sim.assert_over();
    let deepest = sim.ledger.tasks.values().map(|book| book.created.depth).max();
    assert_eq!(deepest, Some(16), "the depth that a run has by default");
    assert!(sim.ledger.turns <= 400, "{} turns", sim.ledger.turns);
}

#[test]
fn an_exponential_spawner_is_stopped_by_limits_with_everything_finished() {
    let limits = Limits { live_tasks: Some(50), turns: Some(300), ..no_limits() };
    let draft = job([agent("spawner", "route_to_spawner")]).limits(limits);
    for seed in 0..5 {
        let mut sim = Sim::new(&draft)
            .agent_with("spawner", |_| Ok(turn((0..5).map(|child| route("spawner", &child.to_string())))))
            .by_chance(seed);
        sim.begin(Vec::new());
        loop {
            let live = sim.ledger.live_tasks().count();
            assert!(live <= 50, "{live} tasks live");
            if !sim.step() {
                break;
            }
        }
        sim.assert_over();
        assert!(sim.ledger.turns <= 300, "{} turns", sim.ledger.turns);
    }
}

#[test]
fn a_question_whose_holder_used_its_last_turn_does_not_go_on_to_another_agent_for_one_more() {
    let ask = call_with("ask_master", json!({"question": "?", "deadline_seconds": 10, "on_deadline": "escalate"}));
    for (turns, escalates) in [(7, false), (8, true)] {
        let draft =
            job([agent("root", "route_to_child"), agent("child", "route_to_grandchild"), agent("grandchild", "ask_master")])
                .limits(Limits { turns: Some(turns), ..no_limits() });
        let mut sim = Sim::new(&draft)
            .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
            .agent("child", [turn([route("grandchild", "x")]), turn([handoff("done")])])
            .agent("grandchild", [turn([ask.clone()]), turn([handoff("done")])])
            .answers("root", [turn([handoff("yes")])]);
        sim.begin(Vec::new());
        for _ in 0..3 {
            assert!(sim.step(), "root, child and grandchild take their first turns");
        }
        sim.wait(20);
        sim.assert_over();
        assert_eq!(
            sim.ledger.questions.len(),
            1 + usize::from(escalates),
            "of {turns} turns:\n{}",
            print::timeline(&sim.timeline)
        );
        assert!(sim.ledger.turns <= turns);
    }
}

#[test]
fn a_result_that_is_not_counted_leaves_the_repeats_before_it_as_they_are() {
    let draft = job([agent("root", "work")]).tool(function("work"));
    let calls = [turn([call("work", "a")]), turn([call("work", "b")]), turn([handoff("done")])];
    let sim = Sim::new(&draft).agent("root", calls).start();
    sim.assert_over();
    let second = |entry: &Entry| matches!(entry, Entry::CallFinished(finished) if finished.call == "0/2.1");
    let until = sim.timeline.iter().position(|recorded| second(&recorded.entry)).expect("it finished");
    let mut timeline = sim.timeline[..=until].to_vec();
    let streak = |timeline: &[Recorded]| {
        let run = Run::fold(Arc::clone(&sim.configs), timeline);
        let streak = run.task(&TaskId::root()).expect("there is a root").work().streak.clone().expect("something was counted");
        streak.asked.input.text().to_owned()
    };
    assert_eq!(streak(&timeline), r#"{"x":"b"}"#);
    if let Entry::CallFinished(finished) = &mut timeline[until].entry {
        finished.repeat = 0;
    }
    assert_eq!(streak(&timeline), r#"{"x":"a"}"#);
}

#[test]
fn a_task_that_waits_for_room_holds_up_nobody_who_has_it() {
    let tight = ToolDraft::route("middle").limits(Limits { tokens: Some(5_000), ..Limits::default() });
    let tokens = json!({"max_tokens": 900});
    let leaf = agent("leaf", "").settings(tokens.clone());
    let slow = agent("slow", "work").settings(tokens);
    let draft = job([
        agent("root", "route_to_middle route_to_slow"),
        agent("middle", "route_to_leaf").settings(json!({"max_tokens": 100})),
        leaf,
        slow,
    ]);
    let mut sim = Sim::new(&draft.tools([function("work"), tight]))
        .agent("root", [turn([route("slow", "x"), route("middle", "y")]), turn([handoff("done")])])
        .agent("middle", [turn([route("leaf", "one"), route("leaf", "two")]), turn([handoff("middle")])])
        .agent("leaf", [turn([handoff("leaf")])])
        .agent("slow", [turn([call("work", "a")]), turn([handoff("slow")])])
        .holding("work");
    sim.begin(Vec::new());
    let state = |sim: &Sim, task: &str| sim.run.task(&task.into()).map(|task| task.phase.as_str());
    while state(&sim, "0/1.2/1.2") != Some("ready") {
        assert!(sim.step(), "the second leaf never waits for what is reserved for the first");
    }
    assert_eq!(state(&sim, "0/1.2/1.1"), Some("asking"));
    sim.returned("0/1.1/1.1", Outcome::success(json!("worked"))).unwrap();
    assert_eq!(state(&sim, "0/1.2/1.2"), Some("ready"), "there is still no room for it");
    assert_eq!(state(&sim, "0/1.1"), Some("asking"), "nothing limits what came after it");
    sim.settle();
    sim.assert_over();
}
