//! `tool test`: runs the examples of tool configs and compares the outputs with the expected ones.

use std::path::Path;

use baton_runtime::InitialDocument;
use baton_tool::{compare_output, registered_functions, run_example};
use baton_types::call::CallStatus;
use baton_types::config::{Example, Executor, Tool};
use baton_types::path::DocumentPath;
use serde_json::json;

use super::tools::Tools;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::style;
use crate::text::{Text, text};
use crate::trust::Manner;
use crate::{scratch, words};

/// Runs the examples of the tools in `names`, or of all tools if it is empty.
pub(super) async fn run(names: &[String], job: Option<&Path>, trusted: bool, place: &Place) -> Result<Exit, Failure> {
    let tools = Tools::load(place, job)?;
    let chosen = if names.is_empty() {
        tools.by_id.values().collect::<Vec<_>>()
    } else {
        names.iter().map(|name| tools.get(name)).collect::<Result<_, _>>()?
    };
    let (mut held, mut failed, mut reports) = (0_usize, 0_usize, Vec::new());
    for tool in chosen {
        // Settings from the job need trust. Such a function is called in a run, which checks the trust.
        let is_foreign = tool.reaches.iter().any(|reach| reach.origin.needs_trust());
        let needs_run = is_foreign || !tool.calls.is_empty();
        for (number, example) in (1..).zip(&tool.examples).filter(|(_, example)| example.runs) {
            let failure = match &tool.executor {
                Some(Executor::Exec(_)) => run_as_call(tool, example, &tools, trusted, place).await?,
                _ if needs_run => run_as_call(tool, example, &tools, trusted, place).await?,
                _ => run_example(&registered_functions(), tool, example).await.err().map(|failure| (failure.to_string(), None)),
            };
            let (failure, stderr) = failure.unzip();
            let stderr = stderr.flatten();
            match &failure {
                None => held += 1,
                Some(failure) => {
                    failed += 1;
                    let place_of = tool.source.as_deref().unwrap_or("-");
                    let what = words::preview(&example.explanation, 60);
                    place.screen.tell(&text!(
                        "{} {} example {number} ({}): {failure}  {}",
                        style::bad("✗"),
                        tool.id,
                        what,
                        style::faint(place_of)
                    ));
                    for line in stderr.iter().flat_map(|text| text.lines()) {
                        place.screen.tell(&text!("  {} {}", style::faint("│"), Text::block(line)));
                    }
                }
            }
            reports.push(json!({"tool": tool.id, "example": number, "explanation": example.explanation, "holds": failure.is_none(), "failure": failure, "stderr": stderr}));
        }
    }
    if !place.screen.is_text() {
        place.screen.json_list(&reports)?;
    } else if failed == 0 {
        place.screen.text(&text!("{}   {}", style::good("ok"), all_hold(held)))?;
    } else {
        place.screen.text(&text!(
            "{}   {failed} of {} failed",
            style::bad("failed"),
            words::counted(held + failed, "example")
        ))?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

fn all_hold(held: usize) -> String {
    match held {
        0 => "there are no examples".to_owned(),
        1 => "1 example passed".to_owned(),
        many => format!("{many} examples passed"),
    }
}

/// Runs the example as a call in a run of its own: of a command, of code that makes calls, or of a tool that needs trust. If the example fails, returns the reason, and the end of the text that
/// the command wrote to stderr.
async fn run_as_call(
    tool: &Tool,
    example: &Example,
    tools: &Tools,
    trusted: bool,
    place: &Place,
) -> Result<Option<(String, Option<String>)>, Failure> {
    let job = scratch::job(place, tools.job.as_deref(), tool.id.as_str())?;
    let mut documents = Vec::new();
    for (path, text) in &example.documents {
        match DocumentPath::parse(path) {
            Ok(path) => documents.push(InitialDocument::new(path, text.as_bytes())),
            Err(error) => return Ok(Some((error.to_string(), None))),
        }
    }
    let called = scratch::call(place, job, tool.id.as_str(), &example.input, documents, Manner::of(trusted)).await?;
    if called.result.status != CallStatus::Success {
        let error = called.result.error.as_ref();
        let message = error.map_or("", |error| error.message.as_str());
        let stderr = error.and_then(|error| error.detail.value()["stderr"].as_str().map(str::to_owned));
        let stderr = stderr.filter(|text| !text.trim().is_empty());
        return Ok(Some((format!("{}: {message}", called.result.status.as_str()), stderr)));
    }
    let found =
        example.output.as_ref().map(|expected| compare_output(expected, &called.result.output.value())).unwrap_or_default();
    let failures: Vec<String> = found.iter().map(ToString::to_string).collect();
    Ok((!failures.is_empty()).then(|| (failures.join("; "), None)))
}
