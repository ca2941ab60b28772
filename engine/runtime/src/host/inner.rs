//! Calls that the code of a call makes.
//!
//! The code gets one result at a time, and only while it waits. It is polled until it is idle and all its calls are decided.
//! Then it gets the next result. Results come in the order of the timeline. So code that runs again after a crash sees the
//! same order, makes the same calls and gives them the same numbers.
//!
//! A command may be busy while its future is idle. So a command gets a result only after it has made the calls of all earlier
//! results of the timeline ([`InnerCalls::of_command`]). A command that runs again has not made all its calls yet when the
//! first result is available.

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use baton_machine::Least;
use baton_tool::{ToolError, ToolErrorKind, ToolHost as _};
use baton_types::call::{CallResult, ErrorCode, ModelCall};
use baton_types::event::{Event, Refusal};
use baton_types::id::CallId;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Host;
use crate::handle::Message;

/// A result, and the call that has it.
pub(crate) type InnerResult = (CallId, Arc<CallResult>);

/// Calls that the code of one call has made.
pub(crate) struct InnerCalls {
    state: Mutex<State>,
    /// Whether a result is withheld until the code has made the calls of all earlier ones.
    in_order: bool,
    /// The difference between this execution of the code and the first one, if there is any.
    pub(crate) diverged: OnceLock<String>,
    mailbox: mpsc::UnboundedSender<Message>,
}

struct State {
    /// Results that the code has not been given, in the order of the timeline.
    results: VecDeque<InnerResult>,
    /// The calls whose results have come. A result that is recorded when the code begins may come by the inbox as well.
    returned: HashSet<CallId>,
    inbox: mpsc::UnboundedReceiver<InnerResult>,
    waiting: FxHashMap<CallId, oneshot::Sender<Arc<CallResult>>>,
    made: HashSet<CallId>,
    /// Number of calls that are not decided yet.
    undecided: u32,
    /// Number of calls without a name of their own.
    numbered: u32,
    /// Number of services of the host that the code waits for, other than calls.
    outside: u32,
    /// Whether the code waits for its calls alone. Of a command, only its lines are seen.
    is_idle: bool,
    /// The moment since which the code waits for calls.
    waits_since: Option<Instant>,
    waited: Duration,
}

impl InnerCalls {
    /// Returns the calls of a function that begins. `results` are those of calls that it made before a crash, and `inbox` receives
    /// later ones.
    pub(crate) fn of_function(
        results: Vec<InnerResult>,
        inbox: mpsc::UnboundedReceiver<InnerResult>,
        mailbox: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self::new(false, results, inbox, mailbox)
    }

    /// Does the same for a command.
    pub(crate) fn of_command(
        results: Vec<InnerResult>,
        inbox: mpsc::UnboundedReceiver<InnerResult>,
        mailbox: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self::new(true, results, inbox, mailbox)
    }

    fn new(
        in_order: bool,
        results: Vec<InnerResult>,
        inbox: mpsc::UnboundedReceiver<InnerResult>,
        mailbox: mpsc::UnboundedSender<Message>,
    ) -> Self {
        let state = State {
            returned: results.iter().map(|(call, _)| call.clone()).collect(),
            results: results.into(),
            inbox,
            waiting: FxHashMap::default(),
            made: HashSet::new(),
            undecided: 0,
            numbered: 0,
            outside: 0,
            is_idle: false,
            waits_since: None,
            waited: Duration::ZERO,
        };
        Self { state: Mutex::new(state), in_order, diverged: OnceLock::new(), mailbox }
    }

    /// Runs `code`, and gives it a result whenever it is idle.
    pub(crate) async fn drive<T>(&self, code: impl Future<Output = T>) -> T {
        let mut code = pin!(code);
        let driven = std::future::poll_fn(|context| {
            loop {
                if let Poll::Ready(value) = code.as_mut().poll(context) {
                    return Poll::Ready(value);
                }
                if !self.give_next(context) {
                    self.note_rest();
                    return Poll::Pending;
                }
            }
        });
        // With a budget, a channel that has a result can look empty, and code that is not idle can look idle.
        tokio::task::coop::unconstrained(driven).await
    }

    /// Notes whether the code waits for its calls alone, and reports to the run when it begins to.
    fn note_rest(&self) {
        let mut state = self.lock();
        let is_idle = state.undecided == 0 && state.outside == 0;
        if is_idle && !std::mem::replace(&mut state.is_idle, is_idle) {
            // A run that is over has no mailbox.
            let _over = self.mailbox.send(Message::CodeWaits);
        }
        state.is_idle = is_idle;
    }

