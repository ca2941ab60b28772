//! Files that go while they are used, and owners that go while a child of theirs still holds what they held.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use baton_store::{Batch, Retention, SqliteStore, Store, StoreError};

use crate::support::{OnDisk, batch, entry, owned_run};

/// Damage to the files of a store while it is open.
type Damage = fn(&Path);

fn log_of(path: &Path) -> std::path::PathBuf {
    format!("{}-wal", path.display()).into()
}

#[tokio::test]
async fn a_store_whose_files_are_removed_or_replaced_acknowledges_nothing_more() {
    let cases: [(&str, Damage); 6] = [
        ("removed", |path| std::fs::remove_file(path).unwrap()),
        ("renamed", |path| std::fs::rename(path, path.with_extension("old")).unwrap()),
        ("replaced", |path| {
            std::fs::rename(path, path.with_extension("old")).unwrap();
            std::fs::copy(path.with_extension("old"), path).unwrap();
        }),
        ("its folder removed", |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap()),
        ("cut short", |path| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
        }),
        ("its log removed", |path| std::fs::remove_file(log_of(path)).unwrap()),
    ];
    for (what, damage) in cases {
        let disk = OnDisk::new();
        let run = owned_run(&disk.store, "a").await;
        disk.store.append(batch(&run, 0, 2)).await.unwrap();
        damage(disk.store.path());
        for _ in 0..2 {
            let refused = disk.store.append(batch(&run, 2, 1)).await;
            assert!(matches!(refused, Err(StoreError::Lost { .. })), "{what}: {refused:?}");
        }
        assert!(matches!(disk.store.put_command(&run, baton_types::json::Json::null()).await, Err(StoreError::Lost { .. })));
    }
}

#[tokio::test]
async fn a_log_whose_file_was_moved_away_is_not_lost_to_a_new_store() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    disk.store.append(batch(&run, 0, 2)).await.unwrap();
    let path = disk.store.path().to_owned();
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    let refused = disk.store.append(batch(&run, 2, 1)).await.unwrap_err();
    assert!(refused.to_string().contains("move it back together with its -wal and -shm"), "{refused}");
    drop(disk.store);
    for is_empty in [false, true] {
        if is_empty {
            std::fs::write(&path, "").unwrap();
            let refused = SqliteStore::open_to_read(&path).unwrap_err();
            assert!(matches!(refused, StoreError::OrphanedLog { .. }), "{refused}");
        }
        let refused = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(refused, StoreError::OrphanedLog { .. }), "{refused}");
        assert_eq!(path.exists(), is_empty, "a refusal makes nothing");
    }
    std::fs::rename(&away, &path).unwrap();
    let again = SqliteStore::open(&path).unwrap();
    assert!(again.run(&run).await.unwrap().unwrap().last_seq >= 2);
    assert!(again.verify().await.unwrap().findings.is_empty());
}

/// Removing most of what a store holds makes its file smaller: no opening takes that for damage.
#[tokio::test]
async fn a_file_that_shrinks_because_runs_were_removed_is_not_lost() {
    let disk = OnDisk::new();
    let other = SqliteStore::open(disk.store.path()).unwrap();
    let kept = owned_run(&disk.store, "kept").await;
    let size = || std::fs::metadata(disk.store.path()).unwrap().len();
    for round in 0..2_u64 {
        let large = owned_run(&other, &format!("large-{round}")).await;
        let long = entry(1, "t0", &"x".repeat(4 << 20));
        other.append(Batch { entries: vec![long], ..batch(&large, 0, 1) }).await.unwrap();
        disk.stranger().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        disk.store.append(batch(&kept, round * 2, 1)).await.unwrap();
        let before = size();
        let retention = Retention { named: vec![large], ..Retention::default() };
        let collected = disk.store.collect(retention, false).await.unwrap();
        assert!(collected.shrunk);
        // The log is written back in full once no opening reads the file as it was before.
        disk.stranger().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        assert!(size() < before, "{before} → {}", size());
        disk.store.append(batch(&kept, round * 2 + 1, 1)).await.unwrap();
    }
}

#[tokio::test]
async fn another_process_that_comes_and_goes_takes_no_file_away() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    for after in 0..3 {
        disk.store.append(batch(&run, after, 1)).await.unwrap();
        let other = SqliteStore::open(disk.store.path()).unwrap();
        other.verify().await.unwrap();
        other.collect(Retention::default(), false).await.unwrap();
        drop(other);
    }
    assert_eq!(disk.store.run(&run).await.unwrap().unwrap().last_seq, 3);
}

#[tokio::test]
async fn a_run_that_a_living_process_holds_is_not_removed() {
    let disk = OnDisk::new();
    let run = owned_run(&disk.store, "a").await;
    disk.store.take_over(&run, &disk.store.owner(), 1).await.unwrap();
    let other = SqliteStore::open(disk.store.path()).unwrap();
    let named = || Retention { named: vec![run.clone()], ..Retention::default() };
    for dry_run in [true, false] {
        let refused = other.collect(named(), dry_run).await;
        assert!(matches!(&refused, Err(StoreError::Held { owner, .. }) if *owner == disk.store.owner()), "{refused:?}");
    }
    assert!(other.run(&run).await.unwrap().is_some());
    drop(disk.store);
    assert_eq!(other.collect(named(), false).await.unwrap().runs, [run]);
}

/// An owner as others see one, with a child that was forked and has executed nothing yet: it has every open file.
const OWNER: &str = "
import fcntl, os, socket, sys
os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])
life = open('1-abc.life', 'w')
fcntl.lockf(life, fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind('1-abc.sock')
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print('owns', flush=True)
sys.stdin.read()
";

#[tokio::test]
async fn an_owner_that_is_killed_is_gone_at_once_though_a_child_has_its_files() {
    let disk = OnDisk::new();
    let owners = format!("{}-owners", disk.store.path().display());
    let mut command = Command::new("python3");
    command.args(["-c", OWNER, &owners]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut owner = command.spawn().unwrap();
    let child_ends = owner.stdin.take().unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "owns\n");
    assert_eq!(disk.store.is_there("process 1-abc"), Some(true));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(disk.store.is_there("process 1-abc"), Some(false));
    assert_eq!(std::fs::read_dir(&owners).unwrap().count(), 0, "nothing is left of it");
    assert_eq!(disk.store.is_there("process 1-abc"), Some(false));
    drop(child_ends);
}
