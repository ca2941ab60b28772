//! Breadcrumbs of a store in memory: the same rows, over a connection in memory that is opened with the first of them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use baton_breadcrumb::Definition;
use baton_types::breadcrumb::{
    Breadcrumb, BreadcrumbQuery, BreadcrumbVersion, Centre, FoundBreadcrumbs, RecordVector, Unembedded, VectorKind, Viewer,
};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::time::Timestamp;
use rusqlite::{Connection, Transaction};

use super::columns::ready;
use super::{Request, perform};
use crate::breadcrumbs::request::known;
use crate::breadcrumbs::{read, ticks, triggers};
use crate::inbox::Subscribers;
use crate::sqlite::schema::BREADCRUMB_TABLES;
use crate::{Breadcrumbs, Creation, NextTrigger, ScheduleRecord, Settlement, StoreError, Update, Verification, Written};

/// The records, none at first.
#[derive(Debug)]
pub(crate) struct InMemory {
    file: Mutex<Option<Connection>>,
    subscribers: Arc<Subscribers>,
}

impl InMemory {
    /// Returns a store of breadcrumbs that wakes `subscribers` at each trigger.
    pub(crate) fn new(subscribers: Arc<Subscribers>) -> Self {
        Self { file: Mutex::default(), subscribers }
    }

    fn within<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            let opened = Connection::open_in_memory()?;
            opened.execute_batch(BREADCRUMB_TABLES)?;
            *file = Some(opened);
        }
        let opened = file.as_mut().ok_or(StoreError::Closed)?;
        let transaction = opened.transaction()?;
        let answer = work(&transaction)?;
        transaction.commit()?;
        Ok(answer)
    }

    /// Lets `run`, which is about to begin, handle a trigger.
    pub(crate) fn start(&self, trigger: u64, run: &RunId) -> Result<(), StoreError> {
        self.within(|file| super::triggers::start(file, trigger, run))
    }

    /// Returns the runs whose triggers are not settled.
    pub(crate) fn unanswered_runs(&self) -> Result<HashSet<RunId>, StoreError> {
        self.within(|file| super::triggers::unanswered_runs(file))
    }

    /// Removes the settled triggers of runs that were removed.
    pub(crate) fn forget_triggers(&self, runs: &[RunId]) -> Result<(), StoreError> {
        self.within(|file| {
            let mut delete = file.prepare_cached("DELETE FROM breadcrumb_triggers WHERE waits = 0 AND run = ?1")?;
            runs.iter().try_for_each(|run| delete.execute([run.as_str()]).map(drop)).map_err(StoreError::from)
        })
    }

    /// Counts the records, and adds what is wrong with them to the findings.
    pub(crate) fn verify(&self, found: &mut Verification) -> Result<(), StoreError> {
        self.within(|file| super::verify(file, found))
    }

    fn write(&self, request: &Request) -> Result<Written, StoreError> {
        self.write_all(request)?.pop().ok_or(StoreError::Closed)
    }

    fn write_all(&self, request: &Request) -> Result<Vec<Written>, StoreError> {
        let written = self.within(|file| perform(file, request))??;
        if written.iter().any(|written| written.triggers > 0) {
            self.subscribers.wake_all();
        }
        Ok(written)
    }
}

#[async_trait]
impl Breadcrumbs for InMemory {
    async fn create(&self, creation: Creation) -> Result<Written, StoreError> {
        self.write(&Request::Create(creation))
    }

    async fn change(&self, update: Update) -> Result<Written, StoreError> {
        self.write(&Request::Change(update))
    }

    async fn import(&self, creation: Creation, replaces: bool) -> Result<Written, StoreError> {
        self.write(&Request::Import(creation, replaces))
    }

    async fn find(&self, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
        self.within(|file| ready(read::find(&**file, id, viewer, now)))
    }

    async fn read(&self, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
        known(self.write(&Request::Read { id: id.clone(), viewer: viewer.clone(), at: now }))
    }

    async fn history(
        &self,
        id: &BreadcrumbId,
        viewer: &Viewer,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<BreadcrumbVersion>, StoreError> {
        self.within(|file| ready(read::history(&**file, id, viewer, limit, now)))
    }

    async fn search(&self, query: &BreadcrumbQuery, viewer: &Viewer, now: Timestamp) -> Result<FoundBreadcrumbs, StoreError> {
        self.within(|file| super::search(file, query, viewer, now))
    }

    async fn unembedded(
        &self,
        query: &BreadcrumbQuery,
        kind: &VectorKind,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<Unembedded, StoreError> {
        self.within(|file| super::vectors::unembedded(file, query, kind, viewer, now))
    }

    async fn keep_vectors(&self, kind: &VectorKind, vectors: Vec<RecordVector>) -> Result<(), StoreError> {
        self.write_all(&Request::KeepVectors { kind: kind.clone(), vectors }).map(drop)
    }

    async fn nearest(
        &self,
        query: &BreadcrumbQuery,
        centre: &Centre,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<FoundBreadcrumbs, StoreError> {
        self.within(|file| super::vectors::nearest(file, query, centre, viewer, now))
    }

    async fn ids(&self, prefix: &str, viewer: &Viewer, limit: usize, now: Timestamp) -> Result<Vec<BreadcrumbId>, StoreError> {
        self.within(|file| super::ids(file, prefix, viewer, limit, now))
    }

    async fn definition(&self, schema: &str, project: &ProjectId, now: Timestamp) -> Result<Option<Definition>, StoreError> {
        self.within(|file| ready(read::definition(&**file, schema, project, now)))
    }

    async fn schedules(&self, now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.within(|file| ready(ticks::schedules(&**file, now)))
    }

    async fn publish_ticks(&self, schedule: &BreadcrumbId, now: Timestamp) -> Result<Vec<Breadcrumb>, StoreError> {
        let written = self.write_all(&Request::PublishTicks { schedule: schedule.clone(), at: now })?;
        Ok(written.into_iter().map(|written| written.breadcrumb).collect())
    }

    async fn agents(&self, project: &ProjectId, now: Timestamp) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError> {
        self.within(|file| ready(triggers::agents(&**file, project, now)))
    }

    async fn next_triggers(&self, project: &ProjectId, limit: usize, now: Timestamp) -> Result<Vec<NextTrigger>, StoreError> {
        self.within(|file| ready(triggers::next(&**file, project, limit, now)))
    }

    async fn settle(&self, settlement: Settlement) -> Result<Option<Breadcrumb>, StoreError> {
        let written = self.write_all(&Request::Settle(settlement))?;
        Ok(written.into_iter().next().map(|written| written.breadcrumb))
    }
}
