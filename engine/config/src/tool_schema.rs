//! Inputs and outputs of a tool's calls: schemas from both dialects, checked against types, functions and examples.

use baton_schema::{Others, Slip, check_keywords, object_schema, part_schema};
use baton_types::config::{Arguments, Example};
use baton_types::id::{AgentId, CallId};
use baton_types::json::Json;
use baton_types::path::DocumentPath;
use baton_types::schema::{Schema, SchemaFault};
use baton_types::tool_type::ToolType;
use serde_json::{Value, json};

use crate::fault::{Fault, FaultKind};
use crate::form::ToolForm;
use crate::loader::{Loader, place_of};
use crate::reader::{Spot, Text, pointer};
use crate::shape::{show, type_of};
use crate::tool::Texts;

impl<'s> Loader<'s> {
    pub(super) fn input_schema(&mut self, form: &ToolForm, texts: &Texts<'_, 's>) -> Option<(Value, Schema)> {
        match (&form.parameters, &form.input_schema) {
            (Some(parameters), _) => {
                let before = self.faults.len();
                for (name, parameter) in parameters {
                    let place = pointer(&["parameters", name]);
                    if !is_name(name) {
                        let message = format!("parameter {} has a name that is not allowed", show(&json!(name)));
                        let fault = texts.fault(FaultKind::OutOfRange, &place, Spot::Key, message);
                        self.faults.push(fault.expected("letters, digits, _ and -, at most 64"));
                    }
                    check_part(texts.text("/parameters"), parameter, &place, &mut self.faults);
                }
                (self.faults.len() == before).then(|| {
                    let schema = object_schema(parameters, Others::Refused);
                    let derived = baton_schema::derived(&schema);
                    (schema, derived)
                })
            }
            (None, Some(schema)) => {
                let schema = Value::Object(schema.clone());
                let before = self.faults.len();
                let name = schema.get("type");
                // A name that is no type is a fault of the schema itself.
                if name.is_none_or(|name| name != "object" && name.as_str().is_none_or(baton_schema::is_type_name)) {
                    let message = "the schema of an input must be that of an object";
                    let fault = texts.fault(FaultKind::BadSchema, "/input_schema/type", Spot::Value, message);
                    self.faults.push(fault.expected("\"type\": \"object\""));
                }
                let compiled = self.compile(&schema, "/input_schema", texts.text("/input_schema"));
                compiled.filter(|_| self.faults.len() == before).map(|compiled| (schema, compiled))
            }
            (None, None) => {
                let message = "key \"parameters\" is missing";
                let fault = texts.fault(FaultKind::MissingKey, "/parameters", Spot::Key, message);
                self.faults.push(fault.expected("\"parameters\" or \"input_schema\""));
                None
            }
        }
    }

    pub(super) fn output_schema(&mut self, form: &ToolForm, texts: &Texts<'_, 's>) -> Option<(Value, Schema)> {
        match (&form.returns, &form.output_schema) {
            (Some(returns), _) => {
                let before = self.faults.len();
                for (name, part) in returns {
                    check_part(texts.text("/returns"), part, &pointer(&["returns", name]), &mut self.faults);
                }
                (self.faults.len() == before).then(|| {
                    let schema = object_schema(returns, Others::Allowed);
                    let derived = baton_schema::derived(&schema);
                    (schema, derived)
                })
            }
            (None, Some(schema)) => {
                let schema = Value::Object(schema.clone());
                let compiled = self.compile(&schema, "/output_schema", texts.text("/output_schema"))?;
                Some((schema, compiled))
            }
            (None, None) => None,
        }
    }

    /// Compiles a schema that a person wrote at `place`.
    pub(crate) fn compile(&mut self, schema: &Value, place: &str, text: &Text<'s>) -> Option<Schema> {
        let slips = check_keywords(schema);
        for slip in &slips {
            let (kind, spot) = match slip.kind {
                Slip::UnknownKeyword => (FaultKind::UnknownKey, Spot::Key),
                Slip::UndescribedKey => (FaultKind::BadSchema, Spot::Value),
                Slip::BrokenDefault => (FaultKind::BrokenExample, Spot::Value),
            };
            let mut fault = text.fault(kind, &format!("{place}{}", slip.pointer), spot, slip.message.as_str());
            fault.nearest.clone_from(&slip.nearest);
            self.faults.push(fault);
        }
        match baton_schema::read(schema) {
            Ok(compiled) => slips.is_empty().then_some(compiled),
            Err(faults) => {
                for wrong in faults {
                    let place = format!("{place}{}", wrong.pointer);
                    self.faults.push(text.fault(FaultKind::BadSchema, &place, Spot::Value, wrong.message));
                }
                None
            }
        }
    }

