//! Breadcrumbs in a store: records that outlive runs.
//!
//! Each write is one transaction: the rules of `baton-breadcrumb` judge it against the newest version, and what they make of it
//! is written. So an expected version, an idempotency key and a tag that no agent may set are judged where nothing can come
//! between the judgement and the write.
//!
//! [`rows::Rows`] is what these judgements need of a database. SQLite and PostgreSQL implement it, and both use the functions of this folder.

pub(crate) mod found;
pub(crate) mod nearest;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod row;
pub(crate) mod rows;
mod settle;
pub(crate) mod ticks;
pub(crate) mod triggers;
pub(crate) mod verify;
pub(crate) mod write;

use async_trait::async_trait;
use baton_breadcrumb::{Author, Definition, Trigger};
use baton_types::breadcrumb::{
    Breadcrumb, BreadcrumbChange, BreadcrumbQuery, BreadcrumbVersion, Centre, FoundBreadcrumbs, NewBreadcrumb, RecordVector,
    Unembedded, VectorKind, Viewer,
};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::time::Timestamp;

use crate::StoreError;

/// Keeps breadcrumbs. A record that its reader may not read, or that has ended, is unknown to the reader.
#[async_trait]
pub trait Breadcrumbs: Send + Sync {
    /// Creates a record. With an idempotency key that has been used for the same content, returns the version that was made then.
    ///
    /// Fails with [`StoreError::Breadcrumb`]: the content breaks a rule, or the key belongs to another write.
    async fn create(&self, creation: Creation) -> Result<Written, StoreError>;

    /// Changes a record: exactly one new version. A key counts as in [`Breadcrumbs::create`].
    ///
    /// Fails with [`StoreError::Breadcrumb`]: the record is unknown or has another version than expected, or the change breaks a rule.
    async fn change(&self, update: Update) -> Result<Written, StoreError>;

    /// Creates the record of a file, or changes the record that an earlier import of it made, as [`baton_breadcrumb::import`] describes.
    /// The key of `creation` names the file. [`Written::repeated`] is true if nothing was written, since the file has not changed since its
    /// last import, or its record is as the file describes it.
    ///
    /// Fails with [`StoreError::Breadcrumb`]: the record and the file were both changed, or the content breaks a rule.
    async fn import(&self, creation: Creation, replaces: bool) -> Result<Written, StoreError>;

