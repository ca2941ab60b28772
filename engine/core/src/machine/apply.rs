//! The only code that changes state. One function per entry; none can fail, none decides.

use std::sync::Arc;
use std::time::Duration;

use rpds::{RedBlackTreeMapSync, VectorSync};

use super::task::{Alarm, Attempts, Budget, CallStage, Finish, OpenCall, OpenTurn, Question, Streak, Task, TaskState};
use super::world::World;
use super::{adopt, agent, answer, task_limits};
use crate::call::AfterExecution;
use crate::document::{DocumentRef, DocumentVersion};
use crate::entry::{
    BudgetSettled, CallApproved, CallFinished, CallRefused, CallStarted, Concern, Control, ControlAction, Entry, FinalState,
    Holder, ModelAnswered, ModelRequested, Notice, QuestionClosed, QuestionEnd, QuestionOpened, Recorded, RunStarted, Said,
    SubtreeClosed, TaskCreated, TaskEnded, TaskKind,
};
use crate::id::{CallId, TaskId, ToolId};
use crate::money::{Cost, Money};
use crate::render;
use crate::time::Timestamp;
use crate::tool_type::{Then, ToolType};

/// Applies `recorded` to the state or to a look ahead.
pub(super) fn apply<W: World>(world: &mut W, recorded: &Recorded) {
    let expected = world.shared().seq + 1;
    assert_eq!(recorded.seq, expected, "entries are applied in order and without gaps");
    world.shared_mut().seq = recorded.seq;
    let at = recorded.at;
    match &recorded.entry {
        Entry::RunStarted(entry) => run_started(world, at, entry),
        Entry::TaskCreated(entry) => task_created(world, at, entry),
        Entry::ModelRequested(entry) => model_requested(world, at, entry),
        Entry::ModelAnswered(entry) => model_answered(world, at, entry),
        Entry::CallRefused(entry) => call_refused(world, at, entry),
        Entry::CallApproved(entry) => call_approved(world, at, entry),
        Entry::CallStarted(entry) => call_started(world, at, entry),
        Entry::CallFinished(entry) => call_finished(world, at, entry),
        Entry::DocumentWritten(entry) => document_written(world, entry),
        Entry::QuestionOpened(entry) => question_opened(world, entry),
        Entry::QuestionClosed(entry) => question_closed(world, at, entry),
        Entry::BudgetSettled(entry) => budget_settled(world, at, entry),
        // What goes to the user, and how older turns are rendered, changes nothing that decides.
        Entry::Output(_) | Entry::Compacted(_) => {}
        Entry::Control(entry) => control(world, at, entry),
        Entry::SubtreeClosed(entry) => subtree_closed(world, at, entry),
        Entry::TaskEnded(entry) => task_ended(world, at, entry),
        Entry::RunEnded(entry) => world.shared_mut().ended = Some(entry.clone()),
    }
}

fn known<'w, W: World>(world: &'w mut W, id: &TaskId) -> &'w mut Task {
    world.task_mut(id).unwrap_or_else(|| panic!("an entry names task {id}, which no entry created"))
}

fn run_started<W: World>(world: &mut W, at: Timestamp, entry: &RunStarted) {
    let limited = world.configs().job.limits.has_budget();
    let shared = world.shared_mut();
    shared.started = Some(Arc::new(entry.clone()));
    shared.started_at = at;
    shared.has_budgets = limited;
}

fn task_created<W: World>(world: &mut W, at: Timestamp, entry: &TaskCreated) {
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
    let configs = Arc::clone(world.configs());
    let limits = task_limits(&configs, &task);
    let base = match &entry.answers_for {
        Some(master) => world.task(master).map_or(0, |master| master.context_tokens),
        None => task.agent().map_or(0, |id| render::prompt_tokens(agent(&configs, id))),
    };
    task.context_tokens = base + render::created_tokens(entry, &world.shared().documents, limits.inject_tokens);
    if limits.has_budget() {
        task.budget = Some(Box::default());
        world.shared_mut().has_budgets = true;
    }
    let runs_model = task.agent().is_some();
    if let (Some(caller), Some(concern)) = (&entry.caller, entry.concern) {
        question_about_call(world, at, caller, &entry.task.originating_call(), concern);
    }
    world.insert(entry.caller.as_ref(), task);
    if let Some(caller) = &entry.caller
        && entry.kind == TaskKind::Delegation
    {
        known(world, caller).children += 1;
        change_attempts(world, caller, &entry.task.originating_call(), |attempts| attempts.next_at = None);
    }
    let shared = world.shared_mut();
    shared.live_tasks += 1;
    if runs_model {
        shared.live_agent_tasks += 1;
    } else {
        shared.open_questions += 1;
    }
    if let Some(deadline) = entry.deadline {
        shared.deadlines.insert_mut((deadline, entry.task.clone(), Alarm::Task));
    }
    if runs_model {
        enter(world, at, &entry.task, TaskState::Ready);
    }
}

