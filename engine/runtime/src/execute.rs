//! Running one call of a function tool: its executor, its time, its panics, what it wrote.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use baton_models::{ModelError, Secrets};
use baton_store::failpoint;
use baton_tool::measure::measure;
use baton_tool::{
    Caller, CollectedEffects, PendingWrite, RunScope, ToolContext, ToolError, ToolErrorKind, ToolFunction, long_output,
};
use baton_types::call::{CallError, CallStatus, ErrorCode, Suspension};
use baton_types::config::{Configs, ExecSpec, Executor, RUN_SCRIPT, Tool};
use baton_types::document::{Content, ContentFacts, Documents, Write};
use baton_types::event::{Outcome, Produced};
use baton_types::id::{ContentHash, MemoryId};
use baton_types::json::Json;
use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::control;
use crate::error::panic_message;
use crate::exec::Exec;
use crate::handle::{Message, Progress};
use crate::host::Host;
use crate::host::inner::InnerCalls;
use crate::processes::Endings;
use crate::services::{Models, Services};
use crate::signs::SignsOfLife;
use crate::trust::CommandFiles;
use crate::watchers::Watchers;

/// Time after which the limit of a call is looked at again while its code waits for other calls.
const LIMIT_PAUSE: Duration = Duration::from_secs(1);

/// One call to be run, with all it may see.
pub(crate) struct Execution {
    pub(crate) shared: Arc<Services>,
    pub(crate) caller: Caller,
    /// The owner of the run's long-term memories.
    pub(crate) memory: MemoryId,
    pub(crate) tool: Arc<Tool>,
    pub(crate) configs: Arc<Configs>,
    /// Models of the run's agents, which may answer the tool, too.
    pub(crate) models: Models,
    pub(crate) input: Json,
    /// The most bytes of output that the calling agent is shown.
    pub(crate) inline_bytes: Option<u64>,
    /// The workspace as it was when the call began.
    pub(crate) documents: Documents,
    /// The last entry that the call may see.
    pub(crate) seq: u64,
    /// Whether somebody approved the call.
    pub(crate) is_approved: bool,
    /// The files that a command may run.
    pub(crate) files: Arc<CommandFiles>,
    /// The job's folder, for commands.
    pub(crate) folder: Option<PathBuf>,
    /// Cancelled when the call must stop. Its result is then discarded.
    pub(crate) stopped: CancellationToken,
    pub(crate) progress: Arc<Watchers<Arc<Progress>>>,
    /// The run's, for what its code asks of the run.
    pub(crate) mailbox: mpsc::UnboundedSender<Message>,
    /// Tracks the ends of commands that are stopped.
    pub(crate) endings: TaskTracker,
    /// The values that tools keep for the run.
    pub(crate) scope: Arc<RunScope>,
    /// The last entry that is durable.
    pub(crate) durable: watch::Receiver<u64>,
    /// Calls of the code; `None` if its config allows it none.
    pub(crate) inner: Option<Arc<InnerCalls>>,
}

/// End of a call's code.
pub(crate) enum CallEnd {
    /// Its outcome, with the contents of its writes.
    Outcome(Outcome, Vec<(ContentHash, Content)>),
    /// Its result comes later.
    Suspended(Suspension),
}

