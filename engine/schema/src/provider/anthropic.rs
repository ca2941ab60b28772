//! Anthropic's dialect: JSON Schema as it is, under a root without alternatives, with keys of plain characters.
//!
//! These schemas are not enforced. Anthropic's `strict` is not used, because only a rejected request shows which models
//! support it, and which schemas are too complex together. The error is "Schema is too complex for compilation". A request
//! may have at most 20 strict tools and 24 optional parameters.

use serde_json::Value;

use super::loose;
use super::source::{Unfit, below};

/// The longest key.
const MAX_KEY: usize = 64;

/// `schema` as it is offered, and in words what it could not say. Anthropic: "Property keys should match pattern
/// '^[a-zA-Z0-9_.-]{1,64}$'".
pub(super) fn offered(schema: &Value) -> Result<(Value, Vec<String>), Unfit> {
    let (schema, rules) = loose::rooted(schema);
    check_keys(&schema, "")?;
    Ok((schema, rules))
}

/// Reports the first key that the provider rejects. In the schemas of values, property names appear anywhere.
fn check_keys(schema: &Value, at: &str) -> Result<(), Unfit> {
    match schema {
        Value::Object(keywords) => {
            for (keyword, inner) in keywords {
                let at = below(at, keyword);
                if matches!(keyword.as_str(), "const" | "default" | "enum" | "examples") {
                    continue;
                }
                match inner {
                    Value::Object(named) if keyword == "properties" => {
                        for (name, inner) in named {
                            let at = below(&at, name);
                            let is_plain = |each: char| each.is_ascii_alphanumeric() || "_.-".contains(each);
                            if !(1..=MAX_KEY).contains(&name.len()) || !name.chars().all(is_plain) {
                                let reason = "a key may only have letters, digits, _, . and -, at most 64";
                                return Err(Unfit::new(&at, reason));
                            }
                            check_keys(inner, &at)?;
                        }
                    }
                    inner => check_keys(inner, &at)?,
                }
            }
            Ok(())
        }
        Value::Array(members) => {
            members.iter().enumerate().try_for_each(|(index, inner)| check_keys(inner, &below(at, &index.to_string())))
        }
        _ => Ok(()),
    }
}
