//! A cancellation at every step of a tree of tasks: whatever moment it comes at, nothing below it is left.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_machine::Run;
use baton_proof::cancel::cancelled;
use baton_proof::jobs::{JobDraft, agent, function, job};
use baton_proof::{call, handoff, route, started, turn};
use baton_types::event::{Effect, Event, Outcome};
use baton_types::id::{ContentHash, TaskId};
use baton_types::limits::Limits;
use baton_types::model::ModelTurn;
use baton_types::time::Timestamp;
use serde_json::json;

/// A tree: agents of one level delegate to `fan_out` of the next, the last ones call a function.
struct Tree {
    depth: u32,
    fan_out: usize,
}

impl Tree {
    fn job(&self) -> JobDraft {
        let level = |depth: u32| match depth {
            last if last == self.depth => agent(&format!("l{last}"), "work"),
            depth => agent(&format!("l{depth}"), &format!("work route_to_l{}", depth + 1)),
        };
        let limits = Limits { live_tasks: Some(1_000_000), turns: Some(10_000_000), depth: Some(100), ..Limits::default() };
        job((0..=self.depth).map(level)).tool(function("work")).limits(limits)
    }

    fn answer(&self, depth: u32, asked: u32) -> ModelTurn {
        match asked {
            1 if depth == self.depth => turn([call("work", "a"), call("work", "b")]),
            1 => turn((0..self.fan_out).map(|child| route(&format!("l{}", depth + 1), &child.to_string()))),
            _ => turn([handoff("done")]),
        }
    }
}

/// Numbers of trials.
#[derive(Debug, Default)]
struct Tried {
    steps: usize,
    cancels: usize,
    tasks: usize,
    calls: usize,
    stopped: usize,
}

impl Tried {
    /// Cancels the root, a task in the middle and one at the end of its branch, each in a copy of the run.
    fn cancel(&mut self, run: &Run, at: Timestamp) {
        self.steps += 1;
        let mut by_depth: BTreeMap<u32, &TaskId> = BTreeMap::new();
        for task in run.graph().iter().filter(|task| task.is_live()) {
            by_depth.insert(task.depth, &task.id);
        }
        let live: Vec<&TaskId> = by_depth.into_values().collect();
        for index in [0, live.len() / 2, live.len() - 1] {
            let cancelled = cancelled(run, at, live[index])
                .unwrap_or_else(|left| panic!("step {}, cancelling {}: {left}", self.steps, live[index]));
            self.cancels += 1;
            self.tasks += cancelled.tasks;
            self.calls += cancelled.calls;
            self.stopped += cancelled.stopped;
        }
    }
}

/// Runs the tree to its end, the effects in the order in which they were asked for, and cancels it at every step.
fn every_step(tree: &Tree) -> Tried {
    let configs = tree.job().build();
    let mut run = Run::new(Arc::clone(&configs));
    let mut tried = Tried::default();
    let mut effects: VecDeque<Effect> = VecDeque::new();
    let mut next = Some(Event::Started { run: started(&configs), root: "l0".into(), documents: Vec::new() });
    let mut now = Timestamp::default();
    while let Some(event) = next.take() {
        now = now.plus(std::time::Duration::from_millis(1));
        let decision = run.handle(now, event).expect("the tree grows as planned");
        effects.extend(decision.effects);
        if run.ended().is_some() {
            break;
        }
        tried.cancel(&run, now);
        next = effects.pop_front().map(|effect| match effect {
            Effect::Prompt { task, turn } => {
                let depth = run.task(&task).expect("it was created").depth;
                let answer = tree.answer(depth, turn);
                Event::ModelAnswered { task, turn, request: ContentHash::of(b""), answer, recorded: None }
            }
            Effect::Execute { call, .. } => Event::CallReturned { call, outcome: Outcome::success(json!({})) },
            other => panic!("nobody asks for {other:?}"),
        });
    }
    assert!(run.ended().is_some(), "the tree comes to its end");
    tried
}

#[test]
fn a_cancel_at_every_step_of_a_tree_leaves_nothing_behind() {
    let number = |name: &str, otherwise| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let tree = Tree { depth: number("BATON_CANCEL_DEPTH", 3), fan_out: number("BATON_CANCEL_FAN_OUT", 3) as usize };
    let tried = every_step(&tree);
    println!("depth {}, fan-out {}: {tried:?}", tree.depth, tree.fan_out);
    // Every task but the last ones has two turns, those have two more calls.
    let at_depth = |depth: u32| tree.fan_out.pow(depth);
    let inner: usize = (0..tree.depth).map(at_depth).sum();
    assert_eq!(tried.steps, 2 * inner + 4 * at_depth(tree.depth), "every event but the last is a step, and so is the start");
    assert_eq!(tried.cancels, 3 * tried.steps);
    assert!(tried.tasks > tried.cancels && tried.calls > tried.cancels && tried.stopped > tried.steps, "{tried:?}");
}
