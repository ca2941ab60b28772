//! Recorded parts of the original that a fork takes over: answers of models and people, and results of calls with
//! effects.
//!
//! Task ids are paths of call positions, so repeated steps of a fork have the same names. An answer is taken only
//! where the request is byte for byte the same. A result is taken only for the same input and configuration. A person's answer is taken
//! only for the same question about the same documents, and an approval only for the same tool, definition and input.
//!
//! Recorded events arrive in the order of the original, so code that depends on the order of its results does the same.

use std::sync::Arc;

use baton_machine::Run;
use baton_types::call::{CallError, CallOutput, CallStatus, ErrorCode, ModelCall};
use baton_types::config::{EffectClass, Tool};
use baton_types::document::{DocumentRef, DocumentVersion, Write};
use baton_types::entry::{
    BudgetSettled, CallApproved, CallFinished, Concern, Entry, Fork, ForkPoint, ForkedEffects, ModelAnswered, QuestionEnd,
    QuestionOpened, Recorded,
};
use baton_types::event::{Event, Outcome, Produced};
use baton_types::id::{CallId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn, Usage};
use baton_types::principal::Principal;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::RunError;
use crate::reading::PAGE;
use crate::services::Services;

/// Events of the original after the fork.
pub(crate) struct Recording {
    original: RunId,
    effects: ForkedEffects,
    answers: FxHashMap<(TaskId, u32), Answer>,
    calls: FxHashMap<CallId, Call>,
    /// The numbers of the entries with which calls ended.
    ends: FxHashMap<CallId, u64>,
    /// The numbers of the entries that code caused: the calls that it made, and the ends of calls whose code made calls.
    acts_of_code: Vec<u64>,
    /// The calls that code made.
    inner_calls: FxHashMap<CallId, Arc<ModelCall>>,
    /// The calls whose code made some.
    have_called: FxHashSet<CallId>,
    /// The calls that were suspended.
    suspended: FxHashSet<CallId>,
    /// The inputs that people gave calls with their approvals.
    inputs: FxHashMap<CallId, Json>,
    questions: FxHashMap<TaskId, Question>,
    concerns: FxHashMap<TaskId, Concern>,
    versions: FxHashMap<DocumentRef, Arc<DocumentVersion>>,
}

/// An event that a fork takes over.
pub(crate) struct Taken {
    /// The number of its entry in the original; 0 if the original has none.
    pub(crate) seq: u64,
    pub(crate) event: Event,
}

/// An answer of a model.
struct Answer {
    entry: Arc<Recorded>,
    usage: Option<Usage>,
}

impl Answer {
    fn answered(&self) -> &ModelAnswered {
        match &self.entry.entry {
            Entry::ModelAnswered(answered) => answered,
            _ => unreachable!("only answers are kept as answers"),
        }
    }
}

/// A call of a function, and what it wrote.
struct Call {
    entry: Arc<Recorded>,
    writes: Vec<Arc<DocumentVersion>>,
}

/// A question to a person, and what came of it.
struct Question {
    opened: QuestionOpened,
    /// The call that it decides about, with the hash of the approved definition.
    concern: Option<Concern>,
    /// Author and text of the answer, and its entry.
    answered: Option<(Principal, Json, u64)>,
    documents: Vec<DocumentRef>,
}

impl Recording {
    /// Returns the recording of the original in `fork`.
    fn new(fork: &Fork) -> Self {
        Self {
            original: fork.from.run.clone(),
            effects: fork.effects,
            answers: FxHashMap::default(),
            calls: FxHashMap::default(),
            ends: FxHashMap::default(),
            acts_of_code: Vec::new(),
            inner_calls: FxHashMap::default(),
            have_called: FxHashSet::default(),
            suspended: FxHashSet::default(),
            inputs: FxHashMap::default(),
            questions: FxHashMap::default(),
            concerns: FxHashMap::default(),
            versions: FxHashMap::default(),
        }
    }

