//! The models of providers: connections, requests and answers.
//!
//! The codecs in [`crate::wire`] say what the bytes mean; here they are sent and waited for. A key is looked up in the
//! environment when a run's models are made, kept as a secret, and put into one header: it is in no error, log or timeline.

mod client;
mod conversations;
mod embed;
mod endpoint;
mod headers;
mod health;
mod incoming;
mod model;
mod offers;
mod profile;
mod retry;
mod text_call;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_types::config::{ProvidedModel, ProviderSettings};

pub use embed::{Embedder, Vectors, embeds};
pub use endpoint::{Endpoint, Timeouts, runs_here};
pub use health::{Health, HealthError};
pub use model::ProviderModel;
pub use offers::{BOOLEAN_SETTINGS, openai_tools, turned_down};
pub use profile::{HeldResults, KeyRule, PROFILES, Profile, media_of, provider_names};
pub use retry::Retries;

use self::client::Client;
use self::conversations::Conversations;
use crate::cassette::Cassettes;
use crate::governor::{Governor, RunKey};
use crate::model::Model;

/// Looks up a variable of the environment.
pub type Variable<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// Makes the models of providers. Models that reach a provider in the same way share connections. Models of one account share
/// its [`Governor`].
#[derive(Debug, Default)]
pub struct Providers {
    /// By the provider's name and the variable of the key, so that two keys of one provider do not replace each other.
    clients: Mutex<HashMap<(String, String), Client>>,
    /// A way to each account, and what governs it.
    governors: Mutex<Vec<(Endpoint, Arc<Governor>)>>,
    conversations: Arc<Conversations>,
    retries: Retries,
    cassettes: Option<Arc<Cassettes>>,
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
    /// Each account has an address of its own, and none is given.
    #[error("{provider} has an address for each account: set {variable} in the environment, or base_url in models.json")]
    AddressMissing {
        /// The provider.
        provider: String,
        /// The variable that can hold the address.
        variable: String,
    },
    /// The key, a header or the address cannot be used.
    #[error("{what} of {provider} cannot be used: {reason}")]
    Unusable {
        /// Description of the fault.
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

    /// Returns the same models, with their requests recorded in `cassettes` or played from them.
    pub fn with_cassettes(self, cassettes: Option<Arc<Cassettes>>) -> Self {
        Self { cassettes, ..self }
    }

    /// Returns the cassettes that requests are recorded in or played from, if any.
    pub fn cassettes(&self) -> Option<&Arc<Cassettes>> {
        self.cassettes.as_ref()
    }

    /// Returns the model that `model` names, for the run with the key `run`. `settings` are those of its provider in a
    /// config, if any.
    pub fn model(
        &self,
        run: RunKey,
        model: &ProvidedModel,
        settings: Option<&ProviderSettings>,
        variable: Variable<'_>,
    ) -> Result<Arc<dyn Model>, SetupError> {
        let is_played = self.cassettes.as_ref().is_some_and(|cassettes| cassettes.is_played());
        let way = if is_played { Endpoint::perhaps_without_key } else { Endpoint::of };
        let endpoint = way(&model.provider, settings, variable)?;
        for (cassettes, key) in self.cassettes.iter().zip(endpoint.secret()) {
            cassettes.keep_out(key);
        }
        let governor = self.governor(&endpoint);
        let client = self.client(endpoint)?;
        let (conversations, cassettes) = (Arc::clone(&self.conversations), self.cassettes.clone());
        Ok(Arc::new(ProviderModel::new(client, governor, run, model, self.retries, conversations, cassettes)))
    }

    fn client(&self, endpoint: Endpoint) -> Result<Client, SetupError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (endpoint.name.clone(), endpoint.key_variable.clone());
        match clients.get(&name) {
            Some(client) if client.endpoint.is_same_way(&endpoint) => Ok(client.clone()),
            _ => {
                let client = Client::new(endpoint)?;
                clients.insert(name, client.clone());
                Ok(client)
            }
        }
    }

    /// Returns the governor of the account of `endpoint`, with the limits of `endpoint` from now on.
    fn governor(&self, endpoint: &Endpoint) -> Arc<Governor> {
        let mut governors = self.governors.lock().unwrap_or_else(PoisonError::into_inner);
        let known = governors.iter().find(|(known, _)| known.is_same_account(endpoint)).map(|(_, governor)| Arc::clone(governor));
        let governor = known.unwrap_or_else(|| {
            let governor = Arc::new(Governor::new(self.retries));
            governors.push((endpoint.clone(), Arc::clone(&governor)));
            governor
        });
        governor.keep(&endpoint.limits);
        governor
    }
}
