//! Triggers: written in the transaction of the version that has to be handled, so that none is lost and none is made twice.

use std::collections::HashSet;

use baton_breadcrumb::{
    AGENT_SCHEMA, AgentDefinition, Author, Handler, Trigger, TriggerState, is_new_request, session_of, starts,
};
use baton_types::breadcrumb::{Breadcrumb, TtlType};
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId, RunId};
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{BreadcrumbRow, COLUMNS, damaged, has_table};
use crate::sqlite::records::checksum_of;
use crate::sqlite::to_sql;
use crate::{NextTrigger, StoreError};

const TABLE: &str = "breadcrumb_triggers";

/// Notes the triggers of a version that was just written; returns their number. `before` is the version before it.
pub(super) fn note(file: &Connection, record: &Breadcrumb, before: Option<&Breadcrumb>, by: &Author) -> Result<u32, StoreError> {
    let mut depth = None;
    let mut noted = 0;
    let mut add = |handler: Handler, most: u32| -> Result<(), StoreError> {
        let depth = match depth {
            Some(depth) => depth,
            None => *depth.insert(by.run.as_ref().map_or(Ok(None), |run| of_run(file, run))?.map_or(0, |cause| cause.depth) + 1),
        };
        let refused =
            (depth > most).then(|| format!("it would be trigger {depth} of a chain, and limits.trigger_depth is {most}"));
        let number: i64 = file
            .prepare_cached("SELECT coalesce(max(trigger), 0) + 1 FROM breadcrumb_triggers")?
            .query_row([], |row| row.get(0))?;
        noted += 1;
        save(
            file,
            &Trigger {
                number: number as u64,
                project: record.project.clone(),
                handler,
                breadcrumb: record.id.clone(),
                version: record.version,
                session: session_of(record).map(str::to_owned),
                depth,
                cause: by.run.clone(),
                at: record.updated_at.as_micros(),
                record: (record.ttl_type != TtlType::Never).then(|| Box::new(record.clone())),
                refused,
                state: TriggerState::Waiting,
            },
        )
    };
    if is_new_request(record, before) {
        add(Handler::ToolRequest, baton_breadcrumb::DEFAULT_TRIGGER_DEPTH)?;
    }
    for (definition, agent) in agents(file, &record.project, record.updated_at)? {
        // A faulty definition is reported by the program that starts its agent.
        if let Ok(agent) = AgentDefinition::read(&agent)
            && starts(&agent, record, before, by)
        {
            add(Handler::Agent(definition), agent.trigger_depth)?;
        }
    }
    Ok(noted)
}

/// Returns the agents of a project: of each record that is one, its id and the version that counts.
pub(super) fn agents(
    file: &Connection,
    project: &ProjectId,
    now: Timestamp,
) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError> {
    let mut found = Vec::new();
    if !has_table(file, TABLE)? {
        return Ok(found);
    }
    let mut statement = file.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM breadcrumbs WHERE schema_name = ?1 AND project = ?2 ORDER BY breadcrumb"
    ))?;
    let mut rows = statement.query([AGENT_SCHEMA, project.as_str()])?;
    while let Some(row) = rows.next()? {
        let row = BreadcrumbRow::read(row)?;
        found.extend(counting(file, &row, now)?.map(|record| (row.id, record)));
    }
    Ok(found)
}

/// Returns the version of a record that counts; `None` if none does, or the record has ended.
fn counting(file: &Connection, row: &BreadcrumbRow, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
    if row.ends.is_some_and(|ends| ends <= now.as_micros()) {
        return Ok(None);
    }
    let Some(version) = row.version(file, row.version)?.defines_by else { return Ok(None) };
    Ok(Some(row.version(file, version)?.breadcrumb))
}

/// See [`crate::Breadcrumbs::next_triggers`].
pub(super) fn next(file: &Connection, project: &ProjectId, limit: usize, now: Timestamp) -> Result<Vec<NextTrigger>, StoreError> {
    if !has_table(file, TABLE)? {
        return Ok(Vec::new());
    }
    let mut statement = file.prepare_cached(
        "SELECT trigger, body, checksum FROM breadcrumb_triggers AS this WHERE project = ?1 AND waits = 1 AND NOT EXISTS
         (SELECT 1 FROM breadcrumb_triggers WHERE queue = this.queue AND waits = 1 AND trigger < this.trigger)
         ORDER BY trigger LIMIT ?2",
    )?;
    let triggers: Vec<Trigger> = statement
        .query_map(params![project.as_str(), i64::try_from(limit).unwrap_or(i64::MAX)], |row| Ok(read(row)))?
        .collect::<Result<Result<_, _>, _>>()??;
    triggers.into_iter().map(|trigger| with_records(file, trigger, now)).collect()
}

fn with_records(file: &Connection, trigger: Trigger, now: Timestamp) -> Result<NextTrigger, StoreError> {
    let record = match BreadcrumbRow::find(file, &trigger.breadcrumb)? {
        Some(row) if row.ends.is_none_or(|ends| ends > now.as_micros()) => Some(row.version(file, trigger.version)?.breadcrumb),
        _ => None,
    };
    let definition = match &trigger.handler {
        Handler::ToolRequest => None,
        Handler::Agent(definition) => match BreadcrumbRow::find(file, definition)? {
            Some(row) => counting(file, &row, now)?,
            None => None,
        },
    };
    let previous = match trigger.queue() {
        None => None,
        Some(queue) => file
            .prepare_cached(
                "SELECT run FROM breadcrumb_triggers WHERE queue = ?1 AND trigger < ?2 AND run IS NOT NULL
                 ORDER BY trigger DESC LIMIT 1",
            )?
            .query_row(params![queue, to_sql(trigger.number)], |row| row.get::<_, String>(0))
            .optional()?
            .map(RunId::new),
    };
    Ok(NextTrigger { trigger, record, definition, previous })
}

/// Whether a trigger has no run yet.
pub(crate) fn waits(file: &Connection, number: u64) -> Result<bool, StoreError> {
    Ok(load(file, number)?.state == TriggerState::Waiting)
}

/// Lets `run` handle a trigger that waits. The run must be new.
pub(crate) fn start(file: &Connection, number: u64, run: &RunId) -> Result<(), StoreError> {
    let mut trigger = load(file, number)?;
    trigger.state = TriggerState::Started { run: run.clone() };
    save(file, &trigger)
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
fn of_run(file: &Connection, run: &RunId) -> Result<Option<Trigger>, StoreError> {
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
    serde_json::from_str(&body).map_err(|error| damaged(format!("trigger {number}: {error}")))
}

pub(super) fn save(file: &Connection, trigger: &Trigger) -> Result<(), StoreError> {
    let body = serde_json::to_string(trigger).expect("a trigger has only names and numbers");
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
    if !has_table(file, TABLE)? {
        return Ok(Vec::new());
    }
    let mut statement =
        file.prepare("SELECT trigger, body, checksum, project, waits, queue, run FROM breadcrumb_triggers NOT INDEXED")?;
    let mut rows = statement.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Err(error) => findings.push(error.to_string()),
            Ok(trigger) => {
                let columns = (row.get::<_, String>(3)?, row.get::<_, bool>(4)?, row.get::<_, Option<String>>(5)?, row.get(6)?);
                let run: Option<String> = trigger.state.run().map(|run| run.as_str().to_owned());
                if columns != (trigger.project.as_str().to_owned(), trigger.state.is_open(), trigger.queue(), run) {
                    findings.push(format!("trigger {}: its row differs from its body", trigger.number));
                }
            }
        }
    }
    Ok(findings)
}
