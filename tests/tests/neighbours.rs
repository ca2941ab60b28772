//! Searches of breadcrumbs by meaning, in runs: an embeddings endpoint on loopback makes the vectors.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_breadcrumb::Author;
use baton_runtime::{LoadedJob, TrustEverything};
use baton_store::{Creation, MemoryStore, SqliteStore, Store};
use baton_types::breadcrumb::{NewBreadcrumb, Sensitivity, Visibility};
use baton_types::entry::Entry;
use baton_types::id::{JobId, MemoryId, ProjectId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::providers::server::{End, Received, Reply, Server};
use crate::support::{Finished, TestJob, call_output, calls, engine, handoff, model, run_to_end};

/// Concepts: words of one line mean about the same.
const CONCEPTS: [&[&str]; 4] = [
    &["car", "automobile", "vehicle"],
    &["money", "revenue", "income"],
    &["sea", "ocean", "water"],
    &["doctor", "physician", "nurse"],
];

/// Returns the vector of a text: how often it has words of each concept, and a little of its length.
fn vector(text: &str) -> Vec<f64> {
    let text = text.to_lowercase();
    let of_concept =
        |words: &[&str]| text.split(|c: char| !c.is_alphanumeric()).filter(|word| words.contains(word)).count() as f64;
    let rest = 0.01 + (text.len() % 7) as f64 * 0.001;
    CONCEPTS.into_iter().map(of_concept).chain([rest]).collect()
}

fn texts_of(request: &Received) -> Vec<String> {
    request.body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Returns the answer to a request for vectors.
fn vectors(request: &Received) -> Reply {
    let texts = texts_of(request);
    let data: Vec<Value> = (0..).zip(&texts).map(|(index, text)| json!({"index": index, "embedding": vector(text)})).collect();
    Reply::new(200, json!({"data": data, "usage": {"prompt_tokens": texts.len(), "total_tokens": texts.len()}}).to_string())
}

/// Returns all texts that a server has got.
fn sent(server: &Server) -> Vec<String> {
    server.received().iter().flat_map(texts_of).collect()
}

fn job(url: Option<&str>, extra: Value) -> LoadedJob {
    let job = TestJob::new("bot", extra)
        .agent_with("bot", &["breadcrumb-search", "handoff"], json!({"settings": {"max_tokens": 500}}))
        .built_in("breadcrumb-search");
    let Some(url) = url else { return job.load() };
    let models = json!({
        "providers": {"mine": {"like": "llamacpp", "base_url": format!("{url}/v1"), "timeouts": {"first_byte_seconds": 1}}},
        "embeddings": {"model": "mine:concepts"},
    });
    job.models(models).load()
}

fn ann() -> Author {
    Author::outside(Principal::person("ann"), ProjectId::of(&MemoryId::of_job(&JobId::new("test"), None)))
}

async fn create(store: &Arc<dyn Store>, id: &str, new: NewBreadcrumb, by: Author) {
    store.breadcrumbs().create(Creation { id: id.into(), new, by, key: None, at: Timestamp::from_micros(1) }).await.unwrap();
}

fn note(title: &str, context: Value) -> NewBreadcrumb {
    NewBreadcrumb { title: title.to_owned(), context: context.into(), ..NewBreadcrumb::default() }
}

/// Creates records about cars, money and the sea.
async fn fill(store: &Arc<dyn Store>) {
    create(store, "car", note("An automobile", json!({"wheels": 4})), ann()).await;
    create(store, "money", note("The revenue of March", json!({})), ann()).await;
    create(store, "sea", note("The ocean", json!({"salt": true})), ann()).await;
}

async fn run(store: &Arc<dyn Store>, job: LoadedJob, searches: &[Value]) -> Finished {
    let searches = searches.to_vec();
    let answers = model(move |_, turn, _| match searches.get(turn as usize - 1) {
        Some(input) => calls(&[("breadcrumb-search", input.clone())]),
        None => handoff("done", &[]),
    });
    run_to_end(&engine(Arc::clone(store), &answers), job).await
}

fn ids(output: &Value) -> Vec<&str> {
    output["breadcrumbs"].as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap()).collect()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

#[tokio::test]
async fn a_search_finds_by_meaning_what_words_do_not_find() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap());
    for store in [memory(), on_disk] {
        let server = Server::start(|_, request| vectors(request)).await;
        fill(&store).await;
        let finished = run(
            &store,
            job(Some(&server.url), json!({})),
            &[
                json!({"query": "a car", "nn": 1}),
                json!({"query": "a car", "nn": 0}),
                json!({"query": "a car"}),
                json!({"query": "income", "nn": 2, "limit": 1}),
                json!({}),
            ],
        )
        .await;
        let output = |turn: u32| call_output(&finished.entries, &format!("0/{turn}.1"));
        let found = output(1);
        assert_eq!((ids(&found), &found["method"], &found["total"]), (vec!["car"], &json!("vector"), &json!(1)));
        assert_eq!((&found["count"], &found["warning"]), (&json!(1), &Value::Null));
        assert_eq!(found["breadcrumbs"][0]["context"], json!({"wheels": 4}), "the view for models");
        assert_eq!((ids(&output(2)), &output(2)["method"]), (Vec::new(), &json!("fulltext")));
        assert_eq!((ids(&output(3))[0], ids(&output(3)).len()), ("car", 3), "5 neighbours by default");
        assert_eq!((ids(&output(4)), &output(4)["total"]), (vec!["money"], &json!(2)));
        assert_eq!((ids(&output(5)).len(), &output(5)["method"]), (3, &json!("filter")));
        // The records once, and the words of each search by meaning.
        assert_eq!(sent(&server).len(), 3 + 3);
        assert_eq!(server.received().len(), 4);
    }
}

