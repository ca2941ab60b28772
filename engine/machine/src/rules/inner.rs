//! Rule *inner*: the code of a running call makes other calls.
//!
//! An inner call is checked, limited, approved and executed as a model's call is. Its result goes to the code and into no
//! request. It belongs to the task of the outer call, and ends with it. While the code waits for inner calls, the outer call
//! does not count as running: it leaves its place to others, and writers among the inner calls may run.
//!
//! After a crash the code runs again and makes the same calls under the same names. A call that has its result is not made a
//! second time. Another call under the name of an earlier one is refused, because the code has not repeated its first
//! execution.

use baton_types::id::is_call_name;

use crate::prelude::*;

/// The most calls between a model's call and an inner call, this one included.
const MAX_NESTING: usize = 8;

/// Checks whether the code of `by` may make this call now.
pub(crate) fn check(run: &Run, by: &CallId, name: &str, asked: &ModelCall) -> Result<(), Refusal> {
    let outer = run.running_function(by).ok_or_else(|| Refusal::NotRunning { call: by.clone() })?;
    let refuse = |why: String| Err(Refusal::CannotCall { call: by.clone(), why });
    let task = &run.graph[outer.task];
    let open = task.call(by).expect("the call is running");
    let tool = run.configs.tool_of(task.agent(), &open.asked);
    if tool.is_none_or(|tool| tool.calls.is_empty()) {
        return refuse(format!("the config of {} has no \"calls\"", open.asked.tool));
    }
    if !is_call_name(name) {
        return refuse(format!("a call cannot be named {name:?}; use 1 to 64 letters of ASCII, digits, '.', '_', '-' or '%'"));
    }
    let inner = by.inner(name);
    if inner.nesting() > MAX_NESTING {
        return refuse(format!("calls of code are nested {MAX_NESTING} deep at most"));
    }
    match task.call(&inner) {
        Some(earlier) if !earlier.original().asks_the_same(asked) => Err(Refusal::Diverged { call: inner }),
        Some(_) | None => Ok(()),
    }
}

/// Makes a call for the code of `by`. Nothing happens if the code made it before a crash.
pub(crate) fn make(draft: &mut Draft<'_>, by: &CallId, name: &str, asked: ModelCall) {
    let (Some(outer), call) = (draft.run.running_function(by), by.inner(name)) else { return };
    if draft.task(outer.task).call(&call).is_some() {
        return;
    }
    let (task, from) = (draft.id(outer.task), draft.calls(outer.task).len());
    draft.push(Entry::CallMade(CallMade { task, call, asked: Arc::new(asked) }));
    draft.then(Step::Arrive { task: outer.task, from, creating: 0 });
}
