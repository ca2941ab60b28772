//! The rows with the current state: one for each run, one for the whole file.
//!
//! A search that finds nothing is believed only after a look at all rows, which are counted: damage to an index must not make
//! a run unknown. So a search for a missing run costs more than one for an existing run.

use baton_types::entry::ForkPoint;
use baton_types::id::{ContentHash, JobId, RunId};
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::recent::Recent;
use super::to_sql;
use crate::rows::{WHOLE_RUN, first_eight, root_link};
use crate::{RunRecord, StoreError};

/// From this many rows of runs on, a writer forgets all of them. Each has about a kilobyte.
const MAX_KEPT: usize = 4_096;

/// Returns the checksum of a row: part of a hash over all its values.
pub(crate) fn checksum_of(row: &impl Serialize) -> i64 {
    let text = serde_json::to_vec(row).expect("numbers and texts serialise");
    first_eight(ContentHash::of(&text))
}

/// A run's row.
#[derive(Clone, Debug)]
pub(super) struct RunRow {
    /// Number that identifies the run in other rows.
    pub(super) number: i64,
    pub(super) id: RunId,
    pub(super) job: JobId,
    pub(super) status: String,
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) last_seq: u64,
    pub(super) epoch: u64,
    pub(super) owner: Option<String>,
    /// When it continues by itself, if its last owner released it while it waited.
    pub(super) wakes: Option<i64>,
    /// The number of the run that it begins with, and the last entry of it.
    pub(super) past: Option<i64>,
    pub(super) past_seq: u64,
    /// Number of commands in its inbox.
    pub(super) commands: u64,
    /// Number of tasks with places in the tree.
    pub(super) tasks: u64,
    /// Its places that are not yet in the tree.
    pub(super) recent: Recent,
    /// Last link of its hash chain: see [`super::rows`].
    pub(super) link: ContentHash,
}

const COLUMNS: &str =
    "run, id, job, status, created, updated, last_seq, epoch, owner, wakes, past, past_seq, commands, tasks, recent, link,
     checksum";

impl RunRow {
    /// Returns the row of the run called `id`, if there is one.
    pub(super) fn find(file: &Connection, id: &RunId) -> Result<Option<Self>, StoreError> {
        let found = file
            .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?
            .query_row([id.as_str()], |row| Ok(Self::read(row)))
            .optional()?;
        match found {
            Some(row) => row.map(Some),
            None if Self::all(file)?.iter().any(|row| row.id == *id) => {
                Err(StoreError::Corrupt { what: format!("the index of runs lacks run {id}") })
            }
            None => Ok(None),
        }
    }

    /// Returns the row of the run with this number.
    pub(super) fn load(file: &Connection, number: i64) -> Result<Self, StoreError> {
        let found = file
            .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE run = ?1"))?
            .query_row([number], |row| Ok(Self::read(row)))
            .optional()?;
        found.ok_or_else(|| StoreError::Corrupt { what: format!("run number {number}, the past of another run, is missing") })?
    }

    /// Returns all runs, oldest row first.
    pub(super) fn all(file: &Connection) -> Result<Vec<Self>, StoreError> {
        let mut statement = file.prepare_cached(&format!("SELECT {COLUMNS} FROM runs NOT INDEXED ORDER BY run"))?;
        let rows = statement.query_map([], |row| Ok(Self::read(row)))?;
        let rows = rows.map(|row| row?).collect::<Result<Vec<_>, _>>()?;
        let expected = Totals::load(file)?.runs;
        if rows.len() as u64 != expected || !rows.is_sorted_by(|one, next| one.number < next.number) {
            return Err(StoreError::Corrupt { what: format!("{} runs are stored, expected {expected}", rows.len()) });
        }
        Ok(rows)
    }

    /// Writes a new row; answers `false`, and writes nothing, if there is a run of this id.
    pub(super) fn insert(&mut self, file: &Connection) -> Result<bool, StoreError> {
        let number = file.prepare_cached("SELECT coalesce(max(run), 0) + 1 FROM runs")?.query_row([], |row| row.get(0))?;
        self.insert_as(file, number)
    }

    /// Writes a new row under a number that is free; answers like [`Self::insert`].
    pub(super) fn insert_as(&mut self, file: &Connection, number: i64) -> Result<bool, StoreError> {
        self.number = number;
        let recent = self.recent.text();
        let written = file
            .prepare_cached(&format!(
                "INSERT INTO runs ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                 ?17)
                 ON CONFLICT (id) DO NOTHING"
            ))?
            .execute(params![
                self.number,
                self.id.as_str(),
                self.job.as_str(),
                self.status,
                self.created,
                self.updated,
                to_sql(self.last_seq),
                to_sql(self.epoch),
                self.owner,
                self.wakes,
                self.past,
                to_sql(self.past_seq),
                to_sql(self.commands),
                to_sql(self.tasks),
                recent,
                self.link.as_bytes(),
                self.checksum(&recent)
            ])?;
        Ok(written == 1)
    }

