//! A run as it is read from its store: the fold of its entries, under the configs that they name.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_config::{Sources, Unconfigured};
use baton_machine::Run;
use baton_store::StoreError;
use baton_types::config::Configs;
use baton_types::entry::{Entry, Fork, Recorded, RunStarted};
use baton_types::id::{ContentHash, RunId};
use baton_types::time::Timestamp;

use crate::error::{RunError, panic_message};
use crate::job::load_configs;
use crate::services::{Services, template};
use crate::transcripts::Prompts;
use crate::trust::recognize;

/// Number of entries read from the store at once.
pub(crate) const PAGE: usize = 4_096;

/// A run, as far as it was read.
pub(crate) struct Reading {
    pub(crate) id: RunId,
    /// The state.
    pub(crate) run: Run,
    /// Reason why this program cannot resume the run: requirements of its present configs that the program lacks.
    pub(crate) lacking: Option<RunError>,
    /// The run's past, if it is a fork.
    pub(crate) fork: Option<Fork>,
    /// The moment of the last entry.
    pub(crate) last: Timestamp,
    /// The last entry that is to be read.
    pub(crate) through: u64,
}

impl Reading {
    /// Takes in an entry of the page that was read last.
    pub(crate) fn apply(&mut self, recorded: &Recorded) -> Result<(), RunError> {
        apply(&mut self.run, recorded)?;
        self.last = recorded.at;
        Ok(())
    }
}

/// Applies the next entry to `run`. An entry that this engine would not have written is an error, and the run must then be dropped: a
/// store may hold anything.
pub(crate) fn apply(run: &mut Run, recorded: &Recorded) -> Result<(), RunError> {
    let applied = catch_unwind(AssertUnwindSafe(|| run.apply(recorded)));
    applied.map_err(|panic| RunError::BadEntry { seq: recorded.seq, kind: recorded.entry.name(), reason: panic_message(&*panic) })
}

impl Services {
    /// Begins to read a run: before its first entry.
    pub(crate) async fn read(&self, id: &RunId) -> Result<(Reading, Prompts), RunError> {
        let started = self.first_entry(id).await?;
        let (configs, lacking) = self.pinned(id, started.configs).await?;
        let prompts = Prompts::render(&configs, &started.inputs).map_err(|error| template(&error))?;
        let reading = Reading {
            id: id.clone(),
            run: Run::new(configs),
            lacking,
            fork: None,
            last: Timestamp::default(),
            through: u64::MAX,
        };
        Ok((reading, prompts))
    }

    /// Returns the next entries, some at a time; none at the end. The run and `prompts` then know the configs that
    /// these entries adopt.
    pub(crate) async fn page(&self, reading: &mut Reading, prompts: &mut Prompts) -> Result<Vec<Arc<Recorded>>, RunError> {
        let mut page = self.store.entries(&reading.id, reading.run.last_seq(), PAGE).await?;
        page.retain(|recorded| recorded.seq <= reading.through);
        for recorded in &page {
            let Some(adoption) = recorded.entry.adopts() else { continue };
            let (configs, lacking) = self.pinned(&reading.id, adoption.configs).await?;
            prompts.adopt(recorded.seq, &configs).map_err(|error| template(&error))?;
            reading.run.know_configs(adoption.configs, configs);
            reading.lacking = lacking;
            if adoption.fork.is_some() {
                reading.fork.clone_from(&adoption.fork);
            }
        }
        Ok(page)
    }

    /// Returns the state of a run and the moment of its last entry.
    pub(crate) async fn state(&self, id: &RunId) -> Result<(Run, Timestamp), RunError> {
        let (mut reading, mut prompts) = self.read(id).await?;
        loop {
            let page = self.page(&mut reading, &mut prompts).await?;
            if page.is_empty() {
                return Ok((reading.run, reading.last));
            }
            for recorded in &page {
                reading.apply(recorded)?;
            }
        }
    }

    /// Returns the first entry of a run; that of a fork is its original's.
    pub(crate) async fn first_entry(&self, id: &RunId) -> Result<RunStarted, RunError> {
        let first = self.store.entries(id, 0, 1).await?;
        match first.first().map(|recorded| &recorded.entry) {
            Some(Entry::RunStarted(started)) => Ok((**started).clone()),
            _ => Err(RunError::NeverStarted(id.clone())),
        }
    }

    /// Returns the files of pinned configs.
    pub(crate) async fn sources(&self, run: &RunId, configs: ContentHash) -> Result<Sources, RunError> {
        let missing = || RunError::MissingContent { hash: configs, what: "the configs of the run" };
        let content = self.contents.find(configs).await?.ok_or_else(missing)?;
        let mut sources: Sources = serde_json::from_slice(&content)
            .map_err(|error| StoreError::Corrupt { what: format!("the configs of run {run}: {error}") })?;
        recognize(&mut sources, &*self.trust);
        Ok(sources)
    }

    /// Returns pinned configs, loaded again by the same loader, and the reason if they are good only for reading.
    pub(crate) async fn pinned(&self, run: &RunId, hash: ContentHash) -> Result<(Arc<Configs>, Option<RunError>), RunError> {
        let sources = self.sources(run, hash).await?;
        if let Some(configs) = self.loaded.find(&sources) {
            return Ok((configs, None));
        }
        let refused = match load_configs(&sources, &self.functions, Unconfigured::Allowed) {
            Ok(configs) => return Ok((self.loaded.keep(sources, configs), None)),
            Err(faults) => RunError::PinnedConfigs { run: run.clone(), faults: Arc::new(faults) },
        };
        match load_configs(&sources, &[], Unconfigured::Reading) {
            Ok(configs) => Ok((Arc::new(configs), Some(refused))),
            Err(_) => Err(refused),
        }
    }
}
