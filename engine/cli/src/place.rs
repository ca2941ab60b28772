//! The place of a command: the project in or above the current folder, its store, its jobs and its tool configs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_config::{MAX_FILE_BYTES, Project, Role, Sources, load_project};
use baton_store::{CopiedStore, MemoryStore, PostgresStore, SqliteStore, Store, StoreError};
use baton_types::config::Origin;

use crate::exit::Failure;
use crate::screen::Screen;

/// The file that marks the folder of a project.
pub(crate) const PROJECT_FILE: &str = "baton.json";
/// The file that marks the folder of a job.
pub(crate) const JOB_FILE: &str = "job.json";
/// The folder for state.
const STATE_FOLDER: &str = ".baton";
/// The folder for tool configs of a crate or a project.
const TOOL_CONFIGS: &str = "tool-configs";
/// Folders of a project that are searched for a job's name.
const JOB_FOLDERS: [&str; 3] = ["jobs", "examples", "."];

/// Returns a path that is the same from every current folder.
pub(crate) fn absolute(path: &Path) -> String {
    let known = path.canonicalize().or_else(|_| {
        let folder = path.parent().unwrap_or(path).canonicalize()?;
        std::io::Result::Ok(folder.join(path.file_name().unwrap_or_default()))
    });
    known.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// Waits for a database. Commands run on threads where other tasks are not held up.
fn wait_for<T>(connecting: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connecting))
}

/// The folder in which a command works, the store it uses, and the screen it prints on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The screen.
    pub(crate) screen: Screen,
    /// The current folder.
    pub(crate) current: PathBuf,
    /// The folder from which paths are shown: the one in which the person typed the command.
    pub(crate) start: PathBuf,
    /// The store from the options or the environment.
    store: Option<String>,
    /// The address of the bus from the options or the environment.
    bus: Option<String>,
    /// The settings from the project's file.
    settings: Project,
}

impl Place {
    /// Returns the place at the current folder of the process.
    pub(crate) fn here(screen: Screen, store: Option<String>, bus: Option<String>) -> Result<Self, Failure> {
        let current = std::env::current_dir().map_err(|error| Failure::file(Path::new("."), error))?;
        let store = store.filter(|store| !store.is_empty());
        let bus = bus.filter(|bus| !bus.is_empty());
        Self { screen, start: current.clone(), current, store, bus, settings: Project::default() }.with_project()
    }

    /// Returns the place as if the command had been started in `folder`. Only the paths that it shows do not change.
    pub(crate) fn at(&self, folder: &Path) -> Result<Self, Failure> {
        let current = folder.canonicalize().map_err(|error| Failure::file(folder, error))?;
        Self { current, settings: Project::default(), ..self.clone() }.with_project()
    }

    fn with_project(mut self) -> Result<Self, Failure> {
        let file = self.project().join(PROJECT_FILE);
        if baton_files::is_there(&file) {
            self.settings = read_project(&self, &file)?;
        }
        Ok(self)
    }

    /// Returns the address of the bus, if there is one.
    pub(crate) fn bus(&self) -> Option<&str> {
        self.bus.as_deref()
    }

    /// Returns the settings of the project around the current folder.
    pub(crate) fn settings(&self) -> &Project {
        &self.settings
    }

    /// Returns the same place with another screen.
    pub(crate) fn with_screen(&self, screen: Screen) -> Self {
        Self { screen, ..self.clone() }
    }

    /// Returns the same place with another store.
    pub(crate) fn with_store(&self, store: String) -> Self {
        Self { store: Some(store), ..self.clone() }
    }

    /// Returns the nearest folder with a project file, from the current folder upward; else the current folder.
    pub(crate) fn project(&self) -> &Path {
        self.current.ancestors().find(|folder| baton_files::is_there(&folder.join(PROJECT_FILE))).unwrap_or(&self.current)
    }

    /// Returns the folder for state that outlives a command.
    pub(crate) fn state(&self) -> PathBuf {
        match std::env::var_os("BATON_HOME").filter(|home| !home.is_empty()) {
            Some(home) => PathBuf::from(home),
            None => self.project().join(self.settings.store.as_deref().unwrap_or(STATE_FOLDER)),
        }
    }

    /// Returns the path of the store's file; `None` for a store in memory or in a database.
    pub(crate) fn store_file(&self) -> Option<PathBuf> {
        match self.store.as_deref() {
            Some("memory") => None,
            Some(address) if PostgresStore::is_address(address) => None,
            Some(file) => Some(self.current.join(file)),
            None => Some(self.state().join("baton.db")),
        }
    }

    /// Returns the address of the database that has the store; `None` for another store.
    fn database(&self) -> Option<&str> {
        self.store.as_deref().filter(|store| PostgresStore::is_address(store))
    }

