//! SQL over tables, in a SQLite database that lives in memory for one query and can only be read.
//!
//! While SQLite compiles a statement, it asks the authorizer about every action of the statement. Actions that are not listed
//! here as safe are refused. A running statement is stopped after a number of steps or seconds, whichever comes first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, ToSql};
use serde_json::{Map, Number, Value};

use super::table::{Cell, Table};

/// Limits of one query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Rows that are handed back.
    pub(super) rows: usize,
    /// Bytes of JSON that the rows may have.
    pub(super) bytes: usize,
    /// Longest time of the statement.
    pub(super) time: Duration,
    /// Largest number of instructions of SQLite's machine.
    pub(super) steps: u64,
}

/// Result of a query.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Map<String, Value>>,
    pub(super) truncated: bool,
}

/// Instructions between two looks at the clock.
const STEPS_PER_LOOK: i32 = 10_000;
/// The most bytes of one value or row that SQL may build from nothing; rows of documents may be longer, and twice theirs fit.
const MAX_VALUE_BYTES: usize = 256 * 1024;
/// The most bytes of a statement.
const MAX_SQL_BYTES: i32 = 100_000;

/// SQL functions that only compute. Chance, the file system, extensions and SQLite's own state are not among them.
#[rustfmt::skip]
const SAFE_FUNCTIONS: &[&str] = &[
    "->", "->>", "abs", "avg", "ceil", "ceiling", "char", "coalesce", "concat", "concat_ws", "count", "cume_dist", "date",
    "datetime", "dense_rank", "exp", "first_value", "floor", "format", "glob", "group_concat", "hex", "if", "ifnull", "iif",
    "instr", "json", "json_array", "json_array_length", "json_error_position", "json_extract", "json_group_array",
    "json_group_object", "json_object", "json_quote", "json_type", "json_valid", "julianday", "lag", "last_value", "lead",
    "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "median", "min", "mod",
    "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "percentile", "pow", "power", "printf", "quote", "rank",
    "replace", "round", "row_number", "rtrim", "sign", "soundex", "sqrt", "strftime", "string_agg", "substr", "substring",
    "sum", "time", "timediff", "total", "trim", "trunc", "typeof", "unhex", "unicode", "unixepoch", "unlikely", "upper",
];

/// A database that holds the loaded tables.
pub(super) struct Database {
    connection: Connection,
    tables: Vec<String>,
    longest_row: usize,
}

impl Database {
    /// Returns an empty database in memory.
    pub(super) fn new() -> Result<Self, String> {
        let connection = Connection::open_in_memory().map_err(|error| error.to_string())?;
        Ok(Self { connection, tables: Vec::new(), longest_row: 0 })
    }

    /// Copies `table` into the database under `name`.
    pub(super) fn load(&mut self, name: &str, table: &Table<'_>) -> Result<(), String> {
        let columns: Vec<String> =
            table.columns.iter().map(|column| format!("{} {}", quoted(&column.name), column.kind.as_sql())).collect();
        let places = vec!["?"; columns.len()].join(",");
        let transaction = self.connection.transaction().map_err(|error| error.to_string())?;
        transaction
            .execute_batch(&format!("CREATE TABLE {} ({})", quoted(name), columns.join(", ")))
            .map_err(|error| error.to_string())?;
        {
            let mut insert = transaction
                .prepare(&format!("INSERT INTO {} VALUES ({places})", quoted(name)))
                .map_err(|error| error.to_string())?;
            table.for_each(|cells| {
                let row = cells.iter().map(Cell::size).sum();
                self.longest_row = self.longest_row.max(row);
                insert.execute(rusqlite::params_from_iter(cells)).map(|_| ()).map_err(|error| error.to_string())
            })?;
        }
        transaction.commit().map_err(|error| error.to_string())?;
        self.tables.push(name.to_owned());
        Ok(())
    }

    /// Runs one reading statement. `is_cancelled` is asked now and then.
    pub(super) fn query(
        mut self,
        sql: &str,
        bounds: Bounds,
        is_cancelled: impl Fn() -> bool + Send + 'static,
    ) -> Result<Answer, String> {
        let refused = Arc::new(Mutex::new(None));
        self.lock_down(Arc::clone(&refused)).map_err(|error| error.to_string())?;
        let stopped = Arc::new(Mutex::new(None));
        self.stop_after(bounds, is_cancelled, Arc::clone(&stopped)).map_err(|error| error.to_string())?;
        read(&self.connection, sql, bounds).map_err(|failure| {
            let said = |slot: &Mutex<Option<String>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            said(&refused).or_else(|| said(&stopped)).unwrap_or(failure)
        })
    }

