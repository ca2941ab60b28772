//! Promises of a store on disk: it outlives its process, is shared, and detects damage.

use std::sync::Arc;

use baton_store::{Batch, FORMAT_VERSION, NewRun, RunSummaryUpdate, SqliteStore, Store, StoreError};
use baton_types::entry::ForkPoint;
use baton_types::id::{AgentId, ToolId};
use baton_types::json::Json;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{
    OnDisk, append_until_filed, at, batch, content, entry, logged, memory, new_run, owned_run, run_id, sequence,
};

#[tokio::test]
async fn everything_is_there_after_closing_and_opening() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    let (hash, bytes) = content(b"kept");
    let command = disk.store.put_command(&run, Json::of("answer").expect("JSON")).await.expect("the run is there");
    let written = Batch {
        contents: vec![(hash, Arc::clone(&bytes))],
        logged: vec![logged("analyst", "save", "kept")],
        summary: Some(RunSummaryUpdate { status: "waiting".into(), at: at(50) }),
        ..batch(&run, 0, 4)
    };
    disk.store.append(written.clone()).await.expect("a full batch");
    let before = disk.store.run(&run).await.expect("readable");

    let disk = disk.reopened();
    assert_eq!(disk.store.run(&run).await.expect("readable"), before);
    assert_eq!(disk.store.entries(&run, 0, 10).await.expect("readable"), written.entries);
    assert_eq!(disk.store.content(hash).await.expect("readable"), Some(bytes));
    assert_eq!(disk.store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new("save"), 9).await.expect("readable").len(), 1);
    let waiting = disk.store.take_commands(&run, 0).await.expect("readable");
    assert_eq!(waiting, [(command, Json::of("answer").expect("JSON"))]);
    assert_eq!(disk.store.take_over(&run, "later", 1).await.expect("there"), 2, "the epoch goes on from where it was");
    let path = disk.store.path().to_owned();
    let folder = disk.folder;
    drop(disk.store);
    assert_eq!(path.parent().expect("a folder").read_dir().expect("a folder").count(), 1, "closing leaves one file");
    drop(folder);
}

#[tokio::test]
async fn two_openings_share_the_file_and_the_epoch_keeps_them_apart() {
    let disk = OnDisk::new();
    let second = SqliteStore::open(disk.store.path()).expect("a second opening");
    let run = owned_run(&disk.store, "a").await;
    let others = owned_run(&second, "b").await;
    disk.store.append(batch(&run, 0, 2)).await.expect("the first owner's");
    second.append(batch(&others, 0, 1)).await.expect("another run in the same file");
    assert_eq!(sequence(&second, &run).await, [1, 2]);
    second.put_command(&run, Json::null()).await.expect("anybody may put commands");
    assert_eq!(disk.store.take_commands(&run, 0).await.expect("readable").len(), 1);

    assert_eq!(second.take_over(&run, "second", 1).await.expect("there"), 2);
    let refused = disk.store.append(batch(&run, 2, 1)).await.expect_err("it lost the run");
    assert!(matches!(refused, StoreError::StaleEpoch { expected: 1, found: 2, .. }), "{refused}");
    second.append(Batch { epoch: 2, ..batch(&run, 2, 1) }).await.expect("the new owner's");
    assert_eq!(sequence(&disk.store, &run).await, [1, 2, 3]);
    let names: Vec<_> = disk.store.runs().await.expect("readable").into_iter().map(|record| record.id).collect();
    assert_eq!(names, [run_id("b"), run_id("a")]);
}

#[test]
fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..10 {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let openings: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| SqliteStore::open(&path).map(drop))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for opening in openings {
            opening.expect("every one of them opens it");
        }
    }
}

#[test]
fn a_newer_format_is_refused() {
    let disk = OnDisk::new();
    let path = disk.store.path().to_owned();
    disk.stranger().pragma_update(None, "user_version", FORMAT_VERSION + 1).expect("a version of the future");
    let OnDisk { store, folder } = disk;
    drop(store);
    let refused = SqliteStore::open(&path).expect_err("a newer format");
    assert!(
        matches!(&refused, StoreError::NewerFormat { found, known, .. } if (*found, *known) == (FORMAT_VERSION + 1, FORMAT_VERSION)),
        "{refused}"
    );
    assert!(refused.to_string().contains("use a newer version of baton"), "{refused}");
    drop(folder);
}

