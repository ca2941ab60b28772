//! The public timeline of a run: each entry as a [`Line`] that programs read, and as a [`Sentence`] that people read.
//!
//! A [`Reader`] takes stored entries in order and returns one line for each. A line holds the stored entry unchanged, and what
//! earlier entries say about it: who holds the task, what a call was given, which contents its documents have. The sentence of
//! a line needs the line alone. `docs/timeline.md` describes the format; [`schema`] is its JSON Schema.
//!
//! This crate is *not* a fold of the run: it knows no limits, no phases and no configs. That is the machine's business.

pub mod figures;
mod line;
mod reader;
mod schema;
mod sentence;

pub use line::{Closed, DocumentReference, Kind, Line, OtherTask, VERSION};
pub use reader::Reader;
pub use schema::schema;
pub use sentence::{Part, Sentence, Tone, sentence};
