//! `query_data`: SQL over the workspace's documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::document::{Content, DocumentVersion};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::names::{mentions, sheet_names, table_names};
use super::sqlite::{Bounds, Database};
use super::table::{Column, Format, Table};
use crate::reading::text_of;
use crate::stop::StopOnDrop;

/// Number of returned rows (default).
const DEFAULT_ROWS: u32 = 200;
/// The most rows handed back.
const MAX_ROWS: u32 = 10_000;
/// The most bytes of JSON that the rows handed back may have.
const MAX_RESULT_BYTES: usize = 256 * 1024;
/// The most bytes of documents that one query loads.
const MAX_LOADED_BYTES: u64 = 64 * 1024 * 1024;
/// Longest time of one statement.
const TIME: Duration = Duration::from_secs(15);
/// Largest number of instructions of SQLite's machine for one statement: some seconds' worth.
const STEPS: u64 = 500_000_000;

/// Output of `query_data`.
#[derive(Debug, Serialize)]
pub struct QueryOutput {
    /// The result's columns, in order.
    pub columns: Vec<String>,
    /// The rows, each an object keyed by column.
    pub rows: Vec<Map<String, Value>>,
    /// Number of returned rows.
    pub row_count: usize,
    /// Whether there are more rows than were handed back.
    pub truncated: bool,
    /// The tables that the query could use.
    pub tables: Vec<TableOutput>,
}

/// A document as a table.
#[derive(Clone, Debug, Serialize)]
pub struct TableOutput {
    /// Its name in SQL.
    pub table: String,
    /// The document's path.
    pub document: String,
    /// The document's version.
    pub version: u32,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Number of its rows.
    pub row_count: usize,
}

/// Runs one reading SQL statement over CSV, TSV, JSON and XLSX documents.
#[tool]
async fn query_data(
    context: &ToolContext,
    sql: String,
    documents: Option<Vec<String>>,
    max_rows: Option<u32>,
) -> Result<QueryOutput, ToolError> {
    query(context, sql, documents, max_rows.unwrap_or(DEFAULT_ROWS), MAX_RESULT_BYTES).await
}

/// Runs `sql` over `documents`, or over those that it mentions.
pub(super) async fn query(
    context: &ToolContext,
    sql: String,
    documents: Option<Vec<String>>,
    max_rows: u32,
    max_bytes: usize,
) -> Result<QueryOutput, ToolError> {
    let invalid = |message: String| ToolError::new(message).of_kind(ToolErrorKind::InvalidInput);
    if !(1..=MAX_ROWS).contains(&max_rows) {
        return Err(invalid(format!("max_rows must be between 1 and {MAX_ROWS}, received {max_rows}")));
    }
    let sources = sources(context, &sql, documents.as_deref())?;
    let size: u64 = sources.iter().map(|source| source.document.content.size_bytes).sum();
    if size > MAX_LOADED_BYTES {
        return Err(invalid(format!(
            "the documents of this query have {size} bytes together; at most {MAX_LOADED_BYTES} can be loaded. Name fewer in `documents`"
        )));
    }
    let mut loaded = Vec::with_capacity(sources.len());
    for source in sources {
        if source.format == Format::Sheets {
            loaded.extend(sheets(context, &source).await?);
        } else {
            let content = context.read(source.document.path.as_str()).await?;
            loaded.push((source, content));
        }
    }
    rename_twins(&mut loaded);
    let known = known_tables(context);
    let bounds = Bounds { rows: max_rows as usize, bytes: max_bytes, time: TIME, steps: STEPS };
    let stop = StopOnDrop::default();
    let stopped = stop.flag();
    context.blocking(move || answer(&sql, &loaded, &known, bounds, stopped)).await?
}

/// A document that will be a table.
struct Source {
    table: String,
    document: Arc<DocumentVersion>,
    format: Format,
    /// Whether it was asked for; a document that was not may be left out when it cannot be read.
    wanted: bool,
}

