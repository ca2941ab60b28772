//! Schedules and their ticks. The ticks that are due are found and written in one transaction, so each is published once, however many
//! processes look.

use baton_breadcrumb::{Author, BreadcrumbError, SCHEDULE_SCHEMA, Schedule};
use baton_types::id::{BreadcrumbId, ContentHash};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::write::create_new;
use super::{BreadcrumbRow, COLUMNS, damaged, has_table};
use crate::sqlite::records::checksum_of;
use crate::{Creation, ScheduleRecord, StoreError, Written};

/// See [`crate::Breadcrumbs::schedules`].
pub(super) fn schedules(file: &Connection, now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError> {
    let mut found = Vec::new();
    if !has_table(file, "breadcrumb_ticks")? {
        return Ok(found);
    }
    let mut statement =
        file.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE schema_name = ?1 ORDER BY breadcrumb"))?;
    let mut rows = statement.query([SCHEDULE_SCHEMA])?;
    while let Some(row) = rows.next()? {
        let row = BreadcrumbRow::read(row)?;
        if row.ends.is_none_or(|ends| ends > now.as_micros()) {
            found.extend(scheduled(file, &row)?);
        }
    }
    Ok(found)
}

/// Returns the version of a schedule that counts, and the moment up to which its ticks are settled; `None` if no version counts.
fn scheduled(file: &Connection, row: &BreadcrumbRow) -> Result<Option<ScheduleRecord>, StoreError> {
    let Some(version) = row.version(file, row.version)?.defines_by else { return Ok(None) };
    let breadcrumb = row.version(file, version)?.breadcrumb;
    let settled = settled(file, row.number)?;
    // A schedule that was changed or switched on begins anew.
    let settled = settled.map_or(breadcrumb.updated_at, |settled| settled.max(breadcrumb.updated_at));
    Ok(Some(ScheduleRecord { breadcrumb, settled }))
}

/// Publishes the ticks of a schedule that are due, and returns them. A schedule that is gone has none.
pub(super) fn publish(
    file: &Connection,
    id: &BreadcrumbId,
    now: Timestamp,
) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    let mut published = Vec::new();
    let is_there = |row: &BreadcrumbRow| row.ends.is_none_or(|ends| ends > now.as_micros());
    let Some(row) = BreadcrumbRow::find(file, id)?.filter(is_there) else { return Ok(Ok(published)) };
    let Some(ScheduleRecord { breadcrumb, settled }) = scheduled(file, &row)? else { return Ok(Ok(published)) };
    let schedule = match Schedule::read(&breadcrumb) {
        Ok(schedule) => schedule,
        Err(refused) => return Ok(Err(refused)),
    };
    if now <= settled {
        return Ok(Ok(published));
    }
    for at in schedule.due(settled, now) {
        let creation = Creation {
            id: tick_id(id, at),
            new: schedule.tick(&breadcrumb, at, now),
            by: Author::outside(Principal::Engine, row.project.clone()),
            key: None,
            at: now,
        };
        match create_new(file, &creation)? {
            Ok(written) => published.push(written),
            // The definition of the ticks' schema refuses them. Nothing was written, so they are due until it is corrected.
            Err(refused) if published.is_empty() => return Ok(Err(refused)),
            Err(refused) => return Err(damaged(format!("the tick of breadcrumb {id} at {at}: {refused}"))),
        }
    }
    settle(file, row.number, now)?;
    Ok(Ok(published))
}

/// Returns the id of a tick. It follows from the schedule and the moment.
fn tick_id(schedule: &BreadcrumbId, at: Timestamp) -> BreadcrumbId {
    let hash = ContentHash::of(format!("{schedule}\n{}", at.as_micros()).as_bytes()).to_string();
    BreadcrumbId::new(format!("tick-{}", &hash[..32]))
}

/// Returns the moment up to which the ticks of a schedule are settled, if a pass has looked at it.
fn settled(file: &Connection, number: i64) -> Result<Option<Timestamp>, StoreError> {
    let found: Option<(i64, i64)> = file
        .prepare_cached("SELECT settled, checksum FROM breadcrumb_ticks WHERE breadcrumb = ?1")?
        .query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((settled, checksum)) if checksum != checksum_of(&(number, settled)) => {
            Err(damaged(format!("the ticks of breadcrumb number {number} do not match their checksum")))
        }
        found => Ok(found.map(|(settled, _)| Timestamp::from_micros(settled))),
    }
}

fn settle(file: &Connection, number: i64, at: Timestamp) -> Result<(), StoreError> {
    let settled = at.as_micros();
    file.prepare_cached("INSERT OR REPLACE INTO breadcrumb_ticks (breadcrumb, settled, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![number, settled, checksum_of(&(number, settled))])?;
    Ok(())
}
