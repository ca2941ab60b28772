//! A second reading of the same bytes, as plain as can be: whole events, strict about what is there, no codec involved.

use std::collections::BTreeMap;

use baton_models::wire::{Answer, Dialect};
use serde_json::{Value, json};

/// What an answer says, in a form that both readings have.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    text: String,
    /// Id, tool and arguments; arguments as JSON where they are JSON.
    calls: Vec<(String, String, Value)>,
    refusal: String,
    finish: String,
    /// Input, output, cached and reasoning tokens.
    usage: [u64; 4],
    /// In billionths of a dollar; 0 if nothing was said.
    cost: u64,
    /// The text of all reasoning that is told in words.
    reasoning: String,
    id: String,
    model: String,
}

impl Reading {
    /// What the codec read.
    pub(crate) fn of(answer: &Answer) -> Self {
        let usage = answer.usage.unwrap_or_default();
        let call = |call: &baton_models::wire::AnsweredCall| {
            (call.id.clone().unwrap_or_default(), call.tool.clone(), arguments(&call.arguments))
        };
        Self {
            text: answer.text.clone(),
            calls: answer.calls.iter().map(call).collect(),
            refusal: answer.refusal.clone().unwrap_or_default(),
            finish: answer.finish.clone().unwrap_or_default(),
            usage: [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens],
            cost: nanos(answer.cost_usd),
            reasoning: answer.items.iter().map(reasoning).collect(),
            id: answer.id.clone().unwrap_or_default(),
            model: answer.model.clone().unwrap_or_default(),
        }
    }
}

fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn nanos(cost: Option<f64>) -> u64 {
    (cost.unwrap_or_default() * 1e9).round() as u64
}

/// The words of a vendor's item. A router's plain form of the same details counts once.
fn reasoning(block: &Value) -> String {
    let plain = if block["reasoning_details"].as_array().is_some_and(|details| !details.is_empty()) { "" } else { "reasoning" };
    let direct = ["thinking", "reasoning_content", plain].into_iter().filter_map(|key| block[key].as_str());
    let listed = block["reasoning_details"].as_array().into_iter().flatten();
    let summary = block["summary"].as_array().into_iter().flatten();
    let words = listed.map(|detail| detail["text"].as_str().or(detail["summary"].as_str()).unwrap_or_default());
    direct.chain(words).chain(summary.filter_map(|part| part["text"].as_str())).collect()
}

/// What the provider said in an envelope of an error.
pub(crate) fn fault(body: &str) -> String {
    let value: Value = serde_json::from_str(body).expect("recorded errors are JSON");
    value["error"]["message"].as_str().expect("recorded errors have a message").to_owned()
}

/// A whole body.
pub(crate) fn whole(dialect: Dialect, body: &str) -> Reading {
    let value: Value = serde_json::from_str(body).expect("a recorded body is JSON");
    match dialect {
        Dialect::Chat => chat(&value, &value["choices"][0]["message"], &chat_finish(&value["choices"][0])),
        Dialect::Responses => responses(&value),
        Dialect::Anthropic => anthropic(&value),
        Dialect::Ollama => ollama(&[value]),
    }
}

