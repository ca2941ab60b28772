//! Names of types, and what people write in their place.

use baton_types::spelling::nearest;

use crate::program::TYPES;

/// Names of types in programming languages and other dialects, each with the JSON type that is meant.
const FOREIGN: [(&str, &str); 34] = [
    ("arraylist", "array"),
    ("bigint", "integer"),
    ("bool", "boolean"),
    ("byte", "integer"),
    ("char", "string"),
    ("decimal", "number"),
    ("dict", "object"),
    ("dictionary", "object"),
    ("double", "number"),
    ("float", "number"),
    ("hashmap", "object"),
    ("hashtable", "object"),
    ("int", "integer"),
    ("int32", "integer"),
    ("int64", "integer"),
    ("list", "array"),
    ("long", "integer"),
    ("map", "object"),
    ("mapping", "object"),
    ("nil", "null"),
    ("none", "null"),
    ("queue", "array"),
    ("real", "number"),
    ("record", "object"),
    ("sequence", "array"),
    ("set", "array"),
    ("short", "integer"),
    ("stack", "array"),
    ("str", "string"),
    ("struct", "object"),
    ("text", "string"),
    ("tuple", "array"),
    ("undefined", "null"),
    ("vector", "array"),
];

/// Returns the bits of a type; the error names the type that was probably meant.
pub(crate) fn type_named(name: &str) -> Result<u8, String> {
    if let Some((_, bits)) = TYPES.iter().find(|(known, _)| *known == name) {
        return Ok(*bits);
    }
    if name.eq_ignore_ascii_case("any") {
        return Err(format!("`{name}` is not a JSON type; without \"type\" any value is accepted"));
    }
    Err(match meant(name) {
        Some(meant) => format!("`{name}` is not a JSON type; did you mean `{meant}`?"),
        None => format!("`{name}` is not a JSON type; the types are {}", TYPES.map(|(name, _)| name).join(", ")),
    })
}

/// Whether `name` is a type of JSON Schema.
pub fn is_type_name(name: &str) -> bool {
    TYPES.iter().any(|(known, _)| *known == name)
}

/// Returns the JSON type that a foreign or misspelled name means.
pub(crate) fn meant(name: &str) -> Option<&'static str> {
    let plain = name.to_lowercase();
    let same = TYPES.iter().find(|(known, _)| *known == plain).map(|(known, _)| *known);
    let foreign = || FOREIGN.iter().find(|(foreign, _)| *foreign == plain).map(|(_, meant)| *meant);
    same.or_else(foreign).or_else(|| nearest(&plain, TYPES.map(|(known, _)| known)))
}
