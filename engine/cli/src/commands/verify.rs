//! `baton verify`: whether the store is as it was written.

use baton_store::Verification;
use clap::Args;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::store_failure;
use crate::screen::style;
use crate::words;

/// What `verify` takes.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {}

/// What was found in the store.
#[derive(Debug, Serialize)]
struct Verified {
    whole: bool,
    runs: u64,
    entries: u64,
    contents: u64,
    content_bytes: u64,
    unnamed_contents: u64,
    logged_calls: u64,
    commands: u64,
    findings: Vec<String>,
}

/// Looks at everything in the store.
pub(crate) async fn run(_args: &VerifyArgs, place: &Place) -> Result<Exit, Failure> {
    let found = match place.store_to_read()? {
        Some(store) => store.verify().await.map_err(store_failure)?,
        None => Verification::default(),
    };
    let whole = found.findings.is_empty();
    let exit = if whole { Exit::Done } else { Exit::Failed };
    if place.screen.is_text() {
        place.screen.text(&told(&found))?;
        return Ok(exit);
    }
    let Verification { runs, entries, contents, content_bytes, unnamed, logged, commands, findings, batches: _ } = found;
    let (unnamed_contents, logged_calls) = (unnamed, logged);
    place.screen.json(&Verified {
        whole,
        runs,
        entries,
        contents,
        content_bytes,
        unnamed_contents,
        logged_calls,
        commands,
        findings,
    })?;
    Ok(exit)
}

/// What was found, for people.
fn told(found: &Verification) -> String {
    let Verification { runs, entries, contents, content_bytes, logged, commands, findings, unnamed: _, batches: _ } = found;
    let mut lines = vec![if findings.is_empty() {
        style::good("✓ whole")
    } else {
        style::bad(format!("✗ {}", words::counted(findings.len(), "finding")))
    }];
    lines.extend(findings.iter().map(|finding| format!("  {finding}")));
    lines.push(format!(
        "{} · {} · {} ({}) · {} · {}",
        words::counted_as(*runs, "run", "runs"),
        words::counted_as(*entries, "entry", "entries"),
        words::counted_as(*contents, "content", "contents"),
        words::size(*content_bytes),
        words::counted_as(*logged, "logged call", "logged calls"),
        words::counted_as(*commands, "waiting command", "waiting commands"),
    ));
    lines.join("\n")
}
