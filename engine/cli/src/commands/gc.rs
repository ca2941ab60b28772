//! `baton gc`: removes old runs with the contents that only they used, and shrinks the store's file.

use std::time::Duration;

use baton_store::{Collected, Retention};
use baton_types::time::Timestamp;
use clap::Args;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::find_to_read;
use crate::terminal;
use crate::text::{Text, text};
use crate::words;

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(after_help = "Unfinished runs are removed only when named. Runs with forks are kept. Without RUN, --keep and\n\
                        --older-than, no run is removed and only free space is returned to the system.\n\nExample:\n  \
                        baton gc --keep 20 --dry-run")]
pub(crate) struct GcArgs {
    /// Runs to remove, even if they have not ended: an id, the beginning of an id, or @last
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Remove all ended runs except the COUNT newest, such as 20
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    /// Remove ended runs that did not change in the last DAYS days, such as 30
    #[arg(long, value_name = "DAYS")]
    older_than: Option<u32>,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// A run that is kept because another run begins with its entries.
#[derive(Debug, Serialize)]
struct Held {
    run: String,
    by: String,
}

/// Report of the removed runs and the freed space.
#[derive(Debug, Serialize)]
struct Removed {
    dry_run: bool,
    runs: Vec<String>,
    held: Vec<Held>,
    kept: u64,
    entries: u64,
    contents: u64,
    content_bytes: u64,
    bytes_before: u64,
    bytes_after: u64,
}

/// Removes the runs that the arguments select.
pub(crate) async fn run(args: GcArgs, place: &Place) -> Result<Exit, Failure> {
    let retention = retention(&args, place).await?;
    let collected = match place.store_to_maintain()? {
        Some(store) => store.collect(retention, args.dry_run).await.map_err(Failure::of_store)?,
        None => Collected::default(),
    };
    if place.screen.is_text() {
        place.screen.text(&summary(&collected, args.dry_run))?;
    } else {
        let Collected { runs, held, kept, entries, contents, content_bytes, bytes_before, bytes_after, shrunk: _ } = collected;
        let runs = runs.iter().map(ToString::to_string).collect();
        let held = held.iter().map(|(run, by)| Held { run: run.to_string(), by: by.to_string() }).collect();
        let dry_run = args.dry_run;
        place.screen.json(&Removed { dry_run, runs, held, kept, entries, contents, content_bytes, bytes_before, bytes_after })?;
    }
    Ok(Exit::Done)
}

/// Returns the retention rules that the arguments describe.
async fn retention(args: &GcArgs, place: &Place) -> Result<Retention, Failure> {
    let mut named = Vec::new();
    for name in &args.runs {
        named.push(find_to_read(place, name).await?.record.id);
    }
    let unchanged_since = args.older_than.map(|days| {
        let age = Duration::from_hours(24 * u64::from(days));
        Timestamp::from_micros(terminal::now().as_micros().saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)))
    });
    Ok(Retention { keep_newest: args.keep, unchanged_since, named })
}

/// Renders the report for people.
fn summary(collected: &Collected, dry_run: bool) -> Text {
    let Collected { runs, held, kept, entries, contents, content_bytes, bytes_before, bytes_after, shrunk: _ } = collected;
    let verb = if dry_run { "would remove" } else { "removed" };
    let mut lines = vec![text!(
        "{verb} {} with {} and {} ({})   {} kept",
        words::counted(runs.len(), "run"),
        words::counted_as(*entries, "entry", "entries"),
        words::counted_as(*contents, "content", "contents"),
        words::size(*content_bytes),
        words::count(*kept)
    )];
    lines.extend(runs.iter().map(|run| text!("  {run}")));
    lines.extend(held.iter().map(|(run, by)| text!("kept {run}: {by} begins with its entries")));
    if !dry_run {
        lines.push(text!("store       {} → {}", words::size(*bytes_before), words::size(*bytes_after)));
    }
    Text::joined(lines, "\n")
}
