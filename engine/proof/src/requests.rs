//! Every request of a run, grown entry by entry as a shell would, and checked for what must hold of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_machine::Run;
use baton_render::{Transcript, TranscriptStart};
use baton_types::config::{Agent, Configs};
use baton_types::document::DocumentRef;
use baton_types::entry::{Entry, Holder, Recorded, TaskCreated};
use baton_types::id::{AgentId, CallId, ContentHash, TaskId};
use baton_types::message::{Message, Part, Role};
use baton_types::model::{ModelRequest, SystemPrompt};

use crate::finding::Invariant;
use crate::ledger::Ledger;

/// The transcripts of a run and the newest request of each task.
pub struct Requests {
    configs: Arc<Configs>,
    transcripts: BTreeMap<TaskId, Transcript>,
    newest: BTreeMap<TaskId, Arc<ModelRequest>>,
    /// The documents that the newest request of each task shows.
    shown: BTreeMap<TaskId, Vec<DocumentRef>>,
    /// Tasks whose next request begins a new prefix.
    restarted: BTreeSet<TaskId>,
    /// The hash of every request, by the place of its `model_requested` or `fell_back` in the timeline.
    hashes: BTreeMap<u64, ContentHash>,
    /// Sequence number of the newest request of each task.
    places: BTreeMap<TaskId, u64>,
    /// The system prompts, rendered when they are needed first.
    prompts: BTreeMap<AgentId, SystemPrompt>,
    /// Number of visits to messages.
    pub(crate) looked_at: usize,
}

impl Requests {
    /// Returns a checker without requests, for a run of `configs`.
    pub fn new(configs: Arc<Configs>) -> Self {
        Self {
            configs,
            transcripts: BTreeMap::new(),
            newest: BTreeMap::new(),
            shown: BTreeMap::new(),
            restarted: BTreeSet::new(),
            hashes: BTreeMap::new(),
            places: BTreeMap::new(),
            prompts: BTreeMap::new(),
            looked_at: 0,
        }
    }

    /// Grows the transcripts by `recorded`, which `run` has applied and `ledger` has entered.
    pub fn apply(&mut self, recorded: &Recorded, run: &Run, ledger: &mut Ledger) {
        if let Entry::TaskCreated(created) = &recorded.entry {
            if let Holder::Agent(agent) = &created.holder {
                let transcript = self.begin(created, agent, run);
                self.transcripts.insert(created.task.clone(), transcript);
            }
            return;
        }
        if recorded.entry.adopts().is_some() {
            self.switch(run);
        }
        let Some(task) = recorded.entry.task() else { return };
        if let Some(transcript) = self.transcripts.get_mut(task) {
            let shown = matches!(recorded.entry, Entry::Compacted(_)).then(|| shown_in(transcript.messages()));
            transcript.apply(recorded, run.documents());
            if let Some(before) = shown {
                // From here on there is another prefix, and what older turns showed is gone from it.
                self.restarted.insert(task.clone());
                let mut stays = shown_in(transcript.messages());
                let mut injected = ledger.tasks.get_mut(task).map(|book| &mut book.injected);
                for gone in before.iter().filter(|shown| take(&mut stays, shown).is_none()) {
                    injected.as_mut().and_then(|injected| take(injected, gone));
                }
            }
        }
        if matches!(recorded.entry, Entry::ModelRequested(_) | Entry::FellBack(_)) {
            let hash = self.transcripts[task].request().hash;
            self.hashes.insert(recorded.seq, hash);
            self.places.insert(task.clone(), recorded.seq);
        }
        if let Entry::ModelAnswered(answered) = &recorded.entry {
            let sent = self.places.get(&answered.task).and_then(|place| self.hashes.get(place));
            let same = sent == Some(&answered.request);
            let turn = answered.turn;
            ledger.rule(same, Invariant::RequestsAreReproducible, || {
                format!("turn {turn} of {task} answers another request than is rendered")
            });
        }
    }

    /// Switches to other configs: requests begin with another prefix.
    fn switch(&mut self, run: &Run) {
        self.configs = Arc::clone(run.configs());
        self.newest.clear();
        self.prompts.clear();
        let mut transcripts = std::mem::take(&mut self.transcripts);
        for (id, transcript) in &mut transcripts {
            let held = run.task(id).and_then(|task| Some(Arc::clone(self.configs.agents.get(task.agent()?)?)));
            if let Some(agent) = held {
                transcript.adopt(&agent, self.prompt(&agent, run));
            }
        }
        self.transcripts = transcripts;
    }

    fn begin(&mut self, created: &TaskCreated, agent: &AgentId, run: &Run) -> Transcript {
        let agent = Arc::clone(&self.configs.agents[agent]);
        let system = self.prompt(&agent, run);
        // An escalated question is asked by the first asker.
        let asker = std::iter::successors(created.caller.as_ref(), |caller| {
            let waits_for_it = run.task(caller).and_then(|task| task.phase.escalated());
            waits_for_it.and_then(|_| run.graph().caller(caller)).map(|above| &above.id)
        });
        let asker = asker.last().and_then(|caller| run.task(caller)).and_then(|caller| caller.agent());
        Transcript::new(TranscriptStart {
            agent: &agent,
            system,
            created,
            asker,
            documents: run.documents(),
            earlier: created.earlier().map(|earlier| &self.transcripts[earlier]),
        })
    }

