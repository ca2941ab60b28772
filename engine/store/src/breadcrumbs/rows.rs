//! The rows of breadcrumbs in a database, as the code that judges writes sees them.
//!
//! A store implements [`Rows`] for its transactions. Everything that a write checks and yields is decided by the functions of this folder,
//! which know no SQL, so all databases decide alike.

use baton_breadcrumb::Trigger;
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbVersion, VectorKind};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::time::Timestamp;

use super::row::{BreadcrumbRow, KeyRow};
use crate::StoreError;

/// The most ended records that one creation removes.
pub(crate) const SWEPT: i64 = 8;

/// A version to be written, with everything by which its record is found.
#[derive(Debug)]
pub(crate) struct NewVersion<'a> {
    /// The row of the record. Its number is 0 if the record is new.
    pub(crate) row: BreadcrumbRow,
    /// The version.
    pub(crate) made: &'a BreadcrumbVersion,
    /// The version before it.
    pub(crate) before: Option<&'a Breadcrumb>,
    /// The texts of its context that a search looks through.
    pub(crate) searched: String,
}

/// The rows of breadcrumbs within one transaction.
///
/// Methods whose names end in `to_change` keep other transactions from changing what they return, also if they return nothing, until
/// this transaction ends.
pub(crate) trait Rows {
    /// Returns the row of a record.
    async fn find(&self, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError>;

    /// Returns the row of a record that will be changed.
    async fn find_to_change(&self, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError>;

    /// Returns the row with this number, which must exist.
    async fn load_to_change(&self, number: i64) -> Result<BreadcrumbRow, StoreError>;

    /// Returns the rows of a schema, of one project or of all, the earliest number first.
    async fn of_schema(&self, schema: &str, project: Option<&ProjectId>) -> Result<Vec<BreadcrumbRow>, StoreError>;

    /// Returns the rows of the records that define `schema`.
    async fn defining(&self, schema: &str) -> Result<Vec<BreadcrumbRow>, StoreError>;

    /// Returns versions of records, in the order of `wanted`. Each must exist.
    async fn versions(&self, wanted: &[(&BreadcrumbRow, u64)]) -> Result<Vec<BreadcrumbVersion>, StoreError>;

    /// Writes a version, and returns the number of its record. Removes the vector of the version before.
    async fn write_version(&self, version: NewVersion<'_>) -> Result<i64, StoreError>;

    /// Files the tags and words of the newest version of a record, which a copy has written without them.
    async fn file_copied(&self, version: NewVersion<'_>) -> Result<(), StoreError>;

    /// Writes the row of a record that exists.
    async fn save(&self, row: &BreadcrumbRow) -> Result<(), StoreError>;

    /// Removes a record with all its versions.
    async fn remove(&self, row: &BreadcrumbRow) -> Result<(), StoreError>;

    /// Removes up to [`SWEPT`] records that have ended at `now`, those that ended first.
    async fn sweep(&self, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the row of an idempotency key.
    async fn key_to_change(&self, key: &str) -> Result<Option<KeyRow>, StoreError>;

    /// Writes the row of an idempotency key. `is_new` is false if it replaces another one.
    async fn save_key(&self, key: &str, row: KeyRow, is_new: bool) -> Result<(), StoreError>;

    /// Returns the moment up to which the ticks of a schedule are settled, if a pass has looked at it.
    async fn settled(&self, number: i64) -> Result<Option<Timestamp>, StoreError>;

    /// Writes the moment up to which the ticks of a schedule are settled.
    async fn settle_ticks(&self, number: i64, at: Timestamp) -> Result<(), StoreError>;

    /// Writes the vector of the newest version of a record, in place of another one.
    async fn save_vector(&self, row: &BreadcrumbRow, kind: &VectorKind, bytes: &[u8]) -> Result<(), StoreError>;

    /// Writes a trigger and gives it its number: greater than the numbers of all triggers in its queue.
    async fn add_trigger(&self, trigger: Trigger) -> Result<(), StoreError>;

    /// Returns a trigger, which must exist.
    async fn trigger_to_change(&self, number: u64) -> Result<Trigger, StoreError>;

    /// Writes a trigger that exists.
    async fn save_trigger(&self, trigger: &Trigger) -> Result<(), StoreError>;

    /// Returns the trigger that a run handles or handled.
    async fn trigger_of(&self, run: &RunId) -> Result<Option<Trigger>, StoreError>;

    /// Returns the triggers of a project that are not settled and wait for no earlier one of their queue, the earliest first.
    async fn next_triggers(&self, project: &ProjectId, limit: usize) -> Result<Vec<Trigger>, StoreError>;

    /// Returns the run of the last trigger in a queue before `number` that had one.
    async fn run_before(&self, queue: &str, number: u64) -> Result<Option<RunId>, StoreError>;

    /// Returns one version of a record.
    async fn version(&self, row: &BreadcrumbRow, version: u64) -> Result<BreadcrumbVersion, StoreError> {
        self.versions(&[(row, version)]).await?.pop().ok_or_else(|| row.lacks(version))
    }

    /// Returns the newest version of a record.
    async fn newest(&self, row: &BreadcrumbRow) -> Result<BreadcrumbVersion, StoreError> {
        self.version(row, row.version).await
    }
}
