//! The rows of records and of idempotency keys, apart from the database that keeps them.

use baton_breadcrumb::{Access, may_read};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbVersion, Sensitivity, Viewer, Visibility};
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

/// The row of a record: the fields that its newest version has in common with searches, and its number in other rows.
#[derive(Clone, Debug)]
pub(crate) struct BreadcrumbRow {
    /// 0 before the row is written.
    pub(crate) number: i64,
    pub(crate) id: BreadcrumbId,
    pub(crate) owner: Principal,
    pub(crate) project: ProjectId,
    pub(crate) visibility: Visibility,
    pub(crate) sensitivity: Sensitivity,
    pub(crate) schema_name: Option<String>,
    pub(crate) defines: Option<String>,
    pub(crate) version: u64,
    pub(crate) read_count: u64,
    pub(crate) ends: Option<i64>,
    pub(crate) updated: i64,
}

/// Returns the error for a row that is not what was written.
pub(crate) fn damaged(what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: what.to_string() }
}

/// Returns a value as a column has it: its JSON.
pub(crate) fn encoded(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and numbers serialise")
}

/// Returns the value of a column that has it as JSON.
pub(crate) fn decoded<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| damaged(format!("a breadcrumb's row: {error}")))
}

impl BreadcrumbRow {
    /// Returns the row of `record`, whose number is `number`. `defines` is the schema that it defines.
    pub(crate) fn of(number: i64, record: &Breadcrumb, defines: Option<String>) -> Self {
        Self {
            number,
            id: record.id.clone(),
            owner: record.owner.clone(),
            project: record.project.clone(),
            visibility: record.visibility,
            sensitivity: record.sensitivity,
            schema_name: record.schema_name.clone(),
            defines,
            version: record.version,
            read_count: record.read_count,
            ends: record.ttl.map(Timestamp::as_micros),
            updated: record.updated_at.as_micros(),
        }
    }

    /// Whether the record has ended at the moment `now`.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|ends| ends <= now.as_micros())
    }

    /// Whether the record exists for `viewer` at the moment `now`.
    pub(crate) fn is_for(&self, viewer: &Viewer, now: Timestamp) -> bool {
        let Self { owner, project, visibility, sensitivity, .. } = self;
        let access = Access { owner, project, visibility: *visibility, sensitivity: *sensitivity };
        !self.is_over(now) && may_read(viewer, access)
    }

    /// Returns the version that a stored text has.
    pub(crate) fn read_version(&self, version: u64, text: &str) -> Result<BreadcrumbVersion, StoreError> {
        let mut read: BreadcrumbVersion =
            serde_json::from_str(text).map_err(|error| damaged(format!("breadcrumb {}: {error}", self.id)))?;
        if read.breadcrumb.version != version || read.breadcrumb.id != self.id {
            return Err(damaged(format!("version {version} of breadcrumb {} is another", self.id)));
        }
        read.breadcrumb.read_count = self.read_count;
        Ok(read)
    }

    /// Returns the error for a version whose text is not the one that was written.
    pub(crate) fn differs(&self, version: u64) -> StoreError {
        damaged(format!("version {version} of breadcrumb {} does not match its checksum", self.id))
    }

    /// Returns the error for a version that is not stored.
    pub(crate) fn lacks(&self, version: u64) -> StoreError {
        damaged(format!("breadcrumb {} lacks version {version}", self.id))
    }

    /// Returns the version whose definition counts. The first records lack it: their newest version counts, if one does.
    pub(crate) fn defines_by(&self, newest: &BreadcrumbVersion) -> Option<u64> {
        newest.defines_by.or_else(|| self.defines.as_ref().map(|_| self.version))
    }
}

/// The row of an idempotency key: the record and the version that the write made, and a hash of that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow {
    pub(crate) number: i64,
    pub(crate) version: u64,
    pub(crate) request: ContentHash,
}
