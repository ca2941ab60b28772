//! Loads jobs for commands: their folders, the program's tool configs, and the faults. Maps errors to failures of a command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_config::{Faults, MAX_FILE_BYTES, Role, Sources, Unconfigured, load_tools};
use baton_runtime::folder::{FolderError, JobFolder, read_job, read_job_of, read_project};
use baton_runtime::{InitialDocument, LoadedJob, with_unfit_tools};
use baton_tool::registered_functions;
use baton_types::config::{Origin, Tool};
use baton_types::entry::RunStarted;
use baton_types::id::ToolId;
use serde_json::Value;

use crate::app::engine::{engine, run_failure};
use crate::exit::Failure;
use crate::place::{JOB_FILE, Place};
use crate::project::JobProject;
use crate::runs::FoundRun;
use crate::shell::baton;
use crate::text::text;
use crate::{environment, programs, project, style};

/// The outcome of checking a job.
pub(crate) enum Checked {
    /// The job without faults.
    Sound(LoadedJob),
    /// The faults of the job.
    Faulty(Faults),
}

/// Loads the job `name`, or fails with all its faults.
pub(crate) fn load(place: &Place, name: &Path) -> Result<LoadedJob, Failure> {
    load_with(place, name, None)
}

/// Loads the job `name`. If `script` names a model script, that script answers for all agents.
pub(crate) fn load_with(place: &Place, name: &Path, script: Option<&Path>) -> Result<LoadedJob, Failure> {
    match check_with(place, name, script)? {
        Checked::Sound(job) => Ok(job),
        Checked::Faulty(faults) => Err(Failure::Faults(faults.to_string())),
    }
}

/// Checks the job `name` as [`check`] does, and then its tools against what its models' providers accept.
pub(crate) fn judge(place: &Place, name: &Path) -> Result<Checked, Failure> {
    Ok(match check(place, name)? {
        Checked::Sound(job) => job.check_tools().err().map_or(Checked::Sound(job), Checked::Faulty),
        faulty @ Checked::Faulty(_) => faulty,
    })
}

/// Checks the job `name`. The faults of a faulty job include the tools that its models' providers would reject.
pub(crate) fn check(place: &Place, name: &Path) -> Result<Checked, Failure> {
    let (sources, files) = read(place, name, None)?;
    match checked(place, sources.clone(), &files)? {
        Checked::Faulty(faults) => Ok(Checked::Faulty(with_unfit_tools(&sources, faults, &registered_functions()))),
        sound @ Checked::Sound(_) => Ok(sound),
    }
}

/// Checks whether the tools of the job `name` describe all of their fields.
pub(crate) fn conformance(place: &Place, name: &Path) -> Result<Result<(), Faults>, Failure> {
    Ok(baton_config::conformance(&read(place, name, None)?.0))
}

fn check_with(place: &Place, name: &Path, script: Option<&Path>) -> Result<Checked, Failure> {
    let (sources, files) = read(place, name, script)?;
    checked(place, sources, &files)
}

/// Reads the configs of the job `name`, and opens the folder of its documents.
fn read(place: &Place, name: &Path, script: Option<&Path>) -> Result<(Sources, JobFolder), Failure> {
    let folder = place.job_folder(name)?;
    let configs = place.tool_configs(Some(&folder))?;
    // Faults show this path, so it is the path that the person would type.
    let shown = place.shown(&folder);
    let project = project_of(place, &folder)?;
    let (mut sources, files) =
        read_job(&folder_to_read(place, &shown, &folder), &configs.borrowed(), project.as_deref()).map_err(folder_failure)?;
    add_persons(&mut sources, script, place)?;
    Ok((sources, files))
}

/// Loads the job from `sources`, or returns all their faults.
fn checked(place: &Place, sources: Sources, files: &JobFolder) -> Result<Checked, Failure> {
    let missing = programs::missing(&sources, files.path());
    let loaded = LoadedJob::from_sources(sources, &registered_functions());
    let faults = loaded.as_ref().err().into_iter().flat_map(Faults::iter).cloned();
    if let Err(faults) = Faults::none_of(faults.chain(missing).collect()) {
        return Ok(Checked::Faulty(faults));
    }
    let mut job = loaded.expect("a job without faults is loaded");
    let configs = Arc::clone(&job.configs);
    job.folder = Some(files.path().to_owned());
    job.memory = Some(project::memory(place, &configs.job.id, files.path())?);
    for document in &configs.job.documents {
        let content = files.read(&document.file).map_err(folder_failure)?;
        job = job.with_document(InitialDocument::of(document, content.into()));
    }
    Ok(Checked::Sound(job))
}

/// Returns the files of a job in the project's folder with `job` as its `job.json`, and the folder. `script` is a model script that answers
/// for all agents.
pub(crate) fn of_project(place: &Place, job: &str, script: Option<&Path>) -> Result<(Sources, PathBuf), Failure> {
    let folder = place.project().to_owned();
    let configs = place.tool_configs(Some(&folder))?;
    let shown = folder_to_read(place, &place.shown(&folder), &folder);
    let job = with_models(job, &folder.join(JOB_FILE));
    let (mut sources, files) = read_job_of(&shown, job.as_bytes(), &configs.borrowed()).map_err(folder_failure)?;
    add_persons(&mut sources, script, place)?;
    Ok((sources, files.path().to_owned()))
}