    /// Lets statements do nothing but read these tables.
    fn lock_down(&mut self, refused: Arc<Mutex<Option<String>>>) -> rusqlite::Result<()> {
        // Big sorts go to a temporary file rather than fill the memory of the whole program.
        self.connection.execute_batch("PRAGMA temp_store = FILE; PRAGMA trusted_schema = OFF; PRAGMA query_only = ON")?;
        let longest = MAX_VALUE_BYTES.max(self.longest_row.saturating_mul(2));
        self.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(longest).unwrap_or(i32::MAX))?;
        self.connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES)?;
        self.connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        self.connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, 200)?;
        self.connection.set_limit(Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50)?;
        self.connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000)?;
        let tables = self.tables.clone();
        self.connection.authorizer(Some(move |context: AuthContext<'_>| match refusal(&context.action, &tables) {
            None => Authorization::Allow,
            Some(reason) => {
                refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
                Authorization::Deny
            }
        }))
    }

    /// Stops a statement that uses more than `bounds`.
    fn stop_after(
        &mut self,
        bounds: Bounds,
        is_cancelled: impl Fn() -> bool + Send + 'static,
        stopped: Arc<Mutex<Option<String>>>,
    ) -> rusqlite::Result<()> {
        let begin = Instant::now();
        let mut steps = 0_u64;
        let look = move || {
            steps += u64::from(STEPS_PER_LOOK.unsigned_abs());
            let reason = if is_cancelled() {
                "the call was cancelled".to_owned()
            } else if begin.elapsed() > bounds.time {
                format!("the query ran longer than {} seconds and was stopped", bounds.time.as_secs_f64())
            } else if steps > bounds.steps {
                format!("the query took more than {} steps and was stopped", bounds.steps)
            } else {
                return false;
            };
            *stopped.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(format!("{reason}; ask for less, or join on a condition"));
            true
        };
        self.connection.progress_handler(STEPS_PER_LOOK, Some(look))
    }
}

/// Prefixes of the names of SQLite's own virtual tables.
const INTERNAL_TABLES: [&str; 7] = ["pragma_", "dbstat", "sqlite_dbpage", "sqlite_stmt", "bytecode", "fts", "rtree"];

/// Returns the reason why `action` is refused; `None` if it is safe.
fn refusal(action: &AuthAction<'_>, tables: &[String]) -> Option<String> {
    const READABLE: [&str; 6] =
        ["json_each", "json_tree", "sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"];
    match action {
        AuthAction::Select | AuthAction::Recursive => None,
        // A query that names no column of what it reads, such as `count(*)` over a WITH clause's own table, whose
        // name SQLite hands over like a table's. There is nothing to read then but how many rows there are.
        AuthAction::Read { table_name, column_name: "" } => {
            let internal = INTERNAL_TABLES.iter().any(|prefix| table_name.to_lowercase().starts_with(prefix));
            (internal && !tables.iter().any(|table| table == table_name))
                .then(|| format!("table {table_name} is not available in query_data"))
        }
        AuthAction::Read { table_name, .. } => {
            let known = READABLE.contains(table_name) || tables.iter().any(|table| table == table_name);
            (!known).then(|| format!("table {table_name} is not available in query_data"))
        }
        AuthAction::Function { function_name } => {
            let safe = SAFE_FUNCTIONS.contains(&function_name.to_lowercase().as_str());
            (!safe).then(|| format!("function {function_name} is not available in query_data"))
        }
        other => {
            let name = format!("{other:?}");
            let name = name.split([' ', '{', '(']).next().unwrap_or_default();
            Some(format!("query_data only reads: one SELECT (or WITH … SELECT) is allowed, {name} is not"))
        }
    }
}

