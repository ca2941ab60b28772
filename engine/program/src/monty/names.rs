//! Names of tools and agents that the text of a program calls, found before anything is executed.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_parameter, walk_stmt};
use ruff_python_ast::{Alias, ExceptHandler, Expr, ExprCall, Parameter, Stmt, visitor};

use crate::{Callee, Named};

/// Functions whose calls are looked at. A program that gives one of these names another meaning names no tools.
const FUNCTIONS: [&str; 3] = ["call", "agent", "later"];

/// Returns the calls whose tool or agent is written as a text in place.
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
        let (function, first) = match (function_of(&call.func), call.arguments.args.first()) {
            (Some("later"), Some(function)) => (function_of(function), call.arguments.args.get(1)),
            (function, first) => (function, first),
        };
        let (callee, parameter) = match function {
            Some("call") => (Callee::Tool, "tool"),
            Some("agent") => (Callee::Agent, "name"),
            _ => return,
        };
        let by_name = || call.arguments.find_keyword(parameter).map(|keyword| &keyword.value);
        let Some(Expr::StringLiteral(text)) = first.or_else(by_name) else { return };
        let (line, column) = super::place(self.source, text.range.start().to_usize());
        self.found.push(Named { callee, name: text.value.to_str().to_owned(), line, column });
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
