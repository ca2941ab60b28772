//! The files of a job as texts: all that the loader reads, and all that a run needs to be loaded again.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::config::Origin;
use baton_types::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// `job.json`.
    Job,
    /// `agents/<agent_id>.json`.
    Agent,
    /// `tools/<tool_id>.json` of a job.
    Tool,
    /// A tool config that comes with a program.
    BuiltinTool,
    /// A file that an agent's `system_prompt` names.
    Prompt,
    /// A file that an agent's `program` names.
    Program,
    /// A file that a model's `script` names.
    ModelScript,
    /// `baton.json`.
    Project,
    /// A table of prices.
    Prices,
    /// Limits that the start of a run asks for; no file of the folder.
    RunLimits,
    /// A script that replaces every model of the run. It is not a file of the folder.
    RunScript,
    /// `models.json` of a job.
    Models,
    /// `models.json` of the person who runs it, at the path that messages show.
    UserModels,
    /// A file of the job's folder that a command names, such as its script. The path is the command's argument, the text the
    /// hash of the content: the run knows the file again and does not keep it.
    CommandFile,
    /// `agents/<agent_id>.json` of the project, which its jobs share.
    SharedAgent,
    /// `tools/<tool_id>.json` of the project, which its jobs share.
    SharedTool,
    /// A file of the project that a shared agent's `system_prompt` names.
    SharedPrompt,
    /// A file of the project that a shared agent's `program` names.
    SharedProgram,
    /// A file of the project that the command of a shared tool names. See [`Role::CommandFile`].
    SharedCommandFile,
    /// `configs/<config_id>.json` of a job.
    Configuration,
    /// `configs/<config_id>.json` of the project, which its jobs share.
    SharedConfiguration,
}

impl Role {
    /// Whether it is the role of a file of the project, which its jobs share.
    pub const fn is_shared(self) -> bool {
        matches!(
            self,
            Self::SharedAgent
                | Self::SharedTool
                | Self::SharedPrompt
                | Self::SharedProgram
                | Self::SharedCommandFile
                | Self::SharedConfiguration
        )
    }
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its role.
    pub role: Role,
    /// Its path relative to the folder of the job, or of the project for a shared file; for a built-in tool, the path that
    /// messages show.
    pub path: String,
    /// The file's text. Invalid UTF-8 is replaced.
    pub text: String,
    /// The first byte that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_at: Option<usize>,
    /// The origin of the settings in it. Not pinned: everything that is read back from a store has the store as its origin.
    #[serde(skip)]
    pub origin: Origin,
}

/// Every file of a job. Its JSON is what a run is pinned to; [`crate::load`] reads it again on resume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// Prefix of paths in messages, such as `examples/q3-sales`. Not pinned.
    #[serde(skip)]
    prefix: String,
    /// Prefix of the paths of shared files in messages. Not pinned.
    #[serde(skip)]
    shared_prefix: String,
    /// Number of folders from the job's folder up to the project's.
    #[serde(default, skip_serializing_if = "is_zero")]
    above: usize,
    files: Vec<Source>,
    /// Files that exist besides: documents to begin with. Paths relative to the job's folder.
    existing: BTreeSet<String>,
    /// Other files of the folder, which a faulty path may have meant. Not pinned.
    #[serde(skip)]
    nearby: BTreeSet<String>,
}

impl Sources {
    /// Returns an empty list of files; messages show `folder` before their paths.
    pub fn new(folder: impl Into<String>) -> Self {
        Self { prefix: with_slash(folder.into()), ..Self::default() }
    }

    /// Sets the folder of shared files: how many folders above the job's folder it is, and what messages show before their paths.
    pub fn share(&mut self, folder: impl Into<String>, above: usize) {
        self.shared_prefix = with_slash(folder.into());
        self.above = above;
    }

    /// Returns how many folders above the job's folder that of shared files is.
    pub fn above(&self) -> usize {
        self.above
    }

