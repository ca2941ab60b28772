//! The rows of breadcrumbs in PostgreSQL, within the transaction of a connection.
//!
//! Transactions run at READ COMMITTED. A record is locked before it is judged, and an idempotency key before it is looked up, also if it
//! has no row yet. A trigger gets its number under the lock of its queue, so a later number is never visible before an earlier one.

use baton_breadcrumb::{BreadcrumbError, Trigger};
use baton_types::breadcrumb::{BreadcrumbVersion, VectorKind};
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId, RunId};
use baton_types::time::Timestamp;
use rusqlite::types::Value;
use tokio_postgres::{Client, Row};

use super::words::{Texts, vector_of};
use crate::StoreError;
use crate::breadcrumbs::row::{BreadcrumbRow, KeyRow, damaged, decoded, encoded};
use crate::breadcrumbs::rows::{NewVersion, Rows, SWEPT};
use crate::breadcrumbs::triggers::{read_trigger, trigger_body};
use crate::copy::Table;
use crate::postgres::value::{Parameter, values};
use crate::sqlite::{checksum_of, key_hash};

/// The columns of a record's row, of the table `b`.
pub(super) const COLUMNS: &str = "b.breadcrumb, b.id, b.owner, b.project, b.visibility, b.sensitivity, b.schema_name, b.defines, b.version, \
                                  b.read_count, b.ends, b.updated";

/// Deletes what belongs to the records that the query `gone` deletes.
const DELETE_PARTS: &str = "
    versions AS (DELETE FROM baton.breadcrumb_versions AS t USING gone WHERE t.breadcrumb = gone.breadcrumb),
    words AS (DELETE FROM baton.breadcrumb_words AS t USING gone WHERE t.breadcrumb = gone.breadcrumb),
    keys AS (DELETE FROM baton.breadcrumb_keys AS t USING gone WHERE t.breadcrumb = gone.breadcrumb),
    ticks AS (DELETE FROM baton.breadcrumb_ticks AS t USING gone WHERE t.breadcrumb = gone.breadcrumb),
    vectors AS (DELETE FROM baton.breadcrumb_vectors AS t USING gone WHERE t.breadcrumb = gone.breadcrumb)
    SELECT count(*) FROM gone";

/// Reads the row of a record from its first columns.
pub(super) fn read(row: &Row) -> Result<BreadcrumbRow, StoreError> {
    Ok(BreadcrumbRow {
        number: row.try_get(0)?,
        id: BreadcrumbId::new(row.try_get::<_, &str>(1)?),
        owner: decoded(row.try_get(2)?)?,
        project: ProjectId::new(row.try_get::<_, &str>(3)?),
        visibility: decoded(row.try_get(4)?)?,
        sensitivity: decoded(row.try_get(5)?)?,
        schema_name: row.try_get(6)?,
        defines: row.try_get(7)?,
        version: row.try_get::<_, i64>(8)? as u64,
        read_count: row.try_get::<_, i64>(9)? as u64,
        ends: row.try_get(10)?,
        updated: row.try_get(11)?,
    })
}

/// Whether PostgreSQL can have this text: it keeps no text with the character U+0000.
pub(super) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

