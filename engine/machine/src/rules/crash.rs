//! Rule *effect classes*: what a crash does to a request or a call in progress.
//!
//! A request is settled at its reservation and made again, with the same bytes. A `pure`, `idempotent` or `keyed` call runs
//! again. An `at_most_once` call never runs again: the result is `unknown_outcome`, or its master is asked.

use baton_types::config::EffectClass;

use crate::changed_since;
use crate::prelude::*;

/// The reason why requests and calls in progress are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The process that waited for them is gone.
    AfterCrash,
    /// They belong to another run, the original of the fork.
    InFork,
}

/// Records that a process took the run over, and recovers every living task.
pub(crate) fn take_over(draft: &mut Draft<'_>, process: String) -> Steps {
    let action = ControlAction::TakenOver { process };
    draft.push(Entry::Control(Control { task: None, action, by: Principal::Engine }));
    draft.run.graph.live().map(|task| Step::Recover { task, recovery: Recovery::AfterCrash }).collect()
}

/// Lets `task` continue after its request or its calls in progress were lost.
pub(crate) fn recover(draft: &mut Draft<'_>, task: TaskIndex, recovery: Recovery) -> Steps {
    let of = draft.task(task);
    if !of.is_live() {
        return Vec::new();
    }
    if of.holder == Holder::Person {
        let question = of.id.clone();
        draft.decision.effects.push(Effect::AskPerson { question });
        return Vec::new();
    }
    if let Some(request) = of.phase.request() {
        // The task is ready from here on, and its model is asked again when limits admit it.
        match recovery {
            Recovery::AfterCrash if request.uncharged => draft.settle_at_nothing(task),
            // Its usage can no longer become known.
            Recovery::AfterCrash => draft.settle_at_worst(task),
            // The original made the request and accounts for it.
            Recovery::InFork => draft.settle_at_nothing(task),
        }
        return Vec::new();
    }
    let running = of.calls().enumerate().filter(|(_, call)| call.is_running() && call.is_function());
    let steps: Steps = running.map(|(index, _)| Step::Resume { call: CallAt { task, index }, recovery }).collect();
    match recovery {
        Recovery::AfterCrash => draft.settle_asks_at_worst(task, None),
        Recovery::InFork => draft.leave_asks_to_original(task),
    }
    steps
}

/// Runs `call` again, unless that could repeat its effect.
pub(crate) fn resume(draft: &mut Draft<'_>, call: CallAt, recovery: Recovery) -> Steps {
    let configs = draft.configs();
    let open = draft.call(call);
    let tool = &configs.tools[open.asked.tool.as_str()];
    let is_as_approved = open.approved().is_none_or(|binds| tool.bound_hash(&open.asked.input) == binds);
    // In a fork the shell knows what became of the call in the original.
    if tool.effect == EffectClass::AtMostOnce && recovery == Recovery::AfterCrash {
        return vec![Step::Interrupt(call)];
    }
    if !is_as_approved {
        // It began as approved, but would now begin as something else.
        let result = CallResult::error(CallStatus::Failed, changed_since(tool)).into();
        return vec![Step::Deliver { call, result, envelope: None }];
    }
    draft.execute(call, tool);
    Vec::new()
}
