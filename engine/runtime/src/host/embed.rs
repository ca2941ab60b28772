//! Vectors for a running call. Their requests count towards the limits of the run, as those of other tools to models do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_models::{Embedder, RunKey, Vectors, runs_here};
use baton_types::config::{Embeddings, RUN_SCRIPT};
use baton_types::estimate::text_tokens;
use baton_types::model::Usage;
use baton_types::money::{Money, Price};
use tokio::time::timeout;

use super::Host;
use super::ask::{self, Asked};
use crate::neighbours::{Embeds, NoVectors};

/// The configured model, in the name of a call.
pub(super) struct CallEmbedder<'h> {
    host: &'h Host,
    embedder: Embedder,
    embeddings: &'h Embeddings,
}

/// Returns the model that makes vectors for the run; `Ok(None)` if its configs name none, and the reason if it cannot be asked.
pub(super) fn embedder(host: &Host) -> Result<Option<CallEmbedder<'_>>, String> {
    let Some(embeddings) = &host.configs.job.embeddings else { return Ok(None) };
    if host.models.contains_key(RUN_SCRIPT) {
        return Err("a script answers in place of models, so no provider is asked for vectors".to_owned());
    }
    // The records without a vector differ from run to run, so a recording could not be played again.
    if host.shared.providers.cassettes().is_some() {
        return Err("recordings have no embeddings".to_owned());
    }
    let (model, run) = (&embeddings.model, RunKey::of_tools(&host.caller.run));
    let settings = host.configs.job.providers.get(&model.provider);
    let made = host.shared.providers.embedder(run, model, settings, &*host.shared.variable);
    match made {
        Ok(embedder) => Ok(Some(CallEmbedder { host, embedder, embeddings })),
        Err(error) => Err(without_variable(host, embeddings, &error.to_string())),
    }
}

/// Returns a message for a model, without the variable that a config names for the key.
fn without_variable(host: &Host, embeddings: &Embeddings, message: &str) -> String {
    let settings = host.configs.job.providers.get(&embeddings.model.provider);
    let variable = settings.and_then(|settings| settings.key_variable.as_deref());
    variable.map_or_else(|| message.to_owned(), |variable| ask::without_word(message, variable))
}

impl CallEmbedder<'_> {
    /// Returns the price of the model, if one is known that a job did not set.
    fn price(&self) -> Option<Price> {
        let Self { host, embeddings, .. } = self;
        let job = &host.configs.job;
        let of_model = embeddings.model.price.clone().filter(|price| !price.is_estimate);
        let is_local =
            || runs_here(&embeddings.model.provider, job.providers.get(&embeddings.model.provider), &*host.shared.variable);
        of_model.or_else(|| ask::price(host, &embeddings.name())).or_else(|| is_local().then(Price::local))
    }

    async fn asked(&self, texts: &[&str], limit: Duration) -> Result<Vec<Vec<f32>>, NoVectors> {
        let number = self.host.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let estimate: u64 = texts.iter().map(|text| text_tokens(text.len() as u64)).sum();
        let asked = Asked::admitted(self.host, &self.embeddings.name(), number, (estimate, 0), self.price()).await;
        let asked = asked.map_err(|error| NoVectors { reason: error.message, is_of_texts: false })?;
        match self.embedder.embed(texts, &self.host.caller.task, limit).await {
            Ok(Vectors { vectors, tokens }) => {
                let input_tokens = tokens.unwrap_or(estimate);
                let usage = Usage { input_tokens, estimated: tokens.is_none(), ..Usage::default() };
                let cost = asked.price.as_ref().map(|price| price.cost(&usage));
                asked.used(Some((usage, cost)));
                Ok(vectors)
            }
            Err(error) => {
                asked.used((!error.may_cost()).then_some((Usage::default(), Some(Money::ZERO))));
                let mut failed = NoVectors::from(error);
                failed.reason = without_variable(self.host, self.embeddings, &failed.reason);
                Err(failed)
            }
        }
    }
}

impl Embeds for CallEmbedder<'_> {
    fn identity(&self) -> String {
        self.embedder.identity()
    }

    async fn embed(&self, texts: &[&str], limit: Duration) -> Result<Vec<Vec<f32>>, NoVectors> {
        // The limits of the run may let a request wait, too.
        let no_room = || NoVectors { reason: format!("no vectors came within {} s", limit.as_secs_f64()), is_of_texts: false };
        timeout(limit, self.asked(texts, limit)).await.unwrap_or_else(|_| Err(no_room()))
    }
}
