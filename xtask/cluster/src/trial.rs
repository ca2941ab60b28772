//! One trial: a client queues runs, a fault happens, all runs end, and the checker judges.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::checker::{self, Findings};
use crate::faults::{Fault, Lasted, Lengths};
use crate::observe::{Observed, queue, watch};
use crate::{Fleet, wait};

/// Number of runs that end before the fault begins.
const WARM: usize = 3;

/// Time for which runs are queued after the fault.
const AFTERWARDS: Duration = Duration::from_secs(4);

/// Longest time until all runs have ended. A run that is still open then is lost.
const PATIENCE: Duration = Duration::from_mins(5);

/// A trial.
#[derive(Debug)]
pub struct Trial {
    /// Its number, which is part of the names of its files and runs.
    pub number: usize,
    /// The fault.
    pub fault: Fault,
    /// Its length.
    pub lengths: Lengths,
}

/// Outcome of a trial.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fault.
    pub fault: Fault,
    /// A remark about it.
    pub remark: String,
    /// Findings of the checker.
    pub findings: Findings,
    /// Number of runs that waited when the fault ended.
    pub waiting: usize,
    /// Time from the end of the fault until the first of them ended.
    pub first: Option<Duration>,
    /// Time from the end of the fault until the last of them ended.
    pub last: Option<Duration>,
    /// Longest time in which no run ended, from the beginning of the fault on.
    pub stall: Duration,
}

impl Trial {
    /// Carries the trial out. Its files are in the folder `trials/NUMBER-FAULT` of the fleet.
    pub fn run(&self, fleet: &mut Fleet) -> anyhow::Result<Row> {
        let name = format!("{}-{}", self.number, self.fault.name());
        let folder = fleet.folder().join("trials").join(&name);
        fs::create_dir_all(folder.join("histories"))?;
        let ledger = fleet.folder().join("ledger.ndjson");
        let ledger_before = fs::metadata(&ledger)?.len();
        let after = fleet.query()("SELECT coalesce(max(run), 0) FROM baton.runs").parse().context("the number of a run")?;
        let observed = Observed::default();
        let watching = watch(fleet, after, &observed, &folder.join("samples.ndjson"))?;
        let queueing = queue(fleet, &name, &observed, &folder.join("queued.ndjson"))?;
        let ended = || observed.runs().values().filter(|seen| !seen.is_open()).count();
        wait(&format!("{WARM} runs have ended"), PATIENCE, || Ok(ended() >= WARM))?;
        let lasted = self.fault.happen(fleet, &observed, self.lengths)?;
        let is_waiting = |(run, seen): (&String, &crate::observe::Seen)| seen.is_open().then(|| run.clone());
        let waiting: Vec<String> = observed.runs().iter().filter_map(is_waiting).collect();
        std::thread::sleep(AFTERWARDS);
        queueing.stop()?;
        // Runs that do not end are reported by the checker.
        let drained = wait("all runs have ended", PATIENCE, || Ok(observed.open() == 0));
        std::thread::sleep(Duration::from_millis(500));
        watching.stop()?;
        export(fleet, after, &folder)?;
        let ledger = fs::read(&ledger)?;
        fs::write(folder.join("ledger.ndjson"), &ledger[ledger_before as usize..])?;
        let mut findings = checker::check(&folder)?;
        if let Err(late) = drained {
            findings.broken.push(format!("{late:#}"));
        }
        self.fault.clear(fleet)?;
        Ok(row(self.fault, lasted, &waiting, &observed, findings))
    }
}

/// Writes the histories of all runs that are younger than the number `after`.
fn export(fleet: &Fleet, after: u64, folder: &Path) -> anyhow::Result<()> {
    let runs = fleet.query()(&format!("SELECT id FROM baton.runs WHERE run > {after}"));
    for run in runs.lines() {
        let files = [
            (["timeline", run, "--output", "ndjson"], format!("{run}.ndjson")),
            (["show", run, "--output", "json"], format!("{run}.json")),
        ];
        for (arguments, file) in files {
            let answer = fleet.observer(&arguments).output().context("the program cannot be started")?;
            ensure!(answer.status.success(), "{run} cannot be read: {}", String::from_utf8_lossy(&answer.stderr));
            fs::write(folder.join("histories").join(file), answer.stdout)?;
        }
    }
    Ok(())
}

fn row(fault: Fault, lasted: Lasted, waiting: &[String], observed: &Observed, findings: Findings) -> Row {
    let runs = observed.runs();
    let mut ends: Vec<Instant> = runs.values().filter_map(|seen| seen.ended).filter(|end| *end >= lasted.began).collect();
    ends.sort();
    let starts = std::iter::once(lasted.began).chain(ends.iter().copied());
    let stall = starts.zip(&ends).map(|(before, end)| end.duration_since(before)).max().unwrap_or_default();
    let continued = || waiting.iter().filter_map(|run| Some(runs.get(run)?.ended?.saturating_duration_since(lasted.ended)));
    Row {
        fault,
        remark: lasted.remark,
        waiting: waiting.len(),
        first: continued().min(),
        last: continued().max().filter(|_| continued().count() == waiting.len()),
        stall,
        findings,
    }
}

/// Returns the rows as a table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let seconds = |time: Option<Duration>| time.map_or_else(|| "never".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
    let mut text =
        "| fault | runs | effects | lost | doubled | broken | unknown | no success | waited | first | last | longest stall |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for Row { fault, remark, findings, waiting, first, last, stall } in rows {
        let Findings { runs, effects, unknown, unsuccessful, lost, doubled, broken, calls: _, repeated: _ } = findings;
        let remark = if remark.is_empty() { String::new() } else { format!(" ({remark})") };
        let (lost, doubled, broken) = (lost.len(), doubled.len(), broken.len());
        let (first, last, stall) = (seconds(*first), seconds(*last), seconds(Some(*stall)));
        let _infallible = writeln!(
            text,
            "| {}{remark} | {runs} | {effects} | {lost} | {doubled} | {broken} | {unknown} | {unsuccessful} | {waiting} | {first} | {last} | {stall} |",
            fault.name()
        );
    }
    text
}
