//! Model requests and calls in progress, begun by the actor of their run.
//!
//! Work that completes on the first poll needs no task, channel or thread. Work that has to wait gets a task of its own
//! and its result arrives in the mailbox. The code of functions that make calls stays with the actor: its calls and their
//! results then need no change of threads. The actor decides *nothing* here: what an answer means is the core's business.

use std::collections::hash_map::Entry::Occupied;
use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton_machine::{OpenCall, Task};
use baton_models::universal::Universal;
use baton_models::{Attempt, ModelError};
use baton_store::{StoreError, failpoint};
use baton_tool::{Caller, RunScope};
use baton_types::call::{CallError, CallResult, ErrorCode};
use baton_types::config::{EffectClass, Executor, Invocation};
use baton_types::event::{Effect, Event};
use baton_types::id::{AgentId, CallId, TaskId, ToolId};
use baton_types::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use rustc_hash::FxHashMap;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Actor;
use crate::error::panic_message;
use crate::execute::{CallEnd, Execution};
use crate::handle::{Incoming, Message, Unanswered};
use crate::host::inner::{InnerCalls, InnerResult};
use crate::recording::Taken;

/// Longest time that the end of a run waits for calls that block their threads, in addition to the grace of commands.
const END_GRACE: Duration = Duration::from_secs(2);

/// Running work of the run.
#[derive(Default)]
pub(crate) struct Work {
    /// The tasks that something runs for.
    tasks: FxHashMap<TaskId, Running>,
    /// Model requests and calls in progress.
    running: TaskTracker,
    /// The running code of functions that make calls. It yields the message with its end, unless it was stopped.
    pub(crate) code: FuturesUnordered<BoxFuture<'static, Option<Message>>>,
    /// Messages of work that was done at once, in order.
    pub(crate) arrived: VecDeque<Message>,
    /// Events for which the last commit had no room, in order. They come before everything else.
    pub(crate) undecided: VecDeque<Incoming>,
    /// Events that the run takes over from its original, by their places there, with their tasks.
    taken: BTreeMap<u64, (TaskId, Event)>,
    /// The place of the newest event that was taken over.
    last_taken: u64,
    /// Turns to be asked for, in order: only so many at a time as one commit takes answers.
    pub(crate) to_ask: VecDeque<(TaskId, u32)>,
    /// The running code that waits for results of calls which it made.
    callers: FxHashMap<CallId, Calling>,
    /// The running calls that code made. Each is cancelled when it shall stop.
    inner: FxHashMap<CallId, CancellationToken>,
    /// Running calls that must not be repeated, and their tasks: stopping the run waits for them.
    pub(crate) unrepeatable: FxHashMap<CallId, TaskId>,
    /// The values that tools keep for the run.
    scope: Arc<RunScope>,
    /// Whether no further step shall be taken.
    pub(crate) stopping: bool,
    /// Whether the run is due at once if it stops in the middle of its work.
    pub(crate) due_when_stopped: bool,
    /// The status that lists of runs show.
    pub(crate) status: &'static str,
    /// The wake-up that was already delivered: if the machine still names it, waking again would be a busy loop.
    pub(crate) woken_for: Option<Timestamp>,
}

/// Running code that makes calls.
struct Calling {
    results: mpsc::UnboundedSender<InnerResult>,
    calls: Arc<InnerCalls>,
    /// Whether it is a function of this process. Another process may show what it is given.
    is_function: bool,
}

/// Running work of a task.
#[derive(Default)]
struct Running {
    /// Cancelled when it shall stop.
    token: CancellationToken,
    /// Number of its model requests and calls.
    count: u32,
}

impl Work {
    /// Returns the state without work, for a run with this `status` in lists.
    pub(crate) fn of_run(status: &'static str) -> Self {
        Self { status, ..Self::default() }
    }

