//! `baton show`: prints a run, one of its tasks, or the request that a task's model receives.

use std::collections::HashMap;

use baton_machine::Task;
use baton_types::id::{RunId, TaskId};
use baton_types::message::{contents_of, message_blocks};
use clap::Args;
use serde_json::{Value, json};

use crate::app::{complete, engine, next, outcome, run_failure, task_named, usage};
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
use crate::view::{RunView, state};
use crate::{approvals, words};

/// Largest number of callers with a row about the usage of the tasks below them.
const SPENT_ROWS: usize = 20;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// Show only this task, named by its id, such as 0/1.1, or by its agent if the agent has only one task
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
    approvals::look(&mut view, &found.store).await;
    view.look_at_suspended().await.map_err(run_failure)?;
    view.interrupted = found.status() == runs::INTERRUPTED;
    view.queued = found.status() == runs::QUEUED;
    view.executed = runs::is_held(&*found.store, &found.record) == Some(true);
    if let Some(question) = &args.question {
        return show_question(&view, question, place);
    }
    match &args.task {
        Some(task) => {
            let id = task_named(&view.run, task, |_| true)?;
            match view.run.task(&id) {
                Some(task) if !args.messages => show_task(&view, task, found.id(), place)?,
                _ => messages(&found, &id, place).await?,
            }
        }
        None if place.screen.is_text() => show(&found, &view, place).await?,
        None => place.screen.json(&view.report())?,
    }
    Ok(Exit::Done)
}

async fn show(found: &FoundRun, view: &RunView, place: &Place) -> Result<(), Failure> {
    let screen = place.screen;
    let width = terminal::width();
    let started = view.run.started();
    let job = started.map(|started| started.job.to_string()).unwrap_or_default();
    let folder = started.and_then(|started| started.folder.clone()).map(|folder| format!(" · {folder}")).unwrap_or_default();
    screen.text(&text!("run {} · job {job}{folder}", style::name(found.id())))?;
    let runs = found.store.runs().await.map_err(Failure::of_store)?;
    let session = runs::session(&runs, &found.record);
    if session.len() > 1 {
        words::labelled(text!("session"), &runs::session_text(&runs, &session), width)
            .iter()
            .try_for_each(|line| screen.text(line))?;
    }
    if let Some(started) = started {
        let request = words::preview(&started.request, width * 3);
        words::labelled(text!("request"), request.as_str(), width).iter().try_for_each(|line| screen.text(line))?;
    }
    screen.text(&text!(""))?;
    for line in view.tree(view.shown_at(), width, usize::MAX) {
        screen.text(&line)?;
    }
    screen.text(&text!(""))?;
    view.headline(width).iter().try_for_each(|line| screen.text(line))?;
    outcome(view, place)?;
    screen.text(&text!(""))?;
    let documents: Vec<_> = view.run.documents().iter().map(|(_, document)| document.current().as_ref()).collect();
    for (index, line) in RunView::document_table(&documents, width.saturating_sub(12)).iter().enumerate() {
        screen.text(&text!("{}{}", if index == 0 { "documents   " } else { "            " }, line))?;
    }
    for asked in view.questions().filter(|asked| !asked.is_open()) {
        let question = words::preview(&asked.question.text, width / 2);
        let question = text!("{}: {} → {}", view.holder(&asked.question.asker), question, asked.ending());
        let lines = words::labelled(text!("Q{}", asked.question.number), question.as_str(), width);
        lines.iter().try_for_each(|line| screen.text(line))?;
    }
    view.suspended_lines(width).iter().try_for_each(|line| screen.text(line))?;
    let spent = view.spent_table(SPENT_ROWS, width.saturating_sub(words::LABEL));
    words::beside(text!("spent"), spent).iter().try_for_each(|line| screen.text(line))?;
    usage(view).iter().try_for_each(|line| screen.text(line))?;
    let exit = if view.waits_for_person() {
        Exit::Waiting
    } else if view.run.ended().is_some() {
        Exit::Done
    } else {
        Exit::Interrupted
    };
    if exit == Exit::Interrupted {
        screen.tell(&match runs::is_held(&*found.store, &found.record) {
            Some(true) if !view.run.totals().paused => {
                text!("{} runs it; use baton pause, steer or cancel {}", found.owner(), found.id())
            }
            _ => text!("{}       {}", style::faint("next:"), baton("resume").value(found.id())),
        });
    } else if exit == Exit::Waiting {
        let has_process = runs::is_held(&*found.store, &found.record) == Some(true);
        for line in next(view, exit, has_process) {
            screen.tell(&line);
        }
    }
    Ok(())
}