/// Executor of a call.
enum Runs<'a> {
    Function(&'static ToolFunction),
    Exec(&'a ExecSpec),
}

/// End of the tool's code.
enum CodeEnd {
    Returned(Result<Json, ToolError>),
    Panicked(String),
}

impl Execution {
    /// Runs the call; `None` if it was stopped before it returned. Fails if the run must end, even if the tool would
    /// continue.
    ///
    /// Boxed, because the future of an async function keeps several copies of its arguments.
    pub(crate) async fn run(self: Box<Self>) -> Option<Result<CallEnd, ModelError>> {
        let (stopped, run_error) = (self.stopped.clone(), Arc::default());
        tokio::select! {
            biased;
            () = stopped.cancelled() => None,
            returned = self.run_to_its_end(Arc::clone(&run_error)) => Some(run_error.get().cloned().map_or(Ok(returned), Err)),
        }
    }

    /// Returns a file named by the call's command that changed since it was judged, at the start of this process's
    /// ownership.
    async fn changed_file(&self) -> Option<String> {
        let Some(Executor::Exec(spec)) = &self.tool.executor else { return None };
        let (command, folder, files) = (spec.clone(), self.folder.clone(), Arc::clone(&self.files));
        let look = move || files.changed(&command, folder.as_deref()).map(str::to_owned);
        // If the check fails, the command counts as changed.
        tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| spec.command.first().cloned())
    }

    async fn run_to_its_end(self: Box<Self>, run_error: Arc<OnceLock<ModelError>>) -> CallEnd {
        if let Some(file) = self.changed_file().await {
            let changed = format!(
                "the file {file} of {} has changed since the run read it; baton resume --migrate adopts it",
                self.tool.id
            );
            let (code, message) = if self.is_approved {
                let message = format!("what was approved is not what would run: {changed}, and the call is asked about again");
                (ErrorCode::Denied, message)
            } else {
                (ErrorCode::ToolFailed, format!("nothing was run: {changed}"))
            };
            return failed(code, &message);
        }
        // Also cancelled when the call is stopped, and when this future is dropped: code on another thread must notice.
        let over = self.stopped.child_token();
        let _over_at_the_end = over.clone().drop_guard();
        let signs = self.tool.idle.map(SignsOfLife::within);
        let given_secrets = Arc::<Mutex<Secrets>>::default();
        // Runs by a script have no summaries: it has answers for calls alone.
        let can_summarise = |name: &String| self.models.contains_key(name) && !self.models.contains_key(RUN_SCRIPT);
        let summary_model = self.configs.job.summary_model.clone().filter(can_summarise);
        let endings = Endings { tracker: self.endings, grace: self.shared.command_grace };
        let host = Host {
            shared: Arc::clone(&self.shared),
            caller: self.caller.clone(),
            memory: self.memory,
            folder: self.folder.clone(),
            project: OnceLock::new(),
            seq: self.seq,
            durable: self.durable,
            over,
            progress: Arc::clone(&self.progress),
            mailbox: self.mailbox,
            signs: signs.clone(),
            tool: Arc::clone(&self.tool),
            configs: self.configs,
            models: self.models,
            asked: AtomicU32::new(0),
            inner: self.inner.clone(),
            scope: self.scope,
            endings: endings.clone(),
            given_secrets: Arc::clone(&given_secrets),
            run_error,
        };
        let executor = match &self.tool.executor {
            Some(Executor::Function(name)) => self.shared.function(*name).map(Runs::Function),
            Some(Executor::Exec(spec)) => Some(Runs::Exec(spec)),
            // The command is sent when the suspension is durable.
            Some(Executor::Service(_)) => return CallEnd::Suspended(Suspension::default()),
            None => None,
        };
        let Some(executor) = executor else {
            return failed(ErrorCode::ToolFailed, "the tool has neither a function nor a command");
        };
        let context = Arc::new(ToolContext::new(self.caller.clone(), self.documents.clone(), self.tool.writes, Arc::new(host)));
        let input = match with_environment(&self.tool, self.input, |name| context.secret(name).ok()) {
            Ok(input) => input,
            Err(message) => return failed(ErrorCode::ToolFailed, &message),
        };
        failpoint::pass("call.run.before");
        let ended = match executor {
            Runs::Function(function) if function.blocking => {
                let Ok(permit) = Arc::clone(&self.shared.blocking).acquire_owned().await else {
                    return failed(ErrorCode::ToolFailed, "the engine is shutting down");
                };
                let work = pin!(on_own_thread(function, &context, &input, permit));
                in_time(self.tool.timeout, signs.as_ref(), None, work).await
            }
            Runs::Function(function) => {
                let code = AssertUnwindSafe((function.invoke)(&context, &input)).catch_unwind();
                let inner = self.inner.as_deref();
                let work = pin!(driven(inner, code));
                in_time(self.tool.timeout, signs.as_ref(), inner, work).await.map(|ended| match ended {
                    Ok(answer) => CodeEnd::Returned(answer),
                    Err(panic) => CodeEnd::Panicked(panic_message(&*panic)),
                })
            }
            Runs::Exec(spec) => {
                // The host notes what a command is given by its config.
                let given = |name: &str| {
                    let is_named = spec.env.iter().any(|named| named == name);
                    if is_named { context.secret(name).ok() } else { (self.shared.variable)(name) }
                };
                let inner = self.inner.as_deref();
                let exec = Exec {
                    spec,
                    folder: self.folder.as_deref(),
                    variable: &given,
                    makes_calls: inner.is_some(),
                    endings,
                    signs: signs.as_ref(),
                };
                let work = pin!(driven(inner, Box::pin(crate::exec::run(&context, exec, &input))));
                in_time(self.tool.timeout, signs.as_ref(), inner, work).await.map(CodeEnd::Returned)
            }
        };
        failpoint::pass("call.run.after");
        if let Some(difference) = self.inner.as_ref().and_then(|inner| inner.diverged.get()) {
            return failed(ErrorCode::Diverged, &format!("the code does not do the same as before: {difference}"));
        }
        let secrets = given_secrets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match ended {
            Ok(CodeEnd::Returned(Ok(mut output))) => {
                let mut effects = context.take_effects();
                effects.after = match control::after(&self.tool, &output, effects.after) {
                    Ok(after) => after,
                    Err(message) => return failed(ErrorCode::InvalidOutput, &message),
                };
                secrets.scrub_json(&mut output);
                effects.writes.iter_mut().for_each(|(write, facts)| scrub_write(&secrets, write, facts));
                secrets.scrub_text(&mut effects.printed);
                if let Some(model) = summary_model {
                    // Boxed, since few calls are summarised.
                    Box::pin(crate::summary::summarise(&context, &model, &mut effects.writes)).await;
                }
                let is_long = self.inline_bytes.is_some_and(|most| output.text().len() as u64 > most);
                let kept = is_long.then(|| long_output::document(&self.tool.id, &output));
                let (mut outcome, mut contents) = accepted(output.clone(), effects);
                if let Some((document, content)) = kept {
                    contents.push((document.content.hash, content));
                    outcome.output = Produced::Long { output, document };
                }
                CallEnd::Outcome(outcome, contents)
            }
            Ok(CodeEnd::Returned(Err(error))) if error.kind == ToolErrorKind::Suspended => {
                suspended(&self.tool, context.take_effects(), &secrets)
            }
            Ok(CodeEnd::Returned(Err(mut error))) => {
                secrets.scrub_text(&mut error.message);
                secrets.scrub_json(&mut error.detail);
                refused(error)
            }
            Ok(CodeEnd::Panicked(message)) => {
                failed(ErrorCode::Panicked, &format!("the tool's code panicked: {}", secrets.scrubbed(&message)))
            }
            Err(late) => {
                let doubt = if self.tool.effect.acts_each_time() { "; it may have taken effect" } else { "" };
                CallEnd::error(CallStatus::Timeout, CallError::new(ErrorCode::TimedOut, format!("{late}{doubt}")))
            }
        }
    }
}

