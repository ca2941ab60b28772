//! Describes how entries differ, and names the cause if it is certain.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_types::call::{CallResult, ErrorCode, ModelCall};
use baton_types::config::Configs;
use baton_types::entry::{Control, Entry, Holder, Notice, QuestionEnd, Recorded, RunStarted};
use baton_types::id::ContentHash;

use super::report::Cause;
use super::side::Side;

/// Number of characters shown of a text that differs.
const SHOWN: usize = 80;

/// The configs of both runs, by their hash.
pub(super) type Loaded = BTreeMap<ContentHash, Arc<Configs>>;

/// Describes how two entries at the same place differ, with the cause if it is certain.
pub(super) fn explain(a: &Recorded, b: &Recorded, sides: &[Side; 2], loaded: &Loaded) -> (Option<Cause>, String) {
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
            let said = |text: &str, calls: &[Arc<ModelCall>]| {
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
pub(super) fn alone(entry: &Entry) -> (Option<Cause>, String) {
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