fn read(connection: &Connection, sql: &str, bounds: Bounds) -> Result<Answer, String> {
    let mut statement = connection.prepare(sql).map_err(|error| message_of(&error))?;
    if statement.column_count() == 0 {
        return Err("the SQL holds no query; write one SELECT".to_owned());
    }
    if statement.parameter_count() > 0 {
        return Err("the SQL holds parameters (?, :name, @name or $name); write the values instead".to_owned());
    }
    let columns = super::table::column_names(statement.column_names());
    let mut rows = statement.query([]).map_err(|error| message_of(&error))?;
    let mut answer = Answer { columns, rows: Vec::new(), truncated: false };
    let mut bytes = 0;
    while let Some(row) = rows.next().map_err(|error| message_of(&error))? {
        let mut object = Map::with_capacity(answer.columns.len());
        for (index, name) in answer.columns.iter().enumerate() {
            let value = value_of(row.get_ref(index).map_err(|error| message_of(&error))?);
            bytes += name.len() + 4 + size_of_value(&value);
            object.insert(name.clone(), value);
        }
        if answer.rows.len() == bounds.rows || bytes > bounds.bytes {
            answer.truncated = true;
            break;
        }
        answer.rows.push(object);
    }
    Ok(answer)
}

/// Returns about the number of bytes of `value` as JSON.
fn size_of_value(value: &Value) -> usize {
    if let Value::String(text) = value { text.len() + 2 } else { 8 }
}

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => Value::from(whole),
        // An infinite number has no JSON; it is as unknown as NULL.
        ValueRef::Real(real) => Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
        ValueRef::Blob(blob) => Value::from(blob.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))),
    }
}

fn message_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, offset, .. } => format!("{msg} (at character {offset} of the SQL)"),
        rusqlite::Error::MultipleStatement => "the SQL holds more than one statement; write one SELECT".to_owned(),
        other => other.to_string(),
    }
}

