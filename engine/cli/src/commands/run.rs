//! `baton run`: executes a job, and what stands at the end of every execution.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::config::{PriceTable, RUN_SCRIPT};
use baton_core::limits::{Limits, MAX_DOLLARS};
use baton_core::path::DocumentPath;
use baton_runtime::folder::read_document;
use baton_runtime::{Engine, EngineBuilder, InitialDocument, InputValue, RunHandle, StartOptions, TrustNothing};
use baton_store::Store;
use clap::{Args, ValueHint};

use crate::cassettes::RecordingArgs;
use crate::commands::completions;
use crate::environment::{self, Environment};
use crate::exit::{Exit, Failure};
use crate::export::{Exported, Plan, Target};
use crate::job;
use crate::place::Place;
use crate::screen::{Output, style};
use crate::session::{self, Ended};
use crate::shell::baton;
use crate::signals::Interruptions;
use crate::text::{Text, text};
use crate::trust::{Manner, PersonsTrust};
use crate::view::RunView;

/// What `run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job: a folder with a job.json, or the name of one of the project's jobs
    #[arg(value_hint = ValueHint::DirPath, add = completions::jobs())]
    job: PathBuf,
    /// What to do, in place of the job's own request; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    request: Option<String>,
    /// An input of the job; may be given several times
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input)]
    inputs: Vec<(String, String)>,
    /// A file to begin with, at PATH in the workspace [default: its name]; may be given several times
    #[arg(long = "document", value_name = "FILE[=PATH]")]
    documents: Vec<String>,
    /// A model in place of every agent's own: one of the job's, one of a models.json, or PROVIDER:MODEL
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A script that answers in place of every agent's model, such as one that `baton export` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "model")]
    script: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArgs,
    /// What the run may cost at most, in place of the job's own limit; every model needs a known price then
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
    /// How many tokens the run may use at most, in place of the job's own limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    #[command(flatten)]
    ending: Ending,
    /// Trust everything that the job reaches outside of its run, from now on: commands, addresses, hosts, variables
    #[arg(long)]
    trust: bool,
}

/// What every execution does at its end.
#[derive(Debug, Args)]
pub(crate) struct Ending {
    /// Write the documents that the root handed off into DIR, a new or empty folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Let --out replace files in a folder that is not empty
    #[arg(long, requires = "out")]
    force: bool,
}

/// `NAME=VALUE`.
fn input(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// An amount that a limit of money can have.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse().ok().filter(|amount| (0.0..=MAX_DOLLARS).contains(amount));
    amount.ok_or_else(|| format!("expected US dollars, from 0 to {MAX_DOLLARS}"))
}

/// Executes a job.
pub(crate) async fn run(args: RunArgs, place: &Place) -> Result<Exit, Failure> {
    let job = job::load_with(place, &args.job, args.script.as_deref())?;
    let options = StartOptions {
        request: args.request.map(request).transpose()?,
        inputs: args.inputs.into_iter().map(|(name, value)| (name, InputValue::Text(value))).collect(),
        documents: args.documents.iter().map(|text| document(place, text)).collect::<Result<_, _>>()?,
        model: args.script.map(|_| RUN_SCRIPT.to_owned()).or(args.model),
        limits: Limits { cost_usd: args.max_cost, tokens: args.max_tokens, ..Limits::default() },
        run: None,
    };
    let out = args.ending.target(place)?;
    let recording = args.recording.of_start(place)?;
    let store = place.open_store()?;
    let builder = builder(&store, place.store_file(), place, Manner::of(args.trust))?;
    let engine = recording.used_by(builder).build().map_err(job::run_failure)?;
    let interruptions = Interruptions::catch()?;
    let handle = engine.start(job, options).await.map_err(job::run_failure)?;
    let exit = finish(&handle, 0, &store, place, out.as_ref(), interruptions).await?;
    recording.close(handle.id(), exit, place)
}

/// An engine over `store` that reads runs and delivers commands to them, and runs nothing.
pub(crate) fn engine(store: &Arc<dyn Store>) -> Result<Engine, Failure> {
    let builder = Engine::builder().store(Arc::clone(store)).trust(TrustNothing).variables(|_| None);
    builder.build().map_err(job::run_failure)
}

/// Begins an engine over `store`, which is kept in `file`, that runs what the person trusts. It sees the environment, what they
/// trust of the project's `.env`, and their own prices.
pub(crate) fn builder(
    store: &Arc<dyn Store>,
    file: Option<PathBuf>,
    place: &Place,
    manner: Manner,
) -> Result<EngineBuilder, Failure> {
    let environment = Environment::at(place)?;
    let trust = PersonsTrust::at(place, file, Arc::clone(&environment), manner)?;
    let builder = Engine::builder().store(Arc::clone(store)).trust(trust).variables(move |name| environment.get(name));
    Ok(match environment::user_prices()? {
        Some(prices) => builder.prices(PriceTable::embedded().clone().with(prices)),
        None => builder,
    })
}

impl Ending {
    /// Where documents go; checked before the run, so that a bad folder is found before work is done.
    pub(crate) fn target(&self, place: &Place) -> Result<Option<Target>, Failure> {
        let Some(out) = &self.out else { return Ok(None) };
        Target::checked(place.current.join(out), self.force, place).map(Some)
    }
}

