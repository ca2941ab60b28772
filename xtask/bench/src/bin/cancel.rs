//! Time until a cancelled run is quiet: `cargo xtask cancel`.
//!
//! Quiet means that the run has ended, its last entry is durable in a store on disk, and nothing of it is left: no model
//! request in flight, no command. The models of a run wait once so many answers were given, so that a cancellation finds
//! the run at that very step. The tests of the machine check that everything is closed. This program measures the time, and
//! counts what is left.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use async_trait::async_trait;
use baton_config::{Role, Sources};
use baton_models::{ContentSource, FunctionModel, Model, ModelError, ScriptedModel};
use baton_runtime::{Engine, LoadedJob, RunHandle, RunOutcome, StartOptions};
use baton_store::SqliteStore;
use baton_tool::registered_functions;
use baton_tools as _;
use baton_types::call::ModelCall;
use baton_types::config::ModelSpec;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use clap::Parser;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

/// Options of the command line.
#[derive(Parser)]
struct Options {
    /// Depth of the tree of tasks, below its root
    #[arg(long, default_value_t = 6)]
    depth: u32,
    /// Number of tasks that each of its tasks calls
    #[arg(long, default_value_t = 4)]
    fan_out: usize,
    /// At how many steps the tree is cancelled, evenly spread over all of them
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Number of cancelled commands that ignore the signal
    #[arg(long, default_value_t = 10)]
    commands: usize,
}

/// A model that answers so often, and then keeps all who ask waiting.
struct Waits {
    inner: Arc<dyn Model>,
    answers: Semaphore,
    in_flight: AtomicUsize,
    /// Notified at every request that has to wait.
    waiting: Notify,
}

/// A request, for as long as anybody holds it.
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Model for Waits {
    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _in_flight = InFlight(&self.in_flight);
        if let Ok(answer) = self.answers.try_acquire() {
            answer.forget();
        } else {
            self.waiting.notify_one();
            std::future::pending::<()>().await;
        }
        self.inner.answer(request, contents).await
    }
}

/// Figures of one job.
#[derive(Default)]
struct Figures {
    quiet: Vec<Duration>,
    orphans: usize,
}

impl Figures {
    /// Prints the row of `what`.
    fn print(mut self, what: &str) {
        self.quiet.sort();
        let share = |percent: usize| {
            let index = (self.quiet.len() * percent).div_ceil(100).saturating_sub(1);
            self.quiet.get(index).map_or_else(|| "-".to_owned(), |time| format!("{:.2} ms", time.as_secs_f64() * 1e3))
        };
        println!("| {what} | {} | {} | {} | {} | {} |", self.quiet.len(), self.orphans, share(50), share(99), share(100));
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let folder = tempfile::tempdir()?;
    println!("| job | cancels | orphans | quiet p50 | p99 | longest |\n| --- | --- | --- | --- | --- | --- |");
    q3(folder.path()).await?.print("q3-sales at every request");
    let name = format!("tree of depth {}, fan-out {}", options.depth, options.fan_out);
    tree(&options, folder.path()).await?.print(&name);
    commands(&options, folder.path()).await?.print("command that ignores SIGTERM");
    Ok(())
}

/// Cancels the example at every request to a model.
async fn q3(folder: &Path) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for answers in 0.. {
        let job = shipped(&repository, "q3-sales")?;
        let Some((name, ModelSpec::Scripted { text, .. })) = job.configs.job.models.iter().next() else {
            bail!("the example has no script")
        };
        let (name, script) = (name.clone(), ScriptedModel::parse(text).map_err(|faults| anyhow!("{faults:?}"))?);
        if !cancelled_after(&mut figures, folder, job, &name, Arc::new(script), answers).await? {
            break;
        }
    }
    Ok(figures)
}

/// Returns a shipped job, with the built-in tools.
fn shipped(repository: &Path, name: &str) -> anyhow::Result<LoadedJob> {
    let mut configs = Vec::new();
    for entry in std::fs::read_dir(repository.join("tool-configs"))? {
        let path = entry?.path();
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        configs.push((id, std::fs::read_to_string(&path)?));
    }
    let shipped = |id: &str| configs.iter().any(|(name, _)| name == id);
    let functions: Vec<_> = registered_functions().into_iter().filter(|function| shipped(function.id)).collect();
    let builtin: Vec<_> = configs.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
    LoadedJob::read(&repository.join("examples").join(name), &builtin, &functions).map_err(|error| anyhow!("{error}"))
}

/// Cancels the tree at some of its steps.
async fn tree(options: &Options, folder: &Path) -> anyhow::Result<Figures> {
    let (depth, fan_out) = (options.depth, options.fan_out);
    let answer = move |request: &ModelRequest| {
        let level: u32 = request.agent.as_str()[1..].parse().unwrap_or_default();
        let calls = match request.turn {
            1 if level < depth => {
                let route = || ModelCall::new(format!("route_to_l{}", level + 1), json!({"request": "go"}));
                std::iter::repeat_with(route).take(fan_out).collect()
            }
            _ => vec![ModelCall::new("handoff", json!({"result": {"summary": "done"}}))],
        };
        Ok(ModelTurn::calls(calls))
    };
    let agents = (0..=depth).map(|level| {
        let tools: Vec<String> =
            (level < depth).then(|| format!("route_to_l{}", level + 1)).into_iter().chain(["handoff".to_owned()]).collect();
        (format!("l{level}"), tools)
    });
    let agents: Vec<_> = agents.collect();
    let inner: usize = (0..depth).map(|depth| fan_out.pow(depth)).sum();
    let answers = 2 * inner + fan_out.pow(depth);
    let mut figures = Figures::default();
    for step in 0..options.steps {
        let model = Arc::new(FunctionModel::new(answer));
        cancelled_after(&mut figures, folder, job(&agents, None)?, "m", model, step * answers / options.steps).await?;
    }
    Ok(figures)
}