impl Source {
    /// Whether `sql` may use the table. The tables of a workbook's sheets begin with the name of the workbook.
    fn is_mentioned(&self, sql: &str) -> bool {
        let is_book = self.format == Format::Sheets;
        mentions(sql, &self.table) || is_book && sql.to_lowercase().contains(&self.table.to_lowercase())
    }
}

/// Returns the sheets of a workbook that have rows, each as a table of its own.
async fn sheets(context: &ToolContext, book: &Source) -> Result<Vec<(Source, Content)>, ToolError> {
    let path = book.document.path.as_str();
    let text = match text_of(context, path).await {
        Ok(text) => text,
        Err(error) if book.wanted || error.kind == ToolErrorKind::Cancelled => return Err(error),
        Err(_) => return Ok(Vec::new()),
    };
    let sections = text.form().map(|form| &form.sections[..]).unwrap_or_default();
    let sections: Vec<_> = sections.iter().filter(|section| !section.range.is_empty()).collect();
    if sections.is_empty() && book.wanted {
        return Err(ToolError::new(format!("document {path} has no sheet with rows")));
    }
    let titles: Vec<&str> = sections.iter().map(|section| section.title.as_str()).collect();
    let sheets = sheet_names(&book.table, &titles).into_iter().zip(&sections).map(|(table, section)| {
        let source = Source { table, document: Arc::clone(&book.document), format: Format::Sheet, wanted: book.wanted };
        (source, Content::from(text.as_str()[section.range.clone()].as_bytes()))
    });
    Ok(sheets.collect())
}

/// Gives tables different names: a sheet and another document may have the same.
fn rename_twins(loaded: &mut [(Source, Content)]) {
    let names = super::names::numbered(loaded.iter().map(|(source, _)| source.table.clone()).collect());
    for ((source, _), name) in loaded.iter_mut().zip(names) {
        source.table = name;
    }
}

/// Returns the documents that become tables: the named ones, else those that the SQL mentions, else all that hold
/// rows.
fn sources(context: &ToolContext, sql: &str, named: Option<&[String]>) -> Result<Vec<Source>, ToolError> {
    if let Some(paths) = named.filter(|paths| !paths.is_empty()) {
        let mut documents: Vec<(Arc<DocumentVersion>, Format)> = Vec::new();
        for path in paths {
            let document = context.document(path)?;
            let format = format_of(document).ok_or_else(|| {
                let mime_type = &document.content.mime_type;
                ToolError::new(format!("{path} is {mime_type}; query_data reads CSV, TSV, JSON, JSON lines and XLSX"))
                    .of_kind(ToolErrorKind::InvalidInput)
            })?;
            if !documents.iter().any(|(known, _)| known.path == document.path) {
                documents.push((Arc::clone(document), format));
            }
        }
        return Ok(name_tables(documents));
    }
    let mut all = name_tables(tabular(context));
    if all.iter().any(|source| source.is_mentioned(sql)) {
        all.retain(|source| source.is_mentioned(sql));
    } else {
        for source in &mut all {
            source.wanted = false;
        }
        let mut left = MAX_LOADED_BYTES;
        all.retain(|source| {
            let fits = source.document.content.size_bytes <= left;
            left -= if fits { source.document.content.size_bytes } else { 0 };
            fits
        });
    }
    Ok(all)
}

pub(super) fn format_of(document: &DocumentVersion) -> Option<Format> {
    Format::of(&document.path.extension(), &document.content.mime_type)
}

fn tabular(context: &ToolContext) -> Vec<(Arc<DocumentVersion>, Format)> {
    let documents = context.documents().iter().map(|(_, document)| document.current());
    documents.filter_map(|document| Some((Arc::clone(document), format_of(document)?))).collect()
}

fn name_tables(documents: Vec<(Arc<DocumentVersion>, Format)>) -> Vec<Source> {
    let names = table_names(&documents.iter().map(|(document, _)| &document.path).collect::<Vec<_>>());
    names.into_iter().zip(documents).map(|(table, (document, format))| Source { table, document, format, wanted: true }).collect()
}

