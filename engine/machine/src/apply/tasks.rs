//! Entries that create tasks, ask people and end tasks; the queues and counters of active tasks.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use baton_types::entry::{QuestionOpened, Said, SubtreeClosed, TaskEnded, TaskReported};

use super::calls::{call_of, change_attempts, forget_said, fresh_documents, leave_call_queue, position, question_about_call};
use super::known;
use crate::phase::Wait;
use crate::prelude::*;
use crate::task::{AcceptanceFacts, Extras, Fresh, FreshContent, Held, OWN_REQUEST, Received, TaskDocuments};
use crate::{agent, limits_of};

pub(super) fn task_created(run: &mut Run, at: Timestamp, entry: &TaskCreated) {
    let configs = Arc::clone(run.configs());
    let shared_id = |tool: &str| configs.tools.get(tool).map_or_else(|| ToolId::from(tool), |tool| tool.id.clone());
    let tool: Option<ToolId> = entry.tool.as_deref().map(shared_id);
    let mut task = Task {
        place: None,
        id: entry.task.clone(),
        kind: entry.kind,
        holder: entry.holder.clone(),
        limits: limits_of(&configs, &entry.holder, tool.as_ref()),
        tool,
        master: entry.master.clone(),
        depth: entry.depth,
        phase: Phase::Waiting(Wait::Person),
        turns: 0,
        context_tokens: 0,
        work: None,
        working_since: None,
        deadline: entry.deadline,
        background: entry.background,
        question: None,
        extras: None,
    };
    if entry.answers_for.is_some() || entry.concern.is_some() {
        let (answers_for, concern) = (entry.answers_for.clone(), entry.concern);
        task.extras = Some(Box::new(Extras { answers_for, concern, ..Extras::default() }));
    }
    let tool = task.tool.as_ref().and_then(|tool| configs.tools.get(tool));
    if entry.kind == TaskKind::Delegation && tool.is_some_and(|tool| tool.accept.is_some()) {
        let facts = AcceptanceFacts { request: entry.request.as_str().into(), refused: 0 };
        task.extras.get_or_insert_default().acceptance = Some(facts);
    }
    let own = task.agent().map(|id| agent(&configs, id));
    let earlier = entry.earlier().map(|earlier| &run.graph[known(run, earlier)]);
    let inherited = earlier.map_or(0, |earlier| inherit(&configs, earlier, &mut task));
    let documents = &run.shared.documents;
    task.context_tokens += own.map_or(0, |own| render::prompt_tokens(own)) + inherited + render::created_tokens(entry, documents);
    task.add_fresh(fresh_documents(OWN_REQUEST, &entry.documents, documents, task.limits.inject_tokens));
    if task.limits.has_budget() {
        task.work_mut().budget = Some(Box::default());
        run.shared.has_budgets = true;
    }
    let runs_model = task.agent().is_some();
    let caller = entry.caller.as_ref().map(|caller| known(run, caller));
    if let (Some(caller), Some(concern)) = (caller, entry.concern) {
        question_about_call(run, at, caller, &entry.task.originating_call(), concern);
    }
    let base_tokens = task.context_tokens;
    let index = run.graph.insert(caller, task);
    if run.is_measured(index) {
        // No summary replaces the conversation of a master.
        let inherited_tokens = if entry.kind == TaskKind::Question { 0 } else { inherited };
        run.graph[index].work_mut().context = Some(Box::new(Context { base_tokens, inherited_tokens, ..Context::default() }));
    }
    if let Some(caller) = caller
        && entry.kind == TaskKind::Delegation
    {
        run.graph[caller].work_mut().children += 1;
        change_attempts(run, caller, &entry.task.originating_call(), |attempts| attempts.next_at = None);
    }
    let shared = &mut run.shared;
    shared.live_tasks += 1;
    if runs_model {
        shared.live_agent_tasks += 1;
    } else {
        shared.open_questions += 1;
    }
    if let Some(deadline) = entry.deadline {
        shared.deadlines.insert((deadline, entry.task.clone()));
    }
    if runs_model {
        enter(run, at, index, |_| Phase::Ready(Next::Turn));
    }
}