    /// Takes in an entry of the original.
    fn add_entry(&mut self, recorded: &Arc<Recorded>, shared: u64) {
        if let Entry::CallFinished(finished) = &recorded.entry {
            self.ends.insert(finished.call.clone(), recorded.seq);
        }
        let is_of_code = match &recorded.entry {
            Entry::CallMade(_) => true,
            Entry::CallFinished(finished) => self.have_called.contains(&finished.call),
            _ => false,
        };
        if is_of_code && recorded.seq > shared {
            self.acts_of_code.push(recorded.seq);
        }
        match &recorded.entry {
            Entry::ModelAnswered(answered) => {
                let answer = Answer { entry: Arc::clone(recorded), usage: None };
                self.answers.insert((answered.task.clone(), answered.turn), answer);
            }
            Entry::BudgetSettled(BudgetSettled { task, turn, by: None, usage, .. }) => {
                if let Some(answer) = self.answers.get_mut(&(task.clone(), *turn)) {
                    answer.usage = Some(*usage);
                }
            }
            Entry::CallApproved(CallApproved { call, input: Some(input), .. }) => {
                _ = self.inputs.insert(call.clone(), input.clone());
            }
            Entry::CallSuspended(suspended) => _ = self.suspended.insert(suspended.call.clone()),
            Entry::CallMade(made) => {
                self.have_called.extend(made.call.outer().map(|(outer, _)| outer));
                self.inner_calls.insert(made.call.clone(), Arc::clone(&made.asked));
            }
            Entry::DocumentWritten(version) => {
                self.versions.insert(version.reference(), Arc::clone(version));
                // A document that is written after its call returned holds the call's output for a request.
                let returned = |call: &Call| matches!(call.entry.entry, Entry::CallFinished(_));
                if let Some(call) = version.call.as_ref().filter(|call| !self.calls.get(*call).is_some_and(returned)) {
                    let kept = || Call { entry: Arc::clone(recorded), writes: Vec::new() };
                    self.calls.entry(call.clone()).or_insert_with(kept).writes.push(Arc::clone(version));
                }
            }
            Entry::CallFinished(finished) if finished.tool_type.behavior().runs_code && recorded.seq > shared => {
                let kept = || Call { entry: Arc::clone(recorded), writes: Vec::new() };
                self.calls.entry(finished.call.clone()).or_insert_with(kept).entry = Arc::clone(recorded);
            }
            Entry::TaskCreated(created) => {
                if let Some(concern) = created.concern {
                    self.concerns.insert(created.task.clone(), concern);
                }
            }
            Entry::QuestionOpened(opened) => {
                let concern = self.concerns.get(&opened.task).copied();
                let question = Question { opened: (**opened).clone(), concern, answered: None, documents: Vec::new() };
                self.questions.insert(opened.task.clone(), question);
            }
            Entry::QuestionClosed(closed) => {
                if let (QuestionEnd::Answered { by, answer, .. }, Some(question)) =
                    (&closed.how, self.questions.get_mut(&closed.task))
                {
                    question.answered = Some((by.clone(), answer.clone(), recorded.seq));
                }
            }
            Entry::TaskEnded(ended) => {
                if let Some(question) = self.questions.get_mut(&ended.task) {
                    question.documents.clone_from(&ended.result.documents);
                }
            }
            _ => {}
        }
    }

    /// Returns the number of the entry with which `call` ended in the original.
    pub(crate) fn end_of(&self, call: &CallId) -> Option<u64> {
        self.ends.get(call).copied()
    }

    /// Whether no code acted in the original between the entries `before` and `seq`.
    pub(crate) fn is_code_idle(&self, before: u64, seq: u64) -> bool {
        let next = self.acts_of_code.partition_point(|act| *act <= before);
        self.acts_of_code.get(next).is_none_or(|act| *act > seq)
    }

    /// Returns the model's answer to the same request.
    pub(crate) fn answer(&self, request: &ModelRequest) -> Option<Taken> {
        let answer = self.answers.get(&(request.task.clone(), request.turn))?;
        let answered = answer.answered();
        let event = || Event::ModelAnswered {
            task: request.task.clone(),
            turn: request.turn,
            request: request.hash,
            answer: ModelTurn {
                text: answered.text.clone(),
                calls: answered.calls.iter().map(|call| (**call).clone()).collect(),
                finish: answered.finish,
                usage: answer.usage,
                items: answered.items.clone(),
                answered: answered.answered.clone(),
            },
            recorded: Some(ForkPoint { run: self.original.clone(), seq: answer.entry.seq }),
        };
        (answered.request == request.hash).then(|| Taken { seq: answer.entry.seq, event: event() })
    }

