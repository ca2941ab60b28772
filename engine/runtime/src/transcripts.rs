//! The conversations of running tasks, kept within bounds and rebuilt from the store when they were dropped.
//!
//! A conversation only grows, so keeping it makes a turn cost what is new. Dropping it loses nothing: a task that waits
//! for a long time is rebuilt when its turn comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_config::TemplateError;
use baton_machine::Run;
use baton_render::{Transcript, TranscriptStart};
use baton_store::{Store, StoreError};
use baton_tool::BoxFuture;
use baton_types::config::{Agent, Configs};
use baton_types::entry::{Entry, Holder, Recorded, TaskCreated};
use baton_types::id::{AgentId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::model::{ModelRequest, SystemPrompt};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// The system prompts of a run's agents, rendered once under every configs that the run went by.
#[derive(Clone, Debug)]
pub(crate) struct Prompts {
    inputs: BTreeMap<String, Value>,
    /// In the order of their first entries.
    eras: Vec<Era>,
}

/// The entries of a run that were decided under the same configs.
#[derive(Clone, Debug)]
struct Era {
    /// The first of them: the one that adopts the configs.
    from: u64,
    configs: Arc<Configs>,
    prompts: BTreeMap<AgentId, SystemPrompt>,
}

impl Prompts {
    /// Renders the prompt of every agent of the job.
    pub(crate) fn render(configs: &Arc<Configs>, inputs: &Json) -> Result<Self, TemplateError> {
        // Most jobs have no inputs, and to parse `null` as a map would build an error.
        let inputs = if inputs.is_null() { BTreeMap::new() } else { serde_json::from_str(inputs.text()).unwrap_or_default() };
        let mut prompts = Self { inputs, eras: Vec::new() };
        prompts.adopt(0, configs)?;
        Ok(prompts)
    }

    /// Renders the prompts anew: from entry `seq` on, the run goes by `configs`.
    pub(crate) fn adopt(&mut self, seq: u64, configs: &Arc<Configs>) -> Result<(), TemplateError> {
        let render = |agent: &Agent| baton_config::render_prompt(configs, agent, &self.inputs);
        let prompts = configs.agents.values().map(|agent| Ok((agent.id.clone(), render(agent)?)));
        let prompts = prompts.collect::<Result<_, _>>()?;
        self.eras.push(Era { from: seq, configs: Arc::clone(configs), prompts });
        Ok(())
    }

    /// Returns the system prompt that `agent` has now.
    pub(crate) fn of_agent(&self, agent: &AgentId) -> Option<&SystemPrompt> {
        self.eras.last().and_then(|era| era.prompts.get(agent))
    }

    /// Returns the configs in force at entry `seq`.
    fn era(&self, seq: u64) -> &Era {
        self.eras.iter().rev().find(|era| era.from <= seq).expect("the first era begins before the first entry")
    }

    /// Continues the conversation of `task` with the configs that entry `seq` adopts.
    pub(crate) fn switch(&self, run: &Run, task: &TaskId, seq: u64, transcript: &mut Transcript) {
        let era = self.era(seq);
        if let Some(task) = run.task(task)
            && let Some(agent) = task.agent().and_then(|agent| era.configs.agents.get(agent))
        {
            let system = era.prompts.get(&agent.id).cloned().unwrap_or_default();
            transcript.adopt(agent, system);
        }
    }

    /// Returns the conversation of a task of `run` at its creation, entry `seq`; `None` for one that a person holds.
    /// `earlier` is the conversation that it begins with, in its state at that entry.
    pub(crate) fn begin(&self, run: &Run, seq: u64, created: &TaskCreated, earlier: Option<&Transcript>) -> Option<Transcript> {
        let era = self.era(seq);
        let task = run.task(&created.task)?;
        let agent = era.configs.agents.get(task.agent()?)?;
        let asking = task.question.as_ref().map(|question| &question.asker).or(created.caller.as_ref());
        Some(Transcript::new(TranscriptStart {
            agent,
            system: era.prompts.get(&agent.id).cloned().unwrap_or_default(),
            created,
            asker: asking.and_then(|asker| run.task(asker)).and_then(|asker| asker.agent()),
            documents: run.documents(),
            earlier,
        }))
    }
}

/// The conversations of one run that are kept in memory.
pub(crate) struct Transcripts {
    store: Arc<dyn Store>,
    run: RunId,
    pub(crate) prompts: Prompts,
    kept: FxHashMap<TaskId, Box<Kept>>,
    /// The sum of all weights.
    bytes: usize,
    bound: usize,
    /// Counts uses.
    uses: u64,
}

/// A conversation in memory.
struct Kept {
    transcript: Transcript,
    weight: usize,
    used: u64,
}

impl Transcripts {
    pub(crate) fn new(store: Arc<dyn Store>, run: RunId, prompts: Prompts, bound: usize) -> Self {
        Self { store, run, prompts, kept: FxHashMap::default(), bytes: 0, bound, uses: 0 }
    }

    /// Grows the kept conversations by entries that were just committed; `run` is the state after them.
    pub(crate) fn absorb(&mut self, entries: &[Arc<Recorded>], run: &Run) {
        for recorded in entries {
            match &recorded.entry {
                Entry::TaskCreated(created) => self.begin(recorded.seq, created, run),
                entry if entry.adopts().is_some() => {
                    for (task, kept) in &mut self.kept {
                        self.prompts.switch(run, task, recorded.seq, &mut kept.transcript);
                    }
                }
                // People take minutes to answer, and many tasks may wait for them: the conversation is rebuilt then.
                Entry::QuestionOpened(opened) if opened.holder == Holder::Person => self.drop_task(&opened.asker),
                Entry::TaskEnded(ended) => self.drop_task(&ended.task),
                Entry::SubtreeClosed(closed) => closed.tasks.iter().for_each(|task| self.drop_task(task)),
                entry => {
                    if let Some(kept) = entry.task().and_then(|task| self.kept.get_mut(task)) {
                        kept.transcript.apply(recorded, run.documents());
                        self.bytes -= kept.weight;
                        kept.weight = kept.transcript.weight();
                        self.bytes += kept.weight;
                    }
                }
            }
        }
        self.drop_excess();
    }

    /// Returns the request of `task` for its latest turn; all entries of `run` are committed.
    pub(crate) async fn request(&mut self, run: &Run, task: &TaskId) -> Result<ModelRequest, StoreError> {
        if !self.kept.contains_key(task) {
            let rebuilt = self.rebuild(run, task, run.last_seq()).await?;
            self.keep(task.clone(), rebuilt);
        }
        self.uses += 1;
        let kept = self.kept.get_mut(task).expect("it was there or has just been rebuilt");
        kept.used = self.uses;
        let request = kept.transcript.request();
        self.drop_excess();
        Ok(request)
    }

    /// Begins the conversation of a new task, if all it begins with is at hand; otherwise it is rebuilt when needed.
    fn begin(&mut self, seq: u64, created: &TaskCreated, run: &Run) {
        let earlier = created.earlier().map(|earlier| self.kept.get(earlier));
        let transcript = match earlier {
            Some(None) => None,
            Some(Some(earlier)) => self.prompts.begin(run, seq, created, Some(&earlier.transcript)),
            None => self.prompts.begin(run, seq, created, None),
        };
        if let Some(transcript) = transcript {
            self.keep(created.task.clone(), transcript);
        }
    }

    /// Returns the conversation of `task` up to entry `through`, from the store.
    fn rebuild<'a>(&'a self, run: &'a Run, task: &'a TaskId, through: u64) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        Box::pin(async move {
            let corrupt = |what: &str| StoreError::Corrupt { what: format!("task {task} of run {}: {what}", self.run) };
            let entries = self.store.task_entries(&self.run, task, through).await?;
            let (seq, created) = entries
                .iter()
                .find_map(|recorded| match &recorded.entry {
                    Entry::TaskCreated(created) => Some((recorded.seq, created)),
                    _ => None,
                })
                .ok_or_else(|| corrupt("its creation is missing"))?;
            let earlier = match created.earlier() {
                Some(earlier) => Some(self.rebuild(run, earlier, seq).await?),
                None => None,
            };
            let begun = self.prompts.begin(run, seq, created, earlier.as_ref());
            let mut transcript = begun.ok_or_else(|| corrupt("no agent holds it"))?;
            // What the run adopted since then is no entry of the task, so it comes between them by its number.
            let mut adopted =
                self.prompts.eras.iter().map(|era| era.from).filter(|from| *from > seq && *from <= through).peekable();
            for recorded in &entries {
                while let Some(from) = adopted.next_if(|from| *from < recorded.seq) {
                    self.prompts.switch(run, task, from, &mut transcript);
                }
                transcript.apply(recorded, run.documents());
            }
            for from in adopted {
                self.prompts.switch(run, task, from, &mut transcript);
            }
            Ok(transcript)
        })
    }

    /// Drops every conversation.
    pub(crate) fn clear(&mut self) {
        self.kept = FxHashMap::default();
        self.bytes = 0;
    }

    fn keep(&mut self, task: TaskId, transcript: Transcript) {
        self.uses += 1;
        let weight = transcript.weight();
        self.bytes += weight;
        self.kept.insert(task, Box::new(Kept { transcript, weight, used: self.uses }));
    }

    fn drop_task(&mut self, task: &TaskId) {
        if let Some(kept) = self.kept.remove(task) {
            self.bytes -= kept.weight;
        }
    }

    /// Drops the conversations that were used longest ago if all together exceed the bound, until at most three quarters of it are used. So
    /// this does not happen again soon. The newest conversation stays.
    fn drop_excess(&mut self) {
        if self.bytes <= self.bound {
            return;
        }
        let mut by_use: Vec<(u64, TaskId)> = self.kept.iter().map(|(task, kept)| (kept.used, task.clone())).collect();
        by_use.sort_unstable();
        by_use.pop();
        for (_, task) in by_use {
            if self.bytes <= self.bound / 4 * 3 {
                return;
            }
            self.drop_task(&task);
        }
    }
}
