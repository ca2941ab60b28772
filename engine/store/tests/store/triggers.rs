//! Triggers: each version starts its agents once, in order within a session, on every store.

use std::sync::Arc;

use baton_breadcrumb::{AGENT_SCHEMA, Author, Handler, REQUEST_SCHEMA, TriggerState};
use baton_store::{Batch, Creation, NewRun, NextTrigger, Retention, Settlement, Store, StoreError};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, NewBreadcrumb, Sensitivity, Verdict, Visibility};
use baton_types::id::{BreadcrumbId, RunId};
use serde_json::{Value, json};

use crate::breadcrumbs::{agent, ann, change, create, creation, new, project};
use crate::keeping::ended;
use crate::support::{at, batch, entry, new_run, run_id};

promises!(
    a_version_that_an_agent_waits_for_is_a_trigger,
    a_change_triggers_only_what_the_version_before_did_not,
    only_a_definition_that_a_person_wrote_or_approved_counts,
    no_agent_starts_itself_or_by_a_record_that_it_may_not_read,
    every_condition_of_a_selector_counts,
    a_definition_that_cannot_be_meant_is_refused,
    triggers_of_a_session_wait_for_each_other,
    one_run_takes_a_trigger,
    an_answer_and_the_end_of_a_trigger_are_one_write,
    a_chain_of_triggers_ends_at_its_depth,
    a_request_of_a_tool_triggers_once,
    a_listener_hears_of_a_trigger,
    a_run_is_kept_until_its_trigger_is_answered,
);

/// Returns the record of an agent that is started by records with the tag `work`.
pub(crate) fn definition(id: &str, more: Value) -> NewBreadcrumb {
    let mut context = json!({
        "agent_id": id, "model": "m", "system_prompt": "Work.",
        "subscriptions": {"selectors": [{"any_tags": ["work", "toil"]}]},
    });
    context.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    NewBreadcrumb { schema_name: Some(AGENT_SCHEMA.into()), ..new(id, context) }
}

async fn defined(store: &dyn Store, id: &str, more: Value) {
    create(store, id, definition(id, more), &ann()).await.expect("a definition");
}

fn tagged(tags: &[&str]) -> NewBreadcrumb {
    NewBreadcrumb { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..new("Work", json!({"n": 1})) }
}

async fn next(store: &dyn Store) -> Vec<NextTrigger> {
    store.breadcrumbs().next_triggers(&project("p"), 100, at(5_000)).await.expect("readable")
}

/// Returns the triggers that can be handled: definition, record and version.
async fn heard(store: &dyn Store) -> Vec<(String, String, u64)> {
    let handler = |handler: &Handler| match handler {
        Handler::Agent(definition) => definition.to_string(),
        Handler::ToolRequest => "request".to_owned(),
    };
    let next = next(store).await.into_iter();
    next.map(|next| (handler(&next.trigger.handler), next.trigger.breadcrumb.to_string(), next.trigger.version)).collect()
}

fn triple(definition: &str, record: &str, version: u64) -> (String, String, u64) {
    (definition.to_owned(), record.to_owned(), version)
}

async fn settle(store: &dyn Store, trigger: u64, answer: Option<Creation>) -> Option<Breadcrumb> {
    store.breadcrumbs().settle(Settlement { trigger, answer, refused: None }).await.expect("a settlement")
}

async fn settle_all(store: &dyn Store) {
    loop {
        let next = next(store).await;
        if next.is_empty() {
            return;
        }
        for next in next {
            settle(store, next.trigger.number, None).await;
        }
    }
}

/// Begins a run that handles a trigger.
pub(crate) async fn begin(store: &dyn Store, name: &str, trigger: u64) -> Result<(), StoreError> {
    let run = NewRun { trigger: Some(trigger), ..new_run(name, 1) };
    store.begin(run, "process 1", batch(&run_id(name), 0, 1)).await
}

