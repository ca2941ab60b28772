//! `baton resume`: continues a run, with the configs it started with.

use clap::Args;

use crate::commands::completions;
use crate::commands::run::{Ending, engine, finish};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::{job, runs};

/// What `resume` takes.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, a beginning of it, or @last
    #[arg(add = completions::runs())]
    run: String,
    #[command(flatten)]
    ending: Ending,
}

/// Continues a run. One that has ended is only reported again.
pub(crate) async fn run(args: ResumeArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find(place, &args.run).await?;
    let out = args.ending.folder(place)?;
    let handle = engine(&found.store)?.resume(found.id()).await.map_err(job::run_failure)?;
    job::tell_changes(place, &found, &handle).await?;
    finish(&handle, found.record.last_seq, &found.store, place, out.as_deref()).await
}
