//! Answers as their vendors' own items: each answer goes back as it came, whatever its order, and its text is what the agent says.

use std::collections::HashMap;
use std::sync::Arc;

use baton_models::ModelError;
use baton_models::provider::Profile;
use baton_models::wire::{Answer, Dialect, Grown, MAX_ANSWER_BYTES, Restored, WireError};
use baton_types::call::CallResult;
use baton_types::id::TaskId;
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{FinishReason, ModelTurn};
use serde_json::{Value, json};

/// Returns the messages of a conversation that `turn` is all of, as `provider` is sent them. `vendor` gave the answer.
fn sent(provider: &str, vendor: &str, turn: &ModelTurn) -> Vec<Value> {
    let mut parts = Vec::new();
    if !turn.items.is_null() {
        parts.push(Part::Items(turn.items.clone()));
    }
    if !turn.text.is_empty() {
        parts.push(Part::Text(turn.text.clone()));
    }
    let calls = turn.calls.iter().cloned().zip(1..);
    parts.extend(calls.map(|(call, at)| Part::Call { call: TaskId::root().call(1, at), asked: Arc::new(call) }));
    let profile = Profile::named(provider).unwrap();
    let mut grown = Grown::new(profile.dialect, profile.features, vendor);
    grown.grow(&[Arc::new(Message { role: Role::Assistant, parts })], &HashMap::new());
    let items: Vec<Value> = serde_json::from_slice(&[b"[", grown.bytes(), b"]"].concat()).unwrap();
    match items.as_slice() {
        [message] if profile.dialect == Dialect::Anthropic => message["content"].as_array().unwrap().clone(),
        _ => items,
    }
}

fn turn(answer: Answer, vendor: &str) -> ModelTurn {
    answer.into_turn(vendor, vendor)
}

fn whole(dialect: Dialect, body: &Value) -> Answer {
    dialect.decode(body.to_string().as_bytes()).unwrap()
}

fn streamed(dialect: Dialect, events: &[Value]) -> Answer {
    let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
    for event in events {
        decoder.push(format!("data: {event}\n\n").as_bytes()).unwrap();
    }
    decoder.push(b"data: [DONE]\n\n").unwrap();
    decoder.finish().unwrap()
}

/// Returns the events in which Anthropic streams `content`, each text in two pieces.
fn anthropic_events(content: &Value, stop_reason: &str) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {"input_tokens": 1}}})];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let key = ["text", "thinking", "input"].into_iter().find(|key| block.get(*key).is_some()).unwrap();
        let mut start = block.clone();
        start[key] = if key == "input" { json!({}) } else { json!("") };
        let signature = start.as_object_mut().unwrap().remove("signature");
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let all = block[key].as_str().map_or_else(|| block[key].to_string(), str::to_owned);
        let (first, rest) = all.split_at(all.len() / 2);
        for piece in [first, rest] {
            let kind = if key == "input" { "input_json" } else { key };
            let key = if key == "input" { "partial_json" } else { key };
            events.push(
                json!({"type": "content_block_delta", "index": index, "delta": {"type": format!("{kind}_delta"), key: piece}}),
            );
        }
        if let Some(signature) = signature {
            let delta = json!({"type": "signature_delta", "signature": signature});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    events
}

#[test]
fn blocks_of_anthropic_go_back_in_the_order_in_which_they_came() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thinking = |words: &str| json!({"type": "thinking", "thinking": words, "signature": format!("sealed {words}")});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {"at": id}});
    let cited = json!({"type": "text", "text": "so", "citations": [{"cited_text": "x"}]});
    let by_code =
        json!({"type": "tool_use", "id": "c", "name": "look", "input": {"at": "c"}, "caller": {"type": "code", "tool_id": "s"}});
    // As Claude Opus 4.6 answers with adaptive thinking, then the same with calls, then thinking between texts.
    for (content, said) in [
        (json!([text("\n\n"), thinking("hm"), text("Done.")]), "Done."),
        (json!([text("\n\n"), thinking("hm"), text("I look."), call("a"), thinking("oh"), call("b")]), "I look."),
        (json!([thinking("a"), text("One."), thinking("b"), text("Two.")]), "One.\n\nTwo."),
        (json!([text("One "), cited, text(" two.")]), "One so two."),
        (json!([text("Before."), by_code]), "Before."),
        (json!([call("a"), text("After.")]), "After."),
    ] {
        let body = json!({"id": "m", "content": content, "stop_reason": "end_turn"});
        let mut ways = vec![whole(Dialect::Anthropic, &body)];
        if !content.to_string().contains("citations") {
            ways.push(streamed(Dialect::Anthropic, &anthropic_events(&content, "end_turn")));
        }
        for answer in ways {
            let turn = turn(answer, "anthropic");
            assert_eq!(turn.text, said, "{content}");
            assert_eq!(Value::from(sent("anthropic", "anthropic", &turn)), content, "to the vendor");
            assert!(!turn.items.text().contains(said), "the text is stored once: {}", turn.items.text());
            let elsewhere = Value::from(sent("openai", "openai", &turn));
            assert!(!elsewhere.to_string().contains("sealed"), "to another vendor: {elsewhere}");
        }
    }
    // Text and calls in their usual order need no items.
    let plain = json!({"content": [text("Hi."), call("a"), call("b")], "stop_reason": "tool_use"});
    let plain = turn(whole(Dialect::Anthropic, &plain), "anthropic");
    assert!(plain.items.is_null(), "{}", plain.items.text());
    // Without thinking a text without words is left out: the provider refuses it.
    let blank =
        turn(whole(Dialect::Anthropic, &json!({"content": [text("\n"), call("a")], "stop_reason": "tool_use"})), "anthropic");
    assert_eq!(sent("anthropic", "anthropic", &blank), [call("a")]);
}

