//! Rule *arrive*: a call is checked before anything of it happens.
//!
//! The checks run in call order. The first one that fails gives the call an error result that explains the fault, and nothing
//! else changes. The checks are for limits on calls, the grant, the last turn, readable arguments, the tool's schema and the
//! configuration.
//! Further checks are for a handoff's promised result, room for a new task, and repetition. A call that passes and needs
//! neither an executor nor another task is answered at once. So is a call that repeats a request.

use crate::prelude::*;
use crate::requests::AnsweredRequest;

/// A JSON text that is read and written again becomes less than this many times as long. The worst case is `1e15`: its 4 bytes
/// become the 18 of `1000000000000000.0`.
const MAX_GROWTH: u64 = 8;

/// Checks the calls of an answered turn, beginning at index `from`. `creating` earlier calls will create tasks.
pub(crate) fn arrive(draft: &mut Draft<'_>, task: TaskIndex, from: usize, mut creating: u32) {
    for index in from..draft.calls(task).len() {
        let call = CallAt { task, index };
        let tool = match check(draft, call, creating) {
            Ok(Checked::Begins(tool)) => tool,
            Ok(Checked::Repeats(earlier)) => {
                draft.finish_repeated(call, &earlier);
                continue;
            }
            Err(error) => {
                draft.refuse(call, error);
                continue;
            }
        };
        let row = tool.tool_type.behavior();
        if row.creates_task {
            creating += 1;
        } else if row.runs_code {
            // The approval is asked for before the call could start, so that several calls can be approved at once.
            if let Some(approver) = draft.approver(call, &tool) {
                draft.then(Step::AskApproval(NeededApproval { call, approver, documents: Vec::new(), creating }));
                return draft.then(Step::Arrive { task, from: index + 1, creating });
            }
        } else if row.then == Then::Continue && tool.manages_tasks.is_none() {
            match logged(draft, call, &tool) {
                Ok(result) => draft.finish(call, result, None),
                Err(error) => draft.refuse(call, error),
            }
        }
    }
    draft.then(Step::Advance(task));
}

/// Returns the result of a call without code: the definitions of tools that it asks for, or a receipt.
fn logged(draft: &Draft<'_>, call: CallAt, tool: &Tool) -> Result<CallResult, CallError> {
    if tool.describes_tools {
        return baton_render::describe(draft.agent(call.task), tool, &draft.call(call).asked.input);
    }
    Ok(CallResult::success(json!({"logged": true})))
}

/// A call that is not refused.
enum Checked {
    /// The call may begin. The tool is known.
    Begins(Arc<Tool>),
    /// The call repeats a request that has a result.
    Repeats(AnsweredRequest),
}

/// Checks whether `call` may begin, or has a result already. `creating` earlier calls of its turn will create tasks.
fn check(draft: &Draft<'_>, call: CallAt, creating: u32) -> Result<Checked, CallError> {
    let (task, asked, agent) = (draft.task(call.task), &draft.call(call).asked, draft.agent(call.task));
    // This check comes first, since a call that is refused for another reason still counts.
    check_calls(draft, call)?;
    if draft.call(call).is_acceptance() {
        return check_acceptance(draft, call).map(Checked::Begins);
    }
    let outer = draft.outer(call).map(|outer| draft.tool(outer));
    // An answer that cannot be read names no tool.
    let tool =
        draft.run.callable(call.task, outer.as_deref(), &asked.tool).or_else(|error| asked.readable_input().and(Err(error)))?;
    let row = tool.tool_type.behavior();
    if let Some(limit) = task.last_turn()
        && row.then != Then::Stop
    {
        let message = format!("{limit} is reached: in this last turn only a handoff is accepted");
        return Err(CallError::new(ErrorCode::LimitReached, message).with_detail(json!({"limit": limit})));
    }
    let (input, is_of_model) = (asked.readable_input()?, outer.is_none());
    // A handoff ends the task, so its id is not needed any more.
    if row.then != Then::Stop
        && is_of_model
        && let Some(earlier) = repeated(draft, call)?
    {
        check_repeats(task, asked)?;
        return Ok(Checked::Repeats(earlier));
    }
    let effective = (!tool.arguments.is_empty()).then(|| effective(draft, call, tool));
    if let Err(faults) = tool.input.check_text(effective.as_ref().unwrap_or(input)) {
        return Err(agent.invalid_input(tool, &faults));
    }
    agent.check_configuration(tool, asked)?;
    if row.then == Then::Stop {
        check_length(task, input)?;
        check_result(draft.run.configs(), task, agent.result_schema.as_ref(), input)?;
    }
    if row.creates_task {
        draft.run.check_creation(call.task, tool, creating)?;
        draft.run.check_delegation(call.task, tool, asked)?;
        if tool.agent.is_none() {
            draft.run.configs().check_question(&input.value())?;
        }
    }
    if is_of_model {
        check_repeats(task, asked)?;
    }
    Ok(Checked::Begins(Arc::clone(tool)))
}

