//! Copies a whole store into an empty one.
//!
//! A source sends its rows as they are at one moment, table by table, and a target writes them in one transaction. [`Table`] lists what both
//! databases store. What a database derives from it is made anew by the target: checksums, counts, and the words and tags of records.
//!
//! Nothing is committed before source and target were verified and have the same counts, so an interrupted copy leaves the target empty.
//! Leases are *not* copied, since no living process owns a run that is copied.

use async_trait::async_trait;
use rusqlite::types::{FromSql, Value, ValueRef};
use tokio::sync::mpsc;

use crate::{PostgresStore, RunRecord, SqliteStore, Store, StoreError, Verification};

/// The most rows of one message.
const MAX_ROWS: usize = 256;

/// A message that has this many bytes gets no further row.
const MAX_BYTES: usize = 1 << 20;

/// Number of messages that wait for the target.
const MAX_MESSAGES: usize = 2;

/// A store that can be copied: [`SqliteStore`] or [`PostgresStore`].
pub trait CopiedStore: Store + Ends {}

impl CopiedStore for SqliteStore {}
impl CopiedStore for PostgresStore {}

/// Both ends of a copy.
#[async_trait]
pub trait Ends: Send + Sync {
    /// Returns the name of the store as people see it, without a password.
    fn name(&self) -> String;

    /// Sends all rows as they are at one moment, and returns the report about them. Fails with [`StoreError::Corrupt`] if something in the
    /// store is damaged, and with [`StoreError::Closed`] if the target has stopped.
    async fn send(&self, to: Sender) -> Result<Verification, StoreError>;

    /// Writes the rows, and commits after [`Message::End`]. Fails with [`StoreError::Closed`] if that message does not come.
    async fn receive(&self, from: Receiver) -> Result<Verification, StoreError>;
}

/// Copies everything in `from` to `to`, and returns what was copied.
///
/// `from` is not changed. Fails, and leaves `to` empty, with [`StoreError::NotEmpty`]; with [`StoreError::InUse`] if a process that may be
/// alive owns a run of `from`; with [`StoreError::Changed`] if `from` changed meanwhile; with [`StoreError::Corrupt`] if `from` is damaged.
pub async fn copy(from: &dyn CopiedStore, to: &dyn CopiedStore) -> Result<Verification, StoreError> {
    let runs = unowned_runs(from).await?;
    let (sender, receiver) = mpsc::channel(MAX_MESSAGES);
    let send = async move {
        let found = from.send(Sender(sender.clone())).await?;
        // A run that began or continued meanwhile would continue in both stores.
        if unowned_runs(from).await? != runs {
            return Err(StoreError::Changed { store: from.name() });
        }
        sender.send(Message::End(found)).await.map_err(|_| StoreError::Closed)
    };
    match tokio::join!(send, to.receive(Receiver(receiver))) {
        // The target stopped because the source did.
        (Err(cause), Err(StoreError::Closed)) => Err(cause),
        (_, received) => received,
    }
}

/// Returns the runs of a store. Fails if one of them has an owner that may be alive.
async fn unowned_runs(store: &dyn CopiedStore) -> Result<Vec<RunRecord>, StoreError> {
    let runs = store.runs().await?;
    for run in &runs {
        if let Some(owner) = run.owner.as_ref().filter(|owner| store.is_there(owner) != Some(false)) {
            return Err(StoreError::InUse { run: run.id.clone(), owner: owner.clone() });
        }
    }
    Ok(runs)
}

/// A part of a copy.
#[derive(Debug)]
pub(crate) enum Message {
    /// The first message: the secret of the store, and the last number that a command got.
    Begin { secret: [u8; 32], commands: i64 },
    /// Rows of a table, each with the columns of [`Table::columns`]. The tables come in the order of [`Table::ALL`].
    Rows(Table, Vec<Vec<Value>>),
    /// The last message: the report about the source.
    End(Verification),
}

/// Sends messages to the target.
#[derive(Debug)]
pub struct Sender(mpsc::Sender<Message>);

impl Sender {
    /// Sends a message.
    pub(crate) async fn send(&self, message: Message) -> Result<(), StoreError> {
        self.0.send(message).await.map_err(|_| StoreError::Closed)
    }

    /// Sends a message from a thread that may wait.
    pub(crate) fn send_blocking(&self, message: Message) -> Result<(), StoreError> {
        self.0.blocking_send(message).map_err(|_| StoreError::Closed)
    }
}

/// Receives the messages of the source.
#[derive(Debug)]
pub struct Receiver(mpsc::Receiver<Message>);

