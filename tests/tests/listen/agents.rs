//! Agents that are records: what starts them, what they read, and what answers.

use std::sync::{Arc, Mutex};

use baton_breadcrumb::{AGENT_RESPONSE_SCHEMA, AGENT_SCHEMA, Author, REQUEST_SCHEMA};
use baton_store::Update;
use baton_types::breadcrumb::{BreadcrumbChange, NewBreadcrumb, Verdict};
use baton_types::id::{BreadcrumbId, ProjectId};
use baton_types::message::Role as Speaker;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use super::desk::*;
use crate::support::{calls, model};

#[tokio::test]
async fn an_agent_that_is_a_record_answers_each_record_once() {
    let desk = Desk::new();
    desk.agent("bot", json!({})).await;
    for id in ["m1", "m2", "m3"] {
        desk.message(id, if id == "m3" { &["session:s9"] } else { &[] }).await;
    }
    desk.listen(&answering("Done."), 3).await;
    let answers = desk.all(AGENT_RESPONSE_SCHEMA).await;
    assert_eq!(answers.len(), 3);
    for answer in &answers {
        let context = answer.context.value();
        assert_eq!((&context["message"], &context["tool_requests"]), (&json!("Done."), &json!([])));
        assert_eq!((&answer.created_by, &answer.owner), (&Principal::Agent("bot".into()), &Principal::Agent("bot".into())));
        let in_session = context["metadata"]["trigger"] == "m3";
        let tags: &[&str] = if in_session { &["agent:response", "session:s9"] } else { &["agent:response"] };
        assert_eq!(answer.tags, tags);
    }
    assert_eq!(desk.store.runs().await.unwrap().len(), 3);
    desk.outcomes();
    // A second listener has nothing to do.
    desk.message("m4", &[]).await;
    desk.listen(&answering("Later."), 4).await;
    assert_eq!(desk.outcomes().into_keys().collect::<Vec<_>>(), ["m4"]);
    assert_eq!(desk.store.runs().await.unwrap().len(), 4);
}

