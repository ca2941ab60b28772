//! The conversation of one task, grown entry by entry.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::config::{Agent, Tool};
use baton_types::document::{DocumentRef, Documents};
use baton_types::entry::{
    CallApproved, CallFinished, CallRefused, Compacted, Control, ControlAction, Entry, InputChange, ModelAnswered,
    ModelRequested, Notice, Recorded, TaskCreated, TaskKind, TaskReported,
};
use baton_types::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::limits::LimitKind;
use baton_types::message::{Message, Part, RepeatHint, Role, TaskResult, conversation_hash, part_bytes};
use baton_types::model::{ModelRequest, Offer, SystemPrompt};
use baton_types::principal::Principal;

use crate::acceptance::Judgement;
use crate::digest::digest;
use crate::left_out::LeftOut;
use crate::receipt::{goes_to_user, receipt};
use crate::weight::newest_said;

/// Beginning of a conversation.
#[derive(Debug)]
pub struct TranscriptStart<'a> {
    /// The agent that holds the task.
    pub agent: &'a Arc<Agent>,
    /// Its system prompt, rendered.
    pub system: SystemPrompt,
    /// The task.
    pub created: &'a TaskCreated,
    /// The agent of the task that called this one; `None` for the root.
    pub asker: Option<&'a AgentId>,
    /// The workspace.
    pub documents: &'a Documents,
    /// The conversation that it begins with, as far as it went by then: of [`TaskCreated::earlier`].
    pub earlier: Option<&'a Transcript>,
}

/// The conversation of one task. Folded from the entries of its task, in order, it gives every request that was ever sent.
///
/// The shell may keep it or drop it: [`Transcript::new`] and [`Transcript::apply`] rebuild it from the timeline.
#[derive(Clone, Debug)]
pub struct Transcript {
    task: TaskId,
    agent: Arc<Agent>,
    system: SystemPrompt,
    is_question: bool,
    /// Shared with the requests. A turn copies nothing if the request before has been dropped by then.
    messages: Arc<Vec<Arc<Message>>>,
    /// The running hash of [`Transcript::messages`].
    hash: ContentHash,
    /// The running sum of their weights, so that reading it takes constant time.
    weight: usize,
    /// Index of the task's own request among them. Before it are the messages that the conversation begins with.
    opening: usize,
    /// Index of each turn's beginning among them, from the first turn that is not summarized.
    begins: Vec<(u32, usize)>,
    /// Whether the last requested turn writes a summary.
    summarising: bool,
    /// The calls of the turn before, whose results become the next message.
    pending: Vec<PendingCall>,
    /// Content from other tasks since the newest request.
    received: Vec<Part>,
    /// Before the first turn: the task's own request.
    request_parts: Vec<Part>,
    /// The versions that the conversation holds whole.
    held: HashSet<DocumentRef>,
    /// The described tools of an agent that discovers its tools; `None` for none.
    described: Option<Arc<Described>>,
    turn: u32,
    model: String,
    last_turn: Option<LimitKind>,
    /// Schema that the answer to a question must meet.
    answer_schema: Json,
    /// Schema that a text must meet, if the request has one.
    result_schema: Option<Json>,
    /// The hash of everything that a provider sees besides the messages; recomputed when it changes.
    frame: Option<ContentHash>,
}

/// The tools that were described, and what requests offer since then.
#[derive(Debug)]
struct Described {
    tools: BTreeSet<ToolId>,
    offer: Offer,
}

/// A call whose result is not rendered yet. It is kept small, since a turn may have thousands.
#[derive(Clone, Debug)]
struct PendingCall {
    call: CallId,
    asked: Arc<ModelCall>,
    result: Option<Box<Part>>,
    /// The parts after the result: the notice about another input, and documents.
    documents: Vec<Part>,
}