fn model_requested<W: World>(world: &mut W, at: Timestamp, entry: &ModelRequested) {
    enter(world, at, &entry.task, TaskState::Running);
    let until = request_ends(world, at, &entry.task);
    if let Some(until) = until {
        world.shared_mut().deadlines.insert_mut((until, entry.task.clone(), Alarm::Request));
    }
    let task = known(world, &entry.task);
    let again = task.turns == entry.turn;
    task.turns = entry.turn;
    task.interrupted = false;
    task.context_tokens = entry.input_tokens;
    task.open = Some(Box::new(OpenTurn {
        turn: entry.turn,
        requested: true,
        text: Arc::default(),
        calls: VectorSync::new_sync(),
        unfinished: 0,
        waiting_functions: 0,
        running_functions: 0,
        writer_runs: false,
        awaited: 0,
        asking: 0,
        doubtful: 0,
        until,
    }));
    match &entry.notice {
        Some(Notice::LastTurn { limit }) => task.last_turn = Some(*limit),
        Some(Notice::Steer { .. }) => drop(task.steering.remove(0)),
        Some(Notice::Reminder { .. }) | None => {}
    }
    task.steering.drain(..entry.steers.len());
    task.reserved_tokens = entry.reserved_tokens;
    task.reserved_cost = entry.reserved_cost;
    if !again {
        world.shared_mut().turns += 1;
    }
    reserve(world, &entry.task, |budget| {
        budget.reserved_tokens = budget.reserved_tokens.saturating_add(entry.reserved_tokens);
        budget.reserved_cost = budget.reserved_cost.plus(entry.reserved_cost);
    });
    let shared = world.shared_mut();
    shared.reserved_tokens = shared.reserved_tokens.saturating_add(entry.reserved_tokens);
    shared.reserved_cost = shared.reserved_cost.plus(entry.reserved_cost);
}

/// When a request of `id` that is made now is stopped: the tighter limit of the task and of the run.
fn request_ends<W: World>(world: &W, at: Timestamp, id: &TaskId) -> Option<Timestamp> {
    let configs = world.configs();
    let own = task_limits(configs, world.task(id)?).turn_seconds;
    let seconds = [own, configs.job.limits.turn_seconds].into_iter().flatten().min()?;
    Some(at.plus(Duration::from_secs(u64::from(seconds))))
}

/// The request of `id` is over, so nobody is woken for it.
fn silence<W: World>(world: &mut W, id: &TaskId) {
    if world.shared().deadlines.is_empty() {
        return;
    }
    if let Some(until) = known(world, id).open.as_mut().and_then(|open| open.until.take()) {
        world.shared_mut().deadlines.remove_mut(&(until, id.clone(), Alarm::Request));
    }
}

fn budget_settled<W: World>(world: &mut W, at: Timestamp, entry: &BudgetSettled) {
    let (used, cost) = (entry.usage.total(), entry.cost.unwrap_or_default());
    let task = known(world, &entry.task);
    task.usage.add(&entry.usage);
    task.cost.settle(entry.cost);
    task.reserved_tokens = 0;
    let reserved_cost = std::mem::take(&mut task.reserved_cost);
    reserve(world, &entry.task, |budget| {
        budget.reserved_tokens = budget.reserved_tokens.saturating_sub(entry.reserved_tokens);
        budget.reserved_cost = budget.reserved_cost.minus(reserved_cost);
        budget.tokens = budget.tokens.saturating_add(used);
        budget.cost = budget.cost.plus(cost);
    });
    let shared = world.shared_mut();
    shared.reserved_tokens = shared.reserved_tokens.saturating_sub(entry.reserved_tokens);
    shared.reserved_cost = shared.reserved_cost.minus(reserved_cost);
    shared.usage.add(&entry.usage);
    shared.cost.settle(entry.cost);
    let task = known(world, &entry.task);
    if task.open.as_ref().is_some_and(|open| open.requested) {
        // Nobody will answer any more: unless the task ends now, the turn is asked for again.
        silence(world, &entry.task);
        let task = known(world, &entry.task);
        task.open = None;
        task.interrupted = true;
        enter(world, at, &entry.task, TaskState::Ready);
    }
}