/// Prints a question in full.
fn show_question(view: &RunView, name: &str, place: &Place) -> Result<Exit, Failure> {
    let names = || view.questions().map(|asked| format!("Q{}", asked.question.number));
    let asked = view.questions().zip(names()).find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(asked, _)| asked);
    let asked = asked.ok_or_else(|| Failure::not_found("question", name, names()))?;
    if !place.screen.is_text() {
        place.screen.json(&view.question_report(asked))?;
    } else if asked.is_open() {
        let lines = view.question_lines_within(asked, terminal::width(), Extent::Whole);
        lines.iter().try_for_each(|line| place.screen.text(line))?;
    } else {
        let question = asked.question;
        let asker = view.holder(&question.asker);
        place.screen.text(&text!("{asker} asked (Q{}): {}", question.number, Text::block(&question.text)))?;
        place.screen.text(&text!("→ {}", asked.ending()))?;
    }
    Ok(Exit::Done)
}

fn show_task(view: &RunView, task: &Task, run: &RunId, place: &Place) -> Result<(), Failure> {
    let (screen, row, id, state) = (place.screen, view.row(&task.id), &task.id, state(&task.phase));
    let (used, not_used) = (row.used, view.not_used(task));
    let (whole, not_used_below) = view.spent()[id];
    let caller = view.run.graph().caller(id);
    let callees = view.run.graph().callees(id);
    if !screen.is_text() {
        return screen.json(&json!({
            "task": id, "kind": task.kind, "agent": task.agent(), "holder": task.holder, "status": state,
            "caller": caller.map(|caller| &caller.id), "request": row.request, "documents": row.documents,
            "turns": task.turns, "usage": UsageReport::new(used.usage, not_used), "cost_usd": usd(used.cost), "subtree": SpentReport::from(whole), "wrote": row.wrote,
            "callees": callees.iter().map(|callee| &callee.id).collect::<Vec<_>>(),
            "result": row.result.as_ref().map(|result| result.output.value()),
            "error": row.result.as_ref().and_then(|result| result.error.as_ref()).map(baton_types::call::CallError::to_value),
        }));
    }
    screen.text(&text!("task {} · {} · {state}", style::name(id), task.holder))?;
    if let Some(caller) = caller {
        screen.text(&text!("caller      {} ({})", caller.holder, caller.id))?;
    }
    screen.text(&text!("request     {}", Text::block(&row.request)))?;
    for document in &row.documents {
        screen.text(&text!("attached    {document}"))?;
    }
    for document in &row.wrote {
        screen.text(&text!("wrote       {document}"))?;
    }
    for callee in &callees {
        screen.text(&text!("called      {} ({})", callee.holder, callee.id))?;
    }
    if let Some(result) = &row.result {
        let text = result.error.as_ref().map_or_else(|| result.output.text().into_owned(), |error| error.message.clone());
        screen.text(&text!("result      {}: {}", result.status.as_str(), Text::block(&text)))?;
    }
    screen.text(&text!(
        "turns       {} · ≈{} tokens{} · cost {}",
        task.turns,
        words::count(used.usage.total()),
        not_used.words(),
        used.cost
    ))?;
    if !callees.is_empty() {
        screen.text(&text!(
            "with below  ≈{} tokens{} · cost {}",
            words::count(whole.usage.total()),
            not_used_below.words(),
            whole.cost
        ))?;
    }
    if task.turns > 0 {
        screen.tell(&text!(
            "{}       {}",
            style::faint("next:"),
            baton("show").value(run).option("--task", id).flag("--messages")
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
            "system": &*request.system, "messages": blocks, "tools": request.tools, "settings": request.settings,
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
