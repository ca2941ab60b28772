//! The statement of a batch, with the parts that the batch needs.

use std::borrow::Cow;
use std::fmt::Write as _;

use baton_types::document::Content;
use baton_types::id::ContentHash;
use baton_types::time::Timestamp;

use super::pool::Connection;
use super::value::{Parameter, parameter, to_sql, values};
use crate::rows::{self, EntryRow};
use crate::{Batch, StoreError};

/// Contents that together have more bytes are inserted one by one: a parameter has at most 1 GB, and is copied a few times.
const MAX_PARAMETER_BYTES: usize = 8 << 20;

/// A statement whose first part `hit` returns the run's number, or nothing if the batch is refused.
pub(super) struct Statement<'a> {
    hit: &'static str,
    /// The other parts. Without any, `hit` alone is the statement.
    others: String,
    parameters: Vec<Parameter<'a>>,
}

impl<'a> Statement<'a> {
    /// Returns a statement with the part that changes or inserts the run's row.
    pub(super) fn new(hit: &'static str) -> Self {
        Self { hit, others: String::new(), parameters: Vec::new() }
    }

    /// Adds parameters.
    pub(super) fn bind(&mut self, values: &[Parameter<'a>]) {
        self.parameters.extend_from_slice(values);
    }

    /// Adds a part. Each `?` in it is the place of the next of its parameters.
    fn add(&mut self, name: &str, part: &str, values: &[Parameter<'a>]) {
        let mut number = self.parameters.len();
        let _infallible = write!(self.others, ", {name} AS (");
        for (index, piece) in part.split('?').enumerate() {
            if index > 0 {
                number += 1;
                let _infallible = write!(self.others, "${number}");
            }
            self.others.push_str(piece);
        }
        self.others.push(')');
        self.parameters.extend_from_slice(values);
    }

    /// Executes the statement with the parts of a batch; returns whether the batch was written.
    pub(super) async fn run(mut self, client: &Connection, parts: &'a Parts<'a>) -> Result<bool, StoreError> {
        parts.add_to(&mut self);
        let Self { hit, others, parameters } = self;
        let text =
            if others.is_empty() { hit.into() } else { Cow::from(format!("WITH hit AS ({hit}){others} SELECT run FROM hit")) };
        if client.frequent(&text, &parameters).await?.is_none() {
            return Ok(false);
        }
        for (hash, content) in &parts.large {
            let insert = "INSERT INTO baton.contents (hash, bytes) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING";
            client.execute_typed(insert, values![&hash.as_bytes()[..], &content[..]]).await?;
        }
        Ok(true)
    }
}

/// Additions of a batch to its run, as columns.
#[derive(Default)]
pub(super) struct Parts<'a> {
    run: &'a str,
    hashes: Vec<&'a [u8]>,
    contents: Vec<&'a [u8]>,
    /// Contents that are inserted by statements of their own.
    pub(super) large: Vec<(ContentHash, &'a Content)>,
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    checksums: Vec<i64>,
    links: Vec<Vec<u8>>,
    texts: Vec<&'a str>,
    tasks: Vec<i64>,
    places: Vec<i64>,
    consumed: Vec<i64>,
    logged: Logged<'a>,
    releases: bool,
    wakes: Option<i64>,
}

/// Calls of tools that only log their input, as columns.
#[derive(Default)]
struct Logged<'a> {
    memories: Vec<&'a str>,
    agents: Vec<&'a str>,
    tools: Vec<&'a str>,
    tasks: Vec<&'a str>,
    calls: Vec<&'a str>,
    moments: Vec<i64>,
    inputs: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    /// Returns the parts of a batch whose entries are `rows`, after the link `before`.
    pub(super) fn of(batch: &'a Batch, rows: &'a [EntryRow], before: ContentHash) -> Self {
        let mut parts = Self {
            run: batch.run.as_str(),
            consumed: batch.consumed.iter().map(|number| to_sql(*number)).collect(),
            releases: batch.releases,
            wakes: batch.wakes.map(Timestamp::as_micros),
            ..Self::default()
        };
        let mut contents: Vec<_> = batch.contents.iter().collect();
        // In one order, so that no two batches wait for contents of each other.
        contents.sort_unstable_by_key(|(hash, _)| *hash);
        contents.dedup_by_key(|(hash, _)| *hash);
        if contents.iter().map(|(_, content)| content.len()).sum::<usize>() > MAX_PARAMETER_BYTES {
            parts.large = contents.into_iter().map(|(hash, content)| (*hash, content)).collect();
        } else {
            for (hash, content) in contents {
                debug_assert_eq!(*hash, ContentHash::of(content), "a content of a batch does not match its hash");
                parts.hashes.push(hash.as_bytes());
                parts.contents.push(content);
            }
        }
        let mut link = before;
        for row in rows {
            link = link.extended(row.body.as_bytes());
            parts.firsts.push(to_sql(row.first));
            parts.lasts.push(to_sql(row.last));
            parts.checksums.push(rows::first_eight(row.body));
            parts.links.push(link.as_bytes().to_vec());
            parts.texts.push(&row.text);
            for task in &row.tasks {
                parts.tasks.push(*task);
                parts.places.push(to_sql(row.last));
            }
        }
        for call in &batch.logged {
            parts.logged.memories.push(call.memory.as_str());
            parts.logged.agents.push(call.agent.as_str());
            parts.logged.tools.push(call.tool.as_str());
            parts.logged.tasks.push(call.task.as_str());
            parts.logged.calls.push(call.call.as_str());
            parts.logged.moments.push(call.at.as_micros());
            parts.logged.inputs.push(call.input.text());
        }
        parts
    }

    /// Whether some contents need statements of their own.
    pub(super) fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Returns the rows of entries and their places, as the last parameters of `baton.append`.
    pub(super) fn rows(&'a self) -> [Parameter<'a>; 7] {
        [
            parameter(&self.firsts),
            parameter(&self.lasts),
            parameter(&self.checksums),
            parameter(&self.links),
            parameter(&self.texts),
            parameter(&self.tasks),
            parameter(&self.places),
        ]
    }

    /// Adds the rows of entries and their places to a statement whose first part does not write them.
    pub(super) fn add_rows(&'a self, statement: &mut Statement<'a>) {
        if !self.firsts.is_empty() {
            let insert = "INSERT INTO baton.entries (run, first, last, checksum, link, entries)
                          SELECT hit.run, g.* FROM hit, unnest(?, ?, ?, ?, ?) AS g";
            statement.add("appended", insert, values![self.firsts, self.lasts, self.checksums, self.links, self.texts]);
        }
        if !self.tasks.is_empty() {
            let insert = "INSERT INTO baton.places (run, task, last) SELECT hit.run, g.* FROM hit, unnest(?, ?) AS g";
            statement.add("placed", insert, values![self.tasks, self.places]);
        }
    }

    fn add_to(&'a self, statement: &mut Statement<'a>) {
        if !self.hashes.is_empty() {
            let insert =
                "INSERT INTO baton.contents (hash, bytes) SELECT g.hash, g.bytes FROM hit, unnest(?, ?) AS g (hash, bytes)
                          ON CONFLICT (hash) DO NOTHING";
            statement.add("stored", insert, values![self.hashes, self.contents]);
        }
        if !self.consumed.is_empty() {
            let delete = "DELETE FROM baton.commands USING hit WHERE commands.run = hit.run AND commands.command = ANY (?)";
            statement.add("consumed", delete, values![self.consumed]);
        }
        let logged = &self.logged;
        if !logged.memories.is_empty() {
            let insert = "INSERT INTO baton.logged (run, memory, agent, tool, task, call, at, input)
                          SELECT ?, g.memory, g.agent, g.tool, g.task, g.call, g.at, g.input
                          FROM hit, unnest(?, ?, ?, ?, ?, ?, ?)
                              WITH ORDINALITY AS g (memory, agent, tool, task, call, at, input, place) ORDER BY g.place";
            statement.add(
                "remembered",
                insert,
                &[
                    parameter(&self.run),
                    parameter(&logged.memories),
                    parameter(&logged.agents),
                    parameter(&logged.tools),
                    parameter(&logged.tasks),
                    parameter(&logged.calls),
                    parameter(&logged.moments),
                    parameter(&logged.inputs),
                ],
            );
        }
        if self.releases {
            match &self.wakes {
                Some(wakes) => {
                    let insert = "INSERT INTO baton.waiting (run, wakes) SELECT run, ? FROM hit
                                  ON CONFLICT (run) DO UPDATE SET wakes = excluded.wakes";
                    statement.add("waits", insert, values![*wakes]);
                }
                None => statement.add("ended", "DELETE FROM baton.waiting USING hit WHERE waiting.run = hit.run", &[]),
            }
        }
    }
}
