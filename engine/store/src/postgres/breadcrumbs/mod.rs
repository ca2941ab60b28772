//! Breadcrumbs on PostgreSQL: the judgements of [`crate::breadcrumbs`] over rows of the database.
//!
//! A write is one transaction, which is rolled back if it is refused. A read that needs several statements sees the database as it is at
//! one moment.

mod rows;
mod search;
mod verify;
mod words;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use baton_breadcrumb::Definition;
use baton_types::breadcrumb::{
    Breadcrumb, BreadcrumbQuery, BreadcrumbVersion, Centre, FoundBreadcrumbs, RecordVector, Unembedded, VectorKind, Viewer,
};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::time::Timestamp;
use tokio_postgres::Client;

use super::PostgresStore;
use super::listen::NOTIFY_TRIGGERS;
use super::pool::Connection;
use crate::breadcrumbs::request::{Request, known, perform};
use crate::breadcrumbs::write::file_all;
use crate::breadcrumbs::{read, ticks, triggers};
use crate::{Breadcrumbs, Creation, NextTrigger, ScheduleRecord, Settlement, StoreError, Update, Written};

pub(super) use rows::adapt_copied;
pub(super) use verify::verify;

/// The tables of breadcrumbs.
pub(super) const TABLES: &str = include_str!("../breadcrumbs.sql");

/// Marks a trigger as handled by `run`, in the transaction of `client`.
///
/// Fails with [`StoreError::TriggerTaken`] if it is settled, or if another run handles it.
pub(super) async fn start_trigger(client: &Client, trigger: u64, run: &RunId) -> Result<(), StoreError> {
    triggers::start(client, trigger, run).await
}

/// Returns the runs whose triggers are not settled.
pub(super) async fn unanswered_runs(client: &Client) -> Result<HashSet<RunId>, StoreError> {
    let statement = "SELECT run FROM baton.breadcrumb_triggers WHERE waits AND run IS NOT NULL";
    let found = client.query_typed(statement, &[]).await?;
    found.iter().map(|row| Ok(RunId::new(row.try_get::<_, &str>(0)?))).collect()
}

/// Removes the settled triggers whose runs were removed, and those that had none.
pub(super) async fn forget_triggers(client: &Client) -> Result<(), StoreError> {
    let statement = "DELETE FROM baton.breadcrumb_triggers AS t
                     WHERE NOT t.waits AND NOT EXISTS (SELECT 1 FROM baton.runs WHERE id = t.run)";
    client.execute_typed(statement, &[]).await?;
    Ok(())
}

/// Files the tags and words of all records, which a copy has written without them.
pub(super) async fn finish_copy(client: &Client) -> Result<(), StoreError> {
    file_all(client, rows::select(client, "ORDER BY b.breadcrumb", &[]).await?).await
}

impl PostgresStore {
    async fn write_breadcrumb(&self, request: Request) -> Result<Written, StoreError> {
        self.write_breadcrumbs(request).await?.pop().ok_or(StoreError::Closed)
    }

    async fn write_breadcrumbs(&self, request: Request) -> Result<Vec<Written>, StoreError> {
        match self.try_write(&request).await {
            // Between two statements, another transaction may have removed a record that this one does not lock, such as a definition.
            // A second attempt does not see it at all.
            Err(StoreError::Corrupt { .. }) => self.try_write(&request).await,
            done => done,
        }
    }

    async fn try_write(&self, request: &Request) -> Result<Vec<Written>, StoreError> {
        let work = |client: Arc<Connection>| async move {
            let written = perform(&**client, request).await??;
            if written.iter().any(|written| written.triggers > 0) {
                client.execute_typed(NOTIFY_TRIGGERS, &[]).await?;
            }
            Ok(written)
        };
        let written = self.pool.transaction(work).await?;
        if written.iter().any(|written| written.triggers > 0) {
            self.subscribers.wake_all();
        }
        Ok(written)
    }
}