/// Follows a run to its end, and prints what stands there.
pub(crate) async fn finish(
    handle: &RunHandle,
    told: u64,
    store: &Arc<dyn Store>,
    place: &Place,
    out: Option<&Target>,
    interruptions: Interruptions,
) -> Result<Exit, Failure> {
    let Ended { view, exit } = session::follow(handle, told, store, place, interruptions).await?;
    let exported = match out {
        Some(out) => {
            let documents = view.handed_off();
            let plan = Plan::new(&documents, out);
            plan.notices(place).iter().for_each(|line| place.screen.tell(&text!("writes      {line}")));
            plan.carry_out(store).await
        }
        None => Ok(Exported::default()),
    };
    let files: Vec<PathBuf> = exported.iter().flat_map(|exported| exported.written.iter().cloned()).collect();
    // What the run did stands, whatever became of the files and of whoever reads.
    match report(&view, exit, place, &files) {
        Err(failure) if failure.is_broken_pipe() => next(&view, exit).iter().for_each(|line| place.screen.tell(line)),
        reported => reported?,
    }
    exported?.files().map(|_| exit)
}

fn report(view: &RunView, exit: Exit, place: &Place, written: &[PathBuf]) -> Result<(), Failure> {
    let screen = place.screen;
    let documents = view.handed_off();
    if screen.is_text() {
        screen.tell(&view.headline());
        if view.ended.is_some()
            && let Some(result) = view.result_text()
        {
            screen.text(&result)?;
        }
        let width = session::width();
        for (index, line) in RunView::document_table(&documents, width.saturating_sub(12)).iter().enumerate() {
            screen.text(&text!("{}{}", if index == 0 { "documents   " } else { "            " }, line))?;
        }
    } else if screen.output == Output::Ndjson {
        screen.json(&serde_json::json!({"type": "run", "report": view.report()}))?;
    } else {
        screen.json(&view.report())?;
    }
    for path in written {
        screen.tell(&text!("wrote       {}", place.shown(path)));
    }
    if screen.is_text() {
        screen.tell(&text!("tokens      {}", view.tokens()));
        if let Some(recorded) = view.recorded() {
            screen.tell(&text!("recorded    {recorded}"));
        }
    }
    for line in next(view, exit) {
        screen.tell(&line);
    }
    Ok(())
}

/// What to type next.
pub(crate) fn next(view: &RunView, exit: Exit) -> Vec<Text> {
    let run = view.started.as_ref().map(|started| started.run.to_string()).unwrap_or_default();
    let resume = baton("resume").value(&run);
    let label = style::faint("next:");
    match exit {
        Exit::Waiting => {
            let mut lines = Vec::new();
            for question in view.questions_for_person() {
                lines.extend(view.question_lines(question, session::width()));
                let example = crate::question::example(view.tasks.get(&question.task).map(|row| &row.created.answer_schema));
                lines.push(text!(
                    "{}       {} {example}",
                    label,
                    baton("answer").value(&run).value(format_args!("Q{}", question.number))
                ));
            }
            lines.push(text!("{}       {resume}", label));
            lines
        }
        Exit::Unavailable if view.ended.is_none() => {
            let mut lines = view.outage_lines();
            lines.push(text!("{}       {resume}", label));
            lines
        }
        Exit::Interrupted => vec![text!("stopped; nothing is lost   {} {resume}", label)],
        Exit::Done => {
            let change = view.documents.iter().find(|(_, document)| document.versions().len() > 1);
            let more = match change {
                Some((path, _)) => format!(" · {}", baton("doc diff").value(&run).value(path)),
                None if view.documents.is_empty() => String::new(),
                None => format!(" · {}", baton("doc ls").value(&run)),
            };
            vec![text!("{}       {} · {}{more}", label, baton("show").value(&run), baton("timeline").value(&run))]
        }
        _ => vec![text!("{}       {} · {}", label, baton("show").value(&run), baton("timeline").value(&run))],
    }
}

/// The request given on the command line.
fn request(text: String) -> Result<String, Failure> {
    let mut request = text;
    if request == "-" {
        request.clear();
        std::io::stdin().read_to_string(&mut request)?;
        request.truncate(request.trim_end().len());
    }
    if request.trim().is_empty() {
        return Err(Failure::Usage("the request is empty; leave --request out for the job's own".to_owned()));
    }
    Ok(request)
}

/// A document given on the command line: `FILE`, or `FILE=PATH`.
pub(crate) fn document(place: &Place, text: &str) -> Result<InitialDocument, Failure> {
    let whole = place.current.join(text);
    let (file, path) = match text.rsplit_once('=') {
        Some((file, path)) if !whole.exists() => (place.current.join(file), path.to_owned()),
        _ => {
            let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (whole, name)
        }
    };
    let path = DocumentPath::parse(&path).map_err(|error| Failure::Usage(error.to_string()))?;
    let content = read_document(&file).map_err(|error| Failure::file(&file, error))?;
    Ok(InitialDocument::new(path, content))
}
