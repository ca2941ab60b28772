//! Rendering: what a model is sent, as a pure function of the timeline.
//!
//! A conversation only ever grows at its end, so a provider's prompt cache holds and a turn costs what is new. Only what is
//! compacted, by an entry of its own, begins a new prefix.
//! No run id, clock or random number gets in. Text of users, tools and documents is only ever a value.

mod digest;
mod transcript;
mod weight;

pub use transcript::{Transcript, TranscriptStart};
pub(crate) use weight::{
    SUMMARY_FRAME_TOKENS, answered_tokens, created_tokens, error_tokens, prompt_tokens, result_tokens, steer_tokens,
    summary_tokens,
};
