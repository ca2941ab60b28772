//! Agents on models of providers, over HTTP from end to end.

mod cassettes;
mod dialects;
mod fallbacks;
mod limits;
mod loops;
mod overshoot;
mod results;
#[allow(dead_code, reason = "it can more than is asked of it here")]
#[path = "../../../engine/models/tests/provider/server.rs"]
pub(crate) mod server;
#[allow(dead_code, reason = "it can more than is asked of it here")]
#[path = "../../../engine/models/tests/recordings/tape.rs"]
mod tape;
mod turns;
mod windows;

use std::sync::Arc;

use baton_runtime::Engine;
use baton_store::MemoryStore;
use serde_json::{Value, json};

/// Returns an engine without models of its own.
fn engine() -> Engine {
    Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .variables(|_| None)
        .build()
        .unwrap()
}

/// Returns the `models.json` of a job whose provider `tape` speaks like `like` at `url`.
fn models(like: &str, url: &str) -> Value {
    json!({"providers": {"tape": {"like": like, "base_url": url}}})
}
