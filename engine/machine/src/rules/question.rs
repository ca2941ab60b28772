//! Rules *questions* and *approvals*: questions of agents, approvals of calls, outcomes of interrupted calls, and the questions to
//! agents that accept results.
//!
//! Each of them is a task. The agent that the config of a delegation names holds an acceptor's question. A person holds the other
//! three, or the agent of the asker's master, so these pass up through the masters alike. The engine asks the last three.
//!
//! Until a call is approved it counts as waiting. Nothing of it has begun, and the calls after it in call order wait with it.
//! The approval covers the hash of the tool, its definition and the input as the model wrote it, byte for byte. If a fork or a
//! migration changes the tool of a call, the engine asks about the call again. Silence is never an approval. An agent that
//! answers a question is offered no tool that needs an approval, except for the handoff. There the handoff is the answer, not
//! a result that somebody wants to see first.
//!
//! An `at_most_once` call that a crash interrupted is never repeated, because it may have taken effect. If the tool's config
//! has `"on_unknown_outcome": "ask"`, the master is asked before the agent gets a result. The answer is the call's one
//! result. Without an answer the result is `unknown_outcome`, as it is without the question.

use baton_render::{acceptance, approval, request};
use baton_types::config::{MasterRule, OnUnknownOutcome};
use baton_types::entry::{CallApproved, QuestionOpened};

use crate::create::{self, Answerer};
use crate::prelude::*;

/// Creates the task of an agent's question.
pub(crate) fn ask_master(draft: &mut Draft<'_>, call: CallAt, documents: Vec<DocumentRef>) {
    let (asker, tool, open) = (draft.task(call.task), draft.tool(call), draft.call(call));
    let input = open.asked.input.value();
    let seconds = input.get("deadline_seconds").and_then(Value::as_f64).map(Duration::try_from_secs_f64).and_then(Result::ok);
    let deadline = seconds.or_else(|| tool.limits.deadline_seconds.map(Duration::from_secs));
    let (task, by) = (open.id.created_task(), draft.run.master_of(call.task));
    let created = TaskCreated {
        tool: Some(tool.id.to_string()),
        answer_schema: input.get("answer_schema").map_or_else(Json::null, Json::from),
        deadline: deadline.map(|duration| draft.at.plus(duration)),
        ..create::question(asker, task, by, request::question(&input), documents)
    };
    draft.start(call, &tool, created.documents.clone(), Some(created.holder.clone()));
    open_question(draft, created, draft.id(call.task), OnDeadline::of(&input));
}

/// Creates the question of `call`, by which the engine asks an agent whether a result is accepted. The question has its own
/// conversation: the acceptor sees the request, the result and the documents alone.
pub(crate) fn ask_acceptor(draft: &mut Draft<'_>, call: CallAt) {
    let (asker, tool, open) = (draft.task(call.task), draft.tool(call), draft.call(call));
    let agent = tool.agent.as_ref().expect("the tool of an acceptor that is an agent delegates to it");
    let acceptor = crate::agent(draft.run.configs(), agent);
    let input = &open.asked.input;
    let text = acceptance::question(input);
    let by = Answerer {
        holder: Holder::Agent(agent.clone()),
        answers_for: None,
        master: match acceptor.master {
            MasterRule::Caller => asker.master.clone(),
            MasterRule::Person => Master::Person,
        },
    };
    let documents = serde_json::from_value(input.value()["documents"].take()).unwrap_or_default();
    let seconds = tool.limits.deadline_seconds.or(acceptor.limits.deadline_seconds);
    let created = TaskCreated {
        tool: Some(tool.id.to_string()),
        answer_schema: text.answer_schema.into(),
        deadline: seconds.map(|seconds| draft.at.plus(Duration::from_secs(seconds))),
        ..create::question(asker, open.id.created_task(), by, text.request, documents)
    };
    draft.start(call, &tool, created.documents.clone(), Some(created.holder.clone()));
    open_question(draft, created, draft.id(call.task), OnDeadline::Fail);
}

