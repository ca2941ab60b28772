//! Breadcrumbs of the store in one file: written by its writer thread, which shares commits, and read by its readers.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use baton_breadcrumb::Definition;
use baton_types::breadcrumb::{
    Breadcrumb, BreadcrumbQuery, BreadcrumbVersion, Centre, FoundBreadcrumbs, RecordVector, Unembedded, VectorKind, Viewer,
};
use baton_types::id::{BreadcrumbId, ProjectId};
use baton_types::time::Timestamp;

use super::Request;
use super::columns::ready;
use crate::breadcrumbs::request::known;
use crate::breadcrumbs::{read, ticks, triggers};
use crate::sqlite::SqliteStore;
use crate::sqlite::writer::Write;
use crate::{Breadcrumbs, Creation, NextTrigger, ScheduleRecord, Settlement, StoreError, Update, Written};

impl SqliteStore {
    async fn write_breadcrumb(&self, request: Request) -> Result<Written, StoreError> {
        self.write_breadcrumbs(request).await?.pop().ok_or(StoreError::Closed)
    }

    async fn write_breadcrumbs(&self, request: Request) -> Result<Vec<Written>, StoreError> {
        let done = Arc::new(Mutex::new(None));
        self.writer()?.write(Write::Breadcrumb { request: Box::new(request), done: Arc::clone(&done) }).await?;
        let written = done.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or(StoreError::Closed)?;
        if written.iter().any(|written| written.triggers > 0) {
            self.announce_triggers().await;
        }
        Ok(written)
    }
}

#[async_trait]
impl Breadcrumbs for SqliteStore {
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
        let (id, viewer) = (id.clone(), viewer.clone());
        self.readers.read(move |file| ready(read::find(&**file, &id, &viewer, now))).await
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
        let (id, viewer) = (id.clone(), viewer.clone());
        self.readers.read(move |file| ready(read::history(&**file, &id, &viewer, limit, now))).await
    }

    async fn search(&self, query: &BreadcrumbQuery, viewer: &Viewer, now: Timestamp) -> Result<FoundBreadcrumbs, StoreError> {
        let (query, viewer) = (query.clone(), viewer.clone());
        self.readers.read(move |file| super::search(file, &query, &viewer, now)).await
    }

    async fn unembedded(
        &self,
        query: &BreadcrumbQuery,
        kind: &VectorKind,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<Unembedded, StoreError> {
        let (query, kind, viewer) = (query.clone(), kind.clone(), viewer.clone());
        self.readers.read(move |file| super::vectors::unembedded(file, &query, &kind, &viewer, now)).await
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
        let (query, centre, viewer) = (query.clone(), centre.clone(), viewer.clone());
        self.readers.read(move |file| super::vectors::nearest(file, &query, &centre, &viewer, now)).await
    }

    async fn ids(&self, prefix: &str, viewer: &Viewer, limit: usize, now: Timestamp) -> Result<Vec<BreadcrumbId>, StoreError> {
        let (prefix, viewer) = (prefix.to_owned(), viewer.clone());
        self.readers.read(move |file| super::ids(file, &prefix, &viewer, limit, now)).await
    }

    async fn definition(&self, schema: &str, project: &ProjectId, now: Timestamp) -> Result<Option<Definition>, StoreError> {
        let (schema, project) = (schema.to_owned(), project.clone());
        self.readers.read(move |file| ready(read::definition(&**file, &schema, &project, now))).await
    }

    async fn schedules(&self, now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.readers.read(move |file| ready(ticks::schedules(&**file, now))).await
    }

    async fn publish_ticks(&self, schedule: &BreadcrumbId, now: Timestamp) -> Result<Vec<Breadcrumb>, StoreError> {
        let written = self.write_breadcrumbs(Request::PublishTicks { schedule: schedule.clone(), at: now }).await?;
        Ok(written.into_iter().map(|written| written.breadcrumb).collect())
    }

    async fn agents(&self, project: &ProjectId, now: Timestamp) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError> {
        let project = project.clone();
        self.readers.read(move |file| ready(triggers::agents(&**file, &project, now))).await
    }

    async fn next_triggers(&self, project: &ProjectId, limit: usize, now: Timestamp) -> Result<Vec<NextTrigger>, StoreError> {
        let project = project.clone();
        self.readers.read(move |file| ready(triggers::next(&**file, &project, limit, now))).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Option<Breadcrumb>, StoreError> {
        let written = self.write_breadcrumbs(Request::Settle(settlement)).await?;
        Ok(written.into_iter().next().map(|written| written.breadcrumb))
    }
}
