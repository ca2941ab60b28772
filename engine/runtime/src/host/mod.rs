//! Services of the shell for a running tool function.

mod ask;
mod breadcrumbs;
mod embed;
pub(crate) mod inner;
mod program;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use baton_models::{ModelError, Secrets, secret_of_variable};
use baton_store::{LoggedCall, RECALLED_CALLS};
use baton_tool::{
    Arrange, BoxFuture, BreadcrumbAsk, BreadcrumbReply, Caller, ModelAsk, ModelReply, RecallScope, RecalledCall, RunProgram,
    RunScope, ToolError, ToolHost,
};
use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::config::{Configs, Executor, Tool};
use baton_types::document::Content;
use baton_types::entry::{CallApproved, CallStarted, Entry, Recorded};
use baton_types::event::{Event, Refusal};
use baton_types::id::{ContentHash, MemoryId, ProjectId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::inner::{InnerCalls, Outside};
use crate::handle::{Incoming, Message, Progress};
use crate::processes::Endings;
use crate::services::{Models, Services};
use crate::signs::SignsOfLife;
use crate::watchers::Watchers;

/// The services of one call.
pub(crate) struct Host {
    pub(crate) shared: Arc<Services>,
    pub(crate) caller: Caller,
    /// The long-term memory of the run.
    pub(crate) memory: MemoryId,
    /// The job's folder.
    pub(crate) folder: Option<PathBuf>,
    /// See [`Host::project`].
    pub(crate) project: OnceLock<ProjectId>,
    /// The last entry that the call may see.
    pub(crate) seq: u64,
    /// The last entry that is durable: a call may begin before those that it may see are.
    pub(crate) durable: watch::Receiver<u64>,
    /// Cancelled when the call is stopped or its time is up.
    pub(crate) over: CancellationToken,
    pub(crate) progress: Arc<Watchers<Arc<Progress>>>,
    /// Mailbox of the run, for decisions that the call must wait for.
    pub(crate) mailbox: mpsc::UnboundedSender<Message>,
    /// Signs of life of the call, if its tool limits silence.
    pub(crate) signs: Option<SignsOfLife>,
    pub(crate) tool: Arc<Tool>,
    pub(crate) configs: Arc<Configs>,
    pub(crate) models: Models,
    /// Number of requests of the call to models.
    pub(crate) asked: AtomicU32,
    /// Calls of the code; `None` if its config allows it none.
    pub(crate) inner: Option<Arc<InnerCalls>>,
    /// The values that tools keep for the run.
    pub(crate) scope: Arc<RunScope>,
    /// Settings for the end of programs that the call starts.
    pub(crate) endings: Endings,
    /// The secrets that the call was given, which nothing that it brings back may repeat.
    pub(crate) given_secrets: Arc<Mutex<Secrets>>,
    /// Error that must end the run if the call met it, instead of being an ordinary tool error.
    pub(crate) run_error: Arc<OnceLock<ModelError>>,
}

impl ToolHost for Host {
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ToolError>> {
        Box::pin(async move {
            if let Some(content) = self.shared.contents.cached(hash) {
                return Ok(content);
            }
            let _outside = self.waits_outside();
            self.entries_are_stored().await;
            self.shared.contents.for_tool(hash).await
        })
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _outside = self.waits_outside();
            tokio::select! {
                () = tokio::time::sleep(duration) => {}
                () = self.over.cancelled() => {}
            }
        })
    }

    fn is_cancelled(&self) -> bool {
        self.over.is_cancelled()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.over.cancelled())
    }

    fn may_suspend(&self) -> bool {
        self.tool.suspends
    }

    fn delivery_key(&self) -> BoxFuture<'_, Result<String, ToolError>> {
        Box::pin(async move {
            if !self.tool.suspends {
                let name = self.tool.definition.shown_name();
                return Err(ToolError::new(format!(
                    "calls of {name} cannot wait for a delivery: its config lacks \"suspends\": true"
                )));
            }
            let key = self.shared.delivery_key(&self.caller.run, &self.caller.call).await;
            key.map_err(|error| ToolError::new(format!("the key for the delivery cannot be made: {error}")))
        })
    }

    fn progress(&self, message: &str) {
        self.signs.iter().for_each(SignsOfLife::show);
        let message = self.given_secrets.lock().unwrap_or_else(PoisonError::into_inner).scrubbed(message).into_owned();
        self.progress.send(Arc::new(Progress::Call { call: self.caller.call.clone(), message }));
    }

    fn secret(&self, name: &str) -> Option<String> {
        let named = match &self.tool.executor {
            Some(Executor::Exec(spec)) => &spec.env,
            _ => &self.tool.secrets,
        };
        let other = self.tool.configuration.as_ref().and_then(|configuration| configuration.secret.as_deref());
        let is_of_input = self.tool.arguments.envs.values().any(|named| named == name);
        let secret = (is_of_input || named.iter().any(|named| named == name))
            .then(|| (self.shared.variable)(other.unwrap_or(name)))
            .flatten();
        for (cassettes, secret) in self.shared.providers.cassettes().into_iter().zip(&secret) {
            cassettes.keep_out(secret);
        }
        // A command is given variables that are no secrets as well.
        let is_declared = is_of_input || self.tool.secrets.iter().any(|declared| declared == name);
        let kept =
            secret.as_ref().and_then(|value| if is_declared { Some(value.clone()) } else { secret_of_variable(name, value) });
        if let Some(kept) = kept {
            self.given_secrets.lock().unwrap_or_else(PoisonError::into_inner).join(&Secrets::in_answers(kept.trim()));
        }
        secret
    }

    fn recall(&self, tool: &str, scope: RecallScope) -> BoxFuture<'_, Result<Vec<RecalledCall>, ToolError>> {
        let tool = ToolId::new(tool);
        Box::pin(async move {
            let _outside = self.waits_outside();
            self.entries_are_stored().await;
            let recalled = match scope {
                RecallScope::Agent => {
                    let calls = self.shared.store.recall(&self.memory, &self.caller.agent, &tool, RECALLED_CALLS).await;
                    let recalled = |(run, LoggedCall { task, call, at, input, .. })| RecalledCall {
                        run,
                        task,
                        call,
                        seq: 0,
                        at,
                        input,
                        status: CallStatus::Success,
                    };
                    calls.map(|calls| calls.into_iter().map(recalled).collect())
                }
                RecallScope::Task => {
                    let entries = self.shared.store.task_entries(&self.caller.run, &self.caller.task, self.seq).await;
                    entries.map(|entries| self.calls_among(&entries, &tool))
                }
            };
            recalled.map_err(|error| ToolError::new(format!("earlier calls cannot be read: {error}")))
        })
    }

    fn settings(&self) -> Json {
        self.tool.settings.clone()
    }

    fn ask(&self, ask: ModelAsk) -> BoxFuture<'_, Result<ModelReply, ToolError>> {
        Box::pin(async move {
            let _outside = self.waits_outside();
            ask::answer(self, ask).await
        })
    }

    fn call<'a>(&'a self, name: Option<&'a str>, asked: ModelCall) -> BoxFuture<'a, Result<Arc<CallResult>, ToolError>> {
        Box::pin(inner::call(self, name, asked))
    }

    fn breadcrumbs(&self, ask: BreadcrumbAsk, may_read_pii: bool) -> BoxFuture<'_, Result<BreadcrumbReply, ToolError>> {
        Box::pin(async move {
            let _outside = self.waits_outside();
            breadcrumbs::answer(self, ask, may_read_pii).await
        })
    }

    fn check_ahead(&self, calls: Vec<ModelCall>) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(inner::check_ahead(self, calls))
    }

    fn run_scope(&self) -> Arc<RunScope> {
        Arc::clone(&self.scope)
    }

    fn start_program(&self, program: &str, arrange: Arrange<'_>) -> io::Result<RunProgram> {
        program::start(self, program, arrange)
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()> {
        let blocking = Arc::clone(&self.shared.blocking);
        Box::pin(async move {
            let _outside = self.waits_outside();
            let Ok(permit) = blocking.acquire_owned().await else { return };
            // A panic leaves the caller without a value, which it reports.
            let _panicked = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                work();
            })
            .await;
        })
    }
}

