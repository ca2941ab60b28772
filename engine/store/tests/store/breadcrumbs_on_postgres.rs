//! Breadcrumbs of several stores in one PostgreSQL database, as several processes have them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_breadcrumb::{Handler, SCHEDULE_SCHEMA};
use baton_servers::Database;
use baton_store::{Creation, Settlement, Store, StoreError};
use baton_types::breadcrumb::{BreadcrumbQuery, NewBreadcrumb, TtlConfig};
use baton_types::id::BreadcrumbId;
use baton_types::time::Timestamp;
use serde_json::json;
use tokio::task::JoinSet;

use crate::breadcrumbs::{agent, ann, create, creation, find, new, project};
use crate::breadcrumbs_at_scale::eight_writers;
use crate::support::{at, on_postgres, postgres};
use crate::triggers::{begin, definition};

/// Returns stores in one database.
async fn stores(database: &Database<'_>, count: usize) -> Vec<Arc<dyn Store>> {
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..count {
        stores.push(Arc::new(on_postgres(database).await));
    }
    stores
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn eight_writers_in_four_stores_of_a_database_lose_no_update() {
    let database = postgres().database();
    eight_writers(stores(&database, 4).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn each_tick_is_published_once_by_two_processes() {
    let database = postgres().database();
    let stores = stores(&database, 2).await;
    let minute = |number: i64| Timestamp::from_micros(number * 60_000_000);
    let context = json!({"interval": {"type": "minutely", "every_n_minutes": 1}});
    let schedule = NewBreadcrumb { schema_name: Some(SCHEDULE_SCHEMA.into()), ..new("Each minute", context) };
    stores[0].breadcrumbs().create(Creation { at: minute(0), ..creation("s", schedule, &ann()) }).await.expect("a schedule");
    for number in 1..=30 {
        let mut passes = JoinSet::new();
        for pass in 0..8 {
            let store = Arc::clone(&stores[pass % 2]);
            passes.spawn(async move { store.breadcrumbs().publish_ticks(&BreadcrumbId::new("s"), minute(number)).await });
        }
        let published: usize = passes.join_all().await.into_iter().map(|ticks| ticks.expect("a pass").len()).sum();
        assert_eq!(published, 1, "minute {number}");
    }
}

/// A trigger with a lower number must not appear in a queue after one with a higher number was handled.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn triggers_of_a_session_are_handled_in_order_while_others_are_written() {
    let database = postgres().database();
    let stores = stores(&database, 3).await;
    create(&*stores[0], "bot", definition("bot", json!({})), &ann()).await.expect("a definition");
    let (writers, each) = (8, 25);
    let mut writing = JoinSet::new();
    for writer in 0..writers {
        let store = Arc::clone(&stores[writer % 2]);
        writing.spawn(async move {
            for n in 0..each {
                let tags = vec!["work".to_owned(), format!("session:{}", n % 2)];
                let content = NewBreadcrumb { tags, ..new("Work", json!({})) };
                create(&*store, &format!("r{writer}-{n}"), content, &ann()).await.expect("a record");
            }
        });
    }
    // Two listeners compete.
    let mut listening = JoinSet::new();
    for listener in 0..2 {
        let store = Arc::clone(&stores[1 + listener]);
        listening.spawn(async move {
            let mut handled = Vec::new();
            let mut idle = 0;
            while idle < 100 {
                let next = store.breadcrumbs().next_triggers(&project("p"), 10, at(5_000)).await.expect("readable");
                idle = if next.is_empty() { idle + 1 } else { 0 };
                for next in next {
                    let number = next.trigger.number;
                    match begin(&*store, &format!("run-{number}"), number).await {
                        Ok(()) => {}
                        Err(StoreError::TriggerTaken(_)) => continue,
                        Err(error) => panic!("{error}"),
                    }
                    // Only one trigger of a queue is handled at a time, so this list has the order of the queue.
                    handled.push((next.trigger.queue().expect("a session"), number, next.previous.clone()));
                    let settlement = Settlement { trigger: number, answer: None, refused: None };
                    store.breadcrumbs().settle(settlement).await.expect("a settlement");
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            handled
        });
    }
    writing.join_all().await;
    let mut handled: Vec<_> = listening.join_all().await.into_iter().flatten().collect();
    assert_eq!(handled.len(), writers * each);
    handled.sort_by_key(|(_, number, _)| *number);
    let mut before: BTreeMap<String, u64> = BTreeMap::new();
    for (queue, number, previous) in handled {
        let expected = before.insert(queue, number).map(|before| format!("run-{before}"));
        assert_eq!(previous.map(|run| run.to_string()), expected, "the trigger before {number} was handled before it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_trigger_wakes_a_listener_of_another_process() {
    let database = postgres().database();
    let stores = stores(&database, 2).await;
    create(&*stores[0], "bot", definition("bot", json!({})), &ann()).await.expect("a definition");
    let mut announced = stores[1].subscribe_to_all();
    // The first notification may come before the listener is connected, so another one follows.
    for n in 0..100 {
        announced.mark_unchanged();
        let content = NewBreadcrumb { tags: vec!["work".into()], ..new("Work", json!({})) };
        create(&*stores[0], &format!("r{n}"), content, &ann()).await.expect("a record");
        if tokio::time::timeout(Duration::from_millis(200), announced.changed()).await.is_ok() {
            let next = stores[1].breadcrumbs().next_triggers(&project("p"), 999, at(5_000)).await.expect("readable");
            assert_eq!(next.len(), n + 1);
            assert!(next.iter().all(|next| next.trigger.handler == Handler::Agent("bot".into())));
            return;
        }
    }
    panic!("no trigger woke the listener");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn ended_records_leave_nothing_behind() {
    let database = postgres().database();
    let stores = stores(&database, 2).await;
    let once = TtlConfig { max_reads: Some(1), ..TtlConfig::default() };
    for n in 0..40 {
        let content = NewBreadcrumb { ttl_config: Some(once), tags: vec!["t".into()], ..new("once", json!({"n": n})) };
        let keyed = Creation { key: Some(format!("k{n}")), ..creation(&format!("once{n}"), content, &ann()) };
        stores[0].breadcrumbs().create(keyed).await.expect("new");
        let id = BreadcrumbId::new(format!("once{n}"));
        assert!(stores[0].breadcrumbs().read(&id, &ann().viewer, at(2_000)).await.expect("readable").is_some());
    }
    // Each creation removes a few. Those of two processes remove different ones, and searches go on.
    let mut writing = JoinSet::new();
    for n in 0..16 {
        let store = Arc::clone(&stores[n % 2]);
        writing.spawn(async move {
            let later = Creation { at: at(4_000), ..creation(&format!("later{n}"), new("later", json!({})), &ann()) };
            store.breadcrumbs().create(later).await.expect("new");
            let query = BreadcrumbQuery { limit: 99, ..BreadcrumbQuery::default() };
            store.breadcrumbs().search(&query, &agent("bot").viewer, at(1_500)).await.expect("readable");
        });
    }
    writing.join_all().await;
    for table in ["breadcrumbs", "breadcrumb_versions", "breadcrumb_words"] {
        assert_eq!(database.sql(&format!("SELECT count(*) FROM baton.{table}")), "16", "{table}");
    }
    for table in ["breadcrumb_keys", "breadcrumb_vectors", "breadcrumb_ticks"] {
        assert_eq!(database.sql(&format!("SELECT count(*) FROM baton.{table}")), "0", "{table}");
    }
}

#[tokio::test]
async fn damage_to_a_version_is_noticed() {
    let database = postgres().database();
    let store = &stores(&database, 1).await[0];
    create(&**store, "r1", new("one", json!({})), &ann()).await.expect("new");
    assert!(find(&**store, "r1", &ann().viewer).await.is_some());
    for damage in
        ["UPDATE baton.breadcrumb_versions SET record = replace(record, 'one', 'two')", "DELETE FROM baton.breadcrumb_versions"]
    {
        database.sql(damage);
        let read = store.breadcrumbs().find(&BreadcrumbId::new("r1"), &ann().viewer, at(3_000)).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{damage}: {read:?}");
    }
}
