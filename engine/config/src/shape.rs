//! Checks one file against its form and reports all its faults, by the form's own JSON Schema.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use baton_schema::{Bound, Broken, ENV_PATTERN, Finding, Program, Sizes, push_token};
use baton_types::spelling::nearest;
use schemars::{JsonSchema, Schema as RootSchema, SchemaGenerator, generate::SchemaSettings, transform::Transform};
use serde::de::DeserializeOwned;
use serde_json::Value;
use validator::{Validate, ValidationErrors, ValidationErrorsKind};

use crate::fault::{FaultKind, MAX_FAULTS_PER_FILE, one_of, shorten};
use crate::form::{AgentForm, JobForm, ModelsForm, PriceTableForm, ProjectForm, RunLimitsForm, ToolConfigurationForm, ToolForm};
use crate::reader::{Spot, pointer};

/// A fault of one file, not yet placed in its text.
#[derive(Debug)]
pub(crate) struct ShapeFault {
    pub(crate) kind: FaultKind,
    pub(crate) pointer: String,
    pub(crate) spot: Spot,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) found: Option<String>,
    pub(crate) nearest: Option<String>,
    /// Whether the line may hold a key, so that it is not shown.
    pub(crate) is_secret: bool,
}

/// A form with its published schema.
pub(crate) struct Shape {
    schema: Value,
    program: Program,
}

pub(crate) static TOOL: LazyLock<Shape> = LazyLock::new(Shape::of::<ToolForm>);
pub(crate) static AGENT: LazyLock<Shape> = LazyLock::new(Shape::of::<AgentForm>);
pub(crate) static CONFIGURATION: LazyLock<Shape> = LazyLock::new(Shape::of::<ToolConfigurationForm>);
pub(crate) static JOB: LazyLock<Shape> = LazyLock::new(Shape::of::<JobForm>);
pub(crate) static PRICES: LazyLock<Shape> = LazyLock::new(Shape::of::<PriceTableForm>);
pub(crate) static RUN_LIMITS: LazyLock<Shape> = LazyLock::new(Shape::of::<RunLimitsForm>);
pub(crate) static MODELS: LazyLock<Shape> = LazyLock::new(Shape::of::<ModelsForm>);
pub(crate) static PROJECT: LazyLock<Shape> = LazyLock::new(Shape::of::<ProjectForm>);

/// Returns the value without its faults, if the rest can still be judged. Misspelled keys are renamed, other unknown
/// keys and broken limits are removed. `None` for all other faults, since dependent faults would be reported again.
pub(crate) fn repaired(value: &Value, faults: &[ShapeFault]) -> Option<Value> {
    let mut repaired = value.clone();
    for fault in faults {
        let (above, token) = fault.pointer.rsplit_once('/')?;
        let key = token.replace("~1", "/").replace("~0", "~");
        let object = repaired.pointer_mut(above)?.as_object_mut()?;
        match fault.kind {
            FaultKind::UnknownKey => {
                let value = object.shift_remove(&key)?;
                if let Some(meant) = fault.nearest.as_ref().filter(|meant| !object.contains_key(meant.as_str())) {
                    object.insert(meant.clone(), value);
                }
            }
            _ if above == "/limits" => {
                object.shift_remove(&key)?;
            }
            _ => return None,
        }
    }
    Some(repaired)
}

/// Returns the published JSON Schemas of the files that the loader reads, by file name.
pub fn schemas() -> Vec<(&'static str, Value)> {
    [
        ("agent.schema.json", &AGENT),
        ("job.schema.json", &JOB),
        ("models.schema.json", &MODELS),
        ("prices.schema.json", &PRICES),
        ("project.schema.json", &PROJECT),
        ("tool-config.schema.json", &TOOL),
        ("tool-configuration.schema.json", &CONFIGURATION),
    ]
    .map(|(name, shape)| (name, shape.schema.clone()))
    .to_vec()
}

/// Returns the JSON Schema (2020-12) of a form: keys that may be absent may not be `null`.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(WithoutNull);
    SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value()
}