/// Changes the budgets of `id` and of every task above it, where a limit keeps one.
fn reserve<W: World>(world: &mut W, id: &TaskId, change: impl Fn(&mut Budget)) {
    if !world.shared().has_budgets {
        return;
    }
    let mut next = Some(id.clone());
    while let Some(id) = next {
        if world.task(&id).is_some_and(|task| task.budget.is_some())
            && let Some(budget) = known(world, &id).budget.as_mut()
        {
            change(budget);
        }
        next = world.caller(&id);
    }
}

fn model_answered<W: World>(world: &mut W, at: Timestamp, entry: &ModelAnswered) {
    let configs = Arc::clone(world.configs());
    silence(world, &entry.task);
    let task = known(world, &entry.task);
    let fault = answer::turn_fault(&configs, task, entry);
    task.fault = fault;
    task.reminders = if fault.is_some() { task.reminders + 1 } else { 0 };
    task.context_tokens += render::answered_tokens(entry);
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
        open.calls.push_back_mut(OpenCall {
            id: entry.task.call(entry.turn, position),
            asked: Arc::clone(asked),
            tool_type,
            delegates: tool.is_some_and(|tool| tool.agent.is_some()),
            approved: None,
            attempts: None,
            stage: CallStage::Waiting,
        });
    }
    task.calls += made;
    if entry.calls.is_empty() {
        task.open = None;
        enter(world, at, &entry.task, TaskState::Ready);
    } else if open.waiting_functions > 0 {
        let seq = world.shared().seq;
        queue_for_calls(world, &entry.task, seq);
    }
    world.shared_mut().calls += made;
}

/// Whether a call counts towards [`crate::limits::Limits::calls`]: all do but handoffs, so that a task can always finish.
pub(super) fn counts(tool_type: Option<ToolType>) -> bool {
    tool_type.is_none_or(|tool_type| tool_type.behavior().then != Then::Stop)
}

/// Marks the call at its place in the open turn; returns what the call was.
fn restage<W: World>(world: &mut W, id: &TaskId, call: &CallId, stage: CallStage) -> (OpenCall, CallStage) {
    let task = known(world, id);
    let open = task.open.as_mut().unwrap_or_else(|| panic!("call {call} belongs to no open turn"));
    let index = open.index_of(call).unwrap_or_else(|| panic!("call {call} is not of the open turn"));
    let before = open.calls[index].clone();
    let mut after = before.clone();
    after.stage = stage;
    open.calls.set_mut(index, after);
    let earlier = before.stage.clone();
    (before, earlier)
}

/// Changes what is known of the failed attempts at `call`, if there are any, and with it when the next one begins.
fn change_attempts<W: World>(world: &mut W, caller: &TaskId, call: &CallId, change: impl FnOnce(&mut Attempts)) {
    let open = world.task(caller).and_then(|task| task.open.as_ref());
    let Some(index) = open.and_then(|open| open.index_of(call).filter(|index| open.calls[*index].attempts.is_some())) else {
        return;
    };
    let open = known(world, caller).open.as_mut().expect("the call was in it");
    let mut changed = open.calls[index].clone();
    let attempts = Arc::make_mut(changed.attempts.get_or_insert_default());
    let before = attempts.next_at;
    change(attempts);
    let after = attempts.next_at;
    open.calls.set_mut(index, changed);
    let retries = &mut world.shared_mut().retries;
    if let Some(at) = before {
        retries.remove_mut(&(at, call.clone()));
    }
    if let Some(at) = after {
        retries.insert_mut((at, call.clone()));
    }
}

/// The engine asks whether the call may begin, or what became of it.
fn question_about_call<W: World>(world: &mut W, at: Timestamp, caller: &TaskId, call: &CallId, concern: Concern) {
    let stage = match concern {
        Concern::Approval { .. } => CallStage::Approval,
        Concern::Outcome => CallStage::Doubt,
    };
    restage(world, caller, call, stage);
    let open = known(world, caller).open.as_mut().expect("the call was in it");
    match concern {
        Concern::Approval { .. } => open.asking += 1,
        Concern::Outcome => {
            open.running_functions -= 1;
            open.writer_runs = false;
            open.doubtful += 1;
            world.shared_mut().running_functions -= 1;
        }
    }
    stand(world, at, caller);
}

