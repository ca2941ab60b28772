//! Commands on their way: to the actor of a run, to the process that owns it, or into its inbox.

use std::time::Duration;

use baton_machine::Run;
use baton_store::Batch;
use baton_types::call::CallOutput;
use baton_types::document::Content;
use baton_types::entry::{Entry, QuestionEnd};
use baton_types::event::{Event, Refusal};
use baton_types::id::{CallId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;

use crate::actor::Iteration;
use crate::command::{Command, Delivered};
use crate::engine::{Engine, Holder, Takes};
use crate::error::RunError;
use crate::handle::measured;
use crate::job::InitialDocument;
use crate::suspended;

/// Longest time that the sender of a command waits until the owning process has executed it.
const SENT_PATIENCE: Duration = Duration::from_secs(3);

/// First pause between two checks.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is carried out and durable, by this process or by the one that the run proceeds in.
    Done,
    /// The owning process was notified, and has not executed it yet.
    Sent,
    /// It waits in the run's inbox until the run is resumed, or its owner wakes.
    Queued,
}

impl Delivery {
    /// Returns its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Sent => "sent",
            Self::Queued => "queued",
        }
    }
}

impl Engine {
    /// Answers a question, wherever its run proceeds, or when it is resumed. An answer that is refused now is an error;
    /// one that waits in the inbox may still come too late.
    pub async fn answer(
        &self,
        id: &RunId,
        question: TaskId,
        by: &Principal,
        answer: Json,
        documents: Vec<InitialDocument>,
    ) -> Result<Delivery, RunError> {
        let (documents, contents) = measured(&documents);
        if self.live(id).is_none() && self.holder(id).await? == Holder::Nobody {
            let run = self.state(id).await?;
            let number = run.task(&question).and_then(|task| task.question.as_ref()).map_or(0, |question| question.number);
            if let Some(call) = run.interrupted_above(&question.originating_call()) {
                let how = format!("it belongs to call {call}, whose code was interrupted and does not run again");
                return Err(Refusal::QuestionClosed { number, how }.into());
            }
        }
        self.send(id, Command::Answer { question, by: by.clone(), answer, documents }, contents).await
    }

    /// Returns the key with which the result of a suspended call is delivered.
    pub async fn delivery_key(&self, id: &RunId, call: &CallId) -> Result<String, RunError> {
        Ok(self.0.delivery_key(id, call).await?)
    }

    /// Returns the run and the call whose key is `key`.
    ///
    /// # Errors
    /// [`RunError::UnknownKey`] if this key is not valid in this store.
    pub async fn call_of_key(&self, key: &str) -> Result<(RunId, CallId), RunError> {
        let unknown = || RunError::UnknownKey;
        let (run, call) = suspended::named(key).ok_or_else(unknown)?;
        if !suspended::is_same(key, &self.0.delivery_key(&run, &call).await?) || self.0.store.run(&run).await?.is_none() {
            return Err(unknown());
        }
        Ok((run, call))
    }

    /// Delivers the result of a suspended call, wherever its run proceeds, or when it is resumed. A result that comes while the code of the call is still running waits in the inbox until the code has ended.
    ///
    /// # Errors
    /// [`RunError::Refused`] if the call waits for no delivery, or if the output breaks the schema or the size limit of its tool.
    /// The call then still waits.
    pub async fn deliver(
        &self,
        id: &RunId,
        call: &CallId,
        by: &Principal,
        result: impl Into<Delivered>,
    ) -> Result<Delivery, RunError> {
        if self.live(id).is_none() && self.holder(id).await? == Holder::Nobody {
            let run = self.state(id).await?;
            let interrupted = run.is_interrupted(call).then(|| call.clone()).or_else(|| run.interrupted_above(call));
            if let Some(of) = interrupted {
                let why = format!("the code of call {of} was interrupted and does not run again, so its outcome is unknown");
                return Err(Refusal::NotSuspended { call: call.clone(), why }.into());
            }
        }
        self.send(id, Command::Deliver { call: call.clone(), by: by.clone(), result: result.into() }, Vec::new()).await
    }

    /// Ends a task and all below it, wherever its run proceeds, or when it is resumed. Ends the root at once if no process owns
    /// the run.
    pub async fn cancel(&self, id: &RunId, task: TaskId, reason: &str, by: &Principal) -> Result<Delivery, RunError> {
        self.send(id, Command::Cancel { task, reason: reason.to_owned(), by: by.clone() }, Vec::new()).await
    }

