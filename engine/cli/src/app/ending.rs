//! The end of every execution: exports documents, prints the result, suggests the next commands.

use std::path::PathBuf;
use std::sync::Arc;

use baton_runtime::{RunError, RunHandle};
use baton_store::Store;
use clap::{Args, ValueHint};

use crate::app::bus::build;
use crate::app::engine::{builder, engine, run_failure};
use crate::cassettes::RecordingArgs;
use crate::exit::{Exit, Failure};
use crate::export::{Exported, Plan, Target};
use crate::place::Place;
use crate::runs::FoundRun;
use crate::screen::{self, Output};
use crate::session::{self, Ended};
use crate::shell::{CommandLine, baton};
use crate::signals::Interruptions;
use crate::text::{Text, text};
use crate::trust::Manner;
use crate::view::RunView;
use crate::{job, person, style, terminal, words};

/// Options for the end of an execution.
#[derive(Debug, Args)]
pub(crate) struct Ending {
    /// Write the result's documents into DIR, a new or empty folder, such as `out`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Allow --out to replace files in a folder that is not empty
    #[arg(long, requires = "out")]
    force: bool,
}

impl Ending {
    /// Returns the folder for the documents. Called before the run, so that a bad folder is found before any work.
    pub(crate) fn target(&self, place: &Place) -> Result<Option<Target>, Failure> {
        let Some(out) = &self.out else { return Ok(None) };
        Target::checked(place.current.join(out), self.force, place).map(Some)
    }
}

/// Follows a run to its end, and prints its result.
pub(crate) async fn finish(
    handle: &RunHandle,
    reported: u64,
    store: &Arc<dyn Store>,
    place: &Place,
    out: Option<&Target>,
    interruptions: Interruptions,
) -> Result<Exit, Failure> {
    let model = engine(store)?.started(handle.id()).await.map_err(run_failure)?.model;
    let place = &place.with_screen(person::screen_of(place.screen, model.as_deref()));
    let Ended { view, exit } = session::follow(handle, reported, store, place, interruptions).await?;
    let exported = match out {
        Some(out) => {
            let documents = view.handed_off();
            let plan = Plan::new(&documents, out);
            plan.notices(place).iter().for_each(|line| place.screen.tell(&text!("writes      {line}")));
            plan.carry_out(store).await
        }
        None => Ok(Exported::default()),
    };
    let files: Vec<PathBuf> = exported.iter().flat_map(|exported| exported.written.iter().cloned()).collect();
    // The result of the run is reported even if the export failed or the reader of stdout is gone.
    match report(&view, exit, place, &files) {
        Err(failure) if failure.is_broken_pipe() => suggest(&view, exit, place),
        reported => reported?,
    }
    exported?.files().map(|_| exit)
}

/// Options of commands that continue a run if no process executes it.
#[derive(Debug, Args)]
pub(crate) struct Continuation {
    /// Do not continue a run that no process executes; `baton resume` or `baton work` does it later
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    pub(crate) ending: Ending,
    #[command(flatten)]
    recording: RecordingArgs,
}

/// Continues a run that no process executes, as `baton resume` does, until it waits for a delivery or a moment.
pub(crate) async fn resume_and_finish(
    found: &FoundRun,
    options: &Continuation,
    out: Option<&Target>,
    place: &Place,
) -> Result<Exit, Failure> {
    let recording = options.recording.of_resumption(place)?;
    let builder = builder(&found.store, place.kept_in(), place, Manner::of(options.trust))?;
    let engine = build(recording.used_by(builder), place).await?;
    let interruptions = Interruptions::catch()?;
    let handle = match engine.resume_free(found.id()).await {
        Err(RunError::Held { owner, .. }) => {
            place.screen.tell(&text!("{owner} continues run {}", style::name(found.id())));
            return Ok(Exit::Done);
        }
        Err(error) => {
            let resume = baton("resume").value(found.id());
            place.screen.tell(&text!("the run does not continue yet   → {}", resume));
            return Err(run_failure(error));
        }
        Ok(handle) => handle,
    };
    job::tell_changes(place, found).await?;
    let left = handle.clone();
    tokio::spawn(async move {
        left.until_suspended().await;
        left.stop().await
    });
    let exit = finish(&handle, found.record.last_seq, &found.store, place, out, interruptions).await?;
    recording.close(found.id(), exit, place)
}