/// Checks whether the acceptor of a result can be asked. The config of the delegation grants the call.
fn check_acceptance(draft: &Draft<'_>, call: CallAt) -> Result<Arc<Tool>, CallError> {
    let tool = draft.tool(call);
    if tool.tool_type.behavior().creates_task {
        draft.run.check_room(true, 0)?;
    } else if let Err(faults) = tool.input.check_text(&effective(draft, call, &tool)) {
        return Err(draft.agent(call.task).invalid_input(&tool, &faults));
    }
    Ok(tool)
}

/// Returns the input of `call` with the values that the config of `tool` adds.
fn effective(draft: &Draft<'_>, call: CallAt, tool: &Tool) -> Json {
    let open = draft.call(call);
    tool.effective_input(&open.asked.input, &draft.agent(call.task).id, &open.id)
}

/// Returns the answered request that `call` repeats, in universal invocation.
fn repeated(draft: &Draft<'_>, call: CallAt) -> Result<Option<AnsweredRequest>, CallError> {
    let (task, calls) = (draft.task(call.task), draft.calls(call.task));
    if !task.has_requests(draft.run.configs()) {
        return Ok(None);
    }
    let earlier = task.extras().requests.earlier(&calls[call.index].asked, &calls[..call.index])?;
    Ok(earlier.cloned())
}

/// Checks one more call against the limits of the task and of the run. The unchecked calls of the turn, including this one,
/// are already counted, except for handoffs.
fn check_calls(draft: &Draft<'_>, call: CallAt) -> Result<(), CallError> {
    let (run, task, calls) = (&*draft.run, draft.task(call.task), draft.calls(call.task));
    let (of_task, of_run) = (task.limits().calls, run.limit_of_calls());
    if !calls[call.index].is_counted() || (of_task.is_none() && of_run.allowed.is_none()) {
        return Ok(());
    }
    let unchecked = calls.iter().skip(call.index).filter(|call| call.is_counted()).count();
    let unchecked = u32::try_from(unchecked).unwrap_or(u32::MAX);
    LimitKind::Calls.check(task.work().calls.saturating_sub(unchecked), of_task)?;
    of_run.check(run.shared.calls.saturating_sub(unchecked))
}

/// Refuses a call whose tool gave the same result for the same input too often in a row.
fn check_repeats(task: &Task, asked: &ModelCall) -> Result<(), CallError> {
    let Some(allowed) = task.limits().repeats else { return Ok(()) };
    match task.work().streak.as_ref().filter(|streak| streak.count >= allowed && streak.is_of(asked)) {
        None => Ok(()),
        Some(streak) => {
            let message = format!(
                "{} gave the same result for the same input {} times in a row; do something else",
                asked.shown_name(),
                streak.count
            );
            Err(CallError::new(ErrorCode::Repeated, message).with_detail(json!({"limit": "limits.repeats", "allowed": allowed})))
        }
    }
}

/// Checks the length of a handoff's result against `result_bytes`. Longer content belongs into a document.
fn check_length(task: &Task, input: &Json) -> Result<(), CallError> {
    let Some(allowed) = task.limits().result_bytes else { return Ok(()) };
    if (input.text().len() as u64).saturating_mul(MAX_GROWTH) <= allowed {
        return Ok(());
    }
    let length = input.value().get("result").map_or(0, |result| Json::from(result).text().len() as u64);
    if length <= allowed {
        return Ok(());
    }
    let mut error =
        LimitKind::ResultBytes.error(allowed).with_detail(json!({"received_bytes": length, "allowed_bytes": allowed}));
    error.message.push_str("; write the content into a document and attach it to the handoff");
    Err(error)
}

/// Checks a handoff's result against the schema that the agent, or the question, promises.
fn check_result(configs: &Configs, task: &Task, promised: Option<&Schema>, input: &Json) -> Result<(), CallError> {
    let result = || input.value().get_mut("result").map(Value::take).unwrap_or_default();
    let checked = match &task.question {
        Some(question) => match question.schema(configs) {
            Some(Ok(schema)) => schema.answer_in(&result()).map(drop),
            Some(Err(_)) | None => Ok(()),
        },
        None => promised.map_or(Ok(()), |schema| schema.check(&result())),
    };
    checked.map_err(|faults| {
        CallError::new(ErrorCode::InvalidInput, "the result does not match the schema that its receiver expects")
            .with_detail(json!({"pointer": "/result", "faults": faults}))
    })
}
