//! The drafts of JSON Schema that are read, and the keywords in which each holds further schemas.

use std::fmt;

use serde_json::{Map, Value};

/// A draft of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Draft 7, and drafts 4 and 6 as far as draft 7 has the same keywords.
    Draft7,
    /// 2019-09: 2020-12 with the tuples of draft 7.
    Draft2019,
    /// 2020-12, also of a schema that declares no draft.
    Draft2020,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draft7 => "draft 7",
            Self::Draft2019 => "2019-09",
            Self::Draft2020 => "2020-12",
        })
    }
}

impl Dialect {
    /// Returns the dialect that a `$schema` names.
    pub(crate) fn named(address: &str) -> Option<Self> {
        let address = address.trim_end_matches('#').trim_start_matches("https://").trim_start_matches("http://");
        Some(match address {
            "json-schema.org/draft-07/schema" | "json-schema.org/draft-06/schema" | "json-schema.org/draft-04/schema" => {
                Self::Draft7
            }
            "json-schema.org/draft/2019-09/schema" => Self::Draft2019,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft2020,
            _ => return None,
        })
    }

    /// Returns the dialect that a whole schema declares, or 2020-12.
    pub(crate) fn of(schema: &Value) -> Self {
        schema.get("$schema").and_then(Value::as_str).and_then(Self::named).unwrap_or(Self::Draft2020)
    }

    /// Whether `items` may be a list, and `additionalItems` is a keyword.
    pub(crate) fn has_tuples(self) -> bool {
        self != Self::Draft2020
    }

    /// Whether the keywords beside a `$ref` count.
    pub(crate) fn reads_siblings(self) -> bool {
        self != Self::Draft7
    }
}

/// Keywords whose value is a schema.
pub(crate) const HOLDS_SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
pub(crate) const HOLDS_LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Keywords whose value is schemas by name. `definitions` is the old name of `$defs`. A member of `dependencies` is a
/// schema or a list of keys.
pub(crate) const HOLDS_MAP: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Calls `each` with every schema in `keywords`: its keyword, its name or index there, and the schema.
pub(crate) fn for_each_part<'s>(keywords: &'s Map<String, Value>, mut each: impl FnMut(&'s str, Option<String>, &'s Value)) {
    for (keyword, value) in keywords {
        let keyword = keyword.as_str();
        match value {
            Value::Object(named) if HOLDS_MAP.contains(&keyword) => {
                named
                    .iter()
                    .filter(|(_, inner)| !inner.is_array())
                    .for_each(|(name, inner)| each(keyword, Some(name.clone()), inner));
            }
            Value::Array(members) if HOLDS_LIST.contains(&keyword) => {
                members.iter().enumerate().for_each(|(index, inner)| each(keyword, Some(index.to_string()), inner));
            }
            inner if HOLDS_SCHEMA.contains(&keyword) && !inner.is_array() => each(keyword, None, inner),
            _ => {}
        }
    }
}
