//! Facts about the calls of a run under test, from its timeline.

use baton_types::call::{CallError, CallResult, ErrorCode};
use baton_types::entry::{CallFinished, Entry};

use crate::sim::Sim;

impl Sim {
    /// Returns the entries so far.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.timeline.iter().map(|recorded| &recorded.entry)
    }

    /// Returns the one entry with the result of `call`.
    #[track_caller]
    pub fn finished(&self, call: &str) -> &CallFinished {
        let mut found = self.entries().filter_map(|entry| match entry {
            Entry::CallFinished(finished) if finished.call == call => Some(finished),
            _ => None,
        });
        let finished = found.next().unwrap_or_else(|| panic!("{call} has no result"));
        assert!(found.next().is_none(), "{call} has a second result");
        finished
    }

    /// Returns the one result of `call`.
    #[track_caller]
    pub fn result(&self, call: &str) -> CallResult {
        CallResult::clone(&self.finished(call).result)
    }

    /// Returns the reason why `call` was refused.
    #[track_caller]
    pub fn refusal(&self, call: &str) -> CallError {
        let found = self.entries().find_map(|entry| match entry {
            Entry::CallRefused(refused) if refused.call == call => Some(refused.error.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{call} was not refused"))
    }

    /// Returns the calls that were refused, in order, and why.
    pub fn refusals(&self) -> Vec<(&str, ErrorCode)> {
        let refused = self.entries().filter_map(|entry| match entry {
            Entry::CallRefused(refused) => Some((refused.call.as_str(), refused.error.code)),
            _ => None,
        });
        refused.collect()
    }

    /// Returns the calls that began, in order.
    pub fn begun(&self) -> Vec<&str> {
        let started = self.entries().filter_map(|entry| match entry {
            Entry::CallStarted(started) => Some(started.call.as_str()),
            _ => None,
        });
        started.collect()
    }
}
