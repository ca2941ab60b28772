//! Engines over a store, as commands use them. Maps their errors to failures of a command.

use std::path::Path;
use std::sync::Arc;

use baton_config::PriceTable;
use baton_runtime::{Engine, EngineBuilder, RunError, TrustNothing};
use baton_store::{Store, StoreError};
use baton_types::config::PERSON_MODEL;
use baton_types::id::RunId;

use crate::environment::Environment;
use crate::exit::Failure;
use crate::person::PersonModel;
use crate::place::Place;
use crate::project::project_id;
use crate::shell::baton;
use crate::trust::{Manner, PersonsTrust};
use crate::{cassettes, environment};

/// Returns an engine over `store` that reads runs and delivers commands to them, but executes nothing.
pub(crate) fn engine(store: &Arc<dyn Store>) -> Result<Engine, Failure> {
    let builder = Engine::builder().store(Arc::clone(store)).trust(TrustNothing).variables(|_| None);
    builder.build().map_err(run_failure)
}

/// Returns a builder of an engine over `store`, which has the name `kept_in` (see [`Place::kept_in`]). The engine executes only the jobs that the person
/// trusts. It sees the environment, the trusted part of the project's `.env`, and the person's own prices. The person can play
/// a model.
pub(crate) fn builder(
    store: &Arc<dyn Store>,
    kept_in: Option<String>,
    place: &Place,
    manner: Manner,
) -> Result<EngineBuilder, Failure> {
    let environment = Environment::at(place)?;
    let trust = PersonsTrust::at(place, kept_in, Arc::clone(&environment), manner)?;
    let builder = Engine::builder().store(Arc::clone(store)).trust(trust).variables(move |name| environment.get(name));
    let here = place.clone();
    let project_of = move |folder: &Path| project_id(&here, &folder.canonicalize().ok()?).ok();
    let builder = builder.project_of(project_of).model(PERSON_MODEL, Arc::new(PersonModel::new(place.current.clone())));
    Ok(match environment::user_prices()? {
        Some(prices) => builder.prices(PriceTable::embedded().clone().with(prices)),
        None => builder,
    })
}

/// Returns the error that stopped run `run` as a failure of the command.
pub(crate) fn run_stopped(run: &RunId, error: RunError) -> Failure {
    match &error {
        RunError::Store(store)
            if matches!(
                **store,
                StoreError::StorageFull { .. }
                    | StoreError::Failing { .. }
                    | StoreError::Busy { .. }
                    | StoreError::Unreachable { .. }
                    | StoreError::CommitUnknown { .. }
            ) =>
        {
            Failure::Stopped { run: run.to_string(), reason: store.to_string() }
        }
        _ => run_failure(error),
    }
}

/// Returns the engine's error as a failure of the command.
pub(crate) fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::UnknownRun(run) => Failure::not_found("run", run.as_str(), []),
        RunError::Inputs(_)
        | RunError::Unpriced(_)
        | RunError::InputTwice { .. }
        | RunError::Template { .. }
        | RunError::UnknownModel { .. }
        | RunError::Tools(_)
        | RunError::Invocation { .. }
        | RunError::MissingFunctions(_)
        | RunError::NoServices(_)
        | RunError::Unreachable(_)
        | RunError::NoSuchDecision { .. }
        | RunError::NoSuchEntry { .. }
        | RunError::PastTheEnd { .. }
        | RunError::ChangesThePast { .. }
        | RunError::Untrusted { .. } => Failure::Usage(error.to_string()),
        RunError::PinnedConfigs { ref run, .. } => {
            let (timeline, documents) = (baton("timeline").value(run), baton("doc ls").value(run));
            Failure::Usage(format!(
                "{error}\nuse the version of baton that started the run; to read it: {timeline} · {documents}"
            ))
        }
        RunError::Configs(faults) => Failure::Faults(faults.to_string()),
        RunError::Model { .. } => Failure::Unavailable(error.to_string()),
        RunError::Cassettes(error) => cassettes::failure(error),
        RunError::Refused(refusal) => Failure::Refused(refusal.to_string()),
        RunError::Store(error) => match &*error {
            StoreError::StaleEpoch { run, .. } => Failure::Taken(run.to_string()),
            error => Failure::Store(error.to_string()),
        },
        error => Failure::Engine(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_a_full_disk_stopped_can_be_resumed() {
        let full = StoreError::StorageFull { path: "s.db".into() };
        let failure = run_stopped(&RunId::new("a1"), RunError::from(full));
        assert_eq!(failure.exit().code(), 130);
        assert!(failure.to_string().contains("storage full") && failure.to_string().ends_with("baton resume a1"), "{failure}");
        let lost = StoreError::Lost { path: "s.db".into() };
        assert_eq!(run_stopped(&RunId::new("a1"), RunError::from(lost)).exit().code(), 1, "there is nothing to continue with");
    }

    #[test]
    fn a_run_that_another_process_took_over_has_not_failed() {
        let stale = StoreError::StaleEpoch { run: RunId::new("a1"), expected: 1, found: 2 };
        let failure = run_failure(RunError::from(stale));
        assert_eq!(failure.exit().code(), 130);
        assert!(failure.to_string().contains("baton show a1"), "{failure}");
    }
}
