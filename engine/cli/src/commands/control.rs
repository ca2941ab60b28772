//! `baton pause`, `baton cancel`, `baton steer`: acting on a run from wherever one is.
//!
//! A run that proceeds in another process is acted on by way of the store's inbox, and its process has a moment to carry
//! it out, so that the person sees what came of it. `baton resume` is what ends a pause.

use std::io::Read;
use std::sync::Arc;

use baton_core::entry::{ControlAction, Entry, Holder as TaskHolder, Recorded};
use baton_core::id::TaskId;
use baton_runtime::{Delivery, Engine, Holder, RunOutcome};
use baton_timeline::Line;
use clap::Args;
use serde_json::json;

use crate::commands::completions;
use crate::commands::run::{builder, engine};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::screen::style;
use crate::shell::baton;
use crate::signals::Interruptions;
use crate::text::{Text, text};
use crate::trust::Manner;
use crate::view::{RunView, TaskState};
use crate::{job, session};

/// What `pause` takes.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The run: its id, a beginning of it, or @last
    #[arg(add = completions::runs())]
    run: String,
}

/// What `cancel` takes.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run: its id, a beginning of it, or @last
    #[arg(add = completions::runs())]
    run: String,
    /// A task with all below it: its id, or its agent where that holds one task only [default: the whole run]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Why; whoever waits for the task is told
    #[arg(long, value_name = "TEXT", default_value = "a person cancelled it")]
    reason: String,
    /// Trust what the run reaches, where no process runs it and this one has to take it over
    #[arg(long)]
    trust: bool,
}

/// What `steer` takes.
#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// The run: its id, a beginning of it, or @last
    #[arg(add = completions::runs())]
    run: String,
    /// The task (its id, or its agent) where it is not the root, then the message; `-` reads that from stdin
    #[arg(value_name = "[TASK] MESSAGE", num_args = 1..=2, required = true)]
    words: Vec<String>,
}

/// What was asked of a run.
struct Asked<'a> {
    found: &'a FoundRun,
    /// The verb as it was typed.
    verb: &'static str,
    task: Option<TaskId>,
}

/// Lets a run take no further step.
pub(crate) async fn pause(args: &PauseArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, view) = going(place, &args.run).await?;
    let asked = Asked { found: &found, verb: "pause", task: None };
    let engine = engine(&found.store)?;
    let run = found.id();
    if view.paused || engine.holder(run).await.map_err(job::run_failure)? == Holder::Nobody {
        let still = if view.paused { "is paused already" } else { "stands still already: no process runs it" };
        return asked.tell(place, "still", None, &text!("run {} {still}", style::name(run)), Some("resume"));
    }
    let delivery = engine.pause(run, &session::person()).await.map_err(job::run_failure)?;
    let done = text!("run {} is paused; what was in flight may finish", style::name(run));
    asked.delivered(place, delivery, &done, Some("resume"), |action| *action == ControlAction::Paused).await
}

/// Ends a run, or a task with all below it.
pub(crate) async fn cancel(args: &CancelArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, view) = going(place, &args.run).await?;
    let task = args.task.as_deref().map_or_else(|| Ok(TaskId::root()), |name| task(&view, name))?;
    let engine = engine(&found.store)?;
    let run = found.id();
    let is_root = task == TaskId::root();
    let nobody_runs_it = engine.holder(run).await.map_err(job::run_failure)? == Holder::Nobody;
    let mut delivery = engine.cancel(run, task.clone(), &args.reason, &session::person()).await.map_err(job::run_failure)?;
    if is_root && nobody_runs_it {
        // The inbox is drained with the take-over, so the run ends before anything of it is done again.
        let builder = builder(&found.store, place.store_file(), place, Manner::of(args.trust))?;
        end(&builder.build().map_err(job::run_failure)?, &found).await?;
        delivery = Delivery::Done;
    }
    let done = if is_root {
        text!("run {} is cancelled", style::name(run))
    } else {
        text!("task {task} of run {} is cancelled, with all below it", style::name(run))
    };
    let asked = Asked { found: &found, verb: "cancel", task: Some(task) };
    asked.delivered(place, delivery, &done, None, |action| matches!(action, ControlAction::Cancelled { .. })).await
}

/// Sends a message into the next request of a task.
pub(crate) async fn steer(args: &SteerArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, view) = going(place, &args.run).await?;
    let (name, message) = match args.words.as_slice() {
        [name, message] => (Some(name.as_str()), message.clone()),
        [message] => (None, message.clone()),
        _ => return Err(Failure::Usage("expected a message, or a task and a message".to_owned())),
    };
    let task = name.map_or_else(|| Ok(TaskId::root()), |name| task(&view, name))?;
    let message = given(message)?;
    let delivery =
        engine(&found.store)?.steer(found.id(), task.clone(), &message, &session::person()).await.map_err(job::run_failure)?;
    let done = text!("{} ({task}) reads it with its next request", style::name(view.holder(&task)));
    let asked = Asked { found: &found, verb: "steer", task: Some(task) };
    let is_it = |action: &ControlAction| matches!(action, ControlAction::Steered { text } if *text == message);
    asked.delivered(place, delivery, &done, None, is_it).await
}

