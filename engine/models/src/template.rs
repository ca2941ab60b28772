//! Templates of scripts: compiled once, filled strictly.
//!
//! A string that is exactly one `{{ expression }}` gives the expression's typed value; any other string gives text.
//! What is filled in is only ever a value: text from tools and documents is never read as a template.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Expression, UndefinedBehavior};
use serde_json::{Map, Number, Value as Json};

use crate::context::TurnContext;

/// The instructions that filling one template may take: a table of 10,000 cells takes about 200,000.
const FUEL: u64 = 2_000_000;

/// What every script shares: filters, and the strictness.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()
            .expect("the standard delimiters"),
    );
    environment.add_filter("fixed", fixed);
    environment.add_filter("thousands", thousands);
    environment.add_filter("signed", signed);
    environment.add_filter("change_from", change_from);
    environment.add_filter("find", find);
    environment.add_filter("sum", sum);
    environment.add_filter("avg", average);
    environment
});

/// The templates of one script, by their place in it.
#[derive(Debug)]
pub(crate) struct Templates(Environment<'static>);

/// A string of a script, compiled.
#[derive(Debug)]
pub(crate) enum Template {
    /// No template at all.
    Plain(String),
    /// Text with placeholders; the name under which [`Templates`] keeps it, its JSON pointer.
    Text(String),
    /// Exactly one expression, and its JSON pointer.
    Typed(Box<Expression<'static, 'static>>, String),
}

/// A variable that a template reads: its name and, for a trivial lookup, the names after it.
pub(crate) type Variable = Vec<String>;

impl Templates {
    /// An empty collection.
    pub(crate) fn new() -> Self {
        Self(ENVIRONMENT.clone())
    }

    /// Compiles `source`, found at `pointer`. Returns it with the variables that it reads.
    pub(crate) fn compile(&mut self, pointer: &str, source: &str) -> Result<(Template, BTreeSet<Variable>), String> {
        if !["{{", "{%", "{#"].iter().any(|mark| source.contains(mark)) {
            return Ok((Template::Plain(source.to_owned()), BTreeSet::new()));
        }
        if let Some(expression) = sole_expression(source) {
            let variables = variables(expression.undeclared_variables(true));
            return Ok((Template::Typed(Box::new(expression), pointer.to_owned()), variables));
        }
        self.0.add_template_owned(pointer.to_owned(), source.to_owned()).map_err(|error| describe(&error))?;
        let template = self.0.get_template(pointer).map_err(|error| describe(&error))?;
        Ok((Template::Text(pointer.to_owned()), variables(template.undeclared_variables(true))))
    }

    /// Compiles `source` as an expression without braces, found at `pointer`: a condition.
    pub(crate) fn condition(pointer: &str, source: &str) -> Result<(Template, BTreeSet<Variable>), String> {
        let expression = ENVIRONMENT.compile_expression_owned(source.to_owned()).map_err(|error| describe(&error))?;
        let variables = variables(expression.undeclared_variables(true));
        Ok((Template::Typed(Box::new(expression), pointer.to_owned()), variables))
    }

    /// Fills `template`; the error is its place and what is wrong.
    pub(crate) fn fill(&self, template: &Template, context: &TurnContext) -> Result<Json, (String, String)> {
        match template {
            Template::Plain(text) => Ok(Json::String(text.clone())),
            Template::Text(name) => self
                .0
                .get_template(name)
                .and_then(|compiled| compiled.render(context.value()))
                .map(Json::String)
                .map_err(|error| (name.clone(), describe(&error))),
            Template::Typed(expression, name) => expression
                .eval(context.value())
                .map_err(|error| describe(&error))
                .and_then(|value| to_json(&value))
                .map_err(|message| (name.clone(), message)),
        }
    }

    /// Whether `condition` holds.
    pub(crate) fn holds(condition: &Template, context: &TurnContext) -> Result<bool, (String, String)> {
        match condition {
            Template::Typed(expression, name) => {
                expression.eval(context.value()).map(|value| value.is_true()).map_err(|error| (name.clone(), describe(&error)))
            }
            Template::Plain(_) | Template::Text(_) => Ok(false),
        }
    }
}

/// Whether `name` means something in every template without being a variable: `range` and the like.
pub(crate) fn is_global(name: &str) -> bool {
    ENVIRONMENT.globals().any(|(global, _)| global == name)
}

/// The expression of a string that is exactly one `{{ expression }}`.
fn sole_expression(source: &str) -> Option<Expression<'static, 'static>> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    // `{{- x -}}` trims the text around it; as an expression it would mean minus x.
    if inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']) {
        return None;
    }
    ENVIRONMENT.compile_expression_owned(inner.trim().to_owned()).ok()
}

fn variables(names: impl IntoIterator<Item = String>) -> BTreeSet<Variable> {
    names.into_iter().map(|name| name.split('.').map(str::to_owned).collect()).collect()
}

