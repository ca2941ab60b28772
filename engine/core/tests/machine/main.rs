//! The machine under test: expectations come from DESIGN §3–§10 and RELIABILITY B1, never from the implementation.

mod budgets;
mod cancel;
mod crashes;
mod cuts;
mod documents;
mod endings;
mod ends_of_turns;
mod late;
mod limits;
mod mixtures;
mod oracle;
mod questions;
mod rendering;
mod turns;
mod walk;

use baton_proof as support;
