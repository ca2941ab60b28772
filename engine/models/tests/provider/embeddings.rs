//! Vectors of texts: what is sent, and what is taken for an answer.

use std::time::Duration;

use baton_models::{Embedder, ModelError, Providers, RunKey, SetupError, Vectors};
use baton_types::config::{ProvidedModel, ProviderSettings};
use baton_types::id::TaskId;
use serde_json::{Value, json};

use crate::server::{End, Reply, Server};
use crate::{KEY, at, quick};

const LIMIT: Duration = Duration::from_secs(20);

fn embedder(settings: &ProviderSettings, model: Value) -> Embedder {
    let settings_of_model = model.as_object().cloned().unwrap_or_default();
    let model = ProvidedModel {
        provider: "test".to_owned(),
        model: "maker/e".to_owned(),
        settings: settings_of_model,
        ..ProvidedModel::default()
    };
    let variable = |name: &str| (name == "TEST_KEY").then(|| KEY.to_owned());
    Providers::new(quick()).embedder(RunKey::unique(), &model, Some(settings), &variable).expect("the settings are fine")
}

/// Asks a server that answers with `reply` for the vectors of two texts.
async fn answered(reply: Reply, limit: Duration) -> Result<Vectors, ModelError> {
    let server = Server::start(move |_, _| reply.clone()).await;
    embedder(&at(&server.url, "openrouter"), json!({})).embed(&["one", "two"], &TaskId::root(), limit).await
}

fn vectors(embeddings: &[Value]) -> Value {
    json!({"data": embeddings.iter().map(|each| json!({"embedding": each})).collect::<Vec<_>>()})
}

#[tokio::test]
async fn texts_are_sent_with_the_key_to_the_address_of_the_provider() {
    let answer = json!({
        "data": [{"index": 1, "embedding": [0, -2]}, {"index": 0, "embedding": [3, 4]}], "usage": {"prompt_tokens": 5, "total_tokens": 5}
    });
    for (like, base, path) in
        [("openrouter", "/v1", "/v1/embeddings"), ("ollama", "", "/v1/embeddings"), ("llamacpp", "/v1", "/v1/embeddings")]
    {
        let answer = answer.to_string();
        let server = Server::start(move |_, _| Reply::new(200, answer.clone())).await;
        let embedder = embedder(&at(&format!("{}{base}", server.url), like), json!({"dimensions": 2, "input": "x"}));
        let made = embedder.embed(&["one", "two"], &TaskId::root(), LIMIT).await.unwrap();
        assert_eq!(made, Vectors { vectors: vec![vec![0.6, 0.8], vec![0.0, -1.0]], tokens: Some(5) });
        let received = server.received().remove(0);
        assert_eq!(received.path, path, "{like}");
        assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!(received.body, json!({"model": "maker/e", "input": ["one", "two"], "dimensions": 2}));
        assert!(
            embedder.identity().contains("test:maker/e") && embedder.identity().contains(&server.url),
            "{}",
            embedder.identity()
        );
    }
    let model = ProvidedModel { provider: "openai".to_owned(), model: "m".to_owned(), ..ProvidedModel::default() };
    let made = Providers::default().embedder(RunKey::unique(), &model, None, &|_| None);
    assert!(matches!(made, Err(SetupError::KeyMissing { .. })));
}

#[tokio::test]
async fn answers_that_are_no_vectors_of_the_texts_are_refused() {
    let unit = json!([1, 0]);
    let huge: Vec<u8> = vec![0; 9_000];
    let twice = json!({"data": [{"index": 0, "embedding": [1, 0]}, {"index": 0, "embedding": [1, 0]}]});
    let far = json!({"data": [{"index": 0, "embedding": [1, 0]}, {"index": 7, "embedding": [1, 0]}]});
    for (body, reason) in [
        (vectors(std::slice::from_ref(&unit)).to_string(), "it has 1 vectors for 2 texts"),
        (vectors(&[unit.clone(), unit.clone(), unit.clone()]).to_string(), "it has 3 vectors"),
        (vectors(&[unit.clone(), json!([1, 0, 0])]).to_string(), "a vector has 3 numbers"),
        (vectors(&[json!([]), json!([])]).to_string(), "a vector has 0 numbers"),
        (vectors(&[json!(huge), json!(huge)]).to_string(), "a vector has 9000 numbers"),
        (vectors(&[unit.clone(), json!([0, 0])]).to_string(), "a vector has no direction"),
        (vectors(&[unit.clone(), json!([1, null])]).to_string(), "cannot be read"),
        (vectors(&[unit.clone(), json!("AACAPwAAAAA=")]).to_string(), "cannot be read"),
        (vectors(&[unit, json!([1, 0])]).to_string().replacen("1,0", "NaN,0", 1), "cannot be read"),
        (r#"{"data": [{"embedding": [1e999, 0]}, {"embedding": [1, 0]}]}"#.to_owned(), "cannot be read"),
        (twice.to_string(), "wrong numbers"),
        (far.to_string(), "wrong numbers"),
        (r#"{"error": {"message": "no"}}"#.to_owned(), "cannot be read"),
        ("<html>log in</html>".to_owned(), "a proxy or another server"),
        (String::new(), "cannot be read"),
    ] {
        let error = answered(Reply::new(200, body.clone()), LIMIT).await.expect_err("no vectors");
        assert!(error.to_string().contains(reason), "{body:.100}: {error}");
    }
}

#[tokio::test]
async fn a_refusal_a_redirect_and_an_endless_answer_fail_with_the_reason_and_without_the_key() {
    let echo = format!(r#"{{"error": {{"message": "bad key {KEY}"}}}}"#);
    let elsewhere = Reply::new(307, "").with("location", "http://127.0.0.1:9/v1/embeddings");
    for (reply, reason) in [
        (Reply::new(401, echo.replace('"', "'")), "refused the key"),
        (Reply::new(404, r#"{"error": {"message": "no such model"}}"#), "no such model"),
        (Reply::new(500, "broken"), "status 500"),
        (Reply::new(429, "slow down").with("retry-after", "3600"), "rate limit"),
        (elsewhere, "it redirects the request"),
        (Reply::new(200, vec![b' '; 1 << 20]).ending(End::Endless), "exceeds"),
        (Reply::new(200, "{\"data\": [").ending(End::Broken), "is broken"),
    ] {
        let error = answered(reply.clone(), LIMIT).await.expect_err("no vectors").to_string();
        assert!(error.contains(reason) && !error.contains(KEY), "{reply:?}: {error}");
    }
    let short = Duration::from_millis(50);
    for end in [End::Mute, End::Silent] {
        let error = answered(Reply::new(200, "{").ending(end), short).await.expect_err("no vectors");
        assert!(matches!(error, ModelError::TimedOut { limit, .. } if limit == short), "{error}");
    }
}
