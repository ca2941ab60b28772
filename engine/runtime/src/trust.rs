//! Trust: an engine runs only configs that its policy lets it run.
//!
//! Configs are judged after they are loaded and joined, at the only place that builds the parts of a run. So no entry
//! point can skip the check: models, keys and actors are built from [`Trusted`] configs only, and only
//! [`Trusted::check`] creates those.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_config::{Source, Sources};
use baton_models::provider::{PROFILES, Profile};
use baton_types::config::{Configs, Embeddings, ExecSpec, Executor, ModelSpec, Origin, Reach, Target, Tool};
use baton_types::id::ContentHash;

use crate::error::RunError;

/// The most bytes of a document that is read from disk.
pub const MAX_DOCUMENT_BYTES: u64 = 512 << 20;

/// Decides which configs an engine runs.
pub trait TrustPolicy: Send + Sync {
    /// Returns the origin of a file that was read back from a store; `None` (default) if only the store is known to contain it.
    fn recognize(&self, _: &Source) -> Option<Origin> {
        None
    }

    /// Judges the reach of configs. Called before a run starts, resumes, forks or adopts configs; it may ask a person.
    fn judge(&self, request: &TrustRequest<'_>) -> Result<(), Untrusted>;
}

/// Input of a policy.
#[derive(Clone, Debug)]
pub struct TrustRequest<'r> {
    /// The folder of the job, if it has one.
    pub folder: Option<&'r Path>,
    /// Everything outside of the run that the configs reach, with its origin, including parts that need no trust.
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

/// Trusts every job. For programs whose configs are their own, such as a program that embeds the engine together with its
/// jobs. Not for jobs or stores that somebody sent.
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
pub struct Trusted {
    configs: Arc<Configs>,
    files: Arc<CommandFiles>,
}

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
        let (files, scripts) = CommandFiles::named_by(configs, &reaches, folder)?;
        reaches.extend(scripts);
        let request = TrustRequest { folder, variables: variables(configs, &reaches, stand_in), reaches };
        policy.judge(&request).map_err(|untrusted| RunError::Untrusted { reason: untrusted.reason })?;
        Ok(Self { configs: Arc::clone(configs), files: Arc::new(files) })
    }

    /// Returns the configs.
    pub fn configs(&self) -> &Arc<Configs> {
        &self.configs
    }

    /// Returns the files that commands may run.
    pub(crate) fn files(&self) -> &Arc<CommandFiles> {
        &self.files
    }

    /// Whether these very configs were checked.
    pub(crate) fn is_of(&self, configs: &Arc<Configs>) -> bool {
        Arc::ptr_eq(&self.configs, configs)
    }
}

/// Lets `policy` recognize files that were read back from a store.
pub(crate) fn recognize(sources: &mut Sources, policy: &dyn TrustPolicy) {
    sources.attribute(|source| policy.recognize(source));
}

/// Returns the names of the models that a run may use at once: `stand_in` alone if given, otherwise those of the
/// agents, with their fallbacks.
pub(crate) fn asked_models<'c>(configs: &'c Configs, stand_in: Option<&'c str>) -> BTreeSet<&'c str> {
    let of_job = configs.agents.values().map(|agent| agent.model.as_str()).chain(configs.job.summary_model.as_deref());
    let used: BTreeSet<&str> = stand_in.map_or_else(|| of_job.collect(), |name| BTreeSet::from([name]));
    let fallbacks = used.iter().flat_map(|name| configs.job.fallbacks(name)).map(String::as_str);
    used.iter().copied().chain(fallbacks).collect()
}

/// Returns the file of the job's folder that a command's argument names, if any: relative to the folder, or in any
/// spelling of a path that leads into it (`..`, links on the way there, `/proc/self/root`). Links inside of the folder
/// are refused.
pub(crate) fn named_file(folder: Option<&Path>, argument: &str) -> io::Result<Option<PathBuf>> {
    let Some(folder) = folder.and_then(|folder| folder.canonicalize().ok()) else { return Ok(None) };
    if let Some(file) = led_to(&folder, &folder, Path::new(argument))? {
        return Ok(Some(file));
    }
    // The command works two folders below that of temporary files: what leaves its folder may lead here as well.
    match (Path::new(argument).strip_prefix("../.."), std::env::temp_dir().canonicalize()) {
        (Ok(rest), Ok(temporary)) => led_to(&folder, &temporary, rest),
        _ => Ok(None),
    }
}