/// Cancels commands that ignore the signal, each once it runs.
async fn commands(options: &Options, folder: &Path) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    for number in 0..options.commands {
        let began = folder.join(format!("began-{number}"));
        ensure!(std::process::Command::new("mkfifo").arg(&began).status()?.success(), "no pipe at {}", began.display());
        let script = format!("trap '' TERM; echo $$ > '{}'; while :; do sleep 600; done", began.display());
        let tool = json!({
            "tool_id": "command", "type": "function_tool", "description": "Never ends.", "input_schema": {"type": "object"},
            "exec": {"command": ["sh", "-c", script]}, "effect": "idempotent",
        });
        let agents = [("l0".to_owned(), vec!["command".to_owned(), "handoff".to_owned()])];
        let model = FunctionModel::new(|_: &ModelRequest| Ok(ModelTurn::calls(vec![ModelCall::new("command", json!({}))])));
        let engine = engine(folder, "m", Arc::new(model))?;
        let handle = engine.start(job(&agents, Some(&tool))?, StartOptions::default()).await?;
        let process = tokio::fs::read_to_string(&began).await?;
        figures.quiet.push(quiet(&handle).await?);
        let is_there = std::process::Command::new("kill").args(["-0", process.trim()]).output()?.status.success();
        figures.orphans += usize::from(is_there);
    }
    Ok(figures)
}

/// Runs `job` until `answers` were given, cancels it, and measures; false if it ended before.
async fn cancelled_after(
    figures: &mut Figures,
    folder: &Path,
    job: LoadedJob,
    name: &str,
    inner: Arc<dyn Model>,
    answers: usize,
) -> anyhow::Result<bool> {
    let model =
        Arc::new(Waits { inner, answers: Semaphore::new(answers), in_flight: AtomicUsize::new(0), waiting: Notify::new() });
    let engine = engine(folder, name, Arc::clone(&model) as Arc<dyn Model>)?;
    let handle = engine.start(job, StartOptions::default()).await?;
    tokio::select! {
        () = model.waiting.notified() => {}
        outcome = handle.outcome_without_people() => match outcome {
            // Nothing is in flight while a person is asked, and that is a step like any other.
            RunOutcome::WaitingForPerson => {}
            RunOutcome::Ended { .. } => return Ok(false),
            RunOutcome::Stopped | RunOutcome::ProviderAway(_) | RunOutcome::Failed(_) => bail!("the run stopped before it was cancelled"),
        },
    }
    figures.quiet.push(quiet(&handle).await?);
    figures.orphans += model.in_flight.load(Ordering::SeqCst);
    Ok(true)
}

/// Cancels a run and waits until nothing of it is left.
async fn quiet(handle: &RunHandle) -> anyhow::Result<Duration> {
    let began = Instant::now();
    handle.cancel("0".into(), "measured", &Principal::program("cancel")).await?;
    let outcome = handle.outcome().await;
    let quiet = began.elapsed();
    ensure!(matches!(outcome, RunOutcome::Ended { .. }), "the run has not ended");
    Ok(quiet)
}

fn engine(folder: &Path, name: &str, model: Arc<dyn Model>) -> anyhow::Result<Engine> {
    let store = SqliteStore::open(folder.join("runs.db"))?;
    Ok(Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::new(store)).model(name, model).build()?)
}

/// Returns a job of `agents` with their tools, the first of them its root, and a tool of its own.
fn job(agents: &[(String, Vec<String>)], tool: Option<&Value>) -> anyhow::Result<LoadedJob> {
    let mut sources = Sources::new("");
    let job = json!({
        "job_id": "measured", "description": "It is cancelled.", "root": agents[0].0, "request": "Begin.",
        "models": {"m": {"provider": "scripted", "script": "m.script.json"}},
        "limits": {"turns": 10_000_000, "depth": 100, "live_tasks": 10_000_000},
    });
    sources.add(Role::Job, "job.json", job.to_string());
    sources.add(Role::ModelScript, "m.script.json", json!({"agents": {}}).to_string());
    sources.add(Role::BuiltinTool, "tool-configs/handoff.json", include_str!("../../../../tool-configs/handoff.json"));
    if let Some(tool) = tool {
        sources.add(Role::Tool, "tools/command.json", tool.to_string());
    }
    for (id, tools) in agents {
        let agent = json!({
            "agent_id": id, "description": "An agent.", "model": "m", "system_prompt": "Continue.", "tools": tools,
        });
        sources.add(Role::Agent, format!("agents/{id}.json"), agent.to_string());
    }
    LoadedJob::from_sources(sources, &[]).map_err(|faults| anyhow!("{faults}"))
}