/// Returns `input` with the values of the variables that the tool's config names. No entry has these values.
fn with_environment(tool: &Tool, input: Json, variable: impl Fn(&str) -> Option<String>) -> Result<Json, String> {
    if tool.arguments.envs.is_empty() {
        return Ok(input);
    }
    let serde_json::Value::Object(mut keys) = input.value() else { return Ok(input) };
    for (name, named) in &tool.arguments.envs {
        let value = variable(named).ok_or_else(|| {
            let tool = tool.definition.shown_name();
            format!("the parameter {name:?} of {tool} has no value: the environment variable {named} is not set")
        })?;
        keys.insert(name.clone(), value.into());
    }
    Ok(Json::from(serde_json::Value::Object(keys)))
}

/// Does `work` within `limit` and without a longer silence than `signs` allow. Time in which the code waits for its `inner` calls
/// does not count. An error names the exceeded limit.
async fn in_time<T>(
    limit: Duration,
    signs: Option<&SignsOfLife>,
    inner: Option<&InnerCalls>,
    work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, String> {
    let began = tokio::time::Instant::now();
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = limit_passed(began, limit, inner) => Err(format!("the call took longer than {} s", limit.as_secs_f64())),
        limit = no_sign_of_life(signs, inner) => Err(format!("the call reported no progress for {} s", limit.as_secs_f64())),
    }
}

/// Waits until a call has worked for longer than `limit` since it `began`. The time in which its code waited for calls does not count.
async fn limit_passed(began: tokio::time::Instant, limit: Duration, inner: Option<&InnerCalls>) {
    loop {
        let (waited, is_waiting) = time_in_calls(inner);
        let left = limit.saturating_sub(began.elapsed().saturating_sub(waited));
        if left.is_zero() && !is_waiting {
            return;
        }
        // The rest of the limit may be short, and the wait long.
        tokio::time::sleep(if is_waiting { left.max(LIMIT_PAUSE) } else { left }).await;
    }
}

/// Waits until the time limit between two signs of life has passed. Returns the limit.
async fn no_sign_of_life(signs: Option<&SignsOfLife>, inner: Option<&InnerCalls>) -> Duration {
    let Some(signs) = signs else { return std::future::pending().await };
    // It may have waited for a thread until now.
    signs.show();
    loop {
        signs.missing().await;
        if !time_in_calls(inner).1 {
            return signs.limit;
        }
        signs.show();
    }
}

