//! Recorded conversations of several requests: a server gives the recorded answers, and an agent drives the whole loop.

use std::collections::BTreeMap;

use baton_models::wire::{Answer, Dialect, MAX_ANSWER_BYTES};
use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::tape::{Exchange, Kind, Tape, all, folder};
use super::{engine, models};
use crate::support::{TestJob, run_to_end};

/// A conversation that an agent can drive: every answer but the last makes calls, every request but the first has results.
struct Conversation {
    dialect: Dialect,
    like: &'static str,
    path: &'static str,
    answers: Vec<Answer>,
    tools: BTreeMap<String, Value>,
    model: String,
}

#[tokio::test]
async fn an_agent_drives_every_recorded_conversation_to_its_end() {
    let Some(tapes) = all() else {
        println!("there are no recordings at {}: nothing was driven", folder().display());
        return;
    };
    let mut driven: BTreeMap<(String, &str), (usize, usize, usize)> = BTreeMap::new();
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for tape in tapes.iter().filter(|tape| tape.exchanges.len() > 1) {
        match conversation(tape) {
            Ok(conversation) => {
                let calls = drive(tape, &conversation).await;
                let row = driven.entry((tape.provider.clone(), conversation.like)).or_default();
                *row = (row.0 + 1, row.1 + tape.exchanges.len(), row.2 + calls);
            }
            Err(reason) => *left.entry(reason).or_default() += 1,
        }
    }
    println!("provider    like              conversations  requests  calls");
    for ((provider, like), (conversations, requests, calls)) in &driven {
        println!("{provider:<10}  {like:<16}  {conversations:>13}  {requests:>8}  {calls:>5}");
    }
    for (reason, count) in &left {
        println!("{count:>4} files of several requests are none: {reason}");
    }
    assert!(!driven.is_empty());
}

/// Returns the conversation that a recording is, or why it is none.
fn conversation(tape: &Tape) -> Result<Conversation, &'static str> {
    let mut answers = Vec::new();
    let mut dialects = Vec::new();
    for exchange in &tape.exchanges {
        let (dialect, answer) = match exchange.kind() {
            Kind::Whole(dialect) => (dialect, dialect.decode(exchange.body())),
            Kind::Stream(dialect) => (dialect, decode(dialect, exchange)),
            Kind::Fault => return Err("a request fails"),
            Kind::Other(_) => return Err("a request asks no model"),
        };
        dialects.push(dialect);
        answers.push(answer.expect("recorded answers are read"));
    }
    let dialect = dialects[0];
    let requests: Vec<Value> = tape.exchanges.iter().map(request).collect();
    let (last, before) = answers.split_last().expect("there are several");
    if !last.calls.is_empty() || before.iter().any(|answer| answer.calls.is_empty()) {
        return Err("its requests are conversations of their own");
    }
    let answered = |request: &Value| {
        ["\"tool\"", "tool_result", "function_call_output"].iter().any(|word| request.to_string().contains(word))
    };
    if !requests[1..].iter().all(answered) {
        return Err("its requests are conversations of their own");
    }
    if last.text.trim().is_empty() || last.finish_reason() != baton_types::model::FinishReason::Stop {
        return Err("its last answer is empty or cut");
    }
    if requests.iter().any(|request| request.get("previous_response_id").is_some()) {
        return Err("it is kept at the provider");
    }
    let mut tools = BTreeMap::new();
    for tool in requests.iter().flat_map(|request| request["tools"].as_array().cloned().unwrap_or_default()) {
        let function = if tool["function"].is_object() { &tool["function"] } else { &tool };
        let schema = ["parameters", "input_schema"].iter().find_map(|key| function.get(*key)).cloned();
        let name = function["name"].as_str().unwrap_or_default();
        tools.insert(name.to_owned(), schema.ok_or("a tool is the provider's own")?);
    }
    let (like, path) = match (dialect, tape.provider.as_str()) {
        (Dialect::Anthropic, _) => ("anthropic", "/messages"),
        (Dialect::Responses, _) => ("openai-responses", "/responses"),
        (Dialect::Ollama, _) => ("ollama", "/api/chat"),
        (Dialect::Chat, "openai") => ("openai", "/chat/completions"),
        (Dialect::Chat, "openrouter") => ("openrouter", "/chat/completions"),
        (Dialect::Chat, _) => ("llamacpp", "/chat/completions"),
    };
    let model = requests[0]["model"].as_str().unwrap_or_default().to_owned();
    Ok(Conversation { dialect, like, path, answers, tools, model })
}

