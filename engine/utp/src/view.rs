//! Cards as a view of a timeline. Nothing is stored for them: the same entries always give the same cards.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use baton_types::call::{AfterExecution, CallResult, CallStatus, ModelCall};
use baton_types::entry::{Entry, Holder, Recorded};
use baton_types::id::{CallId, RunId, TaskId, ToolId};
use baton_types::time::Timestamp;

use crate::card::{Called, Card, Content, DeliverableContent, Metadata, Role, ThoughtContent, ToolCallContent};
use crate::id::{AgentName, AgentTurnId, CardId, Derived, ProjectName, StepId, ToolCallId, ToolName};
use crate::result::{ResultError, ToolResultContent};

/// Makes the cards of a run from its entries, which are given in order.
///
/// A `tool.call` card comes with the start of a call, and a `tool.result` card with its result. A refused call has both at once. Inputs
/// of calls that have ended are dropped.
#[derive(Debug)]
pub struct Cards {
    run: RunId,
    project: ProjectName,
    /// The subjects of tools that services execute.
    targets: BTreeMap<ToolId, String>,
    agents: HashMap<TaskId, AgentName>,
    calls: HashMap<CallId, Arc<ModelCall>>,
}

impl Cards {
    /// Returns the cards of `run`, before its first entry. `targets` has the `target_subject` of each tool that has one.
    pub fn new(run: RunId, project: ProjectName, targets: BTreeMap<ToolId, String>) -> Self {
        Self { run, project, targets, agents: HashMap::new(), calls: HashMap::new() }
    }

    /// Returns the cards that `recorded` adds.
    pub fn add(&mut self, recorded: &Recorded) -> Vec<Card> {
        let at = recorded.at;
        match &recorded.entry {
            Entry::TaskCreated(created) => {
                if let Holder::Agent(agent) = &created.holder {
                    self.agents.insert(created.task.clone(), AgentName::of(agent));
                }
                Vec::new()
            }
            Entry::ModelAnswered(answered) => {
                for (position, call) in (1..).zip(&answered.calls) {
                    self.calls.insert(answered.task.call(answered.turn, position), Arc::clone(call));
                }
                if answered.text.is_empty() {
                    return Vec::new();
                }
                vec![Card {
                    card_id: CardId::of_thought(&self.run, &answered.task, answered.turn),
                    content: Content::Thought(ThoughtContent { text: answered.text.clone() }),
                    metadata: Metadata { step_id: Some(StepId::of(answered.turn)), ..self.about(&answered.task) },
                    ..self.blank(&answered.task, at)
                }]
            }
            Entry::CallMade(made) => {
                self.calls.insert(made.call.clone(), Arc::clone(&made.asked));
                Vec::new()
            }
            Entry::CallApproved(approved) => {
                if let Some((call, input)) = self.calls.get_mut(&approved.call).zip(approved.input.clone()) {
                    Arc::make_mut(call).input = input;
                }
                Vec::new()
            }
            Entry::CallStarted(started) => {
                let mut card = self.call_card(&started.call, &started.tool, at);
                if let Content::ToolCall(content) = &mut card.content {
                    if let Some(input) = &started.input {
                        content.arguments = input.clone();
                    }
                    content.envs.clone_from(&started.envs);
                }
                vec![card]
            }
            Entry::CallRefused(refused) => {
                let called = self.call_card(&refused.call, &refused.tool, at);
                let result = CallResult::error(CallStatus::Failed, refused.error.clone());
                vec![called, self.result_card(&refused.call, &refused.tool, &result, AfterExecution::Suspend, at)]
            }
            Entry::CallFinished(finished) => {
                vec![self.result_card(&finished.call, &finished.tool, &finished.result, finished.after, at)]
            }
            Entry::TaskEnded(ended) => {
                let result = &ended.result;
                let content = DeliverableContent {
                    status: result.status.into(),
                    result: result.output.shown().into_owned(),
                    error: result.error.as_ref().map(ResultError::from),
                };
                vec![Card {
                    card_id: CardId::of_deliverable(&self.run, &ended.task),
                    content: Content::Deliverable(content),
                    ..self.blank(&ended.task, at)
                }]
            }
            Entry::RunStarted(_)
            | Entry::ModelRequested(_)
            | Entry::FellBack(_)
            | Entry::CallAskedModel(_)
            | Entry::CallSuspended(_)
            | Entry::DocumentWritten(_)
            | Entry::QuestionOpened(_)
            | Entry::QuestionClosed(_)
            | Entry::Output(_)
            | Entry::BudgetSettled(_)
            | Entry::Compacted(_)
            | Entry::Control(_)
            | Entry::SubtreeClosed(_)
            | Entry::TaskReported(_)
            | Entry::RunEnded(_) => Vec::new(),
        }
    }

    fn call_card(&self, call: &CallId, tool: &ToolId, at: Timestamp) -> Card {
        let content = ToolCallContent {
            tool_name: ToolName::of(tool),
            arguments: self.calls.get(call).map(|asked| asked.input.clone()).unwrap_or_default(),
            status: Called::Called,
            target_subject: self.targets.get(tool).cloned(),
            envs: BTreeMap::new(),
        };
        Card {
            card_id: CardId::of_call(&self.run, call, Derived::Call),
            content: Content::ToolCall(content),
            metadata: self.about_call(call, tool, Role::Assistant),
            ..self.blank(&call.task(), at)
        }
    }

    fn result_card(&mut self, call: &CallId, tool: &ToolId, result: &CallResult, after: AfterExecution, at: Timestamp) -> Card {
        self.calls.remove(call);
        Card {
            card_id: CardId::of_call(&self.run, call, Derived::Result),
            content: Content::ToolResult(ToolResultContent::of(result, after)),
            metadata: self.about_call(call, tool, Role::Tool),
            ..self.blank(&call.task(), at)
        }
    }

    fn about(&self, task: &TaskId) -> Metadata {
        Metadata {
            role: Role::Assistant,
            agent_turn_id: AgentTurnId::of(&self.run, task),
            step_id: None,
            tool_call_id: None,
            function_name: None,
        }
    }

    fn about_call(&self, call: &CallId, tool: &ToolId, role: Role) -> Metadata {
        Metadata {
            role,
            step_id: StepId::of_call(call),
            tool_call_id: Some(ToolCallId::of(call)),
            function_name: Some(ToolName::of(tool)),
            ..self.about(&call.task())
        }
    }

    /// Returns what all cards of `task` share, with a content and an id that each of them replaces.
    fn blank(&self, task: &TaskId, at: Timestamp) -> Card {
        Card {
            card_id: CardId::of_deliverable(&self.run, task),
            project_id: self.project.clone(),
            content: Content::Thought(ThoughtContent { text: String::new() }),
            created_at: Some(at),
            author_id: self.agents.get(task).cloned().unwrap_or_else(AgentName::engine),
            metadata: self.about(task),
        }
    }
}
