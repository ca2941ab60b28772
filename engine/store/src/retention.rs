//! Retention rules, the report of a collection, and the report of a verification.

use std::collections::HashSet;

use baton_types::entry::Entry;
use baton_types::id::{ContentHash, RunId};
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
    /// Whether the file was written anew without its free space. This does not happen if little is free, or while somebody
    /// else writes.
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

/// A run as the rules of retention see it.
pub(crate) struct Candidate {
    pub(crate) run: RunId,
    pub(crate) updated: Timestamp,
    /// Whether it has ended, and its trigger is answered.
    pub(crate) has_ended: bool,
    /// The run that it begins with.
    pub(crate) past: Option<RunId>,
}

/// Returns the runs to remove, the oldest first. The second list has runs that stay only because they are the past of another
/// run, each with that run.
pub(crate) fn choose(runs: &[Candidate], retention: &Retention) -> (Vec<RunId>, Vec<(RunId, RunId)>) {
    let Retention { keep_newest, unchanged_since, named } = retention;
    let mut ended: Vec<_> =
        runs.iter().enumerate().filter(|(_, run)| run.has_ended).map(|(place, run)| (run.updated, place)).collect();
    if keep_newest.is_none() && unchanged_since.is_none() {
        ended.clear();
    }
    ended.sort_unstable();
    ended.truncate(ended.len() - keep_newest.unwrap_or(0).min(ended.len()));
    if let Some(since) = unchanged_since {
        ended.retain(|(updated, _)| updated < since);
    }
    let ended: HashSet<_> = ended.into_iter().map(|(_, place)| place).collect();
    let (mut leaving, mut staying, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for (place, run) in runs.iter().enumerate() {
        if ended.contains(&place) || named.contains(&run.run) { leaving.push(run) } else { staying.push(run) }
    }
    // A run that is the past of a kept run is kept too.
    let mut at = 0;
    while let Some(run) = staying.get(at).copied() {
        if let Some(place) = leaving.iter().position(|other| Some(&other.run) == run.past.as_ref()) {
            let other = leaving.remove(place);
            held.push((other.run.clone(), run.run.clone()));
            staying.push(other);
        }
        at += 1;
    }
    (leaving.into_iter().map(|run| run.run.clone()).collect(), held)
}

/// Whether an entry ends its run.
pub(crate) fn is_end(entry: &Entry) -> bool {
    matches!(entry, Entry::RunEnded(_))
}

/// Number of last entries of a run that are searched for its end. Only a few entries, for late events, follow an end.
pub(crate) const LAST_ENTRIES: usize = 64;

/// Adds every 64 hexadecimal digits of `text` without others around them to `names`.
pub(crate) fn hashes_in(text: &str, names: &mut HashSet<ContentHash>) {
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
        if end == 64 {
            names.extend(ContentHash::from_hex(&rest[..end]));
        }
        rest = &rest[end..];
    }
}

fn is_digit(c: char) -> bool {
    matches!(c, '0'..='9' | 'a'..='f')
}

/// Returns the content that an entry cannot do without, and what it is.
pub(crate) fn needed_content(entry: &Entry) -> Option<(ContentHash, String)> {
    match entry {
        Entry::RunStarted(started) => Some((started.configs, "its configs".to_owned())),
        Entry::DocumentWritten(version) => Some((version.content.hash, format!("{} v{}", version.path, version.version))),
        entry if entry.adopts().is_some() => entry.content().map(|hash| (hash, "configs that it adopted".to_owned())),
        _ => None,
    }
}