/// Gives `task` the conversation of `earlier` as its beginning. Returns its tokens (≈), without prompt and definitions of tools.
fn inherit(configs: &Configs, earlier: &Task, task: &mut Task) -> u64 {
    let frame = |agent: &Agent| render::prompt_tokens(agent) + earlier.described_tokens(agent);
    let frame = earlier.agent().map_or(0, |id| frame(agent(configs, id)));
    let Extras { received, described, .. } = earlier.extras();
    let known = earlier.work().documents.as_deref();
    if known.is_some() || !received.fresh.is_empty() {
        let documents = known.cloned().unwrap_or_default();
        let held: BTreeMap<_, _> = documents.held.keys().map(|held| (held.clone(), Held::Inherited)).collect();
        let fresh = documents.fresh.iter().chain(&received.fresh).cloned().collect();
        // A question writes nothing, so it needs no bases of writes.
        let (read, named) = match task.kind {
            TaskKind::Question => (BTreeMap::new(), BTreeMap::new()),
            TaskKind::Root | TaskKind::Delegation => (documents.read.clone(), documents.named.clone()),
        };
        task.work_mut().documents = Some(Box::new(TaskDocuments { read, named, held, fresh, ..TaskDocuments::default() }));
    }
    if !described.is_empty() && earlier.agent() == task.agent() {
        task.extras.get_or_insert_default().described.clone_from(described);
        task.context_tokens = task.agent().map_or(0, |id| task.described_tokens(agent(configs, id)));
    }
    earlier.context_tokens.saturating_sub(frame) + received.tokens
}

pub(super) fn task_ended(run: &mut Run, at: Timestamp, entry: &TaskEnded) {
    let task = known(run, &entry.task);
    end(run, at, task, entry.state);
    if let (Some(retry_at), Some(caller)) = (entry.retry_at, run.graph.caller_of(task)) {
        let call = entry.task.originating_call();
        let (calls, index) = call_of(&mut run.graph[caller], &call);
        calls.details_mut(index);
        change_attempts(run, caller, &call, |attempts| {
            attempts.failed.push(Arc::clone(&entry.result));
            attempts.next_at = Some(retry_at);
        });
    }
}

pub(super) fn task_reported(run: &mut Run, at: Timestamp, entry: &TaskReported) {
    let index = known(run, &entry.task);
    let documents = &run.shared.documents;
    let edge = run.graph[index].limits().inject_tokens;
    let (position, result) = (position(&entry.call), &entry.result);
    let mut fresh = fresh_documents(position, &result.documents, documents, edge);
    let body = render::outcome_tokens(result, &entry.said);
    if body > render::SHORT_TOKENS {
        let (call, tool, result) = (entry.call.clone(), entry.tool.clone(), Arc::clone(result));
        fresh.push(Fresh { position, content: FreshContent::Result { call, tool, result, body } });
    }
    let tokens = render::reported_tokens(entry, documents);
    let task = &mut run.graph[index];
    task.receive(tokens, fresh);
    task.extras.get_or_insert_default().unseen.push(entry.ended.clone());
    forget_said(task, &entry.call);
    wake(run, at, index);
}

/// Lets a task continue that waits for its background tasks.
pub(super) fn wake(run: &mut Run, at: Timestamp, task: TaskIndex) {
    if run.graph[task].phase == Phase::Waiting(Wait::BackgroundTasks) {
        enter(run, at, task, |_| Phase::Ready(Next::Turn));
    }
}

pub(super) fn subtree_closed(run: &mut Run, at: Timestamp, entry: &SubtreeClosed) {
    for id in &entry.tasks {
        let index = known(run, id);
        let task = &mut run.graph[index];
        assert_eq!(task.work().reservation.tokens, 0, "an open request is settled before its task is closed");
        if let Some(question) = task.question.as_mut()
            && question.closed.is_none()
        {
            Arc::make_mut(question).closed = Some(Box::new(QuestionEnd::Failed { reason: entry.reason.clone() }));
        }
        end(run, at, index, FinalState::Cancelled);
    }
}

pub(super) fn question_opened(run: &mut Run, entry: &QuestionOpened) {
    let task = known(run, &entry.task);
    run.graph[task].question = Some(Arc::new(Question {
        number: entry.number,
        asker: entry.asker.clone(),
        text: entry.question.as_str().into(),
        documents: entry.documents.as_slice().into(),
        answer_schema: entry.answer_schema.clone(),
        on_deadline: entry.on_deadline.clone(),
        closed: None,
    }));
    run.shared.questions.push(entry.task.clone());
}