/// Returns the text of a job with the models of the job in `file`, if there is one: agents in the folder use them.
fn with_models(job: &str, file: &Path) -> String {
    let own = baton_files::read(file, MAX_FILE_BYTES as u64).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let (Some(Value::Object(models)), Ok(mut job)) = (own.map(|own| own["models"].clone()), serde_json::from_str::<Value>(job))
    else {
        return job.to_owned();
    };
    for (name, model) in models {
        if job["models"].get(&name).is_none() {
            job["models"][name] = model;
        }
    }
    job.to_string()
}

/// Adds the person's own models, and the script that answers for all agents.
fn add_persons(sources: &mut Sources, script: Option<&Path>, place: &Place) -> Result<(), Failure> {
    if let Some((path, content)) = environment::user_models()? {
        sources.add_from(Origin::Person, Role::UserModels, path, content);
    }
    if let Some(script) = script {
        let content = std::fs::read(place.current.join(script)).map_err(|error| Failure::file(script, error))?;
        sources.add_from(Origin::Person, Role::RunScript, script.display().to_string(), content);
    }
    Ok(())
}

/// Returns the relative path of the folder, if the process runs in the folder from which paths are shown; else the absolute one.
fn folder_to_read(place: &Place, shown: &str, folder: &Path) -> PathBuf {
    match std::env::current_dir() {
        Ok(current) if current == place.start => Path::new(shown).to_owned(),
        _ => folder.to_owned(),
    }
}

/// Returns the folder of the project of the job in `folder`, as the person would type it.
fn project_of(place: &Place, folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let Ok(folder) = folder.canonicalize() else { return Ok(None) };
    let project = JobProject::of(place, &folder)?;
    Ok(project.map(|project| folder_to_read(place, &place.shown(&project.folder), &project.folder)))
}

/// Returns the tool configs of the program and the files that the jobs of the project share, and the project's folder.
pub(crate) fn without_job(place: &Place) -> Result<(Sources, Option<PathBuf>), Failure> {
    let configs = place.tool_configs(None)?;
    let Some(project) = project_of(place, &place.current)? else {
        let mut sources = Sources::default();
        configs.add_to(&mut sources);
        return Ok((sources, None));
    };
    let (sources, folder) = read_project(&project, &configs.borrowed()).map_err(folder_failure)?;
    Ok((sources, Some(folder.path().to_owned())))
}

/// Loads the program's tools and those of the project, by id.
pub(crate) fn tools(place: &Place) -> Result<BTreeMap<ToolId, Arc<Tool>>, Failure> {
    let (sources, _) = without_job(place)?;
    load_tools(&sources, &registered_functions(), Unconfigured::Refused).map_err(|faults| Failure::Faults(faults.to_string()))
}

/// Prints a note if the job's folder has changed since the start of a resumed run, which keeps its configs.
pub(crate) async fn tell_changes(place: &Place, found: &FoundRun) -> Result<(), Failure> {
    let engine = engine(&found.store)?;
    let state = engine.state(found.id()).await.map_err(run_failure)?;
    let Some((started, folder)) = state.started().and_then(|started| Some((started, started.folder.as_ref()?))) else {
        return Ok(());
    };
    let pinned = engine.pinned_sources(started).await.map_err(run_failure)?;
    let configs = place.tool_configs(Some(Path::new(folder)))?;
    let project = project_of(place, Path::new(folder))?;
    let now = read_job(Path::new(folder), &configs.borrowed(), project.as_deref()).ok().map(|(sources, _)| sources);
    let own = |sources: &Sources| -> Vec<(Role, String, String)> {
        let others = [Role::BuiltinTool, Role::RunLimits, Role::RunScript, Role::UserModels];
        let own = sources.files().filter(|source| !others.contains(&source.role));
        own.map(|source| (source.role, source.path.clone(), source.text.clone())).collect()
    };
    if now.as_ref().is_none_or(|now| own(now) != own(&pinned)) {
        let warning = style::waiting("note:");
        let adopt = if state.ended().is_none() {
            format!("; {} adopts the new configs", baton("resume").value(found.id()).flag("--migrate"))
        } else {
            String::new()
        };
        place.screen.tell(&text!("{} {folder} has changed since the run started; the run keeps its configs{adopt}", warning));
    }
    Ok(())
}

/// Loads the job of a run from the current files of its folder.
pub(crate) fn of_run(place: &Place, started: &RunStarted) -> Result<LoadedJob, Failure> {
    match &started.folder {
        Some(folder) => load(place, Path::new(folder)),
        None => Err(Failure::Usage("the run was not started from a folder, so it has no other configs to adopt".to_owned())),
    }
}

fn folder_failure(error: FolderError) -> Failure {
    match error {
        FolderError::NoJob { path } => Failure::not_found("job", path.display().to_string(), []),
        error => Failure::Usage(error.to_string()),
    }
}
