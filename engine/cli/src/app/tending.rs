//! Reports of runs that continue, and of ticks that are published, while no person waits for them.

use baton_runtime::{RunOutcome, SchedulePass, Tended, Tending};
use baton_types::id::RunId;
use serde_json::json;

use crate::place::Place;
use crate::style;
use crate::text::{Text, text};

/// Prints what was done.
pub(crate) fn report_tending(place: &Place, tending: &Tending<'_>) {
    match tending {
        Tending::Run(run, outcome) => report_run(place, run, outcome),
        Tending::Schedules(pass) => report_ticks(place, pass),
    }
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
