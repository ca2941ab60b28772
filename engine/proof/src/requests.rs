//! Every request of a run, grown entry by entry as a shell would, and checked for what must hold of requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::Run;
use baton_core::config::Configs;
use baton_core::document::DocumentRef;
use baton_core::entry::{Entry, Holder, Recorded, TaskCreated};
use baton_core::id::{AgentId, CallId, ContentHash, TaskId};
use baton_core::model::ModelRequest;
use baton_core::render::{Message, Part, Role, Transcript, TranscriptStart};

use crate::ledger::Ledger;

/// The transcripts of a run and the newest request of each task.
pub struct Requests {
    configs: Arc<Configs>,
    transcripts: BTreeMap<TaskId, Transcript>,
    newest: BTreeMap<TaskId, Arc<ModelRequest>>,
    /// The hash of every request, by the place of its `model_requested` in the timeline.
    hashes: BTreeMap<u64, ContentHash>,
    /// Where the newest request of each task stands in the timeline.
    places: BTreeMap<TaskId, u64>,
}

impl Requests {
    /// No request yet, of a run of `configs`.
    pub fn new(configs: Arc<Configs>) -> Self {
        Self { configs, transcripts: BTreeMap::new(), newest: BTreeMap::new(), hashes: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Grows the transcripts by `recorded`, which `run` has applied.
    pub fn apply(&mut self, recorded: &Recorded, run: &Run) {
        if let Entry::TaskCreated(created) = &recorded.entry {
            if let Holder::Agent(agent) = &created.holder {
                let transcript = self.begin(created, agent, run);
                self.transcripts.insert(created.task.clone(), transcript);
            }
            return;
        }
        let Some(task) = recorded.entry.task() else { return };
        if let Some(transcript) = self.transcripts.get_mut(task) {
            transcript.apply(recorded, run.documents());
        }
        if let Entry::ModelRequested(requested) = &recorded.entry {
            let hash = self.transcripts[task].request().hash;
            self.hashes.insert(recorded.seq, hash);
            self.places.insert(requested.task.clone(), recorded.seq);
        }
        if let Entry::ModelAnswered(answered) = &recorded.entry {
            let sent = self.hashes[&self.places[&answered.task]];
            assert_eq!(sent, answered.request, "I7: the answer's request of {} is the one that was rendered", answered.task);
        }
    }

    fn begin(&self, created: &TaskCreated, agent: &AgentId, run: &Run) -> Transcript {
        let agent = &self.configs.agents[agent];
        let task = run.task(&created.task).expect("a task that was created exists");
        // A question that went on to the next master is asked by whoever asked first.
        let asker = std::iter::successors(created.caller.as_ref(), |caller| {
            let waits_for_it = run.task(caller).and_then(|task| task.escalated.as_ref());
            waits_for_it.and_then(|_| run.graph().caller(caller)).map(|above| &above.id)
        });
        let asker = asker.last().and_then(|caller| run.task(caller)).and_then(|caller| caller.agent());
        Transcript::new(TranscriptStart {
            agent,
            system: agent.system_prompt.as_str().into(),
            created,
            asker,
            documents: run.documents(),
            inject_tokens: run.limits(task).inject_tokens,
            master: created.answers_for.as_ref().map(|master| &self.transcripts[master]),
        })
    }

    /// The request that `task` sends now; it must continue the one before, and be one a provider takes.
    pub fn request(&mut self, task: &TaskId, ledger: &Ledger) -> Arc<ModelRequest> {
        let request = Arc::new(self.transcripts[task].request());
        if let Some(before) = self.newest.get(task) {
            let kept = request.messages.get(..before.messages.len());
            assert_eq!(kept, Some(before.messages.as_slice()), "a request of {task} begins with the one before");
            assert_eq!(before.system, request.system);
        }
        check_shape(&request);
        if !request.is_question {
            check_injections(&request, &ledger.tasks[task].injected);
        }
        self.newest.insert(task.clone(), Arc::clone(&request));
        request
    }

    /// The newest request of `task`.
    pub fn newest(&self, task: &TaskId) -> Arc<ModelRequest> {
        Arc::clone(self.newest.get(task).unwrap_or_else(|| panic!("{task} has sent no request")))
    }

    /// Folding `timeline` again gives every request again, byte for byte (I7).
    pub fn assert_reproducible(&self, timeline: &[Recorded]) {
        let mut run = Run::new(Arc::clone(&self.configs));
        let mut again = Self::new(Arc::clone(&self.configs));
        for recorded in timeline {
            let read = crate::sim::read_back(recorded);
            run.apply(&read);
            again.apply(&read, &run);
        }
        assert_eq!(self.hashes, again.hashes, "I7: the same fold gives the same requests");
        for (task, request) in &self.newest {
            let messages = &again.transcripts[task].request().messages;
            assert!(messages.starts_with(&request.messages), "I7: the same fold gives the same messages for {task}");
        }
    }
}

/// I8: every call is answered in the next message, once and in order, and nothing is empty.
fn check_shape(request: &ModelRequest) {
    let task = &request.task;
    let messages: &[Arc<Message>] = &request.messages;
    assert_eq!(messages.first().map(|message| message.role), Some(Role::User), "a conversation begins with a request");
    assert_ne!(messages.last().map(|message| message.role), Some(Role::Assistant), "the agent of {task} answers itself");
    for (place, message) in messages.iter().enumerate() {
        assert!(!message.parts.is_empty(), "message {place} of {task} is empty");
        let calls: Vec<&CallId> = message.parts.iter().filter_map(call_of).collect();
        assert!(calls.is_empty() || message.role == Role::Assistant, "only the agent makes calls");
        let next = messages.get(place + 1);
        let results: Vec<(&CallId, bool)> = next.iter().flat_map(|next| &next.parts).filter_map(result_of).collect();
        assert_eq!(
            results.iter().map(|(call, _)| *call).collect::<Vec<_>>(),
            calls,
            "I8: the calls of message {place} of {task} are answered in the next, in order"
        );
        let waits = results.iter().any(|(_, finished)| !finished);
        assert!(!waits || request.is_question, "I4: {task} asks its model while a call waits");
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

/// The documents that `request` shows, in order.
pub fn shown(request: &ModelRequest) -> Vec<DocumentRef> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            Part::Document(version) | Part::Pointer(version) => Some(version.reference()),
            _ => None,
        })
        .collect()
}

/// I16: what was handed to the task stands in its request once, and nothing else does.
fn check_injections(request: &ModelRequest, handed: &[DocumentRef]) {
    let (mut shown, mut handed) = (shown(request), handed.to_vec());
    shown.sort();
    handed.sort();
    assert_eq!(shown, handed, "I16: the documents in the request of {}", request.task);
}