impl Host {
    /// Returns the project whose breadcrumbs the run shares. It is looked up on the first use, since that may read files.
    fn project(&self) -> &ProjectId {
        self.project.get_or_init(|| {
            let of_folder = self.folder.as_deref().and_then(|folder| (self.shared.project_of)(folder));
            of_folder.unwrap_or_else(|| ProjectId::of(&self.memory))
        })
    }

    /// Sends `event` to the run. Returns the decision once it is durable, or about a call of code once it is made.
    pub(crate) async fn decided(&self, event: Event) -> Result<(), Refusal> {
        let (reply, decided) = oneshot::channel();
        let message = Message::Event(Incoming { reply: Some(reply), ..event.into() });
        let not_running = || Refusal::NotRunning { call: self.caller.call.clone() };
        self.mailbox.send(message).map_err(|_| not_running())?;
        decided.await.unwrap_or_else(|_| Err(not_running()))
    }

    /// Notes that code which makes calls waits for something else, until the returned value is dropped.
    fn waits_outside(&self) -> Option<Outside<'_>> {
        self.inner.as_deref().map(InnerCalls::waits_outside)
    }

    /// Waits until all that the call may see is in the store.
    async fn entries_are_stored(&self) {
        // Without its actor the run is over, and the result is not needed.
        let mut durable = self.durable.clone();
        let _over = durable.wait_for(|durable| *durable >= self.seq).await;
    }

    /// Returns the accepted calls of `tool` among the entries of the calling task.
    fn calls_among(&self, entries: &[Arc<Recorded>], tool: &ToolId) -> Vec<RecalledCall> {
        let mut inputs = FxHashMap::default();
        let mut recalled = Vec::new();
        for recorded in entries {
            match &recorded.entry {
                Entry::ModelAnswered(entry) => {
                    let calls = (1..).zip(&entry.calls);
                    inputs.extend(calls.map(|(position, asked)| (entry.task.call(entry.turn, position), asked.input.clone())));
                }
                Entry::CallMade(entry) => _ = inputs.insert(entry.call.clone(), entry.asked.input.clone()),
                Entry::CallApproved(CallApproved { call, input: Some(input), .. })
                | Entry::CallStarted(CallStarted { call, input: Some(input), .. }) => {
                    inputs.insert(call.clone(), input.clone());
                }
                Entry::CallFinished(entry) if entry.tool == *tool => {
                    let input = inputs.get(&entry.call).cloned().unwrap_or_else(Json::null);
                    recalled.push(RecalledCall {
                        run: self.caller.run.clone(),
                        task: entry.task.clone(),
                        call: entry.call.clone(),
                        seq: recorded.seq,
                        at: recorded.at,
                        input,
                        status: entry.result.status,
                    });
                }
                _ => {}
            }
        }
        recalled
    }
}
