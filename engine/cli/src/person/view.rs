//! A request to a model as text for a person: the messages that are new, and the tools. Bounded, since models, tools and
//! documents write most of it.

use std::collections::HashMap;
use std::sync::Arc;

use baton_types::call::{CallError, CallResult};
use baton_types::document::{Content, DocumentVersion};
use baton_types::entry::Said;
use baton_types::id::ContentHash;
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{ModelRequest, ToolDefinition};
use serde_json::Value;

use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Largest number of lines of one part, and of all parts of a request.
const PART_LINES: usize = 40;
const REQUEST_LINES: usize = 200;

/// Largest number of characters of one part.
const PART_CHARACTERS: usize = 6_000;

/// Largest number of tools in a list.
const TOOLS: usize = 100;

/// Returns the messages of `request` after the first `seen`. The person's own turns among them are left out.
pub(super) fn new_messages(request: &ModelRequest, seen: Option<usize>) -> Vec<Arc<Message>> {
    // A summary may have replaced messages that were seen.
    let skipped = seen.filter(|seen| *seen <= request.messages.len()).unwrap_or(0);
    let is_shown = |message: &&Arc<Message>| skipped == 0 || message.role != Role::Assistant;
    request.messages.iter().skip(skipped).filter(is_shown).cloned().collect()
}

/// Renders a request: its task, the system prompt if it is the `first` of the task, the `new` messages, and the tools.
pub(super) fn request(
    request: &ModelRequest,
    first: bool,
    new: &[Arc<Message>],
    contents: &HashMap<ContentHash, Content>,
    width: usize,
) -> Vec<Text> {
    let ModelRequest { task, agent, turn, is_question, .. } = request;
    let kind = if *is_question { ", a question" } else { "" };
    let mut lines = vec![text!("── {} · task {task}{kind} · turn {turn} ──", style::name(agent))];
    let mut body = Vec::new();
    if first {
        body.extend(part("system", &request.system));
    }
    for (label, content) in new.iter().flat_map(|message| &message.parts).filter_map(|part| described(part, contents)) {
        body.extend(part(&label, &content));
    }
    let hidden = body.len().saturating_sub(REQUEST_LINES);
    // The newest lines count.
    lines.extend(body.into_iter().skip(hidden));
    if hidden > 0 {
        let all = baton("show").value("@last").option("--task", task).flag("--messages");
        lines.insert(1, style::faint(text!("  … {}; see {all}", words::counted(hidden, "earlier line"))));
    }
    lines.extend(words::labelled(text!("  tools"), &tools(&request.tools), width));
    lines.push(style::faint("  a text, or TOOL {JSON}, or TOOL @FILE; an empty line sends the turn; ? explains the tools"));
    lines
}

/// Renders the description and the input schema of each tool.
pub(super) fn help(tools: &[Arc<ToolDefinition>]) -> Vec<Text> {
    let mut lines = Vec::new();
    for tool in tools.iter().take(TOOLS) {
        lines.push(text!("  {}  {}", style::name(tool.shown_name()), words::preview(&tool.description, 400)));
        lines.push(style::faint(text!("      {}", words::preview(tool.input_schema.text(), PART_CHARACTERS))));
    }
    if tools.is_empty() {
        lines.push(text!("  no tools are offered: answer with a text"));
    }
    if tools.len() > TOOLS {
        lines.push(text!("  … {}", words::counted(tools.len() - TOOLS, "more tool")));
    }
    lines
}

/// Lists the tools with their inputs; `?` marks optional ones: `echo(message) · handoff(result, documents?)`.
fn tools(tools: &[Arc<ToolDefinition>]) -> String {
    let listed = |tool: &Arc<ToolDefinition>| {
        let schema = tool.input_schema.value();
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let keys = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
        let keys = keys.map(|key| if required.contains(&key.as_str()) { key.clone() } else { format!("{key}?") });
        format!("{}({})", tool.shown_name(), keys.collect::<Vec<_>>().join(", "))
    };
    let mut names: Vec<String> = tools.iter().take(TOOLS).map(listed).collect();
    if tools.len() > TOOLS {
        names.push(format!("… {}", words::counted(tools.len() - TOOLS, "more tool")));
    }
    if names.is_empty() { "none".to_owned() } else { names.join(" · ") }
}

