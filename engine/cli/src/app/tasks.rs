//! Finds tasks by the names that people use: an id, or the agent that holds the task.

use baton_machine::{Run, Task};
use baton_types::id::TaskId;

use crate::exit::Failure;

/// Returns the task of `run` that `name` means: an id, or the agent that holds only one of the tasks that `are_meant`.
pub(crate) fn task_named(run: &Run, name: &str, are_meant: impl Fn(&Task) -> bool) -> Result<TaskId, Failure> {
    let id = TaskId::new(name);
    if run.task(&id).is_some() {
        return Ok(id);
    }
    let is_held = |task: &&Task| are_meant(task) && task.agent().is_some_and(|agent| agent.as_str() == name);
    let held: Vec<&Task> = run.graph().iter().filter(is_held).collect();
    match held.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => Err(Failure::not_found("task", name, run.graph().iter().map(|task| task.id.to_string()))),
        several => {
            let ids: Vec<&str> = several.iter().map(|task| task.id.as_str()).collect();
            Err(Failure::Usage(format!("{name} has several tasks: {}; choose one", ids.join(", "))))
        }
    }
}
