//! The benchmark jobs on Baton, through its public API as a program embeds it.

mod blocked;
mod children;
mod place;
mod resume;
mod suspended;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};
use baton_models::FunctionModel;
use baton_runtime::{Engine, LoadedJob, RunOutcome, StartOptions};
use baton_store::Store;
use baton_tools as _;
use baton_types::call::ModelCall;
use baton_types::entry::Entry;
use baton_types::id::RunId;
use baton_types::message::Part;
use baton_types::model::{ModelRequest, ModelTurn};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use self::place::{Place, Watched};
use crate::measurement::{Mark, Measurement, Stopwatch, takes_mark, tenths};
use crate::{Kept, Workload, calls, contents, job};

/// Measures `workload` on the engine.
pub(crate) fn measure(
    workload: Workload,
    n: usize,
    conc: usize,
    kept: Kept,
    database: Option<&str>,
) -> anyhow::Result<Measurement> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match workload {
            Workload::Q3 | Workload::Wide | Workload::Deep | Workload::Long => {
                // A task of the runtime starts the jobs, as in a server. The runtime has a thread for each processor, and this thread
                // would compete with them.
                let database = database.map(str::to_owned);
                tokio::spawn(throughput(workload, n, conc, kept, database)).await?
            }
            Workload::Startup => startup(n, kept).await,
            Workload::Blocked => blocked::measure(n, kept).await,
            Workload::Resume => {
                ensure!(kept == Kept::Sqlite, "only a store on disk has runs to resume");
                resume::measure(n).await
            }
            Workload::Children => children::measure(n, kept).await,
            Workload::Suspended => {
                ensure!(kept != Kept::Memory, "only a store on disk has runs that several processes reach");
                suspended::measure(n, conc, database).await
            }
        }
    })
}

fn engine(place: &Place, model: impl Fn(&ModelRequest) -> ModelTurn + Send + Sync + 'static) -> anyhow::Result<Engine> {
    let model = Arc::new(FunctionModel::new(move |request| Ok(model(request))));
    Ok(Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&place.store)).model("m", model).build()?)
}

/// Makes the store that `workload` opens; see [`resume::make`] and [`suspended::make`].
pub(crate) fn make(workload: Workload, n: usize, conc: usize, address: &str) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        if workload == Workload::Suspended { suspended::make(n, conc, address).await } else { resume::make(n, address).await }
    })
}

/// Delivers results to the store at `address`; see [`suspended::deliver`].
pub(crate) fn deliver(address: &str) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(suspended::deliver(address))
}

async fn throughput(
    workload: Workload,
    n: usize,
    conc: usize,
    kept: Kept,
    database: Option<String>,
) -> anyhow::Result<Measurement> {
    let jobs = if workload == Workload::Q3 { n } else { 1 };
    let mut place = match &database {
        Some(address) => Place::at(address).await?,
        None => Place::new(kept)?,
    };
    let watched = (workload == Workload::Q3 && kept == Kept::Sqlite).then(|| Watched::new(Arc::clone(&place.store)));
    if let Some(watched) = &watched {
        place.store = Arc::clone(watched) as Arc<dyn Store>;
    }
    let (marks, turns) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let (taken, taken_turns) = (Arc::clone(&marks), Arc::clone(&turns));
    let answers = Answers::new(workload, n);
    let engine = engine(&place, move |request| {
        taken_turns.fetch_add(1, Ordering::Relaxed);
        if workload == Workload::Long && takes_mark(request.turn as usize, n) {
            taken.lock().expect("no holder of the lock panics").push(Mark::now());
        }
        answers.turn(request)
    })?;
    let job = job::load(workload, n)?;
    let watch = Stopwatch::start();
    let last = futures_util::stream::iter(0..jobs)
        .map(|_| finish(&engine, job.clone(), conc))
        .buffer_unordered(conc)
        .try_fold(None, async |_, run| Ok(Some(run)))
        .await?;
    let mut measurement = watch.stop(jobs * calls(workload, n), jobs);
    if let Some(sqlite) = &place.sqlite {
        let commits = sqlite.stats().commits as f64;
        measurement.set("commits", commits);
        measurement.set("commits_per_turn", commits / turns.load(Ordering::Relaxed) as f64);
    }
    if let Some(watched) = &watched {
        measurement.set("max_commit_gap_ms", watched.longest_gap().as_secs_f64() * 1e3);
    }
    tenths(&mut measurement, &marks.lock().expect("no holder of the lock panics"), n / 10);
    if let Some(run) = last {
        let finished = finished_calls(&place, &run).await?;
        ensure!(finished == calls(workload, n), "{finished} calls instead of {}", calls(workload, n));
    }
    Ok(measurement)
}

/// Returns the number of calls of `run` that have a result.
async fn finished_calls(place: &Place, run: &RunId) -> anyhow::Result<usize> {
    let (mut finished, mut after) = (0, 0);
    loop {
        let page = place.store.entries(run, after, 1_000).await?;
        let Some(last) = page.last() else { return Ok(finished) };
        after = last.seq;
        finished += page.iter().filter(|recorded| matches!(recorded.entry, Entry::CallFinished(_))).count();
    }
}

