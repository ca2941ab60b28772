//! Rule *after*: `after_execution` is taken from the first that sets it: the executor's envelope, the call, the tool's
//! config, the type's row. The executor reads it from an output only if the tool's config has `"controls_flow": true`.

use crate::prelude::*;

/// Returns the effective `after_execution` of a call.
pub(crate) fn after(envelope: Option<AfterExecution>, asked: &ModelCall, tool: &Tool) -> AfterExecution {
    envelope.or(asked.after_execution).unwrap_or_else(|| tool.after_by_default())
}

/// Gives `call` its result, after which its turn may be complete.
pub(crate) fn deliver(draft: &mut Draft<'_>, call: CallAt, result: Arc<CallResult>, envelope: Option<AfterExecution>) {
    draft.finish(call, result, envelope);
    draft.then(Step::Advance(call.task));
}
