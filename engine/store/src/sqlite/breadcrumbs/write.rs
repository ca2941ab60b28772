//! One write of a breadcrumb: judged against the newest version, then written.

use baton_breadcrumb::{BreadcrumbError, DEFINITION_SCHEMA, Definition, changed, created, is_gone};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, BreadcrumbVersion, Viewer};
use baton_types::id::{BreadcrumbId, ContentHash};
use baton_types::time::Timestamp;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{BreadcrumbRow, Totals, definition, index_words, key_row, scoped, triggers, vectors, version_checksum};
use crate::sqlite::records::checksum_of;
use crate::sqlite::to_sql;
use crate::{Creation, StoreError, Update, Written};

/// The most ended records that one creation removes.
const SWEPT: i64 = 8;
/// The most bytes of a key.
const MAX_KEY_BYTES: usize = 1_000;

/// Creates a record.
pub(super) fn create_new(file: &Connection, creation: &Creation) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    create(file, creation, request_hash(&("create", &creation.new, &creation.by.viewer.principal)))
}

fn create(file: &Connection, creation: &Creation, request: ContentHash) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Creation { id, new, by, key, at } = creation;
    let key = match keyed(file, creation.by.viewer.project.as_str(), key.as_deref(), request, *at)? {
        Keyed::Done(answer) => return Ok(answer),
        Keyed::New(key) => key,
    };
    let definition = match &new.schema_name {
        Some(schema) => definition(file, schema, &by.viewer.project, *at)?,
        None => None,
    };
    if BreadcrumbRow::find(file, id)?.is_some() {
        return Ok(Err(BreadcrumbError::KeyConflict(id.to_string())));
    }
    let record = match created(id.clone(), new, by, definition.as_ref(), *at) {
        Ok(record) => record,
        Err(refused) => return Ok(Err(refused)),
    };
    sweep(file, *at)?;
    let mut totals = Totals::load(file)?;
    totals.breadcrumbs += 1;
    totals.save(file)?;
    let number: i64 =
        file.prepare_cached("SELECT coalesce(max(breadcrumb), 0) + 1 FROM breadcrumbs")?.query_row([], |row| row.get(0))?;
    let defines_by = Definition::counting(&record, None);
    let made = BreadcrumbVersion { breadcrumb: record, verdict: None, defines_by };
    write_version(file, number, &made, definition.as_ref(), None, key, request)?;
    let triggers = triggers::note(file, &made.breadcrumb, None, by)?;
    Ok(Ok(Written { breadcrumb: made.breadcrumb, repeated: false, triggers }))
}

/// Imports a record. The key leads to the version that the last import made, and to a hash of the file as it was then.
pub(super) fn import(
    file: &Connection,
    creation: &Creation,
    replaces: bool,
) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Creation { new, by, key, at, .. } = creation;
    // The person does not count: two people may import the same folder.
    let request = request_hash(&("import", new));
    let scope = scoped(&by.viewer.project, key.as_deref().unwrap_or_default());
    let Some((number, version, last)) = key_row(file, &scope)? else { return create(file, creation, request) };
    let row = BreadcrumbRow::load(file, number)?;
    if row.ends.is_some_and(|ends| ends <= at.as_micros()) {
        // The creation removes what has ended.
        return create(file, creation, request);
    }
    if !row.is_for(&by.viewer, *at) {
        return Ok(Err(BreadcrumbError::Unknown(row.id)));
    }
    let current = row.newest(file)?;
    if last == request {
        return Ok(Ok(Written { breadcrumb: current, repeated: true, triggers: 0 }));
    }
    let imported = row.version(file, version)?.breadcrumb;
    let wanted = match baton_breadcrumb::import(&current, &imported, new, replaces) {
        Ok(wanted) => wanted,
        Err(refused) => return Ok(Err(refused)),
    };
    if wanted == BreadcrumbChange::default() {
        file_key(file, &scope, row.number, current.version, request)?;
        return Ok(Ok(Written { breadcrumb: current, repeated: true, triggers: 0 }));
    }
    let update = Update { id: row.id, change: wanted, expected: None, by: by.clone(), key: None, at: *at };
    let written = change(file, &update)?;
    if let Ok(written) = &written {
        file_key(file, &scope, row.number, written.breadcrumb.version, request)?;
    }
    Ok(written)
}

