//! One trial: a job is run by processes of which some are killed, until it ends; then everything that must hold is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use baton_timeline::sentence;
use serde_json::Value;

use crate::ledger;
use crate::run::{End, Timeline};
use crate::scene::{At, Case, Pass, Process, Scene, Step, answer_to};

/// The most processes of one trial, so that a job that never ends is noticed.
const MAX_PROCESSES: usize = 1_000;

/// The tools whose every success is an effect in the ledger; so it is for others, once one of their effects is in it.
const EFFECTIVE: [&str; 4] = ["ledger_append", "ledger_charge", "command_append", "command_charge"];

/// One attempt at a job.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The job.
    pub case: &'a Case,
    /// Event for each process, counted from 0.
    pub kills: BTreeMap<usize, At>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// Something that was acknowledged is not there.
    Lost(String),
    /// An effect took place twice.
    Duplicated(String),
    /// Calls are in doubt that were not in flight, or the other way round.
    Doubt {
        /// Calls that were in flight when a process died.
        expected: BTreeSet<String>,
        /// Calls that are in doubt.
        found: BTreeSet<String>,
    },
    /// The timeline breaks an invariant.
    Broken(String),
    /// The end is another one.
    End(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(what) => write!(f, "lost: {what}"),
            Self::Duplicated(what) => write!(f, "duplicated: {what}"),
            Self::Doubt { expected, found } => write!(f, "in doubt: expected {expected:?}, found {found:?}"),
            Self::Broken(what) => write!(f, "broken: {what}"),
            Self::End(what) => write!(f, "{what}"),
        }
    }
}

/// Outcome of a trial.
#[derive(Debug)]
pub struct Outcome {
    /// Every process, with what it was started for.
    pub processes: Vec<(Step, Process)>,
    /// Number of killed processes.
    pub kills: usize,
    /// Number of kills before the run was durable: the run was started again.
    pub unborn: usize,
    /// The calls that were in flight when a process was killed, and must not be repeated.
    pub in_flight: BTreeSet<String>,
    /// The calls that are in doubt.
    pub in_doubt: BTreeSet<String>,
    /// The timeline at the end.
    pub timeline: Timeline,
    /// Everything that must not be.
    pub violations: Vec<Violation>,
    /// Folder of the trial, kept if there were violations.
    pub kept: Option<PathBuf>,
}

impl Outcome {
    /// Returns the end of the run.
    pub fn end(&self) -> Option<End> {
        self.timeline.end()
    }

    /// Returns the last pass of process `number`: where it died, if it was killed there.
    pub fn died_at(&self, number: usize) -> Option<&Pass> {
        self.processes.get(number).filter(|(_, process)| process.was_killed())?.1.passes.last()
    }
}

impl Trial<'_> {
    /// Runs the job to its end and compares it with `expected`, if that is known.
    ///
    /// An error means that the trial could not be carried out; what must not be is in the outcome.
    pub fn run(&self, expected: Option<&End>) -> anyhow::Result<Outcome> {
        let scene = Scene::new(self.case)?;
        let mut watched = Watched::default();
        let (mut kills, mut unborn) = (0, 0);
        let mut processes: Vec<(Step, Process)> = Vec::new();
        // The last of them is the next.
        let mut steps = vec![Step::Run];
        while let Some(step) = steps.pop() {
            let number = processes.len();
            if number == MAX_PROCESSES {
                bail!("the job has not ended after {MAX_PROCESSES} processes: {}", scene.keep().display());
            }
            let process = scene.run(&step, self.kills.get(&number).copied())?;
            if process.was_killed() {
                kills += 1;
                match watched.crashed(&process, scene.timeline()?) {
                    // The same thing again, as a person would do it.
                    true if step == Step::Run => steps.push(Step::Resume),
                    true => steps.push(step.clone()),
                    // There is nothing to resume, as the program reports.
                    false => {
                        unborn += 1;
                        steps = vec![Step::Run, Step::Resume];
                    }
                }
            } else {
                watched.printed.extend(process.printed.iter().cloned());
                match (&step, process.status.code()) {
                    (Step::Answer(question), Some(0)) => watched.acknowledged.push(*question),
                    // Refused, because the killed process had put the answer already: the end will show it.
                    (Step::Answer(_), Some(1)) if watched.crashes > 0 => {}
                    (Step::Run | Step::Resume, Some(0)) => {}
                    (Step::Resume, Some(6)) if unborn > 0 && steps == [Step::Run] => {}
                    (Step::Run | Step::Resume, Some(3)) => {
                        let waiting = scene.timeline()?.map(|timeline| timeline.open_questions()).unwrap_or_default();
                        steps.push(Step::Resume);
                        steps.extend(waiting.into_iter().rev().map(Step::Answer));
                    }
                    _ => {
                        let (status, output) = (process.status, process.stderr.trim().to_owned());
                        bail!("process {number} ({step:?}) ended with {status}: {output}\nleft in {}", scene.keep().display());
                    }
                }
            }
            processes.push((step, process));
        }
        let Some(timeline) = scene.timeline()? else { bail!("the job has ended, and there is no run") };
        scene.wait_for_commands()?;
        let in_flight = watched.in_flight.clone();
        let violations = watched.violations(&timeline, &scene, expected)?;
        let kept = (!violations.is_empty()).then(|| scene.keep());
        Ok(Outcome { processes, kills, unborn, in_flight, in_doubt: timeline.in_doubt(), timeline, violations, kept })
    }
}

