//! Breadcrumbs on PostgreSQL.
//!
//! The queries are not written yet: every method fails.

use std::collections::HashSet;

use async_trait::async_trait;
use baton_breadcrumb::Definition;
use baton_types::breadcrumb::{
    Breadcrumb, BreadcrumbQuery, BreadcrumbVersion, Centre, FoundBreadcrumbs, RecordVector, Unembedded, VectorKind, Viewer,
};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::time::Timestamp;
use tokio_postgres::Client;

use super::PostgresStore;
use crate::{Breadcrumbs, Creation, NextTrigger, ScheduleRecord, Settlement, StoreError, Update, Verification, Written};

/// The tables of breadcrumbs.
pub(super) const TABLES: &str = "";

/// Marks a trigger as handled by `run`.
///
/// Fails with [`StoreError::TriggerTaken`] if it is settled, or if another run handles it.
#[expect(clippy::unused_async, reason = "it has no query yet")]
pub(super) async fn start_trigger(_transaction: &Client, trigger: u64, _run: &RunId) -> Result<(), StoreError> {
    Err(StoreError::TriggerTaken(trigger))
}

/// Returns the runs whose triggers are not settled.
#[expect(clippy::unused_async, reason = "it has no query yet")]
pub(super) async fn unanswered_runs(_client: &Client) -> Result<HashSet<RunId>, StoreError> {
    Ok(HashSet::new())
}

/// Removes the settled triggers whose runs were removed, and those that had none.
#[expect(clippy::unused_async, reason = "it has no query yet")]
pub(super) async fn forget_triggers(_client: &Client) -> Result<(), StoreError> {
    Ok(())
}

/// Counts the records, and adds what is wrong with them to the findings.
#[expect(clippy::unused_async, reason = "it has no query yet")]
pub(super) async fn verify(_client: &Client, _found: &mut Verification) -> Result<(), StoreError> {
    Ok(())
}

fn missing<T>() -> Result<T, StoreError> {
    Err(StoreError::Postgres { what: "breadcrumbs are not available on PostgreSQL".to_owned() })
}

#[async_trait]
impl Breadcrumbs for PostgresStore {
    async fn create(&self, _creation: Creation) -> Result<Written, StoreError> {
        missing()
    }

    async fn change(&self, _update: Update) -> Result<Written, StoreError> {
        missing()
    }

    async fn import(&self, _creation: Creation, _replaces: bool) -> Result<Written, StoreError> {
        missing()
    }

    async fn find(&self, _id: &BreadcrumbId, _viewer: &Viewer, _now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
        missing()
    }

    async fn read(&self, _id: &BreadcrumbId, _viewer: &Viewer, _now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
        missing()
    }

    async fn history(
        &self,
        _id: &BreadcrumbId,
        _viewer: &Viewer,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Vec<BreadcrumbVersion>, StoreError> {
        missing()
    }

    async fn search(&self, _query: &BreadcrumbQuery, _viewer: &Viewer, _now: Timestamp) -> Result<FoundBreadcrumbs, StoreError> {
        missing()
    }

    async fn unembedded(
        &self,
        _query: &BreadcrumbQuery,
        _kind: &VectorKind,
        _viewer: &Viewer,
        _now: Timestamp,
    ) -> Result<Unembedded, StoreError> {
        missing()
    }

    async fn keep_vectors(&self, _kind: &VectorKind, _vectors: Vec<RecordVector>) -> Result<(), StoreError> {
        missing()
    }

    async fn nearest(
        &self,
        _query: &BreadcrumbQuery,
        _centre: &Centre,
        _viewer: &Viewer,
        _now: Timestamp,
    ) -> Result<FoundBreadcrumbs, StoreError> {
        missing()
    }

    async fn ids(
        &self,
        _prefix: &str,
        _viewer: &Viewer,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Vec<BreadcrumbId>, StoreError> {
        missing()
    }

    async fn definition(&self, _schema: &str, _project: &ProjectId, _now: Timestamp) -> Result<Option<Definition>, StoreError> {
        missing()
    }

    async fn schedules(&self, _now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError> {
        missing()
    }

    async fn publish_ticks(&self, _schedule: &BreadcrumbId, _now: Timestamp) -> Result<Vec<Breadcrumb>, StoreError> {
        missing()
    }

    async fn agents(&self, _project: &ProjectId, _now: Timestamp) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError> {
        missing()
    }

    async fn next_triggers(&self, _project: &ProjectId, _limit: usize, _now: Timestamp) -> Result<Vec<NextTrigger>, StoreError> {
        missing()
    }

    async fn settle(&self, _settlement: Settlement) -> Result<Option<Breadcrumb>, StoreError> {
        missing()
    }
}