/// An error in one line, with its line where the template has several.
fn describe(error: &Error) -> String {
    let mut text = error.kind().to_string();
    if let Some(detail) = error.detail() {
        text = format!("{text}: {detail}");
    }
    match (error.range().and_then(|range| Some(error.template_source()?.get(range)?.to_owned())), error.line()) {
        (Some(part), _) if !part.is_empty() => format!("{text} (at {part:?})"),
        (_, Some(line)) => format!("{text} (line {line})"),
        _ => text,
    }
}

/// A template's value as JSON; whatever JSON cannot say is an error rather than a guess.
fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value.kind() {
        ValueKind::Undefined => return Err("the value is undefined".to_owned()),
        ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => Json::Number(number(value)?),
        ValueKind::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| describe(&error))?;
            Json::Array(items.map(|item| to_json(&item)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let keys = value.try_iter().map_err(|error| describe(&error))?;
            let mut object = Map::new();
            for key in keys {
                let name = key.as_str().ok_or_else(|| format!("an object's key is {}, not text", key.kind()))?.to_owned();
                let item = value.get_item(&key).map_err(|error| describe(&error))?;
                object.insert(name, to_json(&item)?);
            }
            Json::Object(object)
        }
        other => return Err(format!("a value of kind {other} is not JSON")),
    })
}

fn number(value: &Value) -> Result<Number, String> {
    if value.is_integer() {
        if let Ok(integer) = i64::try_from(value.clone()) {
            return Ok(integer.into());
        }
        if let Ok(integer) = u64::try_from(value.clone()) {
            return Ok(integer.into());
        }
    }
    let float = f64::try_from(value.clone()).map_err(|error| describe(&error))?;
    Number::from_f64(float).ok_or_else(|| format!("{float} is not a JSON number"))
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn finite(value: &Value) -> Result<f64, Error> {
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        other => Err(refuse(format!("expected a number, got {other}"))),
    }
    .and_then(|number| if number.is_finite() { Ok(number) } else { Err(refuse("expected a finite number")) })
}

/// `{{ 3.14159 | fixed(2) }}` → `3.14`.
fn fixed(value: Value, digits: Option<usize>) -> Result<String, Error> {
    Ok(format!("{:.*}", digits.unwrap_or(0).min(17), finite(&value)?))
}

/// `{{ 1234567.89 | thousands(1) }}` → `1,234,567.9`.
fn thousands(value: Value, digits: Option<usize>) -> Result<String, Error> {
    let plain = fixed(value, digits)?;
    let (sign, plain) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let mut text = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    Ok(text)
}

/// `{{ 4200.31 | signed(1) }}` → `+4,200.3`.
fn signed(value: Value, digits: Option<usize>) -> Result<String, Error> {
    let positive = finite(&value)? > 0.0;
    let text = thousands(value, digits)?;
    let is_zero = text.chars().all(|character| matches!(character, '0' | '.' | '-'));
    Ok(if is_zero {
        text.trim_start_matches('-').to_owned()
    } else if positive {
        format!("+{text}")
    } else {
        text
    })
}

/// `{{ 115 | change_from(100) }}` → `15.0`: the change in percent.
fn change_from(value: Value, base: Value) -> Result<f64, Error> {
    let (value, base) = (finite(&value)?, finite(&base)?);
    if base == 0.0 { Err(refuse("a change from 0 has no percentage")) } else { Ok((value - base) / base * 100.0) }
}

/// `{{ rows | find("quarter", "Q3") }}` → the first row with that value; none is an error.
fn find(rows: Value, attribute: String, wanted: Value) -> Result<Value, Error> {
    for row in rows.try_iter()? {
        if row.get_attr(&attribute)? == wanted {
            return Ok(row);
        }
    }
    Err(refuse(format!("no row has {attribute} = {wanted}")))
}

/// The numbers of `values`, or of one attribute of each. The built-in filter skips a misspelt attribute; these do not.
fn numbers(values: &Value, attribute: Option<String>, kwargs: &Kwargs) -> Result<Vec<f64>, Error> {
    let attribute = attribute.map_or_else(|| kwargs.get::<Option<String>>("attribute"), |name| Ok(Some(name)))?;
    kwargs.assert_all_used()?;
    values
        .try_iter()?
        .map(|item| match &attribute {
            Some(name) => finite(&item.get_attr(name)?),
            None => finite(&item),
        })
        .collect()
}

/// `{{ rows | sum("revenue") }}`.
fn sum(values: Value, attribute: Option<String>, kwargs: Kwargs) -> Result<f64, Error> {
    Ok(numbers(&values, attribute, &kwargs)?.iter().sum())
}

/// `{{ rows | avg("revenue") }}`; of nothing it is an error.
fn average(values: Value, attribute: Option<String>, kwargs: Kwargs) -> Result<f64, Error> {
    let numbers = numbers(&values, attribute, &kwargs)?;
    if numbers.is_empty() {
        Err(refuse("nothing has no average"))
    } else {
        Ok(numbers.iter().sum::<f64>() / numbers.len() as f64)
    }
}