fn decode(dialect: Dialect, exchange: &Exchange) -> Result<Answer, baton_models::wire::WireError> {
    let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
    decoder.push(exchange.body())?;
    decoder.finish()
}

fn request(exchange: &Exchange) -> Value {
    serde_json::from_str(exchange.when.body.as_deref().unwrap_or_default()).unwrap_or_default()
}

/// Lets an agent drive the conversation; each of its tools gives its input back. Returns how many calls were answered.
async fn drive(tape: &Tape, conversation: &Conversation) -> usize {
    let place = &tape.exchanges[0].place;
    let replies: Vec<Reply> = tape
        .exchanges
        .iter()
        .map(|exchange| Reply::new(200, exchange.body()).with("content-type", exchange.content_type()))
        .collect();
    let server = Server::start(move |before, _| replies[before.min(replies.len() - 1)].clone()).await;
    let prefix = tape.exchanges[0].when.path.strip_suffix(conversation.path).expect("all paths end alike");
    let names: Vec<&str> = conversation.tools.keys().map(String::as_str).collect();
    let extra = json!({"model": format!("tape:{}", conversation.model), "system_prompt": "Use your tools."});
    let mut job = TestJob::new("one", json!({}))
        .models(models(conversation.like, &format!("{}{prefix}", server.url)))
        .agent_with("one", &names, extra);
    for (name, schema) in &conversation.tools {
        let config = json!({"input_schema": schema, "exec": {"command": ["cat"]}, "effect": "pure"});
        job = job.tool_by_schema(name, config);
    }
    let mut job = job.load();
    let here = tempfile::tempdir().unwrap();
    job.folder = Some(here.path().to_owned());
    let finished = run_to_end(&engine(), job).await;
    let last = conversation.answers.last().expect("there are several");
    assert_eq!((finished.status, finished.result.as_str()), ("success", Some(last.text.as_str())), "{place}");
    let asked: Vec<Value> = server.received().into_iter().map(|request| request.body).collect();
    assert_eq!(asked.len(), tape.exchanges.len(), "{place}");
    let mut results = 0;
    for (pair, answer) in asked.windows(2).zip(&conversation.answers) {
        results += follows(conversation.dialect, &pair[0], &pair[1], answer, place);
    }
    results
}

/// Checks that `after` repeats `before` and adds the answer and one result for each of its calls; returns how many.
fn follows(dialect: Dialect, before: &Value, after: &Value, answer: &Answer, place: &str) -> usize {
    let key = if dialect == Dialect::Responses { "input" } else { "messages" };
    let frame = |body: &Value| {
        let mut body = body.clone();
        body[key] = Value::Null;
        body.to_string()
    };
    assert_eq!(frame(before), frame(after), "{place}: what stands before the conversation changed");
    let (said, all) = (before[key].as_array().unwrap(), after[key].as_array().unwrap());
    assert_eq!(said[..], all[..said.len()], "{place}: what was said before changed");
    let mut calls = Vec::new();
    let mut results = Vec::new();
    for message in &all[said.len()..] {
        let id = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            calls.push(if dialect == Dialect::Ollama { id(&call["function"], "name") } else { id(call, "id") });
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => calls.push(id(block, "id")),
                Some("tool_result") => results.push(id(block, "tool_use_id")),
                _ => {}
            }
        }
        match (message["role"].as_str(), message["type"].as_str()) {
            (Some("tool"), _) => results.push(id(message, if dialect == Dialect::Ollama { "tool_name" } else { "tool_call_id" })),
            (_, Some("function_call")) => calls.push(id(message, "call_id")),
            (_, Some("function_call_output")) => results.push(id(message, "call_id")),
            _ => {}
        }
    }
    assert_eq!(calls.len(), answer.calls.len(), "{place}");
    assert_eq!(calls, results, "{place}: each call has its result, in order");
    // What the provider wants back is there as it came.
    for kept in answer.items.iter().filter(|item| item["type"] == "thinking" || item["encrypted_content"].is_string()) {
        assert!(after.to_string().contains(&kept.to_string()), "{place}: {kept} did not go back");
    }
    for key in ["reasoning_details", "reasoning_content", "thinking"] {
        for kept in answer.items.iter().filter(|item| item.get("role").is_some()).filter_map(|item| item.get(key)) {
            assert!(after.to_string().contains(&kept.to_string()), "{place}: {kept} did not go back");
        }
    }
    results.len()
}
