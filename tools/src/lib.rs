//! The built-in tool functions, one file per family.
pub mod data;
pub mod utility;