    /// Returns a name of the store that no other store has, without a password; `None` for a store in memory.
    pub(crate) fn kept_in(&self) -> Option<String> {
        match self.database() {
            Some(_) => Some(self.shown_store()),
            None => self.store_file().map(|file| absolute(&file)),
        }
    }

    /// Returns the name of the store as people see it.
    pub(crate) fn shown_store(&self) -> String {
        match (self.database(), self.store_file()) {
            (Some(address), _) => PostgresStore::shown(address).unwrap_or_else(|error| error.to_string()),
            (None, Some(file)) => self.shown(&file),
            (None, None) => "memory".to_owned(),
        }
    }

    /// Opens the store, and creates it if it does not exist.
    pub(crate) fn open_store(&self) -> Result<Arc<dyn Store>, Failure> {
        self.check_scheme()?;
        if let Some(address) = self.database() {
            return Ok(Arc::new(wait_for(PostgresStore::connect(address)).map_err(Failure::of_store)?));
        }
        let Some(file) = self.store_file() else { return Ok(Arc::new(MemoryStore::default())) };
        self.check_links(&file)?;
        let store = SqliteStore::open(&file).map_err(Failure::of_store)?;
        file.parent().into_iter().for_each(|folder| self.ignore_state(folder));
        Ok(Arc::new(store))
    }

    /// Opens the store if it exists. Reading runs creates no store.
    pub(crate) fn existing_store(&self) -> Result<Option<Arc<dyn Store>>, Failure> {
        self.check_scheme()?;
        match (self.database(), self.store_file()) {
            (Some(address), _) => self.existing_database(address).map(Some),
            (None, Some(file)) if !file.is_file() => self.without_store(&file),
            _ => self.open_store().map(Some),
        }
    }

    /// Opens a database that has the tables of a store.
    fn existing_database(&self, address: &str) -> Result<Arc<dyn Store>, Failure> {
        match wait_for(PostgresStore::connect_existing(address)).map_err(Failure::of_store)? {
            Some(store) => Ok(Arc::new(store)),
            None => Err(Failure::not_found("store", self.shown_store(), [])),
        }
    }

    /// Returns `None` if no run was stored yet. Fails if the person named the store, or if something else exists at `file`.
    fn without_store<T>(&self, file: &Path) -> Result<Option<T>, Failure> {
        // A log without its store means that the store was moved away. To report that there are no runs would be wrong.
        if let Err(error @ StoreError::OrphanedLog { .. }) = SqliteStore::open_to_read(file) {
            return Err(Failure::Store(error.to_string()));
        }
        if self.store.is_some() || file.exists() {
            return Err(Failure::not_found("store", self.shown(file), []));
        }
        Ok(None)
    }

    /// Opens the store for reading, if it exists.
    pub(crate) fn store_to_read(&self) -> Result<Option<Arc<dyn Store>>, Failure> {
        self.check_scheme()?;
        if let Some(address) = self.database() {
            return self.existing_database(address).map(Some);
        }
        self.store_file().map_or(Ok(()), |file| self.check_links(&file))?;
        match self.store_file() {
            Some(file) if file.is_file() => Ok(Some(Arc::new(SqliteStore::open_to_read(&file).map_err(Failure::of_store)?))),
            Some(file) => self.without_store(&file),
            None => Ok(None),
        }
    }

    /// Opens the store to copy it.
    pub(crate) fn store_to_copy(&self) -> Result<Box<dyn CopiedStore>, Failure> {
        let missing = || Failure::not_found("store", self.shown_store(), []);
        self.check_scheme()?;
        if let Some(address) = self.database() {
            let store = wait_for(PostgresStore::connect_existing(address)).map_err(Failure::of_store)?;
            return Ok(Box::new(store.ok_or_else(missing)?));
        }
        let file = self.store_file().ok_or_else(no_copy_in_memory)?;
        if !file.is_file() {
            return self.without_store(&file)?.ok_or_else(missing);
        }
        Ok(Box::new(SqliteStore::open_to_read(&file).map_err(Failure::of_store)?))
    }

    /// Opens the store to copy another one into it, and creates it if it does not exist.
    pub(crate) fn store_for_copy(&self) -> Result<Box<dyn CopiedStore>, Failure> {
        self.check_scheme()?;
        if let Some(address) = self.database() {
            return Ok(Box::new(wait_for(PostgresStore::connect(address)).map_err(Failure::of_store)?));
        }
        let file = self.store_file().ok_or_else(no_copy_in_memory)?;
        let store = SqliteStore::open(&file).map_err(Failure::of_store)?;
        file.parent().into_iter().for_each(|folder| self.ignore_state(folder));
        Ok(Box::new(store))
    }

