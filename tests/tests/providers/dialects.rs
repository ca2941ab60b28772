//! Answers as providers stream them, in each dialect.

use serde_json::{Value, json};

use super::server::Reply;

/// A model's answer: a text, and calls as `(tool, input)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, Value)>,
}

/// A provider of each dialect.
pub(crate) const LIKES: [&str; 4] = ["openai", "openai-responses", "anthropic", "ollama"];

/// `said` as the answer numbered `number` of a provider like `like`, which counts tokens and calls by that number.
pub(crate) fn streamed(like: &str, said: &Said, number: usize) -> Reply {
    let (input_tokens, output_tokens) = (1_000 + number, 10 + number);
    let id = |position: usize| format!("call_{number}_{position}");
    match like {
        "openai" => {
            let chunk = |delta: Value, finish: Value| json!({"id": format!("c{number}"), "model": "m-1", "choices": [{"delta": delta, "finish_reason": finish}]});
            let mut events: Vec<Value> = pieces(&said.text).map(|text| chunk(json!({"content": text}), json!(null))).collect();
            for (position, (tool, input)) in said.calls.iter().enumerate() {
                let call = |function: Value| {
                    chunk(
                        json!({"tool_calls": [{"index": position, "id": id(position), "type": "function", "function": function}]}),
                        json!(null),
                    )
                };
                events.push(call(json!({"name": tool, "arguments": ""})));
                events.extend(pieces(&input.to_string()).map(|arguments| call(json!({"arguments": arguments}))));
            }
            events.push(chunk(json!({}), json!(if said.calls.is_empty() { "stop" } else { "tool_calls" })));
            events.push(json!({"choices": [], "usage": {"prompt_tokens": input_tokens, "completion_tokens": output_tokens}}));
            Reply::stream(
                events.iter().map(|event| format!("data: {event}\n\n")).collect::<Vec<_>>().concat() + "data: [DONE]\n\n",
            )
        }
        "openai-responses" => {
            let mut output = Vec::new();
            if !said.text.is_empty() {
                output.push(json!({"type": "message", "content": [{"type": "output_text", "text": said.text}]}));
            }
            output.extend(said.calls.iter().enumerate().map(|(position, (tool, input))| {
                json!({"type": "function_call", "call_id": id(position), "name": tool, "arguments": input.to_string()})
            }));
            let usage = json!({"input_tokens": input_tokens, "output_tokens": output_tokens});
            let response =
                json!({"id": format!("r{number}"), "model": "m-1", "status": "completed", "output": output, "usage": usage});
            let texts =
                pieces(&said.text).map(|text| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}));
            events(texts.chain([json!({"type": "response.completed", "response": response})]))
        }
        "anthropic" => {
            let usage = json!({"input_tokens": input_tokens, "output_tokens": 1});
            let mut told =
                vec![json!({"type": "message_start", "message": {"id": format!("m{number}"), "model": "m-1", "usage": usage}})];
            let mut block = |block: Value, deltas: Vec<Value>| {
                let index = told.iter().filter(|event| event["type"] == "content_block_start").count();
                told.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
                told.extend(
                    deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
                );
                told.push(json!({"type": "content_block_stop", "index": index}));
            };
            if !said.text.is_empty() {
                let deltas = pieces(&said.text).map(|text| json!({"type": "text_delta", "text": text}));
                block(json!({"type": "text", "text": ""}), deltas.collect());
            }
            for (position, (tool, input)) in said.calls.iter().enumerate() {
                let input = input.to_string();
                let deltas = pieces(&input).map(|input| json!({"type": "input_json_delta", "partial_json": input}));
                block(json!({"type": "tool_use", "id": id(position), "name": tool, "input": {}}), deltas.collect());
            }
            let finish = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
            told.push(
                json!({"type": "message_delta", "delta": {"stop_reason": finish}, "usage": {"output_tokens": output_tokens}}),
            );
            told.push(json!({"type": "message_stop"}));
            events(told.into_iter())
        }
        "ollama" => {
            let calls: Vec<Value> =
                said.calls.iter().map(|(tool, input)| json!({"function": {"name": tool, "arguments": input}})).collect();
            let texts = pieces(&said.text).map(|text| json!({"model": "m-1", "message": {"content": text}, "done": false}));
            let last = json!({"model": "m-1", "message": {"content": "", "tool_calls": calls}, "done": true, "done_reason": "stop",
                "prompt_eval_count": input_tokens, "eval_count": output_tokens});
            let lines = texts.chain([last]).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
            Reply::new(200, lines).with("content-type", "application/x-ndjson")
        }
        other => panic!("nobody is like {other}"),
    }
}

/// Events with their names.
fn events(events: impl Iterator<Item = Value>) -> Reply {
    let told = events.map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    Reply::stream(told.collect::<String>())
}

/// `text` in pieces of a few characters, as models say it.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(7).map(|piece| piece.iter().collect()).collect::<Vec<_>>().into_iter()
}
