//! *Decide*, the second step of a run's actor: the core handles the gathered events.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use baton_types::event::{Effect, Event};
use futures_util::StreamExt;

use super::{Actor, Iteration, MESSAGES_PER_COMMIT};
use crate::handle::{Incoming, Message};

/// Number of entries after which no further event is decided in the same commit. This bounds the entries in memory, except those of
/// a single event. With smaller commits a store would write more.
const ENTRIES_PER_COMMIT: usize = 16_384;

impl Actor {
    /// Lets the core handle each event.
    ///
    /// Calls that have no effect outside the run begin at once, and what they return is decided in the same iteration: a
    /// turn of them costs one commit. The code of functions proceeds in the same iteration, too, with what is decided about its
    /// calls: it has no effect outside the run either. If the commit fails, nothing of all this remains.
    ///
    /// When a commit is full, the events that remain are kept for the next iteration. `consumed` has the numbers of unreadable
    /// commands.
    pub(super) fn handle(&mut self, mut incoming: VecDeque<Incoming>, consumed: Vec<u64>) -> Iteration {
        let mut iteration = Iteration { consumed, ..Iteration::default() };
        loop {
            self.last = self.shared.clock.now().max(self.last);
            while let Some(next) = incoming.pop_front() {
                self.decide(next, &mut iteration, &mut incoming);
                if iteration.entries.len() >= ENTRIES_PER_COMMIT && self.run.ended().is_none() {
                    self.work.undecided.append(&mut incoming);
                }
            }
            if self.work.stopping || iteration.entries.len() >= MESSAGES_PER_COMMIT || !self.advance_code(&mut incoming) {
                return iteration;
            }
        }
    }

    /// Lets the core handle an event, and puts the results of calls that are done at once first in `incoming`.
    fn decide(&mut self, next: Incoming, iteration: &mut Iteration, incoming: &mut VecDeque<Incoming>) {
        let Incoming { event, contents, reply, command } = next;
        iteration.consumed.extend(command);
        let mut early = Vec::new();
        // Code gets no result before its calls are decided. What it learns of the decision is not visible to others.
        let replies_at_once = matches!(*event, Event::CallMade { .. });
        let decided = self.run.handle(self.last, *event).map(|decision| {
            iteration.entries.extend(decision.entries);
            let contents: Vec<_> = contents.into_iter().chain(decision.contents).collect();
            self.shared.contents.remember(&contents);
            iteration.contents.extend(contents);
            for effect in decision.effects {
                match effect {
                    Effect::Execute { task, agent, call, tool, input: _ }
                        if self.may_begin_early(&tool) && iteration.entries.len() < MESSAGES_PER_COMMIT =>
                    {
                        let done = self.execute(task, agent, call, &tool);
                        // Decided next, so that calls do not wait for the places of those that are done.
                        early.extend(done.and_then(Message::event));
                    }
                    Effect::Return { call, result } if self.work.is_for_function(&call) => self.work.send_result(call, result),
                    effect => iteration.effects.push(effect),
                }
            }
        });
        early.into_iter().rev().for_each(|done| incoming.push_front(done));
        match reply {
            // The receiver may have been dropped.
            Some(reply) if replies_at_once => _ = reply.send(decided),
            Some(reply) => iteration.replies.push((reply, decided)),
            None => {
                if let Err(refusal) = decided {
                    tracing::warn!(run = %self.id, %refusal, "an event was refused");
                }
            }
        }
    }

    /// Lets the code of functions that make calls proceed, and takes what it sends. Returns whether there is any.
    fn advance_code(&mut self, incoming: &mut VecDeque<Incoming>) -> bool {
        if self.work.code.is_empty() || self.next_before_code().is_some() {
            return false;
        }
        // The next wait polls the code again, with the waker of this actor.
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(done)) = self.work.code.poll_next_unpin(&mut context) {
            if let Some(message) = done {
                self.take(message, false, incoming);
            }
        }
        while let Ok(message) = self.mailbox.try_recv() {
            self.take(message, false, incoming);
        }
        !incoming.is_empty()
    }
}
