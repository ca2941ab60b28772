//! Limits before a model is asked (DESIGN §10): the worst case is reserved on the task, on every task above it and on the run.
//!
//! If only others' reservations stand in the way, the request waits. If what was spent and its own worst case exceed a
//! limit, the limit is reached: the turn set aside from the start is used, with a handoff as the only tool.

use std::time::Duration;

use super::{Budget, Draft, TaskState, World};
use crate::entry::{Entry, ModelRequested, Notice};
use crate::event::Effect;
use crate::id::TaskId;
use crate::json::Json;
use crate::limits::LimitKind;

/// Whether a request may be made now.
enum Admission {
    /// It may.
    Now,
    /// Others' reservations stand in the way.
    Later,
    /// This limit is reached.
    Reached(LimitKind),
}

impl Draft<'_> {
    /// Asks the model of the first ready task that limits admit; says whether anything happened.
    pub(super) fn admit_ready(&mut self) -> bool {
        if self.world.shared().paused {
            return false;
        }
        let ready: Vec<TaskId> = self.world.shared().ready.values().cloned().collect();
        let before = self.decision.entries.len();
        for id in ready {
            self.admit(&id);
            if !self.changed.is_empty() || self.world.shared().ended.is_some() {
                break;
            }
        }
        self.decision.entries.len() > before
    }

    /// Asks the model of `id`, leaves it waiting, uses its last turn, or ends it with what it has.
    fn admit(&mut self, id: &TaskId) {
        if self.task(id).state != TaskState::Ready {
            return;
        }
        if self.task(id).interrupted {
            return self.ask_again(id);
        }
        match self.admission(id, false) {
            Admission::Now => {
                let notice = self.notice(id);
                self.request(id, notice);
            }
            Admission::Later => {}
            Admission::Reached(limit) => match self.admission(id, true) {
                Admission::Now => self.request(id, Some(Notice::LastTurn { limit })),
                Admission::Later => {}
                Admission::Reached(_) => self.end_partial(id, limit, Json::null()),
            },
        }
    }

    /// Whether a turn, or the last turn, of `id` fits all limits.
    fn admission(&self, id: &TaskId, last: bool) -> Admission {
        let task = self.task(id);
        let configs = self.configs();
        let (own, run) = (self.limits(id), &configs.job.limits);
        let shared = self.world.shared();
        if !last {
            if own.turns.is_some_and(|allowed| task.turns + 1 >= allowed) {
                return Admission::Reached(LimitKind::Turns);
            }
            // Every live task has a turn set aside, this one included.
            if run.turns.is_some_and(|allowed| shared.turns + shared.live_agent_tasks >= allowed) {
                return Admission::Reached(LimitKind::RunTurns);
            }
            let worked =
                |allowed: Option<u64>, worked: Duration| allowed.is_some_and(|seconds| worked >= Duration::from_secs(seconds));
            let run_worked = shared.worked + shared.active_since.map_or(Duration::ZERO, |since| self.at.since(since));
            if worked(own.worked_seconds, task.worked_until(self.at)) || worked(run.worked_seconds, run_worked) {
                return Admission::Reached(LimitKind::WorkedSeconds);
            }
        }
        self.admits_tokens(id, last)
    }

    /// Whether the worst case of a turn, or of the last turn, fits every token limit above it.
    fn admits_tokens(&self, id: &TaskId, last: bool) -> Admission {
        let configs = self.configs();
        let run = &configs.job.limits;
        let shared = self.world.shared();
        if !shared.tokens_limited {
            return Admission::Now;
        }
        let worst = self.worst_case(id);
        // What a later last turn needs at most: what this request holds, and one more answer.
        let set_aside = if last { 0 } else { worst + self.output_tokens(id) };
        let mut later = false;
        let mut check = |budget: Budget, allowed: Option<u64>, kind| {
            let allowed = allowed?;
            if budget.spent + worst + set_aside > allowed {
                return Some(kind);
            }
            later |= budget.spent + budget.reserved + worst + set_aside > allowed;
            None
        };
        let whole = Budget { spent: shared.usage.total(), reserved: shared.reserved_tokens };
        let mut reached = check(whole, run.tokens, LimitKind::TokensAbove);
        let mut next = Some(id.clone());
        while let Some(holder) = next {
            let task = self.task(&holder);
            if let Some(budget) = task.budget.as_deref().copied() {
                let kind = if holder == *id { LimitKind::Tokens } else { LimitKind::TokensAbove };
                reached = check(budget, self.limits(&holder).tokens, kind).or(reached);
            }
            next = self.world.caller(&holder);
        }
        match reached {
            Some(kind) => Admission::Reached(kind),
            None if later => Admission::Later,
            None => Admission::Now,
        }
    }

    fn output_tokens(&self, id: &TaskId) -> u64 {
        let configs = self.configs();
        self.task(id).agent().map_or(0, |agent| super::agent(&configs, agent).max_output_tokens)
    }

    /// The most tokens that the next request and its answer may use.
    fn worst_case(&self, id: &TaskId) -> u64 {
        self.task(id).context_tokens + self.output_tokens(id)
    }

    /// What the agent is told at the head of the turn.
    fn notice(&self, id: &TaskId) -> Option<Notice> {
        let task = self.task(id);
        if let Some(text) = task.steering.first() {
            return Some(Notice::Steer { text: text.clone() });
        }
        task.fault.map(|reason| Notice::Reminder { count: task.reminders, reason })
    }

    /// Records the request and asks for it.
    fn request(&mut self, id: &TaskId, notice: Option<Notice>) {
        let turn = self.task(id).turns + 1;
        self.request_turn(id, turn, notice);
    }

    /// Asks for an interrupted turn again: the same turn, rendered alike, within the same token limits.
    fn ask_again(&mut self, id: &TaskId) {
        let (turn, last) = (self.task(id).turns, self.task(id).last_turn);
        match self.admits_tokens(id, true) {
            Admission::Now => self.request_turn(id, turn, last.map(|limit| Notice::LastTurn { limit })),
            Admission::Later => {}
            Admission::Reached(limit) => self.end_partial(id, last.unwrap_or(limit), Json::null()),
        }
    }

    /// Records a request for `turn` and asks for it; after a crash the same turn is asked for again.
    pub(super) fn request_turn(&mut self, id: &TaskId, turn: u32, notice: Option<Notice>) {
        let configs = self.configs();
        let task = self.task(id);
        let agent = super::agent(&configs, task.agent().expect("only agents have models"));
        let started = self.world.shared().started.as_ref().expect("a task exists, so the run has started");
        let model = started.model.clone().unwrap_or_else(|| agent.model.clone());
        let entry = ModelRequested {
            task: id.clone(),
            turn,
            model,
            input_tokens: task.context_tokens,
            reserved_tokens: self.worst_case(id),
            notice,
        };
        self.push(Entry::ModelRequested(entry));
        self.decision.effects.push(Effect::Prompt { task: id.clone(), turn });
    }
}
