//! Status of a run in lists of runs, and the moment at which a waiting run continues.

use baton_machine::Run;
use baton_types::call::CallStatus;
use baton_types::time::Timestamp;

/// Status of a run that proceeds, in lists of runs.
const STATUS_RUNNING: &str = "running";
/// Status of a run that can continue only with a person's answer.
pub(crate) const STATUS_WAITING: &str = "waiting";
/// Status of a paused run.
pub(crate) const STATUS_PAUSED: &str = "paused";
/// Status of a run that is paused since its owners died.
pub(crate) const STATUS_QUARANTINED: &str = "quarantined";
/// Status of a run that no process has executed yet.
pub(crate) const STATUS_QUEUED: &str = "queued";

/// Returns the status of `run` for lists of runs while it has an owner.
pub(super) fn status(run: &Run) -> &'static str {
    match run.ended() {
        Some(end) if end.status == CallStatus::Partial => end.status.as_str(),
        Some(end) => end.state.as_str(),
        None => idle_status(run).unwrap_or(STATUS_RUNNING),
    }
}

/// Returns the status of a `run` that cannot proceed. It does not depend on the owner.
pub(super) fn idle_status(run: &Run) -> Option<&'static str> {
    if run.waits_only_for_people() && !run.totals().quarantined {
        return Some(STATUS_WAITING);
    }
    if run.totals().paused {
        return Some(if run.totals().quarantined { STATUS_QUARANTINED } else { STATUS_PAUSED });
    }
    (run.is_idle() && run.totals().suspended_calls > 0).then_some(STATUS_WAITING)
}

/// Returns when the waiting `run` continues by itself, or the last moment if only others can wake it. `None` if it does not wait: it
/// has ended, is paused, or has work in progress.
pub(super) fn wakes(run: &Run) -> Option<Timestamp> {
    (run.is_idle() && !run.totals().paused).then(|| run.next_wake().unwrap_or(Timestamp::MAX))
}
