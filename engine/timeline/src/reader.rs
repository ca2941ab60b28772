//! Entries in order, as lines.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use baton_types::call::{CallError, CallResult, CallStatus, ModelCall};
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{Entry, Holder, QuestionEnd, Recorded, TaskKind, UserOutput};
use baton_types::id::{CallId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::tool_type::{Then, ToolType};
use serde::Serialize;

use crate::line::{Closed, DocumentReference, Kind, Line, OtherTask};

/// Makes a line of each entry of a run. Entries are given in order, because later lines need names and inputs from earlier
/// entries. Inputs of calls that have ended are dropped, so a long timeline takes little memory.
#[derive(Debug)]
pub struct Reader {
    run: RunId,
    tasks: HashMap<TaskId, KnownTask>,
    documents: HashMap<DocumentRef, Arc<DocumentVersion>>,
}

/// A task, as far as lines need it.
#[derive(Debug)]
struct KnownTask {
    kind: TaskKind,
    holder: Holder,
    /// The calls without a result.
    calls: BTreeMap<CallId, Arc<ModelCall>>,
    /// Whether the call that created it has its result before the task ends.
    background: bool,
    /// The number of its question while it is open.
    question: Option<u32>,
}

impl Reader {
    /// Returns a reader of the timeline of `run`, before its first entry.
    pub fn new(run: RunId) -> Self {
        Self { run, tasks: HashMap::new(), documents: HashMap::new() }
    }

    /// Returns the line of the next entry.
    pub fn line(&mut self, recorded: &Recorded) -> Line {
        if let Entry::TaskCreated(created) = &recorded.entry {
            let task = KnownTask {
                kind: created.kind,
                holder: created.holder.clone(),
                calls: BTreeMap::new(),
                background: created.background,
                question: None,
            };
            self.tasks.insert(created.task.clone(), task);
        }
        let task = recorded.entry.task().cloned();
        let known = task.as_ref().and_then(|task| self.tasks.get(task));
        let mut line = Line {
            run: self.run.clone(),
            seq: recorded.seq,
            decision: recorded.decision,
            at: recorded.at,
            task_kind: known.map(|known| known.kind),
            holder: known.map(|known| known.holder.clone()),
            task,
            kind: Kind::Entry(recorded.entry.name()),
            tool: None,
            call: None,
            input: Json::null(),
            result: Json::null(),
            output: match recorded.entry.user_output() {
                Some(UserOutput::Message { message, .. }) => json(&message),
                Some(UserOutput::Result { output, .. }) => output.into_owned(),
                None => Json::null(),
            },
            documents: Vec::new(),
            with: None,
            closes: Closed::default(),
            entry: recorded.entry.clone(),
        };
        self.fill(&mut line, &recorded.entry);
        line
    }

    fn fill(&mut self, line: &mut Line, entry: &Entry) {
        match entry {
            Entry::TaskCreated(created) => {
                line.tool.clone_from(&created.tool);
                line.documents = self.references(&created.documents);
                line.with = created.caller.as_ref().map(|caller| self.other(caller));
                if created.kind == TaskKind::Root {
                    line.kind = Kind::Tool(ToolType::Root);
                    line.input = json(&Request { request: &created.request });
                }
            }
            Entry::ModelAnswered(answered) => {
                if let Some(task) = self.tasks.get_mut(&answered.task) {
                    let calls = (1..).zip(&answered.calls);
                    task.calls
                        .extend(calls.map(|(position, call)| (answered.task.call(answered.turn, position), Arc::clone(call))));
                }
            }
            Entry::CallMade(made) => {
                if let Some(task) = self.tasks.get_mut(&made.task) {
                    task.calls.insert(made.call.clone(), Arc::clone(&made.asked));
                }
                self.call(line, &made.call, &made.asked.tool, None);
            }
            Entry::CallRefused(refused) => {
                self.call(line, &refused.call, refused.tool.as_str(), refused.tool_type);
                self.close_call(line, &refused.call);
                line.result = json(&Refused { status: CallStatus::Failed, error: &refused.error });
            }
            Entry::CallApproved(approved) => {
                self.call(line, &approved.call, approved.tool.as_str(), None);
                // The call continues with the input that the person gave it.
                let known = self.tasks.get_mut(&approved.call.task()).and_then(|task| task.calls.get_mut(&approved.call));
                if let Some((known, input)) = known.zip(approved.input.clone()) {
                    Arc::make_mut(known).input = input;
                }
            }
            Entry::CallStarted(started) => {
                // From here on, lines have the effective input.
                let known = self.tasks.get_mut(&started.task).and_then(|task| task.calls.get_mut(&started.call));
                if let Some((known, input)) = known.zip(started.input.clone()) {
                    Arc::make_mut(known).input = input;
                }
                self.call(line, &started.call, started.tool.as_str(), Some(started.tool_type));
                line.documents = self.references(&started.documents);
                if let (Then::Block, Some(target)) = (started.tool_type.behavior().then, &started.target) {
                    let task = started.call.created_task();
                    let verb = if started.tool_type == ToolType::AskMaster { "asked" } else { "delegated to" };
                    line.result = json(&format!("→ {verb} {target} (task {task})"));
                    line.with = Some(OtherTask { task, holder: Some(target.clone()) });
                }
            }
            Entry::CallAskedModel(asked) => line.call = Some(asked.by.call.clone()),
            Entry::CallSuspended(suspended) => self.call(line, &suspended.call, suspended.tool.as_str(), None),
            Entry::CallFinished(finished) => {
                self.call(line, &finished.call, finished.tool.as_str(), Some(finished.tool_type));
                self.close_call(line, &finished.call);
                let kept = finished.result.output.kept().map(|kept| kept.document.clone());
                line.documents = self.references(&finished.result.documents);
                line.documents.extend(self.references(kept.as_slice()));
                let task = finished.call.created_task();
                let is_background = self.tasks.get(&task).is_some_and(|task| task.background);
                // The result of a background call is no result of its task.
                if finished.tool_type.behavior().then == Then::Block && !is_background {
                    line.with = Some(self.other(&task));
                }
                let holder = line.with.as_ref().and_then(|other| other.holder.as_ref());
                let noun = if finished.tool_type == ToolType::AskMaster { "answer" } else { "result" };
                let from = holder.map(|holder| format!("← {noun} from {holder}"));
                line.result = self.result(&finished.result, from);
            }
            Entry::DocumentWritten(version) => {
                line.call.clone_from(&version.call);
                self.documents.insert(version.reference(), Arc::clone(version));
                line.documents = self.references(&[version.reference()]);
            }
            Entry::QuestionOpened(opened) => {
                line.documents = self.references(&opened.documents);
                line.with = Some(self.other(&opened.asker));
                if let Some(task) = self.tasks.get_mut(&opened.task) {
                    task.question = Some(opened.number);
                }
            }
            Entry::QuestionClosed(closed) => {
                line.closes.questions.push(closed.number);
                if let Some(task) = self.tasks.get_mut(&closed.task) {
                    task.question = None;
                }
                if let QuestionEnd::Escalated { to, task } = &closed.how {
                    line.with = Some(OtherTask { task: task.clone(), holder: Some(to.clone()) });
                }
            }
            Entry::Output(output) => line.call = Some(output.call.clone()),
            Entry::BudgetSettled(settled) => line.call = settled.by.as_ref().map(|by| by.call.clone()),
            Entry::SubtreeClosed(closed) => closed.tasks.iter().for_each(|task| self.close_task(line, task)),
            Entry::TaskEnded(ended) => {
                self.close_task(line, &ended.task);
                line.documents = self.references(&ended.result.documents);
                if line.task_kind == Some(TaskKind::Root) {
                    line.kind = Kind::Tool(ToolType::Root);
                    line.result = self.result(&ended.result, None);
                }
            }
            Entry::TaskReported(reported) => {
                line.call = Some(reported.call.clone());
                line.tool = Some(reported.tool.to_string());
                line.documents = self.references(&reported.result.documents);
                line.with = Some(self.other(&reported.ended));
                let holder = line.with.as_ref().and_then(|other| other.holder.as_ref());
                line.result = self.result(&reported.result, holder.map(|holder| format!("← result from {holder}")));
            }
            Entry::RunStarted(_)
            | Entry::ModelRequested(_)
            | Entry::FellBack(_)
            | Entry::Compacted(_)
            | Entry::Control(_)
            | Entry::RunEnded(_) => {}
        }
    }

    fn call(&self, line: &mut Line, call: &CallId, tool: &str, tool_type: Option<ToolType>) {
        if let Some(tool_type) = tool_type {
            line.kind = Kind::Tool(tool_type);
        }
        line.tool = Some(tool.to_owned());
        line.call = Some(call.clone());
        let known = self.tasks.get(&call.task()).and_then(|task| task.calls.get(call));
        line.input = known.map_or_else(Json::null, |known| known.input.clone());
    }

    fn close_call(&mut self, line: &mut Line, call: &CallId) {
        line.closes.calls.push(call.clone());
        if let Some(task) = self.tasks.get_mut(&call.task()) {
            task.calls.remove(call);
        }
    }

    fn close_task(&mut self, line: &mut Line, id: &TaskId) {
        line.closes.tasks.push(id.clone());
        let Some(task) = self.tasks.get_mut(id) else { return };
        line.closes.calls.extend(std::mem::take(&mut task.calls).into_keys());
        line.closes.questions.extend(task.question.take());
    }

    fn holder(&self, task: &TaskId) -> Option<Holder> {
        self.tasks.get(task).map(|task| task.holder.clone())
    }

    fn other(&self, task: &TaskId) -> OtherTask {
        OtherTask { task: task.clone(), holder: self.holder(task) }
    }

    fn references(&self, references: &[DocumentRef]) -> Vec<DocumentReference> {
        let content = |reference| self.documents.get(reference).map(|version| version.content.clone());
        references
            .iter()
            .map(|reference| DocumentReference { reference: reference.clone(), content: content(reference) })
            .collect()
    }

    /// Returns the result of a call or of a task. `from` marks a result that came back from another task.
    fn result(&self, result: &CallResult, from: Option<String>) -> Json {
        let CallResult { status, output, error, documents } = result;
        json(&Finished {
            status: *status,
            from,
            output: &output.shown(),
            error: error.as_ref(),
            documents: self.references(documents),
        })
    }
}

/// The request of the root task.
#[derive(Serialize)]
struct Request<'a> {
    request: &'a str,
}

/// The result of a refused call.
#[derive(Serialize)]
struct Refused<'a> {
    status: CallStatus,
    error: &'a CallError,
}

/// The result of a call, or of a task.
#[derive(Serialize)]
struct Finished<'a> {
    status: CallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Json::is_null")]
    output: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a CallError>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    documents: Vec<DocumentReference>,
}

fn json(value: &impl Serialize) -> Json {
    Json::of(value).expect("a part of a line serialises")
}
