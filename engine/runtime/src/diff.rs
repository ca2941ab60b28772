//! `diff`: two runs side by side. Tasks are aligned by path, their entries in order; what differs first is named with its
//! cause, if the cause is certain.
//!
//! An entry's difference can only be caused by an earlier one, so of all tasks' first differences the earliest is the one
//! that no other explains. Configs that differ somewhere are not the cause of every difference: they are one only where they change a
//! part of the request that differs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_machine::Spent;
use baton_types::call::{CallResult, ErrorCode};
use baton_types::config::Configs;
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{Control, ControlAction, Entry, FinalState, Holder, Notice, QuestionEnd, Recorded, RunStarted};
use baton_types::id::{ContentHash, RunId, TaskId};
use baton_types::model::Usage;
use baton_types::money::Money;
use serde::{Serialize, Serializer};

use crate::engine::Engine;
use crate::error::RunError;
use crate::reading::PAGE;

/// Number of characters shown of a text that differs.
const SHOWN: usize = 80;

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

/// Compares two runs.
pub async fn diff(engine: &Engine, a: &RunId, b: &RunId) -> Result<RunDiff, RunError> {
    let sides = [Side::read(engine, a).await?, Side::read(engine, b).await?];
    let mut configs = Vec::new();
    let [was, is] = sides.each_ref().map(|side| side.configs_at(u64::MAX));
    if was != is {
        let was = engine.0.sources(a, was).await?;
        configs = engine.0.sources(b, is).await?.changes_from(&was);
    }
    let mut loaded = Loaded::new();
    for (id, side) in [a, b].into_iter().zip(&sides) {
        for (_, hash) in &side.configs {
            // Configs that cannot be loaded here are the certain cause of nothing.
            if !loaded.contains_key(hash)
                && let Ok((configs, _)) = engine.0.pinned(id, *hash).await
            {
                loaded.insert(*hash, configs);
            }
        }
    }
    Ok(compare([a.clone(), b.clone()], &sides, &loaded, configs))
}

/// The configs of both runs, by their hash.
type Loaded = BTreeMap<ContentHash, Arc<Configs>>;

/// A timeline, by task.
struct Side {
    /// The configs of the run, each with the entry from which they are in force. The first have entry 0.
    configs: Vec<(u64, ContentHash)>,
    ended: bool,
    entries: Vec<Arc<Recorded>>,
    /// Entries of each task, in order. Entries without a task are under `None`.
    tasks: BTreeMap<Option<TaskId>, Vec<usize>>,
    order: Vec<TaskId>,
    holders: BTreeMap<TaskId, Holder>,
    documents: BTreeMap<String, Vec<Arc<DocumentVersion>>>,
    versions: BTreeMap<DocumentRef, ContentHash>,
    states: BTreeMap<TaskId, FinalState>,
    spent: BTreeMap<TaskId, Spent>,
    whole: Spent,
}

impl Side {
    async fn read(engine: &Engine, id: &RunId) -> Result<Self, RunError> {
        let mut side = Self {
            configs: vec![(0, engine.started(id).await?.configs)],
            ended: false,
            entries: Vec::new(),
            tasks: BTreeMap::new(),
            order: Vec::new(),
            holders: BTreeMap::new(),
            documents: BTreeMap::new(),
            versions: BTreeMap::new(),
            states: BTreeMap::new(),
            spent: BTreeMap::new(),
            whole: Spent::default(),
        };
        loop {
            let after = side.entries.last().map_or(0, |last| last.seq);
            let page = engine.store().entries(id, after, PAGE).await?;
            if page.is_empty() {
                side.put_in_order();
                return Ok(side);
            }
            for recorded in page {
                side.take(recorded);
            }
        }
    }

    fn take(&mut self, recorded: Arc<Recorded>) {
        match &recorded.entry {
            Entry::TaskCreated(created) => {
                self.order.push(created.task.clone());
                self.holders.insert(created.task.clone(), created.holder.clone());
            }
            Entry::DocumentWritten(version) => {
                self.versions.insert(version.reference(), version.content.hash);
                self.documents.entry(version.path.to_string()).or_default().push(Arc::clone(version));
            }
            // Unknown usage is not compared.
            Entry::BudgetSettled(settled) if settled.unknown => {}
            Entry::BudgetSettled(settled) => {
                for spent in [self.spent.entry(settled.task.clone()).or_default(), &mut self.whole] {
                    spent.usage.add(&settled.usage);
                    spent.cost.settle(settled.cost);
                }
            }
            Entry::TaskEnded(ended) => {
                self.states.insert(ended.task.clone(), ended.state);
            }
            Entry::SubtreeClosed(closed) => {
                self.states.extend(closed.tasks.iter().map(|task| (task.clone(), FinalState::Cancelled)));
            }
            Entry::RunEnded(_) => self.ended = true,
            entry => {
                if let Some(adoption) = entry.adopts() {
                    self.configs.push((recorded.seq, adoption.configs));
                }
            }
        }
        if is_compared(&recorded.entry) {
            let task = recorded.entry.task().cloned();
            self.tasks.entry(task).or_default().push(self.entries.len());
        }
        self.entries.push(recorded);
    }

