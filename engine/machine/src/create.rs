//! The tasks that calls create, and the documents that go with them.

use baton_render::request;
use baton_types::config::{CalleeContext, MasterRule};
use baton_types::path::DocumentPath;

use crate::bounded;
use crate::prelude::*;

/// Returns the task of the next attempt at a delegation to `agent`.
pub(super) fn delegation(
    draft: &Draft<'_>,
    call: CallAt,
    agent: &AgentId,
    input: &Value,
    documents: Vec<DocumentRef>,
) -> TaskCreated {
    let (caller, tool, open) = (draft.task(call.task), draft.tool(call), draft.call(call));
    let callee = super::agent(draft.run.configs(), agent);
    let continued = tool.continued_task(&open.asked.input).map(|task| draft.run.last_attempt(task));
    let seconds = tool.limits.deadline_seconds.or(callee.limits.deadline_seconds);
    TaskCreated {
        caller: Some(caller.id.clone()),
        tool: Some(tool.id.to_string()),
        master: match callee.master {
            MasterRule::Caller => Master::Task(caller.id.clone()),
            MasterRule::Person => Master::Person,
        },
        background: tool.is_background(&open.asked.input),
        begins_from: continued.or_else(|| (tool.context == CalleeContext::Fork).then(|| caller.id.clone())),
        documents,
        depth: caller.depth + 1,
        deadline: seconds.map(|seconds| draft.at.plus(Duration::from_secs(seconds))),
        failed_attempts: open.next_attempt() - 1,
        last_failure: open.failed_attempts().last().map(|failed| bounded(failed.reason())),
        ..TaskCreated::new(
            open.id.attempt(open.next_attempt()),
            TaskKind::Delegation,
            Holder::Agent(agent.clone()),
            request::delegation(&tool, input),
        )
    }
}

/// The holder of a question's task, the task on whose behalf it is answered, and the master of its own questions.
pub(super) struct Answerer {
    pub(super) holder: Holder,
    pub(super) answers_for: Option<TaskId>,
    pub(super) master: Master,
}

impl Answerer {
    pub(super) const PERSON: Self = Self { holder: Holder::Person, answers_for: None, master: Master::Person };
}

/// Returns the task of a question by or about a call of `asker`.
pub(super) fn question(asker: &Task, task: TaskId, by: Answerer, request: String, documents: Vec<DocumentRef>) -> TaskCreated {
    TaskCreated {
        caller: Some(asker.id.clone()),
        master: by.master,
        answers_for: by.answers_for,
        documents,
        depth: asker.depth,
        ..TaskCreated::new(task, TaskKind::Question, by.holder, request)
    }
}

impl Run {
    /// Returns the answerer of the questions of `asker`: the agent of its master, on behalf of the master, or a person.
    pub(super) fn master_of(&self, asker: TaskIndex) -> Answerer {
        let above = match &self.graph[asker].master {
            Master::Person => None,
            Master::Task(master) => self.graph.find(master.as_str()),
        };
        let Some(above) = above else { return Answerer::PERSON };
        if self.graph[above].agent().is_some_and(|agent| super::agent(&self.configs, agent).program.is_some()) {
            return self.master_of(above);
        }
        let (holder, above) = (Holder::Agent(self.agent_of(above).id.clone()), &self.graph[above]);
        Answerer { holder, answers_for: Some(above.id.clone()), master: above.master.clone() }
    }

    /// Refuses documents whose paths could be confused with existing ones or with one another.
    pub(super) fn check_new_documents(&self, writes: &[Write]) -> Result<(), Refusal> {
        match self.shared.documents.twin_of(writes) {
            None => Ok(()),
            Some((path, twin)) => Err(Refusal::InvalidDocument {
                path: path.to_string(),
                reason: format!("it looks like the document {twin}, or one of them would be a folder of the other"),
            }),
        }
    }

    /// Checks that a delegation waits if a program makes it, and that it continues a task that has ended, which `caller` delegated
    /// with the same tool.
    pub(super) fn check_delegation(&self, caller: TaskIndex, tool: &Tool, asked: &ModelCall) -> Result<(), CallError> {
        // A program reads no reports.
        if tool.is_background(&asked.input) && self.agent_of(caller).program.is_some() {
            return Err(CallError::new(ErrorCode::InvalidInput, "a program waits for its calls: leave \"wait\" out"));
        }
        let Some(continued) = tool.continued_task(&asked.input).map(|task| self.last_attempt(task)) else { return Ok(()) };
        let may = |task: &&Task| !task.is_live() && task.kind == TaskKind::Delegation && task.tool.as_ref() == Some(&tool.id);
        let callees = self.graph.callees(&self.graph[caller].id);
        let known: Vec<&TaskId> = callees.into_iter().filter(may).map(|task| &task.id).collect();
        if known.contains(&&continued) {
            return Ok(());
        }
        let runs = self.task(&continued).is_some_and(Task::is_live);
        let (continued, tool) = (bounded(continued.as_str()), tool.definition.shown_name());
        let message = if runs {
            format!("task {continued:?} still runs, and only a task that has ended can be continued")
        } else {
            format!("{continued:?} is not a task that you began with {tool}")
        };
        Err(CallError::new(ErrorCode::InvalidInput, message).with_detail(json!({"ended_tasks": known})))
    }

    /// Returns the last attempt at the delegation that `task` is an attempt at.
    fn last_attempt(&self, task: TaskId) -> TaskId {
        // A model may name anything, of any length.
        if self.graph.find(task.as_str()).is_none() {
            return task;
        }
        let call = task.originating_call();
        let later = (2..).map(|number| call.attempt(number)).take_while(|attempt| self.graph.find(attempt.as_str()).is_some());
        later.last().unwrap_or(task)
    }

    /// Resolves the documents attached to a call to their newest versions. A missing document is an error of the call.
    pub(super) fn pin(&self, input: &Value) -> Result<Vec<DocumentRef>, CallError> {
        let documents = &self.shared.documents;
        let mut pinned: Vec<DocumentRef> = Vec::new();
        for path in input.get("documents").and_then(Value::as_array).into_iter().flatten() {
            let text = path.as_str().unwrap_or_default();
            let parsed =
                DocumentPath::parse(text).map_err(|error| CallError::new(ErrorCode::UnknownDocument, error.to_string()))?;
            let Some(version) = documents.head(&parsed) else {
                let known: Vec<&str> = documents.iter().map(|(path, _)| path.as_str()).take(50).collect();
                return Err(CallError::new(
                    ErrorCode::UnknownDocument,
                    format!("document {parsed} does not exist yet; leave it out, or write it first"),
                )
                .with_detail(json!({"path": parsed, "known_documents": known})));
            };
            let reference = DocumentRef { path: parsed, version };
            if !pinned.contains(&reference) {
                pinned.push(reference);
            }
        }
        Ok(pinned)
    }
}
