//! The code of a running call asks a model. The request is reserved before and settled after, as a task's own requests are. A
//! limit that leaves no room is an error to the code.

use baton_types::entry::{CallAskedModel, CallRequest};
use baton_types::event::CallAsk;

use crate::prelude::*;

/// Checks whether the code of a call may make a request now.
pub(crate) fn check(run: &Run, ask: &CallAsk) -> Result<(), Refusal> {
    let CallAsk { by, model: _, input_tokens, output_tokens, worst_cost } = ask;
    let Some(call) = run.running_function(&by.call) else {
        return Err(Refusal::NotRunning { call: by.call.clone() });
    };
    if open_ask(run, by).is_some() {
        return Err(Refusal::AlreadyAsked { call: by.call.clone(), request: by.request });
    }
    match run.admits_ask(call.task, *input_tokens, *output_tokens, *worst_cost) {
        Admission::Now => Ok(()),
        Admission::Later => Err(Refusal::NoRoom),
        Admission::Reached(reached) => Err(Refusal::LimitReached { limit: reached.limit }),
    }
}

/// Reserves tokens and money for a request of a call's code. The request may be made once the entry is durable.
pub(crate) fn ask(draft: &mut Draft<'_>, ask: CallAsk) {
    let CallAsk { by, model, input_tokens, output_tokens, worst_cost } = ask;
    let (task, reserved_tokens) = (by.call.task(), input_tokens.saturating_add(output_tokens));
    let asked = CallAskedModel { task, by, model, input_tokens, reserved_tokens, reserved_cost: worst_cost };
    draft.push(Entry::CallAskedModel(Box::new(asked)));
}

/// Settles a request of a call's code, answered or not. If the call has ended meanwhile, its end has settled the request.
pub(crate) fn hear(draft: &mut Draft<'_>, by: &CallRequest, used: Option<(Usage, Option<Money>)>) {
    if let Some((task, ask)) = open_ask(draft.run, by).map(|(task, ask)| (task, ask.clone())) {
        let used = used.map_or(Used::Reservation, |(usage, cost)| Used::Known(usage.bounded(), cost));
        draft.settle_ask(task, ask, used);
    }
}

fn open_ask<'r>(run: &'r Run, by: &CallRequest) -> Option<(TaskIndex, &'r OpenAsk)> {
    let task = run.graph.find(by.call.task_text())?;
    let ask = run.graph[task].phase.calls()?.asks().iter().find(|ask| ask.by == *by)?;
    Some((task, ask))
}
