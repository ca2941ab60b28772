//! `schema.def.v1`: a record that defines what the contexts of a schema hold, when its records end, and what models see.

use baton_types::breadcrumb::{Breadcrumb, TtlConfig, TtlSource, TtlType};
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agent::AGENT_SCHEMA;
use crate::schedule::SCHEDULE_SCHEMA;
use crate::ttl::Wanted;
use crate::{BreadcrumbError, tags};

/// The schema of definitions.
pub const DEFINITION_SCHEMA: &str = "schema.def.v1";

/// The schemas of records that configure. Such a record counts in a version that a person wrote or approved.
const CONFIGURING_SCHEMAS: [&str; 5] = [DEFINITION_SCHEMA, SCHEDULE_SCHEMA, AGENT_SCHEMA, "tool.code.v1", "tool.config.v1"];

/// The most faults that are reported.
const MAX_FAULTS: usize = 20;

/// A definition, read from its record.
#[derive(Clone, Debug)]
pub struct Definition {
    schema: String,
    form: Form,
    hints: Option<Json>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Form {
    #[serde(default)]
    defines_schema: Option<String>,
    #[serde(default)]
    schema_id: Option<String>,
    #[serde(default)]
    lifecycle: Option<Lifecycle>,
    #[serde(default)]
    field_definitions: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct Lifecycle {
    #[serde(default)]
    ttl_policy: Option<Policy>,
}

#[derive(Clone, Debug, Deserialize)]
struct Policy {
    #[serde(rename = "type")]
    kind: TtlType,
    #[serde(default)]
    config: Option<TtlConfig>,
    #[serde(default)]
    allow_override: Option<bool>,
    #[serde(default)]
    conditional_policies: Vec<Conditional>,
}

#[derive(Clone, Debug, Deserialize)]
struct Conditional {
    condition: Condition,
    policy: Inner,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    tag_contains: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Inner {
    #[serde(rename = "type")]
    kind: TtlType,
    #[serde(default)]
    config: Option<TtlConfig>,
}

/// A field of a context.
#[derive(Clone, Debug, Deserialize)]
struct Field {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    String,
    Number,
    Boolean,
    Object,
    Array,
    Datetime,
    Any,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Datetime => "a moment such as 2027-01-31T09:00:00Z",
            Self::Any => "a value",
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::String, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_)) => true,
            (Self::Datetime, Value::String(text)) => {
                text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::DateTime>().is_ok()
            }
            _ => false,
        }
    }
}

impl Definition {
    /// Returns the version of a configuration record that counts while `record` is its newest version. `before` is the
    /// version before it, and the version that counted then.
    ///
    /// A version counts if a person or a program wrote its content, or a person approved it. Otherwise an agent could cause
    /// the records of others to be refused, or to end. If a version does not count, the earlier one still counts. So an agent
    /// cannot switch a definition off either. A person can: by rejecting the version that counts.
    pub fn counting(record: &Breadcrumb, before: Option<(&Breadcrumb, Option<u64>)>) -> Option<u64> {
        let this = Some(record.version);
        let is_by_agent = matches!(record.updated_by, Principal::Agent(_));
        if !record.schema_name.as_deref().is_some_and(|schema| CONFIGURING_SCHEMAS.contains(&schema)) {
            return None;
        }
        if tags::are_approved(&record.tags) {
            return this;
        }
        let Some((before, counted)) = before else { return if is_by_agent { None } else { this } };
        if tags::are_rejected(&record.tags) {
            return counted.filter(|counted| *counted != before.version);
        }
        // A person who changes a tag does not adopt what an agent wrote.
        let is_own = counted == Some(before.version) || record.context != before.context || record.llm_hints != before.llm_hints;
        if is_own && !is_by_agent { this } else { counted }
    }

    /// Returns the name of the schema that it defines.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Reads a definition from its record.
    pub fn read(record: &Breadcrumb) -> Result<Self, BreadcrumbError> {
        let wrong = |reason: String| BreadcrumbError::Invalid { field: "context", reason };
        let form: Form = serde_json::from_str(record.context.text())
            .map_err(|error| wrong(format!("the definition cannot be read: {error}")))?;
        let schema = form.defines_schema.clone().or_else(|| form.schema_id.clone());
        let schema = schema.ok_or_else(|| wrong("a definition names its schema as defines_schema".to_owned()))?;
        for (name, field) in &form.field_definitions {
            let read: Result<Field, _> = serde_json::from_value(field.clone());
            read.map_err(|error| {
                wrong(format!("field_definitions.{name}: {error}; expected {{\"type\": \"string\", \"required\": true}}"))
            })?;
        }
        Ok(Self { schema, form, hints: record.llm_hints.clone() })
    }

    /// Checks a record that is a definition: that it can be read.
    pub(crate) fn check(record: &Breadcrumb) -> Result<(), BreadcrumbError> {
        if record.schema_name.as_deref() == Some(DEFINITION_SCHEMA) { Self::read(record).map(drop) } else { Ok(()) }
    }

    /// Returns the hints for records of the schema.
    pub fn hints(&self) -> Option<&Json> {
        self.hints.as_ref()
    }

    /// Whether the creator of a record may set another end than the definition.
    pub fn allows_other_ends(&self) -> bool {
        self.policy().is_none_or(|policy| policy.allow_override.unwrap_or(true))
    }

    fn policy(&self) -> Option<&Policy> {
        self.form.lifecycle.as_ref()?.ttl_policy.as_ref()
    }

    /// Returns the end of a record with `tags`, and where it comes from: the first condition that holds, else the policy itself.
    pub(crate) fn end_of(&self, tags: &[String]) -> Option<(Wanted, TtlSource)> {
        let policy = self.policy()?;
        let wanted = |kind, config| Wanted { at: None, kind: Some(kind), config };
        let applies = |conditional: &&Conditional| tags.iter().any(|tag| tag.contains(&conditional.condition.tag_contains));
        Some(match policy.conditional_policies.iter().find(applies) {
            Some(found) => (wanted(found.policy.kind, found.policy.config), TtlSource::AutoApplied),
            None => (wanted(policy.kind, policy.config), TtlSource::SchemaDefault),
        })
    }

    /// Returns what is wrong with a context, one fragment for each fault.
    pub fn faults_of(&self, context: &Value) -> Vec<String> {
        if self.form.field_definitions.is_empty() {
            return Vec::new();
        }
        let Value::Object(fields) = context else { return vec!["expected an object".to_owned()] };
        let mut faults = Vec::new();
        for (name, definition) in &self.form.field_definitions {
            let Ok(Field { kind, required }) = serde_json::from_value::<Field>(definition.clone()) else { continue };
            match fields.get(name) {
                None if required => faults.push(format!("the field {name:?} is missing; expected {}", kind.name())),
                Some(Value::Null) if !required => {}
                Some(value) if !kind.accepts(value) => faults.push(format!("the field {name:?} is not {}", kind.name())),
                _ => {}
            }
        }
        faults.truncate(MAX_FAULTS);
        faults
    }
}
