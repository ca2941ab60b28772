//! Recorded answers on their way back to their vendor: each item as it came, or a reason why not.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use baton_models::provider::{PROFILES, Profile};
use baton_models::wire::{Answer, Dialect, Grown};
use baton_types::id::TaskId;
use baton_types::message::{Message, Part, Role};
use baton_types::model::FinishReason;
use serde_json::Value;

use crate::plain;
use crate::tape::{Exchange, Kind, Tape};

/// Answers of one provider.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) read: usize,
    pub(crate) equal: usize,
    /// Answers that go back in another form, by reason.
    pub(crate) others: BTreeMap<&'static str, usize>,
    /// Answers that go back in another form without a reason.
    pub(crate) differ: Vec<String>,
}

/// Sends every answer of `tape` back to its vendor.
pub(crate) fn of_tape(tape: &Tape, row: &mut Row) {
    for exchange in &tape.exchanges {
        let (dialect, is_stream) = match exchange.kind() {
            Kind::Whole(dialect) => (dialect, false),
            Kind::Stream(dialect) => (dialect, true),
            Kind::Fault | Kind::Other(_) => continue,
        };
        let answer = if is_stream { crate::decoded(dialect, &[exchange.body()]) } else { dialect.decode(exchange.body()) };
        let Ok(answer) = answer else { continue };
        row.read += 1;
        of_answer(tape, dialect, is_stream, exchange, answer, row);
    }
}

fn of_answer(tape: &Tape, dialect: Dialect, is_stream: bool, exchange: &Exchange, answer: Answer, row: &mut Row) {
    let finish = answer.finish_reason();
    let came = plain::items(dialect, exchange.text(), is_stream);
    let sent = sent_back(&tape.provider, dialect, answer);
    let is_sealed = |item: &Value| item["type"] != "reasoning" || item["encrypted_content"].is_string();
    let reason = match finish {
        FinishReason::Length | FinishReason::ContentFilter => "cut: as text",
        FinishReason::Refusal => "refused: as text",
        FinishReason::Stop | FinishReason::ToolCalls if sent.is_empty() => "no text, no call: not sent",
        FinishReason::Stop | FinishReason::ToolCalls => {
            let unsealed = came.iter().any(|item| !is_sealed(item));
            let came: Vec<Value> = came.into_iter().filter(is_sealed).map(|item| normal(dialect, item, unsealed)).collect();
            let sent: Vec<Value> = sent.into_iter().map(|item| normal(dialect, item, unsealed)).collect();
            if came != sent {
                row.differ.push(format!("{}\n  came {}\n  sent {}", exchange.place, Value::from(came), Value::from(sent)));
                return;
            }
            if !unsealed {
                row.equal += 1;
                return;
            }
            "equal but for unsealed reasoning"
        }
    };
    *row.others.entry(reason).or_default() += 1;
}

/// Returns the items in which `answer` goes back in the next request.
fn sent_back(provider: &str, dialect: Dialect, answer: Answer) -> Vec<Value> {
    let turn = answer.into_turn(provider, provider);
    let mut parts = Vec::new();
    if !turn.items.is_null() {
        parts.push(Part::Items(turn.items));
    }
    if !turn.text.is_empty() {
        parts.push(Part::Text(turn.text));
    }
    let calls = turn.calls.into_iter().zip(1..);
    parts.extend(calls.map(|(call, at)| Part::Call { call: TaskId::root().call(1, at), asked: Arc::new(call) }));
    // A folder that is named like no provider has the exchanges of a server like one of these.
    let of_dialect = || PROFILES.iter().find(|profile| profile.dialect == dialect).expect("each dialect has a provider");
    let features = Profile::named(provider).filter(|profile| profile.dialect == dialect).unwrap_or_else(of_dialect).features;
    let mut grown = Grown::new(dialect, features, provider);
    grown.grow(&[Arc::new(Message { role: Role::Assistant, parts })], &HashMap::new());
    let items: Vec<Value> = serde_json::from_slice(&[b"[", grown.bytes(), b"]"].concat()).expect("items are JSON");
    if dialect == Dialect::Anthropic {
        let [message] = items.as_slice() else { return items };
        return message["content"].as_array().cloned().unwrap_or_default();
    }
    items
}

/// Returns `item` without what differs between an answer and a request of the same meaning.
fn normal(dialect: Dialect, mut item: Value, is_without_reasoning: bool) -> Value {
    match dialect {
        Dialect::Anthropic => {}
        // Ids of items go together with the reasoning.
        Dialect::Responses => {
            if is_without_reasoning && let Some(item) = item.as_object_mut() {
                item.remove("id");
            }
        }
        Dialect::Chat | Dialect::Ollama => {
            for call in item["tool_calls"].as_array_mut().into_iter().flatten() {
                // The place in the list. A name without arguments is a call without any.
                call.as_object_mut().expect("a call is an object").remove("index");
                call["type"] = Value::from("function");
                if call["function"]["arguments"] == "" {
                    call["function"]["arguments"] = Value::from("{}");
                }
            }
            if item["reasoning_details"].as_array().is_some_and(|details| !details.is_empty()) {
                item["reasoning"] = Value::Null;
            }
            return without_nothing(item);
        }
    }
    item
}

/// Returns `value` without keys whose values carry nothing.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.into_iter().map(|(key, value)| (key, without_nothing(value)));
            let carries = |value: &Value| !(value.is_null() || *value == "" || *value == serde_json::json!([]));
            Value::Object(kept.filter(|(_, value)| carries(value)).collect())
        }
        Value::Array(list) => list.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

/// Returns the rows as a table.
pub(crate) fn table(rows: &BTreeMap<String, Row>) -> String {
    let mut table = String::from("provider     read  equal  differ  in another form\n");
    for (provider, row) in rows {
        let others: Vec<String> = row.others.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let _ =
            writeln!(table, "{provider:<11}  {:>4}  {:>5}  {:>6}  {}", row.read, row.equal, row.differ.len(), others.join("; "));
    }
    table
}
