//! Cards: what services read, and what they have kept.

use std::sync::Arc;

use baton_servers::Nats;
use baton_store::MemoryStore;
use serde_json::json;

use super::{BASE, OnBus, Service, callback, card, job, searching};
use crate::support::finish;

#[tokio::test(flavor = "multi_thread")]
async fn a_service_reads_the_input_of_a_call_from_its_card() {
    let nats = Nats::start();
    let on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(1)).await;
    let service = Service::connect(&nats).await;
    let config = json!({
        "args": {"defaults": {"limit": 5}}, "envs": {"key": "SEARCH_KEY"},
        "input_schema": {
            "type": "object", "required": ["q", "limit", "key"],
            "properties": {"q": {"type": "integer"}, "limit": {"type": "integer"}, "key": {"type": "string"}},
        },
    });
    let handle = on_bus.start(job(config)).await;
    let command = service.command().await;
    let run = handle.id();
    assert_eq!(
        command,
        json!({
            "agent_id": "solo", "agent_turn_id": format!("{run}/0"), "turn_epoch": 1, "tool_call_id": "0/1.1",
            "after_execution": "suspend", "tool_call_card_id": format!("{run}:0/1.1:call"), "step_id": "1", "tool_name": "search",
        })
    );
    let got = service.ask("get", &json!({"card_id": command["tool_call_card_id"]})).await;
    assert_eq!(
        got["card"]["content"],
        json!({
            "tool_name": "search", "arguments": {"q": 1, "limit": 5}, "status": "called",
            "target_subject": format!("{BASE}.cmd.tool.search"), "envs": {"key": "SEARCH_KEY"},
        }),
        "{got}"
    );
    service.keep(&command, "result", 1).await;
    assert_eq!(service.ask("get", &json!({"card_id": "result"})).await["card"]["content"]["result"], json!({"n": 1}));
    service.call_back(callback(&command, "result", json!({}))).await;
    finish(&on_bus.engine, &handle).await;
    for (id, kind) in [(format!("{run}:0/1.1:result"), "tool.result"), (format!("{run}:0:deliverable"), "task.deliverable")] {
        assert_eq!(service.ask("get", &json!({"card_id": id})).await["card"]["type"], kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_never_changes_and_belongs_to_work_of_its_project() {
    let nats = Nats::start();
    let on_bus = OnBus::new(&nats, Arc::new(MemoryStore::default()), &searching(1)).await;
    let service = Service::connect(&nats).await;
    let _handle = on_bus.start(job(json!({}))).await;
    let command = service.command().await;
    let put = async |card| service.ask("put", &json!({"card": card})).await;
    let first = card(&command, "one", json!({"n": 1}));
    assert_eq!(put(first.clone()).await, json!({"kept": {"card_id": "one", "created": true}}));
    assert_eq!(put(first).await, json!({"kept": {"card_id": "one", "created": false}}));
    assert_eq!(put(card(&command, "one", json!({"n": 2}))).await["error"]["code"], "conflict");
    assert_eq!(service.ask("get", &json!({"card_id": "one"})).await["card"]["content"]["result"], json!({"n": 1}));
    let mut foreign = card(&command, "two", json!({"n": 1}));
    foreign["project_id"] = json!("other");
    assert_eq!(put(foreign).await["error"]["code"], "bad_request");
    let mut unknown = card(&command, "two", json!({"n": 1}));
    unknown["metadata"]["agent_turn_id"] = json!("nothing/0");
    assert_eq!(put(unknown).await["error"]["code"], "not_found");
    let of_timeline = command["tool_call_card_id"].as_str().unwrap();
    assert_eq!(put(card(&command, of_timeline, json!({"n": 1}))).await["error"]["code"], "bad_request");
    for request in [json!({}), json!({"card_id": 7})] {
        assert_eq!(service.ask("get", &request).await["error"]["code"], "bad_request");
    }
    for id in ["two", "nothing:0/1.1:call", "nothing:0:deliverable", "a:b", ":::"] {
        assert_eq!(service.ask("get", &json!({"card_id": id})).await["error"]["code"], "not_found", "{id}");
    }
}
