//! Origins of settings, and the outside resources that a run may reach through them.
//!
//! Reaches are read from the loaded, effective configs, never from the file that a setting came in. Whether a person trusts
//! them is judged where runs are started.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Configs, Executor, Tool};
use crate::id::{ContentHash, ToolId};

/// Origin of a setting that configures a run. Later ones are trusted less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The program.
    BuiltIn,
    /// The person who runs it, in their own files or on the command line.
    Person,
    /// The folder of the job or of its project, which somebody may have sent.
    Job,
    /// A store, which somebody may have sent.
    #[default]
    Store,
}

impl Origin {
    /// Whether it needs the trust of the person who runs it.
    pub const fn needs_trust(self) -> bool {
        match self {
            Self::BuiltIn | Self::Person => false,
            Self::Job | Self::Store => true,
        }
    }
}

/// Something outside of a run that its configs let it reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// The tool or provider that reaches it.
    pub holder: String,
    /// The resource.
    #[serde(flatten)]
    pub target: Target,
    /// Origin of the setting. It is no part of the trusted facts.
    #[serde(skip)]
    pub origin: Origin,
}

/// An outside resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A command that runs on this machine: program and arguments.
    Command(Vec<String>),
    /// A file of the job's folder that a command names.
    Script {
        /// Its path in the folder.
        path: String,
        /// The hash of its bytes.
        hash: ContentHash,
    },
    /// A variable of the environment that a command sees.
    Environment(String),
    /// An address that gets requests, and the key that goes with them.
    Address {
        /// The provider whose protocol it speaks.
        like: String,
        /// The address; `None` for the provider's usual one.
        base_url: Option<String>,
        /// The variable that holds the key, if it is another than the provider's own.
        key_variable: Option<String>,
    },
    /// A setting of a tool, as JSON.
    Setting {
        /// Its name.
        name: String,
        /// Its value.
        value: Value,
    },
    /// A variable of the environment with a secret that a tool reads.
    Secret(String),
    /// The subject of a tool service, which gets the inputs of calls.
    Service(String),
    /// A variable that a file sets, and that nothing else sets.
    Variable {
        /// Its name.
        name: String,
        /// Its value, or as much of it as may be shown.
        shown: String,
        /// The hash of its value.
        hash: ContentHash,
    },
}

impl Reach {
    /// Returns the line that identifies it, regardless of its origin: JSON, the same for the same reach.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).expect("a reach always serialises")
    }
}

/// One line for a person. All text from files is quoted and escaped, so that no terminal acts on it.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holder, target, origin: _ } = self;
        let holder = holder.escape_debug();
        match target {
            Target::Command(arguments) => {
                write!(f, "{holder} runs the command")?;
                arguments.iter().try_for_each(|argument| write!(f, " {argument:?}"))
            }
            Target::Script { path, hash } => write!(f, "{holder} runs the file {path:?} (blake3 {hash})"),
            Target::Environment(variable) => write!(f, "{holder} hands its command the variable {variable:?}"),
            Target::Address { like, base_url, key_variable } => {
                match base_url {
                    Some(url) => write!(f, "{holder} sends requests to {url:?}, like {like:?}")?,
                    None => write!(f, "{holder} sends requests to the usual address of {like:?}")?,
                }
                key_variable.as_ref().map_or(Ok(()), |variable| write!(f, ", with the key in {variable:?}"))
            }
            Target::Setting { name, value } => {
                let value = value.to_string();
                write!(f, "{holder} sets {name:?} to {}", value.escape_debug().to_string().replace("\\\"", "\""))
            }
            Target::Secret(variable) => write!(f, "{holder} reads the secret {variable:?}"),
            Target::Service(subject) => write!(f, "{holder} sends its calls to the tool service {subject:?}"),
            Target::Variable { name, shown, hash } => {
                write!(f, "{holder} sets the variable {name:?} to {shown} (blake3 {hash})")
            }
        }
    }
}

impl Configs {
    /// Returns the tools that calls may use: those that agents were granted, those that the code of these tools names in `calls`,
    /// and those that accept results.
    pub fn used_tools(&self) -> impl Iterator<Item = &Tool> {
        let mut used: BTreeMap<&ToolId, &Tool> = BTreeMap::new();
        let mut left: Vec<&Tool> = self.agents.values().flat_map(|agent| agent.tools.values()).map(AsRef::as_ref).collect();
        while let Some(tool) = left.pop() {
            if used.insert(&tool.id, tool).is_none() {
                let acceptor = tool.accept.iter().map(|accept| accept.by.tool());
                let called = tool.calls.iter().map(|id| ToolId::new(id.as_str()));
                left.extend(called.chain(acceptor).filter_map(|id| self.tools.get(&id)).map(AsRef::as_ref));
            }
        }
        used.into_values()
    }

    /// Returns everything outside of a run that these configs reach, from any origin. The files that commands name are
    /// not included.
    pub fn reaches(&self) -> Vec<Reach> {
        let mut reaches: Vec<Reach> = self.used_tools().flat_map(|tool| tool.reaches.iter().cloned()).collect();
        let configured: BTreeMap<_, _> = self.agents.values().flat_map(|agent| &agent.configurations).collect();
        reaches.extend(configured.into_values().flat_map(|tool| tool.reaches.iter().cloned()));
        for (name, settings) in &self.job.providers {
            if settings.base_url.is_some() || settings.key_variable.is_some() {
                let target = Target::Address {
                    like: settings.like.clone(),
                    base_url: settings.base_url.clone(),
                    key_variable: settings.key_variable.clone(),
                };
                reaches.push(Reach { holder: name.clone(), target, origin: settings.origin });
            }
        }
        reaches
    }
}

impl Tool {
    /// Its command, if a command runs its calls.
    pub fn command(&self) -> Option<&[String]> {
        match &self.executor {
            Some(Executor::Exec(exec)) => Some(&exec.command),
            _ => None,
        }
    }
}
