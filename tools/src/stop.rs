//! Stops work on another thread when its call is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals work on another thread to stop when the call's future is dropped, which is how a call is cancelled.
#[derive(Default)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    /// Returns the flag that the work checks: `true` once it must stop.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
