//! A run that another process left unfinished, continued.

use std::future::pending;
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use baton_models::{ContentSource, FunctionModel, Model, ModelError};
use baton_runtime::{Engine, StartOptions};
use baton_store::{Batch, MemoryStore, NewRun, Store};
use baton_types::entry::Entry;
use baton_types::id::RunId;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::json;
use tokio::sync::Notify;

use super::place::Watched;
use super::{Place, call, completed};
use crate::measurement::{Measurement, Stopwatch};
use crate::{Workload, job};

/// The run's id.
const RUN: &str = "unfinished";

/// Entries of one commit when the store is made.
const CHUNK: usize = 1_000;

/// Measures from before the store is opened to the first request of the continued run's model.
pub(super) async fn measure(n: usize) -> anyhow::Result<Measurement> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.db");
    // Another process makes it, so that neither its memory nor its time is in the figures.
    let mut other = Command::new(std::env::current_exe()?);
    other.args(["resume", "--n", &n.to_string(), "--make"]).arg(&file);
    let status = other.status().context("the process that makes the store cannot be started")?;
    ensure!(status.success(), "the store was not made");
    let made = RunId::new(RUN);

    let watch = Stopwatch::start();
    let first = Arc::new(Mutex::new(None));
    let asked = Arc::clone(&first);
    let model = FunctionModel::new(move |_: &ModelRequest| {
        asked.lock().expect("no holder of the lock panics").get_or_insert_with(|| watch.stop(0, 1));
        Ok(ModelTurn::text("done"))
    });
    let place = Place::at(&file.display().to_string()).await?;
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::clone(&place.store))
        .model("m", Arc::new(model))
        .build()?;
    completed(engine.resume(&made).await?.outcome().await)?;
    let entries = place.store.run(&made).await?.context("the run is unknown")?.last_seq;
    ensure!(entries >= n as u64, "the run had only {entries} entries");
    first.lock().expect("no holder of the lock panics").take().context("the model was not asked")
}

/// A model that answers until a run has `entries` entries, and then never again.
struct Stalling {
    watched: Arc<Watched>,
    entries: u64,
    stalled: Arc<Notify>,
}

#[async_trait]
impl Model for Stalling {
    async fn answer(&self, request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        if self.watched.entries_appended() >= self.entries {
            self.stalled.notify_one();
            return pending().await;
        }
        Ok(call("calc", json!({"a": request.turn, "b": 1})))
    }
}

/// Makes a store at `address` with a run of at least `n` entries that stopped in the middle.
///
/// It is driven in memory and written down in large commits: the same entries as turn by turn, in less time.
pub(super) async fn make(n: usize, address: &str) -> anyhow::Result<()> {
    let watched = Watched::new(Arc::new(MemoryStore::new()));
    let stalled = Arc::new(Notify::new());
    let model = Stalling { watched: Arc::clone(&watched), entries: n as u64, stalled: Arc::clone(&stalled) };
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::clone(&watched) as Arc<dyn Store>)
        .model("m", Arc::new(model))
        .build()?;
    let options = StartOptions { run: Some(RunId::new(RUN)), ..StartOptions::default() };
    let handle = engine.start(job::load(Workload::Resume, n)?, options).await?;
    stalled.notified().await;
    handle.stop().await;

    let run = handle.id().clone();
    let record = watched.run(&run).await?.context("the run is unknown")?;
    let place = Place::at(address).await?;
    place.store.create(NewRun { id: run.clone(), job: record.job, at: record.created, past: None, trigger: None }).await?;
    let epoch = place.store.take_over(&run, "bench", 0).await?;
    let mut written = 0;
    while written < record.last_seq {
        let mut batch = Batch::new(run.clone(), epoch, written);
        batch.entries = watched.entries(&run, written, CHUNK).await?;
        for recorded in &batch.entries {
            if let Entry::RunStarted(started) = &recorded.entry {
                let configs = watched.content(started.configs).await?.context("the configs are missing")?;
                batch.contents.push((started.configs, configs));
            }
        }
        written += batch.entries.len() as u64;
        place.store.append(batch).await?;
    }
    Ok(())
}