#[test]
fn items_of_responses_go_back_whole_and_the_final_answer_alone_is_the_text() {
    let message = |id: &str, phase: &str, text: &str| {
        let part = json!({"type": "output_text", "text": text, "annotations": [{"type": "url_citation", "url": "u"}]});
        json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "phase": phase, "content": [part]})
    };
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "namespace": "n", "arguments": "{\"a\": 1}", "status": "completed"});
    for (output, said) in [
        (
            json!([reasoning, message("m1", "commentary", "I'll check."), message("m2", "final_answer", "{\"x\":\"1\"}")]),
            "{\"x\":\"1\"}",
        ),
        (json!([reasoning, message("m1", "commentary", "I'll check."), call]), "I'll check."),
        (json!([message("m1", "final_answer", "One."), message("m2", "final_answer", "Two.")]), "One.\n\nTwo."),
    ] {
        let response = json!({"id": "r", "status": "completed", "output": output});
        let stream = [json!({"type": "response.completed", "response": response})];
        for answer in [whole(Dialect::Responses, &response), streamed(Dialect::Responses, &stream)] {
            let turn = turn(answer, "openai-responses");
            assert_eq!(turn.text, said);
            assert_eq!(Value::from(sent("openai-responses", "openai-responses", &turn)), output);
        }
    }
    // Reasoning that was not sealed cannot go back, so the items after it go without the ids that point to it.
    let unsealed = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let response = json!({"status": "completed", "output": [unsealed, call]});
    let back = sent("openai-responses", "openai-responses", &turn(whole(Dialect::Responses, &response), "openai-responses"));
    assert_eq!((back.len(), back[0].get("id"), &back[0]["namespace"]), (1, None, &json!("n")));
    // A server that thinks in open words gets them back.
    let open = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let response = json!({"status": "completed", "output": [open, call]});
    let back = sent("openai-responses", "openai-responses", &turn(whole(Dialect::Responses, &response), "openai-responses"));
    assert_eq!(back, [open, call]);
}

#[test]
fn a_message_of_chat_completions_goes_back_with_every_key_that_it_came_with() {
    let call = |extra: Value| {
        let mut call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}});
        call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        call
    };
    let signed = json!({"extra_content": {"google": {"thought_signature": "sealed"}}});
    for message in [
        json!({"role": "assistant", "content": "Hi.", "reasoning": "I greet."}),
        json!({"role": "assistant", "content": "Hi.", "reasoning_content": "I greet."}),
        json!({"role": "assistant", "reasoning": "I look.", "tool_calls": [call(json!({}))]}),
        json!({"role": "assistant", "tool_calls": [call(signed.clone())]}),
        json!({"role": "assistant", "content": "Hi.", "extra_content": signed["extra_content"]}),
        json!({"role": "assistant", "content": "Hi.", "annotations": [{"type": "file", "file": {"hash": "h"}}]}),
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "I greet."}]},
            {"type": "text", "text": "Hi."},
        ]}),
    ] {
        let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
        let answer = turn(whole(Dialect::Chat, &body), "openai");
        assert_eq!(answer.text, if message.get("content").is_some() { "Hi." } else { "" }, "{message}");
        assert_eq!(sent("openai", "openai", &answer), std::slice::from_ref(&message), "{message}");
        assert!(!sent("openai", "another", &answer)[0].to_string().contains("I greet"), "another vendor gets text and calls");
        assert!(!sent("openai", "another", &answer)[0].to_string().contains("sealed"));
    }
    let plain = json!({"choices": [{"message": {"role": "assistant", "content": "Hi.", "refusal": null, "annotations": []}, "finish_reason": "stop"}]});
    assert!(turn(whole(Dialect::Chat, &plain), "openai").items.is_null());
}

