//! Configurations of tools in whole runs: settings and keys by the id that a call names.

use std::sync::Arc;

use baton_models::Model;
use baton_runtime::trust::{TrustPolicy, TrustRequest, Untrusted};
use baton_runtime::{Engine, LoadedJob, RunError, StartOptions, TrustEverything};
use baton_store::MemoryStore;
use baton_tools as _;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use crate::providers::server::{Reply, Server};
use crate::support::{Finished, TestJob, call_error, call_output, call_result, model, run_to_end};

/// The variables of the environment, each with a key of its own.
const KEYS: [(&str, &str); 3] =
    [("OPENROUTER_API_KEY", "sk-usual-1f"), ("TEAM_A_KEY", "sk-team-a-22"), ("TEAM_B_KEY", "sk-team-b-333")];

/// Refuses all that needs trust.
struct Careful;

impl TrustPolicy for Careful {
    fn judge(&self, request: &TrustRequest<'_>) -> Result<(), Untrusted> {
        let told: Vec<String> =
            request.reaches.iter().filter(|reach| reach.origin.needs_trust()).map(ToString::to_string).collect();
        if told.is_empty() { Ok(()) } else { Err(Untrusted { reason: told.join("\n") }) }
    }
}

fn engine(trust: impl TrustPolicy + 'static, model: Arc<dyn Model>) -> Engine {
    let variable = |name: &str| KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| (*key).to_owned());
    let builder = Engine::builder().trust(trust).store(Arc::new(MemoryStore::default())).variables(variable);
    builder.model("m", model).build().unwrap()
}

/// Returns a model that sends `requests` in the answer of its first turn, and then ends its task.
fn requesting(requests: Value) -> Arc<dyn Model> {
    model(move |_, turn, _: &ModelRequest| {
        let requests = if turn == 1 { requests.clone() } else { json!([]) };
        ModelTurn::text(json!({"message": "I ask.", "tool_requests": requests}).to_string())
    })
}

async fn run(job: LoadedJob, requests: Value) -> Finished {
    run_to_end(&engine(TrustEverything, requesting(requests)), job).await
}

/// Returns all that a run recorded, as text.
fn recorded(finished: &Finished) -> String {
    finished.entries.iter().map(|recorded| serde_json::to_string(&recorded.entry).unwrap()).collect()
}

fn universal(configs: &[&str]) -> Value {
    json!({"invocation": "universal", "configs": configs})
}

/// Returns a job with two configurations of `openrouter`, and an agent that has a third one.
fn asking(server: &Server) -> TestJob {
    let configuration =
        |model: &str, key: &str| json!({"tool": "openrouter", "set": {"model": model, "max_tokens": 7}, "key": key});
    TestJob::new("solo", json!({}))
        .models(json!({"providers": {"openrouter": {"base_url": server.url}}}))
        .built_in("openrouter")
        .agent_with("solo", &["openrouter", "route_to_other"], universal(&["fast", "deep"]))
        .agent_with("other", &["openrouter"], universal(&["other_team"]))
        .configuration("fast", &configuration("small/one", "TEAM_A_KEY"))
        .configuration("deep", &configuration("large/one", "TEAM_B_KEY"))
        .configuration("other_team", &configuration("large/two", "TEAM_B_KEY"))
}

