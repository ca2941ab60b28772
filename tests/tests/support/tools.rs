//! Tools that misbehave, and tools that count.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use baton_macros::tool;
use baton_tool::{ModelAsk, PendingWrite, ToolContext, ToolError, parse_path};
use baton_types::call::CallResult;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

/// Number of effects of each call, by idempotency key, as the outside world saw them.
static LEDGER: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);

/// Keys that calls handed over, by run.
static KEYS: LazyLock<Mutex<HashMap<String, Vec<String>>>> = LazyLock::new(Mutex::default);

/// Gates by name, opened by a test.
static GATES: LazyLock<Mutex<HashMap<String, Arc<Gate>>>> = LazyLock::new(Mutex::default);

/// A place where calls wait until a test releases them.
#[derive(Default)]
pub(crate) struct Gate {
    reached: Notify,
    opened: Notify,
}

impl Gate {
    /// Returns the gate called `name`.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(name.to_owned()).or_default())
    }

    /// Waits until a call has come.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Releases one call, now or when it comes.
    pub(crate) fn open(&self) {
        self.opened.notify_one();
    }
}

/// Returns the number of effects of run `run`, by call.
pub(crate) fn effects_of(run: &str) -> Vec<(String, u32)> {
    let ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = format!("{run}/");
    let mut effects: Vec<_> =
        ledger.iter().filter_map(|(key, count)| Some((key.strip_prefix(&prefix)?.to_owned(), *count))).collect();
    effects.sort();
    effects
}

/// Returns the keys that the calls of run `run` handed over, one for each time that the code of one ran.
pub(crate) fn keys_of(run: &str) -> Vec<String> {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned().unwrap_or_default()
}

/// Writes a document.
#[tool]
fn write_note(context: &ToolContext, path: String, content: String) -> Result<Value, ToolError> {
    context.write(PendingWrite::new(parse_path(&path)?, content.into_bytes()))?;
    Ok(json!({"path": path}))
}

/// Adds a line to a document, whatever it holds.
#[tool]
async fn append_line(context: &ToolContext, path: String, line: String) -> Result<Value, ToolError> {
    let before = context.read_text(&path).await.unwrap_or_default();
    context.write(PendingWrite::new(parse_path(&path)?, format!("{before}{line}\n").into_bytes()))?;
    Ok(json!({"lines": before.lines().count() + 1}))
}

/// Reads a document.
#[tool]
async fn read_note(context: &ToolContext, path: String) -> Result<Value, ToolError> {
    Ok(json!({"content": context.read_text(&path).await?}))
}

/// Asks for a document to be injected.
#[tool]
fn load_note(context: &ToolContext, path: String) -> Result<Value, ToolError> {
    Ok(json!({"loaded": context.load(&path)?.path}))
}

/// Does something to the world that can be counted, then waits at the gate.
#[tool]
async fn strike(context: &ToolContext, gate: Option<String>) -> Result<Value, ToolError> {
    let key = context.idempotency_key();
    *LEDGER.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
    if let Some(gate) = gate {
        let gate = Gate::named(&gate);
        gate.reached.notify_one();
        gate.opened.notified().await;
    }
    Ok(json!({"struck": true}))
}

/// Hands its delivery key over to the outside, waits at the gate, and ends without a result: it is delivered, or comes after so many
/// milliseconds.
#[tool]
async fn hand_over(context: &ToolContext, gate: Option<String>, milliseconds: Option<u64>) -> Result<Value, ToolError> {
    let key = context.delivery_key().await?;
    KEYS.lock().unwrap_or_else(PoisonError::into_inner).entry(context.run().to_string()).or_default().push(key);
    if let Some(gate) = gate {
        let gate = Gate::named(&gate);
        gate.reached.notify_one();
        gate.opened.notified().await;
    }
    Err(match milliseconds {
        Some(milliseconds) => {
            context.wait_until(context.now().plus(Duration::from_millis(milliseconds)), json!({"by": "the clock"}))
        }
        None => context.wait_for_delivery(None),
    })
}

/// Returns when `count` calls are waiting here at the same time.
#[tool]
async fn meet(_context: &ToolContext, name: String, count: usize) -> Result<Value, ToolError> {
    static BARRIERS: LazyLock<Mutex<HashMap<String, Arc<Barrier>>>> = LazyLock::new(Mutex::default);
    let barrier = {
        let mut barriers = BARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(barriers.entry(name).or_insert_with(|| Arc::new(Barrier::new(count))))
    };
    barrier.wait().await;
    Ok(json!({"met": count}))
}

/// Panics while it is awaited.
#[tool]
async fn explode() -> Result<Value, ToolError> {
    tokio::task::yield_now().await;
    panic!("the fuse was short")
}

/// Panics on its own thread.
#[tool]
fn explode_on_a_thread() -> Result<Value, ToolError> {
    panic!("the fuse was {}", "short")
}

