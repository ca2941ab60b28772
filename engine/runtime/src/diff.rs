//! `diff`: two runs side by side. Tasks are aligned by path, their entries in order; what differs first is named with its
//! cause, if the cause is certain.
//!
//! An entry's difference can only be caused by an earlier one, so of all tasks' first differences the earliest is the one
//! that no other explains. Configs that differ somewhere are not the cause of every difference: they are one only where they change a
//! part of the request that differs.

mod explain;
mod report;
mod side;

use std::collections::BTreeSet;

use baton_types::entry::{Entry, QuestionEnd, Recorded};
use baton_types::id::{RunId, TaskId};

use self::explain::{Loaded, alone, explain};
use self::side::Side;
use crate::engine::Engine;
use crate::error::RunError;

pub use self::report::{Cause, Divergent, DocumentDiff, RunDiff, TaskDiff};

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
