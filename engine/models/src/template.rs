//! Templates of scripts: compiled once, filled strictly.
//!
//! A string that is exactly one `{{ expression }}` gives the expression's typed value; any other string gives text.
//! What is filled in is only ever a value: text from tools and documents is never read as a template.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use baton_template::{TemplateError, Templates as Bounded};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::{Map, Number, Value as Json};

use crate::context::TurnContext;

/// Environment of all scripts: filters and strict mode.
static TEMPLATES: LazyLock<Bounded> = LazyLock::new(|| {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    let mut templates = Bounded::new(syntax.expect("the standard delimiters"));
    templates.add_filter("fixed", fixed);
    templates.add_filter("thousands", thousands);
    templates.add_filter("signed", signed);
    templates.add_filter("change_from", change_from);
    templates.add_filter("find", find);
    templates.add_filter("sum", sum);
    templates.add_filter("avg", average);
    templates
});

/// A string of a script, checked.
#[derive(Debug)]
pub(crate) enum Template {
    /// No template at all.
    Plain(String),
    /// Text with placeholders, and its JSON pointer.
    Text { source: String, pointer: String },
    /// Exactly one expression, and its JSON pointer.
    Typed { source: String, pointer: String },
}

/// A variable that a template reads: its name and, for a trivial lookup, the names after it.
pub(crate) type Variable = Vec<String>;

impl Template {
    /// Reads `source`, found at `pointer`. Returns it with the variables that it uses.
    pub(crate) fn read(pointer: &str, source: &str) -> Result<(Self, BTreeSet<Variable>), String> {
        let pointer = pointer.to_owned();
        if !["{{", "{%", "{#"].iter().any(|mark| source.contains(mark)) {
            return Ok((Self::Plain(source.to_owned()), BTreeSet::new()));
        }
        if let Some((source, used)) = sole_expression(source) {
            return Ok((Self::Typed { source, pointer }, variables(used)));
        }
        let used = TEMPLATES.check(source).map_err(|error| describe(&error))?;
        Ok((Self::Text { source: source.to_owned(), pointer }, variables(used)))
    }

    /// Reads `source` as an expression without braces, found at `pointer`: a condition.
    pub(crate) fn condition(pointer: &str, source: &str) -> Result<(Self, BTreeSet<Variable>), String> {
        let used = TEMPLATES.check_expression(source).map_err(|error| describe(&error))?;
        Ok((Self::Typed { source: source.to_owned(), pointer: pointer.to_owned() }, variables(used)))
    }

    /// Fills the template; the error is its place and what is wrong.
    pub(crate) fn fill(&self, context: &TurnContext) -> Result<Json, (String, String)> {
        match self {
            Self::Plain(text) => Ok(Json::String(text.clone())),
            Self::Text { source, pointer } => TEMPLATES
                .render(source, context.value(), context.bytes())
                .map(Json::String)
                .map_err(|error| (pointer.clone(), describe(&error))),
            Self::Typed { source, pointer } => TEMPLATES
                .evaluate(source, context.value(), context.bytes())
                .map_err(|error| describe(&error))
                .and_then(|value| to_json(&value))
                .map_err(|message| (pointer.clone(), message)),
        }
    }

    /// Whether the condition holds.
    pub(crate) fn holds(&self, context: &TurnContext) -> Result<bool, (String, String)> {
        match self {
            Self::Typed { source, pointer } => TEMPLATES
                .evaluate(source, context.value(), context.bytes())
                .map(|value| value.is_true())
                .map_err(|error| (pointer.clone(), describe(&error))),
            Self::Plain(_) | Self::Text { .. } => Ok(false),
        }
    }
}

/// Whether `name` means something in every template without being a variable: `range` and the like.
pub(crate) fn is_global(name: &str) -> bool {
    TEMPLATES.is_global(name)
}

/// Returns the expression of a string that is exactly one `{{ expression }}`, and its variables.
fn sole_expression(source: &str) -> Option<(String, BTreeSet<String>)> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    // `{{- x -}}` trims the text around it; as an expression it would mean minus x.
    if inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']) {
        return None;
    }
    let inner = inner.trim();
    Some((inner.to_owned(), TEMPLATES.check_expression(inner).ok()?))
}

fn variables(names: impl IntoIterator<Item = String>) -> BTreeSet<Variable> {
    names.into_iter().map(|name| name.split('.').map(str::to_owned).collect()).collect()
}

/// Returns an error in one line, with its line where the template has several.
fn describe(error: &TemplateError) -> String {
    match (&error.part, error.line) {
        (Some(part), _) => format!("{error} (at {part:?})"),
        (None, Some(line)) => format!("{error} (line {line})"),
        (None, None) => error.to_string(),
    }
}

/// Returns an error of minijinja's outside of a template.
fn describe_value(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()))
}

/// Returns a template's value as JSON; a value that JSON cannot express is an error rather than a guess.
fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value.kind() {
        ValueKind::Undefined => return Err("the value is undefined".to_owned()),
        ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => Json::Number(number(value)?),
        ValueKind::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| describe_value(&error))?;
            Json::Array(items.map(|item| to_json(&item)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let keys = value.try_iter().map_err(|error| describe_value(&error))?;
            let mut object = Map::new();
            for key in keys {
                let name = key.as_str().ok_or_else(|| format!("an object's key is {}, not text", key.kind()))?.to_owned();
                let item = value.get_item(&key).map_err(|error| describe_value(&error))?;
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
    let float = f64::try_from(value.clone()).map_err(|error| describe_value(&error))?;
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

/// Returns the numbers of `values`, or of one attribute of each. The built-in filter skips a misspelt attribute; these do not.
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