    /// Opens the store to remove runs, if it exists. A store in memory has none that another process made.
    pub(crate) fn store_to_maintain(&self) -> Result<Option<Arc<dyn Store>>, Failure> {
        self.check_scheme()?;
        if let Some(address) = self.database() {
            return self.existing_database(address).map(Some);
        }
        self.store_file().map_or(Ok(()), |file| self.check_links(&file))?;
        let Some(file) = self.store_file() else {
            return Err(Failure::Usage(
                "a store in memory ends with its process, so there is nothing to check or remove".to_owned(),
            ));
        };
        if !file.is_file() {
            return self.without_store(&file);
        }
        Ok(Some(Arc::new(SqliteStore::open(&file).map_err(Failure::of_store)?)))
    }

    /// Refuses a store behind a link inside the project. Such a link may have come with the project, and may lead anywhere. A
    /// person who sets the place of the store is responsible for its links.
    fn check_links(&self, file: &Path) -> Result<(), Failure> {
        let Ok(below) = file.strip_prefix(self.project()) else { return Ok(()) };
        if self.store.is_some() || std::env::var_os("BATON_HOME").is_some_and(|home| !home.is_empty()) {
            return Ok(());
        }
        let mut path = self.project().to_owned();
        let own = ["baton.db-wal", "baton.db-shm", "baton.db-owners", ".gitignore"];
        let folders = below.components().map(|part| {
            path.push(part);
            path.clone()
        });
        let paths: Vec<PathBuf> = folders.chain(own.map(|name| file.with_file_name(name))).collect();
        match paths.iter().find(|path| std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink())) {
            None => Ok(()),
            Some(link) => Err(Failure::Usage(format!(
                "{} is a symbolic link, and runs are kept in the project; choose another place with --store",
                self.shown(link)
            ))),
        }
    }

    /// Refuses an address such as `mysql://…`. Without this check, it would become the name of a file.
    fn check_scheme(&self) -> Result<(), Failure> {
        match self.store.as_deref().and_then(|store| store.split_once("://")) {
            Some((scheme, _)) if self.database().is_none() => Err(Failure::Usage(format!(
                "this program has no store for {scheme}://; expected memory, a file, or postgres://USER@HOST/DATABASE"
            ))),
            _ => Ok(()),
        }
    }

    /// Adds a `.gitignore` to a folder for state, so that state is not committed. A folder that also has other files is left as
    /// it is, since those may be meant for a commit.
    fn ignore_state(&self, folder: &Path) {
        let marker = folder.join(".gitignore");
        let mut names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let is_own = folder.ends_with(STATE_FOLDER) || names.all(|name| name.to_string_lossy().starts_with("baton.db"));
        if folder == self.state() && is_own && !marker.exists() {
            let _best_effort = baton_files::private::write_new(&marker, b"*\n");
        }
    }

    /// Returns the folder of the job `name`: a folder, a `job.json`, or the name of one of the project's jobs.
    pub(crate) fn job_folder(&self, name: &Path) -> Result<PathBuf, Failure> {
        let given = self.current.join(name);
        if given.join(JOB_FILE).is_file() {
            return Ok(given);
        }
        if given.is_file() && given.file_name().is_some_and(|file| file == JOB_FILE) {
            return Ok(given.parent().unwrap_or(&self.current).to_owned());
        }
        if let Some(found) =
            self.job_folders().into_iter().map(|folder| folder.join(name)).find(|folder| folder.join(JOB_FILE).is_file())
        {
            return Ok(found);
        }
        if given.is_dir() {
            return Err(Failure::NotFound { what: "job in", name: name.display().to_string(), known: self.jobs() });
        }
        Err(Failure::not_found("job", name.display().to_string(), self.jobs()))
    }

    /// Returns the folders whose jobs can be named: the folder in the project's file, else the usual ones.
    fn job_folders(&self) -> Vec<PathBuf> {
        match &self.settings.jobs {
            Some(jobs) => vec![self.project().join(jobs)],
            None => JOB_FOLDERS.iter().map(|folder| self.project().join(folder)).collect(),
        }
    }

    /// Returns the folder for new jobs: the project's folder of jobs, if it has one, else the current folder.
    pub(crate) fn home_of_new_jobs(&self) -> PathBuf {
        let named = self.project().join(self.settings.jobs.as_deref().unwrap_or("jobs"));
        if self.settings.jobs.is_some() || named.is_dir() { named } else { self.current.clone() }
    }

    /// Returns the names of the project's jobs.
    pub(crate) fn jobs(&self) -> Vec<String> {
        let mut jobs: Vec<String> = self
            .job_folders()
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join(JOB_FILE).is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        jobs.sort();
        jobs.dedup();
        jobs
    }

    /// Returns the job in the current folder, if there is one and [`Place::jobs`] does not have it.
    pub(crate) fn other_job_here(&self) -> Option<PathBuf> {
        let is_named = |name: &String| self.job_folder(Path::new(name)).is_ok_and(|folder| is_same(&folder, &self.current));
        (self.current.join(JOB_FILE).is_file() && !self.jobs().iter().any(is_named)).then(|| PathBuf::from("."))
    }

    /// Returns `path` as the person would type it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.start).unwrap_or(path);
        if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
    }

    /// Returns the tool configs outside of a job's `tools/`. They are the built-in configs, and the files in the nearest
    /// `tool-configs/` above the program, the current folder and the job. A file replaces a built-in config of the same name.
    /// Only the files next to the program belong to the person; the others may have come with the job.
    pub(crate) fn tool_configs(&self, job: Option<&Path>) -> Result<ToolConfigs, Failure> {
        let mut configs = ToolConfigs::default();
        for (name, text) in crate::builtin_tool_configs() {
            configs.0.push((Origin::BuiltIn, format!("{TOOL_CONFIGS}/{name}"), (*text).to_owned()));
        }
        let program = std::env::current_exe().ok();
        let starts = [(Origin::Person, program.as_deref()), (Origin::Job, Some(self.current.as_path())), (Origin::Job, job)];
        let mut folders: Vec<(Origin, PathBuf)> = Vec::new();
        for (origin, start) in starts {
            let found = start
                .and_then(|start| within_project(start).map(|folder| folder.join(TOOL_CONFIGS)).find(|folder| folder.is_dir()));
            folders.extend(
                found
                    .map(|folder| (origin, folder))
                    .filter(|(_, folder)| folders.iter().all(|(_, known)| !is_same(known, folder))),
            );
        }
        for (origin, folder) in folders {
            if origin.needs_trust() && std::fs::symlink_metadata(&folder).is_ok_and(|facts| facts.is_symlink()) {
                return Err(Failure::Usage(format!(
                    "{} is a symbolic link; tool configs must be files of the project",
                    folder.display()
                )));
            }
            for file in json_files(&folder)? {
                let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let text = read_config(&file)?;
                configs.replace(&name, origin, self.shown(&file), String::from_utf8_lossy(&text).into_owned());
            }
        }
        Ok(configs)
    }
}

