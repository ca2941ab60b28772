//! Checks every record, and that nothing is missing or left over.

use rusqlite::Transaction;

use super::columns::{COLUMNS, read, ready};
use super::rows::key_row;
use super::{Totals, vectors};
use crate::breadcrumbs::row::{BreadcrumbRow, damaged};
use crate::breadcrumbs::verify::check_record;
use crate::{StoreError, Verification};

/// Checks all rows of breadcrumbs.
pub(in crate::sqlite) fn verify(file: &Transaction<'_>, found: &mut Verification) -> Result<(), StoreError> {
    let (mut versions, mut tags) = (0, 0);
    let mut statement = file.prepare(&format!("SELECT {COLUMNS} FROM breadcrumbs NOT INDEXED"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        found.breadcrumbs += 1;
        let checked = read(row).and_then(|row| one(file, &row));
        match checked {
            Ok((of_record, with_tags)) => (versions, tags) = (versions + of_record, tags + with_tags),
            Err(error) => found.findings.push(error.to_string()),
        }
    }
    let mut statement = file.prepare("SELECT key FROM breadcrumb_keys")?;
    let keys: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for key in &keys {
        if let Err(error) = key_row(file, key) {
            found.findings.push(error.to_string());
        }
    }
    let totals = Totals::load(file)?;
    let counted = Totals { breadcrumbs: found.breadcrumbs, versions, keys: keys.len() as u64 };
    if totals != counted {
        found.findings.push(format!("breadcrumbs: expected {totals:?}, found {counted:?}"));
    }
    found.findings.extend(super::triggers::verify(file)?);
    let filed: i64 = file.query_row("SELECT count(*) FROM breadcrumb_tags", [], |row| row.get(0))?;
    if filed as u64 != tags {
        found.findings.push(format!("breadcrumbs have {tags} tags, but {filed} are filed"));
    }
    vectors::verify(file, found)
}

/// Checks one record; returns the numbers of its versions and of its tags.
fn one(file: &Transaction<'_>, row: &BreadcrumbRow) -> Result<(u64, u64), StoreError> {
    let wrong = |what: &str| Err(damaged(format!("breadcrumb {}: {what}", row.id)));
    let newest = ready(check_record(&**file, row))?;
    let mut filed = file.prepare_cached("SELECT 1 FROM breadcrumb_tags WHERE tag = ?1 AND breadcrumb = ?2")?;
    for tag in &newest.tags {
        if !filed.exists(rusqlite::params![tag, row.number])? {
            return wrong(&format!("the tag {tag:?} is not filed"));
        }
    }
    if !file.prepare_cached("SELECT 1 FROM breadcrumb_words WHERE rowid = ?1")?.exists([row.number])? {
        return wrong("its words are not in the index");
    }
    Ok((row.version, newest.tags.len() as u64))
}
