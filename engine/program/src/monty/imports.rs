//! Imports of a program, checked before anything is executed.

use ruff_python_ast::Stmt;
use ruff_python_ast::visitor::{Visitor, walk_stmt};

use crate::Fault;

/// The modules that the interpreter has. None of them has submodules.
const MODULES: [&str; 16] = [
    "asyncio",
    "base64",
    "binascii",
    "collections",
    "dataclasses",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "os",
    "pathlib",
    "re",
    "sys",
    "typing",
    "unicodedata",
];

/// Finds the first import of a module that the interpreter lacks. An import within `try` may fail, so it is not checked.
pub(super) fn check(name: &str, source: &str) -> Result<(), Fault> {
    // A text that cannot be parsed has been refused before.
    let Ok(parsed) = ruff_python_parser::parse_module(source) else { return Ok(()) };
    let mut imports = Imports { unknown: None };
    imports.visit_body(&parsed.syntax().body);
    let Some((module, at)) = imports.unknown else { return Ok(()) };
    let message = format!("ModuleNotFoundError: No module named '{module}'; a program can import {}", MODULES.join(", "));
    let (line, column) = super::place(source, at);
    Err(Fault { file: name.to_owned(), line, column, message })
}

/// The first import of a module that the interpreter lacks, and its place.
struct Imports {
    unknown: Option<(String, usize)>,
}

impl Imports {
    fn import(&mut self, module: &str, at: usize) {
        if !MODULES.contains(&module) && self.unknown.is_none() {
            self.unknown = Some((module.to_owned(), at));
        }
    }
}

impl Visitor<'_> for Imports {
    fn visit_stmt(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(&alias.name, alias.range.start().to_usize());
                }
            }
            Stmt::ImportFrom(import) => {
                // `from __future__ import …` is a statement of the compiler and imports nothing.
                if let Some(module) = import.module.as_ref().filter(|module| module.as_str() != "__future__") {
                    self.import(module, import.range.start().to_usize());
                }
            }
            Stmt::Try(_) => {}
            other => walk_stmt(self, other),
        }
    }
}
