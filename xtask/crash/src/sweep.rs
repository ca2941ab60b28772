//! A sweep over one job: an undisturbed run lists the failpoints, then trials die at each of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::run::End;
use crate::scene::{At, Case, PassName, Process, Step};
use crate::trial::{Outcome, Trial, Violation};

/// The kills of a trial: the process, counted from 0, and where.
type Kills = Vec<(usize, At)>;

/// Number of trials between two progress messages.
const PROGRESS_EVERY: usize = 250;

/// Number of attempts at a trial whose process did not reach its failpoint. Calls that end at the same time share a
/// write, so the last failpoints of a run are not in each of its repetitions.
const TRIES: usize = 25;

/// Trials in addition to one kill at every failpoint.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of recovering processes that are killed, at random failpoints of random trials; with `None`, at every
    /// write of the recovery from a kill at every write.
    pub nested: Option<usize>,
    /// Number of kills at random moments.
    pub random: usize,
    /// Seed of random choices.
    pub seed: u64,
    /// Number of concurrent trials.
    pub jobs: usize,
}

/// Figures of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The job.
    pub case: String,
    /// Durable writes of the undisturbed run: the N of 2N kills.
    pub writes: usize,
    /// Places of the undisturbed run: before and after each write and each effect.
    pub places: usize,
    /// Processes that were killed at one of them.
    pub kills: usize,
    /// Of those, at a write.
    pub kills_at_writes: usize,
    /// Processes that were killed while they recovered.
    pub nested: usize,
    /// Processes that were killed at a random moment.
    pub random: usize,
    /// Trials whose process ended before it came to its place.
    pub missed: usize,
    /// Kills before the run was durable: there was nothing to resume, and it was started again.
    pub unborn: usize,
    /// Runs that were resumed and came to their end.
    pub resumed: usize,
    /// Things acknowledged and lost.
    pub lost: usize,
    /// Effects that took place twice.
    pub duplicated: usize,
    /// Calls that were in flight at a kill, and must not be repeated.
    pub in_flight: usize,
    /// Calls in doubt at the end: the same ones, unless there are violations.
    pub in_doubt: usize,
    /// Timelines at whose end the checker of invariants was asked.
    pub verified: usize,
    /// Milliseconds from the start of a process that recovers to its first durable commit, ascending.
    pub recovery: Vec<f64>,
    /// Violations, with the trial that found each.
    pub violations: Vec<(Vec<Kill>, Violation)>,
    /// Trials that could not be carried out.
    pub errors: Vec<(Vec<Kill>, String)>,
}

/// One kill of a trial, as `--at` takes it: the process, counted from 0, and its pass or a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Kill {
    /// Which process.
    pub process: usize,
    /// Place of the kill.
    pub at: At,
    /// The place that it died at, once it did.
    pub place: Option<String>,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            At::Pass(name) => write!(f, "{}:{name}", self.process)?,
            At::Moment(after) => write!(f, "{}@{}us", self.process, after.as_micros())?,
        }
        self.place.as_ref().map_or(Ok(()), |place| write!(f, " ({place})"))
    }
}

/// A sweep in progress.
pub struct Sweep<'a> {
    case: &'a Case,
    plan: &'a Plan,
    expected: End,
    reference: Outcome,
}

impl<'a> Sweep<'a> {
    /// Runs the job undisturbed; fails if that goes wrong already.
    pub fn begin(case: &'a Case, plan: &'a Plan) -> anyhow::Result<Self> {
        let reference = Trial { case, kills: BTreeMap::new() }.run(None)?;
        ensure!(reference.violations.is_empty(), "the undisturbed run of {}: {}", case.name, reference.violations[0]);
        let expected = reference.end().context("the undisturbed run has no end")?;
        Ok(Self { case, plan, expected, reference })
    }

    /// Returns the undisturbed run.
    pub fn reference(&self) -> &Outcome {
        &self.reference
    }

    /// Makes all trials of the plan.
    pub fn run(&self) -> Figures {
        let mut figures = Figures { case: self.case.name.clone(), ..Figures::default() };
        let passes = || self.reference.processes.iter().flat_map(|(_, process)| &process.passes);
        figures.places = passes().count();
        figures.writes = passes().filter(|pass| pass.name.is_write && pass.place.rsplit('.').next() == Some("after")).count();

        let mut single = Vec::new();
        for (process, (_, ended)) in self.reference.processes.iter().enumerate() {
            single.extend(ended.passes.iter().map(|pass| vec![(process, At::Pass(pass.name))]));
        }
        // Failpoints of the recovering process.
        let mut again = Vec::new();
        self.trials(&single, &mut figures, |figures, kills, outcome| {
            figures.kills += outcome.kills;
            let at_write = |number: usize| outcome.died_at(number).is_some_and(|pass| pass.name.is_write);
            figures.kills_at_writes += (0..outcome.processes.len()).filter(|number| at_write(*number)).count();
            figures.missed += usize::from(outcome.kills == 0);
            let [kill] = kills else { return };
            if let Some((Step::Resume, recovering)) = outcome.processes.get(kill.0 + 1) {
                let only_writes = self.plan.nested.is_none();
                let counts = |name: PassName| name.is_write || !only_writes;
                let At::Pass(died) = kill.1 else { return };
                let then = recovering.passes.iter().filter(|pass| counts(died) && counts(pass.name));
                again.extend(then.map(|pass| vec![*kill, (kill.0 + 1, At::Pass(pass.name))]));
            }
        });

        let mut random = Random(self.plan.seed);
        if self.plan.nested.is_some() {
            random.shuffle(&mut again);
        }
        let wanted = self.plan.nested.unwrap_or(again.len());
        let mut left = again.as_slice();
        // A failpoint that was not reached is replaced by another.
        while figures.nested < wanted && !left.is_empty() && figures.are_sound() {
            let (now, later) = left.split_at(left.len().min(wanted - figures.nested));
            left = later;
            self.trials(now, &mut figures, |figures, _, outcome| figures.nested += outcome.kills.saturating_sub(1));
        }
        let moments: Vec<_> = (0..self.plan.random).map(|_| self.moment(&mut random)).collect();
        self.trials(&moments, &mut figures, |figures, _, outcome| {
            figures.random += outcome.kills;
            figures.missed += usize::from(outcome.kills == 0);
        });
        figures.recovery.sort_by(f64::total_cmp);
        figures
    }

