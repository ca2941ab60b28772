//! The connection of a process that executes runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{Client, Event, HeaderMap};
use baton_store::Store;
use baton_types::breadcrumb::Viewer;
use baton_types::id::{ContentHash, ProjectId};
use baton_types::principal::Principal;
use baton_utp::id::{Name, ProjectName};
use baton_utp::subject::{Address, Kind, Subject, Token};
use bytes::Bytes;
use serde::Serialize;

use crate::BusError;
use crate::address::{Credentials, servers, shown};
use crate::streams::Kept;

/// Longest time for the first connection to a server alone.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Longest time for each server of a cluster. One that was cut off must not keep a process from the others.
const CONNECT_EACH: Duration = Duration::from_secs(2);

/// The most attempts to publish a callback, each of which waits for five seconds. Without it, its command would come again much later.
const CALLBACK_ATTEMPTS: usize = 4;

/// Pause between two questions to the server whether it is still there. A server that leaves two of them without an answer is left for
/// another one of the cluster. Without them, a process would wait for minutes for a server that was cut off.
const PING_PAUSE: Duration = Duration::from_secs(5);

/// Time for which a cluster may choose its leaders, while a process starts.
const LEADER_PATIENCE: Duration = Duration::from_secs(30);

/// A connection to NATS, for the project and channel of a process. Cheap to clone. It connects again by itself.
#[derive(Clone)]
pub struct Bus(pub(crate) Arc<Connected>);

/// See [`Bus`].
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) address: Address,
    pub(crate) project: ProjectName,
    /// The reader and author of the cards in the store.
    pub(crate) keeper: Viewer,
    /// The store that has the project, once this process has taken it for that store.
    owner: OnceLock<String>,
}

impl Bus {
    /// Connects to the servers at `server` (see [`crate::address`]), and makes the streams of the project that are not there.
    ///
    /// # Errors
    /// The address or a file with credentials is wrong, no server can be reached, or the server has no JetStream.
    pub async fn connect(server: &str, credentials: &Credentials, address: Address) -> Result<Self, BusError> {
        let servers = servers(server)?;
        let is_cluster = servers.len() > 1;
        let each = if is_cluster { CONNECT_EACH } else { CONNECT_PATIENCE };
        let patience = CONNECT_PATIENCE.max(CONNECT_EACH * servers.len() as u32 + Duration::from_secs(1));
        let options = credentials.options().await?.name("baton").connection_timeout(each).ping_interval(PING_PAUSE);
        let login = servers.first().map(|server| (server.username(), server.password()));
        let options = match login {
            Some((Some(user), Some(password))) => options.user_and_password(user.to_owned(), password.to_owned()),
            Some((Some(token), None)) => options.token(token.to_owned()),
            _ => options,
        };
        let options = options.event_callback(|event| async move {
            match event {
                Event::Disconnected => tracing::warn!("the connection to NATS is lost"),
                Event::Connected => tracing::info!("connected to NATS"),
                Event::ServerError(error) => tracing::warn!(%error, "the NATS server refused a message"),
                _ => {}
            }
        });
        let unreachable = |reason: String| BusError::Unreachable { server: shown(server), reason };
        let connecting = tokio::time::timeout(patience, options.connect(servers)).await;
        let client = connecting.map_err(|_| unreachable("it does not answer".to_owned()))?;
        let client = client.map_err(|error| unreachable(error.to_string()))?;
        let jetstream = async_nats::jetstream::new(client.clone());
        let project = ProjectName::parse(address.project.as_str());
        let project = project.ok_or_else(|| BusError::Address(format!("{} is too long for a project", address.project)))?;
        let keeper = keeper(&address.project);
        let bus = Self(Arc::new(Connected { client, jetstream, keeper, address, project, owner: OnceLock::new() }));
        for stream in Kept::ALL {
            patiently(|| bus.ensure(stream)).await?;
        }
        Ok(bus)
    }

