//! `baton completions`: the script for a shell, and the values that it asks this program for while typing.

use baton_store::Store;
use clap::builder::StyledStr;
use clap::{Args, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::screen::{Output, Screen};
use crate::text::{escaped, is_plain};
use crate::words;

/// The variable by which the script asks this program.
const VARIABLE: &str = "COMPLETE";

/// What `completions` takes.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, powershell or elvish
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish"])]
    shell: String,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, place: &Place) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(&args.shell)
        .ok_or_else(|| Failure::not_found("shell", &args.shell, shells.names().map(str::to_owned)))?;
    let name = Cli::command().get_name().to_owned();
    let program = std::env::current_exe().ok().map_or_else(|| name.clone(), |path| path.display().to_string());
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, &name, &name, &program, &mut script)?;
    place.screen.content(&script)?;
    Ok(Exit::Done)
}

/// The place as completion sees it: values come from the same store and project as the command's own.
fn place() -> Option<Place> {
    let screen = Screen { output: Output::Text, interactive: false, live: false };
    Place::here(screen, std::env::var("BATON_STORE").ok()).ok()
}

/// Candidates for a run: newest first, with job and status.
pub(crate) fn runs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(store) = place().and_then(|place| place.store_to_read().ok().flatten()) else { return Vec::new() };
        let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
        let runs = tokio.block_on(store.runs()).unwrap_or_default();
        let last = CompletionCandidate::new("@last").help(Some(StyledStr::from("the newest run")));
        let listed = runs.iter().take(50).map(|run| {
            let ago = words::duration(crate::session::now().since(run.updated));
            CompletionCandidate::new(run.id.as_str())
                .help(Some(escaped(&format!("{} · {} · {ago} ago", run.job, run.status)).into()))
        });
        std::iter::once(last).chain(listed).collect()
    })
}

/// Candidates for a job: those of the project, by name. Shells print candidates, so one with a hidden character is left out.
pub(crate) fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let jobs = place().map(|place| place.jobs()).unwrap_or_default();
        jobs.into_iter().filter(|job| is_plain(job)).map(CompletionCandidate::new).collect()
    })
}

/// Candidates for a tool: those the program carries and those found upward.
pub(crate) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let configs = place().and_then(|place| place.tool_configs(None).ok()).unwrap_or_default();
        let id = |path: &str| path.rsplit('/').next()?.strip_suffix(".json").map(str::to_owned);
        let configs = configs.borrowed();
        configs.into_iter().filter_map(|(_, path, _)| id(path)).filter(|id| is_plain(id)).map(CompletionCandidate::new).collect()
    })
}
