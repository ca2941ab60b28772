//! The parts that commands share: engines, the end of an execution, input from the command line, values for completion.
//!
//! Commands import this module and not each other.

pub(crate) mod bus;
pub(crate) mod complete;
pub(crate) mod delivery;
pub(crate) mod ending;
pub(crate) mod engine;
pub(crate) mod given;
pub(crate) mod meaning;
pub(crate) mod options;
pub(crate) mod reporting;
pub(crate) mod tasks;

pub(crate) use bus::{build, build_to_announce};
pub(crate) use delivery::{Asked, unpause};
pub(crate) use ending::{Continuation, Ending, finish, next, outcome, resume_and_finish, usage};
pub(crate) use engine::{builder, engine, run_failure};
pub(crate) use given::{document, given_text, text_or_file, text_or_stdin};
pub(crate) use meaning::embedder;
pub(crate) use reporting::{quarantine_reason, report_work};
pub(crate) use tasks::task_named;
