//! `baton verify`: checks that the store is undamaged, or that a run satisfies every invariant.

use baton_proof::{Checker, Report};
use baton_store::{StoreError, Verification};
use baton_types::entry::RunStarted;
use baton_types::id::RunId;
use clap::Args;
use serde::Serialize;

use crate::app::{complete, engine, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The run to check, entry by entry: its id, the beginning of its id, or @last [default: the whole store]
    #[arg(add = complete::runs())]
    run: Option<String>,
}

/// Report about the store.
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
    breadcrumbs: u64,
    findings: Vec<String>,
}

/// Checks a run, or the whole store.
pub(crate) async fn run(args: &VerifyArgs, place: &Place) -> Result<Exit, Failure> {
    match &args.run {
        Some(run) => verify_run(&runs::find_to_read(place, run).await?, place).await,
        None => verify_store(place).await,
    }
}

/// Report about a run.
#[derive(Debug, Serialize)]
struct VerifiedRun<'a> {
    run: &'a RunId,
    holds: bool,
    entries: u64,
    tasks: usize,
    requests: usize,
    contents: usize,
    findings: Vec<RunFinding>,
}

/// A fault of a run, and the entry at which it was found. Faults outside the timeline have no invariant.
#[derive(Debug, Serialize)]
struct RunFinding {
    #[serde(skip_serializing_if = "Option::is_none")]
    invariant: Option<String>,
    seq: u64,
    what: String,
}

/// Checks a run entry by entry. It checks every invariant and compares the fold with the store's record of the run. It renders
/// every request again and compares it with the sent one, and checks every content against its hash.
async fn verify_run(found: &FoundRun, place: &Place) -> Result<Exit, Failure> {
    let engine = engine(&found.store)?;
    let started = engine.started(found.id()).await.map_err(run_failure)?;
    // The past that a fork shares was made under the configs of the run that it continues.
    let unstarted = engine.unstarted(found.id()).await.map_err(run_failure)?;
    let mut checker = Checker::new(unstarted.configs());
    let mut pages = found.pages();
    while let Some(page) = pages.next().await? {
        for adoption in page.iter().filter_map(|recorded| recorded.entry.adopts()) {
            let adopting = RunStarted { configs: adoption.configs, ..started.clone() };
            checker.know_configs(adoption.configs, &engine.pinned_configs(&adopting).await.map_err(run_failure)?);
        }
        for recorded in &page {
            checker.read(recorded);
        }
    }
    let report = checker.report();
    let of_timeline = report.findings.iter().map(|finding| RunFinding {
        invariant: Some(finding.invariant.to_string()),
        seq: finding.seq,
        what: finding.what.clone(),
    });
    let mut findings: Vec<RunFinding> = of_timeline.collect();
    let besides = differences(found, &report).into_iter().chain(bad_contents(found, &report).await?);
    findings.extend(besides.map(|what| RunFinding { invariant: None, seq: report.entries, what }));
    let exit = if findings.is_empty() { Exit::Done } else { Exit::Failed };
    let verified = VerifiedRun {
        run: found.id(),
        holds: findings.is_empty(),
        entries: report.entries,
        tasks: report.ledger.tasks.len(),
        requests: report.answers,
        contents: report.ledger.contents.len(),
        findings,
    };
    if place.screen.is_text() {
        place.screen.text(&run_report(&verified))?;
    } else {
        place.screen.json(&verified)?;
    }
    Ok(exit)
}

/// Returns the differences between the store's record of the run and the run's fold.
fn differences(found: &FoundRun, report: &Report) -> Vec<String> {
    let record = &found.record;
    let mut differences = Vec::new();
    if record.last_seq != report.entries {
        differences.push(format!("the store records {} entries, but the run has {}", record.last_seq, report.entries));
    }
    let end = report.run.as_ref().and_then(|run| run.ended());
    // Stores have `completed` or `partial` for a run that is partial.
    if let Some(end) = end.filter(|end| ![end.state.as_str(), end.status.as_str()].contains(&record.status.as_str())) {
        differences.push(format!("the store records that the run is {}, but it is {}", record.status, end.state.as_str()));
    }
    differences
}

/// Returns a finding for each content of the run's documents that is missing or damaged.
async fn bad_contents(found: &FoundRun, report: &Report) -> Result<Vec<String>, Failure> {
    let mut bad = Vec::new();
    for (hash, size) in &report.ledger.contents {
        match found.store.content(*hash).await {
            Ok(Some(content)) if content.len() as u64 == *size => {}
            Ok(Some(content)) => bad.push(format!("content {hash} has {} bytes, not {size}", content.len())),
            Ok(None) => bad.push(format!("content {hash} is not in the store")),
            Err(StoreError::Corrupt { what }) => bad.push(what),
            Err(error) => return Err(Failure::of_store(error)),
        }
    }
    Ok(bad)
}

/// Renders the report about a run for people.
fn run_report(verified: &VerifiedRun<'_>) -> Text {
    let VerifiedRun { run, holds, entries, tasks, requests, contents, findings } = verified;
    let mut lines = vec![if *holds {
        style::good(format!("✓ {run} holds"))
    } else {
        style::bad(format!("✗ {run}: {}", words::counted(findings.len(), "finding")))
    }];
    lines.extend(findings.iter().map(|RunFinding { invariant, seq, what }| match invariant {
        Some(invariant) => text!("  {invariant} at entry {seq}: {what}"),
        None => text!("  {what}"),
    }));
    lines.push(text!(
        "{} · {} · {} rendered again · {}",
        words::counted_as(*entries, "entry", "entries"),
        words::counted(*tasks, "task"),
        words::counted(*requests, "request"),
        words::counted(*contents, "content"),
    ));
    Text::joined(lines, "\n")
}

/// Checks the whole store.
async fn verify_store(place: &Place) -> Result<Exit, Failure> {
    let found = match place.store_to_read()? {
        Some(store) => store.verify().await.map_err(Failure::of_store)?,
        None => Verification::default(),
    };
    let whole = found.findings.is_empty();
    let exit = if whole { Exit::Done } else { Exit::Failed };
    if place.screen.is_text() {
        place.screen.text(&summary(&found))?;
        return Ok(exit);
    }
    let Verification { runs, entries, contents, content_bytes, unnamed, logged, commands, breadcrumbs, findings, batches: _ } =
        found;
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
        breadcrumbs,
        findings,
    })?;
    Ok(exit)
}

/// Renders the report about the store for people.
fn summary(found: &Verification) -> Text {
    let Verification { runs, entries, contents, content_bytes, logged, commands, breadcrumbs, findings, unnamed: _, batches: _ } =
        found;
    let mut lines = vec![if findings.is_empty() {
        style::good("✓ whole")
    } else {
        style::bad(format!("✗ {}", words::counted(findings.len(), "finding")))
    }];
    lines.extend(findings.iter().map(|finding| text!("  {finding}")));
    lines.push(text!(
        "{} · {} · {} ({}) · {} · {}",
        words::counted_as(*runs, "run", "runs"),
        words::counted_as(*entries, "entry", "entries"),
        words::counted_as(*contents, "content", "contents"),
        words::size(*content_bytes),
        words::counted_as(*logged, "logged call", "logged calls"),
        words::counted_as(*commands, "waiting command", "waiting commands"),
    ));
    if *breadcrumbs > 0 {
        lines.push(text!("{}", words::counted_as(*breadcrumbs, "breadcrumb", "breadcrumbs")));
    }
    Text::joined(lines, "\n")
}
