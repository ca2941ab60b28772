//! The end of a trigger: its answer is written in the same transaction.

use baton_breadcrumb::{BreadcrumbError, TriggerState};
use rusqlite::Connection;

use super::triggers::{load, save};
use super::write::create_new;
use crate::{Settlement, StoreError, Written};

/// See [`crate::Breadcrumbs::settle`].
pub(super) fn settle(file: &Connection, settlement: &Settlement) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    let mut trigger = load(file, settlement.trigger)?;
    if !trigger.state.is_open() {
        return Ok(Ok(Vec::new()));
    }
    let written = match &settlement.answer {
        None => None,
        Some(answer) => match create_new(file, answer)? {
            Ok(written) => Some(written),
            Err(refused) => return Ok(Err(refused)),
        },
    };
    trigger.state = TriggerState::Settled {
        run: trigger.state.run().cloned(),
        answer: written.as_ref().map(|written| written.breadcrumb.id.clone()),
        refused: settlement.refused.clone(),
    };
    trigger.record = None;
    save(file, &trigger)?;
    Ok(Ok(written.into_iter().collect()))
}