/// Returns an identifier in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqlValue::Null),
            Self::Integer(whole) => ToSqlOutput::Owned(SqlValue::Integer(*whole)),
            Self::Real(real) => ToSqlOutput::Owned(SqlValue::Real(*real)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::data::table::Format;

    const BOUNDS: Bounds = Bounds { rows: 100, bytes: 10_000, time: Duration::from_secs(20), steps: 2_000_000 };

    fn ask_bounded(sql: &str, bounds: Bounds) -> Result<Answer, String> {
        let csv = "id,name,price,day\n1,Ann,2.5,2024-01-02\n2,\"O'Neil\",,2024-02-03\n3,Zoë,10,2024-02-04\n";
        let mut database = Database::new().unwrap();
        database.load("sales", &Table::read(Format::Comma, csv.as_bytes()).unwrap()).unwrap();
        database.query(sql, bounds, || false)
    }

    fn ask(sql: &str) -> Result<Answer, String> {
        ask_bounded(sql, BOUNDS)
    }

    fn rows(sql: &str) -> Value {
        json!(ask(sql).unwrap_or_else(|message| panic!("{sql}: {message}")).rows)
    }

    #[test]
    fn rows_are_objects_with_typed_values() {
        assert_eq!(
            rows("SELECT id, name, price FROM sales WHERE id < 3"),
            json!([{"id": 1, "name": "Ann", "price": 2.5}, {"id": 2, "name": "O'Neil", "price": null}])
        );
        assert_eq!(rows("SELECT sum(price) AS total, count(*) AS n FROM sales"), json!([{"total": 12.5, "n": 3}]));
    }

    #[test]
    fn usual_queries_are_allowed() {
        for sql in [
            "WITH m AS (SELECT strftime('%Y-%m', day) AS month, sum(price) AS total FROM sales GROUP BY 1) SELECT * FROM m ORDER BY 1",
            "SELECT id, rank() OVER (ORDER BY price DESC), lag(price) OVER (ORDER BY id) FROM sales",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i FROM n",
            "SELECT value FROM json_each('[1,2,3]')",
            "SELECT a.name || '-' || b.name FROM sales a JOIN sales b ON a.id = b.id + 1",
            "SELECT name FROM sqlite_master",
            "SELECT group_concat(name, ', ') FROM sales WHERE name LIKE '%n%' OR name GLOB 'Z*'",
            "SELECT CASE WHEN price IS NULL THEN 0 ELSE round(price, 1) END, CAST(price AS INTEGER) FROM sales;",
            "VALUES (1, 2)",
            "SELECT 'a; b' -- a comment; with a semicolon\n",
        ] {
            ask(sql).unwrap_or_else(|message| panic!("{sql}: {message}"));
        }
    }

    #[test]
    fn everything_but_reading_is_refused() {
        for sql in [
            "DELETE FROM sales",
            "UPDATE sales SET id = 1",
            "INSERT INTO sales VALUES (1,2,3,4)",
            "DROP TABLE sales",
            "CREATE TABLE x (a)",
            "CREATE TEMP TABLE x AS SELECT 1",
            "CREATE VIEW v AS SELECT 1",
            "CREATE VIRTUAL TABLE f USING fts5(a)",
            "ATTACH 'file:/etc/passwd' AS x",
            "ATTACH '/tmp/baton-escape.db' AS x",
            "DETACH main",
            "PRAGMA table_info(sales)",
            "PRAGMA query_only = OFF",
            "SELECT * FROM pragma_table_info('sales')",
            "SELECT * FROM pragma_database_list",
            "SELECT * FROM dbstat",
            "SELECT count(*) FROM dbstat",
            "SELECT count(*) FROM pragma_function_list",
            "SELECT * FROM sqlite_dbpage",
            "SELECT load_extension('/tmp/x.so')",
            "SELECT randomblob(10)",
            "SELECT random()",
            "SELECT zeroblob(1000000000)",
            "SELECT fts3_tokenizer('simple')",
            "SELECT sqlite_version()",
            "SELECT writefile('/tmp/x', 'y')",
            "VACUUM INTO '/tmp/baton-escape.db'",
            "BEGIN",
            "SAVEPOINT s",
            "REINDEX",
            "ANALYZE",
            "SELECT 1; DELETE FROM sales",
            "SELECT ?",
            "",
            "-- nothing",
            "SELECT",
        ] {
            assert!(ask(sql).is_err(), "{sql} was run");
        }
        assert!(!std::path::Path::new("/tmp/baton-escape.db").exists());
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        assert_eq!(
            ask("DELETE FROM sales").unwrap_err(),
            "query_data only reads: one SELECT (or WITH … SELECT) is allowed, Delete is not"
        );
        assert_eq!(ask("SELECT random()").unwrap_err(), "function random is not available in query_data");
        assert!(ask("SELECT 1; SELECT 2").unwrap_err().contains("more than one statement"));
    }

    #[test]
    fn an_endless_query_is_stopped() {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        assert!(ask(endless).unwrap_err().contains("steps and was stopped"));
        let slow = Bounds { time: Duration::ZERO, steps: u64::MAX, ..BOUNDS };
        assert!(ask_bounded(endless, slow).unwrap_err().contains("ran longer than 0 seconds"));
        let mut database = Database::new().unwrap();
        database.load("t", &Table::read(Format::Comma, b"a\n1\n").unwrap()).unwrap();
        assert!(database.query(endless, BOUNDS, || true).unwrap_err().contains("cancelled"));
    }

    #[test]
    fn long_values_built_from_nothing_are_refused() {
        assert!(ask("SELECT printf('%*c', 2000000000, 'x')").is_err());
        assert!(ask("SELECT replace(printf('%0999999d', 1), '0', 'xxxxxxxx')").is_err());
    }

    #[test]
    fn a_long_value_of_a_document_can_be_read() {
        let csv = format!("a\n{}\n", "x".repeat(700_000));
        let mut database = Database::new().unwrap();
        database.load("t", &Table::read(Format::Comma, csv.as_bytes()).unwrap()).unwrap();
        let answer = database.query("SELECT length(a) AS n, substr(a || a, 700000, 2) AS two FROM t", BOUNDS, || false).unwrap();
        assert_eq!(json!(answer.rows), json!([{"n": 700_000, "two": "xx"}]));
    }

    #[test]
    fn a_table_may_have_the_name_of_an_internal_one() {
        let mut database = Database::new().unwrap();
        database.load("dbstat", &Table::read(Format::Comma, b"a\n1\n").unwrap()).unwrap();
        assert_eq!(json!(database.query("SELECT count(*) AS n FROM dbstat", BOUNDS, || false).unwrap().rows), json!([{"n": 1}]));
    }

    #[test]
    fn rows_and_bytes_are_capped() {
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n";
        let answer = ask(many).unwrap();
        assert_eq!((answer.rows.len(), answer.truncated), (100, true));
        let answer = ask("SELECT printf('%06000d', id) AS long FROM sales").unwrap();
        assert_eq!((answer.rows.len(), answer.truncated), (1, true));
        assert!(!ask("SELECT * FROM sales").unwrap().truncated);
    }

    #[test]
    fn columns_of_one_name_become_two_keys() {
        assert_eq!(rows("SELECT id, id FROM sales LIMIT 1"), json!([{"id": 1, "id_2": 1}]));
    }

    #[test]
    fn numbers_without_json_are_null() {
        assert_eq!(rows("SELECT 9e999 AS big, x'00ff' AS blob"), json!([{"big": null, "blob": "00ff"}]));
    }
}
