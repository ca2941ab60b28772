//! `baton tend`: continues waiting runs whenever one is due, and publishes the ticks of schedules, until it is stopped.

use clap::Args;

use crate::app::{builder, report_tending, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::signals::Interruptions;
use crate::text::text;
use crate::trust::Manner;

/// Arguments of `tend`.
#[derive(Debug, Args)]
pub(crate) struct TendArgs {
    /// Trust the commands, addresses, hosts and variables that the jobs use, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Continues runs until Ctrl-C, SIGTERM or SIGHUP.
pub(crate) async fn run(args: &TendArgs, place: &Place) -> Result<Exit, Failure> {
    let store = place.open_store()?;
    let engine = builder(&store, place.kept_in(), place, Manner::of(args.trust))?.build().map_err(run_failure)?;
    let mut interruptions = Interruptions::catch()?;
    if place.kept_in().is_none() {
        return Err(Failure::Usage("a store in memory has no waiting runs".to_owned()));
    }
    place.screen.tell(&text!(
        "runs in {} that wait are resumed when they are due, and ticks of schedules are published; stop with Ctrl-C",
        place.shown_store()
    ));
    let stop = async {
        let _any = interruptions.next().await;
    };
    engine.tend(stop, |tending| report_tending(place, &tending)).await.map_err(run_failure)?;
    Ok(Exit::Done)
}
