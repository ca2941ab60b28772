//! `baton ps`: lists the runs of the store, newest first.

use std::collections::BTreeMap;

use baton_store::{RunRecord, Store};
use baton_types::id::RunId;
use clap::Args;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{INTERRUPTED, first_of_session, is_held, status};
use crate::shell::baton;
use crate::style;
use crate::terminal;
use crate::text::text;
use crate::words;

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Number of runs to show
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
    /// Show all runs
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// A run in a list.
#[derive(Debug, Serialize)]
struct Listed {
    run: String,
    job: String,
    status: String,
    created: String,
    updated: String,
    /// The first run of its session: runs that continue each other.
    session: String,
    entries: u64,
    /// The process that took the run and has not released it.
    owner: Option<String>,
    /// Whether that process is still alive, if that can be found out.
    held: Option<bool>,
}

impl Listed {
    fn of(store: &dyn Store, runs: &[RunRecord], record: &RunRecord) -> Self {
        Self {
            run: record.id.to_string(),
            job: record.job.to_string(),
            status: status(store, record).to_owned(),
            created: record.created.to_string(),
            updated: record.updated.to_string(),
            session: first_of_session(runs, record).id.to_string(),
            entries: record.last_seq,
            owner: record.owner.clone(),
            held: is_held(store, record),
        }
    }
}

/// Returns `runs` with those of each session together, in the place of its newest.
fn by_session(runs: &[RunRecord]) -> Vec<RunRecord> {
    let mut places: BTreeMap<&RunId, usize> = BTreeMap::new();
    let placed =
        runs.iter().enumerate().map(|(index, run)| (*places.entry(&first_of_session(runs, run).id).or_insert(index), run));
    let mut placed: Vec<(usize, &RunRecord)> = placed.collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, run)| run.clone()).collect()
}

/// Lists runs.
pub(crate) async fn run(args: &PsArgs, place: &Place) -> Result<Exit, Failure> {
    let store = place.store_to_read()?;
    let all = match &store {
        Some(store) => store.runs().await.map_err(Failure::of_store)?,
        None => Vec::new(),
    };
    let all = by_session(&all);
    let shown = if args.all { all.len() } else { args.limit.min(all.len()) };
    let listed: Vec<Listed> =
        store.iter().flat_map(|store| all[..shown].iter().map(|record| Listed::of(&**store, &all, record))).collect();
    if !place.screen.is_text() {
        place.screen.json_list(&listed)?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        place.screen.tell(&text!("no runs yet   → baton run JOB"));
        return Ok(Exit::Done);
    }
    let mut rows = vec![["RUN", "JOB", "STATUS", "ENTRIES", "UPDATED"].map(|title| text!("{title}")).to_vec()];
    let is_continued = |index: usize| index > 0 && listed[index].session == listed[index - 1].session;
    rows.extend(all[..shown].iter().zip(&listed).enumerate().map(|(index, (record, listed))| {
        let ago = words::duration(terminal::now().since(record.updated));
        vec![
            // Earlier runs of a session are indented.
            text!("{}{}", if is_continued(index) { "  " } else { "" }, record.id),
            text!("{}", record.job),
            text!("{}", listed.status),
            text!("{}", words::count(record.last_seq)),
            text!("{ago} ago"),
        ]
    }));
    for (index, line) in words::columns(rows).into_iter().enumerate() {
        place.screen.text(&if index == 0 { style::faint(line) } else { line })?;
    }
    if let Some(interrupted) = listed.iter().find(|listed| listed.status == INTERRUPTED) {
        place.screen.tell(&text!("interrupted: no process runs it   → {}", baton("resume").value(&interrupted.run)));
    }
    if shown < all.len() {
        place.screen.tell(&text!("{} more   → baton ps --all", words::count((all.len() - shown) as u64)));
    }
    Ok(Exit::Done)
}
