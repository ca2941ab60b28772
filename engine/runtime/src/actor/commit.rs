//! Commit: makes the entries of one iteration durable as one batch, then lets them be seen and performs the effects.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use baton_machine::Task;
use baton_store::{Batch, LoggedCall, RunSummaryUpdate, StoreError};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{CallId, ContentHash, ToolId};
use baton_types::json::Json;
use baton_types::tool_type::Logs;

use super::status::{STATUS_WAITING, idle_status, status, wakes};
use super::{Actor, Iteration, MESSAGES_PER_COMMIT};
use crate::handle::Incoming;

/// Time after which [`Engine::work`](crate::Engine::work) tries a run again whose provider is away.
const AWAY_PAUSE: Duration = Duration::from_mins(1);

impl Actor {
    /// Makes an iteration durable, then lets it be seen and performs its effects.
    pub(super) async fn commit(&mut self, iteration: Iteration) -> Result<(), StoreError> {
        let mut iteration = iteration;
        let (mut contents, consumed) = (std::mem::take(&mut iteration.contents), std::mem::take(&mut iteration.consumed));
        let entries = &iteration.entries;
        if let Some(first) = entries.first() {
            if !contents.is_empty() {
                let named: HashSet<ContentHash> = entries.iter().filter_map(|recorded| recorded.entry.content()).collect();
                contents.retain(|(hash, _)| named.contains(hash));
            }
            let mut batch = Batch::new(self.id.clone(), self.epoch, first.seq - 1);
            batch.logged = self.logged(entries);
            batch.entries.clone_from(entries);
            batch.contents = contents;
            batch.summary = self.summary();
            batch.consumed = consumed;
            batch.releases = self.run.ended().is_some();
            self.shared.store.append(batch).await?;
        } else if !consumed.is_empty() {
            let mut batch = Batch::new(self.id.clone(), self.epoch, self.run.last_seq());
            batch.consumed = consumed;
            self.shared.store.append(batch).await?;
        }
        self.publish(iteration).await
    }

    /// Lets a durable iteration be seen and performs its effects.
    pub(super) async fn publish(&mut self, iteration: Iteration) -> Result<(), StoreError> {
        let Iteration { entries, effects, replies, .. } = iteration;
        // Sent even without listeners: a call that begins below asks for the durable sequence number.
        self.durable.send_replace(self.run.last_seq());
        self.transcripts.absorb(&entries, &self.run);
        // A watcher subscribes before it reads the store, which has these entries by now.
        if self.live.is_watched() {
            for recorded in &entries {
                self.live.send(Arc::clone(recorded));
            }
        }
        self.send_commands(&entries).await;
        for (reply, decided) in replies {
            // The receiver may have been dropped.
            let _gone = reply.send(decided);
        }
        for effect in effects {
            self.perform(effect);
        }
        while self.work.arrived.len() < MESSAGES_PER_COMMIT
            && let Some((task, turn)) = self.work.to_ask.pop_front()
        {
            if !self.work.stopping && self.run.task(&task).is_some_and(Task::is_live) {
                self.prompt(task, turn).await?;
            }
        }
        for recorded in &entries {
            match &recorded.entry {
                Entry::TaskEnded(entry) => self.stop(&entry.task),
                Entry::SubtreeClosed(entry) => entry.tasks.iter().for_each(|task| self.stop(task)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the calls among `entries` that only log their input.
    fn logged(&self, entries: &[Arc<Recorded>]) -> Vec<LoggedCall> {
        let mut logged = Vec::new();
        for recorded in entries {
            let Entry::CallFinished(entry) = &recorded.entry else { continue };
            let row = entry.tool_type.behavior();
            if row.logs != Logs::InputOnly || row.runs_code {
                continue;
            }
            let Some(agent) = self.run.task(&entry.task).and_then(|task| task.agent().cloned()) else { continue };
            let tool = ToolId::new(entry.tool.as_str());
            let input = self.input_of(&entry.call, entries);
            let (memory, task, call) = (self.memory(), entry.task.clone(), entry.call.clone());
            logged.push(LoggedCall { memory, agent, tool, task, call, at: recorded.at, input });
        }
        logged
    }

    /// Returns the input of a call that was just made: from the answer in the same batch, or from the turn still open.
    fn input_of(&self, call: &CallId, entries: &[Arc<Recorded>]) -> Json {
        let task = call.task();
        let (turn, position) = call.position().unwrap_or_default();
        let answered = entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::ModelAnswered(entry) if entry.task == task && entry.turn == turn => {
                entry.calls.get((position as usize).checked_sub(1)?)
            }
            Entry::CallMade(entry) if entry.call == *call => Some(&entry.asked),
            _ => None,
        });
        let open = || Some(Arc::clone(&self.run.task(&task)?.call(call)?.asked));
        answered.map(|call| call.input.clone()).or_else(|| open().map(|call| call.input.clone())).unwrap_or_default()
    }

    /// Returns the new summary for lists of runs, if it changed.
    fn summary(&mut self) -> Option<RunSummaryUpdate> {
        let status = status(&self.run);
        (status != self.work.status).then(|| {
            self.work.status = status;
            RunSummaryUpdate { status: status.to_owned(), at: self.last }
        })
    }

    /// Releases the run: lists show its status, and it has no owner until it is resumed. Requests whose provider is
    /// away are recorded as such.
    pub(super) async fn release(&mut self) -> Result<(), StoreError> {
        let waits_for_people = self.waits_for_people();
        let is_held_up = self.is_held_up();
        let away: Vec<String> = self.outages.providers().into_iter().map(str::to_owned).collect();
        let mut ends_of_waits = self.waits_end().into_iter().map(Incoming::from).collect();
        loop {
            let iteration = self.handle(ends_of_waits, Vec::new());
            self.commit(iteration).await?;
            ends_of_waits = std::mem::take(&mut self.work.undecided);
            if ends_of_waits.is_empty() {
                break;
            }
        }
        let status = match idle_status(&self.run) {
            _ if waits_for_people => STATUS_WAITING.to_owned(),
            Some(status) => status.to_owned(),
            None if is_held_up => format!("waiting for {}", away.join(", ")),
            None => "stopped".to_owned(),
        };
        let mut batch = Batch::new(self.id.clone(), self.epoch, self.run.last_seq());
        batch.summary = Some(RunSummaryUpdate { status, at: self.last });
        batch.releases = true;
        let again = if is_held_up { AWAY_PAUSE } else { Duration::ZERO };
        let at_once = self.work.due_when_stopped && self.run.ended().is_none() && !self.run.totals().paused;
        let wakes = wakes(&self.run).or_else(|| at_once.then(|| self.last.plus(again)));
        batch.wakes = wakes.map(|wakes| self.sending.next().map_or(wakes, |next| wakes.min(next)));
        let is_due = batch.wakes.is_some_and(|wakes| wakes <= self.last);
        self.shared.store.append(batch).await?;
        // A delivery that came just before saw an owner, and announced nothing.
        if is_due || (self.shared.bus.is_some() && self.shared.store.is_due(&self.id, self.last).await?) {
            self.shared.announce(&self.id, format!("released {}", self.epoch)).await;
        }
        Ok(())
    }
}
