//! `baton show`: prints a run, one of its tasks, or the request that a task's model receives.

use std::collections::HashMap;

use baton_types::id::{RunId, TaskId};
use baton_types::message::{contents_of, message_blocks};
use clap::Args;
use serde_json::{Value, json};

use crate::app::{complete, engine, next, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::shell::baton;
use crate::style;
use crate::terminal;
use crate::text::{Text, text};
use crate::view::extent::Extent;
use crate::view::json::{SpentReport, UsageReport};
use crate::view::usage::usd;
use crate::view::{Question, RunView};
use crate::{approvals, words};

/// Largest number of callers with a row about the usage of the tasks below them.
const SPENT_ROWS: usize = 20;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// Show only this task, named by its id, such as 0/1.1
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Show the task's next request: system prompt, conversation, tools
    #[arg(long, requires = "task")]
    messages: bool,
    /// Show one question in full, such as Q1
    #[arg(long, value_name = "QUESTION", conflicts_with = "task")]
    question: Option<String>,
}

/// Prints a run, a task, a task's next request or a question.
pub(crate) async fn run(args: &ShowArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find_to_read(place, &args.run).await?;
    let mut view = found.view().await?;
    view.interrupted = found.status() == runs::INTERRUPTED;
    approvals::look_in_store(&found, &mut view).await?;
    if let Some(question) = &args.question {
        return show_question(&view, question, place);
    }
    match &args.task {
        Some(task) => {
            let task = TaskId::new(task.as_str());
            if !view.tasks.contains_key(&task) {
                return Err(Failure::not_found("task", task.as_str(), view.order.iter().map(ToString::to_string)));
            }
            if args.messages { messages(&found, &task, place).await? } else { show_task(&view, &task, found.id(), place)? }
        }
        None if place.screen.is_text() => show(&found, &view, place)?,
        None => place.screen.json(&view.report())?,
    }
    Ok(Exit::Done)
}

fn show(found: &FoundRun, view: &RunView, place: &Place) -> Result<(), Failure> {
    let screen = place.screen;
    let width = terminal::width();
    let started = view.started.as_ref();
    let job = started.map(|started| started.job.to_string()).unwrap_or_default();
    let folder = started.and_then(|started| started.folder.clone()).map(|folder| format!(" · {folder}")).unwrap_or_default();
    screen.text(&text!("run {} · job {job}{folder}", style::name(found.id())))?;
    if let Some(started) = started {
        screen.text(&text!("request     {}", words::preview(&started.request, width * 3)))?;
    }
    screen.text(&text!(""))?;
    for line in view.tree(view.shown_at(), width, usize::MAX) {
        screen.text(&line)?;
    }
    screen.text(&text!(""))?;
    screen.text(&view.headline())?;
    if let Some(result) = view.result_text() {
        screen.text(&result)?;
    }
    screen.text(&text!(""))?;
    let documents: Vec<_> = view.documents.iter().map(|(_, document)| document.current().as_ref()).collect();
    for (index, line) in RunView::document_table(&documents, width.saturating_sub(12)).iter().enumerate() {
        screen.text(&text!("{}{}", if index == 0 { "documents   " } else { "            " }, line))?;
    }
    for question in view.questions.iter().filter(|question| question.closed.is_some()) {
        let text = view.tasks.get(&question.task).map(|row| row.created.request.clone()).unwrap_or_default();
        let answer = question.ending();
        screen.text(&text!(
            "Q{:<10} {}: {} → {}",
            question.number,
            view.holder(&question.asker),
            words::preview(&text, width / 2),
            answer
        ))?;
    }
    for (index, line) in view.spent_table(SPENT_ROWS).iter().enumerate() {
        screen.text(&text!("{}{}", if index == 0 { "spent       " } else { "            " }, line))?;
    }
    screen.text(&text!("tokens      {}", view.tokens()))?;
    if let Some(recorded) = view.recorded() {
        screen.text(&text!("recorded    {recorded}"))?;
    }
    let exit = if view.waits_for_person() {
        Exit::Waiting
    } else if view.ended.is_some() {
        Exit::Done
    } else {
        Exit::Interrupted
    };
    if exit == Exit::Interrupted {
        screen.tell(&match runs::is_held(&*found.store, &found.record) {
            Some(true) if !view.paused => {
                text!("{} runs it; use baton pause, steer or cancel {}", found.owner(), found.id())
            }
            _ => text!("{}       {}", style::faint("next:"), baton("resume").value(found.id())),
        });
    } else if exit == Exit::Waiting {
        for line in next(view, exit) {
            screen.tell(&line);
        }
    }
    Ok(())
}

