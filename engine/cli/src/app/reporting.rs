//! Reports of runs that continue, and of ticks that are published, while no person waits for them.

use baton_runtime::{Continued, RunOutcome, SchedulePass, WorkReport};
use baton_types::id::RunId;
use serde_json::json;

use crate::place::Place;
use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};

/// Prints what was done.
pub(crate) fn report_work(place: &Place, report: &WorkReport<'_>) {
    match report {
        WorkReport::Run(run, outcome) => report_run(place, run, outcome),
        WorkReport::StoreAway(error) => {
            place.screen.tell(&text!("{} {error}; the worker waits until it can be reached", style::bad("warning:")));
        }
        WorkReport::Schedules(pass) => report_ticks(place, pass),
    }
}

/// Prints what became of a run, one line for each time that it continued.
fn report_run(place: &Place, run: &RunId, outcome: &Continued) {
    let (state, reason) = match outcome {
        Continued::Over(RunOutcome::Ended { end, .. }) => (end.state.as_str().to_owned(), None),
        Continued::Waits | Continued::Over(RunOutcome::WaitingForPerson) => ("waiting".to_owned(), None),
        Continued::Quarantined => ("quarantined".to_owned(), Some(quarantine_reason(run))),
        Continued::Over(RunOutcome::Stopped) => ("stopped".to_owned(), None),
        Continued::Over(RunOutcome::ProviderAway(away)) => {
            ("stopped".to_owned(), away.first().map(|away| format!("{}: {}", away.provider, away.reason)))
        }
        Continued::Over(RunOutcome::Failed(error)) | Continued::Failed(error) => {
            ("not continued".to_owned(), Some(error.to_string()))
        }
    };
    // The reader of stdout may be gone; the runs continue.
    let _closed = if place.screen.is_text() {
        let reason = reason.map_or_else(Text::default, |reason| text!(": {}", Text::block(&reason)));
        place.screen.text(&text!("{} {state}{}", style::name(run), reason))
    } else {
        place.screen.json(&json!({"run": run, "state": state, "reason": reason}))
    };
}

/// Returns why a quarantined run does not continue, with the command that continues it.
pub(crate) fn quarantine_reason(run: &RunId) -> String {
    format!("three processes that executed it died; to continue it: {}", baton("resume").value(run))
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