async fn server() -> Server {
    let body = json!({"model": "some/model", "choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 2, "cost": 0.25}});
    Server::start(move |_, _| Reply::new(200, body.to_string())).await
}

/// Returns a request of `openrouter` with the configuration `config`.
fn ask(config: &Value, input: Value) -> Value {
    let mut whole = json!({"messages": [{"role": "user", "content": "France?"}]});
    whole.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
    json!({"tool": "openrouter", "input": whole, "config_id": config})
}

#[tokio::test]
async fn two_calls_of_a_tool_use_two_configurations() {
    let server = server().await;
    let requests = json!([
        ask(&json!("fast"), json!({})),
        ask(&json!("deep"), json!({"max_tokens": 9})),
        ask(&Value::Null, json!({})),
        ask(&Value::Null, json!({"config_id": "fast"})),
    ]);
    let finished = run(asking(&server).load(), requests).await;
    for call in ["0/1.1", "0/1.2", "0/1.3", "0/1.4"] {
        assert_eq!(call_output(&finished.entries, call)["content"], "Paris.", "{call}");
    }
    let received = server.received();
    let mut seen: Vec<String> = received
        .iter()
        .map(|request| {
            let (model, max_tokens) = (request.body["model"].as_str().unwrap(), &request.body["max_tokens"]);
            format!("{model} {max_tokens} {} {}", request.body["temperature"], request.headers["authorization"])
        })
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        [
            "google/gemini-2.0-flash-exp 4000 0.7 Bearer sk-usual-1f",
            "large/one 9 0.7 Bearer sk-team-b-333",
            "small/one 7 0.7 Bearer sk-team-a-22",
            "small/one 7 0.7 Bearer sk-team-a-22",
        ],
        "the call outranks the configuration, and that the tool's settings"
    );
    assert!(KEYS.iter().all(|(_, key)| !recorded(&finished).contains(key)), "no key is recorded");
}

#[tokio::test]
async fn a_configuration_of_another_agent_is_refused_and_reaches_nothing() {
    let server = server().await;
    let finished =
        run(asking(&server).load(), json!([ask(&json!("other_team"), json!({})), ask(&json!("non"), json!({}))])).await;
    for call in ["0/1.1", "0/1.2"] {
        assert_eq!(call_result(&finished.entries, call), "refused invalid_input");
    }
    assert!(recorded(&finished).contains(r#"{"granted_configurations":["deep","fast"]}"#), "{}", recorded(&finished));
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn no_error_names_the_variable_of_a_key_since_it_may_be_the_key() {
    let server = Server::start(move |_, _| Reply::new(401, r#"{"error": {"message": "no such key"}}"#)).await;
    let configuration = |key: &str| json!({"tool": "openrouter", "set": {"model": "small/one"}, "key": key});
    let provider = json!({"like": "openrouter", "base_url": server.url, "key": {"env": "hush2"}});
    let job = TestJob::new("solo", json!({}))
        .models(json!({"providers": {"openrouter": {"base_url": server.url}, "mine": provider}}))
        .built_in("openrouter")
        .agent_with("solo", &["openrouter"], universal(&["absent", "refused"]))
        .configuration("absent", &configuration("hush1"))
        .configuration("refused", &configuration("TEAM_A_KEY"));
    let requests = json!([
        ask(&json!("absent"), json!({})),
        ask(&json!("refused"), json!({})),
        ask(&Value::Null, json!({"model": "mine:m"})),
    ]);
    let finished = run(job.load(), requests).await;
    let told = |call: &str| call_error(&finished.entries, call);
    let named = "the variable that its config names";
    let missing = format!("openrouter needs a key: set {named} in the environment, or in the file .env of the project");
    assert_eq!(told("0/1.1"), missing);
    assert!(told("0/1.2").starts_with(&format!("openrouter refused the key in {named}")), "{}", told("0/1.2"));
    let recorded = recorded(&finished);
    assert!(!recorded.contains("hush") && !recorded.contains("TEAM_A_KEY"), "{recorded}");
}

#[tokio::test]
async fn the_configurations_of_an_agent_are_in_its_list_of_tools() {
    let server = server().await;
    let system = Arc::new(std::sync::Mutex::new(String::new()));
    let seen = Arc::clone(&system);
    let reading = model(move |_, _, request: &ModelRequest| {
        (*request.system).clone_into(&mut seen.lock().unwrap());
        ModelTurn::text("done")
    });
    run_to_end(&engine(TrustEverything, reading), asking(&server).load()).await;
    let system = system.lock().unwrap();
    assert!(system.contains("\n  config_id of openrouter: deep, fast\n") && !system.contains("other_team"), "{system}");
}

#[tokio::test]
async fn a_configuration_that_names_a_key_needs_trust() {
    let job = |key: Value| {
        let mut configuration = json!({"tool": "openrouter", "set": {"model": "small/one"}});
        configuration.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
        TestJob::new("solo", json!({}))
            .built_in_of_program("openrouter")
            .agent_with("solo", &["openrouter"], universal(&["fast"]))
            .configuration("fast", &configuration)
            .load()
    };
    let engine = engine(Careful, requesting(json!([])));
    match engine.start(job(json!({"key": "TEAM_A_KEY"})), StartOptions::default()).await {
        Err(RunError::Untrusted { reason }) => {
            assert_eq!(reason, r#"openrouter with configuration fast reads the secret "TEAM_A_KEY""#);
        }
        other => panic!("it started: {:?}", other.map(|handle| handle.id().clone())),
    }
    assert!(engine.store().runs().await.unwrap().is_empty());
    engine.start(job(json!({})), StartOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_key_goes_to_no_other_provider_than_that_of_the_configured_model() {
    let (server, elsewhere) = (server().await, server().await);
    let text = |description: &str| json!({"type": "string", "description": description, "required": true});
    let parameters = json!({"model": text("Which"),
        "questions": {"type": "array", "items": {"type": "string"}, "description": "What", "required": true}});
    let settings = json!({"settings": {"model": {"type": "string", "description": "The usual one"}}});
    let job = TestJob::new("solo", json!({}))
        .models(json!({"providers": {"openrouter": {"base_url": server.url},
            "evil": {"base_url": elsewhere.url, "like": "openrouter", "key": {"env": "OPENROUTER_API_KEY"}}}}))
        .tool("consult", parameters, settings)
        .agent_with("solo", &["consult"], universal(&["team"]))
        .configuration("team", &json!({"tool": "consult", "set": {"model": "openrouter:a/b"}, "key": "TEAM_A_KEY"}));
    let ask = |model: &str| json!({"tool": "consult", "input": {"model": model, "questions": ["Who?"]}, "config_id": "team"});
    let finished = run(job.load(), json!([ask("evil:a/b"), ask("openrouter:c/d")])).await;
    let told = call_error(&finished.entries, "0/1.1");
    assert_eq!(told, "this configuration has a key of openrouter, so it asks no model of evil");
    assert_eq!(call_output(&finished.entries, "0/1.2"), json!({"answers": ["Paris."]}));
    assert_eq!((elsewhere.received().len(), server.received().len()), (0, 1));
    assert_eq!(server.received()[0].headers["authorization"], "Bearer sk-team-a-22");
}

#[tokio::test]
async fn the_key_of_a_tool_with_one_secret_is_that_secret() {
    let settings = json!({"settings": {"most": {"type": "integer", "description": "At most", "default": 3}},
        "secrets": ["USUAL_KEY"], "effect": "pure"});
    let job = TestJob::new("solo", json!({}))
        .tool("read_settings", json!({}), settings)
        .agent_with("solo", &["read_settings"], universal(&["team"]))
        .configuration("team", &json!({"tool": "read_settings", "set": {"most": 5}, "key": "TEAM_A_KEY"}));
    let finished = run(job.load(), json!([{"tool": "read_settings", "config_id": "team"}, {"tool": "read_settings"}])).await;
    let expected = json!({"settings": {"most": 5}, "secret_length": KEYS[1].1.len()});
    assert_eq!(call_output(&finished.entries, "0/1.1"), expected);
    assert!(call_error(&finished.entries, "0/1.2").contains("USUAL_KEY"));
}
