//! Older turns give way when a conversation comes near the end of its window.
//!
//! A request that exceeds the window is never made: either a summary takes the place of older turns first, or the task ends
//! with what it has. The summary is a digest that rendering makes, or what the agent's own model writes in a turn of its own,
//! which is limited, paid and repeated after a crash as any other turn is.

use super::Run;
use super::admit::Admission;
use super::{Draft, agent, task_limits};
use crate::call::ModelCall;
use crate::config::Summary;
use crate::entry::{Compacted, Entry, Notice};
use crate::id::TaskId;
use crate::json::Json;
use crate::limits::LimitKind;
use crate::model::FinishReason;
use crate::render::{SUMMARY_FRAME_TOKENS, summary_tokens};

/// The newest turns that may stay as they are; so many more requests are remembered by their length.
pub(super) const KEPT_TURNS: usize = 4;

/// The most tokens (≈) of a digest.
const DIGEST_TOKENS: u64 = 2_000;

/// Tokens (≈) of what asks for a summary.
const ASKING_TOKENS: u64 = 128;

/// What a compaction would do.
struct Plan {
    /// The last turn that gives way.
    through_turn: u32,
    /// Tokens of what gives way.
    dropped: u64,
    /// Tokens of what stays.
    kept: u64,
}

impl Plan {
    /// The most tokens that a digest may take: less than what it stands for.
    fn digest_tokens(&self, window: u64) -> u64 {
        DIGEST_TOKENS.min(window / 8).min(self.dropped / 2).max(SUMMARY_FRAME_TOKENS)
    }
}

/// Whether the length of the requests of `id` is kept: something limits it, or a provider may say that it does.
pub(super) fn is_measured(run: &Run, id: &TaskId) -> bool {
    let job = &run.configs().job;
    window(run, id).is_some() || models(run, id).is_some_and(|mut models| models.any(|name| job.is_provided(name)))
}

/// The names of all models that may be asked for `id`.
fn models<'r>(run: &'r Run, id: &TaskId) -> Option<impl Iterator<Item = &'r String>> {
    let own = &agent(run.configs(), run.task(id)?.agent()?).model;
    let name = run.shared.started.as_ref()?.model.as_ref().unwrap_or(own);
    Some(std::iter::once(name).chain(run.configs().job.fallbacks(name)))
}

/// The most tokens that a request of `id` and its answer may have together: what its limits, those of the run and the
/// windows of all models that may be asked allow.
pub(super) fn window(run: &Run, id: &TaskId) -> Option<u64> {
    let (configs, started) = (run.configs(), run.shared.started.as_ref()?);
    let windows = models(run, id)?
        .filter_map(|name| configs.job.window(name).or_else(|| started.prices.get(name).and_then(|price| price.context_tokens)));
    let limits = [task_limits(configs, run.task(id)?).context_tokens, configs.job.limits.context_tokens];
    limits.into_iter().flatten().chain(windows).min()
}

