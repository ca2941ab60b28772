//! Schedules and their ticks. The ticks that are due are found and written in one transaction, so each is published once, however many
//! processes look.

use baton_breadcrumb::{Author, BreadcrumbError, SCHEDULE_SCHEMA, Schedule};
use baton_types::breadcrumb::Breadcrumb;
use baton_types::id::{BreadcrumbId, ContentHash};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;

use super::read::counting;
use super::row::{BreadcrumbRow, damaged};
use super::rows::Rows;
use super::write::create_new;
use crate::{Creation, ScheduleRecord, StoreError, Written};

/// See [`crate::Breadcrumbs::schedules`].
pub(crate) async fn schedules(rows: &impl Rows, now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError> {
    let mut found = Vec::new();
    for (row, breadcrumb) in counting(rows, rows.of_schema(SCHEDULE_SCHEMA, None).await?, now).await? {
        found.push(scheduled(rows, &row, breadcrumb).await?);
    }
    Ok(found)
}

/// Returns a schedule, whose version that counts is `breadcrumb`.
async fn scheduled(rows: &impl Rows, row: &BreadcrumbRow, breadcrumb: Breadcrumb) -> Result<ScheduleRecord, StoreError> {
    let settled = rows.settled(row.number).await?;
    // A schedule that was changed or switched on begins anew.
    let settled = settled.map_or(breadcrumb.updated_at, |settled| settled.max(breadcrumb.updated_at));
    Ok(ScheduleRecord { breadcrumb, settled })
}

/// Publishes the ticks of a schedule that are due, and returns them. A schedule that is gone has none.
pub(crate) async fn publish(
    rows: &impl Rows,
    id: &BreadcrumbId,
    now: Timestamp,
) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    let mut published = Vec::new();
    let found = rows.find_to_change(id).await?.into_iter().collect();
    let Some((row, breadcrumb)) = counting(rows, found, now).await?.pop() else { return Ok(Ok(published)) };
    let ScheduleRecord { breadcrumb, settled } = scheduled(rows, &row, breadcrumb).await?;
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
        match create_new(rows, &creation).await? {
            Ok(written) => published.push(written),
            // The definition of the ticks' schema refuses them. Nothing was written, so they are due until it is corrected.
            Err(refused) if published.is_empty() => return Ok(Err(refused)),
            Err(refused) => return Err(damaged(format!("the tick of breadcrumb {id} at {at}: {refused}"))),
        }
    }
    rows.settle_ticks(row.number, now).await?;
    Ok(Ok(published))
}

/// Returns the id of a tick. It follows from the schedule and the moment.
fn tick_id(schedule: &BreadcrumbId, at: Timestamp) -> BreadcrumbId {
    let hash = ContentHash::of(format!("{schedule}\n{}", at.as_micros()).as_bytes()).to_string();
    BreadcrumbId::new(format!("tick-{}", &hash[..32]))
}
