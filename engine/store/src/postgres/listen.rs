//! Wakes subscribers when another process puts a command into an inbox or makes a trigger.
//!
//! One connection of its own listens (`LISTEN`), from the first subscription on. A notification is only a hint: the inbox is the truth. So
//! the inboxes are read after each new connection, and every two seconds while none works. A pooler that gives each
//! transaction another connection passes no notifications; a probe finds that out, and the address has a parameter `direct` for it.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use baton_types::id::RunId;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_postgres::AsyncMessage;

use super::pool::{Connection, Pool};
use super::value::values;
use crate::StoreError;
use crate::inbox::Subscribers;

/// The channel of notifications. Channels belong to a database.
pub(super) const CHANNEL: &str = "baton";

/// Notification of a new trigger. The other notifications are a command's number and its run, or nothing.
const TRIGGERS: &str = "triggers";

/// Beginning of a notification by which a connection finds out whether it gets notifications.
const PROBE: &str = "probe ";

/// Notifies other processes of a new trigger when its transaction commits. Commits with notifications wait for each other.
pub(super) const NOTIFY_TRIGGERS: &str = "SELECT pg_notify('baton', 'triggers')";

/// Time between two readings of all inboxes while no notifications come.
const REREAD: Duration = Duration::from_secs(2);

/// Starts to listen at its first use.
#[derive(Debug)]
pub(super) struct Listener {
    runtime: Handle,
    started: OnceLock<()>,
}

impl Listener {
    /// Returns a listener that will run on the present runtime.
    pub(super) fn new() -> Self {
        Self { runtime: Handle::current(), started: OnceLock::new() }
    }

    /// Listens from now on until `closed` closes.
    pub(super) fn listen(&self, pool: &Pool, subscribers: &Arc<Subscribers>, closed: &watch::Receiver<()>) {
        self.started.get_or_init(|| {
            let listening = Listening { pool: pool.clone(), subscribers: Arc::downgrade(subscribers), closed: closed.clone() };
            drop(self.runtime.spawn(listening.run()));
        });
    }
}

struct Listening {
    pool: Pool,
    subscribers: Weak<Subscribers>,
    closed: watch::Receiver<()>,
}

impl Listening {
    async fn run(mut self) {
        loop {
            let mut closed = self.closed.clone();
            tokio::select! {
                _closed = closed.changed() => return,
                ended = self.connected() => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, "no connection listens for commands; inboxes are read every two seconds");
                    }
                }
            }
            self.catch_up().await;
            tokio::select! {
                _closed = self.closed.changed() => return,
                () = tokio::time::sleep(REREAD) => {}
            }
        }
    }

    /// Listens on one connection until it is lost.
    async fn connected(&self) -> Result<(), StoreError> {
        let address = self.pool.address();
        let connected = address.direct().connect(address.tls()?).await;
        let (client, mut connection) = connected.map_err(|error| address.failure(&error).into_error())?;
        let (sender, mut notifications) = mpsc::unbounded_channel();
        let pump = async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(notification)) => drop(sender.send(notification.payload().to_owned())),
                    Ok(_) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let serve = async {
            client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
            let probe = format!("{PROBE}{:016x}", super::random());
            let mut is_heard = false;
            self.probe(&probe).await?;
            self.catch_up().await;
            loop {
                tokio::select! {
                    notification = notifications.recv() => match notification {
                        None => return Ok(()),
                        Some(found) if found == probe => is_heard = true,
                        Some(found) => self.announce(&found).await,
                    },
                    () = tokio::time::sleep(REREAD), if !is_heard => {
                        self.catch_up().await;
                        self.probe(&probe).await?;
                    }
                }
            }
        };
        let ended: Result<(), StoreError> = tokio::select! {
            ended = pump => ended.map_err(StoreError::from),
            ended = serve => ended,
        };
        ended.map_err(|error| address.classified(error).into_error())
    }

    /// Sends a notification to all who listen, this process among them.
    async fn probe(&self, probe: &str) -> Result<(), StoreError> {
        let notify = |client: Arc<Connection>| async move {
            Ok(client.execute_typed("SELECT pg_notify($1, $2)", values![CHANNEL, probe]).await?)
        };
        self.pool.read(notify).await.map(drop)
    }

    async fn announce(&self, notification: &str) {
        let Some(subscribers) = self.subscribers.upgrade() else { return };
        match notification.split_once(' ').map(|(number, run)| (number.parse(), run)) {
            Some((Ok(number), run)) => subscribers.wake(&RunId::new(run), number),
            // Of another process.
            _ if notification.starts_with(PROBE) => {}
            _ if notification == TRIGGERS => subscribers.wake_all(),
            // Its run has too long a name.
            _ => self.catch_up().await,
        }
    }

    /// Wakes the subscribers of runs whose inbox has a command that was not announced to them, and those of all runs.
    async fn catch_up(&self) {
        let query = "SELECT r.id, c.newest FROM (SELECT run, max(command) AS newest FROM baton.commands GROUP BY run) c
                     JOIN baton.runs r USING (run)";
        let waiting = self.pool.read(|client| async move { Ok(client.query_typed(query, &[]).await?) }).await;
        let Some(subscribers) = self.subscribers.upgrade() else { return };
        // A database that cannot be read is reported by those who need it.
        for row in waiting.unwrap_or_default() {
            if let (Ok(run), Ok(number)) = (row.try_get::<_, String>(0), row.try_get::<_, i64>(1)) {
                subscribers.wake(&RunId::new(run), number as u64);
            }
        }
        subscribers.wake_all();
    }
}