impl Receiver {
    /// Returns the next message.
    pub(crate) async fn next(&mut self) -> Result<Message, StoreError> {
        self.0.recv().await.ok_or(StoreError::Closed)
    }

    /// Returns the next message on a thread that may wait.
    pub(crate) fn next_blocking(&mut self) -> Result<Message, StoreError> {
        self.0.blocking_recv().ok_or(StoreError::Closed)
    }
}

/// Rows on the way into a message.
pub(crate) struct Page {
    table: Table,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl Page {
    /// Returns a page without rows.
    pub(crate) const fn new(table: Table) -> Self {
        Self { table, rows: Vec::new(), bytes: 0 }
    }

    /// Adds a row. Returns a message if the page is full.
    pub(crate) fn add(&mut self, row: Vec<Value>) -> Option<Message> {
        let bytes = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            Value::Null | Value::Integer(_) | Value::Real(_) => 8,
        };
        self.bytes += row.iter().map(bytes).sum::<usize>();
        self.rows.push(row);
        (self.rows.len() >= MAX_ROWS || self.bytes >= MAX_BYTES).then(|| self.take())
    }

    /// Returns the rest of the rows as a message.
    pub(crate) fn take(&mut self) -> Message {
        self.bytes = 0;
        Message::Rows(self.table, std::mem::take(&mut self.rows))
    }
}

/// Refuses a copy of a damaged store.
pub(crate) fn check_source(found: &Verification) -> Result<(), StoreError> {
    match &*found.findings {
        [] => Ok(()),
        [only] => Err(StoreError::Corrupt { what: only.clone() }),
        [first, more @ ..] => Err(StoreError::Corrupt { what: format!("{first} (and {} more findings)", more.len()) }),
    }
}

/// Refuses a copy that is not like its source.
pub(crate) fn check_copy(source: &Verification, copied: &Verification) -> Result<(), StoreError> {
    if source == copied {
        Ok(())
    } else {
        Err(StoreError::CopyDiffers { what: format!("expected {source:?}, found {copied:?}") })
    }
}

/// A column and its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    Int(&'static str),
    Text(&'static str),
    Bytes(&'static str),
    /// 0 or 1 in SQLite.
    Bool(&'static str),
}

impl Column {
    /// Returns its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Int(name) | Self::Text(name) | Self::Bytes(name) | Self::Bool(name) => name,
        }
    }
}

/// The tables that both databases have, by their names in PostgreSQL. SQLite has some of them in columns of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// A run comes after the run that it begins with.
    Runs,
    /// Runs that wait, with the moments at which they continue.
    Waiting,
    /// Rows of entries.
    Entries,
    /// The rows that have entries of a task.
    Places,
    /// Contents by their hashes.
    Contents,
    /// Logged calls in their order.
    Logged,
    /// Inboxes.
    Commands,
    /// Records.
    Breadcrumbs,
    /// Versions of records. Each database has another checksum of them.
    BreadcrumbVersions,
    /// Idempotency keys. SQLite has a key as it is, and PostgreSQL has its hash.
    BreadcrumbKeys,
    /// Ticks of schedules that are settled.
    BreadcrumbTicks,
    /// Vectors of records.
    BreadcrumbVectors,
    /// Triggers.
    BreadcrumbTriggers,
}

impl Table {
    /// All tables, in the order in which they are copied.
    pub(crate) const ALL: [Self; 13] = [
        Self::Runs,
        Self::Waiting,
        Self::Entries,
        Self::Places,
        Self::Contents,
        Self::Logged,
        Self::Commands,
        Self::Breadcrumbs,
        Self::BreadcrumbVersions,
        Self::BreadcrumbKeys,
        Self::BreadcrumbTicks,
        Self::BreadcrumbVectors,
        Self::BreadcrumbTriggers,
    ];