impl Transcript {
    /// Returns the conversation of a task before its first turn.
    pub fn new(start: TranscriptStart<'_>) -> Self {
        let TranscriptStart { agent, system, created, asker, documents, earlier } = start;
        let mut transcript = Self {
            task: created.task.clone(),
            agent: Arc::clone(agent),
            system,
            is_question: created.kind == TaskKind::Question,
            messages: Arc::default(),
            hash: ContentHash::of(b"conversation"),
            weight: 0,
            opening: 0,
            begins: Vec::new(),
            summarising: false,
            pending: Vec::new(),
            received: Vec::new(),
            request_parts: Vec::new(),
            held: HashSet::new(),
            described: None,
            turn: 0,
            model: String::new(),
            last_turn: None,
            answer_schema: created.answer_schema.clone(),
            result_schema: None,
            frame: None,
        };
        if let Some(earlier) = earlier {
            transcript.messages.clone_from(&earlier.messages);
            transcript.hash = earlier.hash;
            transcript.weight = earlier.weight;
            transcript.pending.clone_from(&earlier.pending);
            transcript.received.clone_from(&earlier.received);
            transcript.held.clone_from(&earlier.held);
            // A task that ended before its first turn has shown nothing of its request.
            transcript.request_parts.clone_from(&earlier.request_parts);
            if earlier.agent.id == agent.id {
                transcript.offer_described(earlier.described.iter().flat_map(|described| described.tools.iter().cloned()));
            }
        }
        let first = match (created.kind, asker) {
            (TaskKind::Question, Some(asker)) => Part::Question {
                asker: asker.clone(),
                question: created.request.clone(),
                answer_schema: created.answer_schema.clone(),
            },
            _ => Part::Request(created.request.clone()),
        };
        // Many new tasks may wait for their first turn, so these parts take no more memory than needed.
        transcript.request_parts.reserve_exact(1 + usize::from(created.last_failure.is_some()) + created.documents.len());
        transcript.request_parts.push(first);
        transcript.request_parts.extend(created.last_failure.clone().map(|reason| {
            let number = created.failed_attempts.saturating_add(1);
            Part::Attempt { number, reason }
        }));
        transcript.request_parts.extend(document_parts(&created.documents, documents));
        transcript
    }

    /// Appends one entry of its task to the conversation. Entries that no model sees change nothing.
    pub fn apply(&mut self, recorded: &Recorded, documents: &Documents) {
        match &recorded.entry {
            Entry::ModelRequested(entry) => self.requested(entry, documents),
            Entry::FellBack(entry) => {
                // The same request goes to another model.
                self.model.clone_from(&entry.to);
                self.frame = None;
            }
            Entry::ModelAnswered(entry) => self.answered(entry),
            Entry::CallRefused(entry) => self.refused(entry),
            Entry::CallFinished(entry) => self.finished(entry, documents),
            Entry::Compacted(entry) => self.compacted(entry),
            Entry::TaskReported(entry) => self.reported(entry, documents),
            Entry::Control(entry) => self.instructed(entry),
            Entry::CallApproved(entry) => self.approved(entry),
            Entry::RunStarted(_)
            | Entry::TaskCreated(_)
            | Entry::CallMade(_)
            | Entry::CallStarted(_)
            | Entry::CallSuspended(_)
            | Entry::CallAskedModel(_)
            | Entry::DocumentWritten(_)
            | Entry::QuestionOpened(_)
            | Entry::QuestionClosed(_)
            | Entry::Output(_)
            | Entry::BudgetSettled(_)
            | Entry::SubtreeClosed(_)
            | Entry::TaskEnded(_)
            | Entry::RunEnded(_) => {}
        }
    }

    /// Continues with other configs. Earlier messages stay as they were rendered. From the next request on, prompt, tools and
    /// settings are those of `agent`, which begins a new prefix.
    pub fn adopt(&mut self, agent: &Arc<Agent>, system: SystemPrompt) {
        self.agent = Arc::clone(agent);
        self.system = system;
        self.frame = None;
        self.offer_described([]);
    }

