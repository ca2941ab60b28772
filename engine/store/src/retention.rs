//! Retention rules, the report of a collection, and the report of a verification.

use baton_types::id::RunId;
use baton_types::time::Timestamp;

/// Which runs may go. Without a rule none does but those that are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Of the ended runs, those that changed last stay, this many.
    pub keep_newest: Option<usize>,
    /// Of the ended runs, those that changed at this moment or later stay. With both rules, a run goes that neither keeps.
    pub unchanged_since: Option<Timestamp>,
    /// These go, ended or not.
    pub named: Vec<RunId>,
}

/// Report of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The runs that went, oldest first.
    pub runs: Vec<RunId>,
    /// Runs that would have gone, and stay because another run, named second, begins with entries of theirs.
    pub held: Vec<(RunId, RunId)>,
    /// Number of runs that stay.
    pub kept: u64,
    /// Number of removed entries.
    pub entries: u64,
    /// Number of removed contents.
    pub contents: u64,
    /// Their bytes.
    pub content_bytes: u64,
    /// The bytes of the store's files before.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
    /// Whether the file was written anew without its free room: not where little is free, nor while somebody else writes.
    pub shrunk: bool,
}

/// Report of a verification of everything in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Runs.
    pub runs: u64,
    /// Entries of all runs, each counted where it is stored.
    pub entries: u64,
    /// Rows of entries.
    pub batches: u64,
    /// Contents.
    pub contents: u64,
    /// Their bytes.
    pub content_bytes: u64,
    /// Contents that no entry and no command names.
    pub unnamed: u64,
    /// Logged calls.
    pub logged: u64,
    /// Breadcrumbs, ended ones included.
    pub breadcrumbs: u64,
    /// Commands that wait.
    pub commands: u64,
    /// Faults, one sentence each; empty if the store is whole.
    pub findings: Vec<String>,
}
