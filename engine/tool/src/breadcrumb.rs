//! Breadcrumbs, as tool functions use them: an operation that a function requests, and the answer of the shell.

use baton_types::breadcrumb::{BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb, SearchMethod};
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;

/// An operation on breadcrumbs, in the name of the calling agent.
#[derive(Clone, Debug, PartialEq)]
pub enum BreadcrumbAsk {
    /// Creates a record. A call makes one write at most: its idempotency key is that of the write.
    Create(NewBreadcrumb),
    /// Changes a record.
    Change {
        /// The record.
        id: BreadcrumbId,
        /// The change.
        change: BreadcrumbChange,
        /// The version that the agent knows.
        expected: Option<u64>,
    },
    /// Searches records.
    Search(BreadcrumbQuery),
    /// Publishes the ticks of the project's schedules that are due.
    PublishTicks,
}

/// The answer. Records are as models see them.
#[derive(Clone, Debug, PartialEq)]
pub enum BreadcrumbReply {
    /// A record was written.
    Written {
        /// The record.
        id: BreadcrumbId,
        /// Its version.
        version: u64,
        /// The record.
        record: Json,
    },
    /// Records were found.
    Found {
        /// The records.
        records: Vec<Json>,
        /// Number of records found, with those beyond the limit.
        total: u64,
        /// The way that the search was done.
        method: SearchMethod,
        /// The reason why records were searched by words, if they should have been searched by meaning.
        warning: Option<String>,
    },
    /// A pass over the schedules of the project was made.
    Ticks {
        /// Number of enabled schedules.
        schedules: usize,
        /// Number of ticks that were published.
        published: usize,
        /// The schedules whose ticks could not be published, with the reasons.
        errors: Vec<String>,
    },
}
