//! Requests of tools that are records.

use baton_breadcrumb::{Author, REQUEST_SCHEMA, RESPONSE_SCHEMA};
use baton_rcrt::Outcome;
use baton_types::breadcrumb::{BreadcrumbQuery, NewBreadcrumb, Visibility};
use baton_types::id::ProjectId;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use super::desk::*;
use crate::support::{calls, model};

#[tokio::test]
async fn a_request_of_a_tool_is_executed_once_and_answered() {
    let desk = Desk::new();
    let ask = |context: Value| context;
    desk.create(
        "sum",
        REQUEST_SCHEMA,
        &["session:s1"],
        ask(json!({"tool": "calculator", "input": {"expression": "6*7"}, "requestId": "c1"})),
    )
    .await;
    desk.create(
        "bad input",
        REQUEST_SCHEMA,
        &[],
        ask(json!({"tool": "calculator", "input": {"expr": "6*7"}, "requestId": "c2"})),
    )
    .await;
    desk.create("no tool", REQUEST_SCHEMA, &[], ask(json!({"tool": "rm", "input": {}, "requestId": "c3"}))).await;
    desk.create("unreadable", REQUEST_SCHEMA, &[], ask(json!({"input": {}, "requestId": "c4"}))).await;
    desk.create("no object", REQUEST_SCHEMA, &[], ask(json!({"tool": "echo", "input": [1], "requestId": "c5"}))).await;
    desk.create("handoff", REQUEST_SCHEMA, &[], ask(json!({"tool": "handoff", "input": {}, "requestId": "c6"}))).await;
    desk.create("no-id", REQUEST_SCHEMA, &[], ask(json!({"tool": "echo", "input": {"message": "hi"}}))).await;
    let configured = json!({"tool": "echo", "input": {"message": "x"}, "config_id": "none", "requestId": "c7"});
    desk.create("no configuration", REQUEST_SCHEMA, &[], configured).await;
    desk.listen(&answering("never asked"), 8).await;
    let sum = response(&desk, "c1").await;
    assert_eq!(
        (&sum["status"], &sum["output"]["result"], &sum["tool"], &sum["request_id"]),
        (&json!("success"), &json!(42), &json!("calculator"), &json!("c1"))
    );
    let in_session = desk.all(RESPONSE_SCHEMA).await.into_iter().filter(|record| record.tags.contains(&"session:s1".to_owned()));
    assert_eq!(in_session.count(), 1);
    for (id, reason) in [
        ("c2", "expression"),
        ("c3", "rm"),
        ("c5", "`input` is an object"),
        ("c6", "a request can only call functions"),
        ("c7", "no configuration \"none\""),
    ] {
        let failed = response(&desk, id).await;
        assert_eq!(failed["status"], "error", "{failed}");
        assert!(failed["error"].as_str().unwrap().contains(reason), "{failed}");
    }
    // A request without an id has that of its record, and so has every answer: no other request can have that one.
    assert_eq!(response(&desk, "no-id").await["output"], json!({"echo": "hi"}));
    assert_eq!(response(&desk, "sum").await, sum);
    assert_eq!((&sum["metadata"]["trigger"], &sum["metadata"]["trigger_version"]), (&json!("sum"), &json!(1)));
    let outcomes = desk.outcomes();
    assert!(
        matches!(&outcomes["unreadable"], Outcome::Refused(reason) if reason.contains("missing field `tool`")),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_request_has_the_rights_of_the_agent_that_made_it() {
    let desk = Desk::new();
    let tool = |id: &str, approval: Option<&str>| match approval {
        Some(approval) => json!({"tool": id, "approval": approval}),
        None => json!(id),
    };
    // `may` has the tool, `lacks` has not, and for `lead`, which delegates to `below`, a person approves each use.
    desk.agent("may", json!({"tools": ["breadcrumb-create", "echo"]})).await;
    desk.agent("lacks", json!({"tools": ["breadcrumb-create"]})).await;
    desk.agent("lead", json!({"tools": [tool("echo", Some("person")), "route_to_below"]})).await;
    let below = json!({"tools": ["breadcrumb-create", "echo"], "subscriptions": {"selectors": [{"any_tags": ["never"]}]}});
    desk.agent("below", below).await;
    desk.message("go", &[]).await;
    let asked = model(|agent, turn, _| match (agent, turn) {
        ("lead", 1) => calls(&[("route_to_below", json!({"request": "Ask."}))]),
        ("may" | "lacks" | "below", 1) => {
            let record = request_record(&format!("r-{agent}"), "echo", json!({"message": agent}));
            calls(&[("breadcrumb-create", record)])
        }
        _ => ModelTurn::text("Done."),
    });
    desk.listen(&asked, 6).await;
    assert_eq!(response(&desk, "r-may").await["output"], json!({"echo": "may"}));
    let lacking = response(&desk, "r-lacks").await;
    assert_eq!((&lacking["status"], &lacking["requestedBy"]), (&json!("error"), &json!("lacks")), "{lacking}");
    assert!(lacking["error"].as_str().unwrap().contains("no tool \"echo\" for the author"), "{lacking}");
    let waiting: Vec<Outcome> = desk.outcomes().into_values().filter(|outcome| *outcome == Outcome::Waits).collect();
    assert_eq!(waiting.len(), 1, "the request of `below` waits for the approval that `lead` needs");
    assert!(!desk.all(RESPONSE_SCHEMA).await.iter().any(|record| record.tags.contains(&"request:r-below".to_owned())));
}

#[tokio::test]
async fn a_request_delegates_nothing_and_its_input_is_data() {
    let desk = Desk::new();
    desk.agent("lead", json!({"tools": ["breadcrumb-create", "echo", "route_to_worker"], "limits": {"calls": 9}})).await;
    desk.agent("worker", json!({"subscriptions": {"selectors": [{"any_tags": ["never"]}]}})).await;
    desk.message("go", &[]).await;
    let text = r#"{{ 6*7 }} {% for x in y %} {{ nope }} C:\\{{x {"$lines": ["a"]}"#;
    let asked = model(move |_, turn, _| match turn {
        1 => calls(&[
            ("breadcrumb-create", request_record("r-route", "route_to_worker", json!({"request": "Work."}))),
            ("breadcrumb-create", request_record("r-text", "echo", json!({"message": text}))),
        ]),
        _ => ModelTurn::text("Done."),
    });
    desk.listen(&asked, 3).await;
    assert_eq!(response(&desk, "r-text").await["output"], json!({"echo": text}));
    let refused = response(&desk, "r-route").await;
    assert!(refused["error"].as_str().unwrap().contains("a request can only call functions"), "{refused}");
    desk.create("list", REQUEST_SCHEMA, &[], json!(["echo", {"message": "x"}, "id", null])).await;
    desk.listen(&asked, 4).await;
    let outcomes = desk.outcomes();
    assert_eq!(outcomes["list"], Outcome::Refused("the request is not an object".to_owned()));
}

#[tokio::test]
async fn the_answer_to_a_private_request_is_private_to_its_author() {
    let desk = Desk::new();
    let new = NewBreadcrumb {
        title: "salary".to_owned(),
        schema_name: Some(REQUEST_SCHEMA.to_owned()),
        context: json!({"tool": "echo", "input": {"message": "my salary"}, "requestId": "sal"}).into(),
        visibility: Visibility::Private,
        ..NewBreadcrumb::default()
    };
    desk.create_by("salary", new, &desk.ann).await;
    desk.listen(&answering("never asked"), 1).await;
    let answers = desk.all(RESPONSE_SCHEMA).await;
    let facts = (answers.len(), &answers[0].owner, answers[0].visibility);
    assert_eq!(facts, (1, &Principal::person("ann"), Visibility::Private));
    let bob = Author::outside(Principal::person("bob"), ProjectId::new("p"));
    let query = BreadcrumbQuery { limit: 10, ..BreadcrumbQuery::default() };
    let found = desk.store.breadcrumbs().search(&query, &bob.viewer, Timestamp::from_micros(5_000)).await.unwrap();
    assert_eq!(found.breadcrumbs, []);
}

#[tokio::test]
async fn a_request_that_is_refused_is_answered_also_if_its_record_has_ended() {
    let desk = Desk::new();
    let now = desk.engine(&answering("")).now();
    let new = NewBreadcrumb {
        title: "late".to_owned(),
        schema_name: Some(REQUEST_SCHEMA.to_owned()),
        context: json!({"tool": "echo", "input": {"message": "x"}, "requestId": "late-1"}).into(),
        ttl: Some(now),
        ..NewBreadcrumb::default()
    };
    desk.create_by("late", new, &desk.ann).await;
    desk.listen(&answering("never asked"), 1).await;
    let refused = response(&desk, "late-1").await;
    assert_eq!((&refused["status"], &refused["error"]), (&json!("error"), &json!("the record had ended")));
}