/// Prints a question in full.
fn show_question(view: &RunView, name: &str, place: &Place) -> Result<Exit, Failure> {
    let named = |question: &&Question| format!("Q{}", question.number).eq_ignore_ascii_case(name);
    let Some(question) = view.questions.iter().find(named) else {
        let known = view.questions.iter().map(|known| format!("Q{}", known.number));
        return Err(Failure::not_found("question", name, known));
    };
    if !place.screen.is_text() {
        place.screen.json(&view.question_report(question))?;
    } else if question.closed.is_none() {
        let lines = view.question_lines_within(question, terminal::width(), Extent::Whole);
        lines.iter().try_for_each(|line| place.screen.text(line))?;
    } else {
        let asked = view.tasks.get(&question.task).map(|row| row.created.request.clone()).unwrap_or_default();
        place.screen.text(&text!("{} asked (Q{}): {}", view.holder(&question.asker), question.number, Text::block(&asked)))?;
        place.screen.text(&text!("→ {}", question.ending()))?;
    }
    Ok(Exit::Done)
}

fn show_task(view: &RunView, task: &TaskId, run: &RunId, place: &Place) -> Result<(), Failure> {
    let Some(row) = view.tasks.get(task) else { return Ok(()) };
    let screen = place.screen;
    let whole = view.spent().get(task).copied().unwrap_or_default();
    if !screen.is_text() {
        return screen.json(&json!({
            "task": task, "kind": row.created.kind, "agent": row.created.holder.agent(), "holder": row.created.holder, "status": row.state.as_str(),
            "caller": row.created.caller, "request": row.created.request, "documents": row.created.documents,
            "turns": row.turns, "usage": UsageReport::new(row.usage, row.requests.not_used()), "cost_usd": usd(row.cost), "subtree": SpentReport::from(whole), "wrote": row.wrote, "callees": row.callees,
            "result": row.result.as_ref().map(|result| result.output.value()),
            "error": row.result.as_ref().and_then(|result| result.error.as_ref()).map(baton_types::call::CallError::to_value),
        }));
    }
    screen.text(&text!("task {} · {} · {}", style::name(task), row.created.holder, row.state.as_str()))?;
    if let Some(caller) = &row.created.caller {
        screen.text(&text!("caller      {} ({caller})", view.holder(caller)))?;
    }
    screen.text(&text!("request     {}", Text::block(&row.created.request)))?;
    for document in &row.created.documents {
        screen.text(&text!("attached    {document}"))?;
    }
    for document in &row.wrote {
        screen.text(&text!("wrote       {document}"))?;
    }
    for callee in &row.callees {
        screen.text(&text!("called      {} ({callee})", view.holder(callee)))?;
    }
    if let Some(result) = &row.result {
        let text = result.error.as_ref().map_or_else(|| result.output.text().into_owned(), |error| error.message.clone());
        screen.text(&text!("result      {}: {}", result.status.as_str(), Text::block(&text)))?;
    }
    screen.text(&text!(
        "turns       {} · ≈{} tokens{} · cost {}",
        row.turns,
        words::count(row.usage.total()),
        row.requests.not_used().words(),
        row.cost
    ))?;
    if !row.callees.is_empty() {
        screen.text(&text!(
            "with below  ≈{} tokens{} · cost {}",
            words::count(whole.usage.total()),
            view.not_used_below(task).words(),
            whole.cost
        ))?;
    }
    if row.turns > 0 {
        screen.tell(&text!(
            "{}       {}",
            style::faint("next:"),
            baton("show").value(run).option("--task", task).flag("--messages")
        ));
    }
    Ok(())
}

/// Prints the request to a task's model: the same blocks that a provider's codec receives.
async fn messages(found: &FoundRun, task: &TaskId, place: &Place) -> Result<(), Failure> {
    let engine = engine(&found.store)?;
    let request = baton_runtime::request_of(&engine, found.id(), task).await.map_err(run_failure)?;
    let request = request.ok_or_else(|| Failure::Usage(format!("task {task} has no model: a person holds it")))?;
    let mut contents = HashMap::new();
    for hash in request.messages.iter().flat_map(|message| contents_of(message)) {
        if let Some(content) = engine.content(hash).await.map_err(run_failure)? {
            contents.insert(hash, content);
        }
    }
    let blocks: Vec<Value> =
        request.messages.iter().map(|message| message_blocks(message, &|hash| contents.get(&hash).cloned())).collect();
    if !place.screen.is_text() {
        return place.screen.json(&json!({
            "task": task, "agent": request.agent, "turn": request.turn, "model": request.model, "hash": request.hash.to_string(),
            "system": *request.system, "messages": blocks, "tools": request.tools, "settings": request.settings,
        }));
    }
    place.screen.text(&style::faint("── system ──"))?;
    place.screen.text(&Text::block(&request.system))?;
    for message in &blocks {
        let role = message["role"].as_str().unwrap_or_default();
        place.screen.text(&style::faint(format!("── {role} ──")))?;
        for block in message["content"].as_array().into_iter().flatten() {
            let text = match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) => text.to_owned(),
                _ => serde_json::to_string_pretty(block).unwrap_or_default(),
            };
            place.screen.text(&Text::block(&text))?;
        }
    }
    let tools: Vec<&str> = request.tools.iter().map(|tool| tool.id.as_str()).collect();
    place.screen.text(&text!("{} {}", style::faint("── tools ──"), tools.join(", ")))
}