    /// Returns the configs in force at entry `seq`.
    fn configs_at(&self, seq: u64) -> ContentHash {
        let adopted = self.configs.partition_point(|(from, _)| *from <= seq);
        self.configs[adopted - 1].1
    }

    /// Puts what came of a turn's calls into the order of the calls: when each came is chance.
    fn put_in_order(&mut self) {
        for indices in self.tasks.values_mut() {
            let mut latest = 0;
            indices.sort_by_cached_key(|index| place(&self.entries[*index].entry, &mut latest));
        }
    }

    /// Returns the last entry of the decision before that of `recorded`.
    fn fork_place_before(&self, recorded: &Recorded) -> Option<u64> {
        let earlier = &self.entries[..self.entries.partition_point(|entry| entry.seq < recorded.seq)];
        let before = earlier.iter().rev().find(|entry| entry.decision != recorded.decision)?;
        // No fork begins where a run has ended.
        (!matches!(before.entry, Entry::RunEnded(_))).then_some(before.seq)
    }

    /// Returns the own usage of `task`.
    fn of_task(&self, task: &TaskId) -> Spent {
        self.spent.get(task).copied().unwrap_or_default()
    }

    fn of<'a>(&'a self, task: Option<&TaskId>) -> impl Iterator<Item = &'a Recorded> + use<'a> {
        let indices = self.tasks.get(&task.cloned()).map(Vec::as_slice).unwrap_or_default();
        indices.iter().map(|index| &*self.entries[*index])
    }

    fn holder(&self, task: &TaskId) -> Option<Holder> {
        self.holders.get(task).cloned()
    }

    fn state(&self, task: &TaskId) -> Option<&'static str> {
        self.holders.get(task).map(|_| self.states.get(task).map_or("unfinished", |state| state.as_str()))
    }

    fn contents<'a>(&'a self, documents: &'a [DocumentRef]) -> impl Iterator<Item = (&'a DocumentRef, Option<&'a ContentHash>)> {
        documents.iter().map(|document| (document, self.versions.get(document)))
    }

    fn is_result_same(&self, own: &CallResult, other: &Self, others: &CallResult) -> bool {
        own.status == others.status
            && own.output == others.output
            && own.error.as_ref().map(|error| (error.code, &error.message))
                == others.error.as_ref().map(|error| (error.code, &error.message))
            && self.contents(&own.documents).eq(other.contents(&others.documents))
    }
}

/// Returns the place of an entry within its task: turn, part of the turn, call. `latest` is the turn of the entries
/// before.
fn place(entry: &Entry, latest: &mut u32) -> (u32, u8, u32) {
    let call = match entry {
        Entry::ModelRequested(requested) => {
            *latest = requested.turn;
            return (requested.turn, 0, 0);
        }
        Entry::ModelAnswered(answered) => {
            *latest = answered.turn;
            return (answered.turn, 1, 0);
        }
        Entry::CallRefused(refused) => Some(&refused.call),
        Entry::CallFinished(finished) => Some(&finished.call),
        Entry::DocumentWritten(version) => version.call.as_ref(),
        Entry::Output(output) => Some(&output.call),
        _ => None,
    };
    match call.and_then(baton_types::id::CallId::position) {
        Some((turn, position)) => (turn, 2, position),
        None => (*latest, 3, 0),
    }
}

/// Whether an entry is compared: accounts, crashes and what came late say nothing of what a run did.
fn is_compared(entry: &Entry) -> bool {
    match entry {
        Entry::BudgetSettled(_)
        | Entry::FellBack(_)
        | Entry::RunEnded(_)
        | Entry::SubtreeClosed(_)
        | Entry::CallMade(_)
        | Entry::CallStarted(_)
        | Entry::CallSuspended(_)
        | Entry::CallAskedModel(_)
        // It repeats the end of the background task.
        | Entry::TaskReported(_) => false,
        // A request is compared by its answer, whichever model gave it; the engine's notice at its head is compared
        // here.
        Entry::ModelRequested(requested) => requested.notice.is_some(),
        Entry::Control(control) => matches!(control.action, ControlAction::Cancelled { .. } | ControlAction::Steered { .. }),
        _ => true,
    }
}

