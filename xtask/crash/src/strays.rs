//! Strays: engines are killed, or asked to end, at random moments while their commands run. A second later none of the
//! commands may be alive, the next start must leave no folder of theirs, and no call may run twice at the same time.
//!
//! Between two processes somebody steers the run, so that a command waits in its inbox. At the end, in some runs, the store is
//! taken away under a process, which must say so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use baton_types::entry::{ControlAction, Entry};
use rustix::process::{Pid, Signal, kill_process};

use crate::ledger;
use crate::scene::{Case, Scene, Step, steering};
use crate::sweep::Random;

/// When a process is killed at the latest: a run of the job takes a little longer.
const KILLED_WITHIN: Duration = Duration::from_millis(900);
/// Number of killed processes of one run before a process may end it.
const KILLS_OF_A_RUN: usize = 8;
/// One process of so many is asked to end (`SIGTERM`) rather than killed.
const ASKED: usize = 5;
/// One run of so many has its store taken away first.
const LOST_STORES: usize = 8;
/// Time that commands may outlive their engine.
const ALIVE_FOR: Duration = Duration::from_secs(1);
/// After so many runs without a command that was met, or so many violations, there will be no other.
const FRUITLESS: usize = 40;
/// Exit code of a process that was interrupted, and of one whose store is gone.
const INTERRUPTED: i32 = 130;
const FAILED: i32 = 1;

/// Figures about stray commands.
#[derive(Clone, Debug, Default)]
pub struct StrayFigures {
    /// Runs that were killed until they ended.
    pub runs: usize,
    /// Processes that SIGKILL ended.
    pub kills: usize,
    /// Of these, those whose commands ran.
    pub met: usize,
    /// Processes that SIGTERM ended.
    pub asked: usize,
    /// Of these, those whose commands ran.
    pub asked_met: usize,
    /// The processes of the commands that ran.
    pub commands: usize,
    /// Number of commands that were alive one second after their engine.
    pub alive: usize,
    /// Folders of dead commands that the next start left.
    pub folders: usize,
    /// Calls that ran twice at the same time.
    pub overlaps: usize,
    /// Acknowledged entries, and texts in the inbox, that are not on the timeline.
    pub lost: usize,
    /// Effects of `at_most_once` calls that took place twice.
    pub doubled: usize,
    /// Stores that were taken away under a process.
    pub stores: usize,
    /// Other violations.
    pub violations: Vec<String>,
}

impl StrayFigures {
    /// Whether everything holds that must.
    pub fn are_sound(&self) -> bool {
        let wrong = [self.alive, self.folders, self.overlaps, self.lost, self.doubled, self.violations.len()];
        wrong.iter().all(|number| *number == 0)
    }
}

/// Runs the job again and again until SIGKILL met running commands `count` times, `jobs` runs at the same time. Runs that meet
/// none at all, or that nothing but violations come of, are given up.
pub fn strays(case: &Case, count: usize, seed: u64, jobs: usize) -> StrayFigures {
    let (next, figures) = (AtomicUsize::new(0), Mutex::new(StrayFigures::default()));
    let locked = || figures.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while locked().needs_runs(count, next.load(Ordering::Relaxed)) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let mut random = Random(seed.wrapping_add(number as u64));
                    let mut of_run = StrayFigures::default();
                    if let Err(error) = one(case, number, &mut random, &mut of_run) {
                        of_run.violations.push(format!("run {number} of seed {seed}: {error:#}"));
                    }
                    locked().add(of_run);
                }
            });
        }
    });
    let mut figures = figures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if figures.met < count {
        figures.violations.push(format!("{} kills met commands, and {count} were to", figures.met));
    }
    figures
}

impl StrayFigures {
    /// Whether more runs are to begin after `begun`, until kills have met commands `count` times.
    fn needs_runs(&self, count: usize, begun: usize) -> bool {
        let is_hopeless = (self.met == 0 && begun >= FRUITLESS) || self.violations.len() >= FRUITLESS;
        self.met < count && !is_hopeless
    }

    fn add(&mut self, other: Self) {
        let Self { runs, kills, met, asked, asked_met, commands, alive, folders, overlaps, lost, doubled, stores, violations } =
            other;
        let pairs = [
            (&mut self.runs, runs),
            (&mut self.kills, kills),
            (&mut self.met, met),
            (&mut self.asked, asked),
            (&mut self.asked_met, asked_met),
            (&mut self.commands, commands),
            (&mut self.alive, alive),
            (&mut self.folders, folders),
            (&mut self.overlaps, overlaps),
            (&mut self.lost, lost),
            (&mut self.doubled, doubled),
            (&mut self.stores, stores),
        ];
        for (sum, number) in pairs {
            *sum += number;
        }
        self.violations.extend(violations);
    }
}

