//! Adopts other configs, and skips the time that did not pass for the run.

use baton_types::entry::Adoption;

use super::calls::unsuspend;
use crate::prelude::*;
use crate::{Shared, agent};

/// Pins the run to the adopted configs, and updates the state that was derived from the configs before.
pub(super) fn adopted(run: &mut Run, at: Timestamp, adoption: &Adoption) {
    let now = Arc::clone(run.known(adoption.configs));
    let before = std::mem::replace(&mut run.configs, Arc::clone(&now));
    let live: Vec<TaskIndex> = run.graph.live().collect();
    // The conversation of a root that has ended is the beginning of the next one.
    let continued = run.graph.root().filter(|_| adoption.follow_up.is_some());
    let mut unkept = Vec::new();
    for index in live.iter().chain(&continued) {
        let task = &mut run.graph[*index];
        if let Some(id) = task.agent().cloned() {
            let tokens = |agent: &Agent| render::prompt_tokens(agent) + task.described_tokens(agent);
            let (was, is) = (tokens(agent(&before, &id)), tokens(agent(&now, &id)));
            task.change_prompt(was, is);
        }
        task.limits = task.limits_under(&now);
        if task.is_live() && task.work().budget.is_none() && task.limits.has_budget() {
            unkept.push(*index);
        }
    }
    for index in &unkept {
        let mut budget = Budget::default();
        for within in run.graph.indices().filter(|task| run.graph.upwards(*task).any(|above| above == *index)) {
            let task = &run.graph[within];
            budget.tokens = budget.tokens.saturating_add(task.work().usage.total());
            budget.cost = budget.cost.plus(task.work().cost.known);
            budget.reserved = budget.reserved.plus(task.work().reservation);
        }
        run.graph[*index].work_mut().budget = Some(Box::new(budget));
    }
    if let Some(fork) = &adoption.fork {
        skip(run, &live, at.since(fork.at));
    }
    if adoption.fork.is_some() {
        for task in &live {
            unsuspend(run, at, *task);
        }
    }
    let limited = now.job.limits.has_budget() || now.job.session_limits.budget().has_budget() || !unkept.is_empty();
    let shared = &mut run.shared;
    // A person paused the original, not the fork.
    shared.paused &= adoption.fork.is_none();
    shared.has_budgets |= limited;
    // A person approved classes of calls for the run in which they answered.
    if adoption.fork.is_some() || adoption.follow_up.is_some() {
        shared.classes.clear();
    }
    if adoption.follow_up.is_some() {
        begin_again(shared, at);
    }
    shared.started = shared.started.as_ref().map(|started| Arc::new(adoption.restarted(started)));
}

/// Continues a run that has ended: everything that limits of a run count begins at zero.
fn begin_again(shared: &mut Shared, at: Timestamp) {
    (shared.ended, shared.started_at) = (None, at);
    let before = &mut shared.before;
    before.turns += shared.turns;
    before.calls += shared.calls;
    before.tokens = before.tokens.saturating_add(shared.usage.total());
    before.cost = before.cost.plus(shared.cost.known);
    (shared.turns, shared.calls, shared.worked) = (0, 0, Duration::ZERO);
    (shared.usage, shared.cost) = (Usage::default(), Cost::default());
}

/// Shifts deadlines and start times by `time`, which did not pass for the run.
fn skip(run: &mut Run, live: &[TaskIndex], time: Duration) {
    for index in live {
        let task = &mut run.graph[*index];
        task.working_since = task.working_since.map(|since| since.plus(time));
        task.deadline = task.deadline.map(|deadline| deadline.plus(time));
    }
    let shared = &mut run.shared;
    let later = |(at, id): &(Timestamp, TaskId)| (at.plus(time), id.clone());
    shared.deadlines = shared.deadlines.iter().map(later).collect();
    shared.active_since = shared.active_since.map(|since| since.plus(time));
}
