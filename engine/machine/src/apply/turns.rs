//! Entries about model requests and answers: the open turn, and the tokens and money reserved and spent for it.

use baton_types::entry::{BudgetSettled, CallAskedModel, Compacted, FellBack, ModelRequested, TurnKind, Waited};

use super::calls::{follow_calls, open_calls};
use super::known;
use super::tasks::enter;
use crate::agent;
use crate::phase::{Request, Wait};
use crate::prelude::*;
use crate::task::{ContextMark, Held, KEPT_TURNS, Work};

pub(super) fn model_requested(run: &mut Run, at: Timestamp, entry: &ModelRequested) {
    let purpose = match &entry.notice {
        Some(Notice::LastTurn { limit }) => Purpose::LastTurn(*limit),
        Some(Notice::Summarise { through_turn }) => Purpose::Summary { through_turn: *through_turn },
        Some(
            Notice::Steer { .. }
            | Notice::Reminder { .. }
            | Notice::LimitsLeft(_)
            | Notice::InputChanged(_)
            | Notice::NotAccepted { .. },
        )
        | None => Purpose::Turn,
    };
    let index = known(run, &entry.task);
    enter(run, at, index, |_| Phase::Asking(Request { purpose, fallback: None, uncharged: false }));
    // Adopted configs may add a limit that the earlier ones lacked. From here on the length is kept.
    let limited = run.graph[index].work().context.is_some() || run.is_measured(index);
    let task = &mut run.graph[index];
    let again = task.turns == entry.turn;
    task.turns = entry.turn;
    // The estimate of the prompt has room for one such notice: that of the next request.
    let limits_tokens = if entry.limits_left.is_some() { render::LIMITS_TOKENS } else { 0 };
    task.context_tokens = entry.input_tokens + limits_tokens;
    let shown = task.take_fresh(entry);
    if let Some(context) = &mut task.work_mut().context {
        context.base_tokens += shown;
    }
    if limited && !again {
        // The messages of people are at the head of this turn, and stay as long as the turn does.
        let heads: u64 = entry.steers.iter().map(|text| render::steer_tokens(text)).sum();
        let tokens = entry.input_tokens.saturating_sub(heads);
        let context =
            task.work_mut().context.get_or_insert_with(|| Box::new(Context { base_tokens: tokens, ..Context::default() }));
        context.requests.push_back(ContextMark { turn: entry.turn, tokens });
        // The request for a summary is kept in addition to the newest `KEPT_TURNS` requests.
        let kept = KEPT_TURNS + usize::from(purpose.is_summary());
        if context.requests.len() > kept {
            context.requests.pop_front();
        }
    }
    let sent = entry.steers.len() + usize::from(matches!(entry.notice, Some(Notice::Steer { .. })));
    if let Some(extras) = &mut task.extras {
        extras.steering.drain(..sent);
    }
    if !again {
        run.shared.turns += 1;
        if let Some(extras) = &mut run.graph[index].extras {
            extras.unseen = Vec::new();
        }
    }
    let input_cost = run.highest_cost(index, entry.input_tokens, 0);
    let (tokens, cost, input_tokens) = (entry.reserved_tokens, entry.reserved_cost, entry.input_tokens);
    let reservation = Reservation { tokens, cost, input_tokens, input_cost };
    run.graph[index].work_mut().reservation = reservation;
    reserve(run, index, reservation);
}

pub(super) fn call_asked_model(run: &mut Run, entry: &CallAskedModel) {
    let CallAskedModel { task, by, model: _, input_tokens, reserved_tokens, reserved_cost } = entry.clone();
    let task = known(run, &task);
    let ask = OpenAsk { by, input_tokens, reserved_tokens, reserved_cost };
    let reservation = ask.reservation();
    open_calls(&mut run.graph[task]).add_ask(ask);
    reserve(run, task, reservation);
}

pub(super) fn fell_back(run: &mut Run, entry: &FellBack) {
    let task = known(run, &entry.task);
    open_request(&mut run.graph[task]).fallback = Some(entry.to.as_str().into());
}

pub(super) fn waited(run: &mut Run, task: TaskIndex, waited: &Waited) {
    let task = &mut run.graph[task];
    task.working_since = task.working_since.map(|since| since.plus(Duration::from_millis(waited.milliseconds)));
    if let Phase::Asking(request) = &mut task.phase {
        request.uncharged = waited.stops && waited.uncharged;
    }
    let shared = &mut run.shared;
    shared.active_since = shared.active_since.map(|since| since.plus(Duration::from_millis(waited.run_milliseconds)));
}