/// Returns the possible tables of the workspace, for messages: `table (document)`.
fn known_tables(context: &ToolContext) -> Vec<String> {
    name_tables(tabular(context)).iter().take(50).map(|source| format!("{} ({})", source.table, source.document.path)).collect()
}

/// Loads the documents and runs the statement; on a thread of its own.
fn answer(
    sql: &str,
    loaded: &[(Source, Content)],
    known: &[String],
    bounds: Bounds,
    stopped: Arc<AtomicBool>,
) -> Result<QueryOutput, ToolError> {
    let mut database = Database::new().map_err(ToolError::new)?;
    let mut tables = Vec::with_capacity(loaded.len());
    for (source, content) in loaded {
        if stopped.load(Ordering::Relaxed) {
            return Err(ToolError::cancelled());
        }
        let path = &source.document.path;
        let table = match Table::read(source.format, content) {
            Ok(table) => table,
            Err(_) if !source.wanted => continue,
            Err(reason) => return Err(ToolError::new(format!("document {path} cannot be read as a table: {reason}"))),
        };
        database
            .load(&source.table, &table)
            .map_err(|reason| ToolError::new(format!("document {path} cannot be loaded as a table: {reason}")))?;
        tables.push(TableOutput {
            table: source.table.clone(),
            document: path.as_str().to_owned(),
            version: source.document.version,
            row_count: table.row_count,
            columns: table.columns,
        });
    }
    match database.query(sql, bounds, move || stopped.load(Ordering::Relaxed)) {
        Ok(answer) => Ok(QueryOutput {
            columns: answer.columns,
            row_count: answer.rows.len(),
            rows: answer.rows,
            truncated: answer.truncated,
            tables,
        }),
        Err(reason) => Err(explain(&reason, &tables, known)),
    }
}

/// Adds to SQLite's message what an agent needs to write better SQL.
fn explain(reason: &str, tables: &[TableOutput], known: &[String]) -> ToolError {
    let mut message = reason.to_owned();
    if reason.contains("no such table") {
        let loaded = tables.iter().map(|table| format!("{} ({})", table.table, table.document));
        let mut all: Vec<String> = loaded.collect();
        all.extend(
            known.iter().filter(|known| !tables.iter().any(|table| known.ends_with(&format!("({})", table.document)))).cloned(),
        );
        let list = if all.is_empty() {
            "none: the workspace holds no CSV, TSV, JSON or XLSX document".to_owned()
        } else {
            all.join(", ")
        };
        message = format!("{message}; the tables are {list}");
    } else if reason.contains("no such column") {
        for table in tables {
            let names: Vec<&str> = table.columns.iter().take(100).map(|column| column.name.as_str()).collect();
            message = format!("{message}; {} has the columns {}", table.table, names.join(", "));
        }
    }
    let detail: Vec<Value> =
        tables.iter().map(|table| json!({"table": table.table, "document": table.document, "columns": table.columns})).collect();
    ToolError::new(message).with_detail(json!({ "tables": detail }))
}

#[cfg(test)]
mod tests {
    use baton_tool::testing::block_on;

    use super::*;

    fn ask(context: &ToolContext, sql: &str, documents: Option<&[&str]>) -> Result<QueryOutput, ToolError> {
        let documents = documents.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
        block_on(query_data(context, sql.to_owned(), documents, None))
    }

    #[test]
    fn a_document_is_queried_by_the_name_of_its_file() {
        let context = ToolContext::for_test()
            .with_document("sales_raw.csv", "old\n0\n")
            .with_document("sales_raw.csv", "region,amount\nNorth,10\nSouth,5\nNorth,2.5\n")
            .with_document("broken.csv", "a,b\n1\n")
            .build();
        let output =
            ask(&context, "SELECT region, sum(amount) AS total FROM sales_raw GROUP BY region ORDER BY 1", None).unwrap();
        assert_eq!(json!(output.rows), json!([{"region": "North", "total": 12.5}, {"region": "South", "total": 5.0}]));
        assert_eq!(
            json!(output.tables),
            json!([{"table": "sales_raw", "document": "sales_raw.csv", "version": 2, "row_count": 3,
                "columns": [{"name": "region", "type": "TEXT"}, {"name": "amount", "type": "REAL"}]}])
        );
        assert_eq!(
            (output.columns, output.row_count, output.truncated),
            (vec!["region".to_owned(), "total".to_owned()], 2, false)
        );
    }