impl Draft<'_> {
    /// Makes room in the conversation of `id`, if its next request needs it. Returns whether the request may be made now: not
    /// while its model is asked for a summary, nor after a limit ended the task.
    pub(super) fn makes_room(&mut self, id: &TaskId) -> bool {
        let Some(window) = window(self.run, id) else { return true };
        if self.task(id).is_summarising() {
            if self.needed(id) <= window {
                return true;
            }
            // Configs that were adopted since leave no room to ask for it again.
            self.replace_older(id, None);
        }
        if let Some(plan) = self.plan(id, window) {
            if self.is_asked_for_summary(id, &plan, window) {
                return false;
            }
            self.compact(id, &plan, None, plan.digest_tokens(window));
        }
        if self.needed(id) > window {
            self.end_partial(id, LimitKind::Context, Json::null());
            return false;
        }
        true
    }

    /// A provider takes no request of that length, whatever was known of its window: all older turns that may give way do, and
    /// the turn is asked for again. Says whether there were any.
    pub(super) fn shortened(&mut self, id: &TaskId, turn: u32) -> bool {
        let Some(plan) = self.plans(id).last() else { return false };
        self.settle_at_worst(id, turn, self.task(id).reserved_tokens);
        self.compact(id, &plan, None, plan.digest_tokens(self.task(id).context_tokens));
        true
    }

    /// What a turn that was asked for a summary means: its text stands for the older turns, or a digest if it is none.
    pub(super) fn summarised(&mut self, id: &TaskId, summary: Option<String>) {
        self.refuse_all(id, "this turn is for the summary alone, so its calls were not executed");
        self.replace_older(id, summary);
    }

    /// The model asked for a summary of `id` gave none: a digest stands for the older turns.
    pub(super) fn replace_older(&mut self, id: &TaskId, summary: Option<String>) {
        let Some(through_turn) = self.task(id).context.as_ref().and_then(|context| context.summarising) else { return };
        // Configs that were adopted meanwhile may know of no window: what was begun is finished all the same.
        let window = window(self.run, id).unwrap_or(u64::MAX);
        let planned = self.plans(id).find(|plan| plan.through_turn == through_turn);
        let plan = planned.expect("the turns that a summary was asked for may still give way");
        let summary = summary.map(|text| (summary_tokens(&text), text)).filter(|(tokens, _)| *tokens < plan.dropped);
        match summary {
            Some((tokens, text)) => self.compact(id, &plan, Some(text), tokens),
            None => self.compact(id, &plan, None, plan.digest_tokens(window)),
        }
    }

    fn compact(&mut self, id: &TaskId, plan: &Plan, summary: Option<String>, summary_tokens: u64) {
        self.push(Entry::Compacted(Compacted {
            task: id.clone(),
            through_turn: plan.through_turn,
            summary,
            summary_tokens,
            context_tokens: plan.kept.saturating_add(summary_tokens),
        }));
    }

    /// Asks the model of `id` for a summary, where its agent wants one of it and limits admit the turn; says whether the next
    /// request has to wait for that.
    fn is_asked_for_summary(&mut self, id: &TaskId, plan: &Plan, window: u64) -> bool {
        let configs = self.configs();
        let task = self.task(id);
        let wanted = !task.interrupted && task.agent().is_some_and(|id| agent(&configs, id).summary == Summary::Model);
        if !wanted || self.needed(id).saturating_add(ASKING_TOKENS) > window {
            return false;
        }
        match self.admission(id, false) {
            Admission::Now => {
                let turn = self.task(id).turns + 1;
                let notice = Notice::Summarise { through_turn: plan.through_turn };
                self.request_turn(id, turn, Vec::new(), Some(notice));
                true
            }
            Admission::Later => true,
            Admission::Reached(_) => false,
        }
    }

    /// Tokens of the next request of `id` and the longest answer to it.
    fn needed(&self, id: &TaskId) -> u64 {
        self.task(id).context_tokens.saturating_add(self.run.output_tokens(id))
    }

    /// What gives way before the next request of `id`, if something should: at four fifths of the window, turns that make up a
    /// tenth of it at least; beyond the window, whatever there is. The newest turns stay, as many as leave half of it free, so
    /// that the next compaction is far.
    fn plan(&self, id: &TaskId, window: u64) -> Option<Plan> {
        let needed = self.needed(id);
        // What is asked for a second time is the same as the first time, unless it must not.
        let bound = if self.task(id).interrupted { window } else { window - window / 5 };
        if needed <= bound {
            return None;
        }
        let output = self.run.output_tokens(id);
        let leaves_half = |plan: &Plan| plan.kept + plan.digest_tokens(window) + output <= window / 2;
        let plan = self.plans(id).find(leaves_half).or_else(|| self.plans(id).last())?;
        (needed > window || plan.dropped > window / 10).then_some(plan)
    }

    /// What may give way, the least first: the newest turn always stays.
    fn plans(&self, id: &TaskId) -> impl Iterator<Item = Plan> {
        let task = self.task(id);
        let context = task.context.as_deref();
        let plans = context.into_iter().flat_map(|context| {
            let later = context.requests.iter().filter(|request| request.turn > context.through_turn + 1);
            later.map(|request| Plan {
                through_turn: request.turn - 1,
                dropped: request.tokens.saturating_sub(context.base_tokens),
                kept: context.base_tokens + task.context_tokens.saturating_sub(request.tokens),
            })
        });
        plans.filter(|plan| plan.dropped > 2 * SUMMARY_FRAME_TOKENS)
    }
}

/// What a turn says, if it can stand for other turns.
pub(super) fn usable_summary(text: &str, calls: &[ModelCall], finish: FinishReason) -> Option<String> {
    let usable = finish == FinishReason::Stop && calls.is_empty() && !text.trim().is_empty();
    usable.then(|| text.to_owned())
}
