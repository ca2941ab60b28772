//! Providers that are away: the run waits for them, in virtual time, and never fails because of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use baton_models::{ContentSource, FunctionModel, Model, ModelError};
use baton_proof::random::Random;
use baton_runtime::{Engine, NextAttempt, Progress, RunHandle, RunOutcome, StartOptions, SteadyClock};
use baton_store::{MemoryStore, Store};
use baton_types::call::CallStatus;
use baton_types::entry::{ControlAction, Entry, Recorded, Waited};
use baton_types::id::TaskId;
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Finished, TestJob, calls, finish, handoff, name_of, run_to_end};

/// A provider that is away between two moments, and otherwise answers after a second.
struct Away {
    began: Instant,
    from: Duration,
    until: Duration,
    error: ModelError,
    asked: AtomicUsize,
}

impl Away {
    fn new(from: u64, until: u64, error: ModelError) -> Arc<Self> {
        let (from, until) = (Duration::from_secs(from), Duration::from_secs(until));
        Arc::new(Self { began: Instant::now(), from, until, error, asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Model for Away {
    async fn answer(&self, request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let now = self.began.elapsed();
        if (self.from..self.until).contains(&now) {
            return Err(self.error.clone());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(said(request))
    }
}

/// Answers as a lead that delegates to two workers, each of which has three turns.
fn said(request: &ModelRequest) -> ModelTurn {
    match (request.agent.as_str(), request.turn) {
        ("lead", 1) => calls(&[("route_to_worker", json!({"request": "a"})), ("route_to_worker", json!({"request": "b"}))]),
        ("worker", turn) if turn < 3 => calls(&[("ask_later", json!({"turn": turn}))]),
        _ => handoff("done", &[]),
    }
}

fn unreachable() -> ModelError {
    let (provider, url) = ("far".to_owned(), "http://127.0.0.1:9".to_owned());
    ModelError::Unreachable { provider, url, reason: "connection refused".to_owned() }
}

fn failing() -> ModelError {
    ModelError::Unavailable { reason: "far failed with status 503: busy".to_owned() }
}

fn limited(seconds: u64) -> ModelError {
    let retry_after = Some(Duration::from_secs(seconds));
    ModelError::RateLimited { provider: "far".to_owned(), message: "slow down".to_owned(), retry_after }
}

fn refused() -> ModelError {
    ModelError::KeyRefused { provider: "far".to_owned(), variable: None, message: "bad key".to_owned() }
}

fn engine(store: &Arc<dyn Store>, model: Arc<dyn Model>) -> Engine {
    let clock = Arc::new(SteadyClock::starting_at(Timestamp::from_micros(1)));
    Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::clone(store))
        .model("m", model)
        .clock(clock)
        .build()
        .unwrap()
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Returns the job of [`said`]; `extra` is merged into its `job.json`.
fn job(extra: Value) -> TestJob {
    let note = json!({"tool_id": "ask_later", "type": "non_function_tool", "description": "Notes a turn.",
        "parameters": {"turn": {"type": "integer", "description": "Which.", "required": true}}});
    let mut job = TestJob::new("lead", extra).agent("lead", &["route_to_worker", "handoff"]);
    job = job.agent("worker", &["ask_later", "handoff"]);
    job.tool_by_schema("ask_later", note)
}

async fn entries(handle: &RunHandle) -> Vec<Arc<Recorded>> {
    handle.entries().map(Result::unwrap).collect().await
}

fn waits(entries: &[Arc<Recorded>]) -> Vec<(TaskId, Waited)> {
    let waits = entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::Control(control) => match &control.action {
            ControlAction::Waited(waited) => Some((control.task.clone()?, (**waited).clone())),
            _ => None,
        },
        _ => None,
    });
    waits.collect()
}

fn assert_done(finished: &Finished) {
    assert_eq!(finished.status, "success");
    let failed = finished.entries.iter().filter(|recorded| match &recorded.entry {
        Entry::TaskEnded(ended) => ended.result.status != CallStatus::Success,
        _ => false,
    });
    assert_eq!(failed.count(), 0, "no caller is told of a failure");
}

/// Number of trials (default); `BATON_OUTAGE_TRIALS` overrides it.
const TRIALS: u64 = 300;

#[tokio::test]
async fn a_provider_that_is_away_for_ten_minutes_at_most_fails_no_run() {
    tokio::time::pause();
    let trials = std::env::var("BATON_OUTAGE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(TRIALS);
    let (mut away, mut asked) = (0, 0);
    for seed in 0..trials {
        let mut random = Random::seeded(seed);
        let (from, lasts) = (random.below(8) as u64, random.below(601) as u64);
        let error = random.pick(&[unreachable(), failing(), limited(7), limited(300)]).clone();
        let provider = Away::new(from, from + lasts, error);
        let worked = json!({"limits": {"worked_seconds": 30}});
        let finished = run_to_end(&engine(&store(), Arc::clone(&provider) as Arc<dyn Model>), job(worked).load()).await;
        assert_done(&finished);
        away += usize::from(!waits(&finished.entries).is_empty());
        asked += provider.asked.load(Ordering::Relaxed);
    }
    println!("{trials} runs, {away} of them met an outage, {asked} attempts: 0 failed");
    assert!(away * 2 > usize::try_from(trials).unwrap(), "{away} of {trials} met an outage");
}

#[tokio::test]
async fn a_run_that_can_do_nothing_else_stops_when_its_window_ends_and_goes_on_when_it_is_resumed() {
    tokio::time::pause();
    for (error, window, waited) in
        [(unreachable(), 60, 30..=60), (limited(86_400), 3_600, 0..=0), (refused(), 3_600, 0..=0), (failing(), 0, 0..=0)]
    {
        let store = store();
        let provider = Away::new(0, 100_000, error.clone());
        let job = job(json!({"outage_seconds": window, "limits": {"worked_seconds": 30}})).load();
        let before = Instant::now();
        let handle = engine(&store, provider).start(job, StartOptions::default()).await.unwrap();
        let outcome = handle.outcome().await;
        let RunOutcome::ProviderAway(away) = &outcome else { panic!("{error}: {}", name_of(&outcome)) };
        assert!(waited.contains(&before.elapsed().as_secs()), "{error}: {:?}", before.elapsed());
        assert_eq!((away[0].task.as_str(), away[0].provider.as_str(), &away[0].reason), ("0", "m", &error.to_string()));
        let record = store.run(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.status.as_str(), record.owner), ("waiting for m", None));
        let recorded = entries(&handle).await;
        let [(task, waited)] = waits(&recorded).try_into().unwrap();
        assert_eq!((task.as_str(), waited.stops, waited.uncharged), ("0", true, !error.may_cost()), "{error}");
        assert!(!recorded.iter().any(|recorded| matches!(recorded.entry, Entry::TaskEnded(_))), "nothing has ended");
        // A day later it is there again.
        tokio::time::advance(Duration::from_hours(24)).await;
        let later = Away::new(0, 0, unreachable());
        let engine = engine(&store, later);
        let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
        assert_done(&finished);
        let settled = finished.entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::BudgetSettled(settled) => Some(settled.usage.total()),
            _ => None,
        });
        assert_eq!(settled == Some(0), waited.uncharged, "{error}: what was not charged costs nothing");
    }
}

/// Answers for one worker, and never for the other.
fn half() -> Arc<dyn Model> {
    Arc::new(FunctionModel::new(|request: &ModelRequest| match request.task.as_str() {
        "0/1.1" => Err(refused()),
        _ => Ok(said(request)),
    }))
}

#[tokio::test]
async fn other_tasks_continue_and_the_caller_gets_no_error() {
    tokio::time::pause();
    let store = store();
    let handle = engine(&store, half()).start(job(json!({})).load(), StartOptions::default()).await.unwrap();
    let outcome = handle.outcome().await;
    assert!(matches!(&outcome, RunOutcome::ProviderAway(away) if away.len() == 1), "{}", name_of(&outcome));
    let ended: Vec<String> = entries(&handle)
        .await
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::TaskEnded(ended) => Some(format!("{} {}", ended.task, ended.result.status.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(ended, ["0/1.2 success"], "the other worker is done, and nobody else has ended");
    let engine = engine(&store, Away::new(0, 0, unreachable()));
    assert_done(&finish(&engine, &engine.resume(handle.id()).await.unwrap()).await);
}

#[tokio::test]
async fn a_question_to_a_person_comes_before_an_outage() {
    tokio::time::pause();
    let asks: Arc<dyn Model> = Arc::new(FunctionModel::new(|request: &ModelRequest| match request.agent.as_str() {
        "lead" if request.turn == 1 && !request.is_question => {
            Ok(calls(&[("route_to_worker", json!({"request": "a"})), ("ask_master", json!({"question": "Which?"}))]))
        }
        "worker" => Err(refused()),
        _ => Ok(handoff("done", &[])),
    }));
    let job = TestJob::new("lead", json!({}))
        .agent("lead", &["route_to_worker", "ask_master", "handoff"])
        .agent("worker", &["handoff"])
        .load();
    let handle = engine(&store(), asks).start(job, StartOptions::default()).await.unwrap();
    let outcome = handle.outcome_without_people().await;
    assert!(matches!(outcome, RunOutcome::WaitingForPerson), "{}", name_of(&outcome));
    let question = handle.open_questions().await.remove(0).task;
    handle.answer(question, &Principal::person("ada"), Json::from(json!("this one")), Vec::new()).await.unwrap();
    let outcome = handle.outcome().await;
    assert!(matches!(outcome, RunOutcome::ProviderAway(_)), "only the provider is waited for now: {}", name_of(&outcome));
}

#[tokio::test]
async fn a_deadline_holds_while_a_provider_is_away() {
    tokio::time::pause();
    let provider = Away::new(0, 100_000, unreachable());
    let job = job(json!({"limits": {"deadline_seconds": 90}})).load();
    let before = Instant::now();
    let finished = run_to_end(&engine(&store(), provider), job).await;
    assert_eq!((finished.status, before.elapsed().as_secs()), ("timeout", 90));
}

#[tokio::test]
async fn the_limit_of_a_turn_bounds_an_attempt_and_not_an_outage() {
    tokio::time::pause();
    let provider = Away::new(0, 600, unreachable());
    let finished = run_to_end(&engine(&store(), provider), job(json!({"limits": {"turn_seconds": 10}})).load()).await;
    assert_done(&finished);
}

#[tokio::test]
async fn watchers_receive_every_retry_and_the_return_of_the_provider() {
    tokio::time::pause();
    let provider = Away::new(0, 120, unreachable());
    let engine = engine(&store(), provider);
    let handle = engine.start(job(json!({})).load(), StartOptions::default()).await.unwrap();
    let mut progress = handle.progress().unwrap();
    finish(&engine, &handle).await;
    let (mut attempts, mut returned) = (Vec::new(), Vec::new());
    while let Ok(report) = progress.recv().await {
        match &*report {
            Progress::BacksOff(back_off) => {
                assert_eq!((back_off.task.as_str(), back_off.turn, back_off.provider.as_str()), ("0", 1, "m"));
                assert_eq!(back_off.reason, unreachable().to_string());
                assert!(matches!(back_off.next, NextAttempt::At(_)), "{back_off:?}");
                attempts.push(back_off.attempt);
            }
            Progress::Returned { provider, away } => returned.push((provider.clone(), away.as_secs())),
            Progress::Call { .. } => panic!("{report:?}"),
        }
    }
    let number = u32::try_from(attempts.len()).unwrap();
    assert!(number >= 7, "{attempts:?}");
    assert_eq!(attempts, (2..number + 2).collect::<Vec<_>>(), "each failed attempt is followed by one report");
    assert!(matches!(&returned[..], [(provider, 120..=200)] if provider == "m"), "{returned:?}");
}

#[tokio::test]
async fn retries_before_a_fallback_and_waits_for_a_person_are_reported() {
    tokio::time::pause();
    let handle = engine(&store(), half()).start(job(json!({})).load(), StartOptions::default()).await.unwrap();
    let mut progress = handle.progress().unwrap();
    let _away = handle.outcome().await;
    let report = progress.recv().await.unwrap();
    let Progress::BacksOff(back_off) = &*report else { panic!("{report:?}") };
    assert_eq!((back_off.task.as_str(), back_off.next, back_off.attempt), ("0/1.1", NextAttempt::OnResume, 2));

    let second = Arc::new(FunctionModel::new(|request: &ModelRequest| Ok(said(request))));
    let models = json!({"models": {"m": {"model": "openai:a", "fallbacks": ["openai:b"]}}});
    let clock = Arc::new(SteadyClock::starting_at(Timestamp::from_micros(1)));
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(store()).clock(clock);
    let engine = builder.model("m", Away::new(0, 600, failing())).model("openai:b", second).build().unwrap();
    let handle = engine.start(job(models).load(), StartOptions::default()).await.unwrap();
    let mut progress = handle.progress().unwrap();
    assert_done(&finish(&engine, &handle).await);
    let mut retried = 0;
    while let Ok(report) = progress.recv().await {
        retried += usize::from(matches!(&*report, Progress::BacksOff(back_off) if back_off.attempt > 1));
    }
    assert!(retried >= 4, "{retried} retries were reported before the fallback");
}
