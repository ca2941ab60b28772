//! Suspended calls: results that are delivered from outside, or that a moment brings.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_models::Model;
use baton_runtime::{
    Clock, Continued, Delivery, Engine, ForkOptions, LoadedJob, RunError, RunHandle, RunOutcome, StartOptions, SteadyClock,
    WorkOptions, WorkReport,
};
use baton_store::{MemoryStore, SqliteStore, Store, StoreError};
use baton_types::entry::{Entry, ForkedEffects};
use baton_types::event::Refusal;
use baton_types::id::{CallId, RunId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::{Gate, keys_of};
use crate::support::{TestJob, call_error, call_output, calls, engine, finish, handoff, model, name_of};

/// Returns a job whose agent hands one call over to the outside.
fn job() -> LoadedJob {
    let input = json!({
        "gate": {"type": "string", "description": "Where to wait.", "required": false},
        "milliseconds": {"type": "integer", "description": "How long to wait.", "required": false},
    });
    let output = json!({"by": {"type": "string", "description": "Who delivered it."}});
    let config = json!({"effect": "keyed", "suspends": true, "returns": output});
    TestJob::new("solo", json!({})).agent("solo", &["hand_over", "handoff"]).tool("hand_over", input, config).load()
}

/// Returns a model that hands over with `input` and then hands off.
fn handing_over(input: Value) -> Arc<dyn Model> {
    model(move |_, turn, _| match turn {
        1 => calls(&[("hand_over", input.clone())]),
        _ => handoff("done", &[]),
    })
}

fn person() -> Principal {
    Principal::person("ann")
}

fn call() -> CallId {
    CallId::from("0/1.1")
}

fn by(name: &str) -> Json {
    Json::from(json!({"by": name}))
}

async fn start(engine: &Engine) -> RunHandle {
    engine.start(job(), StartOptions::default()).await.unwrap()
}

/// Waits until the run waits, and stops it.
async fn leave(handle: &RunHandle) {
    assert!(handle.until_idle().await.is_none(), "the run waits");
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
}

#[tokio::test]
async fn a_result_is_delivered_after_any_number_of_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baton.db");
    let opened = || engine(Arc::new(SqliteStore::open(&path).unwrap()), &handing_over(json!({})));
    let first = opened();
    let handle = start(&first).await;
    let id = handle.id().clone();
    leave(&handle).await;
    drop((handle, first));
    for _ in 0..3 {
        let engine = opened();
        leave(&engine.resume(&id).await.unwrap()).await;
    }
    let engine = opened();
    let keys = keys_of(id.as_str());
    assert_eq!(keys, [engine.delivery_key(&id, &call()).await.unwrap()], "the code ran once, and its key stays");
    assert_eq!(engine.call_of_key(&keys[0]).await.unwrap(), (id.clone(), call()));
    assert_eq!(engine.deliver(&id, &call(), &person(), Ok(by("ann"))).await.unwrap(), Delivery::Queued);
    let again = engine.deliver(&id, &call(), &person(), Ok(by("bob"))).await.err();
    assert!(matches!(again, Some(RunError::Refused(Refusal::NotSuspended { .. }))), "the first counts: {again:?}");
    let finished = finish(&engine, &engine.resume(&id).await.unwrap()).await;
    assert_eq!((finished.status, call_output(&finished.entries, "0/1.1")), ("success", json!({"by": "ann"})));
}

#[tokio::test]
async fn a_key_of_another_store_opens_nothing() {
    let [one, other] = [(); 2].map(|()| engine(Arc::new(MemoryStore::default()), &handing_over(json!({}))));
    let handle = start(&one).await;
    leave(&handle).await;
    let key = one.delivery_key(handle.id(), &call()).await.unwrap();
    let forged = format!("{}:{}", key.rsplit_once(':').unwrap().0, "0".repeat(32));
    assert!(matches!(one.call_of_key(&forged).await, Err(RunError::UnknownKey)));
    assert!(matches!(other.call_of_key(&key).await, Err(RunError::UnknownKey)));
    assert!(one.call_of_key(&key).await.is_ok());
}

#[tokio::test]
async fn a_delivery_that_comes_before_the_code_has_ended_waits_for_its_end() {
    let gate = Gate::named("before the end");
    let engine = engine(Arc::new(MemoryStore::default()), &handing_over(json!({"gate": "before the end"})));
    let handle = start(&engine).await;
    gate.reached().await;
    let [key] = keys_of(handle.id().as_str()).try_into().unwrap();
    let (run, call) = engine.call_of_key(&key).await.unwrap();
    assert_eq!(engine.deliver(&run, &call, &person(), Ok(by("ann"))).await.unwrap(), Delivery::Queued);
    assert_eq!(engine.state(&run).await.unwrap().suspended_calls().count(), 0);
    gate.open();
    let finished = finish(&engine, &handle).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"by": "ann"}));
}