/// Asks for `approval`. If limits leave no room for the question, the call is refused, after which its turn may be complete.
pub(crate) fn ask_approval(draft: &mut Draft<'_>, approval: NeededApproval) {
    let NeededApproval { call, approver, documents, creating } = approval;
    let (tool, open) = (draft.tool(call), draft.call(call));
    let input = &open.asked.input;
    let by = match approver {
        Approver::Person => Answerer::PERSON,
        Approver::Master => {
            let of = draft.run.approver_of(call.task, &tool).map_or(call.task, |(_, of)| of);
            draft.run.master_of(of)
        }
    };
    // A handoff is the agent's own word, and an acceptor judges exactly the result.
    let is_fixed = tool.tool_type.behavior().then == Then::Stop || open.is_acceptance();
    let may_change = by.holder == Holder::Person && !is_fixed;
    if may_change && let Some(class) = draft.run.class_of(&tool, input).cloned() {
        let approved = CallApproved {
            task: draft.id(call.task),
            call: open.id.clone(),
            tool: tool.id.clone(),
            call_hash: tool.call_hash(input),
            input: None,
            class: Vec::new(),
            by_class: Some(class),
        };
        draft.push(Entry::CallApproved(approved));
        return draft.then(Step::Advance(call.task));
    }
    let text = approval::question(&tool, input, may_change);
    let question = TaskCreated {
        concern: Some(Concern::Approval { call_hash: tool.call_hash(input) }),
        answer_schema: text.answer_schema.into(),
        ..create::question(draft.task(call.task), open.id.approval(open.approvals() + 1), by, text.request, documents)
    };
    if let Err(error) = ask_about_call(draft, call, question, creating) {
        draft.refuse(call, error);
        draft.then(Step::Advance(call.task));
    }
}

/// Handles a crash during `call`, which is never run again: its master is asked, or its result is `unknown_outcome`.
pub(crate) fn interrupt(draft: &mut Draft<'_>, call: CallAt) {
    let (tool, open) = (draft.tool(call), draft.call(call));
    let text = outcome::question(&tool, &open.asked.input);
    let by = draft.run.master_of(call.task);
    let question = TaskCreated {
        concern: Some(Concern::Outcome),
        answer_schema: text.answer_schema.into(),
        ..create::question(draft.task(call.task), open.id.outcome(), by, text.request, Vec::new())
    };
    let is_asked = tool.on_unknown_outcome == OnUnknownOutcome::Ask && ask_about_call(draft, call, question, 0).is_ok();
    if !is_asked {
        draft.then(Step::Deliver { call, result: outcome::unknown(None).into(), envelope: None });
    }
}

/// Opens a question of the engine about `call`. It has the limits of the agent that answers. A tool's limits apply only to
/// the tasks that its own calls create.
fn ask_about_call(draft: &mut Draft<'_>, call: CallAt, question: TaskCreated, creating: u32) -> Result<(), CallError> {
    draft.run.check_room(question.holder != Holder::Person, creating)?;
    open_question(draft, question, draft.id(call.task), OnDeadline::Fail);
    Ok(())
}

/// Creates the task of a question and numbers the question. If a person holds it, the person is asked.
fn open_question(draft: &mut Draft<'_>, created: TaskCreated, asker: TaskId, on_deadline: OnDeadline) {
    let number = u32::try_from(draft.run.shared.questions.len() + 1).unwrap_or(u32::MAX);
    let opened = QuestionOpened {
        task: created.task.clone(),
        number,
        asker,
        holder: created.holder.clone(),
        question: created.request.clone(),
        documents: created.documents.clone(),
        answer_schema: created.answer_schema.clone(),
        on_deadline,
    };
    let asks_person = (created.holder == Holder::Person).then(|| Effect::AskPerson { question: created.task.clone() });
    draft.push(Entry::TaskCreated(Box::new(created)));
    draft.push(Entry::QuestionOpened(Box::new(opened)));
    draft.decision.effects.extend(asks_person);
}

