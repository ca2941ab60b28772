//! Calls made by the code of a call, beside the same calls made by a model.

use std::sync::Arc;

use anyhow::{Context, ensure};
use baton_models::FunctionModel;
use baton_runtime::{Engine, StartOptions};
use baton_types::call::ModelCall;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use super::{Place, completed, finished_calls};
use crate::measurement::{Measurement, Stopwatch, cpu_seconds};
use crate::{Kept, Workload, job};

/// Pairs of runs. The fastest of each kind counts, since the others also have what disturbed them.
const PAIRS: usize = 5;

/// Measures `n` calls of a tool and `n` delegations, each kind made by a model in one turn and by `map` in one call.
pub(super) async fn measure(n: usize, kept: Kept) -> anyhow::Result<Measurement> {
    let watch = Stopwatch::start();
    let mut fastest = [f64::INFINITY; 4];
    for _ in 0..PAIRS {
        for (index, (tool, is_inner)) in
            [("calc", false), ("calc", true), ("route_to_worker", false), ("route_to_worker", true)].into_iter().enumerate()
        {
            fastest[index] = fastest[index].min(cost(n, kept, tool, is_inner).await?);
        }
    }
    let mut measurement = watch.stop(4 * PAIRS * n, 4 * PAIRS);
    for (figure, seconds) in ["direct_us", "child_us", "direct_agent_us", "child_agent_us"].into_iter().zip(fastest) {
        measurement.set(figure, seconds / n as f64 * 1e6);
    }
    Ok(measurement)
}

/// Returns the processor time of one run with `n` calls of `tool`, in seconds.
async fn cost(n: usize, kept: Kept, tool: &'static str, is_inner: bool) -> anyhow::Result<f64> {
    let place = Place::new(kept)?;
    let model = FunctionModel::new(move |request: &ModelRequest| {
        Ok(match (request.agent.as_str(), request.turn) {
            ("root", 1) if is_inner => {
                let items: Vec<usize> = (0..n).collect();
                super::call(
                    "map",
                    json!({"tool": tool, "input": input(tool, json!("${item}")), "items": items, "concurrency": 100}),
                )
            }
            ("root", 1) => ModelTurn::calls((0..n).map(|item| ModelCall::new(tool, input(tool, json!(item)))).collect()),
            _ => ModelTurn::text("done"),
        })
    });
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&place.store));
    let engine = builder.model("m", Arc::new(model)).build()?;
    let job = job::load(Workload::Children, n)?;
    let began = cpu_seconds();
    let handle = engine.start(job, StartOptions::default()).await?;
    completed(&handle).await.context(tool)?;
    let used = cpu_seconds() - began;
    let finished = finished_calls(&place, handle.id()).await?;
    ensure!(finished == n + usize::from(is_inner), "{finished} calls instead of {n}");
    Ok(used)
}

/// Returns the input of one call.
fn input(tool: &str, item: Value) -> Value {
    if tool == "calc" { json!({"a": item, "b": 1}) } else { json!({"request": "Work on it.", "documents": []}) }
}
