//! Measures durable batches per second on PostgreSQL, beside plain inserts of rows of the same size.
//!
//! `cargo run --release -p baton-store --example postgres_throughput [SECONDS]`. Both wait for the default durability of one server.
//! 64 runs are written by one, two or four stores, as by so many workers. 64 clients insert by prepared statements. They are measured by
//! turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton_servers::{Database, Postgres};
use baton_store::{Batch, NewRun, PostgresStore, Store};
use baton_types::entry::{Control, ControlAction, Entry, Recorded};
use baton_types::id::{RunId, TaskId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use tokio::task::JoinSet;

/// Number of runs, and of clients that insert.
const WRITERS: usize = 64;
/// Bytes of the text of an entry.
const TEXT: usize = 900;

#[tokio::main]
async fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let server = Postgres::start(&["-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB"]);
    for round in 1..=3 {
        let database = server.database();
        let inserts = rate(plain(&database).await, seconds).await;
        println!("round {round}: {inserts:.0} plain inserts/s");
        for (count, parameters) in [(1, "prepared=off"), (2, "prepared=off"), (4, "prepared=off"), (4, "prepared=on")] {
            let database = server.database();
            let batches = rate(stores(&database, count, parameters).await, seconds).await;
            println!("round {round}: {batches:.0} batches/s of {count} stores ({parameters}), ratio {:.2}", batches / inserts);
        }
    }
}

/// Tasks that count what they write until they are stopped.
struct Writers {
    tasks: JoinSet<()>,
    written: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
}

impl Writers {
    fn new() -> Self {
        Self { tasks: JoinSet::new(), written: Arc::default(), stopped: Arc::default() }
    }
}

/// Returns how many writes per second complete, after a second to warm up.
async fn rate(mut writers: Writers, seconds: u64) -> f64 {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, begun) = (writers.written.load(Ordering::SeqCst), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let rate = (writers.written.load(Ordering::SeqCst) - before) as f64 / begun.elapsed().as_secs_f64();
    writers.stopped.store(true, Ordering::SeqCst);
    while let Some(ended) = writers.tasks.join_next().await {
        ended.expect("a writer");
    }
    rate
}

/// Starts clients that insert rows.
async fn plain(database: &Database<'_>) -> Writers {
    database.sql("CREATE TABLE plain (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL)");
    let mut writers = Writers::new();
    for _ in 0..WRITERS {
        let (client, connection) =
            tokio_postgres::connect(&database.address(), tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let (written, stopped) = (Arc::clone(&writers.written), Arc::clone(&writers.stopped));
        writers.tasks.spawn(async move {
            let insert = client.prepare("INSERT INTO plain (text) VALUES ($1)").await.expect("a statement");
            let text = "x".repeat(TEXT + 150);
            while !stopped.load(Ordering::SeqCst) {
                client.execute(&insert, &[&text]).await.expect("a row");
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    writers
}

/// Starts owners of runs, in `count` stores, that append batches of one entry.
async fn stores(database: &Database<'_>, count: usize, parameters: &str) -> Writers {
    let mut writers = Writers::new();
    for place in 0..count {
        let store = Arc::new(PostgresStore::connect(&format!("{}?{parameters}", database.address())).await.expect("a store"));
        for index in 0..WRITERS / count {
            let run = RunId::new(format!("run {place} {index}"));
            let new = NewRun { id: run.clone(), job: "job".into(), at: Timestamp::default(), past: None, trigger: None };
            store.create(new).await.expect("a new run");
            store.take_over(&run, &store.owner(), 0).await.expect("a free run");
            let (store, written, stopped) = (Arc::clone(&store), Arc::clone(&writers.written), Arc::clone(&writers.stopped));
            writers.tasks.spawn(async move {
                let mut seq = 0;
                while !stopped.load(Ordering::SeqCst) {
                    let mut batch = Batch::new(run.clone(), 1, seq);
                    batch.entries.push(entry(seq + 1));
                    store.append(batch).await.expect("only this task writes this run");
                    seq += 1;
                    written.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    }
    writers
}

fn entry(seq: u64) -> Arc<Recorded> {
    let action = ControlAction::Steered { text: "x".repeat(TEXT) };
    let control = Control { task: Some(TaskId::root()), action, by: Principal::program("bench") };
    Arc::new(Recorded { seq, decision: seq, at: Timestamp::default(), entry: Entry::Control(control) })
}
