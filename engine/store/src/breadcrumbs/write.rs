//! One write of a breadcrumb: judged against the newest version, then written.

use baton_breadcrumb::{BreadcrumbError, DEFINITION_SCHEMA, Definition, changed, created, is_gone, searched_text};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, BreadcrumbVersion, Viewer};
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId};
use baton_types::time::Timestamp;
use serde::Serialize;

use super::read::definition;
use super::row::{BreadcrumbRow, KeyRow};
use super::rows::{NewVersion, Rows};
use super::triggers;
use crate::{Creation, StoreError, Update, Written};

/// The most bytes of a key.
const MAX_KEY_BYTES: usize = 1_000;

/// Creates a record.
pub(crate) async fn create_new(rows: &impl Rows, creation: &Creation) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    create(rows, creation, request_hash(&("create", &creation.new, &creation.by.viewer.principal))).await
}

async fn create(
    rows: &impl Rows,
    creation: &Creation,
    request: ContentHash,
) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Creation { id, new, by, key, at } = creation;
    let key = match keyed(rows, &by.viewer.project, key.as_deref(), request, *at).await? {
        Keyed::Done(answer) => return Ok(answer),
        Keyed::New(key) => key,
    };
    let definition = match &new.schema_name {
        Some(schema) => definition(rows, schema, &by.viewer.project, *at).await?,
        None => None,
    };
    if rows.find(id).await?.is_some() {
        return Ok(Err(BreadcrumbError::KeyConflict(id.to_string())));
    }
    let record = match created(id.clone(), new, by, definition.as_ref(), *at) {
        Ok(record) => record,
        Err(refused) => return Ok(Err(refused)),
    };
    rows.sweep(*at).await?;
    let defines_by = Definition::counting(&record, None);
    let made = BreadcrumbVersion { breadcrumb: record, verdict: None, defines_by };
    write_version(rows, &made, None, definition.as_ref(), key.map(|key| (key, request))).await?;
    let triggers = triggers::note(rows, &made.breadcrumb, None, by).await?;
    Ok(Ok(Written { breadcrumb: made.breadcrumb, repeated: false, triggers }))
}

/// Imports a record. The key leads to the version that the last import made, and to a hash of the file as it was then.
pub(crate) async fn import(
    rows: &impl Rows,
    creation: &Creation,
    replaces: bool,
) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Creation { new, by, key, at, .. } = creation;
    // The person does not count: two people may import the same folder.
    let request = request_hash(&("import", new));
    let scope = scoped(&by.viewer.project, key.as_deref().unwrap_or_default());
    let Some(KeyRow { number, version, request: last }) = rows.key_to_change(&scope).await? else {
        return create(rows, creation, request).await;
    };
    let row = rows.load_to_change(number).await?;
    if row.is_over(*at) {
        // The creation removes what has ended.
        return create(rows, creation, request).await;
    }
    if !row.is_for(&by.viewer, *at) {
        return Ok(Err(BreadcrumbError::Unknown(row.id)));
    }
    let current = rows.newest(&row).await?.breadcrumb;
    if last == request {
        return Ok(Ok(Written { breadcrumb: current, repeated: true, triggers: 0 }));
    }
    let imported = rows.version(&row, version).await?.breadcrumb;
    let wanted = match baton_breadcrumb::import(&current, &imported, new, replaces) {
        Ok(wanted) => wanted,
        Err(refused) => return Ok(Err(refused)),
    };
    if wanted == BreadcrumbChange::default() {
        let key = KeyRow { number, version: current.version, request };
        rows.save_key(&scope, key, false).await?;
        return Ok(Ok(Written { breadcrumb: current, repeated: true, triggers: 0 }));
    }
    let update = Update { id: row.id, change: wanted, expected: None, by: by.clone(), key: None, at: *at };
    let written = change(rows, &update).await?;
    if let Ok(written) = &written {
        rows.save_key(&scope, KeyRow { number, version: written.breadcrumb.version, request }, false).await?;
    }
    Ok(written)
}

pub(crate) async fn change(rows: &impl Rows, update: &Update) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Update { id, change, expected, by, key, at } = update;
    let request = request_hash(&("change", id, change, expected, &by.viewer.principal));
    let key = match keyed(rows, &by.viewer.project, key.as_deref(), request, *at).await? {
        Keyed::Done(answer) => return Ok(answer),
        Keyed::New(key) => key,
    };
    let Some(row) = rows.find_to_change(id).await?.filter(|row| row.is_for(&by.viewer, *at)) else {
        return Ok(Err(BreadcrumbError::Unknown(id.clone())));
    };
    if let Some(expected) = expected.filter(|expected| *expected != row.version) {
        return Ok(Err(BreadcrumbError::VersionMismatch { expected, found: row.version }));
    }
    let newest = rows.newest(&row).await?;
    let (defined_by, current) = (row.defines_by(&newest), newest.breadcrumb);
    let definition = match &current.schema_name {
        Some(schema) => definition(rows, schema, &current.project, *at).await?,
        None => None,
    };
    let record = match changed(&current, change, by, definition.as_ref(), *at) {
        Ok(record) => record,
        Err(refused) => return Ok(Err(refused)),
    };
    let defines_by = Definition::counting(&record, Some((&current, defined_by)));
    let made = BreadcrumbVersion { breadcrumb: record, verdict: change.verdict.clone(), defines_by };
    write_version(rows, &made, Some((&row, &current)), definition.as_ref(), key.map(|key| (key, request))).await?;
    let triggers = triggers::note(rows, &made.breadcrumb, Some(&current), by).await?;
    Ok(Ok(Written { breadcrumb: made.breadcrumb, repeated: false, triggers }))
}

