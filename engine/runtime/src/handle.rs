//! A run as the rest of the program holds it: its entries, its outcome, and the ways to act on it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use baton_machine::{Least, Run};
use baton_models::ModelError;
use baton_store::{Store, StoreError};
use baton_types::call::{CallError, CallResult, ModelCall};
use baton_types::config::Configs;
use baton_types::document::{Content, DocumentRef, Write};
use baton_types::entry::{Entry, Recorded, RunEnded};
use baton_types::event::{Event, Refusal};
use baton_types::id::{AgentId, CallId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use futures_util::stream::BoxStream;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::error::RunError;
use crate::job::InitialDocument;
use crate::watchers::Watchers;

/// Number of entries read from the store at once.
const PAGE: usize = 512;

/// The entries of a run, from the first, then live, without gaps; ends with the run or when it stops proceeding here.
pub type EntryStream = BoxStream<'static, Result<Arc<Recorded>, Arc<StoreError>>>;

/// A run that proceeds in this process, or that has ended. Cheap to clone; dropping it stops nothing.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) id: RunId,
    pub(crate) configs: Arc<Configs>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) mailbox: mpsc::UnboundedSender<Message>,
    /// Weak, so that entries and progress end when the actor does.
    pub(crate) live: Weak<Watchers<Arc<Recorded>>>,
    pub(crate) progress: Weak<Watchers<Arc<Progress>>>,
    pub(crate) standing: watch::Receiver<Standing>,
}

/// Channel for the machine's answer to an event.
pub(crate) type Reply = oneshot::Sender<Result<(), Refusal>>;

/// Messages to a run's actor. The mailbox is unbounded because each of its senders is bounded: an executor sends one
/// message for its call, a model one for its request, and other senders wait for the reply.
pub(crate) enum Message {
    /// Something happened.
    Event(Incoming),
    /// A model gave no answer in one attempt.
    Unanswered(Box<Unanswered>),
    /// Compares the least that calls of code take with the limits.
    CheckAhead {
        /// The call whose code is about to make them.
        by: CallId,
        /// The calls.
        calls: Vec<ModelCall>,
        /// Channel for the least that they take, or for the limit that leaves no room.
        reply: oneshot::Sender<Result<Least, CallError>>,
    },
    /// The code of a call has nothing to do until one of its own calls has a result.
    CodeWaits,
    /// Tell the questions that wait for a person.
    Questions(oneshot::Sender<Vec<OpenQuestion>>),
    /// The engine's own code for a request or a call panicked.
    Panicked(Box<dyn std::any::Any + Send>),
    /// Take no further step.
    Stop,
    /// If the run stops in the middle of its work, let it be due at once.
    Unattended,
}

impl Message {
    /// Returns the event in the message; `None` for other messages.
    pub(crate) fn event(self) -> Option<Incoming> {
        match self {
            Self::Event(incoming) => Some(incoming),
            Self::Unanswered(_)
            | Self::CheckAhead { .. }
            | Self::Questions(_)
            | Self::Panicked(_)
            | Self::CodeWaits
            | Self::Stop
            | Self::Unattended => None,
        }
    }
}

/// An event to be decided, and what belongs to it.
pub(crate) struct Incoming {
    /// The event. Boxed, because the first message to a run allocates a block of 32 messages.
    pub(crate) event: Box<Event>,
    /// The contents of the writes it names.
    pub(crate) contents: Vec<(ContentHash, Content)>,
    /// Channel for the acceptance or refusal, once it is durable. Code that makes a call gets it once it is decided.
    pub(crate) reply: Option<Reply>,
    /// The number of the command in the inbox, if the event was one. The batch with its decision removes the command.
    pub(crate) command: Option<u64>,
}

impl From<Event> for Incoming {
    fn from(event: Event) -> Self {
        Self { event: Box::new(event), contents: Vec::new(), reply: None, command: None }
    }
}

/// State of a run's actor.
#[derive(Clone)]
pub(crate) enum Standing {
    /// Something can proceed.
    Working,
    /// Nothing can until a person answers. The number is that of the last entry: a new wait is another one.
    WaitingForPeople(u64),
    /// Nothing can until a result is delivered, or a moment comes.
    Suspended,
    /// The actor is done.
    Over(RunOutcome),
}

