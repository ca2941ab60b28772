//! Files that go while they are used, and owners that go while a child of theirs still holds what they held.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use baton_store::{Retention, SqliteStore, Store, StoreError};

use crate::support::{OnDisk, batch, owned_run};

/// What happens to the files of a store while it is open.
type Damage = fn(&Path);

fn log_of(path: &Path) -> std::path::PathBuf {
    format!("{}-wal", path.display()).into()
}

#[tokio::test]
async fn a_store_whose_files_are_removed_or_replaced_acknowledges_nothing_more() {
    let cases: [(&str, Damage); 5] = [
        ("removed", |path| std::fs::remove_file(path).unwrap()),
        ("renamed", |path| std::fs::rename(path, path.with_extension("old")).unwrap()),
        ("replaced", |path| {
            std::fs::rename(path, path.with_extension("old")).unwrap();
            std::fs::copy(path.with_extension("old"), path).unwrap();
        }),
        ("its folder removed", |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap()),
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
        assert!(matches!(disk.store.put_command(&run, baton_core::json::Json::null()).await, Err(StoreError::Lost { .. })));
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
    disk.store.take_over(&run, &disk.store.owner()).await.unwrap();
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
bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
bell.bind('1-abc.sock')
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
