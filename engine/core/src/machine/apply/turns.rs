//! A model is asked and answers: the open turn, and what is reserved and spent for it.

use std::sync::Arc;
use std::time::Duration;

use super::calls::queue_for_calls;
use super::known;
use super::tasks::enter;
use crate::entry::{BudgetSettled, CallAskedModel, Compacted, FellBack, ModelAnswered, ModelRequested, Notice, Waited};
use crate::id::TaskId;
use crate::machine::Run;
use crate::machine::compact::{KEPT_TURNS, is_measured};
use crate::machine::task::{Budget, CallStage, Context, ContextMark, OpenAsk, OpenCall, OpenTurn, TaskState};
use crate::machine::{agent, answer};
use crate::money::Money;
use crate::render;
use crate::time::Timestamp;
use crate::tool_type::{Then, ToolType};

pub(super) fn model_requested(run: &mut Run, at: Timestamp, entry: &ModelRequested) {
    enter(run, at, &entry.task, TaskState::Running);
    // Configs that were adopted may limit what those before did not: from here on the length is kept.
    let limited = known(run, &entry.task).context.is_some() || is_measured(run, &entry.task);
    let task = known(run, &entry.task);
    let again = task.turns == entry.turn;
    task.turns = entry.turn;
    task.interrupted = false;
    task.context_tokens = entry.input_tokens;
    if limited && !again {
        // What people said stands at the head of this turn, and stays as long as it does.
        let heads: u64 = entry.steers.iter().map(|text| render::steer_tokens(text)).sum();
        let tokens = entry.input_tokens.saturating_sub(heads);
        let context = task.context.get_or_insert_with(|| Box::new(Context { base_tokens: tokens, ..Context::default() }));
        context.requests.push_back(ContextMark { turn: entry.turn, tokens });
        // The request for a summary is remembered beside those whose turns the summary may let stay.
        let kept = KEPT_TURNS + usize::from(matches!(entry.notice, Some(Notice::Summarise { .. })));
        if context.requests.len() > kept {
            context.requests.pop_front();
        }
    }
    task.open = Some(Box::new(OpenTurn {
        turn: entry.turn,
        requested: true,
        fallback: None,
        text: Arc::default(),
        calls: Vec::new(),
        unfinished: 0,
        waiting_functions: 0,
        running_functions: 0,
        writer_runs: false,
        awaited: 0,
        asking: 0,
        doubtful: 0,
        uncharged: false,
        asks: Vec::new(),
    }));
    match &entry.notice {
        Some(Notice::LastTurn { limit }) => task.last_turn = Some(*limit),
        Some(Notice::Summarise { through_turn }) => {
            let context = task.context.as_mut().expect("only what is measured is summarised");
            context.summarising = Some(*through_turn);
        }
        Some(Notice::Steer { .. }) => drop(task.steering.remove(0)),
        Some(Notice::Reminder { .. }) | None => {}
    }
    task.steering.drain(..entry.steers.len());
    task.reserved_tokens = entry.reserved_tokens;
    task.reserved_cost = entry.reserved_cost;
    if !again {
        run.shared.turns += 1;
    }
    reserve(run, &entry.task, entry.reserved_tokens, entry.reserved_cost);
}

pub(super) fn call_asked_model(run: &mut Run, entry: &CallAskedModel) {
    let CallAskedModel { task, by, model: _, input_tokens, reserved_tokens, reserved_cost } = entry.clone();
    let open = known(run, &task).open.as_mut().expect("the call that asks is in it");
    open.asks.push(OpenAsk { by, input_tokens, reserved_tokens, reserved_cost });
    reserve(run, &task, reserved_tokens, reserved_cost.unwrap_or_default());
}

pub(super) fn fell_back(run: &mut Run, entry: &FellBack) {
    let open = known(run, &entry.task).open.as_mut().expect("what falls back is a request");
    open.fallback = Some(entry.to.as_str().into());
}

pub(super) fn waited(run: &mut Run, id: &TaskId, waited: &Waited) {
    let task = known(run, id);
    task.working_since = task.working_since.map(|since| since.plus(Duration::from_millis(waited.milliseconds)));
    if let Some(open) = task.open.as_mut() {
        open.uncharged = waited.stops && waited.uncharged;
    }
    let shared = &mut run.shared;
    shared.active_since = shared.active_since.map(|since| since.plus(Duration::from_millis(waited.run_milliseconds)));
}