fn compare(runs: [RunId; 2], sides: &[Side; 2], loaded: &Loaded, configs: Vec<String>) -> RunDiff {
    let [a, b] = sides;
    let shared = a.entries.iter().zip(&b.entries).take_while(|(a, b)| a == b).count() as u64;
    let mut order: Vec<&TaskId> = a.order.iter().collect();
    let known: BTreeSet<&TaskId> = a.order.iter().collect();
    order.extend(b.order.iter().filter(|task| !known.contains(task)));
    let tasks: Vec<TaskDiff> = order
        .into_iter()
        .map(|task| TaskDiff {
            task: task.clone(),
            holders: sides.each_ref().map(|side| side.holder(task)),
            states: sides.each_ref().map(|side| side.state(task)),
            turns: sides.each_ref().map(|side| answered(side, task)),
            tokens: sides.each_ref().map(|side| side.of_task(task).usage.total()),
            cost: sides.each_ref().map(|side| side.of_task(task).cost.total()),
            first: first_of(Some(task), sides, loaded),
        })
        .collect();
    let of_run = first_of(None, sides, loaded);
    let candidates = of_run.into_iter().chain(tasks.iter().filter_map(|task| task.first.clone()));
    // The present end of an unfinished run explains nothing.
    let first = candidates.min_by_key(|first| (first.cause == Some(Cause::Unfinished), first.seq[1].or(first.seq[0])));
    let paths: BTreeSet<&String> = a.documents.keys().chain(b.documents.keys()).collect();
    let documents = paths
        .into_iter()
        .map(|path| {
            let versions = sides.each_ref().map(|side| side.documents.get(path).map(Vec::as_slice).unwrap_or_default());
            DocumentDiff {
                path: path.clone(),
                versions: versions.map(|versions| u32::try_from(versions.len()).unwrap_or(u32::MAX)),
                contents: versions.map(|versions| versions.last().map(|version| version.content.hash.to_string())),
            }
        })
        .collect();
    let (usage, cost) = (sides.each_ref().map(|side| side.whole.usage), sides.each_ref().map(|side| side.whole.cost.total()));
    RunDiff { runs, shared, first, configs, tasks, documents, usage, cost }
}

fn answered(side: &Side, task: &TaskId) -> u32 {
    let answers = side.of(Some(task)).filter(|recorded| matches!(recorded.entry, Entry::ModelAnswered(_))).count();
    u32::try_from(answers).unwrap_or(u32::MAX)
}

/// Returns the first entries of `task` that differ.
fn first_of(task: Option<&TaskId>, sides: &[Side; 2], loaded: &Loaded) -> Option<Divergent> {
    let [mut a, mut b] = sides.each_ref().map(|side| side.of(task));
    loop {
        let pair = [a.next(), b.next()];
        let (cause, what) = match pair {
            [None, None] => return None,
            [Some(a), Some(b)] if is_same(a, b, sides) => continue,
            [Some(a), Some(b)] => explain(a, b, sides, loaded),
            [Some(only), None] | [None, Some(only)] => {
                let lacking = usize::from(pair[1].is_none());
                let of_task = task.is_some_and(|task| sides[lacking].states.contains_key(task));
                if sides[lacking].ended || of_task || task.is_some_and(|task| !sides[lacking].holders.contains_key(task)) {
                    alone(&only.entry)
                } else {
                    (Some(Cause::Unfinished), "one of the runs has not come as far".to_owned())
                }
            }
        };
        return Some(Divergent {
            task: task.map_or_else(|| "-".to_owned(), ToString::to_string),
            holder: task.and_then(|task| sides[1].holder(task).or_else(|| sides[0].holder(task))),
            seq: pair.map(|recorded| recorded.map(|recorded| recorded.seq)),
            decision: pair.map(|recorded| recorded.map(|recorded| recorded.decision)),
            fork_at: [0, 1].map(|side| pair[side].and_then(|recorded| sides[side].fork_place_before(recorded))),
            cause,
            what,
        });
    }
}