    /// Takes the project for `store`: its callbacks, cards and wake-ups. A copy of the store counts as the same one.
    ///
    /// # Errors
    /// Another store has the project: it would get the results of this one's calls.
    pub async fn claim(&self, store: &dyn Store) -> Result<(), BusError> {
        let secret = store.secret().await.map_err(|error| BusError::Store(error.to_string()))?;
        let name = ContentHash::of([&secret[..], b"bus"].concat().as_slice()).to_string();
        let owner = format!("store {}", &name[..16]);
        patiently(|| Kept::Callbacks.claim(&self.0.jetstream, &self.0.address.project, &owner)).await?;
        self.0.owner.get_or_init(|| owner);
        Ok(())
    }

    /// Returns the project and the channel of this process.
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// Returns the subject of `kind` in this project and channel.
    pub(crate) fn subject(&self, kind: Kind) -> String {
        Subject::new(self.0.address.clone(), kind).to_string()
    }
}

impl Bus {
    /// Makes a stream if it is not there. One that was lost gets the name of its store again.
    async fn ensure(&self, kept: Kept) -> Result<(), BusError> {
        let (jetstream, project) = (&self.0.jetstream, &self.0.address.project);
        kept.ensure(jetstream, project).await?;
        match self.0.owner.get() {
            Some(owner) if kept == Kept::Callbacks => kept.claim(jetstream, project, owner).await,
            _ => Ok(()),
        }
    }

    /// Returns the durable consumer `name` of a stream, which all processes of that name share.
    pub(crate) async fn consumer(&self, kept: Kept, name: &str, filter: &str) -> Result<Consumer<pull::Config>, BusError> {
        self.ensure(kept).await?;
        kept.consumer(&self.0.jetstream, &self.0.address.project, name, filter).await
    }

    /// Publishes a message, and waits until its stream has it. A stream that the server has lost is made again. The server drops a
    /// second message with the same id within two minutes.
    pub(crate) async fn publish(
        &self,
        kept: Kept,
        subject: String,
        id: Option<String>,
        message: &impl Serialize,
    ) -> Result<(), String> {
        let payload = Bytes::from(serde_json::to_vec(message).map_err(|error| error.to_string())?);
        let mut headers = HeaderMap::new();
        if let Some(id) = id {
            headers.insert("Nats-Msg-Id", id.as_str());
        }
        let send = || async {
            let sent = self.0.jetstream.publish_with_headers(subject.clone(), headers.clone(), payload.clone()).await?;
            sent.await.map(drop)
        };
        let mut sent = send().await;
        let attempts = if kept == Kept::Callbacks { CALLBACK_ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            // A stream without a leader gets one within seconds. A callback may be repeated.
            if !matches!(&sent, Err(error) if error.kind() == PublishErrorKind::TimedOut) {
                break;
            }
            sent = send().await;
        }
        match sent {
            Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
                self.ensure(kept).await.map_err(|error| error.to_string())?;
                send().await.map_err(|error| error.to_string())
            }
            sent => sent.map_err(|error| error.to_string()),
        }
    }
}

/// Repeats `work` on a stream while the servers do not answer: a cluster without a leader chooses one within seconds.
async fn patiently<W: Future<Output = Result<(), BusError>>>(work: impl Fn() -> W) -> Result<(), BusError> {
    let began = tokio::time::Instant::now();
    loop {
        match work().await {
            Err(BusError::Stream { reason, .. }) if is_passing(&reason) && began.elapsed() < LEADER_PATIENCE => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            done => return done,
        }
    }
}

/// Whether a stream lacks its leader, or the servers lack theirs. The client has no kind of error for it.
fn is_passing(reason: &str) -> bool {
    reason.contains("timed out") || reason.contains("temporarily unavailable")
}

/// Returns the reader and author of the records that hold the cards of `project`. No job's project has the form of theirs, so no agent
/// reads them.
fn keeper(project: &Token) -> Viewer {
    Viewer { principal: Principal::program("baton-nats"), project: ProjectId::new(format!("utp:{project}")), may_read_pii: true }
}