    /// Returns the request for the last requested turn.
    pub fn request(&self) -> ModelRequest {
        ModelRequest {
            task: self.task.clone(),
            agent: self.agent.id.clone(),
            call: None,
            turn: self.turn,
            is_question: self.is_question,
            model: self.model.clone(),
            system: self.system.clone(),
            messages: Arc::clone(&self.messages),
            tools: Arc::clone(self.offer().tools()),
            settings: self.agent.settings.clone(),
            own_output_tokens: None,
            invocation: self.agent.invocation,
            result_schema: self.result_schema.clone(),
            hash: self.hash.extended(self.frame.unwrap_or_else(|| self.frame_hash()).as_bytes()),
        }
    }

    /// Returns the messages so far.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the number of the last requested turn; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the approximate number of bytes that the conversation holds in memory, without contents of documents.
    pub fn weight(&self) -> usize {
        self.weight + parts_weight(&self.request_parts) + parts_weight(&self.received)
    }

    fn offer(&self) -> &Offer {
        match (self.last_turn, &self.described, self.is_question) {
            (Some(_), _, true) => &self.agent.offered_last_in_questions,
            (Some(_), _, false) => &self.agent.offered_last,
            (None, Some(described), _) => &described.offer,
            (None, None, true) => &self.agent.offered_in_questions,
            (None, None, false) => &self.agent.offered,
        }
    }

    /// Offers `more` tools from the next request on, beside those that were described before.
    fn offer_described(&mut self, more: impl IntoIterator<Item = ToolId>) {
        let before = self.described.iter().flat_map(|described| described.tools.iter().cloned());
        let tools: BTreeSet<ToolId> = before.chain(more).collect();
        if tools.is_empty() {
            return;
        }
        let (agent, is_question) = (&self.agent, self.is_question);
        let is_offered = |tool: &Tool| !agent.is_offered_described_tools() || tool.is_known_at_once() || tools.contains(&tool.id);
        let offer = if is_question { agent.offer_in_questions(is_offered) } else { agent.offer_of(is_offered) };
        self.described = Some(Arc::new(Described { tools, offer }));
        self.frame = None;
    }

    /// Returns the hash of everything that a provider sees besides the conversation: prompt, model, settings and
    /// tools.
    fn frame_hash(&self) -> ContentHash {
        let frame = (&self.system, &self.model, &self.agent.settings, self.offer().hash());
        let frame = ContentHash::of_written(|form| serde_json::to_writer(form, &frame).expect("texts always serialise"));
        self.result_schema.as_ref().map_or(frame, |schema| frame.extended(schema.text().as_bytes()))
    }

    fn requested(&mut self, entry: &ModelRequested, documents: &Documents) {
        if entry.turn == self.turn {
            // The same turn is asked for again after a crash, and is already rendered. Only configs that were adopted
            // meanwhile can name another model.
            if self.model != entry.model {
                self.model.clone_from(&entry.model);
                self.frame = None;
            }
            return;
        }
        self.flush(entry, documents);
        self.begins.push((entry.turn, self.messages.len()));
        self.summarising = matches!(entry.notice, Some(Notice::Summarise { .. }));
        // Most requests have none of these.
        if !entry.steers.is_empty() || entry.notice.is_some() || entry.limits_left.is_some() {
            let steers = entry.steers.iter().map(|text| Notice::Steer { text: text.clone() });
            let limits = entry.limits_left.clone().map(Notice::LimitsLeft);
            self.say(Role::User, steers.chain(entry.notice.clone()).chain(limits).map(Part::Notice).collect());
        }
        self.turn = entry.turn;
        let last_turn = match entry.notice {
            Some(Notice::LastTurn { limit }) => Some(limit),
            _ => None,
        };
        let own = || self.agent.result_schema.as_ref().map(|schema| schema.json().clone());
        let schema = if self.is_question { Some(self.answer_schema.clone()) } else { own() };
        let result_schema = schema.filter(|_| entry.says_result_schema);
        if self.frame.is_none() || self.model != entry.model || self.last_turn != last_turn || self.result_schema != result_schema
        {
            self.model.clone_from(&entry.model);
            self.last_turn = last_turn;
            self.result_schema = result_schema;
            self.frame = Some(self.frame_hash());
        }
    }

