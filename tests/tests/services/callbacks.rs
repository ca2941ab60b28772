//! Callbacks: which of them count.

use std::sync::Arc;
use std::time::Duration;

use baton_servers::Nats;
use baton_store::{MemoryStore, SqliteStore};
use baton_types::call::AfterExecution;
use baton_types::entry::Entry;
use baton_types::id::TaskId;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use super::{OnBus, Service, callback, card, job, results, searching, waiting};
use crate::support::{call_error, call_output, finish};

/// A small generator of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_in_any_number_and_order_have_one_effect() {
    const CALLS: i64 = 40;
    let runs = std::env::var("BATON_CALLBACK_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5);
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("baton.db")).unwrap());
    let on_bus = OnBus::new(&nats, store, &searching(CALLS)).await;
    let service = Service::connect(&nats).await;
    let mut handles = Vec::new();
    for _ in 0..runs {
        handles.push(on_bus.start(job(json!({}))).await);
    }
    let (mut numbers, mut callbacks) = (Numbers(19), Vec::new());
    for _ in 0..runs * CALLS as usize {
        let command = service.command().await;
        let id = |part: &str| format!("{part}:{}:{}", command["agent_turn_id"], command["tool_call_id"]);
        service.keep(&command, &id("first"), 1).await;
        service.keep(&command, &id("second"), 2).await;
        for _ in 0..=numbers.below(10) {
            // A second result of the same call counts only if it comes first.
            let which = if numbers.below(4) == 0 { "second" } else { "first" };
            let epoch = if numbers.below(8) == 0 { json!(99) } else { command["turn_epoch"].clone() };
            callbacks.push((numbers.below(1 << 30), callback(&command, &id(which), json!({"turn_epoch": epoch}))));
        }
        callbacks.push((numbers.below(1 << 30), callback(&command, &id("first"), json!({}))));
    }
    assert!(callbacks.len() > 1_000, "{} callbacks", callbacks.len());
    callbacks.sort_unstable_by_key(|(place, _)| *place);
    for (_, callback) in &callbacks {
        service.call_back(callback).await;
    }
    for handle in &handles {
        let finished = finish(&on_bus.engine, handle).await;
        assert_eq!((finished.status, results(&finished.entries)), ("success", CALLS as usize));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_callback_is_a_dead_letter_and_the_call_still_waits() {
    let nats = Nats::start();
    let on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(2)).await;
    let service = Service::connect(&nats).await;
    let handle = on_bus.start(job(json!({}))).await;
    let (command, other) = (service.command().await, service.command().await);
    service.keep(&command, "good", 1).await;
    service.keep(&other, "other", 2).await;
    let cases: [(&str, String, &str); 10] = [
        ("invalid_payload", "{".to_owned(), "JSON"),
        ("invalid_payload", "[]".to_owned(), "object"),
        ("missing_tool_call_id", callback(&command, "good", json!({"tool_call_id": null})).to_string(), "tool_call_id"),
        ("invalid_payload", callback(&command, "good", json!({"agent_turn_id": 7})).to_string(), "agent_turn_id"),
        ("invalid_payload", callback(&command, "good", json!({"result": {"n": 1}})).to_string(), "result"),
        (
            "missing_tool_result_card",
            callback(&command, "good", json!({"tool_result_card_id": null})).to_string(),
            "tool_result_card_id",
        ),
        ("invalid_payload", callback(&command, "good", json!({"status": null})).to_string(), "status"),
        ("invalid_after_execution", callback(&command, "good", json!({"after_execution": "stop"})).to_string(), "stop"),
        ("wrong_tool_result_card", callback(&command, "other", json!({})).to_string(), "tool_call_id"),
        ("invalid_payload", format!("{}{{}}", callback(&command, "good", json!({}))), "JSON"),
    ];
    for (code, message, reason) in cases {
        service.call_back(&message).await;
        let letter = service.dead_letter().await;
        assert_eq!(letter["code"], code, "{message}: {letter}");
        assert!(letter["reason"].as_str().unwrap().contains(reason), "{letter}");
        assert_eq!(letter["message"], Value::from(message));
    }
    assert_eq!(waiting(&on_bus.engine, &handle).await.len(), 2);
    service.call_back(callback(&command, "good", json!({"more": [1]}))).await;
    service.call_back(callback(&other, "other", json!({"status": "strange"}))).await;
    let finished = finish(&on_bus.engine, &handle).await;
    let call = |command: &Value| command["tool_call_id"].as_str().unwrap().to_owned();
    assert_eq!(call_output(&finished.entries, &call(&command)), json!({"n": 1}));
    // An unknown status of the callback: the service reports no success.
    assert!(call_error(&finished.entries, &call(&other)).contains("strange"), "{:?}", finished.entries);
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_of_other_work_and_of_the_past_change_nothing() {
    let nats = Nats::start();
    let on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(1)).await;
    let service = Service::connect(&nats).await;
    let (one, two) = (on_bus.start(job(json!({}))).await, on_bus.start(job(json!({}))).await);
    let (mut first, mut second) = (service.command().await, service.command().await);
    if first["agent_turn_id"] != format!("{}/0", one.id()) {
        std::mem::swap(&mut first, &mut second);
    }
    service.keep(&first, "good", 1).await;
    for changes in [json!({"turn_epoch": 7}), json!({"agent_turn_id": format!("{}/0/1.1", one.id())})] {
        service.call_back(callback(&first, "good", changes)).await;
    }
    // The result of one run is none of the other.
    service.call_back(callback(&first, "good", json!({"agent_turn_id": second["agent_turn_id"]}))).await;
    assert_eq!(service.dead_letter().await["code"], "wrong_tool_result_card");
    service.call_back(callback(&first, "good", json!({"tool_call_id": "0/1.9"}))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((waiting(&on_bus.engine, &one).await.len(), waiting(&on_bus.engine, &two).await.len()), (1, 1));
    let person = Principal::person("ann");
    on_bus.engine.cancel(two.id(), TaskId::root(), "no longer needed", &person).await.unwrap();
    service.keep(&second, "late", 2).await;
    service.call_back(callback(&second, "late", json!({}))).await;
    service.call_back(callback(&first, "good", json!({}))).await;
    let (one, two) = (finish(&on_bus.engine, &one).await, finish(&on_bus.engine, &two).await);
    assert_eq!((one.status, two.status), ("success", "cancelled"));
    assert_eq!(call_output(&one.entries, "0/1.1"), json!({"n": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_waits_for_its_card_and_an_agent_for_its_last_callback() {
    let nats = Nats::start();
    let on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(2)).await;
    let service = Service::connect(&nats).await;
    let handle = on_bus.start(job(json!({}))).await;
    let (first, second) = (service.command().await, service.command().await);
    service.call_back(callback(&first, "slow", json!({}))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(waiting(&on_bus.engine, &handle).await.len(), 2);
    service.keep(&first, "slow", 1).await;
    let began = std::time::Instant::now();
    while waiting(&on_bus.engine, &handle).await.len() == 2 {
        assert!(began.elapsed() < super::PATIENCE, "the callback is looked at again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    service.keep(&second, "last", 2).await;
    service.call_back(callback(&second, "last", json!({}))).await;
    let finished = finish(&on_bus.engine, &handle).await;
    let asked = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::ModelRequested(_)));
    assert_eq!(asked.count(), 2, "the agent is asked once, when both results are there");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_the_card_and_the_callback_may_end_the_work() {
    let nats = Nats::start();
    let after = |entries: &[Arc<baton_types::entry::Recorded>]| {
        let found = entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::CallFinished(finished) if finished.tool.as_str() == "search" => Some(finished.after),
            _ => None,
        });
        found.expect("the call has a result")
    };
    let store = Arc::new(MemoryStore::default());
    let terminates = json!({"n": 1, "__cg_control": {"after_execution": "terminate"}});
    let suspends = json!({"n": 1, "__cg_control": {"after_execution": "suspend"}});
    for (result, by_callback, controls, expected) in [
        (terminates.clone(), "suspend", true, AfterExecution::Terminate),
        (suspends, "terminate", true, AfterExecution::Suspend),
        (json!({"n": 1}), "terminate", true, AfterExecution::Terminate),
        (terminates, "terminate", false, AfterExecution::Suspend),
    ] {
        let on_bus = OnBus::new(&nats, store.clone(), &searching(1)).await;
        let service = Service::connect(&nats).await;
        let handle = on_bus.start(job(json!({"controls_flow": controls}))).await;
        let command = service.command().await;
        let id = format!("card of {}", handle.id());
        service.ask("put", &json!({"card": card(&command, &id, result.clone())})).await;
        service.call_back(callback(&command, &id, json!({"after_execution": by_callback}))).await;
        let finished = finish(&on_bus.engine, &handle).await;
        assert_eq!(after(&finished.entries), expected, "{result} {by_callback} {controls}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_breaks_the_schema_of_the_tool_is_a_failure_of_the_call() {
    let nats = Nats::start();
    let on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(1)).await;
    let service = Service::connect(&nats).await;
    let handle = on_bus.start(job(json!({}))).await;
    let command = service.command().await;
    service.ask("put", &json!({"card": card(&command, "broken", json!({"n": "one"}))})).await;
    service.call_back(callback(&command, "broken", json!({}))).await;
    let finished = finish(&on_bus.engine, &handle).await;
    let error = call_error(&finished.entries, "0/1.1");
    assert!(error.contains("\"one\" is not an integer"), "{error}");
}