#[tokio::test]
async fn a_delivery_is_checked_and_a_refused_one_may_be_sent_again() {
    let engine = engine(Arc::new(MemoryStore::default()), &handing_over(json!({})));
    let handle = start(&engine).await;
    assert!(handle.until_idle().await.is_none());
    let wrong = engine.deliver(handle.id(), &call(), &person(), Ok(Json::from(json!({"by": 7})))).await.err();
    assert!(matches!(wrong, Some(RunError::Refused(Refusal::InvalidDelivery { .. }))), "{wrong:?}");
    let failed = Err("the bank refused".to_owned());
    assert_eq!(engine.deliver(handle.id(), &call(), &person(), failed).await.unwrap(), Delivery::Done);
    let finished = finish(&engine, &handle).await;
    assert_eq!(call_error(&finished.entries, "0/1.1"), "the bank refused");
}

#[tokio::test]
async fn a_crash_at_any_commit_changes_nothing_in_the_end() {
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let store = Arc::new(MemoryStore::default()) as Arc<dyn Store>;
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, failing)), &handing_over(json!({})));
            let ended = match doomed.start(job(), StartOptions::default()).await {
                Ok(handle) => {
                    if handle.until_idle().await.is_none() {
                        // The store may fail before the delivery, and with it.
                        let _outcome = doomed.deliver(handle.id(), &call(), &person(), Ok(by("ann"))).await;
                    }
                    match handle.outcome().await {
                        RunOutcome::Failed(RunError::Store(error)) => {
                            assert!(matches!(*error, StoreError::Closed));
                            false
                        }
                        RunOutcome::Ended { .. } => true,
                        other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
                    }
                }
                Err(RunError::Store(_)) => false,
                Err(error) => panic!("crash {failing:?} {commits}: {error}"),
            };
            if ended {
                break;
            }
            crashes += 1;
            let Some(run) = store.runs().await.unwrap().first().map(|run| run.id.clone()) else { continue };
            let engine = engine(Arc::clone(&store), &handing_over(json!({})));
            let handle = engine.resume(&run).await.unwrap();
            if handle.until_idle().await.is_none() {
                engine.deliver(&run, &call(), &person(), Ok(by("ann"))).await.unwrap();
            }
            let finished = finish(&engine, &handle).await;
            assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"by": "ann"}), "crash {failing:?} {commits}");
            let suspended = finished.entries.iter().filter(|at| matches!(at.entry, Entry::CallSuspended(_))).count();
            assert_eq!(suspended, 1, "crash {failing:?} {commits}");
        }
    }
    assert!(crashes >= 8, "only {crashes} crashes were tried");
}

#[tokio::test]
async fn a_fork_shares_no_delivery_with_its_original() {
    let engine = engine(Arc::new(MemoryStore::default()), &handing_over(json!({})));
    let handle = start(&engine).await;
    leave(&handle).await;
    let ann = person();
    let fork = |effects| engine.fork(handle.id(), &ann, ForkOptions { effects, ..ForkOptions::default() });
    let refused = finish(&engine, &fork(ForkedEffects::Recorded).await.unwrap()).await;
    assert!(call_error(&refused.entries, "0/1.1").contains("acts outside the run"), "the original has no result yet");
    let allowed = fork(ForkedEffects::New).await.unwrap();
    assert!(allowed.until_idle().await.is_none());
    let [key] = keys_of(allowed.id().as_str()).try_into().unwrap();
    assert_eq!(engine.call_of_key(&key).await.unwrap().0, *allowed.id());
    engine.deliver(handle.id(), &call(), &person(), Ok(by("ann"))).await.unwrap();
    assert_eq!(engine.state(allowed.id()).await.unwrap().suspended_calls().count(), 1);
    let original = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
    assert_eq!(original.status, "success");
    allowed.stop().await;
    let recorded = finish(&engine, &fork(ForkedEffects::Recorded).await.unwrap()).await;
    assert_eq!(call_output(&recorded.entries, "0/1.1"), json!({"by": "ann"}), "the result of the original is taken");
}

