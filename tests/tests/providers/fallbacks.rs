//! A provider that is not available, and the one that is asked in its place.

use baton_types::entry::Entry;
use serde_json::{Value, json};

use super::engine;
use super::server::{Reply, Server};
use crate::support::{Finished, TestJob, run_to_end};

/// Runs an agent on a provider that answers `down`, whose model falls back to another provider's. Returns the outcome
/// and the number of requests to each.
async fn run(down: Reply) -> (Finished, [usize; 2]) {
    let first = Server::start(move |_, _| down.clone()).await;
    let hello = json!({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).to_string();
    let second = Server::start(move |_, _| Reply::new(200, hello.clone())).await;
    let job = TestJob::new("one", json!({}))
        .models(json!({
            "models": {"fast": {"model": "first:m", "fallbacks": ["second:n"]}},
            "providers": {
                "first": {"like": "llamacpp", "base_url": first.url},
                "second": {"like": "llamacpp", "base_url": second.url}
            }
        }))
        .agent_with("one", &[], json!({"model": "fast"}))
        .load();
    let finished = run_to_end(&engine(), job).await;
    (finished, [first.received().len(), second.received().len()])
}

fn fallbacks(finished: &Finished) -> Vec<Value> {
    let fallen = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::FellBack(fell) => Some(json!({"from": fell.from, "to": fell.to, "why": fell.error.message})),
        _ => None,
    });
    fallen.collect()
}

#[tokio::test]
async fn a_provider_that_is_not_available_is_replaced_and_the_timeline_says_so() {
    let fault = json!({"error": {"message": "no"}}).to_string();
    let replies = [
        Reply::new(401, fault.clone()),
        Reply::new(402, fault.clone()),
        Reply::new(403, fault.clone()),
        Reply::new(404, fault.clone()),
        Reply::new(429, fault.clone()).with("retry-after", "86400"),
    ];
    for reply in replies {
        let shown = format!("{reply:?}");
        let (finished, asked) = run(reply).await;
        assert_eq!((finished.status, finished.result.as_str()), ("success", Some("hello")), "{shown}");
        assert_eq!(asked, [1, 1], "{shown}");
        let fallen = fallbacks(&finished);
        assert_eq!((fallen.len(), &fallen[0]["from"], &fallen[0]["to"]), (1, &json!("fast"), &json!("second:n")), "{shown}");
        assert!(fallen[0]["why"].as_str().unwrap().contains("first"), "{fallen:?}");
        let answered = finished.entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::ModelAnswered(answered) => answered.answered.clone(),
            _ => None,
        });
        assert_eq!(answered.unwrap().provider, "second", "{shown}");
    }
}

#[tokio::test]
async fn a_request_that_is_at_fault_itself_is_asked_of_nobody_else() {
    for status in [400, 413] {
        let (finished, asked) = run(Reply::new(status, json!({"error": {"message": "no"}}).to_string())).await;
        assert_eq!((finished.status, asked), ("failed", [1, 0]), "{status}");
        assert_eq!(fallbacks(&finished), Vec::<Value>::new());
    }
}