/// Observations during the trial that must be confirmed at the end.
#[derive(Default)]
struct Watched {
    crashes: usize,
    printed: Vec<baton_timeline::Line>,
    acknowledged: Vec<u32>,
    /// The timelines that killed processes left behind.
    left: Vec<Timeline>,
    in_flight: BTreeSet<String>,
    found: Vec<Violation>,
}

impl Watched {
    /// Records that a process was killed and left `timeline`. Returns true if there is a run.
    fn crashed(&mut self, process: &Process, timeline: Option<Timeline>) -> bool {
        self.crashes += 1;
        self.printed.extend(process.printed.iter().cloned());
        let Some(timeline) = timeline else {
            if let Some(printed) = self.printed.first() {
                self.found.push(Violation::Lost(format!("the run itself, of which entry {} was printed", printed.seq)));
            }
            if !self.left.is_empty() {
                self.found.push(Violation::Lost("the run itself, which a process had left behind".to_owned()));
            }
            return false;
        };
        // Before any process resumes it.
        if let Some(lost) = timeline.lacks(&self.printed) {
            self.found.push(Violation::Lost(format!("entry {} ({}), which was printed", lost.seq, sentence(lost))));
        }
        if let Some(earlier) = self.left.last().filter(|earlier| !earlier.begins(&timeline)) {
            self.found.push(Violation::Lost(format!("the first {} entries are not what they were", earlier.entries.len())));
        }
        self.in_flight.extend(timeline.in_flight());
        self.left.push(timeline);
        true
    }

    /// Returns all violations, once the run has ended with `timeline`.
    fn violations(mut self, timeline: &Timeline, scene: &Scene<'_>, expected: Option<&End>) -> anyhow::Result<Vec<Violation>> {
        if let Some(gap) = timeline.gap() {
            self.found.push(Violation::Lost(format!("entry {gap} is not in its place")));
        }
        if let Some(left) = self.left.iter().find(|left| !left.begins(timeline)) {
            self.found.push(Violation::Lost(format!("the first {} entries are not what they were", left.entries.len())));
        }
        if let Some(lost) = timeline.lacks(&self.printed) {
            self.found.push(Violation::Lost(format!("entry {} ({}), which was printed", lost.seq, sentence(lost))));
        }
        let answers = timeline.answers();
        for question in &self.acknowledged {
            let given: Vec<&Value> = answers.iter().filter(|(number, _)| number == question).map(|(_, answer)| answer).collect();
            if given != [&Value::from(answer_to(*question))] {
                self.found.push(Violation::Lost(format!("the answer to Q{question}; the run has {given:?}")));
            }
        }
        self.effects(timeline, scene)?;
        let found = timeline.in_doubt();
        if found != self.in_flight {
            self.found.push(Violation::Doubt { expected: self.in_flight.clone(), found });
        }
        self.found.extend(timeline.findings.iter().flatten().cloned().map(Violation::Broken));
        match (timeline.end(), expected) {
            (None, _) => self.found.push(Violation::End("the run has no end".to_owned())),
            (Some(end), Some(expected)) if end != *expected => {
                self.found.push(Violation::End(format!("the end differs: expected {expected:?}, found {end:?}")));
            }
            _ => {}
        }
        Ok(self.found)
    }

    /// Compares the ledger with the calls' results.
    fn effects(&mut self, timeline: &Timeline, scene: &Scene<'_>) -> anyhow::Result<()> {
        let run = &timeline.record.id;
        let effects = ledger::effects(&scene.ledger())?;
        for ((tool, key), count) in effects.iter().filter(|(_, count)| **count > 1) {
            self.found.push(Violation::Duplicated(format!("{tool} took effect {count} times for {key}")));
        }
        // The same call under another key would be a second effect that no key shows.
        let begun: BTreeSet<String> = timeline.begun().map(|call| format!("{run}/{call}")).collect();
        for ((tool, key), _) in effects.iter().filter(|((_, key), _)| !begun.contains(key)) {
            self.found.push(Violation::Duplicated(format!("{tool} took effect for {key}, which is not a call of the run")));
        }
        let noted: BTreeSet<&str> = EFFECTIVE.into_iter().chain(effects.keys().map(|(tool, _)| tool.as_str())).collect();
        for (call, tool) in timeline.succeeded().filter(|(_, tool)| noted.contains(tool.as_str())) {
            let key = (tool, format!("{run}/{call}"));
            if !effects.contains_key(&key) {
                self.found.push(Violation::Lost(format!("the effect of {}, which succeeded", key.1)));
            }
        }
        Ok(())
    }
}
