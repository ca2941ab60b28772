//! The protocol of the developer tools, over the two pipes of a browser that was started with `--remote-debugging-pipe`.
//!
//! A message is one JSON value that ends with a zero byte. Commands have numbers, and their answers repeat them. Pages are hostile, so
//! messages are bounded: a longer one is skipped as it arrives, and its command gets an error. Domains that report what a page prints or
//! requests (`Runtime`, `Log`, `Network`) are never enabled, so a page cannot flood this process.
//!
//! Why not a crate: those for this protocol connect to a port, which every user of the machine can reach, and read messages of any
//! length. They generate types for hundreds of commands, which take longer to build than all other tools together. A dozen commands are
//! used here.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// The longest message that is read. A screenshot is the longest that is needed.
const MAX_MESSAGE_BYTES: usize = 32 << 20;
/// Number of bytes of a skipped message that are kept: its number is among them.
const HEAD_BYTES: usize = 64;

/// Why a command has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DevToolsError {
    /// The pipes are closed.
    #[error("the browser has ended")]
    Ended,
    /// The process of the page has crashed.
    #[error("the page crashed")]
    Crashed,
    /// It took too long.
    #[error("the browser did not answer in time")]
    TimedOut,
    /// The answer is not read.
    #[error("the answer of the page is too large or is not valid JSON")]
    Unreadable,
    /// The browser refused the command.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a browser. The connection ends with its last clone.
#[derive(Clone)]
pub(super) struct DevTools {
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    state: Arc<Mutex<State>>,
    ended: watch::Receiver<bool>,
}

/// Commands in progress, and what events have reported.
#[derive(Default)]
struct State {
    last: u64,
    pending: HashMap<u64, Pending>,
    /// Sessions by the targets that they belong to.
    sessions: HashMap<String, String>,
    /// Targets that crashed and are still there.
    crashed: BTreeSet<String>,
    /// Sessions whose pages are loading.
    loading: BTreeSet<String>,
    is_over: bool,
}

/// A command in progress.
struct Pending {
    session: Option<String>,
    answer: oneshot::Sender<Result<Value, DevToolsError>>,
}

impl DevTools {
    /// Connects to a browser that reads from `input` and writes to `output`.
    pub(super) fn connect(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let (outgoing, messages) = mpsc::unbounded_channel();
        let (over, ended) = watch::channel(false);
        let state = Arc::<Mutex<State>>::default();
        tokio::spawn(send(input, messages));
        // It must not keep the connection open itself, so that the last clone outside ends it.
        let incoming = Incoming { outgoing: outgoing.downgrade(), state: Arc::clone(&state) };
        tokio::spawn(async move {
            receive(output, |message| incoming.take(message)).await;
            incoming.end();
            over.send_replace(true);
        });
        Self { outgoing, state, ended }
    }

    /// Whether the browser has ended.
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Gives a command to the browser, or to the page of `session`. Returns its result.
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
        limit: Duration,
    ) -> Result<Value, DevToolsError> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = lock(&self.state);
            if state.is_over {
                return Err(DevToolsError::Ended);
            }
            // The browser never answers a command to a page that is gone.
            if session.is_some_and(|session| !state.sessions.values().any(|known| known == session)) {
                return Err(DevToolsError::Crashed);
            }
            state.last += 1;
            let number = state.last;
            state.pending.insert(number, Pending { session: session.map(str::to_owned), answer });
            number
        };
        // Removed also if this future is dropped.
        let _forgotten = Forget { state: &self.state, number };
        self.outgoing.send(command(number, session, method, &parameters)).map_err(|_| DevToolsError::Ended)?;
        match timeout(limit, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(DevToolsError::Ended),
            Err(_) => Err(DevToolsError::TimedOut),
        }
    }

    /// Notes that `session` belongs to `target`. Only then it takes commands. A page that has crashed already has none.
    pub(super) fn note_session(&self, target: &str, session: &str) {
        let mut state = lock(&self.state);
        if !state.crashed.contains(target) {
            state.sessions.insert(target.to_owned(), session.to_owned());
        }
    }

    /// Whether `target` has a session. It has none any more if its page crashed or was closed.
    pub(super) fn has_target(&self, target: &str) -> bool {
        lock(&self.state).sessions.contains_key(target)
    }

    /// Forgets the session of `target`.
    pub(super) fn forget_target(&self, target: &str) {
        let mut state = lock(&self.state);
        if let Some(session) = state.sessions.remove(target) {
            state.loading.remove(&session);
        }
    }

    /// Whether the page of `session` is loading, as far as it has been reported.
    pub(super) fn is_loading(&self, session: &str) -> bool {
        lock(&self.state).loading.contains(session)
    }
}

/// Removes a command whose caller no longer waits.
struct Forget<'c> {
    state: &'c Mutex<State>,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.state).pending.remove(&self.number);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn command(number: u64, session: Option<&str>, method: &str, parameters: &Value) -> Vec<u8> {
    let mut command = json!({ "id": number, "method": method, "params": parameters });
    if let Some(session) = session {
        command["sessionId"] = session.into();
    }
    let mut bytes = command.to_string().into_bytes();
    bytes.push(0);
    bytes
}

