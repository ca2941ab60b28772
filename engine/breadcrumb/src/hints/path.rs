//! Paths in a context: `$.a.b[0].c`, `a.b`, `list[*].name`.

use serde_json::Value;

/// The most values that a path may lead to.
const MAX_FOUND: usize = 10_000;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A field, or a place in an array by its number.
    Name(String),
    /// Every element of an array, or every field's value.
    Each,
}

/// Reads a path. A leading `$.` is optional.
pub(crate) fn parse(path: &str) -> Result<Vec<Step>, String> {
    let wrong = || format!("the path {path:?} cannot be read; write a.b, a[0] or a[*].b");
    let rest = path.trim();
    let rest = rest.strip_prefix('$').unwrap_or(rest);
    let mut steps = Vec::new();
    for part in rest.split('.').filter(|part| !part.is_empty()) {
        let (name, mut brackets) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        if name == "*" {
            steps.push(Step::Each);
        } else if !name.is_empty() {
            steps.push(Step::Name(name.to_owned()));
        }
        while !brackets.is_empty() {
            let (inside, behind) = brackets.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(wrong)?;
            steps.push(match inside.trim().trim_matches(['"', '\'']) {
                "*" => Step::Each,
                "" => return Err(wrong()),
                name => Step::Name(name.to_owned()),
            });
            brackets = behind;
        }
    }
    Ok(steps)
}

/// Returns the value that a name leads to.
fn step<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(values) => values.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Returns the value at a path of names, if there is one.
pub(super) fn find<'v>(context: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|name| !name.is_empty()).try_fold(context, step)
}

/// Returns what a path leads to: null for nothing, one value as it is, several as an array.
pub(crate) fn extract(context: &Value, path: &str) -> Result<Value, String> {
    let mut found = vec![context];
    for next in parse(path)? {
        found = match &next {
            Step::Name(name) => found.into_iter().filter_map(|value| step(value, name)).collect(),
            Step::Each => found.into_iter().flat_map(elements).take(MAX_FOUND + 1).collect(),
        };
        if found.len() > MAX_FOUND {
            return Err(format!("the path {path:?} leads to more than {MAX_FOUND} values"));
        }
    }
    Ok(match found.as_slice() {
        [] => Value::Null,
        [only] => (*only).clone(),
        several => several.iter().map(|value| (*value).clone()).collect(),
    })
}

fn elements(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}
