//! Checks the effects of a cancellation at any moment, from outside the machine (`cancelled_stays_quiet`).
//!
//! The run is not changed: the same moment can be tried with every task. The graph of callers shows which tasks are below the
//! cancelled one. The entries alone show that all of them are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_machine::{Run, Task};
use baton_types::entry::{Entry, Recorded};
use baton_types::event::{Effect, Event};
use baton_types::id::{CallId, TaskId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;

/// Effects of a cancellation.
#[derive(Debug)]
pub struct Cancelled {
    /// Its entries, one commit.
    pub entries: Vec<Arc<Recorded>>,
    /// Number of ended tasks.
    pub tasks: usize,
    /// Number of closed open calls, including that of the caller.
    pub calls: usize,
    /// Number of stopped model requests and running calls.
    pub stopped: usize,
}

/// Cancels `target` in a copy of `run`. Returns the effects, or a description of anything left behind.
///
/// Fails with a sentence if a task below outlives it, a task ends twice, an open call stays open or is closed twice,
/// or work in flight is not stopped. Fails also if anything new begins below, or if the caller does not get exactly
/// one result.
pub fn cancelled(run: &Run, at: Timestamp, target: &TaskId) -> Result<Cancelled, String> {
    let event = Event::CancelRequested { task: target.clone(), reason: "enough".to_owned(), by: Principal::person("the proof") };
    let mut after = run.clone();
    let decision = after.handle(at, event).map_err(|refusal| format!("{target} cannot be cancelled: {refusal}"))?;
    let doomed: BTreeMap<&TaskId, &Task> =
        run.graph().iter().filter(|task| task.is_live() && is_below(run, task, target)).map(|task| (&task.id, task)).collect();

    let closed = ended(&decision.entries, &doomed)?;
    let open = |task: &&Task| task.calls().filter(|call| !call.is_finished()).count();
    let mut calls: usize = doomed.values().map(open).sum();
    let own = run.task(target).into_iter().flat_map(Task::calls);
    for call in own.filter(|call| !call.is_finished()) {
        exactly_one_result(&decision.entries, &call.id)?;
    }

    let runs =
        |task: &Task| task.phase.calls().is_some_and(|calls| calls.counts().running_functions + calls.counts().calling > 0);
    let in_flight = doomed.values().filter(|task| task.phase.request().is_some() || runs(task));
    let stops: BTreeSet<&TaskId> = decision.effects.iter().filter_map(stopped).collect();
    let flying: BTreeSet<&TaskId> = in_flight.map(|task| &task.id).collect();
    if !flying.is_subset(&stops) {
        return Err(format!("{flying:?} have something in flight, and {stops:?} are stopped"));
    }
    if let Some(begun) = decision.effects.iter().find(|effect| begins(effect).is_some_and(|task| doomed.contains_key(task))) {
        return Err(format!("below {target} something begins: {begun:?}"));
    }

    match run.graph().caller(target) {
        // A question that was escalated to the next master ends with the task it was escalated to; that is no call.
        Some(caller) if caller.phase.escalated() == Some(target) => {}
        Some(_) => {
            exactly_one_result(&decision.entries, &target.originating_call())?;
            calls += 1;
        }
        None if after.ended().is_none() => return Err("the root is cancelled, and the run has not ended".to_owned()),
        None => {}
    }
    if let Some(left) = after.graph().iter().find(|task| task.is_live() && is_below(&after, task, target)) {
        return Err(format!("task {} outlives {target}", left.id));
    }
    Ok(Cancelled { tasks: closed, calls, stopped: flying.len(), entries: decision.entries })
}

/// Whether `task` is `top` or below it.
fn is_below(run: &Run, task: &Task, top: &TaskId) -> bool {
    let mut next = Some(task);
    while let Some(task) = next {
        if task.id == *top {
            return true;
        }
        next = run.graph().caller(&task.id);
    }
    false
}

/// Returns the number of tasks that the entries end: each of `doomed` once, and tasks that only the end of a waiting
/// question ends.
fn ended(entries: &[Arc<Recorded>], doomed: &BTreeMap<&TaskId, &Task>) -> Result<usize, String> {
    let mut ends: BTreeMap<&TaskId, u32> = BTreeMap::new();
    for recorded in entries {
        match &recorded.entry {
            Entry::SubtreeClosed(entry) => entry.tasks.iter().for_each(|task| *ends.entry(task).or_default() += 1),
            Entry::TaskEnded(entry) => *ends.entry(&entry.task).or_default() += 1,
            _ => {}
        }
    }
    for task in doomed.keys() {
        match ends.get(task) {
            Some(1) => {}
            Some(times) => return Err(format!("task {task} ends {times} times")),
            None => return Err(format!("task {task} is not ended")),
        }
    }
    Ok(ends.len())
}

fn exactly_one_result(entries: &[Arc<Recorded>], call: &CallId) -> Result<(), String> {
    let is_result = |recorded: &&Arc<Recorded>| match &recorded.entry {
        Entry::CallFinished(entry) => entry.call == *call,
        Entry::CallRefused(entry) => entry.call == *call,
        _ => false,
    };
    match entries.iter().filter(is_result).count() {
        1 => Ok(()),
        results => Err(format!("call {call} gets {results} results")),
    }
}

fn stopped(effect: &Effect) -> Option<&TaskId> {
    match effect {
        Effect::Stop { task } => Some(task),
        _ => None,
    }
}

fn begins(effect: &Effect) -> Option<&TaskId> {
    match effect {
        Effect::Prompt { task, .. } | Effect::Execute { task, .. } => Some(task),
        Effect::AskPerson { question } => Some(question),
        Effect::Return { .. } | Effect::StopCall { .. } | Effect::Stop { .. } | Effect::EndRun => None,
    }
}
