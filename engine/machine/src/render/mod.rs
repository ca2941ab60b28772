//! Rendering: the requests that a model receives, as a pure function of the timeline.
//!
//! A conversation only grows at its end, so a provider's prompt cache stays valid and a turn costs only its new messages.
//! Only a compaction begins a new prefix, and it is an entry of its own. No run id, clock or random number is an input. Text
//! of users, tools and documents is only ever a value.

mod digest;
mod left_out;
mod receipt;
mod transcript;
mod weight;

pub(crate) use receipt::{goes_to_user, receipt};
pub(crate) use transcript::input_changed;
pub use transcript::{Transcript, TranscriptStart};
pub(crate) use weight::{
    BUNDLE_TOKENS, LIMITS_TOKENS, SHORT_TOKENS, SUMMARY_FRAME_TOKENS, answered_tokens, body_tokens, created_tokens,
    definition_tokens, error_tokens, input_tokens, is_long, notice_tokens, outcome_tokens, output_tokens, prompt_tokens,
    record_tokens, reported_tokens, result_tokens, steer_tokens, summary_tokens,
};