/// Approves or refuses `call`, after `question` ended with `result`. A call that has changed is asked about again.
pub(crate) fn decide_approval(
    draft: &mut Draft<'_>,
    call: CallAt,
    question: TaskIndex,
    call_hash: ContentHash,
    result: &CallResult,
) {
    let open = draft.call(call);
    if open.stage != CallStage::Approval {
        // The call ended before its question did.
        return;
    }
    let asked = &open.asked;
    let denied = |message: String| CallError::new(ErrorCode::Denied, message);
    match (draft.run.configs.tool_of(draft.task(call.task).agent(), asked), approval::check_approved(result)) {
        (None, _) => {
            let error = denied(format!("tool {} no longer exists", asked.shown_name()));
            draft.refuse(call, error);
        }
        // The answer is about another tool definition or input than the present one.
        (Some(tool), _) if tool.call_hash(&asked.input) != call_hash => {
            let approver = draft.approver_again(call, tool);
            let documents = draft.task(question).question.as_ref().map(|question| question.documents.to_vec());
            draft.then(Step::AskApproval(NeededApproval {
                call,
                approver,
                documents: documents.unwrap_or_default(),
                creating: 0,
            }));
        }
        (Some(tool), Ok(())) => {
            // It was checked when the person answered. Configs that were adopted since would have changed the hash.
            let (answer, question) = (result.output.value(), draft.task(question));
            let edited = draft.run.edited(question, &answer).ok().flatten();
            // A fork takes the answer for this call, but no class.
            let closed = question.question.as_ref().and_then(|question| question.closed.as_deref());
            let is_recorded = matches!(closed, Some(QuestionEnd::Answered { recorded: Some(_), .. }));
            let class = if is_recorded { Ok(Vec::new()) } else { draft.run.class_in(question, &answer, edited.as_ref()) };
            let approved = edited.as_ref().and_then(|edited| draft.run.configs.tool_of(draft.task(call.task).agent(), edited));
            let (tool, call_hash) = match (approved, &edited) {
                (Some(tool), Some(edited)) => (tool.id.clone(), tool.call_hash(&edited.input)),
                _ => (tool.id.clone(), call_hash),
            };
            let (task, call, input) = (draft.id(call.task), open.id.clone(), edited.map(|edited| edited.input));
            let class = class.unwrap_or_default();
            draft.push(Entry::CallApproved(CallApproved { task, call, tool, call_hash, input, class, by_class: None }));
        }
        (Some(_), Err(reason)) => {
            let error = denied(format!("the call of {} was not approved: {reason}", asked.shown_name()));
            draft.refuse(call, error);
        }
    }
    draft.then(Step::Advance(call.task));
}

/// Gives `call` its result, after the question about its outcome ended with `result`.
pub(crate) fn take_outcome(draft: &mut Draft<'_>, call: CallAt, result: &CallResult) {
    if draft.call(call).stage != CallStage::Doubt {
        return;
    }
    let result = outcome::result(&draft.tool(call), result);
    draft.then(Step::Deliver { call, result: result.into(), envelope: None });
}

/// Withdraws the questions about calls that would do something else under the present configs. Each is asked again.
pub(crate) fn withdraw_changed(draft: &mut Draft<'_>) {
    let run = &draft.run;
    let is_changed = |task: &Task| {
        let Some(Concern::Approval { call_hash }) = task.concern() else { return false };
        let id = task.id.originating_call();
        let caller = run.task(&id.task());
        let call = caller.and_then(|caller| caller.call(&id));
        let tool = call.and_then(|call| run.configs().tool_of(caller.and_then(Task::agent), &call.asked));
        call.zip(tool).is_some_and(|(call, tool)| tool.call_hash(&call.asked.input) != call_hash)
    };
    let changed = run.graph.live().filter(|task| is_changed(&run.graph[*task]));
    draft.steps.extend(changed.map(|task| {
        let error = CallError::new(
            ErrorCode::Cancelled,
            "the call has changed since the question was asked, so a new question replaces this one",
        );
        Step::end(task, CallResult::error(CallStatus::Cancelled, error))
    }));
}

/// Passes an unanswered question on to the next master. The task of the question waits, and ends with the same answer.
pub(crate) fn escalate(draft: &mut Draft<'_>, task: TaskIndex) {
    let of = draft.task(task);
    let Some(question) = of.question.clone() else { return };
    let (next, by) = (TaskId::new(format!("{}/escalated", of.id)), draft.run.master_of(task));
    let how = QuestionEnd::Escalated { to: by.holder.clone(), task: next.clone() };
    let created = TaskCreated {
        tool: of.tool.as_ref().map(ToString::to_string),
        answer_schema: question.answer_schema.clone(),
        ..create::question(of, next, by, question.text.to_string(), question.documents.to_vec())
    };
    draft.close_question(task, &question, how);
    open_question(draft, created, question.asker.clone(), OnDeadline::Fail);
}