    /// Records the end of work that did not end on its first poll.
    pub(crate) fn note_done(&mut self, event: &Event) {
        match event {
            Event::ModelAnswered { task, .. } => self.note_done_for(task.clone()),
            // A call of code that was stopped is counted already.
            Event::CallReturned { call, .. } | Event::CallSuspended { call, .. }
                if call.outer().is_none() || self.inner.remove(call).is_some() =>
            {
                self.note_done_for(call.task());
            }
            _ => {}
        }
    }

    /// Sends the code that made `call` its result.
    pub(crate) fn send_result(&self, call: CallId, result: Arc<CallResult>) {
        let Some(caller) = self.caller_of(&call) else { return };
        caller.calls.note_result();
        // The code may have ended.
        let _ended = caller.results.send((call, result));
    }

    /// Whether a running function of this process made `call`.
    pub(crate) fn is_for_function(&self, call: &CallId) -> bool {
        self.caller_of(call).is_some_and(|caller| caller.is_function)
    }

    fn caller_of(&self, call: &CallId) -> Option<&Calling> {
        call.outer().and_then(|(outer, _)| self.callers.get(&outer))
    }

    /// Stops the executor of `call`, which code made.
    fn stop_call(&mut self, call: &CallId) {
        if let Some(token) = self.inner.remove(call) {
            token.cancel();
            self.note_done_for(call.task());
        }
        self.taken.retain(|_, (_, event)| !matches!(event, Event::CallReturned { call: taken, .. } if taken == call));
        self.forget_call(call);
    }

    /// Keeps an event of the original of `task` until it is the next one.
    fn take_over(&mut self, task: TaskId, Taken { seq, event }: Taken) {
        match seq {
            0 => self.arrived.push_back(Message::Event(event.into())),
            _ => _ = self.taken.insert(seq, (task, event)),
        }
    }

    /// Returns the event that the run takes over from the place `seq` of its original.
    pub(crate) fn take(&mut self, seq: u64) -> Option<Message> {
        let (_, event) = self.taken.remove(&seq)?;
        self.last_taken = seq;
        Some(Message::Event(event.into()))
    }

    /// Whether all code that makes calls has nothing to do until one of them has a result.
    pub(crate) fn code_waits(&self) -> bool {
        self.callers.values().all(|calling| calling.calls.is_idle())
    }

    /// Whether no message and no event waits to be handled.
    pub(crate) fn is_quiet(&self) -> bool {
        self.undecided.is_empty() && self.arrived.is_empty() && self.taken.is_empty()
    }

    /// Removes `call` from the records of running calls: it has ended, or is suspended.
    pub(crate) fn forget_call(&mut self, call: &CallId) {
        self.unrepeatable.remove(call);
        self.callers.remove(call);
    }

    /// Counts one finished background job of `task`.
    pub(crate) fn note_done_for(&mut self, task: TaskId) {
        if let Occupied(mut running) = self.tasks.entry(task) {
            running.get_mut().count -= 1;
            if running.get().count == 0 {
                running.remove();
            }
        }
    }

    /// Stops everything and waits until it is gone. A program may exit as soon as it sees that a run is over, and no
    /// command may survive it.
    pub(crate) async fn end(&mut self, command_grace: Duration) {
        for running in self.tasks.values() {
            running.token.cancel();
        }
        self.code.clear();
        // Programs among the values end like commands: `running` tracks their ends.
        self.scope.end();
        self.running.close();
        if tokio::time::timeout(command_grace + END_GRACE, self.running.wait()).await.is_err() {
            tracing::warn!(calls = self.running.len(), "calls still block their threads and were abandoned");
        }
    }
}

/// The poller of work that is not done at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolledBy {
    /// The actor, in its own loop.
    Actor,
    /// A task of its own, which may run on another thread.
    OwnTask,
}

