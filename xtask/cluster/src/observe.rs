//! The events of a trial: runs that a client queues, and the states of all runs of the database.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

use crate::Fleet;

/// Time between two looks at the database.
const LOOK: Duration = Duration::from_millis(200);

/// Pause between two runs that a client queues.
const PAUSE: Duration = Duration::from_millis(300);

/// The most runs that are open at the same time. With more, waiting for a free processor would hide the time to recover.
const MAX_OPEN: usize = 16;

/// States of a run that has not ended.
const OPEN: [&str; 6] = ["created", "queued", "running", "waiting", "paused", "quarantined"];

/// A row of the table of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: String,
    pub(crate) owner: String,
    epoch: u64,
    last_seq: u64,
    /// The moment at which it was first seen ended.
    pub(crate) ended: Option<Instant>,
}

impl Seen {
    /// Whether it has not ended.
    pub(crate) fn is_open(&self) -> bool {
        OPEN.contains(&self.status.as_str())
    }
}

/// The runs of the database as they were seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed(Arc<Mutex<BTreeMap<String, Seen>>>);

impl Observed {
    /// Returns the runs.
    pub(crate) fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of runs that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.runs().values().filter(|seen| seen.is_open()).count()
    }
}

/// A thread that does something again and again, until it is asked to end.
#[derive(Debug)]
pub(crate) struct Repeating {
    stop: Arc<Mutex<bool>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Repeating {
    fn start(pause: Duration, mut work: impl FnMut() -> anyhow::Result<()> + Send + 'static) -> Self {
        let stop = Arc::new(Mutex::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !*stopped.lock().unwrap_or_else(PoisonError::into_inner) {
                work()?;
                std::thread::sleep(pause);
            }
            Ok(())
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends the thread, and returns the error that ended it before.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))))
    }
}

impl Drop for Repeating {
    fn drop(&mut self) {
        let _ended = self.end();
    }
}

/// Looks at the runs of the database that are younger than the number `after`, and adds each change of a row to the file `samples`.
pub(crate) fn watch(fleet: &Fleet, after: u64, observed: &Observed, samples: &Path) -> anyhow::Result<Repeating> {
    let (query, observed) = (fleet.query(), observed.clone());
    let mut file = File::create(samples).with_context(|| format!("{}", samples.display()))?;
    let select = format!("SELECT id, status, epoch, last_seq, coalesce(owner, '') FROM baton.runs WHERE run > {after}");
    Ok(Repeating::start(LOOK, move || {
        for line in query(&select).lines() {
            let mut fields = line.splitn(5, '|');
            let mut next = || fields.next().context("a row of five columns");
            let (run, status) = (next()?.to_owned(), next()?.to_owned());
            let (epoch, last_seq, owner) = (next()?.parse()?, next()?.parse()?, next()?.to_owned());
            let mut runs = observed.runs();
            let before = runs.get(&run);
            let mut seen = Seen { status, owner, epoch, last_seq, ended: before.and_then(|before| before.ended) };
            if !seen.is_open() && seen.ended.is_none() {
                seen.ended = Some(Instant::now());
            }
            if before != Some(&seen) {
                let Seen { status, owner, epoch, last_seq, ended: _ } = &seen;
                let sample = json!({"run": run, "status": status, "epoch": epoch, "last_seq": last_seq, "owner": owner});
                writeln!(file, "{sample}")?;
                runs.insert(run, seen);
            }
        }
        Ok(())
    }))
}

/// Starts a client that queues runs whose tags begin with `prefix`. Runs that are queued for sure are added to the file `queued`.
pub(crate) fn queue(fleet: &Fleet, prefix: &str, observed: &Observed, queued: &Path) -> anyhow::Result<Repeating> {
    let mut file = File::create(queued).with_context(|| format!("{}", queued.display()))?;
    let log = fleet.folder().join("logs/client.log");
    let mut log = File::options().create(true).append(true).open(&log).context("the log of the client")?;
    let (observed, prefix, mut number) = (observed.clone(), prefix.to_owned(), 0);
    let make = fleet.clients();
    Ok(Repeating::start(PAUSE, move || {
        if observed.open() >= MAX_OPEN {
            return Ok(());
        }
        number += 1;
        let tag = format!("{prefix}-{number}");
        let answer = make(&["run", "fleet", "--queue", "--trust", "--request", &tag]).output()?;
        let run = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        if answer.status.success() {
            writeln!(file, "{}", json!({"run": run, "tag": tag}))?;
        } else {
            writeln!(log, "{tag} {}: {}", answer.status, String::from_utf8_lossy(&answer.stderr).trim())?;
        }
        Ok(())
    }))
}
