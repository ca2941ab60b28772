//! Faulty turns that only a model can make: malformed arguments, unknown names, ids used twice, answers cut short.

use std::sync::Arc;

use baton_models::wire::Dialect;
use baton_types::entry::{Entry, Recorded};
use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{engine, models};
use crate::support::{Finished, TestJob, call_result, run_to_end};

/// Returns a call as a chat completion has it.
fn call(id: Value, name: &str, arguments: impl Into<Value>) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.into()}})
}

fn answer(message: Value, finish: &str) -> String {
    json!({"choices": [{"message": message, "finish_reason": finish}]}).to_string()
}

/// Runs an agent that is answered so, and by "done" from then on. Its tools: `add` needs a whole number from 0 to 10,
/// `idle` nothing; both give back what they got.
async fn run(first: Vec<String>) -> (Finished, Vec<Value>) {
    let done = answer(json!({"content": "done"}), "stop");
    let server = Server::start(move |before, _| Reply::new(200, first.get(before).unwrap_or(&done).as_str())).await;
    let number = json!({"type": "integer", "minimum": 0, "maximum": 10});
    let config = |properties: Value, required: Value| {
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        json!({"input_schema": schema, "exec": {"command": ["cat"]}, "effect": "pure"})
    };
    let mut job = TestJob::new("one", json!({}))
        .models(models("llamacpp", &server.url))
        .tool_by_schema("add", config(json!({"x": number}), json!(["x"])))
        .tool_by_schema("idle", config(json!({}), json!([])))
        .tool_by_schema("secret", config(json!({}), json!([])))
        .agent_with("one", &["add", "idle"], json!({"model": "tape:m"}))
        .load();
    let here = tempfile::tempdir().unwrap();
    job.folder = Some(here.path().to_owned());
    let finished = run_to_end(&engine(), job).await;
    (finished, server.received().into_iter().map(|request| request.body).collect())
}

fn begun(entries: &[Arc<Recorded>]) -> usize {
    entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallStarted(_))).count()
}

#[tokio::test]
async fn arguments_that_are_no_object_are_answered_with_an_error_and_never_run_or_sent_back() {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!("{{\"x\":\"{}", "y".repeat(10 << 20));
    let unreadable: [&str; 15] = [
        "[]",
        "\"{}\"",
        "\"{\\\"x\\\":1}\"",
        "{}{}",
        "{\"x\":1",
        "{\"x\":1,}",
        "{'x':1}",
        "{\"x\":NaN}",
        "{\"x\":\"\\ud800\"}",
        "{\"x\":1e400}",
        "{\"x\":1,\"x\":2}",
        "x",
        "7",
        &deep,
        &long,
    ];
    // Nothing at all is an empty object, which a tool that needs something refuses.
    let invalid =
        ["", "null", "{}", "{\"x\":1,\"y\":2}", "{\"x\":\"1\"}", "{\"x\":11}", "{\"x\":9007199254740993}", "{\"x\":1.5}"];
    let cases =
        unreadable.iter().map(|case| (*case, "malformed_input")).chain(invalid.iter().map(|case| (*case, "invalid_input")));
    let (mut recovered, mut all) = (0, 0);
    for (arguments, code) in cases {
        let shown: String = arguments.chars().take(40).collect();
        let message = json!({"content": null, "tool_calls": [call(json!("c1"), "add", arguments)]});
        let (finished, asked) = run(vec![answer(message, "tool_calls")]).await;
        all += 1;
        assert_eq!((finished.status, finished.result.as_str()), ("success", Some("done")), "{shown}");
        assert_eq!(call_result(&finished.entries, "0/1.1"), format!("refused {code}"), "{shown}");
        assert_eq!(begun(&finished.entries), 0, "{shown}");
        let messages = asked[1]["messages"].as_array().unwrap();
        // A turn of unreadable calls alone is followed by a reminder.
        let said = messages.iter().rposition(|message| message["role"] == "assistant").unwrap();
        let [said, result, ..] = &messages[said..] else { panic!("a result follows") };
        let sent_back = said["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(sent_back).unwrap().is_object(), "{shown} went back as {sent_back}");
        assert_eq!(result["tool_call_id"], "c1");
        let told = result["content"].as_str().unwrap();
        assert!(told.contains(code) && told.len() < 4_000, "{shown}: {} bytes", told.len());
        recovered += 1;
    }
    println!("{recovered} of {all} broken arguments: an error that teaches, and the agent went on");
    // A tool that needs nothing takes nothing.
    for nothing in ["", "null", "{}"] {
        let message = json!({"tool_calls": [call(json!("c1"), "idle", nothing)]});
        let (finished, _) = run(vec![answer(message, "tool_calls")]).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "{nothing:?}");
    }
}