#[test]
fn a_streamed_message_goes_back_like_a_whole_one() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let thinking = |text: &str| json!([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]);
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let signature = json!({"google": {"thought_signature": "sealed"}});
    let function = |arguments: &str| json!({"name": "look", "arguments": arguments});
    let answer = streamed(
        Dialect::Chat,
        &[
            delta(json!({"role": "assistant", "content": thinking("I ")})),
            delta(json!({"content": thinking("greet.")})),
            delta(json!({"reasoning": "So "})),
            delta(json!({"content": "H"})),
            delta(json!({"reasoning": "be it.", "content": "i."})),
            delta(json!({"tool_calls": [{"index": 0, "id": "c1", "extra_content": signature, "function": function("{\"a\":")}]})),
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
            end,
        ],
    );
    let expected = json!({
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I greet."}]}, {"type": "text", "text": "Hi."}],
        "reasoning": "So be it.",
        "tool_calls": [{"id": "c1", "type": "function", "extra_content": signature, "function": function("{\"a\":1}")}],
    });
    let turn = turn(answer, "openai");
    assert_eq!((turn.text.as_str(), sent("openai", "openai", &turn)), ("Hi.", vec![expected]));
}

#[test]
fn a_cut_or_refused_turn_goes_back_as_text() {
    let content = json!([{"type": "thinking", "thinking": "hm", "signature": "sealed"}, {"type": "text", "text": "I beg"}]);
    for reason in ["max_tokens", "refusal"] {
        let turn = turn(whole(Dialect::Anthropic, &json!({"content": content, "stop_reason": reason})), "anthropic");
        assert!(turn.items.is_null(), "{}", turn.items.text());
        assert_eq!(sent("anthropic", "anthropic", &turn), [json!({"type": "text", "text": "I beg"})]);
    }
}

#[test]
fn what_the_engine_restores_for_itself_goes_back_as_the_model_wrote_it() {
    let arguments = "{\"a\": 1, \"b\": null}";
    let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}});
    let message = json!({"role": "assistant", "content": "Hi.", "tool_calls": [call]});
    let block = json!({"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1, "b": null}});
    let item = json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": "look", "arguments": arguments});
    for (provider, body, came) in [
        ("openai", json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}), message),
        ("anthropic", json!({"content": [block], "stop_reason": "tool_use"}), block),
        ("openai-responses", json!({"status": "completed", "output": [item]}), item),
    ] {
        let answer = whole(Profile::named(provider).unwrap().dialect, &body);
        let without_null = |_: &ModelTurn| Restored { text: None, inputs: vec![(0, Json::from(json!({"a": 1})))] };
        let turn = answer.into_restored_turn(provider, provider, &without_null);
        assert_eq!(turn.calls[0].input.text(), "{\"a\":1}");
        assert_eq!(sent(provider, provider, &turn), [came], "{provider}");
    }
    let text = "{\"a\":1,\"b\":null}";
    let answer = whole(Dialect::Chat, &json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}));
    let without_null = |_: &ModelTurn| Restored { text: Some("{\"a\":1}".to_owned()), inputs: Vec::new() };
    let turn = answer.into_restored_turn("openai", "openai", &without_null);
    assert_eq!((turn.text.as_str(), &sent("openai", "openai", &turn)[0]["content"]), ("{\"a\":1}", &json!(text)));
}

#[test]
fn an_answer_that_is_cut_within_a_call_is_a_cut_turn() {
    let content = json!([
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "the whole wide world"}},
    ]);
    let mut events = anthropic_events(&content, "max_tokens");
    let last_stop = events.iter().rposition(|event| event["type"] == "content_block_stop").unwrap();
    // The second piece of the input and the end of its block are missing.
    events.drain(last_stop - 1..=last_stop);
    let cut = turn(streamed(Dialect::Anthropic, &events), "anthropic");
    assert_eq!((cut.finish, cut.text.as_str(), cut.calls.len()), (FinishReason::Length, "I look.", 1));
    assert!(cut.calls[0].malformed.is_some() && cut.items.is_null());
    // Without a limit that explains it, an open block is a broken answer.
    let stop = events.iter_mut().find(|event| event["type"] == "message_delta").unwrap();
    stop["delta"]["stop_reason"] = json!("tool_use");
    let mut decoder = Dialect::Anthropic.decoder(MAX_ANSWER_BYTES);
    for event in &events {
        decoder.push(format!("data: {event}\n\n").as_bytes()).unwrap();
    }
    assert!(decoder.finish().is_err());
}

#[test]
fn an_answer_that_is_not_finished_is_never_taken_as_one() {
    for status in ["queued", "in_progress"] {
        let error =
            Dialect::Responses.decode(json!({"id": "r", "status": status, "output": []}).to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("background"), "{error}");
        let WireError::Fault(fault) = error else { panic!("{error}") };
        assert!(matches!(ModelError::of_fault("p", None, &fault, None), ModelError::Rejected { .. }));
    }
    let paused = json!({"content": [{"type": "text", "text": "Half"}], "stop_reason": "pause_turn"});
    assert_eq!(turn(whole(Dialect::Anthropic, &paused), "anthropic").finish, FinishReason::Length);
}

