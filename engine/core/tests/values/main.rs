//! The values that everything else is made of, and what a tool function is given.

mod examples;
mod functions;
mod words;
