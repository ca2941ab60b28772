//! The browser tool against pages on loopback: what it does, what it refuses, and that nothing of it is left behind.
//!
//! These tests start Chromium. `cargo xtask test` installs it where it is missing.

mod addresses;
mod ends;
mod hostile;
mod pages;
mod site;

use std::sync::Arc;

use baton_models::Model;
use baton_runtime::{Engine, LoadedJob, StartOptions};
use baton_store::MemoryStore;
use serde_json::{Value, json};

use crate::support::{Finished, TestJob, call_error, call_output, calls, finish, handoff, model};

/// Outcome of one call: its output, or its error.
type Outcome = Result<Value, String>;

/// Returns a job whose agent may use the browser, for pages on these hosts.
fn job(hosts: &[String]) -> TestJob {
    TestJob::new("solo", json!({"limits": {"turns": 40}}))
        .agent("solo", &["astral", "handoff"])
        .built_in("astral")
        .changed_tool("astral", json!({"set": {"allow_hosts": hosts}}))
}

/// Returns a model that makes `inputs` one after the other, one in each turn.
fn one_by_one(inputs: Vec<Value>) -> Arc<dyn Model> {
    model(move |_, turn, _| match inputs.get(turn as usize - 1) {
        Some(input) => calls(&[("astral", input.clone())]),
        None => handoff("done", &[]),
    })
}

fn engine(model: Arc<dyn Model>) -> Engine {
    let store = Arc::new(MemoryStore::default());
    Engine::builder().trust(baton_runtime::TrustEverything).store(store).model("m", model).build().unwrap()
}

/// Makes `inputs` one after the other in one run of `job`.
async fn run(job: LoadedJob, inputs: Vec<Value>) -> (Vec<Outcome>, Finished) {
    let count = inputs.len();
    let engine = engine(one_by_one(inputs));
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let finished = finish(&engine, &handle).await;
    let outcome = |number| {
        let call = format!("0/{number}.1");
        let output = call_output(&finished.entries, &call);
        if output.is_null() { Err(call_error(&finished.entries, &call)) } else { Ok(output) }
    };
    ((1..=count).map(outcome).collect(), finished)
}

/// Makes `inputs` in a run whose pages may reach `site` and nothing else on this machine.
async fn browse(site: &site::Site, inputs: Vec<Value>) -> Vec<Outcome> {
    run(job(&[site.address.to_string()]).load(), inputs).await.0
}