/// Takes out the `null` that an optional Rust field would accept: on disk a key is there or it is not.
#[derive(Clone)]
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut RootSchema) {
        if let Some(object) = schema.as_object_mut() {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            for keyword in ["anyOf", "oneOf"] {
                let Some(Value::Array(members)) = object.get_mut(keyword) else { continue };
                members.retain(|member| !is_null_type(member));
                if let [Value::Object(only)] = members.as_slice() {
                    let only = only.clone();
                    object.remove(keyword);
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
        }
        schemars::transform::transform_subschemas(self, schema);
    }
}

/// Whether a schema is `{"type": "null"}`.
fn is_null_type(schema: &Value) -> bool {
    schema.as_object().is_some_and(|keywords| keywords.len() == 1 && keywords.get("type").is_some_and(|name| name == "null"))
}

impl Shape {
    fn of<T: JsonSchema>() -> Self {
        let schema = schema_of::<T>();
        Self { program: Program::read(&schema).expect("the schema of a form is valid"), schema }
    }

    /// Reads `value` as the form `T`, or reports every fault.
    pub(crate) fn read<T: DeserializeOwned + Validate>(&self, value: &Value) -> Result<T, Vec<ShapeFault>> {
        // One more than the limit, so that the report can note further faults.
        let findings = self.program.findings(value, MAX_FAULTS_PER_FILE + 1);
        if !findings.is_empty() {
            return Err(without_echoes(findings.iter().map(explain).collect()));
        }
        // What the schema cannot say: numbers too large for their type, and what `validator` knows besides.
        let read = T::deserialize(value).or_else(|_| serde_path_to_error::deserialize(value));
        let form = read.map_err(|error| {
            let place = path_to_pointer(error.path());
            vec![fault(FaultKind::OutOfRange, place, Spot::Value, error.inner().to_string())]
        })?;
        form.validate().map_err(|errors| {
            let mut faults = Vec::new();
            flatten(value, &errors, &mut String::new(), &mut faults);
            faults
        })?;
        Ok(form)
    }
}

/// Returns a broken rule as a fault of a file.
fn explain(finding: &Finding<'_>) -> ShapeFault {
    let place = finding.pointer.clone();
    let name = describe(&place);
    let found = finding.value;
    let below = |key: &str| {
        let mut inner = place.clone();
        push_token(&mut inner, key);
        inner
    };
    match &finding.broken {
        Broken::UnknownKey(key, known) => {
            let mut unknown = fault(FaultKind::UnknownKey, below(key), Spot::Key, format!("unknown key \"{}\"", shorten(key)));
            unknown.nearest = nearest(key, known.iter().copied()).map(str::to_owned);
            unknown.expected = Some(one_of(known));
            unknown
        }
        Broken::Missing(key) => fault(FaultKind::MissingKey, below(key), Spot::Key, format!("key \"{key}\" is missing")),
        Broken::Type(names) => wrong_type(place, &name, types(names), found),
        Broken::Unlisted(options) => unknown_value(place, &name, found, &options.iter().map(plain).collect::<Vec<_>>()),
        Broken::NoForm(_, options) if found.is_string() && !options.is_empty() => {
            unknown_value(place, &name, found, &options.iter().map(|option| plain(option)).collect::<Vec<_>>())
        }
        Broken::NoForm(names, options) => {
            let mut names = names.clone();
            names.extend(options.iter().map(|option| type_of(option)));
            names.sort_unstable();
            names.dedup();
            wrong_type(place, &name, types(&names), found)
        }
        Broken::Pattern(pattern) => {
            let mut wrong = fault(FaultKind::OutOfRange, place, Spot::Value, format!("{name} is not well-formed"));
            wrong.expected = Some(match *pattern {
                baton_types::id::ID_PATTERN => "small letters and digits in words joined by _ or -".to_owned(),
                baton_types::id::TOOL_NAME_PATTERN => "a letter, and then letters, digits, _ or -".to_owned(),
                ENV_PATTERN => "the name of a variable of the environment: letters, digits and _".to_owned(),
                other => format!("text that matches {other}"),
            });
            // The value may be a key that was written in place of its variable's name.
            wrong.is_secret = *pattern == ENV_PATTERN;
            wrong.found = (!wrong.is_secret).then(|| show(found));
            wrong
        }
        other => {
            let mut wrong = fault(FaultKind::OutOfRange, place, Spot::Value, format!("{name} is out of range"));
            wrong.expected = Some(bound(other).unwrap_or_else(|| finding.to_string()));
            wrong.found = Some(show(found));
            wrong
        }
    }
}

/// Drops the missing key that an unknown one beside it was meant to be: one slip is one fault.
fn without_echoes(mut faults: Vec<ShapeFault>) -> Vec<ShapeFault> {
    let meant: Vec<String> = faults
        .iter()
        .filter(|fault| fault.kind == FaultKind::UnknownKey)
        .filter_map(|fault| {
            let mut place = fault.pointer[..fault.pointer.rfind('/')?].to_owned();
            push_token(&mut place, fault.nearest.as_deref()?);
            Some(place)
        })
        .collect();
    faults.retain(|fault| fault.kind != FaultKind::MissingKey || !meant.contains(&fault.pointer));
    faults
}

fn fault(kind: FaultKind, pointer: String, spot: Spot, message: String) -> ShapeFault {
    ShapeFault { kind, pointer, spot, message, expected: None, found: None, nearest: None, is_secret: false }
}

fn wrong_type(place: String, name: &str, expected: String, found: &Value) -> ShapeFault {
    let mut wrong = fault(FaultKind::WrongType, place, Spot::Value, format!("{name} is of the wrong type"));
    wrong.expected = Some(expected);
    wrong.found = Some(a_type(type_of(found)).to_owned());
    wrong
}

fn unknown_value(place: String, name: &str, found: &Value, options: &[String]) -> ShapeFault {
    let mut wrong = fault(FaultKind::UnknownValue, place, Spot::Value, format!("{name} cannot be {}", show(found)));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    wrong.nearest = found.as_str().and_then(|text| nearest(text, options.iter().copied())).map(str::to_owned);
    wrong.expected = Some(one_of(&options));
    wrong
}

/// Returns the description of a place: its last key, or the element of its list.
fn describe(place: &str) -> String {
    let mut tokens: Vec<String> = place.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    match tokens.pop() {
        None => "the file".to_owned(),
        Some(last) if last.bytes().all(|byte| byte.is_ascii_digit()) => match tokens.pop() {
            Some(list) => format!("element {last} of \"{}\"", shorten(&list)),
            None => format!("element {last}"),
        },
        Some(last) => format!("\"{}\"", shorten(&last)),
    }
}

fn bound(broken: &Broken<'_>) -> Option<String> {
    Some(match broken {
        Broken::Beyond(Bound::Least, limit) => format!("at least {limit}"),
        Broken::Beyond(Bound::Most, limit) => format!("at most {limit}"),
        Broken::TooFew(Sizes::Text, 1) => "a text that is not empty".to_owned(),
        Broken::TooFew(Sizes::Array, limit) => format!("at least {limit} elements"),
        Broken::TooFew(Sizes::Object, limit) => format!("at least {limit} keys"),
        Broken::TooMany(Sizes::Text, limit) => format!("at most {limit} characters"),
        Broken::TooMany(Sizes::Array, limit) => format!("at most {limit} elements"),
        _ => return None,
    })
}

fn types(names: &[&str]) -> String {
    names.iter().map(|name| a_type(name)).collect::<Vec<_>>().join(" or ")
}

/// Returns the JSON type of a value.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn a_type(name: &str) -> &str {
    match name {
        "integer" => "an integer",
        "array" => "an array",
        "object" => "an object",
        "string" => "a string",
        "number" => "a number",
        "boolean" => "a boolean",
        other => other,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a value as a message shows it.
pub(crate) fn show(value: &Value) -> String {
    shorten(&value.to_string())
}

fn path_to_pointer(path: &serde_path_to_error::Path) -> String {
    let tokens: Vec<String> = path
        .iter()
        .filter_map(|segment| match segment {
            serde_path_to_error::Segment::Seq { index } => Some(index.to_string()),
            serde_path_to_error::Segment::Map { key } => Some(key.clone()),
            serde_path_to_error::Segment::Enum { .. } | serde_path_to_error::Segment::Unknown => None,
        })
        .collect();
    pointer(&tokens.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Turns the tree of `validator` into pointers. It counts the entries of a map instead of naming them; here the index
/// becomes the key again.
fn flatten(value: &Value, errors: &ValidationErrors, place: &mut String, faults: &mut Vec<ShapeFault>) {
    let fields: BTreeMap<_, _> = errors.errors().iter().collect();
    for (field, kind) in fields {
        let length = place.len();
        push_token(place, field);
        match kind {
            ValidationErrorsKind::Field(wrongs) => {
                for wrong in wrongs {
                    let message = format!("{} is out of range: {wrong}", describe(place));
                    faults.push(fault(FaultKind::OutOfRange, place.clone(), Spot::Value, message));
                }
            }
            ValidationErrorsKind::Struct(inner) => flatten(value.get(&**field).unwrap_or(&Value::Null), inner, place, faults),
            ValidationErrorsKind::List(entries) => {
                let list = value.get(&**field).unwrap_or(&Value::Null);
                let mut keys: Vec<&String> = list.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
                keys.sort();
                for (index, inner) in entries {
                    let length = place.len();
                    let key = keys.get(*index).map_or_else(|| index.to_string(), |key| (*key).clone());
                    push_token(place, &key);
                    let entry = list.get(&key).or_else(|| list.get(*index)).unwrap_or(&Value::Null);
                    flatten(entry, inner, place, faults);
                    place.truncate(length);
                }
            }
        }
        place.truncate(length);
    }
}