    /// Pauses a run in the process that owns it, or at once if no process owns it. Work in flight may finish.
    pub async fn pause(&self, id: &RunId, by: &Principal) -> Result<Delivery, RunError> {
        self.send(id, Command::Pause { by: by.clone() }, Vec::new()).await
    }

    /// Continues a paused run, in whichever process it is.
    pub async fn unpause(&self, id: &RunId, by: &Principal) -> Result<Delivery, RunError> {
        self.send(id, Command::Unpause { by: by.clone() }, Vec::new()).await
    }

    /// Sends a message into the next request of a task, wherever its run proceeds, or when it is resumed.
    pub async fn steer(&self, id: &RunId, task: TaskId, text: &str, by: &Principal) -> Result<Delivery, RunError> {
        self.send(id, Command::Steer { task, text: text.to_owned(), by: by.clone() }, Vec::new()).await
    }

    async fn send(&self, id: &RunId, command: Command, contents: Vec<(ContentHash, Content)>) -> Result<Delivery, RunError> {
        let not_early = |refused: Refusal| match refused {
            // It waits in the inbox.
            Refusal::StillRunning { .. } => Ok(()),
            refused => Err(refused),
        };
        if let Some(handle) = self.live(id) {
            match handle.ask(command.clone().into(), contents.clone()).await {
                Err(RunError::Refused(Refusal::StillRunning { .. })) => {}
                answer => return answer.map(|()| Delivery::Done),
            }
        }
        let stops_run = match &command {
            Command::Pause { .. } => true,
            Command::Cancel { task, .. } => task.is_root(),
            Command::Answer { .. } | Command::Deliver { .. } | Command::Unpause { .. } | Command::Steer { .. } => false,
        };
        let (run, _) = self.state_before(id, u64::MAX).await?;
        run.check(&command.clone().into()).or_else(not_early)?;
        for (hash, content) in contents {
            self.0.store.put_content(hash, content).await?;
        }
        let text = Json::of(&command).map_err(|error| RunError::Fault { message: error.to_string() })?;
        let number = self.0.store.put_command(id, text).await?;
        // Another process may have put one meanwhile: of two answers the first wins, and the second is refused.
        let (run, waits) = self.state_before(id, number).await?;
        let refused = run.check(&command.clone().into()).or_else(not_early).err().filter(|_| waits);
        match refused {
            // If the command is no longer in the inbox, the run's owner has taken it. The refusal may then be an effect of
            // the command itself, so it does not count.
            Some(refusal) if self.state_before(id, number).await?.1 => Err(refusal.into()),
            _ => match self.delivered(id, number).await? {
                // The owner may have refused it, since another one was first.
                Delivery::Done => self.check_counted(id, &command).await.map(|()| Delivery::Done),
                Delivery::Queued if stops_run && self.holder(id).await? == Holder::Nobody => self.carry_out(id, number).await,
                Delivery::Queued => {
                    self.0.announce(id, format!("command {number}")).await;
                    Ok(Delivery::Queued)
                }
                Delivery::Sent => Ok(Delivery::Sent),
            },
        }
    }

    /// Checks that this answer or delivery took effect, and not another one.
    async fn check_counted(&self, id: &RunId, command: &Command) -> Result<(), RunError> {
        let run = self.state(id).await?;
        match command {
            Command::Answer { question, by, answer, .. } => {
                let closed = run.task(question).and_then(|task| task.question.as_ref()?.closed.as_deref());
                let counts = match closed {
                    Some(QuestionEnd::Answered { by: counted, answer: given, .. }) => counted == by && is_same(given, answer),
                    Some(_) => false,
                    None => true,
                };
                if counts { Ok(()) } else { run.check(&command.clone().into()).map_err(RunError::from) }
            }
            Command::Deliver { call, by, result } => {
                let entries = self.0.store.task_entries(id, &call.task(), run.last_seq()).await?;
                let finished = entries.iter().find_map(|recorded| match &recorded.entry {
                    Entry::CallFinished(finished) if finished.call == *call => Some(finished),
                    _ => None,
                });
                let counts = finished.is_none_or(|finished| {
                    let is_ours = match (&result.error, &finished.result.output) {
                        (Some(error), _) => finished.result.reason() == error.message,
                        (None, CallOutput::Inline(given)) => *given == result.output,
                        (None, CallOutput::Kept(_)) => true,
                    };
                    finished.delivered_by.as_deref() == Some(by) && is_ours
                });
                let why = || "another result came first".to_owned();
                if counts { Ok(()) } else { Err(Refusal::NotSuspended { call: call.clone(), why: why() }.into()) }
            }
            Command::Cancel { .. } | Command::Pause { .. } | Command::Unpause { .. } | Command::Steer { .. } => Ok(()),
        }
    }

