//! Comparison of a decision's entries with its effects: both must begin the same work.

use baton_types::entry::{ControlAction, Entry, Recorded};
use baton_types::event::{Decision, Effect};
use baton_types::id::CallId;

/// Checks that the entries of `decision` and its effects begin the same work. An error describes the first difference.
pub(crate) fn effects_match(decision: &Decision) -> Result<(), String> {
    let prompted = decision.effects.iter().filter(|effect| matches!(effect, Effect::Prompt { .. })).count();
    let asks = |entry: &Entry| matches!(entry, Entry::ModelRequested(_) | Entry::FellBack(_));
    let requested = decision.entries.iter().filter(|recorded| asks(&recorded.entry)).count();
    if prompted != requested {
        return Err(format!("{requested} models are asked by the timeline and {prompted} by the shell"));
    }
    // Calls begin again without an entry of their own after a take-over, and after the pause of a run that was quarantined.
    let recovers = decision.entries.first().is_some_and(|recorded| match &recorded.entry {
        Entry::Control(control) => matches!(control.action, ControlAction::TakenOver { .. } | ControlAction::Unpaused),
        _ => false,
    });
    let begun: Vec<&CallId> = decision.entries.iter().filter_map(|recorded| begun(recorded)).collect();
    let executed: Vec<&CallId> = decision.effects.iter().filter_map(executed).collect();
    let agree = if recovers { begun.iter().all(|call| executed.contains(call)) } else { begun == executed };
    if !agree {
        return Err(format!("{begun:?} begin and {executed:?} are executed"));
    }
    Ok(())
}

/// Returns the function call that an entry begins.
fn begun(recorded: &Recorded) -> Option<&CallId> {
    match &recorded.entry {
        Entry::CallStarted(started) if started.tool_type.behavior().runs_code => Some(&started.call),
        _ => None,
    }
}

/// Returns the call that an effect executes.
fn executed(effect: &Effect) -> Option<&CallId> {
    match effect {
        Effect::Execute { call, .. } => Some(call),
        Effect::Prompt { .. }
        | Effect::Return { .. }
        | Effect::StopCall { .. }
        | Effect::AskPerson { .. }
        | Effect::Stop { .. }
        | Effect::EndRun => None,
    }
}