fn call_approved<W: World>(world: &mut W, at: Timestamp, entry: &CallApproved) {
    restage(world, &entry.task, &entry.call, CallStage::Waiting);
    let open = known(world, &entry.task).open.as_mut().expect("the call was in it");
    let index = open.index_of(&entry.call).expect("the call was in it");
    let mut approved = open.calls[index].clone();
    approved.approved = Some(entry.binds);
    open.calls.set_mut(index, approved);
    open.asking -= 1;
    stand(world, at, &entry.task);
}

fn call_refused<W: World>(world: &mut W, at: Timestamp, entry: &CallRefused) {
    let (call, before) = restage(world, &entry.task, &entry.call, CallStage::Refused);
    let task = known(world, &entry.task);
    task.context_tokens += render::error_tokens(&entry.error);
    let open = task.open.as_mut().expect("the call was in it");
    open.unfinished -= 1;
    if before == CallStage::Approval {
        open.asking -= 1;
    }
    if call.is_function() {
        open.waiting_functions -= 1;
    }
    if counts(call.tool_type) {
        task.calls -= 1;
        world.shared_mut().calls -= 1;
    }
    stand(world, at, &entry.task);
}

fn call_started<W: World>(world: &mut W, at: Timestamp, entry: &CallStarted) {
    let (call, _) = restage(world, &entry.task, &entry.call, CallStage::Running);
    let writes = world.configs().tools.get(entry.tool.as_str()).is_some_and(|tool| tool.writes);
    let task = known(world, &entry.task);
    let open = task.open.as_mut().expect("the call was in it");
    if call.is_function() {
        open.waiting_functions -= 1;
        open.running_functions += 1;
        open.writer_runs = writes;
        let all_begun = open.waiting_functions == 0;
        world.shared_mut().running_functions += 1;
        if all_begun {
            leave_call_queue(world, &entry.task);
        }
    } else {
        open.awaited += 1;
        enter(world, at, &entry.task, TaskState::Blocked);
    }
}

fn call_finished<W: World>(world: &mut W, at: Timestamp, entry: &CallFinished) {
    let after = entry.after;
    let result = &entry.result;
    let open = world.task(&entry.task).and_then(|task| task.open.as_ref());
    let asked = open.and_then(|open| open.index_of(&entry.call).map(|index| &open.calls[index].asked));
    let to_user = asked.is_some_and(|asked| answer::returns_to_user(asked, entry.tool_type));
    let keep = to_user || after == AfterExecution::Terminate;
    let finish = Finish { status: result.status, after, to_user, result: keep.then(|| Arc::clone(result)) };
    change_attempts(world, &entry.task, &entry.call, |attempts| attempts.next_at = None);
    let (call, before) = restage(world, &entry.task, &entry.call, CallStage::Finished(finish));
    let configs = Arc::clone(world.configs());
    let documents = world.shared().documents.clone();
    let task = known(world, &entry.task);
    let budget = task_limits(&configs, task).inject_tokens;
    task.context_tokens += render::result_tokens(entry, &documents, budget);
    for document in &result.documents {
        task.learn(document.path.clone(), document.version);
    }
    for conflict in &entry.conflicts {
        task.learn(conflict.path.clone(), conflict.current);
    }
    if entry.repeat > 0 {
        task.streak = Some(Arc::new(Streak { asked: Arc::clone(&call.asked), result: Arc::clone(result), count: entry.repeat }));
    }
    task.said.retain(|(waiting, _)| *waiting != entry.call);
    let open = task.open.as_mut().expect("the call was in it");
    open.unfinished -= 1;
    if before == CallStage::Approval {
        open.asking -= 1;
    }
    let mut ran = false;
    if before == CallStage::Doubt {
        open.doubtful -= 1;
    } else if call.is_function() {
        if before == CallStage::Running {
            open.running_functions -= 1;
            open.writer_runs = false;
            ran = true;
        } else {
            open.waiting_functions -= 1;
        }
    } else if before == CallStage::Running {
        open.awaited -= 1;
    }
    if ran {
        world.shared_mut().running_functions -= 1;
    }
    stand(world, at, &entry.task);
}