    /// Carries out the command `number` in the inbox of a run that no process owns, and releases the run again.
    ///
    /// Only for commands that stop the run: nothing proceeds, so neither trust nor functions nor models are needed.
    async fn carry_out(&self, id: &RunId, number: u64) -> Result<Delivery, RunError> {
        let epoch = match self.0.take_over(id, Takes::IfFree).await {
            // It takes the command from the inbox.
            Err(RunError::Held { .. }) => return Ok(Delivery::Sent),
            taken => taken?.0,
        };
        let (mut run, last) = self.0.state(id).await?;
        let (before, at) = (run.last_seq(), self.0.clock.now().max(last));
        let waiting = self.0.store.take_commands(id, number - 1).await?;
        // An owner may have been there meanwhile, and may have carried it out.
        let waiting = waiting.first().filter(|(waiting, _)| *waiting == number);
        let decided = match waiting.map(|(_, text)| serde_json::from_str::<Command>(text.text())) {
            Some(Ok(command)) => run.handle(at, command.into()).map(Iteration::of),
            Some(Err(_)) | None => Ok(Iteration::default()),
        };
        let mut batch = match &decided {
            Ok(iteration) => iteration.first_batch(id, epoch, before, &run, at),
            Err(_) => Batch::new(id.clone(), epoch, before),
        };
        batch.consumed = waiting.map(|(number, _)| *number).into_iter().collect();
        batch.releases = true;
        self.0.store.append(batch).await?;
        decided.map(|_| Delivery::Done).map_err(RunError::from)
    }

    /// Returns the outcome of the command `number`, after giving a living owner a moment to execute it.
    async fn delivered(&self, id: &RunId, number: u64) -> Result<Delivery, RunError> {
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_LOOK);
        loop {
            // Checked first: the run may end with the command, and then it has no owner.
            let holder = self.holder(id).await?;
            let waiting = self.0.store.take_commands(id, number - 1).await?;
            if waiting.iter().all(|(waiting, _)| *waiting != number) {
                return Ok(Delivery::Done);
            }
            if !matches!(holder, Holder::Elsewhere { .. }) {
                return Ok(Delivery::Queued);
            }
            if waited >= SENT_PATIENCE {
                return Ok(Delivery::Sent);
            }
            tokio::time::sleep(pause).await;
            (waited, pause) = (waited + pause, (pause * 2).min(SENT_PATIENCE / 30));
        }
    }

    /// Returns the state of a run after the commands before `number` in its inbox, and whether that command still
    /// waits.
    async fn state_before(&self, id: &RunId, number: u64) -> Result<(Run, bool), RunError> {
        // The inbox is read first: what an owner takes from it meanwhile is in the timeline then.
        let waiting = self.0.store.take_commands(id, 0).await?;
        let mut run = self.state(id).await?;
        for (_, earlier) in waiting.iter().filter(|(earlier, _)| *earlier < number) {
            let earlier = serde_json::from_str::<Command>(earlier.text()).ok();
            // One that is refused changes nothing.
            let _refused = earlier.map(|earlier| run.handle(self.0.clock.now(), earlier.into()));
        }
        // If no process owns the run, its timeline does not have the deadlines that have passed since.
        let now = self.0.clock.now();
        if run.next_wake().is_some_and(|wake| wake <= now) && run.ended().is_none() {
            let _entries = run.handle(now, Event::TimePassed)?;
        }
        Ok((run, waiting.iter().any(|(waiting, _)| *waiting == number)))
    }
}

/// Whether a recorded answer is `answer`, which may have its value under the key `answer`.
fn is_same(recorded: &Json, answer: &Json) -> bool {
    let (recorded, answer) = (recorded.value(), answer.value());
    recorded == answer || answer.get("answer") == Some(&recorded)
}