/// Waits for an hour, and reports a cancellation.
#[tool]
async fn dawdle(context: &ToolContext) -> Result<Value, ToolError> {
    context.sleep(Duration::from_hours(1)).await?;
    Ok(json!({"dawdled": true}))
}

/// Works in steps of so many seconds, and reports each.
#[tool]
async fn plod(context: &ToolContext, steps: u32, seconds: u64) -> Result<Value, ToolError> {
    for step in 1..=steps {
        context.sleep(Duration::from_secs(seconds)).await?;
        context.progress(&format!("step {step}"));
    }
    Ok(json!({"steps": steps}))
}

/// Keeps a thread busy until it is cancelled, then notifies the gate.
#[tool]
fn spin(context: &ToolContext, gate: String) -> Result<Value, ToolError> {
    while context.check_cancelled().is_ok() {
        std::thread::yield_now();
    }
    Gate::named(&gate).reached.notify_one();
    Err(ToolError::cancelled())
}

/// Returns what its config does not promise.
#[tool]
fn lie() -> Result<Value, ToolError> {
    Ok(json!({"count": "many"}))
}

/// Reports its progress.
#[tool]
async fn report(context: &ToolContext, gate: String) -> Result<Value, ToolError> {
    let gate = Gate::named(&gate);
    gate.reached.notify_one();
    gate.opened.notified().await;
    context.progress("half of it");
    Ok(json!({"done": true}))
}

/// Asks a model a few things, one after the other.
#[tool]
async fn consult(context: &ToolContext, model: String, questions: Vec<String>) -> Result<Value, ToolError> {
    let mut answers = Vec::new();
    for question in questions {
        answers.push(context.ask(ModelAsk::of(&model).user(question)).await?.text);
    }
    Ok(json!({"answers": answers}))
}

/// Returns its input: a step that costs nothing.
#[tool]
fn step(n: u64) -> Result<Value, ToolError> {
    Ok(json!({"n": n}))
}

/// Asks `model` and soon gives up, `times` over.
#[tool]
async fn impatient(context: &ToolContext, model: String, times: u32) -> Result<Value, ToolError> {
    for _ in 0..times {
        let ask = context.ask(ModelAsk::of(&model).user("Are you there?").set("max_tokens", Some(1_000)));
        if let Ok(answered) = tokio::time::timeout(Duration::from_millis(20), ask).await {
            return answered.map(|reply| json!({"text": reply.text}));
        }
    }
    Ok(json!({"text": "nobody"}))
}

/// Returns its settings, and the length of its secret.
#[tool]
fn read_settings(context: &ToolContext) -> Result<Value, ToolError> {
    let settings: Value = context.settings()?;
    Ok(json!({"settings": settings, "secret_length": context.secret("USUAL_KEY")?.len()}))
}

/// Delegates `count` times, `at_once` of them in parallel, and returns the answers in the order in which they come. Each request
/// names the answer before, so another order would be another program.
#[tool]
async fn send_out(context: &ToolContext, count: u32, at_once: usize) -> Result<Value, ToolError> {
    let (mut running, mut answers) = (FuturesUnordered::new(), vec!["nothing".to_owned()]);
    for number in 1..=count {
        if running.len() == at_once {
            answers.extend(next_answer(&mut running).await?);
        }
        let request = format!("errand {number} after {}", answers.last().expect("there is one"));
        running.push(context.call_tool(None, "route_to_worker", json!({"request": request})));
    }
    while let Some(answer) = next_answer(&mut running).await? {
        answers.push(answer);
    }
    Ok(json!({"answers": answers[1..]}))
}

async fn next_answer(
    running: &mut (impl futures_util::Stream<Item = Result<Arc<CallResult>, ToolError>> + Unpin),
) -> Result<Option<String>, ToolError> {
    let Some(result) = running.next().await.transpose()? else { return Ok(None) };
    Ok(Some(result.output.value()["summary"].as_str().unwrap_or_else(|| result.status.as_str()).to_owned()))
}

/// Calls `strike`, the first time with one gate and later with another: what no code that makes calls may do.
#[tool]
async fn changes_its_mind(context: &ToolContext, first: String, later: String) -> Result<Value, ToolError> {
    static RUNS: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let is_first = RUNS.lock().unwrap_or_else(PoisonError::into_inner).insert(context.run().to_string());
    let gate = if is_first { first } else { later };
    let struck = context.call_tool(Some("only"), "strike", json!({"gate": gate})).await;
    // The error is no way out.
    Ok(json!({"struck": struck.is_ok()}))
}

/// Calls `dawdle` and soon gives it up, and then takes longer itself than its config allows.
#[tool]
async fn gives_up(context: &ToolContext) -> Result<Value, ToolError> {
    let call = context.call_tool(None, "dawdle", json!({}));
    let in_time = tokio::time::timeout(Duration::from_secs(1), call).await.is_ok();
    context.sleep(Duration::from_mins(11)).await?;
    Ok(json!({"in_time": in_time}))
}
