//! Schedules of a store: one pass publishes the ticks that are due.
//!
//! The store settles each tick in the transaction that publishes it, so any number of processes may make passes.

use baton_breadcrumb::Schedule;
use baton_store::{Breadcrumbs, ScheduleRecord, StoreError};
use baton_types::breadcrumb::Breadcrumb;
use baton_types::id::{BreadcrumbId, ProjectId};
use baton_types::time::Timestamp;

use crate::engine::Engine;
use crate::error::RunError;

/// Result of a pass over the schedules of a store.
#[derive(Debug, Default)]
pub struct SchedulePass {
    /// The number of schedules that count and are enabled.
    pub schedules: usize,
    /// The ticks that were published.
    pub published: Vec<Breadcrumb>,
    /// Schedules whose ticks are not published, with the reasons. They are tried again by the next pass.
    pub failed: Vec<(BreadcrumbId, String)>,
    /// The moment of the next tick.
    pub next: Option<Timestamp>,
}

impl Engine {
    /// Publishes the ticks that are due, of the schedules of all projects in the store.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn publish_ticks(&self) -> Result<SchedulePass, RunError> {
        Ok(publish_ticks(self.0.store.breadcrumbs(), self.0.clock.now(), None).await?)
    }
}

/// Publishes the ticks that are due at `now`, of the schedules of `project` or of all projects.
pub(crate) async fn publish_ticks(
    breadcrumbs: &dyn Breadcrumbs,
    now: Timestamp,
    project: Option<&ProjectId>,
) -> Result<SchedulePass, StoreError> {
    let mut pass = SchedulePass::default();
    let schedules = breadcrumbs.schedules(now).await?.into_iter();
    for ScheduleRecord { breadcrumb, settled } in
        schedules.filter(|of| project.is_none_or(|project| of.breadcrumb.project == *project))
    {
        let schedule = match Schedule::read(&breadcrumb) {
            Ok(schedule) if schedule.is_enabled => schedule,
            Ok(_) => continue,
            Err(error) => {
                pass.failed.push((breadcrumb.id, error.to_string()));
                continue;
            }
        };
        pass.schedules += 1;
        if schedule.next(settled).is_some_and(|next| next <= now) {
            match breadcrumbs.publish_ticks(&breadcrumb.id, now).await {
                Ok(published) => pass.published.extend(published),
                Err(StoreError::Breadcrumb(refused)) => {
                    pass.failed.push((breadcrumb.id, refused.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
        pass.next = pass.next.into_iter().chain(schedule.next(now.max(settled))).min();
    }
    Ok(pass)
}