    /// Reports inputs that are missing for this type of tool.
    pub(super) fn check_type_inputs(&mut self, tool_type: ToolType, schema: &Value, short: bool, texts: &Texts<'_, 's>) {
        let needed: &[(&str, Option<&str>, bool)] = match tool_type {
            ToolType::AgentAsTool => &[("request", Some("string"), true), ("documents", Some("array"), false)],
            ToolType::AskMaster => &[("question", Some("string"), true)],
            ToolType::Handoff => &[("result", None, true)],
            ToolType::FunctionTool | ToolType::NonFunctionTool | ToolType::Root => &[],
        };
        let mut wrong = |name: &str, kind: FaultKind, message: String| {
            let place = if short { pointer(&["parameters", name]) } else { pointer(&["input_schema", "properties", name]) };
            self.faults.push(texts.fault(kind, &place, Spot::Key, message));
        };
        let given = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
        for (name, kind, required) in needed {
            let Some(parameter) = given(name) else {
                wrong(name, FaultKind::MissingInput, format!("a tool of type {tool_type} needs the input \"{name}\""));
                continue;
            };
            if let Some(kind) = kind
                && parameter.get("type").is_none_or(|name| name != kind)
            {
                wrong(
                    name,
                    FaultKind::MissingInput,
                    format!("the input \"{name}\" of a tool of type {tool_type} must be of type {kind}"),
                );
            }
            let is_required =
                schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|each| each == name));
            if *required && !is_required {
                wrong(
                    name,
                    FaultKind::MissingInput,
                    format!("the input \"{name}\" of a tool of type {tool_type} must be required"),
                );
            }
        }
        if tool_type.behavior().passes_documents
            && let Some(documents) = given("documents")
        {
            let lists_paths = documents["type"] == "array" && documents["items"]["type"] == "string";
            if !lists_paths {
                let message = format!("the input \"documents\" of a tool of type {tool_type} must be an array of strings: paths");
                wrong("documents", FaultKind::MissingInput, message);
            }
        }
    }

    pub(super) fn check_signature(
        &mut self,
        function: &baton_tool::ToolFunction,
        schema: &Value,
        short: bool,
        texts: &Texts<'_, 's>,
    ) {
        for mismatch in super::signature::compare(schema, &(function.parameters)(), function.name) {
            let place = match mismatch.pointer.strip_prefix("/properties") {
                Some(rest) if short => format!("/parameters{rest}"),
                _ => format!("/input_schema{}", mismatch.pointer),
            };
            let mut fault = texts.fault(mismatch.kind, &place, mismatch.spot, mismatch.message).note(place_of(function));
            fault.expected = mismatch.expected;
            fault.found = mismatch.found;
            fault.nearest = mismatch.nearest;
            self.faults.push(fault);
        }
    }

    pub(super) fn examples(
        &mut self,
        form: &ToolForm,
        input: Option<(&Schema, &Arguments)>,
        output: Option<Value>,
        texts: &Texts<'_, 's>,
    ) -> Vec<Example> {
        // An example shows a part of an output, so nothing is required; but it shows no key that is not declared.
        let partial = output.map(|mut schema| {
            if let Some(object) = schema.as_object_mut() {
                object.shift_remove("required");
                if form.returns.is_some() {
                    object.insert("additionalProperties".to_owned(), json!(false));
                }
            }
            schema
        });
        let mut examples = Vec::with_capacity(form.examples.len());
        for (index, example) in form.examples.iter().enumerate() {
            let place = pointer(&["examples", &index.to_string()]);
            let mut tell = |faults: Vec<SchemaFault>, key: &str| {
                for wrong in faults {
                    let message = format!("the example's {key} breaks the tool's schema: {}", wrong.message);
                    let place = format!("{place}/{key}{}", wrong.pointer);
                    self.faults.push(texts.fault(FaultKind::BrokenExample, &place, Spot::Value, message));
                }
            };
            if let Some(Err(faults)) = input.map(|(schema, arguments)| {
                let input = Json::from(&example.input);
                schema.check(&arguments.applied_to(&input, &AgentId::from("agent"), &CallId::from("0/1.1")).value())
            }) {
                tell(faults, "input");
            }
            if let (Some(schema), Some(output)) = (&partial, &example.output) {
                tell(baton_schema::judge(schema, output), "output");
            }
            for path in example.documents.keys() {
                if let Err(error) = DocumentPath::parse(path) {
                    let place = format!("{place}{}", pointer(&["documents", path]));
                    self.faults.push(texts.fault(FaultKind::BadPath, &place, Spot::Key, error.to_string()));
                }
            }
            examples.push(Example {
                explanation: example.explanation.clone(),
                input: example.input.clone(),
                output: example.output.clone(),
                documents: example.documents.clone(),
                answers: example.answers.clone(),
                runs: example.run.unwrap_or(true),
            });
        }
        examples
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    name.len() <= 64
        && characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|each| each.is_ascii_alphanumeric() || each == '_' || each == '-')
}

/// Reports keys of a part that do not match its type, and values that break it.
pub(crate) fn check_part(text: &Text<'_>, part: &Value, place: &str, faults: &mut Vec<Fault>) {
    let Some(keys) = part.as_object() else { return };
    let kind = keys.get("type").and_then(Value::as_str).unwrap_or_default();
    for (key, fitting) in [
        ("items", &["array"][..]),
        ("properties", &["object"]),
        ("minimum", &["integer", "number"]),
        ("maximum", &["integer", "number"]),
    ] {
        if keys.contains_key(key) && !fitting.contains(&kind) {
            let message = format!("\"{key}\" cannot be used with type {kind}");
            let fault = text.fault(FaultKind::MisplacedKey, &format!("{place}/{key}"), Spot::Key, message);
            faults.push(fault.expected(format!("type {}", fitting.join(" or "))));
        }
    }
    for (index, value) in keys.get("enum").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let found = type_of(value);
        if found != kind && !(kind == "number" && found == "integer") && kind != "any" {
            let message = format!("{} is allowed here, but it is not of type {kind}", show(value));
            faults.push(text.fault(FaultKind::BrokenExample, &format!("{place}/enum/{index}"), Spot::Value, message));
        }
    }
    if let Some(default) = keys.get("default") {
        for wrong in baton_schema::judge(&part_schema(part, Others::Refused), default) {
            let message = format!("the default does not match its parameter's schema: {}", wrong.message);
            let place = format!("{place}/default{}", wrong.pointer);
            faults.push(text.fault(FaultKind::BrokenExample, &place, Spot::Value, message));
        }
    }
    if let Some(items) = keys.get("items") {
        check_part(text, items, &format!("{place}/items"), faults);
    }
    for (name, property) in keys.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_part(text, property, &format!("{place}{}", pointer(&["properties", name])), faults);
    }
}