/// Ways in which a run stops proceeding in this process.
#[derive(Clone)]
pub enum RunOutcome {
    /// It has its one end.
    Ended {
        /// Its last entry.
        end: RunEnded,
        /// The result of the root task.
        result: Arc<CallResult>,
        /// The whole final state: tasks, documents, usage.
        run: Arc<Run>,
    },
    /// Nothing can proceed until a person answers one of [`RunHandle::open_questions`], and the caller asked not to wait
    /// for that.
    WaitingForPerson,
    /// It was stopped and can be resumed.
    Stopped,
    /// It stopped and can be resumed: nothing can proceed but requests whose provider is away.
    ProviderAway(Vec<ProviderAway>),
    /// The store or the engine failed; what was committed before can be resumed.
    Failed(RunError),
}

/// A request whose provider is away. It is made again when the run is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAway {
    /// The task that asks.
    pub task: TaskId,
    /// The provider, as configs name it.
    pub provider: String,
    /// Why there is no answer. No key is in it.
    pub reason: String,
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// Its task.
    pub task: TaskId,
    /// Its number in the run: people say `Q1`.
    pub number: u32,
    /// The task that asked.
    pub asker: TaskId,
    /// The agent that asked.
    pub agent: Option<AgentId>,
    /// The question.
    pub text: String,
    /// The documents that came with it.
    pub documents: Vec<DocumentRef>,
    /// The JSON Schema that an answer must meet; `null` without.
    pub answer_schema: Json,
    /// When it expires.
    pub deadline: Option<Timestamp>,
}

impl OpenQuestion {
    /// Returns the questions of `run` that wait for a person.
    pub fn all(run: &Run) -> Vec<Self> {
        run.open_questions()
            .filter_map(|task| {
                let question = task.question.as_ref()?;
                Some(Self {
                    task: task.id.clone(),
                    number: question.number,
                    asker: question.asker.clone(),
                    agent: run.task(&question.asker).and_then(|asker| asker.agent().cloned()),
                    text: question.text.to_string(),
                    documents: question.documents.to_vec(),
                    answer_schema: question.answer_schema.clone(),
                    deadline: task.deadline,
                })
            })
            .collect()
    }
}

/// Progress between two entries. It is not recorded: it is sent once, to the present watchers.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A running call reports its progress.
    Call {
        /// The call.
        call: CallId,
        /// Message of the tool.
        message: String,
    },
    /// A request waits, and is then sent again.
    BacksOff(BackOff),
    /// A provider answers again.
    Returned {
        /// The provider.
        provider: String,
        /// The time for which it was away.
        away: Duration,
    },
}

/// The pause before the next attempt at a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// The task that asks.
    pub task: TaskId,
    /// The turn that it asks for.
    pub turn: u32,
    /// The provider, as configs name it.
    pub provider: String,
    /// Number of the next attempt.
    pub attempt: u32,
    /// When the next attempt begins.
    pub next: NextAttempt,
    /// The failure of the last attempt, or the limit that the request waits for. No key is in it.
    pub reason: String,
}

/// When the next attempt at a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// At this time.
    At(Timestamp),
    /// At this time, although the request was retried for as long as its config allows. The run stops before that if nothing
    /// else can proceed.
    AfterWindow(Timestamp),
    /// When the run is resumed: a person has to act first.
    OnResume,
}

impl RunHandle {
    /// Returns the run's id.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Returns the configs that the run is pinned to.
    pub fn configs(&self) -> &Arc<Configs> {
        &self.configs
    }

    /// Returns the run's entries from the first on, then live, without gaps.
    ///
    /// A reader that falls behind reads the store, so a slow one neither misses entries nor holds up the run.
    pub fn entries(&self) -> EntryStream {
        self.entries_after(0)
    }