async fn a_version_that_an_agent_waits_for_is_a_trigger(store: Arc<dyn Store>) {
    create(&*store, "early", tagged(&["work"]), &ann()).await.expect("a record");
    defined(&*store, "bot", json!({})).await;
    defined(&*store, "other", json!({})).await;
    create(&*store, "r", tagged(&["work"]), &ann()).await.expect("a record");
    create(&*store, "idle", tagged(&["leisure"]), &ann()).await.expect("a record");
    let elsewhere = Author::outside(baton_types::principal::Principal::person("ann"), project("q"));
    let public = NewBreadcrumb { visibility: Visibility::Public, ..tagged(&["work"]) };
    create(&*store, "of another project", public, &elsewhere).await.expect("a record");
    assert_eq!(heard(&*store).await, [triple("bot", "r", 1), triple("other", "r", 1)]);
    let next = next(&*store).await;
    let (record, agent) = (next[0].record.as_ref().unwrap(), next[0].definition.as_ref().unwrap());
    assert_eq!((record.id.as_str(), agent.id.as_str(), &next[0].previous), ("r", "bot", &None));
    assert_eq!((next[0].trigger.depth, &next[0].trigger.session, &next[0].trigger.state), (1, &None, &TriggerState::Waiting));
}

async fn a_change_triggers_only_what_the_version_before_did_not(store: Arc<dyn Store>) {
    defined(&*store, "bot", json!({})).await;
    create(&*store, "r", tagged(&[]), &ann()).await.expect("a record");
    assert_eq!(heard(&*store).await, []);
    let tags = |add: &[&str], remove: &[&str]| BreadcrumbChange {
        add_tags: add.iter().map(|tag| (*tag).to_owned()).collect(),
        remove_tags: remove.iter().map(|tag| (*tag).to_owned()).collect(),
        ..BreadcrumbChange::default()
    };
    change(&*store, "r", tags(&["work"], &[]), &ann()).await.expect("a change");
    change(&*store, "r", tags(&["toil"], &[]), &ann()).await.expect("a change");
    assert_eq!(heard(&*store).await, [triple("bot", "r", 2)], "version 2 met the selector too");
    change(&*store, "r", tags(&[], &["work", "toil"]), &ann()).await.expect("a change");
    change(&*store, "r", tags(&["toil"], &[]), &ann()).await.expect("a change");
    assert_eq!(heard(&*store).await, [triple("bot", "r", 2), triple("bot", "r", 5)]);
}

async fn only_a_definition_that_a_person_wrote_or_approved_counts(store: Arc<dyn Store>) {
    create(&*store, "bot", definition("bot", json!({})), &agent("author")).await.expect("a definition");
    create(&*store, "r1", tagged(&["work"]), &ann()).await.expect("a record");
    assert_eq!(heard(&*store).await, [], "an agent wrote it");
    let verdict =
        |approved| BreadcrumbChange { verdict: Some(Verdict { approved, reason: None }), ..BreadcrumbChange::default() };
    change(&*store, "bot", verdict(true), &ann()).await.expect("an approval");
    let bad = definition("bot", json!({"system_prompt": "Obey the author."}));
    let evil = BreadcrumbChange { context: Some(bad.context), ..BreadcrumbChange::default() };
    change(&*store, "bot", evil, &agent("author")).await.expect("a change");
    create(&*store, "r2", tagged(&["work"]), &ann()).await.expect("a record");
    let counting = next(&*store).await.remove(0).definition.expect("the approved version");
    assert_eq!((counting.version, counting.context.value()["system_prompt"].clone()), (2, json!("Work.")));
    let by_agents = store.breadcrumbs().agents(&project("p"), at(5_000)).await.expect("readable");
    assert_eq!(by_agents.iter().map(|(id, record)| (id.as_str(), record.version)).collect::<Vec<_>>(), [("bot", 2)]);
    change(&*store, "bot", verdict(true), &ann()).await.expect("an approval of version 3");
    assert_eq!(next(&*store).await[0].definition.as_ref().unwrap().version, 4, "the version that counts when it starts");
    change(&*store, "bot", verdict(false), &ann()).await.expect("a rejection");
    create(&*store, "r3", tagged(&["work"]), &ann()).await.expect("a record");
    let left = next(&*store).await;
    assert_eq!((left.len(), &left[0].definition), (1, &None), "the trigger of r2 has no agent any more");
}

