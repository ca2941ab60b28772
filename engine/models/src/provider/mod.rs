//! The models of providers: how each is reached, asked and listened to.
//!
//! The codecs in [`crate::wire`] say what the bytes mean; here they are sent and waited for. A key is looked up in the
//! environment when a run's models are made, kept as a secret, and put into one header: it is in no error, log or timeline.

mod client;
mod endpoint;
mod health;
mod offers;
mod profile;
mod retry;
mod talks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::config::{ProvidedModel, ProviderSettings};

pub use client::ProviderModel;
pub use endpoint::{Endpoint, Timeouts};
pub use health::{Health, HealthError};
pub use profile::{KeyRule, PROFILES, Profile, provider_names};
pub use retry::Retries;

use crate::model::Model;

/// Looks up a variable of the environment.
pub type Variable<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// Makes the models of providers. What it makes for one way to a provider shares its connections.
#[derive(Debug, Default)]
pub struct Providers {
    endpoints: Mutex<HashMap<String, (Endpoint, reqwest::Client)>>,
    retries: Retries,
}

/// Why a provider's model cannot be asked, found before the first request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The program has no such provider.
    #[error("there is no provider {name}; known: {}", .known.join(", "))]
    UnknownProvider {
        /// Its name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The key is not there.
    #[error("{provider} needs a key: set {variable} in the environment, or in the file .env of the project")]
    KeyMissing {
        /// The provider.
        provider: String,
        /// The variable that has to hold it.
        variable: String,
    },
    /// The key, a header or the address cannot be used.
    #[error("{what} of {provider} cannot be used: {reason}")]
    Unusable {
        /// What.
        what: String,
        /// The provider.
        provider: String,
        /// Why.
        reason: String,
    },
}

impl Providers {
    /// Makes models that ask again as `retries` say.
    pub fn new(retries: Retries) -> Self {
        Self { retries, ..Self::default() }
    }

    /// The model that `model` names. `settings` say how its provider is reached, where a config does.
    pub fn model(
        &self,
        model: &ProvidedModel,
        settings: Option<&ProviderSettings>,
        variable: Variable<'_>,
    ) -> Result<Arc<dyn Model>, SetupError> {
        let endpoint = Endpoint::of(&model.provider, settings, variable)?;
        let http = self.client(&endpoint)?;
        Ok(Arc::new(ProviderModel::new(http, endpoint, model.model.clone(), model.settings.clone(), self.retries)))
    }

    fn client(&self, endpoint: &Endpoint) -> Result<reqwest::Client, SetupError> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        match endpoints.get(&endpoint.name) {
            Some((known, http)) if known.is_same_way(endpoint) => Ok(http.clone()),
            _ => {
                let http = client::connect(endpoint)?;
                endpoints.insert(endpoint.name.clone(), (endpoint.clone(), http.clone()));
                Ok(http)
            }
        }
    }
}
