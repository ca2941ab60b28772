//! Tasks begin, ask people and end; the queues and counters of active tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::calls::{change_attempts, leave_call_queue, question_about_call};
use super::known;
use crate::entry::{
    FinalState, Holder, QuestionClosed, QuestionEnd, QuestionOpened, Said, SubtreeClosed, TaskCreated, TaskEnded, TaskKind,
};
use crate::id::{CallId, TaskId, ToolId};
use crate::machine::Run;
use crate::machine::compact::is_measured;
use crate::machine::task::{Context, Question, Task, TaskState};
use crate::machine::{agent, task_limits};
use crate::money::{Cost, Money};
use crate::render;
use crate::time::Timestamp;

pub(super) fn task_created(run: &mut Run, at: Timestamp, entry: &TaskCreated) {
    let mut task = Task {
        place: None,
        id: entry.task.clone(),
        kind: entry.kind,
        holder: entry.holder.clone(),
        tool: entry.tool.as_deref().map(ToolId::from),
        master: entry.master.clone(),
        answers_for: entry.answers_for.clone(),
        depth: entry.depth,
        state: TaskState::Blocked,
        open: None,
        turns: 0,
        interrupted: false,
        children: 0,
        reminders: 0,
        fault: None,
        last_turn: None,
        streak: None,
        documents: None,
        context_tokens: 0,
        context: None,
        usage: crate::model::Usage::default(),
        cost: Cost::default(),
        reserved_tokens: 0,
        reserved_cost: Money::ZERO,
        calls: 0,
        budget: None,
        worked: Duration::ZERO,
        working_since: None,
        deadline: entry.deadline,
        said: Vec::new(),
        question: None,
        concern: entry.concern,
        escalated: None,
        steering: Vec::new(),
    };
    for document in &entry.documents {
        task.learn(document.path.clone(), document.version);
    }
    let configs = Arc::clone(run.configs());
    let limits = task_limits(&configs, &task);
    let base = match &entry.answers_for {
        Some(master) => run.task(master).map_or(0, |master| master.context_tokens),
        None => task.agent().map_or(0, |id| render::prompt_tokens(agent(&configs, id))),
    };
    task.context_tokens = base + render::created_tokens(entry, &run.shared.documents, limits.inject_tokens);
    if limits.has_budget() {
        task.budget = Some(Box::default());
        run.shared.has_budgets = true;
    }
    let runs_model = task.agent().is_some();
    if let (Some(caller), Some(concern)) = (&entry.caller, entry.concern) {
        question_about_call(run, at, caller, &entry.task.originating_call(), concern);
    }
    let base_tokens = task.context_tokens;
    run.graph.insert(entry.caller.as_ref(), task);
    if is_measured(run, &entry.task) {
        known(run, &entry.task).context = Some(Box::new(Context { base_tokens, ..Context::default() }));
    }
    if let Some(caller) = &entry.caller
        && entry.kind == TaskKind::Delegation
    {
        known(run, caller).children += 1;
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
        enter(run, at, &entry.task, TaskState::Ready);
    }
}

pub(super) fn task_ended(run: &mut Run, at: Timestamp, entry: &TaskEnded) {
    end(run, at, &entry.task, entry.state);
    let caller = run.caller(&entry.task);
    if let (Some(retry_at), Some(caller)) = (entry.retry_at, caller) {
        let call = entry.task.originating_call();
        let open = known(run, &caller).open.as_mut().expect("a task's caller waits for it in its open turn");
        let index = open.index_of(&call).expect("a task's caller waits for it in its open turn");
        open.calls[index].attempts.get_or_insert_default();
        change_attempts(run, &caller, &call, |attempts| {
            attempts.failed.push(Arc::clone(&entry.result));
            attempts.next_at = Some(retry_at);
        });
    }
}

pub(super) fn subtree_closed(run: &mut Run, at: Timestamp, entry: &SubtreeClosed) {
    for id in &entry.tasks {
        let task = known(run, id);
        let reserved = task.reserved_tokens;
        task.reserved_tokens = 0;
        if let Some(question) = task.question.as_mut()
            && question.closed.is_none()
        {
            Arc::make_mut(question).closed = Some(QuestionEnd::Failed { reason: entry.reason.clone() });
        }
        assert_eq!(reserved, 0, "an open request is settled before its task is closed");
        end(run, at, id, FinalState::Cancelled);
    }
}

pub(super) fn question_opened(run: &mut Run, entry: &QuestionOpened) {
    let task = known(run, &entry.task);
    task.question = Some(Arc::new(Question {
        number: entry.number,
        asker: entry.asker.clone(),
        text: entry.question.clone(),
        documents: entry.documents.clone(),
        answer_schema: entry.answer_schema.clone(),
        otherwise: entry.otherwise.clone(),
        closed: None,
    }));
    run.shared.questions.push(entry.task.clone());
}

