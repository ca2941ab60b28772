//! Names of tools and agents that the text of a program calls, found before anything is executed.

use std::ops::Range;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_parameter, walk_stmt};
use ruff_python_ast::{Alias, ExceptHandler, Expr, ExprCall, Parameter, Stmt, visitor};

use crate::{Callee, Named};

/// Functions whose calls are looked at. A program that gives one of these names another meaning names no tools.
const FUNCTIONS: [&str; 4] = ["call", "agent", "ask", "later"];

/// The tool of `ask`.
const ASK: &str = "ask_master";

/// Returns the calls whose tool or agent is written as a text in place, and those of `ask`.
pub(super) fn named(source: &str) -> Vec<Named> {
    // A text that cannot be parsed has been refused before.
    let Ok(parsed) = ruff_python_parser::parse_module(source) else { return Vec::new() };
    let mut names = Names { source, found: Vec::new(), rebinds: false };
    names.visit_body(&parsed.syntax().body);
    if names.rebinds { Vec::new() } else { names.found }
}

struct Names<'s> {
    source: &'s str,
    found: Vec<Named>,
    rebinds: bool,
}

impl Names<'_> {
    fn bind(&mut self, name: &str) {
        self.rebinds |= FUNCTIONS.contains(&name);
    }

    fn call(&mut self, call: &ExprCall) {
        let (function, first) = match (&*call.func, call.arguments.args.first()) {
            (later, Some(function)) if function_of(later) == Some("later") => (function, call.arguments.args.get(1)),
            (function, first) => (function, first),
        };
        let Expr::Name(function) = function else { return };
        let (callee, parameter) = match function.id.as_str() {
            "call" => (Callee::Tool, "tool"),
            "agent" => (Callee::Agent, "name"),
            "ask" => return self.find(Callee::Tool, ASK, function.range.into()),
            _ => return,
        };
        let by_name = || call.arguments.find_keyword(parameter).map(|keyword| &keyword.value);
        if let Some(Expr::StringLiteral(text)) = first.or_else(by_name) {
            self.find(callee, text.value.to_str(), text.range.into());
        }
    }

    fn find(&mut self, callee: Callee, name: &str, at: Range<usize>) {
        let (line, column) = super::place(self.source, at.start);
        self.found.push(Named { callee, name: name.to_owned(), line, column, bytes: at.len() });
    }
}

fn function_of(expression: &Expr) -> Option<&str> {
    if let Expr::Name(name) = expression { Some(name.id.as_str()) } else { None }
}

impl<'a> Visitor<'a> for Names<'_> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => self.call(call),
            Expr::Name(name) if name.ctx.is_store() => self.bind(&name.id),
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.bind(&function.name),
            Stmt::ClassDef(class) => self.bind(&class.name),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(&parameter.name);
        walk_parameter(self, parameter);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        self.bind(alias.asname.as_ref().unwrap_or(&alias.name));
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(named) = handler;
        if let Some(name) = &named.name {
            self.bind(name);
        }
        visitor::walk_except_handler(self, handler);
    }
}
