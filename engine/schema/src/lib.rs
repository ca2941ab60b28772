//! JSON Schema: judges values, reads what people write, and compiles schemas for providers and back.
//!
//! [`compile`] gives the [`Schema`](baton_types::schema::Schema) that everybody else checks values by. [`provider`] writes a
//! tool's schema in the dialect of each provider, and restores inputs that come for it.
//!
//! This crate does *not* read files or place faults in them, and sends nothing.

mod dialect;
mod findings;
mod foreign;
mod foreign_tool;
mod judge;
mod keywords;
mod normal;
mod number;
mod openapi;
mod parameters;
mod pattern;
mod patterns;
mod pointer;
mod program;
pub mod provider;
mod reader;
mod resources;
mod text;
mod type_name;
mod uri;
mod walk;
mod words;

pub use findings::{Broken, Finding};
pub use foreign::foreign_tools;
pub use foreign_tool::{ForeignTool, ForeignTools};
pub use judge::{compile, derived, judge, read};
pub use keywords::{KeywordFault, Slip, check_keywords};
pub use normal::Change;
pub use parameters::{Others, object_schema, part_schema};
pub use patterns::{
    DAY_PATTERN, ENV_PATTERN, NAME_PATTERN, PAGE_PATTERN, is_day, is_environment_name, is_page, is_template_name,
};
pub use pointer::push_token;
pub use program::{Bound, Program, Sizes};
pub use type_name::is_type_name;
