//! `baton continue`: continues the conversation of a run that has ended, in a new run.

use std::path::Path;

use baton_config::Sources;
use baton_runtime::{Engine, FollowUp};
use baton_types::entry::RunStarted;
use clap::Args;

use crate::app::{Ending, build, builder, complete, document, finish, run_failure, text_or_stdin};
use crate::exit::{Exit, Failure};
use crate::job;
use crate::place::Place;
use crate::runs;
use crate::signals::Interruptions;
use crate::style;
use crate::terminal;
use crate::text::text;
use crate::trust::Manner;

/// Arguments of `continue`.
#[derive(Debug, Args)]
pub(crate) struct ContinueArgs {
    /// The run to continue: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// The next request for the agent of the job, or - to read it from standard input
    request: String,
    /// File to attach to the request. It is put into the workspace at PATH [default: the file's name]. May be repeated
    #[arg(long = "document", value_name = "FILE[=PATH]")]
    documents: Vec<String>,
    /// Model for all agents: the name of a model in the job, PROVIDER:MODEL, or `person`
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Use the configs of the run, although the job's folder may have changed
    #[arg(long)]
    keep_configs: bool,
    #[command(flatten)]
    ending: Ending,
    /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Starts the run that continues, and follows it to its end.
pub(crate) async fn run(args: ContinueArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find(place, &args.run).await?;
    let engine = build(builder(&found.store, place.kept_in(), place, Manner::of(args.trust))?, place).await?;
    let state = engine.state(found.id()).await.map_err(run_failure)?;
    let seq = state.last_seq();
    let (sources, changes) = match state.started() {
        Some(started) if !args.keep_configs => configs(&engine, started, place).await?,
        _ => (None, Vec::new()),
    };
    let documents = args.documents.iter().map(|text| document(place, text)).collect::<Result<_, _>>()?;
    let out = args.ending.target(place)?;
    let changed = if changes.is_empty() { String::new() } else { format!("; configs have changed: {}", changes.join(", ")) };
    let follow_up = FollowUp {
        request: text_or_stdin(args.request, "the request is empty")?,
        sources,
        changes,
        model: args.model,
        documents,
        run: None,
        trigger: None,
    };
    let interruptions = Interruptions::catch()?;
    let handle = engine.continue_run(found.id(), &terminal::person(), follow_up).await.map_err(run_failure)?;
    place.screen.tell(&text!("run {} continues run {}{changed}", style::name(handle.id()), found.id()));
    finish(&handle, seq, &found.store, place, out.as_ref(), interruptions).await
}

/// Returns the present configs of the job's folder, if they differ from those of the run, and the list of differences.
async fn configs(engine: &Engine, started: &RunStarted, place: &Place) -> Result<(Option<Sources>, Vec<String>), Failure> {
    let Some(folder) = &started.folder else { return Ok((None, Vec::new())) };
    if !Path::new(folder).is_dir() {
        return Err(Failure::Usage(format!(
            "the job's folder {folder} does not exist; --keep-configs uses the configs of the run"
        )));
    }
    let pinned = engine.pinned_sources(started).await.map_err(run_failure)?;
    let job = job::of_run(place, started)?;
    let mut sources = job.sources().clone();
    sources.keep_of_start(&pinned);
    let changes = sources.changes_from(&pinned);
    Ok(((!changes.is_empty()).then_some(sources), changes))
}