/// Lets a paused run go on in the process that holds it.
pub(crate) async fn unpause(engine: &Engine, found: &FoundRun, place: &Place) -> Result<Exit, Failure> {
    let delivery = engine.unpause(found.id(), &session::person()).await.map_err(job::run_failure)?;
    let done = text!("run {} goes on, in the process that runs it", style::name(found.id()));
    let asked = Asked { found, verb: "resume", task: None };
    asked.delivered(place, delivery, &done, Some("show"), |action| *action == ControlAction::Unpaused).await
}

impl Asked<'_> {
    /// Tells what became of the command; `is_it` knows the entry that carried it out.
    async fn delivered(
        &self,
        place: &Place,
        delivery: Delivery,
        done: &Text,
        next: Option<&'static str>,
        is_it: impl Fn(&ControlAction) -> bool,
    ) -> Result<Exit, Failure> {
        let run = style::name(self.found.id());
        match delivery {
            Delivery::Done => {
                let entries = self.found.entries_after(self.found.record.last_seq).await?;
                let of_it = |recorded: &&Arc<Recorded>| match &recorded.entry {
                    Entry::Control(control) => control.task == self.task && is_it(&control.action),
                    _ => false,
                };
                let Some(entry) = entries.iter().find(of_it).map(|entry| entry.seq) else {
                    return Err(Failure::Refused(format!(
                        "it came too late: the run had gone on before its process read it; look again: {}",
                        baton("show").value(self.found.id())
                    )));
                };
                self.tell(place, "done", self.found.line(entry).await?.as_ref(), done, next)
            }
            Delivery::Sent => {
                let told = text!("the process that runs {} was told, and has not carried it out yet", run);
                self.tell(place, "sent", None, &told, Some("show"))
            }
            Delivery::Queued => {
                let told = text!("no process runs {}: it waits in the inbox until the run is resumed", run);
                self.tell(place, "queued", None, &told, Some("resume"))
            }
        }
    }

    fn tell(
        &self,
        place: &Place,
        delivery: &str,
        entry: Option<&Line>,
        told: &Text,
        next: Option<&'static str>,
    ) -> Result<Exit, Failure> {
        let run = self.found.id();
        if place.screen.is_text() {
            place.screen.text(told)?;
            if let Some(next) = next {
                place.screen.tell(&text!("{}       {}", style::faint("next:"), baton(next).value(run)));
            }
        } else {
            place
                .screen
                .json(&json!({"run": run, "command": self.verb, "task": self.task, "delivery": delivery, "entry": entry}))?;
        }
        Ok(Exit::Done)
    }
}

/// The run that `name` means, if it has not ended.
async fn going(place: &Place, name: &str) -> Result<(FoundRun, RunView), Failure> {
    let found = runs::find(place, name).await?;
    let view = found.view().await?;
    match &view.ended {
        Some(ended) => Err(Failure::Refused(format!("run {} has ended: {}", found.id(), ended.state.as_str()))),
        None => Ok((found, view)),
    }
}

/// Takes a run over whose inbox ends it, and waits for that.
async fn end(engine: &Engine, found: &FoundRun) -> Result<(), Failure> {
    let mut interruptions = Interruptions::catch()?;
    let handle = engine.resume(found.id()).await.map_err(job::run_failure)?;
    let outcome = tokio::select! {
        outcome = handle.outcome() => outcome,
        () = interruptions.next() => handle.stop().await,
    };
    match outcome {
        RunOutcome::Failed(error) => Err(job::run_failure(error)),
        _ => Ok(()),
    }
}

/// The task that `name` means: its id, or the agent that holds it.
fn task(view: &RunView, name: &str) -> Result<TaskId, Failure> {
    let id = TaskId::new(name);
    if view.tasks.contains_key(&id) {
        return Ok(id);
    }
    let held = |id: &&TaskId| {
        let row = view.tasks.get(*id);
        row.is_some_and(|row| {
            !matches!(row.state, TaskState::Final(_))
                && matches!(&row.created.holder, TaskHolder::Agent(agent) if agent.as_str() == name)
        })
    };
    let held: Vec<&TaskId> = view.order.iter().filter(held).collect();
    match held.as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(Failure::not_found("task", name, view.order.iter().map(ToString::to_string))),
        several => {
            let ids: Vec<&str> = several.iter().map(|id| id.as_str()).collect();
            Err(Failure::Usage(format!("{name} holds several tasks: {}; say which one", ids.join(", "))))
        }
    }
}

/// The message on the command line, or on stdin.
fn given(message: String) -> Result<String, Failure> {
    let mut text = message;
    if text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text)?;
        text.truncate(text.trim_end().len());
    }
    if text.trim().is_empty() {
        return Err(Failure::Usage("the message is empty".to_owned()));
    }
    Ok(text)
}