#[tokio::test]
async fn a_fork_does_not_sleep_again() {
    let job = TestJob::new("solo", json!({})).agent("solo", &["sleep", "handoff"]).built_in("sleep").load();
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let answers = model(move |_, turn, _| {
        count.fetch_add(1, Ordering::Relaxed);
        if turn == 1 { calls(&[("sleep", json!({"seconds": 1}))]) } else { handoff("done", &[]) }
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    let original = finish(&engine, &handle).await;
    let ann = person();
    let fork = |effects| engine.fork(handle.id(), &ann, ForkOptions { effects, ..ForkOptions::default() });
    let same = finish(&engine, &fork(ForkedEffects::Recorded).await.unwrap()).await;
    assert_eq!(call_output(&same.entries, "0/1.1"), call_output(&original.entries, "0/1.1"), "the same moment");
    assert!(!same.entries.iter().any(|recorded| matches!(recorded.entry, Entry::CallSuspended(_))));
    assert_eq!(asked.load(Ordering::Relaxed), 2, "no model is asked again");
    let again = fork(ForkedEffects::All).await.unwrap();
    assert!(finish(&engine, &again).await.entries.iter().any(|recorded| matches!(recorded.entry, Entry::CallSuspended(_))));
}

/// Reports of a working engine: the state of each run that continued.
type Reports = Arc<Mutex<BTreeMap<RunId, String>>>;

#[tokio::test]
async fn a_worker_continues_waiting_runs() {
    let folder = tempfile::tempdir().unwrap();
    let opened = |input: Value| {
        let store = Arc::new(SqliteStore::open(folder.path().join("baton.db")).unwrap());
        engine(store, &handing_over(input))
    };
    let (asleep, waiting) = (opened(json!({"milliseconds": 300})), opened(json!({})));
    let mut runs = Vec::new();
    for engine in [&asleep, &waiting, &waiting, &asleep, &waiting] {
        let handle = start(engine).await;
        leave(&handle).await;
        runs.push(handle.id().clone());
    }
    // The last one is asked nothing.
    let never = runs.pop().unwrap();
    let (reports, worker) = (Reports::default(), opened(json!({})));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let reported = Arc::clone(&reports);
    let continued = tokio::spawn(async move {
        let report = |report: WorkReport<'_>| {
            let WorkReport::Run(run, continued) = report else { panic!("there is no schedule") };
            let state = match continued {
                Continued::Over(RunOutcome::Ended { .. }) => "ended".to_owned(),
                Continued::Over(other) => name_of(other),
                Continued::Waits | Continued::Quarantined => "waits".to_owned(),
                Continued::Failed(error) => panic!("{run}: {error}"),
            };
            reported.lock().unwrap().insert(run.clone(), state);
        };
        let until = async { drop(stopped.await) };
        worker.work(WorkOptions::default(), until, report).await.unwrap();
    });
    for run in [&runs[1], &runs[2]] {
        waiting.deliver(run, &call(), &person(), Ok(by("ann"))).await.unwrap();
    }
    let began = std::time::Instant::now();
    while reports.lock().unwrap().len() < runs.len() {
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", reports.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stop);
    continued.await.unwrap();
    let reports = std::mem::take(&mut *reports.lock().unwrap());
    assert!(runs.iter().all(|run| reports[run] == "ended") && !reports.contains_key(&never), "{reports:?}");
    let finished = waiting.state(&runs[0]).await.unwrap();
    assert!(finished.ended().is_some());
    assert!(waiting.state(&never).await.unwrap().ended().is_none());
}

#[tokio::test]
async fn a_worker_continues_a_run_soon_after_another_process_releases_it() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::named("released");
    let opened = || {
        let model = model(|_, turn, _| match turn {
            1 => calls(&[("hand_over", json!({}))]),
            2 => calls(&[("hand_over", json!({"gate": "released"}))]),
            _ => handoff("done", &[]),
        });
        engine(Arc::new(SqliteStore::open(folder.path().join("baton.db")).unwrap()), &model)
    };
    let work = |engine: Engine, stopped: tokio::sync::oneshot::Receiver<()>| {
        tokio::spawn(async move { engine.work(WorkOptions::default(), async { drop(stopped.await) }, |_| {}).await.unwrap() })
    };
    let (first, second) = (opened(), opened());
    let handle = start(&first).await;
    leave(&handle).await;
    first.deliver(handle.id(), &call(), &person(), Ok(by("ann"))).await.unwrap();
    let (stop_first, stopped) = tokio::sync::oneshot::channel();
    let first_worker = work(first, stopped);
    gate.reached().await;
    let (stop_second, stopped) = tokio::sync::oneshot::channel();
    let second_worker = work(second, stopped);
    // The second one looks at the run while the first one holds it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(stop_first);
    first_worker.await.unwrap();
    // Without a second look it would come only after ten seconds.
    tokio::time::timeout(Duration::from_secs(6), gate.reached()).await.expect("the run continues soon");
    gate.open();
    drop(stop_second);
    second_worker.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_continues_a_run_whose_store_was_full() {
    for commits in 1..4 {
        let store = Arc::new(FailingStore::new(Arc::new(MemoryStore::new()), commits, Failing::Full));
        let clock = Arc::new(SteadyClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000)));
        let answers = model(|_, turn, _| match turn {
            1 => calls(&[("sleep", json!({"seconds": 1}))]),
            _ => handoff("done", &[]),
        });
        let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(store.clone()).model("m", answers);
        let engine = builder.clock(clock).build().unwrap();
        let job = TestJob::new("solo", json!({})).agent("solo", &["sleep", "handoff"]).built_in("sleep").load();
        let run = engine.queue(job, StartOptions::default()).await.unwrap();
        let completed = async {
            while store.run(&run).await.unwrap().unwrap().status != "completed" {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let failed = Mutex::new(0);
        let report = |report: WorkReport<'_>| {
            let is_failure =
                |continued: &Continued| matches!(continued, Continued::Failed(_) | Continued::Over(RunOutcome::Failed(_)));
            *failed.lock().unwrap() += i32::from(matches!(report, WorkReport::Run(_, continued) if is_failure(continued)));
        };
        let work = engine.work(WorkOptions::default(), completed, report);
        tokio::time::timeout(Duration::from_mins(5), work).await.expect("the run is tried again").unwrap();
        assert_eq!(*failed.lock().unwrap(), 1, "commit {commits}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_continues_a_year_of_daily_timers_to_its_end() {
    const DAYS: u32 = 365;
    let limits = json!({"limits": {"turns": 1_000}});
    let job = TestJob::new("solo", json!({})).agent_with("solo", &["sleep", "handoff"], limits).built_in("sleep").load();
    let began = Timestamp::from_micros(1_800_000_000_000_000);
    let clock = Arc::new(SteadyClock::starting_at(began));
    let daily = model(|_, turn, _| match turn {
        1..=DAYS => calls(&[("sleep", json!({"seconds": 86_400}))]),
        _ => handoff("done", &[]),
    });
    let store = Arc::new(MemoryStore::new());
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(store.clone()).model("m", daily);
    let engine = builder.clock(clock.clone()).build().unwrap();
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    leave(&handle).await;
    let (over, is_over) = tokio::sync::oneshot::channel();
    let (over, woken) = (Mutex::new(Some(over)), Mutex::new(0));
    let report = |report: WorkReport<'_>| match report {
        WorkReport::Schedules(_) | WorkReport::StoreAway(_) => panic!("there is neither a schedule nor an outage"),
        WorkReport::Run(_, Continued::Waits | Continued::Quarantined) => *woken.lock().unwrap() += 1,
        WorkReport::Run(_, Continued::Over(outcome)) => drop(over.lock().unwrap().take().map(|over| over.send(name_of(outcome)))),
        WorkReport::Run(_, Continued::Failed(error)) => panic!("{error}"),
    };
    // Time passes only while every run waits, up to the moment of the next timer.
    let began_at = std::time::Instant::now();
    let time = async {
        loop {
            assert!(began_at.elapsed() < Duration::from_mins(2), "{} days", woken.lock().unwrap());
            let due = store.due(clock.now(), 1).await.unwrap();
            match due.next.filter(|_| due.runs.is_empty()) {
                Some(next) => tokio::time::advance(next.since(clock.now())).await,
                None => tokio::task::yield_now().await,
            }
        }
    };
    let continued = engine.work(WorkOptions::default(), async { drop(is_over.await) }, report);
    tokio::select! {
        continued = continued => continued.unwrap(),
        () = time => {}
    }
    let state = engine.state(handle.id()).await.unwrap();
    assert!(state.ended().is_some_and(|end| end.status.as_str() == "success"));
    assert_eq!((*woken.lock().unwrap(), state.totals().calls), (DAYS - 1, DAYS));
    let took = state.totals().latest.since(began);
    let (year, slack) = (Duration::from_hours(24) * DAYS, Duration::from_secs(1) * DAYS);
    assert!(year <= took && took < year + slack, "{took:?}");
}
