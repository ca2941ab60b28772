//! Breadcrumbs of several stores in one PostgreSQL database, as several processes have them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_breadcrumb::{Handler, REQUEST_SCHEMA, SCHEDULE_SCHEMA};
use baton_servers::{Database, Pooler, Postgres};
use baton_store::{Creation, PostgresStore, Settlement, Store, StoreError, Update};
use baton_types::breadcrumb::{
    BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb, RecordVector, Sensitivity, TtlConfig, VectorKind,
};
use baton_types::id::BreadcrumbId;
use baton_types::time::Timestamp;
use serde_json::json;
use tokio::task::JoinSet;

use crate::breadcrumbs::{agent, ann, change, create, creation, new, project};
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

/// A listener must not get a trigger while an earlier one of its queue is written but not committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_trigger_that_is_not_committed_yet_holds_back_its_queue() {
    let database = postgres().database();
    let stores = stores(&database, 2).await;
    create(&*stores[0], "bot", definition("bot", json!({})), &ann()).await.expect("a definition");
    database.sql(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';
         CREATE TRIGGER slow AFTER INSERT ON baton.breadcrumb_triggers FOR EACH ROW WHEN (NEW.body LIKE '%slow%') EXECUTE FUNCTION wait()",
    );
    let mut writing = JoinSet::new();
    let mut write = |id: &'static str, session: &str, store: &Arc<dyn Store>| {
        let (store, tags) = (Arc::clone(store), vec!["work".to_owned(), format!("session:{session}")]);
        writing.spawn(async move { create(&*store, id, NewBreadcrumb { tags, ..new("Work", json!({})) }, &ann()).await });
    };
    write("slow", "a", &stores[0]);
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    while database.sql(asleep) != "1" {
        tokio::task::yield_now().await;
    }
    write("quick", "a", &stores[1]);
    write("other", "b", &stores[1]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        for next in stores[1].breadcrumbs().next_triggers(&project("p"), 10, at(5_000)).await.expect("readable") {
            seen.push(next.trigger.breadcrumb.to_string());
            let settlement = Settlement { trigger: next.trigger.number, answer: None, refused: None };
            stores[1].breadcrumbs().settle(settlement).await.expect("a settlement");
        }
    }
    assert_eq!(seen, ["other", "slow", "quick"], "other sessions wait for nothing");
    assert!(writing.join_all().await.iter().all(Result::is_ok));
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
    // Each creation removes a few. Those of two processes remove different ones, and searches continue.
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