#[tokio::test]
async fn a_tool_that_the_agent_does_not_have_is_refused_with_the_names_that_it_has() {
    for name in ["ad", "Add", "add ", "\u{430}dd", "secret", "root", "run_started", "", "a\u{0}b", &"x".repeat(5_000)] {
        let message = json!({"tool_calls": [call(json!("c1"), name, "{\"x\":1}")]});
        let (finished, asked) = run(vec![answer(message, "tool_calls")]).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "refused unknown_tool", "{name:?}");
        assert_eq!(begun(&finished.entries), 0);
        let messages = asked[1]["messages"].as_array().unwrap();
        let told = messages.last().unwrap()["content"].as_str().unwrap();
        assert!(told.contains("add") && told.contains("idle") && !told.contains("secret\""), "{told}");
        let sent_back = messages[messages.len() - 2]["tool_calls"][0]["function"]["name"].as_str().unwrap();
        let plain = |each: char| each.is_ascii_alphanumeric() || "_-".contains(each);
        assert!((1..=64).contains(&sent_back.len()) && sent_back.chars().all(plain), "{sent_back:?}");
    }
}

#[tokio::test]
async fn calls_without_usable_ids_are_told_apart_and_paired_with_their_results() {
    let cases = [
        vec![Value::Null, Value::Null],
        vec![json!(""), json!("")],
        vec![json!("same"), json!("same")],
        vec![json!("a b"), json!("ü")],
        vec![json!("call_1"), Value::Null, json!("call_1"), json!("x".repeat(500))],
    ];
    for ids in cases {
        let calls = |from: u64| -> Vec<Value> {
            (from..).zip(&ids).map(|(x, id)| call(id.clone(), "add", json!({"x": x}).to_string())).collect()
        };
        // The second turn uses the ids of the first again.
        let turns = [json!({"tool_calls": calls(0)}), json!({"tool_calls": calls(5)})];
        let (finished, asked) = run(turns.iter().map(|turn| answer(turn.clone(), "tool_calls")).collect()).await;
        assert_eq!(finished.status, "success");
        assert_eq!(begun(&finished.entries), ids.len() * 2);
        let messages = asked[2]["messages"].as_array().unwrap();
        let (mut called, mut results) = (Vec::new(), Vec::new());
        for message in messages {
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let input: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                called.push((call["id"].as_str().unwrap(), input["x"].clone()));
            }
            if message["role"] == "tool" {
                let body: Value = serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
                results.push((message["tool_call_id"].as_str().unwrap(), body["output"]["x"].clone()));
            }
        }
        assert_eq!(called, results, "each result is that of its call");
        let mut ids: Vec<&str> = called.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), called.len(), "no id stands for two calls");
    }
}

#[tokio::test]
async fn every_way_to_stop_has_its_outcome_and_none_goes_on_for_ever() {
    let calls = json!([call(json!("c1"), "add", "{\"x\":1}")]);
    // The answer, its finish reason, and the end of a task whose every answer is that.
    let table = [
        (json!({"content": "hello"}), "stop", "success"),
        (json!({"content": "hello"}), "a_new_word", "success"),
        (json!({"content": "hello"}), "", "success"),
        (json!({"content": ""}), "stop", "no_handoff"),
        (json!({"content": null, "reasoning_content": "hm"}), "stop", "no_handoff"),
        (json!({"content": "hel"}), "length", "no_handoff"),
        (json!({"tool_calls": calls}), "length", "no_handoff"),
        (json!({"content": null, "refusal": "I will not."}), "stop", "no_handoff"),
        (json!({"content": "h"}), "content_filter", "no_handoff"),
    ];
    for (message, finish, outcome) in table {
        let (finished, asked) = run(vec![answer(message.clone(), finish); 20]).await;
        let ended = finished.entries.iter().rev().find_map(|recorded| match &recorded.entry {
            Entry::TaskEnded(ended) => Some(ended.result.error.as_ref().map_or("success", |error| error.code.as_str())),
            _ => None,
        });
        assert_eq!(ended, Some(outcome), "{message} {finish:?}");
        assert_eq!(begun(&finished.entries), 0, "{message} {finish:?}");
        assert!(asked.len() <= 3, "{message} {finish:?}: {} requests", asked.len());
    }
    // Calls count regardless of the finish reason.
    for finish in ["stop", "", "function_call"] {
        let (finished, _) = run(vec![answer(json!({"tool_calls": calls}), finish)]).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "{finish:?}");
    }
    assert!(Dialect::Chat.decode(b"{\"choices\":[{\"message\":{},\"finish_reason\":\"error\"}]}").is_err());
}