pub(super) fn question_closed(run: &mut Run, at: Timestamp, entry: &QuestionClosed) {
    let index = known(run, &entry.task);
    let task = &mut run.graph[index];
    let answers_for = task.extras().answers_for.clone();
    let Some(question) = task.question.as_mut() else { return };
    Arc::make_mut(question).closed = Some(Box::new(entry.how.clone()));
    let question = Arc::clone(question);
    match (&entry.how, answers_for) {
        (QuestionEnd::Answered { answer, .. }, Some(master)) => {
            let (master, asker) = (known(run, &master), known(run, &question.asker));
            let Some(agent) = run.graph[asker].agent().cloned() else { return };
            let Some(call) = waiting_call(run, master, asker) else { return };
            let said = Said { asker: agent, question: question.text.to_string(), answer: answer.clone() };
            run.graph[master].extras.get_or_insert_default().said.push((call, said));
        }
        (QuestionEnd::Escalated { to: _, task: on }, _) => {
            // The deadline no longer applies. The task only waits for the next master, and needs no turn.
            let deadline = task.deadline;
            let shared = &mut run.shared;
            shared.live_agent_tasks -= 1;
            if let Some(deadline) = deadline {
                shared.deadlines.remove(&(deadline, entry.task.clone()));
            }
            drop_calls(run, index);
            enter(run, at, index, |_| Phase::Waiting(Wait::Escalated(on.clone())));
        }
        _ => {}
    }
}

/// Returns the call of `master` that waits for the branch with `asker`.
fn waiting_call(run: &Run, master: TaskIndex, asker: TaskIndex) -> Option<CallId> {
    let branch = run.graph.upwards(asker).find(|task| run.graph.caller_of(*task) == Some(master))?;
    Some(run.graph[branch].id.originating_call())
}

/// Ends a task. No other code moves a task to a final state.
fn end(run: &mut Run, at: Timestamp, index: TaskIndex, state: FinalState) {
    drop_calls(run, index);
    let escalated = run.graph[index].phase.escalated().is_some();
    enter(run, at, index, |_| Phase::Ended(state));
    let task = &mut run.graph[index];
    // Only a living task needs these fields. A run with many finished tasks stays small without them.
    // Some conversations may be continued, with the documents that they know.
    let tool = task.tool.as_ref().and_then(|tool| run.configs.tools.get(tool));
    let may_continue = task.kind == TaskKind::Root || tool.is_some_and(|tool| tool.follow_up);
    if let Some(work) = &mut task.work {
        work.streak = None;
        if let Some(documents) = work.documents.as_mut().filter(|_| !may_continue) {
            documents.read = BTreeMap::new();
            documents.named = BTreeMap::new();
            documents.held = BTreeMap::new();
            documents.fresh = Vec::new();
        }
    }
    if let Some(extras) = &mut task.extras {
        (extras.said, extras.unseen, extras.acceptance) = (Vec::new(), Vec::new(), None);
        if !may_continue {
            extras.received = Received::default();
        }
    }
    let (deadline, by_person) = (task.deadline, task.holder == Holder::Person);
    let shared = &mut run.shared;
    shared.live_tasks -= 1;
    if by_person {
        shared.open_questions -= 1;
    } else if !escalated {
        shared.live_agent_tasks -= 1;
    }
    if let Some(deadline) = deadline {
        shared.deadlines.remove(&(deadline, task.id.clone()));
    }
}

/// Removes the calls in progress from the run's counters and queues. The phase that follows has no calls.
fn drop_calls(run: &mut Run, task: TaskIndex) {
    leave_call_queue(run, task);
    let Some(calls) = run.graph[task].phase.calls() else { return };
    let counts = calls.counts();
    let alarms: Vec<_> = calls.iter().filter_map(|call| Some((call.alarm()?, call.id.clone()))).collect();
    let shared = &mut run.shared;
    shared.running_functions -= counts.running_functions;
    shared.suspended_calls -= counts.suspended;
    for alarm in &alarms {
        shared.alarms.remove(alarm);
    }
}

/// Moves a task from one phase to another, and updates the queues and the counters of active tasks.
pub(super) fn enter(run: &mut Run, at: Timestamp, index: TaskIndex, next: impl FnOnce(Phase) -> Phase) {
    let task = &mut run.graph[index];
    let (was_active, was_ready) = (task.phase.is_active(), task.phase.is_ready());
    task.phase = next(std::mem::replace(&mut task.phase, Phase::Ready(Next::Turn)));
    let (is_active, is_ready) = (task.phase.is_active(), task.phase.is_ready());
    let shared = &mut run.shared;
    if is_active && !was_active {
        task.working_since = Some(at);
        shared.active_tasks += 1;
        shared.active_since.get_or_insert(at);
    }
    if was_active && !is_active {
        task.work_mut().time = task.worked_until(at);
        task.working_since = None;
        shared.active_tasks -= 1;
        if shared.active_tasks == 0
            && let Some(since) = shared.active_since.take()
        {
            shared.worked += at.since(since);
        }
    }
    if let Some(place) = task.place.take_if(|_| was_ready && !is_ready) {
        shared.ready.remove(&place.get());
    }
    if !was_ready && is_ready {
        // An entry makes at most one task ready. So its number is a unique place, and the queue is first come, first served.
        let place = shared.seq;
        shared.ready.insert(place, index);
        task.place = NonZeroU64::new(place);
    }
}