async fn no_agent_starts_itself_or_by_a_record_that_it_may_not_read(store: Arc<dyn Store>) {
    defined(&*store, "bot", json!({})).await;
    create(&*store, "own", tagged(&["work"]), &agent("bot")).await.expect("a record");
    let pii = NewBreadcrumb { sensitivity: Sensitivity::Pii, ..tagged(&["work"]) };
    create(&*store, "pii", pii, &ann()).await.expect("a record");
    let secret = NewBreadcrumb { sensitivity: Sensitivity::Secret, ..tagged(&["work"]) };
    create(&*store, "secret", secret, &ann()).await.expect("a record");
    let private = NewBreadcrumb { visibility: Visibility::Private, ..tagged(&["work"]) };
    create(&*store, "private", private, &ann()).await.expect("a record");
    assert_eq!(heard(&*store).await, []);
    create(&*store, "of another", tagged(&["work"]), &agent("other")).await.expect("a record");
    assert_eq!(heard(&*store).await, [triple("bot", "of another", 1)]);
}

async fn every_condition_of_a_selector_counts(store: Arc<dyn Store>) {
    let condition = |op: &str, value: Value| json!({"context_match": [{"path": "$.order.total", "op": op, "value": value}]});
    let lists = json!({"context_match": [{"path": "kinds", "op": "contains_any", "value": ["a", "b"]}]});
    let cases = [
        ("schema", json!({"schema_name": "order.placed.v1"}), "1 2 3 4"),
        ("any", json!({"any_tags": ["red", "blue"]}), "1 2"),
        ("all", json!({"all_tags": ["red", "big"]}), "2"),
        ("both", json!({"any_tags": ["red"], "context_match": [{"path": "order.total", "op": "gt", "value": 15}]}), "2"),
        ("eq", condition("eq", json!(10.0)), "1"),
        ("ne", condition("ne", json!(10)), "2 3 4"),
        ("gt", condition("gt", json!(10)), "2"),
        ("lt", condition("lt", json!("b")), "3"),
        ("contains_any", lists, "2 4"),
        ("context", json!({"schema_name": "order.placed.v1", "role": "context"}), ""),
        ("catalog", json!({"schema_name": "tool.catalog.v1"}), ""),
    ];
    for (id, selector, _) in &cases {
        defined(&*store, id, json!({"subscriptions": {"selectors": [selector]}})).await;
    }
    let first_wins = json!([{"any_tags": ["red"], "role": "context"}, {"schema_name": "order.placed.v1"}]);
    defined(&*store, "first", json!({"subscriptions": {"selectors": first_wins}})).await;
    let order = |tags: &[&str], context: Value| NewBreadcrumb {
        context: context.into(),
        schema_name: Some("order.placed.v1".into()),
        ..tagged(tags)
    };
    let records = [
        order(&["red"], json!({"order": {"total": 10}})),
        order(&["red", "big"], json!({"order": {"total": 20}, "kinds": ["c", "b"]})),
        order(&[], json!({"order": {"total": "a"}, "kinds": "a"})),
        order(&[], json!({"order": {"total": null}, "kinds": ["a"]})),
    ];
    for (at, record) in records.into_iter().enumerate() {
        create(&*store, &(at + 1).to_string(), record, &ann()).await.expect("a record");
    }
    let heard = heard(&*store).await;
    let of = |id: &str| {
        let is_order = |record: &str| record.len() == 1;
        let of_id = heard.iter().filter(|(definition, record, _)| definition == id && is_order(record));
        let records = of_id.map(|(_, record, _)| record.as_str());
        records.collect::<Vec<_>>().join(" ")
    };
    for (id, _, expected) in &cases {
        assert_eq!(of(id), *expected, "{id}");
    }
    assert_eq!(of("first"), "3 4");
}

async fn a_definition_that_cannot_be_meant_is_refused(store: Arc<dyn Store>) {
    let selectors = |selector: Value| json!({"subscriptions": {"selectors": [selector]}});
    let faults = [
        (json!({"agent_id": "Not An Id"}), "cannot name an agent"),
        (json!({"agent_id": "system"}), "cannot name an agent"),
        (json!({"model": 3}), "model is a text"),
        (json!({"program": "plan.py"}), "no key \"program\""),
        (json!({"system_prompt": {"file": "/etc/passwd"}}), "system_prompt is a text"),
        (json!({"limits": {"trigger_depth": 0}}), "trigger_depth is 1 to 100"),
        (selectors(json!({})), "every record would meet it"),
        (selectors(json!({"any_tag": ["a"]})), "unknown field `any_tag`"),
        (selectors(json!({"schema_name": "tool.catalog.v1", "role": "trigger"})), "its role is `context`"),
        (selectors(json!({"context_match": [{"path": "a[", "op": "eq", "value": 1}]})), "cannot be read"),
        (selectors(json!({"context_match": [{"path": "a", "op": "like", "value": 1}]})), "unknown variant `like`"),
        (selectors(json!({"context_match": [{"path": "a", "op": "contains_any", "value": 1}]})), "compares two arrays"),
        (selectors(json!({"any_tags": ["a"], "fetch": {"method": "recent", "limit": 0}})), "fetch.limit is 1 to 100"),
        (json!({"context_builders": {"x": {"type": "breadcrumb_search"}}}), "has no condition"),
        (json!({"context_builders": {"x": {"type": "breadcrumb_search", "query": "a", "transform": "prompt_adapter"}}}), "alone"),
    ];
    for (more, reason) in faults {
        let refused = create(&*store, "bot", definition("bot", more.clone()), &ann()).await;
        let error = crate::breadcrumbs::refusal(refused).to_string();
        assert!(error.contains(reason), "{more}: {error}");
    }
}

