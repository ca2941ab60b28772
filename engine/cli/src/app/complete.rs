//! Values for shell completion, which a shell requests from this program while a person types a command.

use baton_store::PostgresStore;
use clap::builder::StyledStr;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::place::Place;
use crate::screen::{Output, Screen};
use crate::text::{escaped, is_plain};
use crate::{terminal, words};

/// Returns the place for completion: values come from the store and the project that the command itself would use.
fn place() -> Option<Place> {
    let screen = Screen { output: Output::Text, interactive: false, live: false, quiet: true, verbose: false };
    // A database could ask for a password or take long to answer.
    let store = std::env::var("BATON_STORE").ok().filter(|store| !PostgresStore::is_address(store));
    Place::here(screen, store, None).ok()
}

/// Returns the candidates for a run: newest first, with job and status.
pub(crate) fn runs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(store) = place().and_then(|place| place.store_to_read().ok().flatten()) else { return Vec::new() };
        let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
        let runs = tokio.block_on(store.runs()).unwrap_or_default();
        let last = CompletionCandidate::new("@last").help(Some(StyledStr::from("the newest run")));
        let listed = runs.iter().take(50).map(|run| {
            let ago = words::duration(terminal::now().since(run.updated));
            CompletionCandidate::new(run.id.as_str())
                .help(Some(escaped(&format!("{} · {} · {ago} ago", run.job, run.status)).into()))
        });
        std::iter::once(last).chain(listed).collect()
    })
}

/// Returns the candidates for a job: the jobs of the project, by name. Shells print candidates, so names with hidden characters
/// are left out.
pub(crate) fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let jobs = place().map(|place| place.jobs()).unwrap_or_default();
        jobs.into_iter().filter(|job| is_plain(job)).map(CompletionCandidate::new).collect()
    })
}

/// Returns the candidates for a tool: the built-in tools, and the tools found in the folders above.
pub(crate) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let configs = place().and_then(|place| place.tool_configs(None).ok()).unwrap_or_default();
        let id = |path: &str| path.rsplit('/').next()?.strip_suffix(".json").map(str::to_owned);
        let configs = configs.borrowed();
        configs.into_iter().filter_map(|(_, path, _)| id(path)).filter(|id| is_plain(id)).map(CompletionCandidate::new).collect()
    })
}