#[test]
fn a_format_too_old_to_be_read_is_refused_and_left_alone() {
    let disk = OnDisk::new();
    let path = disk.store.path().to_owned();
    disk.stranger().pragma_update(None, "user_version", 1).expect("a version of the past");
    let OnDisk { store, folder } = disk;
    drop(store);
    let before = std::fs::read(&path).expect("readable");
    let refused = SqliteStore::open(&path).expect_err("an older format");
    assert!(
        matches!(&refused, StoreError::OlderFormat { found, known, .. } if (*found, *known) == (1, FORMAT_VERSION)),
        "{refused}"
    );
    assert!(refused.to_string().contains("use the version of baton that wrote it"), "{refused}");
    assert_eq!(std::fs::read(&path).expect("readable"), before);
    drop(folder);
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = TempDir::new().expect("a temporary folder");
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a database, but long enough to be taken for the head of one".repeat(20)).expect("a text file");
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).and_then(|other| other.execute_batch("CREATE TABLE theirs (x)")).expect("another database");
    let before = [&text, &foreign].map(|path| std::fs::read(path).expect("readable"));
    for path in [&text, &foreign] {
        let refused = SqliteStore::open(path).expect_err("not a store");
        assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused}");
    }
    assert_eq!([&text, &foreign].map(|path| std::fs::read(path).expect("readable")), before);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").expect("a file");
    let refused = SqliteStore::open(file.join("store.db")).expect_err("a file stands where the folder should be");
    assert!(matches!(&refused, StoreError::Io { .. }) && refused.to_string().contains("store.db"), "{refused}");
}

#[tokio::test]
async fn a_flipped_byte_in_a_content_is_noticed() {
    let disk = OnDisk::new();
    let (hash, bytes) = content(&[7; 5_000]);
    disk.store.put_content(hash, bytes).await.expect("a content");
    let mut damaged = [7; 5_000];
    damaged[4_321] ^= 1;
    disk.stranger().execute("UPDATE contents SET bytes = ?1", [&damaged[..]]).expect("somebody else's write");
    let refused = disk.store.content(hash).await.expect_err("the bytes are not those of the hash");
    assert!(matches!(&refused, StoreError::Corrupt { what } if what.contains(&hash.to_string())), "{refused}");
}

/// Appends six entries in three batches, applies `damage` to the file, and returns the results of reading.
async fn read_after(damage: &str, is_filed: bool) -> (Result<usize, StoreError>, Result<usize, StoreError>) {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    for expected_seq in [0, 2, 4] {
        disk.store.append(batch(&run, expected_seq, 2)).await.expect("two entries");
    }
    if is_filed {
        append_until_filed(&disk, &run, 6).await;
    }
    disk.stranger().execute_batch(damage).expect("somebody else's write");
    let all = disk.store.entries(&run, 0, 100).await.map(|entries| entries.len());
    let of_task = disk.store.task_entries(&run, &"0".into(), u64::MAX).await.map(|entries| entries.len());
    (all, of_task)
}

