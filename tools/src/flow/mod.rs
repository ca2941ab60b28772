//! Tools whose code calls other tools.

mod filling;
mod map;
mod program;
mod reference;
mod workflow;

/// The most characters of a text of others in a message.
const SHOWN: usize = 100;

/// Shortens a text of others for a message.
fn bounded(text: &str) -> String {
    baton_types::text::shortened(text, SHOWN)
}
