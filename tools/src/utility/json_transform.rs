//! `json-transform`: parts of JSON taken out, renamed, chosen and ordered, or a jq filter run on it.

use std::cmp::Ordering;
use std::time::Duration;

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::json::{self, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stop::StopOnDrop;

/// Limits of a jq filter: some seconds and some hundred megabytes.
const BOUNDS: baton_jq::Bounds =
    baton_jq::Bounds { steps: 1_000_000, work: 20_000_000, time: Duration::from_secs(10), outputs: 1_000, bytes: 1024 * 1024 };

/// Operation on the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    /// Takes out the value at a path.
    Extract,
    /// Makes an object of each row by taking values at paths.
    Map,
    /// Keeps the rows that have the given values.
    Filter,
    /// Orders the rows.
    Sort,
    /// Runs a jq filter.
    Jq,
}

/// Output of `json-transform`.
#[derive(Debug, Serialize)]
struct Transformed {
    result: Json,
    operation: Operation,
    /// Number of outputs of a jq filter; several become an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<usize>,
}

/// Does `operation` with `data`.
#[tool(id = "json-transform")]
async fn json_transform(
    context: &ToolContext,
    data: Json,
    operation: Operation,
    path: Option<String>,
    mapping: Option<Map<String, Value>>,
    condition: Option<Map<String, Value>>,
    sort_by: Option<String>,
    query: Option<String>,
) -> Result<Transformed, ToolError> {
    if data.is_null() {
        return Err(invalid("data is required".to_owned()));
    }
    let needs = |name: &str| invalid(format!("{name} is required for the operation {}", name_of(operation)));
    let result = match operation {
        Operation::Extract => extract(data.value(), &path.ok_or_else(|| needs("path"))?),
        Operation::Map => map(data.value(), &mapping.ok_or_else(|| needs("mapping"))?),
        Operation::Filter => filter(data.value(), &condition.ok_or_else(|| needs("condition"))?),
        Operation::Sort => sort(data.value(), sort_by.as_deref()),
        Operation::Jq => return run_jq(context, data, query.ok_or_else(|| needs("query"))?).await,
    };
    Ok(Transformed { result: Json::from(result.map_err(invalid)?), operation, outputs: None })
}

fn invalid(message: String) -> ToolError {
    ToolError::new(message).of_kind(ToolErrorKind::InvalidInput)
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Extract => "extract",
        Operation::Map => "map",
        Operation::Filter => "filter",
        Operation::Sort => "sort",
        Operation::Jq => "jq",
    }
}

async fn run_jq(context: &ToolContext, data: Json, query: String) -> Result<Transformed, ToolError> {
    let stop = StopOnDrop::default();
    let stopped = stop.flag();
    let outputs = context.blocking(move || baton_jq::run(&query, &data, BOUNDS, stopped)).await?.map_err(invalid)?;
    let result = baton_jq::value_of(&outputs).map_err(invalid)?;
    Ok(Transformed { result, operation: Operation::Jq, outputs: Some(outputs.len()) })
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A key, or an index if it meets an array.
    Key(String),
    /// An index.
    Index(usize),
}

/// Reads `a.b`, `a.1`, `a[1]`, `a["x y"]`; `$` or `$.` may come first and means the whole.
fn parse(path: &str) -> Result<Vec<Step>, String> {
    let wrong = |what: &str| format!("the path {path:?} {what}; write a.b, a.1, a[1] or a[\"x y\"]");
    let mut rest = path.trim();
    if let Some(after) = rest.strip_prefix('$') {
        if !(after.is_empty() || after.starts_with(['.', '['])) {
            return Err(wrong("has a name behind $"));
        }
        rest = after.strip_prefix('.').unwrap_or(after);
        if rest.is_empty() {
            return if after == "." { Err(wrong("ends with a dot")) } else { Ok(Vec::new()) };
        }
    }
    let mut steps = Vec::new();
    let mut needs_key = !rest.starts_with('[');
    loop {
        if needs_key {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err(wrong("lacks a name"));
            }
            steps.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = bracket(inside).ok_or_else(|| wrong("has brackets without an index or a quoted name"))?;
            steps.push(step);
            rest = after;
            needs_key = false;
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            needs_key = true;
        } else if rest.is_empty() {
            return Ok(steps);
        } else {
            return Err(wrong("has a name right behind brackets"));
        }
    }
}

/// Reads the text in brackets, and the text after them.
fn bracket(inside: &str) -> Option<(Step, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = inside.strip_prefix(quote) {
            let (name, after) = quoted.split_once(quote)?;
            return Some((Step::Key(name.to_owned()), after.strip_prefix(']')?));
        }
    }
    let (index, after) = inside.split_once(']')?;
    Some((Step::Index(index.trim().parse().ok()?), after))
}

