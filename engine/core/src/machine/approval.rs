//! Calls that wait for an approval.
//!
//! The question is a task like any question, held by a person or by the master's agent, and so climbs like one. Until it is
//! answered the call counts as waiting: nothing of it has begun, and what comes after it in call order waits with it. The
//! grant binds the hash of the tool, its definition and the input as the model wrote it, byte for byte. A call whose tool has
//! changed by then, in a fork or by a migration, is asked about again. Nobody's silence is a grant.
//!
//! An agent that answers a question is offered no tool that needs an approval, but the handoff: there it is the answer, not
//! the result that somebody wants to see first.

use serde_json::{Value, json};

use super::{CallStage, Draft, Task};
use crate::call::{CallError, CallResult, CallStatus, ErrorCode};
use crate::config::{Approver, Tool};
use crate::document::DocumentRef;
use crate::entry::{CallApproved, Concern, Entry, FinalState, Holder, Master, Otherwise, TaskCreated, TaskKind};
use crate::id::{ContentHash, TaskId};
use crate::json::Json;

/// The most characters of an input that a question about its call shows.
const INPUT_SHOWN: usize = 10_000;

impl Draft<'_> {
    /// Who has still to approve the call at `index` of the open turn of `id`. An approval of something else does not count.
    pub(super) fn approver(&self, id: &TaskId, index: usize, tool: &Tool) -> Option<Approver> {
        let task = self.task(id);
        let call = &task.open.as_ref().expect("the turn is open").calls[index];
        if let Some(binds) = call.approved {
            return (tool.bound_hash(&call.asked.input) != binds).then(|| self.approver_again(id, tool));
        }
        if task.kind == TaskKind::Question {
            return None;
        }
        super::advance::calling_agent(task, self.run.configs()).approver(tool)
    }

    /// Who approves a call that has changed since somebody was asked: a person where its config names nobody any more.
    fn approver_again(&self, id: &TaskId, tool: &Tool) -> Approver {
        super::advance::calling_agent(self.task(id), self.run.configs()).approver(tool).unwrap_or(Approver::Person)
    }

    /// Withdraws the questions about calls that would do something else by the present configs. Each is asked again.
    pub(super) fn withdraw_changed_approvals(&mut self) {
        let is_changed = |task: &Task| {
            let Some(Concern::Approval { binds }) = task.concern else { return false };
            let id = task.id.originating_call();
            let open = self.run.task(&id.task()).and_then(|caller| caller.open.as_ref());
            let call = open.and_then(|open| Some(&open.calls[open.index_of(&id)?]));
            let tool = call.and_then(|call| self.run.configs().tools.get(call.asked.tool.as_str()));
            call.zip(tool).is_some_and(|(call, tool)| tool.bound_hash(&call.asked.input) != binds)
        };
        let live = self.run.graph.iter().filter(|task| task.is_live());
        let changed: Vec<TaskId> = live.filter(|task| is_changed(task)).map(|task| task.id.clone()).collect();
        for question in changed {
            let error = CallError::new(ErrorCode::Cancelled, "the call has changed since, and is asked about again");
            self.end_task(&question, FinalState::Cancelled, CallResult::error(CallStatus::Cancelled, error), None);
        }
    }

    /// Asks for the approval of the call at `index`, showing `documents`; `earlier` calls of the turn will create tasks first.
    pub(super) fn ask_approval(
        &mut self,
        id: &TaskId,
        index: usize,
        tool: &Tool,
        approver: Approver,
        documents: Vec<DocumentRef>,
        earlier: u32,
    ) -> Result<(), CallError> {
        let call = &self.task(id).open.as_ref().expect("the turn is open").calls[index];
        let (task, input) = (call.id.approval(call.approvals + 1), call.asked.input.clone());
        let title = tool.title.as_ref().map(|title| format!(" ({title})")).unwrap_or_default();
        let request = format!(
            "May I call {}{title}? It begins only once you approve exactly this.\n\n{}\n\nIts input:\n{}",
            tool.id,
            tool.description,
            shown(&input)
        );
        let concern = Concern::Approval { binds: tool.bound_hash(&input) };
        let schema = json!({
            "type": "object",
            "properties": {
                "approved": {"type": "boolean", "description": "Whether the call may begin."},
                "reason": {"type": "string", "description": "Why, for whoever wants to make the call."}
            },
            "required": ["approved"],
            "additionalProperties": false
        });
        let asked_of = match approver {
            Approver::Person => (Holder::Person, None, Master::Person),
            Approver::Master => self.master_of(id),
        };
        self.ask_about_call(id, task, concern, asked_of, request, documents, schema, earlier)
    }

    /// Opens a question of the engine's own about a call of `id`.
    #[expect(clippy::too_many_arguments, reason = "what the question is made of")]
    pub(super) fn ask_about_call(
        &mut self,
        id: &TaskId,
        question: TaskId,
        concern: Concern,
        (holder, answers_for, master): (Holder, Option<TaskId>, Master),
        request: String,
        documents: Vec<DocumentRef>,
        answer_schema: Value,
        earlier: u32,
    ) -> Result<(), CallError> {
        self.check_room(holder != Holder::Person, earlier)?;
        let created = TaskCreated {
            task: question,
            kind: TaskKind::Question,
            holder,
            caller: Some(id.clone()),
            // Its limits are those of whoever answers: a tool's are meant for the tasks that its own calls create.
            tool: None,
            master,
            answers_for,
            request,
            documents,
            depth: self.task(id).depth,
            answer_schema: Json::from(answer_schema),
            deadline: None,
            failed_attempts: 0,
            concern: Some(concern),
        };
        self.push(Entry::TaskCreated(Box::new(created.clone())));
        self.open_question(&created, id, Otherwise::Fail);
        Ok(())
    }

    /// `question`, whether the call at `index` may begin, has ended with `result`.
    pub(super) fn approval_decided(
        &mut self,
        id: &TaskId,
        index: usize,
        question: &TaskId,
        binds: ContentHash,
        result: &CallResult,
    ) {
        let call = &self.task(id).open.as_ref().expect("a call waits in an open turn").calls[index];
        if call.stage != CallStage::Approval {
            // The call was ended before its question was.
            return;
        }
        let configs = self.configs();
        let tool = configs.tools.get(call.asked.tool.as_str());
        let (call, asked) = (call.id.clone(), std::sync::Arc::clone(&call.asked));
        let decided = match (tool, verdict(result)) {
            (None, _) => Err(CallError::new(ErrorCode::Denied, format!("there is no tool {} any more", asked.tool))),
            // The answer, whatever it is, is about something else.
            (Some(tool), _) if tool.bound_hash(&asked.input) != binds => {
                let approver = self.approver_again(id, tool);
                let documents = self.task(question).question.as_ref().map(|question| question.documents.clone());
                self.ask_approval(id, index, tool, approver, documents.unwrap_or_default(), 0)
            }
            (Some(tool), Ok(())) => {
                self.push(Entry::CallApproved(CallApproved { task: id.clone(), call, tool: tool.id.clone(), binds }));
                Ok(())
            }
            (Some(_), Err(reason)) => {
                Err(CallError::new(ErrorCode::Denied, format!("the call of {} was not approved: {reason}", asked.tool)))
            }
        };
        if let Err(error) = decided {
            self.refuse(id, index, error);
        }
        self.changed.push_back(id.clone());
    }
}

/// Whether an ended question approves; if not, why.
fn verdict(result: &CallResult) -> Result<(), String> {
    if result.status != CallStatus::Success {
        let reason = result.error.as_ref().map_or_else(|| result.status.as_str().to_owned(), |error| error.message.clone());
        return Err(format!("nobody decided ({reason})"));
    }
    let answer = result.output.value();
    match (answer.get("approved"), answer.get("reason").and_then(Value::as_str)) {
        (Some(Value::Bool(true)), _) => Ok(()),
        (_, Some(reason)) if !reason.trim().is_empty() => Err(reason.to_owned()),
        _ => Err("no reason was given".to_owned()),
    }
}

pub(super) fn changed(tool: &Tool) -> CallError {
    CallError::new(ErrorCode::Denied, format!("what was approved is not what would run: {} has changed since", tool.id))
}

/// An input as a question shows it: whole, or as much as a person would read.
pub(super) fn shown(input: &Json) -> String {
    let text = input.text();
    match text.char_indices().nth(INPUT_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes in all; the timeline has the rest)", &text[..end], text.len()),
    }
}
