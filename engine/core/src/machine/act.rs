//! What acts last in a turn: delegations, questions and the handoff, with the documents attached to them (rules *act* and *close*).

use std::time::Duration;

use serde_json::Value;

use super::advance::calling_agent;
use super::check::{answer_in, request_text};
use super::{CallStage, Draft, task_limits};
use crate::call::{CallError, CallResult, CallStatus, ErrorCode};
use crate::config::{MasterRule, Schema, Tool};
use crate::document::DocumentRef;
use crate::entry::{CallStarted, Entry, Holder, Master, Otherwise, QuestionOpened, TaskCreated, TaskKind};
use crate::event::Effect;
use crate::id::{AgentId, CallId, TaskId};
use crate::json::Json;
use crate::tool_type::Then;

impl Draft<'_> {
    /// Lets the waiting delegations, questions and handoffs of the open turn act, in call order.
    pub(super) fn act(&mut self, id: &TaskId) {
        let waiting: Vec<usize> = {
            let open = self.task(id).open.as_ref().expect("the turn is open");
            let stages = open.calls.iter().enumerate();
            stages.filter(|(_, call)| call.stage == CallStage::Waiting).map(|(index, _)| index).collect()
        };
        let configs = self.configs();
        for index in waiting {
            let open = self.task(id).open.as_ref().expect("acting closes no turn");
            let asked = std::sync::Arc::clone(&open.calls[index].asked);
            let tool = &configs.tools[asked.tool.as_str()];
            let input = asked.input.value();
            let acted = if tool.tool_type.behavior().then == Then::Stop {
                self.hand_off(id, index, tool, &input)
            } else {
                self.create_task(id, index, tool, &input)
            };
            if let Err(error) = acted {
                self.refuse(id, index, error);
            }
        }
    }

    /// A handoff takes effect only beside calls that all succeeded and none of which blocks (rule *close*).
    fn hand_off(&mut self, id: &TaskId, index: usize, tool: &Tool, input: &Value) -> Result<(), CallError> {
        let open = self.task(id).open.as_ref().expect("the turn is open");
        let refuse = |reason: String| Err(CallError::new(ErrorCode::HandoffRefused, reason));
        for (other, call) in open.calls.iter().enumerate().filter(|(other, _)| *other != index) {
            let row = call.tool_type.map(crate::tool_type::ToolType::behavior);
            let name = &call.asked.tool;
            if row.is_some_and(|row| row.then == Then::Stop) {
                return refuse("a turn may hold one handoff only".to_owned());
            }
            if row.is_some_and(|row| row.blocks_caller) {
                return refuse(format!("{name} in the same turn makes you wait; hand off when its result is in"));
            }
            let succeeded = matches!(&call.stage, CallStage::Finished(finish) if finish.status == CallStatus::Success);
            if !succeeded {
                return refuse(format!("call {} of the turn ({name}) did not succeed; look at its result first", other + 1));
            }
        }
        let documents = self.pin(input)?;
        if let Some(approver) = self.approver(id, index, tool) {
            return self.ask_approval(id, index, tool, approver, documents, 0);
        }
        let output = self.handed_off(id, input.get("result").unwrap_or(&Value::Null));
        let result = CallResult { status: CallStatus::Success, output: output.into(), error: None, documents };
        // A handoff always ends the turn, whatever the call or its config says about others.
        self.finish_call(id, index, result, Some(crate::call::AfterExecution::Terminate), Vec::new());
        Ok(())
    }

    /// The result as whoever waits for it gets it: of an answer with a schema, the value that meets it.
    fn handed_off(&self, id: &TaskId, result: &Value) -> Json {
        let schema = self.task(id).question.as_ref().filter(|question| !question.answer_schema.is_null());
        let schema = schema.and_then(|question| Schema::compile(&question.answer_schema.value()).ok());
        let answer = schema.as_ref().and_then(|schema| answer_in(schema, result).ok());
        Json::from(answer.unwrap_or(result))
    }

    /// Creates the task of a delegation or of a question; the caller is blocked from here on.
    fn create_task(&mut self, id: &TaskId, index: usize, tool: &Tool, input: &Value) -> Result<(), CallError> {
        self.check_creation(self.task(id), tool, input, 0)?;
        let documents = self.pin(input)?;
        if let Some(approver) = self.approver(id, index, tool) {
            return self.ask_approval(id, index, tool, approver, documents, 0);
        }
        let task = self.task(id);
        let call = task.open.as_ref().expect("the turn is open").calls[index].id.clone();
        let created = match &tool.agent {
            Some(agent) => self.delegated_task(id, &call, 0, tool, agent, input, documents),
            None => self.question_task(id, tool, call.created_task(), input, documents),
        };
        self.push(Entry::CallStarted(CallStarted {
            task: id.clone(),
            call,
            tool: tool.id.clone(),
            tool_type: tool.tool_type,
            documents: created.documents.clone(),
            target: Some(created.holder.clone()),
        }));
        let question = created.clone();
        self.push(Entry::TaskCreated(Box::new(created)));
        if tool.agent.is_none() {
            self.open_question(&question, id, otherwise(input));
        }
        Ok(())
    }

    /// The task of a delegation to `agent`, at which `failed` attempts have failed.
    #[expect(clippy::too_many_arguments, reason = "what the task is made of")]
    pub(super) fn delegated_task(
        &self,
        caller: &TaskId,
        call: &CallId,
        failed: u32,
        tool: &Tool,
        agent: &AgentId,
        input: &Value,
        documents: Vec<DocumentRef>,
    ) -> TaskCreated {
        let callee = super::agent(self.run.configs(), agent);
        let seconds = tool.limits.deadline_seconds.or(callee.limits.deadline_seconds);
        TaskCreated {
            task: call.attempt(failed + 1),
            kind: TaskKind::Delegation,
            holder: Holder::Agent(agent.clone()),
            caller: Some(caller.clone()),
            tool: Some(tool.id.to_string()),
            master: match callee.master {
                MasterRule::Caller => Master::Task(caller.clone()),
                MasterRule::Person => Master::Person,
            },
            answers_for: None,
            request: request_text(input),
            documents,
            depth: self.task(caller).depth + 1,
            answer_schema: Json::null(),
            deadline: seconds.map(|seconds| self.at.plus(Duration::from_secs(seconds))),
            failed_attempts: failed,
            concern: None,
        }
    }

    /// The task of a question: held by the agent of the asker's master, in that one's name, or by a person.
    fn question_task(&self, asker: &TaskId, tool: &Tool, id: TaskId, input: &Value, documents: Vec<DocumentRef>) -> TaskCreated {
        let task = self.task(asker);
        let (holder, answers_for, master) = self.master_of(asker);
        let seconds = input.get("deadline_seconds").and_then(Value::as_f64).map(Duration::try_from_secs_f64).and_then(Result::ok);
        let by_config = tool.limits.deadline_seconds.map(Duration::from_secs);
        TaskCreated {
            task: id,
            kind: TaskKind::Question,
            holder,
            caller: Some(asker.clone()),
            tool: Some(tool.id.to_string()),
            master,
            answers_for,
            request: request_text(input),
            documents,
            depth: task.depth,
            answer_schema: input.get("answer_schema").map_or_else(Json::null, Json::from),
            deadline: seconds.or(by_config).map(|duration| self.at.plus(duration)),
            failed_attempts: 0,
            concern: None,
        }
    }

    /// Who answers the questions of `asker`, in whose name, and who answers that one's questions in turn.
    pub(super) fn master_of(&self, asker: &TaskId) -> (Holder, Option<TaskId>, Master) {
        match &self.task(asker).master {
            Master::Person => (Holder::Person, None, Master::Person),
            Master::Task(master) => {
                let above = self.task(master);
                let agent = calling_agent(above, self.run.configs());
                (Holder::Agent(agent.id.clone()), Some(master.clone()), above.master.clone())
            }
        }
    }

    /// Numbers a question and, if a person holds it, asks for the answer.
    pub(super) fn open_question(&mut self, created: &TaskCreated, asker: &TaskId, otherwise: Otherwise) {
        let number = u32::try_from(self.run.shared.questions.len() + 1).unwrap_or(u32::MAX);
        self.push(Entry::QuestionOpened(Box::new(QuestionOpened {
            task: created.task.clone(),
            number,
            asker: asker.clone(),
            holder: created.holder.clone(),
            question: created.request.clone(),
            documents: created.documents.clone(),
            answer_schema: created.answer_schema.clone(),
            otherwise,
        })));
        if created.holder == Holder::Person {
            self.decision.effects.push(Effect::AskPerson { question: created.task.clone() });
        }
    }

    /// The limits of `id`, for files that need no more of them.
    pub(super) fn limits(&self, id: &TaskId) -> std::borrow::Cow<'_, crate::limits::Limits> {
        task_limits(self.run.configs(), self.task(id))
    }
}

/// What the asker wants to happen when nobody answers in time.
fn otherwise(input: &Value) -> Otherwise {
    let default = input.get("default_answer").filter(|value| !value.is_null());
    match (input.get("on_deadline").and_then(Value::as_str), default) {
        (Some("escalate"), _) => Otherwise::Escalate,
        (Some("default") | None, Some(default)) => Otherwise::Default(Json::from(default)),
        _ => Otherwise::Fail,
    }
}