    /// Makes the one trial with these kills.
    pub fn run_one(&self, kills: &[(usize, At)]) -> Figures {
        let mut figures = Figures { case: self.case.name.clone(), ..Figures::default() };
        self.trials(&[kills.to_vec()], &mut figures, |figures, _, outcome| {
            figures.kills += outcome.kills;
            figures.missed += usize::from(outcome.kills < kills.len());
        });
        figures
    }

    /// Returns a random moment in the life of a random process of the undisturbed run.
    fn moment(&self, random: &mut Random) -> Kills {
        let process = random.below(self.reference.processes.len());
        let (_, ended) = &self.reference.processes[process];
        let micros = ended.passes.last().map_or(1, |pass| pass.at.saturating_sub(ended.started)).max(1);
        vec![(process, At::Moment(Duration::from_micros(random.below(micros as usize) as u64)))]
    }

    /// Makes these trials, some concurrently. `count` adds figures of each trial to the common ones.
    fn trials(&self, trials: &[Kills], figures: &mut Figures, count: impl FnMut(&mut Figures, &[(usize, At)], &Outcome) + Send) {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Mutex::new((figures, count));
        std::thread::scope(|scope| {
            for _ in 0..self.plan.jobs.max(1) {
                scope.spawn(|| {
                    while let Some(kills) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.trial(kills);
                        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                        if done.is_multiple_of(PROGRESS_EVERY) {
                            eprintln!("{}: {done} of {} trials", self.case.name, trials.len());
                        }
                        let (figures, count) = &mut *shared.lock().unwrap_or_else(PoisonError::into_inner);
                        match outcome {
                            Ok(outcome) => {
                                figures.take_in(kills, &outcome);
                                count(figures, kills, &outcome);
                            }
                            Err(error) => figures.errors.push((named(kills, None), format!("{error:#}"))),
                        }
                    }
                });
            }
        });
    }

    /// Makes one trial; again, if a process did not come to its place: what threads do first is not always the same.
    fn trial(&self, kills: &[(usize, At)]) -> anyhow::Result<Outcome> {
        let trial = Trial { case: self.case, kills: kills.iter().copied().collect() };
        let mut outcome = trial.run(Some(&self.expected))?;
        for _ in 1..TRIES {
            if outcome.kills == kills.len() || !outcome.violations.is_empty() {
                break;
            }
            outcome = trial.run(Some(&self.expected))?;
        }
        Ok(outcome)
    }
}

/// Returns the kills for a report, with the failpoints at which the processes of `outcome` died.
fn named(kills: &[(usize, At)], outcome: Option<&Outcome>) -> Vec<Kill> {
    let place = |process| outcome.and_then(|outcome| outcome.died_at(process)).map(|pass| pass.place.clone());
    kills.iter().map(|(process, at)| Kill { process: *process, at: *at, place: place(*process) }).collect()
}

impl Figures {
    /// Adds the figures that every kind of trial has.
    fn take_in(&mut self, kills: &[(usize, At)], outcome: &Outcome) {
        self.unborn += outcome.unborn;
        self.in_flight += outcome.in_flight.len();
        self.in_doubt += outcome.in_doubt.len();
        self.verified += usize::from(outcome.timeline.findings.is_some());
        self.resumed += usize::from(outcome.kills > outcome.unborn);
        let recovered = outcome.processes.windows(2).filter(|pair| pair[0].1.was_killed() && pair[1].0 == Step::Resume);
        self.recovery.extend(recovered.filter_map(|pair| Process::until_durable(&pair[1].1)));
        for violation in &outcome.violations {
            self.lost += usize::from(matches!(violation, Violation::Lost(_)));
            self.duplicated += usize::from(matches!(violation, Violation::Duplicated(_)));
            self.violations.push((named(kills, Some(outcome)), violation.clone()));
        }
    }

    /// Whether everything holds that must.
    pub fn are_sound(&self) -> bool {
        self.violations.is_empty() && self.errors.is_empty()
    }

    /// Returns the recovery time that this share of the resumed runs did not exceed, in milliseconds.
    pub fn recovery_at(&self, share: f64) -> Option<f64> {
        let last = self.recovery.len().checked_sub(1)?;
        self.recovery.get((last as f64 * share).round() as usize).copied()
    }
}

/// A small generator of random numbers (`SplitMix64`, Steele, Lea and Flood 2014): the same seed, the same trials.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