/// Repeats writes with keys whose result is not known, as callers do.
async fn until_known<T, F: Future<Output = Result<T, StoreError>>>(write: impl Fn() -> F) -> T {
    loop {
        match write().await {
            Err(StoreError::CommitUnknown { .. } | StoreError::Unreachable { .. }) => tokio::task::yield_now().await,
            done => return done.expect("a write"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn writes_with_keys_happen_once_while_the_server_is_killed() {
    let (writers, each) = (4, 60);
    let server = Postgres::start(&[]);
    let database = server.database();
    let stores = stores(&database, 2).await;
    create(&*stores[0], "bot", definition("bot", json!({})), &ann()).await.expect("a definition");
    create(&*stores[0], "shared", new("shared", json!({})), &ann()).await.expect("a record");
    let (done, mut progress) = tokio::sync::mpsc::unbounded_channel();
    let mut writing = JoinSet::new();
    for writer in 0..writers {
        let (store, done) = (Arc::clone(&stores[writer % 2]), done.clone());
        writing.spawn(async move {
            for n in 1..=each {
                let merge =
                    BreadcrumbChange { merge: Some(json!({format!("w{writer}"): n}).into()), ..BreadcrumbChange::default() };
                let update = Update {
                    id: BreadcrumbId::new("shared"),
                    change: merge,
                    expected: None,
                    by: agent("author"),
                    key: Some(format!("change {writer} {n}")),
                    at: at(2_000),
                };
                until_known(|| store.breadcrumbs().change(update.clone())).await;
                let content = NewBreadcrumb { tags: vec!["work".into()], ..new("Work", json!({})) };
                let keyed = Creation {
                    key: Some(format!("creation {writer} {n}")),
                    ..creation(&format!("r{writer}-{n}"), content, &ann())
                };
                until_known(|| store.breadcrumbs().create(keyed.clone())).await;
                done.send(()).expect("somebody counts");
            }
        });
    }
    drop(done);
    let (mut count, mut kills) = (0, 0);
    while progress.recv().await.is_some() {
        count += 1;
        if count % 60 == 30 {
            kills += 1;
            tokio::task::block_in_place(|| {
                server.kill();
                server.start_again();
            });
        }
    }
    writing.join_all().await;
    assert_eq!((count, kills), (writers * each, 4));
    let expected = 1 + (writers * each) as u64;
    let history = stores[0].breadcrumbs().history(&BreadcrumbId::new("shared"), &ann().viewer, 9_999, at(3_000)).await;
    let history = history.expect("readable");
    assert_eq!((history.len() as u64, history[0].breadcrumb.version), (expected, expected));
    let context = history[0].breadcrumb.context.value();
    assert!((0..writers).all(|writer| context[format!("w{writer}")] == each), "{context}");
    let next = stores[0].breadcrumbs().next_triggers(&project("p"), 9_999, at(5_000)).await.expect("readable");
    assert_eq!(next.len(), writers * each, "one trigger for each record");
    assert_eq!(stores[0].verify().await.expect("readable").findings, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn breadcrumbs_work_through_a_pooler_that_shares_connections_between_transactions() {
    let database = postgres().database();
    let pooler = Pooler::start(&database, 3);
    let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&pooler.address(&database)).await.expect("a store"));
    create(&*store, "bot", definition("bot", json!({})), &ann()).await.expect("a definition");
    let mut writing = JoinSet::new();
    for writer in 0..16 {
        let store = Arc::clone(&store);
        writing.spawn(async move {
            for n in 0..10 {
                let tags = vec!["work".to_owned(), "session:a".to_owned()];
                let content = NewBreadcrumb { tags, ..new(&format!("Work {n}"), json!({})) };
                // Two writers with each key.
                let id = format!("r{}-{n}", writer / 2);
                let keyed = Creation { key: Some(id.clone()), ..creation(&id, content, &ann()) };
                store.breadcrumbs().create(keyed).await.expect("one record for both");
                let words = BreadcrumbQuery { words: Some(n.to_string()), limit: 99, ..BreadcrumbQuery::default() };
                let found = store.breadcrumbs().search(&words, &agent("reader").viewer, at(3_000)).await.expect("readable");
                assert!(found.breadcrumbs.iter().any(|record| record.id.as_str() == id));
            }
        });
    }
    writing.join_all().await;
    for handled in 0..=80 {
        let next = store.breadcrumbs().next_triggers(&project("p"), 99, at(5_000)).await.expect("readable");
        assert_eq!(next.len(), usize::from(handled < 80), "{handled}");
        for next in next {
            let settlement = Settlement { trigger: next.trigger.number, answer: None, refused: None };
            store.breadcrumbs().settle(settlement).await.expect("a settlement");
        }
    }
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
}

#[tokio::test]
async fn damage_to_a_version_is_noticed_when_it_is_read() {
    let database = postgres().database();
    let store = on_postgres(&database).await;
    create(&store, "r1", new("one", json!({})), &ann()).await.expect("new");
    for damage in
        ["UPDATE baton.breadcrumb_versions SET record = replace(record, 'one', 'two')", "DELETE FROM baton.breadcrumb_versions"]
    {
        database.sql(damage);
        let read = store.breadcrumbs().find(&BreadcrumbId::new("r1"), &ann().viewer, at(3_000)).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{damage}: {read:?}");
    }
}

#[tokio::test]
async fn a_verification_finds_damage_to_records() {
    let damage = [
        ("UPDATE breadcrumb_versions SET record = replace(record, 'one', 'two') WHERE version = 2", "version 2 of breadcrumb r1"),
        ("UPDATE breadcrumbs SET sensitivity = '\"low\"' WHERE id = 'r1'", "its row differs"),
        ("DELETE FROM breadcrumb_versions WHERE version = 1", "lacks version 1"),
        ("DELETE FROM breadcrumbs WHERE id = 'r1'", "2 rows of versions"),
        ("DELETE FROM breadcrumb_words", "its tags and words are not filed"),
        ("UPDATE breadcrumb_words SET tags = '{}'", "other tags are filed"),
        ("UPDATE breadcrumb_keys SET version = 9", "1 rows of keys"),
        ("UPDATE breadcrumb_vectors SET version = 1", "1 rows of vectors"),
        ("UPDATE breadcrumb_vectors SET vector = '\\x00'", "1 rows of vectors"),
        ("UPDATE breadcrumb_triggers SET waits = false", "trigger 1: its row differs"),
    ];
    for (statement, finding) in damage {
        let database = postgres().database();
        let store = on_postgres(&database).await;
        let content = NewBreadcrumb { tags: vec!["t".into()], sensitivity: Sensitivity::Pii, ..new("one", json!({})) };
        let keyed = Creation { key: Some("k".into()), ..creation("r1", content, &ann()) };
        store.breadcrumbs().create(keyed).await.expect("new");
        let next = BreadcrumbChange { description: Some("one".into()), ..BreadcrumbChange::default() };
        change(&store, "r1", next, &ann()).await.expect("a change");
        let request = NewBreadcrumb { schema_name: Some(REQUEST_SCHEMA.into()), ..new("Ask", json!({"tool": "echo"})) };
        create(&store, "r2", request, &ann()).await.expect("a request");
        let kind = VectorKind { model: "m".into(), dimensions: 1 };
        let vector = RecordVector { id: "r2".into(), version: 1, vector: vec![1.0] };
        store.breadcrumbs().keep_vectors(&kind, vec![vector]).await.expect("kept");
        change(&store, "r2", BreadcrumbChange { title: Some("Ask again".into()), ..BreadcrumbChange::default() }, &ann())
            .await
            .expect("a change");
        let vector = RecordVector { id: "r2".into(), version: 2, vector: vec![1.0] };
        store.breadcrumbs().keep_vectors(&kind, vec![vector]).await.expect("kept");
        let whole = store.verify().await.expect("readable");
        assert_eq!((whole.findings, whole.breadcrumbs), (Vec::new(), 2));
        database.sql(&format!("SET search_path = baton; {statement}"));
        let findings = store.verify().await.expect("readable").findings;
        assert!(findings.iter().any(|found| found.contains(finding)), "{statement}: {findings:?}");
    }
}
