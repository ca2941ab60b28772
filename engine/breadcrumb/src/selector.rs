//! Selectors: the records that concern an agent (seed 003).

use std::cmp::Ordering;

use baton_types::breadcrumb::Breadcrumb;
use serde::Deserialize;
use serde_json::Value;

use crate::hints::path;

/// The schema of the catalog of tools. A selector for it gives context, since the catalog is derived from configs and never written.
pub const CATALOG_SCHEMA: &str = "tool.catalog.v1";

/// The most records that one selector or builder gives an agent.
const MAX_FETCHED: usize = 100;

/// Conditions on a record. A record must meet all of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The schema of the record.
    #[serde(default)]
    pub schema_name: Option<String>,
    /// Tags of which the record has one at least.
    #[serde(default)]
    pub any_tags: Vec<String>,
    /// Tags that the record has.
    #[serde(default)]
    pub all_tags: Vec<String>,
    /// Conditions on values of the context.
    #[serde(default)]
    pub context_match: Vec<ContextMatch>,
    /// The role of the records; see [`Selector::is_trigger`].
    #[serde(default)]
    pub role: Option<Role>,
    /// The records that the agent gets.
    #[serde(default)]
    pub fetch: Fetch,
    /// The name of the records in the agent's request (default: the schema).
    #[serde(default)]
    pub key: Option<String>,
    /// A note for people.
    #[serde(default)]
    pub comment: Option<String>,
}

/// Role of the records that a selector selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// They start the agent.
    Trigger,
    /// The agent gets them when another record starts it.
    Context,
}

/// A condition on one value of a context.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextMatch {
    /// The path of the value, such as `$.order.total`.
    pub path: String,
    /// The comparison.
    pub op: Comparison,
    /// The value to compare with.
    pub value: Value,
}

/// Comparison of a value in a context with the value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// They are equal.
    Eq,
    /// They differ, or the context has no such value.
    Ne,
    /// Both are arrays with an element in common.
    ContainsAny,
    /// Both are numbers or both are texts, and that of the context is greater.
    Gt,
    /// Both are numbers or both are texts, and that of the context is less.
    Lt,
}

/// The records of a selector that an agent gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The way to choose them.
    #[serde(default)]
    pub method: FetchMethod,
    /// The most records (default: 10 for `recent` and `vector`).
    #[serde(default)]
    pub limit: Option<usize>,
    /// The words of a search by meaning (default: the texts of the record that started the agent).
    #[serde(default)]
    pub query: Option<String>,
}

/// The way to choose records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FetchMethod {
    /// The record that started the agent.
    #[default]
    EventData,
    /// The newest record.
    Latest,
    /// The newest records.
    Recent,
    /// The records that are nearest in meaning.
    Vector,
}

impl Fetch {
    /// Returns the most records that it gives.
    pub fn limit(&self) -> usize {
        match self.method {
            FetchMethod::EventData | FetchMethod::Latest => 1,
            FetchMethod::Recent | FetchMethod::Vector => self.limit.unwrap_or(10),
        }
    }
}

impl Selector {
    /// Whether its records start the agent: unless its role or its schema makes them context.
    pub fn is_trigger(&self) -> bool {
        let default = if self.schema_name.as_deref() == Some(CATALOG_SCHEMA) { Role::Context } else { Role::Trigger };
        self.role.unwrap_or(default) == Role::Trigger
    }

    /// Whether the record meets all conditions. `context` is its context, parsed.
    pub fn matches(&self, record: &Breadcrumb, context: &Value) -> bool {
        let has = |tag: &String| record.tags.contains(tag);
        self.schema_name.as_ref().is_none_or(|schema| record.schema_name.as_ref() == Some(schema))
            && (self.any_tags.is_empty() || self.any_tags.iter().any(has))
            && self.all_tags.iter().all(has)
            && self.context_match.iter().all(|condition| condition.holds(context))
    }

    /// Refuses a selector that cannot be meant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { schema_name, any_tags, all_tags, context_match, .. } = self;
        if schema_name.is_none() && any_tags.is_empty() && all_tags.is_empty() && context_match.is_empty() {
            return Err(
                "it has no condition, so every record would meet it; name schema_name, any_tags, all_tags or context_match"
                    .into(),
            );
        }
        if schema_name.as_deref() == Some(CATALOG_SCHEMA) && self.role == Some(Role::Trigger) {
            return Err(format!("no record of {CATALOG_SCHEMA} is ever written, so it starts no agent; its role is `context`"));
        }
        for condition in context_match {
            path::parse(&condition.path)?;
            if condition.op == Comparison::ContainsAny && !condition.value.is_array() {
                return Err(format!("contains_any compares two arrays, and its value is {}", condition.value));
            }
        }
        match self.fetch.limit {
            Some(limit) if !(1..=MAX_FETCHED).contains(&limit) => Err(format!("fetch.limit is 1 to {MAX_FETCHED}, not {limit}")),
            _ => Ok(()),
        }
    }
}

impl ContextMatch {
    fn holds(&self, context: &Value) -> bool {
        let found = path::extract(context, &self.path).unwrap_or(Value::Null);
        match self.op {
            Comparison::Eq => is_equal(&found, &self.value),
            Comparison::Ne => !is_equal(&found, &self.value),
            Comparison::ContainsAny => match (&found, &self.value) {
                (Value::Array(found), Value::Array(wanted)) => {
                    found.iter().any(|one| wanted.iter().any(|other| is_equal(one, other)))
                }
                _ => false,
            },
            Comparison::Gt => order(&found, &self.value) == Some(Ordering::Greater),
            Comparison::Lt => order(&found, &self.value) == Some(Ordering::Less),
        }
    }
}

/// Whether two values are equal, `1` and `1.0` too.
fn is_equal(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && order(one, other) == Some(Ordering::Equal))
}

fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
        },
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    }
}
