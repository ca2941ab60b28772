//! Checks every record, and that nothing is missing or left over.

use std::collections::BTreeSet;

use tokio_postgres::Client;

use super::rows::{select, trigger};
use crate::breadcrumbs::row::{BreadcrumbRow, damaged};
use crate::breadcrumbs::verify::{check_record, check_trigger};
use crate::postgres::value::values;
use crate::{StoreError, Verification};

/// Number of rows that are read at once.
const PAGE: i64 = 256;

/// Counts of rows that belong to no record, or not to the version of their record, with their names.
const LEFT_OVER: [(&str, &str); 5] = [
    (
        "versions",
        "breadcrumb_versions AS t LEFT JOIN baton.breadcrumbs AS b USING (breadcrumb) WHERE b.version IS NULL OR t.version > b.version",
    ),
    ("tags and words", "breadcrumb_words AS t LEFT JOIN baton.breadcrumbs AS b USING (breadcrumb) WHERE b.version IS NULL"),
    (
        "keys",
        "breadcrumb_keys AS t LEFT JOIN baton.breadcrumbs AS b USING (breadcrumb) WHERE b.version IS NULL OR t.version > b.version",
    ),
    ("ticks", "breadcrumb_ticks AS t LEFT JOIN baton.breadcrumbs AS b USING (breadcrumb) WHERE b.version IS NULL"),
    (
        "vectors",
        "breadcrumb_vectors AS t LEFT JOIN baton.breadcrumbs AS b USING (breadcrumb)
         WHERE b.version IS NULL OR t.version <> b.version OR length(t.vector) <> 4 * t.dimensions",
    ),
];

/// Counts the records, and adds what is wrong with them to the findings.
pub(in crate::postgres) async fn verify(client: &Client, found: &mut Verification) -> Result<(), StoreError> {
    let mut last = 0;
    loop {
        let page = select(client, "WHERE b.breadcrumb > $1 ORDER BY b.breadcrumb LIMIT $2", values![last, PAGE]).await?;
        let Some(newest) = page.last() else { break };
        last = newest.number;
        for row in &page {
            found.breadcrumbs += 1;
            note(one(client, row).await, found)?;
        }
    }
    for (what, rows) in LEFT_OVER {
        let count: i64 = client.query_typed_one(&format!("SELECT count(*) FROM baton.{rows}"), &[]).await?.try_get(0)?;
        if count > 0 {
            found.findings.push(format!("breadcrumbs: {count} rows of {what} belong to no version of a record"));
        }
    }
    triggers(client, found).await
}

/// Adds damage to the findings. Other errors end the verification.
fn note(answer: Result<(), StoreError>, found: &mut Verification) -> Result<(), StoreError> {
    match answer {
        Err(StoreError::Corrupt { what }) => found.findings.push(what),
        other => other?,
    }
    Ok(())
}

/// Checks one record, and that its tags and words are filed.
async fn one(client: &Client, row: &BreadcrumbRow) -> Result<(), StoreError> {
    let newest = check_record(client, row).await?;
    let statement = "SELECT tags FROM baton.breadcrumb_words WHERE breadcrumb = $1";
    let filed = client.query_typed_opt(statement, values![row.number]).await?;
    let Some(filed) = filed else {
        return Err(damaged(format!("breadcrumb {}: its tags and words are not filed", row.id)));
    };
    let filed: BTreeSet<String> = filed.try_get::<_, Vec<String>>(0)?.into_iter().collect();
    if filed != newest.tags.into_iter().collect() {
        return Err(damaged(format!("breadcrumb {}: other tags are filed than it has", row.id)));
    }
    Ok(())
}

async fn triggers(client: &Client, found: &mut Verification) -> Result<(), StoreError> {
    let statement = "SELECT trigger, body, project, waits, queue, run FROM baton.breadcrumb_triggers WHERE trigger > $1
                     ORDER BY trigger LIMIT $2";
    let mut last: i64 = 0;
    loop {
        let page = client.query_typed(statement, values![last, PAGE]).await?;
        let Some(newest) = page.last() else { return Ok(()) };
        last = newest.try_get(0)?;
        for row in &page {
            let columns = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
            note(trigger(row).and_then(|trigger| check_trigger(&trigger, &columns)), found)?;
        }
    }
}
