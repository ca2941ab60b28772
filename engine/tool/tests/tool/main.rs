//! Contexts of tool functions, their examples, and the facts of their writes.

mod examples;
mod functions;
mod measure;
