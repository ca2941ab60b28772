//! The values that everything else is made of, and what a tool function is given.

mod functions;
mod words;
