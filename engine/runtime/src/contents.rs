//! Contents close at hand: what was just written is usually read next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use baton_models::{ContentSource, ModelError};
use baton_store::{Store, StoreError};
use baton_tool::{BoxFuture, ToolError};
use baton_types::document::Content;
use baton_types::id::ContentHash;

/// Reads contents from the store, through a cache of bounded size. Contents never change, so nothing is ever stale.
pub(crate) struct Contents {
    store: Arc<dyn Store>,
    cache: Mutex<Cache>,
}

/// The newest contents, first in first out.
struct Cache {
    by_hash: HashMap<ContentHash, Content>,
    order: VecDeque<ContentHash>,
    bytes: usize,
    bound: usize,
}

impl Contents {
    pub(crate) fn new(store: Arc<dyn Store>, bound: usize) -> Self {
        let cache = Cache { by_hash: HashMap::new(), order: VecDeque::new(), bytes: 0, bound };
        Self { store, cache: Mutex::new(cache) }
    }

    /// Remembers contents that were just measured.
    pub(crate) fn remember(&self, contents: &[(ContentHash, Content)]) {
        if contents.is_empty() {
            return;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        for (hash, content) in contents {
            cache.insert(*hash, Arc::clone(content));
        }
    }

    /// Returns the content under `hash`, if it is in memory.
    pub(crate) fn cached(&self, hash: ContentHash) -> Option<Content> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).by_hash.get(&hash).cloned()
    }

    /// Returns the content stored under `hash`, if there is one.
    pub(crate) async fn find(&self, hash: ContentHash) -> Result<Option<Content>, StoreError> {
        let cached = self.cached(hash);
        if cached.is_some() {
            return Ok(cached);
        }
        let found = self.store.content(hash).await?;
        if let Some(content) = &found {
            self.remember(&[(hash, Arc::clone(content))]);
        }
        Ok(found)
    }

    /// Returns the content stored under `hash`, for a tool.
    pub(crate) async fn for_tool(&self, hash: ContentHash) -> Result<Content, ToolError> {
        match self.find(hash).await {
            Ok(Some(content)) => Ok(content),
            Ok(None) => Err(ToolError::new(format!("the store has no content {hash}"))),
            Err(error) => Err(ToolError::new(format!("the content cannot be read: {error}"))),
        }
    }
}

impl ContentSource for Contents {
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ModelError>> {
        Box::pin(async move {
            match self.find(hash).await {
                Ok(Some(content)) => Ok(content),
                Ok(None) => Err(ModelError::Content { hash, reason: "the store does not have it".to_owned() }),
                Err(error) => Err(ModelError::Content { hash, reason: error.to_string() }),
            }
        })
    }
}

impl Cache {
    fn insert(&mut self, hash: ContentHash, content: Content) {
        // One large content must not push out everything else.
        if content.len() > self.bound / 4 || self.by_hash.contains_key(&hash) {
            return;
        }
        self.bytes += content.len();
        self.order.push_back(hash);
        self.by_hash.insert(hash, content);
        while self.bytes > self.bound {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.by_hash.remove(&oldest).map_or(0, |content| content.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_store::MemoryStore;

    #[tokio::test]
    async fn the_cache_stays_within_its_bound() {
        let contents = Contents::new(Arc::new(MemoryStore::default()), 1_000);
        for number in 0_u8..100 {
            let content: Content = vec![number; 100].into();
            contents.remember(&[(ContentHash::of(&content), content)]);
        }
        let cache = contents.cache.lock().unwrap();
        assert_eq!((cache.bytes, cache.by_hash.len(), cache.order.len()), (1_000, 10, 10));
        assert!(cache.by_hash.contains_key(&ContentHash::of(&[99; 100])));
    }
}
