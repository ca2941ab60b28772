//! The end of a trigger: its answer is written in the same transaction.

use baton_breadcrumb::{BreadcrumbError, TriggerState};

use super::rows::Rows;
use super::write::create_new;
use crate::{Settlement, StoreError, Written};

/// See [`crate::Breadcrumbs::settle`].
pub(crate) async fn settle(
    rows: &impl Rows,
    settlement: &Settlement,
) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    let mut trigger = rows.trigger_to_change(settlement.trigger).await?;
    if !trigger.state.is_open() {
        return Ok(Ok(Vec::new()));
    }
    let written = match &settlement.answer {
        None => None,
        Some(answer) => match create_new(rows, answer).await? {
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
    rows.save_trigger(&trigger).await?;
    Ok(Ok(written.into_iter().collect()))
}
