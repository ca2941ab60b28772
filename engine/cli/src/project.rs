//! The project of a job: the folder around the job's own with a `baton.json`.
//!
//! It is found from the job's folder. The current folder may belong to another project, which must neither lend its files to a
//! job that somebody sent nor show it any memories.

use std::path::{Path, PathBuf};

use baton_config::{Project, ProjectMemory};
use baton_types::id::{JobId, MemoryId, ProjectId};

use crate::exit::Failure;
use crate::place::{PROJECT_FILE, Place, read_project, within_project};

/// The project of a job.
pub(crate) struct JobProject {
    /// Its folder, without links.
    pub(crate) folder: PathBuf,
    pub(crate) settings: Project,
}

impl JobProject {
    /// Returns the project of the job in `job`, if there is one. `job` has no links.
    pub(crate) fn of(place: &Place, job: &Path) -> Result<Option<Self>, Failure> {
        let Some(folder) = within_project(job).find(|folder| baton_files::is_there(&folder.join(PROJECT_FILE))) else {
            return Ok(None);
        };
        let settings = read_project(place, &folder.join(PROJECT_FILE))?;
        Ok(Some(Self { folder: folder.to_owned(), settings }))
    }
}

/// Returns the owner of the long-term memories of the job `id` in `folder`, which has no links.
///
/// The key contains the job's folder. If the runs are kept in the same project, this is a path within the project, so a
/// project can be moved with its memories. Otherwise it is an absolute path. Another folder never gives the same key in the
/// same store.
pub(crate) fn memory(place: &Place, id: &JobId, folder: &Path) -> Result<MemoryId, Failure> {
    let Some(JobProject { folder: project, settings }) = JobProject::of(place, folder)? else {
        return Ok(MemoryId::of_job(id, Some(folder)));
    };
    Ok(match settings.memory {
        Some(ProjectMemory::Project) => MemoryId::of_project(&in_project(place, &project, &project)),
        Some(ProjectMemory::Job) | None => MemoryId::of_job(id, Some(&in_project(place, &project, folder))),
    })
}

/// Returns the project that breadcrumbs of `folder` belong to, which has no links. Without a project around it, it is the folder
/// itself. The key has the same form as that of a memory, for the same reasons.
pub(crate) fn project_id(place: &Place, folder: &Path) -> Result<ProjectId, Failure> {
    let project = JobProject::of(place, folder)?.map_or_else(|| folder.to_owned(), |project| project.folder);
    Ok(ProjectId::of(&MemoryId::of_project(&in_project(place, &project, &project))))
}

/// Returns `folder` as a path in `project` if the runs are kept in the project, and otherwise as it is.
fn in_project(place: &Place, project: &Path, folder: &Path) -> PathBuf {
    let store = place.store_file();
    let known = store.as_deref().and_then(|store| store.ancestors().find_map(|above| above.canonicalize().ok()));
    match folder.strip_prefix(project) {
        Ok(inner) if known.is_some_and(|known| known.starts_with(project)) => Path::new(".").join(inner),
        _ => folder.to_owned(),
    }
}