    fn answered(&mut self, entry: &ModelAnswered) {
        let mut parts = Vec::with_capacity(entry.calls.len() + 2);
        if !entry.items.is_null() {
            parts.push(Part::Items(entry.items.clone()));
        }
        if !entry.text.is_empty() {
            parts.push(Part::Text(entry.text.clone()));
        }
        self.pending = Vec::with_capacity(entry.calls.len());
        for (index, asked) in entry.calls.iter().enumerate() {
            let call = self.task.call(entry.turn, u32::try_from(index + 1).unwrap_or(u32::MAX));
            parts.push(Part::Call { call: call.clone(), asked: Arc::clone(asked) });
            self.pending.push(PendingCall { call, asked: Arc::clone(asked), result: None, documents: Vec::new() });
        }
        if !parts.is_empty() {
            self.say(Role::Assistant, parts);
        }
    }

    /// Notes the input of a person, which the agent reads after the result.
    fn approved(&mut self, entry: &CallApproved) {
        if let Some((pending, approved)) = self.pending_call(&entry.call).zip(entry.input.as_ref()) {
            let notice = input_changed(&pending.asked, approved);
            pending.documents.retain(|part| !matches!(part, Part::Notice(_)));
            pending.documents.push(Part::Notice(notice));
        }
    }

    fn refused(&mut self, entry: &CallRefused) {
        let result = Arc::new(CallResult::error(CallStatus::Failed, entry.error.clone()));
        if let Some(pending) = self.pending_call(&entry.call) {
            pending.result = Some(Box::new(pending.part(Some(result), None, Vec::new())));
        }
    }

    fn finished(&mut self, entry: &CallFinished, documents: &Documents) {
        let Some(asked) = self.pending_call(&entry.call).map(|pending| Arc::clone(&pending.asked)) else {
            return self.push_refusal(entry);
        };
        if let Some(tool) = self.agent.tools.get(&entry.tool).filter(|tool| tool.describes_tools) {
            let described = tool.described(&self.agent, &asked.input).0;
            let described: Vec<ToolId> = described.into_iter().map(|tool| tool.id.clone()).collect();
            self.offer_described(described);
        }
        let receipt = goes_to_user(&asked, entry.tool_type).then(|| receipt(entry));
        let entry = receipt.as_ref().unwrap_or(entry);
        let mut parts: Vec<Part> = document_parts(&entry.result.documents, documents).collect();
        parts.extend(entry.conflicts.iter().filter_map(|conflict| {
            let version = |version| documents.version(&DocumentRef { path: conflict.path.clone(), version }).cloned();
            Some(Part::Conflict {
                base: conflict.base.and_then(version),
                current: version(conflict.current)?,
                with_changes: true,
            })
        }));
        if let Some(pending) = self.pending_call(&entry.call) {
            let part = pending.part(Some(Arc::clone(&entry.result)), repeat_hint(entry), newest_said(&entry.said));
            pending.result = Some(Box::new(part));
            pending.documents.extend(parts);
        }
    }

    /// Adds the reason of a refused result to the next request. An open handoff gets the reason as its error instead.
    fn push_refusal(&mut self, entry: &CallFinished) {
        let hands_off = self.pending.iter().any(|pending| pending.result.is_none());
        if entry.call.is_acceptance()
            && !hands_off
            && let Judgement::No(reason) = Judgement::of(&entry.result)
        {
            self.received.push(Part::Notice(Notice::NotAccepted { reason }));
        }
    }

    fn reported(&mut self, entry: &TaskReported, documents: &Documents) {
        self.received.push(Part::TaskResult(Box::new(TaskResult {
            call: entry.call.clone(),
            task: entry.ended.clone(),
            tool: entry.tool.clone(),
            result: Arc::clone(&entry.result),
            said: newest_said(&entry.said),
        })));
        self.received.extend(document_parts(&entry.result.documents, documents));
    }

    /// Takes a message from an agent above. Messages of people are in the entry of the request.
    fn instructed(&mut self, entry: &Control) {
        if let (ControlAction::Steered { text }, Principal::Agent(from)) = (&entry.action, &entry.by) {
            self.received.push(Part::Instruction { from: from.clone(), text: text.clone() });
        }
    }

