//! The machine under test: expectations come from docs/RULES.md, never from the implementation.

mod adoption;
mod allotment;
mod approvals;
mod asks;
mod budgets;
mod budgets_of_time;
mod budgets_of_tokens;
mod call_limits;
mod cancel;
mod compaction;
mod crashes;
mod crowds;
mod cuts;
mod discovery;
mod documents;
mod doubts;
mod endings;
mod ends_of_turns;
mod fallbacks;
mod fields;
mod joins;
mod late;
mod lengths;
mod limits;
mod long_outputs;
mod media;
mod mixtures;
mod oracle;
mod outages;
mod questions;
mod rendering;
mod retries;
mod turns;
mod walk;
mod windows;

use baton_proof as support;
