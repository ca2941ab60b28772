//! One write: checked against the current rows, then written.

use std::sync::PoisonError;

use baton_types::document::Content;
use baton_types::entry::ForkPoint;
use baton_types::id::{ContentHash, RunId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::packed::PackedRow;
use super::recent::{Place, Recent};
use super::records::{Kept, RunRow, Totals, checksum_of, link_at};
use super::writer::{Answer, Write};
use super::{breadcrumbs, to_sql};
use crate::rows;
use crate::{Batch, LoggedCall, NewRun, STATUS_CREATED, StoreError};

/// Checks one write, then writes it. `Ok(Err(_))` is a refusal: nothing was written. After `Err(_)` the transaction must be
/// rolled back.
///
/// `kept` are the rows of runs that this connection knows. They must be forgotten when the transaction is rolled back.
pub(super) fn perform(file: &Transaction<'_>, kept: &mut Kept, write: &Write) -> Result<Answer, StoreError> {
    match write {
        Write::Create(run) => insert_run(file, kept, run, &mut |_| Ok(())),
        Write::Begin { run, owner, batch, rows } => begin(file, kept, run, owner, batch, rows),
        Write::TakeOver { run, owner, epoch } => take_over(file, kept, run, owner, *epoch),
        Write::Append { batch, rows } => append(file, kept, batch, rows),
        Write::PutContent { hash, content } => put_content(file, *hash, content).map(|()| Ok(0)),
        Write::PutCommand { run, command } => put_command(file, kept, run, command),
        Write::Breadcrumb { request, done } => Ok(match breadcrumbs::perform(file, request)? {
            Ok(written) => {
                *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
                Ok(0)
            }
            Err(refused) => Err(refused.into()),
        }),
    }
}

/// Inserts a run. `with` changes its row before the final save.
fn insert_run(
    file: &Transaction<'_>,
    kept: &mut Kept,
    run: &NewRun,
    with: &mut dyn FnMut(&mut RunRow) -> Result<(), StoreError>,
) -> Result<Answer, StoreError> {
    let (past, link) = match &run.past {
        None => (None, rows::root_link(&run.id)),
        Some(ForkPoint { run: other, seq }) => match RunRow::find(file, other)? {
            None => return Ok(Err(StoreError::UnknownRun(other.clone()))),
            Some(RunRow { last_seq: found, .. }) if found < *seq => {
                return Ok(Err(StoreError::SequenceMismatch { run: other.clone(), expected: *seq, found }));
            }
            Some(other) => (Some(other.number), link_at(file, other, *seq)?),
        },
    };
    let mut row = RunRow {
        number: 0,
        id: run.id.clone(),
        job: run.job.clone(),
        status: STATUS_CREATED.to_owned(),
        created: run.at.as_micros(),
        updated: run.at.as_micros(),
        last_seq: run.past_seq(),
        epoch: 0,
        owner: None,
        wakes: None,
        past,
        past_seq: run.past_seq(),
        commands: 0,
        tasks: 0,
        recent: Recent::default(),
        link,
    };
    if !row.insert(file)? {
        return Ok(Err(StoreError::RunExists(run.id.clone())));
    }
    let mut totals = Totals::load(file)?;
    totals.runs += 1;
    totals.save(file)?;
    with(&mut row)?;
    row.save(file)?;
    kept.keep(row);
    Ok(Ok(0))
}

fn begin(
    file: &Transaction<'_>,
    kept: &mut Kept,
    run: &NewRun,
    owner: &str,
    batch: &Batch,
    rows: &[PackedRow],
) -> Result<Answer, StoreError> {
    // Checked before anything is written, since a refusal must write nothing.
    if let Err(refused) = batch.check(1, run.past_seq()) {
        return Ok(Err(refused));
    }
    if let Some(trigger) = run.trigger
        && !breadcrumbs::triggers::waits(file, trigger)?
    {
        return Ok(Err(StoreError::TriggerTaken(trigger)));
    }
    insert_run(file, kept, run, &mut |row| {
        (row.epoch, row.owner) = (1, Some(owner.to_owned()));
        run.trigger.map_or(Ok(()), |trigger| breadcrumbs::triggers::start(file, trigger, &run.id))?;
        put_parts(file, row, batch, rows)
    })
}

fn take_over(file: &Transaction<'_>, kept: &mut Kept, run: &RunId, owner: &str, epoch: u64) -> Result<Answer, StoreError> {
    let Some(mut row) = kept.take(file, run)? else { return Ok(Err(StoreError::UnknownRun(run.clone()))) };
    if row.epoch != epoch {
        let refused = StoreError::StaleEpoch { run: run.clone(), expected: epoch, found: row.epoch };
        kept.keep(row);
        return Ok(Err(refused));
    }
    (row.epoch, row.owner) = (row.epoch + 1, Some(owner.to_owned()));
    // If this owner dies, the run should continue at once.
    row.wakes = row.wakes.map(|_| 0);
    row.save(file)?;
    let epoch = row.epoch;
    kept.keep(row);
    Ok(Ok(epoch))
}

fn append(file: &Transaction<'_>, kept: &mut Kept, batch: &Batch, rows: &[PackedRow]) -> Result<Answer, StoreError> {
    let Some(mut row) = kept.take(file, &batch.run)? else { return Ok(Err(StoreError::UnknownRun(batch.run.clone()))) };
    let checked = batch.check(row.epoch, row.last_seq);
    if checked.is_ok() {
        put_parts(file, &mut row, batch, rows)?;
        if batch.releases || !batch.consumed.is_empty() { row.save(file)? } else { row.save_after_batch(file)? }
    }
    kept.keep(row);
    Ok(checked.map(|()| 0))
}

/// Writes what a batch adds to its run, and changes the run's row by it.
fn put_parts(file: &Transaction<'_>, run: &mut RunRow, batch: &Batch, rows: &[PackedRow]) -> Result<(), StoreError> {
    for (hash, content) in &batch.contents {
        debug_assert_eq!(*hash, ContentHash::of(content), "a content of a batch does not match its hash");
        put_content(file, *hash, content)?;
    }
    let mut insert =
        file.prepare_cached("INSERT INTO batches (run, first, checksum, link, entries) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for row in rows {
        run.link = run.link.extended(row.body.as_bytes());
        let checksum = rows::first_eight(row.body);
        let number = insert.insert(params![run.number, to_sql(row.first), checksum, run.link.as_bytes(), row.text])?;
        run.recent.push(&Place(row.last, number, row.tasks.clone()));
        run.tasks += run.recent.move_if_many(file, &run.id, run.number)?;
    }
    for call in &batch.logged {
        insert_logged(file, &run.id, call)?;
    }
    for number in &batch.consumed {
        let consumed = file
            .prepare_cached("DELETE FROM commands WHERE run = ?1 AND command = ?2")?
            .execute([run.number, to_sql(*number)])?;
        run.commands = run.commands.saturating_sub(consumed as u64);
    }
    run.last_seq = batch.last_seq();
    if let Some(last) = batch.entries.last() {
        run.updated = last.at.as_micros();
    }
    if let Some(summary) = &batch.summary {
        run.status.clone_from(&summary.status);
        run.updated = summary.at.as_micros();
    }
    if batch.releases {
        run.owner = None;
        run.wakes = batch.wakes.map(Timestamp::as_micros);
    }
    Ok(())
}

fn put_content(file: &Transaction<'_>, hash: ContentHash, content: &Content) -> Result<(), StoreError> {
    file.prepare_cached("INSERT INTO contents (hash, bytes) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING")?
        .execute(params![hash.as_bytes(), &content[..]])?;
    Ok(())
}

/// Inserts `call` of `run`, whose tool only logs its input.
pub(super) fn insert_logged(file: &Transaction<'_>, run: &RunId, call: &LoggedCall) -> Result<(), StoreError> {
    let LoggedCall { memory, agent, tool, task, call, at, input } = call;
    let known: Option<i64> = file
        .prepare_cached("SELECT calls FROM memories WHERE memory = ?1 AND agent = ?2 AND tool = ?3")?
        .query_row([memory.as_str(), agent.as_str(), tool.as_str()], |row| row.get(0))
        .optional()?;
    // A file that was tampered with may hold the largest number. SQLite then refuses the duplicate.
    let nth = known.unwrap_or(0).saturating_add(1);
    file.prepare_cached(
        "INSERT INTO memories (memory, agent, tool, calls) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET calls = ?4",
    )?
    .execute(params![memory.as_str(), agent.as_str(), tool.as_str(), nth])?;
    if known.is_none() {
        let mut totals = Totals::load(file)?;
        totals.memories += 1;
        totals.save(file)?;
    }
    file.prepare_cached(
        "INSERT INTO logged (memory, agent, tool, nth, run, task, call, at, input, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        memory.as_str(),
        agent.as_str(),
        tool.as_str(),
        nth,
        run.as_str(),
        task.as_str(),
        call.as_str(),
        at.as_micros(),
        input.text(),
        checksum_of(&(memory, agent, tool, nth, run, task, call, at.as_micros(), input.text()))
    ])?;
    Ok(())
}

fn put_command(file: &Transaction<'_>, kept: &mut Kept, run: &RunId, command: &Json) -> Result<Answer, StoreError> {
    let Some(mut row) = kept.take(file, run)? else { return Ok(Err(StoreError::UnknownRun(run.clone()))) };
    let mut totals = Totals::load(file)?;
    totals.commands += 1;
    totals.save(file)?;
    insert_command(file, &mut row, totals.commands, command.text())?;
    row.save(file)?;
    kept.keep(row);
    Ok(Ok(totals.commands))
}

/// Puts a command into the inbox of `run`; the run's row is still to be written.
pub(super) fn insert_command(file: &Transaction<'_>, run: &mut RunRow, number: u64, body: &str) -> Result<(), StoreError> {
    file.prepare_cached("INSERT INTO commands (run, command, body, checksum) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        run.number,
        to_sql(number),
        body,
        checksum_of(&(&run.id, number, body))
    ])?;
    run.commands += 1;
    Ok(())
}
