//! Schemas of results: the providers that get them, their form, and the checks of the answer.

use baton_models::{NoContents, Providers, RunKey, provider_names};
use baton_types::config::ProvidedModel;
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::tools::saving;
use crate::{KEY, at, quick, request};

/// Returns the schema of the result: a total, and an optional note.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"total": {"type": "number"}, "note": {"type": "string"}},
        "required": ["total"],
        "additionalProperties": false
    })
}

/// Returns `text` as an answer to a request by `path`.
fn answer(path: &str, text: &str) -> Value {
    match path {
        "/messages" => json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}),
        "/responses" => {
            json!({"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]})
        }
        "/api/chat" => json!({"message": {"content": text}, "done": true}),
        _ => json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
    }
}

/// Asks `model` of a provider like `like`; returns the body that was sent, and what came of the answer `text`.
async fn ask(like: &str, model: &str, asked: ModelRequest, text: &'static str) -> (Value, ModelTurn) {
    let server = Server::start(move |_, request| Reply::new(200, answer(&request.path, text).to_string())).await;
    let model = ProvidedModel { provider: "test".to_owned(), model: model.to_owned(), ..ProvidedModel::default() };
    let settings = at(&server.url, like);
    let model = Providers::new(quick()).model(RunKey::unique(), &model, Some(&settings), &|_| Some(KEY.to_owned())).unwrap();
    let turn = model.answer(&asked, &NoContents).await.unwrap();
    (server.received().remove(0).body, turn)
}

fn asked(schema: Value, base: ModelRequest) -> ModelRequest {
    ModelRequest { result_schema: Some(Json::from(schema)), ..base }
}

/// Returns the format of a text in a body.
fn format_in(body: &Value) -> Option<Value> {
    let places = ["/response_format", "/text/format", "/output_config/format", "/format"];
    places.iter().find_map(|place| body.pointer(place).cloned())
}

#[tokio::test]
async fn the_model_s_own_output_limit_is_sent_only_where_a_request_needs_one() {
    let limit = |body: &Value| {
        let places = ["/max_completion_tokens", "/max_tokens", "/max_output_tokens", "/options/num_predict"];
        places.iter().find_map(|place| body.pointer(place).and_then(Value::as_u64))
    };
    let own = || ModelRequest { own_output_tokens: Some(50_000), ..request() };
    let effort = || Json::from(json!({"reasoning_effort": "medium"}));
    for (like, sent) in
        [("openai", None), ("openai-responses", None), ("anthropic", Some(50_000)), ("ollama", None), ("groq", None)]
    {
        assert_eq!(limit(&ask(like, "m", own(), "ok").await.0), sent, "{like}");
        assert_eq!(limit(&ask(like, "m", request(), "ok").await.0), Some(4_000), "{like}: nothing is known of the model");
        let reasons = ModelRequest { settings: effort(), ..request() };
        assert_eq!(limit(&ask(like, "m", reasons, "ok").await.0), Some(25_000), "{like}: reasoning leaves room for an answer");
        let set = ModelRequest { settings: Json::from(json!({"max_tokens": 77})), ..own() };
        assert_eq!(limit(&ask(like, "m", set, "ok").await.0), Some(77), "{like}: the config decides");
    }
}

