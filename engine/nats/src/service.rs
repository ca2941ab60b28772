//! A tool service: executes calls of agents of other programs with a tool of this one.
//!
//! Each command gets one run, whose id follows from the call. So a command that comes again finds its run, and the tool is called again only
//! as its effect class allows. The run has one agent, whose model makes the one call that the request describes.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Message;
use baton_models::{FunctionModel, Model};
use baton_runtime::{Engine, LoadedJob, RunError, RunOutcome, StartOptions, run_id_of};
use baton_store::StoreError;
use baton_types::call::{AfterExecution, CallResult, CallStatus, ModelCall};
use baton_types::entry::Entry;
use baton_types::id::{RunId, TaskId};
use baton_types::json::Json;
use baton_types::message::Part;
use baton_types::model::ModelTurn;
use baton_utp::MAX_CARD_BYTES;
use baton_utp::callback::Callback;
use baton_utp::card::{Card, Content, Metadata, Role};
use baton_utp::command::ToolCommand;
use baton_utp::error_code::ErrorCode;
use baton_utp::exchange::{CardGet, CardPut, CardPutReply};
use baton_utp::id::{AgentName, CardId, Name, ToolName};
use baton_utp::read::PayloadError;
use baton_utp::result::{Given, ResultError, ToolResultContent};
use baton_utp::resume::{DeadCode, DeadReason};
use baton_utp::status::Status;
use baton_utp::subject::{Kind, Subject, Suffix};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::messages::{Next, acknowledge, still_working};
use crate::streams::{ACK_WAIT, Kept};
use crate::{Bus, BusError};

/// Longest time for a reply to a request for a card.
const REPLY_PATIENCE: Duration = Duration::from_secs(3);

/// The most attempts of such a request. A worker that was cut off gets requests until the server misses it, and another attempt reaches another
/// worker. Otherwise the whole command would come again much later.
const REQUESTS: usize = 4;

/// Returns the model of the agents that make the calls: it makes the call that the request describes.
pub fn caller() -> Arc<dyn Model> {
    Arc::new(FunctionModel::new(|request| {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        let call = parts.into_iter().find_map(|part| match part {
            Part::Request(text) => serde_json::from_str::<Called>(text).ok(),
            _ => None,
        });
        Ok(match call.filter(|_| request.turn == 1) {
            Some(Called { tool, input }) => ModelTurn::calls(vec![ModelCall::new(&*tool, Json::from(input))]),
            None => ModelTurn::text("done"),
        })
    }))
}

/// The call that a run makes, as its request.
#[derive(Debug, Serialize, serde::Deserialize)]
struct Called {
    tool: String,
    input: Value,
}

/// A tool that is served.
#[derive(Clone)]
pub struct Served {
    /// Its id, which is the target of its commands.
    pub tool: Box<str>,
    /// A job whose one agent may call it, and whose model is [`caller`].
    pub job: LoadedJob,
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the message bus failed: {0}")]
    Bus(String),
}

impl Bus {
    /// Returns the subject of the commands for the tool `tool` of this process.
    ///
    /// # Errors
    /// The id cannot be part of a subject.
    pub fn served_at(&self, tool: &str) -> Result<String, BusError> {
        let target = Suffix::parse(tool).ok_or_else(|| BusError::Address(format!("{tool} cannot be part of a subject")))?;
        Ok(self.subject(Kind::Tool(target)))
    }

    /// Executes the commands for a tool until the connection is lost or `stop` is cancelled.
    pub(crate) async fn take_commands(&self, engine: &Engine, served: &Served, stop: &CancellationToken) -> Result<(), BusError> {
        let subject = self.served_at(&served.tool)?;
        let name = format!("{}-{}", self.0.address.channel, served.tool);
        self.each_of(Kept::Commands, &name, &subject, stop, |message, _| {
            let (bus, engine, served) = (self.clone(), engine.clone(), served.clone());
            async move { bus.take_command(&engine, &served, &message).await }
        })
        .await
    }

