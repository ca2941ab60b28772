//! `baton work`: executes the runs of a store that need an owner, and publishes the ticks of schedules, until it is stopped.

use baton_runtime::WorkOptions;
use clap::Args;

use crate::app::{build, builder, report_work, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::signals::Interruptions;
use crate::text::text;
use crate::trust::Manner;

/// The most runs that one process executes at the same time.
const MOST_SLOTS: usize = 100_000;

/// Arguments of `work`.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// The most runs to execute at the same time
    #[arg(long, value_name = "N", default_value_t = WorkOptions::default().slots, value_parser = slots)]
    slots: usize,
    /// Trust the commands, addresses, hosts and variables that the jobs use, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Parses a number of slots.
fn slots(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|slots| (1..=MOST_SLOTS).contains(slots))
        .ok_or_else(|| format!("expected a number from 1 to {MOST_SLOTS}"))
}

/// Executes runs until Ctrl-C, SIGTERM or SIGHUP.
pub(crate) async fn run(args: &WorkArgs, place: &Place) -> Result<Exit, Failure> {
    let store = place.open_store()?;
    let engine = build(builder(&store, place.kept_in(), place, Manner::of(args.trust))?, place).await?;
    let mut interruptions = Interruptions::catch()?;
    if place.kept_in().is_none() {
        return Err(Failure::Usage("a store in memory has no runs of other processes".to_owned()));
    }
    place.screen.tell(&text!(
        "runs in {} that need an owner are executed, and ticks of schedules are published; stop with Ctrl-C",
        place.shown_store()
    ));
    let stop = async {
        let _any = interruptions.next().await;
    };
    engine.work(WorkOptions { slots: args.slots }, stop, |report| report_work(place, &report)).await.map_err(run_failure)?;
    Ok(Exit::Done)
}