pub(super) fn change(file: &Connection, update: &Update) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Update { id, change, expected, by, key, at } = update;
    let request = request_hash(&("change", id, change, expected, &by.viewer.principal));
    let key = match keyed(file, by.viewer.project.as_str(), key.as_deref(), request, *at)? {
        Keyed::Done(answer) => return Ok(answer),
        Keyed::New(key) => key,
    };
    let Some(row) = BreadcrumbRow::find(file, id)?.filter(|row| row.is_for(&by.viewer, *at)) else {
        return Ok(Err(BreadcrumbError::Unknown(id.clone())));
    };
    if let Some(expected) = expected.filter(|expected| *expected != row.version) {
        return Ok(Err(BreadcrumbError::VersionMismatch { expected, found: row.version }));
    }
    let newest = row.version(file, row.version)?;
    let (defined_by, current) = (row.defines_by(&newest), newest.breadcrumb);
    let definition = match &current.schema_name {
        Some(schema) => definition(file, schema, &current.project, *at)?,
        None => None,
    };
    let record = match changed(&current, change, by, definition.as_ref(), *at) {
        Ok(record) => record,
        Err(refused) => return Ok(Err(refused)),
    };
    remove_tags(file, row.number, &current)?;
    let defines_by = Definition::counting(&record, Some((&current, defined_by)));
    let made = BreadcrumbVersion { breadcrumb: record, verdict: change.verdict.clone(), defines_by };
    write_version(file, row.number, &made, definition.as_ref(), row.defines, key, request)?;
    let triggers = triggers::note(file, &made.breadcrumb, Some(&current), by)?;
    Ok(Ok(Written { breadcrumb: made.breadcrumb, repeated: false, triggers }))
}

pub(super) fn read(
    file: &Connection,
    id: &BreadcrumbId,
    viewer: &Viewer,
    at: Timestamp,
) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Some(mut row) = BreadcrumbRow::find(file, id)?.filter(|row| row.is_for(viewer, at)) else {
        return Ok(Err(BreadcrumbError::Unknown(id.clone())));
    };
    row.read_count += 1;
    let breadcrumb = row.newest(file)?;
    // The read that ends a record still gets it.
    if is_gone(&breadcrumb, at) {
        row.ends = Some(at.as_micros());
    }
    row.save(file)?;
    Ok(Ok(Written { breadcrumb, repeated: false, triggers: 0 }))
}

/// Result of a search for the key of a write.
enum Keyed {
    /// The write was done before, or the key belongs to another one.
    Done(Result<Written, BreadcrumbError>),
    /// The write is new; the key under which it is filed, if it has one.
    New(Option<String>),
}

/// Looks up a key. A record that has ended is removed, and its keys with it.
fn keyed(file: &Connection, project: &str, key: Option<&str>, request: ContentHash, now: Timestamp) -> Result<Keyed, StoreError> {
    let Some(key) = key else { return Ok(Keyed::New(None)) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let reason = format!("it has {} bytes; expected 1 to {MAX_KEY_BYTES}", key.len());
        return Ok(Keyed::Done(Err(BreadcrumbError::Invalid { field: "idempotency key", reason })));
    }
    let filed = scoped(&project.into(), key);
    let mut known = key_row(file, &filed)?;
    if let Some((number, ..)) = known
        && BreadcrumbRow::load(file, number)?.ends.is_some_and(|ends| ends <= now.as_micros())
    {
        remove(file, number)?;
        known = None;
    }
    Ok(match known {
        None => Keyed::New(Some(filed)),
        Some((_, _, other)) if other != request => Keyed::Done(Err(BreadcrumbError::KeyConflict(key.to_owned()))),
        Some((number, version, _)) => {
            let made = BreadcrumbRow::load(file, number)?.version(file, version)?;
            Keyed::Done(Ok(Written { breadcrumb: made.breadcrumb, repeated: true, triggers: 0 }))
        }
    })
}

