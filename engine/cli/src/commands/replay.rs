//! `baton replay`: renders each request of a run again, without models and tools, and compares it with the sent one.

use baton_runtime::Mismatch;
use baton_types::message::message_blocks;
use clap::Args;
use serde_json::json;

use crate::app::{complete, engine, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::screen::Output;
use crate::style;
use crate::text::text;
use crate::{runs, words};

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
}

/// Replays a run. Exits with 1 if a request differs.
pub(crate) async fn run(args: &ReplayArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find_to_read(place, &args.run).await?;
    let engine = engine(&found.store)?;
    let report = baton_runtime::replay(&engine, found.id()).await.map_err(run_failure)?;
    let holder = |mismatch: &Mismatch| {
        report.run.task(&mismatch.task).and_then(|task| task.agent()).map(ToString::to_string).unwrap_or_default()
    };
    let screen = place.screen;
    let exit = if report.mismatches.is_empty() { Exit::Done } else { Exit::Failed };
    if !screen.is_text() {
        let differences: Vec<_> = report
            .mismatches
            .iter()
            .map(|mismatch| {
                json!({
                    "seq": mismatch.seq, "task": mismatch.task, "agent": holder(mismatch), "turn": mismatch.turn,
                    "sent": mismatch.sent.to_string(), "rendered": mismatch.rendered.map(|hash| hash.to_string()),
                    "same_messages": mismatch.same_messages, "messages": mismatch.messages,
                })
            })
            .collect();
        let whole = json!({
            "run": found.id(), "entries": report.entries, "requests": report.requests,
            "identical": differences.is_empty(), "differences": differences.len(),
        });
        if screen.output == Output::Ndjson {
            screen.json_list(&differences)?;
            screen.json(&whole)?;
        } else {
            let mut whole = whole;
            whole["differences"] = json!(differences);
            screen.json(&whole)?;
        }
        return Ok(exit);
    }
    let read = format!(
        "{} · {}",
        words::counted_as(report.entries, "entry", "entries"),
        words::counted_as(report.requests, "request", "requests")
    );
    let Some(first) = report.mismatches.first() else {
        screen.text(&text!(
            "{} {read}, each identical to the bytes that were sent; no model and no tool was called",
            style::good("✓")
        ))?;
        return Ok(exit);
    };
    screen.text(&text!("{} {read}, {} different", style::bad("✗"), report.mismatches.len()))?;
    screen.text(&text!("first       entry {}, task {} ({}), turn {}", first.seq, first.task, holder(first), first.turn))?;
    screen.text(&text!("            {}", place_of(first)))?;
    screen.text(&text!("sent        {}", first.sent))?;
    screen.text(&text!(
        "rendered    {}",
        first.rendered.map_or_else(|| "nothing requested it".to_owned(), |hash| hash.to_string())
    ))?;
    // The messages that may differ, as rendered now. Later requests of the task contain them too.
    let request = baton_runtime::request_of(&engine, found.id(), &first.task).await.map_err(run_failure)?;
    for message in request.iter().flat_map(|request| request.messages.iter()).take(first.messages).skip(first.same_messages) {
        let blocks = message_blocks(message, &|_| None).to_string();
        screen.text(&style::faint(text!("            {}", words::preview(&blocks, 160))))?;
    }
    Ok(exit)
}

/// Describes the part of a request that differs, as far as the hashes show it.
fn place_of(mismatch: &Mismatch) -> String {
    match (mismatch.same_messages, mismatch.messages) {
        (0, messages) => format!("in its prompt, tools, settings or one of its {}", words::counted(messages, "message")),
        (same, messages) if same >= messages => "in its prompt, tools or settings; the messages are the same".to_owned(),
        (same, messages) => {
            format!(
                "messages 1 to {same} are the same; the difference is in messages {} to {messages}, the tools or the settings",
                same + 1
            )
        }
    }
}