    /// Returns its name in PostgreSQL, and the columns that are copied.
    #[rustfmt::skip]
    pub(crate) const fn parts(self) -> (&'static str, &'static [Column]) {
        use Column::{Bool, Bytes, Int, Text};
        match self {
            Self::Runs => ("runs", &[
                Int("run"), Text("id"), Text("job"), Int("created"), Int("past"), Int("past_seq"), Text("status"), Int("updated"),
                Int("last_seq"), Int("epoch"), Text("owner"), Bytes("link"),
            ]),
            Self::Waiting => ("waiting", &[Int("run"), Int("wakes")]),
            Self::Entries => ("entries", &[Int("run"), Int("first"), Int("last"), Int("checksum"), Bytes("link"), Text("entries")]),
            Self::Places => ("places", &[Int("run"), Int("task"), Int("last")]),
            Self::Contents => ("contents", &[Bytes("hash"), Bytes("bytes")]),
            Self::Logged => ("logged", &[
                Int("logged"), Text("memory"), Text("agent"), Text("tool"), Text("run"), Text("task"), Text("call"), Int("at"),
                Text("input"),
            ]),
            Self::Commands => ("commands", &[Int("run"), Int("command"), Text("body")]),
            Self::Breadcrumbs => ("breadcrumbs", &[
                Int("breadcrumb"), Text("id"), Text("owner"), Text("project"), Text("visibility"), Text("sensitivity"),
                Text("schema_name"), Text("defines"), Int("version"), Int("read_count"), Int("ends"), Int("updated"),
            ]),
            Self::BreadcrumbVersions => ("breadcrumb_versions", &[
                Int("breadcrumb"), Int("version"), Text("record"), Int("checksum"),
            ]),
            Self::BreadcrumbKeys => ("breadcrumb_keys", &[Bytes("key"), Int("breadcrumb"), Int("version"), Bytes("request")]),
            Self::BreadcrumbTicks => ("breadcrumb_ticks", &[Int("breadcrumb"), Int("settled")]),
            Self::BreadcrumbVectors => ("breadcrumb_vectors", &[
                Int("breadcrumb"), Int("version"), Text("model"), Int("dimensions"), Bytes("vector"),
            ]),
            Self::BreadcrumbTriggers => ("breadcrumb_triggers", &[
                Int("trigger"), Text("project"), Bool("waits"), Text("queue"), Text("run"), Text("body"),
            ]),
        }
    }

    /// Returns its name in PostgreSQL.
    pub(crate) const fn name(self) -> &'static str {
        self.parts().0
    }

    /// Returns the names of its columns with commas between them.
    pub(crate) fn column_names(self) -> String {
        self.parts().1.iter().map(|column| column.name()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the query for the rows, which `rows` names: in the order of their first column, except contents, which are large.
    pub(crate) fn query(self, rows: &str) -> String {
        let order = if self == Self::Contents { "" } else { " ORDER BY 1" };
        format!("SELECT {} FROM {rows}{order}", self.column_names())
    }
}

/// The values of a row, read one after the other.
pub(crate) struct Values(std::vec::IntoIter<Value>);

impl Values {
    pub(crate) fn of(row: Vec<Value>) -> Self {
        Self(row.into_iter())
    }

    /// Returns the next value.
    pub(crate) fn next<T: FromSql>(&mut self) -> Result<T, StoreError> {
        let value = self.0.next().unwrap_or(Value::Null);
        T::column_result(ValueRef::from(&value)).map_err(|error| StoreError::Corrupt { what: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use baton_types::id::ContentHash;

    use super::*;

    /// Sends rows and ends, like a source whose process dies. Returns the error of the target.
    async fn interrupted(target: &dyn CopiedStore) -> StoreError {
        let (sender, receiver) = mpsc::channel(MAX_MESSAGES);
        let content = vec![Value::Blob(ContentHash::of(b"x").as_bytes().to_vec()), Value::Blob(b"x".to_vec())];
        let (sender, send) = (Sender(sender), async |sender: Sender| {
            sender.send(Message::Begin { secret: [7; 32], commands: 9 }).await.expect("the target listens");
            sender.send(Message::Rows(Table::Contents, vec![content])).await.expect("the target listens");
        });
        tokio::join!(send(sender), target.receive(Receiver(receiver))).1.expect_err("the end is missing")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_interrupted_copy_leaves_the_target_empty() {
        let (folder, database) = (tempfile::TempDir::new().expect("a folder"), baton_servers::Postgres::shared().database());
        let file = SqliteStore::open(folder.path().join("target.db")).expect("a new store");
        let database = PostgresStore::connect(&database.address()).await.expect("a new store");
        let empty = SqliteStore::open(folder.path().join("empty.db")).expect("a new store");
        let targets: [&dyn CopiedStore; 2] = [&file, &database];
        for target in targets {
            let secret = target.secret().await.expect("readable");
            let error = interrupted(target).await;
            assert!(matches!(error, StoreError::Closed), "{error}");
            assert_eq!(target.verify().await.expect("readable"), Verification::default());
            assert_eq!(target.secret().await.expect("readable"), secret);
            copy(&empty, target).await.expect("the copy can be repeated");
            assert_eq!(target.secret().await.expect("readable"), empty.secret().await.expect("readable"));
        }
    }
}