    /// Returns the run's entries after sequence number `seq`, then live.
    pub fn entries_after(&self, seq: u64) -> EntryStream {
        let live = self.live.upgrade().map(|live| live.watch());
        let reader = EntryReader {
            store: Arc::clone(&self.store),
            run: self.id.clone(),
            after: seq,
            page: VecDeque::new(),
            behind: true,
            live,
            ended: false,
            done: false,
        };
        Box::pin(futures_util::stream::unfold(reader, |mut reader| async move {
            match reader.next().await {
                Ok(entry) => entry.map(|entry| (Ok(entry), reader)),
                Err(error) => {
                    reader.done = true;
                    Some((Err(Arc::new(error)), reader))
                }
            }
        }))
    }

    /// Returns the progress of running calls, and the pauses before requests are sent again; `None` once the run no longer proceeds
    /// here. It begins with the run for the first caller, and now for others. A slow reader misses some.
    pub fn progress(&self) -> Option<broadcast::Receiver<Arc<Progress>>> {
        self.progress.upgrade().map(|progress| progress.watch())
    }

    /// Answers a question that waits for a person; returns when the answer is durable.
    pub async fn answer(
        &self,
        question: TaskId,
        by: &Principal,
        answer: Json,
        documents: Vec<InitialDocument>,
    ) -> Result<(), RunError> {
        let (documents, contents) = measured(&documents);
        self.ask(Event::PersonAnswered { question, by: by.clone(), answer, documents, recorded: None }, contents).await
    }

    /// Ends `task` and all below it; returns when that is durable. The root's end ends the run.
    pub async fn cancel(&self, task: TaskId, reason: &str, by: &Principal) -> Result<(), RunError> {
        self.ask(Event::CancelRequested { task, reason: reason.to_owned(), by: by.clone() }, Vec::new()).await
    }

    /// Takes no further step until [`RunHandle::unpause`]; returns when that is durable. What is in flight may finish.
    pub async fn pause(&self, by: &Principal) -> Result<(), RunError> {
        self.ask(Event::PauseRequested { by: by.clone() }, Vec::new()).await
    }

    /// Continues a paused run; returns when that is durable.
    pub async fn unpause(&self, by: &Principal) -> Result<(), RunError> {
        self.ask(Event::UnpauseRequested { by: by.clone() }, Vec::new()).await
    }

    /// Sends a message into the next request of `task`; returns when it is durable.
    pub async fn steer(&self, task: TaskId, text: &str, by: &Principal) -> Result<(), RunError> {
        self.ask(Event::Steered { task, text: text.to_owned(), by: by.clone() }, Vec::new()).await
    }

    /// Takes no further step and returns once the run has stopped; it can be resumed.
    ///
    /// Calls that a crash would make unknown are awaited within their time limits; everything else is dropped and done
    /// again on resume.
    pub async fn stop(&self) -> RunOutcome {
        // A run that is over does not read this; its outcome is known.
        let _already_over = self.mailbox.send(Message::Stop);
        self.outcome().await
    }

    /// Waits until the run ends, stops or fails; through questions, however long their answers take.
    pub async fn outcome(&self) -> RunOutcome {
        self.wait(false).await
    }

    /// Waits like [`RunHandle::outcome`], but not for people: returns when nothing can proceed until one answers.
    ///
    /// The run continues when the answer comes; [`RunHandle::stop`] ends it here.
    pub async fn outcome_without_people(&self) -> RunOutcome {
        self.wait(true).await
    }

    /// Waits until nothing can proceed by itself: the run waits for people, for deliveries or for a moment. Returns the outcome if the
    /// run is over before.
    pub async fn until_idle(&self) -> Option<RunOutcome> {
        let mut standing = self.standing.clone();
        loop {
            match &*standing.borrow_and_update() {
                Standing::Over(outcome) => return Some(outcome.clone()),
                Standing::WaitingForPeople(_) | Standing::Suspended => return None,
                Standing::Working => {}
            }
            if standing.changed().await.is_err() {
                return Some(RunOutcome::Stopped);
            }
        }
    }