    #[test]
    fn documents_of_different_formats_are_joined() {
        let context = ToolContext::for_test()
            .with_document("orders.tsv", "id\tcustomer\n1\t7\n2\t8\n")
            .with_document("customers.json", r#"[{"id": 7, "name": "Ann"}, {"id": 8, "name": "Bo"}]"#)
            .build();
        let sql = "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer ORDER BY o.id";
        let output = ask(&context, sql, None).unwrap();
        assert_eq!(json!(output.rows), json!([{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}]));
    }

    #[test]
    fn documents_can_be_chosen() {
        let context = ToolContext::for_test()
            .with_document("a/x.csv", "n\n1\n")
            .with_document("b/x.csv", "n\n2\n")
            .with_document("r.md", "# r")
            .build();
        assert_eq!(json!(ask(&context, "SELECT n FROM x", Some(&["b/x.csv", "b/x.csv"])).unwrap().rows), json!([{"n": 2}]));
        assert_eq!(json!(ask(&context, "SELECT n FROM a_x", None).unwrap().rows), json!([{"n": 1}]));
        let error = ask(&context, "SELECT 1", Some(&["r.md"])).unwrap_err();
        assert!(error.message.starts_with("r.md is text/markdown; query_data reads"), "{error}");
        let error = ask(&context, "SELECT 1", Some(&["nothing.csv"])).unwrap_err();
        assert_eq!(error.kind, ToolErrorKind::UnknownDocument);
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let context = ToolContext::for_test().with_document("sales.csv", "region,amount\nNorth,1\n").build();
        let error = ask(&context, "SELECT reigon FROM sales", None).unwrap_err();
        assert!(
            error.message.contains("no such column: reigon") && error.message.contains("sales has the columns region, amount"),
            "{error}"
        );
        let error = ask(&context, "SELECT * FROM sale", None).unwrap_err();
        assert!(
            error.message.contains("no such table: sale") && error.message.contains("the tables are sales (sales.csv)"),
            "{error}"
        );
        let error = ask(&ToolContext::for_test().build(), "SELECT * FROM sale", None).unwrap_err();
        assert!(error.message.contains("the workspace holds no CSV"), "{error}");
    }

    #[test]
    fn a_document_that_cannot_be_read_names_its_line() {
        let context = ToolContext::for_test().with_document("broken.csv", "a,b\n1,2\n1\n").build();
        let error = ask(&context, "SELECT * FROM broken", None).unwrap_err();
        assert_eq!(error.message, "document broken.csv cannot be read as a table: line 3 has 1 fields, the header has 2");
        assert_eq!(json!(ask(&context, "SELECT 1 AS one", None).unwrap().rows), json!([{"one": 1}]));
    }

    #[test]
    fn documents_beyond_the_cap_are_refused_before_they_are_loaded() {
        let big = format!("a\n{}", "0123456789abcdef\n".repeat(4_000_000));
        let context = ToolContext::for_test().with_document("big.csv", big).with_document("small.csv", "a\n1\n").build();
        let error = ask(&context, "SELECT count(*) FROM big", None).unwrap_err();
        assert!(error.message.contains("at most 67108864 can be loaded"), "{error}");
        assert_eq!(json!(ask(&context, "SELECT a FROM small", None).unwrap().rows), json!([{"a": 1}]));
    }

    #[test]
    fn max_rows_is_bounded() {
        let context = ToolContext::for_test().with_document("t.csv", "a\n1\n2\n").build();
        for refused in [0, 10_001] {
            assert!(block_on(query_data(&context, "SELECT a FROM t".to_owned(), None, Some(refused))).is_err());
        }
        let one = block_on(query_data(&context, "SELECT a FROM t".to_owned(), None, Some(1))).unwrap();
        assert_eq!((one.row_count, one.truncated), (1, true));
    }
}
