//! A file as the source or the target of a copy.

use async_trait::async_trait;
use baton_types::id::{AgentId, CallId, ContentHash, JobId, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Transaction, TransactionBehavior, params};

use super::packed::{pack, unpack};
use super::perform::{insert_command, insert_logged};
use super::recent::{Place, Recent};
use super::records::{RunRow, Totals};
use super::{SqliteStore, breadcrumbs, named, notifier, schema, to_sql, verify};
use crate::copy::{Ends, Message, Page, Receiver, Sender, Table, Values, check_copy, check_source};
use crate::rows::{HEADS, WHOLE_RUN};
use crate::{LoggedCall, StoreError, Verification, failpoint};

#[async_trait]
impl Ends for SqliteStore {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    async fn send(&self, to: Sender) -> Result<Verification, StoreError> {
        self.readers.read(move |file| send(file, &to)).await
    }

    async fn receive(&self, mut from: Receiver) -> Result<Verification, StoreError> {
        self.writer()?;
        let path = self.path.clone();
        let receiving = tokio::task::spawn_blocking(move || {
            let mut file = schema::open_for_writing(&path)?;
            let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if !is_empty(&transaction)? {
                return Err(StoreError::NotEmpty { store: path.display().to_string() });
            }
            let copied = receive(&transaction, &mut from)?;
            failpoint::pass("store.copy.before");
            transaction.commit()?;
            failpoint::pass("store.copy.after");
            Ok(copied)
        });
        receiving.await.map_err(|_| StoreError::Closed)?.map_err(|error| named(&self.path, error))
    }
}

/// Returns the rows of a table, as part of a query. Entries and places of the latest batches of runs come from [`send_recent`].
const fn rows_of(table: Table) -> &'static str {
    match table {
        Table::Waiting => "runs WHERE wakes IS NOT NULL",
        // From the places, which have the order and the last entry of each row.
        Table::Entries => {
            "(SELECT p.run, first, last, b.checksum, link, entries FROM places AS p CROSS JOIN batches AS b USING (batch) WHERE task = 0)"
        }
        Table::Places => "places WHERE task NOT IN (0, 1)",
        _ => table.name(),
    }
}

/// See [`Ends::send`].
fn send(file: &Transaction<'_>, to: &Sender) -> Result<Verification, StoreError> {
    let found = verify::verify(file);
    check_source(&found)?;
    let Totals { secret, commands, .. } = Totals::load(file)?;
    to.send_blocking(Message::Begin { secret, commands: to_sql(commands) })?;
    for table in Table::ALL {
        let columns = table.parts().1.len();
        let mut page = Page::new(table);
        let mut statement = file.prepare(&table.query(rows_of(table)))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut row = (0..columns).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>()?;
            if table == Table::Entries
                && let Some(entries) = row.last_mut()
            {
                *entries = unpacked(entries)?;
            }
            page.add(row).map_or(Ok(()), |full| to.send_blocking(full))?;
        }
        if matches!(table, Table::Entries | Table::Places) {
            send_recent(file, table, |row| page.add(row).map_or(Ok(()), |full| to.send_blocking(full)))?;
        }
        to.send_blocking(page.take())?;
    }
    Ok(found)
}

