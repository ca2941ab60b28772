//! Commands to a run that another process may own: whether they were carried out, and the output about it.

use std::sync::Arc;

use baton_runtime::{Delivery, Engine};
use baton_timeline::Line;
use baton_types::entry::{ControlAction, Entry, Recorded};
use baton_types::id::TaskId;
use serde_json::json;

use super::engine::run_failure;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::FoundRun;
use crate::shell::baton;
use crate::text::{Text, text};
use crate::{style, terminal};

/// A command to a run.
pub(crate) struct Asked<'a> {
    /// The run.
    pub(crate) found: &'a FoundRun,
    /// The verb, as the person typed it.
    pub(crate) verb: &'static str,
    /// The task; `None` for the whole run.
    pub(crate) task: Option<TaskId>,
}

impl Asked<'_> {
    /// Prints the outcome of the command. `is_it` recognizes the action of the entry that carried it out.
    pub(crate) async fn delivered(
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
                        "the command came too late: the run proceeded before its process read it; look at the run again: {}",
                        baton("show").value(self.found.id())
                    )));
                };
                self.report(place, "done", self.found.line(entry).await?.as_ref(), done, next)
            }
            Delivery::Sent => {
                let outcome = text!("the process that runs {} has received the command and has not carried it out yet", run);
                self.report(place, "sent", None, &outcome, Some("show"))
            }
            Delivery::Queued => {
                let outcome =
                    text!("no process runs {}: the command is in the inbox and is carried out when the run is resumed", run);
                self.report(place, "queued", None, &outcome, Some("resume"))
            }
        }
    }

    /// Prints the outcome `outcome` and the suggested `next` command, or the same as JSON.
    pub(crate) fn report(
        &self,
        place: &Place,
        delivery: &str,
        entry: Option<&Line>,
        outcome: &Text,
        next: Option<&'static str>,
    ) -> Result<Exit, Failure> {
        let run = self.found.id();
        if place.screen.is_text() {
            place.screen.text(outcome)?;
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

/// Unpauses a run in the process that owns it.
pub(crate) async fn unpause(engine: &Engine, found: &FoundRun, place: &Place) -> Result<Exit, Failure> {
    let delivery = engine.unpause(found.id(), &terminal::person()).await.map_err(run_failure)?;
    let done = text!("run {} continues in the process that runs it", style::name(found.id()));
    let asked = Asked { found, verb: "resume", task: None };
    asked.delivered(place, delivery, &done, Some("show"), |action| *action == ControlAction::Unpaused).await
}