#[test]
fn a_call_that_holds_calls_is_unfolded_and_goes_back_folded() {
    let held = |name: &str| json!({"recipient_name": name, "parameters": {"at": name}});
    let arguments = |held: Vec<Value>| json!({"tool_uses": held}).to_string();
    let parallel = arguments(vec![held("functions.look"), held("move")]);
    let wrapper = "multi_tool_use.parallel";
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let chat = json!({"role": "assistant", "tool_calls": [function("a", "look", "{}"), function("b", wrapper, &parallel), function("c", "look", "{}")]});
    let item = |id: &str, name: &str, arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "status": "completed", "call_id": id, "name": name, "arguments": arguments});
    let output = [item("a", "look", "{}"), item("b", wrapper, &parallel), item("c", "look", "{}")];
    let table = [
        ("openai", whole(Dialect::Chat, &json!({"choices": [{"message": chat, "finish_reason": "tool_calls"}]})), vec![chat]),
        ("openai-responses", whole(Dialect::Responses, &json!({"status": "completed", "output": output})), output.to_vec()),
    ];
    for (provider, answer, expected) in table {
        let turn = turn(answer, provider);
        let calls: Vec<_> =
            turn.calls.iter().map(|call| (call.tool.as_str(), call.input.text(), call.provider_id.as_deref())).collect();
        assert_eq!(
            calls,
            [
                ("look", "{}", Some("a")),
                ("look", r#"{"at":"functions.look"}"#, Some("b")),
                ("move", r#"{"at":"move"}"#, None),
                ("look", "{}", Some("c"))
            ]
        );
        assert_eq!(sent(provider, provider, &turn), expected, "the vendor gets what it sent");
        let names = |item: &Value| item.pointer("/function/name").or(item.get("name")).cloned();
        let elsewhere = sent(provider, "another", &turn);
        let elsewhere: Vec<Value> = elsewhere
            .iter()
            .flat_map(|item| item["tool_calls"].as_array().cloned().unwrap_or_else(|| vec![item.clone()]))
            .collect();
        let elsewhere: Vec<_> = elsewhere.iter().filter_map(names).collect();
        assert_eq!(elsewhere, ["look", "look", "move", "look"], "another vendor gets the calls");
        let all = turn.calls.iter().cloned().zip(1..).map(|(call, at)| (TaskId::root().call(1, at), Arc::new(call)));
        let all: Vec<_> = all.collect();
        let mut parts = vec![Part::Items(turn.items.clone())];
        parts.extend(all.iter().map(|(call, asked)| Part::Call { call: call.clone(), asked: Arc::clone(asked) }));
        let results = all.iter().map(|(call, asked)| {
            let result = Some(Arc::new(CallResult::success(json!(call.as_str()))));
            Part::Result { call: call.clone(), asked: Arc::clone(asked), result, hint: None, said: Vec::new() }
        });
        let results = Message { role: Role::Tool, parts: results.collect() };
        let profile = Profile::named(provider).unwrap();
        let mut grown = Grown::new(profile.dialect, profile.features, provider);
        grown.grow(&[Arc::new(Message { role: Role::Assistant, parts }), Arc::new(results)], &HashMap::new());
        let items: Vec<Value> = serde_json::from_slice(&[b"[", grown.bytes(), b"]"].concat()).unwrap();
        let answered: Vec<(Value, Value)> = items[items.len() - 3..]
            .iter()
            .map(|item| {
                let id = item.get("tool_call_id").or(item.get("call_id")).unwrap().clone();
                (id, item.get("content").or(item.get("output")).unwrap().clone())
            })
            .collect();
        let body = |at: u32| format!(r#"{{"status":"success","output":"0/1.{at}"}}"#);
        assert_eq!(
            answered,
            [
                (json!("a"), json!(body(1))),
                (json!("b"), json!(format!("[{},{}]", body(2), body(3)))),
                (json!("c"), json!(body(4)))
            ],
            "each call of the vendor has one result"
        );
    }
    // Unreadable arguments stay one call, which is answered as an unknown tool.
    for broken in ["{}", "{\"tool_uses\": []}", "{\"tool_uses\": [{\"name\": \"look\"}]}"] {
        let message = json!({"tool_calls": [function("b", wrapper, broken)]});
        let turn = turn(whole(Dialect::Chat, &json!({"choices": [{"message": message, "finish_reason": "stop"}]})), "openai");
        assert_eq!((turn.calls.len(), turn.calls[0].tool.as_str()), (1, wrapper), "{broken}");
    }
}
