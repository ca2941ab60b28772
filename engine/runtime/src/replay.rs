//! Replay: a timeline is read again, with no model and no tool call, and must give byte-identical requests.

use std::collections::HashMap;

use baton_machine::Run;
use baton_render::Transcript;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{ContentHash, RunId, TaskId};
use baton_types::model::ModelRequest;

use crate::engine::Engine;
use crate::error::RunError;
use crate::transcripts::Prompts;

/// Result of a replay.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Number of entries read.
    pub entries: u64,
    /// Number of answered requests rendered again.
    pub requests: u64,
    /// Requests that came out differently.
    pub mismatches: Vec<Mismatch>,
    /// The state that the timeline folds to.
    pub run: Run,
}

/// A request that came out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The entry of its answer.
    pub seq: u64,
    /// The task.
    pub task: TaskId,
    /// The turn.
    pub turn: u32,
    /// The hash of the request as it was sent.
    pub sent: ContentHash,
    /// The hash of the request as it is rendered now; `None` if nothing requested it.
    pub rendered: Option<ContentHash>,
    /// Number of messages at the beginning of the request that are as they were sent, because an earlier request of
    /// the task matched.
    pub same_messages: usize,
    /// Number of messages in the request as it is rendered now.
    pub messages: usize,
}

/// Reads the timeline of a run again: folds the state, rebuilds every conversation, and compares every request.
pub async fn replay(engine: &Engine, id: &RunId) -> Result<ReplayReport, RunError> {
    Ok(read(engine, id).await?.report)
}

/// Returns the request that `task` of a run sent last, or would send next, as its model sees it; `None` for a task that no
/// model works on.
pub async fn request_of(engine: &Engine, id: &RunId, task: &TaskId) -> Result<Option<ModelRequest>, RunError> {
    Ok(read(engine, id).await?.transcripts.get(task).map(Transcript::request))
}

async fn read(engine: &Engine, id: &RunId) -> Result<Replay, RunError> {
    let (mut reading, mut prompts) = engine.0.read(id).await?;
    let mut replay = Replay {
        transcripts: HashMap::new(),
        rendered: HashMap::new(),
        messages: HashMap::new(),
        report: ReplayReport { entries: 0, requests: 0, mismatches: Vec::new(), run: reading.run.clone() },
    };
    loop {
        let page = engine.0.page(&mut reading, &mut prompts).await?;
        if page.is_empty() {
            replay.report.run = reading.run;
            return Ok(replay);
        }
        for recorded in &page {
            reading.apply(recorded)?;
            replay.apply(recorded, &reading.run, &prompts);
        }
    }
}

/// A replay in progress.
struct Replay {
    transcripts: HashMap<TaskId, Transcript>,
    /// The request that each task sent last.
    rendered: HashMap<TaskId, ContentHash>,
    /// For each task: how many messages its last request that came out right had, and how many its last request has.
    messages: HashMap<TaskId, (usize, usize)>,
    report: ReplayReport,
}

impl Replay {
    /// Takes in an entry; `run` is the state after it.
    fn apply(&mut self, recorded: &Recorded, run: &Run, prompts: &Prompts) {
        self.report.entries += 1;
        if recorded.entry.adopts().is_some() {
            for (task, transcript) in &mut self.transcripts {
                prompts.switch(run, task, recorded.seq, transcript);
            }
            return;
        }
        if let Entry::TaskCreated(created) = &recorded.entry {
            let earlier = created.earlier().and_then(|earlier| self.transcripts.get(earlier));
            if let Some(transcript) = prompts.begin(run, recorded.seq, created, earlier) {
                self.transcripts.insert(created.task.clone(), transcript);
            }
            return;
        }
        let Some(task) = recorded.entry.task() else { return };
        if let Entry::ModelAnswered(answered) = &recorded.entry {
            self.report.requests += 1;
            let rendered = self.rendered.get(task).copied();
            let (same, messages) = self.messages.get(task).copied().unwrap_or_default();
            if rendered == Some(answered.request) {
                self.messages.insert(task.clone(), (messages, messages));
            } else {
                self.report.mismatches.push(Mismatch {
                    seq: recorded.seq,
                    task: task.clone(),
                    turn: answered.turn,
                    sent: answered.request,
                    rendered,
                    same_messages: same,
                    messages,
                });
            }
        }
        if let Some(transcript) = self.transcripts.get_mut(task) {
            transcript.apply(recorded, run.documents());
            if matches!(recorded.entry, Entry::ModelRequested(_) | Entry::FellBack(_)) {
                self.rendered.insert(task.clone(), transcript.request().hash);
                self.messages.entry(task.clone()).or_default().1 = transcript.messages().len();
            }
        }
    }
}