/// A stream: its events joined to what a whole body would have been.
pub(crate) fn stream(dialect: Dialect, body: &str) -> Reading {
    if dialect == Dialect::Ollama {
        let lines: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        return ollama(&lines);
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).expect("an event is JSON")).collect();
    match dialect {
        Dialect::Chat => chat_stream(&events),
        Dialect::Anthropic => anthropic_stream(&events),
        Dialect::Responses => responses_stream(&events),
        Dialect::Ollama => unreachable!("it has no events"),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn chat(body: &Value, message: &Value, finish: &Value) -> Reading {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let usage = &body["usage"];
    Reading {
        text: string(&message["content"]),
        calls: calls
            .map(|call| {
                let arguments_text = call["function"]["arguments"].as_str().expect("recorded arguments are strings");
                (string(&call["id"]), string(&call["function"]["name"]), arguments(arguments_text))
            })
            .collect(),
        refusal: string(&message["refusal"]),
        finish: string(finish),
        usage: [
            number(&usage["prompt_tokens"]),
            number(&usage["completion_tokens"]),
            number(&usage["prompt_tokens_details"]["cached_tokens"]),
            number(&usage["completion_tokens_details"]["reasoning_tokens"]),
        ],
        cost: nanos(usage["cost"].as_f64()),
        reasoning: reasoning(message),
        id: string(&body["id"]),
        model: string(&body["model"]),
    }
}

/// The reason to stop; the upstream's own where it says that the answer was cut and the router says otherwise.
fn chat_finish(choice: &Value) -> Value {
    let cut = ["length", "max_output_tokens"].map(Value::from);
    let (word, upstream) = (&choice["finish_reason"], &choice["native_finish_reason"]);
    if cut.contains(upstream) && !cut.contains(word) { upstream.clone() } else { word.clone() }
}

fn chat_stream(events: &[Value]) -> Reading {
    let (mut content, mut refusal, mut thought, mut details) = (String::new(), String::new(), String::new(), String::new());
    let mut told = String::new();
    let mut calls: BTreeMap<u64, (String, String, String)> = BTreeMap::new();
    let (mut finish, mut usage) = (Value::Null, Value::Null);
    for event in events {
        if event["usage"].is_object() {
            usage = event["usage"].clone();
        }
        for choice in event["choices"].as_array().into_iter().flatten().filter(|choice| choice["index"] == 0) {
            let delta = &choice["delta"];
            content += delta["content"].as_str().unwrap_or_default();
            refusal += delta["refusal"].as_str().unwrap_or_default();
            thought += delta["reasoning_content"].as_str().unwrap_or_default();
            told += delta["reasoning"].as_str().unwrap_or_default();
            details += &reasoning(&json!({"reasoning_details": delta["reasoning_details"]}));
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                let known = calls.entry(call["index"].as_u64().expect("recorded calls have an index")).or_default();
                known.0 += call["id"].as_str().unwrap_or_default();
                known.1 += call["function"]["name"].as_str().unwrap_or_default();
                known.2 += call["function"]["arguments"].as_str().unwrap_or_default();
            }
            if choice["finish_reason"].is_string() {
                finish = chat_finish(choice);
            }
        }
    }
    let calls: Vec<Value> = calls
        .into_values()
        .map(|(id, name, arguments)| json!({"id": id, "function": {"name": name, "arguments": arguments}}))
        .collect();
    let details = if details.is_empty() { told } else { details };
    let message = json!({"content": content, "refusal": refusal, "tool_calls": calls, "reasoning_content": thought + &details});
    let last = events.last().expect("a stream has events");
    chat(&json!({"id": last["id"], "model": last["model"], "usage": usage}), &message, &finish)
}

fn anthropic(message: &Value) -> Reading {
    let blocks = message["content"].as_array().expect("a message has content");
    let of = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    let usage = &message["usage"];
    let cached = number(&usage["cache_read_input_tokens"]);
    Reading {
        text: anthropic_text(blocks),
        calls: of("tool_use").map(|block| (string(&block["id"]), string(&block["name"]), block["input"].clone())).collect(),
        refusal: String::new(),
        finish: string(&message["stop_reason"]),
        usage: [
            number(&usage["input_tokens"]) + cached + number(&usage["cache_creation_input_tokens"]),
            number(&usage["output_tokens"]),
            cached,
            number(&usage["output_tokens_details"]["thinking_tokens"]),
        ],
        cost: nanos(usage["cost"].as_f64()),
        reasoning: of("thinking").map(|block| string(&block["thinking"])).collect(),
        id: string(&message["id"]),
        model: string(&message["model"]),
    }
}

/// The texts; an empty line between two that something else came between. A text without words at the beginning is none.
fn anthropic_text(blocks: &[Value]) -> String {
    let mut text = String::new();
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == "text") {
        let more = string(&block["text"]);
        if text.is_empty() && more.trim().is_empty() {
            continue;
        }
        let is_apart = index > 0 && blocks[index - 1]["type"] != "text";
        if is_apart && !text.is_empty() && !text.ends_with(char::is_whitespace) && !more.starts_with(char::is_whitespace) {
            text += "\n\n";
        }
        text += &more;
    }
    text
}

