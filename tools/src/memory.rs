//! `recall_memory`: reads back what was kept with the two tools that save to memory.
//!
//! Those only log their input: the calls *are* the memory, so there is no second place that could disagree with the
//! timeline. Short-term memory is the calls of this task. Long-term memory is the calls of this agent in every run of its
//! job, or of its project if that shares its memory.

use baton_macros::tool;
use baton_tool::{RecallScope, RecalledCall, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const SHORT_TERM_TOOL: &str = "save_to_short_term_memory";
const LONG_TERM_TOOL: &str = "save_to_long_term_memory";
/// The category of a long-term note that names none.
const DEFAULT_CATEGORY: &str = "general";
/// Number of notes read (default).
const DEFAULT_LIMIT: u32 = 20;

/// Which notes are read.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    /// Notes of this task.
    ShortTerm,
    /// Notes of this agent in all runs of its job.
    LongTerm,
    /// Both.
    All,
}

#[derive(Serialize)]
struct Recalled {
    /// Newest first.
    memories: Vec<Note>,
    /// Number of matching notes, read or not.
    total: usize,
}

#[derive(Serialize)]
struct Note {
    memory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    scope: Scope,
    run: String,
    task: String,
    at: String,
}

/// Reads notes that meet every given condition.
#[tool]
async fn recall_memory(
    context: &ToolContext,
    scope: Option<Scope>,
    query: Option<String>,
    key: Option<String>,
    category: Option<String>,
    limit: Option<u32>,
) -> Result<Recalled, ToolError> {
    let scope = scope.unwrap_or(Scope::All);
    let mut calls = Vec::new();
    if scope != Scope::LongTerm {
        calls.extend(context.recall(SHORT_TERM_TOOL, RecallScope::Task).await?.into_iter().map(|call| (Scope::ShortTerm, call)));
    }
    if scope != Scope::ShortTerm {
        calls.extend(context.recall(LONG_TERM_TOOL, RecallScope::Agent).await?.into_iter().map(|call| (Scope::LongTerm, call)));
    }
    // Stable, so that notes of one moment stay in the order they were made.
    calls.sort_by_key(|(_, call)| call.at);
    let query = query.map(|query| query.to_lowercase());
    let fits = |memory: &Note| {
        let holds = |text: &str, query: &str| text.to_lowercase().contains(query);
        let texts = [Some(&memory.memory), memory.key.as_ref(), memory.category.as_ref()];
        query.as_deref().is_none_or(|query| texts.into_iter().flatten().any(|text| holds(text, query)))
            && key.as_ref().is_none_or(|key| memory.key.as_ref() == Some(key))
            && category.as_ref().is_none_or(|category| memory.category.as_ref() == Some(category))
    };
    let mut memories: Vec<Note> = calls.into_iter().rev().filter_map(|(scope, call)| memory(scope, &call)).filter(fits).collect();
    let total = memories.len();
    memories.truncate(limit.unwrap_or(DEFAULT_LIMIT) as usize);
    Ok(Recalled { memories, total })
}

/// Returns the note of a call; none if its input does not have the form of a note (a job may refine the tool's
/// config).
fn memory(scope: Scope, call: &RecalledCall) -> Option<Note> {
    let input = call.input.value();
    let text = |key: &str| input.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let (key, category) = match scope {
        Scope::LongTerm => (None, Some(text("category").unwrap_or_else(|| DEFAULT_CATEGORY.to_owned()))),
        Scope::ShortTerm | Scope::All => (text("key"), None),
    };
    Some(Note {
        memory: text("memory")?,
        key,
        category,
        scope,
        run: call.run.to_string(),
        task: call.task.to_string(),
        at: call.at.to_string(),
    })
}
