//! The conversations that providers were sent last, as bytes, so that the next request of a task only adds to them.
//!
//! All runs of a process share one bound: a task that waits holds nothing that cannot be made again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use baton_types::id::TaskId;

use crate::governor::RunKey;
use crate::wire::Grown;

/// A task of a run.
pub(super) type Talker = (RunKey, TaskId);

/// The most bytes that are kept.
const MOST: usize = 64 << 20;

/// Conversations by task, the ones that were used last, within a bound of bytes.
#[derive(Debug, Default)]
pub(super) struct Talks(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_task: HashMap<Talker, (u64, Grown)>,
    /// The tasks by when they were used: the smallest number is the longest ago.
    by_use: BTreeMap<u64, Talker>,
    uses: u64,
    bytes: usize,
}

impl Talks {
    /// Takes out the conversation of `task`, if it is kept.
    pub(super) fn take(&self, task: &Talker) -> Option<Grown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(task)
    }

    /// Keeps the conversation of `task`; those that were not used for longest make room.
    pub(super) fn keep(&self, task: &Talker, talk: Grown) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take(task);
        kept.uses += 1;
        kept.bytes += talk.bytes().len();
        let use_of = kept.uses;
        kept.by_use.insert(use_of, task.clone());
        kept.by_task.insert(task.clone(), (use_of, talk));
        while kept.bytes > MOST
            && let Some((_, oldest)) = kept.by_use.pop_first()
        {
            if let Some((_, gone)) = kept.by_task.remove(&oldest) {
                kept.bytes -= gone.bytes().len();
            }
        }
    }
}

impl Kept {
    fn take(&mut self, task: &Talker) -> Option<Grown> {
        let (use_of, talk) = self.by_task.remove(task)?;
        self.by_use.remove(&use_of);
        self.bytes -= talk.bytes().len();
        Some(talk)
    }
}