    /// Returns the system prompt of `agent` with the inputs that the run was started with. One that cannot be rendered is no
    /// prompt: the request will not be the one that was sent.
    fn prompt(&mut self, agent: &Agent, run: &Run) -> SystemPrompt {
        if let Some(prompt) = self.prompts.get(&agent.id) {
            return prompt.clone();
        }
        let inputs = run.started().and_then(|started| serde_json::from_str(started.inputs.text()).ok()).unwrap_or_default();
        let prompt = baton_config::render_prompt(&self.configs, agent, &inputs).unwrap_or_default();
        self.prompts.insert(agent.id.clone(), prompt.clone());
        prompt
    }

    /// Returns the request that `task` sends now. It must continue the one before, and have a form that providers
    /// accept.
    pub fn request(&mut self, task: &TaskId, ledger: &mut Ledger) -> Arc<ModelRequest> {
        let request = Arc::new(self.transcripts[task].request());
        let mut known = 0;
        if let Some(before) = self.newest.get(task).filter(|_| !self.restarted.remove(task)) {
            let kept = request.messages.get(..before.messages.len());
            let grows = kept.is_some_and(|kept| are_same(kept, &before.messages)) && before.system == request.system;
            ledger.rule(grows, Invariant::RequestsAreReproducible, || {
                format!("a request of {task} does not begin with the one before")
            });
            known = if grows { before.messages.len() } else { 0 };
        }
        // What follows the last message of the request before was not known then.
        let checked = known.saturating_sub(1);
        check_shape(&request, checked, ledger);
        self.looked_at += request.messages.len() - checked;
        if !request.is_question {
            let shown = self.shown.entry(task.clone()).or_default();
            if known == 0 {
                shown.clear();
            }
            shown.extend(shown_in(&request.messages[known..]));
            shown.sort();
            check_injections(task, shown, ledger);
        }
        self.newest.insert(task.clone(), Arc::clone(&request));
        request
    }

    /// Returns the number of rendered requests.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the newest request of `task`.
    pub fn newest(&self, task: &TaskId) -> Arc<ModelRequest> {
        Arc::clone(self.newest.get(task).unwrap_or_else(|| panic!("{task} has sent no request")))
    }

    /// Whether `other`, grown from the same timeline, rendered the same requests, byte for byte (`requests_are_reproducible`).
    pub fn same_as(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }
}

/// Whether two conversations are the same. A conversation that grew shares its messages with what it was.
fn are_same(one: &[Arc<Message>], other: &[Arc<Message>]) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other) || one == other)
}

/// `requests_are_valid`: every call is answered in the next message, once and in order, and nothing is empty. Messages before
/// the one at `from` were looked at in the request before.
fn check_shape(request: &ModelRequest, from: usize, ledger: &mut Ledger) {
    let task = &request.task;
    let messages: &[Arc<Message>] = &request.messages;
    let first = messages.first().map(|message| message.role) == Some(Role::User);
    ledger.rule(first, Invariant::RequestsAreValid, || format!("the conversation of {task} does not begin with a request"));
    let last = messages.last().map(|message| message.role) != Some(Role::Assistant);
    ledger.rule(last, Invariant::RequestsAreValid, || format!("the agent of {task} answers itself"));
    for (place, message) in messages.iter().enumerate().skip(from) {
        let calls: Vec<&CallId> = message.parts.iter().filter_map(call_of).collect();
        let legal = !message.parts.is_empty() && (calls.is_empty() || message.role == Role::Assistant);
        ledger.rule(legal, Invariant::RequestsAreValid, || {
            format!("message {place} of {task} is empty, or calls and is not the agent's")
        });
        let next = messages.get(place + 1);
        let results = next.iter().flat_map(|next| &next.parts).filter_map(result_of);
        let results: Vec<(&CallId, bool)> = results.collect();
        let answered = results.iter().map(|(call, _)| *call).eq(calls);
        ledger.rule(answered, Invariant::RequestsAreValid, || {
            format!("the calls of message {place} of {task} are not answered in the next, in order")
        });
        // A call of the conversation that it begins with may wait, such as the one that created it.
        let waits = results.iter().any(|(call, finished)| !finished && call.task() == *task);
        ledger.rule(!waits, Invariant::EveryCallHasOneResult, || format!("{task} asks its model while a call waits"));
    }
}

fn call_of(part: &Part) -> Option<&CallId> {
    match part {
        Part::Call { call, .. } => Some(call),
        _ => None,
    }
}

fn result_of(part: &Part) -> Option<(&CallId, bool)> {
    match part {
        Part::Result { call, result, .. } => Some((call, result.is_some())),
        _ => None,
    }
}

/// Takes one document like `wanted` out of `documents`.
fn take(documents: &mut Vec<DocumentRef>, wanted: &DocumentRef) -> Option<DocumentRef> {
    documents.iter().position(|document| document == wanted).map(|place| documents.remove(place))
}

/// Returns the documents that `request` shows, in order.
pub fn shown(request: &ModelRequest) -> Vec<DocumentRef> {
    shown_in(&request.messages)
}

fn shown_in(messages: &[Arc<Message>]) -> Vec<DocumentRef> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            Part::Document(version) | Part::Pointer(version) | Part::Repeated(version) => Some(version.reference()),
            _ => None,
        })
        .collect()
}

/// Checks `handed_over_arrives_once`: each document handed to the task is in its request once, and no other document
/// is.
fn check_injections(task: &TaskId, shown: &[DocumentRef], ledger: &mut Ledger) {
    let mut handed = ledger.tasks.get(task).map(|book| book.injected.clone()).unwrap_or_default();
    handed.sort();
    ledger.rule(shown == handed, Invariant::HandedOverArrivesOnce, || {
        format!("the request of {task} shows {shown:?}, and it was handed {handed:?}")
    });
}