    /// Returns the files without those of `role`.
    pub fn without(mut self, role: Role) -> Self {
        self.files.retain(|source| source.role != role);
        self
    }

    /// Adds a file of the job.
    pub fn add(&mut self, role: Role, path: impl Into<String>, content: impl AsRef<[u8]>) {
        self.add_from(Origin::Job, role, path, content);
    }

    /// Adds a file from `origin`.
    pub fn add_from(&mut self, origin: Origin, role: Role, path: impl Into<String>, content: impl AsRef<[u8]>) {
        let content = content.as_ref();
        let (text, invalid_at) = match std::str::from_utf8(content) {
            Ok(text) => (text.to_owned(), None),
            Err(error) => (String::from_utf8_lossy(content).into_owned(), Some(error.valid_up_to())),
        };
        self.files.push(Source { role, path: path.into(), text, invalid_at, origin });
    }

    /// Sets each file's origin to the one that `judge` returns; `None` leaves it as it is.
    pub fn attribute(&mut self, judge: impl Fn(&Source) -> Option<Origin>) {
        for source in &mut self.files {
            source.origin = judge(source).unwrap_or(source.origin);
        }
    }

    /// Replaces the job's limits for one run by those that `limits` sets.
    pub fn limit_run(&mut self, limits: &Limits) {
        self.files.retain(|source| source.role != Role::RunLimits);
        if *limits != Limits::default() {
            self.add_from(Origin::Person, Role::RunLimits, "run-limits", json!({ "limits": limits }).to_string());
        }
    }

    /// Copies from `before`, the files that the run used until now, the limits and the script that were set at its start.
    pub fn keep_of_start(&mut self, before: &Self) {
        for role in [Role::RunLimits, Role::RunScript] {
            self.files.retain(|source| source.role != role);
            self.files.extend(before.of(role).cloned());
        }
    }

    /// Records that the file at `path`, relative to the job's folder, exists.
    pub fn add_existing(&mut self, path: impl Into<String>) {
        self.existing.insert(path.into());
    }

    /// Whether a document's file exists.
    pub fn exists(&self, path: &str) -> bool {
        self.existing.contains(path)
    }

    /// Notes that the folder holds `path`, which nothing names: messages may suggest it.
    pub fn add_nearby(&mut self, path: impl Into<String>) {
        self.nearby.insert(path.into());
    }

    /// Files that a faulty path may have meant.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &str> {
        self.existing.union(&self.nearby).map(String::as_str)
    }

    /// Returns the files, in the order they were added.
    pub fn files(&self) -> impl Iterator<Item = &Source> {
        self.files.iter()
    }

    /// Returns the files, to be changed.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        self.files.iter_mut()
    }

    /// Returns the files of `role`.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(move |source| source.role == role)
    }

    /// Returns the same files in the order of role and path, so that equal jobs are pinned to equal texts.
    pub fn in_order(mut self) -> Self {
        self.files.sort_by(|left, right| (left.role, &left.path).cmp(&(right.role, &right.path)));
        self
    }

    /// Returns the path as messages show it.
    pub fn display(&self, source: &Source) -> String {
        match source.role {
            Role::BuiltinTool | Role::RunLimits | Role::RunScript | Role::UserModels => source.path.clone(),
            role => self.display_path(role, &source.path),
        }
    }

    /// Returns the path that a file of `role` has in messages.
    pub fn display_path(&self, role: Role, path: &str) -> String {
        format!("{}{path}", if role.is_shared() { &self.shared_prefix } else { &self.prefix })
    }

    /// Returns the files of `role` by path.
    pub(crate) fn by_path(&self, role: Role) -> BTreeMap<&str, &Source> {
        self.of(role).map(|source| (source.path.as_str(), source)).collect()
    }
}

fn with_slash(mut folder: String) -> String {
    if !folder.is_empty() && !folder.ends_with('/') {
        folder.push('/');
    }
    folder
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
