//! Trust: an engine runs only configs that its policy lets it run.
//!
//! Configs are judged as they are loaded and joined, at the one place that makes what a run needs, so no way in can leave the
//! check out: models, keys and actors are made of [`Trusted`] configs only, and [`Trusted::check`] alone makes those.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use baton_core::config::{Configs, ModelSpec, Origin, Reach, Source, Sources, Target};
use baton_core::function::parse_path;
use baton_core::id::ContentHash;
use baton_models::provider::{PROFILES, Profile};

use crate::error::RunError;
use crate::folder::MAX_DOCUMENT_BYTES;

/// Decides which configs an engine runs.
pub trait TrustPolicy: Send + Sync {
    /// Returns the origin of a file that was read back from a store; `None` (default) if only the store is known to contain it.
    fn recognize(&self, _: &Source) -> Option<Origin> {
        None
    }

    /// Judges what configs reach. Called before a run starts, goes on, forks or adopts configs; it may ask a person.
    fn judge(&self, request: &TrustRequest<'_>) -> Result<(), Untrusted>;
}

/// What a policy judges.
#[derive(Clone, Debug)]
pub struct TrustRequest<'r> {
    /// The folder of the job, if it has one.
    pub folder: Option<&'r Path>,
    /// Everything outside of the run that the configs reach, with who said so: also what needs no trust.
    pub reaches: Vec<Reach>,
    /// The variables of the environment that the run may look up.
    pub variables: BTreeSet<String>,
}

/// Configs that a policy did not let run.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Untrusted {
    /// Why, as a person reads it.
    pub reason: String,
}

/// Runs whatever it is given: for programs whose configs are their own, such as those that embed the engine with jobs
/// that they carry. Not for jobs or stores that somebody sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustEverything;

impl TrustPolicy for TrustEverything {
    fn judge(&self, _: &TrustRequest<'_>) -> Result<(), Untrusted> {
        Ok(())
    }
}

/// Runs nothing: for engines that only read runs and deliver commands to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustNothing;

impl TrustPolicy for TrustNothing {
    fn judge(&self, _: &TrustRequest<'_>) -> Result<(), Untrusted> {
        Err(Untrusted { reason: "this engine only reads runs".to_owned() })
    }
}

/// Configs that passed the check of a policy.
#[derive(Clone, Debug)]
pub struct Trusted(Arc<Configs>);

impl Trusted {
    /// Lets `policy` judge `configs` of the job in `folder`. `stand_in` is a model that answers in place of the agents' own.
    ///
    /// Fails with [`RunError::Untrusted`].
    pub fn check(
        configs: &Arc<Configs>,
        folder: Option<&Path>,
        stand_in: Option<&str>,
        policy: &dyn TrustPolicy,
    ) -> Result<Self, RunError> {
        let mut reaches = configs.reaches();
        let scripts = scripts(&reaches, folder)?;
        reaches.extend(scripts);
        let request = TrustRequest { folder, reaches, variables: variables(configs, stand_in) };
        policy.judge(&request).map_err(|untrusted| RunError::Untrusted { reason: untrusted.reason })?;
        Ok(Self(Arc::clone(configs)))
    }

    /// The configs.
    pub fn configs(&self) -> &Arc<Configs> {
        &self.0
    }

    /// Whether these very configs were checked.
    pub(crate) fn is_of(&self, configs: &Arc<Configs>) -> bool {
        Arc::ptr_eq(&self.0, configs)
    }
}

/// Lets `policy` recognize files that were read back from a store.
pub(crate) fn recognize(sources: &mut Sources, policy: &dyn TrustPolicy) {
    sources.attribute(|source| policy.recognize(source));
}

/// The names of the models that a run may ask at once: `stand_in` alone where it is given, else those of the agents; with
/// those that they fall back to.
pub(crate) fn asked_models<'c>(configs: &'c Configs, stand_in: Option<&'c str>) -> BTreeSet<&'c str> {
    let of_job = configs.agents.values().map(|agent| agent.model.as_str()).chain(configs.job.summary_model.as_deref());
    let used: BTreeSet<&str> = stand_in.map_or_else(|| of_job.collect(), |name| BTreeSet::from([name]));
    let fallbacks = used.iter().flat_map(|name| configs.job.fallbacks(name)).map(String::as_str);
    used.iter().copied().chain(fallbacks).collect()
}

/// The file of the job's folder that a command's argument names, if it names one. Links are refused.
pub(crate) fn named_file(folder: Option<&Path>, argument: &str) -> io::Result<Option<PathBuf>> {
    let Some(folder) = folder else { return Ok(None) };
    let below = match parse_path(argument) {
        Ok(_) => argument.to_owned(),
        // A path from the root may lead into the folder, too.
        Err(_) => match Path::new(argument).strip_prefix(folder) {
            Ok(below) => below.to_string_lossy().into_owned(),
            Err(_) => return Ok(None),
        },
    };
    let mut path = folder.to_owned();
    for component in Path::new(&below).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => continue,
            _ => return Ok(None),
        }
        match std::fs::symlink_metadata(&path) {
            Ok(facts) if facts.is_symlink() => {
                let message =
                    format!("{} is a symbolic link; the files of a command must lie in the job's folder", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(path.is_file().then(|| std::path::absolute(&path).unwrap_or(path)))
}

/// The files of the job's folder that commands name, with their hashes.
fn scripts(reaches: &[Reach], folder: Option<&Path>) -> Result<Vec<Reach>, RunError> {
    let mut scripts = Vec::new();
    for reach in reaches {
        let Target::Command(arguments) = &reach.target else { continue };
        for argument in arguments {
            let failed = |error: io::Error| RunError::Untrusted {
                reason: format!(
                    "the tool {} names the file {argument:?}, which cannot be used: {error}",
                    reach.holder.escape_debug()
                ),
            };
            let Some(file) = named_file(folder, argument).map_err(failed)? else { continue };
            let content = baton_files::read(&file, MAX_DOCUMENT_BYTES).map_err(failed)?;
            let target = Target::Script { path: argument.clone(), hash: ContentHash::of(&content) };
            scripts.push(Reach { target, ..reach.clone() });
        }
    }
    Ok(scripts)
}

/// The variables of the environment that a run of `configs` may look up.
fn variables(configs: &Configs, stand_in: Option<&str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for reach in configs.reaches() {
        match reach.target {
            Target::Command(_) => names.extend(["PATH", "LANG"].map(str::to_owned)),
            Target::Environment(variable) | Target::Secret(variable) => drop(names.insert(variable)),
            Target::Address { like, key_variable, .. } => {
                names.extend(Profile::named(&like).into_iter().flat_map(of_profile));
                names.extend(key_variable);
            }
            Target::Script { .. } | Target::Setting { .. } | Target::Variable { .. } => {}
        }
    }
    // A tool may ask any model once the job has some of a provider.
    let is_provided = |name: &str| matches!(configs.job.model(name), Some(ModelSpec::Provided(_)));
    if asked_models(configs, stand_in).into_iter().any(is_provided) {
        names.extend(PROFILES.iter().flat_map(of_profile));
    }
    names
}

/// The variables that lead to a provider.
fn of_profile(profile: &'static Profile) -> impl Iterator<Item = String> {
    [Some(profile.key.variable), profile.base_url_variable].into_iter().flatten().map(str::to_owned)
}