/// Whether two entries say the same, moments and numbers aside.
fn is_same(a: &Recorded, b: &Recorded, sides: &[Side; 2]) -> bool {
    let [left, right] = sides;
    match (&a.entry, &b.entry) {
        (Entry::RunStarted(a), Entry::RunStarted(b)) => (&a.job, &a.request, &a.inputs) == (&b.job, &b.request, &b.inputs),
        (Entry::TaskCreated(a), Entry::TaskCreated(b)) => {
            (&a.holder, &a.request, &a.answer_schema, a.kind) == (&b.holder, &b.request, &b.answer_schema, b.kind)
                && left.contents(&a.documents).eq(right.contents(&b.documents))
        }
        (Entry::ModelRequested(a), Entry::ModelRequested(b)) => (a.turn, &a.notice) == (b.turn, &b.notice),
        (Entry::ModelAnswered(a), Entry::ModelAnswered(b)) => {
            (a.request, &a.text, &a.calls, a.finish) == (b.request, &b.text, &b.calls, b.finish)
        }
        (Entry::CallRefused(a), Entry::CallRefused(b)) => {
            (&a.call, a.error.code, &a.error.message) == (&b.call, b.error.code, &b.error.message)
        }
        (Entry::CallFinished(a), Entry::CallFinished(b)) => a.call == b.call && left.is_result_same(&a.result, right, &b.result),
        (Entry::DocumentWritten(a), Entry::DocumentWritten(b)) => {
            (&a.path, a.version, a.content.hash) == (&b.path, b.version, b.content.hash)
        }
        (Entry::QuestionClosed(a), Entry::QuestionClosed(b)) => match (&a.how, &b.how) {
            (QuestionEnd::Answered { answer: a, .. }, QuestionEnd::Answered { answer: b, .. }) => a == b,
            (a, b) => a == b,
        },
        (Entry::TaskEnded(a), Entry::TaskEnded(b)) => {
            (a.state, a.limit) == (b.state, b.limit) && left.is_result_same(&a.result, right, &b.result)
        }
        (Entry::Control(a), Entry::Control(b)) => a.action == b.action,
        (a, b) => a == b,
    }
}

/// Describes how two entries at the same place differ, with the cause if it is certain.
fn explain(a: &Recorded, b: &Recorded, sides: &[Side; 2], loaded: &Loaded) -> (Option<Cause>, String) {
    match (&a.entry, &b.entry) {
        (Entry::RunStarted(a), Entry::RunStarted(b)) => (Some(Cause::Person), started(a, b)),
        (Entry::TaskCreated(a), Entry::TaskCreated(b)) => {
            if a.request == b.request && a.holder == b.holder {
                (None, "the documents that came with the request".to_owned())
            } else {
                (None, format!("the request: {} → {}", shown(&a.request), shown(&b.request)))
            }
        }
        (Entry::ModelAnswered(first), Entry::ModelAnswered(second)) if first.request != second.request => {
            let configs = [(0, a), (1, b)].map(|(side, recorded)| loaded.get(&sides[side].configs_at(recorded.seq)));
            let parts = changed_parts(sides[1].holder(&second.task).as_ref(), configs);
            let request = format!("the request of turn {}", second.turn);
            if parts.is_empty() { (None, request) } else { (Some(Cause::Config), format!("{request} ({parts})")) }
        }
        (Entry::ModelAnswered(a), Entry::ModelAnswered(b)) => {
            let said = |text: &str, calls: &[Arc<baton_types::call::ModelCall>]| {
                let calls: Vec<String> = calls.iter().map(|call| format!("{}({})", call.tool, call.input.text())).collect();
                shown(&format!("{text} {}", calls.join(", ")))
            };
            let (a, b) = (said(&a.text, &a.calls), said(&b.text, &b.calls));
            (Some(Cause::ModelAnswer), format!("the answer to the same request: {a} → {b}"))
        }
        (Entry::CallFinished(a), Entry::CallFinished(b)) if a.call == b.call => {
            let result = |result: &CallResult| {
                let error = result.error.as_ref().map(|error| error.message.clone());
                shown(&error.unwrap_or_else(|| result.output.text().into_owned()))
            };
            let what = format!("the result of {} ({}): {} → {}", b.tool, b.call, result(&a.result), result(&b.result));
            (Some(Cause::ToolResult), what)
        }
        (Entry::DocumentWritten(a), Entry::DocumentWritten(b)) => {
            let cause = if a.call.is_some() || b.call.is_some() { Cause::ToolResult } else { Cause::Document };
            (Some(cause), format!("document {} as it was written → {}", a.reference(), b.reference()))
        }
        (Entry::QuestionClosed(a), Entry::QuestionClosed(b)) => {
            let is_of_person = |how: &QuestionEnd| matches!(how, QuestionEnd::Answered { by, .. } if by.is_outside());
            let cause = (is_of_person(&a.how) || is_of_person(&b.how)).then_some(Cause::Person);
            (cause, format!("the answer to question Q{}", b.number))
        }
        (Entry::TaskEnded(a), Entry::TaskEnded(b)) => {
            let cause = (a.limit != b.limit).then_some(Cause::Limit);
            (cause, format!("the end of task {}: {} → {}", b.task, a.state.as_str(), b.state.as_str()))
        }
        (Entry::CallRefused(a), Entry::CallRefused(b)) => {
            (None, format!("why a call was refused: {} → {}", shown(&a.error.message), shown(&b.error.message)))
        }
        // The entries at this place are of different kinds. If one of them alone has a cause of its own, that explains the difference.
        (a, b) => {
            let (first, second) = (alone(a), alone(b));
            let cause = match (first.0, second.0) {
                (Some(cause), None) | (None, Some(cause)) => Some(cause),
                (first, second) => first.filter(|_| first == second),
            };
            (cause, format!("{} → {}", first.1, second.1))
        }
    }
}

