//! Budgets of whole runs: money with and without prices, and what takes too long.

use std::sync::Arc;

use async_trait::async_trait;
use baton_models::{ContentSource, Model, ModelError};
use baton_runtime::{Engine, RunError, RunOutcome, StartOptions, SteadyClock};
use baton_store::{MemoryStore, Store};
use baton_types::entry::FinalState;
use baton_types::limits::Limits;
use baton_types::model::{ModelRequest, ModelTurn, Usage};
use baton_types::money::Money;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::support::{TestJob, call_error, call_result, calls, engine, handoff, model, root, run_to_end};

/// Returns a job whose model costs `price`, if given, and that may cost `cost_usd`.
fn job(price: Option<Value>, cost_usd: f64) -> TestJob {
    let mut own = json!({"provider": "scripted", "script": "m.script.json"});
    if let Some(price) = price {
        own["price"] = price;
    }
    TestJob::new("solo", json!({"models": {"m": own}, "limits": {"cost_usd": cost_usd}})).agent("solo", &["handoff"])
}

fn using(input_tokens: u64, cached_tokens: u64, output_tokens: u64) -> Arc<dyn Model> {
    let usage = Usage { input_tokens, cached_tokens, output_tokens, ..Usage::default() };
    model(move |_, _, _| ModelTurn { usage: Some(usage), ..handoff("done", &[]) })
}

#[tokio::test]
async fn a_model_that_a_program_brings_needs_a_price_where_money_is_limited() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = engine(Arc::clone(&store), &using(1, 0, 1));
    let started = engine.start(job(None, 1.0).load(), StartOptions::default()).await;
    let Err(RunError::Unpriced(faults)) = started.map(|_| ()) else { panic!("the limit cannot be kept") };
    let told = faults.to_string();
    assert!(told.contains("error B0129") && told.contains("test/job.json:1:") && told.contains("\"m\""), "{told}");
    assert_eq!(store.runs().await.unwrap(), [], "nothing is stored");
    let stand_in = StartOptions { model: Some("m".to_owned()), ..StartOptions::default() };
    assert!(matches!(engine.start(job(None, 1.0).load(), stand_in).await.map(|_| ()), Err(RunError::Unpriced(_))));
    let free = TestJob::new("solo", json!({})).agent("solo", &["handoff"]).load();
    let limited = StartOptions { limits: Limits { cost_usd: Some(1.0), ..Limits::default() }, ..StartOptions::default() };
    let Err(RunError::Unpriced(faults)) = engine.start(free, limited).await.map(|_| ()) else { panic!("it cannot be kept") };
    assert!(faults.to_string().contains("run-limits:1:"), "{faults}");
}

#[tokio::test]
async fn a_limit_of_the_start_stands_in_place_of_the_jobs_own_and_outlives_what_the_run_adopts() {
    let price = json!({"input": 3, "output": 15});
    let asks = model(|_, _, _| calls(&[("ask_master", json!({"question": "Which?"}))]));
    let engine = engine(Arc::new(MemoryStore::default()), &asks);
    let job = |cost| {
        let models = json!({"m": {"provider": "scripted", "script": "m.script.json", "price": price}});
        let job = TestJob::new("solo", json!({"models": models, "limits": {"cost_usd": cost, "turns": 7}}));
        job.agent("solo", &["ask_master", "handoff"]).load()
    };
    let limits = Limits { cost_usd: Some(1.0), ..Limits::default() };
    let options = StartOptions { limits, ..StartOptions::default() };
    let handle = engine.start(job(0.0), options).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson), "it may cost something");
    handle.stop().await;
    let adopted = engine.migrate(handle.id(), job(0.5).sources(), &Principal::person("ada")).await.unwrap();
    let limits = engine.state(adopted.id()).await.unwrap().configs().job.limits.clone();
    assert_eq!((limits.cost_usd, limits.turns), (Some(1.0), Some(7)));
}

#[tokio::test]
async fn what_a_run_costs_is_what_its_job_says_of_its_models() {
    let price = json!({"input": 3, "cached_input": 0.3, "output": 15});
    let engine = engine(Arc::new(MemoryStore::default()), &using(1_000, 400, 100));
    let finished = run_to_end(&engine, job(Some(price), 1.0).load()).await;
    let expected = Money::from_usd(600.0 * 3e-6 + 400.0 * 0.3e-6 + 100.0 * 15e-6);
    assert_eq!(finished.run.totals().cost.total(), Some(expected));
    assert_eq!(finished.run.spent(&root()).unwrap().cost.total(), Some(expected));
}

#[tokio::test]
async fn a_run_that_may_cost_nothing_asks_nobody() {
    let price = json!({"input": 3, "output": 15});
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = engine(Arc::clone(&store), &using(1, 0, 1));
    let finished = run_to_end(&engine, job(Some(price), 0.0).load()).await;
    assert_eq!((finished.status, finished.run.totals().turns), ("partial", 0));
    let listed = store.runs().await.unwrap().remove(0);
    assert_eq!((listed.status.as_str(), listed.owner), ("partial", None), "it ended with its first step");
}

/// A model that never answers.
pub(crate) struct Silent;

#[async_trait]
impl Model for Silent {
    async fn answer(&self, _request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        std::future::pending().await
    }
}

fn steady(model: Arc<dyn Model>) -> Engine {
    let clock = Arc::new(SteadyClock::starting_at(Timestamp::from_micros(1)));
    Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .model("m", model)
        .clock(clock)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_model_that_never_answers_is_given_up_after_its_time() {
    tokio::time::pause();
    let job = TestJob::new("solo", json!({"limits": {"turn_seconds": 90}})).agent("solo", &["handoff"]).load();
    let before = tokio::time::Instant::now();
    let finished = run_to_end(&steady(Arc::new(Silent)), job).await;
    assert_eq!(before.elapsed().as_secs(), 90);
    assert_eq!(finished.status, "timeout");
    assert_eq!(finished.run.ended().map(|ended| ended.state), Some(FinalState::TimedOut));
}

#[tokio::test]
async fn a_call_that_tells_its_progress_may_go_on_and_a_silent_one_may_not() {
    tokio::time::pause();
    let number = |description: &str| json!({"type": "integer", "description": description, "required": true});
    let job = TestJob::new("solo", json!({}))
        .agent("solo", &["plod", "handoff"])
        .tool("plod", json!({"steps": number("How many."), "seconds": number("How long.")}), json!({"idle_seconds": 10}))
        .load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("plod", json!({"steps": 6, "seconds": 9})), ("plod", json!({"steps": 1, "seconds": 11}))]),
        _ => handoff("done", &[]),
    });
    let finished = run_to_end(&steady(answers), job).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "54 seconds, never ten of them silent");
    assert_eq!(call_result(&finished.entries, "0/1.2"), "timeout timed_out");
    assert_eq!(call_error(&finished.entries, "0/1.2"), "the call reported no progress for 10 s; it may have taken effect");
}
