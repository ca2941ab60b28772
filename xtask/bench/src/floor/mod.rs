//! The benchmark jobs written by hand, in plain Rust with no engine: what they cost at the least.
//!
//! The same agents do the same things. A model's turn goes through JSON text both ways, each agent is a tokio task, each tool
//! call leaves an entry in a timeline, and documents have what lists of documents show. Nothing is looked up in a config,
//! checked, limited or recovered, and no conversation is rendered.
//!
//! It is a yardstick, so it is written as one would write it who has only these jobs: neither tuned nor hindered.

mod agent;
mod disk;

use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt};

use self::agent::Job;
use self::disk::Disk;
use crate::measurement::{Measurement, Stopwatch, tenths};
use crate::tools::FIRST_CALL;
use crate::{Kept, Workload, calls};

/// Measures `workload` on the floor.
pub(crate) fn measure(workload: Workload, n: usize, conc: usize, kept: Kept) -> anyhow::Result<Measurement> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(jobs(workload, n, conc, kept))
}

async fn jobs(workload: Workload, n: usize, conc: usize, kept: Kept) -> anyhow::Result<Measurement> {
    ensure!(calls(workload, n) > 0, "the floor has no {workload:?}: it measures what only an engine does");
    let disk = Disk::open(kept)?.map(Arc::new);
    let jobs = if workload == Workload::Q3 { n } else { 1 };
    let watch = Stopwatch::start();
    let last = futures_util::stream::iter(0..jobs)
        .map(|_| finish(workload, n, disk.clone()))
        .buffer_unordered(conc)
        .try_fold(None, async |_, job| Ok(Some(job)))
        .await?;
    let mut measurement = watch.stop(jobs * calls(workload, n), jobs);
    if let Some(job) = last {
        tenths(&mut measurement, &job.marks(), n / 10);
    }
    if workload == Workload::Startup {
        measurement.startup(*FIRST_CALL.get().context("no tool was called")?);
    }
    Ok(measurement)
}

/// One job, from its request to the end of its root.
async fn finish(workload: Workload, n: usize, disk: Option<Arc<Disk>>) -> anyhow::Result<Arc<Job>> {
    let job = Arc::new(Job::new(workload, n, disk));
    tokio::spawn(agent::work(Arc::clone(&job), job.root(), "Do the job.".to_owned())).await??;
    ensure!(job.calls() == calls(workload, n), "{} calls instead of {}", job.calls(), calls(workload, n));
    Ok(job)
}
