//! Jobs as commands read them: the folder, the tool configs of the program, the faults; and failures in the program's words.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baton_config::{Faults, Role, Sources, Unconfigured, load_tools};
use baton_runtime::folder::{FolderError, JobFolder, read_job};
use baton_runtime::{InitialDocument, LoadedJob, with_unfit_tools};
use baton_tool::registered_functions;
use baton_types::config::{Origin, Tool};
use baton_types::entry::RunStarted;
use baton_types::id::ToolId;

use crate::app::engine::{engine, run_failure};
use crate::exit::Failure;
use crate::place::Place;
use crate::runs::FoundRun;
use crate::shell::baton;
use crate::text::text;
use crate::{environment, style};

/// A job that was looked at.
pub(crate) enum Checked {
    /// It may run.
    Sound(LoadedJob),
    /// It may not.
    Faulty(Faults),
}

/// Reads the job called `name`, or says everything that is wrong with it.
pub(crate) fn load(place: &Place, name: &Path) -> Result<LoadedJob, Failure> {
    load_with(place, name, None)
}

/// Reads the job called `name`, for which the script in the file `script` answers.
pub(crate) fn load_with(place: &Place, name: &Path, script: Option<&Path>) -> Result<LoadedJob, Failure> {
    match check_with(place, name, script)? {
        Checked::Sound(job) => Ok(job),
        Checked::Faulty(faults) => Err(Failure::Faults(faults.to_string())),
    }
}

/// Looks at the job called `name`. Where it has faults, tools that its models could not be offered are among them.
pub(crate) fn check(place: &Place, name: &Path) -> Result<Checked, Failure> {
    let (sources, files) = read(place, name, None)?;
    match checked(sources.clone(), &files)? {
        Checked::Faulty(faults) => Ok(Checked::Faulty(with_unfit_tools(&sources, faults, &registered_functions()))),
        sound @ Checked::Sound(_) => Ok(sound),
    }
}

fn check_with(place: &Place, name: &Path, script: Option<&Path>) -> Result<Checked, Failure> {
    let (sources, files) = read(place, name, script)?;
    checked(sources, &files)
}

/// The texts of the job called `name`, and the folder that has its documents.
fn read(place: &Place, name: &Path, script: Option<&Path>) -> Result<(Sources, JobFolder), Failure> {
    let folder = place.job_folder(name)?;
    let configs = place.tool_configs(Some(&folder))?;
    // The folder as the person would type it, since faults show it.
    let shown = place.shown(&folder);
    let (mut sources, files) = read_job(&folder_to_read(place, &shown, &folder), &configs.borrowed()).map_err(folder_failure)?;
    if let Some((path, content)) = environment::user_models()? {
        sources.add_from(Origin::Person, Role::UserModels, path, content);
    }
    if let Some(script) = script {
        let content = std::fs::read(place.current.join(script)).map_err(|error| Failure::file(script, error))?;
        sources.add_from(Origin::Person, Role::RunScript, script.display().to_string(), content);
    }
    Ok((sources, files))
}

/// The job that `sources` make, or everything that is wrong with them.
fn checked(sources: Sources, files: &JobFolder) -> Result<Checked, Failure> {
    let loaded = match LoadedJob::from_sources(sources, &registered_functions()) {
        Ok(job) => job,
        Err(faults) => return Ok(Checked::Faulty(faults)),
    };
    let configs = Arc::clone(&loaded.configs);
    let mut job = loaded;
    job.folder = Some(files.path().to_owned());
    for document in &configs.job.documents {
        let content = files.read(&document.file).map_err(folder_failure)?;
        job = job.with_document(InitialDocument::of(document, content.into()));
    }
    Ok(Checked::Sound(job))
}

/// The folder relative to where the program runs, where that means the same.
fn folder_to_read(place: &Place, shown: &str, folder: &Path) -> std::path::PathBuf {
    match std::env::current_dir() {
        Ok(current) if current == place.current => Path::new(shown).to_owned(),
        _ => folder.to_owned(),
    }
}

/// The tools of the program alone, by id.
pub(crate) fn tools(place: &Place) -> Result<BTreeMap<ToolId, Arc<Tool>>, Failure> {
    let mut sources = Sources::default();
    place.tool_configs(None)?.add_to(&mut sources);
    load_tools(&sources, &registered_functions(), Unconfigured::Refused).map_err(|faults| Failure::Faults(faults.to_string()))
}

/// Says that a resumed run keeps the configs it started with, when the job's folder has others by now.
pub(crate) async fn tell_changes(place: &Place, found: &FoundRun) -> Result<(), Failure> {
    let engine = engine(&found.store)?;
    let state = engine.state(found.id()).await.map_err(run_failure)?;
    let Some((started, folder)) = state.started().and_then(|started| Some((started, started.folder.as_ref()?))) else {
        return Ok(());
    };
    let pinned = engine.pinned_sources(started).await.map_err(run_failure)?;
    let configs = place.tool_configs(Some(Path::new(folder)))?;
    let now = read_job(Path::new(folder), &configs.borrowed()).ok().map(|(sources, _)| sources);
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

/// The job of a run as its folder has it now.
pub(crate) fn of_run(place: &Place, started: &RunStarted) -> Result<LoadedJob, Failure> {
    match &started.folder {
        Some(folder) => load(place, Path::new(folder)),
        None => Err(Failure::Usage("the run was not started from a folder, so there are no other configs".to_owned())),
    }
}

fn folder_failure(error: FolderError) -> Failure {
    match error {
        FolderError::NoJob { path } => Failure::not_found("job", path.display().to_string(), []),
        error => Failure::Usage(error.to_string()),
    }
}
