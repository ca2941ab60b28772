//! `tool call`: makes one call of one tool. It happens in a run of its own, so checks, time limits and writes are those of any
//! other run.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_runtime::InitialDocument;
use baton_types::call::{CallResult, CallStatus};
use baton_types::config::Tool;
use baton_types::document::DocumentVersion;
use baton_types::id::{AgentId, CallId};
use baton_types::json::{self, Json};
use baton_types::tool_type::Then;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Map, Value, json};

use super::tools::Tools;
use crate::app::document;
use crate::app::options::{Common, refused};
use crate::exit::{Exit, Failure};
use crate::export::Target;
use crate::place::Place;
use crate::shell::baton;
use crate::text::{Text, escaped, is_plain, text};
use crate::trust::Manner;
use crate::{scratch, style, words};

/// Options of `tool call NAME`, in addition to a flag per parameter.
#[derive(Debug, Args)]
struct CallArgs {
    /// The whole input as JSON, as @FILE, or as `-` to read it from stdin
    #[arg(long, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// File to put into the workspace, at PATH [default: the file's name]. May be repeated
    #[arg(long = "document", value_name = "FILE[=PATH]")]
    documents: Vec<String>,
    /// Check the input without calling the tool
    #[arg(long)]
    dry_run: bool,
    /// Write the documents that the call writes into DIR, a new or empty folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder or name of a job whose tools are included
    #[arg(long, value_name = "JOB")]
    job: Option<PathBuf>,
    /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    common: Common,
}

/// Returns true if `words` request help instead of a tool.
pub(super) fn is_help(words: &[String]) -> bool {
    words.first().is_some_and(|word| ["-h", "--help"].contains(&word.as_str()))
}

/// Calls the tool that is named by the first of `words`.
pub(super) async fn run(words: &[String], place: &Place) -> Result<Exit, Failure> {
    let (name, rest) = words.split_first().ok_or_else(|| Failure::Usage("expected the name of a tool".to_owned()))?;
    if name.starts_with('-') {
        return Err(Failure::Usage("the tool's name comes first: baton tool call NAME --input JSON".to_owned()));
    }
    let tools = Tools::load(place, job_of(rest).as_deref())?;
    let tool = tools.get(name)?;
    let properties = tool.definition.input_schema.value()["properties"].as_object().cloned().unwrap_or_default();
    let called = std::iter::once(OsString::from(format!("baton tool call {name}")));
    let arguments: Vec<OsString> = called.chain(rest.iter().map(OsString::from)).collect();
    let matches = match command(tool, &properties).try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return Ok(refused(&error, &arguments)),
    };
    let args = CallArgs::from_arg_matches(&matches).map_err(|error| Failure::Usage(error.to_string()))?;
    let place = &place.with_screen(args.common.screen());
    let input = input(&args, &matches, &properties)?;
    // The call in the run has another agent and another id, which only placeholders could show.
    let effective = tool.effective_input(&Json::from(&input), &AgentId::from("agent"), &CallId::from("0/1.1"));
    if let Err(faults) = tool.input.check(&effective.value()) {
        return refuse_input(tool, &faults, place);
    }
    if args.dry_run {
        return accept_input(&input, place);
    }
    if !matches!(tool.tool_type.behavior().then, Then::Continue) {
        let what = tool.tool_type;
        return Err(Failure::Usage(format!("{name} is of type {what}: it acts on its calling task, so it needs a run")));
    }
    let documents = args.documents.iter().map(|text| document(place, text)).collect::<Result<Vec<InitialDocument>, _>>()?;
    let job = scratch::job(place, tools.job.as_deref(), name)?;
    let out = args.out.as_ref().map(|out| Target::checked(place.current.join(out), false, place)).transpose()?;
    let called = scratch::call(place, job, name, &input, documents, Manner::of(args.trust)).await?;
    if let Some(out) = &out {
        called.export(out, place).await?;
    }
    report(&called.result, called.duration, &called.written, place)
}

/// Returns the value of `--job`. It decides which tools exist, so it is read before the tool's flags are known.
fn job_of(words: &[String]) -> Option<PathBuf> {
    let position = words.iter().position(|word| word == "--job" || word.starts_with("--job="))?;
    match words[position].split_once('=') {
        Some((_, job)) => Some(PathBuf::from(job)),
        None => words.get(position + 1).map(PathBuf::from),
    }
}

/// Builds the command line of one tool: the options of every call, and a flag for each other parameter.
fn command(tool: &Tool, properties: &Map<String, Value>) -> Command {
    let name = format!("baton tool call {}", tool.id);
    let own = CallArgs::augment_args(Command::new(name))
        .about(words::preview(&tool.description, 300).as_str().to_owned())
        .long_about(None);
    let taken: Vec<String> = own.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    let flags = properties.iter().filter(|(name, _)| !taken.contains(name) && *name != "help" && is_plain(name));
    flags.fold(own, |command, (name, property)| {
        let about = words::preview(property["description"].as_str().unwrap_or_default(), 200).as_str().to_owned();
        command.arg(
            Arg::new(format!("parameter {name}"))
                .long(name.clone())
                .help(about)
                .value_name(escaped(&kind(property)).to_uppercase())
                .help_heading("Parameters")
                .action(ArgAction::Append)
                .allow_hyphen_values(true),
        )
    })
}

