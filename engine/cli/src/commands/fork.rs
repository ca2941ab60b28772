//! `baton fork`: starts a new run from a point in another run, with other configs or documents from there.

use baton_config::Sources;
use baton_runtime::folder::read_document;
use baton_runtime::{Engine, ForkOptions, InitialDocument};
use baton_types::entry::ForkedEffects;
use baton_types::json;
use baton_types::path::DocumentPath;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::app::{Ending, build, builder, complete, finish, run_failure};
use crate::exit::{Exit, Failure};
use crate::job;
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::signals::Interruptions;
use crate::style;
use crate::terminal;
use crate::text::text;
use crate::trust::Manner;

/// Arguments of `fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run to start from: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// Number of the last entry to share with the original, such as 12 (see `baton timeline`). The fork begins at the end of
    /// the last complete decision up to it [default: as early as possible]
    #[arg(long, value_name = "SEQ", value_parser = entry, allow_negative_numbers = true)]
    at: Option<u64>,
    /// Change a config value: agents.ID.KEY, job.KEY, tools.ID.KEY or configs.ID.KEY, such as agents.writer.model=fast. VALUE
    /// is JSON or text; `null` removes the key. Quote keys that contain dots. May be repeated
    #[arg(long = "set", value_name = "PLACE=VALUE", value_parser = setting)]
    settings: Vec<(String, Value)>,
    /// Replace the document PATH with the content of FILE before the fork continues. May be repeated
    #[arg(long = "edit", value_name = "PATH=FILE", value_parser = edit)]
    edits: Vec<(DocumentPath, String)>,
    /// Model for all agents: the name of a model in the job, PROVIDER:MODEL, or `person`
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Use the current configs of the job's folder. --set is applied after them
    #[arg(long)]
    reload: bool,
    /// Allow calls that have effects outside the run. Without a value: `all`
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    allow_effects: Option<Allowed>,
    #[command(flatten)]
    ending: Ending,
    /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Which calls with effects a fork may execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Allowed {
    /// Calls that have no result in the original run.
    New,
    /// All calls. Calls that the original run made are made again.
    All,
}

/// Parses the number of an entry.
fn entry(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected the number of an entry, such as 12; `baton timeline RUN` lists them".to_owned())
}

/// Parses `PLACE=VALUE`. A value that is not JSON is text.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (place, value) = text.split_once('=').ok_or("expected PLACE=VALUE")?;
    Ok((place.to_owned(), json::read_or_text(value).map_err(|error| error.to_string())?))
}

/// Parses `PATH=FILE`.
fn edit(text: &str) -> Result<(DocumentPath, String), String> {
    let (path, file) = text.split_once('=').ok_or("expected PATH=FILE")?;
    Ok((DocumentPath::parse(path).map_err(|error| error.to_string())?, file.to_owned()))
}

/// Starts the fork and follows it to its end.
pub(crate) async fn run(args: ForkArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find(place, &args.run).await?;
    let builder = builder(&found.store, place.kept_in(), place, Manner::of(args.trust))?;
    let engine = build(builder, place).await?;
    let seq = engine.fork_place(found.id(), args.at).await.map_err(run_failure)?;
    let (sources, changes) = args.configs(&engine, &found, place).await?;
    let documents = args.edits.iter().map(|(path, file)| written(place, path, file)).collect::<Result<_, _>>()?;
    let out = args.ending.target(place)?;
    let options = ForkOptions {
        at: args.at,
        sources,
        changes,
        model: args.model,
        documents,
        effects: match args.allow_effects {
            None => ForkedEffects::Recorded,
            Some(Allowed::New) => ForkedEffects::New,
            Some(Allowed::All) => ForkedEffects::All,
        },
        run: None,
    };
    let interruptions = Interruptions::catch()?;
    let handle = engine.fork(found.id(), &terminal::person(), options).await.map_err(run_failure)?;
    let asked = args.at.filter(|at| *at != seq).map(|at| format!(", the last complete decision up to {at}")).unwrap_or_default();
    place.screen.tell(&text!("fork {} of run {} after entry {seq}{asked}", style::name(handle.id()), found.id()));
    finish(&handle, seq, &found.store, place, out.as_ref(), interruptions).await
}

impl ForkArgs {
    /// Returns the changed configs, if there are any, and the list of all changes.
    async fn configs(&self, engine: &Engine, found: &FoundRun, place: &Place) -> Result<(Option<Sources>, Vec<String>), Failure> {
        let state = engine.state(found.id()).await.map_err(run_failure)?;
        let Some(started) = state.started() else { return Ok((None, Vec::new())) };
        let mut changes = Vec::new();
        let pinned = engine.pinned_sources(started).await.map_err(run_failure)?;
        let mut sources = pinned.clone();
        if self.reload {
            let job = job::of_run(place, started)?;
            sources = job.sources().clone();
            sources.keep_of_start(&pinned);
            changes.extend(sources.changes_from(&pinned));
        }
        for (target, value) in &self.settings {
            sources.set(target, value.clone()).map_err(|fault| Failure::Usage(fault.to_string()))?;
            changes.push(format!("{target} = {value}"));
        }
        if let Some(model) = &self.model {
            changes.push(format!("model {model} for every agent"));
        }
        changes.extend(self.edits.iter().map(|(path, _)| format!("document {path}")));
        if let Some(model) = started.model.as_ref().filter(|_| self.model.is_none())
            && self.settings.iter().any(|(target, _)| {
                target.starts_with("agents.") && target.rsplit_once('.').is_some_and(|(_, key)| key == "model")
            })
        {
            return Err(Failure::Usage(format!(
                "the run was started with --model {model}, which replaces the model of every agent; choose another one with --model"
            )));
        }
        Ok(((self.reload || !self.settings.is_empty()).then_some(sources), changes))
    }
}

/// Reads the document at `path` from `file`.
fn written(place: &Place, path: &DocumentPath, file: &str) -> Result<InitialDocument, Failure> {
    let file = place.current.join(file);
    let content = read_document(&file).map_err(|error| Failure::file(&file, error))?;
    Ok(InitialDocument::new(path.clone(), content))
}
