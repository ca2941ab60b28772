//! Removal of fields by their paths.

use serde_json::Value;

use super::path::{Step, parse};

/// Removes what `path` leads to. A path that leads nowhere removes nothing.
pub(super) fn remove(context: &mut Value, path: &str) -> Result<(), String> {
    let steps = parse(path).map_err(|reason| format!("exclude: {reason}"))?;
    remove_at(context, &steps);
    Ok(())
}

// Recursion is bounded by the depth of the context.
fn remove_at(value: &mut Value, steps: &[Step]) {
    match (steps, value) {
        ([Step::Name(name)], Value::Object(fields)) => drop(fields.shift_remove(name)),
        ([Step::Name(name)], Value::Array(values)) => {
            if let Some(index) = name.parse().ok().filter(|index| *index < values.len()) {
                let _removed: Value = values.remove(index);
            }
        }
        ([Step::Each], Value::Object(fields)) => fields.clear(),
        ([Step::Each], Value::Array(values)) => values.clear(),
        ([Step::Name(name), rest @ ..], Value::Object(fields)) if !rest.is_empty() => {
            fields.get_mut(name).into_iter().for_each(|value| remove_at(value, rest));
        }
        ([Step::Name(name), rest @ ..], Value::Array(values)) if !rest.is_empty() => {
            let index = name.parse::<usize>().ok();
            index.and_then(|index| values.get_mut(index)).into_iter().for_each(|value| remove_at(value, rest));
        }
        ([Step::Each, rest @ ..], Value::Array(values)) => values.iter_mut().for_each(|value| remove_at(value, rest)),
        ([Step::Each, rest @ ..], Value::Object(fields)) => fields.values_mut().for_each(|value| remove_at(value, rest)),
        _ => {}
    }
}
