//! The requests that write breadcrumbs.

use baton_breadcrumb::BreadcrumbError;
use baton_types::breadcrumb::{Breadcrumb, RecordVector, VectorKind, Viewer};
use baton_types::id::BreadcrumbId;
use baton_types::time::Timestamp;

use super::rows::Rows;
use super::{nearest, settle, ticks, write};
use crate::{Creation, Settlement, StoreError, Update, Written};

/// A write.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// See [`crate::Breadcrumbs::create`].
    Create(Creation),
    /// See [`crate::Breadcrumbs::change`].
    Change(Update),
    /// See [`crate::Breadcrumbs::import`].
    Import(Creation, bool),
    /// See [`crate::Breadcrumbs::read`].
    Read { id: BreadcrumbId, viewer: Viewer, at: Timestamp },
    /// See [`crate::Breadcrumbs::publish_ticks`].
    PublishTicks { schedule: BreadcrumbId, at: Timestamp },
    /// See [`crate::Breadcrumbs::settle`].
    Settle(Settlement),
    /// See [`crate::Breadcrumbs::keep_vectors`].
    KeepVectors { kind: VectorKind, vectors: Vec<RecordVector> },
}

impl Request {
    /// Returns about the number of bytes that it writes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Create(creation) | Self::Import(creation, _) => creation.new.context.text().len(),
            Self::Change(update) => {
                let of = |json: &Option<baton_types::json::Json>| json.as_ref().map_or(0, |json| json.text().len());
                of(&update.change.context) + of(&update.change.merge)
            }
            Self::Settle(settlement) => settlement.answer.as_ref().map_or(0, |answer| answer.new.context.text().len()),
            Self::KeepVectors { kind, vectors } => 4 * kind.dimensions * vectors.len(),
            Self::Read { .. } | Self::PublishTicks { .. } => 0,
        }
    }
}

/// Performs a write: one version, except for ticks and vectors. `Ok(Err(_))` is a refusal: nothing was written. After `Err(_)` the transaction must be
/// rolled back.
pub(crate) async fn perform(rows: &impl Rows, request: &Request) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    let written = match request {
        Request::Create(creation) => write::create_new(rows, creation).await,
        Request::Import(creation, replaces) => write::import(rows, creation, *replaces).await,
        Request::Change(update) => write::change(rows, update).await,
        Request::Read { id, viewer, at } => write::read(rows, id, viewer, *at).await,
        Request::KeepVectors { kind, vectors } => return nearest::keep(rows, kind, vectors).await,
        Request::PublishTicks { schedule, at } => return ticks::publish(rows, schedule, *at).await,
        Request::Settle(settlement) => return settle::settle(rows, settlement).await,
    };
    written.map(|written| written.map(|written| vec![written]))
}

/// Returns the record that a read gave, or `None` if its reader knows of none.
pub(crate) fn known(read: Result<Written, StoreError>) -> Result<Option<Breadcrumb>, StoreError> {
    match read {
        Ok(written) => Ok(Some(written.breadcrumb)),
        Err(StoreError::Breadcrumb(BreadcrumbError::Unknown(_))) => Ok(None),
        Err(error) => Err(error),
    }
}
