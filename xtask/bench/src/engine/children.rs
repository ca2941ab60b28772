//! Calls made by the code of a call, beside the same calls made by a model.

use std::sync::Arc;

use anyhow::{Context, ensure};
use baton_models::FunctionModel;
use baton_runtime::Engine;
use baton_types::call::ModelCall;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use super::{Place, finish, finished_calls};
use crate::measurement::{Measurement, Stopwatch, cpu_seconds};
use crate::{Kept, Workload, job};

/// Runs of each kind. The fastest counts, since the others also have what disturbed them.
const ROUNDS: usize = 5;

/// Maker of the calls.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// A model, all in one turn.
    Turn,
    /// A model, each in a turn of its own.
    Turns,
    /// The code of one call, up to 100 at a time.
    Code,
}

/// Kinds of runs: the tool, the maker of its calls, and the figure.
const KINDS: [(&str, By, &str); 6] = [
    ("calc", By::Turn, "direct_us"),
    ("calc", By::Turns, "turn_us"),
    ("calc", By::Code, "child_us"),
    ("route_to_worker", By::Turn, "direct_agent_us"),
    ("route_to_worker", By::Turns, "turn_agent_us"),
    ("route_to_worker", By::Code, "child_agent_us"),
];

/// Measures `n` calls of a tool and `n` delegations, each kind made by a model and by `map` in one call.
pub(super) async fn measure(n: usize, kept: Kept) -> anyhow::Result<Measurement> {
    let watch = Stopwatch::start();
    let mut fastest = [f64::INFINITY; KINDS.len()];
    for _ in 0..ROUNDS {
        for (fastest, (tool, by, _)) in fastest.iter_mut().zip(KINDS) {
            *fastest = fastest.min(cost(n, kept, tool, by).await?);
        }
    }
    let runs = KINDS.len() * ROUNDS;
    let mut measurement = watch.stop(runs * n, runs);
    for ((.., figure), seconds) in KINDS.into_iter().zip(fastest) {
        measurement.set(figure, seconds / n as f64 * 1e6);
    }
    Ok(measurement)
}

/// Returns the processor time of one run with `n` calls of `tool`, in seconds.
async fn cost(n: usize, kept: Kept, tool: &'static str, by: By) -> anyhow::Result<f64> {
    let place = Place::new(kept)?;
    let model = FunctionModel::new(move |request: &ModelRequest| {
        Ok(match (request.agent.as_str(), by, request.turn) {
            ("root", By::Code, 1) => {
                let items: Vec<usize> = (0..n).collect();
                super::call(
                    "map",
                    json!({"tool": tool, "input": input(tool, json!("${item}")), "items": items, "concurrency": 100}),
                )
            }
            ("root", By::Turns, turn) if turn as usize <= n => super::call(tool, input(tool, json!(turn))),
            ("root", By::Turn, 1) => {
                ModelTurn::calls((0..n).map(|item| ModelCall::new(tool, input(tool, json!(item)))).collect())
            }
            _ => ModelTurn::text("done"),
        })
    });
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&place.store));
    let engine = builder.model("m", Arc::new(model)).build()?;
    let job = job::load(Workload::Children, n)?;
    let began = cpu_seconds();
    let run = finish(&engine, job, 1).await.context(tool)?;
    let used = cpu_seconds() - began;
    let finished = finished_calls(&place, &run).await?;
    ensure!(finished == n + usize::from(by == By::Code), "{finished} calls instead of {n}");
    Ok(used)
}

/// Returns the input of one call.
fn input(tool: &str, item: Value) -> Value {
    if tool == "calc" { json!({"a": item, "b": 1}) } else { json!({"request": format!("Work on item {item}."), "documents": []}) }
}
