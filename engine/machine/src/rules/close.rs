//! Rule *close*: one handoff, beside calls that succeeded.
//!
//! A handoff takes effect if it is the only handoff of its turn, no other call of the turn blocks, and every other call
//! succeeded. Otherwise it is refused with the reason. It delivers the versions of documents that its task knows.

use baton_render::request;
use baton_types::config::TaskAction;

use crate::acceptance::Acceptance;
use crate::prelude::*;

/// Hands off, or refuses the handoff with the reason.
pub(crate) fn hand_off(draft: &mut Draft<'_>, call: CallAt) {
    match draft.run.acceptance(call.task) {
        Acceptance::Open | Acceptance::Given => {}
        Acceptance::Pending => return,
        Acceptance::Refused(error) => return draft.refuse(call, error),
        Acceptance::Over(result) => return draft.then(Step::end(call.task, result)),
    }
    let (tool, input) = (draft.tool(call), draft.call(call).asked.input.value());
    let checked = check(draft.calls(call.task), call.index)
        .and_then(|()| check_background(draft.run, call.task))
        .and_then(|()| known_versions(draft, call.task, draft.run.pin(&input)?));
    let documents = match checked {
        Ok(documents) => documents,
        Err(error) => return draft.refuse(call, error),
    };
    let output = handed_off(draft, call, &input);
    if let Some(asked) = draft.run.acceptance_call(call.task, &output, &documents) {
        return draft.then(Step::AskAcceptance { task: call.task, asked: Box::new(asked) });
    }
    if let Some(approver) = draft.approver(call, &tool) {
        return draft.then(Step::AskApproval(NeededApproval { call, approver, documents, creating: 0 }));
    }
    let result = CallResult { documents, ..CallResult::success(output) };
    // A handoff always ends the turn, whatever `after_execution` the call or its config has.
    draft.finish(call, result, Some(AfterExecution::Terminate));
}

/// Checks whether the handoff at `index` may take effect together with the other calls of its turn.
fn check(calls: &OpenCalls, index: usize) -> Result<(), CallError> {
    let refuse = |reason: String| Err(CallError::new(ErrorCode::HandoffRefused, reason));
    for (other, call) in calls.own().iter().enumerate().filter(|(other, _)| *other != index) {
        let row = call.tool_type.map(ToolType::behavior);
        let name = call.asked.shown_name();
        if row.is_some_and(|row| row.then == Then::Stop) {
            return refuse("a turn may hold one handoff only".to_owned());
        }
        if row.is_some_and(|row| row.blocks_caller) {
            return refuse(format!("{name} in the same turn makes you wait; hand off when its result is in"));
        }
        let succeeded = call.finish().is_some_and(|finish| finish.status == CallStatus::Success);
        if !succeeded {
            return refuse(format!("call {} of the turn ({name}) did not succeed; look at its result first", other + 1));
        }
    }
    Ok(())
}

/// Checks whether background tasks let their caller end now.
fn check_background(run: &Run, task: TaskIndex) -> Result<(), CallError> {
    if !run.waits_for_background(task) {
        return Ok(());
    }
    let open = run.graph.background_of(task).into_iter().filter(|task| run.graph[*task].is_live());
    let open: Vec<&str> = open.map(|task| run.graph[task].id.as_str()).collect();
    let message = if open.is_empty() {
        "a task that you began in the background has ended: look at its result first".to_owned()
    } else {
        // Only tools that the agent has are named. It can always answer with a text.
        let tools = &run.agent_of(task).tools;
        let with = |action: TaskAction, purpose: &str| {
            let tool = tools.values().find(|tool| tool.manages_tasks == Some(action));
            tool.map(|tool| format!("{purpose} with {}, ", tool.definition.shown_name())).unwrap_or_default()
        };
        let wait = with(TaskAction::Wait, "wait for them");
        let cancel = with(TaskAction::Cancel, "cancel them");
        let or = if wait.is_empty() && cancel.is_empty() { "" } else { "or " };
        format!(
            "tasks that you began in the background still run: {wait}{cancel}{or}answer with a text, and you are asked again when one ends"
        )
    };
    Err(CallError::new(ErrorCode::HandoffRefused, message).with_detail(json!({"running": open})))
}

/// Returns the documents of a handoff. A newer version than the one that the task knows is a conflict, since its agent has not
/// seen it. A last turn hands off the version that the task knows.
fn known_versions(draft: &Draft<'_>, task: TaskIndex, newest: Vec<DocumentRef>) -> Result<Vec<DocumentRef>, CallError> {
    let of = draft.task(task);
    let version = |newest: DocumentRef| match of.seen(&newest.path) {
        Some(version) if version < newest.version && of.last_turn().is_some() => Ok(DocumentRef { version, ..newest }),
        Some(version) if version < newest.version => {
            let DocumentRef { path, version: current } = &newest;
            let message = format!("{path} is at version {current} and you know version {version}; read it, then hand off again");
            Err(CallError::new(ErrorCode::Conflict, message)
                .with_detail(json!({"path": path, "known": version, "current": current})))
        }
        Some(_) | None => Ok(newest),
    };
    newest.into_iter().map(version).collect()
}

/// Returns the result as its receiver gets it. An answer with a schema becomes the value that meets the schema. The fields that
/// the tool declares in addition travel beside the result.
fn handed_off(draft: &Draft<'_>, call: CallAt, input: &Value) -> Json {
    let result = input.get("result").unwrap_or(&Value::Null);
    let question = draft.task(call.task).question.as_ref();
    if let Some(schema) = question.and_then(|question| question.schema(draft.run.configs())) {
        let answer = schema.as_ref().ok().and_then(|schema| schema.answer_in(result).ok());
        return Json::from(answer.unwrap_or(result));
    }
    let mut further = request::further_fields(input, &["result", "documents"]);
    // A promised schema holds for the whole result.
    if further.is_empty() || draft.agent(call.task).result_schema.is_some() {
        return Json::from(result);
    }
    further.insert("result".to_owned(), result.clone());
    Json::from(Value::Object(further))
}