impl Actor {
    pub(crate) fn perform(&mut self, effect: Effect) {
        match effect {
            // A later event of the same batch ended the task.
            Effect::Execute { task, .. } if !self.run.task(&task).is_some_and(Task::is_live) => {}
            // A run that stops begins no call that may be repeated. The next owner begins it, as after a crash.
            Effect::Execute { tool, .. } if self.work.stopping && self.is_repeatable(&tool) => {}
            Effect::Prompt { task, turn } => self.work.to_ask.push_back((task, turn)),
            Effect::Execute { task, agent, call, tool, input: _ } => {
                let done = self.execute(task, agent, call, &tool);
                self.work.arrived.extend(done);
            }
            Effect::Return { call, result } => self.work.send_result(call, result),
            Effect::StopCall { call } => self.work.stop_call(&call),
            Effect::Stop { task } => self.stop(&task),
            // Watchers see the question's entry, and its answer comes by the mailbox or the inbox. A fork may know the
            // person's answer to the same question.
            Effect::AskPerson { question } => {
                if let Some(taken) = self.recording.as_ref().and_then(|recording| recording.person(&self.run, &question)) {
                    self.work.take_over(question, taken);
                }
            }
            // The state already records the end.
            Effect::EndRun => {}
        }
    }

    /// Renders the task's request and asks its model.
    pub(crate) async fn prompt(&mut self, task: TaskId, turn: u32) -> Result<(), StoreError> {
        let mut request = self.transcripts.request(&self.run, &task).await?;
        request.own_output_tokens = self.run.own_output_limit(&task);
        if let Some(taken) = self.recording.as_ref().and_then(|recording| recording.answer(&request)) {
            self.work.take_over(task, taken);
            return Ok(());
        }
        let (name, model) = (request.model.clone(), self.models.get(&request.model).cloned());
        let model = model.map(|model| match request.invocation {
            Invocation::Universal if !model.makes_calls_itself() => Arc::new(Universal::new(model)),
            Invocation::Universal | Invocation::Native => model,
        });
        let (shared, stopped, of) = (Arc::clone(&self.shared), self.token(&task), task.clone());
        let (limit, began) = (self.run.turn_limit(&task), shared.clock.now());
        let pauses = self.attempt_begins(&task, turn, &name);
        let done = self.begin(&of, stopped.clone(), PolledBy::OwnTask, async move {
            let answered = async {
                let Some(model) = model else {
                    let (provider, message) = ("the engine".to_owned(), format!("there is no model {}", request.model));
                    return Err(ModelError::Rejected { provider, status: None, message });
                };
                failpoint::pass("model.ask.before");
                let on_pause = |pause| pauses.report(pause, &*shared.clock);
                let attempt = Attempt { limit, on_pause: &on_pause };
                let answer = AssertUnwindSafe(model.attempt(&request, &shared.contents, attempt)).catch_unwind().await;
                failpoint::pass("model.ask.after");
                answer.unwrap_or_else(|panic| Err(ModelError::Panicked { message: panic_message(&*panic) }))
            };
            let answered = tokio::select! {
                biased;
                () = stopped.cancelled() => return None,
                answered = answered => answered,
            };
            let event = match answered {
                Ok(answer) => Event::ModelAnswered { task, turn, request: request.hash, answer, recorded: None },
                Err(error) if error.fails_run() => {
                    let message = format!("agent {} in task {task}, turn {turn}: {error}", request.agent);
                    let place = json!({"task": task, "agent": request.agent, "turn": turn});
                    Event::RunFailed { error: CallError::new(ErrorCode::ModelFailed, message).with_detail(place) }
                }
                Err(error) => {
                    let sent = pauses.sent() + 1;
                    return Some(Message::Unanswered(Box::new(Unanswered { task, turn, model: name, error, sent, began })));
                }
            };
            Some(Message::Event(event.into()))
        });
        self.work.arrived.extend(done);
        Ok(())
    }