/// Returns the parts of a request of `holder` that the two `configs` set differently, as text; empty if there are none.
fn changed_parts(holder: Option<&Holder>, configs: [Option<&Arc<Configs>>; 2]) -> String {
    let Some(Holder::Agent(id)) = holder else { return String::new() };
    let [Some(a), Some(b)] = configs.map(|configs| configs?.agents.get(id)) else { return String::new() };
    let parts = [
        ("system prompt", a.system_prompt != b.system_prompt),
        ("model", a.model != b.model),
        ("settings", a.settings != b.settings),
        ("tools", a.offered.hash() != b.offered.hash()),
    ];
    let changed: Vec<&str> = parts.iter().filter(|(_, is_changed)| *is_changed).map(|(part, _)| *part).collect();
    if changed.is_empty() { String::new() } else { format!("{} of agent {id}", changed.join(", ")) }
}

/// Describes an entry that only one run has, with the cause if it is certain.
fn alone(entry: &Entry) -> (Option<Cause>, String) {
    match entry {
        Entry::ModelRequested(requested) => match &requested.notice {
            Some(Notice::LastTurn { limit }) => (Some(Cause::Limit), format!("the last turn, at limit {limit}")),
            Some(Notice::Summarise { .. }) => (Some(Cause::Limit), "a summary of older turns, to make room".to_owned()),
            Some(Notice::Steer { .. }) => (None, "a message to the running task".to_owned()),
            _ => (None, "a reminder".to_owned()),
        },
        Entry::Compacted(compacted) => {
            (Some(Cause::Limit), format!("turns up to {} were replaced by a summary", compacted.through_turn))
        }
        Entry::Control(Control { by, .. }) => (by.is_outside().then_some(Cause::Person), format!("what {by} did")),
        Entry::CallRefused(refused) => {
            let cause = (refused.error.code == ErrorCode::LimitReached).then_some(Cause::Limit);
            (cause, format!("call {} of {} was refused: {}", refused.call, refused.tool, shown(&refused.error.message)))
        }
        Entry::TaskEnded(ended) if ended.limit.is_some() => (Some(Cause::Limit), format!("task {} ended at a limit", ended.task)),
        Entry::DocumentWritten(version) if version.call.is_none() => {
            (Some(Cause::Document), format!("document {} was written", version.reference()))
        }
        Entry::QuestionClosed(closed) => {
            let is_of_person = matches!(&closed.how, QuestionEnd::Answered { by, .. } if by.is_outside());
            (is_of_person.then_some(Cause::Person), format!("question Q{} was closed", closed.number))
        }
        Entry::TaskCreated(created) => (None, format!("task {} exists in one of them only", created.task)),
        entry => (None, format!("{} in one of them only", entry.name().replace('_', " "))),
    }
}

fn started(a: &RunStarted, b: &RunStarted) -> String {
    if a.job != b.job {
        return format!("the job: {} → {}", a.job, b.job);
    }
    if a.inputs != b.inputs {
        return format!("the inputs: {} → {}", shown(a.inputs.text()), shown(b.inputs.text()));
    }
    format!("the request: {} → {}", shown(&a.request), shown(&b.request))
}

/// Returns the beginning of `text`.
fn shown(text: &str) -> String {
    let text = text.trim();
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
