//! `llm_hints`: changes to a context before a model reads it. First `exclude`, then `transform`, then `mode`.
//!
//! A hint comes with its record, so it is as hostile as the record. A template sees that record's context alone, within bounds of
//! size, steps and output. If a rule of `transform` fails, the reader gets the context without the excluded fields, and learns why.
//! Hints that cannot be read leave the context as it is.

mod exclude;
mod handlebars;
pub(crate) mod path;

use std::sync::Arc;
use std::time::Duration;

use baton_jq::Bounds;
use baton_template::Templates;
use baton_types::json::Json;
use minijinja::syntax::SyntaxConfig;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The most bytes that a template may make.
const MAX_OUTPUT: usize = 1 << 20;
/// The most rules of each kind.
const MAX_RULES: usize = 64;
/// The most jq filters. A reader of many records waits for the filters of all of them.
const MAX_FILTERS: usize = 4;
/// Limits of a jq filter: some milliseconds.
const FILTER: Bounds = Bounds { steps: 20_000, work: 500_000, time: Duration::from_secs(1), outputs: 1_000, bytes: MAX_OUTPUT };

/// Hints. Unknown keys are left alone: records of other programs have more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hints {
    exclude: Vec<String>,
    transform: Map<String, Value>,
    mode: Mode,
}

/// Use of what the rules make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// It takes the place of the context.
    #[default]
    Replace,
    /// It is added to the context's fields.
    Merge,
}

/// The way to make one value.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Rule {
    /// A text by a template.
    Template { template: String },
    /// The value at a path.
    Extract {
        #[serde(alias = "value")]
        path: String,
    },
    /// The output of a jq filter; a list of several, or null for none.
    Jq { query: String },
    /// The value itself.
    Literal { value: Value },
    /// A text with `{a.b}` in it.
    Format {
        #[serde(alias = "template")]
        format: String,
    },
}

/// Returns the context without the fields that `hints` exclude, or the context itself if they cannot be read.
pub(crate) fn without_excluded(context: Value, hints: &Json) -> Value {
    match excluded(&context, hints) {
        Ok((_, left)) => left,
        Err(_) => context,
    }
}

/// Returns the context as `hints` change it, or the context itself and the reason why they cannot be followed.
pub(crate) fn applied(context: &Json, hints: &Json) -> (Value, Option<String>) {
    let context = context.value();
    let failed = |context: Value, reason: String| (context, Some(format!("llm_hints were not followed: {reason}")));
    let (hints, left) = match excluded(&context, hints) {
        Ok(excluded) => excluded,
        Err(reason) => return failed(context, reason),
    };
    // A writer of the context may let a rule fail. Excluded fields stay hidden.
    match transformed(&left, &hints) {
        Ok(changed) => (changed, None),
        Err(reason) => failed(left, reason),
    }
}

/// Reads hints, and returns the context without the fields that they exclude.
fn excluded(context: &Value, hints: &Json) -> Result<(Hints, Value), String> {
    let hints: Hints = serde_json::from_str(hints.text()).map_err(|error| error.to_string())?;
    if hints.exclude.len().max(hints.transform.len()) > MAX_RULES {
        return Err(format!("there are more than {MAX_RULES} rules"));
    }
    if hints.transform.values().filter(|rule| rule["type"] == "jq").count() > MAX_FILTERS {
        return Err(format!("there are more than {MAX_FILTERS} rules of the type jq"));
    }
    let mut left = context.clone();
    for path in &hints.exclude {
        exclude::remove(&mut left, path)?;
    }
    Ok((hints, left))
}

/// Returns what is wrong with hints, whatever they are applied to: paths, rules and templates that cannot be read.
pub(crate) fn fault(hints: &Json) -> Option<String> {
    let check = || {
        let (hints, _) = excluded(&Value::Null, hints)?;
        for (name, rule) in &hints.transform {
            let wrong = |reason: String| format!("transform.{name}: {reason}");
            let rule: Rule = serde_json::from_value(rule.clone()).map_err(|error| wrong(error.to_string()))?;
            match &rule {
                Rule::Template { template } if is_jinja(template) => {
                    let checked = Templates::new(SyntaxConfig::default()).check(template);
                    checked.map_err(|error| wrong(error.to_string()))?;
                }
                Rule::Jq { query } => baton_jq::check(query).map_err(wrong)?,
                _ => drop(rule.value(&Value::Null).map_err(wrong)?),
            }
        }
        Ok(())
    };
    check().err().map(|reason: String| format!("llm_hints cannot be followed: {reason}"))
}

