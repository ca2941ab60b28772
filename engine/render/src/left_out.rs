//! The new content that a request leaves out, because its window has no room.

use std::collections::HashSet;
use std::sync::Arc;

use baton_types::call::{CallOutput, CallResult};
use baton_types::document::DocumentRef;
use baton_types::entry::{KeptResult, ModelRequested};
use baton_types::id::CallId;
use baton_types::message::{Part, TaskResult};

/// The new content for which a request has no room.
pub(crate) struct LeftOut<'a> {
    pub(crate) pointers: HashSet<&'a DocumentRef>,
    pub(crate) conflicts: HashSet<&'a DocumentRef>,
    /// Calls whose results another document holds.
    results: HashSet<&'a CallId>,
    /// Documents whose records another document holds.
    pub(crate) documents: HashSet<&'a DocumentRef>,
    /// Results whose outputs documents hold.
    kept: &'a [KeptResult],
}

impl<'a> LeftOut<'a> {
    pub(crate) fn of(requested: &'a ModelRequested) -> Self {
        let bundle = requested.bundle.as_deref();
        Self {
            pointers: requested.pointers.iter().collect(),
            conflicts: requested.conflicts.iter().collect(),
            results: bundle.iter().flat_map(|bundle| &bundle.results).collect(),
            documents: bundle.iter().flat_map(|bundle| &bundle.documents).collect(),
            kept: &requested.kept,
        }
    }

    /// Removes from the part of a result what the request leaves out.
    pub(crate) fn shorten(&self, part: &mut Part) {
        let (call, result, said, hint) = match part {
            Part::Result { call, result: Some(result), said, hint, .. } => (call, result, said, Some(hint)),
            Part::TaskResult(ended) => {
                let TaskResult { call, result, said, .. } = &mut **ended;
                (call, result, said, None)
            }
            _ => return,
        };
        if self.results.contains(call) {
            // The status stays.
            let status = result.status;
            *result = Arc::new(CallResult { status, output: CallOutput::default(), error: None, documents: Vec::new() });
            said.clear();
            hint.map(Option::take);
        } else if let Some(kept) = self.kept.iter().find(|kept| kept.call == *call) {
            Arc::make_mut(result).output = CallOutput::Kept(Box::new(kept.output.clone()));
        }
    }
}