/// Where a task stands while its turn proceeds: ready once every call has its result, blocked while all it could do waits
/// for others, running otherwise. Only a running one waits for a place among the parallel calls, so that a call which waits
/// for a person keeps no place in that queue from those that could begin.
fn stand<W: World>(world: &mut W, at: Timestamp, id: &TaskId) {
    let Some(task) = world.task(id) else { return };
    let Some(open) = task.open.as_ref() else { return };
    let (blocked, queued) = (task.state == TaskState::Blocked, task.place.is_some());
    if open.unfinished == 0 {
        leave_call_queue(world, id);
        enter(world, at, id, TaskState::Ready);
    } else if open.waits() {
        leave_call_queue(world, id);
        enter(world, at, id, TaskState::Blocked);
    } else if open.waiting_functions == 0 {
        leave_call_queue(world, id);
        if blocked {
            enter(world, at, id, TaskState::Running);
        }
    } else if blocked {
        enter(world, at, id, TaskState::Running);
        if !queued {
            let seq = world.shared().seq;
            queue_for_calls(world, id, seq);
        }
    }
}

fn document_written<W: World>(world: &mut W, version: &Arc<DocumentVersion>) {
    world.shared_mut().documents.insert(Arc::clone(version));
    if let Some(id) = &version.task {
        let task = known(world, id);
        task.learn(version.path.clone(), version.version);
        let written = &mut Arc::make_mut(task.documents.get_or_insert_default()).written;
        let reference = version.reference();
        let place = |written: &VectorSync<DocumentRef>| written.iter().position(|written| written.path == version.path);
        // A first version is of a document that nobody wrote before.
        match (version.version > 1).then(|| place(written)).flatten() {
            Some(index) => {
                written.set_mut(index, reference);
            }
            None => written.push_back_mut(reference),
        }
    }
}

fn question_opened<W: World>(world: &mut W, entry: &QuestionOpened) {
    let task = known(world, &entry.task);
    task.question = Some(Arc::new(Question {
        number: entry.number,
        asker: entry.asker.clone(),
        text: entry.question.clone(),
        documents: entry.documents.clone(),
        answer_schema: entry.answer_schema.clone(),
        otherwise: entry.otherwise.clone(),
        closed: None,
    }));
    world.shared_mut().questions.push_back_mut(entry.task.clone());
}

fn question_closed<W: World>(world: &mut W, at: Timestamp, entry: &QuestionClosed) {
    let asker_agent = |world: &W, asker: &TaskId| world.task(asker).and_then(|task| task.agent().cloned());
    let task = known(world, &entry.task);
    let answers_for = task.answers_for.clone();
    let Some(question) = task.question.as_mut() else { return };
    Arc::make_mut(question).closed = Some(entry.how.clone());
    let question = Arc::clone(question);
    match (&entry.how, answers_for) {
        (QuestionEnd::Answered { answer, .. }, Some(master)) => {
            let Some(asker) = asker_agent(world, &question.asker) else { return };
            let Some(call) = waiting_call(world, &master, &question.asker) else { return };
            let said = Said { asker, question: question.text.clone(), answer: answer.clone() };
            known(world, &master).said.push((call, said));
        }
        (QuestionEnd::Escalated { to: _, task: on }, _) => {
            let task = known(world, &entry.task);
            task.escalated = Some(on.clone());
            // Its time is over: from here on it only waits for whoever is asked now, and needs no turn.
            let deadline = task.deadline;
            let shared = world.shared_mut();
            shared.live_agent_tasks -= 1;
            if let Some(deadline) = deadline {
                shared.deadlines.remove_mut(&(deadline, entry.task.clone(), Alarm::Task));
            }
            stop_turn(world, &entry.task);
            enter(world, at, &entry.task, TaskState::Blocked);
        }
        _ => {}
    }
}

/// The call of `master` that waits for the branch in which `asker` lies.
fn waiting_call<W: World>(world: &W, master: &TaskId, asker: &TaskId) -> Option<CallId> {
    let mut branch = asker.clone();
    loop {
        let above = world.caller(&branch)?;
        if above == *master {
            return Some(branch.originating_call());
        }
        branch = above;
    }
}

fn control<W: World>(world: &mut W, at: Timestamp, entry: &Control) {
    match (&entry.action, &entry.task) {
        (ControlAction::Paused, _) => world.shared_mut().paused = true,
        (ControlAction::Unpaused, _) => world.shared_mut().paused = false,
        (ControlAction::Steered { text }, Some(task)) => {
            let task = known(world, task);
            task.context_tokens += render::steer_tokens(text);
            task.steering.push(text.clone());
        }
        (ControlAction::Adopted(adoption), _) => adopt::adopted(world, at, adoption),
        (
            ControlAction::Steered { .. }
            | ControlAction::Cancelled { .. }
            | ControlAction::TakenOver
            | ControlAction::Late { .. },
            _,
        ) => {}
    }
}