    /// Replaces the summarized turns by the summary, except for the task's request. What the conversation begins with is
    /// summarized too, unless it is a question's: its master's conversation stays. Removes a turn that only wrote the summary.
    fn compacted(&mut self, entry: &Compacted) {
        if self.summarising {
            self.summarising = false;
            let (_, from) = self.begins.pop().expect("a turn was asked for the summary");
            Arc::make_mut(&mut self.messages).truncate(from);
            self.pending.clear();
        }
        let gone = self.begins.iter().take_while(|(turn, _)| *turn <= entry.through_turn).count();
        let kept = self.begins.get(gone).map_or(self.messages.len(), |(_, from)| *from);
        let messages = std::mem::take(&mut self.messages);
        let (inherited, own) = messages.split_at(self.opening);
        let (opening, older) = own[..kept - self.opening].split_first().expect("a conversation begins with a request");
        let kept = &messages[kept..];
        let (stays, replaced) = if self.is_question { (inherited, &[][..]) } else { (&[][..], inherited) };
        let older: Vec<_> = replaced.iter().chain(older).collect();
        let text = entry.summary.clone().unwrap_or_else(|| digest(opening, &older, entry.summary_tokens));
        self.held = held_in(stays).chain(held_in(std::slice::from_ref(opening))).chain(held_in(kept)).collect();
        let opening = self.without_lost(opening);
        let mut parts: Vec<Part> = opening.parts.iter().filter(|part| !matches!(part, Part::Summary { .. })).cloned().collect();
        parts.push(Part::Summary { through_turn: entry.through_turn, text });
        self.begins.drain(..gone);
        self.begins.iter_mut().for_each(|(_, from)| *from -= older.len());
        (self.hash, self.weight, self.opening) = (ContentHash::of(b"conversation"), 0, stays.len());
        for message in stays {
            self.push(Arc::clone(message));
        }
        self.say(opening.role, parts);
        for message in kept {
            let message = self.without_lost(message);
            self.push(message);
        }
    }

    /// Returns the call of the newest turn whose result becomes part of the next message.
    fn pending_call(&mut self, call: &CallId) -> Option<&mut PendingCall> {
        let (_, position) = call.position()?;
        self.pending.get_mut((position as usize).checked_sub(1)?).filter(|pending| pending.call == *call)
    }

    /// Renders the results of the turn before, in call order, and before the first turn the task's own request. `requested`
    /// lists the contents for which there is no room. A call without a result still waits; only a question sees one.
    fn flush(&mut self, requested: &ModelRequested, documents: &Documents) {
        let left_out = LeftOut::of(requested);
        let mut bundle = requested.bundle.as_ref().and_then(|bundle| documents.version(&bundle.document)).cloned();
        // A background task may have ended in the turn that began it. Then the long result is the task's, not that of the call.
        let reported: Vec<CallId> = self.received.iter().filter_map(reported_call).cloned().collect();
        let mut parts = Vec::with_capacity(self.pending.len());
        for mut pending in std::mem::take(&mut self.pending) {
            let mut result = pending.result.take().map_or_else(|| pending.part(None, None, Vec::new()), |result| *result);
            if !reported.contains(&pending.call) {
                left_out.shorten(&mut result);
            }
            parts.push(result);
            parts.extend(pending.documents.into_iter().filter_map(|part| self.fitting(part, &left_out)));
        }
        if !parts.is_empty() {
            parts.extend(bundle.take().map(Part::Pointer));
            self.say(Role::Tool, parts);
        }
        if !self.received.is_empty() {
            let mut received = std::mem::take(&mut self.received);
            for part in &mut received {
                left_out.shorten(part);
            }
            let mut parts: Vec<Part> = received.into_iter().filter_map(|part| self.fitting(part, &left_out)).collect();
            parts.extend(bundle.take().map(Part::Pointer));
            if !parts.is_empty() {
                self.say(Role::User, parts);
            }
        }
        if !self.request_parts.is_empty() {
            self.opening = self.messages.len();
            let parts = std::mem::take(&mut self.request_parts);
            let mut parts: Vec<Part> = parts.into_iter().filter_map(|part| self.fitting(part, &left_out)).collect();
            parts.extend(bundle.map(Part::Pointer));
            self.say(Role::User, parts);
        }
    }