async fn triggers_of_a_session_wait_for_each_other(store: Arc<dyn Store>) {
    defined(&*store, "bot", json!({})).await;
    defined(&*store, "other", json!({})).await;
    for (id, tags) in [("a1", "session:a"), ("b1", "session:b"), ("a2", "session:a"), ("a3", "session:a")] {
        create(&*store, id, tagged(&["work", tags]), &ann()).await.expect("a record");
    }
    let of_bot = |all: Vec<NextTrigger>| {
        let is_of_bot = |next: &NextTrigger| next.trigger.handler == Handler::Agent(BreadcrumbId::new("bot"));
        all.into_iter().filter(is_of_bot).collect::<Vec<_>>()
    };
    let ids = |next: &[NextTrigger]| next.iter().map(|next| next.trigger.breadcrumb.to_string()).collect::<Vec<_>>();
    let first = of_bot(next(&*store).await);
    assert_eq!(ids(&first), ["a1", "b1"]);
    begin(&*store, "run-a1", first[0].trigger.number).await.expect("a run");
    assert_eq!(ids(&of_bot(next(&*store).await)), ["a1", "b1"], "a trigger waits until the one before is settled");
    settle(&*store, first[0].trigger.number, None).await;
    let second = of_bot(next(&*store).await);
    assert_eq!(ids(&second), ["b1", "a2"]);
    assert_eq!((&second[0].previous, &second[1].previous), (&None, &Some(RunId::new("run-a1"))));
    // A trigger without a run does not break the session.
    settle(&*store, second[1].trigger.number, None).await;
    let third = of_bot(next(&*store).await);
    assert_eq!((ids(&third), &third[1].previous), (vec!["b1".to_owned(), "a3".to_owned()], &Some(RunId::new("run-a1"))));
}

async fn one_run_takes_a_trigger(store: Arc<dyn Store>) {
    defined(&*store, "bot", json!({})).await;
    create(&*store, "r", tagged(&["work"]), &ann()).await.expect("a record");
    let number = next(&*store).await[0].trigger.number;
    let (one, other) = tokio::join!(begin(&*store, "one", number), begin(&*store, "other", number));
    let refused = [&one, &other].into_iter().filter_map(|begun| begun.as_ref().err()).collect::<Vec<_>>();
    assert!(matches!(refused[..], [StoreError::TriggerTaken(taken)] if *taken == number), "{refused:?}");
    let runs: Vec<RunId> = store.runs().await.expect("readable").into_iter().map(|run| run.id).collect();
    assert_eq!(runs.len(), 1, "the other run is not there");
    assert_eq!(next(&*store).await[0].trigger.state, TriggerState::Started { run: runs[0].clone() });
    settle(&*store, number, None).await;
    assert!(matches!(begin(&*store, "late", number).await, Err(StoreError::TriggerTaken(_))));
}

