//! A cache of encoded conversations, so that the next request of a task only appends to its last one.
//!
//! All runs of a process share one limit in bytes. An evicted conversation is encoded again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use baton_types::id::TaskId;

use crate::governor::RunKey;
use crate::wire::Grown;

/// A task of a run.
pub(super) type ConversationKey = (RunKey, TaskId);

/// Largest size of the cache, in bytes.
const MOST: usize = 64 << 20;

/// The most recently used conversations, by task.
#[derive(Debug, Default)]
pub(super) struct Conversations(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_task: HashMap<ConversationKey, (u64, Grown)>,
    /// Tasks in order of use: the smallest number is the least recent.
    by_use: BTreeMap<u64, ConversationKey>,
    uses: u64,
    bytes: usize,
}

impl Conversations {
    /// Takes out the conversation of `task`, if it is kept.
    pub(super) fn take(&self, task: &ConversationKey) -> Option<Grown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(task)
    }

    /// Keeps the conversation of `task`; the least recently used ones are evicted.
    pub(super) fn keep(&self, task: &ConversationKey, conversation: Grown) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take(task);
        kept.uses += 1;
        kept.bytes += conversation.bytes().len();
        let use_of = kept.uses;
        kept.by_use.insert(use_of, task.clone());
        kept.by_task.insert(task.clone(), (use_of, conversation));
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
    fn take(&mut self, task: &ConversationKey) -> Option<Grown> {
        let (use_of, conversation) = self.by_task.remove(task)?;
        self.by_use.remove(&use_of);
        self.bytes -= conversation.bytes().len();
        Some(conversation)
    }
}