#[tokio::test]
async fn the_messages_to_an_agent_have_the_layout_of_seed_003() {
    let desk = Desk::new();
    let discovery = json!({"type": "breadcrumb_search", "schema_name": "tool.catalog.v1", "tags": ["workspace:tools"], "transform": "prompt_adapter"});
    let selectors = json!([
        {"schema_name": "user.message.v1"},
        {"schema_name": "tool.catalog.v1", "all_tags": ["workspace:tools"]},
        {"schema_name": "note.text.v1", "role": "context", "key": "notes", "fetch": {"method": "recent", "limit": 1}},
    ]);
    let prices = json!({"type": "breadcrumb_search", "schema_name": "price.list.v1", "query": "beans"});
    desk.agent(
        "bot",
        json!({"subscriptions": {"selectors": selectors}, "context_builders": {"tool_discovery": discovery, "prices": prices}}),
    )
    .await;
    desk.create("n1", "note.text.v1", &[], json!({"text": "old"})).await;
    let hints = NewBreadcrumb {
        title: "beans".to_owned(),
        schema_name: Some("price.list.v1".to_owned()),
        context: json!({"beans": 4.2, "margin": 0.5}).into(),
        llm_hints: Some(json!({"exclude": ["margin"]}).into()),
        ..NewBreadcrumb::default()
    };
    desk.create_by("beans", hints, &desk.ann).await;
    desk.message("hello", &[]).await;
    let seen = Arc::new(Mutex::new(None));
    let sees = Arc::clone(&seen);
    let asked = model(move |_, _, request| {
        let (own, tools) = request.system.messages();
        *sees.lock().unwrap() = Some((own.to_owned(), tools.to_owned(), texts(request, Speaker::User), request.tools.len()));
        ModelTurn::text("Done.")
    });
    desk.listen(&asked, 1).await;
    let (own, tools, user, offered) = seen.lock().unwrap().take().expect("the model was asked");
    assert_eq!(own, "You are bot.");
    let expected = "\nYou have access to the following tools:\n- calculator: ";
    assert!(tools.starts_with(expected), "{tools}");
    assert!(tools.contains("\n  \"action\": \"invoke_tool\",\n") && tools.contains("\n- echo: "), "{tools}");
    assert!(!tools.contains("breadcrumb-create"), "without `tools`, an agent gets tools without effects: {tools}");
    assert_eq!(offered, 0, "calls are JSON in the text");
    let [user] = &user[..] else { panic!("one message: {user:?}") };
    let lines: Vec<&str> = user.split("\n\n").collect();
    assert_eq!(lines[0], r#"Process: {"content":"hello","session_id":"s"}"#);
    let part = |prefix: &str| -> Value {
        let line = lines.iter().find_map(|line| line.strip_prefix(prefix)).unwrap_or_else(|| panic!("{lines:?}"));
        serde_json::from_str(line).unwrap()
    };
    assert_eq!(part("Context notes: ")[0]["context"], json!({"text": "old"}));
    assert_eq!(part("Context prices: ")[0]["context"], json!({"beans": 4.2}), "the view for models");
}

#[tokio::test]
async fn the_records_of_a_session_are_handled_in_order_and_continue_it() {
    let desk = Desk::new();
    desk.agent("bot", json!({})).await;
    for number in 0..12 {
        desk.message(&format!("m{number:02}"), &[&format!("session:{}", number % 2)]).await;
    }
    let conversations = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&conversations);
    let asked = model(move |_, _, request| {
        let said = texts(request, Speaker::User);
        let newest = said.last().unwrap().clone();
        sees.lock().unwrap().push(said);
        ModelTurn::text(format!("You said {newest}"))
    });
    desk.listen(&asked, 12).await;
    for session in 0..2 {
        let of_session = |said: &&Vec<String>| said[0].contains(&format!("\"m{session:02}\""));
        let conversations = conversations.lock().unwrap();
        let lengths: Vec<usize> = conversations.iter().filter(of_session).map(Vec::len).collect();
        assert_eq!(lengths, [1, 2, 3, 4, 5, 6], "each continues the one before");
        let last = conversations.iter().rfind(of_session).unwrap();
        let expected: Vec<String> = (0..6).map(|n| format!("m{:02}", 2 * n + session)).collect();
        assert!(last.iter().zip(&expected).all(|(said, id)| said.contains(&format!("\"content\":\"{id}\""))), "{last:?}");
    }
    assert_eq!(desk.all(AGENT_RESPONSE_SCHEMA).await.len(), 12);
}

#[tokio::test]
async fn an_agent_delegates_to_a_specialist_by_a_record() {
    let desk = Desk::new();
    desk.agent("chat", json!({"tools": ["breadcrumb-create"]})).await;
    let assigned = json!([{"schema_name": "tool.creation.request.v1", "all_tags": ["assigned-to:tool-creator"]}]);
    desk.agent("tool-creator", json!({"subscriptions": {"selectors": assigned}})).await;
    desk.message("a counter, please", &[]).await;
    let asked = model(|agent, turn, request| match (agent, turn) {
        ("chat", 1) => calls(&[(
            "breadcrumb-create",
            json!({
                "schema_name": "tool.creation.request.v1", "title": "Tool Request: Counter",
                "tags": ["tool:creation", "assigned-to:tool-creator"],
                "context": {"tool_name": "counter", "description": "Counts", "requirements": ["1 to 10"], "requestedBy": "chat"},
            }),
        )]),
        ("chat", _) => ModelTurn::text("Delegated."),
        _ => ModelTurn::text(format!("Made of {}", texts(request, Speaker::User).join(""))),
    });
    desk.listen(&asked, 2).await;
    let messages: Vec<String> =
        desk.all(AGENT_RESPONSE_SCHEMA).await.iter().map(|answer| answer.context.value()["message"].to_string()).collect();
    assert!(messages.iter().any(|message| message.contains("Made of Process: ") && message.contains("counter")), "{messages:?}");
}

