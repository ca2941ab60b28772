//! Announcements of runs: which of them a worker follows. The bus is one of the test's own.

use std::sync::Arc;
use std::time::Duration;

use baton_runtime::{Announced, Bus, Clock, Engine, StartOptions, SteadyClock, WorkOptions};
use baton_store::{MemoryStore, Store};
use baton_types::id::{CallId, RunId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::support::{TestJob, calls, handoff, model};

/// A bus in memory.
struct Channel {
    sender: mpsc::UnboundedSender<Announced>,
    receiver: Mutex<mpsc::UnboundedReceiver<Announced>>,
    announced: std::sync::Mutex<Vec<String>>,
}

impl Channel {
    fn new() -> Arc<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        Arc::new(Self { sender, receiver: Mutex::new(receiver), announced: std::sync::Mutex::default() })
    }

    /// Announces a run, and returns whether that is acknowledged.
    async fn is_acknowledged(&self, run: &RunId) -> bool {
        let (acknowledge, acknowledged) = oneshot::channel();
        self.sender.send(Announced { run: run.clone(), acknowledge }).unwrap();
        tokio::time::timeout(Duration::from_secs(5), acknowledged).await.expect("a worker has taken it").is_ok()
    }
}

impl Bus for Channel {
    fn announce(self: Arc<Self>, run: RunId, wake: String) -> BoxFuture<'static, ()> {
        self.announced.lock().unwrap().push(format!("{run} {wake}"));
        Box::pin(async {})
    }

    fn next(self: Arc<Self>) -> BoxFuture<'static, Announced> {
        Box::pin(async move { self.receiver.lock().await.recv().await.expect("the sender is here") })
    }
}

#[tokio::test]
async fn a_worker_takes_an_announced_run_that_needs_an_owner_and_no_other() {
    let (bus, store) = (Channel::new(), Arc::new(MemoryStore::default()));
    let engine = Engine::builder().trust(baton_runtime::TrustEverything).store(store.clone()).bus(bus.clone());
    let engine = engine.model("m", model(|_, _, _| handoff("done", &[]))).build().unwrap();
    let (working, stop) = (engine.clone(), tokio_util::sync::CancellationToken::new());
    let stopped = stop.clone();
    let worker = tokio::spawn(async move { working.work(WorkOptions { slots: 2 }, stopped.cancelled(), |_| ()).await });
    // Its first look at the store is over, and the next one is seconds away.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let job = || TestJob::new("solo", json!({})).agent("solo", &["handoff"]).load();
    let run = engine.queue(job(), StartOptions::default()).await.unwrap();
    assert_eq!(*bus.announced.lock().unwrap(), [format!("{run} queued")]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let record = async |run: &RunId| store.run(run).await.unwrap().unwrap();
    assert_eq!(record(&run).await.status, "queued", "only the bus tells which worker executes it");
    assert!(bus.is_acknowledged(&run).await);
    while record(&run).await.status != "completed" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = record(&run).await;
    for stale in [&run, &RunId::new("unknown")] {
        assert!(bus.is_acknowledged(stale).await, "an old announcement is over");
    }
    assert_eq!(record(&run).await, before, "and nobody takes the run over");
    stop.cancel();
    worker.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_worker_takes_an_announced_run_that_another_one_held_a_moment_before() {
    let (bus, store) = (Channel::new(), Arc::new(MemoryStore::default()));
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("wait_for_event", json!({"event": "It is paid."}))]),
        _ => handoff("done", &[]),
    });
    let builder = || Engine::builder().trust(baton_runtime::TrustEverything).store(store.clone()).model("m", answers.clone());
    let (other, engine) = (builder().build().unwrap(), builder().bus(bus.clone()).build().unwrap());
    let job = TestJob::new("solo", json!({})).agent("solo", &["wait_for_event", "handoff"]).built_in("wait_for_event").load();
    let handle = other.start(job, StartOptions::default()).await.unwrap();
    assert!(handle.until_idle().await.is_none());
    handle.stop().await;
    let run = handle.id().clone();
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone();
    let worker = tokio::spawn(async move { engine.work(WorkOptions::default(), stopped.cancelled(), |_| ()).await });
    let held = other.resume(&run).await.unwrap();
    assert!(bus.is_acknowledged(&run).await, "another one has it");
    held.stop().await;
    let output = Ok(json!({"paid": true}).into());
    other.deliver(&run, &CallId::from("0/1.1"), &Principal::program("bank"), output).await.unwrap();
    assert!(bus.is_acknowledged(&run).await);
    // The next look at the store is ten seconds after the first one.
    let completed = async {
        while store.run(&run).await.unwrap().unwrap().status != "completed" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), completed).await.expect("the announcement counts");
    stop.cancel();
    worker.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_announcement_was_lost_is_found_within_ten_seconds() {
    let clock = Arc::new(SteadyClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000)));
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::builder().trust(baton_runtime::TrustEverything).store(store.clone()).clock(clock.clone());
    // Nothing that is announced on this bus arrives.
    let engine = engine.bus(Channel::new()).model("m", model(|_, _, _| handoff("done", &[]))).build().unwrap();
    let mut longest = Duration::ZERO;
    let queue_and_wait = async {
        for pause in 0..10 {
            tokio::time::sleep(Duration::from_millis(1_700 * pause)).await;
            let job = TestJob::new("solo", json!({})).agent("solo", &["handoff"]).load();
            let run = engine.queue(job, StartOptions::default()).await.unwrap();
            let began = clock.now();
            while store.run(&run).await.unwrap().unwrap().status != "completed" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            longest = longest.max(clock.now().since(began));
        }
    };
    engine.work(WorkOptions::default(), queue_and_wait, |_| ()).await.unwrap();
    assert!(longest > Duration::from_secs(2) && longest < Duration::from_secs(11), "{longest:?}");
}