/// Gives the rows of `table`, which are entries or places, to `send` that are of batches without places in the tree.
fn send_recent(
    file: &Transaction<'_>,
    table: Table,
    mut send: impl FnMut(Vec<Value>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut batch_of = file.prepare("SELECT first, checksum, link, entries FROM batches WHERE batch = ?1")?;
    for run in RunRow::all(file)? {
        for Place(last, batch, tasks) in run.recent.of(&run.id)? {
            let (run, last) = (Value::Integer(run.number), Value::Integer(to_sql(last)));
            if table == Table::Places {
                tasks.into_iter().try_for_each(|task| send(vec![run.clone(), Value::Integer(task), last.clone()]))?;
            } else {
                let [first, checksum, link, entries]: [Value; 4] =
                    batch_of.query_row([batch], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
                send(vec![run, first, last, checksum, link, unpacked(&entries)?])?;
            }
        }
    }
    Ok(())
}

/// Returns the text of a row of entries.
fn unpacked(entries: &Value) -> Result<Value, StoreError> {
    unpack(entries.into()).map(Value::Text).map_err(|what| StoreError::Corrupt { what })
}

/// Whether the file has no rows of any table.
fn is_empty(file: &Transaction<'_>) -> Result<bool, StoreError> {
    for table in Table::ALL {
        if file.prepare(&format!("SELECT 1 FROM {}", rows_of(table)))?.exists([])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes all rows, and verifies them.
fn receive(file: &Transaction<'_>, from: &mut Receiver) -> Result<Verification, StoreError> {
    loop {
        match from.next_blocking()? {
            Message::Begin { secret, commands } => {
                Totals { secret, commands: commands as u64, ..Totals::default() }.save(file)?;
            }
            Message::Rows(table, rows) => {
                rows.into_iter().try_for_each(|row| write(file, table, Values::of(row)))?;
            }
            Message::End(source) => {
                finish(file)?;
                let copied = verify::verify(file);
                return check_copy(&source, &copied).map(|()| copied);
            }
        }
    }
}

/// Writes a row. The order of the values is that of [`Table::parts`].
fn write(file: &Transaction<'_>, table: Table, mut row: Values) -> Result<(), StoreError> {
    match table {
        Table::Runs => {
            let number = row.next()?;
            let mut run = RunRow {
                number,
                id: RunId::new(row.next::<String>()?),
                job: JobId::new(row.next::<String>()?),
                created: row.next()?,
                past: row.next()?,
                past_seq: row.next::<i64>()? as u64,
                status: row.next()?,
                updated: row.next()?,
                last_seq: row.next::<i64>()? as u64,
                epoch: row.next::<i64>()? as u64,
                owner: row.next::<Option<String>>()?.map(|owner| notifier::dead_owner(&owner)),
                link: ContentHash::from_bytes(row.next()?),
                wakes: None,
                commands: 0,
                tasks: 0,
                recent: Recent::default(),
            };
            run.insert_as(file, number).map(drop)
        }
        Table::Waiting => {
            let mut run = RunRow::load(file, row.next()?)?;
            run.wakes = row.next()?;
            run.save(file)
        }
        Table::Entries => {
            let (run, first, last): (i64, i64, i64) = (row.next()?, row.next()?, row.next()?);
            let (checksum, link, entries): (i64, Vec<u8>, String) = (row.next()?, row.next()?, row.next()?);
            let batch = file
                .prepare_cached("INSERT INTO batches (run, first, checksum, link, entries) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .insert(params![run, first, checksum, link, pack(&entries)?])?;
            file.prepare_cached("INSERT INTO places (run, task, last, batch) VALUES (?1, ?2, ?3, ?4)")?
                .execute([run, WHOLE_RUN, last, batch])?;
            Ok(())
        }
        Table::Places => {
            let place = "INSERT INTO places SELECT run, ?2, last, batch FROM places WHERE run = ?1 AND task = ?4 AND last = ?3";
            let place = &mut file.prepare_cached(place)?;
            place.execute(params![row.next::<i64>()?, row.next::<i64>()?, row.next::<i64>()?, WHOLE_RUN])?;
            Ok(())
        }
        Table::Contents => {
            file.prepare_cached("INSERT INTO contents (hash, bytes) VALUES (?1, ?2)")?
                .execute([row.next::<Value>()?, row.next::<Value>()?])?;
            Ok(())
        }
        Table::Logged => {
            let _order: i64 = row.next()?;
            let (memory, agent) = (MemoryId::new(row.next::<String>()?), AgentId::new(row.next::<String>()?));
            let (tool, run) = (ToolId::new(row.next::<String>()?), RunId::new(row.next::<String>()?));
            let (task, call) = (TaskId::new(row.next::<String>()?), CallId::new(row.next::<String>()?));
            let at = Timestamp::from_micros(row.next()?);
            let input = Json::stored(&row.next::<String>()?)
                .map_err(|error| StoreError::Corrupt { what: format!("a logged call of run {run}: {error}") })?;
            insert_logged(file, &run, &LoggedCall { memory, agent, tool, task, call, at, input })
        }
        Table::Commands => {
            let mut run = RunRow::load(file, row.next()?)?;
            insert_command(file, &mut run, row.next::<i64>()? as u64, &row.next::<String>()?)?;
            run.save(file)
        }
        Table::Breadcrumbs
        | Table::BreadcrumbVersions
        | Table::BreadcrumbKeys
        | Table::BreadcrumbTicks
        | Table::BreadcrumbVectors
        | Table::BreadcrumbTriggers => breadcrumbs::write_copied(file, table, row),
    }
}

/// Writes what SQLite derives from other rows: the numbers of places, tasks and runs, and by what records are found.
fn finish(file: &Transaction<'_>) -> Result<(), StoreError> {
    file.execute(
        "INSERT INTO places SELECT run, ?1, task, count(*) FROM places WHERE task <> ?2 GROUP BY run, task",
        [HEADS, WHOLE_RUN],
    )?;
    let mut totals = Totals::load(file)?;
    totals.runs = file.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0))? as u64;
    totals.save(file)?;
    let mut tasks = file.prepare("SELECT count(*) FROM places WHERE run = ?1 AND task = ?2")?;
    for mut run in RunRow::all(file)? {
        run.tasks = tasks.query_row([run.number, HEADS], |row| row.get::<_, i64>(0))? as u64;
        run.save(file)?;
    }
    breadcrumbs::finish_copy(file)
}