    /// Whether the code has nothing to do until one of its calls has a result.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().is_idle
    }

    /// Notes that a result of a call is on its way to the code.
    pub(crate) fn note_result(&self) {
        self.lock().is_idle = false;
    }

    /// Notes that the code waits for another service of the host, until the returned value is dropped.
    pub(super) fn waits_outside(&self) -> Outside<'_> {
        let mut state = self.lock();
        (state.outside, state.is_idle) = (state.outside + 1, false);
        Outside(self)
    }

    /// Gives the code the first result that it waits for. Returns whether there was one.
    fn give_next(&self, context: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        while let Poll::Ready(Some(returned)) = state.inbox.poll_recv(context) {
            if state.returned.insert(returned.0.clone()) {
                state.results.push_back(returned);
            }
        }
        if state.undecided > 0 {
            return false;
        }
        let candidates = if self.in_order { 1 } else { state.results.len() };
        let next = state.results.iter().take(candidates).position(|(call, _)| state.waiting.contains_key(call));
        let Some(next) = next else {
            if self.in_order && !state.results.is_empty() {
                // The code has to make the next call, in its own time.
                state.stop_waiting();
            }
            return false;
        };
        let (call, result) = state.results.remove(next).expect("the result is there");
        let waiting = state.waiting.remove(&call).expect("the code waits for it");
        if state.waiting.is_empty() {
            state.stop_waiting();
        }
        // The code may have dropped the future of the call.
        let _dropped = waiting.send(result);
        true
    }

    /// Returns the time during which the code has waited for calls, and whether it waits now.
    pub(crate) fn waited(&self) -> (Duration, bool) {
        let state = self.lock();
        (state.waited + state.waits_since.map_or(Duration::ZERO, |since| since.elapsed()), state.waits_since.is_some())
    }

    /// Begins a call of the code of `outer`. Returns the channel for its result, too.
    fn begin(&self, outer: &CallId, name: Option<&str>) -> Result<(Begun<'_>, oneshot::Receiver<Arc<CallResult>>), ToolError> {
        let mut state = self.lock();
        let name = name.map_or_else(
            || {
                state.numbered += 1;
                state.numbered.to_string()
            },
            str::to_owned,
        );
        let call = outer.inner(&name);
        if !state.made.insert(call.clone()) {
            return Err(ToolError::new(format!("this code has made a call named {name:?} already")));
        }
        let (sender, result) = oneshot::channel();
        state.waiting.insert(call.clone(), sender);
        state.waits_since.get_or_insert_with(Instant::now);
        state.undecided += 1;
        Ok((Begun { calls: self, call, name }, result))
    }

    /// Forgets a call that the code does not wait for any more.
    fn forget(&self, call: &CallId) {
        let mut state = self.lock();
        state.waiting.remove(call);
        if state.waiting.is_empty() {
            state.stop_waiting();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts the time of the wait that ends now.
    fn stop_waiting(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.waited += since.elapsed();
        }
    }
}

/// A service of the host that the code waits for. See [`InnerCalls::waits_outside`].
pub(super) struct Outside<'c>(&'c InnerCalls);

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.0.lock().outside -= 1;
    }
}

/// A call whose result the code waits for. Code that drops the future of a call waits for it no longer.
struct Awaited<'c> {
    calls: &'c InnerCalls,
    call: CallId,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.calls.forget(&self.call);
    }
}

/// A call that is not decided yet.
struct Begun<'c> {
    calls: &'c InnerCalls,
    call: CallId,
    name: String,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.calls.lock().undecided -= 1;
    }
}

/// Makes a call for the code of the host's call, and waits for its result.
pub(super) async fn call(host: &Host, name: Option<&str>, asked: ModelCall) -> Result<Arc<CallResult>, ToolError> {
    let outer = &host.caller.call;
    let Some(inner) = &host.inner else {
        let message = format!("the code of {} cannot make calls: its config has no \"calls\"", host.tool.definition.shown_name());
        return Err(ToolError::new(message));
    };
    let (begun, result) = inner.begin(outer, name)?;
    let _awaited = Awaited { calls: inner.as_ref(), call: begun.call.clone() };
    let event = Event::CallMade { by: outer.clone(), name: begun.name.clone(), asked };
    let refused = host.decided(event).await.err();
    match refused {
        None => {}
        Some(refusal @ Refusal::Diverged { .. }) => {
            let message = refusal.to_string();
            let _the_first_counts = inner.diverged.set(message.clone());
            return Err(ToolError::new(message));
        }
        Some(refusal @ Refusal::CannotCall { .. }) => return Err(ToolError::new(refusal.to_string())),
        Some(_) => return Err(run_is_over()),
    }
    drop(begun);
    result.await.map_err(|_| run_is_over())
}

/// Checks whether the limits leave room for `calls`, and reports the least that they take.
pub(super) async fn check_ahead(host: &Host, calls: Vec<ModelCall>) -> Result<(), ToolError> {
    let _outside = host.waits_outside();
    let (reply, checked) = oneshot::channel();
    let message = Message::CheckAhead { by: host.caller.call.clone(), calls, reply };
    host.mailbox.send(message).map_err(|_| run_is_over())?;
    match checked.await.map_err(|_| run_is_over())? {
        Ok(Least { calls, tasks: 0, .. }) => host.progress(&format!("{calls} calls")),
        Ok(Least { calls, tasks, tokens, cost }) => {
            let cost = if cost.unpriced > 0 { String::new() } else { format!(" ({})", cost.known) };
            host.progress(&format!("{calls} calls, {tasks} tasks, at least ≈{tokens} tokens{cost}"));
        }
        Err(error) => {
            let is_limit = error.code == ErrorCode::LimitReached;
            let kind = if is_limit { ToolErrorKind::LimitReached } else { ToolErrorKind::InvalidInput };
            return Err(ToolError::new(error.message).with_detail(error.detail).of_kind(kind));
        }
    }
    Ok(())
}

fn run_is_over() -> ToolError {
    ToolError::new("the call was stopped before its inner call").of_kind(ToolErrorKind::Cancelled)
}
