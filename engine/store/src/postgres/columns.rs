//! The statement that appends batches, with their rows as columns.

use baton_types::document::Content;
use baton_types::id::ContentHash;
use baton_types::time::Timestamp;

use super::pool::Connection;
use super::value::{to_sql, values};
use crate::rows::{self, EntryRow};
use crate::{Batch, StoreError};

/// Contents that together have more bytes are inserted one by one: a parameter has at most 1 GB, and is copied a few times.
const MAX_PARAMETER_BYTES: usize = 8 << 20;

/// A batch with the rows that it adds to its run.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) batch: Batch,
    entries: Vec<EntryRow>,
    /// The last link of the run before and after the batch.
    before: ContentHash,
    pub(super) after: ContentHash,
}

impl Rows {
    /// Returns the rows of a batch that is not placed in its run yet.
    pub(super) fn of(batch: Batch) -> Self {
        let entries = rows::of_batch(&batch);
        let none = ContentHash::of(b"");
        Self { batch, entries, before: none, after: none }
    }

    /// Places the rows after the link `before`.
    pub(super) fn place(&mut self, before: ContentHash) {
        self.before = before;
        self.after = self.entries.iter().fold(before, |link, row| link.extended(row.body.as_bytes()));
    }

    /// Returns the number of bytes of entries and contents.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|row| row.text.len()).sum::<usize>() + self.content_bytes()
    }

    /// Whether the contents are too large for one parameter. The batch then has several statements, in a transaction.
    pub(super) fn is_large(&self) -> bool {
        self.content_bytes() > MAX_PARAMETER_BYTES
    }

    fn content_bytes(&self) -> usize {
        self.batch.contents.iter().map(|(_, content)| content.len()).sum()
    }

    /// Returns the moment and the status that the batch writes to the row of its run.
    pub(super) fn summary(&self) -> (Option<i64>, Option<&str>) {
        match &self.batch.summary {
            Some(summary) => (Some(summary.at.as_micros()), Some(&summary.status)),
            None => (self.batch.entries.last().map(|last| last.at.as_micros()), None),
        }
    }
}

/// The columns of some batches. The first ones have an element for each batch. Elements of the others have the number of their batch,
/// from 1 on.
#[derive(Default)]
pub(super) struct Columns<'a> {
    runs: Vec<&'a str>,
    epochs: Vec<i64>,
    expected: Vec<i64>,
    befores: Vec<&'a [u8]>,
    lasts: Vec<i64>,
    links: Vec<&'a [u8]>,
    moments: Vec<Option<i64>>,
    statuses: Vec<Option<&'a str>>,
    releases: Vec<bool>,
    wakes: Vec<Option<i64>>,
    entries: Entries<'a>,
    tasks: Tasks,
    contents: Vec<(ContentHash, i64, &'a Content)>,
    /// Contents that are inserted by statements of their own.
    large: Vec<(ContentHash, &'a Content)>,
    consumed: Consumed,
    calls: Calls<'a>,
}

#[derive(Default)]
struct Entries<'a> {
    batches: Vec<i64>,
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    checksums: Vec<i64>,
    links: Vec<Vec<u8>>,
    texts: Vec<&'a str>,
}

/// Tasks that have entries in a row.
#[derive(Default)]
struct Tasks {
    batches: Vec<i64>,
    keys: Vec<i64>,
    /// The last entries of the rows.
    lasts: Vec<i64>,
}

/// Commands that leave the inbox.
#[derive(Default)]
struct Consumed {
    batches: Vec<i64>,
    numbers: Vec<i64>,
}

