//! A model answers, fails or waits. The rules *arrive*, *text* and *window* interpret an answer.

use baton_types::entry::{FellBack, ForkPoint, TurnKind, Waited};
use baton_types::model::{FinishReason, ModelTurn};

use crate::prelude::*;
use crate::rules::text::turn_kind;

/// Records the model's answer to turn `turn` of `id`, and settles its request.
pub(crate) fn answered(
    draft: &mut Draft<'_>,
    id: &TaskId,
    turn: u32,
    request: ContentHash,
    answer: ModelTurn,
    recorded: Option<ForkPoint>,
) {
    let Some(task) = awaiting(draft, id, turn) else {
        return draft.record_late(id, format!("an answer for turn {turn}"));
    };
    let ModelTurn { text, mut calls, finish, usage, items, answered } = answer;
    if draft.task(task).has_requests(draft.run.configs()) {
        draft.task(task).extras().requests.name_calls(&mut calls);
    }
    let summary = usable_summary(&text, &calls, finish);
    let usage = usage.map_or_else(|| estimated_usage(draft, task, &text, &calls), Usage::bounded);
    let cost = draft.run.price(task).map(|price| price.cost(&usage));
    let mut entry = ModelAnswered {
        task: id.clone(),
        turn,
        text,
        calls: calls.into_iter().map(Arc::new).collect(),
        finish,
        kind: TurnKind::Work,
        request,
        items,
        answered,
        recorded,
    };
    entry.kind = turn_kind(draft.run, task, &entry);
    let (kind, is_text) = (entry.kind, entry.calls.is_empty());
    draft.push(Entry::ModelAnswered(entry));
    draft.settle_request(task, Used::Known(usage, cost));
    draft.then(match kind {
        TurnKind::Summary => Step::Summarise { task, summary },
        TurnKind::Work if !is_text => Step::Arrive { task, from: 0, creating: 0 },
        TurnKind::Work | TurnKind::Discarded(_) => Step::Text(task),
        TurnKind::Rest => return,
    });
}

/// Handles a request that got no answer. If the model is not available, its next fallback is asked. A failed summary becomes
/// a digest, and a request that is too long is shortened. Otherwise the task ends, and its reservation is settled at the
/// worst case unless the request was not charged.
pub(crate) fn failed(draft: &mut Draft<'_>, id: &TaskId, turn: u32, model: &str, error: CallError, uncharged: bool) {
    let task = awaiting(draft, id, turn).filter(|task| draft.run.asked_model(*task) == Some(model));
    let Some(task) = task else {
        return draft.record_late(id, format!("a failure of the model {model} in turn {turn}"));
    };
    if error.code == ErrorCode::ModelUnavailable
        && let Some(to) = draft.run.fallback_of(task)
    {
        let (from, to) = (model.to_owned(), to.to_owned());
        draft.push(Entry::FellBack(Box::new(FellBack { task: id.clone(), turn, from, to, error })));
        return draft.decision.effects.push(Effect::Prompt { task: id.clone(), turn });
    }
    if draft.task(task).is_summarising() {
        draft.settle_request(task, Used::Reservation);
        return draft.then(Step::Summarise { task, summary: None });
    }
    // The provider rejects the length of the request, whatever was known of its window.
    if error.code == ErrorCode::ContextExceeded && draft.task(task).plans().next().is_some() {
        draft.settle_request(task, Used::Reservation);
        return draft.then(Step::Shorten(task));
    }
    if uncharged {
        draft.settle_request(task, Used::Nothing);
    }
    if error.code == ErrorCode::TimedOut {
        return draft.then_time_out(task, LimitKind::TurnSeconds, error);
    }
    draft.then(Step::end(task, CallResult::error(CallStatus::Failed, error)));
}

/// Records how long the open request of `id` waited for its provider: at most as long as its task and the run have worked.
pub(crate) fn waited(draft: &mut Draft<'_>, id: &TaskId, turn: u32, waited: Waited) {
    if let Some(task) = awaiting(draft, id, turn) {
        let at = draft.at;
        let since =
            |since: Option<Timestamp>| since.map_or(0, |since| u64::try_from(at.since(since).as_millis()).unwrap_or(u64::MAX));
        let (of_task, of_run) = (draft.task(task).working_since, draft.run.shared.active_since);
        let waited = Waited {
            milliseconds: waited.milliseconds.min(since(of_task)),
            run_milliseconds: waited.run_milliseconds.min(since(of_run)),
            ..waited
        };
        draft.control(Some(id.clone()), ControlAction::Waited(Box::new(waited)), Principal::Engine);
    }
}

/// Returns the task `id`, if the request of its turn `turn` is open.
fn awaiting(draft: &Draft<'_>, id: &TaskId, turn: u32) -> Option<TaskIndex> {
    let task = draft.run.graph.find(id.as_str())?;
    let of = draft.task(task);
    (of.phase.request().is_some() && of.turns == turn).then_some(task)
}

/// Returns the text of a turn, if it can replace other turns.
fn usable_summary(text: &str, calls: &[ModelCall], finish: FinishReason) -> Option<String> {
    let usable = finish == FinishReason::Stop && calls.is_empty() && !text.trim().is_empty();
    usable.then(|| text.to_owned())
}

fn estimated_usage(draft: &Draft<'_>, task: TaskIndex, text: &str, calls: &[ModelCall]) -> Usage {
    let bytes = text.len() + calls.iter().map(|call| call.tool.len() + call.input.text().len()).sum::<usize>();
    Usage {
        input_tokens: draft.task(task).context_tokens,
        output_tokens: baton_types::estimate::text_tokens(bytes as u64),
        estimated: true,
        ..Usage::default()
    }
}
