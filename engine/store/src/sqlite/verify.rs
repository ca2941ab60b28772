//! Checks everything in the file and reports every fault.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use baton_types::id::{AgentId, ContentHash, MemoryId, ToolId};
use rusqlite::Transaction;

use super::reader::{self, each_own_row};
use super::records::{RunRow, Totals, link_at};
use crate::retention::{hashes_in, needed_content};
use crate::rows::{self, HEADS, WHOLE_RUN};
use crate::{StoreError, Verification};

/// Largest number of reported findings of one kind.
const MAX_FINDINGS: usize = 100;

/// See [`crate::Store::verify`].
pub(super) fn verify(file: &Transaction<'_>) -> Verification {
    let mut found = Verification::default();
    let mut look = Look::default();
    // One after the other, whatever those before found: a later one uses what an earlier one saw.
    for step in [structure, runs, memories, contents, counts, breadcrumbs] as [Step; 6] {
        if let Err(error) = step(file, &mut look, &mut found) {
            found.findings.push(error.to_string());
        }
    }
    found
}

/// One of the looks.
type Step = fn(&Transaction<'_>, &mut Look, &mut Verification) -> Result<(), StoreError>;

/// Results of one check for the next ones.
#[derive(Default)]
struct Look {
    /// Number of rows in places.
    places: u64,
    /// Contents that an entry cannot do without, and what for.
    needed: BTreeMap<ContentHash, String>,
    /// Contents that something may name.
    named: HashSet<ContentHash>,
}

/// Checks the file's trees with SQLite's own integrity check.
fn structure(file: &Transaction<'_>, _look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    let mut check = file.prepare(&format!("PRAGMA integrity_check({MAX_FINDINGS})"))?;
    for line in check.query_map([], |row| row.get::<_, String>(0))? {
        let line = line?;
        if line != "ok" {
            found.findings.push(line);
        }
    }
    Ok(())
}

fn runs(file: &Transaction<'_>, look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    for run in RunRow::all(file)? {
        found.runs += 1;
        if let Err(error) = one_run(file, &run, look, found) {
            found.findings.push(error.to_string());
        }
    }
    Ok(())
}

/// Checks the entries of a run, their places, their chain, its past and its inbox.
fn one_run(file: &Transaction<'_>, run: &RunRow, look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    if run.past.is_some() {
        // Fails if it is not there.
        link_at(file, run.clone(), run.past_seq)?;
    }
    // As they are filed: by task, then by last entry; and how many each task has.
    let mut expected: BTreeMap<(i64, i64), Option<i64>> = BTreeMap::new();
    let mut entries = Vec::new();
    let mut recent = run.recent.of(&run.id)?.into_iter().peekable();
    each_own_row(file, run, |row, number| {
        entries.clear();
        row.read(&run.id, row.first..=row.last, &mut entries)?;
        hashes_in(row.text, &mut look.named);
        let mut keys = BTreeSet::new();
        for recorded in &entries {
            keys.extend(recorded.entry.task().map(rows::task_key));
            let needs = needed_content(&recorded.entry);
            look.needed.extend(needs.map(|(hash, what)| (hash, format!("run {}: {what}", run.id))));
        }
        if let Some(place) = recent.next_if(|place| place.0 == row.last) {
            if place.1 != number || place.2.into_iter().collect::<BTreeSet<_>>() != keys {
                found.findings.push(format!("run {}: the place of the entries that end with {} is wrong", run.id, row.last));
            }
        } else {
            expected.insert((WHOLE_RUN, row.last as i64), Some(number));
            for key in keys {
                expected.insert((key, row.last as i64), Some(number));
                *expected.entry((HEADS, key)).or_insert(Some(0)).get_or_insert(0) += 1;
            }
        }
        found.batches += 1;
        found.entries += entries.len() as u64;
        Ok(())
    })?;
    let mut statement = file.prepare_cached("SELECT task, last, batch FROM places WHERE run = ?1")?;
    let mut places = statement.query([run.number])?;
    while let Some(place) = places.next()? {
        look.places += 1;
        let (task, last, batch): (i64, i64, i64) = (place.get(0)?, place.get(1)?, place.get(2)?);
        if expected.remove(&(task, last)) != Some(Some(batch)) {
            found.findings.push(format!("run {}: a place of task key {task} is wrong: {last}, {batch}", run.id));
        }
    }
    for (task, last) in expected.keys().take(MAX_FINDINGS) {
        found.findings.push(format!("run {}: a place of task key {task} is missing: {last}", run.id));
    }
    for (_, command) in reader::commands(file, &run.id, 0)? {
        hashes_in(command.text(), &mut look.named);
        found.commands += 1;
    }
    Ok(())
}

fn memories(file: &Transaction<'_>, _look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    let mut statement = file.prepare("SELECT memory, agent, tool FROM memories")?;
    let keys = statement.query_map([], |row| {
        let text = |index| row.get::<_, String>(index);
        Ok((MemoryId::new(text(0)?), AgentId::new(text(1)?), ToolId::new(text(2)?)))
    })?;
    let mut memories = 0;
    for key in keys {
        let (memory, agent, tool) = key?;
        memories += 1;
        match reader::recall(file, &memory, &agent, &tool, usize::MAX) {
            Ok(calls) => found.logged += calls.len() as u64,
            Err(error) => found.findings.push(error.to_string()),
        }
    }
    if memories != Totals::load(file)?.memories {
        found.findings.push(format!("{memories} memories are stored, expected {}", Totals::load(file)?.memories));
    }
    Ok(())
}

fn contents(file: &Transaction<'_>, look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    let mut statement = file.prepare("SELECT hash, bytes FROM contents NOT INDEXED")?;
    let mut by_index = file.prepare("SELECT 1 FROM contents INDEXED BY sqlite_autoindex_contents_1 WHERE hash = ?1")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let hash = ContentHash::from_bytes(row.get(0)?);
        let bytes = row.get_ref(1)?.as_blob().map_err(|error| StoreError::Corrupt { what: error.to_string() })?;
        found.contents += 1;
        found.content_bytes += bytes.len() as u64;
        if ContentHash::of(bytes) != hash {
            found.findings.push(format!("content {hash} no longer has that hash"));
        }
        if !by_index.exists([hash.as_bytes()])? {
            found.findings.push(format!("the index of contents lacks {hash}"));
        }
        if !look.named.contains(&hash) {
            found.unnamed += 1;
        }
        look.needed.remove(&hash);
    }
    found.findings.extend(look.needed.iter().map(|(hash, what)| format!("{what} is missing: content {hash}")));
    Ok(())
}

fn breadcrumbs(file: &Transaction<'_>, _look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    super::breadcrumbs::verify(file, found)
}

/// Rows that nothing leads to.
fn counts(file: &Transaction<'_>, look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    for (table, reached) in
        [("batches", found.batches), ("places", look.places), ("commands", found.commands), ("logged", found.logged)]
    {
        let there: i64 = file.query_row(&format!("SELECT count(*) FROM {table} NOT INDEXED"), [], |row| row.get(0))?;
        if there as u64 != reached {
            found.findings.push(format!("{table} has {there} rows, but only {reached} are in use"));
        }
    }
    Ok(())
}
