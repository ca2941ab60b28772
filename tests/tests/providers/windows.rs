//! Windows of models: no request exceeds a known window, and older turns are replaced by a summary when a provider
//! reports one.

use std::sync::Arc;

use baton_macros::tool;
use baton_models::Model;
use baton_store::MemoryStore;
use baton_tool::ToolError;
use baton_types::entry::Entry;
use serde_json::{Value, json};

use super::engine;
use super::server::{Received, Reply, Server};
use crate::support::{Finished, TestJob, call_output, calls, engine as engine_with, handoff, model, run_to_end};

#[tool]
fn recite(words: u64) -> Result<String, ToolError> {
    Ok("word ".repeat(usize::try_from(words).unwrap_or_default()))
}

/// Returns the answers of a model that makes `turns` reads and then reports that it is done.
fn reads(turns: usize) -> impl Fn(usize, &Received) -> Reply + Send + Sync + 'static {
    move |before, _| {
        let call = json!({"id": format!("c{before}"), "type": "function",
            "function": {"name": "recite", "arguments": json!({"words": 150 + before}).to_string()}});
        let (message, finish) = match before {
            before if before < turns => (json!({"content": null, "tool_calls": [call]}), "tool_calls"),
            _ => (json!({"content": "done"}), "stop"),
        };
        Reply::new(200, json!({"choices": [{"message": message, "finish_reason": finish}]}).to_string())
    }
}

fn parameters() -> Value {
    json!({"words": {"type": "integer", "description": "How many.", "required": true}})
}

async fn run(server: &Server, window: Option<u64>) -> Finished {
    let mut models = json!({
        "models": {"long": {"model": "test:m"}},
        "providers": {"test": {"like": "llamacpp", "base_url": server.url}}
    });
    if let Some(window) = window {
        models["models"]["long"]["context_tokens"] = json!(window);
    }
    let job = TestJob::new("one", json!({}))
        .models(models)
        .agent_with("one", &["recite"], json!({"model": "long", "settings": {"max_tokens": 100}}))
        .tool("recite", parameters(), json!({"effect": "pure"}))
        .load();
    run_to_end(&engine(), job).await
}

fn compactions(finished: &Finished) -> usize {
    finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::Compacted(_))).count()
}

#[tokio::test]
async fn no_request_is_longer_than_the_window_that_a_config_tells() {
    const WINDOW: u64 = 3_000;
    let server = Server::start(reads(40)).await;
    let finished = run(&server, Some(WINDOW)).await;
    assert_eq!((finished.status, finished.result.as_str()), ("success", Some("done")));
    let received = server.received();
    assert_eq!(received.len(), 41);
    let longest = received.iter().map(|request| request.body["messages"].to_string().len()).max().unwrap() as u64;
    assert!(longest / 4 <= WINDOW, "{longest} bytes");
    assert!((4..20).contains(&compactions(&finished)), "{}", compactions(&finished));
    let last = received.last().unwrap().body["messages"].to_string();
    assert!(last.contains("you called recite") && last.contains("Begin."), "{last}");
}

#[tokio::test]
async fn a_window_that_a_provider_tells_makes_older_turns_give_way() {
    let read = reads(20);
    let answered = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_, request| {
        if request.body["messages"].to_string().len() > 8_000 {
            let message = "This model's maximum context length is 2000 tokens.";
            let error = json!({"error": {"message": message, "code": "context_length_exceeded"}});
            return Reply::new(400, error.to_string());
        }
        read(answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed), request)
    })
    .await;
    let finished = run(&server, None).await;
    assert_eq!((finished.status, finished.result.as_str()), ("success", Some("done")));
    let refused = server.received().len() - 21;
    assert_eq!(compactions(&finished), refused, "each refusal is answered by giving up older turns");
    assert!((2..10).contains(&refused), "{refused}");
}

#[tokio::test]
async fn a_long_output_is_a_document_and_a_replay_has_the_same_requests() {
    let answers: Arc<dyn Model> = model(|_, turn, _| match turn {
        1 => calls(&[("recite", json!({"words": 20_000})), ("recite", json!({"words": 2}))]),
        _ => handoff("done", &[]),
    });
    let job = TestJob::new("one", json!({})).agent("one", &["recite", "handoff"]).tool(
        "recite",
        parameters(),
        json!({"effect": "pure"}),
    );
    let finished = run_to_end(&engine_with(Arc::new(MemoryStore::default()), &answers), job.load()).await;
    assert_eq!(call_output(&finished.entries, "0/1.2"), json!("word word "));
    let told = call_output(&finished.entries, "0/1.1");
    let path = told["document"].as_str().unwrap();
    assert!(path.starts_with("results/recite-"), "{told}");
    let kept = finished.run.documents().iter().find(|(at, _)| at.as_str() == path).unwrap().1;
    assert_eq!(kept.current().content.size_bytes, 100_000);
}