    /// Writes what can change of a row.
    pub(super) fn save(&self, file: &Connection) -> Result<(), StoreError> {
        let recent = self.recent.text();
        let changed = file
            .prepare_cached(
            "UPDATE runs SET status = ?2, updated = ?3, last_seq = ?4, epoch = ?5, owner = ?6, wakes = ?7, commands = ?8, tasks = ?9,
             recent = ?10, link = ?11, checksum = ?12 WHERE run = ?1",
        )?
        .execute(params![
            self.number,
            self.status,
            self.updated,
            to_sql(self.last_seq),
            to_sql(self.epoch),
            self.owner,
            self.wakes,
            to_sql(self.commands),
            to_sql(self.tasks),
            recent,
            self.link.as_bytes(),
            self.checksum(&recent)
        ])?;
        self.one_changed(changed)
    }

    /// Writes what a batch changes that consumes no command and releases nothing. Unlike [`Self::save`], it touches no index.
    pub(super) fn save_after_batch(&self, file: &Connection) -> Result<(), StoreError> {
        let recent = self.recent.text();
        let changed = file
            .prepare_cached(
                "UPDATE runs SET status = ?2, updated = ?3, last_seq = ?4, tasks = ?5, recent = ?6, link = ?7, checksum = ?8 WHERE run = ?1",
            )?
            .execute(params![
                self.number,
                self.status,
                self.updated,
                to_sql(self.last_seq),
                to_sql(self.tasks),
                recent,
                self.link.as_bytes(),
                self.checksum(&recent)
            ])?;
        self.one_changed(changed)
    }

    /// Reports a row that is no longer there: a kept row was not read before it was written.
    fn one_changed(&self, changed: usize) -> Result<(), StoreError> {
        if changed == 1 {
            return Ok(());
        }
        Err(StoreError::Corrupt { what: format!("the row of run {} is missing", self.id) })
    }

    /// Returns the run for lists of runs.
    pub(super) fn into_record(self, file: &Connection) -> Result<RunRecord, StoreError> {
        let past = match self.past {
            Some(past) => Some(ForkPoint { run: Self::load(file, past)?.id, seq: self.past_seq }),
            None => None,
        };
        Ok(RunRecord {
            id: self.id,
            job: self.job,
            status: self.status,
            created: Timestamp::from_micros(self.created),
            updated: Timestamp::from_micros(self.updated),
            last_seq: self.last_seq,
            past,
            epoch: self.epoch,
            owner: self.owner,
        })
    }

    /// Returns the link before its first own row of entries.
    pub(super) fn first_link(&self, file: &Connection) -> Result<ContentHash, StoreError> {
        match self.past {
            Some(past) => link_at(file, Self::load(file, past)?, self.past_seq),
            None => Ok(root_link(&self.id)),
        }
    }

    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let recent: String = row.get(14)?;
        let mut read = Self {
            number: row.get(0)?,
            id: RunId::new(row.get::<_, String>(1)?),
            job: JobId::new(row.get::<_, String>(2)?),
            status: row.get(3)?,
            created: row.get(4)?,
            updated: row.get(5)?,
            last_seq: row.get::<_, i64>(6)? as u64,
            epoch: row.get::<_, i64>(7)? as u64,
            owner: row.get(8)?,
            wakes: row.get(9)?,
            past: row.get(10)?,
            past_seq: row.get::<_, i64>(11)? as u64,
            commands: row.get::<_, i64>(12)? as u64,
            tasks: row.get::<_, i64>(13)? as u64,
            recent: Recent::default(),
            link: ContentHash::from_bytes(row.get(15)?),
        };
        if row.get::<_, i64>(16)? != read.checksum(&recent) {
            return Err(StoreError::Corrupt { what: format!("the row of run {} does not match its checksum", read.id) });
        }
        read.recent = Recent::stored(&recent)
            .map_err(|error| StoreError::Corrupt { what: format!("the latest places of run {}: {error}", read.id) })?;
        Ok(read)
    }

    /// Returns the checksum of the row with `recent` as the text of its latest places. It is made of bytes rather than of a JSON text,
    /// since each batch needs one.
    fn checksum(&self, recent: &str) -> i64 {
        let Self { number, id, job, status, created, updated, last_seq, epoch, owner, wakes, .. } = self;
        let Self { past, past_seq, commands, tasks, link, .. } = self;
        let mut bytes = Vec::with_capacity(2_048);
        for part in
            [*number, *created, *updated, to_sql(*past_seq), to_sql(*last_seq), to_sql(*epoch), to_sql(*commands), to_sql(*tasks)]
        {
            bytes.extend_from_slice(&part.to_le_bytes());
        }
        for part in [wakes, past] {
            bytes.push(u8::from(part.is_some()));
            bytes.extend_from_slice(&part.unwrap_or_default().to_le_bytes());
        }
        bytes.push(u8::from(owner.is_some()));
        for part in [id.as_str(), job.as_str(), status, owner.as_deref().unwrap_or_default(), recent] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes.extend_from_slice(link.as_bytes());
        first_eight(ContentHash::of(&bytes))
    }
}

