//! Replay: a timeline is read again, with no model and no tool call, and must give byte-identical requests.

use std::collections::HashMap;

use baton_core::Run;
use baton_core::entry::{Entry, Recorded};
use baton_core::id::{ContentHash, RunId, TaskId};
use baton_core::model::ModelRequest;
use baton_core::render::Transcript;

use crate::engine::Engine;
use crate::error::RunError;
use crate::transcripts::Prompts;

/// What a replay found.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// How many entries were read.
    pub entries: u64,
    /// How many answered requests were rendered again.
    pub requests: u64,
    /// Where a request came out differently.
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
    /// The hash of the request as it is rendered now; `None` if nothing asked for it.
    pub rendered: Option<ContentHash>,
}

/// Reads the timeline of a run again: folds the state, rebuilds every conversation, and compares every request.
pub async fn replay(engine: &Engine, id: &RunId) -> Result<ReplayReport, RunError> {
    Ok(read(engine, id).await?.report)
}

/// The request that `task` of a run sent last, or would send next, as its model sees it; `None` for a task that no
/// model works on.
pub async fn request_of(engine: &Engine, id: &RunId, task: &TaskId) -> Result<Option<ModelRequest>, RunError> {
    Ok(read(engine, id).await?.transcripts.get(task).map(Transcript::request))
}

async fn read(engine: &Engine, id: &RunId) -> Result<Replay, RunError> {
    let started = engine.started(id).await?;
    let configs = std::sync::Arc::new(engine.pinned_configs(&started).await?);
    let prompts = Prompts::render(&configs, &started.inputs).map_err(|error| RunError::Template { reason: error.to_string() })?;
    let mut replay = Replay {
        prompts,
        transcripts: HashMap::new(),
        rendered: HashMap::new(),
        report: ReplayReport { entries: 0, requests: 0, mismatches: Vec::new(), run: Run::new(configs) },
    };
    engine.each_entry(id, |recorded| replay.apply(recorded)).await?;
    Ok(replay)
}

/// A replay in progress.
struct Replay {
    prompts: Prompts,
    transcripts: HashMap<TaskId, Transcript>,
    /// The request that each task sent last.
    rendered: HashMap<TaskId, ContentHash>,
    report: ReplayReport,
}

impl Replay {
    fn apply(&mut self, recorded: &Recorded) {
        self.report.run.apply(recorded);
        self.report.entries += 1;
        let run = &self.report.run;
        if let Entry::TaskCreated(created) = &recorded.entry {
            let master = created.answers_for.as_ref().and_then(|master| self.transcripts.get(master));
            if let Some(transcript) = self.prompts.begin(run, created, master) {
                self.transcripts.insert(created.task.clone(), transcript);
            }
            return;
        }
        let Some(task) = recorded.entry.task() else { return };
        if let Entry::ModelAnswered(answered) = &recorded.entry {
            self.report.requests += 1;
            let rendered = self.rendered.get(task).copied();
            if rendered != Some(answered.request) {
                let (task, turn, sent) = (task.clone(), answered.turn, answered.request);
                self.report.mismatches.push(Mismatch { seq: recorded.seq, task, turn, sent, rendered });
            }
        }
        if let Some(transcript) = self.transcripts.get_mut(task) {
            transcript.apply(recorded, run.documents());
            if matches!(recorded.entry, Entry::ModelRequested(_)) {
                self.rendered.insert(task.clone(), transcript.request().hash);
            }
        }
    }
}