pub(super) fn question_closed(run: &mut Run, at: Timestamp, entry: &QuestionClosed) {
    let asker_agent = |run: &Run, asker: &TaskId| run.task(asker).and_then(|task| task.agent().cloned());
    let task = known(run, &entry.task);
    let answers_for = task.answers_for.clone();
    let Some(question) = task.question.as_mut() else { return };
    Arc::make_mut(question).closed = Some(entry.how.clone());
    let question = Arc::clone(question);
    match (&entry.how, answers_for) {
        (QuestionEnd::Answered { answer, .. }, Some(master)) => {
            let Some(asker) = asker_agent(run, &question.asker) else { return };
            let Some(call) = waiting_call(run, &master, &question.asker) else { return };
            let said = Said { asker, question: question.text.clone(), answer: answer.clone() };
            known(run, &master).said.push((call, said));
        }
        (QuestionEnd::Escalated { to: _, task: on }, _) => {
            let task = known(run, &entry.task);
            task.escalated = Some(on.clone());
            // Its time is over: from here on it only waits for whoever is asked now, and needs no turn.
            let deadline = task.deadline;
            let shared = &mut run.shared;
            shared.live_agent_tasks -= 1;
            if let Some(deadline) = deadline {
                shared.deadlines.remove(&(deadline, entry.task.clone()));
            }
            stop_turn(run, &entry.task);
            enter(run, at, &entry.task, TaskState::Blocked);
        }
        _ => {}
    }
}

/// The call of `master` that waits for the branch in which `asker` lies.
pub(super) fn waiting_call(run: &Run, master: &TaskId, asker: &TaskId) -> Option<CallId> {
    let mut branch = asker.clone();
    loop {
        let above = run.caller(&branch)?;
        if above == *master {
            return Some(branch.originating_call());
        }
        branch = above;
    }
}

/// The one way to a final state.
pub(super) fn end(run: &mut Run, at: Timestamp, id: &TaskId, state: FinalState) {
    stop_turn(run, id);
    enter(run, at, id, TaskState::Ended(state));
    let task = known(run, id);
    // What only a living task needs goes, so that a run with many finished tasks stays small.
    task.open = None;
    task.streak = None;
    if let Some(documents) = &mut task.documents {
        documents.known = BTreeMap::new();
    }
    task.said = Vec::new();
    let deadline = task.deadline;
    let (by_person, escalated) = (task.holder == Holder::Person, task.escalated.is_some());
    let shared = &mut run.shared;
    shared.live_tasks -= 1;
    if by_person {
        shared.open_questions -= 1;
    } else if !escalated {
        shared.live_agent_tasks -= 1;
    }
    if let Some(deadline) = deadline {
        shared.deadlines.remove(&(deadline, id.clone()));
    }
}

/// Drops the turn in progress; its calls are closed by the entry that says so.
pub(super) fn stop_turn(run: &mut Run, id: &TaskId) {
    leave_call_queue(run, id);
    let Some(open) = known(run, id).open.take() else { return };
    let shared = &mut run.shared;
    shared.running_functions -= open.running_functions;
    if !shared.retries.is_empty() {
        for call in &open.calls {
            if let Some(at) = call.retry_at() {
                shared.retries.remove(&(at, call.id.clone()));
            }
        }
    }
}

/// Moves a task from one state to another, keeping the queues and the counters of active tasks true.
pub(super) fn enter(run: &mut Run, at: Timestamp, id: &TaskId, state: TaskState) {
    let task = known(run, id);
    let was = task.state;
    let active = |state| matches!(state, TaskState::Ready | TaskState::Running);
    task.state = state;
    match (active(was), active(state)) {
        (false, true) => task.working_since = Some(at),
        (true, false) => {
            task.worked = task.worked_until(at);
            task.working_since = None;
        }
        _ => {}
    }
    let place = task.place;
    let shared = &mut run.shared;
    match (active(was), active(state)) {
        (false, true) => {
            shared.active_tasks += 1;
            shared.active_since.get_or_insert(at);
        }
        (true, false) => {
            shared.active_tasks -= 1;
            if shared.active_tasks == 0
                && let Some(since) = shared.active_since.take()
            {
                shared.worked += at.since(since);
            }
        }
        _ => {}
    }
    if was == TaskState::Ready && state != TaskState::Ready {
        if let Some(place) = place {
            shared.ready.remove(&place);
            known(run, id).place = None;
        }
    } else if was != TaskState::Ready && state == TaskState::Ready {
        // No entry makes two tasks ready, so its number is a place of its own, and the queue is first come, first served.
        let place = shared.seq;
        shared.ready.insert(place, id.clone());
        known(run, id).place = Some(place);
    }
}
