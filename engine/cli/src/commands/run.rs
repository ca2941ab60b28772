//! `baton run`: executes a job.

use std::path::PathBuf;

use baton_runtime::{Engine, InputValue, LoadedJob, StartOptions};
use baton_types::config::RUN_SCRIPT;
use baton_types::limits::{Limits, MAX_DOLLARS};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::app::{Ending, build, build_to_announce, builder, complete, document, finish, given_text, run_failure, text_or_file};
use crate::cassettes::RecordingArgs;
use crate::exit::{Exit, Failure};
use crate::job;
use crate::person;
use crate::place::Place;
use crate::shell::baton;
use crate::signals::Interruptions;
use crate::text::text;
use crate::trust::Manner;

/// The message for an empty request.
const NO_REQUEST: &str = "the request is empty; omit --request to use the job's own";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job: a folder with a job.json, or the name of a job in the project
    #[arg(value_hint = ValueHint::DirPath, add = complete::jobs())]
    job: PathBuf,
    /// Request to use instead of the job's own; `@FILE` reads it from a file, `-` from stdin
    #[arg(long, value_name = "TEXT")]
    request: Option<String>,
    /// Value for an input of the job, such as quarter=Q3; `@FILE` reads it from a file, `@@` begins a text with @. May be repeated
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input)]
    inputs: Vec<(String, String)>,
    /// File to put into the workspace, at PATH [default: the file's name]. May be repeated
    #[arg(long = "document", value_name = "FILE[=PATH]")]
    documents: Vec<String>,
    /// Model for all agents: a name from the job or from models.json, or PROVIDER:MODEL such as openai:gpt-5-mini. With `person`
    /// you answer in place of the model, on the terminal or by lines of stdin
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Model script that answers instead of all models, also those that tools ask, such as one written by `baton export --script`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "model")]
    script: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Store the run for `baton work` instead of executing it here, and print its id
    #[arg(long, conflicts_with_all = ["out", "record", "replay"])]
    queue: bool,
    /// Cost limit of the run in US dollars, such as 0.50, instead of the job's own. Every model must have a known price
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
    /// Token limit of the run, such as 200000, instead of the job's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    #[command(flatten)]
    ending: Ending,
    /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
    #[arg(long)]
    trust: bool,
}

/// Parses `NAME=VALUE`.
fn input(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses an amount of US dollars within the bounds of a cost limit.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse().ok().filter(|amount| (0.0..=MAX_DOLLARS).contains(amount));
    amount.ok_or_else(|| format!("expected US dollars, from 0 to {MAX_DOLLARS}"))
}

/// Starts a run of the job, and follows it to its end.
pub(crate) async fn run(args: RunArgs, place: &Place) -> Result<Exit, Failure> {
    let job = job::load_with(place, &args.job, args.script.as_deref())?;
    let options = StartOptions {
        request: args.request.map(|text| given_text(place, text, NO_REQUEST)).transpose()?,
        inputs: args
            .inputs
            .into_iter()
            .map(|(name, value)| Ok((name, InputValue::Text(text_or_file(place, value)?))))
            .collect::<Result<_, Failure>>()?,
        documents: args.documents.iter().map(|text| document(place, text)).collect::<Result<_, _>>()?,
        model: args.script.map(|_| RUN_SCRIPT.to_owned()).or(args.model),
        limits: Limits { cost_usd: args.max_cost, tokens: args.max_tokens, ..Limits::default() },
        run: None,
        trigger: None,
    };
    person::check_input(place.screen, options.model.as_deref()).await?;
    let out = args.ending.target(place)?;
    let recording = args.recording.of_start(place)?;
    let store = place.open_store()?;
    let builder = builder(&store, place.kept_in(), place, Manner::of(args.trust))?;
    if args.queue {
        let engine = build_to_announce(recording.used_by(builder), place).await?;
        return queue(&engine, job, options, place).await;
    }
    let engine = build(recording.used_by(builder), place).await?;
    let interruptions = Interruptions::catch()?;
    let handle = engine.start(job, options).await.map_err(run_failure)?;
    let exit = finish(&handle, 0, &store, place, out.as_ref(), interruptions).await?;
    recording.close(handle.id(), exit, place)
}

/// Stores a run for workers, and prints its id.
async fn queue(engine: &Engine, job: LoadedJob, options: StartOptions, place: &Place) -> Result<Exit, Failure> {
    if place.kept_in().is_none() {
        return Err(Failure::Usage("a store in memory has no workers; name a store with --store".to_owned()));
    }
    let run = engine.queue(job, options).await.map_err(run_failure)?;
    if place.screen.is_text() {
        place.screen.text(&text!("{run}"))?;
        place.screen.tell(&text!("queued; {} executes it, and {} shows it", baton("work"), baton("show").value(&run)));
    } else {
        place.screen.json(&json!({"run": run, "state": "queued"}))?;
    }
    Ok(Exit::Done)
}
