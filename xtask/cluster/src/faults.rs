//! The faults, one function each. A fault begins, lasts and ends; all of it is one call.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use rustix::process::Signal;

use crate::Fleet;
use crate::bus::SERVERS;
use crate::fleet::{DATABASE, WORKERS};
use crate::observe::Observed;

/// Longest time until another worker has the runs of one that is stopped.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_mins(2);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Nothing happens: what the other figures compare with.
    Calm,
    /// A worker is cut off.
    WorkerCut,
    /// The NATS server that leads most streams is cut off.
    LeaderCut,
    /// A NATS server that leads fewest streams is cut off.
    FollowerCut,
    /// The leading NATS server and a worker are cut off at the same time.
    LeaderAndWorkerCut,
    /// The database is cut off.
    DatabaseCut,
    /// A worker is stopped (SIGSTOP) until others have its runs, and then continues.
    WorkerStopped,
    /// The NATS servers restart, one after the other.
    ServersRestart,
    /// The workers restart, one after the other.
    WorkersRestart,
    /// The clock of one worker is an hour fast, that of another one an hour slow.
    Clocks,
}

/// Lengths of faults.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Time for which a node is cut off.
    pub cut: Duration,
    /// Time for which runs are queued where nothing is cut off.
    pub load: Duration,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { cut: Duration::from_secs(20), load: Duration::from_secs(20) }
    }
}

/// The moments of a fault.
#[derive(Clone, Debug)]
pub(crate) struct Lasted {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// A remark for the table.
    pub(crate) remark: String,
}

impl Fault {
    /// Returns its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Lets the fault happen, from its beginning to its end.
    pub(crate) fn happen(self, fleet: &mut Fleet, observed: &Observed, lengths: Lengths) -> anyhow::Result<Lasted> {
        let began = Instant::now();
        let remark = match self {
            Self::Calm => {
                std::thread::sleep(lengths.load);
                String::new()
            }
            Self::WorkerCut => cut(fleet, &[WORKERS[0]], lengths)?,
            Self::LeaderCut => {
                let (leader, _) = fleet.bus.leader_and_follower()?;
                cut(fleet, &[&leader], lengths)?
            }
            Self::FollowerCut => {
                let (_, follower) = fleet.bus.leader_and_follower()?;
                cut(fleet, &[&follower], lengths)?
            }
            Self::LeaderAndWorkerCut => {
                let (leader, _) = fleet.bus.leader_and_follower()?;
                cut(fleet, &[&leader, WORKERS[0]], lengths)?
            }
            Self::DatabaseCut => cut(fleet, &[DATABASE], lengths)?,
            Self::WorkerStopped => stop_and_continue(fleet, observed)?,
            Self::ServersRestart => {
                for server in SERVERS {
                    fleet.bus.stop_server(server)?;
                    fleet.bus.start_server(server)?;
                    fleet.bus.wait_until_whole()?;
                }
                String::new()
            }
            Self::WorkersRestart => {
                for worker in WORKERS {
                    fleet.stop_worker(worker)?;
                    fleet.start_worker(worker, &[])?;
                    std::thread::sleep(lengths.load / 5);
                }
                String::new()
            }
            Self::Clocks => {
                let library = faketime()?;
                for (worker, shift) in [(WORKERS[0], "+1h"), (WORKERS[1], "-1h")] {
                    fleet.stop_worker(worker)?;
                    // Pauses are measured by the monotonic clock, which is never set.
                    let shifted = [("LD_PRELOAD", library.as_str()), ("FAKETIME", shift), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
                    fleet.start_worker(worker, &shifted)?;
                }
                std::thread::sleep(lengths.load);
                "the clocks differ until the last run has ended".to_owned()
            }
        };
        Ok(Lasted { began, ended: Instant::now(), remark })
    }

    /// Returns everything to its usual state when the runs of the trial have ended.
    pub(crate) fn clear(self, fleet: &mut Fleet) -> anyhow::Result<()> {
        if self == Self::Clocks {
            for worker in &WORKERS[..2] {
                fleet.stop_worker(worker)?;
                fleet.start_worker(worker, &[])?;
            }
        }
        fleet.check_workers()?;
        fleet.bus.wait_until_whole()
    }
}

fn cut(fleet: &Fleet, nodes: &[&str], lengths: Lengths) -> anyhow::Result<String> {
    nodes.iter().try_for_each(|node| fleet.network.cut(node))?;
    std::thread::sleep(lengths.cut);
    nodes.iter().try_for_each(|node| fleet.network.join(node))?;
    Ok(format!("{}, for {} s", nodes.join(" and "), lengths.cut.as_secs()))
}

/// Stops a worker that executes runs, until other workers have all of them, and lets it continue.
fn stop_and_continue(fleet: &Fleet, observed: &Observed) -> anyhow::Result<String> {
    let (name, worker) = (WORKERS[1], fleet.worker(WORKERS[1])?);
    let owner = format!("process {}-", worker.id());
    let owned = || -> Vec<String> {
        let runs = observed.runs();
        let is_own = |seen: &crate::observe::Seen| seen.status == "running" && seen.owner.starts_with(&owner);
        runs.iter().filter(|(_, seen)| is_own(seen)).map(|(run, _)| run.clone()).collect()
    };
    crate::wait(&format!("{name} executes two runs"), TAKE_OVER_TIMEOUT, || Ok(owned().len() >= 2))?;
    worker.signal(Signal::STOP)?;
    let began = Instant::now();
    // A commit may have been on its way.
    std::thread::sleep(Duration::from_secs(1));
    let stopped = owned();
    ensure!(!stopped.is_empty(), "{name} had no run left when it was stopped");
    let taken = crate::wait(&format!("other workers have the runs of {name}"), TAKE_OVER_TIMEOUT, || Ok(owned().is_empty()));
    let lasted = began.elapsed();
    worker.signal(Signal::CONT)?;
    taken?;
    Ok(format!("{name} with {} runs, for {} s", stopped.len(), lasted.as_secs()))
}

/// Returns the library that shifts the clock of a program.
fn faketime() -> anyhow::Result<String> {
    let folders = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map(|machine| format!("/usr/lib/{machine}/faketime"));
    let files = folders.map(|folder| format!("{folder}/libfaketime.so.1"));
    let found = files.into_iter().find(|file| std::path::Path::new(file).is_file());
    found.context("libfaketime is missing (apt-get install faketime; `cargo xtask cluster` installs it)")
}
