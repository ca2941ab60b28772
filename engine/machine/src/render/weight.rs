//! Weight of entries in a conversation, in tokens (≈): the machine adds these up where the transcript adds the text.

use std::sync::Arc;

use baton_types::call::CallError;
use baton_types::config::Agent;
use baton_types::document::{DocumentRef, DocumentVersion, Documents};
use baton_types::entry::{CallFinished, ModelAnswered, TaskCreated};
use baton_types::estimate::text_tokens;
use baton_types::message::FRAME_BYTES;

/// Tokens (≈) of the text around a summary.
pub(crate) const SUMMARY_FRAME_TOKENS: u64 = 48;

/// Returns the tokens of an agent's prompt and tool definitions.
pub(crate) fn prompt_tokens(agent: &Agent) -> u64 {
    let tools: usize =
        agent.offered.iter().map(|tool| tool.id.as_str().len() + tool.description.len() + tool.input_schema.text().len()).sum();
    text_tokens((agent.system_prompt.len() + tools) as u64)
}

/// Returns the tokens of a task's request with its documents.
pub(crate) fn created_tokens(entry: &TaskCreated, documents: &Documents, budget: Option<u64>) -> u64 {
    let schema = if entry.answer_schema.is_null() { 0 } else { entry.answer_schema.text().len() };
    text_tokens((entry.request.len() + schema) as u64 + FRAME_BYTES) + injected_tokens(&entry.documents, documents, budget)
}

/// Returns the tokens of a model's answer.
pub(crate) fn answered_tokens(entry: &ModelAnswered) -> u64 {
    let calls: u64 = entry.calls.iter().map(|call| (call.tool.len() + call.input.text().len()) as u64 + FRAME_BYTES).sum();
    let items = if entry.items.is_null() { 0 } else { entry.items.text().len() };
    text_tokens((entry.text.len() + items) as u64 + calls)
}

/// Returns the tokens of a person's steering message.
pub(crate) fn steer_tokens(text: &str) -> u64 {
    text_tokens(text.len() as u64 + FRAME_BYTES)
}

/// Returns the tokens of a summary that a model wrote.
pub(crate) fn summary_tokens(text: &str) -> u64 {
    text_tokens(text.len() as u64) + SUMMARY_FRAME_TOKENS
}

/// Returns the tokens of an error result.
pub(crate) fn error_tokens(error: &CallError) -> u64 {
    text_tokens((error.message.len() + error.detail.text().len()) as u64 + FRAME_BYTES)
}

/// Returns the tokens of a result with its documents.
pub(crate) fn result_tokens(entry: &CallFinished, documents: &Documents, budget: Option<u64>) -> u64 {
    let said: usize = entry.said.iter().map(|said| said.question.len() + said.answer.text().len()).sum();
    let conflicts: u64 = entry
        .conflicts
        .iter()
        .filter_map(|conflict| documents.version(&DocumentRef { path: conflict.path.clone(), version: conflict.current }))
        .map(|current| current.content.token_count)
        .sum();
    let budget = budget.filter(|_| !entry.tool_type.behavior().runs_code);
    text_tokens((entry.result.output.text().len() + said) as u64 + FRAME_BYTES)
        + entry.result.error.as_ref().map_or(0, error_tokens)
        + conflicts
        + injected_tokens(&entry.result.documents, documents, budget)
}

fn injected_tokens(references: &[DocumentRef], documents: &Documents, budget: Option<u64>) -> u64 {
    injection(references, documents, budget)
        .map(|(version, whole)| {
            let record = text_tokens((version.path.as_str().len() + version.content.summary.len()) as u64 + FRAME_BYTES);
            record + if whole { version.content.token_count } else { 0 }
        })
        .sum()
}

/// Returns the documents that one edge injects, in order: whole while the edge's budget of tokens lasts, else as a pointer.
pub(super) fn injection<'a>(
    references: &'a [DocumentRef],
    documents: &'a Documents,
    budget: Option<u64>,
) -> impl Iterator<Item = (Arc<DocumentVersion>, bool)> + 'a {
    let mut left = budget.unwrap_or(u64::MAX);
    references.iter().filter_map(|reference| documents.version(reference)).map(move |version| {
        let whole = version.content.token_count <= left;
        if whole {
            left -= version.content.token_count;
        }
        (Arc::clone(version), whole)
    })
}
