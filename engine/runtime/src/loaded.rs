//! Configs that stay loaded after a run was read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use baton_config::Sources;
use baton_types::config::Configs;

/// The most configs that stay loaded without a run.
const MAX_LOADED: usize = 8;

/// The most bytes of the files of configs that stay loaded.
const MAX_LOADED_BYTES: usize = 1 << 20;

/// Cache of loaded configs, the latest first: a store often has many runs of one job, and loading takes longer than reading a short run.
/// Sources are equal only if they have the same texts from the same origins, as far as they are trusted now.
#[derive(Default)]
pub(crate) struct Loaded(Mutex<VecDeque<(Sources, Arc<Configs>)>>);

impl Loaded {
    /// Returns the loaded configs of these files, if they are kept.
    pub(crate) fn find(&self, sources: &Sources) -> Option<Arc<Configs>> {
        let loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.iter().find(|(of, _)| of == sources).map(|(_, configs)| Arc::clone(configs))
    }

    /// Keeps `configs`, unless their files are large.
    pub(crate) fn keep(&self, sources: Sources, configs: Configs) -> Arc<Configs> {
        let configs = Arc::new(configs);
        if sources.files().map(|file| file.text.len()).sum::<usize>() > MAX_LOADED_BYTES {
            return configs;
        }
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.truncate(MAX_LOADED - 1);
        loaded.push_front((sources, Arc::clone(&configs)));
        configs
    }
}
