//! jq filters on JSON values, through jaq, within bounds.
//!
//! A filter is a program: it can loop for ever, double a text forty times or nest a value until the stack ends, and
//! jaq itself prevents none of that. So the syntax tree of the filter, and of jaq's own definitions, is rewritten
//! (`guard`). New values are measured (`meter`) and every step is counted. A filter that exceeds its limits is unwound
//! on the thread it runs on. The process and the machine are not visible: `env`, `input`, `now` and the like are not
//! defined.

mod guard;
mod meter;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use baton_types::json::{Json, nesting};
use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{Arena, File, Lexer, Loader, Parser, span};
use jaq_core::{Compiler, Ctx, Filter, Vars, compile, data, unwrap_valr};
use jaq_json::{Val, read};

pub use meter::Bounds;
use meter::{MAX_NESTING, Meter};

/// The kind of data that filters work on.
pub(crate) type Data = data::JustLut<Val>;

/// The longest filter; reading one takes stack in proportion.
const MAX_FILTER_BYTES: usize = 4_000;
/// The name under which the filter is defined; a filter that mentions it calls itself, which is allowed.
const MAIN: &str = "baton__main";

/// Definitions of the library that are not offered: they show or stop the process.
const WITHHELD_DEFINITIONS: [&str; 4] = ["debug", "stderr", "halt", "halt_error"];
/// The same, of functions; the local time zone belongs to the machine too.
const WITHHELD_FUNCTIONS: [&str; 9] =
    ["env", "now", "halt", "debug_empty", "stderr_empty", "input", "inputs", "localtime", "strflocaltime"];

/// JSON texts of a filter's outputs.
pub type Outputs = Vec<String>;

/// Runs `filter` on `input` within `bounds` and returns its outputs. `stopped` ends it early.
///
/// # Errors
/// A sentence for the author of the filter: it is no filter, it fails, or it exceeds a limit.
pub fn run(filter: &str, input: &Json, bounds: Bounds, stopped: Arc<AtomicBool>) -> Result<Outputs, String> {
    check_length(filter)?;
    if nesting(input.text()) > MAX_NESTING {
        return Err(format!("the data nests deeper than {MAX_NESTING} levels"));
    }
    let (filter, input) = (filter.to_owned(), input.clone());
    meter::on_own_thread(move || {
        Meter::begin(bounds, stopped);
        evaluate(&filter, &input, bounds)
    })
}

/// Returns the value that `outputs` are: null if there is none, the only one, or a list.
///
/// # Errors
/// A sentence, if JSON cannot hold the value: a number that is not finite, or an object whose key is no text.
pub fn value_of(outputs: &[String]) -> Result<Json, String> {
    let text = match outputs {
        [] => "null".to_owned(),
        [only] => only.clone(),
        several => format!("[{}]", several.join(",")),
    };
    Json::parse(&text).map_err(|_| {
        "the filter returns a value that JSON cannot hold: a number that is not finite, or an object whose key is not text"
            .to_owned()
    })
}

/// Checks that `filter` is one, and that all names in it are defined.
///
/// # Errors
/// A sentence for its author.
pub fn check(filter: &str) -> Result<(), String> {
    check_length(filter)?;
    let filter = filter.to_owned();
    meter::on_own_thread(move || compiled(&filter).map(drop))
}

fn check_length(filter: &str) -> Result<(), String> {
    if filter.len() > MAX_FILTER_BYTES {
        return Err(format!("the filter has {} bytes; at most {MAX_FILTER_BYTES} are read", filter.len()));
    }
    Ok(())
}

fn compiled(filter: &str) -> Result<Filter<Data>, String> {
    let term = parsed(filter)?;
    let main = Def { name: MAIN, args: Vec::new(), body: term };
    let library = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let library = library.filter(|definition| !WITHHELD_DEFINITIONS.contains(&definition.name));
    let functions: Vec<_> = jaq_core::funs::<Data>()
        .chain(jaq_std::funs::<Data>())
        .chain(jaq_json::funs::<Data>())
        .filter(|(name, ..)| !WITHHELD_FUNCTIONS.contains(name))
        .collect();
    let natives: Vec<(&str, usize)> = functions.iter().map(|(name, arguments, _)| (*name, arguments.len())).collect();
    let guard = guard::Guard::new(&natives);
    let mut definitions: Vec<Def<&str>> = Vec::new();
    for definition in library {
        definitions.push(guard.definition(definition));
    }
    definitions.push(guard.definition(main));

    let arena = Arena::default();
    let program = File { code: MAIN, path: () };
    let modules = Loader::new(definitions).load(&arena, program).map_err(|_| "the filter cannot be loaded".to_owned())?;
    let functions = functions.into_iter().chain(guard::functions());
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| undefined(&errors))
}

fn evaluate(filter: &str, input: &Json, bounds: Bounds) -> Result<Outputs, String> {
    let compiled = compiled(filter)?;
    let input = read::parse_single(input.text().as_bytes()).map_err(|error| format!("the data cannot be read: {error}"))?;
    meter::check(&input);
    let context = Ctx::<Data>::new(&compiled.lut, Vars::new([]));
    let mut outputs = Vec::new();
    let mut bytes = 0;
    for output in compiled.id.run((context, input)).map(unwrap_valr) {
        let output = output.map_err(|error| format!("the filter failed: {error}"))?;
        if outputs.len() == bounds.outputs {
            return Err(format!("the filter gives more than {} outputs; gather or limit them", bounds.outputs));
        }
        meter::check(&output);
        let text = output.to_string();
        bytes += text.len();
        if bytes > bounds.bytes {
            return Err(format!("the outputs have more than {} bytes together; select less", bounds.bytes));
        }
        outputs.push(text);
    }
    Ok(outputs)
}

/// Reads the text of a filter.
fn parsed(filter: &str) -> Result<Term<&str>, String> {
    let place = |part: &str| filter[..span(filter, part).start].chars().count() + 1;
    let tokens = Lexer::new(filter).lex().map_err(|errors| {
        let first = errors.into_iter().next();
        first.map_or_else(String::new, |(expected, rest)| format!("{} expected at character {}", expected.as_str(), place(rest)))
    });
    let tokens = tokens.map_err(|reason| format!("the filter is not jq: {reason}"))?;
    Parser::new(&tokens).parse(Parser::term).map_err(|errors| {
        let reason = errors.into_iter().next().map(|(expected, found)| {
            let found = found.map_or_else(|| "at the end".to_owned(), |token| format!("at character {}", place(token.0)));
            format!("{} expected {found}", expected.as_str())
        });
        format!("the filter is not jq: {}", reason.unwrap_or_default())
    })
}

/// Reports the undefined names of a filter.
fn undefined(errors: &compile::Errors<&str, ()>) -> String {
    let names = errors.iter().flat_map(|(_, errors)| errors).map(|(name, kind)| match kind {
        compile::Undefined::Filter(arity) => format!("filter {name}/{arity}"),
        other => format!("{} {name}", other.as_str()),
    });
    let names: Vec<String> = names.take(10).collect();
    format!("the filter uses undefined names: {}", names.join(", "))
}

#[cfg(test)]
mod tests;