/// Returns the refusal of a copy from or to a store in memory.
fn no_copy_in_memory() -> Failure {
    Failure::Usage("a store in memory ends with its process, so it cannot be copied; name a file or a database".to_owned())
}

/// Tool configs outside of a job's `tools/`: the origin of each, its path for messages, and its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolConfigs(Vec<(Origin, String, String)>);

impl ToolConfigs {
    /// Returns the configs in the form that the reader of jobs expects.
    pub(crate) fn borrowed(&self) -> Vec<(Origin, &str, &str)> {
        self.0.iter().map(|(origin, path, text)| (*origin, path.as_str(), text.as_str())).collect()
    }

    /// Adds the configs to `sources`.
    pub(crate) fn add_to(&self, sources: &mut Sources) {
        self.0.iter().for_each(|(origin, path, text)| sources.add_from(*origin, Role::BuiltinTool, path.as_str(), text));
    }

    /// Adds a file called `name`, and removes the config that it replaces. If both have the same text, the more trusted origin
    /// remains.
    fn replace(&mut self, name: &str, origin: Origin, path: String, text: String) {
        let known = self.0.iter().position(|(_, known, _)| Path::new(known).file_name() == Some(name.as_ref()));
        let replaced = known.map(|at| self.0.remove(at));
        let origin = replaced.filter(|(_, _, before)| *before == text).map_or(origin, |(before, _, _)| before.min(origin));
        self.0.push((origin, path, text));
    }
}

/// Returns true if two paths lead to the same folder.
fn is_same(left: &Path, right: &Path) -> bool {
    left == right || matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}

/// Returns `start` and the folders above it, up to the first root of a project or repository. The folders above that root may
/// belong to somebody else.
pub(crate) fn within_project(start: &Path) -> impl Iterator<Item = &Path> {
    let is_root = |folder: &Path| folder.join(PROJECT_FILE).is_file() || folder.join(".git").exists();
    let mut done = false;
    start.ancestors().take_while(move |folder| !std::mem::replace(&mut done, is_root(folder)))
}

/// Reads the file of a project.
pub(crate) fn read_project(place: &Place, file: &Path) -> Result<Project, Failure> {
    load_project(&place.shown(file), &read_config(file)?).map_err(|faults| Failure::Faults(faults.to_string()))
}

/// Reads a config, which must be a file. At most one byte more than its reader accepts is read.
fn read_config(file: &Path) -> Result<Vec<u8>, Failure> {
    baton_files::read_start(file, MAX_FILE_BYTES as u64 + 1).map_err(|error| Failure::file(file, error))
}

/// Returns the JSON files in `folder` itself, ordered by name.
pub(crate) fn json_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    Ok(files)
}
