//! Rule *window*: older turns are replaced by a summary before a request exceeds its window.
//!
//! A request over the window is never made. Either a summary replaces older turns first, or the task ends with its results so
//! far. The summary is a digest that rendering makes, or a text that the agent's own model writes in a turn for it. That turn
//! is limited, paid and repeated after a crash like any other turn.

use baton_render::summary_tokens;
use baton_types::config::Summary;
use baton_types::entry::Compacted;

use crate::prelude::*;
use crate::task::Plan;

/// Tokens (≈) of the request for a summary.
const ASKING_TOKENS: u64 = 128;

/// Makes room in the conversation of a ready task, if its next request needs it. The request follows, unless the model is asked
/// for a summary first, or a limit ends the task.
pub(crate) fn fit(draft: &mut Draft<'_>, task: TaskIndex) {
    if !draft.task(task).phase.is_ready() {
        return;
    }
    let Some(window) = draft.run.window(task) else { return draft.then(Step::Request(task)) };
    if draft.task(task).is_summarising() {
        if draft.run.needed_tokens(task) <= window {
            return draft.then(Step::Request(task));
        }
        // Configs that were adopted since leave no room to ask for the summary again.
        replace_older(draft, task, None);
    }
    if let Some(plan) = plan(draft.run, task, window) {
        match summary_admission(draft, task, window) {
            Some(Admission::Now) => {
                let turn = draft.task(task).turns + 1;
                let notice = Notice::Summarise { through_turn: plan.through_turn };
                let allotment = draft.run.allot(task);
                return draft.request_turn(task, turn, allotment, Vec::new(), Some(notice));
            }
            Some(Admission::Later) => return,
            Some(Admission::Reached(_)) | None => compact(draft, task, &plan, None, plan.digest_tokens(window)),
        }
    }
    if draft.run.least_tokens(task, window) > window {
        draft.then_end_partial(task, LimitKind::Context, Json::null());
    } else {
        draft.then(Step::Request(task));
    }
}

/// Replaces as many older turns as possible, because the provider rejects the length of the request. The turn is asked for
/// again.
pub(crate) fn shorten(draft: &mut Draft<'_>, task: TaskIndex) {
    if let Some(plan) = draft.task(task).plans().last() {
        let digest_tokens = plan.digest_tokens(draft.task(task).context_tokens);
        compact(draft, task, &plan, None, digest_tokens);
    }
}

/// Ends a turn that was for a summary. Its text replaces the older turns; if it has none, a digest does.
pub(crate) fn summarise(draft: &mut Draft<'_>, task: TaskIndex, summary: Option<String>) {
    if draft.task(task).phase.calls().is_some() {
        draft.refuse_all(task, "this turn is for the summary alone, so its calls were not executed");
    }
    replace_older(draft, task, summary);
}

/// Replaces the turns that a summary was asked for.
fn replace_older(draft: &mut Draft<'_>, task: TaskIndex, summary: Option<String>) {
    let Purpose::Summary { through_turn } = draft.task(task).phase.purpose() else { return };
    // Configs that were adopted meanwhile may have no window. The compaction is finished all the same.
    let window = draft.run.window(task).unwrap_or(u64::MAX);
    let planned = draft.task(task).plans().find(|plan| plan.through_turn == through_turn);
    let plan = planned.expect("the turns that a summary was asked for may still be replaced");
    let summary = summary.map(|text| (summary_tokens(&text), text)).filter(|(tokens, _)| *tokens < plan.dropped);
    match summary {
        Some((tokens, text)) => compact(draft, task, &plan, Some(text), tokens),
        None => compact(draft, task, &plan, None, plan.digest_tokens(window)),
    }
}

fn compact(draft: &mut Draft<'_>, task: TaskIndex, plan: &Plan, summary: Option<String>, summary_tokens: u64) {
    draft.push(Entry::Compacted(Compacted {
        task: draft.id(task),
        through_turn: plan.through_turn,
        summary,
        summary_tokens,
        context_tokens: plan.kept.saturating_add(summary_tokens),
    }));
}

/// Checks whether the model of `task` may be asked for a summary; `None` if its agent wants none, or if the request does not
/// fit.
fn summary_admission(draft: &Draft<'_>, task: TaskIndex, window: u64) -> Option<Admission> {
    let wanted = !is_interrupted(draft.task(task)) && draft.agent(task).summary == Summary::Model;
    let fits = draft.run.needed_tokens(task).saturating_add(ASKING_TOKENS) <= window;
    (wanted && fits).then(|| draft.run.admission(draft.at, task, draft.run.allot(task).input_tokens, false))
}

/// Returns the compaction before the next request of `task`, if one is due. Above four fifths of the window it must replace
/// more than a tenth of the window. Above the window it replaces whatever it can. It keeps the most turns that leave half of
/// the window free, so that the next compaction is far.
fn plan(run: &Run, task: TaskIndex, window: u64) -> Option<Plan> {
    // New content may take half of the window before older turns are replaced for it.
    let counted = run.counted(task);
    let needed = run.needed_tokens(task).saturating_add(counted.expected(run.fresh_tokens(task)).min(window / 2));
    // A repeated request is the same as the first one, unless it exceeds the window.
    let bound = if is_interrupted(&run.graph[task]) { window } else { window - window / 5 };
    if needed <= bound {
        return None;
    }
    let output = run.output_tokens(task);
    let leaves_half = |plan: &Plan| counted.expected(plan.kept + plan.digest_tokens(window)) + output <= window / 2;
    let plan = run.graph[task].plans().find(leaves_half).or_else(|| run.graph[task].plans().last())?;
    (needed > window || counted.expected(plan.dropped) > window / 10).then_some(plan)
}

/// Whether the newest turn of `task` is asked for again.
const fn is_interrupted(task: &Task) -> bool {
    matches!(task.phase, Phase::Ready(Next::Again(_)))
}
