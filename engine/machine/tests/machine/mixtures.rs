//! Every mixture of two or three calls in one turn has the outcome that the turn rules of docs/RULES.md give it.

use baton_types::call::{CallStatus, ErrorCode, ModelCall};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{CallId, TaskId};
use baton_types::message::{Part, Role};
use baton_types::tool_type::ToolType;
use serde_json::json;

use crate::oracle::{Fate, Kind, Next, mixtures, row};
use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, ask, call, call_with, function, handoff, job, malformed, note, print, route, says, tool, turn};

/// Flaw of the invalid call.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    UnknownTool,
    NotGranted,
    BreaksSchema,
    NotJson,
}

impl Flaw {
    const ALL: [Self; 4] = [Self::UnknownTool, Self::NotGranted, Self::BreaksSchema, Self::NotJson];

    fn call(self) -> ModelCall {
        match self {
            Self::UnknownTool => call("no_such_tool", "a"),
            Self::NotGranted => call("withheld", "a"),
            Self::BreaksSchema => call_with("work", json!({"x": 1})),
            Self::NotJson => malformed("work"),
        }
    }

    fn code(self) -> ErrorCode {
        match self {
            Self::UnknownTool | Self::NotGranted => ErrorCode::UnknownTool,
            Self::BreaksSchema => ErrorCode::InvalidInput,
            Self::NotJson => ErrorCode::MalformedInput,
        }
    }
}

/// Returns a root that delegates to the agent whose turn is mixed, which may call a worker and ask the root.
fn three_agents() -> JobDraft {
    job([agent("root", "route_to_mixer"), agent("mixer", "work jot ask_master route_to_worker"), agent("worker", "")]).tools([
        function("work"),
        function("withheld"),
        note("jot"),
    ])
}

fn call_of(kind: Kind, flaw: Flaw, position: usize) -> ModelCall {
    let mark = position.to_string();
    match kind {
        Kind::Function => call("work", &mark),
        Kind::Note => call("jot", &mark),
        Kind::Handoff => handoff("mixed"),
        Kind::Delegate => route("worker", &mark),
        Kind::Ask => ask(&mark),
        Kind::Invalid => flaw.call(),
    }
}

fn run_mixture(draft: &JobDraft, kinds: &[Kind], flaw: Flaw, seed: Option<u64>) -> Sim {
    let calls = kinds.iter().enumerate().map(|(position, kind)| call_of(*kind, flaw, position));
    let sim = Sim::new(draft)
        .agent("root", [turn([route("mixer", "mix")]), turn([handoff("done")])])
        .agent("mixer", [turn(calls), turn([handoff("prompted")])])
        .agent("worker", [turn([handoff("worked")])])
        .answers("root", [says("answered")]);
    match seed {
        Some(seed) => sim.by_chance(seed).start(),
        None => sim.start(),
    }
}

/// Entries about one call.
#[derive(Debug, Default)]
struct Traces {
    started: Option<usize>,
    refused: Option<(usize, ErrorCode)>,
    finished: Option<(usize, CallStatus)>,
}

fn traces(timeline: &[Recorded], call: &CallId) -> Traces {
    let mut traces = Traces::default();
    for (place, recorded) in timeline.iter().enumerate() {
        match &recorded.entry {
            Entry::CallStarted(entry) if entry.call == *call => traces.started = Some(place),
            Entry::CallRefused(entry) if entry.call == *call => traces.refused = Some((place, entry.error.code)),
            Entry::CallFinished(entry) if entry.call == *call => traces.finished = Some((place, entry.result.status)),
            _ => {}
        }
    }
    traces
}

fn check_mixture(draft: &JobDraft, kinds: &[Kind], flaw: Flaw, seed: Option<u64>) {
    let sim = run_mixture(draft, kinds, flaw, seed);
    sim.assert_over();
    let context = format!("{kinds:?} with {flaw:?}, seed {seed:?}:\n{}", print::timeline(&sim.timeline));
    let expected = row(kinds);
    let mixer = TaskId::from("0/1.1");
    let ids: Vec<CallId> = (1..=kinds.len()).map(|position| mixer.call(1, position as u32)).collect();
    let seen: Vec<Traces> = ids.iter().map(|id| traces(&sim.timeline, id)).collect();

    for ((kind, fate), traces) in kinds.iter().zip(&expected.fates).zip(&seen) {
        match fate {
            Fate::Success => {
                assert_eq!(traces.finished.map(|(_, status)| status), Some(CallStatus::Success), "{kind:?} in {context}");
                assert!(traces.refused.is_none(), "{kind:?} in {context}");
            }
            Fate::Refused => {
                let code = if *kind == Kind::Invalid { flaw.code() } else { ErrorCode::HandoffRefused };
                assert_eq!(traces.refused.map(|(_, code)| code), Some(code), "{kind:?} in {context}");
                assert!(traces.started.is_none() && traces.finished.is_none(), "{kind:?} in {context}");
            }
        }
    }

    check_order(kinds, &seen, &context);
    check_end(&sim, &mixer, expected.next, kinds.len(), &context);
}

