//! Reading a row: the rules for uploads of the original system, and those of tool configs.

use std::collections::BTreeMap;

use baton_types::config::{OTHER_PLACEHOLDERS, placeholders_in};
use serde_json::{Map, Value};

use super::{Args, JudgeSchema, MAX_SUSPEND_SECONDS, Options, RESERVED_NAMES, Row, RowFault};
use crate::id::{NAME_RULE, Name, ToolName};
use crate::read::{after_execution, shown};
use crate::subject::{Subject, TargetSubject};

/// Columns of the table.
const COLUMNS: [&str; 7] =
    ["project_id", "tool_name", "description", "parameters", "target_subject", "after_execution", "options"];

/// Options that are read.
const OPTIONS: [&str; 6] = ["args", "envs", "suspend_timeout_seconds", "timeout_seconds", "controls_flow", "ui_allowed"];

/// Faults found so far, and the parts that nothing reads.
#[derive(Default)]
struct Reading {
    faults: Vec<RowFault>,
    unused: Vec<String>,
}

pub(super) fn row(value: &Value, judge: JudgeSchema<'_>) -> Result<Row, Vec<RowFault>> {
    let mut reading = Reading::default();
    let Value::Object(columns) = value else {
        return Err(vec![RowFault { pointer: String::new(), message: format!("a row is {}; expected an object", shown(value)) }]);
    };
    reading.note_unused("", columns, &COLUMNS);
    let project_id = reading.name(columns, "project_id");
    let tool_name = reading.name::<ToolName>(columns, "tool_name");
    if let Some(name) = tool_name.as_ref().filter(|name| RESERVED_NAMES.contains(&name.as_str())) {
        reading.fault("/tool_name", format!("the name \"{name}\" belongs to a built-in tool"));
    }
    let description = match columns.get("description") {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Some(other) => reading.wrong("/description", "a text", other),
    };
    let target_subject = reading.subject(columns, value.get("project_id").and_then(Value::as_str));
    let after = reading.required(columns, "after_execution", "\"suspend\" or \"terminate\"").and_then(|value| {
        let after = value.as_str().and_then(after_execution);
        after.or_else(|| reading.wrong("/after_execution", "\"suspend\" or \"terminate\"", value))
    });
    let parameters = reading.parameters(columns, judge);
    let none = Map::new();
    let options = match columns.get("options") {
        None | Some(Value::Null) => Some(&none),
        Some(Value::Object(options)) => Some(options),
        Some(other) => reading.wrong("/options", "an object", other),
    };
    let properties = parameters.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let options = options.map(|options| reading.options(options, properties.unwrap_or(&none)));
    if !reading.faults.is_empty() {
        return Err(reading.faults);
    }
    let row = || {
        Some(Row {
            project_id: project_id?,
            tool_name: tool_name?,
            description: description?,
            parameters: parameters?,
            target_subject: target_subject?,
            after_execution: after?,
            options: options?,
            unused: reading.unused,
        })
    };
    row().ok_or_else(Vec::new)
}

impl Reading {
    fn fault(&mut self, pointer: &str, message: impl Into<String>) {
        self.faults.push(RowFault { pointer: pointer.to_owned(), message: message.into() });
    }

    /// Reports a value of the wrong kind. Returns `None`, whatever is expected.
    fn wrong<T>(&mut self, pointer: &str, rule: &str, found: &Value) -> Option<T> {
        self.fault(pointer, format!("is {}; expected {rule}", shown(found)));
        None
    }

    fn note_unused(&mut self, path: &str, keys: &Map<String, Value>, known: &[&str]) {
        let unknown = keys.keys().filter(|key| !known.contains(&key.as_str()));
        self.unused.extend(unknown.map(|key| format!("{path}/{}", escaped(key))));
    }