#[tokio::test]
async fn an_exact_version_is_approved_and_starts_its_agent() {
    let desk = Desk::new();
    let author = Author::of(baton_types::breadcrumb::Viewer {
        principal: Principal::Agent("author".into()),
        project: ProjectId::new("p"),
        may_read_pii: false,
    });
    let definition = |prompt: &str| {
        json!({
            "agent_id": "made", "model": "anything/else", "system_prompt": prompt,
            "subscriptions": {"selectors": [{"schema_name": "user.message.v1"}]},
        })
    };
    let new = NewBreadcrumb {
        title: "Made by an agent".to_owned(),
        schema_name: Some(AGENT_SCHEMA.to_owned()),
        context: definition("Help.").into(),
        ..NewBreadcrumb::default()
    };
    desk.create_by("made", new, &author).await;
    let breadcrumbs = desk.store.breadcrumbs();
    let update = |change: BreadcrumbChange, by: &Author, expected: Option<u64>| Update {
        id: BreadcrumbId::new("made"),
        change,
        expected,
        by: by.clone(),
        key: None,
        at: Timestamp::from_micros(2_000),
    };
    let evil = BreadcrumbChange { context: Some(definition("Obey.").into()), ..BreadcrumbChange::default() };
    breadcrumbs.change(update(evil, &author, None)).await.unwrap();
    let approval = || BreadcrumbChange { verdict: Some(Verdict { approved: true, reason: None }), ..BreadcrumbChange::default() };
    let late = breadcrumbs.change(update(approval(), &desk.ann, Some(1))).await.unwrap_err();
    assert!(late.to_string().contains("version_mismatch"), "the person approved version 1, which is not the newest: {late}");
    let back = BreadcrumbChange { context: Some(definition("Help.").into()), ..BreadcrumbChange::default() };
    breadcrumbs.change(update(back, &author, None)).await.unwrap();
    breadcrumbs.change(update(approval(), &desk.ann, Some(3))).await.unwrap();
    let evil = BreadcrumbChange { context: Some(definition("Obey.").into()), ..BreadcrumbChange::default() };
    breadcrumbs.change(update(evil, &author, None)).await.unwrap();
    desk.message("hello", &[]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let asked = model(move |_, _, request| {
        sees.lock().unwrap().push(request.system.to_string());
        ModelTurn::text("Done.")
    });
    desk.listen(&asked, 1).await;
    assert_eq!(*seen.lock().unwrap(), ["Help."]);
}

#[tokio::test]
async fn a_long_record_is_a_document_and_a_long_answer_is_bounded() {
    let desk = Desk::new();
    desk.agent("bot", json!({})).await;
    desk.create("long", "user.message.v1", &[], json!({"content": "x".repeat(100_000)})).await;
    let asked = model(|_, _, request| {
        let user = texts(request, Speaker::User).join("");
        assert!(user.starts_with("Process: the document trigger.json"), "{}", &user[..user.len().min(200)]);
        ModelTurn::text("y".repeat(2 << 20))
    });
    desk.listen(&asked, 1).await;
    let answers = desk.all(AGENT_RESPONSE_SCHEMA).await;
    let message = answers[0].context.value()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("left out: it has 2097154 bytes"), "{message}");
}

#[tokio::test]
async fn the_records_of_the_documentation_work() {
    let desk = Desk::new();
    let page = include_str!("../../../docs/agents.md");
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let [definition, request] = &blocks.map(|text| serde_json::from_str(text).unwrap()).collect::<Vec<Value>>()[..] else {
        panic!("the page has an agent and a request")
    };
    desk.create("chat", AGENT_SCHEMA, &[], definition.clone()).await;
    desk.create("hello", "user.message.v1", &["user:message", "session:7"], json!({"content": "What is 6 * 7?"})).await;
    desk.create("request", REQUEST_SCHEMA, &[], request.clone()).await;
    desk.listen(&answering("It is 42."), 2).await;
    assert_eq!(desk.all(AGENT_RESPONSE_SCHEMA).await[0].context.value()["message"], "It is 42.");
    assert_eq!(response(&desk, "calc-1").await["output"]["result"], 42);
}
