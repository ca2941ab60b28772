//! What a tool function is given, what its examples prove, and the facts of what it writes.

mod examples;
mod functions;
mod measure;