    /// Returns the outcome of `call` without executing it; `None` if it must be executed.
    pub(crate) fn call(&self, call: &CallId, tool: &Tool, current: &ModelCall) -> Option<Taken> {
        // A pure call is executed again, unless its result took its time to come.
        let is_pure = tool.effect == EffectClass::Pure;
        if self.effects == ForkedEffects::All || (is_pure && !self.suspended.contains(call)) {
            return None;
        }
        let outcome = match self.same_call(call, tool, current) {
            Ok(outcome) => outcome,
            Err(_) if is_pure => return None,
            Err(_) if self.effects == ForkedEffects::New => return None,
            Err(reason) => {
                let message = format!(
                    "tool {} acts outside the run, and this run is a fork that may not: run {} {reason}. A person can \
                     allow it with --allow-effects.",
                    tool.id, self.original
                );
                Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::EffectNotAllowed, message))
            }
        };
        let event = Event::CallReturned { call: call.clone(), outcome };
        Some(Taken { seq: self.end_of(call).unwrap_or(0), event })
    }

    /// Returns the call of the original at the place of `call`, as it was approved.
    fn recorded_call(&self, call: &CallId) -> Option<ModelCall> {
        let asked = match call.position() {
            None => self.inner_calls.get(call)?,
            Some((turn, position)) => {
                let answered = self.answers.get(&(call.task(), turn))?.answered();
                answered.calls.get((position as usize).checked_sub(1)?)?
            }
        };
        let input = self.inputs.get(call).unwrap_or(&asked.input).clone();
        Some(ModelCall { input, ..(**asked).clone() })
    }

    /// Returns the result of the same call of the same tool with the same input and configuration, or what the original did instead.
    fn same_call(&self, call: &CallId, tool: &Tool, current: &ModelCall) -> Result<Outcome, &'static str> {
        let asked = self.recorded_call(call).filter(|asked| asked.asks_the_same(current)).ok_or("made no such call")?;
        let recorded = self.calls.get(call).ok_or("has no result of this call")?;
        let Entry::CallFinished(finished) = &recorded.entry.entry else { return Err("has no result of this call") };
        let CallFinished { tool: name, result, after, read, printed, .. } = finished;
        if *name != tool.id {
            return Err("made no such call");
        }
        if result.status == CallStatus::Cancelled {
            return Err("stopped this call before it had a result");
        }
        let kept = result.output.kept().map(|kept| &kept.document);
        let output = match &result.output {
            CallOutput::Inline(output) => Produced::Inline(output.clone()),
            CallOutput::Kept(kept) => {
                Produced::Kept(write_of(self.versions.get(&kept.document).ok_or("has no content of this call's output")?))
            }
        };
        let written: Vec<DocumentRef> = recorded.writes.iter().map(|version| version.reference()).collect();
        let by_default = asked.after_execution.unwrap_or_else(|| tool.after_by_default());
        Ok(Outcome {
            status: result.status,
            output,
            error: result.error.clone(),
            writes: recorded
                .writes
                .iter()
                .filter(|version| kept != Some(&version.reference()))
                .map(|version| write_of(version))
                .collect(),
            loads: result.documents.iter().filter(|document| !written.contains(document)).cloned().collect(),
            reads: read.clone(),
            after: Some(*after).filter(|after| *after != by_default),
            printed: printed.clone(),
        })
    }

    /// Returns the person's answer to the same question about the same documents.
    pub(crate) fn person(&self, run: &Run, task: &TaskId) -> Option<Taken> {
        let concern = run.task(task)?.concern();
        let now = run.task(task)?.question.as_ref()?;
        let recorded = self.questions.get(task)?;
        let content = |document: &DocumentRef| run.documents().version(document).map(|version| version.content.hash);
        // An approval is of one tool, its definition and its input, whatever the words of the question.
        let same = recorded.concern == concern
            && *recorded.opened.question == *now.text
            && recorded.opened.answer_schema == now.answer_schema
            && *recorded.opened.documents == *now.documents
            && now.documents.iter().all(|document| self.content(document) == content(document));
        let (by, answer, seq) = recorded.answered.as_ref().filter(|_| same)?;
        let event = Event::PersonAnswered {
            question: task.clone(),
            by: by.clone(),
            answer: answer.clone(),
            documents: recorded
                .documents
                .iter()
                .filter_map(|document| self.versions.get(document))
                .map(|version| write_of(version))
                .collect(),
            recorded: Some(ForkPoint { run: self.original.clone(), seq: *seq }),
        };
        Some(Taken { seq: *seq, event })
    }

    fn content(&self, document: &DocumentRef) -> Option<ContentHash> {
        self.versions.get(document).map(|version| version.content.hash)
    }
}

/// Returns the write that made `version`.
fn write_of(version: &DocumentVersion) -> Write {
    Write {
        path: version.path.clone(),
        content: version.content.clone(),
        description: Some(version.description.clone()).filter(|text| !text.is_empty()),
        tags: Some(version.tags.clone()).filter(|tags| !tags.is_empty()),
    }
}

impl Services {
    /// Reads the recording of a fork's original.
    pub(crate) async fn recording(&self, fork: &Fork) -> Result<Recording, RunError> {
        let mut recording = Recording::new(fork);
        let mut after = 0;
        loop {
            let page = self.store.entries(&fork.from.run, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(recording) };
            after = last.seq;
            for recorded in &page {
                recording.add_entry(recorded, fork.from.seq);
            }
        }
    }
}