pub(super) fn model_answered(run: &mut Run, at: Timestamp, entry: &ModelAnswered) {
    run.shared.deaths = 0;
    let configs = Arc::clone(run.configs());
    let index = known(run, &entry.task);
    let task = &mut run.graph[index];
    let purpose = open_request(task).purpose;
    // A summary is not a turn of the work: it neither counts as a missed turn nor stays in the conversation.
    if entry.kind != TurnKind::Summary {
        let earlier = task.work().missed.map_or(0, |missed| missed.count);
        task.work_mut().missed = entry.kind.discarded().map(|reason| Missed { count: earlier + 1, reason });
        task.context_tokens += render::answered_tokens(entry);
    }
    let tools = task.agent().map(|id| &agent(&configs, id).tools);
    let calls = (1..).zip(&entry.calls).map(|(position, asked)| {
        let tool = tools.and_then(|tools| tools.get(asked.tool.as_str()));
        let delegates = tool.is_some_and(|tool| tool.delegates(&asked.input));
        let id = entry.task.call(entry.turn, position);
        OpenCall::new(id, Arc::clone(asked), tool.map(|tool| tool.tool_type), delegates)
    });
    let calls = OpenCalls::new(purpose, entry.turn, &entry.text, calls.collect());
    if !entry.calls.is_empty() && task.has_requests(&configs) {
        task.extras.get_or_insert_default().requests.count(entry.calls.len());
    }
    let made = u32::try_from(calls.iter().filter(|call| call.is_counted()).count()).unwrap_or(u32::MAX);
    task.work_mut().calls += made;
    run.shared.calls += made;
    enter(run, at, index, |_| Phase::Acting(Box::new(calls)));
    follow_calls(run, at, index);
    run.graph[index].take_received();
    if entry.kind == TurnKind::Rest && run.graph[index].unseen().is_empty() {
        enter(run, at, index, |_| Phase::Waiting(Wait::BackgroundTasks));
    }
}

pub(super) fn compacted(run: &mut Run, entry: &Compacted) {
    let task = known(run, &entry.task);
    let task = &mut run.graph[task];
    let gone = task.context_tokens.saturating_sub(entry.context_tokens);
    task.context_tokens = entry.context_tokens;
    let summary_turn = task.phase.purpose().is_summary().then_some(task.turns);
    if summary_turn.is_some() {
        // A turn for the summary alone is over, whether or not it was answered.
        task.phase = Phase::Ready(Next::Turn);
    }
    let Work { context, documents, .. } = task.work_mut();
    let context = context.as_mut().expect("only what is measured is compacted");
    context.through_turn = entry.through_turn;
    let inherited = std::mem::take(&mut context.inherited_tokens);
    context.base_tokens = context.base_tokens.saturating_sub(inherited);
    if let Some(documents) = documents {
        documents.held.retain(|_, held| match held {
            // The first compaction replaces the inherited messages, except for those of a question.
            Held::Inherited => inherited == 0,
            Held::After(turn) => *turn == 0 || *turn > entry.through_turn,
        });
    }
    context.requests.retain(|request| request.turn > entry.through_turn && Some(request.turn) != summary_turn);
    for request in &mut context.requests {
        request.tokens = request.tokens.saturating_sub(gone);
    }
    task.take_received();
}

pub(super) fn budget_settled(run: &mut Run, at: Timestamp, entry: &BudgetSettled) {
    let (used, cost) = (entry.usage.total(), entry.cost.unwrap_or_default());
    let index = known(run, &entry.task);
    let task = &mut run.graph[index];
    let work = task.work_mut();
    work.usage.add(&entry.usage);
    work.cost.settle(entry.cost);
    let reserved = match &entry.by {
        Some(by) => open_calls(task).take_ask(by).expect("what is settled was asked").reservation(),
        None => std::mem::take(&mut work.reservation),
    };
    if entry.by.is_none() && !entry.usage.estimated && entry.usage.input_tokens > 0 {
        learn_ratio(run, index, reserved.input_tokens, entry.usage.input_tokens);
    }
    on_all_above(run, index, |budget| {
        budget.reserved = budget.reserved.minus(reserved);
        budget.tokens = budget.tokens.saturating_add(used);
        budget.cost = budget.cost.plus(cost);
    });
    let shared = &mut run.shared;
    shared.reserved = shared.reserved.minus(reserved);
    shared.usage.add(&entry.usage);
    shared.cost.settle(entry.cost);
    if let Some(request) = run.graph[index].phase.request() {
        // No answer will arrive any more. Unless the task ends now, the turn is asked for again.
        let purpose = request.purpose;
        enter(run, at, index, |_| Phase::Ready(Next::Again(purpose)));
    }
}

/// Returns the open request of `task`, which must have one.
fn open_request(task: &mut Task) -> &mut Request {
    match &mut task.phase {
        Phase::Asking(request) => request,
        _ => panic!("an entry is about an open request of task {}, which has none", task.id),
    }
}

/// Records the tokens that a provider counted for a request of `task` with an estimate.
fn learn_ratio(run: &mut Run, task: TaskIndex, estimated: u64, counted: u64) {
    if let Some(model) = run.model_name(task).map(str::to_owned) {
        run.shared.counted.entry(model).or_default().add(estimated, counted);
    }
}

/// Reserves tokens and money on `task`, on every task above it and on the run.
fn reserve(run: &mut Run, task: TaskIndex, reservation: Reservation) {
    on_all_above(run, task, |budget| budget.reserved = budget.reserved.plus(reservation));
    run.shared.reserved = run.shared.reserved.plus(reservation);
}

/// Changes the budgets of `task` and of every task above it. A budget is kept only where a limit needs it.
fn on_all_above(run: &mut Run, task: TaskIndex, change: impl Fn(&mut Budget)) {
    let mut next = Some(task).filter(|_| run.shared.has_budgets);
    while let Some(task) = next {
        if let Some(budget) = run.graph[task].work.as_mut().and_then(|work| work.budget.as_mut()) {
            change(budget);
        }
        next = run.graph.caller_of(task);
    }
}
