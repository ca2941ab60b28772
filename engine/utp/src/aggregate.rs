//! The end of a step with several calls: what their results mean together.

use baton_types::call::AfterExecution;

use crate::status::Status;

/// One result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its status.
    pub status: Status,
    /// The effective step after it.
    pub after_execution: AfterExecution,
}

/// The meaning of the results of a step for the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// So many calls have no result yet: the work stays suspended.
    Waiting(usize),
    /// The agent is asked again.
    Continues,
    /// The work ends with this status.
    Ends(Status),
}

/// Returns what `results`, in the order of the calls, mean while `waiting` calls have none.
///
/// One result with `terminate` ends the work. Its status is then the first of these results without success, or `success`.
pub fn aggregate(results: &[Answered], waiting: usize) -> StepEnd {
    if waiting > 0 {
        return StepEnd::Waiting(waiting);
    }
    let mut terminating = results.iter().filter(|result| result.after_execution == AfterExecution::Terminate).peekable();
    if terminating.peek().is_none() {
        return StepEnd::Continues;
    }
    let status = terminating.map(|result| result.status).find(|status| *status != Status::Success);
    StepEnd::Ends(status.unwrap_or(Status::Success))
}
