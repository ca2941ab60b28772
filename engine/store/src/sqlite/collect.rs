//! Removes old runs and the contents that only they needed, and shrinks the file.
//!
//! Runs are removed in one transaction, so a crash leaves all of them or none. A content is removed if a removed run
//! names it and no remaining run does. The store does not understand entries, so every 64 hexadecimal digits between
//! other characters count as a name. A content that no run ever named stays: its writer may be about to name it. Triggers that are settled
//! are removed with their runs. A run that has ended is kept until its trigger is answered.
//!
//! Afterwards `VACUUM` writes the file anew without its free pages, if they are many. Gradual vacuuming (`auto_vacuum`) would
//! cost an additional page for every commit that grows the file. `VACUUM` costs something only after a removal.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use baton_types::id::{ContentHash, RunId};
use baton_types::time::Timestamp;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior};

use super::breadcrumbs::triggers;
use super::reader::each_own_row;
use super::records::{RunRow, Totals};
use super::{log_of, named, schema};
use crate::retention::{Candidate, LAST_ENTRIES, choose, hashes_in, is_end};
use crate::rows::WHOLE_RUN;
use crate::{Collected, Retention, StoreError, failpoint};

/// The file is written anew if one page of this many is free: others wait meanwhile, and what is free is used again.
const WORTH_IT: i64 = 20;

/// See [`crate::Store::collect`].
pub(super) fn collect(
    path: &Path,
    retention: &Retention,
    is_there: &dyn Fn(&str) -> bool,
    dry_run: bool,
) -> Result<Collected, StoreError> {
    let named = |error: StoreError| named(path, error);
    let mut file = schema::open_for_writing(path)?;
    // What other runs begin with is kept here by rule; SQLite would look through all runs for each that goes.
    file.pragma_update(None, "foreign_keys", false).map_err(|error| named(error.into()))?;
    let mut collected = Collected { bytes_before: bytes(path), ..Collected::default() };
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|error| named(error.into()))?;
    remove(&transaction, retention, is_there, &mut collected).map_err(named)?;
    if dry_run {
        collected.bytes_after = collected.bytes_before;
        return Ok(collected);
    }
    failpoint::pass("store.collect.before");
    transaction.commit().map_err(|error| named(error.into()))?;
    failpoint::pass("store.collect.after");
    let number = |name| file.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let pages = |name| number(name).map_err(|error| named(error.into()));
    if pages("freelist_count")? * WORTH_IT >= pages("page_count")? {
        // Room comes back another time if somebody else writes just now; it is used again in any case.
        collected.shrunk = file.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").is_ok();
    }
    collected.bytes_after = bytes(path);
    Ok(collected)
}

/// Returns the bytes of the file and its log.
fn bytes(path: &Path) -> u64 {
    [path, &log_of(path)].iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn remove(
    file: &Transaction<'_>,
    retention: &Retention,
    is_there: &dyn Fn(&str) -> bool,
    collected: &mut Collected,
) -> Result<(), StoreError> {
    let runs = RunRow::all(file)?;
    for id in &retention.named {
        let Some(run) = runs.iter().find(|run| run.id == *id) else { return Err(StoreError::UnknownRun(id.clone())) };
        // Its owner would continue, with effects that no timeline holds.
        if let Some(owner) = run.owner.as_ref().filter(|owner| is_there(owner)) {
            return Err(StoreError::Held { run: id.clone(), owner: owner.clone() });
        }
    }
    let (leaving, staying) = select(file, runs, retention, &mut collected.held)?;
    let mut gone = HashSet::new();
    for run in &leaving {
        names_in(file, run, &mut gone)?;
    }
    if !gone.is_empty() {
        let mut needed = HashSet::new();
        for run in &staying {
            names_in(file, run, &mut needed)?;
        }
        gone.retain(|hash| !needed.contains(hash));
    }
    // What begins with another run was made later, and goes first.
    for run in leaving.iter().rev() {
        file.execute(
            "DELETE FROM batches WHERE batch IN (SELECT batch FROM places WHERE run = ?1 AND task = ?2)",
            [run.number, WHOLE_RUN],
        )?;
        for place in run.recent.of(&run.id)? {
            file.execute("DELETE FROM batches WHERE batch = ?1", [place.1])?;
        }
        for table in ["places", "commands", "runs"] {
            file.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run.number])?;
        }
        collected.entries += run.last_seq - run.past_seq;
    }
    triggers::forget(file)?;
    let mut content = file.prepare("DELETE FROM contents WHERE hash = ?1 RETURNING length(bytes)")?;
    for hash in gone {
        if let Some(bytes) = content.query_row([hash.as_bytes()], |row| row.get::<_, i64>(0)).optional()? {
            collected.contents += 1;
            collected.content_bytes += bytes as u64;
        }
    }
    let mut totals = Totals::load(file)?;
    totals.runs -= leaving.len() as u64;
    totals.save(file)?;
    collected.kept = staying.len() as u64;
    collected.runs = leaving.into_iter().map(|run| run.id).collect();
    Ok(())
}

/// Returns the runs to remove and the runs to keep, both oldest row first.
fn select(
    file: &Transaction<'_>,
    runs: Vec<RunRow>,
    retention: &Retention,
    held: &mut Vec<(RunId, RunId)>,
) -> Result<(Vec<RunRow>, Vec<RunRow>), StoreError> {
    let unanswered = triggers::unanswered_runs(file)?;
    let has_rules = retention.keep_newest.is_some() || retention.unchanged_since.is_some();
    let names: HashMap<i64, &RunId> = runs.iter().map(|run| (run.number, &run.id)).collect();
    let candidates = runs.iter().map(|run| {
        Ok(Candidate {
            run: run.id.clone(),
            updated: Timestamp::from_micros(run.updated),
            has_ended: has_rules && !unanswered.contains(&run.id) && has_ended(file, run)?,
            past: run.past.and_then(|past| names.get(&past)).map(|past| (*past).clone()),
        })
    });
    let candidates = candidates.collect::<Result<Vec<_>, StoreError>>()?;
    let (leaving, kept_as_past) = choose(&candidates, retention);
    held.extend(kept_as_past);
    let leaving: HashSet<RunId> = leaving.into_iter().collect();
    Ok(runs.into_iter().partition(|run| leaving.contains(&run.id)))
}

/// Whether the last entries of `run` say that it has ended.
fn has_ended(file: &Transaction<'_>, run: &RunRow) -> Result<bool, StoreError> {
    let last =
        super::reader::entries(file, &run.id, run.last_seq.saturating_sub(LAST_ENTRIES as u64).max(run.past_seq), usize::MAX)?;
    Ok(last.iter().any(|recorded| is_end(&recorded.entry)))
}

/// Adds every hash that the entries or commands of `run` may name to `names`.
fn names_in(file: &Transaction<'_>, run: &RunRow, names: &mut HashSet<ContentHash>) -> Result<(), StoreError> {
    each_own_row(file, run, |row, _| {
        hashes_in(row.text, names);
        Ok(())
    })?;
    for (_, command) in super::reader::commands(file, &run.id, 0)? {
        hashes_in(command.text(), names);
    }
    Ok(())
}
