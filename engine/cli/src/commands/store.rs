//! `baton store`: copies a store.

use baton_store::Verification;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::text::{Text, text};
use crate::words;

/// Arguments of `store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    verb: StoreVerb,
}

/// The verbs of `store`.
#[derive(Debug, Subcommand)]
enum StoreVerb {
    /// Copy a whole store, with its runs, memories and breadcrumbs, into an empty one
    #[command(
        after_help = "The copy is committed as a whole after it was verified. FROM is not changed. First stop every process that uses \
                      one of the stores.\n\nExample:\n  baton store copy .baton/baton.db postgres://baton@localhost/runs"
    )]
    Copy {
        /// The store to copy: a file, or the address of a database
        from: String,
        /// The new store: a file, or the address of a database. It is made if it does not exist
        to: String,
    },
}

/// Report of a copy.
#[derive(Debug, Serialize)]
struct Copied {
    from: String,
    to: String,
    runs: u64,
    entries: u64,
    contents: u64,
    content_bytes: u64,
    logged_calls: u64,
    commands: u64,
    breadcrumbs: u64,
}

/// Executes the verb.
pub(crate) async fn run(args: StoreArgs, place: &Place) -> Result<Exit, Failure> {
    let StoreVerb::Copy { from, to } = args.verb;
    let (from, to) = (place.with_store(from), place.with_store(to));
    // First, so that no store is made for one that does not exist.
    let source = from.store_to_copy()?;
    let target = to.store_for_copy()?;
    let copied = baton_store::copy(&*source, &*target).await.map_err(Failure::of_store)?;
    let Verification { runs, entries, contents, content_bytes, logged, commands, breadcrumbs, .. } = copied;
    let (from, to) = (from.shown_store(), to.shown_store());
    let copied = Copied { from, to, runs, entries, contents, content_bytes, logged_calls: logged, commands, breadcrumbs };
    if place.screen.is_text() {
        place.screen.text(&summary(&copied))?;
    } else {
        place.screen.json(&copied)?;
    }
    Ok(Exit::Done)
}

/// Renders the report for people.
fn summary(copied: &Copied) -> Text {
    let Copied { from, to, runs, entries, contents, content_bytes, logged_calls, commands, breadcrumbs } = copied;
    let lines = [
        text!(
            "copied {} · {} · {} ({}) · {} · {} · {}",
            words::counted_as(*runs, "run", "runs"),
            words::counted_as(*entries, "entry", "entries"),
            words::counted_as(*contents, "content", "contents"),
            words::size(*content_bytes),
            words::counted_as(*logged_calls, "logged call", "logged calls"),
            words::counted_as(*commands, "waiting command", "waiting commands"),
            words::counted_as(*breadcrumbs, "breadcrumb", "breadcrumbs"),
        ),
        text!("from        {from}, which has not changed"),
        text!("to          {to}, which was verified"),
        text!("next        use the new store: --store, or BATON_STORE"),
    ];
    Text::joined(lines, "\n")
}