    /// Returns the newest version of a record.
    async fn find(&self, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError>;

    /// Returns the newest version of a record, as [`Breadcrumbs::find`], and counts the read: a record may end by it.
    async fn read(&self, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError>;

    /// Returns the newest `limit` versions of a record, the newest first. A version is judged like the newest one.
    async fn history(
        &self,
        id: &BreadcrumbId,
        viewer: &Viewer,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<BreadcrumbVersion>, StoreError>;

    /// Returns the records that meet all conditions.
    async fn search(&self, query: &BreadcrumbQuery, viewer: &Viewer, now: Timestamp) -> Result<FoundBreadcrumbs, StoreError>;

    /// Returns the records that [`Breadcrumbs::nearest`] could compare if they had a current vector of this kind: those that meet the
    /// conditions other than words, and that may be sent to a model. At most 256 texts.
    async fn unembedded(
        &self,
        query: &BreadcrumbQuery,
        kind: &VectorKind,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<Unembedded, StoreError>;

    /// Keeps vectors, in place of other ones of their records. A record that is gone, has another version or must not be sent to a model
    /// keeps none.
    ///
    /// Fails with [`StoreError::Breadcrumb`]: a vector has other dimensions or numbers that are not finite. None is kept then.
    async fn keep_vectors(&self, kind: &VectorKind, vectors: Vec<RecordVector>) -> Result<(), StoreError>;

    /// Returns the records whose vectors are nearest to the centre, the nearest first, of those that meet the conditions other than words.
    /// After them come the records without a current vector that have at least one of the words, the best fit first.
    async fn nearest(
        &self,
        query: &BreadcrumbQuery,
        centre: &Centre,
        viewer: &Viewer,
        now: Timestamp,
    ) -> Result<FoundBreadcrumbs, StoreError>;

    /// Returns the ids that begin with `prefix`, at most `limit`.
    async fn ids(&self, prefix: &str, viewer: &Viewer, limit: usize, now: Timestamp) -> Result<Vec<BreadcrumbId>, StoreError>;

    /// Returns the definition of a schema that counts for records of `project`.
    async fn definition(&self, schema: &str, project: &ProjectId, now: Timestamp) -> Result<Option<Definition>, StoreError>;

    /// Returns the schedules of all projects: of each record, the version that counts (a person or a program wrote or approved it).
    async fn schedules(&self, now: Timestamp) -> Result<Vec<ScheduleRecord>, StoreError>;

    /// Publishes the ticks of a schedule that are due at `now`, as [`baton_breadcrumb::Schedule::due`] lists them, and returns their records.
    /// All ticks up to `now` are settled then: a later call publishes none of them, also of another process.
    async fn publish_ticks(&self, schedule: &BreadcrumbId, now: Timestamp) -> Result<Vec<Breadcrumb>, StoreError>;

    /// Returns the agents of a project: of each record that is one, its id and the version that counts.
    async fn agents(&self, project: &ProjectId, now: Timestamp) -> Result<Vec<(BreadcrumbId, Breadcrumb)>, StoreError>;

    /// Returns the triggers of a project that are not settled and wait for no earlier one of their queue, at most `limit`, the earliest
    /// first.
    async fn next_triggers(&self, project: &ProjectId, limit: usize, now: Timestamp) -> Result<Vec<NextTrigger>, StoreError>;

    /// Settles a trigger and writes its answer, in one transaction; returns the answer. A trigger that is settled stays as it is.
    ///
    /// Fails with [`StoreError::Breadcrumb`] if the answer breaks a rule. Then nothing is written.
    async fn settle(&self, settlement: Settlement) -> Result<Option<Breadcrumb>, StoreError>;
}

/// A trigger that can be handled now.
#[derive(Clone, Debug, PartialEq)]
pub struct NextTrigger {
    /// The trigger.
    pub trigger: Trigger,
    /// The version that has to be handled; `None` if its record has ended.
    pub record: Option<Breadcrumb>,
    /// The version of its agent's definition that counts; `None` if none does, and for a request of a tool.
    pub definition: Option<Breadcrumb>,
    /// The run of the trigger before it in its queue.
    pub previous: Option<RunId>,
}

/// The end of a trigger.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The number of the trigger.
    pub trigger: u64,
    /// The record that answers it.
    pub answer: Option<Creation>,
    /// Why there was no run or no answer.
    pub refused: Option<String>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRecord {
    /// The version that counts.
    pub breadcrumb: Breadcrumb,
    /// The moment up to which its ticks are settled: published, or left out.
    pub settled: Timestamp,
}

/// A record to be created.
#[derive(Clone, Debug)]
pub struct Creation {
    /// Its id, if no earlier write had the same key.
    pub id: BreadcrumbId,
    /// Its content.
    pub new: NewBreadcrumb,
    /// Its author.
    pub by: Author,
    /// The idempotency key of the write, unique within the author's project.
    pub key: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A record to be changed.
#[derive(Clone, Debug)]
pub struct Update {
    /// The record.
    pub id: BreadcrumbId,
    /// The change.
    pub change: BreadcrumbChange,
    /// The version that its author knows; without it, the change applies to whichever version is the newest.
    pub expected: Option<u64>,
    /// Its author.
    pub by: Author,
    /// The idempotency key of the write, unique within the author's project.
    pub key: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The version that it made.
    pub breadcrumb: Breadcrumb,
    /// Whether an earlier write with the same key had made it.
    pub repeated: bool,
    /// The number of triggers that it made.
    pub triggers: u32,
}
