//! The experiments with the store, as many of each as one asks for.

use std::path::Path;
use std::sync::Mutex;

use baton_store::{SqliteStore, Store, StoreError};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::disk::{Disk, Failure, Fault, Operation};
use crate::image::{Image, Platter};
use crate::random::Random;
use crate::workload::{Acknowledged, Acknowledgements, Answer, FILE, Plan, ask_everything, check, perform};

/// Report on the trials of one kind.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of trials.
    pub trials: u64,
    /// Failures, each with the values that repeat it.
    pub failures: Vec<String>,
}

/// Largest number of described failures; further ones are only counted.
const MAX_DESCRIBED: usize = 20;

impl Report {
    fn add(&mut self, repeat: impl FnOnce() -> String, outcome: Result<(), String>) {
        self.trials += 1;
        if let Err(what) = outcome
            && self.failures.len() < MAX_DESCRIBED
        {
            self.failures.push(format!("{}: {what}", repeat()));
        }
    }
}

/// Returns a folder for one trial: in memory where the system supports that, since the machine's own disk is not
/// tested.
pub fn scratch() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}

/// A recording of the workload on a disk without failures.
pub struct Recording {
    plan: Plan,
    /// Operations on the files.
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
        let acknowledged = acknowledged.into_inner().expect("no holder of the lock panics");
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

/// Returns the closed store after the workload: one file.
fn finished_store(tokio: &Runtime, plan: &Plan) -> anyhow::Result<Image> {
    let folder = scratch()?;
    let disk = Disk::watch(folder.path())?;
    tokio.block_on(perform(plan, folder.path(), &disk, &Mutex::default()))?;
    Ok(Image::of(folder.path())?)
}

/// Flips one bit in each page of the store's file, `times` over, and asks everything: each answer is refused or the same.
pub fn flipped_bits(tokio: &Runtime, bytes: usize, times: u64, seed: u64) -> anyhow::Result<Report> {
    let plan = Plan::new(bytes);
    let whole = finished_store(tokio, &plan)?;
    let right = tokio.block_on(answers_of(&whole, &plan))??;
    if let Some(refused) = right.iter().find_map(|answer| answer.as_ref().err()) {
        anyhow::bail!("the undamaged store fails: {refused}");
    }
    let mut report = Report::default();
    let mut random = Random::new(seed);
    let file = &whole.0[FILE];
    for page in 0..file.len() / PAGE * times as usize {
        let (byte, bit) = (page / times as usize * PAGE + random.below(PAGE as u64) as usize, random.below(8));
        let mut damaged = whole.clone();
        damaged.0.get_mut(FILE).expect("the store's file")[byte] ^= 1 << bit;
        let outcome = match tokio.block_on(answers_of(&damaged, &plan))? {
            // It does not open.
            Err(_) => Ok(()),
            Ok(answers) => match right.iter().zip(&answers).position(|(right, answer)| answer.is_ok() && answer != right) {
                Some(question) => Err(format!("question {question} has another answer: {:?}", answers[question])),
                None => Ok(()),
            },
        };
        report.add(|| format!("bit {bit} of byte {byte} (page {})", byte / PAGE + 1), outcome);
    }
    Ok(report)
}

/// Size of SQLite's reads.
const PAGE: usize = 4096;

/// Returns the store's answers to all queries on `image`, if it opens.
async fn answers_of(image: &Image, plan: &Plan) -> anyhow::Result<Result<Vec<Answer>, StoreError>> {
    let folder = scratch()?;
    image.write(folder.path())?;
    Ok(match SqliteStore::open(folder.path().join(FILE)) {
        Ok(store) => Ok(ask_everything(&store, plan).await),
        Err(refused) => Err(refused),
    })
}

/// Cuts the log off at every `step`-th byte of its last 64 KiB, and checks that the store is whole up to some commit, and never
/// has less of a longer log.
pub fn cut_logs(tokio: &Runtime, step: usize) -> anyhow::Result<Report> {
    let recording = Recording::new(tokio, 3_000)?;
    let log = format!("{FILE}-wal");
    // Before the store is closed, and the log with it.
    let end = recording.acknowledged.iter().map(|(at, _)| *at).filter(|at| *at <= recording.log.len()).max().unwrap_or(0);
    let mut platter = Platter::default();
    let mut live = None;
    for operation in &recording.log[..end] {
        platter.push(operation);
        // The longest that the log gets.
        if let Operation::Sync { file, .. } = operation
            && *file == log
        {
            let image = platter.whole();
            let length = |image: &Image| image.0.get(&log).map_or(0, Vec::len);
            if live.as_ref().is_none_or(|best| length(&image) >= length(best)) {
                live = Some(image);
            }
        }
    }
    let live = live.ok_or_else(|| anyhow::anyhow!("the workload has no log"))?;
    let length = live.0[&log].len();
    let mut report = Report::default();
    let mut least = 0;
    for size in (length.saturating_sub(64 << 10)..=length).step_by(step) {
        let mut cut = live.clone();
        cut.0.get_mut(&log).expect("the log").truncate(size);
        let folder = scratch()?;
        cut.write(folder.path())?;
        let outcome = tokio.block_on(async {
            let entries = count_entries(folder.path()).await.map_err(|error| format!("it fails: {error}"))?;
            if entries < least {
                return Err(format!("{entries} entries, and a shorter log had {least}"));
            }
            least = entries;
            check(&recording.plan, folder.path(), &[]).await
        });
        report.add(|| format!("a log of {length} bytes cut to {size}"), outcome);
    }
    Ok(report)
}

async fn count_entries(folder: &Path) -> Result<u64, StoreError> {
    let store = SqliteStore::open(folder.join(FILE))?;
    Ok(store.runs().await?.iter().map(|run| run.last_seq).sum())
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
        (_, Err(other)) => return Err(format!("the store returns: {other}")),
    }
    let acknowledged = acknowledged.into_inner().expect("no holder of the lock panics");
    let owed: Vec<Acknowledged> = acknowledged.into_iter().map(|(_, what)| what).collect();
    check(plan, folder.path(), &owed).await
}