/// Writes messages until there are no more.
async fn send(mut input: impl AsyncWrite + Unpin, mut messages: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        if input.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Gives each message to `take`, until the pipe ends. Of a message that is too long, it gets the beginning.
async fn receive(mut output: impl AsyncRead + Unpin, take: impl Fn(&[u8])) {
    let mut message = Bounded::default();
    let mut chunk = vec![0; 1 << 16];
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        let mut rest = &chunk[..read];
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            message.push(&rest[..end]);
            take(&message.bytes);
            message = Bounded::default();
            rest = &rest[end + 1..];
        }
        message.push(rest);
    }
}

/// A message that arrives, or the beginning of one that is too long.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Bounded {
    fn push(&mut self, piece: &[u8]) {
        if !self.is_cut && self.bytes.len() + piece.len() > MAX_MESSAGE_BYTES {
            self.is_cut = true;
            self.bytes.truncate(HEAD_BYTES);
            self.bytes.shrink_to_fit();
        }
        if !self.is_cut {
            self.bytes.extend_from_slice(piece);
        }
    }
}

/// Reader of the browser's messages.
struct Incoming {
    outgoing: mpsc::WeakUnboundedSender<Vec<u8>>,
    state: Arc<Mutex<State>>,
}

impl Incoming {
    fn take(&self, message: &[u8]) {
        let Ok(mut message) = serde_json::from_slice::<Value>(message) else {
            // An event that cannot be read is none that is needed.
            return number_in(message).into_iter().for_each(|number| self.answer(number, Err(DevToolsError::Unreadable)));
        };
        if let Some(number) = message["id"].as_u64() {
            let answer = match message["error"].take() {
                Value::Null => Ok(message["result"].take()),
                error => Err(DevToolsError::Refused(error["message"].as_str().unwrap_or("refused").to_owned())),
            };
            return self.answer(number, answer);
        }
        self.take_event(&message);
    }

    fn answer(&self, number: u64, answer: Result<Value, DevToolsError>) {
        let pending = lock(&self.state).pending.remove(&number);
        // The caller may no longer wait.
        let _gone = pending.map(|pending| pending.answer.send(answer));
    }

    fn take_event(&self, event: &Value) {
        let (session, parameters) = (event["sessionId"].as_str(), &event["params"]);
        match (event["method"].as_str().unwrap_or_default(), session) {
            // A dialog stops the page until it is answered, so it is dismissed. A page that asks whether it may be left is left.
            ("Page.javascriptDialogOpening", Some(session)) => {
                let accept = parameters["type"] == "beforeunload";
                self.send(Some(session), "Page.handleJavaScriptDialog", &json!({ "accept": accept }));
            }
            // Another window: it is closed before anybody looks at it.
            ("Target.targetCreated", None) => {
                let info = &parameters["targetInfo"];
                if info["type"] == "page" && info["openerId"].is_string() {
                    self.send(None, "Target.closeTarget", &json!({ "targetId": info["targetId"] }));
                }
            }
            (method @ ("Target.targetCrashed" | "Target.targetDestroyed"), None) => {
                if let Some(target) = parameters["targetId"].as_str() {
                    self.end_target(target, method == "Target.targetCrashed");
                }
            }
            ("Page.frameStartedLoading", Some(session)) if self.is_main_frame(session, parameters) => {
                lock(&self.state).loading.insert(session.to_owned());
            }
            ("Page.frameStoppedLoading", Some(session)) if self.is_main_frame(session, parameters) => {
                lock(&self.state).loading.remove(session);
            }
            _ => {}
        }
    }

    /// Whether the event is about the page of `session` itself. The main frame has the id of its target.
    fn is_main_frame(&self, session: &str, parameters: &Value) -> bool {
        let frame = parameters["frameId"].as_str().unwrap_or_default();
        lock(&self.state).sessions.get(frame).is_some_and(|of| of == session)
    }

    /// Fails the commands in progress of a page that is gone.
    fn end_target(&self, target: &str, is_there: bool) {
        let failed = {
            let mut state = lock(&self.state);
            if is_there {
                state.crashed.insert(target.to_owned());
            } else {
                state.crashed.remove(target);
            }
            let Some(session) = state.sessions.remove(target) else { return };
            state.loading.remove(&session);
            let of_session = state.pending.extract_if(|_, pending| pending.session.as_ref() == Some(&session));
            of_session.collect::<Vec<_>>()
        };
        for (_, pending) in failed {
            let _gone = pending.answer.send(Err(DevToolsError::Crashed));
        }
    }

    /// Fails the commands in progress: the browser is gone.
    fn end(&self) {
        let failed = {
            let mut state = lock(&self.state);
            state.is_over = true;
            std::mem::take(&mut state.pending)
        };
        for pending in failed.into_values() {
            let _gone = pending.answer.send(Err(DevToolsError::Ended));
        }
    }

    /// Gives a command whose result does not matter.
    fn send(&self, session: Option<&str>, method: &str, parameters: &Value) {
        let Some(outgoing) = self.outgoing.upgrade() else { return };
        let number = {
            let mut state = lock(&self.state);
            state.last += 1;
            state.last
        };
        let _ended = outgoing.send(command(number, session, method, parameters));
    }
}

/// Returns the number of the command that a message answers, by the message's beginning.
fn number_in(message: &[u8]) -> Option<u64> {
    let digits = message.strip_prefix(b"{\"id\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "tests/devtools.rs"]
mod tests;
