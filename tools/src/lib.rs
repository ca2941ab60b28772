//! The built-in tool functions, one file per family.
