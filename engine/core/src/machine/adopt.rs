//! The run goes on by other configs: a fork's first own entry, or a migration.
//!
//! State that configs once led to stays as it is: tasks keep their holders, deadlines and open turns. What is checked,
//! offered and admitted from here on goes by the new ones.

use std::sync::Arc;
use std::time::Duration;

use super::outside::Recovery;
use super::task::Budget;
use super::{Draft, Run, Task, agent, task_limits};
use crate::config::Configs;
use crate::document::Write;
use crate::entry::{Adoption, Control, ControlAction, Entry};
use crate::event::Refusal;
use crate::id::TaskId;
use crate::principal::Principal;
use crate::render;
use crate::time::Timestamp;

impl Draft<'_> {
    /// Adopts configs, writes a person's documents, and lets every task go on as after a take-over.
    pub(super) fn adopted(&mut self, adoption: Adoption, documents: Vec<Write>, by: Principal) {
        let author = by.clone();
        let recovery = if adoption.fork.is_some() { Recovery::InFork } else { Recovery::AfterCrash };
        self.push(Entry::Control(Control { task: None, action: ControlAction::Adopted(Box::new(adoption)), by }));
        for write in documents {
            self.write_document(write, Some(author.clone()));
        }
        let tasks = self.run.task_ids();
        self.withdraw_changed_approvals();
        for id in tasks {
            if self.is_live(&id) {
                self.recover(&id, recovery);
                // What its delegations are awaited for may be another by now.
                self.changed.push_back(id);
            }
        }
    }
}

impl Run {
    /// Refused with every reason at once if the configs lack what the run is in the middle of.
    pub(super) fn check_adoption(&self, adoption: &Adoption, documents: &[Write]) -> Result<(), Refusal> {
        let reasons = self.hindrances(self.known(adoption.configs));
        if !reasons.is_empty() {
            return Err(Refusal::CannotAdopt { reasons });
        }
        self.check_new_documents(documents)
    }

    /// What `configs` lack that living tasks need.
    fn hindrances(&self, configs: &Configs) -> Vec<String> {
        let mut reasons = Vec::new();
        for task in self.graph.iter().filter(|task| task.is_live()) {
            if let Some(agent) = task.agent().filter(|agent| !configs.agents.contains_key(*agent)) {
                reasons.push(format!("task {} is held by agent {agent}, which they do not have", task.id));
            }
            for call in task.open.iter().flat_map(|open| open.calls.iter()).filter(|call| !call.is_finished()) {
                let Some(tool_type) = call.tool_type else { continue };
                let (id, tool) = (&call.id, call.asked.tool.as_str());
                match configs.tools.get(tool) {
                    None => reasons.push(format!("call {id} waits for tool {tool}, which they do not have")),
                    Some(now) if now.tool_type != tool_type => {
                        let (was, is) = (tool_type.as_str(), now.tool_type.as_str());
                        reasons.push(format!("call {id} waits for tool {tool} as a {was}, which is a {is} in them"));
                    }
                    Some(_) => {}
                }
            }
        }
        reasons
    }
}

/// Pins the run to the configs and keeps true what was derived from those before.
pub(super) fn adopted(run: &mut Run, at: Timestamp, adoption: &Adoption) {
    let now = Arc::clone(run.known(adoption.configs));
    let before = std::mem::replace(&mut run.configs, Arc::clone(&now));
    let tasks = run.task_ids();
    let mut unkept: Vec<TaskId> = Vec::new();
    for id in &tasks {
        let Some(task) = run.graph.get_mut(id).filter(|task| task.is_live()) else { continue };
        if let Some(id) = task.agent().cloned() {
            let (was, is) = (render::prompt_tokens(agent(&before, &id)), render::prompt_tokens(agent(&now, &id)));
            let moved = |tokens: u64| (tokens + is).saturating_sub(was);
            task.context_tokens = moved(task.context_tokens);
            if let Some(context) = task.context.as_mut() {
                context.base_tokens = moved(context.base_tokens);
                context.requests.iter_mut().for_each(|request| request.tokens = moved(request.tokens));
            }
        }
        if task.budget.is_none() && task_limits(&now, task).has_budget() {
            unkept.push(id.clone());
        }
    }
    for id in &unkept {
        let below: Vec<&Task> = tasks.iter().filter(|task| is_within(run, task, id)).filter_map(|task| run.task(task)).collect();
        let mut budget = Budget::default();
        for task in below {
            budget.tokens = budget.tokens.saturating_add(task.usage.total());
            budget.reserved_tokens = budget.reserved_tokens.saturating_add(task.reserved_tokens);
            budget.cost = budget.cost.plus(task.cost.known);
            budget.reserved_cost = budget.reserved_cost.plus(task.reserved_cost);
        }
        if let Some(task) = run.graph.get_mut(id) {
            task.budget = Some(Box::new(budget));
        }
    }
    if let Some(fork) = &adoption.fork {
        skip(run, &tasks, at.since(fork.at));
    }
    let limited = now.job.limits.has_budget() || !unkept.is_empty();
    let shared = &mut run.shared;
    // What a person stopped was the original.
    shared.paused &= adoption.fork.is_none();
    shared.has_budgets |= limited;
    shared.started = shared.started.as_ref().map(|started| Arc::new(adoption.restarted(started)));
}

/// Moves what is measured in time by a time that did not pass for the run.
fn skip(run: &mut Run, tasks: &[TaskId], time: Duration) {
    for id in tasks {
        let Some(task) = run.graph.get_mut(id).filter(|task| task.is_live()) else { continue };
        task.working_since = task.working_since.map(|since| since.plus(time));
        task.deadline = task.deadline.map(|deadline| deadline.plus(time));
    }
    let shared = &mut run.shared;
    let later = |(at, id): &(Timestamp, TaskId)| (at.plus(time), id.clone());
    shared.deadlines = shared.deadlines.iter().map(later).collect();
    shared.active_since = shared.active_since.map(|since| since.plus(time));
}

/// Whether `task` is `above` or below it.
fn is_within(run: &Run, task: &TaskId, above: &TaskId) -> bool {
    std::iter::successors(Some(task.clone()), |task| run.caller(task)).any(|task| task == *above)
}