/// Renders `content` below `label`, at most [`PART_LINES`] lines.
fn part(label: &str, content: &str) -> Vec<Text> {
    let characters = content.chars().count();
    let shown: String = content.chars().take(PART_CHARACTERS).collect();
    let mut lines = vec![text!("  {}", style::busy(label))];
    lines.extend(shown.lines().take(PART_LINES).map(|line| text!("    {}", Text::block(line))));
    let left_out = shown.lines().skip(PART_LINES).map(|line| line.chars().count()).sum::<usize>()
        + characters.saturating_sub(PART_CHARACTERS);
    if left_out > 0 {
        lines.push(style::faint(text!("    … {}", words::counted(left_out, "more character"))));
    }
    lines
}

/// Returns the label and the text of a part; `None` for a vendor's own items.
fn described(part: &Part, contents: &HashMap<ContentHash, Content>) -> Option<(String, String)> {
    let whole = |schema: &Json| if schema.is_null() { String::new() } else { format!("\nanswer schema: {}", schema.text()) };
    Some(match part {
        Part::Request(text) => ("request".to_owned(), text.clone()),
        Part::Question { asker, question, answer_schema } => {
            (format!("question of {asker}"), format!("{question}{}", whole(answer_schema)))
        }
        Part::Attempt { number, reason } => (format!("attempt {number}"), format!("the attempt before failed: {reason}")),
        Part::Text(text) => ("text".to_owned(), text.clone()),
        Part::Items(_) => return None,
        Part::Call { asked, call: _ } => (format!("call of {}", asked.tool), asked.input.text().to_owned()),
        Part::Result { asked, result: None, .. } => (format!("result of {}", asked.tool), "waiting".to_owned()),
        Part::Result { asked, result: Some(result), said, .. } => {
            (format!("result of {}: {}", asked.tool, result.status.as_str()), outcome(result, said))
        }
        Part::TaskResult(ended) => {
            let title = format!("result of task {}: {}", ended.task, ended.result.status.as_str());
            (title, outcome(&ended.result, &ended.said))
        }
        Part::Instruction { from, text } => (format!("message of {from}"), text.clone()),
        Part::Document(version) => (record(version), content(version, contents)),
        Part::Pointer(version) => (record(version), version.content.summary.clone()),
        Part::Repeated(version) => (record(version), "shown before".to_owned()),
        Part::Conflict { base, current, with_changes: _ } => {
            let known = base.as_ref().map_or_else(|| "none".to_owned(), |base| base.version.to_string());
            (format!("conflict: {}", record(current)), format!("the write knew version {known}"))
        }
        Part::Summary { through_turn, text } => (format!("summary of the turns up to {through_turn}"), text.clone()),
        Part::Notice(notice) => ("notice".to_owned(), notice.text()),
    })
}

/// Returns the error, the output and the answers on behalf of the agent, a line each.
fn outcome(result: &CallResult, said: &[Said]) -> String {
    let error = result.error.as_ref().map(|error| CallError::to_value(error).to_string());
    let output = Some(result.output.shown().text().to_owned()).filter(|_| !result.output.is_null());
    let answers = (!said.is_empty()).then(|| serde_json::to_string(said).unwrap_or_default());
    [error, output, answers].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn record(version: &DocumentVersion) -> String {
    format!("document {} ({}, {})", version.reference(), version.content.mime_type, words::size(version.content.size_bytes))
}

/// Returns the text of a document, or its summary.
fn content(version: &DocumentVersion, contents: &HashMap<ContentHash, Content>) -> String {
    let text = contents.get(&version.content.hash).and_then(|content| std::str::from_utf8(content).ok());
    text.unwrap_or(&version.content.summary).to_owned()
}
