//! Tools that ask models, in runs: by the job's names for them, with its keys, and without a word of these in any record.

use std::sync::Arc;

use baton_models::wire::MAX_ANSWER_BYTES;
use baton_runtime::Engine;
use baton_store::MemoryStore;
use baton_tools as _;
use baton_types::entry::Entry;
use serde_json::{Value, json};

use crate::budgets::Silent;
use crate::providers::server::{Reply, Server};
use crate::support::{Finished, TestJob, call_error, call_output, calls, handoff, model, run_to_end};

const KEY: &str = "sk-canary-5d1e-key";

fn shipped(config: &str) -> Value {
    let mut config: Value = serde_json::from_str(config).unwrap();
    config.as_object_mut().unwrap().remove("$schema");
    config
}

/// Runs one agent with one shipped tool, which it calls once with `input`.
async fn one_call(tool: &str, config: &str, input: Value, models: Value, job: impl Fn(TestJob) -> TestJob) -> Finished {
    let config = shipped(config);
    let parameters = config["parameters"].clone();
    let scripted = |file: &str| json!({"provider": "scripted", "script": file});
    let extra = json!({"models": {"m": scripted("m.script.json"), "helper": scripted("helper.script.json")}});
    let made = TestJob::new("solo", extra).models(models).agent("solo", &[tool, "handoff"]).tool(tool, parameters, config);
    let name = tool.to_owned();
    let answers = model(move |_, turn, _| if turn == 1 { calls(&[(&name, input.clone())]) } else { handoff("done", &[]) });
    let variable = |name: &str| (name == "OPENROUTER_API_KEY").then(|| KEY.to_owned());
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .model("m", answers)
        .variables(variable)
        .build()
        .unwrap();
    run_to_end(&engine, job(made).load()).await
}

/// Returns the job whose scripted model gives no answer.
fn nobody(job: TestJob) -> TestJob {
    job.script("helper.script.json", &json!({"agents": {}}))
}

/// Returns all that a run recorded, as text.
fn recorded(finished: &Finished) -> String {
    finished.entries.iter().map(|recorded| serde_json::to_string(&recorded.entry).unwrap()).collect()
}

