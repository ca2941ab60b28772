//! Rule *effect classes*: what a crash does to a request or a call in progress.
//!
//! A request is settled at its reservation and made again, with the same bytes. A `pure`, `idempotent` or `keyed` call runs
//! again. An `at_most_once` call never runs again: the result is `unknown_outcome`, or its master is asked. The calls that its code
//! made end with it. A call of a tool service has no effect before it is suspended, so it runs again in each class.

use crate::changed_since;
use crate::prelude::*;

/// Number of owners that may die without a turn or a call ending before a run is quarantined.
const MOST_DEATHS: u32 = 3;

/// The reason why requests and calls in progress are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The process that waited for them is gone.
    AfterCrash,
    /// They belong to another run, the original of the fork.
    InFork,
}

impl Recovery {
    /// Returns the usage of a lost request.
    const fn used(self) -> Used {
        match self {
            // Its usage can no longer become known.
            Self::AfterCrash => Used::Reservation,
            // The original made the request and accounts for it.
            Self::InFork => Used::Nothing,
        }
    }
}

/// Records that a process took the run over, and recovers every living task. A run whose owners die one after another is quarantined
/// instead: what killed them would kill this process too.
pub(crate) fn take_over(draft: &mut Draft<'_>, process: String, after_death: bool) {
    draft.control(None, ControlAction::TakenOver { process, after_death }, Principal::Engine);
    let shared = &draft.run.shared;
    let deaths = shared.deaths;
    if after_death && deaths >= MOST_DEATHS && !shared.paused {
        draft.control(None, ControlAction::Quarantined { deaths }, Principal::Engine);
    }
    draft.then(Step::RecoverAll);
}

/// Recovers every living task. In a run that is quarantined, requests are settled, and calls keep their places until the end of the pause.
pub(crate) fn recover_all(draft: &mut Draft<'_>) {
    let (graph, quarantined) = (&draft.run.graph, draft.run.shared.quarantined);
    let recovers = |task: &TaskIndex| !quarantined || graph[*task].phase.request().is_some();
    let recover = |task| Step::Recover { task, recovery: Recovery::AfterCrash };
    draft.steps.extend(graph.live().filter(recovers).map(recover));
}

/// Lets `task` continue after its request or its calls in progress were lost.
pub(crate) fn recover(draft: &mut Draft<'_>, task: TaskIndex, recovery: Recovery) {
    let of = &draft.run.graph[task];
    if !of.is_live() {
        return;
    }
    if of.holder == Holder::Person {
        let question = of.id.clone();
        draft.decision.effects.push(Effect::AskPerson { question });
        return;
    }
    if let Some(request) = of.phase.request() {
        // The task is ready from here on, and its model is asked again when limits admit it.
        let used = if request.uncharged { Used::Nothing } else { recovery.used() };
        return draft.settle_request(task, used);
    }
    // A suspended call has no code that could be lost.
    let running = of.calls().enumerate().filter(|(_, call)| call.is_running() && call.is_function());
    let running = running.map(|(index, _)| CallAt { task, index });
    let (lost, resumed): (Vec<_>, Vec<_>) = running.partition(|call| recovery == Recovery::AfterCrash && is_lost(draft, *call));
    // The others end with the code that made them. Calls that they made are behind them, and are first here.
    let in_doubt = lost.into_iter().rev().filter(|call| draft.tool(*call).effect.acts_each_time());
    let steps: Vec<_> = in_doubt
        .map(|call| Step::Deliver { call, result: outcome::unknown(None).into(), envelope: None })
        .chain(resumed.into_iter().map(|call| Step::Resume { call, recovery }))
        .collect();
    draft.steps.extend(steps);
    draft.settle_asks(task, None, recovery.used());
}

/// Whether the code that waits for `call` is gone for good: it made the call, directly or not, and is not repeated after a crash.
fn is_lost(draft: &Draft<'_>, call: CallAt) -> bool {
    let mut above = std::iter::successors(draft.outer(call), |outer| draft.outer(*outer));
    above.any(|outer| draft.tool(outer).is_lost_in_crash())
}

/// Runs `call` again, unless that could repeat its effect.
pub(crate) fn resume(draft: &mut Draft<'_>, call: CallAt, recovery: Recovery) {
    let (tool, open) = (draft.tool(call), draft.call(call));
    // In a fork the shell knows what became of the call in the original.
    if tool.is_lost_in_crash() && recovery == Recovery::AfterCrash {
        draft.end_inner(call);
        return draft.then(Step::Interrupt(call));
    }
    if open.approved().is_some_and(|call_hash| tool.call_hash(&open.asked.input) != call_hash) {
        // It began as approved, but would now begin as something else.
        let result = CallResult::error(CallStatus::Failed, changed_since(&tool)).into();
        return draft.then(Step::Deliver { call, result, envelope: None });
    }
    draft.execute(call, &tool);
}
