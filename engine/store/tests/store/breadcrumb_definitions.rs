//! Definitions of schemas: what they check, and whose versions count, on every store.

use std::sync::Arc;
use std::time::Duration;

use baton_breadcrumb::{Author, BreadcrumbError};
use baton_store::Store;
use baton_types::breadcrumb::{BreadcrumbChange, NewBreadcrumb, TtlConfig, TtlSource, TtlType};
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::breadcrumbs::{agent, ann, change, create, new, project, refusal, verdict};
use crate::support::at;

promises!(
    a_definition_checks_contexts_and_sets_ends,
    a_definition_of_an_agent_counts_once_it_is_approved,
    no_change_of_an_agent_switches_a_definition_off,
);

fn definition(policy: Value) -> NewBreadcrumb {
    let context = json!({
        "defines_schema": "note.v1",
        "category": "notes",
        "lifecycle": {"ttl_policy": policy},
        "field_definitions": {
            "text": {"type": "string", "required": true, "description": "The note"},
            "at": {"type": "datetime"},
            "n": {"type": "number"},
            "extra": {"type": "any"}
        }
    });
    NewBreadcrumb { schema_name: Some("schema.def.v1".into()), ..new("Notes", context) }
}

async fn a_definition_checks_contexts_and_sets_ends(store: Arc<dyn Store>) {
    let policy = json!({"type": "duration", "config": {"hours": 1}, "allow_override": false, "conditional_policies": [
        {"condition": {"tag_contains": "persist"}, "policy": {"type": "never"}}
    ]});
    create(&*store, "def", definition(policy), &ann()).await.expect("a definition");
    let note = |context: Value| NewBreadcrumb { schema_name: Some("note.v1".into()), ..new("note", context) };
    let bot = agent("bot");
    let made = create(
        &*store,
        "n1",
        note(json!({"text": "x", "at": "2027-01-31T09:00:00Z", "n": 1.5, "extra": [], "unknown": 1})),
        &bot,
    )
    .await;
    let made = made.expect("a note");
    assert_eq!((made.ttl, made.ttl_type), (Some(at(1_000).plus(Duration::from_hours(1))), TtlType::Duration));
    assert_eq!(made.ttl_source, Some(TtlSource::SchemaDefault));
    let kept = NewBreadcrumb { tags: vec!["persist".into()], ..note(json!({"text": "x"})) };
    let kept = create(&*store, "n2", kept, &bot).await.expect("a note");
    assert_eq!((kept.ttl, kept.ttl_source), (None, Some(TtlSource::AutoApplied)));
    for (context, fault) in [
        (json!({}), "\"text\" is missing"),
        (json!({"text": 5}), "\"text\" is not a string"),
        (json!({"text": "x", "at": "tomorrow"}), "\"at\" is not a moment"),
        (json!({"text": "x", "n": "1"}), "\"n\" is not a number"),
        (json!([]), "expected an object"),
    ] {
        let refused = refusal(create(&*store, "n3", note(context), &bot).await);
        assert!(refused.to_string().contains(fault) && refused.to_string().contains("note.v1"), "{refused}");
    }
    let wrong = BreadcrumbChange { merge: Some(json!({"text": null}).into()), ..BreadcrumbChange::default() };
    assert!(matches!(refusal(change(&*store, "n1", wrong, &bot).await), BreadcrumbError::Schema { .. }));
    let own =
        NewBreadcrumb { ttl_config: Some(TtlConfig { days: Some(9), ..TtlConfig::default() }), ..note(json!({"text": "x"})) };
    assert!(refusal(create(&*store, "n4", own, &bot).await).to_string().contains("allows no other"));
    // The definition counts in its project alone.
    let elsewhere = Author::outside(Principal::person("ann"), project("q"));
    create(&*store, "n5", note(json!({})), &elsewhere).await.expect("another project has no definition");
    for faulty in [json!({}), json!({"defines_schema": "x.v1", "field_definitions": {"a": {"type": "float"}}}), json!("text")] {
        let content = NewBreadcrumb { schema_name: Some("schema.def.v1".into()), ..new("faulty", faulty) };
        assert!(matches!(
            refusal(create(&*store, "faulty", content, &ann()).await),
            BreadcrumbError::Invalid { field: "context", .. }
        ));
    }
}

async fn a_definition_of_an_agent_counts_once_it_is_approved(store: Arc<dyn Store>) {
    let minute = json!({"type": "duration", "config": {"minutes": 1}});
    create(&*store, "def", definition(minute), &agent("bot")).await.expect("a record like any other");
    let note = || NewBreadcrumb { schema_name: Some("note.v1".into()), ..new("note", json!({})) };
    assert_eq!(create(&*store, "n1", note(), &ann()).await.expect("nothing is defined").ttl, None);
    change(&*store, "def", verdict(true), &ann()).await.expect("a person approves");
    assert!(matches!(refusal(create(&*store, "n2", note(), &ann()).await), BreadcrumbError::Schema { .. }));
    // A person who rejects the version that counts switches the definition off.
    change(&*store, "def", verdict(false), &ann()).await.expect("a person rejects");
    assert_eq!(create(&*store, "n3", note(), &ann()).await.expect("nothing is defined again").ttl, None);
    // A person who changes a tag does not adopt what an agent wrote.
    create(&*store, "other", definition(json!({"type": "never"})), &agent("bot")).await.expect("a record like any other");
    let tagged = BreadcrumbChange { add_tags: vec!["seen".into()], ..BreadcrumbChange::default() };
    change(&*store, "other", tagged, &ann()).await.expect("a person's change");
    create(&*store, "n4", note(), &ann()).await.expect("nothing is defined");
}

async fn no_change_of_an_agent_switches_a_definition_off(store: Arc<dyn Store>) {
    create(&*store, "def", definition(json!({"type": "never"})), &ann()).await.expect("a definition");
    let note = || NewBreadcrumb { schema_name: Some("note.v1".into()), ..new("note", json!({})) };
    let is_defined = async |what: &str| {
        let refused = refusal(create(&*store, "n1", note(), &agent("bot")).await);
        assert!(matches!(refused, BreadcrumbError::Schema { .. }), "{what}: {refused}");
    };
    is_defined("by a person").await;
    let rename = BreadcrumbChange { title: Some("Renamed".into()), ..BreadcrumbChange::default() };
    change(&*store, "def", rename, &agent("bot")).await.expect("an agent's change");
    is_defined("after a harmless change").await;
    let loose = json!({"defines_schema": "note.v1", "field_definitions": {}});
    let other = BreadcrumbChange { context: Some(loose.into()), ..BreadcrumbChange::default() };
    change(&*store, "def", other, &agent("bot")).await.expect("an agent's change");
    let elsewhere = json!({"defines_schema": "memo.v1"});
    let away = BreadcrumbChange { merge: Some(elsewhere.into()), ..BreadcrumbChange::default() };
    change(&*store, "def", away, &agent("bot")).await.expect("an agent's change");
    is_defined("after changes of its content").await;
    change(&*store, "def", verdict(false), &ann()).await.expect("a person rejects what the agent wrote");
    is_defined("after a rejection of an agent's version").await;
    let found = store.breadcrumbs().definition("memo.v1", &project("p"), at(3_000)).await.expect("readable");
    assert!(found.is_none());
    change(&*store, "def", verdict(true), &ann()).await.expect("a person approves what the agent wrote");
    create(&*store, "n1", note(), &agent("bot")).await.expect("nothing is defined");
    let found = store.breadcrumbs().definition("memo.v1", &project("p"), at(3_000)).await.expect("readable");
    assert_eq!(found.expect("the approved version").schema(), "memo.v1");
}
