//! Counters of a run over its live tasks: each must equal a new count.
//!
//! The fold cannot detect a wrong counter, because it computes the same wrong number as the run. But the machine relies on
//! the counters. They show, without a look at every task, what may begin, who waits and when nothing can proceed.
//!
//! The contribution of each task is kept. After a batch only the tasks that it concerns are counted again, so the cost
//! depends on the length of the batch. A task that changes although no entry concerns it is found when all are looked at.

use std::collections::{BTreeSet, HashMap};

use baton_machine::{CallStage, Counts, OpenCalls, Phase, Run, Task};
use baton_types::id::TaskId;

/// Share of live tasks in the counters of their run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    agents: u64,
    people: u64,
    active: u64,
    ready: u64,
    queued: u64,
    deadlines: u64,
    suspended: u64,
    alarms: u64,
}

/// The share of each living task, and all of them together.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    shares: HashMap<TaskId, Share>,
    sum: Share,
}

impl Counters {
    /// Looks at the tasks that a batch concerns, and names every number that is not what it counts.
    pub(crate) fn look_at(&mut self, run: &Run, tasks: &BTreeSet<TaskId>) -> Vec<String> {
        let mut wrong = Vec::new();
        for id in tasks {
            let share = run.task(id).filter(|task| task.is_live()).map(|task| share(run, task, &mut wrong));
            let before = match share {
                Some(share) => self.shares.insert(id.clone(), share),
                None => self.shares.remove(id),
            };
            self.sum.replace(before.unwrap_or_default(), share.unwrap_or_default());
        }
        wrong.extend(self.miscounted(run));
        wrong
    }

    /// Looks at every task and all calls of these tasks, and names every counter that is wrong.
    pub(crate) fn look_at_all(run: &Run) -> Vec<String> {
        let live = || run.graph().iter().filter(|task| task.is_live());
        let mut wrong = Self::default().look_at(run, &live().map(|task| task.id.clone()).collect());
        wrong.extend(live().flat_map(miscounted_calls));
        wrong
    }

    /// Returns every number of the run that differs from a count: its name, the number, and the count.
    fn miscounted(&self, run: &Run) -> impl Iterator<Item = String> {
        let (totals, sum) = (run.totals(), self.sum);
        let counts = [
            ("tasks of agents", u64::from(totals.live_agent_tasks), sum.agents),
            ("questions to people", u64::from(totals.open_questions), sum.people),
            ("tasks that are active", u64::from(totals.active_tasks), sum.active),
            ("tasks that are ready", totals.ready.len() as u64, sum.ready),
            ("tasks with calls that have not begun", totals.waiting_for_calls.len() as u64, sum.queued),
            ("deadlines", totals.deadlines.len() as u64, sum.deadlines),
            ("suspended calls", u64::from(totals.suspended_calls), sum.suspended),
            ("moments of calls", totals.alarms.len() as u64, sum.alarms),
            ("stretches of work", u64::from(totals.active_since.is_some()), u64::from(sum.active > 0)),
        ];
        let miscounted = counts.into_iter().filter(|(_, number, count)| number != count);
        miscounted.map(|(what, number, count)| format!("the run counts {number} {what}, not {count}"))
    }
}

impl Share {
    fn numbers(&mut self) -> [&mut u64; 8] {
        let Self { agents, people, active, ready, queued, deadlines, suspended, alarms } = self;
        [agents, people, active, ready, queued, deadlines, suspended, alarms]
    }

    /// Counts `new` in place of `old`, which was counted before.
    fn replace(&mut self, mut old: Self, mut new: Self) {
        let pairs = old.numbers().into_iter().zip(new.numbers());
        for (number, (old, new)) in self.numbers().into_iter().zip(pairs) {
            *number = *number + *new - *old;
        }
    }
}

/// Returns the share of a live task. Wrong counters of the task itself are added to `wrong`.
fn share(run: &Run, task: &Task, wrong: &mut Vec<String>) -> Share {
    let totals = run.totals();
    let mut share = Share::default();
    if task.agent().is_none() {
        share.people = 1;
    } else if task.phase.escalated().is_none() {
        // For an escalated question no turn is set aside.
        share.agents = 1;
    }
    share.active = u64::from(task.phase.is_active());
    if task.phase.is_ready() {
        share.ready = 1;
        let place = task.place.and_then(|place| totals.ready.get(&place.get()));
        if place.map(|place| &run.graph()[*place].id) != Some(&task.id) {
            wrong.push(format!("{} is ready and not in the queue", task.id));
        }
    }
    if task.working_since.is_some() != task.phase.is_active() {
        wrong.push(format!("{} is {:?} and has worked since {:?}", task.id, task.phase, task.working_since));
    }
    // The deadline of an escalated question has passed already.
    let deadline = task.deadline.filter(|_| task.phase.escalated().is_none());
    share.deadlines = u64::from(deadline.is_some());
    for call in task.calls() {
        share.suspended += u64::from(call.stage == CallStage::Suspended);
        share.alarms += u64::from(call.alarm().is_some());
    }
    if let Some(deadline) = deadline
        && !totals.deadlines.contains(&(deadline, task.id.clone()))
    {
        wrong.push(format!("{} is not woken at its deadline", task.id));
    }
    // A blocked task waits for something else first, and keeps no place from others.
    let queued = matches!(&task.phase, Phase::Acting(calls) if calls.counts().waiting_functions > 0);
    share.queued = u64::from(queued);
    share
}

/// Returns every number of a task that differs from a count over the calls of its turn.
fn miscounted_calls(task: &Task) -> Vec<String> {
    let counts = task.phase.calls().into_iter().flat_map(of_turn);
    let miscounted = counts.filter(|(_, number, count)| number != count);
    miscounted.map(|(what, number, count)| format!("{} counts {number} calls {what}, not {count}", task.id)).collect()
}

fn of_turn(calls: &OpenCalls) -> [(&'static str, u32, u32); 9] {
    let mut counted = Counts::default();
    for call in calls.iter().filter(|call| !call.is_finished()) {
        counted.unfinished += 1;
        match call.stage {
            CallStage::Waiting | CallStage::Approval if call.is_function() => counted.waiting_functions += 1,
            CallStage::Running { .. } if call.is_calling() => counted.calling += 1,
            CallStage::Running { writes } if call.is_function() => {
                counted.running_functions += 1;
                counted.running_writers += u32::from(writes);
            }
            CallStage::Running { .. } => counted.awaited += 1,
            CallStage::Doubt => counted.doubtful += 1,
            CallStage::Suspended => counted.suspended += 1,
            CallStage::Waiting | CallStage::Approval | CallStage::Refused | CallStage::Finished(_) => {}
        }
        counted.approvals += u32::from(call.stage == CallStage::Approval);
    }
    let counts = calls.counts();
    [
        ("without a result", counts.unfinished, counted.unfinished),
        ("of functions that have not begun", counts.waiting_functions, counted.waiting_functions),
        ("of functions that run", counts.running_functions, counted.running_functions),
        ("whose code waits for calls", counts.calling, counted.calling),
        ("of functions that run and write", counts.running_writers, counted.running_writers),
        ("that others work on", counts.awaited, counted.awaited),
        ("that wait for an approval", counts.approvals, counted.approvals),
        ("in doubt", counts.doubtful, counted.doubtful),
        ("that are suspended", counts.suspended, counted.suspended),
    ]
}