/// Lets all statements of a transaction see the same moment.
async fn freeze(client: &Client) -> Result<(), StoreError> {
    Ok(client.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?)
}

/// Reads in a transaction: `view!(store, |client| work)`.
macro_rules! view {
    ($store:expr, |$client:ident| $work:expr) => {
        $store
            .pool
            .transaction(|connection: Arc<Connection>| async move {
                let $client: &Client = &connection;
                freeze($client).await?;
                $work.await
            })
            .await
    };
}

#[async_trait]
impl Breadcrumbs for PostgresStore {
    async fn create(&self, creation: Creation) -> Result<Written, StoreError> {
        self.write_breadcrumb(Request::Create(creation)).await
    }

    async fn change(&self, update: Update) -> Result<Written, StoreError> {
        self.write_breadcrumb(Request::Change(update)).await
    }

    async fn import(&self, creation: Creation, replaces: bool) -> Result<Written, StoreError> {
        self.write_breadcrumb(Request::Import(creation, replaces)).await
    }

    async fn find(&self, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
        view!(self, |client| read::find(client, id, viewer, now))
    }

    async fn read(&self, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
        known(self.write_breadcrumb(Request::Read { id: id.clone(), viewer: viewer.clone(), at: now }).await)
    }

    async fn history(
        &self,
        id: &BreadcrumbId,
        viewer: &Viewer,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<BreadcrumbVersion>, StoreError> {
        view!(self, |client| read::history(client, id, viewer, limit, now))
    }

    async fn search(&self, query: &BreadcrumbQuery, viewer: &Viewer, now: Timestamp) -> Result<FoundBreadcrumbs, StoreError> {
        view!(self, |client| search::search(client, query, viewer, now))
    }

    async fn unembedded(
        &self,
        query: &BreadcrumbQuery,
        kind: &VectorKind,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<Unembedded, StoreError> {
        view!(self, |client| search::unembedded(client, query, kind, viewer, now))
    }

    async fn keep_vectors(&self, kind: &VectorKind, vectors: Vec<RecordVector>) -> Result<(), StoreError> {
        self.write_breadcrumbs(Request::KeepVectors { kind: kind.clone(), vectors }).await.map(drop)
    }

    async fn nearest(
        &self,
        query: &BreadcrumbQuery,
        centre: &Centre,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<FoundBreadcrumbs, StoreError> {
        view!(self, |client| search::nearest(client, query, centre, viewer, now))
    }

    async fn ids(&self, prefix: &str, viewer: &Viewer, limit: usize, now: Timestamp) -> Result<Vec<BreadcrumbId>, StoreError> {
        view!(self, |client| search::ids(client, prefix, viewer, limit, now))
    }

    async fn definition(&self, schema: &str, project: &ProjectId, now: Timestamp) -> Result<Option<Definition>, StoreError> {
        view!(self, |client| read::definition(client, schema, project, now))
    }

    async fn schedules(&self, now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError> {
        view!(self, |client| ticks::schedules(client, now))
    }

    async fn publish_ticks(&self, schedule: &BreadcrumbId, now: Timestamp) -> Result<Vec<Breadcrumb>, StoreError> {
        let written = self.write_breadcrumbs(Request::PublishTicks { schedule: schedule.clone(), at: now }).await?;
        Ok(written.into_iter().map(|written| written.breadcrumb).collect())
    }

    async fn agents(&self, project: &ProjectId, now: Timestamp) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError> {
        view!(self, |client| triggers::agents(client, project, now))
    }

    async fn next_triggers(&self, project: &ProjectId, limit: usize, now: Timestamp) -> Result<Vec<NextTrigger>, StoreError> {
        view!(self, |client| triggers::next(client, project, limit, now))
    }

    async fn settle(&self, settlement: Settlement) -> Result<Option<Breadcrumb>, StoreError> {
        let written = self.write_breadcrumbs(Request::Settle(settlement)).await?;
        Ok(written.into_iter().next().map(|written| written.breadcrumb))
    }
}
