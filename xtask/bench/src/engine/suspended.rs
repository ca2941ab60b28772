//! Suspended calls of many runs in one store: what the worker of them holds, and how soon it takes a delivery.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use baton_models::FunctionModel;
use baton_runtime::{Continued, Engine, StartOptions, WorkOptions, WorkReport};
use baton_types::call::ModelCall;
use baton_types::entry::Entry;
use baton_types::id::{CallId, RunId};
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use serde_json::json;
use tokio::process::Command;

use super::Place;
use super::blocked::percentile;
use crate::measurement::{Measurement, Stopwatch, cpu_seconds, rss_bytes, unix_seconds};
use crate::{Workload, job};

/// The most deliveries.
const DELIVERIES: usize = 1_000;

/// Time between two deliveries, so that each is taken by a process at rest.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest time until all deliveries are in their runs.
const LONGEST: Duration = Duration::from_mins(2);

/// Measures the worker of `runs` runs with `n` suspended calls together, in a file or in `database`. Other processes make the store and deliver.
pub(super) async fn measure(n: usize, runs: usize, database: Option<&str>) -> anyhow::Result<Measurement> {
    let folder = tempfile::tempdir()?;
    let address = database.map_or_else(|| folder.path().join("bench.db").display().to_string(), str::to_owned);
    in_another_process(n, runs, "--make", &address).await?;

    let watch = Stopwatch::start();
    let place = Place::at(&address).await?;
    let engine = engine(&place, 0)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn({
        let engine = engine.clone();
        async move {
            let report = |report: WorkReport<'_>| {
                let WorkReport::Run(run, worker) = report else { return };
                if let Continued::Failed(error) = worker {
                    eprintln!("{run}: {error}");
                }
            };
            engine.work(WorkOptions::default(), async { drop(stopped.await) }, report).await
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = cpu_seconds();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = cpu_seconds() - idle;
    let at_rest = rss_bytes();

    let sent = in_another_process(n, runs, "--deliver", &address).await?;
    let mut waits = taken(&place, &sent).await?;
    drop(stop);
    worker.await??;
    waits.sort_unstable();
    let mut measurement = watch.stop(0, runs);
    measurement.set("rest_rss_mb", at_rest / f64::from(1 << 20));
    measurement.set("idle_cpu_s", idle);
    measurement.set("wake_p50_us", percentile(&waits, 50));
    measurement.set("wake_p99_us", percentile(&waits, 99));
    measurement.set("answered", waits.len() as f64);
    Ok(measurement)
}

/// Starts this program for `step` and returns what it prints.
async fn in_another_process(n: usize, runs: usize, step: &str, address: &str) -> anyhow::Result<String> {
    let mut other = Command::new(std::env::current_exe()?);
    other.args(["suspended", "--store", "sqlite", "--n", &n.to_string(), "--conc", &runs.to_string(), step, address]);
    let output = other.stderr(Stdio::inherit()).output().await?;
    ensure!(output.status.success(), "{step} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns how long each delivery in `sent` took: from the moment before it was sent until its run had it.
async fn taken(place: &Place, sent: &str) -> anyhow::Result<Vec<Duration>> {
    let mut began: HashMap<(RunId, CallId), f64> = HashMap::new();
    for line in sent.lines() {
        let mut words = line.split(' ');
        let (Some(run), Some(call), Some(at)) = (words.next(), words.next(), words.next()) else {
            bail!("an unknown line: {line}")
        };
        began.insert((RunId::new(run), CallId::new(call)), at.parse()?);
    }
    let ends = tokio::time::Instant::now() + LONGEST;
    let mut waits = Vec::new();
    while !began.is_empty() {
        ensure!(tokio::time::Instant::now() < ends, "{} deliveries were not taken", began.len());
        tokio::time::sleep(Duration::from_millis(500)).await;
        waits.clear();
        for (run, call) in began.keys() {
            let finished = finished_at(place, run, call).await?;
            waits.extend(
                finished.map(|finished| Duration::from_secs_f64((finished - began[&(run.clone(), call.clone())]).max(0.0))),
            );
        }
        if waits.len() == began.len() {
            break;
        }
    }
    Ok(waits)
}

/// Returns when `call` got its result, in seconds since 1970.
async fn finished_at(place: &Place, run: &RunId, call: &CallId) -> anyhow::Result<Option<f64>> {
    let mut after = 0;
    loop {
        let page = place.store.entries(run, after, 1_000).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = last.seq;
        let is_result = |entry: &Entry| matches!(entry, Entry::CallFinished(finished) if finished.call == *call);
        if let Some(recorded) = page.iter().find(|recorded| is_result(&recorded.entry)) {
            return Ok(Some(recorded.at.as_micros() as f64 / 1e6));
        }
    }
}

/// Makes a store at `address` with `n` suspended calls in `runs` runs that no process continues.
pub(super) async fn make(n: usize, runs: usize, address: &str) -> anyhow::Result<()> {
    let place = Place::at(address).await?;
    let engine = engine(&place, n / runs)?;
    let job = job::load(Workload::Suspended, n)?;
    for _ in 0..runs {
        let handle = engine.start(job.clone(), StartOptions::default()).await?;
        ensure!(handle.until_idle().await.is_none(), "the run does not wait");
        handle.stop().await;
    }
    Ok(())
}

/// Delivers the result of one call in each of up to [`DELIVERIES`] runs, and prints run, call and moment of each.
pub(super) async fn deliver(address: &str) -> anyhow::Result<()> {
    let place = Place::at(address).await?;
    let engine = engine(&place, 0)?;
    let call = CallId::from("0/1.1");
    for record in place.store.runs().await?.into_iter().take(DELIVERIES) {
        let began = unix_seconds();
        let output = Json::from(&json!({"paid": true}));
        engine.deliver(&record.id, &call, &Principal::program("bench"), Ok(output)).await.context("a delivery was refused")?;
        println!("{} {} {began}", record.id.as_str(), call.as_str());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns an engine whose model waits for `calls` events in its first turn.
fn engine(place: &Place, calls: usize) -> anyhow::Result<Engine> {
    let model = FunctionModel::new(move |request: &ModelRequest| {
        Ok(match request.turn {
            1 => {
                ModelTurn::calls((0..calls).map(|_| ModelCall::new("wait_for_event", json!({"event": "It is paid."}))).collect())
            }
            _ => ModelTurn::text("done"),
        })
    });
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&place.store));
    Ok(builder.model("m", Arc::new(model)).build()?)
}