fn kind(property: &Value) -> String {
    match &property["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("json").to_owned(),
        _ => "json".to_owned(),
    }
}

/// Reads the input: `--input`, then the flags, which overwrite its fields.
fn input(args: &CallArgs, matches: &ArgMatches, properties: &Map<String, Value>) -> Result<Value, Failure> {
    let mut input = match args.input.as_deref() {
        None => json!({}),
        Some(text) => {
            let text = match text {
                "-" => {
                    let mut text = String::new();
                    std::io::stdin().read_to_string(&mut text)?;
                    text
                }
                text => match text.strip_prefix('@') {
                    Some(file) => std::fs::read_to_string(file).map_err(|error| Failure::file(Path::new(file), error))?,
                    None => text.to_owned(),
                },
            };
            json::read(&text).map_err(|error| Failure::of_json("the input", &error))?
        }
    };
    for (name, property) in properties {
        let id = format!("parameter {name}");
        let Some(given) = matches.try_get_many::<String>(&id).ok().flatten() else { continue };
        let given: Vec<&String> = given.collect();
        let value = match (kind(property).as_str(), given.as_slice()) {
            ("string", [.., last]) => Value::String((*last).clone()),
            ("array", [only]) if only.trim_start().starts_with('[') => parsed(name, only)?,
            ("array", several) => several
                .iter()
                .map(|text| match kind(&property["items"]).as_str() {
                    "string" => Ok(Value::String((*text).clone())),
                    _ => parsed(name, text),
                })
                .collect::<Result<_, _>>()?,
            (_, [.., last]) => parsed(name, last)?,
            (_, []) => continue,
        };
        match &mut input {
            Value::Object(fields) => drop(fields.insert(name.clone(), value)),
            _ => return Err(Failure::Usage("--input is not an object, so flags cannot be added to it".to_owned())),
        }
    }
    Ok(input)
}

/// Parses JSON, and returns any other text as a string, so that the schema's own message names the expected type.
fn parsed(name: &str, text: &str) -> Result<Value, Failure> {
    json::read_or_text(text).map_err(|error| Failure::of_json(&format!("the parameter {name}"), &error))
}

fn refuse_input(tool: &Tool, faults: &[baton_types::schema::SchemaFault], place: &Place) -> Result<Exit, Failure> {
    if place.screen.is_text() {
        for fault in faults {
            let at = if fault.pointer.is_empty() { String::new() } else { format!("{}: ", fault.pointer) };
            place.screen.tell(&text!("{} {at}{}", style::bad("invalid input:"), fault.message));
        }
        place.screen.tell(&text!("{}       {}", style::faint("next:"), baton("tool show").value(&tool.id)));
    } else {
        place.screen.json(&json!({"status": "failed", "error": {"code": "invalid_input", "detail": faults}}))?;
    }
    Ok(Exit::Failed)
}

fn accept_input(input: &Value, place: &Place) -> Result<Exit, Failure> {
    if place.screen.is_text() {
        place.screen.text(&text!("{}   {input}", style::good("ok")))?;
    } else {
        place.screen.json(&json!({"status": "valid", "input": input}))?;
    }
    Ok(Exit::Done)
}

fn report(result: &CallResult, duration: Duration, written: &[Arc<DocumentVersion>], place: &Place) -> Result<Exit, Failure> {
    let exit = if result.status == CallStatus::Success { Exit::Done } else { Exit::Failed };
    if !place.screen.is_text() {
        let documents: Vec<Value> = written
            .iter()
            .map(|version| {
                json!({"path": version.path, "version": version.version, "mime_type": version.content.mime_type, "size_bytes": version.content.size_bytes})
            })
            .collect();
        place.screen.json(&json!({
            "status": result.status, "output": result.output.value(), "error": result.error.as_ref().map(baton_types::call::CallError::to_value),
            "documents": documents, "duration_ms": duration.as_secs_f64() * 1_000.0,
        }))?;
        return Ok(exit);
    }
    if let Some(error) = &result.error {
        place.screen.tell(&text!(
            "{} {} ({})",
            style::bad(result.status.as_str()),
            Text::block(&error.message),
            error.code.as_str()
        ));
        if !error.detail.is_null() {
            place.screen.tell(&Text::block(error.detail.text()));
        }
    }
    if !result.output.is_null() {
        place.screen.text(&Text::json(&result.output.value()))?;
    }
    for version in written {
        place.screen.tell(&text!(
            "wrote {} · {} · {}",
            version.reference(),
            version.content.mime_type,
            words::size(version.content.size_bytes)
        ));
    }
    place.screen.tell(&style::faint(words::duration(duration)));
    Ok(exit)
}
