//! Builds batches that are easy to tell apart, and stores to put them into.

use std::sync::Arc;

use baton_servers::{Database, Postgres};
use baton_store::{Batch, LoggedCall, NewRun, PostgresStore, SqliteStore, Store};
use baton_types::document::Content;
use baton_types::entry::{Control, ControlAction, Entry, Recorded};
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use tempfile::TempDir;

/// A store on disk in a folder of its own.
pub(crate) struct OnDisk {
    pub(crate) store: SqliteStore,
    pub(crate) folder: TempDir,
}

impl OnDisk {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let store = SqliteStore::open(folder.path().join("deep/below/store.db")).expect("a new store");
        Self { store, folder }
    }

    /// Closes the store and opens its file again.
    pub(crate) fn reopened(self) -> Self {
        let Self { store, folder } = self;
        let path = store.path().to_owned();
        drop(store);
        Self { store: SqliteStore::open(path).expect("the same store"), folder }
    }

    /// Returns a second connection to the store's file.
    pub(crate) fn stranger(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.store.path()).expect("a connection to the store's file")
    }
}

/// Appends batches to `run`, which has `last` entries, until places of its first batches are in the tree and others are not. Returns the
/// number of batches.
pub(crate) async fn append_until_filed(disk: &OnDisk, run: &RunId, last: u64) -> u64 {
    let places = || -> i64 {
        let count = "SELECT count(*) FROM places JOIN runs USING (run) WHERE id = ?1";
        disk.stranger().query_row(count, [run.as_str()], |row| row.get(0)).expect("a number")
    };
    let mut appended = 0;
    let mut left = 2;
    while left > 0 {
        left -= u64::from(places() > 0);
        disk.store.append(batch(run, last + 2 * appended, 2)).await.expect("two entries");
        appended += 1;
    }
    appended
}

/// Returns the server that all tests share.
pub(crate) fn postgres() -> &'static Postgres {
    Postgres::shared()
}

/// Returns a store in a database.
pub(crate) async fn on_postgres(database: &Database<'_>) -> PostgresStore {
    PostgresStore::connect(&database.address()).await.expect("a store")
}

pub(crate) fn run_id(name: &str) -> RunId {
    RunId::new(name)
}

pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros as i64)
}

pub(crate) fn new_run(name: &str, created: u64) -> NewRun {
    NewRun { id: run_id(name), job: "job".into(), at: at(created), past: None, trigger: None }
}

/// Returns a run that exists and is owned; its epoch is 1.
pub(crate) async fn owned_run(store: &dyn Store, name: &str) -> RunId {
    store.create(new_run(name, 1)).await.expect("a new run");
    let epoch = store.take_over(&run_id(name), "first owner", 0).await.expect("the run is there");
    assert_eq!(epoch, 1);
    run_id(name)
}

/// Returns an entry of `task` with a recognizable text.
pub(crate) fn entry(seq: u64, task: &str, text: &str) -> Arc<Recorded> {
    let action = ControlAction::Steered { text: text.into() };
    let control = Control { task: Some(TaskId::new(task)), action, by: Principal::program("test") };
    Arc::new(Recorded { seq, decision: seq, at: at(1_000 + seq), entry: Entry::Control(control) })
}

/// Returns a batch of epoch 1 with `count` entries of the root task after `expected_seq`.
pub(crate) fn batch(run: &RunId, expected_seq: u64, count: u64) -> Batch {
    let mut batch = Batch::new(run.clone(), 1, expected_seq);
    batch.entries =
        (1..=count).map(|index| entry(expected_seq + index, "0", &format!("{run} {}", expected_seq + index))).collect();
    batch
}

pub(crate) fn content(bytes: &[u8]) -> (ContentHash, Content) {
    (ContentHash::of(bytes), Content::from(bytes))
}

/// Returns a logged call of `agent` with `text` as its input.
pub(crate) fn logged(agent: &str, tool: &str, text: &str) -> LoggedCall {
    LoggedCall {
        memory: memory(),
        agent: AgentId::new(agent),
        tool: ToolId::new(tool),
        task: TaskId::root(),
        call: TaskId::root().call(1, 1),
        at: at(7),
        input: Json::of(text).expect("a text is JSON"),
    }
}

/// Returns the memory of every run, unless a test makes another.
pub(crate) fn memory() -> MemoryId {
    MemoryId::new("job tested")
}

/// Returns the sequence numbers of all entries of `run`.
pub(crate) async fn sequence(store: &dyn Store, run: &RunId) -> Vec<u64> {
    store.entries(run, 0, usize::MAX).await.expect("the run is there").iter().map(|entry| entry.seq).collect()
}