fn transformed(left: &Value, Hints { transform, mode, .. }: &Hints) -> Result<Value, String> {
    if transform.is_empty() {
        return Ok(left.clone());
    }
    let mut made = Map::new();
    let mut bytes = 0;
    for (name, rule) in transform {
        let rule: Rule = serde_json::from_value(rule.clone()).map_err(|error| format!("transform.{name}: {error}"))?;
        let value = rule.value(left).map_err(|reason| format!("transform.{name}: {reason}"))?;
        bytes += match (&rule, &value) {
            (_, Value::String(text)) => text.len(),
            // A filter may make more than the context holds.
            (Rule::Jq { .. }, value) => value.to_string().len(),
            _ => 0,
        };
        if bytes > MAX_OUTPUT {
            return Err(format!("transform.{name}: the texts have more than {MAX_OUTPUT} bytes"));
        }
        made.insert(name.clone(), value);
    }
    Ok(match (mode, left) {
        (Mode::Merge, Value::Object(left)) => {
            let mut merged = left.clone();
            merged.extend(made);
            Value::Object(merged)
        }
        _ => Value::Object(made),
    })
}

impl Rule {
    fn value(&self, context: &Value) -> Result<Value, String> {
        match self {
            Self::Literal { value } => Ok(value.clone()),
            Self::Extract { path } => path::extract(context, path),
            Self::Jq { query } => filtered(query, context),
            Self::Format { format } => formatted(format, context).map(Value::from),
            Self::Template { template } => rendered(template, context).map(Value::from),
        }
    }
}

/// Runs a jq filter on the context.
fn filtered(query: &str, context: &Value) -> Result<Value, String> {
    let outputs = baton_jq::run(query, &Json::from(context), FILTER, Arc::default())?;
    Ok(baton_jq::value_of(&outputs)?.value())
}

/// Renders a template in either of two languages: Jinja if it has a statement or a filter, else the part of Handlebars that
/// records use. Fields of the context are variables, and so is `context`.
fn rendered(template: &str, context: &Value) -> Result<String, String> {
    let text = if is_jinja(template) {
        let mut scope = context.as_object().cloned().unwrap_or_default();
        scope.entry("context").or_insert_with(|| context.clone());
        let bytes = context.to_string().len();
        let templates = Templates::new(SyntaxConfig::default());
        templates.render(template, minijinja::value::Serde(&scope).into(), bytes).map_err(|error| error.to_string())?
    } else {
        handlebars::render(template, context, MAX_OUTPUT)?
    };
    if text.len() > MAX_OUTPUT { Err(format!("the text has more than {MAX_OUTPUT} bytes")) } else { Ok(text) }
}

fn is_jinja(template: &str) -> bool {
    let has_filter =
        || template.split("{{").skip(1).any(|rest| rest.split("}}").next().is_some_and(|inside| inside.contains('|')));
    template.contains("{%") || has_filter()
}

