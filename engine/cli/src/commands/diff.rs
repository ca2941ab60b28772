//! `baton diff`: compares two runs and shows the first difference.

use baton_runtime::{Divergent, RunDiff, TaskDiff, diff};
use baton_types::model::Usage;
use baton_types::money::Money;
use clap::Args;
use serde_json::{Value, json};

use crate::app::{complete, engine, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::screen::Output;
use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};
use crate::{runs, words};

/// Largest number of differing tasks or documents in the text output; `--output json` has all.
const SHOWN: usize = 20;

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The first run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    a: String,
    /// The second run, named in the same way
    #[arg(add = complete::runs())]
    b: String,
}

/// Compares two runs, and names the fork that begins before the first difference. Exits with 0 whether or not they differ.
pub(crate) async fn run(args: &DiffArgs, place: &Place) -> Result<Exit, Failure> {
    let (a, b) = (runs::find_to_read(place, &args.a).await?, runs::find_to_read(place, &args.b).await?);
    let diff = diff(&engine(&a.store)?, a.id(), b.id()).await.map_err(run_failure)?;
    match place.screen.output {
        Output::Text => text(&diff, place)?,
        Output::Json => {
            let mut whole = serde_json::to_value(&diff).map_err(|error| Failure::Engine(error.to_string()))?;
            whole["same"] = json!(diff.is_same());
            place.screen.json(&whole)?;
        }
        Output::Ndjson => {
            let lines = diff.tasks.iter().filter(|task| !task.is_same()).map(|task| json!({"type": "task", "task": task}));
            let documents = diff.documents.iter().filter(|document| !document.is_same());
            let documents = documents.map(|document| json!({"type": "document", "document": document}));
            let lines: Vec<Value> = lines.chain(documents).collect();
            place.screen.json_list(&lines)?;
            place.screen.json(&json!({
                "type": "diff", "runs": diff.runs, "same": diff.is_same(), "shared": diff.shared, "first": diff.first,
                "configs": diff.configs, "usage": diff.usage, "cost_usd": diff.cost.map(|cost| cost.map(Money::as_usd)),
            }))?;
        }
    }
    Ok(Exit::Done)
}

fn text(diff: &RunDiff, place: &Place) -> Result<(), Failure> {
    let screen = place.screen;
    let [a, b] = &diff.runs;
    let shared = if diff.shared > 0 { format!(" · the first {} entries are the same", diff.shared) } else { String::new() };
    screen.text(&text!("{} → {}{shared}", style::name(a), style::name(b)))?;
    match &diff.first {
        None => screen.text(&text!("{} nothing differs", style::good("✓")))?,
        Some(first) => {
            let holder = first.holder.as_ref().map(|holder| format!(" ({holder})")).unwrap_or_default();
            screen.text(&text!("first       task {}{holder}, {}", first.task, entries(first)))?;
            let what = Text::line(&first.what);
            screen.text(&match first.cause {
                Some(cause) => text!("cause       {}: {}", style::waiting(cause.as_str().replace('_', " ")), what),
                None => text!("differs     {}", what),
            })?;
            for (run, (decision, at)) in diff.runs.iter().zip(first.decision.into_iter().zip(first.fork_at)) {
                if let (Some(decision), Some(at)) = (decision, at) {
                    let command = baton("fork").value(run).option("--at", at);
                    screen.text(&text!("fork        before decision {decision}, after entry {at}: {command}"))?;
                }
            }
        }
    }
    for (index, line) in diff.configs.iter().enumerate() {
        screen.text(&text!("{}{line}", if index == 0 { "configs     " } else { "            " }))?;
    }
    let differing: Vec<&TaskDiff> = diff.tasks.iter().filter(|task| !task.is_same()).collect();
    screen.text(&text!("tasks       {} the same, {} different", diff.tasks.len() - differing.len(), differing.len()))?;
    for task in differing.iter().take(SHOWN) {
        screen.text(&text!("  {}", line(task)))?;
    }
    more(differing.len(), place)?;
    let documents: Vec<_> = diff.documents.iter().filter(|document| !document.is_same()).collect();
    screen.text(&text!("documents   {} the same, {} different", diff.documents.len() - documents.len(), documents.len()))?;
    for document in documents.iter().take(SHOWN) {
        let [was, is] = document.versions.map(|count| if count == 0 { "none".to_owned() } else { format!("v{count}") });
        screen.text(&text!("  {}  {was} → {is}", document.path))?;
    }
    more(documents.len(), place)?;
    let [was, is] = diff.usage.each_ref().map(tokens);
    screen.text(&text!("tokens      {was} → {is}"))?;
    let [was, is] = diff.cost.map(|cost| cost.map_or_else(|| "?".to_owned(), |cost| cost.to_string()));
    screen.text(&text!("cost        {was} → {is}"))?;
    if diff.first.is_some() && !documents.is_empty() {
        let first = &documents[0].path;
        let [before, after] = [a, b].map(|run| baton("doc cat").value(run).value(first));
        screen.tell(&text!("{}       {before} · {after}", style::faint("next:")));
    }
    Ok(())
}

/// Renders a task that differs: path, holder, states, first difference.
fn line(task: &TaskDiff) -> Text {
    let holder = match &task.holders {
        [Some(a), Some(b)] if a != b => format!("{a} → {b}"),
        [Some(holder), _] | [None, Some(holder)] => holder.to_string(),
        [None, None] => String::new(),
    };
    let [was, is] = task.states.map(|state| state.unwrap_or("not there"));
    let state = if was == is { was.to_owned() } else { format!("{was} → {is}") };
    let first = task.first.as_ref().map(|first| format!("{}: {}", entries(first), first.what)).unwrap_or_default();
    words::preview(&format!("{}  {holder}  {state}  {first}", task.task), 160)
}

/// Renders the numbers of the first entries that differ.
fn entries(first: &Divergent) -> String {
    match first.seq {
        [Some(a), Some(b)] if a == b => format!("entry {a}"),
        [Some(a), Some(b)] => format!("entries {a} and {b}"),
        [Some(a), None] => format!("entry {a} of the first only"),
        [None, Some(b)] => format!("entry {b} of the second only"),
        [None, None] => String::new(),
    }
}

fn tokens(usage: &Usage) -> String {
    let sign = if usage.estimated { "≈" } else { "" };
    format!("{sign}{} in, {sign}{} out", words::count(usage.input_tokens), words::count(usage.output_tokens))
}

fn more(count: usize, place: &Place) -> Result<(), Failure> {
    if count > SHOWN {
        place.screen.text(&text!("  … and {} more: --output json", count - SHOWN))?;
    }
    Ok(())
}
