//! Tools on their way to a provider, and the inputs of their calls on their way back.

use std::sync::Arc;

use baton_models::{ModelError, NoContents, Providers, RunKey};
use baton_types::config::ProvidedModel;
use baton_types::id::{TaskId, ToolId};
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{ModelRequest, ToolDefinition};
use serde_json::{Value, json};

use crate::server::{Received, Reply, Server};
use crate::{at, model, quick, request};

/// Answer of the models in these tests: a call that omits one key, in the form of a strict schema.
const INPUT: &str = r#"{"path":"a.md","note":null,"size":12345678901234567890.0,"kept":null}"#;

fn tool(id: &str, schema: Value) -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        id: ToolId::new(id),
        name: None,
        description: "Saves.".to_owned(),
        input_schema: Json::from(schema),
    })
}

pub(crate) fn saving() -> ModelRequest {
    let schema = json!({"type": "object", "properties": {
        "path": {"type": "string"}, "note": {"type": "string"}, "size": {"type": "number"}, "kept": {"type": ["string", "null"], "default": null}
    }, "required": ["path"], "additionalProperties": false});
    let free = json!({"type": "object", "properties": {"any": {"type": "object"}}, "additionalProperties": false});
    ModelRequest { tools: Arc::new([tool("free", free), tool("save", schema)]), ..request() }
}

/// Returns the tools as they were sent, by the key that holds them.
fn sent(received: &[Received], holder: &str) -> Vec<Value> {
    let tools = received[0].body["tools"].as_array().expect("tools were sent");
    tools.iter().map(|tool| if holder.is_empty() { tool.clone() } else { tool[holder].clone() }).collect()
}

async fn answered(server: &Server, like: &str, settings: Value) -> Vec<String> {
    let asked = ModelRequest { settings: Json::from(settings), ..saving() };
    let turn = model(&at(&server.url, like)).answer(&asked, &NoContents).await.expect("the server answers well");
    turn.calls.iter().map(|call| call.input.text().to_owned()).collect()
}

fn chat(_: usize, _: &Received) -> Reply {
    let call = |name: &str, input: &str| json!({"id": name, "type": "function", "function": {"name": name, "arguments": input}});
    let calls = [call("save", INPUT), call("free", r#"{"any":null}"#), call("unknown", INPUT), call("save", "{")];
    Reply::new(200, json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}).to_string())
}

