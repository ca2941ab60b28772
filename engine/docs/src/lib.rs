//! Pages about tools, jobs and agents: checked configs in, Markdown out.
//!
//! A page depends on its configs alone. It has no paths of a machine, no values of variables and no date, so equal configs give
//! equal pages. Texts of configs may come from strangers. They cannot end the cell, the heading or the fence that they are in,
//! and they add no HTML, link or image.
//!
//! This crate does *not* read configs and does not write files.

mod agents;
mod collect;
mod described;
mod header;
mod markdown;
mod tools;
mod values;

pub use agents::agents_page;
pub use collect::tools_of;
pub use described::{DescribedTool, Grant, Job, Settings};
pub use header::{first_line, is_generated};
pub use tools::{Introduction, tools_page};