    /// Begins `work`. What is done at once is returned and costs no task of its own. The rest comes by the mailbox, or from the
    /// actor's own polling.
    fn begin(
        &mut self,
        task: &TaskId,
        token: CancellationToken,
        polled_by: PolledBy,
        work: impl Future<Output = Option<Message>> + Send + 'static,
    ) -> Option<Message> {
        let mut work = Box::pin(work);
        // This first poll registers no waker: unfinished work is polled again by a task of its own.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(message) => message,
            Poll::Pending => {
                self.work.tasks.entry(task.clone()).or_insert(Running { token, count: 0 }).count += 1;
                if polled_by == PolledBy::Actor {
                    self.work.code.push(work);
                    return None;
                }
                let sender = self.sender.clone();
                self.work.running.spawn(async move {
                    let done = AssertUnwindSafe(work).catch_unwind().await;
                    if let Some(message) = done.unwrap_or_else(|panic| Some(Message::Panicked(panic))) {
                        // The run may be over.
                        let _over = sender.send(message);
                    }
                });
                None
            }
        }
    }

    /// Runs the tool's executor; what returns at once is returned.
    pub(crate) fn execute(&mut self, task: TaskId, agent: AgentId, call: CallId, tool: &ToolId) -> Option<Message> {
        // A later event of the same batch may have ended the call.
        let open = self.run.task(&task).and_then(|task| task.call(&call)).filter(|call| !call.is_finished())?;
        let Some((tool, input)) = self.run.configs().executed(&agent, &call, &open.asked) else {
            panic!("the machine began the call {call} of {tool}, which has no config");
        };
        let (is_approved, asked) = (open.approved().is_some(), Arc::clone(&open.asked));
        if let Some(taken) = self.recording.as_ref().and_then(|recording| recording.call(&call, &tool, &asked)) {
            self.work.take_over(task, taken);
            return None;
        }
        if tool.is_lost_in_crash() {
            self.work.unrepeatable.insert(call.clone(), task.clone());
        }
        let (token, of) = (self.token(&task), task.clone());
        let is_inner = open.is_inner();
        let is_function = matches!(tool.executor, Some(Executor::Function(_)));
        let stopped = if is_inner { token.child_token() } else { token.clone() };
        let inner = (!tool.calls.is_empty()).then(|| {
            let (sender, inbox) = mpsc::unbounded_channel();
            let results = self.returned_to(&task, &call);
            let inner = if is_function { InnerCalls::of_function } else { InnerCalls::of_command };
            let calls = Arc::new(inner(results, inbox, self.sender.clone()));
            self.work.callers.insert(call.clone(), Calling { results: sender, calls: Arc::clone(&calls), is_function });
            calls
        });
        let polled_by = if is_function && inner.is_some() { PolledBy::Actor } else { PolledBy::OwnTask };
        let limits = self.run.task(&task).map(Task::limits);
        let inline_bytes = limits.as_ref().and_then(|limits| limits.inline_result_bytes);
        // An output of code that made calls is kept where another one is too long.
        let result_bytes = limits.as_ref().and_then(|limits| limits.result_bytes).filter(|_| !tool.calls.is_empty());
        let inline_bytes = inline_bytes.into_iter().chain(result_bytes).min();
        let execution = Box::new(Execution {
            shared: Arc::clone(&self.shared),
            is_approved,
            files: Arc::clone(&self.files),
            caller: Caller { run: self.id.clone(), task, agent, call: call.clone() },
            memory: self.memory(),
            tool,
            configs: Arc::clone(self.run.configs()),
            models: Arc::clone(&self.models),
            input,
            inline_bytes,
            documents: self.run.documents().clone(),
            seq: self.run.last_seq(),
            folder: self.folder.clone(),
            stopped: stopped.clone(),
            progress: Arc::clone(&self.progress),
            mailbox: self.sender.clone(),
            endings: self.work.running.clone(),
            scope: Arc::clone(&self.work.scope),
            durable: self.durable.subscribe(),
            inner,
        });
        let running = call.clone();
        let done = self.begin(&of, token, polled_by, async move {
            let (event, contents) = match execution.run().await? {
                Ok(CallEnd::Outcome(outcome, contents)) => (Event::CallReturned { call, outcome }, contents),
                Ok(CallEnd::Suspended(suspension)) => (Event::CallSuspended { call, suspension }, Vec::new()),
                Err(error) => {
                    let message = format!("the tool of call {call}: {error}");
                    (Event::RunFailed { error: CallError::new(ErrorCode::ModelFailed, message) }, Vec::new())
                }
            };
            Some(Message::Event(Incoming { contents, ..event.into() }))
        });
        if is_inner && done.is_none() {
            self.work.inner.insert(running, stopped);
        }
        done
    }

    /// Returns the place of the next event that the run takes over from its original, unless something in progress was earlier there.
    pub(crate) fn next_taken(&self) -> Option<u64> {
        let seq = *self.work.taken.keys().next()?;
        let recording = self.recording.as_ref()?;
        let calls = self.work.tasks.keys().filter_map(|task| self.run.task(task)).flat_map(Task::calls);
        // Code that waits for its own calls may wait for this very event.
        let mut running = calls.filter(|call| call.is_running() && call.is_function() && !call.is_calling());
        let is_earlier = running.any(|call| recording.end_of(&call.id).is_some_and(|end| end < seq));
        (!is_earlier).then_some(seq)
    }

    /// Returns the place of the next event that the run takes over, if it comes before anything that code does.
    pub(crate) fn next_before_code(&self) -> Option<u64> {
        let recording = self.recording.as_ref()?;
        self.next_taken().filter(|seq| recording.is_code_idle(self.work.last_taken, *seq))
    }

    /// Returns the results of the calls that the code of `call` has made, in the order of the timeline.
    fn returned_to(&self, task: &TaskId, call: &CallId) -> Vec<InnerResult> {
        let calls = self.run.task(task).and_then(|task| task.phase.calls());
        let returned = calls.into_iter().flat_map(|calls| calls.returned_to(call));
        returned.filter_map(|call| Some((call.id.clone(), Arc::clone(call.finish()?.result.as_ref()?)))).collect()
    }

    /// Whether a crash in the middle of a call of `tool` is healed by another call.
    fn is_repeatable(&self, tool: &ToolId) -> bool {
        self.run.configs().tools.get(tool).is_some_and(|tool| !tool.is_lost_in_crash())
    }

    /// Whether a stop would interrupt a call that must not be repeated. A call whose code waits for its own calls does not count:
    /// while the run stops, nothing that it waits for begins any more.
    pub(crate) fn has_unrepeatable_work(&self) -> bool {
        let waits = |call: &CallId, task: &TaskId| {
            let open = self.run.task(task).and_then(|task| task.call(call));
            open.is_some_and(OpenCall::is_calling)
        };
        self.work.unrepeatable.iter().any(|(call, task)| !waits(call, task))
    }

    /// Stops what runs for a task.
    pub(crate) fn stop(&mut self, task: &TaskId) {
        if let Some(running) = self.work.tasks.remove(task) {
            running.token.cancel();
        }
        self.work.taken.retain(|_, (of, _)| of != task);
        self.outages.forget(task);
        self.work.unrepeatable.retain(|_, calling| calling != task);
        self.work.callers.retain(|call, _| call.task_text() != task.as_str());
        self.work.inner.retain(|call, _| call.task_text() != task.as_str());
    }

    fn token(&self, task: &TaskId) -> CancellationToken {
        self.work.tasks.get(task).map(|running| running.token.clone()).unwrap_or_default()
    }

    /// Whether a call of `tool` may begin before its entries are durable: it runs in this process and has no effect but
    /// its result, and makes no calls; or a tool service executes it, which gets its command later.
    pub(crate) fn may_begin_early(&self, tool: &ToolId) -> bool {
        !self.work.stopping
            && self.run.configs().tools.get(tool).is_some_and(|tool| {
                let is_function = matches!(tool.executor, Some(Executor::Function(_)));
                (tool.effect == EffectClass::Pure && is_function && tool.calls.is_empty()) || tool.service().is_some()
            })
    }
}
