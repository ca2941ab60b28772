//! Checks of stored records, apart from the database that keeps them.

use baton_breadcrumb::Trigger;
use baton_types::breadcrumb::Breadcrumb;
use baton_types::id::RunId;

use super::read::definition_of;
use super::row::{BreadcrumbRow, damaged};
use super::rows::Rows;
use crate::StoreError;

/// Number of versions that are read at once.
const PAGE: u64 = 64;

/// Checks that a record is found by its id, that all its versions can be read, and that its row is that of its newest version. Returns
/// the newest version.
pub(crate) async fn check_record(rows: &impl Rows, row: &BreadcrumbRow) -> Result<Breadcrumb, StoreError> {
    let wrong = |what: &str| damaged(format!("breadcrumb {}: {what}", row.id));
    if rows.find(&row.id).await?.is_none_or(|found| found.number != row.number) {
        return Err(wrong("it is not found by its id"));
    }
    for first in (1..=row.version).step_by(PAGE as usize) {
        let wanted: Vec<_> = (first..=row.version.min(first + PAGE - 1)).map(|version| (row, version)).collect();
        rows.versions(&wanted).await?;
    }
    let newest = rows.newest(row).await?.breadcrumb;
    let definition = definition_of(rows, row).await?;
    if definition.as_ref().map(|(definition, _)| definition.schema()) != row.defines.as_deref()
        || newest.visibility != row.visibility
        || newest.sensitivity != row.sensitivity
    {
        return Err(wrong("its row differs from its newest version"));
    }
    Ok(newest)
}

/// The columns of a trigger's row by which it is found: its project, whether it waits, its queue and its run.
pub(crate) type TriggerColumns = (String, bool, Option<String>, Option<String>);

/// Checks that the row of a trigger is that of its text.
pub(crate) fn check_trigger(trigger: &Trigger, columns: &TriggerColumns) -> Result<(), StoreError> {
    let run = trigger.state.run().map(RunId::to_string);
    if *columns == (trigger.project.to_string(), trigger.state.is_open(), trigger.queue(), run) {
        return Ok(());
    }
    Err(damaged(format!("trigger {}: its row differs from its body", trigger.number)))
}