#[tokio::test]
async fn without_embeddings_words_are_searched_and_a_wanted_neighbour_gets_the_reason() {
    let store = memory();
    fill(&store).await;
    let finished = run(&store, job(None, json!({})), &[json!({"query": "ocean"}), json!({"query": "ocean", "nn": 3})]).await;
    let [plain, wanted] = ["0/1.1", "0/2.1"].map(|call| call_output(&finished.entries, call));
    assert_eq!((ids(&plain), &plain["method"], plain.get("warning")), (vec!["sea"], &json!("fulltext"), None));
    assert_eq!((ids(&wanted), &wanted["method"]), (vec!["sea"], &json!("fulltext")));
    assert_eq!(wanted["warning"], json!("searched by words: models.json names no model for embeddings"));
}

#[tokio::test]
async fn sensitive_records_and_excluded_fields_never_reach_the_endpoint() {
    let store = memory();
    let server = Server::start(|_, request| vectors(request)).await;
    let hidden = NewBreadcrumb {
        llm_hints: Some(json!({"exclude": ["internal"]}).into()),
        ..note("An automobile", json!({"internal": "hush-field"}))
    };
    create(&store, "low", hidden, ann()).await;
    for (id, sensitivity) in [("pii", Sensitivity::Pii), ("secret", Sensitivity::Secret)] {
        create(&store, id, NewBreadcrumb { sensitivity, ..note("A vehicle hush", json!({"hush": "hush"})) }, ann()).await;
    }
    create(&store, "diary", NewBreadcrumb { visibility: Visibility::Private, ..note("My vehicle hush", json!({})) }, ann()).await;
    let other = Author::outside(Principal::person("ann"), ProjectId::new("other"));
    create(&store, "foreign", note("Their vehicle hush", json!({})), other).await;
    let models = json!({
        "providers": {"mine": {"like": "llamacpp", "base_url": format!("{}/v1", server.url)}}, "embeddings": {"model": "mine:concepts"}
    });
    let job = TestJob::new("bot", json!({}))
        .agent("bot", &["breadcrumb-search", "handoff"])
        .built_in("breadcrumb-search")
        .changed_tool("breadcrumb-search", json!({"set": {"may_read": ["pii"]}}))
        .models(models)
        .load();
    let finished = run(&store, job, &[json!({"query": "car vehicle"})]).await;
    let found = call_output(&finished.entries, "0/1.1");
    assert_eq!((ids(&found), &found["method"]), (vec!["low", "pii"], &json!("vector")), "personal data are found by words");
    let texts = sent(&server);
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().all(|text| !text.contains("hush") && !text.contains("internal")), "{texts:?}");
}