fn request_hash(request: &impl Serialize) -> ContentHash {
    ContentHash::of(&serde_json::to_vec(request).expect("the parts of a request serialise"))
}

/// Writes a version of a record, and everything by which it is found. `definition` is that of
/// its schema, and `defined` the schema that the record itself defined before.
fn write_version(
    file: &Connection,
    number: i64,
    made: &BreadcrumbVersion,
    definition: Option<&Definition>,
    defined: Option<String>,
    key: Option<String>,
    request: ContentHash,
) -> Result<(), StoreError> {
    let record = &made.breadcrumb;
    let defines = match made.defines_by {
        Some(version) if version == record.version && record.schema_name.as_deref() == Some(DEFINITION_SCHEMA) => {
            Definition::read(record).ok().map(|read| read.schema().to_owned())
        }
        Some(_earlier) => defined,
        None => None,
    };
    let text = serde_json::to_string(made).expect("a record has only string keys and always serialises");
    file.prepare_cached("INSERT INTO breadcrumb_versions (breadcrumb, version, record, checksum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![number, to_sql(record.version), text, version_checksum(number, record.version, &text)])?;
    BreadcrumbRow::of(number, record, defines).save(file)?;
    let mut tags = file.prepare_cached("INSERT INTO breadcrumb_tags (tag, breadcrumb) VALUES (?1, ?2)")?;
    for tag in &record.tags {
        tags.execute(params![tag, number])?;
    }
    index_words(file, number, record, definition)?;
    vectors::forget(file, number)?;
    let mut totals = Totals::load(file)?;
    totals.versions += 1;
    if let Some(key) = key {
        totals.keys += 1;
        file_key(file, &key, number, record.version, request)?;
    }
    totals.save(file)
}

/// Lets a key lead to a version.
fn file_key(file: &Connection, key: &str, number: i64, version: u64, request: ContentHash) -> Result<(), StoreError> {
    let checksum = checksum_of(&(key, number, version, request.as_bytes()));
    file.prepare_cached(
        "INSERT OR REPLACE INTO breadcrumb_keys (key, breadcrumb, version, request, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![key, number, to_sql(version), request.as_bytes(), checksum])?;
    Ok(())
}

fn remove_tags(file: &Connection, number: i64, record: &Breadcrumb) -> Result<(), StoreError> {
    let mut tags = file.prepare_cached("DELETE FROM breadcrumb_tags WHERE tag = ?1 AND breadcrumb = ?2")?;
    record.tags.iter().try_for_each(|tag| tags.execute(params![tag, number]).map(drop)).map_err(StoreError::from)
}

/// Removes a few records that have ended.
fn sweep(file: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let mut statement =
        file.prepare_cached("SELECT breadcrumb FROM breadcrumbs WHERE ends IS NOT NULL AND ends <= ?1 ORDER BY ends LIMIT ?2")?;
    let ended: Vec<i64> = statement.query_map([now.as_micros(), SWEPT], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for number in ended {
        remove(file, number)?;
    }
    Ok(())
}

/// Removes a record with all its versions.
fn remove(file: &Connection, number: i64) -> Result<(), StoreError> {
    let row = BreadcrumbRow::load(file, number)?;
    remove_tags(file, number, &row.newest(file)?)?;
    let delete = |table: &str, column: &str| file.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [number]);
    let versions = delete("breadcrumb_versions", "breadcrumb")?;
    let keys = delete("breadcrumb_keys", "breadcrumb")?;
    delete("breadcrumb_words", "rowid")?;
    delete("breadcrumb_ticks", "breadcrumb")?;
    vectors::forget(file, number)?;
    delete("breadcrumbs", "breadcrumb")?;
    let Totals { breadcrumbs, versions: all, keys: known } = Totals::load(file)?;
    let less = |number: u64, by: usize| number.saturating_sub(by as u64);
    Totals { breadcrumbs: less(breadcrumbs, 1), versions: less(all, versions), keys: less(known, keys) }.save(file)
}