#[tokio::test]
async fn each_dialect_says_the_schema_of_a_result_in_its_own_words() {
    let strict = json!({
        "type": "object",
        "properties": {"total": {"type": "number"}, "note": {"type": ["string", "null"]}},
        "required": ["total", "note"],
        "additionalProperties": false
    });
    let chat =
        |schema: &Value| json!({"type": "json_schema", "json_schema": {"name": "result", "strict": true, "schema": schema}});
    let table = [
        ("openai", "gpt-5-mini", Some(chat(&strict)), true),
        (
            "openai-responses",
            "gpt-4.1",
            Some(json!({"type": "json_schema", "name": "result", "strict": true, "schema": strict})),
            true,
        ),
        ("anthropic", "claude-sonnet-4-6", Some(json!({"type": "json_schema", "schema": schema()})), true),
        ("ollama", "qwen3", Some(schema()), false),
        ("ollama-openai", "qwen3", Some(chat(&schema())), false),
        // Older than the feature, or not documented.
        ("openai", "gpt-3.5-turbo", None, false),
        ("openai", "gpt-4", None, false),
        ("anthropic", "claude-3-5-haiku-latest", None, false),
        // Providers with unknown servers behind them.
        ("openrouter", "openai/gpt-5", None, false),
        ("venice", "m", None, false),
        ("llamacpp", "m", None, false),
        // Providers whose models differ, or that take a schema of a result without tools alone.
        ("mistral", "m", None, false),
        ("groq", "m", None, false),
        ("xai", "m", None, false),
        ("deepseek", "m", None, false),
        ("moonshot", "m", None, false),
        ("together", "m", None, false),
        ("gemini-openai", "m", None, false),
        ("azure", "m", None, false),
        ("bedrock", "m", None, false),
        ("vertex", "m", None, false),
        ("vllm", "m", None, false),
    ];
    for (like, model, expected, beside_tools) in &table {
        let (body, turn) = ask(like, model, asked(schema(), request()), "{\"total\": 1.10, \"note\": null}").await;
        assert_eq!(format_in(&body), *expected, "{like} {model}");
        let has_nulls = expected.as_ref().is_some_and(|expected| expected.to_string().contains("null"));
        let said = if has_nulls { json!({"total": 1.1}) } else { json!({"total": 1.1, "note": null}) };
        assert_eq!(serde_json::from_str::<Value>(&turn.text).unwrap(), said, "{like} {model}");
        assert!(turn.text.contains("1.10"), "digits stay: {}", turn.text);
        let (body, _) = ask(like, model, asked(schema(), saving()), "done").await;
        assert_eq!(format_in(&body).is_some(), *beside_tools, "{like} {model} with tools");
        let (body, turn) = ask(like, model, request(), "{\"total\": 1, \"note\": null}").await;
        assert_eq!((format_in(&body), turn.text.as_str()), (None, "{\"total\": 1, \"note\": null}"), "{like} {model}");
    }
    for name in provider_names() {
        assert!(table.iter().any(|(like, ..)| *like == name), "{name} is not in the table");
    }
}

#[tokio::test]
async fn what_a_dialect_has_no_words_for_is_not_sent_and_a_setting_wins() {
    let open = json!({"type": "object", "properties": {"total": {"type": "number"}}, "additionalProperties": {"type": "string"}});
    for (like, model) in [("openai", "gpt-5"), ("openai-responses", "gpt-5"), ("anthropic", "claude-opus-4-5"), ("ollama", "m")] {
        for schema in [json!({"type": "string"}), json!({"type": "object"})] {
            let (body, turn) = ask(like, model, asked(schema.clone(), request()), "plain words").await;
            assert_eq!((format_in(&body), turn.text.as_str()), (None, "plain words"), "{like} {schema}");
        }
    }
    let (body, _) = ask("openai", "gpt-5", asked(open, request()), "plain words").await;
    assert_eq!(format_in(&body), None);
    let own = json!({"response_format": {"type": "json_object"}, "text": {"format": {"type": "text"}, "verbosity": "low"}});
    let with = |settings: Value| ModelRequest { settings: Json::from(settings), ..asked(schema(), request()) };
    let (body, _) = ask("openai", "gpt-5", with(json!({"response_format": own["response_format"]})), "{}").await;
    assert_eq!(body["response_format"], own["response_format"]);
    let (body, _) = ask("openai-responses", "gpt-5", with(json!({"text": own["text"]})), "{}").await;
    assert_eq!(body["text"], own["text"]);
    let (body, _) = ask("openai-responses", "gpt-5", with(json!({"text": {"verbosity": "low"}})), "{}").await;
    assert_eq!((&body["text"]["verbosity"], &body["text"]["format"]["name"]), (&json!("low"), &json!("result")));
    let (body, _) = ask("anthropic", "claude-opus-4-5", with(json!({"output_config": {"effort": "low"}})), "{}").await;
    assert_eq!(
        (&body["output_config"]["effort"], &body["output_config"]["format"]["type"]),
        (&json!("low"), &json!("json_schema"))
    );
}