fn subtree_closed<W: World>(world: &mut W, at: Timestamp, entry: &SubtreeClosed) {
    for id in &entry.tasks {
        let task = known(world, id);
        let reserved = task.reserved_tokens;
        task.reserved_tokens = 0;
        if let Some(question) = task.question.as_mut()
            && question.closed.is_none()
        {
            Arc::make_mut(question).closed = Some(QuestionEnd::Failed { reason: entry.reason.clone() });
        }
        assert_eq!(reserved, 0, "an open request is settled before its task is closed");
        end(world, at, id, FinalState::Cancelled);
    }
}

fn task_ended<W: World>(world: &mut W, at: Timestamp, entry: &TaskEnded) {
    end(world, at, &entry.task, entry.state);
    let caller = world.caller(&entry.task);
    if let (Some(retry_at), Some(caller)) = (entry.retry_at, caller) {
        let call = entry.task.originating_call();
        let open = known(world, &caller).open.as_mut().expect("a task's caller waits for it in its open turn");
        let index = open.index_of(&call).expect("a task's caller waits for it in its open turn");
        if open.calls[index].attempts.is_none() {
            let mut first = open.calls[index].clone();
            first.attempts = Some(Arc::default());
            open.calls.set_mut(index, first);
        }
        change_attempts(world, &caller, &call, |attempts| {
            attempts.failed.push(Arc::clone(&entry.result));
            attempts.next_at = Some(retry_at);
        });
    }
}

/// The one way to a final state.
fn end<W: World>(world: &mut W, at: Timestamp, id: &TaskId, state: FinalState) {
    stop_turn(world, id);
    enter(world, at, id, TaskState::Ended(state));
    let task = known(world, id);
    // What only a living task needs goes, so that a run with many finished tasks stays small.
    task.open = None;
    task.streak = None;
    if let Some(documents) = &mut task.documents {
        Arc::make_mut(documents).known = RedBlackTreeMapSync::new_sync();
    }
    task.said = Vec::new();
    let deadline = task.deadline;
    let (by_person, escalated) = (task.holder == Holder::Person, task.escalated.is_some());
    let shared = world.shared_mut();
    shared.live_tasks -= 1;
    if by_person {
        shared.open_questions -= 1;
    } else if !escalated {
        shared.live_agent_tasks -= 1;
    }
    if let Some(deadline) = deadline {
        shared.deadlines.remove_mut(&(deadline, id.clone(), Alarm::Task));
    }
}

/// Drops the turn in progress; its calls are closed by the entry that says so.
fn stop_turn<W: World>(world: &mut W, id: &TaskId) {
    leave_call_queue(world, id);
    silence(world, id);
    let Some(open) = known(world, id).open.take() else { return };
    let shared = world.shared_mut();
    shared.running_functions -= open.running_functions;
    if !shared.retries.is_empty() {
        for call in &open.calls {
            if let Some(at) = call.retry_at() {
                shared.retries.remove_mut(&(at, call.id.clone()));
            }
        }
    }
}

/// Moves a task from one state to another, keeping the queues and the counters of active tasks true.
fn enter<W: World>(world: &mut W, at: Timestamp, id: &TaskId, state: TaskState) {
    let task = known(world, id);
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
    let shared = world.shared_mut();
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
            shared.ready.remove_mut(&place);
            known(world, id).place = None;
        }
    } else if was != TaskState::Ready && state == TaskState::Ready {
        // No entry makes two tasks ready, so its number is a place of its own, and the queue is first come, first served.
        let place = shared.seq;
        shared.ready.insert_mut(place, id.clone());
        known(world, id).place = Some(place);
    }
}

fn queue_for_calls<W: World>(world: &mut W, id: &TaskId, place: u64) {
    world.shared_mut().waiting_for_calls.insert_mut(place, id.clone());
    known(world, id).place = Some(place);
}

fn leave_call_queue<W: World>(world: &mut W, id: &TaskId) {
    if world.shared().waiting_for_calls.is_empty() {
        return;
    }
    let Some(place) = world.task(id).and_then(|task| task.place) else { return };
    if world.shared().waiting_for_calls.get(&place) == Some(id) {
        world.shared_mut().waiting_for_calls.remove_mut(&place);
        known(world, id).place = None;
    }
}
