//! The project's chores: gen-docs, test, check.
fn main() {}
