//! Schedules: each tick is published once, and only for versions that a person wrote or approved, on every store.

use std::sync::Arc;

use baton_breadcrumb::{Author, BreadcrumbError, SCHEDULE_SCHEMA, TICK_SCHEMA};
use baton_store::{ScheduleRecord, SqliteStore, Store, StoreError};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb, TtlType, Visibility};
use baton_types::id::BreadcrumbId;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::breadcrumbs::{agent, ann, change, create, creation, new, project, verdict};

promises!(
    a_tick_is_a_record_that_ends,
    each_tick_is_published_once_by_any_number_of_processes,
    a_schedule_that_changes_begins_anew,
    a_schedule_of_an_agent_counts_once_it_is_approved,
    a_schedule_whose_ticks_cannot_be_written_is_refused,
    ticks_that_a_definition_refuses_stay_due,
);

/// Returns a moment of the day, from which the tests count.
fn at(hour: i64, minute: i64) -> Timestamp {
    Timestamp::from_micros((hour * 60 + minute) * 60_000_000)
}

fn hourly(more: Value) -> NewBreadcrumb {
    let mut context = json!({"interval": {"type": "hourly", "minute": 0}});
    context.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    NewBreadcrumb { schema_name: Some(SCHEDULE_SCHEMA.into()), visibility: Visibility::Public, ..new("Hourly", context) }
}

/// Creates the schedule `s` at the beginning of the day.
async fn scheduled(store: &dyn Store, more: Value, by: &Author) {
    let made = baton_store::Creation { at: at(0, 0), ..creation("s", hourly(more), by) };
    store.breadcrumbs().create(made).await.expect("a schedule");
}

async fn publish(store: &dyn Store, now: Timestamp) -> Result<Vec<Breadcrumb>, StoreError> {
    store.breadcrumbs().publish_ticks(&BreadcrumbId::new("s"), now).await
}

/// Publishes the ticks that are due, and returns their moments.
async fn published(store: &dyn Store, now: Timestamp) -> Vec<String> {
    let ticks = publish(store, now).await.expect("a pass");
    ticks.iter().map(|tick| tick.context.value()["scheduled_at"].as_str().expect("a moment").to_owned()).collect()
}

async fn a_tick_is_a_record_that_ends(store: Arc<dyn Store>) {
    scheduled(&*store, json!({"labels": ["team:sales"]}), &ann()).await;
    let listed = store.breadcrumbs().schedules(at(0, 1)).await.expect("readable");
    let [ScheduleRecord { breadcrumb, settled }] = &listed[..] else { panic!("one schedule: {listed:?}") };
    assert_eq!((breadcrumb.id.as_str(), *settled), ("s", at(0, 0)));
    let ticks = publish(&*store, at(1, 2)).await.expect("a pass");
    let [tick] = &ticks[..] else { panic!("one tick: {ticks:?}") };
    assert_eq!((tick.schema_name.as_deref(), &tick.owner, &tick.project), (Some(TICK_SCHEMA), &Principal::Engine, &project("p")));
    assert_eq!((tick.ttl, tick.ttl_type, tick.visibility), (Some(at(1, 7)), TtlType::Datetime, Visibility::Public));
    assert_eq!(tick.tags, ["interval:hourly", "schedule:tick", "team:sales"]);
    let expected = json!({
        "schedule_id": "s",
        "schedule": "Hourly",
        "interval": "hourly",
        "labels": ["team:sales"],
        "scheduled_at": at(1, 0).to_string(),
        "published_at": at(1, 2).to_string(),
    });
    assert_eq!(tick.context.value(), expected);
    let query = BreadcrumbQuery { schema_name: Some(TICK_SCHEMA.into()), limit: 10, ..BreadcrumbQuery::default() };
    for (now, found) in [(at(1, 6), 1), (at(1, 7), 0)] {
        assert_eq!(store.breadcrumbs().search(&query, &agent("bot").viewer, now).await.expect("readable").total, found);
    }
}

async fn each_tick_is_published_once_by_any_number_of_processes(store: Arc<dyn Store>) {
    scheduled(&*store, json!({}), &ann()).await;
    for hour in 1..=20 {
        let passes: Vec<_> = (0..8)
            .map(|minute| {
                let store = Arc::clone(&store);
                // Their clocks differ.
                tokio::spawn(async move { published(&*store, at(hour, minute % 4)).await })
            })
            .collect();
        let mut all = Vec::new();
        for pass in passes {
            all.extend(pass.await.expect("no panic"));
        }
        assert_eq!(all, [at(hour, 0).to_string()]);
    }
    assert!(published(&*store, at(3, 0)).await.is_empty(), "a clock that goes back publishes nothing");
    assert_eq!(store.breadcrumbs().schedules(at(21, 0)).await.expect("readable")[0].settled, at(20, 3));
}

