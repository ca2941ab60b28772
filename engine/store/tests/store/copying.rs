//! A copy of a store has everything that the store has, and comes into being completely or not at all.

use std::sync::Arc;

use baton_breadcrumb::{REQUEST_SCHEMA, SCHEDULE_SCHEMA};
use baton_store::{Batch, CopiedStore, Creation, NewRun, SqliteStore, Store, StoreError, copy};
use baton_types::breadcrumb::{BreadcrumbChange, Centre, NewBreadcrumb, RecordVector, VectorKind};
use baton_types::entry::ForkPoint;
use baton_types::id::{AgentId, BreadcrumbId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use serde_json::json;
use tempfile::TempDir;

use crate::breadcrumbs::{ann, change, create, creation, new, project, words};
use crate::keeping::{ended, run_with};
use crate::support::{OnDisk, at, batch, content, entry, memory, new_run, on_postgres, postgres, run_id};

/// The owner of a run, whose process is gone.
const GONE: &str = "process 1-00000000";

fn tagged(title: &str) -> NewBreadcrumb {
    NewBreadcrumb { tags: vec!["red".into(), "hot".into()], ..new(title, json!({"text": "peppers and beans"})) }
}

fn keyed(id: &str) -> Creation {
    Creation { key: Some("key".into()), ..creation(id, tagged("Keyed"), &ann()) }
}

fn vectors() -> VectorKind {
    VectorKind { model: "m".into(), dimensions: 2 }
}

/// Fills a store with something of everything.
async fn fill(store: &dyn Store) {
    for (name, end) in [("done", Some(10)), ("open", None), ("gone", Some(5))] {
        let run = run_with(store, name, end).await;
        store.append(Batch { releases: true, ..batch(&run, if end.is_some() { 3 } else { 2 }, 0) }).await.expect("released");
    }
    // The numbers of runs have a gap, and memories outlive their run.
    let retention = baton_store::Retention { named: vec![run_id("gone")], ..Default::default() };
    store.collect(retention, false).await.expect("a pass");
    let past = Some(ForkPoint { run: run_id("done"), seq: 2 });
    store.create(NewRun { past, ..new_run("fork", 7) }).await.expect("a fork");
    store.take_over(&run_id("fork"), GONE, 0).await.expect("free");
    let many = (3..=200).map(|seq| entry(seq, if seq % 3 == 0 { "0" } else { "0/1.1" }, &"words ".repeat(100))).collect();
    store.append(Batch { entries: many, ..batch(&run_id("fork"), 2, 0) }).await.expect("owned");
    // On SQLite, the first of these get places.
    for seq in 201..=240 {
        let written = Batch { entries: vec![entry(seq, "0", "more")], ..batch(&run_id("fork"), seq - 1, 0) };
        store.append(written).await.expect("owned");
    }
    for (name, wakes) in [("sleeps", at(5_000)), ("waits", Timestamp::MAX)] {
        let first = Batch { wakes: Some(wakes), releases: true, ..batch(&run_id(name), 0, 3) };
        store.begin(new_run(name, 8), GONE, first).await.expect("a run");
    }
    for text in ["one", "two"] {
        store.put_command(&run_id("waits"), Json::of(text).expect("JSON")).await.expect("there");
    }
    store.put_content(content(b"unnamed").0, content(b"unnamed").1).await.expect("stored");
    fill_breadcrumbs(store).await;
}

async fn fill_breadcrumbs(store: &dyn Store) {
    create(store, "sore", tagged("Gone soon"), &ann()).await.expect("a record");
    store.breadcrumbs().create(keyed("kept")).await.expect("a record");
    for title in ["Second", "Crème brûlée"] {
        let title = BreadcrumbChange { title: Some(title.into()), ..BreadcrumbChange::default() };
        change(store, "sore", title, &ann()).await.expect("a version");
    }
    let context = json!({"interval": {"type": "minutely", "every_n_minutes": 1}});
    let schedule = NewBreadcrumb { schema_name: Some(SCHEDULE_SCHEMA.into()), ..new("Each minute", context) };
    create(store, "schedule", schedule, &ann()).await.expect("a schedule");
    store.breadcrumbs().publish_ticks(&BreadcrumbId::new("schedule"), at(60_000_000)).await.expect("a pass");
    for id in ["q1", "q2"] {
        let request = NewBreadcrumb { schema_name: Some(REQUEST_SCHEMA.into()), ..new(id, json!({"tool": "echo"})) };
        create(store, id, request, &ann()).await.expect("a request");
    }
    let trigger = store.breadcrumbs().next_triggers(&project("p"), 9, at(9)).await.expect("readable")[0].trigger.number;
    let first = Batch { entries: vec![entry(1, "0", "began"), ended(2, 5)], releases: true, ..batch(&run_id("asked"), 0, 0) };
    store.begin(NewRun { trigger: Some(trigger), ..new_run("asked", 9) }, GONE, first).await.expect("a run");
    let vector = RecordVector { id: "kept".into(), version: 1, vector: vec![1.0, 0.0] };
    store.breadcrumbs().keep_vectors(&vectors(), vec![vector]).await.expect("kept");
    store.breadcrumbs().read(&BreadcrumbId::new("kept"), &ann().viewer, at(2_000)).await.expect("read");
}

/// Returns everything that a store can be asked for, as text.
async fn picture(store: &dyn Store) -> Vec<String> {
    let mut seen = Vec::new();
    let viewer = &ann().viewer;
    for mut run in store.runs().await.expect("readable") {
        seen.push(format!("{:?}", store.entries(&run.id, 0, usize::MAX).await.expect("readable")));
        seen.push(format!("{:?}", store.task_entries(&run.id, &"0/1.1".into(), u64::MAX).await.expect("readable")));
        seen.push(format!("{:?}", store.take_commands(&run.id, 0).await.expect("readable")));
        // A database may name a dead owner otherwise.
        assert!(run.owner.take().is_none_or(|owner| store.is_there(&owner) == Some(false)));
        seen.push(format!("{run:?}"));
    }
    for moment in [at(4_999), at(5_000), Timestamp::MAX] {
        seen.push(format!("{:?}", store.due(moment, 9).await.expect("readable")));
    }
    let (agent, tool) = (AgentId::new("analyst"), ToolId::new("save"));
    seen.push(format!("{:?}", store.recall(&memory(), &agent, &tool, 9).await.expect("readable")));
    seen.push(format!("{:?}", store.content(content(b"unnamed").0).await.expect("readable")));
    seen.push(format!("{:?}", store.secret().await.expect("readable")));
    let breadcrumbs = store.breadcrumbs();
    for id in breadcrumbs.ids("", viewer, 99, at(3_000)).await.expect("readable") {
        seen.push(format!("{:?}", breadcrumbs.history(&id, viewer, 99, at(3_000)).await.expect("readable")));
    }
    let found = async |query| format!("{:?}", breadcrumbs.search(&query, viewer, at(3_000)).await.expect("readable").breadcrumbs);
    seen.push(found(words("brulee")).await);
    seen.push(found(baton_types::breadcrumb::BreadcrumbQuery { tags: vec!["hot".into()], ..words("beans") }).await);
    let centre = Centre { kind: vectors(), vector: vec![1.0, 0.0], neighbours: 1 };
    seen.push(format!("{:?}", breadcrumbs.nearest(&words("x"), &centre, viewer, at(3_000)).await.expect("readable").breadcrumbs));
    seen.push(format!("{:?}", breadcrumbs.next_triggers(&project("p"), 9, at(3_000)).await.expect("readable")));
    seen.push(format!("{:?}", breadcrumbs.schedules(at(3_000)).await.expect("readable")));
    seen.push(format!("{:?}", store.verify().await.expect("readable")));
    seen
}

/// Writes to a copy as if it were the store: nothing happens twice, and every number is new.
async fn continue_in(store: &dyn Store) {
    let written = store.breadcrumbs().create(keyed("again")).await.expect("the same write");
    assert!(written.repeated && written.breadcrumb.id == BreadcrumbId::new("kept"), "{written:?}");
    let before = store.take_commands(&run_id("waits"), 0).await.expect("readable");
    let number = store.put_command(&run_id("waits"), Json::of("three").expect("JSON")).await.expect("there");
    assert!(before.iter().all(|(earlier, _)| *earlier < number), "{before:?} {number}");
    let fork = store.run(&run_id("fork")).await.expect("readable").expect("there");
    assert_eq!(store.take_over(&fork.id, &store.owner(), fork.epoch).await.expect("its owner is gone"), 2);
    store.append(Batch { epoch: 2, releases: true, ..batch(&fork.id, fork.last_seq, 2) }).await.expect("owned");
    let run = run_with(store, "new", Some(20)).await;
    store.append(Batch { releases: true, ..batch(&run, 3, 0) }).await.expect("released");
    let next = async || store.breadcrumbs().next_triggers(&project("p"), 9, at(3_000)).await.expect("readable").len();
    let waiting = next().await;
    let request = NewBreadcrumb { schema_name: Some(REQUEST_SCHEMA.into()), ..new("more", json!({"tool": "echo"})) };
    create(store, "q3", request, &ann()).await.expect("a request");
    assert_eq!(next().await, waiting + 1);
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
}

fn file(folder: &TempDir, name: &str) -> SqliteStore {
    SqliteStore::open(folder.path().join(name)).expect("a new store")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_of_a_copy_is_the_same_in_every_database() {
    let (folder, one, two) = (TempDir::new().expect("a folder"), postgres().database(), postgres().database());
    let origin = file(&folder, "origin.db");
    fill(&origin).await;
    let expected = picture(&origin).await;
    let whole = origin.verify().await.expect("readable");
    assert_eq!((whole.runs, whole.logged, whole.commands, whole.breadcrumbs), (6, 3, 2, 6), "{whole:?}");
    assert!(whole.findings.is_empty() && whole.batches > 9 && whole.unnamed > 0, "{whole:?}");
    let (first, second) = (on_postgres(&one).await, on_postgres(&two).await);
    let (third, fourth) = (file(&folder, "third.db"), file(&folder, "fourth.db"));
    let ways: [(&dyn CopiedStore, &dyn CopiedStore); 4] =
        [(&origin, &first), (&first, &second), (&second, &third), (&third, &fourth)];
    for (number, (from, to)) in ways.into_iter().enumerate() {
        let copied = copy(from, to).await.unwrap_or_else(|error| panic!("copy {number}: {error}"));
        assert_eq!(copied, from.verify().await.expect("readable"), "copy {number}");
        assert_eq!(picture(to).await, expected, "copy {number}");
        assert_eq!(picture(from).await, expected, "copy {number} changes its source");
    }
    continue_in(&first).await;
    continue_in(&third).await;
    // A run that continued in a copy can be copied again, to the other database too.
    let last = postgres().database();
    copy(&third, &on_postgres(&last).await).await.expect("a copy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_is_not_empty_gets_no_copy() {
    let (folder, database) = (TempDir::new().expect("a folder"), postgres().database());
    let (origin, on_disk, on_server) = (file(&folder, "origin.db"), file(&folder, "full.db"), on_postgres(&database).await);
    fill(&origin).await;
    on_disk.put_content(content(b"own").0, content(b"own").1).await.expect("stored");
    create(&on_server, "own", new("Own", json!({})), &ann()).await.expect("a record");
    let targets: [&dyn CopiedStore; 2] = [&on_disk, &on_server];
    for target in targets {
        let (before, secret) = (target.verify().await.expect("readable"), target.secret().await.expect("readable"));
        let refused = copy(&origin, target).await.expect_err("it has rows").to_string();
        assert!(refused.contains("is not empty") && refused.contains("name a new file"), "{refused}");
        assert!(!refused.contains('@'), "{refused}");
        assert_eq!(target.verify().await.expect("readable"), before);
        assert_eq!(target.secret().await.expect("readable"), secret);
    }
    let itself = SqliteStore::open(origin.path()).expect("the same store");
    assert!(matches!(copy(&origin, &itself).await, Err(StoreError::NotEmpty { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_of_a_living_process_is_not_copied() {
    let (folder, database) = (TempDir::new().expect("a folder"), postgres().database());
    let (on_disk, on_server, target) = (file(&folder, "origin.db"), on_postgres(&database).await, file(&folder, "target.db"));
    // Opened again, as another process has it.
    let (reader, client) = (SqliteStore::open_to_read(on_disk.path()).expect("there"), on_postgres(&database).await);
    let ways: [(&dyn Store, &dyn CopiedStore); 2] = [(&on_disk, &reader), (&on_server, &client)];
    for (store, from) in ways {
        store.create(new_run("busy", 1)).await.expect("a run");
        store.take_over(&run_id("busy"), &store.owner(), 0).await.expect("free");
        let refused = copy(from, &target).await.expect_err("it is owned").to_string();
        assert!(refused.contains(&store.owner()) && refused.contains("run busy"), "{refused}");
        assert!(refused.contains("stop that process"), "{refused}");
        assert!(target.runs().await.expect("readable").is_empty());
    }
    on_disk.append(Batch { releases: true, ..batch(&run_id("busy"), 0, 1) }).await.expect("owned");
    copy(&reader, &target).await.expect("it is free");
}

#[tokio::test]
async fn a_damaged_store_is_not_copied() {
    let (disk, folder) = (OnDisk::new(), TempDir::new().expect("a folder"));
    fill(&disk.store).await;
    disk.stranger()
        .execute("UPDATE batches SET entries = unhex(replace(hex(entries), hex('words'), hex('WORDS')))", [])
        .expect("damage");
    let target = file(&folder, "target.db");
    let refused = copy(&disk.store, &target).await.expect_err("it is damaged");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    assert_eq!(target.verify().await.expect("readable"), baton_store::Verification::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_whose_runs_change_meanwhile_is_not_copied() {
    let (folder, database) = (TempDir::new().expect("a folder"), Arc::new(postgres().database()));
    let (origin, target) = (file(&folder, "origin.db"), on_postgres(&database).await);
    fill(&origin).await;
    let until = async |event: &str| {
        let here = "pg_stat_activity WHERE datname = current_database()";
        let query = format!("SELECT count(*) FROM {here} AND wait_event = '{event}'");
        while database.sql(&query) != "1" {
            tokio::task::yield_now().await;
        }
    };
    let other = Arc::clone(&database);
    let lock = "BEGIN; LOCK TABLE baton.contents; SELECT pg_sleep(3); COMMIT";
    let locking = tokio::task::spawn_blocking(move || other.sql(lock));
    until("PgSleep").await;
    let change = async {
        // The copy has begun, and waits for the lock.
        until("relation").await;
        origin.create(new_run("late", 9)).await.expect("a run");
    };
    let refused = tokio::join!(copy(&origin, &target), change).0.expect_err("a run began");
    assert!(matches!(&refused, StoreError::Changed { .. }), "{refused}");
    assert_eq!(target.verify().await.expect("readable"), baton_store::Verification::default());
    copy(&origin, &target).await.expect("nothing changes now");
    locking.await.expect("the lock was free");
}