/// Fills `{a.b}` in a text. A value that is missing or null becomes nothing.
fn formatted(format: &str, context: &Value) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('{') {
        let (path, behind) = after.split_once('}').ok_or_else(|| "a `{` has no `}`".to_owned())?;
        text.push_str(before);
        text.push_str(&text_of(path::find(context, path.trim())));
        if text.len() > MAX_OUTPUT {
            return Err(format!("the text has more than {MAX_OUTPUT} bytes"));
        }
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns a value inside of a text: a string without quotation marks, nothing for null, JSON for the rest.
fn text_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => json!(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(context: Value, hints: Value) -> (Value, Option<String>) {
        applied(&context.into(), &hints.into())
    }

    #[test]
    fn excluded_fields_are_gone_before_anything_is_made_of_the_rest() {
        let context = json!({"a": 1, "b": {"c": 2, "d": 3}, "tools": [{"name": "x", "in": 1}, {"name": "y", "in": 2}]});
        let (seen, warning) = apply(context.clone(), json!({"exclude": ["a", "b.c", "tools[*].in", "absent.deep"]}));
        assert_eq!((seen, warning), (json!({"b": {"d": 3}, "tools": [{"name": "x"}, {"name": "y"}]}), None));
        let hints =
            json!({"exclude": ["a"], "transform": {"t": {"type": "template", "template": "[{{a}}|{{b.d}}]".replace('|', "-")}}});
        assert_eq!(apply(context, hints).0, json!({"t": "[-3]"}));
    }

    #[test]
    fn every_kind_of_rule_makes_its_value() {
        let context = json!({"a": {"b": "x"}, "list": [{"n": 1}, {"n": 2}], "one": [5], "nothing": null});
        let cases = [
            (json!({"type": "literal", "value": {"k": [1]}}), json!({"k": [1]})),
            (json!({"type": "extract", "path": "$.a.b"}), json!("x")),
            (json!({"type": "extract", "path": "$.list[*].n"}), json!([1, 2])),
            (json!({"type": "extract", "path": "$.one[*]"}), json!(5)),
            (json!({"type": "extract", "path": "$.absent"}), Value::Null),
            (json!({"type": "jq", "query": ".list | map(.n) | add"}), json!(3)),
            (json!({"type": "jq", "query": ".list[].n"}), json!([1, 2])),
            (json!({"type": "jq", "query": "empty"}), Value::Null),
            (json!({"type": "format", "format": "<{a.b}{nothing}{absent}{list.0.n}>"}), json!("<x1>")),
            (json!({"type": "template", "template": "{{context.a.b}}{{a.b}}"}), json!("xx")),
            (json!({"type": "template", "template": "{% for i in list %}{{ i.n }},{% endfor %}"}), json!("1,2,")),
            (json!({"type": "template", "template": "{{ a.b | upper }}"}), json!("X")),
        ];
        for (rule, expected) in cases {
            let (seen, warning) = apply(context.clone(), json!({"transform": {"v": rule.clone()}}));
            assert_eq!((seen, warning), (json!({"v": expected}), None), "{rule}");
        }
    }

    #[test]
    fn merge_adds_to_an_object_and_replaces_anything_else() {
        let hints = json!({"mode": "merge", "transform": {"v": {"type": "literal", "value": 1}}});
        assert_eq!(apply(json!({"a": 1}), hints.clone()).0, json!({"a": 1, "v": 1}));
        assert_eq!(apply(json!([1]), hints).0, json!({"v": 1}));
    }

    #[test]
    fn a_hint_that_cannot_be_followed_leaves_the_context_and_says_why() {
        let context = json!({"a": 1});
        let endless = "{% for i in range(10000000) %}{{ i }}{% endfor %}";
        let deep = format!("{}x{}", "{{#if a}}".repeat(5_000), "{{/if}}".repeat(5_000));
        let filter = |place: i32| (place.to_string(), json!({"type": "jq", "query": "."}));
        let many_filters = json!({"transform": (0..5).map(filter).collect::<Map<String, Value>>()});
        for (hints, reason) in [
            (json!({"transform": {"v": {"type": "xslt", "query": "."}}}), "unknown variant `xslt`"),
            (json!({"transform": {"v": {"type": "jq", "query": ".["}}}), "the filter is not jq"),
            (json!({"transform": {"v": {"type": "jq", "query": "last(repeat(1))"}}}), "transform.v"),
            (json!({"transform": {"v": {"type": "jq", "query": "[range(1000000)]"}}}), "transform.v"),
            (json!({"transform": {"v": {"type": "jq", "query": "$ENV"}}}), "undefined names"),
            (many_filters, "more than 4 rules of the type jq"),
            (json!({"transform": {"v": {"type": "template", "template": "{{#each a}}"}}}), "each"),
            (json!({"transform": {"v": {"type": "template", "template": "{% if %}"}}}), "syntax"),
            (json!({"transform": {"v": {"type": "template", "template": endless}}}), "transform.v"),
            (json!({"transform": {"v": {"type": "template", "template": deep}}}), "deeper"),
            (json!({"transform": {"v": {"type": "format", "format": "{a"}}}), "has no `}`"),
            (json!({"transform": {"v": 5}}), "transform.v"),
            (json!({"exclude": ["a["]}), "exclude"),
            (json!({"mode": "other"}), "other"),
        ] {
            let (seen, warning) = apply(context.clone(), hints.clone());
            assert_eq!(seen, context, "{hints}");
            let warning = warning.unwrap_or_default();
            assert!(warning.contains(reason) && warning.starts_with("llm_hints were not followed"), "{warning}");
        }
    }
}