    /// Returns `part`, or the record of its document if there is no room for the content or if the conversation holds it
    /// already. `None` if there is no room for the record either.
    fn fitting(&mut self, part: Part, left_out: &LeftOut<'_>) -> Option<Part> {
        Some(match part {
            Part::Document(version) if left_out.documents.contains(&version.reference()) => return None,
            Part::Document(version) if left_out.pointers.contains(&version.reference()) => Part::Pointer(version),
            Part::Document(version) if !self.held.insert(version.reference()) => Part::Repeated(version),
            Part::Conflict { base, current, .. } => {
                let with_changes = !left_out.conflicts.contains(&current.reference());
                Part::Conflict { base, current, with_changes }
            }
            part => part,
        })
    }

    /// Returns `message`, in which a document that the conversation does not hold any more is no longer named as repeated.
    fn without_lost(&self, message: &Arc<Message>) -> Arc<Message> {
        let is_lost = |part: &Part| matches!(part, Part::Repeated(version) if !self.held.contains(&version.reference()));
        if !message.parts.iter().any(is_lost) {
            return Arc::clone(message);
        }
        let parts = message.parts.iter().map(|part| match part {
            Part::Repeated(version) if is_lost(part) => Part::Pointer(Arc::clone(version)),
            part => part.clone(),
        });
        Arc::new(Message { role: message.role, parts: parts.collect() })
    }

    fn say(&mut self, role: Role, parts: Vec<Part>) {
        self.push(Arc::new(Message { role, parts }));
    }

    fn push(&mut self, message: Arc<Message>) {
        self.hash = conversation_hash(self.hash, &message);
        self.weight += size_of::<Message>() + message_weight(&message);
        Arc::make_mut(&mut self.messages).push(message);
    }
}

impl PendingCall {
    fn part(&self, result: Option<Arc<CallResult>>, hint: Option<RepeatHint>, said: Vec<baton_types::entry::Said>) -> Part {
        Part::Result { call: self.call.clone(), asked: Arc::clone(&self.asked), result, hint, said }
    }
}

/// Returns the hint for an agent whose call repeats an earlier one.
fn repeat_hint(entry: &CallFinished) -> Option<RepeatHint> {
    match (&entry.result_of, entry.repeat) {
        (Some(_), _) => Some(RepeatHint::Stored),
        (None, 0 | 1) => None,
        (None, times) => Some(RepeatHint::Same(times)),
    }
}

/// Returns the notice for an agent whose call `asked` was approved with another input.
pub fn input_changed(asked: &ModelCall, approved: &Json) -> Notice {
    let (tool, asked, approved) = (asked.shown_name().to_owned(), asked.input.clone(), approved.clone());
    Notice::InputChanged(Box::new(InputChange { tool, asked, approved }))
}

/// Returns the call that began the background task of a result.
fn reported_call(part: &Part) -> Option<&CallId> {
    match part {
        Part::TaskResult(ended) => Some(&ended.call),
        _ => None,
    }
}

fn document_parts<'a>(references: &'a [DocumentRef], documents: &'a Documents) -> impl Iterator<Item = Part> + 'a {
    let versions = references.iter().filter_map(|reference| documents.version(reference));
    versions.map(|version| Part::Document(Arc::clone(version)))
}

/// Iterates over the documents that `messages` hold whole.
fn held_in(messages: &[Arc<Message>]) -> impl Iterator<Item = DocumentRef> {
    messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Document(version) => Some(version.reference()),
        _ => None,
    })
}

fn message_weight(message: &Message) -> usize {
    parts_weight(&message.parts)
}

fn parts_weight(parts: &[Part]) -> usize {
    parts.iter().map(part_bytes).sum::<usize>() + size_of_val(parts)
}
