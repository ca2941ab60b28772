//! `baton listen`: starts the agents of a project that are records, and the tools that records request, until it is stopped.

use std::path::PathBuf;

use baton_breadcrumb::{Handler, Trigger};
use baton_rcrt::{Heard, Listener, Outcome, ProjectFiles};
use baton_runtime::WorkOptions;
use baton_types::config::RUN_SCRIPT;
use clap::{Args, ValueHint};
use futures_util::FutureExt;
use serde_json::json;

use crate::app::{build, builder, embedder, quarantine_reason, report_work, run_failure};
use crate::exit::{Exit, Failure};
use crate::job;
use crate::place::Place;
use crate::project::project_id;
use crate::signals::Interruptions;
use crate::style;
use crate::text::{Text, text};
use crate::trust::Manner;

/// Arguments of `listen`.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Model for all agents: a name from models.json, or PROVIDER:MODEL such as openai:gpt-5-mini
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Model script that answers instead of all models
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "model")]
    script: Option<PathBuf>,
    /// Trust the commands, addresses, hosts and variables that the agents use, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Handles triggers until Ctrl-C, SIGTERM or SIGHUP. Continues waiting runs and publishes ticks meanwhile, as `work` does.
pub(crate) async fn run(args: &ListenArgs, place: &Place) -> Result<Exit, Failure> {
    let store = place.open_store()?;
    let engine = build(builder(&store, place.kept_in(), place, Manner::of(args.trust))?, place).await?;
    let mut interruptions = Interruptions::catch()?;
    if place.kept_in().is_none() {
        return Err(Failure::Usage("a store in memory has no breadcrumbs of other processes".to_owned()));
    }
    let folder = place.current.canonicalize().map_err(|error| Failure::file(&place.current, error))?;
    let project = project_id(place, &folder)?;
    let (here, script) = (place.clone(), args.script.clone());
    let read_project = move |text: &str| {
        let read = job::of_project(&here, text, script.as_deref()).map_err(|failure| failure.to_string());
        read.map(|(sources, folder)| ProjectFiles { sources, folder })
    };
    let model = args.script.as_ref().map(|_| RUN_SCRIPT.to_owned()).or_else(|| args.model.clone());
    let listener = Listener::new(engine.clone(), project, Box::new(read_project), model, embedder(place)?);
    for (agent, fault) in listener.faults().await.map_err(Failure::of_store)? {
        let what = text!("the agent {agent} cannot start; its triggers wait until this is mended: {}", Text::block(&fault));
        place.screen.tell(&text!("{} {}", style::bad("warning:"), what));
    }
    place
        .screen
        .tell(&text!("records of the project {} start agents and tools now; stop with Ctrl-C", place.shown(place.project())));
    let stop = async move { _ = interruptions.next().await }.shared();
    let working = engine.work(WorkOptions::default(), stop.clone(), |report| report_work(place, &report));
    let listening = listener.listen(stop, |heard| report(place, heard));
    tokio::try_join!(working, listening).map_err(run_failure)?;
    Ok(Exit::Done)
}

/// Prints what became of a trigger.
fn report(place: &Place, Heard { trigger, run, outcome }: &Heard) {
    let (state, detail) = match outcome {
        Outcome::Answered(answer) => ("answered", Some(answer.to_string())),
        Outcome::Refused(reason) => ("refused", Some(reason.clone())),
        Outcome::Waits => ("waiting", None),
        Outcome::Quarantined => ("quarantined", run.as_ref().map(quarantine_reason)),
        Outcome::Stopped => ("stopped", None),
        Outcome::Elsewhere => ("elsewhere", None),
        Outcome::Failed(reason) => ("not handled", Some(reason.clone())),
    };
    let Trigger { breadcrumb, version, session, handler, .. } = trigger;
    // The reader of stdout may be gone; the triggers are handled all the same.
    let _closed = if place.screen.is_text() {
        let what = match handler {
            Handler::Agent(definition) => text!("agent {definition}"),
            Handler::ToolRequest => text!("tool request"),
        };
        let run = run.as_ref().map_or_else(Text::default, |run| text!(" · run {run}"));
        let detail = detail.map_or_else(Text::default, |detail| text!(": {}", Text::block(&detail)));
        place.screen.text(&text!("{} version {version} · {}{} · {state}{}", style::name(breadcrumb), what, run, detail))
    } else {
        place.screen.json(&json!({
            "trigger": trigger.number, "breadcrumb": breadcrumb, "version": version, "handler": handler, "session": session,
            "run": run, "state": state, "detail": detail,
        }))
    };
}
