//! Results that a provider holds a model to, and results that only the core judges: both are the same in the end.

use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{engine, models};
use crate::support::{Finished, TestJob, run_to_end};

/// Runs an agent without tools whose result must have a total. Its model answers in prose unless the schema is
/// enforced, and corrects itself after a reminder. Returns the number of requests.
async fn run(like: &str, model: &str) -> (Finished, usize) {
    let server = Server::start(|before, request| {
        let body = &request.body;
        let held = ["/response_format", "/text/format", "/output_config/format", "/format"].iter().any(|at| body.pointer(at).is_some());
        let optional = if body.to_string().contains("[\"string\",\"null\"]") { json!(null) } else { json!("checked") };
        let result = json!({"total": 7, "note": optional}).to_string();
        let text = if held || before > 0 { result } else { "The total is 7.".to_owned() };
        let answer = match request.path.as_str() {
            "/messages" => json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}),
            "/responses" => {
                json!({"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]})
            }
            "/api/chat" => json!({"message": {"content": text}, "done": true}),
            _ => json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
        };
        Reply::new(200, answer.to_string())
    })
    .await;
    let schema = json!({
        "type": "object",
        "properties": {"total": {"type": "number"}, "note": {"type": "string"}},
        "required": ["total"],
        "additionalProperties": false
    });
    let job = TestJob::new("one", json!({}))
        .models(models(like, &server.url))
        .agent_with("one", &[], json!({"model": format!("tape:{model}"), "result_schema": schema}))
        .load();
    // What comes of it is folded and replayed, so its requests have the same hashes then.
    let finished = run_to_end(&engine(), job).await;
    (finished, server.received().len())
}

#[tokio::test]
async fn a_result_takes_one_request_where_its_provider_holds_the_model_to_it() {
    let held = [
        ("openai", "gpt-5-mini", json!({"total": 7})),
        ("openai-responses", "gpt-5-mini", json!({"total": 7})),
        ("anthropic", "claude-sonnet-4-6", json!({"total": 7, "note": "checked"})),
        ("ollama", "qwen3", json!({"total": 7, "note": "checked"})),
    ];
    for (like, model, result) in held {
        let (finished, requests) = run(like, model).await;
        assert_eq!((finished.status, &finished.result, requests), ("success", &result, 1), "{like}");
    }
    for like in ["llamacpp", "openrouter", "venice"] {
        let (finished, requests) = run(like, "m").await;
        let expected: Value = json!({"total": 7, "note": "checked"});
        assert_eq!((finished.status, &finished.result, requests), ("success", &expected, 2), "{like}: told once, then right");
    }
}
