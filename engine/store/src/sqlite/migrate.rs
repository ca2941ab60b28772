//! An older format becomes the present one: in one transaction, so that a crash leaves the one or the other.
//!
//! Format 2 had no chain of links, no checksums but those of entries, and no counts. Its rows are copied with what they
//! lack; places and contents stay where they are.

use baton_core::id::{AgentId, CallId, JobId, RunId, TaskId, ToolId};
use baton_core::json::Json;
use baton_core::time::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::perform;
use super::records::{RunRow, Totals};
use super::rows::{HEADS, WHOLE_RUN, body, first_eight};
use super::schema::TABLES;
use crate::{LoggedCall, StoreError};

/// The oldest format that can be read.
pub(super) const OLDEST: u32 = 2;

/// Turns a file of format 2 into one of format 3, except for its number.
pub(super) fn from_2(file: &Transaction<'_>) -> Result<(), StoreError> {
    let last_command = file
        .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'commands'", [], |row| row.get::<_, i64>(0))
        .optional()?
        .unwrap_or(0);
    file.execute_batch(
        "ALTER TABLE runs RENAME TO old_runs;
         ALTER TABLE batches RENAME TO old_batches;
         ALTER TABLE logged RENAME TO old_logged;
         ALTER TABLE commands RENAME TO old_commands;",
    )?;
    file.execute_batch(TABLES)?;
    let mut totals = Totals { commands: last_command as u64, ..Totals::default() };
    let mut old =
        file.prepare("SELECT run, id, job, status, created, updated, last_seq, epoch, owner FROM old_runs ORDER BY run")?;
    let mut old = old.query([])?;
    while let Some(row) = old.next()? {
        let (number, id) = (row.get(0)?, RunId::new(row.get::<_, String>(1)?));
        let mut run = RunRow {
            number,
            link: RunRow::root_link(&id),
            id,
            job: JobId::new(row.get::<_, String>(2)?),
            status: row.get(3)?,
            created: row.get(4)?,
            updated: row.get(5)?,
            last_seq: row.get::<_, i64>(6)? as u64,
            epoch: row.get::<_, i64>(7)? as u64,
            owner: row.get(8)?,
            past: None,
            past_seq: 0,
            commands: 0,
            tasks: 0,
        };
        if !run.insert_as(file, number)? {
            return Err(StoreError::Corrupt { what: format!("run {} is there twice", run.id) });
        }
        copy_entries(file, &mut run)?;
        copy_commands(file, &mut run)?;
        run.save(file)?;
        totals.runs += 1;
    }
    totals.save(file)?;
    copy_logged(file)?;
    file.execute_batch("DROP TABLE old_commands; DROP TABLE old_logged; DROP TABLE old_batches; DROP TABLE old_runs;")?;
    Ok(())
}

fn copy_entries(file: &Transaction<'_>, run: &mut RunRow) -> Result<(), StoreError> {
    let mut old = file.prepare_cached(
        "SELECT batch, first, last, checksum, entries FROM places CROSS JOIN old_batches USING (batch)
         WHERE places.run = ?1 AND places.task = ?2 ORDER BY places.last",
    )?;
    let mut old = old.query([run.number, WHOLE_RUN])?;
    let mut insert =
        file.prepare_cached("INSERT INTO batches (batch, run, first, checksum, link, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    let mut end = 0;
    while let Some(row) = old.next()? {
        let (first, last): (i64, i64) = (row.get(1)?, row.get(2)?);
        let text: String = row.get(4)?;
        let body = body(&run.id, first as u64, &text);
        if first as u64 != end + 1 || row.get::<_, i64>(3)? != first_eight(body) {
            return Err(StoreError::Corrupt { what: format!("entries {first} to {last} of run {}", run.id) });
        }
        end = last as u64;
        run.link = run.link.extended(body.as_bytes());
        insert.execute(params![row.get::<_, i64>(0)?, run.number, first, first_eight(body), run.link.as_bytes(), text])?;
    }
    if end != run.last_seq {
        return Err(StoreError::Corrupt { what: format!("run {} lacks entry {}", run.id, end + 1) });
    }
    let tasks = file.execute(
        "INSERT INTO places SELECT run, ?2, task, count(*) FROM places WHERE run = ?1 AND task <> ?3 GROUP BY task",
        [run.number, HEADS, WHOLE_RUN],
    )?;
    run.tasks = tasks as u64;
    Ok(())
}

fn copy_commands(file: &Transaction<'_>, run: &mut RunRow) -> Result<(), StoreError> {
    let mut old = file.prepare_cached("SELECT command, body FROM old_commands WHERE run = ?1 ORDER BY command")?;
    let mut old = old.query([run.number])?;
    while let Some(row) = old.next()? {
        let body: String = row.get(1)?;
        perform::insert_command(file, run, row.get::<_, i64>(0)? as u64, &body)?;
    }
    Ok(())
}

fn copy_logged(file: &Transaction<'_>) -> Result<(), StoreError> {
    let mut old =
        file.prepare("SELECT id, agent, tool, task, call, at, input FROM old_logged JOIN old_runs USING (run) ORDER BY logged")?;
    let mut old = old.query([])?;
    while let Some(row) = old.next()? {
        let text = |index| row.get::<_, String>(index);
        let (run, call) = (RunId::new(text(0)?), CallId::new(text(4)?));
        let input = Json::parse(&text(6)?)
            .map_err(|error| StoreError::Corrupt { what: format!("the logged input of call {call}: {error}") })?;
        let at = Timestamp::from_micros(row.get(5)?);
        let (agent, tool, task) = (AgentId::new(text(1)?), ToolId::new(text(2)?), TaskId::new(text(3)?));
        perform::insert_logged(file, &run, &LoggedCall { agent, tool, task, call, at, input })?;
    }
    Ok(())
}