    /// Carries out a command to its end. One that fails stays without an acknowledgement, so it comes again.
    async fn take_command(&self, engine: &Engine, served: &Served, message: &Message) {
        let mut working = std::pin::pin!(self.execute(engine, served, message));
        loop {
            tokio::select! {
                done = &mut working => {
                    match done {
                        Ok(Next::Acknowledge) => acknowledge(message).await,
                        Ok(Next::After(_)) => {}
                        Err(error) => tracing::warn!(%error, "a command comes again"),
                    }
                    return;
                }
                // Work may take longer than the server waits for an acknowledgement.
                () = tokio::time::sleep(ACK_WAIT / 3) => still_working(message).await,
            }
        }
    }

    async fn execute(&self, engine: &Engine, served: &Served, message: &Message) -> Result<Next, Failed> {
        let (command, subject) = match (ToolCommand::read(&message.payload), Subject::parse(&message.subject)) {
            (Ok(command), Ok(subject)) => (command, subject),
            (Err(error), _) => return Ok(self.refuse_command(message, &error).await),
            (_, Err(_)) => return Ok(Next::Acknowledge),
        };
        // The answer goes to the channel of the command.
        let at = |kind| Subject::new(subject.address.clone(), kind).to_string();
        let control = &command.control;
        let result_card = CardId::parse(&format!("{}:{}:{}", served.tool, control.agent_turn_id, control.tool_call_id));
        let Some(result_card) = result_card else { return Ok(Next::Acknowledge) };
        let called = self.request(at(Kind::CardGet), &CardGet { card_id: command.tool_call_card_id.clone() }).await?;
        let content = match called["card"]["content"]["arguments"].clone() {
            Value::Null => {
                let reason = called["error"]["message"].as_str().unwrap_or("the card has no arguments");
                Given::failed(ResultError::new(ErrorCode::BAD_REQUEST, format!("the card of the call: {reason}"))).content()
            }
            _ if !is_card_of(&called["card"], &command) => {
                let message = "the card of the call is that of another call".to_owned();
                Given::failed(ResultError::new(ErrorCode::BAD_REQUEST, message)).content()
            }
            input => self.call(engine, served, &command, input).await?,
        };
        let metadata = Metadata {
            role: Role::Tool,
            agent_turn_id: control.agent_turn_id.clone(),
            step_id: command.step_id.clone(),
            tool_call_id: Some(control.tool_call_id.clone()),
            function_name: command.tool_name.clone().or_else(|| ToolName::parse(&served.tool)),
        };
        let card = |content: ToolResultContent| Card {
            card_id: result_card.clone(),
            project_id: self.0.project.clone(),
            content: Content::ToolResult(content),
            created_at: None,
            author_id: AgentName::parse(&format!("tool.{}", served.tool)).unwrap_or_else(AgentName::engine),
            metadata: metadata.clone(),
        };
        let failed = |message: String| card(Given::failed(ResultError::new(ErrorCode::INTERNAL_ERROR, message)).content());
        let mut kept = card(content);
        if serde_json::to_vec(&kept).map_or(true, |text| text.len() > MAX_CARD_BYTES - 1_000) {
            kept = failed(format!("the result is longer than a card of {MAX_CARD_BYTES} bytes"));
        }
        let mut reply = self.put(at(Kind::CardPut), &kept).await?;
        if let CardPutReply::Error(error) = &reply
            && error.code == ErrorCode::BAD_REQUEST
        {
            // The caller learns why, and does not wait for a result that cannot be kept.
            kept = failed(format!("the result cannot be a card: {}", error.message));
            reply = self.put(at(Kind::CardPut), &kept).await?;
        }
        let status = kept.result().map_or(Status::Failed, |result| result.status);
        if let CardPutReply::Error(error) = reply
            && error.code.as_str() != "conflict"
        {
            // The result of work that is not there is of no use.
            return if error.code.as_str() == "not_found" { Ok(Next::Acknowledge) } else { Err(Failed::Bus(error.message)) };
        }
        let callback =
            Callback { control: control.clone(), status, tool_result_card_id: result_card, step_id: command.step_id.clone() };
        self.publish(Kept::Callbacks, at(Kind::ToolResult), None, &callback).await.map_err(Failed::Bus)?;
        Ok(Next::Acknowledge)
    }

