//! The person's own model for searches by meaning: that of `embeddings` in the person's `models.json`.

use std::sync::Arc;

use baton_config::{Role, Sources};
use baton_models::provider::Profile;
use baton_models::{Embedder, Providers, RunKey};
use baton_runtime::load_embeddings;
use baton_runtime::trust::{TrustPolicy, TrustRequest};
use baton_types::config::Origin;

use crate::environment::{self, Environment};
use crate::exit::Failure;
use crate::place::Place;
use crate::trust::{Manner, PersonsTrust};

/// Returns the model; `Ok(None)` if the person has none, and the reason if it cannot be asked.
///
/// The project's `.env` may set its key and its address only as far as the person trusts that file.
pub(crate) fn embedder(place: &Place) -> Result<Result<Option<Embedder>, String>, Failure> {
    let Some((path, content)) = environment::user_models()? else { return Ok(Ok(None)) };
    let mut sources = Sources::default();
    sources.add_from(Origin::Person, Role::UserModels, path, content);
    let (embeddings, providers) = load_embeddings(&sources).map_err(|faults| Failure::Faults(faults.to_string()))?;
    let Some(model) = embeddings.map(|embeddings| embeddings.model) else { return Ok(Ok(None)) };
    let settings = providers.get(&model.provider);
    let environment = Environment::at(place)?;
    if environment.leads_to(&model.provider, settings) {
        let profile = Profile::named(settings.map_or(model.provider.as_str(), |settings| settings.like.as_str()));
        let of_profile =
            profile.into_iter().flat_map(|profile| [Some(profile.key.variable), profile.base_url_variable]).flatten();
        let own = settings.and_then(|settings| settings.key_variable.as_deref());
        let variables = of_profile.chain(own).map(str::to_owned).collect();
        let trust = PersonsTrust::at(place, None, Arc::clone(&environment), Manner::Look)?;
        let request = TrustRequest { folder: None, reaches: Vec::new(), variables };
        if trust.judge(&request).is_err() {
            let reason = "the .env of the project sets variables of the provider and is not trusted yet; baton doctor JOB --trust trusts it";
            return Ok(Err(reason.to_owned()));
        }
    }
    let made = Providers::default().embedder(RunKey::unique(), &model, settings, &|name| environment.get(name));
    Ok(made.map(Some).map_err(|error| error.to_string()))
}
