//! Weight of entries in a conversation, in tokens (≈): the machine adds these up where the transcript adds the text.

use baton_types::call::{CallError, CallOutput, CallResult};
use baton_types::config::{Agent, CATALOG_BYTES, Catalog, Invocation, STANDARD_BYTES, Tool};
use baton_types::document::{DocumentRef, Documents};
use baton_types::entry::{CallFinished, ModelAnswered, Notice, Said, TaskCreated, TaskReported};
use baton_types::estimate::text_tokens;
use baton_types::json::Json;
use baton_types::message::FRAME_BYTES;
use serde_json::Value;

/// Tokens (≈) of the record of a document that holds an output.
const KEPT_TOKENS: u64 = 128;

/// Outputs of more tokens (≈) may be kept as documents.
const LONG_TOKENS: u64 = 2 * KEPT_TOKENS;

/// Results of at most so many tokens (≈) beyond their frame are never left out. An answer is a quarter of the window at most,
/// and a call takes about as much of it as such a result takes of the next request.
pub const SHORT_TOKENS: u64 = 32;

/// Tokens (≈) of the record of a document that holds results and records.
pub const BUNDLE_TOKENS: u64 = 128;

/// Maximum number of answers on an agent's behalf that a result lists. The newest are kept.
const MAX_SAID: usize = 16;

/// Maximum number of bytes of such a question, and of its answer.
const MAX_SAID_BYTES: usize = 500;

/// Tokens (≈) of a notice about what is left of the limits.
pub const LIMITS_TOKENS: u64 = 64;

/// Tokens (≈) of the text around a summary.
pub const SUMMARY_FRAME_TOKENS: u64 = 48;

/// Returns the tokens of an agent's prompt and of what its model knows of its tools at first. The notice about limits at the end of the
/// next request is included.
pub fn prompt_tokens(agent: &Agent) -> u64 {
    let bytes = |tool: &Tool| match agent.catalog {
        Catalog::Discover if !tool.is_known_at_once() => tool.catalog_line().len(),
        Catalog::Full | Catalog::Discover | Catalog::Prompt => definition_bytes(tool),
    };
    let tools: usize = agent.tools.values().map(|tool| bytes(tool)).sum();
    let standard = match (agent.invocation, agent.catalog) {
        (Invocation::Native, Catalog::Full) => 0,
        (Invocation::Native, Catalog::Discover | Catalog::Prompt) => CATALOG_BYTES,
        (Invocation::Universal, _) => STANDARD_BYTES + CATALOG_BYTES + agent.configuration_lines().len(),
    };
    let notice = if agent.tell_limits { LIMITS_TOKENS } else { 0 };
    text_tokens((agent.system_prompt.len() + standard + tools) as u64) + notice
}

/// Returns the tokens of a tool's definition.
pub fn definition_tokens(tool: &Tool) -> u64 {
    text_tokens(definition_bytes(tool) as u64)
}

fn definition_bytes(tool: &Tool) -> usize {
    let definition = &tool.definition;
    definition.id.as_str().len() + definition.description.len() + definition.input_schema.text().len()
}

/// Returns the tokens of a task's request, with the records of its documents.
pub fn created_tokens(entry: &TaskCreated, documents: &Documents) -> u64 {
    let schema = if entry.answer_schema.is_null() { 0 } else { entry.answer_schema.text().len() };
    let failure = entry.last_failure.as_ref().map_or(0, String::len);
    text_tokens((entry.request.len() + failure + schema) as u64 + FRAME_BYTES)
        + entry.documents.iter().map(|reference| record_tokens(reference, documents)).sum::<u64>()
}

/// Returns the tokens of a request that a call's input makes.
pub fn input_tokens(input: &Json) -> u64 {
    text_tokens(input.text().len() as u64 + FRAME_BYTES)
}

/// Returns the tokens of a model's answer.
pub fn answered_tokens(entry: &ModelAnswered) -> u64 {
    let calls: u64 = entry.calls.iter().map(|call| (call.tool.len() + call.input.text().len()) as u64 + FRAME_BYTES).sum();
    let items = if entry.items.is_null() { 0 } else { entry.items.text().len() };
    text_tokens((entry.text.len() + items) as u64 + calls)
}