#[tokio::test]
async fn an_endpoint_that_fails_leaves_a_search_by_words_with_the_reason() {
    let store = memory();
    fill(&store).await;
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let ocean = [json!({"query": "ocean"})];
    let fails = |found: &Value, reason: &str| {
        assert_eq!((ids(found), &found["method"], &found["count"]), (vec!["sea"], &json!("fulltext"), &json!(1)), "{found}");
        let warning = found["warning"].as_str().unwrap();
        assert!(warning.starts_with("searched by words: ") && warning.contains(reason) && warning.len() < 400, "{warning}");
    };
    let finished = run(&store, job(Some(&gone), json!({})), &ocean).await;
    fails(&call_output(&finished.entries, "0/1.1"), "cannot be reached");
    let long = json!({"error": {"message": "bad\u{1b}[31m ".repeat(5_000)}}).to_string();
    for (reply, reason) in [
        (Reply::new(401, "{}"), "refused the key"),
        (Reply::new(400, long), "rejected the request"),
        (Reply::new(302, "").with("location", "/elsewhere"), "redirects"),
        (Reply::new(200, r#"{"data": []}"#), "it has 0 vectors for 1 texts"),
        (Reply::new(200, r#"{"data": [{"embedding": [NaN]}]}"#), "cannot be read"),
        (Reply::new(200, vec![b' '; 1 << 20]).ending(End::Endless), "exceeds"),
        (Reply::new(200, "").ending(End::Mute), "took too long"),
    ] {
        let server = Server::start(move |_, _| reply.clone()).await;
        let begun = Instant::now();
        let finished = run(&store, job(Some(&server.url), json!({})), &ocean).await;
        fails(&call_output(&finished.entries, "0/1.1"), reason);
        assert!(begun.elapsed() < Duration::from_secs(20), "{reason}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn an_endpoint_that_fails_after_the_words_leaves_nothing_wrong_behind() {
    let two = |request: &Received| texts_of(request).iter().map(|_| json!({"embedding": [1, 0]})).collect::<Vec<_>>();
    for reason in ["500", "dimensions", "count"] {
        let store = memory();
        fill(&store).await;
        let server = Server::start(move |before, request| match (before, reason) {
            (0, _) => vectors(request),
            (_, "500") => Reply::new(500, "{}"),
            (_, "dimensions") => Reply::new(200, json!({"data": two(request)}).to_string()),
            _ => Reply::new(200, json!({"data": []}).to_string()),
        })
        .await;
        let finished = run(&store, job(Some(&server.url), json!({})), &[json!({"query": "ocean"})]).await;
        let found = call_output(&finished.entries, "0/1.1");
        assert_eq!((ids(&found), &found["method"]), (vec!["sea"], &json!("fulltext")), "{reason}");
        let warning = found["warning"].as_str().unwrap();
        assert!(warning.contains("searched by words: 3 ("), "{reason}: {warning}");
        // With an endpoint that works, the next search makes the vectors.
        let server = Server::start(|_, request| vectors(request)).await;
        let finished = run(&store, job(Some(&server.url), json!({})), &[json!({"query": "a car", "nn": 1})]).await;
        let found = call_output(&finished.entries, "0/1.1");
        assert_eq!((ids(&found), found.get("warning")), (vec!["car"], None), "{reason}");
    }
}

#[tokio::test]
async fn a_text_that_the_endpoint_rejects_does_not_keep_the_others_out() {
    let store = memory();
    fill(&store).await;
    create(&store, "poison", note("Poison", json!({})), ann()).await;
    let server = Server::start(|_, request| {
        let is_poisoned = texts_of(request).iter().any(|text| text.contains("Poison"));
        if is_poisoned { Reply::new(400, r#"{"error": {"message": "cannot embed this"}}"#) } else { vectors(request) }
    })
    .await;
    let finished = run(&store, job(Some(&server.url), json!({})), &[json!({"query": "a car", "nn": 1})]).await;
    let found = call_output(&finished.entries, "0/1.1");
    assert_eq!((ids(&found), &found["method"]), (vec!["car"], &json!("vector")));
    let warning = found["warning"].as_str().unwrap();
    assert!(warning.contains("searched by words: 1 (") && warning.contains("cannot embed this"), "{warning}");
}

#[tokio::test]
async fn one_search_makes_a_bounded_number_of_vectors_and_the_next_one_continues() {
    let store = memory();
    for n in 0..300 {
        create(&store, &format!("r{n}"), note(&format!("Record {n}"), json!({})), ann()).await;
    }
    let server = Server::start(|_, request| vectors(request)).await;
    let search = json!({"query": "a car", "nn": 50, "limit": 1});
    let finished = run(&store, job(Some(&server.url), json!({})), &[search.clone(), search]).await;
    let [first, second] = ["0/1.1", "0/2.1"].map(|call| call_output(&finished.entries, call));
    assert!(first["warning"].as_str().unwrap().contains("searched by words: 44. "), "{first}");
    assert_eq!((second.get("warning"), &second["total"]), (None, &json!(50)));
    let sizes: Vec<usize> = server.received().iter().map(|request| texts_of(request).len()).collect();
    assert_eq!(sizes, [1, 64, 64, 64, 64, 1, 44]);
    let all: BTreeSet<String> = sent(&server).into_iter().collect();
    assert_eq!(all.len(), 301, "no record is sent twice");
}

#[tokio::test]
async fn tokens_of_vectors_count_towards_the_limits_of_the_run() {
    let store = memory();
    fill(&store).await;
    let server = Server::start(|_, request| vectors(request)).await;
    let finished = run(&store, job(Some(&server.url), json!({})), &[json!({"query": "a car"})]).await;
    let used: u64 = finished
        .entries
        .iter()
        .map(|recorded| match &recorded.entry {
            Entry::CallAskedModel(asked) => u64::from(asked.model == "mine:concepts"),
            _ => 0,
        })
        .sum();
    assert_eq!(used, 2, "one request for the words, and one for the records");
    // The limit leaves room for the agent's requests and for the words, and none for 8,000 tokens of records.
    for n in 0..10 {
        create(&store, &format!("long{n}"), note("An ocean", json!("water ".repeat(1_000))), ann()).await;
    }
    let finished =
        run(&store, job(Some(&server.url), json!({"limits": {"tokens": 7_000}})), &[json!({"query": "ocean", "limit": 1})]).await;
    let found = call_output(&finished.entries, "0/1.1");
    let warning = found["warning"].as_str().unwrap();
    assert!(warning.contains("searched by words: 10 (") && warning.contains("leaves no room for it"), "{warning}");
    assert_eq!((finished.status, sent(&server).len()), ("success", 3 + 2));
}

#[tokio::test]
async fn a_key_that_is_missing_is_a_reason_and_its_variable_is_not_shown_to_the_model() {
    let store = memory();
    fill(&store).await;
    let models = json!({
        "providers": {"mine": {"like": "openai", "base_url": "http://127.0.0.1:9/v1", "key": {"env": "HUSH_VARIABLE"}}},
        "embeddings": {"model": "mine:concepts"},
    });
    let job = TestJob::new("bot", json!({}))
        .agent("bot", &["breadcrumb-search", "handoff"])
        .built_in("breadcrumb-search")
        .models(models)
        .load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("breadcrumb-search", json!({"query": "ocean"}))]),
        _ => handoff("done", &[]),
    });
    let builder = baton_runtime::Engine::builder().trust(TrustEverything).store(Arc::clone(&store)).variables(|_| None);
    let engine = builder.model("m", answers).build().unwrap();
    let finished = run_to_end(&engine, job).await;
    let found = call_output(&finished.entries, "0/1.1");
    let warning = found["warning"].as_str().unwrap();
    assert_eq!(found["method"], json!("fulltext"));
    assert!(warning.contains("needs a key") && !warning.contains("HUSH_VARIABLE"), "{warning}");
}
