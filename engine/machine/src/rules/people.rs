//! Events from people and programs outside the run: start, answer, cancel, pause and steer.

use baton_types::entry::ForkPoint;

use crate::agent;
use crate::prelude::*;

/// Appends the first entries of a run: its start, its documents, its root task.
pub(crate) fn start(draft: &mut Draft<'_>, started: RunStarted, root: &AgentId, documents: Vec<Write>) {
    let request = started.request.clone();
    draft.push(Entry::RunStarted(Box::new(started)));
    let documents = documents.into_iter().map(|write| draft.write(write, None, None).reference()).collect();
    let created = TaskCreated::new(TaskId::root(), TaskKind::Root, Holder::Agent(root.clone()), request);
    create_root(draft, TaskCreated { documents, ..created });
}

/// Creates the root task of a run that continues another. Its conversation begins with that of the root before.
pub(crate) fn follow_up(draft: &mut Draft<'_>, request: String, documents: Vec<DocumentRef>) {
    let Some(before) = draft.run.root().map(|root| root.id.clone()) else { return };
    let root = Holder::Agent(draft.run.configs.job.root.clone());
    let created = TaskCreated::new(before.next_root(), TaskKind::Root, root, request);
    create_root(draft, TaskCreated { documents, begins_from: Some(before), ..created });
}

fn create_root(draft: &mut Draft<'_>, created: TaskCreated) {
    let configs = &draft.run.configs;
    let limits = [&agent(configs, &configs.job.root).limits, &configs.job.limits];
    let seconds = limits.into_iter().filter_map(|limits| limits.deadline_seconds).min();
    let deadline = seconds.map(|seconds| draft.at.plus(Duration::from_secs(seconds)));
    draft.push(Entry::TaskCreated(Box::new(TaskCreated { deadline, ..created })));
}

/// Closes a question with a person's answer. The first valid answer wins. No agent answers in a person's place.
pub(crate) fn answer(
    draft: &mut Draft<'_>,
    id: &TaskId,
    by: Principal,
    answer: Json,
    documents: Vec<Write>,
    recorded: Option<ForkPoint>,
) {
    let Some(task) = draft.run.graph.find(id.as_str()) else { return };
    let Some(question) = draft.task(task).question.clone() else { return };
    let answer = fitting(draft.run.configs(), &question, &answer).unwrap_or(answer);
    let documents = documents.into_iter().map(|write| draft.write(write, Some(by.clone()), None).reference()).collect();
    draft.close_question(task, &question, QuestionEnd::Answered { by, answer: answer.clone(), recorded });
    draft.then(Step::end(task, CallResult { documents, ..CallResult::success(answer) }));
}

/// Cancels a task and all tasks below it.
pub(crate) fn cancel(draft: &mut Draft<'_>, id: &TaskId, reason: String, by: Principal) {
    draft.control(Some(id.clone()), ControlAction::Cancelled { reason: reason.clone() }, by);
    let result = CallResult::error(CallStatus::Cancelled, CallError::new(ErrorCode::Cancelled, reason));
    draft.steps.extend(draft.run.graph.find(id.as_str()).map(|task| Step::end(task, result)));
}

/// Ends a run that cannot continue. Its root fails, and everything below it is closed.
pub(crate) fn fail_run(draft: &mut Draft<'_>, error: CallError) {
    let result = CallResult::error(CallStatus::Failed, error);
    draft.steps.extend(draft.run.graph.root().map(|root| Step::end(root, result)));
}

/// Pauses the run, or lets it continue.
pub(crate) fn set_paused(draft: &mut Draft<'_>, by: Principal, paused: bool) {
    let quarantined = draft.run.shared.quarantined;
    if draft.run.shared.paused != paused {
        draft.control(None, if paused { ControlAction::Paused } else { ControlAction::Unpaused }, by);
        if quarantined {
            draft.then(Step::RecoverAll);
        }
    }
}

/// Adds a message from outside to the next request of a task.
pub(crate) fn steer(draft: &mut Draft<'_>, task: TaskId, text: String, by: Principal) {
    draft.control(Some(task), ControlAction::Steered { text }, by);
}

pub(crate) fn check_answer(run: &Run, id: &TaskId, by: &Principal, answer: &Json, documents: &[Write]) -> Result<(), Refusal> {
    let task = run.task(id).ok_or_else(|| Refusal::UnknownTask { task: id.clone() })?;
    let question = task.question.as_ref().filter(|_| task.holder == Holder::Person);
    let question = question.ok_or_else(|| Refusal::NotAsked { task: id.clone() })?;
    if !by.is_outside() {
        return Err(Refusal::NotAPerson { by: by.clone() });
    }
    if let Some(closed) = &question.closed {
        return Err(Refusal::QuestionClosed { number: question.number, how: closed.to_string() });
    }
    let invalid = |reason| Refusal::InvalidAnswer { reason };
    let fitting = fitting(run.configs(), question, answer).map_err(invalid)?;
    let answer = fitting.value();
    let edited = run.edited(task, &answer).map_err(invalid)?;
    run.class_in(task, &answer, edited.as_ref()).map_err(invalid)?;
    run.check_new_documents(documents)
}

/// Checks that an answer that does not approve a call has nothing that only an approval has.
pub(crate) fn check_denial(run: &Run, id: &TaskId, answer: &Json) -> Result<(), Refusal> {
    let concern = run.task(id).and_then(Task::concern);
    let answer = answer.value();
    // A person may put the answer under "answer", as an agent does.
    let answer = answer.get("answer").unwrap_or(&answer);
    let is_denial = matches!(concern, Some(Concern::Approval { .. })) && answer["approved"] != true;
    match ["input", "class"].into_iter().find(|key| is_denial && answer.get(key).is_some()) {
        Some(key) => Err(Refusal::InvalidAnswer { reason: format!("\"{key}\" approves the call, so \"approved\" must be true") }),
        None => Ok(()),
    }
}

pub(crate) fn check_steering(run: &Run, id: &TaskId) -> Result<(), Refusal> {
    let asks_model = check_lives(run, id)?.agent().is_some_and(|id| agent(run.configs(), id).program.is_none());
    if asks_model { Ok(()) } else { Err(Refusal::NoModel { task: id.clone() }) }
}

pub(crate) fn check_lives<'r>(run: &'r Run, id: &TaskId) -> Result<&'r Task, Refusal> {
    match run.task(id) {
        None => Err(Refusal::UnknownTask { task: id.clone() }),
        Some(task) if !task.is_live() => Err(Refusal::Ended { task: id.clone() }),
        Some(task) => Ok(task),
    }
}

/// Returns the answer as the question's schema reads it, or the reason why it does not fit.
fn fitting(configs: &Configs, question: &Question, answer: &Json) -> Result<Json, String> {
    let Some(schema) = question.schema(configs) else { return Ok(answer.clone()) };
    schema?.answer_in(&answer.value()).map(Json::from).map_err(|faults| {
        let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        messages.join("; ")
    })
}