/// Executes one run, from its start to its end.
fn one(case: &Case, number: usize, random: &mut Random, figures: &mut StrayFigures) -> anyhow::Result<()> {
    let scene = Scene::new(case)?;
    let (mut printed, mut steered) = (Vec::new(), Vec::new());
    // Commands of dead engines that are to be gone by a moment.
    let mut doomed: Vec<(Vec<i32>, Instant)> = Vec::new();
    if number.is_multiple_of(LOST_STORES) {
        lose_store(&scene, figures)?;
    }
    for kills in 0.. {
        let step = if scene.timeline()?.is_some() { Step::Resume } else { Step::Run };
        let process = scene.start(&step, &BTreeMap::new())?;
        let mut ran = false;
        if kills < KILLS_OF_A_RUN {
            std::thread::sleep(Duration::from_micros(random.below(KILLED_WITHIN.as_micros() as usize) as u64));
            let running = commands_of(process.pid().as_raw_pid());
            let signal = if random.below(ASKED) == 0 { Signal::TERM } else { Signal::KILL };
            kill_process(process.pid(), signal).context("a process cannot be killed")?;
            ran = !running.is_empty();
            figures.commands += running.len();
            doomed.push((running, Instant::now() + ALIVE_FOR));
        }
        let ended = scene.finish(process)?;
        printed.extend(ended.printed.iter().cloned());
        let code = ended.status.code();
        let (killed, asked) = (ended.was_killed(), code == Some(INTERRUPTED));
        figures.kills += usize::from(killed);
        figures.met += usize::from(killed && ran);
        figures.asked += usize::from(asked);
        figures.asked_met += usize::from(asked && ran);
        if code == Some(0) {
            break;
        }
        let by_term = code.is_none() && !killed;
        ensure!(killed || by_term || asked, "a process ended with {}: {}", ended.status, ended.stderr.trim());
        // Some runs are resumed at once, others when the commands had their second.
        if random.below(2) == 0 {
            std::thread::sleep(ALIVE_FOR);
        }
        if random.below(3) == 0 && scene.timeline()?.is_some() {
            let text = u32::try_from(kills).unwrap_or_default();
            if scene.run(&Step::Steer(text), None)?.status.success() {
                steered.push(steering(text));
            }
        }
        figures.alive += alive_too_long(&mut doomed, false);
    }
    figures.runs += 1;
    figures.alive += alive_too_long(&mut doomed, true);
    figures.folders += scene.scratch_folders()?;
    figures.overlaps += scene.overlaps();
    let timeline = scene.timeline()?.context("the run is gone")?;
    figures.lost += usize::from(timeline.lacks(&printed).is_some());
    let is_there = |text: &String| {
        let mut entries = timeline.entries.iter();
        entries.any(|recorded| match &recorded.entry {
            Entry::Control(control) => matches!(&control.action, ControlAction::Steered { text: found } if found == text),
            _ => false,
        })
    };
    figures.lost += steered.iter().filter(|text| !is_there(text)).count();
    figures.violations.extend(timeline.findings.clone().unwrap_or_default());
    ensure!(timeline.findings.is_some(), "the run has not ended");
    let effects = ledger::effects(&scene.ledger())?;
    figures.doubled += effects.iter().filter(|((tool, _), count)| tool == "stray_at_most_once" && **count > 1).count();
    Ok(())
}

/// Takes the store away under the first process, once a command of it runs, and puts it back.
fn lose_store(scene: &Scene<'_>, figures: &mut StrayFigures) -> anyhow::Result<()> {
    let process = scene.start(&Step::Run, &BTreeMap::new())?;
    while commands_of(process.pid().as_raw_pid()).is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    scene.move_store(true)?;
    let ended = scene.finish(process)?;
    ensure!(
        ended.status.code() == Some(FAILED) && ended.stderr.contains("removed, replaced or truncated"),
        "a process whose store was taken away ended with {}: {}",
        ended.status,
        ended.stderr.trim()
    );
    figures.stores += 1;
    scene.move_store(false).context("the store cannot be put back")
}

/// Returns the processes of commands of the engine that is process `engine`.
fn commands_of(engine: i32) -> Vec<i32> {
    let mark = format!("BATON_COMMAND_ID={engine}-");
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    processes.filter(|process| is_marked(*process, &mark)).collect()
}

/// Whether a process is alive and has `mark` at the beginning of a variable: what has exited has no environment any more.
fn is_marked(process: i32, mark: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
}

/// Counts the commands that are still alive at their deadline; with `wait`, waits for all deadlines. Ends them, so
/// that the kit leaves none behind.
fn alive_too_long(doomed: &mut Vec<(Vec<i32>, Instant)>, wait: bool) -> usize {
    let mut alive = 0;
    doomed.retain(|(processes, due)| {
        if wait {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        if *due > Instant::now() {
            return true;
        }
        for process in processes.iter().filter(|process| is_marked(**process, "BATON_COMMAND_ID=")) {
            alive += 1;
            if let Some(process) = Pid::from_raw(*process) {
                let _gone = kill_process(process, Signal::KILL);
            }
        }
        false
    });
    alive
}
