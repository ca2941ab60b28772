//! A run adopts other configs before its actor starts.

use std::sync::Arc;

use baton_types::config::Configs;
use baton_types::document::Content;
use baton_types::entry::Adoption;
use baton_types::event::Event;
use baton_types::id::ContentHash;
use baton_types::principal::Principal;

use crate::actor::Iteration;
use crate::error::RunError;
use crate::reading::Reading;
use crate::services::{Services, template};
use crate::transcripts::Transcripts;

/// Configs that a run is about to adopt.
pub(crate) struct Adopting {
    pub(crate) configs: Arc<Configs>,
    pub(crate) pinned: (ContentHash, Content),
    pub(crate) changes: Vec<String>,
    pub(crate) by: Principal,
}

impl Services {
    /// Adopts configs for a run that this process has just taken over; durable when this returns.
    pub(crate) async fn adopt(
        &self,
        reading: &mut Reading,
        transcripts: &mut Transcripts,
        epoch: u64,
        adopting: Adopting,
    ) -> Result<Iteration, RunError> {
        let Adopting { configs, pinned: (hash, text), changes, by } = adopting;
        let run = &mut reading.run;
        let model = run.started().and_then(|started| started.model.clone());
        let before = run.last_seq();
        let prices = self.prices(&configs, model.as_deref())?;
        transcripts.prompts.adopt(before + 1, &configs).map_err(|error| template(&error))?;
        run.know_configs(hash, configs);
        reading.last = self.clock.now().max(reading.last);
        let adoption = Adoption { configs: hash, model, prices, changes, fork: None, follow_up: None };
        let decision = run.handle(reading.last, Event::Adopted { adoption, documents: Vec::new(), by })?;
        let iteration = Iteration::of(decision);
        let mut batch = iteration.first_batch(&reading.id, epoch, before, run, reading.last);
        batch.contents.push((hash, text));
        self.store.append(batch).await?;
        Ok(iteration)
    }
}