/// Returns the value at `steps`, or the deepest value that they reach.
fn find<'v>(value: &'v Value, steps: &[Step]) -> Result<&'v Value, (usize, &'v Value)> {
    let mut at = value;
    for (walked, step) in steps.iter().enumerate() {
        let next = match (at, step) {
            (Value::Object(object), Step::Key(key)) => object.get(key),
            (Value::Array(values), Step::Index(index)) => values.get(*index),
            (Value::Array(values), Step::Key(key)) => key.parse().ok().and_then(|index: usize| values.get(index)),
            (Value::Object(object), Step::Index(index)) => object.get(&index.to_string()),
            _ => None,
        };
        at = next.ok_or((walked, at))?;
    }
    Ok(at)
}

fn extract(data: Value, path: &str) -> Result<Value, String> {
    let steps = parse(path)?;
    find(&data, &steps).cloned().map_err(|(walked, at)| {
        let step = match &steps[walked] {
            Step::Key(key) => format!("{key:?}"),
            Step::Index(index) => format!("[{index}]"),
        };
        let has = match at {
            Value::Object(object) => {
                let keys: Vec<&str> = object.keys().take(30).map(String::as_str).collect();
                if keys.is_empty() {
                    "an empty object is there".to_owned()
                } else {
                    format!("the keys there are {}", keys.join(", "))
                }
            }
            Value::Array(values) => format!("an array of {} values is there", values.len()),
            other => format!("{} is there", json::kind_of(other)),
        };
        format!("the path {path:?} does not exist at step {} ({step}): {has}", walked + 1)
    })
}

/// Returns the rows of `data`; the operations on rows need an array.
fn rows(data: Value, operation: Operation) -> Result<Vec<Value>, String> {
    match data {
        Value::Array(rows) => Ok(rows),
        other => Err(format!("the operation {} needs an array, data is {}", name_of(operation), json::kind_of(&other))),
    }
}

fn map(data: Value, mapping: &Map<String, Value>) -> Result<Value, String> {
    let paths = mapping.iter().map(|(name, path)| match path {
        Value::String(path) => Ok((name, parse(path)?)),
        other => Err(format!("mapping.{name} must be a path, received {}", json::kind_of(other))),
    });
    let paths: Vec<(&String, Vec<Step>)> = paths.collect::<Result<_, _>>()?;
    let object = |row: Value| {
        let value_at = |steps: &[Step]| find(&row, steps).cloned().unwrap_or(Value::Null);
        Value::Object(paths.iter().map(|(name, steps)| ((*name).clone(), value_at(steps))).collect())
    };
    Ok(rows(data, Operation::Map)?.into_iter().map(object).collect())
}

fn filter(data: Value, condition: &Map<String, Value>) -> Result<Value, String> {
    let holds = |row: &Value| condition.iter().all(|(key, wanted)| row.get(key).is_some_and(|found| same(found, wanted)));
    Ok(rows(data, Operation::Filter)?.into_iter().filter(holds).collect())
}

/// Compares strictly, except that `1` and `1.0` are one number.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
        }
        _ => left == right,
    }
}

fn sort(data: Value, by: Option<&str>) -> Result<Value, String> {
    let steps = by.map(parse).transpose()?.unwrap_or_default();
    let mut rows = rows(data, Operation::Sort)?;
    let key = |row: &Value| find(row, &steps).cloned().unwrap_or(Value::Null);
    rows.sort_by_cached_key(|row| Ordered(key(row)));
    Ok(Value::Array(rows))
}

/// A value in jq's order: null, false, true, numbers, texts (by their bytes), arrays, objects.
struct Ordered(Value);

