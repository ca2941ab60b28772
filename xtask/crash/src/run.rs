//! A run, as read from its timeline: acknowledged facts, calls in flight, and its end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use baton::Engine;
use baton_config::{Role, Sources};
use baton_store::{RunRecord, SqliteStore, Store};
use baton_timeline::Line;
use baton_types::call::{CallStatus, ErrorCode};
use baton_types::entry::{Entry, Holder, QuestionEnd, Recorded, TaskKind};
use baton_types::id::CallId;
use baton_types::principal::Principal;
use baton_types::tool_type::ToolType;
use serde_json::Value;

/// Number of entries read at once.
const PAGE: usize = 10_000;

/// A run, as stored.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Its line in the list of runs.
    pub record: RunRecord,
    /// All of its entries.
    pub entries: Vec<Arc<Recorded>>,
    /// The tools whose calls are never repeated, by the configs that the run is pinned to.
    pub at_most_once: BTreeSet<String>,
    /// Findings of the invariant checker, once the run has ended.
    pub findings: Option<Vec<String>>,
}

/// The hash of every version of every document, by path.
pub type Documents = BTreeMap<String, Vec<String>>;

/// Parts of a run's end that a crash must not change.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The status of the run.
    pub status: &'static str,
    /// Result of the root task.
    pub result: Value,
    /// Content of the workspace.
    pub documents: Documents,
}