    /// Returns a column that must have a value.
    fn required<'v>(&mut self, columns: &'v Map<String, Value>, column: &str, rule: &str) -> Option<&'v Value> {
        let value = columns.get(column).filter(|value| !value.is_null());
        if value.is_none() {
            self.fault("", format!("\"{column}\" is missing; expected {rule}"));
        }
        value
    }

    fn name<N: Name>(&mut self, columns: &Map<String, Value>, column: &str) -> Option<N> {
        let value = self.required(columns, column, NAME_RULE)?;
        value.as_str().and_then(N::parse).or_else(|| self.wrong(&format!("/{column}"), NAME_RULE, value))
    }

    /// Returns the subject, which must be that of a tool of `project`.
    fn subject(&mut self, columns: &Map<String, Value>, project: Option<&str>) -> Option<TargetSubject> {
        const RULE: &str = "a subject such as \"cg.v1r3.{project_id}.{channel_id}.cmd.tool.TARGET\"";
        let value = self.required(columns, "target_subject", RULE)?;
        let Some(text) = value.as_str() else { return self.wrong("/target_subject", RULE, value) };
        let subject = match TargetSubject::parse(text) {
            Ok(subject) => subject,
            Err(error) => {
                self.fault("/target_subject", error.to_string());
                return None;
            }
        };
        let named = Subject::parse(text).ok()?.address.project;
        if let Some(project) = project.filter(|project| *project != named.as_str() && named.as_str() != "{project_id}") {
            self.fault("/target_subject", format!("the subject belongs to project \"{named}\", and the row to \"{project}\""));
        }
        Some(subject)
    }

    /// Returns the schema of the input, with `type` and `properties`.
    fn parameters(&mut self, columns: &Map<String, Value>, judge: JudgeSchema<'_>) -> Option<Map<String, Value>> {
        let mut schema = match columns.get("parameters") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(schema)) => schema.clone(),
            Some(other) => return self.wrong("/parameters", "a JSON Schema of an object", other),
        };
        if let Some(other) = schema.get("type").filter(|name| *name != "object") {
            self.fault("/parameters/type", format!("is {}; expected \"object\"", shown(other)));
        }
        schema.entry("type").or_insert_with(|| Value::from("object"));
        schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        let schema = Value::Object(schema);
        for RowFault { pointer, message } in judge(&schema) {
            self.fault(&format!("/parameters{pointer}"), message);
        }
        self.arrays(&schema, "/parameters");
        match schema {
            Value::Object(schema) => Some(schema),
            _ => None,
        }
    }

    /// Reports arrays whose elements have no schema. Providers refuse them.
    fn arrays(&mut self, schema: &Value, at: &str) {
        let Value::Object(keys) = schema else { return };
        let is_array =
            |name: &Value| name == "array" || name.as_array().is_some_and(|names| names.iter().any(|name| name == "array"));
        let has_items = keys.get("items").and_then(Value::as_object).is_some_and(|items| !items.is_empty());
        if keys.get("type").is_some_and(is_array) && !has_items {
            self.fault(at, "an array needs \"items\" with the schema of its elements");
        }
        for (key, value) in keys {
            let place = format!("{at}/{}", escaped(key));
            match (key.as_str(), value) {
                ("properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(schemas)) => {
                    for (name, schema) in schemas {
                        self.arrays(schema, &format!("{place}/{}", escaped(name)));
                    }
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        self.arrays(schema, &format!("{place}/{index}"));
                    }
                }
                ("items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains", Value::Object(_)) => {
                    self.arrays(value, &place);
                }
                _ => {}
            }
        }
    }

    fn options(&mut self, options: &Map<String, Value>, properties: &Map<String, Value>) -> Options {
        self.note_unused("/options", options, &OPTIONS);
        let mut read = Options::default();
        match options.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Object(args)) => {
                self.note_unused("/options/args", args, &["defaults", "fixed"]);
                let defaults = self.values(args, "defaults", properties);
                read.args = Args { defaults, fixed: self.values(args, "fixed", properties) };
            }
            Some(other) => _ = self.wrong::<()>("/options/args", "an object", other),
        }
        match options.get("envs") {
            None | Some(Value::Null) => {}
            Some(Value::Object(envs)) => read.envs = self.variables(envs, properties),
            Some(other) => _ = self.wrong::<()>("/options/envs", "an object", other),
        }
        for name in read.args.fixed.keys().filter(|name| read.args.defaults.contains_key(*name)) {
            self.fault(&format!("/options/args/fixed/{}", escaped(name)), "the parameter also has a default");
        }
        for name in read.envs.keys() {
            if read.args.defaults.contains_key(name) || read.args.fixed.contains_key(name) {
                self.fault(&format!("/options/envs/{}", escaped(name)), "the parameter also has a value in \"args\"");
            }
        }
        let own = self.seconds(options, "suspend_timeout_seconds");
        let other = self.seconds(options, "timeout_seconds");
        if let (Some(own), Some(other)) = (own, other)
            && own != other
        {
            self.fault(
                "/options/timeout_seconds",
                format!("is {other}, and \"suspend_timeout_seconds\" is {own}; expected one of them"),
            );
        }
        read.suspend_timeout_seconds = own.or(other);
        read.controls_flow = self.flag(options, "controls_flow");
        read.ui_allowed = self.flag(options, "ui_allowed").unwrap_or_default();
        read
    }

    fn values(&mut self, args: &Map<String, Value>, key: &str, properties: &Map<String, Value>) -> Map<String, Value> {
        let path = format!("/options/args/{key}");
        let values = match args.get(key) {
            None | Some(Value::Null) => return Map::new(),
            Some(Value::Object(values)) => values,
            Some(other) => return self.wrong(&path, "an object", other).unwrap_or_default(),
        };
        for (name, value) in values {
            let place = format!("{path}/{}", escaped(name));
            self.check_parameter(&place, name, properties);
            for placeholder in placeholders_in(value, &OTHER_PLACEHOLDERS) {
                self.fault(&place, format!("unknown placeholder {{{placeholder}}}"));
            }
        }
        values.clone()
    }

    fn variables(&mut self, envs: &Map<String, Value>, properties: &Map<String, Value>) -> BTreeMap<String, String> {
        const RULE: &str = "the name of an environment variable";
        let mut read = BTreeMap::new();
        for (name, variable) in envs {
            let place = format!("/options/envs/{}", escaped(name));
            self.check_parameter(&place, name, properties);
            match variable.as_str().filter(|variable| is_variable(variable)) {
                Some(variable) => _ = read.insert(name.clone(), variable.to_owned()),
                None => _ = self.wrong::<()>(&place, RULE, variable),
            }
        }
        read
    }

    fn check_parameter(&mut self, place: &str, name: &str, properties: &Map<String, Value>) {
        if !properties.contains_key(name) {
            self.fault(place, format!("the tool has no parameter {}", shown(&Value::from(name))));
        }
    }

    fn seconds(&mut self, options: &Map<String, Value>, key: &str) -> Option<u32> {
        let value = options.get(key).filter(|value| !value.is_null())?;
        let seconds = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| (1..=MAX_SUSPEND_SECONDS).contains(seconds));
        seconds.or_else(|| self.wrong(&format!("/options/{key}"), "whole seconds from 1 to 31536000", value))
    }

    fn flag(&mut self, options: &Map<String, Value>, key: &str) -> Option<bool> {
        let value = options.get(key).filter(|value| !value.is_null())?;
        value.as_bool().or_else(|| self.wrong(&format!("/options/{key}"), "true or false", value))
    }
}

/// Whether `name` may be a variable of the environment: letters, digits and `_`, at most 128, with no digit first.
fn is_variable(name: &str) -> bool {
    let is_allowed = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    is_allowed && (1..=128).contains(&name.len()) && !name.starts_with(|char: char| char.is_ascii_digit())
}

/// Returns `key` as a token of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