impl Ordered {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Bool(false) => 1,
            Value::Bool(true) => 2,
            Value::Number(_) => 3,
            Value::String(_) => 4,
            Value::Array(_) => 5,
            Value::Object(_) => 6,
        }
    }

    fn order(left: &Value, right: &Value) -> Ordering {
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.as_f64().unwrap_or(f64::NAN).total_cmp(&right.as_f64().unwrap_or(f64::NAN)),
            },
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) => {
                let pairs = left.iter().zip(right).map(|(left, right)| Self::order(left, right));
                pairs.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len()))
            }
            (Value::Object(left), Value::Object(right)) => {
                left.len().cmp(&right.len()).then_with(|| left.keys().cmp(right.keys()))
            }
            _ => Self::rank(left).cmp(&Self::rank(right)),
        }
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        Self::order(&self.0, &other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

#[cfg(test)]
mod tests {
    use baton_tool::registered_functions;
    use baton_tool::testing::block_on;
    use serde_json::json;

    use super::*;

    fn transform(input: &Value) -> Result<Value, String> {
        let function = registered_functions().into_iter().find(|function| function.id == "json-transform").unwrap();
        let context = ToolContext::for_test().build();
        block_on((function.invoke)(&context, &Json::from(input)))
            .map(|output| output.value()["result"].clone())
            .map_err(|error| error.message)
    }

    #[test]
    fn paths_lead_through_dots_and_brackets() {
        let data = json!({"a": {"b": [10, {"c d": 0}], "1": "one"}, "": 5, "e": ""});
        let cases = [
            ("a.b.0", json!(10)),
            ("a.b[0]", json!(10)),
            ("$.a.b[1][\"c d\"]", json!(0)),
            ("a.b.1['c d']", json!(0)),
            ("a.1", json!("one")),
            ("a[1]", json!("one")),
            ("$['a'].b[ 0 ]", json!(10)),
            ("e", json!("")),
            ("$", data.clone()),
        ];
        for (path, expected) in cases {
            assert_eq!(transform(&json!({"data": data, "operation": "extract", "path": path})), Ok(expected), "{path}");
        }
        assert_eq!(transform(&json!({"data": [[1, 2]], "operation": "extract", "path": "[0][1]"})), Ok(json!(2)));
    }

    #[test]
    fn a_path_that_leads_nowhere_says_what_is_there() {
        let extract =
            |path: &str| transform(&json!({"data": {"a": [1, 2], "b": "x"}, "operation": "extract", "path": path})).unwrap_err();
        assert_eq!(extract("c.d"), "the path \"c.d\" does not exist at step 1 (\"c\"): the keys there are a, b");
        assert_eq!(extract("a[2]"), "the path \"a[2]\" does not exist at step 2 ([2]): an array of 2 values is there");
        assert_eq!(extract("b.c"), "the path \"b.c\" does not exist at step 2 (\"c\"): a text is there");
        for path in [
            "",
            ".",
            "a.",
            "a..b",
            "$.",
            "$a",
            "a[",
            "a[]",
            "a[x]",
            "a[-1]",
            "a[0]b",
            "a[\"x",
            "a[99999999999999999999]",
            &"[".repeat(10_000),
        ] {
            assert!(extract(path).contains("write a.b, a.1, a[1]"), "{path}");
        }
    }

    #[test]
    fn map_makes_an_object_of_each_row() {
        let data = json!([{"user": {"name": "Ann"}, "n": 0}, {"user": {}}]);
        let input = json!({"data": data, "operation": "map", "mapping": {"who": "user.name", "count": "$.n"}});
        assert_eq!(transform(&input), Ok(json!([{"who": "Ann", "count": 0}, {"who": null, "count": null}])));
        let wrong = json!({"data": data, "operation": "map", "mapping": {"who": 1}});
        assert_eq!(transform(&wrong).unwrap_err(), "mapping.who must be a path, received a number");
    }

    #[test]
    fn filter_keeps_rows_whose_keys_are_all_equal() {
        let data = json!([{"a": 1, "b": "x"}, {"a": 1.0}, {"a": "1"}, {"a": null}, 5]);
        let filter = |condition: Value| transform(&json!({"data": data, "operation": "filter", "condition": condition})).unwrap();
        assert_eq!(filter(json!({"a": 1})), json!([{"a": 1, "b": "x"}, {"a": 1.0}]));
        assert_eq!(filter(json!({"a": 1, "b": "x"})), json!([{"a": 1, "b": "x"}]));
        assert_eq!(filter(json!({"a": null})), json!([{"a": null}]));
        assert_eq!(filter(json!({})), data);
    }

    #[test]
    fn sort_is_ascending_and_stable() {
        let data = json!([{"k": "b", "n": 1}, {"k": "B", "n": 2}, {"k": "a", "n": 3}, {"n": 4}, {"k": "b", "n": 5}, {"k": 10, "n": 6}, {"k": 9.5, "n": 7}]);
        let sorted = transform(&json!({"data": data, "operation": "sort", "sort_by": "k"})).unwrap();
        let order: Vec<i64> = sorted.as_array().unwrap().iter().map(|row| row["n"].as_i64().unwrap()).collect();
        assert_eq!(order, [4, 7, 6, 2, 3, 1, 5]);
        assert_eq!(transform(&json!({"data": [3, 1, 2], "operation": "sort"})), Ok(json!([1, 2, 3])));
    }

    #[test]
    fn falsy_data_is_data_and_null_is_not() {
        for data in [json!(false), json!(0), json!(""), json!([])] {
            assert_eq!(transform(&json!({"data": data, "operation": "extract", "path": "$"})), Ok(data));
        }
        assert_eq!(transform(&json!({"data": null, "operation": "extract", "path": "$"})).unwrap_err(), "data is required");
    }

    #[test]
    fn what_an_operation_needs_is_said() {
        for (operation, needed) in [("extract", "path"), ("map", "mapping"), ("filter", "condition"), ("jq", "query")] {
            let message = transform(&json!({"data": [], "operation": operation})).unwrap_err();
            assert_eq!(message, format!("{needed} is required for the operation {operation}"));
        }
        assert_eq!(
            transform(&json!({"data": {}, "operation": "sort"})).unwrap_err(),
            "the operation sort needs an array, data is an object"
        );
    }

    #[test]
    fn jq_gives_one_value_or_several() {
        let jq = |query: &str| transform(&json!({"data": {"a": [1, 2]}, "operation": "jq", "query": query}));
        assert_eq!(jq(".a | add"), Ok(json!(3)));
        assert_eq!(jq(".a[]"), Ok(json!([1, 2])));
        assert_eq!(jq("empty"), Ok(json!(null)));
        assert!(jq("nan").unwrap_err().contains("JSON cannot hold"));
        assert!(jq("repeat(1)").unwrap_err().contains("more than 1000 outputs"));
        assert!(jq("last(repeat(1))").unwrap_err().contains("more than 1000000 steps and was stopped"));
    }
}
