//! The bus: distributes the runs that need an owner among the workers of a store.
//!
//! The store is the truth. An announcement that is lost only delays: workers also look at the store from time to time.

use std::sync::Arc;

use baton_types::id::RunId;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

/// Distributes announcements among workers: each goes to one of them.
pub trait Bus: Send + Sync + 'static {
    /// Announces that a run needs an owner; returns when the announcement is stored, or was given up. `wake` distinguishes announcements of one run: a second one with the same
    /// text may be dropped.
    fn announce(self: Arc<Self>, run: RunId, wake: String) -> BoxFuture<'static, ()>;

    /// Returns the next announcement. A worker asks for one when it can execute a run.
    fn next(self: Arc<Self>) -> BoxFuture<'static, Announced>;
}

/// An announced run.
#[derive(Debug)]
pub struct Announced {
    /// The run.
    pub run: RunId,
    /// Acknowledges the announcement. If this is dropped instead, the announcement comes again, to any worker.
    pub acknowledge: oneshot::Sender<()>,
}