#[tokio::test]
async fn a_model_of_a_provider_answers_a_tool() {
    let body = json!({"model": "google/gemini-2.0-flash-001", "choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 2, "cost": 0.25}});
    let server = Server::start(move |_, _| Reply::new(200, body.to_string())).await;
    let input = json!({"messages": [{"role": "system", "content": "One word."}, {"role": "user", "content": "France?"}], "max_tokens": 9});
    let models = json!({"providers": {"openrouter": {"base_url": server.url}}});
    let finished = one_call("openrouter", include_str!("../../tool-configs/openrouter.json"), input, models, nobody).await;
    assert_eq!(
        call_output(&finished.entries, "0/1.1"),
        json!({"content": "Paris.", "model": "google/gemini-2.0-flash-001", "cost_estimate": 0.25,
            "usage": {"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22}})
    );
    let request = server.received().remove(0);
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!((&request.body["model"], &request.body["max_tokens"]), (&json!("google/gemini-2.0-flash-exp"), &json!(9)));
    assert_eq!(request.body["temperature"], 0.7);
    assert_eq!(
        request.body["messages"],
        json!([{"role": "system", "content": "One word."}, {"role": "user", "content": "France?"}])
    );
    assert!(!recorded(&finished).contains(KEY));
}

#[tokio::test]
async fn what_a_provider_refuses_is_an_error_that_teaches_without_the_key() {
    let refusal = json!({"error": {"message": format!("no such key {KEY}"), "code": 401}}).to_string();
    let server = Server::start(move |_, _| Reply::new(401, refusal.clone())).await;
    let input = json!({"messages": [{"role": "user", "content": "Hi."}]});
    let models = json!({"providers": {"openrouter": {"base_url": server.url}}});
    let config = include_str!("../../tool-configs/openrouter.json");
    let finished = one_call("openrouter", config, input.clone(), models, nobody).await;
    let told = call_error(&finished.entries, "0/1.1");
    assert!(told.starts_with("openrouter refused the key in OPENROUTER_API_KEY: no such key [key]"), "{told}");
    assert!(!recorded(&finished).contains(KEY));
    let keyless = one_call("venice", include_str!("../../tool-configs/venice.json"), input, json!({}), nobody).await;
    let told = call_error(&keyless.entries, "0/1.1");
    assert_eq!(told, "venice needs a key: set VENICE_API_KEY in the environment, or in the file .env of the project");
}

#[tokio::test]
async fn a_question_about_data_is_answered_from_rows_by_a_model_of_the_job() {
    let script = json!({"tools": {"ask_data": {"turns": [
        {"text": "SELECT region, sum(amount) AS total FROM sale GROUP BY 1"},
        {"text": "SELECT region, sum(amount) AS total FROM sales GROUP BY 1 ORDER BY 2 DESC"},
        {"text": "North leads with 12.5."}
    ]}}});
    let config = include_str!("../../tool-configs/ask_data.json");
    let input = json!({"file_path": "sales.csv", "question": "Which region leads?", "model": "helper"});
    let finished = one_call("ask_data", config, input, json!({}), |job| {
        job.script("helper.script.json", &script).document("sales.csv", "region,amount\nNorth,10\nSouth,5\nNorth,2.5\n")
    })
    .await;
    let output = call_output(&finished.entries, "0/1.1");
    assert_eq!(
        (&output["answer"], &output["attempts"], &output["cost_estimate"]),
        (&json!("North leads with 12.5."), &json!(2), &json!(0.0))
    );
    assert_eq!(output["rows"], json!([{"region": "North", "total": 12.5}, {"region": "South", "total": 5.0}]));
    let unknown = json!({"file_path": "sales.csv", "question": "?", "model": "nobody"});
    let finished = one_call("ask_data", config, unknown, json!({}), |job| nobody(job).document("sales.csv", "a\n1\n")).await;
    assert_eq!(call_error(&finished.entries, "0/1.1"), "there is no model nobody: name one of the job's, or PROVIDER:MODEL");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_cut_and_fails_the_call_alone() {
    let server = Server::start(|_, _| {
        Reply::stream("data: {\"choices\":[{\"delta\":{\"content\":\"xxxxxxxxxxxxxxxx\"}}]}\n\n".repeat(1_000))
            .ending(crate::providers::server::End::Endless)
    })
    .await;
    let input = json!({"messages": [{"role": "user", "content": "Hi."}]});
    let models = json!({"providers": {"openrouter": {"base_url": server.url}}});
    let finished = one_call("openrouter", include_str!("../../tool-configs/openrouter.json"), input, models, nobody).await;
    assert_eq!(call_error(&finished.entries, "0/1.1"), format!("the answer of openrouter exceeds {MAX_ANSWER_BYTES} bytes"));
    assert_eq!(finished.status, "success");
    let ended = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallFinished(_))).count();
    assert_eq!(ended, 2, "the call and the handoff");
}

#[tokio::test]
async fn texts_that_tools_write_are_summarised_by_the_model_that_the_job_names() {
    let script = json!({"tools": {"write_note": {"turns": [{"text": " A report:\nrevenue rose. "}]}}});
    let long = "Revenue rose in every region. ".repeat(100);
    let job = TestJob::new(
        "solo",
        json!({"summary_model": "helper", "models": {"m": {"provider": "scripted", "script": "m.script.json"},
            "helper": {"provider": "scripted", "script": "helper.script.json"}}}),
    )
    .script("helper.script.json", &script)
    .agent("solo", &["write_note", "handoff"])
    .tool(
        "write_note",
        json!({"path": {"type": "string", "description": "Where", "required": true}, "content": {"type": "string", "description": "What", "required": true}}),
        json!({"writes": true}),
    );
    let answers = model(move |_, turn, _| match turn {
        1 => calls(&[
            ("write_note", json!({"path": "report.md", "content": long})),
            ("write_note", json!({"path": "short.md", "content": "Short."})),
            ("write_note", json!({"path": "data.csv", "content": format!("a\n{}", "1\n".repeat(500))})),
        ]),
        _ => handoff("done", &[]),
    });
    let store = Arc::new(MemoryStore::default());
    let finished = run_to_end(&crate::support::engine(store, &answers), job.load()).await;
    let summary = |path: &str| {
        let documents = finished.run.documents();
        documents.iter().find(|(known, _)| known.as_str() == path).map(|(_, document)| document.current().content.summary.clone())
    };
    assert_eq!(summary("report.md").as_deref(), Some("A report: revenue rose."));
    assert_eq!(summary("short.md").as_deref(), Some("Short."));
    assert_eq!(summary("data.csv").as_deref(), Some("table of 500 rows with columns a"));
}

/// Returns a job whose tool asks `helper`, at a dollar a million tokens, three times for one question; it may cost `cost_usd`.
fn asking(cost_usd: f64) -> TestJob {
    let script = json!({"tools": {"ask_data": {"turns": [
        {"text": "SELECT region, sum(amount) AS total FROM sale GROUP BY 1"},
        {"text": "SELECT region, sum(amount) AS total FROM sales GROUP BY 1"},
        {"text": "North leads."}
    ]}}});
    let priced =
        |file: &str, price: f64| json!({"provider": "scripted", "script": file, "price": {"input": price, "output": price}});
    let models = json!({"m": priced("m.script.json", 0.0), "helper": priced("helper.script.json", 1.0)});
    let config = shipped(include_str!("../../tool-configs/ask_data.json"));
    let parameters = config["parameters"].clone();
    TestJob::new("solo", json!({"models": models, "limits": {"cost_usd": cost_usd}}))
        .script("helper.script.json", &script)
        .document("sales.csv", "region,amount\nNorth,10\nSouth,5\n")
        .agent("solo", &["ask_data", "handoff"])
        .tool("ask_data", parameters, config)
}

/// Runs `job`, whose agent asks `questions` at once.
async fn asked(job: TestJob, questions: &[&str]) -> Finished {
    let ask = |question: &&str| ("ask_data", json!({"file_path": "sales.csv", "question": question, "model": "helper"}));
    let first = calls(&questions.iter().map(ask).collect::<Vec<_>>());
    let answers = model(move |_, turn, _| if turn == 1 { first.clone() } else { handoff("done", &[]) });
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .model("m", answers)
        .variables(|_| None)
        .build()
        .unwrap();
    run_to_end(&engine, job.load()).await
}

#[tokio::test]
async fn what_tools_ask_models_counts_towards_the_limits_of_money() {
    let finished = asked(asking(1.0), &["Which region leads?"]).await;
    assert_eq!(call_output(&finished.entries, "0/1.1")["answer"], "North leads.");
    let (mut reserved, mut cost) = (Vec::new(), 0);
    for recorded in &finished.entries {
        match &recorded.entry {
            Entry::CallAskedModel(asked) => reserved.push(asked.reserved_cost.unwrap().picos()),
            Entry::BudgetSettled(settled) if settled.by.is_some() => cost += settled.cost.unwrap().picos(),
            _ => {}
        }
    }
    assert_eq!((reserved.len(), finished.run.totals().cost.total().unwrap().picos()), (3, cost));
    assert_eq!(call_output(&finished.entries, "0/1.1")["cost_estimate"], json!(cost as f64 / 1e12), "the tool says the same");
    assert!(cost > 0 && reserved.iter().sum::<u64>() > cost, "{cost} of {reserved:?}");

    // The second request would exceed the limit, so it is not made, and the agent says what it has.
    let first = reserved[0] as f64 / 1e12;
    for cost_usd in [first / 2.0, first * 1.0001] {
        let finished = asked(asking(cost_usd), &["Which region leads?"]).await;
        let told = call_error(&finished.entries, "0/1.1");
        assert!(told.contains("helper was not asked") && told.contains("leaves no room"), "{told}");
        assert_eq!(finished.status, "success");
        assert!(finished.run.totals().cost.total().unwrap().as_usd() <= cost_usd);
    }
}

#[tokio::test]
async fn tools_wait_for_each_other_where_a_limit_has_room_for_one_request() {
    let alone = asked(asking(1.0), &["Which region leads?"]).await;
    let reserved = alone.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::CallAskedModel(asked) => asked.reserved_cost,
        _ => None,
    });
    let cost_usd = reserved.max().unwrap().as_usd() * 1.7;
    let finished = asked(asking(cost_usd), &["Which region leads?", "Which region trails?"]).await;
    let (mut under_way, mut made) = (0_i32, 0);
    for recorded in &finished.entries {
        match &recorded.entry {
            Entry::CallAskedModel(_) => (under_way, made) = (under_way + 1, made + 1),
            Entry::BudgetSettled(settled) if settled.by.is_some() => under_way -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&under_way), "{under_way} requests at once");
    }
    assert_eq!(made, 6);
    for call in ["0/1.1", "0/1.2"] {
        assert_eq!(call_output(&finished.entries, call)["answer"], "North leads.");
    }
}

#[tokio::test]
async fn a_request_that_its_tool_waits_for_no_longer_keeps_no_room_and_costs_what_was_reserved() {
    let priced = |file: &str, price: f64| json!({"provider": "scripted", "script": file, "price": {"input": 0, "output": price}});
    let parameters = json!({"model": {"type": "string", "description": "Whom", "required": true},
        "times": {"type": "integer", "description": "How often", "required": true}});
    // 1,000 tokens at a dollar a million: room for three answers that are not awaited, or for one.
    for (cost_usd, made) in [(0.0035, 3), (0.0015, 1)] {
        let models = json!({"m": priced("m.script.json", 0.0), "silent": priced("silent.script.json", 1.0)});
        let job = TestJob::new("solo", json!({"models": models, "limits": {"cost_usd": cost_usd}}))
            .script("silent.script.json", &json!({"agents": {}}))
            .agent("solo", &["impatient", "handoff"])
            .tool("impatient", parameters.clone(), json!({}));
        let ask = json!({"model": "silent", "times": 4});
        let answers =
            model(move |_, turn, _| if turn == 1 { calls(&[("impatient", ask.clone())]) } else { handoff("done", &[]) });
        let engine =
            Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::new(MemoryStore::default())).model("m", answers);
        let finished = run_to_end(&engine.model("silent", Arc::new(Silent)).build().unwrap(), job.load()).await;
        let told = call_error(&finished.entries, "0/1.1");
        assert!(told.contains("silent was not asked") && told.contains("leaves no room"), "{told}");
        let asked = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallAskedModel(_))).count();
        assert_eq!((asked, finished.run.totals().cost.total().unwrap().as_usd()), (made, 0.001 * made as f64));
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_not_asked_where_money_is_limited() {
    let server = Server::start(|_, _| Reply::new(200, "{}")).await;
    let models = json!({"providers": {"openrouter": {"base_url": server.url}}});
    let config = shipped(include_str!("../../tool-configs/openrouter.json"));
    let parameters = config["parameters"].clone();
    let priced = json!({"provider": "scripted", "script": "m.script.json", "price": {"input": 0, "output": 0}});
    let job = TestJob::new("solo", json!({"models": {"m": priced}, "limits": {"cost_usd": 1}}));
    let job = job.models(models).agent("solo", &["openrouter", "handoff"]).tool("openrouter", parameters, config);
    let input = json!({"messages": [{"role": "user", "content": "Hi."}], "model": "nobody/knows"});
    let answers = model(move |_, turn, _| if turn == 1 { calls(&[("openrouter", input.clone())]) } else { handoff("done", &[]) });
    let variable = |name: &str| (name == "OPENROUTER_API_KEY").then(|| KEY.to_owned());
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(store)
        .model("m", answers)
        .variables(variable)
        .build()
        .unwrap();
    let finished = run_to_end(&engine, job.load()).await;
    let told = call_error(&finished.entries, "0/1.1");
    assert!(told.contains("the price of openrouter:nobody/knows is not known") && told.contains("models.json"), "{told}");
    assert_eq!(server.received().len(), 0);
}