/// Executes one run of `conc` at a time, from its start to its end. A single one is executed in the calling task.
async fn finish(engine: &Engine, job: LoadedJob, conc: usize) -> anyhow::Result<RunId> {
    let options = StartOptions::default();
    completed(if conc == 1 { engine.run(job, options).await? } else { engine.start(job, options).await?.outcome().await })
}

/// Returns the id of a run that ended with success.
fn completed(outcome: RunOutcome) -> anyhow::Result<RunId> {
    match outcome {
        RunOutcome::Ended { end, result, run } => {
            ensure!(end.status.as_str() == "success", "the run ended {}: {:?}", end.status.as_str(), result);
            Ok(run.started().context("the run has no start")?.run.clone())
        }
        RunOutcome::Failed(error) => Err(error).context("the run failed"),
        _ => bail!("the run stopped"),
    }
}

/// The model of a benchmark: it answers by the agent, the turn and the task's request, never by the history.
struct Answers {
    workload: Workload,
    n: usize,
    report: String,
}

impl Answers {
    fn new(workload: Workload, n: usize) -> Self {
        Self { workload, n, report: contents::report() }
    }

    fn turn(&self, request: &ModelRequest) -> ModelTurn {
        match (self.workload, request.agent.as_str(), request.turn) {
            (Workload::Q3, "root", 1) => {
                call("route_to_analyst", json!({"request": "Analyze Q3 sales", "documents": ["sales_raw.csv"]}))
            }
            (_, "analyst", 1) => call("stop_and_think", json!({"thoughts": "I should aggregate by region first.".repeat(4)})),
            (_, "analyst", 2) => self.write("analysis.md", "text/markdown"),
            (_, "analyst", 3) => {
                call("route_to_visualizer", json!({"request": "Create charts", "documents": ["sales_raw.csv", "analysis.md"]}))
            }
            (_, "analyst", _) => handoff("analysis complete", &["analysis.md", "charts.md"]),
            (_, "visualizer", 1) => call("load_to_context", json!({"path": "sales_raw.csv"})),
            (_, "visualizer", 2) => self.write("charts.md", "text/markdown"),
            (_, "visualizer", _) => handoff("charts created", &["charts.md"]),
            (Workload::Wide, "root", 1) => delegations("route_to_worker", self.n),
            (_, "worker", turn @ 1..=4) => call("calc", json!({"a": turn, "b": number(request)})),
            (_, "worker", 5) => self.write(&format!("doc_{}.md", number(request)), "text/markdown"),
            (_, "worker", _) => handoff("ok", &[&format!("doc_{}.md", number(request))]),
            (_, "level", 1) => match level(request).unwrap_or(self.n) {
                0 => self.write("leaf.md", "text/markdown"),
                level => call("route_to_level", json!({"request": format!("level={}", level - 1), "documents": []})),
            },
            (_, "level", _) if level(request).is_some() => handoff("up", &["leaf.md"]),
            (Workload::Long, _, turn) if turn as usize <= self.n => call("calc", json!({"a": turn, "b": 1})),
            _ => ModelTurn::text("done"),
        }
    }

    fn write(&self, path: &str, mime_type: &str) -> ModelTurn {
        call("write_file", json!({"path": path, "content": self.report, "mime_type": mime_type}))
    }
}

fn call(tool: &str, input: Value) -> ModelTurn {
    ModelTurn::calls(vec![ModelCall::new(tool, input)])
}

fn handoff(summary: &str, documents: &[&str]) -> ModelTurn {
    call("handoff", json!({"result": {"summary": summary}, "documents": documents}))
}

fn delegations(tool: &str, count: usize) -> ModelTurn {
    ModelTurn::calls(
        (0..count).map(|item| ModelCall::new(tool, json!({"request": format!("item={item}"), "documents": []}))).collect(),
    )
}

/// Returns the number in the task's request, `item=7`.
fn number(request: &ModelRequest) -> usize {
    let first = request.messages.first().and_then(|message| message.parts.first());
    let Some(Part::Request(text)) = first else { return 0 };
    text.split_once('=').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// Returns the level in the task's request; `None` at the root.
fn level(request: &ModelRequest) -> Option<usize> {
    let Some(Part::Request(text)) = request.messages.first().and_then(|message| message.parts.first()) else { return None };
    text.strip_prefix("level=").and_then(|level| level.parse().ok())
}

async fn startup(n: usize, kept: Kept) -> anyhow::Result<Measurement> {
    let place = Place::new(kept)?;
    let engine = engine(&place, |request| match request.turn {
        1 => call("tool_000", json!({"path": "a.md", "count": 1})),
        _ => ModelTurn::text("done"),
    })?;
    let watch = Stopwatch::start();
    finish(&engine, job::load(Workload::Startup, n)?, 1).await?;
    let mut measurement = watch.stop(1, 1);
    measurement.startup()?;
    Ok(measurement)
}