/// Returns the time that the code has waited for the calls that it made, and whether it is waiting now.
fn time_in_calls(inner: Option<&InnerCalls>) -> (Duration, bool) {
    inner.map_or((Duration::ZERO, false), InnerCalls::waited)
}

/// Runs `code`, and gives it the results of its calls if it makes any.
async fn driven<T>(inner: Option<&InnerCalls>, code: impl Future<Output = T>) -> T {
    match inner {
        Some(inner) => inner.drive(code).await,
        None => code.await,
    }
}

/// Runs a plain function where it may block. A thread cannot be stopped: one that ignores its cancellation keeps its
/// permit until it returns, so that runaway functions are bounded in number.
async fn on_own_thread(
    function: &'static ToolFunction,
    context: &Arc<ToolContext>,
    input: &Json,
    permit: tokio::sync::OwnedSemaphorePermit,
) -> CodeEnd {
    let (context, input) = (Arc::clone(context), input.clone());
    let runtime = tokio::runtime::Handle::current();
    let thread = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        runtime.block_on((function.invoke)(&context, &input))
    });
    match thread.await {
        Ok(answer) => CodeEnd::Returned(answer),
        Err(error) if error.is_panic() => CodeEnd::Panicked(panic_message(&*error.into_panic())),
        Err(error) => CodeEnd::Returned(Err(ToolError::new(format!("the tool's thread ended: {error}")))),
    }
}

/// Takes `secrets` out of what a call writes.
fn scrub_write(secrets: &Secrets, write: &mut PendingWrite, facts: &mut ContentFacts) {
    write.description.iter_mut().chain(write.tags.iter_mut().flatten()).for_each(|text| _ = secrets.scrub_text(text));
    if let Some(scrubbed) = secrets.scrubbed_bytes(&write.content) {
        write.content = Content::from(scrubbed);
        *facts = measure(&write.path, &write.content, write.mime_type.as_deref());
    }
}

/// Returns a success, with its writes.
fn accepted(output: Json, effects: CollectedEffects) -> (Outcome, Vec<(ContentHash, Content)>) {
    let mut outcome = Outcome::success(output);
    let mut contents = Vec::with_capacity(effects.writes.len());
    for (write, facts) in effects.writes {
        contents.push((facts.hash, write.content));
        outcome.writes.push(Write { path: write.path, content: facts, description: write.description, tags: write.tags });
    }
    outcome.loads = effects.loads;
    outcome.reads = effects.reads;
    outcome.after = effects.after;
    outcome.printed = (!effects.printed.is_empty()).then(|| effects.printed.into());
    (outcome, contents)
}

/// Returns the tool's refusal, as the agent reads it. Its writes are dropped.
fn refused(error: ToolError) -> CallEnd {
    let (status, code) = match error.kind {
        // A suspension is handled before this.
        ToolErrorKind::Failed | ToolErrorKind::Suspended => (CallStatus::Failed, ErrorCode::ToolFailed),
        ToolErrorKind::Cancelled => (CallStatus::Cancelled, ErrorCode::Cancelled),
        ToolErrorKind::UnknownDocument => (CallStatus::Failed, ErrorCode::UnknownDocument),
        ToolErrorKind::InvalidInput => (CallStatus::Failed, ErrorCode::InvalidInput),
        ToolErrorKind::LimitReached => (CallStatus::Failed, ErrorCode::LimitReached),
    };
    CallEnd::error(status, CallError::new(code, error.message).with_detail(error.detail))
}

/// Returns the suspension of a call whose code has ended without a result. It must have written nothing.
fn suspended(tool: &Tool, effects: CollectedEffects, secrets: &Secrets) -> CallEnd {
    let CollectedEffects { writes, loads, reads: _, after, suspension, printed: _ } = effects;
    let name = tool.definition.shown_name();
    if !tool.suspends {
        let message = format!("the code of {name} waits for a delivery or a moment, but its config lacks \"suspends\": true");
        return failed(ErrorCode::ToolFailed, &message);
    }
    if !writes.is_empty() || !loads.is_empty() || after.is_some() {
        let message = format!("the code of {name} wrote or loaded documents, and then ended without a result");
        return failed(ErrorCode::ToolFailed, &message);
    }
    let mut suspension = suspension.unwrap_or_default();
    suspension.output.iter_mut().for_each(|output| _ = secrets.scrub_json(output));
    CallEnd::Suspended(suspension)
}

fn failed(code: ErrorCode, message: &str) -> CallEnd {
    CallEnd::error(CallStatus::Failed, CallError::new(code, message))
}

impl CallEnd {
    fn error(status: CallStatus, error: CallError) -> Self {
        Self::Outcome(Outcome::error(status, error), Vec::new())
    }
}