fn anthropic_stream(events: &[Value]) -> Reading {
    anthropic(&anthropic_message(events))
}

/// The message that the events of a stream make.
fn anthropic_message(events: &[Value]) -> Value {
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let mut message = of("message_start").next().expect("a stream begins")["message"].clone();
    let mut blocks: BTreeMap<u64, (Value, String)> = BTreeMap::new();
    for start in of("content_block_start") {
        blocks.insert(number(&start["index"]), (start["content_block"].clone(), String::new()));
    }
    for event in of("content_block_delta") {
        let (block, input) = blocks.get_mut(&number(&event["index"])).expect("a block begins before it goes on");
        let delta = &event["delta"];
        for key in ["text", "thinking"].into_iter().filter(|key| delta[key].is_string()) {
            block[key] = Value::from(string(&block[key]) + &string(&delta[key]));
        }
        if let Some(signature) = delta["signature"].as_str() {
            block["signature"] = Value::from(signature);
        }
        if let Some(citation) = delta.get("citation") {
            match &mut block["citations"] {
                Value::Array(citations) => citations.push(citation.clone()),
                none => *none = json!([citation]),
            }
        }
        input.push_str(delta["partial_json"].as_str().unwrap_or_default());
    }
    let blocks = blocks.into_values().map(|(mut block, input)| {
        if !input.is_empty() {
            block["input"] = arguments(&input);
        }
        block
    });
    message["content"] = blocks.collect();
    let last = of("message_delta").next_back().expect("a stream ends");
    message["stop_reason"] = last["delta"]["stop_reason"].clone();
    for (key, value) in last["usage"].as_object().expect("the end tells the usage") {
        message["usage"][key] = value.clone();
    }
    message
}

fn responses(response: &Value) -> Reading {
    let items = response["output"].as_array().expect("a response has output");
    let of = |kind: &'static str| items.iter().filter(move |item| item["type"] == kind);
    let parts = |key: &'static str| {
        let final_only = of("message").any(|item| item["phase"] == "final_answer");
        let told = of("message").filter(|item| !final_only || item["phase"] == "final_answer");
        let texts = told.map(|item| {
            let parts = item["content"].as_array().expect("a message has content");
            parts.iter().map(|part| string(&part[key])).collect::<String>()
        });
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    };
    let usage = &response["usage"];
    let reason = response["incomplete_details"]["reason"].as_str();
    Reading {
        text: parts("text"),
        calls: of("function_call")
            .map(|item| (string(&item["call_id"]), string(&item["name"]), arguments(&string(&item["arguments"]))))
            .collect(),
        refusal: parts("refusal"),
        finish: reason.map_or_else(|| string(&response["status"]), str::to_owned),
        usage: [
            number(&usage["input_tokens"]),
            number(&usage["output_tokens"]),
            number(&usage["input_tokens_details"]["cached_tokens"]),
            number(&usage["output_tokens_details"]["reasoning_tokens"]),
        ],
        cost: nanos(usage["cost"].as_f64()),
        reasoning: of("reasoning").map(reasoning).collect(),
        id: string(&response["id"]),
        model: string(&response["model"]),
    }
}

/// Text, refusals and arguments from their pieces, which the codec never looks at; the rest from the last event.
fn responses_stream(events: &[Value]) -> Reading {
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let joined = |kind: &'static str| of(kind).map(|event| string(&event["delta"])).collect::<String>();
    let is_last = |event: &&Value| event["response"]["status"] == "completed" || event["response"]["status"] == "incomplete";
    let last = events.iter().find(is_last).expect("a stream ends");
    let mut reading = responses(&last["response"]);
    let messages = last["response"]["output"].as_array().into_iter().flatten().filter(|item| item["type"] == "message").count();
    if messages < 2 {
        reading.text = joined("response.output_text.delta");
    }
    reading.refusal = joined("response.refusal.delta");
    let mut pieces: BTreeMap<u64, String> = BTreeMap::new();
    for event in of("response.function_call_arguments.delta") {
        *pieces.entry(number(&event["output_index"])).or_default() += event["delta"].as_str().unwrap_or_default();
    }
    assert_eq!(pieces.len(), reading.calls.len(), "each call has its pieces");
    for (call, pieces) in reading.calls.iter_mut().zip(pieces.into_values()) {
        call.2 = arguments(&pieces);
    }
    reading
}