pub(crate) async fn read(
    rows: &impl Rows,
    id: &BreadcrumbId,
    viewer: &Viewer,
    at: Timestamp,
) -> Result<Result<Written, BreadcrumbError>, StoreError> {
    let Some(mut row) = rows.find_to_change(id).await?.filter(|row| row.is_for(viewer, at)) else {
        return Ok(Err(BreadcrumbError::Unknown(id.clone())));
    };
    row.read_count += 1;
    let breadcrumb = rows.newest(&row).await?.breadcrumb;
    // The read that ends a record still gets it.
    if is_gone(&breadcrumb, at) {
        row.ends = Some(at.as_micros());
    }
    rows.save(&row).await?;
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
async fn keyed(
    rows: &impl Rows,
    project: &ProjectId,
    key: Option<&str>,
    request: ContentHash,
    now: Timestamp,
) -> Result<Keyed, StoreError> {
    let Some(key) = key else { return Ok(Keyed::New(None)) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let reason = format!("it has {} bytes; expected 1 to {MAX_KEY_BYTES}", key.len());
        return Ok(Keyed::Done(Err(BreadcrumbError::Invalid { field: "idempotency key", reason })));
    }
    let filed = scoped(project, key);
    let Some(known) = rows.key_to_change(&filed).await? else { return Ok(Keyed::New(Some(filed))) };
    let row = rows.load_to_change(known.number).await?;
    if row.is_over(now) {
        rows.remove(&row).await?;
        return Ok(Keyed::New(Some(filed)));
    }
    if known.request != request {
        return Ok(Keyed::Done(Err(BreadcrumbError::KeyConflict(key.to_owned()))));
    }
    let breadcrumb = rows.version(&row, known.version).await?.breadcrumb;
    Ok(Keyed::Done(Ok(Written { breadcrumb, repeated: true, triggers: 0 })))
}

/// Returns the scope in which a key is unique.
fn scoped(project: &ProjectId, key: &str) -> String {
    format!("{project}\n{key}")
}

fn request_hash(request: &impl Serialize) -> ContentHash {
    ContentHash::of(&serde_json::to_vec(request).expect("the parts of a request serialise"))
}

/// Writes a version of a record, and everything by which it is found. `before` is the record before the version, and `definition` that of
/// its schema. `key` is that of the write, with a hash of it.
async fn write_version(
    rows: &impl Rows,
    made: &BreadcrumbVersion,
    before: Option<(&BreadcrumbRow, &Breadcrumb)>,
    definition: Option<&Definition>,
    key: Option<(String, ContentHash)>,
) -> Result<(), StoreError> {
    let record = &made.breadcrumb;
    let defines = match made.defines_by {
        Some(version) if version == record.version && record.schema_name.as_deref() == Some(DEFINITION_SCHEMA) => {
            Definition::read(record).ok().map(|read| read.schema().to_owned())
        }
        Some(_earlier) => before.and_then(|(row, _)| row.defines.clone()),
        None => None,
    };
    let row = BreadcrumbRow::of(before.map_or(0, |(row, _)| row.number), record, defines);
    let searched = searched_text(record, definition);
    let number = rows.write_version(NewVersion { row, made, before: before.map(|(_, record)| record), searched }).await?;
    if let Some((key, request)) = key {
        rows.save_key(&key, KeyRow { number, version: record.version, request }, true).await?;
    }
    Ok(())
}

/// Files the tags and words of all records, which a copy has written without them. Words are those that the present definitions choose.
pub(crate) async fn file_all(rows: &impl Rows, all: Vec<BreadcrumbRow>) -> Result<(), StoreError> {
    for row in all {
        let made = rows.newest(&row).await?;
        let record = &made.breadcrumb;
        let definition = match &record.schema_name {
            Some(schema) => definition(rows, schema, &record.project, record.updated_at).await?,
            None => None,
        };
        let searched = searched_text(record, definition.as_ref());
        rows.file_copied(NewVersion { row, made: &made, before: None, searched }).await?;
    }
    Ok(())
}
