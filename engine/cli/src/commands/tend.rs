//! `baton tend`: continues waiting runs whenever one is due, and publishes the ticks of schedules, until it is stopped.

use baton_runtime::{RunOutcome, SchedulePass, Tended, Tending};
use baton_types::id::RunId;
use clap::Args;
use serde_json::json;

use crate::app::{builder, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::signals::Interruptions;
use crate::style;
use crate::text::{Text, text};
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
    let engine = builder(&store, place.store_file(), place, Manner::of(args.trust))?.build().map_err(run_failure)?;
    let mut interruptions = Interruptions::catch()?;
    let file = place.store_file().ok_or_else(|| Failure::Usage("a store in memory has no waiting runs".to_owned()))?;
    place.screen.tell(&text!(
        "runs in {} that wait are resumed when they are due, and ticks of schedules are published; stop with Ctrl-C",
        place.shown(&file)
    ));
    let report = |tending: Tending<'_>| match tending {
        Tending::Run(run, outcome) => report_run(place, run, outcome),
        Tending::Schedules(pass) => report_ticks(place, pass),
    };
    let stop = async {
        let _any = interruptions.next().await;
    };
    engine.tend(stop, report).await.map_err(run_failure)?;
    Ok(Exit::Done)
}

/// Prints what became of a run, one line for each time that it continued.
fn report_run(place: &Place, run: &RunId, outcome: &Tended) {
    let (state, reason) = match outcome {
        Tended::Over(RunOutcome::Ended { end, .. }) => (end.state.as_str().to_owned(), None),
        Tended::Waits | Tended::Over(RunOutcome::WaitingForPerson) => ("waiting".to_owned(), None),
        Tended::Over(RunOutcome::Stopped) => ("stopped".to_owned(), None),
        Tended::Over(RunOutcome::ProviderAway(away)) => {
            ("stopped".to_owned(), away.first().map(|away| format!("{}: {}", away.provider, away.reason)))
        }
        Tended::Over(RunOutcome::Failed(error)) | Tended::Failed(error) => ("not continued".to_owned(), Some(error.to_string())),
    };
    // The reader of stdout may be gone; the runs continue.
    let _closed = if place.screen.is_text() {
        let reason = reason.map_or_else(Text::default, |reason| text!(": {}", Text::block(&reason)));
        place.screen.text(&text!("{} {state}{}", style::name(run), reason))
    } else {
        place.screen.json(&json!({"run": run, "state": state, "reason": reason}))
    };
}

/// Prints the ticks that were published, one line for each, and the schedules whose ticks could not be.
fn report_ticks(place: &Place, pass: &SchedulePass) {
    for tick in &pass.published {
        let context = tick.context.value();
        let at = context["scheduled_at"].as_str().unwrap_or_default();
        // The reader of stdout may be gone; the passes continue.
        let _closed = if place.screen.is_text() {
            place.screen.text(&text!("{} tick of {at}", style::name(context["schedule"].as_str().unwrap_or_default())))
        } else {
            place.screen.json(&json!({"schedule": context["schedule_id"], "tick": tick.id, "scheduled_at": at}))
        };
    }
    for (schedule, reason) in &pass.failed {
        place.screen.tell(&text!("{} schedule {schedule} has no ticks: {reason}", style::bad("warning:")));
    }
}