fn ollama(lines: &[Value]) -> Reading {
    let joined = |key: &'static str| lines.iter().map(|line| string(&line["message"][key])).collect::<String>();
    let calls = lines.iter().flat_map(|line| line["message"]["tool_calls"].as_array().into_iter().flatten());
    let last = lines.last().expect("an answer has a line");
    Reading {
        text: joined("content"),
        calls: calls
            .map(|call| (string(&call["id"]), string(&call["function"]["name"]), call["function"]["arguments"].clone()))
            .collect(),
        refusal: String::new(),
        finish: string(&last["done_reason"]),
        usage: [number(&last["prompt_eval_count"]), number(&last["eval_count"]), 0, 0],
        cost: 0,
        reasoning: joined("thinking"),
        id: String::new(),
        model: string(&last["model"]),
    }
}

/// The vendor's own list of items, as an accepted follow-up request has it.
pub(crate) fn items(dialect: Dialect, body: &str, is_stream: bool) -> Vec<Value> {
    let value = |body: &str| serde_json::from_str::<Value>(body).expect("a recorded body is JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events = || data.clone().map(value).collect::<Vec<_>>();
    match (dialect, is_stream) {
        (Dialect::Anthropic, false) => list(&value(body)["content"]),
        (Dialect::Anthropic, true) => list(&anthropic_message(&events())["content"]),
        (Dialect::Responses, false) => list(&value(body)["output"]),
        (Dialect::Responses, true) => {
            // The last event repeats the items, sealed anew.
            let is_last = |event: &Value| matches!(event["type"].as_str(), Some("response.completed" | "response.incomplete"));
            let last = events().into_iter().find(is_last).expect("a stream ends");
            let done = events().into_iter().filter(|event| event["type"] == "response.output_item.done");
            let whole = list(&last["response"]["output"]);
            if whole.is_empty() { done.map(|mut event| event["item"].take()).collect() } else { whole }
        }
        (Dialect::Chat, false) => vec![value(body)["choices"][0]["message"].clone()],
        (Dialect::Chat, true) => {
            let deltas = events().into_iter().flat_map(|event| list(&event["choices"]));
            vec![joined(deltas.filter(|choice| choice["index"] == 0).map(|mut choice| choice["delta"].take()))]
        }
        (Dialect::Ollama, _) => vec![joined(body.lines().map(|line| value(line)["message"].take()))],
    }
}

/// A message from its pieces: words are appended, calls and details joined by their index.
fn joined(pieces: impl Iterator<Item = Value>) -> Value {
    let mut message = json!({});
    for piece in pieces {
        for (key, more) in piece.as_object().into_iter().flatten() {
            append(&mut message, key, more);
        }
    }
    message
}

fn append(known: &mut Value, key: &str, more: &Value) {
    match (known[key].clone(), more) {
        (_, Value::Null) => {}
        (Value::String(before), Value::String(more))
            if ["content", "reasoning", "reasoning_content", "thinking", "arguments", "text", "summary", "data", "refusal"]
                .contains(&key) =>
        {
            known[key] = Value::from(before + more);
        }
        (Value::Array(mut before), Value::Array(more)) => {
            for part in more {
                let same = |known: &&mut Value| {
                    part["index"].is_number()
                        && known["index"] == part["index"]
                        && (part["type"].is_null() || known["type"] == part["type"] || key == "tool_calls")
                };
                match before.iter_mut().rev().find(same) {
                    Some(known) => part.as_object().into_iter().flatten().for_each(|(key, more)| append(known, key, more)),
                    None => before.push(part.clone()),
                }
            }
            known[key] = Value::Array(before);
        }
        (Value::Object(_), Value::Object(more)) => more.iter().for_each(|(inner, more)| append(&mut known[key], inner, more)),
        (_, Value::Array(more)) => {
            known[key] = json!([]);
            append(known, key, &Value::Array(more.clone()));
            if known[key].as_array().is_some_and(Vec::is_empty) && !more.is_empty() {
                known[key] = Value::Array(more.clone());
            }
        }
        _ => known[key] = more.clone(),
    }
}
