//! A store that somebody sent, with another schema than this program makes.

use baton_store::{SqliteStore, StoreError};

use crate::support::{OnDisk, batch, owned_run};
use baton_store::Store;

/// Returns a view that never ends, in place of a table.
fn endless(table: &str) -> String {
    format!(
        "ALTER TABLE {table} RENAME TO hidden;
         CREATE VIEW {table} AS WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless)
             SELECT hidden.* FROM hidden, endless;"
    )
}

#[tokio::test]
async fn a_store_with_another_schema_is_refused_before_anything_is_read() {
    let changes = [
        // Renaming the table changes what the others say of it too.
        ("an endless view of runs", endless("runs"), "baton makes"),
        ("an endless view of batches", endless("batches"), "baton makes"),
        ("an endless view of totals", endless("totals"), "hidden"),
        ("an endless view of contents", endless("contents"), "baton makes"),
        ("a view beside", "CREATE VIEW beside AS SELECT 1".into(), "beside"),
        ("a trigger", "CREATE TRIGGER robber AFTER INSERT ON batches BEGIN DELETE FROM batches; END".into(), "robber"),
        ("a table beside", "CREATE TABLE beside (x)".into(), "beside"),
        ("an index beside", "CREATE INDEX beside ON runs (job)".into(), "beside"),
        ("a computed column", "ALTER TABLE runs ADD COLUMN beside TEXT AS (job)".into(), "runs"),
        ("a table that is missing", "DROP TABLE commands".into(), "commands"),
    ];
    for (what, change, named) in changes {
        let disk = OnDisk::new();
        let run = owned_run(&disk.store, "a").await;
        disk.store.append(batch(&run, 0, 2)).await.unwrap();
        let (path, _folder) = (disk.store.path().to_owned(), disk.folder);
        drop(disk.store);
        rusqlite::Connection::open(&path).unwrap().execute_batch(&change).unwrap();
        for opened in [SqliteStore::open(&path), SqliteStore::open_to_read(&path)] {
            let refused = opened.expect_err(what);
            assert!(matches!(refused, StoreError::ForeignSchema { .. }), "{what}: {refused}");
            assert!(refused.to_string().contains(named), "{what}: {refused}");
        }
    }
}

/// A program that changes the schema while this one has the file open gets nothing executed either.
#[tokio::test]
async fn a_view_or_trigger_that_comes_later_is_not_executed() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    disk.store.append(batch(&run, 0, 2)).await.unwrap();
    let trigger = "CREATE TRIGGER robber AFTER INSERT ON batches BEGIN DELETE FROM batches; END";
    disk.stranger().execute_batch(trigger).unwrap();
    disk.store.append(batch(&run, 2, 1)).await.unwrap();
    assert_eq!(disk.store.entries(&run, 0, 9).await.unwrap().len(), 3);
    disk.stranger().execute_batch(&format!("DROP TRIGGER robber; {}", endless("runs"))).unwrap();
    disk.store.runs().await.unwrap_err();
    disk.store.append(batch(&run, 3, 1)).await.unwrap_err();
}
