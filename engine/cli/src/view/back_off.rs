//! Requests that wait before they are sent again: their rows in the tree, and a line for each change in plain output.
//!
//! The run reports these pauses to its watchers and does not record them.

use std::collections::BTreeMap;

use baton_machine::{Phase, Task};
use baton_runtime::{BackOff, NextAttempt, Progress};
use baton_types::id::TaskId;
use baton_types::time::Timestamp;

use crate::style;
use crate::text::{Text, text};
use crate::words;

/// The pauses of open requests.
#[derive(Debug, Default)]
pub(crate) struct BackOffs {
    /// The last pause of each request, by its task.
    requests: BTreeMap<TaskId, BackOff>,
    /// The attempt that the last line about a provider shows, and whether a person has to act.
    shown: BTreeMap<String, (u32, bool)>,
}

impl BackOffs {
    /// Takes a report of the run. Returns its line, unless the same attempt at the same provider has one already.
    pub(crate) fn take(&mut self, progress: &Progress, now: Timestamp) -> Option<Text> {
        match progress {
            // Progress of tools is not shown here.
            Progress::Call { .. } => None,
            Progress::BacksOff(back_off) => {
                self.requests.insert(back_off.task.clone(), back_off.clone());
                let change = (back_off.attempt, back_off.next == NextAttempt::OnResume);
                let is_shown = self.shown.get(&back_off.provider).is_some_and(|shown| *shown >= change);
                if is_shown {
                    return None;
                }
                self.shown.insert(back_off.provider.clone(), change);
                let words = format!("{} · {}", state(back_off), step(back_off, now));
                Some(text!("  {} {}", style::faint(&back_off.task), style::waiting(words)))
            }
            Progress::Returned { provider, away } => {
                self.shown.remove(provider);
                Some(text!("  {}", style::good(format!("{provider} answers again after {}", words::elapsed(*away)))))
            }
        }
    }

    /// Forgets the pause of the request of `task`, which was answered or given up.
    pub(crate) fn forget(&mut self, task: &TaskId) {
        if let Some(back_off) = self.requests.remove(task) {
            self.shown.remove(&back_off.provider);
        }
    }

    /// Returns the state and the step of the row of `task`, if its request waits at `now`.
    pub(super) fn row(&self, task: &Task, now: Timestamp) -> Option<(String, String)> {
        let back_off = self.requests.get(&task.id)?;
        let is_open = matches!(task.phase, Phase::Asking(_)) && back_off.turn == task.turns;
        is_open.then(|| (state(back_off), step(back_off, now)))
    }
}

fn state(back_off: &BackOff) -> String {
    match back_off.next {
        NextAttempt::At(_) | NextAttempt::AfterWindow(_) => "backing off".to_owned(),
        NextAttempt::OnResume => format!("waits for {}", back_off.provider),
    }
}

fn step(back_off: &BackOff, now: Timestamp) -> String {
    let BackOff { attempt, next, reason, .. } = back_off;
    match next {
        NextAttempt::At(at) | NextAttempt::AfterWindow(at) if *at <= now => format!("attempt {attempt} · {reason}"),
        NextAttempt::At(at) | NextAttempt::AfterWindow(at) => {
            let seconds = at.since(now).as_secs_f64().ceil();
            format!("attempt {attempt} · next in {seconds} s · {reason}")
        }
        NextAttempt::OnResume => format!("attempt {attempt} when the run is resumed · {reason}"),
    }
}
