//! The rows of triggers.

use std::collections::HashSet;

use baton_breadcrumb::{Trigger, TriggerState};
use baton_types::id::{ContentHash, ProjectId, RunId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::ready;
use crate::StoreError;
use crate::breadcrumbs::row::damaged;
use crate::breadcrumbs::triggers::{self, read_trigger, trigger_body};
use crate::breadcrumbs::verify::check_trigger;
use crate::sqlite::records::checksum_of;
use crate::sqlite::to_sql;

/// Writes a trigger under the next number.
pub(super) fn add(file: &Connection, trigger: Trigger) -> Result<(), StoreError> {
    let number: i64 =
        file.prepare_cached("SELECT coalesce(max(trigger), 0) + 1 FROM breadcrumb_triggers")?.query_row([], |row| row.get(0))?;
    save(file, &Trigger { number: number as u64, ..trigger })
}

/// Returns the triggers that are not settled and wait for no earlier one of their queue.
pub(super) fn next(file: &Connection, project: &ProjectId, limit: usize) -> Result<Vec<Trigger>, StoreError> {
    let mut statement = file.prepare_cached(
        "SELECT trigger, body, checksum FROM breadcrumb_triggers AS this WHERE project = ?1 AND waits = 1 AND NOT EXISTS
         (SELECT 1 FROM breadcrumb_triggers WHERE queue = this.queue AND waits = 1 AND trigger < this.trigger)
         ORDER BY trigger LIMIT ?2",
    )?;
    statement
        .query_map(params![project.as_str(), i64::try_from(limit).unwrap_or(i64::MAX)], |row| Ok(read(row)))?
        .collect::<Result<Result<_, _>, _>>()?
}

/// Returns the run of the last trigger in a queue before `number` that had one.
pub(super) fn run_before(file: &Connection, queue: &str, number: u64) -> Result<Option<RunId>, StoreError> {
    let found = file
        .prepare_cached(
            "SELECT run FROM breadcrumb_triggers WHERE queue = ?1 AND trigger < ?2 AND run IS NOT NULL ORDER BY trigger DESC LIMIT 1",
        )?
        .query_row(params![queue, to_sql(number)], |row| row.get::<_, String>(0))
        .optional()?;
    Ok(found.map(RunId::new))
}

/// Whether a trigger has no run yet.
pub(crate) fn waits(file: &Connection, number: u64) -> Result<bool, StoreError> {
    Ok(load(file, number)?.state == TriggerState::Waiting)
}

/// See [`triggers::start`].
pub(crate) fn start(file: &Connection, number: u64, run: &RunId) -> Result<(), StoreError> {
    ready(triggers::start(file, number, run))
}

/// Returns the runs whose triggers are not settled.
pub(crate) fn unanswered_runs(file: &Connection) -> Result<HashSet<RunId>, StoreError> {
    let mut statement = file.prepare("SELECT run FROM breadcrumb_triggers WHERE waits = 1 AND run IS NOT NULL")?;
    let runs = statement.query_map([], |row| Ok(RunId::new(row.get::<_, String>(0)?)))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Removes the settled triggers whose runs were removed, and those that had none.
pub(crate) fn forget(file: &Connection) -> Result<(), StoreError> {
    file.execute("DELETE FROM breadcrumb_triggers WHERE waits = 0 AND (run IS NULL OR run NOT IN (SELECT id FROM runs))", [])?;
    Ok(())
}

/// Returns the trigger that a run handles or handled.
pub(super) fn of_run(file: &Connection, run: &RunId) -> Result<Option<Trigger>, StoreError> {
    let found = file
        .prepare_cached("SELECT trigger, body, checksum FROM breadcrumb_triggers WHERE run = ?1")?
        .query_row([run.as_str()], |row| Ok(read(row)))
        .optional()?;
    found.transpose()
}

pub(super) fn load(file: &Connection, number: u64) -> Result<Trigger, StoreError> {
    let found = file
        .prepare_cached("SELECT trigger, body, checksum FROM breadcrumb_triggers WHERE trigger = ?1")?
        .query_row([to_sql(number)], |row| Ok(read(row)))
        .optional()?;
    found.unwrap_or_else(|| Err(damaged(format!("trigger {number} is missing"))))
}

fn read(row: &Row<'_>) -> Result<Trigger, StoreError> {
    let (number, body) = (row.get::<_, i64>(0)?, row.get::<_, String>(1)?);
    if row.get::<_, i64>(2)? != checksum(number, &body) {
        return Err(damaged(format!("trigger {number} does not match its checksum")));
    }
    read_trigger(number, &body)
}

pub(super) fn save(file: &Connection, trigger: &Trigger) -> Result<(), StoreError> {
    let body = trigger_body(trigger);
    let number = to_sql(trigger.number);
    file.prepare_cached(
        "INSERT OR REPLACE INTO breadcrumb_triggers (trigger, project, waits, queue, run, body, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        number,
        trigger.project.as_str(),
        trigger.state.is_open(),
        trigger.queue(),
        trigger.state.run().map(RunId::as_str),
        body,
        checksum(number, &body)
    ])?;
    Ok(())
}

fn checksum(number: i64, body: &str) -> i64 {
    checksum_of(&(number, ContentHash::of(body.as_bytes()).as_bytes()))
}

/// Checks every trigger; returns what is wrong.
pub(super) fn verify(file: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement =
        file.prepare("SELECT trigger, body, checksum, project, waits, queue, run FROM breadcrumb_triggers NOT INDEXED")?;
    let mut rows = statement.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Err(error) => findings.push(error.to_string()),
            Ok(trigger) => {
                let columns = (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
                findings.extend(check_trigger(&trigger, &columns).err().map(|error| error.to_string()));
            }
        }
    }
    Ok(findings)
}
