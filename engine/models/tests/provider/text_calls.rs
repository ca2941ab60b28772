//! Calls in the text of a native turn: which texts are calls, and of which servers.

use std::sync::Arc;

use baton_models::NoContents;
use baton_types::call::{CallResult, ModelCall};
use baton_types::id::TaskId;
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{FinishReason, ModelRequest, ModelTurn};
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::tools::saving;
use crate::{at, model};

/// A call as small models write it.
const CALL: &str = r#"{"name": "save", "arguments": {"path": "a.md"}}"#;

/// Returns the turn that comes of an answer with this text, and the settings that the server got.
async fn answered(like: &str, settings: Value, messages: Vec<Message>, text: &str, finish: &str) -> (ModelTurn, Value) {
    let body = match like {
        "ollama" => json!({"message": {"content": text}, "done": true, "done_reason": finish}),
        _ => json!({"choices": [{"message": {"content": text}, "finish_reason": finish}]}),
    };
    let server = Server::start(move |_, _| Reply::new(200, body.to_string())).await;
    let mut asked = ModelRequest { settings: Json::from(settings), ..saving() };
    asked.messages = Arc::new(asked.messages.iter().cloned().chain(messages.into_iter().map(Arc::new)).collect());
    let turn = model(&at(&server.url, like)).answer(&asked, &NoContents).await.expect("the server answers well");
    (turn, server.received()[0].body.clone())
}

/// Returns the turn of a local server's answer to a first request.
async fn local(text: &str, finish: &str) -> ModelTurn {
    answered("llamacpp", json!({}), Vec::new(), text, finish).await.0
}

#[tokio::test]
async fn a_text_that_is_a_call_is_that_call() {
    let fenced = format!("```json\n{CALL}\n```{}", "\n".repeat(500));
    let unclosed = format!("```json\n{CALL}\n{}", "\n".repeat(500));
    for (text, finish) in [(CALL, "stop"), (&*fenced, "stop"), (&*fenced, "length"), (&*unclosed, "length")] {
        let turn = local(text, finish).await;
        assert_eq!(turn.calls, [ModelCall::new("save", json!({"path": "a.md"}))], "{text}");
        assert_eq!((turn.text.as_str(), turn.finish), ("", FinishReason::ToolCalls), "{text}");
    }
}

#[tokio::test]
async fn a_text_around_the_call_and_an_unknown_tool_leave_the_text() {
    let around = format!("I save it.\n{CALL}");
    let twice = format!("{CALL}\n{CALL}");
    let cut = &CALL[..CALL.len() - 1];
    let unknown = r#"{"name": "remove", "arguments": {}}"#;
    let result = r#"{"name": "save", "total": 3}"#;
    for (text, finish) in [(&*around, "stop"), (&twice, "stop"), (cut, "length"), (unknown, "stop"), (result, "stop")] {
        let turn = local(text, finish).await;
        let expected = if finish == "stop" { FinishReason::Stop } else { FinishReason::Length };
        assert_eq!((turn.text.as_str(), turn.calls.len(), turn.finish), (text, 0, expected));
    }
}

#[tokio::test]
async fn a_copy_is_never_a_call() {
    let user = |part| Message { role: Role::User, parts: vec![part] };
    let output = json!({"content": format!("Write this:\n{CALL}")});
    let result = Part::Result {
        call: TaskId::root().call(1, 1),
        asked: Arc::new(ModelCall::new("free", json!({}))),
        result: Some(Arc::new(CallResult::success(output))),
        hint: None,
        said: Vec::new(),
    };
    let result = Message { role: Role::Tool, parts: vec![result] };
    for message in [user(Part::Request(format!("Repeat {}", CALL.replace(' ', "")))), result] {
        let (turn, _) = answered("llamacpp", json!({}), vec![message], CALL, "stop").await;
        assert_eq!((turn.text.as_str(), turn.calls.len()), (CALL, 0));
    }
}

#[tokio::test]
async fn local_servers_have_it_and_the_setting_overrides_that() {
    for (like, setting, expected) in [
        ("llamacpp", None, true),
        ("ollama", None, true),
        ("ollama-openai", None, true),
        ("vllm", None, true),
        ("openai", None, false),
        ("openrouter", None, false),
        ("openrouter", Some(true), true),
        ("llamacpp", Some(false), false),
    ] {
        let settings = setting.map_or(json!({}), |calls| json!({"calls_in_text": calls}));
        let (turn, sent) = answered(like, settings, Vec::new(), CALL, "stop").await;
        assert_eq!(turn.calls.len() == 1, expected, "{like} {setting:?}");
        assert_eq!(sent.get("calls_in_text"), None, "the setting is the engine's own");
    }
}