#[tokio::test]
async fn openai_is_held_to_what_can_be_said_and_inputs_come_back_as_the_tools_have_them() {
    let server = Server::start(chat).await;
    let inputs = answered(&server, "openai", json!({})).await;
    assert_eq!(inputs[..3], [r#"{"path":"a.md","size":12345678901234567890.0,"kept":null}"#, r#"{"any":null}"#, INPUT]);
    assert_eq!(inputs[3], r#""{""#, "what cannot be read stays as it came");
    let tools = sent(&server.received(), "function");
    assert_eq!((&tools[0]["strict"], &tools[1]["strict"]), (&Value::Null, &json!(true)));
    assert_eq!(tools[1]["parameters"]["required"], json!(["path", "note", "size", "kept"]));
}

#[tokio::test]
async fn a_tool_is_offered_under_its_own_name_and_its_calls_come_back_by_its_id() {
    let named = |id: &str, name: &str| {
        let schema = Json::from(json!({"type": "object", "properties": {}}));
        Arc::new(ToolDefinition {
            id: ToolId::new(id),
            name: Some(name.to_owned()),
            description: "Saves.".to_owned(),
            input_schema: schema,
        })
    };
    let function = |name: &str| json!({"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let body = json!({"choices": [{"message": {"tool_calls": [function("saveFile"), function("other")]}, "finish_reason": "tool_calls"}]});
    let server = Server::start(move |_, _| Reply::new(200, body.to_string())).await;
    let asked = ModelRequest { tools: Arc::new([named("save_file", "saveFile")]), ..request() };
    let model = model(&at(&server.url, "openai"));
    let turn = model.answer(&asked, &NoContents).await.unwrap();
    let calls: Vec<_> = turn.calls.iter().map(|call| (call.tool.as_str(), call.name.as_deref())).collect();
    assert_eq!(calls, [("save_file", Some("saveFile")), ("other", None)]);
    let parts = turn.calls.iter().cloned().zip(1..);
    let parts = parts.map(|(call, at)| Part::Call { call: TaskId::root().call(1, at), asked: Arc::new(call) }).collect();
    let messages = Arc::new(vec![Arc::clone(&asked.messages[0]), Arc::new(Message { role: Role::Assistant, parts })]);
    model.answer(&ModelRequest { messages, turn: 2, ..asked }, &NoContents).await.unwrap();
    assert_eq!(sent(&server.received(), "function")[0]["name"], "saveFile");
    let again = &server.received()[1].body["messages"];
    assert_eq!(again.as_array().unwrap().last().unwrap()["tool_calls"][0]["function"]["name"], "saveFile");
}

#[tokio::test]
async fn the_length_of_the_name_that_models_see_is_limited() {
    let schema = || Json::from(json!({"type": "object", "properties": {}}));
    let long = ToolDefinition {
        id: ToolId::new("short"),
        name: Some("n".repeat(65)),
        description: "Saves.".to_owned(),
        input_schema: schema(),
    };
    let faults = model(&at("http://127.0.0.1:9", "openai")).check_tools(&[Arc::new(long)], &Json::null()).unwrap_err();
    assert!(faults[0].to_string().contains("its name has 65 characters"), "{}", faults[0]);
}

#[tokio::test]
async fn a_setting_says_whether_a_model_is_held_to_schemas() {
    for (like, setting, expected) in [
        ("openai", Some(false), false),
        ("llamacpp", None, false),
        ("llamacpp", Some(true), true),
        ("openrouter", None, false),
        ("ollama-openai", Some(true), false),
    ] {
        let server = Server::start(chat).await;
        let settings = setting.map_or(json!({}), |strict| json!({"strict_tools": strict}));
        let inputs = answered(&server, like, settings).await;
        assert_eq!(inputs[0] == INPUT, !expected, "{like} {setting:?}");
        assert_eq!(sent(&server.received(), "function")[1]["strict"] == true, expected, "{like} {setting:?}");
        assert_eq!(server.received()[0].body.get("strict_tools"), None, "the setting is the engine's own");
    }
}

#[tokio::test]
async fn every_protocol_brings_inputs_back() {
    let item = json!({"type": "function_call", "call_id": "c", "name": "save", "arguments": INPUT});
    let server = Server::start(move |_, _| Reply::new(200, json!({"output": [item], "status": "completed"}).to_string())).await;
    assert_eq!(
        answered(&server, "openai-responses", json!({})).await,
        [r#"{"path":"a.md","size":12345678901234567890.0,"kept":null}"#]
    );
    let tools = sent(&server.received(), "");
    assert_eq!((&tools[0]["strict"], &tools[1]["strict"]), (&json!(false), &json!(true)));

    let block = format!(r#"{{"type":"tool_use","id":"c","name":"save","input":{INPUT}}}"#);
    let body = format!(r#"{{"content":[{block}],"stop_reason":"tool_use"}}"#);
    let server = Server::start(move |_, _| Reply::new(200, body.clone())).await;
    assert_eq!(answered(&server, "anthropic", json!({})).await, [INPUT], "a model that may leave keys out means null by null");
    assert_eq!(sent(&server.received(), "input_schema")[1], saving().tools[1].input_schema.value());
}

#[tokio::test]
async fn an_offer_beyond_the_limits_of_its_provider_is_reported_before_anything_is_sent() {
    let server = Server::start(chat).await;
    let empty = || json!({"type": "object", "properties": {}});
    let many = |count: usize| -> Vec<_> { (0..count).map(|number| tool(&format!("t{number}"), empty())).collect() };
    let described = |characters: usize| {
        let description = "é".repeat(characters);
        [Arc::new(ToolDefinition { id: ToolId::new("long"), name: None, description, input_schema: Json::from(empty()) })]
    };
    let faults = |like: &str, tools: &[Arc<ToolDefinition>]| -> Vec<String> {
        let checked = model(&at(&server.url, like)).check_tools(tools, &Json::null());
        checked.err().into_iter().flatten().map(|fault| fault.to_string()).collect()
    };
    for like in ["openai", "openai-responses"] {
        assert_eq!(faults(like, &many(128)), [""; 0], "{like}");
        let told = faults(like, &many(129));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("tool t128")
                && told[0].ends_with("the agent offers 129 tools, and at most 128 are allowed in a request")
        );
        let name = tool(&"n".repeat(65), empty());
        assert!(faults(like, &[name])[0].ends_with("its name has 65 characters, and at most 64 are allowed"));
    }
    assert_eq!(faults("openai", &described(1_024)), [""; 0]);
    assert!(
        faults("openai", &described(1_025))[0].ends_with("its description has 1025 characters, and at most 1024 are allowed")
    );
    assert_eq!(faults("openai-responses", &described(5_000)), [""; 0]);
    for like in ["anthropic", "openrouter", "ollama"] {
        assert_eq!(faults(like, &[many(1_000), described(5_000).to_vec()].concat()), [""; 0], "{like}");
    }
    assert!(server.received().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_tool_that_cannot_be_offered_is_reported_before_anything_is_sent() {
    let server = Server::start(chat).await;
    let schema = json!({"type": "object", "properties": {"größe": {"type": "integer"}, "a b": {"type": "string"}}});
    let asked = ModelRequest { tools: Arc::new([tool("save", schema)]), ..request() };
    let model = model(&at(&server.url, "anthropic"));
    let faults = model.check_tools(&asked.tools, &asked.settings).expect_err("Anthropic takes no such key");
    assert_eq!((faults.len(), faults[0].unfit.pointer.as_str()), (1, "/properties/größe"));
    let error = model.answer(&asked, &NoContents).await.expect_err("it is not asked");
    assert!(matches!(&error, ModelError::Tool(fault) if *fault == faults[0]) && !error.is_retryable(), "{error}");
    assert!(server.received().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn what_a_provider_cannot_read_is_a_call_that_teaches_and_is_asked_for_once() {
    let fault = json!({"error": {
        "message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed", "status_code": 400,
        "failed_generation": "<function=save>{path: a}</function>",
    }});
    for reply in [Reply::new(400, fault.to_string()), Reply::stream(format!("data: {fault}\n\n"))] {
        let server = Server::start(move |_, _| reply.clone()).await;
        let turn = model(&at(&server.url, "llamacpp")).answer(&saving(), &NoContents).await.expect("it is a turn");
        let [call] = turn.calls.as_slice() else { panic!("one call: {turn:?}") };
        let reason = call.malformed.as_deref().unwrap_or_default();
        assert!(call.tool == "save" && reason.contains("<function=save>{path: a}"), "{call:?}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_provider_with_an_address_for_each_account_is_reached_where_the_environment_says() {
    for (name, address, key, header, value) in [
        ("azure", "AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "api-key", "k-azure-test"),
        ("bedrock", "BEDROCK_BASE_URL", "AWS_BEARER_TOKEN_BEDROCK", "authorization", "Bearer k-azure-test"),
        ("vertex", "VERTEX_BASE_URL", "VERTEX_ACCESS_TOKEN", "authorization", "Bearer k-azure-test"),
    ] {
        let server = Server::start(|_, _| Reply::new(200, crate::hello())).await;
        let url = format!("{}/openai/v1", server.url);
        let provided = ProvidedModel { provider: name.to_owned(), model: "m".to_owned(), ..ProvidedModel::default() };
        let model = |variable: &(dyn Fn(&str) -> Option<String> + Send + Sync)| {
            Providers::new(quick()).model(RunKey::unique(), &provided, None, variable)
        };
        let error = model(&|name| (name == key).then(|| "k-azure-test".to_owned())).err().unwrap();
        assert!(error.to_string().contains(&format!("set {address} in the environment")), "{error}");
        let error = model(&|name| (name == address).then(|| url.clone())).err().unwrap();
        assert!(error.to_string().contains(&format!("{name} needs a key: set {key}")), "{error}");
        let error = model(&|name| (name == address).then(|| "name.example/openai/v1".to_owned())).err().unwrap();
        assert!(error.to_string().contains("name.example/openai/v1 does not begin with https://"), "{error}");
        let found = |name: &str| match name {
            name if name == address => Some(url.clone()),
            name if name == key => Some("k-azure-test".to_owned()),
            _ => None,
        };
        let turn = model(&found).unwrap().answer(&request(), &NoContents).await.unwrap();
        let received = server.received().remove(0);
        assert_eq!((turn.text.as_str(), received.path.as_str()), ("hello", "/openai/v1/chat/completions"));
        assert_eq!(received.headers.get(header).map(String::as_str), Some(value));
    }
}
