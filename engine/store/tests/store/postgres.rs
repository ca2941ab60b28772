//! Promises of the store in PostgreSQL alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_servers::{Pooler, Postgres};
use baton_store::{Batch, PostgresStore, Store, StoreError};
use baton_types::id::RunId;
use baton_types::json::Json;
use tokio::task::JoinSet;

use crate::support::{batch, new_run, on_postgres, owned_run, postgres, run_id, sequence};

/// Returns a number that a query of the database finds.
fn number(database: &baton_servers::Database<'_>, query: &str) -> u64 {
    database.sql(query).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_changes_the_row_of_its_run_without_touching_an_index() {
    let database = postgres().database();
    let store = on_postgres(&database).await;
    let run = owned_run(&store, "a").await;
    for seq in 0..200 {
        store.append(batch(&run, seq, 1)).await.expect("an entry");
    }
    drop(store);
    // Statistics arrive when the connections that made them are gone.
    let mut counts = (0, 0);
    for _ in 0..100 {
        let query = |column| format!("SELECT {column} FROM pg_stat_user_tables WHERE schemaname = 'baton' AND relname = 'runs'");
        counts = (number(&database, &query("n_tup_upd")), number(&database, &query("n_tup_hot_upd")));
        if counts.0 >= 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(counts.0 >= 200 && counts.1 * 10 >= counts.0 * 9, "{counts:?}: changes, and those without an index");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_another_version_are_refused_with_what_to_do() {
    let database = postgres().database();
    assert!(PostgresStore::connect_existing(&database.address()).await.expect("reachable").is_none());
    drop(on_postgres(&database).await);
    assert!(PostgresStore::connect_existing(&database.address()).await.expect("reachable").is_some());
    for (version, what) in [(99, "use a newer version of baton"), (0, "use the version of baton that wrote it")] {
        database.sql(&format!("UPDATE baton.format SET version = {version}"));
        for opened in [
            PostgresStore::connect(&database.address()).await.map(drop),
            PostgresStore::connect_existing(&database.address()).await.map(drop),
        ] {
            let refused = opened.expect_err("another version").to_string();
            assert!(refused.contains(what) && refused.contains(&format!("has format {version}")), "{refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn the_tables_are_made_once_by_any_number_of_processes() {
    let database = postgres().database();
    let mut opening = JoinSet::new();
    for _ in 0..8 {
        let address = database.address();
        opening.spawn(async move { PostgresStore::connect(&address).await.expect("a store").secret().await.expect("a secret") });
    }
    let secrets = opening.join_all().await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_another_process_makes_meanwhile_are_found() {
    /// Makes the table of the version under the lock for it, when another process waits for that lock.
    const OTHER: &str = "SET statement_timeout = '60s'; BEGIN; SELECT pg_advisory_xact_lock(x'6261746f6e000000'::bigint);
        DO $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP;
        END $$;
        CREATE SCHEMA baton; CREATE TABLE baton.format (version integer, secret bytea);
        INSERT INTO baton.format VALUES (99, ''); COMMIT";
    // The locks of other tests' databases would be seen as well.
    let server = Postgres::start(&[]);
    let database = server.database();
    std::thread::scope(|threads| {
        threads.spawn(|| database.sql(OTHER));
        for _ in 0..3_000 {
            if number(&database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let address = database.address();
        let refused =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(PostgresStore::connect(&address)));
        assert!(matches!(refused, Err(StoreError::NewerFormat { found: 99, .. })), "{refused:?}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_former_owner_writes_nothing() {
    let database = postgres().database();
    let (zombie, owner) = (on_postgres(&database).await, on_postgres(&database).await);
    let run = owned_run(&zombie, "a").await;
    zombie.append(batch(&run, 0, 1)).await.expect("its own");
    assert_eq!(owner.take_over(&run, &owner.owner(), 1).await.expect("free"), 2);
    let zombie = Arc::new(zombie);
    let mut attempts = JoinSet::new();
    for attempt in 0..1_000_u64 {
        let (zombie, late) = (Arc::clone(&zombie), batch(&run, 1 + attempt % 3, attempt % 2));
        attempts.spawn(async move { zombie.append(late).await });
    }
    for seq in 1..50 {
        owner.append(Batch { epoch: 2, ..batch(&run, seq, 1) }).await.expect("the owner's");
    }
    for refused in attempts.join_all().await {
        let refused = refused.expect_err("a former owner's");
        assert!(matches!(refused, StoreError::StaleEpoch { expected: 1, found: 2, .. }), "{refused}");
    }
    assert_eq!(sequence(&owner, &run).await, (1..=50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_wakes_the_owner_in_another_process() {
    let database = postgres().database();
    let (owner, other) = (on_postgres(&database).await, on_postgres(&database).await);
    let run = owned_run(&owner, "a").await;
    let (mut one, mut all) = (owner.subscribe(&run), owner.subscribe_to_all());
    for _ in 0..3 {
        let number = other.put_command(&run, Json::null()).await.expect("the run is there");
        tokio::time::timeout(Duration::from_secs(10), one.wait_for(|newest| *newest == number))
            .await
            .expect("woken")
            .expect("open");
        tokio::time::timeout(Duration::from_secs(10), all.changed()).await.expect("woken").expect("open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_is_alive_until_its_lease_ends() {
    let database = postgres().database();
    let (owner, other) = (on_postgres(&database).await, on_postgres(&database).await);
    let run = run_id("a");
    owner.create(new_run("a", 1)).await.expect("a new run");
    assert_eq!(other.is_there(&owner.owner()), None, "no run of it was read");
    owner.take_over(&run, &owner.owner(), 0).await.expect("free");
    let state = async || {
        let record = other.run(&run).await.expect("readable").expect("there");
        other.is_there(record.owner.as_deref().expect("an owner"))
    };
    assert_eq!(state().await, Some(true));
    assert_eq!(owner.is_there(&owner.owner()), Some(true));
    // The owner is stopped, and the clock of the database counts.
    database.sql("UPDATE baton.leases SET expires = clock_timestamp() - interval '1 second'");
    let is_young = "SELECT (clock_timestamp() - pg_postmaster_start_time() < interval '20 seconds')::int";
    while number(&database, is_young) == 1 {
        assert_eq!(state().await, Some(true), "the server started a moment ago, and owners renew their leases first");
        tokio::time::sleep(Duration::from_millis(500)).await;
        database.sql("UPDATE baton.leases SET expires = clock_timestamp() - interval '1 second'");
    }
    database.sql("UPDATE baton.leases SET expires = clock_timestamp() - interval '1 second'");
    assert_eq!(state().await, Some(false));
    database.sql("DELETE FROM baton.leases");
    assert_eq!(state().await, Some(false), "an owner without a lease is dead");
}

/// Writes entries of a run until `done`; returns how many. Reads the run again after each error, as its actor does.
async fn write_through(store: Arc<PostgresStore>, name: String, done: Arc<AtomicBool>) -> (RunId, u64) {
    let run = owned_through(&store, &name).await;
    let mut seq = 0;
    while !done.load(Ordering::SeqCst) {
        match store.append(batch(&run, seq, 1)).await {
            Ok(()) => seq += 1,
            Err(error @ (StoreError::CommitUnknown { .. } | StoreError::Unreachable { .. })) => {
                let found = loop {
                    match store.run(&run).await {
                        Ok(found) => break found.unwrap_or_else(|| panic!("{run} is lost after: {error}")),
                        Err(StoreError::Unreachable { .. }) => {}
                        Err(error) => panic!("{run}: {error}"),
                    }
                };
                assert!(found.last_seq == seq || found.last_seq == seq + 1, "{run}: {} instead of {seq}", found.last_seq);
                seq = found.last_seq;
            }
            Err(error) => panic!("{run}: {error}"),
        }
    }
    (run, seq)
}

/// Returns a new run with epoch 1, whatever happens to the server.
async fn owned_through(store: &PostgresStore, name: &str) -> RunId {
    let run = run_id(name);
    loop {
        match store.create(new_run(name, 1)).await {
            Ok(()) | Err(StoreError::RunExists(_)) => break,
            Err(StoreError::CommitUnknown { .. } | StoreError::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    loop {
        match store.take_over(&run, "owner", 0).await {
            Ok(_) | Err(StoreError::StaleEpoch { .. }) => return run,
            Err(StoreError::CommitUnknown { .. } | StoreError::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    const RUNS: usize = 24;
    let server = Postgres::start(&["-c", "fsync=off", "-c", "full_page_writes=off"]);
    let database = server.database();
    let store = Arc::new(on_postgres(&database).await);
    let (mut writers, done) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
    for index in 0..RUNS {
        writers.spawn(write_through(Arc::clone(&store), format!("run {index}"), Arc::clone(&done)));
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        tokio::task::block_in_place(|| {
            server.kill();
            server.start_again();
        });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    done.store(true, Ordering::SeqCst);
    for (run, count) in writers.join_all().await {
        assert!(count > 0, "{run}");
        assert_eq!(sequence(&*store, &run).await, (1..=count).collect::<Vec<_>>(), "{run}");
    }
    assert_eq!(store.runs().await.expect("readable").len(), RUNS);
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
    // The connection that listens is made again.
    let (run, mut woken) = (run_id("run 0"), store.subscribe(&run_id("run 0")));
    let other = on_postgres(&database).await;
    let number = other.put_command(&run, Json::null()).await.expect("the run is there");
    tokio::time::timeout(Duration::from_secs(20), woken.wait_for(|newest| *newest == number))
        .await
        .expect("woken")
        .expect("open");
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_names_what_is_wrong() {
    let checks = [
        ("", ""),
        (
            "UPDATE baton.entries SET entries = replace(entries, 'look', 'Look') WHERE first = 1 AND run = 1",
            "entries 1 to 2 of run a",
        ),
        ("DELETE FROM baton.entries WHERE run = 2", "run b ends with entry 0"),
        ("UPDATE baton.entries SET link = sha256('')", "do not follow"),
        ("DELETE FROM baton.places WHERE run = 1", "is missing"),
        ("INSERT INTO baton.places VALUES (1, 77, 2)", "a place of task key 77 is wrong"),
        ("UPDATE baton.contents SET bytes = '' WHERE length(bytes) = 6", "no longer has that hash"),
        ("DELETE FROM baton.runs WHERE run = 2", "only 2 are in use"),
    ];
    for (damage, finding) in checks {
        let database = postgres().database();
        let store = on_postgres(&database).await;
        crate::keeping::run_with(&store, "a", Some(10)).await;
        crate::keeping::run_with(&store, "b", None).await;
        if damage.is_empty() {
            assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
            continue;
        }
        database.sql(damage);
        let found = store.verify().await.expect("readable").findings;
        assert!(found.iter().any(|said| said.contains(finding)), "{damage}: {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_store_works_through_a_pooler_that_shares_connections_between_transactions() {
    let database = postgres().database();
    // Fewer connections than the store has: each transaction gets another one.
    let pooler = Pooler::start(&database, 3);
    let store = Arc::new(PostgresStore::connect(&pooler.address(&database)).await.expect("a store"));
    let mut writers = JoinSet::new();
    for index in 0..16 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let run = owned_run(&*store, &format!("run {index}")).await;
            for seq in 0..20 {
                store.append(batch(&run, seq, 1)).await.expect("only this task writes this run");
            }
            assert_eq!(sequence(&*store, &run).await, (1..=20).collect::<Vec<_>>());
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer");
    }
    // No notification passes the pooler, so the inboxes are read again and again.
    let (run, other) = (run_id("run 0"), on_postgres(&database).await);
    let mut woken = store.subscribe(&run);
    let number = other.put_command(&run, Json::null()).await.expect("the run is there");
    tokio::time::timeout(Duration::from_secs(15), woken.wait_for(|newest| *newest == number))
        .await
        .expect("woken")
        .expect("open");
    store.collect(baton_store::Retention { named: vec![run], ..baton_store::Retention::default() }, false).await.expect("a pass");
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
}