/// Returns the tokens of a person's steering message.
pub fn steer_tokens(text: &str) -> u64 {
    text_tokens(text.len() as u64 + FRAME_BYTES)
}

/// Returns the tokens of a notice.
pub fn notice_tokens(notice: &Notice) -> u64 {
    text_tokens(notice.text().len() as u64 + FRAME_BYTES)
}

/// Returns the tokens of a summary that a model wrote.
pub fn summary_tokens(text: &str) -> u64 {
    text_tokens(text.len() as u64) + SUMMARY_FRAME_TOKENS
}

/// Returns the tokens of an error result.
pub fn error_tokens(error: &CallError) -> u64 {
    text_tokens((error.message.len() + error.detail.text().len()) as u64 + FRAME_BYTES)
}

/// Returns the tokens of a result without the content that a request may leave out: a long output, the contents of documents
/// and the changes after a conflict.
pub fn result_tokens(entry: &CallFinished, documents: &Documents) -> u64 {
    text_tokens(FRAME_BYTES)
        + body_tokens(entry)
        + entry.result.documents.iter().map(|reference| record_tokens(reference, documents)).sum::<u64>()
        + entry.conflicts.len() as u64 * text_tokens(FRAME_BYTES)
}

/// Returns the tokens of [`result_tokens`] that are neither the frame of the result nor records of documents.
pub fn body_tokens(entry: &CallFinished) -> u64 {
    outcome_tokens(&entry.result, &entry.said)
}

/// Returns the tokens of a result and of the answers on the agent's behalf, without documents.
pub fn outcome_tokens(result: &CallResult, said: &[Said]) -> u64 {
    let output = if is_long(result) { KEPT_TOKENS } else { text_tokens(result.output.text().len() as u64) };
    let said = if said.is_empty() {
        0
    } else {
        let said: usize = newest_said(said).iter().map(|said| said.question.len() + said.answer.text().len()).sum();
        text_tokens(said as u64)
    };
    output + said + result.error.as_ref().map_or(0, error_tokens)
}

/// Returns the tokens of the result of a background task, without the content that a request may leave out.
pub fn reported_tokens(entry: &TaskReported, documents: &Documents) -> u64 {
    // The block also has the ids of the task and of its tool, and a note.
    text_tokens(2 * FRAME_BYTES)
        + outcome_tokens(&entry.result, &entry.said)
        + entry.result.documents.iter().map(|reference| record_tokens(reference, documents)).sum::<u64>()
}

/// Returns the newest of the questions and answers on an agent's behalf, with long texts cut. The timeline has all of them.
pub(crate) fn newest_said(said: &[Said]) -> Vec<Said> {
    let newest = &said[said.len().saturating_sub(MAX_SAID)..];
    let cut = |text: &str| {
        let end = text.floor_char_boundary(MAX_SAID_BYTES);
        if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
    };
    let newest_said = newest.iter().map(|said| {
        let is_long = said.answer.text().len() > MAX_SAID_BYTES;
        let answer = if is_long { Json::from(Value::from(cut(said.answer.text()))) } else { said.answer.clone() };
        Said { asker: said.asker.clone(), question: cut(&said.question), answer }
    });
    newest_said.collect()
}

/// Whether the output of `result` may be kept as a document where a request has no room for it.
pub fn is_long(result: &CallResult) -> bool {
    matches!(&result.output, CallOutput::Inline(output) if text_tokens(output.text().len() as u64) > LONG_TOKENS)
}

/// Returns the tokens that the output of `result` takes in addition to the record of a document that could hold it.
pub fn output_tokens(result: &CallResult) -> u64 {
    text_tokens(result.output.text().len() as u64).saturating_sub(KEPT_TOKENS)
}

/// Returns the tokens of the record of a document.
pub fn record_tokens(reference: &DocumentRef, documents: &Documents) -> u64 {
    documents
        .version(reference)
        .map_or(0, |version| text_tokens((version.path.as_str().len() + version.content.summary.len()) as u64 + FRAME_BYTES))
}
