//! Texts for models: the requests that they receive, and what the engine itself writes for them.
//!
//! [`Transcript`] is the conversation of one task, a pure function of the timeline. It only grows at its end, so a provider's
//! prompt cache stays valid and a turn costs only its new messages. Only a compaction begins a new prefix, and it is an entry
//! of its own. No run id, clock or random number is an input. Text of users, tools and documents is only ever a value.
//!
//! [`request`] has the requests of delegations and questions. [`acceptance`], [`approval`] and [`outcome`] have the questions of
//! the engine, and read their answers. `weight` estimates the tokens of every part of a request, so that the machine can check a
//! window before it asks.
//!
//! This crate does *not* decide what happens: it keeps no state of a run and appends no entry.

pub mod acceptance;
pub mod approval;
mod describe;
mod digest;
mod left_out;
pub mod outcome;
mod receipt;
pub mod request;
mod transcript;
mod weight;

use baton_types::json::Json;
use serde_json::Value;

pub use describe::describe;
pub use receipt::{goes_to_user, receipt};
pub use transcript::{Transcript, TranscriptStart, input_changed};
pub use weight::{
    BUNDLE_TOKENS, LIMITS_TOKENS, SHORT_TOKENS, SUMMARY_FRAME_TOKENS, answered_tokens, body_tokens, created_tokens,
    definition_tokens, error_tokens, input_tokens, is_long, notice_tokens, outcome_tokens, output_tokens, prompt_tokens,
    record_tokens, reported_tokens, result_tokens, steer_tokens, summary_tokens,
};

/// A question that the engine asks.
#[derive(Debug)]
pub struct QuestionText {
    /// The question, in words.
    pub request: String,
    /// The JSON Schema of its answer.
    pub answer_schema: Value,
}

/// Maximum number of characters of an input that a question about its call shows.
const INPUT_SHOWN: usize = 10_000;

/// Returns an input as a question shows it: the whole text, or its first [`INPUT_SHOWN`] characters.
fn shown_input(input: &Json) -> String {
    let text = input.text();
    match text.char_indices().nth(INPUT_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes in all; the timeline has the rest)", &text[..end], text.len()),
    }
}
