//! The calls of a task in universal invocation, by the ids that its model gave them: `requestId` of seeds 000 and 001.
//!
//! A request is answered once. The same request again gets the stored result, and another request with the same id is a
//! conflict. The fold of `call_finished` entries is the map from ids to calls, so it survives crashes, compactions and forks.
//! A refused call leaves its id free, because nothing of it happened: the model corrects the input and sends the same id.
//!
//! Providers' own ids are *not* requests. They identify a call within one turn, and some providers use them again.

use std::collections::{BTreeMap, BTreeSet};

use crate::bounded;
use crate::prelude::*;

/// The answered requests of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// Number of its calls so far, refused ones included.
    asked: u32,
    answered: BTreeMap<Box<str>, AnsweredRequest>,
}

/// A call that has a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AnsweredRequest {
    /// Its id.
    pub(super) call: CallId,
    /// The call as the model wrote it.
    asked: Arc<ModelCall>,
    /// Its result.
    pub(super) result: Arc<CallResult>,
}

impl Requests {
    /// The requests of a task without calls.
    pub(super) const NONE: Self = Self { asked: 0, answered: BTreeMap::new() };

    /// Gives an id to each of `calls` without one. No other call of the turn has it, and no answered request.
    pub(super) fn name_calls(&self, calls: &mut [ModelCall]) {
        let mut taken: BTreeSet<Box<str>> = calls.iter().filter_map(|call| call.provider_id.clone()).collect();
        for (number, call) in (self.asked.saturating_add(1)..).zip(calls) {
            if call.provider_id.is_none() {
                let id = self.free_id(call.shown_name(), number, &taken);
                taken.insert(id.clone());
                call.provider_id = Some(id);
            }
        }
    }

    /// Returns the first id from `{tool}-{number}` on that is neither answered nor `taken`.
    fn free_id(&self, tool: &str, number: u32, taken: &BTreeSet<Box<str>>) -> Box<str> {
        let tool = bounded(tool);
        let ids = (u64::from(number)..).map(|number| format!("{tool}-{number}").into_boxed_str());
        let is_free = |id: &str| !taken.contains(id) && !self.answered.contains_key(id);
        ids.into_iter().find(|id| is_free(id)).expect("numbers do not end")
    }

    /// Counts the calls of a turn.
    pub(super) fn count(&mut self, calls: usize) {
        self.asked = self.asked.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
    }

    /// Stores the result of `call`. The first result of an id stays.
    pub(super) fn answer(&mut self, call: &CallId, asked: &Arc<ModelCall>, result: &Arc<CallResult>) {
        if let Some(id) = &asked.provider_id {
            let answered = || AnsweredRequest { call: call.clone(), asked: Arc::clone(asked), result: Arc::clone(result) };
            self.answered.entry(id.clone()).or_insert_with(answered);
        }
    }

    /// Returns the answered request that `asked` repeats, or the error of an id that another call has. `earlier` are the calls
    /// before it in its turn.
    pub(super) fn earlier(&self, asked: &ModelCall, earlier: &[OpenCall]) -> Result<Option<&AnsweredRequest>, CallError> {
        let Some(id) = &asked.provider_id else { return Ok(None) };
        let conflict = |what: &str| {
            let free = self.free_id(asked.shown_name(), self.asked.saturating_add(1), &BTreeSet::new());
            let message = format!("requestId {:?} {what}; use a new one, such as {free:?}", bounded(id));
            CallError::new(ErrorCode::Conflict, message)
        };
        if earlier.iter().any(|call| call.asked.provider_id.as_ref() == Some(id)) {
            return Err(conflict("is the id of another call of this answer"));
        }
        match self.answered.get(id) {
            Some(answered) if answered.asked.asks_the_same(asked) || is_reordered(&answered.asked, asked) => Ok(Some(answered)),
            Some(answered) if answered.asked.tool == asked.tool => {
                let other = if answered.asked.input == asked.input { "configuration" } else { "input" };
                Err(conflict(&format!("belongs to an earlier call with another {other}")))
            }
            Some(answered) => Err(conflict(&format!("belongs to an earlier call of {}", answered.asked.shown_name()))),
            None => Ok(None),
        }
    }
}

/// Whether `asked` differs from `earlier` in the order of the keys of its input only.
fn is_reordered(earlier: &ModelCall, asked: &ModelCall) -> bool {
    (&earlier.tool, &earlier.config_id) == (&asked.tool, &asked.config_id) && earlier.input.value() == asked.input.value()
}
