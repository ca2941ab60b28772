//! A database as the source or the target of a copy.

use std::error::Error;
use std::fmt::Write as _;
use std::pin::pin;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use rusqlite::types::Value;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row};

use super::value::{Parameter, values};
use super::{PostgresStore, breadcrumbs, read, verify};
use crate::copy::{Column, Ends, Message, Page, Receiver, Sender, Table, check_copy, check_source};
use crate::{StoreError, Verification, failpoint};

/// The columns that the database numbers by itself.
const NUMBERED: [(&str, &str); 4] =
    [("runs", "run"), ("logged", "logged"), ("breadcrumbs", "breadcrumb"), ("breadcrumb_triggers", "trigger")];

#[async_trait]
impl Ends for PostgresStore {
    fn name(&self) -> String {
        self.address()
    }

    async fn send(&self, to: Sender) -> Result<Verification, StoreError> {
        self.pool
            .transaction_once(async |client| {
                let found = verify::at_one_moment(&client).await?;
                check_source(&found)?;
                send(&client, &to).await?;
                Ok(found)
            })
            .await
    }

    async fn receive(&self, mut from: Receiver) -> Result<Verification, StoreError> {
        let copied = self
            .pool
            .transaction_once(async |client| {
                check_empty(&client, self).await?;
                let copied = receive(&client, &mut from).await?;
                failpoint::pass("store.copy.before");
                Ok(copied)
            })
            .await?;
        failpoint::pass("store.copy.after");
        Ok(copied)
    }
}

/// See [`Ends::send`].
async fn send(client: &Client, to: &Sender) -> Result<(), StoreError> {
    let begin =
        "SELECT f.secret, CASE WHEN c.is_called THEN c.last_value ELSE 0 END FROM baton.format f, baton.command_numbers c";
    let begin = client.query_typed_one(begin, &[]).await?;
    to.send(Message::Begin { secret: *read::link(&begin, 0)?.as_bytes(), commands: begin.try_get(1)? }).await?;
    for table in Table::ALL {
        let query = &table.query(&format!("baton.{}", table.name()));
        let mut rows = pin!(client.query_typed_raw(query, Vec::<(i64, Type)>::new()).await?);
        let mut page = Page::new(table);
        while let Some(row) = rows.try_next().await? {
            if let Some(full) = page.add(values_of(table, &row)?) {
                to.send(full).await?;
            }
        }
        to.send(page.take()).await?;
    }
    Ok(())
}

/// Returns the values of a row as SQLite has them.
fn values_of(table: Table, row: &Row) -> Result<Vec<Value>, StoreError> {
    let columns = table.parts().1.iter().enumerate().map(|(index, column)| {
        Ok(match column {
            Column::Int(_) => row.try_get::<_, Option<i64>>(index)?.into(),
            Column::Text(_) => row.try_get::<_, Option<String>>(index)?.into(),
            Column::Bytes(_) => row.try_get::<_, Option<Vec<u8>>>(index)?.into(),
            Column::Bool(_) => row.try_get::<_, Option<bool>>(index)?.into(),
        })
    });
    columns.collect()
}

/// Keeps all writers away until the end of the transaction, and refuses a database with rows.
async fn check_empty(client: &Client, store: &PostgresStore) -> Result<(), StoreError> {
    let names: Vec<String> = Table::ALL.iter().map(|table| format!("baton.{}", table.name())).collect();
    client.batch_execute(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", names.join(", "))).await?;
    for name in names {
        if client.query_typed_opt(&format!("SELECT 1 FROM {name} LIMIT 1"), &[]).await?.is_some() {
            return Err(StoreError::NotEmpty { store: store.address() });
        }
    }
    Ok(())
}

/// Writes all rows, and verifies them.
async fn receive(client: &Client, from: &mut Receiver) -> Result<Verification, StoreError> {
    loop {
        match from.next().await? {
            Message::Begin { secret, commands } => {
                client.execute_typed("UPDATE baton.format SET secret = $1", values![&secret[..]]).await?;
                let number = "SELECT setval('baton.command_numbers', greatest($1, 1), $1 > 0)";
                client.query_typed(number, values![commands]).await?;
            }
            Message::Rows(table, rows) => write(client, table, rows).await?,
            Message::End(source) => {
                for (table, column) in NUMBERED {
                    let sequence = format!("pg_get_serial_sequence('baton.{table}', '{column}')");
                    let newest = format!("greatest(max({column}), 1), max({column}) IS NOT NULL");
                    client.query_typed(&format!("SELECT setval({sequence}, {newest}) FROM baton.{table}"), &[]).await?;
                }
                breadcrumbs::finish_copy(client).await?;
                let copied = verify::everything(client).await?;
                return check_copy(&source, &copied).map(|()| copied);
            }
        }
    }
}

/// Writes rows with one statement.
async fn write(client: &Client, table: Table, mut rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    for row in &mut rows {
        breadcrumbs::adapt_copied(table, row);
    }
    let columns = table.parts().1;
    let mut insert = format!("INSERT INTO baton.{} ({}) OVERRIDING SYSTEM VALUE VALUES ", table.name(), table.column_names());
    for row in 0..rows.len() {
        for column in 0..columns.len() {
            let before = match (row, column) {
                (0, 0) => "(",
                (_, 0) => "), (",
                _ => ", ",
            };
            let _infallible = write!(insert, "{before}${}", row * columns.len() + column + 1);
        }
    }
    insert.push(')');
    let cells: Vec<(Cell, Type)> = rows
        .into_iter()
        .flat_map(|row| row.into_iter().zip(columns))
        .map(|(value, column)| {
            let of = match column {
                Column::Int(_) => Type::INT8,
                Column::Text(_) => Type::TEXT,
                Column::Bytes(_) => Type::BYTEA,
                Column::Bool(_) => Type::BOOL,
            };
            (Cell(value), of)
        })
        .collect();
    let parameters: Vec<Parameter<'_>> = cells.iter().map(|(cell, of)| (cell as &(dyn ToSql + Sync), of.clone())).collect();
    client.execute_typed(&insert, &parameters).await?;
    Ok(())
}

/// A value of any type.
#[derive(Debug)]
struct Cell(Value);

impl ToSql for Cell {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) if *of == Type::BOOL => (*number != 0).to_sql(of, out),
            Value::Integer(number) => number.to_sql(of, out),
            Value::Text(text) => text.to_sql(of, out),
            Value::Blob(bytes) => bytes.to_sql(of, out),
            Value::Real(_) => Err("no table has a number with a fraction".into()),
        }
    }

    fn accepts(_of: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
