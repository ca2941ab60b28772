//! Durable entries of the floor: a log with group commit, or one `SQLite` commit per entry.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::Kept;

/// An entry's line, and where to say that it is durable.
type Line = (Vec<u8>, oneshot::Sender<()>);

/// A thread that writes.
pub(crate) struct Disk {
    lines: mpsc::UnboundedSender<Line>,
    _folder: tempfile::TempDir,
}

impl Disk {
    /// Returns the disk of a durable job; `None` for one in memory.
    pub(crate) fn open(kept: Kept) -> anyhow::Result<Option<Self>> {
        if kept == Kept::Memory {
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let (lines, waiting) = mpsc::unbounded_channel();
        match kept {
            Kept::Memory => return Ok(None),
            Kept::Log => {
                let file = File::create_new(folder.path().join("entries.log"))?;
                std::thread::spawn(move || log(file, waiting).expect("the disk takes what is written"));
            }
            Kept::Sqlite => {
                let file = database(&folder.path().join("entries.db"))?;
                std::thread::spawn(move || rows(&file, waiting).expect("the disk takes what is written"));
            }
        }
        Ok(Some(Self { lines, _folder: folder }))
    }

    /// Writes an entry; returns when it is durable.
    pub(crate) async fn write(&self, line: Vec<u8>) -> anyhow::Result<()> {
        let (durable, done) = oneshot::channel();
        self.lines.send((line, durable)).ok().context("the disk's thread has ended")?;
        done.await.context("the disk's thread has ended")
    }
}

/// Writes all that waits and flushes it with one `fdatasync`.
fn log(mut file: File, mut waiting: mpsc::UnboundedReceiver<Line>) -> std::io::Result<()> {
    let mut group = Vec::new();
    let mut durable = Vec::new();
    while let Some(first) = waiting.blocking_recv() {
        let rest = std::iter::from_fn(|| waiting.try_recv().ok());
        for (line, done) in std::iter::once(first).chain(rest) {
            group.extend_from_slice(&line);
            group.push(b'\n');
            durable.push(done);
        }
        file.write_all(&group)?;
        file.sync_data()?;
        group.clear();
        notify(durable.drain(..));
    }
    Ok(())
}

fn database(path: &Path) -> rusqlite::Result<Connection> {
    let file = Connection::open(path)?;
    file.pragma_update(None, "journal_mode", "WAL")?;
    file.pragma_update(None, "synchronous", "FULL")?;
    file.execute_batch("CREATE TABLE entries (number INTEGER PRIMARY KEY, entry BLOB NOT NULL) STRICT")?;
    Ok(file)
}

/// Commits every entry by itself.
fn rows(file: &Connection, mut waiting: mpsc::UnboundedReceiver<Line>) -> rusqlite::Result<()> {
    let mut insert = file.prepare("INSERT INTO entries (entry) VALUES (?1)")?;
    while let Some((line, done)) = waiting.blocking_recv() {
        insert.execute([line])?;
        notify([done]);
    }
    Ok(())
}

/// Notifies the waiting callers. A caller that is gone is skipped.
fn notify(durable: impl IntoIterator<Item = oneshot::Sender<()>>) {
    for done in durable {
        let _gone = done.send(());
    }
}