/// Returns the file in `folder` that `path` leads to from `start`. Both folders are canonical.
fn led_to(folder: &Path, start: &Path, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut here = start.to_owned();
    for component in path.components() {
        let next = here.join(component);
        if here.starts_with(folder) && std::fs::symlink_metadata(&next).is_ok_and(|facts| facts.is_symlink()) {
            let message = format!("{} is a symbolic link; the files of a command must be in the job's folder", next.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // One step at a time: every folder on the way is known by its only name.
        let Ok(canonical) = next.canonicalize() else { return Ok(None) };
        here = canonical;
    }
    Ok((here.starts_with(folder) && here.is_file()).then_some(here))
}

/// Returns the hash of the file of the job's folder that `argument` names; `None` if it names none.
fn hash_of_named(folder: Option<&Path>, argument: &str) -> io::Result<Option<ContentHash>> {
    let Some(file) = named_file(folder, argument)? else { return Ok(None) };
    baton_files::read(&file, MAX_DOCUMENT_BYTES).map(|content| Some(ContentHash::of(&content)))
}

/// Files of the folders of job and project as they may run: the arguments of commands that name them, each with
/// [`ExecSpec::above`], and their hashes when trust was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandFiles(BTreeMap<(usize, String), ContentHash>);

impl CommandFiles {
    /// Returns the files named by the commands in `reaches`. A file that the configs pin must be unchanged since they
    /// were read: a person judges what will run.
    fn named_by(configs: &Configs, reaches: &[Reach], folder: Option<&Path>) -> Result<(Self, Vec<Reach>), RunError> {
        if !reaches.iter().any(|reach| matches!(reach.target, Target::Command(_))) {
            return Ok(Default::default());
        }
        let pinned: BTreeMap<(usize, &str), &str> = configs.used_tools().flat_map(pinned_files).collect();
        let (mut files, mut scripts) = (BTreeMap::new(), Vec::new());
        for reach in reaches {
            let Target::Command(arguments) = &reach.target else { continue };
            let holder = reach.holder.escape_debug();
            let spec = configs.tools.get(reach.holder.as_str()).and_then(|tool| command_of(tool));
            let (above, folder) = spec.map_or((0, folder), |spec| (spec.above, spec.folder(folder)));
            for argument in arguments {
                let refused = |reason: String| RunError::Untrusted { reason };
                let found = hash_of_named(folder, argument).map_err(|error| {
                    refused(format!("the tool {holder} names the file {argument:?}, which cannot be used: {error}"))
                })?;
                let hash = match (pinned.get(&(above, argument.as_str())), found) {
                    (Some(pinned), Some(found)) if found.to_string() != *pinned => {
                        return Err(refused(format!(
                            "the file {argument:?} of {holder} has changed since these configs were read (blake3 {}, now {found}); \
                             baton resume --migrate or baton fork --reload adopts it",
                            pinned.escape_debug()
                        )));
                    }
                    (_, Some(found)) => found,
                    // Without its file no call of the tool begins.
                    (Some(pinned), None) => match ContentHash::from_hex(pinned) {
                        Some(hash) => hash,
                        None => continue,
                    },
                    (None, None) => continue,
                };
                files.insert((above, argument.clone()), hash);
                let path = "../".repeat(above) + argument;
                scripts.push(Reach { target: Target::Script { path, hash }, ..reach.clone() });
            }
        }
        Ok((Self(files), scripts))
    }

    /// Returns the first file named by the command of `spec` that differs from the trusted one: changed, gone, or new. Blocks.
    pub(crate) fn changed<'c>(&self, spec: &'c ExecSpec, folder: Option<&Path>) -> Option<&'c str> {
        let is_unchanged = |argument: &String| {
            let trusted = self.0.get(&(spec.above, argument.clone()));
            hash_of_named(spec.folder(folder), argument).is_ok_and(|found| found.as_ref() == trusted)
        };
        spec.command.iter().find(|argument| !is_unchanged(argument)).map(String::as_str)
    }
}

fn command_of(tool: &Tool) -> Option<&ExecSpec> {
    match &tool.executor {
        Some(Executor::Exec(exec)) => Some(exec),
        _ => None,
    }
}

/// Returns the files that the configs of a command pin: arguments, each with the place of its folder, and hashes.
fn pinned_files(tool: &Tool) -> impl Iterator<Item = ((usize, &str), &str)> {
    let files = command_of(tool).into_iter().flat_map(|exec| exec.files.iter().map(|file| (exec.above, file)));
    files.map(|(above, (argument, hash))| ((above, argument.as_str()), hash.as_str()))
}

/// Returns the variables of the environment that a run of `configs`, which have these `reaches`, may look up.
fn variables(configs: &Configs, reaches: &[Reach], stand_in: Option<&str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for reach in reaches {
        match &reach.target {
            Target::Command(_) => names.extend(["PATH", "LANG"].map(str::to_owned)),
            Target::Environment(variable) | Target::Secret(variable) => drop(names.insert(variable.clone())),
            Target::Address { like, key_variable, .. } => {
                names.extend(Profile::named(like).into_iter().flat_map(of_profile));
                names.extend(key_variable.clone());
            }
            Target::Script { .. } | Target::Setting { .. } | Target::Variable { .. } | Target::Service(_) => {}
        }
    }
    if let Some(Embeddings { model, .. }) = &configs.job.embeddings {
        let like = configs.job.providers.get(&model.provider).map_or(&model.provider, |settings| &settings.like);
        names.extend(Profile::named(like).into_iter().flat_map(of_profile));
    }
    // A tool may ask any model once the job has some of a provider.
    let is_provided = |name: &str| matches!(configs.job.model(name), Some(ModelSpec::Provided(_)));
    if asked_models(configs, stand_in).into_iter().any(is_provided) {
        names.extend(PROFILES.iter().flat_map(of_profile));
    }
    names
}

/// Returns the variables that configure a provider.
fn of_profile(profile: &'static Profile) -> impl Iterator<Item = String> {
    [Some(profile.key.variable), profile.base_url_variable].into_iter().flatten().map(str::to_owned)
}
