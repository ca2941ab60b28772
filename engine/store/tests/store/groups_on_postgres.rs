//! Batches that PostgreSQL gets together.

use std::sync::Arc;
use std::time::Duration;

use baton_servers::Database;
use baton_store::{Batch, PostgresStore, Store, StoreError};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use tokio::task::JoinSet;

use crate::support::{batch, content, on_postgres, owned_run, postgres, sequence};

/// Returns a connection of another program.
async fn stranger(database: &Database<'_>) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&database.address(), tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Appends batches that wait for four groups, whose content a stranger inserts at the same time. So they are one group.
async fn append_together(database: &Database<'_>, store: &Arc<PostgresStore>, group: Vec<Batch>) -> Vec<Result<(), StoreError>> {
    let stranger = stranger(database).await;
    let (hash, bytes) = content(b"of a stranger");
    let mut earlier = JoinSet::new();
    stranger.batch_execute("BEGIN").await.expect("a transaction");
    let insert = "INSERT INTO baton.contents (hash, bytes) VALUES ($1, '')";
    stranger.execute(insert, &[&&hash.as_bytes()[..]]).await.expect("a content");
    for index in 0..4 {
        let run = owned_run(&**store, &format!("earlier {index}")).await;
        let (store, contents) = (Arc::clone(store), vec![(hash, bytes.clone())]);
        earlier.spawn(async move { store.append(Batch { contents, ..batch(&run, 0, 1) }).await });
        // Each is a group of its own.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let waiting = group.into_iter().map(|batch| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.append(batch).await })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    stranger.batch_execute("ROLLBACK").await.expect("the end");
    for earlier in earlier.join_all().await {
        earlier.expect("its own");
    }
    let mut answers = Vec::new();
    for answer in waiting {
        answers.push(answer.await.expect("an answer"));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_another_transaction_has_locked_stop_no_other_run() {
    let database = postgres().database();
    let store = Arc::new(on_postgres(&database).await);
    let mut locked = Vec::new();
    for index in 0..6 {
        locked.push(owned_run(&*store, &format!("locked {index}")).await);
    }
    let free = owned_run(&*store, "free").await;
    let stranger = stranger(&database).await;
    stranger.batch_execute("BEGIN; SELECT FROM baton.runs WHERE id LIKE 'locked%' FOR UPDATE").await.expect("locked");
    let waiting: Vec<_> = locked.iter().map(|run| batch(run, 0, 1)).collect();
    let mut waiting: JoinSet<_> = waiting
        .into_iter()
        .map(|batch| {
            let store = Arc::clone(&store);
            async move { store.append(batch).await }
        })
        .collect();
    for seq in 0..50 {
        let append = store.append(batch(&free, seq, 1));
        tokio::time::timeout(Duration::from_secs(10), append).await.expect("it waits for no other run").expect("its own");
    }
    assert!(waiting.try_join_next().is_none(), "a batch waits for its own run");
    stranger.batch_execute("COMMIT").await.expect("free");
    for answer in waiting.join_all().await {
        answer.expect("its own");
    }
    assert_eq!(sequence(&*store, &locked[5]).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_wait_are_one_transaction_and_a_refused_one_does_not_spoil_it() {
    let database = postgres().database();
    let store = Arc::new(on_postgres(&database).await);
    let mut runs = Vec::new();
    for name in ["a", "b", "c"] {
        let run = owned_run(&*store, name).await;
        store.append(batch(&run, 0, 1)).await.expect("an entry");
        runs.push(run);
    }
    let other = on_postgres(&database).await;
    assert_eq!(other.take_over(&runs[1], &other.owner(), 1).await.expect("free"), 2);
    other.append(Batch { epoch: 2, ..batch(&runs[1], 1, 1) }).await.expect("the new owner's");
    let command = store.put_command(&runs[2], Json::null()).await.expect("a command");
    let (hash, bytes) = content(b"of a refused batch");
    let refused = Batch { contents: vec![(hash, bytes)], ..batch(&runs[1], 1, 1) };
    let last = Batch { consumed: vec![command], releases: true, wakes: Some(Timestamp::MAX), ..batch(&runs[2], 1, 2) };
    let answers = append_together(&database, &store, vec![batch(&runs[0], 1, 2), refused, last]).await;
    assert!(matches!(answers[1], Err(StoreError::StaleEpoch { expected: 1, found: 2, .. })), "{answers:?}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(sequence(&*store, &runs[0]).await, [1, 2, 3]);
    assert_eq!(sequence(&*store, &runs[1]).await, [1, 2]);
    assert_eq!(sequence(&*store, &runs[2]).await, [1, 2, 3]);
    assert_eq!(store.content(hash).await.expect("readable"), None);
    assert!(store.take_commands(&runs[2], 0).await.expect("readable").is_empty());
    assert_eq!(store.run(&runs[2]).await.expect("readable").expect("there").owner, None);
    let transactions = "SELECT count(DISTINCT entries.xmin::text) FROM baton.entries JOIN baton.runs USING (run)
                        WHERE id IN ('a', 'c') AND last = 3";
    assert_eq!(database.sql(transactions), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_the_server_refuses_fails_alone() {
    let database = postgres().database();
    let store = Arc::new(on_postgres(&database).await);
    let mut runs = Vec::new();
    for name in ["a", "b", "c"] {
        runs.push(owned_run(&*store, name).await);
    }
    database.sql("INSERT INTO baton.entries SELECT run, 1, 1, 0, '', '' FROM baton.runs WHERE id = 'b'");
    let answers = append_together(&database, &store, runs.iter().map(|run| batch(run, 0, 1)).collect()).await;
    assert!(matches!(&answers[1], Err(StoreError::Postgres { what }) if what.contains("duplicate key")), "{answers:?}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    database.sql("DELETE FROM baton.entries WHERE entries = ''");
    store.append(batch(&runs[1], 0, 2)).await.expect("the run is where it was");
    assert_eq!(sequence(&*store, &runs[1]).await, [1, 2]);
}
