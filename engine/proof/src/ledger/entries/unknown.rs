//! `no_effect_twice`, of calls whose effect is not known: each has a result that reports this, and each task above it names the call.

use baton_types::call::CallStatus;
use baton_types::entry::{CallFinished, TaskEnded};
use baton_types::id::CallId;

use crate::finding::Invariant;
use crate::ledger::Ledger;

impl Ledger {
    /// Notes a result that does not say whether the call took effect, on its task and on all above it.
    pub(super) fn note_unknown(&mut self, finished: &CallFinished) {
        let says_nothing = matches!(finished.result.status, CallStatus::UnknownOutcome | CallStatus::Timeout);
        let may_act = finished.tool_type.behavior().runs_code && self.acts_each_time(finished.tool.as_str());
        if says_nothing && may_act {
            self.each_from(&finished.task, |book| book.has_unknown = true);
        }
    }

    /// Checks that a task which ends without success names the calls below it whose effect is not known.
    pub(super) fn check_unknown(&mut self, ended: &TaskEnded) {
        let (id, result) = (&ended.task, &ended.result);
        let must_name = !matches!(result.status, CallStatus::Success | CallStatus::UnknownOutcome);
        let has_unknown = self.tasks.get(id).is_some_and(|book| book.has_unknown);
        let names = result.error.as_ref().map(|error| error.detail.value());
        let is_named = names.is_some_and(|detail| detail["unknown_outcome"].as_array().is_some_and(|names| !names.is_empty()));
        self.rule(!(must_name && has_unknown) || is_named, Invariant::NoEffectTwice, || {
            format!("the error of {id} does not name its calls with an unknown outcome")
        });
    }

    /// Checks a call whose task is closed while it has no result: its code may not have acted.
    pub(super) fn check_closed_call(&mut self, id: &CallId) {
        let Some(call) = self.calls.get(id).filter(|call| !call.is_finished()) else { return };
        let may_have_acted = (call.has_code() || call.is_doubtful()) && self.acts_each_time(&call.tool);
        self.rule(!may_have_acted, Invariant::NoEffectTwice, || format!("{id} may have acted, and no result reports it"));
    }

    fn acts_each_time(&self, tool: &str) -> bool {
        self.tool(tool).is_some_and(|tool| tool.effect.acts_each_time())
    }
}
