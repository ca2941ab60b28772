//! A job's folder on disk: its files as [`Sources`], and the bytes of its documents.
//!
//! Only files inside the folder are read, and none through a symbolic link. So a job that somebody sent cannot show other
//! files of this machine to a model. This module does not check the contents of the files: the loader does.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use baton_config::{MAX_FILE_BYTES, Role, Sources};
use baton_types::config::Origin;
use baton_types::id::ContentHash;
use baton_types::path::DocumentPath;
use serde_json::Value;

pub use crate::trust::MAX_DOCUMENT_BYTES;
use crate::trust::named_file;

/// The file that makes a folder a job.
const JOB_FILE: &str = "job.json";

/// The file that names models, in a job's folder and in a person's own configuration.
pub const MODELS_FILE: &str = "models.json";

/// The most files of a folder that messages propose from.
const MAX_NEARBY: usize = 1_000;

/// Why a folder could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no job there.
    #[error("there is no job at {path}: expected a folder with a job.json, or the file itself", path = .path.display())]
    NoJob {
        /// Path that was tried.
        path: PathBuf,
    },
    /// A file of the job is a symbolic link, or is behind one.
    #[error("{path} is a symbolic link; a job's files must be in its folder", path = .path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A path that leaves the folder or could mean two files.
    #[error(transparent)]
    Path(#[from] baton_types::path::PathError),
    /// A file name that is not Unicode.
    #[error("the file name {name:?} is not Unicode")]
    Name {
        /// The name.
        name: std::ffi::OsString,
    },
    /// The disk reported an error.
    #[error("{path} cannot be read: {error}", path = .path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The folder of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFolder {
    /// Its absolute path.
    path: PathBuf,
}

/// A tool config from outside of the job's `tools/`: its origin, its path as shown in messages, and its text.
pub type ToolConfig<'t> = (Origin, &'t str, &'t str);

/// The roles of the files of a folder with agents and tools.
struct Roles {
    agent: Role,
    tool: Role,
    prompt: Role,
    program: Role,
    command_file: Role,
    configuration: Role,
}

const OF_JOB: Roles = Roles {
    agent: Role::Agent,
    tool: Role::Tool,
    prompt: Role::Prompt,
    program: Role::Program,
    command_file: Role::CommandFile,
    configuration: Role::Configuration,
};
const OF_PROJECT: Roles = Roles {
    agent: Role::SharedAgent,
    tool: Role::SharedTool,
    prompt: Role::SharedPrompt,
    program: Role::SharedProgram,
    command_file: Role::SharedCommandFile,
    configuration: Role::SharedConfiguration,
};

/// Reads the job at `path`, a folder or a `job.json`, with tool configs besides its own, and with what the jobs of `project`
/// share, if its folder is above the job's.
pub fn read_job(
    path: &Path,
    tool_configs: &[ToolConfig<'_>],
    project: Option<&Path>,
) -> Result<(Sources, JobFolder), FolderError> {
    let no_job = || FolderError::NoJob { path: path.to_owned() };
    let (shown, file) = if path.is_dir() {
        (path, JOB_FILE.to_owned())
    } else {
        let file = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_job)?;
        (path.parent().unwrap_or(Path::new("")), file.to_owned())
    };
    let absolute = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
    let folder = JobFolder { path: fs::canonicalize(absolute).map_err(|_| no_job())? };
    let job = folder.read_bounded(&file)?.ok_or_else(no_job)?;
    read_parts(shown, folder, (&file, &job), tool_configs, project)
}