    /// Waits until nothing can proceed until a person answers, and returns the number of the run's last entry then, which is
    /// greater than `seq`. Never returns once the run is over.
    ///
    /// The entries up to that number say which questions are open. Questions asked for afterwards may be others: a person can
    /// have answered in between.
    pub async fn waits_for_people_after(&self, seq: u64) -> u64 {
        let mut standing = self.standing.clone();
        loop {
            match &*standing.borrow_and_update() {
                Standing::WaitingForPeople(since) if *since > seq => return *since,
                Standing::WaitingForPeople(_) | Standing::Suspended | Standing::Working | Standing::Over(_) => {}
            }
            if standing.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Returns the questions that wait for a person, in the order of their numbers; none once the run is over.
    pub async fn open_questions(&self) -> Vec<OpenQuestion> {
        let (reply, answer) = oneshot::channel();
        // Without its actor the run has no open questions.
        let _over = self.mailbox.send(Message::Questions(reply));
        answer.await.unwrap_or_default()
    }

    /// Lets the run be due at once if it stops in the middle of its work.
    pub(crate) fn unattended(&self) {
        let _already_over = self.mailbox.send(Message::Unattended);
    }

    /// Waits until nothing can proceed until a result is delivered or a moment comes. Never returns once the run is over.
    pub async fn until_suspended(&self) {
        let mut standing = self.standing.clone();
        while !matches!(&*standing.borrow_and_update(), Standing::Suspended) {
            if standing.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Over(_))
    }

    /// Hands an event to the actor and waits until it is durable.
    pub(crate) async fn ask(&self, event: Event, contents: Vec<(ContentHash, Content)>) -> Result<(), RunError> {
        let (reply, answer) = oneshot::channel();
        let gone = || RunError::NotRunning(self.id.clone());
        let incoming = Incoming { contents, reply: Some(reply), ..event.into() };
        self.mailbox.send(Message::Event(incoming)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(RunError::Refused)
    }

    async fn wait(&self, only_while_it_can_proceed: bool) -> RunOutcome {
        let mut standing = self.standing.clone();
        loop {
            match &*standing.borrow_and_update() {
                Standing::Over(outcome) => return outcome.clone(),
                Standing::WaitingForPeople(_) if only_while_it_can_proceed => return RunOutcome::WaitingForPerson,
                Standing::WaitingForPeople(_) | Standing::Suspended | Standing::Working => {}
            }
            if standing.changed().await.is_err() {
                // The actor went without a word: its runtime was shut down.
                return RunOutcome::Stopped;
            }
        }
    }
}

/// Returns the writes of `documents` with their contents.
pub(crate) fn measured(documents: &[InitialDocument]) -> (Vec<Write>, Vec<(ContentHash, Content)>) {
    documents.iter().map(InitialDocument::write).unzip()
}

/// Reads a run's entries: pages from the store while behind, live ones after.
struct EntryReader {
    store: Arc<dyn Store>,
    run: RunId,
    /// The last entry given out.
    after: u64,
    page: VecDeque<Arc<Recorded>>,
    behind: bool,
    /// Whether the last entry given out ended a run.
    ended: bool,
    /// `None` once no more are announced.
    live: Option<broadcast::Receiver<Arc<Recorded>>>,
    done: bool,
}

impl EntryReader {
    async fn next(&mut self) -> Result<Option<Arc<Recorded>>, StoreError> {
        while !self.done {
            if let Some(entry) = self.page.pop_front() {
                self.after = entry.seq;
                // More follow in a run that continues the one that ended here.
                self.ended = matches!(entry.entry, Entry::RunEnded(_));
                self.behind |= self.ended;
                return Ok(Some(entry));
            }
            if self.behind {
                self.page = self.store.entries(&self.run, self.after, PAGE).await?.into();
                self.behind = !self.page.is_empty();
                self.done = self.page.is_empty() && (self.live.is_none() || self.ended);
                continue;
            }
            let Some(live) = &mut self.live else { break };
            match live.recv().await {
                Ok(entry) if entry.seq <= self.after => {}
                Ok(entry) if entry.seq == self.after + 1 => self.page.push_back(entry),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
                Err(broadcast::error::RecvError::Closed) => (self.live, self.behind) = (None, true),
            }
        }
        Ok(None)
    }
}

/// A model gave no answer in one attempt.
pub(crate) struct Unanswered {
    pub(crate) task: TaskId,
    pub(crate) turn: u32,
    /// The model that was asked.
    pub(crate) model: String,
    pub(crate) error: ModelError,
    /// Number of times that the request was sent.
    pub(crate) sent: u32,
    /// When the attempt began.
    pub(crate) began: Timestamp,
}
