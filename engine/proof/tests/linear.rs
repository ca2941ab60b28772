//! Checking a timeline costs what the timeline is long, however many tasks it has and however many calls a turn makes.
//!
//! What is compared is work that was counted, not time.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_config::{PriceTable, prices};
use baton_machine::Run;
use baton_proof::ledger::Ledger;
use baton_proof::requests::Requests;
use baton_proof::script::{call, handoff, route, turn};
use baton_proof::{Report, agent, job, note, started, verify};
use baton_types::call::ModelCall;
use baton_types::config::Configs;
use baton_types::entry::{Recorded, RunStarted};
use baton_types::event::{Effect, Event};
use baton_types::limits::Limits;
use baton_types::model::ModelTurn;
use baton_types::time::Timestamp;

/// Size of a run.
#[derive(Clone, Copy)]
struct Size {
    leads: usize,
    /// The depth of the leads that have workers; a lead above it has one lead below it.
    depth: u32,
    workers: usize,
    turns: u32,
}

impl Size {
    /// Returns the turn `number` of `agent`, in a task of this depth. The root delegates to all leads at once, and
    /// each lead to the next one or to all its workers. A worker takes notes, one in each turn.
    fn turn(self, agent: &str, depth: u32, number: u32) -> ModelTurn {
        let delegations = |to, count| (0..count).map(|part| route(to, &format!("part {part}"))).collect::<Vec<ModelCall>>();
        match (agent, number) {
            ("root", 1) => turn(delegations("lead", self.leads)),
            ("lead", 1) if depth < self.depth => turn(delegations("lead", 1)),
            ("lead", 1) => turn(delegations("worker", self.workers)),
            ("worker", number) if number < self.turns => turn([call("note", "x")]),
            _ => turn([handoff("done")]),
        }
    }
}

/// Returns the timeline of a run of this size. Nothing is checked on the way; each entry is a batch of its own if the machine decides
/// so, as in a run whose models answer one after the other.
fn timeline(size: Size) -> (Arc<Configs>, Vec<Recorded>) {
    let many = Limits { turns: Some(100_000), children: Some(100_000), calls: Some(100_000), ..Limits::default() };
    let agents = [agent("root", "route_to_lead"), agent("lead", "route_to_worker route_to_lead"), agent("worker", "note")];
    let job = job(agents.map(|agent| agent.limits(many.clone()))).tool(note("note"));
    let configs = job.limits(Limits { live_tasks: Some(100_000), depth: Some(16), ..many }).build();
    let (mut run, mut requests) = (Run::new(Arc::clone(&configs)), Requests::new(Arc::clone(&configs)));
    // Up to the entries handled so far.
    let mut fold = run.clone();
    let (mut ledger, mut entries, mut asked) = (Ledger::new(Arc::clone(&configs)), Vec::new(), VecDeque::new());
    let run_started = RunStarted { prices: prices(&configs, None, |_| false, PriceTable::embedded), ..started(&configs) };
    let mut next = Some(Event::Started { run: run_started, root: configs.job.root.clone(), documents: Vec::new() });
    let mut now = 0;
    while let Some(event) = next.take() {
        now += 1_000;
        let decision = run.handle(Timestamp::from_micros(now), event).expect("what was asked for is accepted");
        for recorded in &decision.entries {
            fold.apply(recorded);
            requests.apply(recorded, &fold, &mut ledger);
        }
        entries.extend(decision.entries.into_iter().map(Arc::unwrap_or_clone));
        asked.extend(decision.effects.into_iter().filter_map(|effect| match effect {
            Effect::Prompt { task, turn } => Some((task, turn)),
            _ => None,
        }));
        next = asked.pop_front().map(|(task, turn)| {
            let request = requests.request(&task, &mut ledger);
            let depth = run.task(&task).expect("the task exists").depth;
            let answer = size.turn(request.agent.as_str(), depth, turn);
            Event::ModelAnswered { task, turn, request: request.hash, answer, recorded: None }
        });
    }
    assert!(run.ended().is_some(), "the run has ended");
    (configs, entries)
}

/// Returns the work of checking a run of this size, for each of its entries.
fn work(size: Size) -> [f64; 3] {
    let (configs, entries) = timeline(size);
    let Report { findings, ledger, visited, compared, messages, .. } = verify(&configs, &entries);
    assert_eq!(findings, []);
    assert_eq!(ledger.tasks.len(), 1 + size.leads * (size.depth as usize + size.workers));
    [visited, compared, messages].map(|work| work as f64 / entries.len() as f64)
}

/// Asserts that an entry of the larger run takes about the same work as one of the smaller, up to what its size begins with.
#[track_caller]
fn assert_linear(smaller: Size, larger: Size) {
    let (before, after) = (work(smaller), work(larger));
    for (what, (before, after)) in ["visited", "compared", "messages"].into_iter().zip(before.into_iter().zip(after)) {
        assert!(after <= before * 1.1 + 0.1, "an entry took {before:.2} {what}, and takes {after:.2} in the larger run");
    }
}

#[test]
fn a_check_is_linear_in_the_tasks_of_many_callers() {
    let smaller = Size { leads: 16, depth: 1, workers: 8, turns: 2 };
    assert_linear(smaller, Size { leads: 64, ..smaller });
}

#[test]
fn a_check_is_linear_in_the_tasks_of_one_turn() {
    let smaller = Size { leads: 4, depth: 1, workers: 40, turns: 1 };
    assert_linear(smaller, Size { workers: 160, ..smaller });
}

/// As deep as `limits.depth` allows by default: an amount that a request reserves is held by every task above it.
#[test]
fn a_check_is_linear_in_the_tasks_of_long_chains() {
    let smaller = Size { leads: 12, depth: 15, workers: 1, turns: 1 };
    assert_linear(smaller, Size { leads: 48, ..smaller });
}

#[test]
fn a_check_is_linear_in_the_turns_of_a_task() {
    let smaller = Size { leads: 2, depth: 1, workers: 1, turns: 100 };
    assert_linear(smaller, Size { turns: 400, ..smaller });
}