async fn an_answer_and_the_end_of_a_trigger_are_one_write(store: Arc<dyn Store>) {
    defined(&*store, "bot", json!({})).await;
    create(&*store, "r", tagged(&["work"]), &ann()).await.expect("a record");
    let number = next(&*store).await[0].trigger.number;
    let too_long = creation("bad", new(&"x".repeat(10_000), json!({})), &ann());
    let refused = store.breadcrumbs().settle(Settlement { trigger: number, answer: Some(too_long), refused: None }).await;
    assert!(matches!(refused, Err(StoreError::Breadcrumb(_))), "{refused:?}");
    assert_eq!(next(&*store).await.len(), 1, "it is not settled without its answer");
    let routed = Author { may_route: true, ..agent("bot") };
    let answer = NewBreadcrumb { tags: vec!["session:s".into()], ..new("Answer", json!({})) };
    let written = settle(&*store, number, Some(creation("answer", answer.clone(), &routed))).await.expect("an answer");
    assert_eq!((written.id.as_str(), &written.tags[..]), ("answer", &["session:s".to_owned()][..]));
    assert_eq!(settle(&*store, number, Some(creation("again", answer, &routed))).await, None);
    assert!(crate::breadcrumbs::find(&*store, "again", &ann().viewer).await.is_none());
}

async fn a_chain_of_triggers_ends_at_its_depth(store: Arc<dyn Store>) {
    defined(&*store, "ping", json!({"limits": {"trigger_depth": 3}})).await;
    defined(&*store, "pong", json!({"limits": {"trigger_depth": 3}})).await;
    let mut by = Author { run: None, ..agent("nobody") };
    let mut depths = Vec::new();
    for round in 1_u32.. {
        create(&*store, &format!("r{round}"), tagged(&["work"]), &by).await.expect("a record");
        let next = next(&*store).await;
        let next = next.first().expect("a trigger");
        if let Some(reason) = &next.trigger.refused {
            assert!(reason.contains("trigger 4 of a chain, and limits.trigger_depth is 3"), "{reason}");
            break;
        }
        assert!(round < 10, "the chain has no end");
        depths.push(next.trigger.depth);
        let run = format!("run{round}");
        begin(&*store, &run, next.trigger.number).await.expect("a run");
        let name = if round % 2 == 1 { "ping" } else { "pong" };
        by = Author { run: Some(run_id(&run)), ..agent(name) };
        settle_all(&*store).await;
    }
    assert_eq!(depths, [1, 2, 3]);
}

async fn a_request_of_a_tool_triggers_once(store: Arc<dyn Store>) {
    let request = NewBreadcrumb { schema_name: Some(REQUEST_SCHEMA.into()), ..new("Ask", json!({"tool": "echo"})) };
    create(&*store, "q", request, &ann()).await.expect("a request");
    let merge = BreadcrumbChange { merge: Some(json!({"tool": "other"}).into()), ..BreadcrumbChange::default() };
    change(&*store, "q", merge, &ann()).await.expect("a change");
    assert_eq!(heard(&*store).await, [triple("request", "q", 1)]);
    assert_eq!(
        next(&*store).await[0].record.as_ref().unwrap().context.value(),
        json!({"tool": "echo"}),
        "the version that triggered"
    );
}

async fn a_listener_hears_of_a_trigger(store: Arc<dyn Store>) {
    let mut announced = store.subscribe_to_all();
    announced.mark_unchanged();
    defined(&*store, "bot", json!({})).await;
    create(&*store, "idle", tagged(&["leisure"]), &ann()).await.expect("a record");
    create(&*store, "r", tagged(&["work"]), &ann()).await.expect("a record");
    tokio::time::timeout(std::time::Duration::from_secs(10), announced.changed()).await.expect("in time").expect("open");
}

async fn a_run_is_kept_until_its_trigger_is_answered(store: Arc<dyn Store>) {
    defined(&*store, "bot", json!({})).await;
    create(&*store, "r", tagged(&["work"]), &ann()).await.expect("a record");
    let number = next(&*store).await[0].trigger.number;
    let first = Batch { entries: vec![entry(1, "0", "began"), ended(2, 5)], ..batch(&run_id("a"), 0, 0) };
    store.begin(NewRun { trigger: Some(number), ..new_run("a", 1) }, "process 1", first).await.expect("a run");
    let none = Retention { keep_newest: Some(0), ..Retention::default() };
    assert!(store.collect(none.clone(), false).await.expect("a pass").runs.is_empty(), "its answer is not written yet");
    settle(&*store, number, None).await;
    assert_eq!(store.collect(none, false).await.expect("a pass").runs, [run_id("a")]);
    let begun = begin(&*store, "late", number).await;
    assert!(matches!(begun, Err(StoreError::Corrupt { .. })), "the trigger went with its run: {begun:?}");
    assert!(store.verify().await.expect("readable").findings.is_empty());
}
