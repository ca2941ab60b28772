//! Tool services over NATS, with a service that the tests play.

mod callbacks;
mod cards;
mod commands;
mod wakeups;

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::{self, Context};
use baton_models::Model;
use baton_nats::Bus;
use baton_nats::address::Credentials;
use baton_nats::streams::Kept;
use baton_runtime::{Clock, Engine, LoadedJob, RunHandle, StartOptions, SystemClock, ToolServices};
use baton_servers::Nats;
use baton_store::Store;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::CallId;
use baton_utp::subject::{Address, Token};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{TestJob, calls, handoff, model};

/// The start of the subjects of the tests' project and channel.
const BASE: &str = "cg.v1r3.acme.main";

/// Longest time for something that should happen soon.
const PATIENCE: Duration = Duration::from_secs(30);

fn address() -> Address {
    Address::parse("acme", "main").unwrap()
}

fn project() -> Token {
    Token::parse("acme").unwrap()
}

/// Returns a job whose agent has the tool `search` of a service. `more` is merged into the tool's config.
fn job(more: Value) -> LoadedJob {
    let mut config = json!({
        "target_subject": "cg.v1r3.{project_id}.{channel_id}.cmd.tool.search",
        "suspend_timeout_seconds": 86_400,
        "input_schema": {"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]},
        "output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestJob::new("solo", json!({})).agent("solo", &["search", "handoff"]).tool_by_schema("search", config).load()
}

/// Returns a model that makes `count` calls of `search` in one turn, and then hands off.
fn searching(count: i64) -> Arc<dyn Model> {
    model(move |_, turn, _| match turn {
        1 => calls(&(1..=count).map(|q| ("search", json!({"q": q}))).collect::<Vec<_>>()),
        _ => handoff("done", &[]),
    })
}

/// An engine on a bus. It takes callbacks until it is dropped.
struct OnBus {
    engine: Engine,
    stop: CancellationToken,
}

impl Drop for OnBus {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl OnBus {
    async fn new(nats: &Nats, store: Arc<dyn Store>, model: &Arc<dyn Model>) -> Self {
        Self::with(nats, store, model, Arc::new(SystemClock)).await
    }

    async fn with(nats: &Nats, store: Arc<dyn Store>, model: &Arc<dyn Model>, clock: Arc<dyn Clock>) -> Self {
        let bus = Bus::connect(&nats.address(), &Credentials::default(), address()).await.unwrap();
        bus.claim(&*store).await.unwrap();
        let on_bus = Self::without_callbacks(store, model, clock, Arc::new(bus.clone()));
        let (engine, stop) = (on_bus.engine.clone(), on_bus.stop.clone());
        tokio::spawn(async move { bus.serve(&engine, &stop).await });
        on_bus
    }

    /// Returns an engine that sends commands by `services` and takes no callbacks.
    fn without_callbacks(
        store: Arc<dyn Store>,
        model: &Arc<dyn Model>,
        clock: Arc<dyn Clock>,
        services: Arc<dyn ToolServices>,
    ) -> Self {
        let engine = Engine::builder().trust(baton_runtime::TrustEverything).store(store).model("m", Arc::clone(model));
        let engine = engine.clock(clock).tool_services(services).build().unwrap();
        Self { engine, stop: CancellationToken::new() }
    }

    async fn start(&self, job: LoadedJob) -> RunHandle {
        self.engine.start(job, StartOptions::default()).await.unwrap()
    }
}

/// The service that a test plays.
struct Service {
    client: Client,
    jetstream: Context,
    commands: Consumer<pull::Config>,
}

impl Service {
    /// Connects. The streams must be there.
    async fn connect(nats: &Nats) -> Self {
        let client = async_nats::connect(nats.address()).await.unwrap();
        let jetstream = jetstream::new(client.clone());
        let stream = jetstream.get_stream(Kept::Commands.name(&project())).await.unwrap();
        let config = pull::Config { durable_name: Some("search".to_owned()), ..pull::Config::default() };
        let commands = stream.get_or_create_consumer("search", config).await.unwrap();
        Self { client, jetstream, commands }
    }

    /// Takes the next command.
    async fn command(&self) -> Value {
        self.commands_within(1, PATIENCE).await.pop().expect("a command comes")
    }

    /// Takes at most `count` commands that come within `time`.
    async fn commands_within(&self, count: usize, time: Duration) -> Vec<Value> {
        let mut messages = self.commands.batch().max_messages(count).expires(time).messages().await.unwrap();
        let mut commands = Vec::new();
        // A server that was killed, or has lost the consumer, does not end the request.
        let late = tokio::time::sleep(time + Duration::from_secs(1));
        let mut late = std::pin::pin!(late);
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = &mut late => panic!("the server does not answer"),
            };
            let Some(message) = message else { break };
            let message = message.unwrap();
            message.double_ack().await.unwrap();
            commands.push(serde_json::from_slice(&message.payload).unwrap());
        }
        commands
    }

    /// Asks for a card, or to keep one.
    async fn ask(&self, what: &str, request: &Value) -> Value {
        let subject = format!("{BASE}.cmd.sys.card.{what}");
        let reply = self.client.request(subject, request.to_string().into()).await.unwrap();
        serde_json::from_slice(&reply.payload).unwrap()
    }

    /// Has the result `n` of a command kept, as the card `id`.
    async fn keep(&self, command: &Value, id: &str, n: i64) {
        let kept = self.ask("put", &json!({"card": card(command, id, json!({"n": n}))})).await;
        assert!(kept["kept"].is_object(), "{kept}");
    }

    /// Sends a callback.
    async fn call_back(&self, payload: impl ToString) {
        let subject = format!("{BASE}.cmd.sys.report.tool_result");
        self.jetstream.publish(subject, payload.to_string().into()).await.unwrap().await.unwrap();
    }

    /// Returns the next dead letter.
    async fn dead_letter(&self) -> Value {
        let stream = self.jetstream.get_stream(Kept::DeadLetters.name(&project())).await.unwrap();
        let config = pull::Config { durable_name: Some("reader".to_owned()), ..pull::Config::default() };
        let reader = stream.get_or_create_consumer("reader", config).await.unwrap();
        let mut messages = reader.batch().max_messages(1).expires(PATIENCE).messages().await.unwrap();
        let message = messages.next().await.expect("a dead letter comes").unwrap();
        message.double_ack().await.unwrap();
        serde_json::from_slice(&message.payload).unwrap()
    }
}

/// Returns a card with a success of `command`.
fn card(command: &Value, id: &str, result: Value) -> Value {
    let metadata = json!({
        "role": "tool", "agent_turn_id": command["agent_turn_id"], "tool_call_id": command["tool_call_id"],
        "function_name": command["tool_name"],
    });
    json!({
        "card_id": id, "project_id": "acme", "type": "tool.result", "author_id": "tool.search", "metadata": metadata,
        "content": {"status": "success", "result": result, "error": null},
    })
}

/// Returns the callback to `command` with the card `id`; `changes` replace its fields, and remove those that are `null`.
fn callback(command: &Value, id: &str, changes: Value) -> Value {
    let mut callback = json!({"status": "success", "tool_result_card_id": id});
    for name in ["agent_id", "agent_turn_id", "turn_epoch", "tool_call_id", "after_execution"] {
        callback[name] = command[name].clone();
    }
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => _ = callback.as_object_mut().unwrap().shift_remove(name),
            value => callback[name] = value.clone(),
        }
    }
    callback
}

/// Returns the number of results that calls of `search` have on a timeline.
fn results(entries: &[Arc<Recorded>]) -> usize {
    let finished = entries.iter().filter(|recorded| match &recorded.entry {
        Entry::CallFinished(finished) => finished.tool.as_str() == "search",
        _ => false,
    });
    finished.count()
}

/// Returns the calls that wait.
async fn waiting(engine: &Engine, handle: &RunHandle) -> Vec<CallId> {
    engine.state(handle.id()).await.unwrap().suspended_calls().map(|call| call.id.clone()).collect()
}