#[tokio::test]
async fn a_changed_entry_is_noticed() {
    // The last byte but one, one of the length, the end, and all of it.
    for damage in [
        "unhex(substr(hex(entries), 1, 2 * length(entries) - 4) || '585D')",
        "unhex('FF' || substr(hex(entries), 3))",
        "substr(entries, 1, 40)",
        "x''",
    ] {
        for is_filed in [false, true] {
            let (all, of_task) = read_after(&format!("UPDATE batches SET entries = {damage} WHERE first = 3"), is_filed).await;
            for read in [all, of_task] {
                let named = matches!(&read, Err(StoreError::Corrupt { what }) if what.contains("entries 3 to 4 of run a"));
                assert!(named, "{damage}, {is_filed}: {read:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_missing_entry_is_noticed() {
    for first in [1, 3, 5] {
        let batch = format!("DELETE FROM batches WHERE first = {first}");
        let lacks_batch = format!("run a lacks the entries that end with {}", first + 1);
        let place = format!("DELETE FROM places WHERE task = 0 AND last = {}", first + 1);
        let lacks_entry = format!("run a lacks entry {first}");
        for (damage, is_filed, said) in
            [(&batch, false, &lacks_batch), (&batch, true, &lacks_batch), (&place, true, &lacks_entry)]
        {
            let (all, _) = read_after(damage, is_filed).await;
            assert!(matches!(&all, Err(StoreError::Corrupt { what }) if what == said), "{damage}, {is_filed}: {all:?}");
        }
    }
}

#[tokio::test]
async fn a_moved_entry_is_noticed() {
    for (damage, is_filed) in [
        ("UPDATE batches SET first = 9 WHERE first = 3", false),
        ("UPDATE batches SET first = 9 WHERE first = 3", true),
        ("DELETE FROM batches WHERE first = 5; UPDATE batches SET first = 5 WHERE first = 3", false),
        ("DELETE FROM batches WHERE first = 5; UPDATE batches SET first = 5 WHERE first = 3", true),
        ("UPDATE runs SET recent = '[[],[]]'", false),
        ("UPDATE runs SET recent = '[]'", false),
        ("UPDATE runs SET recent = replace(recent, '[4,2,', '[4,3,')", false),
        ("UPDATE places SET batch = (SELECT batch FROM batches WHERE first = 5) WHERE last = 4", true),
        ("UPDATE places SET batch = (SELECT batch FROM batches WHERE first = 1) WHERE last = 4", true),
        ("UPDATE places SET last = 5 WHERE last = 4", true),
    ] {
        let (all, of_task) = read_after(damage, is_filed).await;
        assert!(matches!(all, Err(StoreError::Corrupt { .. })), "{damage}: {all:?}");
        assert!(matches!(of_task, Err(StoreError::Corrupt { .. })), "{damage}: {of_task:?}");
    }
}

#[tokio::test]
async fn a_timeline_written_anew_from_some_entry_on_is_noticed() {
    // Somebody replaces a row by one that is whole in itself: only what follows it can tell.
    let disk = OnDisk::new();
    let (run, twin) = (owned_run(&disk.store, "a").await, OnDisk::new());
    owned_run(&twin.store, "a").await;
    for expected_seq in [0, 2, 4] {
        disk.store.append(batch(&run, expected_seq, 2)).await.expect("two entries");
        let mut other = batch(&run, expected_seq, 2);
        other.entries[0] = entry(expected_seq + 1, "0", "another fact");
        twin.store.append(other).await.expect("two other entries");
    }
    let other = twin.store.path().display().to_string();
    for last in [2, 4, 6] {
        let columns = "(checksum, link, entries) = (SELECT checksum, link, entries FROM other.batches AS theirs WHERE theirs.batch = batches.batch)";
        disk.stranger()
            .execute_batch(&format!("ATTACH '{other}' AS other; UPDATE batches SET {columns} WHERE first = {}", last - 1))
            .expect("somebody else's write");
        let read = disk.store.entries(&run, 0, 100).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{last}: {read:?}");
    }
}

#[tokio::test]
async fn batches_are_read_the_same_before_and_after_they_get_places() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    let tasks = ["0", "0/1.1", "0/1.2"];
    let count = |query: &str| disk.stranger().query_row(query, [], |row| row.get::<_, i64>(0)).expect("a number");
    for step in 0..40_u64 {
        let seq = 2 * step + 1;
        let entries = vec![entry(seq, tasks[step as usize % 3], "one"), entry(seq + 1, "0", "another")];
        disk.store.append(Batch { entries, ..batch(&run, seq - 1, 0) }).await.expect("two entries");
        assert_eq!(sequence(&disk.store, &run).await, (1..=seq + 1).collect::<Vec<_>>());
        for (position, task) in tasks.iter().enumerate() {
            let of_task = disk.store.task_entries(&run, &(*task).into(), u64::MAX).await.expect("readable").len() as u64;
            let own = (step + 3 - position as u64) / 3;
            assert_eq!(of_task, if position == 0 { own + step + 1 } else { own }, "{task} after step {step}");
        }
        let past = ForkPoint { run: run.clone(), seq: seq / 2 + 1 };
        let fork = NewRun { past: Some(past), ..new_run(&format!("fork {step}"), 1) };
        disk.store.create(fork).await.expect("a run that begins with a part of the other");
    }
    let late = Batch { entries: vec![entry(81, "0/2.1", "late")], ..batch(&run, 80, 0) };
    disk.store.append(late).await.expect("one entry of a new task");
    for (task, expected) in [("0/2.1", 1), ("0/9.9", 0)] {
        assert_eq!(disk.store.task_entries(&run, &task.into(), u64::MAX).await.expect("readable").len(), expected, "{task}");
    }
    assert!(count("SELECT count(*) FROM places WHERE task = 0") > 0);
    assert!(count("SELECT json_array_length(recent, '$[1]') FROM runs WHERE id = 'a'") > 0);
    assert_eq!(disk.store.verify().await.expect("readable").findings, Vec::<String>::new());
}

#[tokio::test]
async fn damaged_index_tables_are_reported() {
    for (damage, noticed_by) in [
        ("DELETE FROM places WHERE task NOT IN (0, 1) AND last = 4", "task"),
        ("DELETE FROM places WHERE task NOT IN (0, 1)", "task"),
        ("DELETE FROM places WHERE task = 1", "task"),
        ("DELETE FROM places WHERE task <> 0", "task"),
        ("DELETE FROM batches WHERE first = 3", "task"),
        ("DELETE FROM runs WHERE id = 'b'", "runs"),
        ("UPDATE runs SET status = 'completed' WHERE id = 'a'", "runs"),
        ("DELETE FROM runs WHERE id = 'b'", "run"),
        ("UPDATE runs SET id = 'c' WHERE id = 'b'", "runs"),
        ("UPDATE totals SET runs = 1", "runs"),
        ("DELETE FROM logged WHERE nth = 2", "recall"),
        ("DELETE FROM logged WHERE nth = 1", "recall"),
        ("DELETE FROM logged", "recall"),
        ("UPDATE logged SET input = '2' WHERE nth = 1", "recall"),
        ("UPDATE logged SET at = at + 1 WHERE nth = 2", "recall"),
        ("DELETE FROM memories", "recall"),
        ("DELETE FROM memories; DELETE FROM logged", "recall"),
        ("DELETE FROM commands WHERE command = 1", "commands"),
        ("UPDATE commands SET body = '7' WHERE command = 2", "commands"),
        ("UPDATE commands SET command = 3 WHERE command = 2", "commands"),
    ] {
        let disk = OnDisk::new();
        let (run, other) = (owned_run(&disk.store, "a").await, owned_run(&disk.store, "b").await);
        for expected_seq in [0, 2, 4] {
            let logged = (expected_seq < 4).then(|| logged("analyst", "save", "kept"));
            let written = Batch { logged: logged.into_iter().collect(), ..batch(&run, expected_seq, 2) };
            disk.store.append(written).await.expect("two entries");
        }
        append_until_filed(&disk, &run, 6).await;
        for _ in 0..2 {
            disk.store.put_command(&run, Json::null()).await.expect("the run is there");
        }
        disk.stranger()
            .execute_batch(&format!("PRAGMA foreign_keys = OFF; {damage}"))
            .unwrap_or_else(|error| panic!("{damage}: {error}"));
        let said = match noticed_by {
            "task" => disk.store.task_entries(&run, &"0".into(), u64::MAX).await.map(drop),
            "runs" => disk.store.runs().await.map(drop),
            "run" => disk.store.run(&other).await.map(drop),
            "recall" => disk.store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new("save"), 9).await.map(drop),
            _ => disk.store.take_commands(&run, 0).await.map(drop),
        };
        assert!(matches!(said, Err(StoreError::Corrupt { .. })), "{damage}: {said:?}");
    }
}

#[tokio::test]
async fn the_largest_number_of_logged_calls_stops_no_other_write() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    let logging = |seq| Batch { logged: vec![logged("analyst", "save", "kept")], ..batch(&run, seq, 2) };
    disk.store.append(logging(0)).await.expect("two entries");
    disk.stranger().execute_batch(&format!("UPDATE memories SET calls = {}", i64::MAX)).expect("somebody else's write");
    disk.store.append(logging(2)).await.expect("the number is not used yet");
    disk.store.append(logging(4)).await.expect_err("no number is left");
    disk.store.append(batch(&run, 4, 2)).await.expect("a batch that logs nothing");
}

#[tokio::test]
async fn a_write_is_in_the_file_when_it_returns() {
    let disk = OnDisk::new();
    let path = disk.store.path().to_owned();
    disk.store.create(new_run("a", 1)).await.expect("a new run");
    let copy = disk.folder.path().join("copy.db");
    for suffix in ["", "-wal"] {
        std::fs::copy(format!("{}{suffix}", path.display()), format!("{}{suffix}", copy.display())).expect("a copy of the file");
    }
    let copied = SqliteStore::open(&copy).expect("what a crash would have left");
    assert!(copied.run(&run_id("a")).await.expect("readable").is_some());
}
