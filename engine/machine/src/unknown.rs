//! Calls whose effect is not known: no other call repeats them, and each task above them names them.

use crate::bounded;
use crate::prelude::*;
use crate::task::UnknownCall;

/// Maximum number of calls that an error names.
const CALLS_NAMED: usize = 10;

impl UnknownCall {
    /// Whether the code of `outer` led to the call.
    fn is_below(&self, outer: &CallId) -> bool {
        self.call.as_str().strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with(':'))
    }
}

impl Task {
    /// Returns `result`, with which the task ends. Without success, its error names the calls whose effect is not known.
    pub(super) fn with_unknown(&self, result: Arc<CallResult>) -> Arc<CallResult> {
        // The result of a call that is the result of its task names them already.
        if matches!(result.status, CallStatus::Success | CallStatus::UnknownOutcome) {
            return result;
        }
        named(result, self.extras().unknown.iter())
    }
}

impl Run {
    /// Returns `result` of the call `outer` of the task at `at`. If its code failed after a call that it made had an unknown outcome, its
    /// own outcome is unknown too: a repetition could repeat the effects.
    pub(super) fn with_unknown_of_code(&self, at: TaskIndex, outer: &CallId, result: Arc<CallResult>) -> Arc<CallResult> {
        let task = &self.graph[at];
        // A success stays one: the code knew the results of its calls, or that it did not wait for them.
        let has_called = task.phase.calls().is_some_and(|calls| calls.len() > calls.own().len());
        if result.status == CallStatus::Success || !has_called {
            return result;
        }
        let (ended, open) = (task.extras().unknown.iter().cloned(), self.interrupted_below(at));
        let unknown: Vec<UnknownCall> = ended.chain(open).filter(|unknown| unknown.is_below(outer)).collect();
        if unknown.is_empty() {
            return result;
        }
        let mut result = CallResult::clone(&named(result, unknown.iter()));
        result.status = CallStatus::UnknownOutcome;
        if let Some(error) = &mut result.error {
            error.code = ErrorCode::UnknownOutcome;
        }
        result.into()
    }

    /// Returns the calls of tasks below `task` whose effect is not known once these tasks are closed.
    fn interrupted_below(&self, task: TaskIndex) -> Vec<UnknownCall> {
        let below = self.graph.live_below(task);
        let calls = below.iter().flat_map(|task| self.graph[*task].calls());
        let acts =
            |call: &&OpenCall| call.stage == CallStage::Doubt || self.runs_as(&call.id, |tool| tool.effect.acts_each_time());
        let unknown = calls.filter(acts);
        unknown.map(|call| UnknownCall { call: call.id.clone(), tool: ToolId::new(call.asked.tool.as_str()) }).collect()
    }

    /// Whether `call` is running and must not be repeated. Without its process it is interrupted.
    pub fn is_interrupted(&self, call: &CallId) -> bool {
        self.runs_as(call, Tool::is_lost_in_crash)
    }

    /// Whether the code of `call` is running, and `is` holds for its tool.
    fn runs_as(&self, call: &CallId, is: impl FnOnce(&Tool) -> bool) -> bool {
        let open = self.task(&call.task()).and_then(|task| task.call(call));
        let tool = open.filter(|open| open.is_running() && open.is_function()).map(|open| open.asked.tool.as_str());
        tool.and_then(|tool| self.configs.tools.get(tool)).is_some_and(|tool| is(tool))
    }

    /// Returns the call above `call` that is interrupted without its process. Its end also ends `call`.
    pub fn interrupted_above(&self, call: &CallId) -> Option<CallId> {
        let mut above = Some(call.clone());
        while let Some(call) = above {
            let outer = call.outer().map(|(outer, _)| outer);
            if let Some(outer) = outer.clone().filter(|outer| self.is_interrupted(outer)) {
                return Some(outer);
            }
            let task = call.task();
            above = outer.or_else(|| (!task.is_root()).then(|| task.originating_call()));
        }
        None
    }

    /// Iterates over the running calls that must not be repeated. Without its process, each of them is interrupted.
    pub fn interruptible(&self) -> impl Iterator<Item = (&Task, &OpenCall)> {
        let calls = self.graph.iter().flat_map(|task| task.calls().map(move |call| (task, call)));
        calls.filter(|(_, call)| self.is_interrupted(&call.id))
    }
}

/// Adds the calls `unknown` to the error of `result`.
fn named<'u>(result: Arc<CallResult>, unknown: impl Iterator<Item = &'u UnknownCall>) -> Arc<CallResult> {
    let names: Vec<String> = unknown.take(CALLS_NAMED).map(|UnknownCall { call, tool }| format!("{tool} ({call})")).collect();
    if names.is_empty() {
        return result;
    }
    let mut result = CallResult::clone(&result);
    let message = format!("{}; it is unknown whether these calls took effect: {}", result.reason(), bounded(&names.join(", ")));
    result.add_detail("unknown_outcome", json!(names));
    if let Some(error) = &mut result.error {
        error.message = message;
    }
    result.into()
}

/// Notes a result of a call on its task and on all tasks above it, if the call may have taken effect and did not report it.
pub(super) fn note(run: &mut Run, task: TaskIndex, entry: &CallFinished) {
    let outcome_is_unknown = matches!(entry.result.status, CallStatus::UnknownOutcome | CallStatus::Timeout);
    if !outcome_is_unknown || !entry.tool_type.behavior().runs_code {
        return;
    }
    if run.configs.tools.get(&entry.tool).is_some_and(|tool| !tool.effect.acts_each_time()) {
        return;
    }
    let holders: Vec<TaskIndex> = run.graph.upwards(task).collect();
    for holder in holders {
        let unknown = UnknownCall { call: entry.call.clone(), tool: entry.tool.clone() };
        run.graph[holder].extras.get_or_insert_default().unknown.push(unknown);
    }
}
