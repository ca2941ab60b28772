//! `baton export`: writes a run as a script, which runs it again without a model.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use baton_models::script_of;
use baton_types::config::Invocation;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::AgentId;
use clap::{Args, ValueHint};

use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs;
use crate::style;
use crate::text::{Text, text};

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// Export the answers of the run's models. `baton run JOB --script FILE` runs the job with them, without a model
    #[arg(long, required = true)]
    script: bool,
    /// Write to FILE, which must not exist yet. `-` is stdout [default: -]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Writes the script.
pub(crate) async fn run(args: &ExportArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find_to_read(place, &args.run).await?;
    let entries = found.entries().await?;
    // Of a run whose configs this program cannot read, all ids are kept: those of native calls have no effect.
    let state = found.state().await.ok();
    let has_requests = |agent: &AgentId| {
        let agents = state.as_ref().map(|state| &state.configs().agents);
        agents.and_then(|agents| agents.get(agent)).is_none_or(|agent| agent.invocation == Invocation::Universal)
    };
    let script = script_of(entries.iter().map(|recorded| &recorded.entry), has_requests);
    if script.agents.is_empty() {
        return Err(Failure::Refused(format!("no model has answered in run {}", found.id())));
    }
    let asking = asking_tools(&entries);
    if !asking.is_empty() {
        place.screen.tell(&text!(
            "{} the answers of models that {} asked are in no timeline; add them to \"tools\" of the script",
            style::waiting("note:"),
            asking.join(", ")
        ));
    }
    let script = Text::json(&script);
    let Some(out) = args.out.as_ref().filter(|out| out.as_os_str() != "-") else {
        place.screen.text(&script)?;
        return Ok(Exit::Done);
    };
    let file = place.current.join(out);
    let written = std::fs::File::create_new(&file).and_then(|mut file| writeln!(file, "{}", script.as_str()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::Refused(format!("{} already exists; choose another --out, or remove the file", place.shown(&file)))
        }
        ErrorKind::NotFound => {
            let folder = file.parent().unwrap_or(&place.current);
            Failure::Usage(format!("the folder {} does not exist; create it first, or choose another --out", place.shown(folder)))
        }
        _ => Failure::file(&file, error),
    })?;
    place.screen.tell(&text!("wrote       {}", place.shown(&file)));
    Ok(Exit::Done)
}

/// Returns the tools whose code asked models.
fn asking_tools(entries: &[Arc<Recorded>]) -> Vec<String> {
    let entries = || entries.iter().map(|recorded| &recorded.entry);
    let asked = entries().filter_map(|entry| if let Entry::CallAskedModel(asked) = entry { Some(&asked.by.call) } else { None });
    let asked: BTreeSet<_> = asked.collect();
    let tools = entries().filter_map(|entry| match entry {
        Entry::CallFinished(finished) if asked.contains(&finished.call) => Some(finished.tool.to_string()),
        _ => None,
    });
    tools.collect::<BTreeSet<_>>().into_iter().collect()
}