/// Reads a job that has no file of its own: its `job.json` is `job`. Its other files are those of the folder at `path`.
pub fn read_job_of(path: &Path, job: &[u8], tool_configs: &[ToolConfig<'_>]) -> Result<(Sources, JobFolder), FolderError> {
    read_parts(path, JobFolder::at(path)?, (JOB_FILE, job), tool_configs, None)
}

fn read_parts(
    shown: &Path,
    folder: JobFolder,
    (file, job): (&str, &[u8]),
    tool_configs: &[ToolConfig<'_>],
    project: Option<&Path>,
) -> Result<(Sources, JobFolder), FolderError> {
    let mut sources = Sources::new(shown_prefix(shown));
    let mut named = Named::default();
    for (origin, name, text) in tool_configs {
        sources.add_from(*origin, Role::BuiltinTool, *name, text);
        named.by_tool(text.as_bytes());
    }
    named.by_job(job);
    sources.add(Role::Job, file, job);
    if let Some(models) = folder.read_bounded(MODELS_FILE)? {
        sources.add(Role::Models, MODELS_FILE, models);
    }
    folder.read_configs(&OF_JOB, &mut named, &mut sources)?;
    for path in &named.scripts {
        if let Some(content) = folder.read_bounded(path)? {
            sources.add(Role::ModelScript, path.as_str(), content);
        }
    }
    if let Some(project) = project {
        read_shared(project, &folder, &mut sources)?;
    }
    for path in &named.documents {
        if folder.find(path)?.is_some() {
            sources.add_existing(path.as_str());
        }
    }
    for (subfolder, depth) in [("", 1), ("documents", 8), ("prompts", 2), ("programs", 2), ("scripts", 2)] {
        // What cannot be listed cannot be proposed.
        folder.list(subfolder, depth).unwrap_or_default().into_iter().for_each(|path| sources.add_nearby(path));
    }
    Ok((sources.in_order(), folder))
}

/// Reads the agents and tools that the jobs of the project in `project` share, for commands that need no job. The folder counts
/// as the job's.
pub fn read_project(project: &Path, tool_configs: &[ToolConfig<'_>]) -> Result<(Sources, JobFolder), FolderError> {
    let mut sources = Sources::default();
    for (origin, name, text) in tool_configs {
        sources.add_from(*origin, Role::BuiltinTool, *name, text);
    }
    let folder = JobFolder::at(project)?;
    sources.share(shown_prefix(project), 0);
    folder.read_configs(&OF_PROJECT, &mut Named::default(), &mut sources)?;
    Ok((sources.in_order(), folder))
}

/// Adds the agents and tools that the jobs of the project in `project` share. A job that is in the project's own folder has all
/// its files there already.
fn read_shared(project: &Path, job: &JobFolder, sources: &mut Sources) -> Result<(), FolderError> {
    let folder = JobFolder::at(project)?;
    let Some(above) = job.path.ancestors().position(|above| above == folder.path).filter(|above| *above > 0) else {
        return Ok(());
    };
    sources.share(shown_prefix(project), above);
    folder.read_configs(&OF_PROJECT, &mut Named::default(), sources)
}

/// Reads the file of a document. At most [`MAX_DOCUMENT_BYTES`], because a file may be huge, and a device endless.
pub fn read_document(file: &Path) -> io::Result<Vec<u8>> {
    baton_files::read_from(File::open(file)?, MAX_DOCUMENT_BYTES)
}

impl JobFolder {
    /// Returns the folder's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder at `path`.
    fn at(path: &Path) -> Result<Self, FolderError> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let path = fs::canonicalize(here).map_err(|error| FolderError::Disk { path: path.to_owned(), error })?;
        Ok(Self { path })
    }

    /// Adds the configs in `agents/`, `tools/` and `configs/`, and the files that they and those in `named` name.
    fn read_configs(&self, roles: &Roles, named: &mut Named, sources: &mut Sources) -> Result<(), FolderError> {
        for (role, subfolder) in [(roles.agent, "agents"), (roles.tool, "tools"), (roles.configuration, "configs")] {
            let is_config = |path: &String| Path::new(path).extension().is_some_and(|extension| extension == "json");
            for path in self.list(subfolder, 1)?.into_iter().filter(is_config) {
                let Some(content) = self.read_bounded(&path)? else { continue };
                match role {
                    Role::Agent | Role::SharedAgent => named.by_agent(&content),
                    Role::Configuration | Role::SharedConfiguration => {}
                    _ => named.by_tool(&content),
                }
                sources.add(role, path, content);
            }
        }
        for (role, paths) in [(roles.prompt, &named.prompts), (roles.program, &named.programs)] {
            for path in paths {
                if let Some(content) = self.read_bounded(path)? {
                    sources.add(role, path.as_str(), content);
                }
            }
        }
        for argument in &named.arguments {
            // An unreadable file is refused when trust is judged.
            let Ok(Some(file)) = named_file(Some(self.path()), argument) else { continue };
            if let Ok(content) = baton_files::read(&file, MAX_DOCUMENT_BYTES) {
                sources.add(roles.command_file, argument.as_str(), ContentHash::of(&content).to_string());
            }
        }
        Ok(())
    }

    /// Returns the bytes of the file `path` of the folder, such as a [`baton_types::config::JobDocument::file`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FolderError> {
        let absolute = self.path.join(path);
        let missing = || FolderError::Disk { path: absolute.clone(), error: io::Error::from(io::ErrorKind::NotFound) };
        let found = self.find(DocumentPath::parse(path)?.as_str())?.ok_or_else(missing)?;
        baton_files::read(&found, MAX_DOCUMENT_BYTES).map_err(|error| FolderError::Disk { path: found, error })
    }

    /// Returns the file at `path`, or nothing if there is none.
    fn find(&self, path: &str) -> Result<Option<PathBuf>, FolderError> {
        let mut absolute = self.path.clone();
        for component in path.split('/') {
            absolute.push(component);
            match fs::symlink_metadata(&absolute) {
                Ok(facts) if facts.is_symlink() => return Err(FolderError::Link { path: absolute }),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
                Err(error) => return Err(FolderError::Disk { path: absolute, error }),
            }
        }
        match fs::symlink_metadata(&absolute) {
            Ok(facts) if facts.is_dir() => Ok(None),
            // Opening it refuses a pipe, a socket or a device. It is not passed over: a person sees a file there.
            _ => Ok(Some(absolute)),
        }
    }

    /// Returns the first bytes of a file that the loader reads: one more than it allows.
    fn read_bounded(&self, path: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let Some(found) = self.find(path)? else { return Ok(None) };
        let content = baton_files::read_start(&found, MAX_FILE_BYTES as u64 + 1);
        content.map(Some).map_err(|error| FolderError::Disk { path: found, error })
    }

    /// Returns the files in `subfolder`, at most `depth` levels down, ordered; none if it does not exist. Hidden ones are left out.
    fn list(&self, subfolder: &str, depth: usize) -> Result<Vec<String>, FolderError> {
        let mut found = Vec::new();
        let mut open = vec![(subfolder.to_owned(), depth)];
        while let Some((here, depth)) = open.pop() {
            let absolute = self.path.join(&here);
            match fs::symlink_metadata(&absolute) {
                Ok(facts) if facts.is_symlink() => return Err(FolderError::Link { path: absolute }),
                Ok(facts) if facts.is_dir() => {}
                _ => continue,
            }
            let refuse = |error| FolderError::Disk { path: absolute.clone(), error };
            for entry in fs::read_dir(&absolute).map_err(refuse)? {
                let entry = entry.map_err(refuse)?;
                let name = entry.file_name().into_string().map_err(|name| FolderError::Name { name })?;
                if name.starts_with('.') {
                    continue;
                }
                let path = if here.is_empty() { name } else { format!("{here}/{name}") };
                let kind = entry.file_type().map_err(refuse)?;
                if kind.is_dir() && depth > 1 && found.len() < MAX_NEARBY {
                    open.push((path, depth - 1));
                } else if !kind.is_dir() {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The files that configs name. Parsed leniently: the loader reports faults.
#[derive(Default)]
struct Named {
    documents: BTreeSet<String>,
    prompts: BTreeSet<String>,
    programs: BTreeSet<String>,
    scripts: BTreeSet<String>,
    /// The arguments of commands: some of them name files.
    arguments: BTreeSet<String>,
}

impl Named {
    fn by_tool(&mut self, content: &[u8]) {
        // Most tools run no command, and need not be parsed for that.
        if !content.windows(6).any(|word| word == b"\"exec\"") {
            return;
        }
        let Ok(tool) = serde_json::from_slice::<Value>(content) else { return };
        let arguments = tool["exec"]["command"].as_array().into_iter().flatten();
        self.arguments.extend(arguments.filter_map(Value::as_str).map(str::to_owned));
    }

    fn by_job(&mut self, content: &[u8]) {
        let Ok(job) = serde_json::from_slice::<Value>(content) else { return };
        for document in job["documents"].as_array().into_iter().flatten() {
            let path = document.as_str().or_else(|| document["path"].as_str());
            match (document["file"].as_str(), path) {
                (Some(file), _) => put(&mut self.documents, file),
                (None, Some(path)) => {
                    put(&mut self.documents, path);
                    put(&mut self.documents, &format!("documents/{}", path.trim_start_matches("./")));
                }
                (None, None) => {}
            }
        }
        for model in job["models"].as_object().into_iter().flat_map(serde_json::Map::values) {
            if let Some(script) = model["script"].as_str() {
                put(&mut self.scripts, script);
            }
        }
    }

    fn by_agent(&mut self, content: &[u8]) {
        let Ok(agent) = serde_json::from_slice::<Value>(content) else { return };
        if let Some(file) = agent["system_prompt"]["file"].as_str() {
            put(&mut self.prompts, file);
        }
        if let Some(file) = agent["program"].as_str() {
            put(&mut self.programs, file);
        }
    }
}

/// Adds a path that stays in the folder; the loader reports other paths.
fn put(paths: &mut BTreeSet<String>, path: &str) {
    if let Ok(path) = DocumentPath::parse(path) {
        paths.insert(path.as_str().to_owned());
    }
}

/// Returns the prefix of the folder's files in messages: nothing for the present folder.
fn shown_prefix(folder: &Path) -> String {
    let shown = folder.display().to_string();
    let shown = shown.trim_end_matches('/');
    let shown = shown.strip_prefix("./").unwrap_or(shown);
    match shown {
        "." => String::new(),
        "" if folder.is_absolute() => "/".to_owned(),
        plain => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for subfolder in ["agents", "tools", "documents/deep", "prompts"] {
            fs::create_dir_all(folder.path().join(subfolder)).unwrap();
        }
        let job = r#"{"documents": ["a.csv", {"path": "b.csv", "file": "documents/deep/b.csv"}, "../outside.csv"],
                      "models": {"m": {"script": "m.script.json"}}}"#;
        let files = [
            ("job.json", job),
            ("agents/one.json", r#"{"system_prompt": {"file": "prompts/one.md"}}"#),
            ("agents/notes.txt", "not a config"),
            ("tools/echo.json", "{}"),
            ("documents/a.csv", "1"),
            ("documents/deep/b.csv", "2"),
            ("prompts/one.md", "You are one."),
            ("m.script.json", "{}"),
        ];
        for (path, text) in files {
            fs::write(folder.path().join(path), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_pipe_socket_or_device_in_place_of_a_config_is_an_error() {
        for path in ["job.json", "models.json", "agents/z.json", "tools/x.json", "m.script.json"] {
            let folder = job_folder();
            let _replaced = fs::remove_file(folder.path().join(path));
            let _socket = std::os::unix::net::UnixListener::bind(folder.path().join(path)).unwrap();
            let refused = read_job(folder.path(), &[], None).unwrap_err().to_string();
            assert!(refused.contains(path) && refused.contains("not a regular file"), "{path}: {refused}");
        }
    }

    #[test]
    fn a_folder_and_its_job_file_read_alike() {
        let folder = job_folder();
        let (sources, read) = read_job(folder.path(), &[(Origin::BuiltIn, "tool-configs/echo.json", "{}")], None).unwrap();
        let listed: Vec<_> = sources.files().map(|source| (source.role, source.path.as_str())).collect();
        assert_eq!(
            listed,
            [
                (Role::Job, "job.json"),
                (Role::Agent, "agents/one.json"),
                (Role::Tool, "tools/echo.json"),
                (Role::BuiltinTool, "tool-configs/echo.json"),
                (Role::Prompt, "prompts/one.md"),
                (Role::ModelScript, "m.script.json"),
            ]
        );
        assert!(sources.exists("documents/a.csv") && sources.exists("documents/deep/b.csv") && !sources.exists("a.csv"));
        assert_eq!(read.read("documents/a.csv").unwrap(), b"1");
        let (again, _) =
            read_job(&folder.path().join("job.json"), &[(Origin::BuiltIn, "tool-configs/echo.json", "{}")], None).unwrap();
        assert_eq!(sources, again);
    }

    #[test]
    fn what_is_not_in_the_folder_is_not_read() {
        let folder = job_folder();
        let (_, read) = read_job(folder.path(), &[], None).unwrap();
        for path in ["../outside.csv", "/etc/passwd", "documents/../../x", "documents/none.csv", "documents"] {
            assert!(read.read(path).is_err(), "{path} was read");
        }
        assert!(matches!(read_job(&folder.path().join("none"), &[], None), Err(FolderError::NoJob { .. })));
        assert!(matches!(read_job(&folder.path().join("agents"), &[], None), Err(FolderError::NoJob { .. })));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_refused() {
        for (link, target) in [("documents/a.csv", "/etc/passwd"), ("agents/two.json", "one.json"), ("job.json", "other.json")] {
            let folder = job_folder();
            let path = folder.path().join(link);
            let _ = fs::remove_file(&path);
            std::os::unix::fs::symlink(target, &path).unwrap();
            assert!(matches!(read_job(folder.path(), &[], None), Err(FolderError::Link { .. })), "{link}");
        }
    }

    #[test]
    fn a_document_that_is_too_large_is_refused_before_it_is_read() {
        let folder = job_folder();
        let huge = File::create(folder.path().join("documents/a.csv")).unwrap();
        huge.set_len(MAX_DOCUMENT_BYTES + 1).unwrap();
        let (_, files) = read_job(folder.path(), &[], None).unwrap();
        let refused = files.read("documents/a.csv").unwrap_err().to_string();
        assert!(refused.contains("a.csv cannot be read: it is larger than 512 MiB"), "{refused}");
        assert_eq!(files.read("documents/deep/b.csv").unwrap(), b"2");
    }
}