fn report(view: &RunView, exit: Exit, place: &Place, written: &[PathBuf]) -> Result<(), Failure> {
    let screen = place.screen;
    let documents = view.handed_off();
    if screen.is_text() {
        let width = terminal::width();
        view.headline(width).iter().for_each(|line| screen.tell(line));
        if view.run.ended().is_some() {
            outcome(view, place)?;
        }
        for (index, line) in RunView::document_table(&documents, width.saturating_sub(12)).iter().enumerate() {
            screen.text(&text!("{}{}", if index == 0 { "documents   " } else { "            " }, line))?;
        }
    } else if screen.output == Output::Ndjson {
        screen.json(&serde_json::json!({"type": "run", "report": view.report()}))?;
    } else {
        screen.json(&view.report())?;
    }
    for path in written {
        screen.tell(&text!("wrote       {}", place.shown(path)));
    }
    if screen.is_text() {
        for line in &usage(view) {
            screen.tell(line);
        }
    }
    suggest(view, exit, place);
    Ok(())
}

/// Prints the result of a run that has ended, or the cause of its failure.
pub(crate) fn outcome(view: &RunView, place: &Place) -> Result<(), Failure> {
    let mut lines = view.result_lines(terminal::wrap_width());
    lines.extend(view.failure_lines(terminal::width()));
    lines.iter().try_for_each(|line| place.screen.text(line))
}

/// Renders the tokens, the cost and the time of a run, and the part of a fork that comes from its original.
pub(crate) fn usage(view: &RunView) -> Vec<Text> {
    let width = terminal::width();
    let mut lines = words::labelled(text!("tokens"), &view.tokens(), width);
    lines.extend(view.recorded().iter().flat_map(|recorded| words::labelled(text!("recorded"), recorded, width)));
    lines
}

/// Prints the commands to suggest next. There is none for a store in memory: no other process can read it.
fn suggest(view: &RunView, exit: Exit, place: &Place) {
    if place.kept_in().is_some() {
        for line in next(view, exit, false) {
            // A question is printed with --quiet too.
            if exit == Exit::Waiting { screen::tell(&line) } else { place.screen.tell(&line) }
        }
    } else if view.run.ended().is_none() {
        place.screen.tell(&text!("the run is lost: its store was in memory"));
    }
}

/// Returns the commands to suggest next.
pub(crate) fn next(view: &RunView, exit: Exit, has_process: bool) -> Vec<Text> {
    let run = view.id();
    let resume = baton("resume").value(run);
    let label = style::faint("next:");
    let looks = |more: Option<CommandLine>| {
        let commands = [baton("show").value(run), baton("timeline").value(run)].into_iter().chain(more);
        words::commands(style::faint("next:"), &commands.map(|line| line.to_string()).collect::<Vec<_>>(), terminal::width())
    };
    match exit {
        Exit::Waiting => {
            let mut lines = if has_process { Vec::new() } else { view.interrupted_lines() };
            for asked in view.questions_for_person() {
                let call = asked.task.id.originating_call();
                if !has_process && view.run.interrupted_above(&call).is_some() {
                    continue;
                }
                lines.extend(view.question_lines(asked, terminal::width()));
                let example = crate::question::example(Some(&asked.question.answer_schema));
                lines.push(text!(
                    "{}       {} {example}",
                    label,
                    baton("answer").value(run).value(format_args!("Q{}", asked.question.number))
                ));
            }
            lines.extend(view.suspended_lines(terminal::width()));
            if view.suspended.is_empty() {
                lines.push(text!("{}       {resume}", label));
            } else {
                lines.push(text!("{}       {resume} · {}", label, baton("work")));
            }
            lines
        }
        Exit::Unavailable if view.run.ended().is_none() => {
            let mut lines = view.outage_lines();
            lines.push(text!("{}       {resume}", label));
            lines
        }
        Exit::Interrupted => {
            let mut lines = view.interrupted_lines();
            let what = if lines.is_empty() { "stopped; nothing is lost" } else { "stopped" };
            lines.push(text!("{what}   {} {resume}", label));
            lines
        }
        Exit::Done => {
            let change = view.run.documents().iter().find(|(_, document)| document.versions().len() > 1);
            looks(match change {
                Some((path, _)) => Some(baton("doc diff").value(run).value(path)),
                None => Some(baton("doc ls").value(run)).filter(|_| !view.run.documents().is_empty()),
            })
        }
        _ => looks(None),
    }
}