async fn a_schedule_that_changes_begins_anew(store: Arc<dyn Store>) {
    scheduled(&*store, json!({"enabled": false, "missed": "all"}), &ann()).await;
    assert!(published(&*store, at(3, 0)).await.is_empty());
    let merged = |merge: Value| BreadcrumbChange { merge: Some(merge.into()), ..BreadcrumbChange::default() };
    let update = |merge: Value, at: Timestamp| baton_store::Update {
        id: BreadcrumbId::new("s"),
        change: merged(merge),
        expected: None,
        by: ann(),
        key: None,
        at,
    };
    store.breadcrumbs().change(update(json!({"enabled": true}), at(5, 30))).await.expect("a change");
    let both = [at(6, 0).to_string(), at(7, 0).to_string()];
    assert_eq!(published(&*store, at(7, 30)).await, both, "none of the time when it was switched off");
    store.breadcrumbs().change(update(json!({"interval": {"minute": 45}}), at(7, 40))).await.expect("a change");
    assert_eq!(published(&*store, at(8, 0)).await, [at(7, 45).to_string()]);
}

async fn a_schedule_of_an_agent_counts_once_it_is_approved(store: Arc<dyn Store>) {
    scheduled(&*store, json!({}), &agent("bot")).await;
    assert!(store.breadcrumbs().schedules(at(1, 0)).await.expect("readable").is_empty());
    assert!(published(&*store, at(1, 0)).await.is_empty());
    change(&*store, "s", verdict(true), &ann()).await.expect("a person approves");
    assert_eq!(published(&*store, at(2, 0)).await, [at(2, 0).to_string()]);
    // An agent's change leaves the approved version in force.
    let quicker = json!({"interval": {"type": "minutely", "every_n_minutes": 1}});
    let other = BreadcrumbChange { context: Some(quicker.into()), ..BreadcrumbChange::default() };
    change(&*store, "s", other, &agent("bot")).await.expect("an agent's change");
    assert_eq!(published(&*store, at(3, 4)).await, [at(3, 0).to_string()]);
    change(&*store, "s", verdict(false), &ann()).await.expect("a person rejects what the agent wrote");
    assert_eq!(published(&*store, at(4, 0)).await, [at(4, 0).to_string()]);
}

async fn a_schedule_whose_ticks_cannot_be_written_is_refused(store: Arc<dyn Store>) {
    for label in ["approved", "", "a\nb", &"x".repeat(10_000)] {
        let refused = create(&*store, "s", hourly(json!({"labels": [label]})), &ann()).await;
        let Err(StoreError::Breadcrumb(BreadcrumbError::Invalid { field: "context", reason })) = refused else {
            panic!("{label:.20?}: {refused:?}")
        };
        assert!(reason.starts_with("its ticks cannot be written"), "{reason}");
    }
}

async fn ticks_that_a_definition_refuses_stay_due(store: Arc<dyn Store>) {
    scheduled(&*store, json!({"missed": "last"}), &ann()).await;
    let strict = json!({"defines_schema": TICK_SCHEMA, "field_definitions": {"owner": {"type": "string", "required": true}}});
    let definition = NewBreadcrumb { schema_name: Some("schema.def.v1".into()), ..new("Ticks", strict) };
    create(&*store, "def", definition, &ann()).await.expect("a definition");
    assert!(matches!(publish(&*store, at(1, 0)).await, Err(StoreError::Breadcrumb(BreadcrumbError::Schema { .. }))));
    change(&*store, "def", verdict(false), &ann()).await.expect("a person rejects it");
    assert_eq!(published(&*store, at(1, 20)).await, [at(1, 0).to_string()]);
}

#[tokio::test]
async fn ticks_are_settled_across_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("baton.db");
    let opened = || SqliteStore::open(&path).expect("a store");
    scheduled(&opened(), json!({}), &ann()).await;
    for hour in 1..=3 {
        assert_eq!(published(&opened(), at(hour, 1)).await, [at(hour, 0).to_string()]);
        assert!(published(&opened(), at(hour, 2)).await.is_empty());
    }
    let store = opened();
    let verified = store.verify().await.expect("readable");
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
}
