//! The experiments with the store, as many of each as one asks for.

use std::path::Path;
use std::sync::Mutex;

use baton_store::StoreError;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::disk::{Disk, Failure, Fault, Operation};
use crate::image::Platter;
use crate::random::Random;
use crate::workload::{Acknowledged, Acknowledgements, Plan, check, perform};

/// How the trials of one kind went.
#[derive(Debug, Default)]
pub struct Report {
    /// How many there were.
    pub trials: u64,
    /// What went wrong, each with what repeats it.
    pub failures: Vec<String>,
}

/// Failures beyond this number are counted as trials, not told.
const TOLD: usize = 20;

impl Report {
    fn add(&mut self, repeat: impl FnOnce() -> String, outcome: Result<(), String>) {
        self.trials += 1;
        if let Err(what) = outcome
            && self.failures.len() < TOLD
        {
            self.failures.push(format!("{}: {what}", repeat()));
        }
    }
}

/// A folder for one trial: in memory where the system has such a place, since what is tried is not the machine's disk.
pub fn scratch() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}

/// A recording of the workload on a disk that does as it is told.
pub struct Recording {
    plan: Plan,
    /// What was done to the files.
    pub log: Vec<Operation>,
    acknowledged: Acknowledgements,
}

impl Recording {
    /// Performs the workload, with contents of at most `bytes` bytes, and records it.
    pub fn new(tokio: &Runtime, bytes: usize) -> anyhow::Result<Self> {
        let folder = scratch()?;
        let disk = Disk::watch(folder.path())?;
        let plan = Plan::new(bytes);
        let acknowledged = Mutex::default();
        tokio.block_on(perform(&plan, folder.path(), &disk, &acknowledged))?;
        let acknowledged = acknowledged.into_inner().expect("nobody panics here");
        Ok(Self { plan, log: disk.take_log(), acknowledged })
    }

    /// Cuts the power `images` times, at places spread over the recording, and checks what is left.
    pub fn power_losses(&self, tokio: &Runtime, images: u64, seed: u64) -> anyhow::Result<Report> {
        let mut report = Report::default();
        let mut platter = Platter::default();
        let mut done = 0;
        for image in 0..images {
            // From before the first operation to after the last one.
            let place = (image as usize * self.log.len()) / (images as usize - 1).max(1);
            for operation in &self.log[done..place] {
                platter.push(operation);
            }
            done = place;
            let owed: Vec<_> = self.acknowledged.iter().filter(|(at, _)| *at <= place).map(|(_, what)| what.clone()).collect();
            let folder = scratch()?;
            platter.image(&mut Random::new(seed.wrapping_add(image))).write(folder.path())?;
            let outcome = tokio.block_on(check(&self.plan, folder.path(), &owed));
            report.add(|| format!("image {image} of {images}, seed {seed}, after operation {place}"), outcome);
        }
        Ok(report)
    }
}

/// Lets the disk fail at every `step`-th of the workload's operations, in every way, and checks what is left each time.
pub fn failing_disks(tokio: &Runtime, bytes: usize, step: usize) -> anyhow::Result<Report> {
    let plan = Plan::new(bytes);
    let operations = {
        let folder = scratch()?;
        let disk = Disk::watch(folder.path())?;
        tokio.block_on(perform(&plan, folder.path(), &disk, &Mutex::default()))?;
        disk.operations()
    };
    let mut report = Report::default();
    for (failure, lasting) in [(Failure::Io, false), (Failure::Io, true), (Failure::Full, false), (Failure::Full, true)] {
        for at in (1..=operations).step_by(step) {
            let fault = Fault { at, failure, lasting };
            report.add(|| format!("{fault:?} of {operations}"), tokio.block_on(failing_disk(&plan, fault)));
        }
    }
    Ok(report)
}

async fn failing_disk(plan: &Plan, fault: Fault) -> Result<(), String> {
    let folder = scratch().map_err(|error| error.to_string())?;
    let disk = Disk::watch(folder.path()).map_err(|error| error.to_string())?;
    disk.fail(Some(fault));
    let acknowledged = Mutex::default();
    let done = perform(plan, folder.path(), &disk, &acknowledged).await;
    disk.fail(None);
    match (fault.failure, done) {
        // Some operations may fail without harm: writing the log back is tried again later.
        (_, Ok(()))
        | (Failure::Full, Err(StoreError::StorageFull { .. }))
        | (Failure::Io, Err(StoreError::Failing { .. } | StoreError::Io { .. })) => {}
        (_, Err(other)) => return Err(format!("the store says: {other}")),
    }
    let acknowledged = acknowledged.into_inner().expect("nobody panics here");
    let owed: Vec<Acknowledged> = acknowledged.into_iter().map(|(_, what)| what).collect();
    check(plan, folder.path(), &owed).await
}
