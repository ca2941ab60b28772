//! The file's format: its tables and its version.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::records::Totals;
use super::{layout, log_of, named};
use crate::{StoreError, failpoint};

/// Marks a SQLite file as a store of Baton (`PRAGMA application_id`): "Batn".
const APPLICATION_ID: i32 = 0x4261_746e;

/// Longest wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The format that this program reads and writes (`PRAGMA user_version`); an empty file has format 0.
pub const FORMAT_VERSION: u32 = 17;

/// The tables of breadcrumbs.
pub(super) const BREADCRUMB_TABLES: &str = include_str!("breadcrumbs.sql");

/// All tables.
pub(super) const TABLES: [&str; 2] = [include_str!("schema.sql"), BREADCRUMB_TABLES];

/// Returns the connection that writes: makes the file if there is none.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, StoreError> {
    let named = |error: rusqlite::Error| named(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(named)?;
    // Asked first, and of whatever file this is: nothing may be written to one that is not ours.
    distrust_schema(&connection).map_err(named)?;
    is_store(path, &connection)?;
    switch_to_wal(&connection).map_err(named)?;
    // The log is synced at every commit (and the folder with it, the first time), so what is answered is durable. NORMAL
    // would sync at checkpoints only: nothing would be torn, but the last commits could be missing after a loss of power.
    // <https://sqlite.org/pragma.html#pragma_synchronous>; `cargo xtask faults` tries it.
    connection.pragma_update(None, "synchronous", "FULL").map_err(named)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(named)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(named)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(named)?;
    keep_plans(&connection).map_err(named)?;
    connection.set_prepared_statement_cache_capacity(32);
    lay_out(path, &mut connection)?;
    Ok(connection)
}

/// Returns a connection that reads a file that a writer has opened before.
///
/// SQLite writes to the folder of a file with a log even to read it. Where it cannot (a snapshot, a backup, another
/// user's file), the file is read as it is, as long as no commits wait in the log.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    // Not read-only: the last connection to leave tidies up, and one that came after a crash has to recover.
    let found = connect_to_read(path.as_os_str(), OpenFlags::SQLITE_OPEN_READ_WRITE);
    let Err(error) = found else { return found.map_err(|error| named(path, error)) };
    let cannot_write = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure)
    );
    if !cannot_write || std::fs::File::open(path).is_err() {
        return Err(named(path, error));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    if std::fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0) {
        // Possible only where the index of the log is there too.
        return connect_to_read(&address(path, "mode=ro"), flags)
            .map_err(|_| StoreError::UnreadableLog { path: path.to_owned() });
    }
    connect_to_read(&address(path, "immutable=1"), flags).map_err(|error| named(path, error))
}

fn connect_to_read(file: &OsStr, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    distrust_schema(&connection)?;
    keep_plans(&connection)?;
    // Only a query shows whether the file can be read.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Returns the file as an address with a parameter, as SQLite reads it.
fn address(path: &Path, parameter: &str) -> OsString {
    let mut address = String::from("file:");
    for byte in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => address.push(char::from(*byte)),
            other => {
                let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
                address.extend(['%', digit(other >> 4), digit(other & 15)]);
            }
        }
    }
    OsString::from(format!("{address}?{parameter}"))
}

/// Keeps a statement's plan for all bound values. Otherwise SQLite compiles a statement that compares with a bound value
/// again each time, in case another plan is better for that value.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Turns off whatever a file's schema could do: it may have been sent. No view and no trigger is executed, and no statement
/// can change the schema except the ordinary ones.
fn distrust_schema(connection: &Connection) -> rusqlite::Result<()> {
    let settings = [
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    ];
    settings.into_iter().try_for_each(|(setting, value)| connection.set_db_config(setting, value).map(drop))
}

/// Whether the file is a store; false if it is empty. Refuses files that are no store, other formats, and stores
/// whose schema differs from the one that this program creates.
pub(super) fn is_store(path: &Path, connection: &Connection) -> Result<bool, StoreError> {
    // One statement, so that another process cannot make the file ours between two of the questions.
    let question = "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
                           NOT EXISTS (SELECT 1 FROM sqlite_schema)";
    let answer = connection.query_row(question, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    match answer.map_err(|error| named(path, error))? {
        (APPLICATION_ID, found, _) if found > FORMAT_VERSION => {
            Err(StoreError::NewerFormat { path: path.to_owned(), found, known: FORMAT_VERSION })
        }
        (APPLICATION_ID, FORMAT_VERSION, _) => layout::check(path, connection).map(|()| true),
        (APPLICATION_ID, found, _) => Err(StoreError::OlderFormat { path: path.to_owned(), found, known: FORMAT_VERSION }),
        (0, 0, true) => Ok(false),
        _ => Err(StoreError::NotAStore { path: path.to_owned() }),
    }
}

/// Makes the tables of an empty file, in one transaction; of two processes that open such a file, one does it.
fn lay_out(path: &Path, connection: &mut Connection) -> Result<(), StoreError> {
    if is_store(path, connection)? {
        return Ok(());
    }
    let named = |error: rusqlite::Error| named(path, error);
    failpoint::pass("store.lay_out.before");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
    if is_store(path, &transaction)? {
        return Ok(());
    }
    TABLES.iter().try_for_each(|tables| transaction.execute_batch(tables)).map_err(named)?;
    Totals::new(&transaction)?.save(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(named)?;
    transaction.pragma_update(None, "user_version", FORMAT_VERSION).map_err(named)?;
    transaction.commit().map_err(named)?;
    failpoint::pass("store.lay_out.after");
    Ok(())
}

/// Turns the write-ahead log on; the file remembers it.
///
/// SQLite does not wait by itself when two connections switch a new file at the same moment, so this does.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let give_up = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}
