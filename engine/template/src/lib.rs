//! Templates that can exhaust neither memory nor the stack, even hostile ones.
//!
//! minijinja's fuel bounds the instructions of one rendering. It does not bound the text: forty concatenations, or one
//! filter, can make a terabyte. It does not bound the recursion of the parser either. Three things are added here:
//!
//! - `scan` judges the nesting of a template's tokens before the parser sees them;
//! - `code` puts a step of the `meter` behind every instruction that makes text or a list;
//! - `filters` charges what a filter will make before it makes it.
//!
//! The code that renders a template defines its variables: prompts and requests in [`config`](baton_types::config), scripts
//! in the crate of models.

mod code;
mod filters;
mod meter;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use minijinja::functions::Function;
use minijinja::machinery::{CodeGenerator, eval, make_string_output, parse, parse_expr};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{FunctionArgs, FunctionResult, Value};
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};

/// Instructions that one rendering may take. A table of 10,000 cells takes about 300,000.
const FUEL: u64 = 5_000_000;

/// Frames of loops, blocks and macros that one rendering may hold at once.
const MAX_FRAMES: usize = 64;

/// Bytes that one rendering may make, beside four for every byte that it is filled with.
const BYTES: u64 = 64 * 1_024 * 1_024;

/// Environment of templates: strict mode, filters and limits.
#[derive(Debug, Clone)]
pub struct Templates {
    environment: Environment<'static>,
    syntax: SyntaxConfig,
}

/// Why a template cannot be read or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Description of the fault, as a fragment.
    pub message: String,
    /// The line that it is in, from 1.
    pub line: Option<usize>,
    /// The place of the part that is meant, in bytes, if the template could not be read.
    pub range: Option<Range<usize>>,
    /// The part that is meant.
    pub part: Option<String>,
}

impl Templates {
    /// Templates with minijinja's standard filters, and `syntax` for the white space round them.
    pub fn new(syntax: SyntaxConfig) -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(MAX_FRAMES);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        code::install(&mut environment);
        filters::install(&mut environment);
        Self { environment, syntax }
    }

    /// Adds a filter. What it returns is metered; it must not make much more than what it is given.
    pub fn add_filter<F, Rv, Args>(&mut self, name: &'static str, filter: F)
    where
        F: Function<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        self.environment.add_filter(name, filter);
    }

    /// Whether `name` is defined in every template without being a variable, as `range` is.
    pub fn is_global(&self, name: &str) -> bool {
        self.environment.globals().any(|(global, _)| global == name)
    }

    /// Reads the template `source`; returns the variables that it uses, with the names after them for trivial lookups.
    pub fn check(&self, source: &str) -> Result<BTreeSet<String>, TemplateError> {
        let judged = scan::judge(source, false, &self.syntax)?;
        parse(source, "template", self.syntax.clone()).map_err(|error| fault(&error, source))?;
        let template = self.environment.template_from_named_str("template", &judged).map_err(|error| fault(&error, source))?;
        Ok(used(template.undeclared_variables(true)))
    }

    /// Reads `source` as one expression; returns the variables that it uses.
    pub fn check_expression(&self, source: &str) -> Result<BTreeSet<String>, TemplateError> {
        let judged = scan::judge(source, true, &self.syntax)?;
        parse_expr(source).map_err(|error| fault(&error, source))?;
        let expression = self.environment.compile_expression(&judged).map_err(|error| fault(&error, source))?;
        Ok(used(expression.undeclared_variables(true)))
    }

    /// Renders the template `source` with `variables`, which came from `bytes` bytes of text.
    pub fn render(&self, source: &str, variables: Value, bytes: usize) -> Result<String, TemplateError> {
        let judged = scan::judge(source, false, &self.syntax)?;
        let rendered = parse(&judged, "template", self.syntax.clone()).and_then(|parsed| {
            let mut generator = CodeGenerator::new("template", &judged);
            generator.compile_stmt(&parsed);
            let mut text = String::new();
            self.evaluate_code(generator, variables, &mut text, bytes)?;
            Ok(text)
        });
        rendered.map_err(|error| fault(&error, &judged))
    }

    /// Evaluates the expression `source` with `variables`, which came from `bytes` bytes of text.
    pub fn evaluate(&self, source: &str, variables: Value, bytes: usize) -> Result<Value, TemplateError> {
        let judged = scan::judge(source, true, &self.syntax)?;
        let evaluated = parse_expr(&judged).and_then(|parsed| {
            let mut generator = CodeGenerator::new("expression", &judged);
            generator.compile_expr(&parsed);
            self.evaluate_code(generator, variables, &mut String::new(), bytes)
        });
        evaluated.map(Option::unwrap_or_default).map_err(|error| fault(&error, &judged))
    }

    fn evaluate_code(
        &self,
        generator: CodeGenerator<'_>,
        variables: Value,
        text: &mut String,
        bytes: usize,
    ) -> Result<Option<Value>, Error> {
        let (code, blocks) = generator.finish();
        let code = code::metered(&code);
        let blocks: BTreeMap<_, _> = blocks.iter().map(|(name, block)| (*name, code::metered(block))).collect();
        let limit = BYTES.saturating_add((bytes as u64).saturating_mul(4));
        meter::within(limit, || {
            let mut output = make_string_output(text);
            Ok(eval(&self.environment, &code, variables, &blocks, &mut output, AutoEscape::None)?.0)
        })
    }
}

fn used(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().filter(|name| name != scan::ONE).collect()
}

/// Returns an error in the words of minijinja; `source` is the text that it was found in.
fn fault(error: &Error, source: &str) -> TemplateError {
    let kind = error.kind().to_string();
    let message = error.detail().map_or_else(|| kind.clone(), |detail| format!("{kind}: {detail}"));
    let range = error.range().filter(|range| source.get(range.clone()).is_some_and(|part| !part.is_empty()));
    let part = range.clone().map(|range| source[range].replace(scan::FACTOR, ""));
    TemplateError { message, line: error.line(), range, part }
}

#[cfg(test)]
mod tests;