pub(super) fn model_answered(run: &mut Run, at: Timestamp, entry: &ModelAnswered) {
    let configs = Arc::clone(run.configs());
    let task = known(run, &entry.task);
    // A summary is no turn of the work: it neither misses the point nor stays in the conversation.
    if !task.is_summarising() {
        let fault = answer::turn_fault(&configs, task, entry);
        task.fault = fault;
        task.reminders = if fault.is_some() { task.reminders + 1 } else { 0 };
        task.context_tokens += render::answered_tokens(entry);
    }
    let tools = task.agent().map(|id| &agent(&configs, id).tools);
    let open = task.open.as_mut().expect("an answer belongs to a request");
    open.requested = false;
    open.text = entry.text.as_str().into();
    let mut made = 0;
    for (position, asked) in (1..).zip(&entry.calls) {
        let tool = tools.and_then(|tools| tools.get(asked.tool.as_str()));
        let tool_type = tool.map(|tool| tool.tool_type);
        if tool_type.is_some_and(|tool_type| tool_type.behavior().runs_code) {
            open.waiting_functions += 1;
        }
        made += u32::from(counts(tool_type));
        open.unfinished += 1;
        open.calls.push(OpenCall {
            id: entry.task.call(entry.turn, position),
            asked: Arc::clone(asked),
            tool_type,
            delegates: tool.is_some_and(|tool| tool.agent.is_some()),
            approved: None,
            approvals: 0,
            attempts: None,
            stage: CallStage::Waiting,
        });
    }
    task.calls += made;
    if entry.calls.is_empty() {
        task.open = None;
        enter(run, at, &entry.task, TaskState::Ready);
    } else if open.waiting_functions > 0 {
        let seq = run.shared.seq;
        queue_for_calls(run, &entry.task, seq);
    }
    run.shared.calls += made;
}

pub(super) fn compacted(run: &mut Run, entry: &Compacted) {
    let task = known(run, &entry.task);
    let gone = task.context_tokens.saturating_sub(entry.context_tokens);
    task.context_tokens = entry.context_tokens;
    let context = task.context.as_mut().expect("only what is measured is compacted");
    let summary_turn = context.summarising.take().map(|_| task.turns);
    if summary_turn.is_some() {
        // Whether it was answered or not, a turn that was for the summary alone is over.
        task.interrupted = false;
    }
    context.through_turn = entry.through_turn;
    context.requests.retain(|request| request.turn > entry.through_turn && Some(request.turn) != summary_turn);
    for request in &mut context.requests {
        request.tokens = request.tokens.saturating_sub(gone);
    }
}

pub(super) fn budget_settled(run: &mut Run, at: Timestamp, entry: &BudgetSettled) {
    let (used, cost) = (entry.usage.total(), entry.cost.unwrap_or_default());
    let task = known(run, &entry.task);
    task.usage.add(&entry.usage);
    task.cost.settle(entry.cost);
    let reserved_cost = if let Some(by) = &entry.by {
        let asks = &mut task.open.as_mut().expect("a call that asks is in it").asks;
        let place = asks.iter().position(|ask| ask.by == **by).expect("what is settled was asked");
        asks.remove(place).reserved_cost.unwrap_or_default()
    } else {
        task.reserved_tokens = 0;
        std::mem::take(&mut task.reserved_cost)
    };
    on_all_above(run, &entry.task, |budget| {
        budget.reserved_tokens = budget.reserved_tokens.saturating_sub(entry.reserved_tokens);
        budget.reserved_cost = budget.reserved_cost.minus(reserved_cost);
        budget.tokens = budget.tokens.saturating_add(used);
        budget.cost = budget.cost.plus(cost);
    });
    let shared = &mut run.shared;
    shared.reserved_tokens = shared.reserved_tokens.saturating_sub(entry.reserved_tokens);
    shared.reserved_cost = shared.reserved_cost.minus(reserved_cost);
    shared.usage.add(&entry.usage);
    shared.cost.settle(entry.cost);
    let task = known(run, &entry.task);
    if task.open.as_ref().is_some_and(|open| open.requested) {
        // Nobody will answer any more: unless the task ends now, the turn is asked for again.
        task.open = None;
        task.interrupted = true;
        enter(run, at, &entry.task, TaskState::Ready);
    }
}

/// Whether a call counts towards [`crate::limits::Limits::calls`]: all do but handoffs, so that a task can always finish.
pub(in crate::machine) fn counts(tool_type: Option<ToolType>) -> bool {
    tool_type.is_none_or(|tool_type| tool_type.behavior().then != Then::Stop)
}

/// Reserves on `id`, every task above it and the run.
fn reserve(run: &mut Run, id: &TaskId, tokens: u64, cost: Money) {
    on_all_above(run, id, |budget| {
        budget.reserved_tokens = budget.reserved_tokens.saturating_add(tokens);
        budget.reserved_cost = budget.reserved_cost.plus(cost);
    });
    let shared = &mut run.shared;
    shared.reserved_tokens = shared.reserved_tokens.saturating_add(tokens);
    shared.reserved_cost = shared.reserved_cost.plus(cost);
}

/// Changes the budgets of `id` and of every task above it, where a limit keeps one.
fn on_all_above(run: &mut Run, id: &TaskId, change: impl Fn(&mut Budget)) {
    if !run.shared.has_budgets {
        return;
    }
    let mut next = Some(id.clone());
    while let Some(id) = next {
        if run.task(&id).is_some_and(|task| task.budget.is_some())
            && let Some(budget) = known(run, &id).budget.as_mut()
        {
            change(budget);
        }
        next = run.caller(&id);
    }
}