/// Calls of tools that only log their input.
#[derive(Default)]
struct Calls<'a> {
    batches: Vec<i64>,
    memories: Vec<&'a str>,
    agents: Vec<&'a str>,
    tools: Vec<&'a str>,
    tasks: Vec<&'a str>,
    ids: Vec<&'a str>,
    moments: Vec<i64>,
    inputs: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    /// Returns the columns of batches, which are in the order of their runs.
    pub(super) fn of(batches: impl IntoIterator<Item = &'a Rows>) -> Self {
        let mut columns = Self::default();
        for (number, rows) in (1..).zip(batches) {
            columns.add(number, rows);
        }
        // In one order, so that two transactions with the same contents have no deadlock.
        columns.contents.sort_unstable_by_key(|(hash, ..)| *hash);
        columns.large.sort_unstable_by_key(|(hash, _)| *hash);
        columns
    }

    fn add(&mut self, number: i64, rows: &'a Rows) {
        let batch = &rows.batch;
        self.runs.push(batch.run.as_str());
        self.epochs.push(to_sql(batch.epoch));
        self.expected.push(to_sql(batch.expected_seq));
        self.befores.push(rows.before.as_bytes());
        self.lasts.push(to_sql(batch.last_seq()));
        self.links.push(rows.after.as_bytes());
        let (moment, status) = rows.summary();
        self.moments.push(moment);
        self.statuses.push(status);
        self.releases.push(batch.releases);
        self.wakes.push(batch.wakes.map(Timestamp::as_micros));
        let mut link = rows.before;
        for row in &rows.entries {
            link = link.extended(row.body.as_bytes());
            let entries = &mut self.entries;
            entries.batches.push(number);
            entries.firsts.push(to_sql(row.first));
            entries.lasts.push(to_sql(row.last));
            entries.checksums.push(rows::first_eight(row.body));
            entries.links.push(link.as_bytes().to_vec());
            entries.texts.push(&row.text);
            for task in &row.tasks {
                self.tasks.batches.push(number);
                self.tasks.keys.push(*task);
                self.tasks.lasts.push(to_sql(row.last));
            }
        }
        for (hash, content) in &batch.contents {
            debug_assert_eq!(*hash, ContentHash::of(content), "a content of a batch does not match its hash");
            if rows.is_large() {
                self.large.push((*hash, content));
            } else {
                self.contents.push((*hash, number, content));
            }
        }
        for command in &batch.consumed {
            self.consumed.batches.push(number);
            self.consumed.numbers.push(to_sql(*command));
        }
        for call in &batch.logged {
            let calls = &mut self.calls;
            calls.batches.push(number);
            calls.memories.push(call.memory.as_str());
            calls.agents.push(call.agent.as_str());
            calls.tools.push(call.tool.as_str());
            calls.tasks.push(call.task.as_str());
            calls.ids.push(call.call.as_str());
            calls.moments.push(call.at.as_micros());
            calls.inputs.push(call.input.text());
        }
    }

    /// Executes the statement. Returns for each batch whether it was written. It waits for transactions that have locked a run, if it
    /// `waits`. Otherwise it leaves out the batches of such runs.
    pub(super) async fn append(&self, client: &Connection, waits: bool) -> Result<Vec<bool>, StoreError> {
        let Self { entries, tasks, consumed, calls, .. } = self;
        let content_batches: Vec<i64> = self.contents.iter().map(|(_, number, _)| *number).collect();
        let hashes: Vec<&[u8]> = self.contents.iter().map(|(hash, ..)| &hash.as_bytes()[..]).collect();
        let contents: Vec<&[u8]> = self.contents.iter().map(|(.., content)| &content[..]).collect();
        let parameters = values![
            waits,
            self.runs,
            self.epochs,
            self.expected,
            self.befores,
            self.lasts,
            self.links,
            self.moments,
            self.statuses,
            self.releases,
            self.wakes,
            entries.batches,
            entries.firsts,
            entries.lasts,
            entries.checksums,
            entries.links,
            entries.texts,
            tasks.batches,
            tasks.keys,
            tasks.lasts,
            content_batches,
            hashes,
            contents,
            consumed.batches,
            consumed.numbers,
            calls.batches,
            calls.memories,
            calls.agents,
            calls.tools,
            calls.tasks,
            calls.ids,
            calls.moments,
            calls.inputs,
        ];
        let text = "SELECT baton.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                    $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33)";
        let written: Vec<Option<i64>> = client.frequent(text, parameters).await?.try_get(0)?;
        // A batch with large contents is alone.
        for (hash, content) in self.large.iter().filter(|_| written.iter().all(Option::is_some)) {
            let insert = "INSERT INTO baton.contents (hash, bytes) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING";
            client.execute_typed(insert, values![&hash.as_bytes()[..], &content[..]]).await?;
        }
        Ok(written.iter().map(Option::is_some).collect())
    }
}