/// Checks at once, then functions in call order, then delegations, questions and the handoff in call order.
fn check_order(kinds: &[Kind], seen: &[Traces], context: &str) {
    let places = |wanted: &dyn Fn(Kind) -> bool, place: &dyn Fn(&Traces) -> Option<usize>| -> Vec<usize> {
        kinds.iter().zip(seen).filter(|(kind, _)| wanted(**kind)).filter_map(|(_, traces)| place(traces)).collect()
    };
    let refused = |traces: &Traces| traces.refused.map(|(place, _)| place);
    let finished = |traces: &Traces| traces.finished.map(|(place, _)| place);
    let begins = |traces: &Traces| traces.started.or(refused(traces)).or(finished(traces));

    let checked = places(&|kind| kind == Kind::Invalid, &refused);
    let functions_begin = places(&|kind| kind == Kind::Function, &begins);
    let functions_end = places(&|kind| kind == Kind::Function, &finished);
    let last = places(&Kind::acts_last, &begins);
    assert!(functions_begin.is_sorted(), "functions begin in call order in {context}");
    assert!(last.is_sorted(), "what acts last acts in call order in {context}");
    for earlier in &checked {
        assert!(functions_end.iter().chain(&last).all(|later| earlier < later), "calls are checked first in {context}");
    }
    for earlier in &functions_end {
        assert!(
            last.iter().all(|later| earlier < later),
            "functions end before delegations, questions and handoffs in {context}"
        );
    }
}

fn check_end(sim: &Sim, mixer: &TaskId, next: Next, calls: usize, context: &str) {
    let turns = sim.ledger.tasks[mixer].turns;
    let result = sim.ledger.tasks[mixer].result.as_ref().map(|result| result.output.text().into_owned());
    let (expected_turns, expected_result) = match next {
        Next::Ends => (1, r#""mixed""#),
        Next::Prompted | Next::BlocksThenPrompted => (2, r#""prompted""#),
    };
    assert_eq!(turns, expected_turns, "{context}");
    assert_eq!(result.as_deref(), Some(expected_result), "{context}");
    let delegated = sim.ledger.tasks.keys().filter(|task| sim.ledger.is_below(task, mixer)).count();
    assert_eq!(delegated > 0, next == Next::BlocksThenPrompted, "{context}");
    if expected_turns == 2 {
        // `every_call_has_one_result`, `requests_are_valid`: each call has its one result before the next request, rendered in call order.
        let request = sim.request(mixer.as_str());
        let results = request.messages.iter().find(|message| message.role == Role::Tool).expect("results were rendered");
        let order: Vec<&CallId> = results
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Result { call, .. } => Some(call),
                _ => None,
            })
            .collect();
        let expected: Vec<CallId> = (1..=calls).map(|position| mixer.call(1, position as u32)).collect();
        assert_eq!(order, expected.iter().collect::<Vec<_>>(), "{context}");
    }
}

#[test]
fn every_pair_and_triple_of_calls_has_the_outcome_of_the_rules() {
    let (draft, mixtures) = (three_agents(), mixtures());
    for kinds in &mixtures {
        for flaw in Flaw::ALL {
            if kinds.contains(&Kind::Invalid) || matches!(flaw, Flaw::UnknownTool) {
                check_mixture(&draft, kinds, flaw, None);
            }
        }
    }
    assert_eq!(mixtures.len(), 252);
}

#[test]
fn every_pair_and_triple_has_the_same_outcome_in_any_order_of_completion() {
    let draft = three_agents();
    for (index, kinds) in mixtures().iter().enumerate() {
        for round in 0..3 {
            check_mixture(&draft, kinds, Flaw::UnknownTool, Some(index as u64 * 3 + round));
        }
    }
}

#[test]
fn root_can_never_be_called() {
    // Even an agent whose grants held a tool of type `root` (which no loader lets through) could not call it.
    let draft = job([agent("root", "start_again")]).tool(tool("start_again", ToolType::Root));
    for name in ["root", "start_again"] {
        let sim = Sim::new(&draft).agent("root", [turn([call(name, "a")]), turn([handoff("done")])]).start();
        let refusals: Vec<ErrorCode> = sim
            .timeline
            .iter()
            .filter_map(|recorded| match &recorded.entry {
                Entry::CallRefused(refused) => Some(refused.error.code),
                _ => None,
            })
            .collect();
        assert_eq!(refusals, [ErrorCode::UnknownTool], "{name}");
        assert_eq!(sim.ledger.tasks.len(), 1, "{name} created a task");
        sim.assert_over();
    }
}