impl Timeline {
    /// Reads the only run in the store at `path`; `None` if there is none.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(async {
            let store = Arc::new(SqliteStore::open(path)?);
            let Some(record) = store.runs().await?.pop() else { return Ok(None) };
            let mut entries = Vec::new();
            loop {
                let page = store.entries(&record.id, entries.len() as u64, PAGE).await?;
                if page.is_empty() {
                    break;
                }
                entries.extend(page);
            }
            let first = entries.first().context("the run has no entries")?;
            let Entry::RunStarted(started) = &first.entry else { anyhow::bail!("the run begins with {}", first.entry.name()) };
            let pinned = store.content(started.configs).await?.context("the configs of the run are not in the store")?;
            let at_most_once = at_most_once(&serde_json::from_slice(&pinned)?);
            // Every content that an entry names is there, and is what it was.
            for recorded in &entries {
                if let Entry::DocumentWritten(version) = &recorded.entry {
                    let content = store.content(version.content.hash).await?;
                    content.with_context(|| format!("the content of {} is not in the store", version.reference()))?;
                }
            }
            let mut findings = None;
            if matches!(entries.last().map(|last| &last.entry), Some(Entry::RunEnded(_))) {
                let engine = Engine::builder().trust(baton::TrustEverything).store(store).build()?;
                let configs = engine.pinned_configs(started).await?;
                let timeline: Vec<Recorded> = entries.iter().map(|recorded| (**recorded).clone()).collect();
                let report = baton_proof::verify(&configs, &timeline);
                findings = Some(report.findings.iter().map(ToString::to_string).collect());
            }
            Ok(Some(Self { record, entries, at_most_once, findings }))
        })
    }

    /// Whether this is the beginning of `later`, or all of it.
    pub fn begins(&self, later: &Self) -> bool {
        self.record.id == later.record.id && later.entries.starts_with(&self.entries)
    }

    /// Returns the first of the printed lines whose entry the timeline does not have in the same form.
    pub fn lacks<'t>(&self, printed: &'t [Line]) -> Option<&'t Line> {
        printed.iter().find(|line| {
            let kept = usize::try_from(line.seq).ok().and_then(|seq| self.entries.get(seq.checked_sub(1)?));
            !kept.is_some_and(|kept| **kept == line.recorded())
        })
    }

    /// Returns the first fault of the numbering: entries are numbered from 1 without gaps.
    pub fn gap(&self) -> Option<u64> {
        (1..).zip(&self.entries).find(|(expected, recorded)| recorded.seq != *expected).map(|(expected, _)| expected)
    }

    /// Returns the calls of `at_most_once` tools that have begun and have no result, in live tasks: a crash now puts
    /// them in doubt.
    pub fn in_flight(&self) -> BTreeSet<String> {
        let mut open = BTreeMap::new();
        for recorded in &self.entries {
            match &recorded.entry {
                Entry::CallStarted(call)
                    if call.tool_type == ToolType::FunctionTool && self.at_most_once.contains(call.tool.as_str()) =>
                {
                    open.insert(&call.call, &call.task);
                }
                Entry::CallFinished(call) => drop(open.remove(&call.call)),
                Entry::TaskEnded(ended) => open.retain(|_, task| **task != ended.task),
                Entry::SubtreeClosed(closed) => open.retain(|_, task| !closed.tasks.contains(task)),
                _ => {}
            }
        }
        open.keys().map(ToString::to_string).collect()
    }

    /// Returns the calls that began.
    pub fn begun(&self) -> impl Iterator<Item = &CallId> {
        self.entries.iter().filter_map(|recorded| match &recorded.entry {
            Entry::CallStarted(call) => Some(&call.call),
            _ => None,
        })
    }

    /// Returns the calls with an unknown outcome.
    pub fn in_doubt(&self) -> BTreeSet<String> {
        let calls = self
            .results()
            .filter(|(_, _, status, code)| *status == CallStatus::UnknownOutcome || *code == Some(&ErrorCode::UnknownOutcome));
        calls.map(|(call, ..)| call).collect()
    }

    /// Returns the calls of tools that ended in success, with the tool.
    pub fn succeeded(&self) -> impl Iterator<Item = (String, String)> {
        self.results().filter(|(_, _, status, _)| *status == CallStatus::Success).map(|(call, tool, ..)| (call, tool))
    }

    fn results(&self) -> impl Iterator<Item = (String, String, CallStatus, Option<&ErrorCode>)> {
        self.entries.iter().filter_map(|recorded| match &recorded.entry {
            Entry::CallFinished(call) => {
                let code = call.result.error.as_ref().map(|error| &error.code);
                Some((call.call.to_string(), call.tool.to_string(), call.result.status, code))
            }
            _ => None,
        })
    }

    /// Returns the numbers of the questions that wait for a person.
    pub fn open_questions(&self) -> BTreeSet<u32> {
        let mut open = BTreeSet::new();
        for recorded in &self.entries {
            match &recorded.entry {
                Entry::QuestionOpened(question) if question.holder == Holder::Person => drop(open.insert(question.number)),
                Entry::QuestionClosed(question) => drop(open.remove(&question.number)),
                _ => {}
            }
        }
        open
    }

    /// Returns the answers of people, by question. A later answer to the same question follows the earlier one.
    pub fn answers(&self) -> Vec<(u32, Value)> {
        let closed = self.entries.iter().filter_map(|recorded| match &recorded.entry {
            Entry::QuestionClosed(question) => Some(question),
            _ => None,
        });
        closed
            .filter_map(|question| match &question.how {
                QuestionEnd::Answered { by, answer, .. } if *by == Principal::person("kit") => {
                    Some((question.number, answer.value()))
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the number of delegated tasks.
    pub fn delegations(&self) -> usize {
        let created =
            |recorded: &&Arc<Recorded>| matches!(&recorded.entry, Entry::TaskCreated(task) if task.kind == TaskKind::Delegation);
        self.entries.iter().filter(created).count()
    }

    /// Returns the end of the run, if it has ended.
    pub fn end(&self) -> Option<End> {
        let Entry::RunEnded(ended) = &self.entries.last()?.entry else { return None };
        let root = self.entries.iter().rev().find_map(|recorded| match &recorded.entry {
            Entry::TaskEnded(task) if task.task.is_root() => Some(task.result.output.value()),
            _ => None,
        });
        let mut documents = Documents::new();
        for recorded in &self.entries {
            if let Entry::DocumentWritten(version) = &recorded.entry {
                documents.entry(version.path.to_string()).or_default().push(version.content.hash.to_string());
            }
        }
        Some(End { status: ended.status.as_str(), result: root?, documents })
    }
}

/// Returns the tools in `sources` that are never repeated: a job's own config overrides the program's.
fn at_most_once(sources: &Sources) -> BTreeSet<String> {
    let mut effects: BTreeMap<String, String> = BTreeMap::new();
    for role in [Role::BuiltinTool, Role::Tool] {
        for source in sources.of(role) {
            // What the loader took is JSON.
            let Ok(config) = serde_json::from_str::<Value>(&source.text) else { continue };
            let Some(id) = config["tool_id"].as_str() else { continue };
            if let Some(effect) = config["effect"].as_str() {
                effects.insert(id.to_owned(), effect.to_owned());
            } else {
                effects.entry(id.to_owned()).or_insert_with(|| "at_most_once".to_owned());
            }
        }
    }
    effects.into_iter().filter(|(_, effect)| effect == "at_most_once").map(|(id, _)| id).collect()
}