    async fn refuse_command(&self, message: &Message, error: &PayloadError) -> Next {
        self.refuse(message, &DeadReason { code: DeadCode::InvalidPayload, reason: error.to_string() }).await
    }

    /// Has a card kept.
    async fn put(&self, subject: String, card: &Card) -> Result<CardPutReply, Failed> {
        let reply = self.request(subject, &CardPut { card: card.clone() }).await?;
        CardPutReply::read(reply.to_string().as_bytes()).map_err(|error| Failed::Bus(error.to_string()))
    }

    async fn request(&self, subject: String, request: &impl Serialize) -> Result<Value, Failed> {
        let payload = serde_json::to_vec(request).map_err(|error| Failed::Bus(error.to_string()))?;
        for _ in 0..REQUESTS {
            let request = self.0.client.request(subject.clone(), payload.clone().into());
            if let Ok(reply) = tokio::time::timeout(REPLY_PATIENCE, request).await {
                let reply = reply.map_err(|error| Failed::Bus(format!("{subject}: {error}")))?;
                return serde_json::from_slice(&reply.payload).map_err(|error| Failed::Bus(format!("{subject}: {error}")));
            }
        }
        Err(Failed::Bus(format!("there is no answer on {subject}")))
    }

    /// Returns the result of the call of `command`: in a new run, or that of an earlier command for the same call.
    async fn call(
        &self,
        engine: &Engine,
        served: &Served,
        command: &ToolCommand,
        input: Value,
    ) -> Result<ToolResultContent, Failed> {
        let control = &command.control;
        let cause = format!("{}\n{}\n{}\n{}", self.0.project, served.tool, control.agent_turn_id, control.tool_call_id);
        let id = run_id_of(cause.as_bytes());
        let request = serde_json::to_string(&Called { tool: served.tool.to_string(), input });
        let request = request.map_err(|error| Failed::Bus(error.to_string()))?;
        let options = StartOptions { request: Some(request), run: Some(id.clone()), ..StartOptions::default() };
        let handle = match engine.start(served.job.clone(), options).await {
            Err(RunError::Store(error)) if matches!(*error, StoreError::RunExists(_)) => {
                // A repeated command. If another process executes the call, this command comes again.
                match engine.live(&id) {
                    Some(handle) => handle,
                    None => engine.resume_free(&id).await?,
                }
            }
            handle => handle?,
        };
        if let RunOutcome::Failed(error) = handle.outcome().await {
            return Err(error.into());
        }
        let result = self.result_of(engine, &id).await?;
        // The caller's config decides the next step, unless the result does.
        Ok(ToolResultContent { after_execution: None, ..ToolResultContent::of(&result, AfterExecution::Suspend) })
    }

    /// Returns the result of the one call of a run, or that of the run if it made no call.
    async fn result_of(&self, engine: &Engine, run: &RunId) -> Result<Arc<CallResult>, RunError> {
        let call = TaskId::root().call(1, 1);
        let mut result = None;
        for recorded in self.entries(engine, run, &TaskId::root(), u64::MAX).await? {
            match &recorded.entry {
                Entry::CallFinished(finished) if finished.call == call => {
                    return Ok(Arc::clone(&finished.result));
                }
                Entry::CallRefused(refused) if refused.call == call => {
                    return Ok(Arc::new(CallResult::error(CallStatus::Failed, refused.error.clone())));
                }
                Entry::TaskEnded(ended) => result = Some(Arc::clone(&ended.result)),
                _ => {}
            }
        }
        let none = || RunError::Fault { message: format!("run {run} has not ended") };
        result.ok_or_else(none)
    }
}

/// Whether a card belongs to the call of a command.
fn is_card_of(card: &Value, command: &ToolCommand) -> bool {
    let (metadata, control) = (&card["metadata"], &command.control);
    metadata["agent_turn_id"] == *control.agent_turn_id.to_string()
        && metadata["tool_call_id"] == *control.tool_call_id.to_string()
}
