//! Commands: none is lost for good, whatever happens to the bus and to the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_nats::Bus;
use baton_nats::address::Credentials;
use baton_runtime::{Clock, RunOutcome, ServiceCommand, StartOptions, SystemClock, ToolServices, WorkOptions};
use baton_servers::Nats;
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::config::ServiceSpec;
use baton_types::time::Timestamp;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{OnBus, Service, address, callback, job, results, searching, waiting};
use crate::support::finish;

/// A clock whose minutes a test lets pass.
#[derive(Default)]
struct Minutes(AtomicU64);

impl Clock for Minutes {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(Duration::from_mins(self.0.load(Ordering::SeqCst)))
    }
}

/// A bus that takes commands and loses them.
struct Losing;

impl ToolServices for Losing {
    fn check(&self, _: &ServiceSpec) -> Result<(), String> {
        Ok(())
    }

    fn send<'a>(&'a self, _: &'a [ServiceCommand]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// Answers a command, and waits for the end of its run.
async fn answer(service: &Service, command: &Value) {
    let id = format!("{}:{}", command["agent_turn_id"], command["tool_call_id"]);
    service.keep(command, &id, 1).await;
    service.call_back(callback(command, &id, json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_owner_of_a_run_sends_the_commands_that_the_former_one_may_not_have_sent() {
    let nats = Nats::start();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let model = searching(3);
    let dying = OnBus::without_callbacks(Arc::clone(&store), &model, Arc::new(SystemClock), Arc::new(Losing));
    let lost = dying.start(job(json!({}))).await;
    assert!(lost.until_idle().await.is_none(), "the run waits");
    let next = OnBus::new(&nats, store, &model).await;
    let service = Service::connect(&nats).await;
    assert!(service.commands_within(1, Duration::from_millis(300)).await.is_empty());
    // It takes the run from a process that did not release it.
    let handle = next.engine.resume(lost.id()).await.unwrap();
    let commands = service.commands_within(3, super::PATIENCE).await;
    assert_eq!(commands.len(), 3, "the commands of all calls that wait");
    for command in &commands {
        answer(&service, command).await;
    }
    let finished = finish(&next.engine, &handle).await;
    assert_eq!((finished.status, results(&finished.entries)), ("success", 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_sent_again_while_its_call_waits_and_not_before_its_time() {
    let nats = Nats::start();
    let clock = Arc::new(Minutes::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let on_bus = OnBus::with(&nats, Arc::clone(&store), &searching(2), clock.clone()).await;
    let service = Service::connect(&nats).await;
    let handle = on_bus.start(job(json!({}))).await;
    let first = service.commands_within(2, super::PATIENCE).await;
    assert_eq!(first.len(), 2);
    answer(&service, &first[0]).await;
    while waiting(&on_bus.engine, &handle).await.len() == 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A waiting run is released. A worker takes it when its moment comes.
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    for minutes in [1, 2, 4] {
        clock.0.store(minutes, Ordering::SeqCst);
        let due = store.due(clock.now(), 10).await.unwrap();
        assert_eq!(due.runs, [handle.id().clone()], "minute {minutes}");
        let resumed = on_bus.engine.resume_unattended(handle.id()).await.unwrap();
        let again = service.commands_within(1, super::PATIENCE).await;
        assert_eq!(again, [first[1].clone()], "minute {minutes}: only the call that waits");
        assert!(service.commands_within(1, Duration::from_millis(200)).await.is_empty());
        assert!(resumed.until_idle().await.is_none());
        assert!(matches!(resumed.stop().await, RunOutcome::Stopped));
        assert!(store.due(clock.now(), 10).await.unwrap().runs.is_empty(), "minute {minutes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_is_lost_while_the_server_is_killed_and_loses_its_data() {
    const RUNS: usize = 12;
    let nats = Arc::new(Nats::start());
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("baton.db")).unwrap());
    let clock = Arc::new(Minutes::default());
    let on_bus = OnBus::with(&nats, store.clone(), &searching(3), clock.clone()).await;
    let (engine, stop) = (on_bus.engine.clone(), on_bus.stop.clone());
    let working = tokio::spawn(async move { engine.work(WorkOptions::default(), stop.cancelled(), |_| ()).await });
    let server = Arc::clone(&nats);
    let failing = tokio::task::spawn_blocking(move || {
        for round in 0..4 {
            std::thread::sleep(Duration::from_millis(700));
            server.kill();
            if round % 2 == 1 {
                server.forget_everything();
            }
            server.start_again();
        }
    });
    let serving = tokio::spawn(serve_whatever_happens(Arc::clone(&nats)));
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(on_bus.engine.queue(job(json!({})), StartOptions::default()).await.unwrap());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    failing.await.unwrap();
    // Commands that the streams have lost are sent again after some minutes.
    let began = std::time::Instant::now();
    for run in &runs {
        while store.run(run).await.unwrap().unwrap().status != "completed" {
            assert!(began.elapsed() < Duration::from_mins(1), "run {run} has not ended\n{}", nats.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.0.fetch_add(1, Ordering::SeqCst);
        }
        let entries = store.entries(run, 0, 1_000).await.unwrap();
        assert_eq!(results(&entries), 3, "each call has one result");
    }
    serving.abort();
    on_bus.stop.cancel();
    working.await.unwrap().unwrap();
}

/// Serves, and begins again after each failure.
async fn serve_whatever_happens(nats: Arc<Nats>) {
    loop {
        let serving = {
            let nats = Arc::clone(&nats);
            tokio::spawn(async move {
                let service = Service::connect(&nats).await;
                loop {
                    for command in service.commands_within(8, Duration::from_secs(1)).await {
                        answer(&service, &command).await;
                    }
                }
            })
        };
        // It panics when the server is away.
        let _failed = serving.await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_another_project_is_refused_at_the_start() {
    let nats = Nats::start();
    let bus = Bus::connect(&nats.address(), &Credentials::default(), address()).await.unwrap();
    let on_bus = OnBus::without_callbacks(Arc::new(MemoryStore::default()), &searching(1), Arc::new(SystemClock), Arc::new(bus));
    let foreign = job(json!({"target_subject": "cg.v1r3.other.main.cmd.tool.search"}));
    let refused = on_bus.engine.start(foreign, StartOptions::default()).await.err();
    let refused = refused.expect("the subject is of another project").to_string();
    assert!(refused.contains("tool search") && refused.contains("\"other\"") && refused.contains("\"acme\""), "{refused}");
}

#[tokio::test]
async fn a_project_on_a_bus_belongs_to_one_store() {
    let nats = Nats::start();
    let bus = Bus::connect(&nats.address(), &Credentials::default(), address()).await.unwrap();
    let [first, second] = [(); 2].map(|()| MemoryStore::default());
    bus.claim(&first).await.unwrap();
    bus.claim(&first).await.unwrap();
    let refused = bus.claim(&second).await.unwrap_err().to_string();
    assert!(refused.contains("\"acme\" belongs to another store"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_belongs_to_its_store_after_the_server_has_lost_everything() {
    let nats = Nats::start();
    let _on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(1)).await;
    nats.kill();
    nats.forget_everything();
    nats.start_again();
    // The process of the first store connects again and makes its stream.
    let client = async_nats::connect(nats.address()).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    for waited in 0.. {
        let stream = jetstream.get_stream("baton-acme-callbacks").await;
        if stream.is_ok_and(|stream| stream.cached_info().config.description.is_some()) {
            break;
        }
        assert!(waited < 300, "the stream has no store");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let other = Bus::connect(&nats.address(), &Credentials::default(), address()).await.unwrap();
    let refused = other.claim(&MemoryStore::default()).await.unwrap_err().to_string();
    assert!(refused.contains("\"acme\" belongs to another store"), "{refused}");
}