/// Returns the rows that `rest`, which follows the name `b` of the table, selects.
pub(super) async fn select(client: &Client, rest: &str, parameters: &[Parameter<'_>]) -> Result<Vec<BreadcrumbRow>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM baton.breadcrumbs AS b {rest}");
    client.query_typed(&statement, parameters).await?.iter().map(read).collect()
}

/// Waits for the lock of a name, and holds it until the transaction ends.
async fn lock(client: &Client, kind: &str, name: &str) -> Result<(), StoreError> {
    let number = checksum_of(&(kind, name));
    client.execute_typed("SELECT pg_advisory_xact_lock($1)", values![number]).await?;
    Ok(())
}

fn version_checksum(version: i64, text: &str) -> i64 {
    checksum_of(&(version, ContentHash::of(text.as_bytes()).as_bytes()))
}

/// Returns the words of a version.
fn words_of(new: &NewVersion<'_>) -> String {
    let record = &new.made.breadcrumb;
    let description = record.description.as_deref().unwrap_or_default();
    vector_of(&Texts { title: &record.title, description, tags: &record.tags, context: &new.searched })
}

/// Changes what PostgreSQL stores in another form than SQLite: the checksum of a version, and the hash of a key instead of the key.
pub(in crate::postgres) fn adapt_copied(table: Table, row: &mut [Value]) {
    match (table, row) {
        (Table::BreadcrumbVersions, [_, Value::Integer(version), Value::Text(text), checksum]) => {
            *checksum = version_checksum(*version, text).into();
        }
        (Table::BreadcrumbKeys, [key, ..]) => {
            if let Value::Text(name) = key {
                *key = key_hash(name).as_bytes().to_vec().into();
            }
        }
        _ => {}
    }
}

/// Reads a trigger from its first two columns, number and text.
pub(super) fn trigger(row: &Row) -> Result<Trigger, StoreError> {
    read_trigger(row.try_get(0)?, row.try_get(1)?)
}

impl Rows for Client {
    async fn find(&self, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError> {
        if !is_storable(id.as_str()) {
            return Ok(None);
        }
        Ok(select(self, "WHERE b.id = $1", values![id.as_str()]).await?.pop())
    }

    async fn find_to_change(&self, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError> {
        if !is_storable(id.as_str()) {
            return Ok(None);
        }
        Ok(select(self, "WHERE b.id = $1 FOR UPDATE", values![id.as_str()]).await?.pop())
    }

    async fn load_to_change(&self, number: i64) -> Result<BreadcrumbRow, StoreError> {
        let found = select(self, "WHERE b.breadcrumb = $1 FOR UPDATE", values![number]).await?.pop();
        found.ok_or_else(|| damaged(format!("the row of breadcrumb number {number} is missing")))
    }

    async fn of_schema(&self, schema: &str, project: Option<&ProjectId>) -> Result<Vec<BreadcrumbRow>, StoreError> {
        let project = project.map(ProjectId::as_str);
        let rest = "WHERE b.schema_name = $1 AND ($2 IS NULL OR b.project = $2) ORDER BY b.breadcrumb";
        select(self, rest, values![schema, project]).await
    }

    async fn defining(&self, schema: &str) -> Result<Vec<BreadcrumbRow>, StoreError> {
        if !is_storable(schema) {
            return Ok(Vec::new());
        }
        select(self, "WHERE b.defines = $1 ORDER BY b.breadcrumb", values![schema]).await
    }

    async fn versions(&self, wanted: &[(&BreadcrumbRow, u64)]) -> Result<Vec<BreadcrumbVersion>, StoreError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<i64> = wanted.iter().map(|(row, _)| row.number).collect();
        let versions: Vec<i64> = wanted.iter().map(|(_, version)| *version as i64).collect();
        let found = self
            .query_typed(
                "SELECT w.place, v.record, v.checksum FROM unnest($1, $2) WITH ORDINALITY AS w (breadcrumb, version, place)
                 JOIN baton.breadcrumb_versions AS v ON v.breadcrumb = w.breadcrumb AND v.version = w.version ORDER BY w.place",
                values![numbers, versions],
            )
            .await?;
        let mut read = Vec::with_capacity(wanted.len());
        let mut found = found.iter();
        for (place, (row, version)) in (1_i64..).zip(wanted) {
            let next = found.next().ok_or_else(|| row.lacks(*version))?;
            let (at, text): (i64, &str) = (next.try_get(0)?, next.try_get(1)?);
            if at != place {
                return Err(row.lacks(*version));
            }
            if next.try_get::<_, i64>(2)? != version_checksum(*version as i64, text) {
                return Err(row.differs(*version));
            }
            read.push(row.read_version(*version, text)?);
        }
        Ok(read)
    }

    async fn write_version(&self, new: NewVersion<'_>) -> Result<i64, StoreError> {
        let (record, row) = (&new.made.breadcrumb, &new.row);
        let text = serde_json::to_string(new.made).expect("a record has only string keys and always serialises");
        let (version, count) = (row.version as i64, row.read_count as i64);
        let checksum = version_checksum(version, &text);
        let words = words_of(&new);
        let (visibility, sensitivity) = (encoded(&row.visibility), encoded(&row.sensitivity));
        let tags: Vec<&str> = record.tags.iter().map(String::as_str).collect();
        if row.number != 0 {
            let statement = "
                WITH saved AS (
                    UPDATE baton.breadcrumbs SET visibility = $2, sensitivity = $3, defines = $4, version = $5, read_count = $6, ends = $7,
                        updated = $8
                    WHERE breadcrumb = $1),
                filed AS (UPDATE baton.breadcrumb_words SET tags = $11, words = $12::tsvector WHERE breadcrumb = $1),
                forgotten AS (DELETE FROM baton.breadcrumb_vectors WHERE breadcrumb = $1)
                INSERT INTO baton.breadcrumb_versions (breadcrumb, version, record, checksum) VALUES ($1, $5, $9, $10)";
            #[rustfmt::skip]
            let parameters = values![
                row.number, visibility, sensitivity, row.defines, version, count, row.ends, row.updated, text, checksum, tags, words
            ];
            self.execute_typed(statement, parameters).await?;
            return Ok(row.number);
        }
        let statement = "
            WITH made AS (
                INSERT INTO baton.breadcrumbs
                    (id, owner, project, visibility, sensitivity, schema_name, defines, version, read_count, ends, updated)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING RETURNING breadcrumb),
            written AS (
                INSERT INTO baton.breadcrumb_versions (breadcrumb, version, record, checksum)
                SELECT breadcrumb, $8, $12, $13 FROM made),
            filed AS (INSERT INTO baton.breadcrumb_words (breadcrumb, tags, words) SELECT breadcrumb, $14, $15::tsvector FROM made)
            SELECT breadcrumb FROM made";
        let (id, owner, project) = (row.id.as_str(), encoded(&row.owner), row.project.as_str());
        #[rustfmt::skip]
        let parameters = values![
            id, owner, project, visibility, sensitivity, row.schema_name, row.defines, version, count, row.ends, row.updated, text,
            checksum, tags, words
        ];
        match self.query_typed_opt(statement, parameters).await? {
            Some(made) => Ok(made.try_get(0)?),
            // Another transaction took the id after this one looked.
            None => Err(BreadcrumbError::KeyConflict(row.id.to_string()).into()),
        }
    }

    async fn file_copied(&self, new: NewVersion<'_>) -> Result<(), StoreError> {
        let tags: Vec<&str> = new.made.breadcrumb.tags.iter().map(String::as_str).collect();
        let statement = "INSERT INTO baton.breadcrumb_words (breadcrumb, tags, words) VALUES ($1, $2, $3::tsvector)";
        self.execute_typed(statement, values![new.row.number, tags, words_of(&new)]).await?;
        Ok(())
    }

    async fn save(&self, row: &BreadcrumbRow) -> Result<(), StoreError> {
        let statement = "UPDATE baton.breadcrumbs SET read_count = $2, ends = $3 WHERE breadcrumb = $1";
        self.execute_typed(statement, values![row.number, row.read_count as i64, row.ends]).await?;
        Ok(())
    }

    async fn remove(&self, row: &BreadcrumbRow) -> Result<(), StoreError> {
        let gone = "DELETE FROM baton.breadcrumbs WHERE breadcrumb = $1 RETURNING breadcrumb";
        self.query_typed(&format!("WITH gone AS ({gone}),{DELETE_PARTS}"), values![row.number]).await?;
        Ok(())
    }

    async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        // Records that another transaction is changing or removing are left to a later pass.
        let ended = "SELECT breadcrumb FROM baton.breadcrumbs WHERE ends <= $1 ORDER BY ends LIMIT $2 FOR UPDATE SKIP LOCKED";
        let gone = format!("DELETE FROM baton.breadcrumbs WHERE breadcrumb IN ({ended}) RETURNING breadcrumb");
        self.query_typed(&format!("WITH gone AS ({gone}),{DELETE_PARTS}"), values![now.as_micros(), SWEPT]).await?;
        Ok(())
    }

    async fn key_to_change(&self, key: &str) -> Result<Option<KeyRow>, StoreError> {
        lock(self, "key of a breadcrumb", key).await?;
        let hash = ContentHash::of(key.as_bytes());
        let statement = "SELECT breadcrumb, version, request FROM baton.breadcrumb_keys WHERE key = $1";
        let Some(found) = self.query_typed_opt(statement, values![&hash.as_bytes()[..]]).await? else { return Ok(None) };
        let request: [u8; 32] = found.try_get::<_, &[u8]>(2)?.try_into().map_err(damaged)?;
        Ok(Some(KeyRow {
            number: found.try_get(0)?,
            version: found.try_get::<_, i64>(1)? as u64,
            request: ContentHash::from_bytes(request),
        }))
    }

    async fn save_key(&self, key: &str, row: KeyRow, _is_new: bool) -> Result<(), StoreError> {
        let hash = ContentHash::of(key.as_bytes());
        let statement = "
            INSERT INTO baton.breadcrumb_keys (key, breadcrumb, version, request) VALUES ($1, $2, $3, $4)
            ON CONFLICT (key) DO UPDATE SET breadcrumb = $2, version = $3, request = $4";
        let (hash, request): (&[u8], &[u8]) = (hash.as_bytes(), row.request.as_bytes());
        self.execute_typed(statement, values![hash, row.number, row.version as i64, request]).await?;
        Ok(())
    }

    async fn settled(&self, number: i64) -> Result<Option<Timestamp>, StoreError> {
        let statement = "SELECT settled FROM baton.breadcrumb_ticks WHERE breadcrumb = $1";
        let found = self.query_typed_opt(statement, values![number]).await?;
        Ok(found.map(|row| row.try_get(0)).transpose()?.map(Timestamp::from_micros))
    }

    async fn settle_ticks(&self, number: i64, at: Timestamp) -> Result<(), StoreError> {
        let statement = "INSERT INTO baton.breadcrumb_ticks (breadcrumb, settled) VALUES ($1, $2)
             ON CONFLICT (breadcrumb) DO UPDATE SET settled = $2";
        self.execute_typed(statement, values![number, at.as_micros()]).await?;
        Ok(())
    }

    async fn save_vector(&self, row: &BreadcrumbRow, kind: &VectorKind, bytes: &[u8]) -> Result<(), StoreError> {
        let statement = "
            INSERT INTO baton.breadcrumb_vectors (breadcrumb, version, model, dimensions, vector) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (breadcrumb) DO UPDATE SET version = $2, model = $3, dimensions = $4, vector = $5";
        let (version, model, dimensions) = (row.version as i64, kind.model.as_str(), kind.dimensions as i64);
        self.execute_typed(statement, values![row.number, version, model, dimensions, bytes]).await?;
        Ok(())
    }

    async fn add_trigger(&self, trigger: Trigger) -> Result<(), StoreError> {
        let queue = trigger.queue();
        if let Some(queue) = &queue {
            lock(self, "queue of triggers", queue).await?;
        }
        let statement = "INSERT INTO baton.breadcrumb_triggers (project, waits, queue, run, body) VALUES ($1, $2, $3, $4, $5)";
        let (run, body) = (trigger.state.run().map(RunId::as_str), trigger_body(&trigger));
        self.execute_typed(statement, values![trigger.project.as_str(), trigger.state.is_open(), queue, run, body]).await?;
        Ok(())
    }

    async fn trigger_to_change(&self, number: u64) -> Result<Trigger, StoreError> {
        let statement = "SELECT trigger, body FROM baton.breadcrumb_triggers WHERE trigger = $1 FOR UPDATE";
        match self.query_typed_opt(statement, values![i64::try_from(number).unwrap_or(i64::MAX)]).await? {
            Some(found) => trigger(&found),
            None => Err(damaged(format!("trigger {number} is missing"))),
        }
    }

    async fn save_trigger(&self, trigger: &Trigger) -> Result<(), StoreError> {
        let statement = "UPDATE baton.breadcrumb_triggers SET waits = $2, run = $3, body = $4 WHERE trigger = $1";
        let (run, body) = (trigger.state.run().map(RunId::as_str), trigger_body(trigger));
        self.execute_typed(statement, values![trigger.number as i64, trigger.state.is_open(), run, body]).await?;
        Ok(())
    }

    async fn trigger_of(&self, run: &RunId) -> Result<Option<Trigger>, StoreError> {
        let statement = "SELECT trigger, body FROM baton.breadcrumb_triggers WHERE run = $1";
        self.query_typed_opt(statement, values![run.as_str()]).await?.map(|row| trigger(&row)).transpose()
    }

    async fn next_triggers(&self, project: &ProjectId, limit: usize) -> Result<Vec<Trigger>, StoreError> {
        let statement = "
            SELECT trigger, body FROM baton.breadcrumb_triggers AS this WHERE project = $1 AND waits AND NOT EXISTS
                (SELECT 1 FROM baton.breadcrumb_triggers AS b WHERE b.queue = this.queue AND b.waits AND b.trigger < this.trigger)
            ORDER BY trigger LIMIT $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query_typed(statement, values![project.as_str(), limit]).await?.iter().map(trigger).collect()
    }

    async fn run_before(&self, queue: &str, number: u64) -> Result<Option<RunId>, StoreError> {
        let statement = "
            SELECT run FROM baton.breadcrumb_triggers WHERE queue = $1 AND trigger < $2 AND run IS NOT NULL
            ORDER BY trigger DESC LIMIT 1";
        let found = self.query_typed_opt(statement, values![queue, number as i64]).await?;
        Ok(found.map(|row| row.try_get::<_, &str>(0).map(RunId::new)).transpose()?)
    }
}
