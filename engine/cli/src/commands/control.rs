//! `baton pause`, `baton cancel`, `baton steer`: act on a run from any process.
//!
//! A run that another process owns is reached through the store's inbox. That process has a moment to carry the command out, so
//! that the person sees the outcome. If no process owns the run, `pause` and `cancel` of the whole run are stored at once, and
//! other commands wait in the inbox until it is resumed. `baton resume` ends a pause.

use baton_machine::{Run, Task};
use baton_types::entry::ControlAction;
use baton_types::id::TaskId;
use clap::Args;

use crate::app::{Asked, complete, engine, run_failure, task_named, text_or_stdin};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::text::text;
use crate::{style, terminal};

/// Arguments of `pause`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// The task to cancel: its id, such as 0/1.1, or its agent if the agent has only one task [default: the whole run]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Reason for the cancellation. The caller of the task receives it
    #[arg(long, value_name = "TEXT", default_value = "cancelled by a person")]
    reason: String,
}

/// Arguments of `steer`.
#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// The task: its id, such as 0/1.1, or its agent [default: the root task]. Then the message. `-` reads it from stdin
    #[arg(value_name = "[TASK] MESSAGE", num_args = 1..=2, required = true)]
    words: Vec<String>,
}

/// Pauses a run: it takes no further step.
pub(crate) async fn pause(args: &PauseArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, state) = going(place, &args.run).await?;
    let asked = Asked { found: &found, verb: "pause", task: None };
    let engine = engine(&found.store)?;
    let run = found.id();
    if state.totals().paused {
        let outcome = text!("run {} is already paused", style::name(run));
        return asked.report(place, "still", None, &outcome, Some("resume"));
    }
    let delivery = engine.pause(run, &terminal::person()).await.map_err(run_failure)?;
    let done = text!("run {} is paused; calls and requests in progress may finish", style::name(run));
    asked.delivered(place, delivery, &done, Some("resume"), |action| *action == ControlAction::Paused).await
}

/// Cancels a run, or a task with all tasks below it.
pub(crate) async fn cancel(args: &CancelArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, state) = going(place, &args.run).await?;
    let task = args.task.as_deref().map_or_else(|| Ok(root_of(&state)), |name| task_named(&state, name, Task::is_live))?;
    let engine = engine(&found.store)?;
    let run = found.id();
    let is_root = task.is_root();
    let delivery = engine.cancel(run, task.clone(), &args.reason, &terminal::person()).await.map_err(run_failure)?;
    let done = if is_root {
        text!("run {} is cancelled", style::name(run))
    } else {
        text!("task {task} of run {} is cancelled, with all tasks below it", style::name(run))
    };
    let asked = Asked { found: &found, verb: "cancel", task: Some(task) };
    asked.delivered(place, delivery, &done, None, |action| matches!(action, ControlAction::Cancelled { .. })).await
}

/// Sends a message that the task's agent reads with its next request.
pub(crate) async fn steer(args: &SteerArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, state) = going(place, &args.run).await?;
    let (name, message) = match args.words.as_slice() {
        [name, message] => (Some(name.as_str()), message.clone()),
        [message] => (None, message.clone()),
        _ => return Err(Failure::Usage("expected a message, or a task and a message".to_owned())),
    };
    let task = name.map_or_else(|| Ok(root_of(&state)), |name| task_named(&state, name, Task::is_live))?;
    let message = text_or_stdin(message, "the message is empty")?;
    let delivery =
        engine(&found.store)?.steer(found.id(), task.clone(), &message, &terminal::person()).await.map_err(run_failure)?;
    let holder = state.task(&task).map(|task| task.holder.to_string()).unwrap_or_default();
    let done = text!("{} ({task}) receives the message with its next request", style::name(holder));
    let asked = Asked { found: &found, verb: "steer", task: Some(task) };
    let is_it = |action: &ControlAction| matches!(action, ControlAction::Steered { text } if *text == message);
    asked.delivered(place, delivery, &done, None, is_it).await
}

/// Returns the root task of the run.
fn root_of(state: &Run) -> TaskId {
    state.root().map_or_else(TaskId::root, |root| root.id.clone())
}

/// Returns the run that `name` means; refused if it has ended.
async fn going(place: &Place, name: &str) -> Result<(FoundRun, Run), Failure> {
    let found = runs::find(place, name).await?;
    let state = found.state().await?;
    match state.ended() {
        Some(ended) => Err(Failure::Refused(format!("run {} has ended: {}", found.id(), ended.state.as_str()))),
        None => Ok((found, state)),
    }
}
