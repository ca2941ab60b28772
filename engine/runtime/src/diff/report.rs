//! The differences of two runs, as people and programs read them.

use baton_types::entry::Holder;
use baton_types::id::{RunId, TaskId};
use baton_types::model::Usage;
use baton_types::money::Money;
use serde::{Serialize, Serializer};

/// Differences of two runs.
#[derive(Clone, Debug, Serialize)]
pub struct RunDiff {
    /// The two runs.
    pub runs: [RunId; 2],
    /// Number of shared first entries, because one was forked from the other or both from a third.
    pub shared: u64,
    /// First difference; `None` if there is none.
    pub first: Option<Divergent>,
    /// The files of their configs that differ, and how, whether or not that led to anything.
    pub configs: Vec<String>,
    /// Every task of either run, callers before callees.
    pub tasks: Vec<TaskDiff>,
    /// Every document of either run.
    pub documents: Vec<DocumentDiff>,
    /// Usage of each run's requests, from its timeline.
    pub usage: [Usage; 2],
    /// Cost in US dollars; `None` if a price is not known.
    #[serde(rename = "cost_usd", serialize_with = "in_dollars")]
    pub cost: [Option<Money>; 2],
}

impl RunDiff {
    /// Whether nothing in the runs differs.
    pub fn is_same(&self) -> bool {
        self.first.is_none() && self.documents.iter().all(DocumentDiff::is_same)
    }
}

/// The first entries of a task that differ.
#[derive(Clone, Debug, Serialize)]
pub struct Divergent {
    /// The task; `-` for what belongs to none.
    pub task: String,
    /// Holder of the task.
    pub holder: Option<Holder>,
    /// Their numbers; `None` where a run has no such entry.
    pub seq: [Option<u64>; 2],
    /// The decisions that they belong to.
    pub decision: [Option<u64>; 2],
    /// Last entry of the decision before, in each run: [`crate::ForkOptions::at`] of a fork that takes this decision anew.
    /// `None` if it is the first decision.
    pub fork_at: [Option<u64>; 2],
    /// Why they differ; `None` if that is not certain.
    pub cause: Option<Cause>,
    /// Description of the difference.
    pub what: String,
}

/// Why two entries differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Prompts, tools, settings, models.
    Config,
    /// A model answered the same request otherwise.
    ModelAnswer,
    /// A tool gave another result.
    ToolResult,
    /// A person or the job wrote another document.
    Document,
    /// A person asked for, answered or did something else.
    Person,
    /// A limit was reached in one of them.
    Limit,
    /// One of them has not come as far.
    Unfinished,
}

impl Cause {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::ModelAnswer => "model_answer",
            Self::ToolResult => "tool_result",
            Self::Document => "document",
            Self::Person => "person",
            Self::Limit => "limit",
            Self::Unfinished => "unfinished",
        }
    }
}

/// A task of either run.
#[derive(Clone, Debug, Serialize)]
pub struct TaskDiff {
    /// Its path.
    pub task: TaskId,
    /// Holder in each run; `None` if the task does not exist there.
    pub holders: [Option<Holder>; 2],
    /// State in each run.
    pub states: [Option<&'static str>; 2],
    /// Turns answered in each run.
    pub turns: [u32; 2],
    /// Own usage in each run, in tokens.
    pub tokens: [u64; 2],
    /// Own cost in US dollars; `None` if a price is not known.
    #[serde(rename = "cost_usd", serialize_with = "in_dollars")]
    pub cost: [Option<Money>; 2],
    /// Its first entries that differ.
    pub first: Option<Divergent>,
}

impl TaskDiff {
    /// Whether nothing of it differs.
    pub fn is_same(&self) -> bool {
        self.first.is_none()
    }
}

/// A document of either run.
#[derive(Clone, Debug, Serialize)]
pub struct DocumentDiff {
    /// Its path.
    pub path: String,
    /// Number of versions in each run.
    pub versions: [u32; 2],
    /// The hash of the newest one in each run.
    pub contents: [Option<String>; 2],
}

impl DocumentDiff {
    /// Whether both runs have the same.
    pub fn is_same(&self) -> bool {
        self.versions[0] == self.versions[1] && self.contents[0] == self.contents[1]
    }
}

fn in_dollars<S: Serializer>(cost: &[Option<Money>; 2], serializer: S) -> Result<S::Ok, S::Error> {
    cost.map(|cost| cost.map(Money::as_usd)).serialize(serializer)
}