/// The rows of runs that this connection wrote last, for its next write to the same run.
///
/// They are those of the file as long as no other connection has written to it and no transaction was rolled back.
#[derive(Debug, Default)]
pub(super) struct Kept {
    rows: FxHashMap<RunId, RunRow>,
    /// SQLite's version of the file, which changes when another connection commits.
    version: i64,
}

impl Kept {
    /// Forgets all rows if another connection has written to `file`, or if there are too many. Called at the beginning of a transaction.
    pub(super) fn begin(&mut self, file: &Connection) -> Result<(), StoreError> {
        let version = file.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version != self.version || self.rows.len() >= MAX_KEPT {
            *self = Self { rows: FxHashMap::default(), version };
        }
        Ok(())
    }

    /// Forgets all rows: a transaction was rolled back.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
    }

    /// Takes the row of the run called `id`, if there is one.
    pub(super) fn take(&mut self, file: &Connection, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.rows.remove(id).map_or_else(|| RunRow::find(file, id), |row| Ok(Some(row)))
    }

    /// Keeps a row that the file has, if the run has an owner: without one, its next write may be of another process.
    pub(super) fn keep(&mut self, row: RunRow) {
        if row.owner.is_some() {
            self.rows.insert(row.id.clone(), row);
        }
    }
}

/// Returns the link of the row that has entry `seq` of the timeline of `run`.
pub(super) fn link_at(file: &Connection, mut run: RunRow, seq: u64) -> Result<ContentHash, StoreError> {
    while seq <= run.past_seq {
        run = match run.past {
            // A past is older than what begins with it, and so has a lower number: no damage makes this walk endless.
            Some(past) if past < run.number => RunRow::load(file, past)?,
            Some(_) => return Err(StoreError::Corrupt { what: format!("run {} refers to a later run as its past", run.id) }),
            None => return Ok(root_link(&run.id)),
        };
    }
    let found = file
        .prepare_cached(
            "SELECT link FROM places CROSS JOIN batches USING (batch)
             WHERE places.run = ?1 AND places.task = ?2 AND places.last >= ?3 ORDER BY places.last LIMIT 1",
        )?
        .query_row([run.number, WHOLE_RUN, to_sql(seq)], |row| row.get(0))
        .optional()?;
    let found = match (found, run.recent.of(&run.id)?.iter().find(|place| place.0 >= seq)) {
        (None, Some(place)) => {
            file.prepare_cached("SELECT link FROM batches WHERE batch = ?1")?.query_row([place.1], |row| row.get(0)).optional()?
        }
        (found, _) => found,
    };
    found.map(ContentHash::from_bytes).ok_or_else(|| StoreError::Corrupt { what: format!("run {} lacks entry {seq}", run.id) })
}

/// The row of the whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Number of runs.
    pub(super) runs: u64,
    /// Number of pairs of an agent and a tool that have memories.
    pub(super) memories: u64,
    /// The number of the last command.
    pub(super) commands: u64,
    /// Random bytes.
    pub(super) secret: [u8; 32],
}

impl Totals {
    /// Returns the totals of an empty store.
    pub(super) fn new(file: &Connection) -> Result<Self, StoreError> {
        // SQLite's generator is seeded by the system's.
        let secret = file.query_row("SELECT randomblob(32)", [], |row| row.get(0))?;
        Ok(Self { secret, ..Self::default() })
    }

    pub(super) fn load(file: &Connection) -> Result<Self, StoreError> {
        let (totals, checksum) = file
            .prepare_cached("SELECT runs, memories, commands, secret, checksum FROM totals WHERE total = 1")?
            .query_row([], |row| {
                let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
                let totals = Self { runs: number(0)?, memories: number(1)?, commands: number(2)?, secret: row.get(3)? };
                Ok((totals, row.get::<_, i64>(4)?))
            })
            .optional()?
            .unwrap_or_default();
        if checksum == totals.checksum() {
            Ok(totals)
        } else {
            Err(StoreError::Corrupt { what: "the totals of the store do not match their checksum".into() })
        }
    }

    pub(super) fn save(self, file: &Connection) -> Result<(), StoreError> {
        file.prepare_cached(
            "INSERT OR REPLACE INTO totals (total, runs, memories, commands, secret, checksum) VALUES (1, ?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            to_sql(self.runs),
            to_sql(self.memories),
            to_sql(self.commands),
            self.secret,
            self.checksum()
        ])?;
        Ok(())
    }

    fn checksum(self) -> i64 {
        checksum_of(&(self.runs, self.memories, self.commands, self.secret))
    }
}
