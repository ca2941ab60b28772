//! The machine under test: expectations come from DESIGN §3–§10 and RELIABILITY B1, never from the implementation.

mod documents;
mod endings;
mod ends_of_turns;
mod limits;
mod mixtures;
mod oracle;
mod questions;
mod support;
mod turns;
mod walk;
