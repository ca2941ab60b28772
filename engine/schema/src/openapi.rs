//! Operations of an `OpenAPI` description as tools: parameters and body become the input, the successful response the output.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::foreign_tool::{ForeignTools, not_used, tool_of};
use crate::normal::Change;
use crate::pointer::below;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "patch", "options", "head", "trace"];

/// Methods whose operations are asked for and not for data.
const WITHOUT_DATA: [&str; 3] = ["options", "head", "trace"];

/// Parts of a description that are used. `openapi`, `swagger` and `info` say what the description is.
const USED_OF_DOCUMENT: [&str; 6] = ["openapi", "swagger", "info", "paths", "components", "definitions"];

/// Parts of an operation that are used.
const USED_OF_OPERATION: [&str; 6] = ["operationId", "summary", "description", "parameters", "requestBody", "responses"];

/// Parts of a parameter that are used. Those of `OpenAPI` 2 have the keywords of a schema, too.
const USED_OF_PARAMETER: [&str; 6] = ["name", "in", "description", "required", "schema", "content"];

/// Keywords of a parameter of `OpenAPI` 2.
const KEYWORDS: [&str; 14] = [
    "type",
    "items",
    "enum",
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "format",
];

/// Headers that are not parameters, even if a description lists them
/// (<https://spec.openapis.org/oas/v3.1.0#parameter-object>).
const OTHER_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// Reads the operations of `document`.
pub(crate) fn read(document: &Value, foreign: &mut ForeignTools) {
    let unused = |at: &str| Change::new(at, "this was not used: a tool config has no place for it");
    for (key, _) in document.as_object().into_iter().flatten() {
        if !USED_OF_DOCUMENT.contains(&key.as_str()) && !key.starts_with("x-") {
            foreign.unused.push(unused(&below("", key)));
        }
    }
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let at = below("/paths", path);
        let item = match resolved(item, document) {
            Ok(item) => item,
            Err(target) => {
                let message = format!("{target:?} is not a part of this document: its operations are missing");
                foreign.unused.push(Change::new(&at, message));
                continue;
            }
        };
        for (key, operation) in item.as_object().into_iter().flatten() {
            let place = below(&at, key);
            match key.as_str() {
                method if WITHOUT_DATA.contains(&method) => {
                    foreign.unused.push(Change::new(&place, format!("operations of {method:?} are not imported as tools")));
                }
                method if METHODS.contains(&method) && !operation.is_object() => {
                    foreign.unused.push(Change::new(&place, "this is not an operation"));
                }
                "parameters" | "$ref" => {}
                key if METHODS.contains(&key) || key.starts_with("x-") => {}
                _ => foreign.unused.push(unused(&place)),
            }
        }
        for method in METHODS.iter().filter(|method| !WITHOUT_DATA.contains(method)) {
            let Some(operation) = item.get(*method).filter(|operation| operation.is_object()) else { continue };
            let mut reader = Reader { document, inputs: Inputs::default(), changes: Vec::new() };
            reader.inputs(operation, item);
            let output = reader.output(operation);
            let Reader { inputs: Inputs { properties, required, .. }, mut changes, .. } = reader;
            let unused = operation.as_object().into_iter().flatten().map(|(key, _)| key);
            let unused = unused.filter(|key| !USED_OF_OPERATION.contains(&key.as_str()) && !key.starts_with("x-"));
            changes.extend(unused.map(|key| not_used(key)));
            let text = |key: &str| operation.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            let name = text("operationId").map_or_else(|| format!("{method} {path}"), str::to_owned);
            let request = format!("{} {path}", method.to_uppercase());
            let described: Vec<&str> = [text("summary"), text("description")].into_iter().flatten().collect();
            let description = format!("{}{}({request})", described.join("\n\n"), if described.is_empty() { "" } else { " " });
            let input = json!({"type": "object", "properties": properties, "required": required});
            let title = text("summary").map(str::to_owned);
            let mut tool = tool_of(name, title, Some(description), &input, output.as_ref(), document);
            tool.changes.append(&mut changes);
            foreign.tools.push(tool);
        }
    }
}

/// Reads one operation.
struct Reader<'d> {
    document: &'d Value,
    inputs: Inputs,
    changes: Vec<Change>,
}

/// The properties of an input.
#[derive(Default)]
struct Inputs {
    properties: Map<String, Value>,
    required: Vec<String>,
    /// The parameters so far: their names and the parts of the request that they are in.
    known: HashSet<(String, String)>,
}

impl Inputs {
    /// Adds a property that is called `name`, or like it if there is one of that name. Returns its name.
    fn add(&mut self, name: &str, place: &str, schema: Value, is_required: bool) -> String {
        let mut own = name.to_owned();
        let mut number = 1;
        while self.properties.contains_key(&own) {
            own = if number == 1 { format!("{place}_{name}") } else { format!("{place}_{name}_{number}") };
            number += 1;
        }
        if is_required {
            self.required.push(own.clone());
        }
        self.properties.insert(own.clone(), schema);
        own
    }
}

impl<'d> Reader<'d> {
    fn change(&mut self, message: impl Into<String>) {
        self.changes.push(Change::new("", message));
    }

    /// Returns the target of a reference to another place of the document, or the part itself. Reports other references.
    fn resolved(&mut self, part: &'d Value) -> Option<&'d Value> {
        resolved(part, self.document)
            .inspect_err(|target| {
                self.changes.push(Change::new("", format!("{target:?} is not a part of this document: it was not used")));
            })
            .ok()
    }

    /// Reads the parameters and the body of `operation`. Its own parameters replace those of the path `item`.
    fn inputs(&mut self, operation: &'d Value, item: &'d Value) {
        let listed = |of: &'d Value| of.get("parameters").and_then(Value::as_array).into_iter().flatten();
        for parameter in listed(operation).chain(listed(item)) {
            if let Some(parameter) = self.resolved(parameter) {
                self.parameter(parameter);
            }
        }
        if let Some(body) = operation.get("requestBody").and_then(|body| self.resolved(body)) {
            self.body(body);
        }
    }

    fn parameter(&mut self, parameter: &'d Value) {
        let (Some(name), place) = (parameter["name"].as_str(), parameter["in"].as_str().unwrap_or("query")) else {
            self.change("a parameter without a name was not used");
            return;
        };
        if !self.inputs.known.insert((name.to_owned(), place.to_owned())) {
            return;
        }
        if place == "header" && OTHER_HEADERS.contains(&name.to_lowercase().as_str()) {
            self.change(format!("the header {name:?} was not used: it is not a parameter"));
            return;
        }
        let of_content = parameter["content"].as_object().and_then(|content| content.values().next()?.get("schema"));
        let mut schema = parameter.get("schema").or(of_content).cloned().unwrap_or_else(|| own_schema(parameter));
        if let (Some(keywords), Some(text)) = (schema.as_object_mut(), parameter["description"].as_str()) {
            keywords.entry("description").or_insert_with(|| text.into());
        }
        let is_required = parameter["required"] == true || place == "path";
        let own = self.inputs.add(name, place, schema, is_required);
        if own != name {
            self.change(format!("the {place} parameter {name:?} became the property {own:?}: another parameter has its name"));
        }
        if matches!(place, "header" | "cookie") {
            self.change(format!("the {place} parameter {name:?} became the property {own:?}"));
        }
        let is_used = |key: &str| {
            USED_OF_PARAMETER.contains(&key)
                || key.starts_with("x-")
                || (parameter.get("schema").is_none() && KEYWORDS.contains(&key))
        };
        for (key, _) in parameter.as_object().into_iter().flatten().filter(|(key, _)| !is_used(key)) {
            self.change(format!("{key:?} of the {place} parameter {name:?} was not used"));
        }
    }

    fn body(&mut self, body: &'d Value) {
        let Some((media, schema)) = self.schema_of(body, "the request body") else {
            self.change("the request body was not used: it has no schema");
            return;
        };
        let mut schema = schema.clone();
        if let (Some(keywords), Some(text)) = (schema.as_object_mut(), body["description"].as_str()) {
            keywords.entry("description").or_insert_with(|| text.into());
        }
        let own = self.inputs.add("body", "request", schema, body["required"] == true);
        if own != "body" {
            self.change(format!("the request body became the property {own:?}: a parameter has the name \"body\""));
        }
        if !is_json(media) {
            self.change(format!("the request body is {media:?} and not JSON"));
        }
    }

    /// Returns the schema of the first successful response in JSON.
    fn output(&mut self, operation: &'d Value) -> Option<Value> {
        let responses = operation.get("responses")?.as_object()?;
        let mut chosen = None;
        let (mut others, mut statuses): (Vec<&str>, Vec<&String>) = (Vec::new(), responses.keys().collect());
        statuses.sort();
        for status in statuses.into_iter().filter(|status| !status.starts_with("x-")) {
            let is_success = status.len() == 3 && status.starts_with('2');
            let schema = if is_success && chosen.is_none() { self.response(&responses[status]) } else { None };
            match schema {
                Some(schema) => chosen = Some((status, schema)),
                None => others.push(status),
            }
        }
        if let Some((status, _)) = &chosen {
            self.change(format!("the response {status} became the schema of the output"));
        }
        if !others.is_empty() {
            self.change(format!("the responses {} were not used", others.join(", ")));
        }
        chosen.map(|(_, schema)| schema)
    }

    fn response(&mut self, response: &'d Value) -> Option<Value> {
        let response = self.resolved(response)?;
        if response.get("headers").is_some() {
            self.change("the headers of a response were not used");
        }
        // `OpenAPI` 2 has the schema beside the description.
        let (media, schema) = match response.get("schema") {
            Some(schema) => ("application/json", schema),
            None => self.schema_of(response, "a response")?,
        };
        is_json(media).then(|| schema.clone())
    }

    /// Returns the schema of a content, of JSON if there is one, and its media type. Reports the other types.
    fn schema_of(&mut self, part: &'d Value, what: &str) -> Option<(&'d str, &'d Value)> {
        let content = part.get("content")?.as_object()?;
        let (media, chosen) = content.iter().find(|(media, _)| is_json(media)).or_else(|| content.iter().next())?;
        for (other, _) in content.iter().filter(|(other, _)| *other != media) {
            self.change(format!("the form {other:?} of {what} was not used"));
        }
        Some((media, chosen.get("schema")?))
    }
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json") || media.ends_with("+json")
}

/// Returns the target of a reference to another place of the document, or the part itself; fails with a reference that leads
/// nowhere.
fn resolved<'d>(part: &'d Value, document: &'d Value) -> Result<&'d Value, &'d str> {
    let Some(target) = part.get("$ref").and_then(Value::as_str) else { return Ok(part) };
    target.strip_prefix('#').and_then(|pointer| document.pointer(pointer)).ok_or(target)
}

/// Returns the schema of a parameter of `OpenAPI` 2, which has its keywords beside the name.
fn own_schema(parameter: &Value) -> Value {
    KEYWORDS.iter().filter_map(|key| Some(((*key).to_owned(), parameter.get(*key)?.clone()))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign_tool::ForeignTool;

    /// Returns the only operation of a description, which is a POST of `/a`.
    #[track_caller]
    fn tool(mut operation: Value) -> ForeignTool {
        operation["description"] = json!("d");
        let mut foreign = ForeignTools::default();
        read(&json!({"paths": {"/a": {"post": operation}}}), &mut foreign);
        assert_eq!(foreign.unused, []);
        assert_eq!(foreign.tools.len(), 1);
        foreign.tools.remove(0)
    }

    fn told(changes: &[Change]) -> Vec<String> {
        changes.iter().map(|change| format!("{} {}", change.pointer, change.message)).collect()
    }

    #[test]
    fn every_part_of_a_description_that_becomes_no_tool_is_reported() {
        let document = json!({"swagger": "2.0", "info": {}, "x-own": 1, "host": "h", "definitions": {}, "paths": {
            "/a": {"get": 7, "summary": "s", "x-own": 1, "parameters": [], "trace": {}, "put": {"x-own": 1, "operationId": "putA", "tags": []}},
            "/b": {"$ref": "other.json"},
            "/c": {"$ref": "#/paths/~1a"}
        }});
        let mut foreign = ForeignTools::default();
        read(&document, &mut foreign);
        assert_eq!(
            told(&foreign.unused),
            [
                "/host this was not used: a tool config has no place for it",
                "/paths/~1a/get this is not an operation",
                "/paths/~1a/summary this was not used: a tool config has no place for it",
                "/paths/~1a/trace operations of \"trace\" are not imported as tools",
                "/paths/~1b \"other.json\" is not a part of this document: its operations are missing",
                "/paths/~1c/get this is not an operation",
                "/paths/~1c/summary this was not used: a tool config has no place for it",
                "/paths/~1c/trace operations of \"trace\" are not imported as tools",
            ]
        );
        let described: Vec<_> = foreign.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
        assert_eq!(described, [("putA", "(PUT /a)"), ("putA", "(PUT /c)")]);
        assert_eq!(told(&foreign.tools[0].changes), [" \"tags\" was not used: a tool config has no place for it"]);
    }

    #[test]
    fn parameters_become_properties_and_every_other_part_is_reported() {
        for (parameters, properties, required, changes) in [
            (
                json!([{"name": "q", "in": "query", "type": "integer", "minimum": 1, "description": "d", "x-own": 1, "collectionFormat": "csv"}]),
                json!({"q": {"type": "integer", "minimum": 1, "description": "d"}}),
                json!([]),
                vec![" \"collectionFormat\" of the query parameter \"q\" was not used"],
            ),
            (
                json!([{"name": "q", "required": true, "schema": {"type": "string", "description": "own"}, "type": "integer", "description": "d", "x-own": 1}]),
                json!({"q": {"type": "string", "description": "own"}}),
                json!(["q"]),
                vec![" \"type\" of the query parameter \"q\" was not used"],
            ),
            (
                json!([{"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}]),
                json!({"q": {"type": "object"}}),
                json!([]),
                vec![],
            ),
            (
                json!([{"in": "query"}, {"name": "c", "in": "cookie", "schema": {}}, {"name": "ACCEPT", "in": "header", "schema": {}}]),
                json!({"c": {}}),
                json!([]),
                vec![
                    " a parameter without a name was not used",
                    " the cookie parameter \"c\" became the property \"c\"",
                    " the header \"ACCEPT\" was not used: it is not a parameter",
                ],
            ),
            (
                json!([{"name": "n", "schema": {}}, {"name": "path_n", "schema": {}}, {"name": "path_n_2", "schema": {}},
                    {"name": "n", "in": "path", "schema": {"type": "string"}}, {"name": "n", "in": "query", "schema": false}]),
                json!({"n": {}, "path_n": {}, "path_n_2": {}, "path_n_3": {"type": "string"}}),
                json!(["path_n_3"]),
                vec![" the path parameter \"n\" became the property \"path_n_3\": another parameter has its name"],
            ),
        ] {
            let tool = tool(json!({"parameters": parameters}));
            assert_eq!(tool.input, json!({"type": "object", "properties": properties, "required": required}), "{parameters}");
            assert_eq!(told(&tool.changes), changes, "{parameters}");
        }
    }

    #[test]
    fn the_body_becomes_a_property_and_its_other_forms_are_reported() {
        let text = json!({"schema": {"type": "string"}});
        let json = json!({"schema": {"type": "object"}});
        for (body, name, expected, changes) in [
            (json!({"content": {"application/json": json}}), "body", json!({"type": "object"}), vec![]),
            (
                json!({"content": {"Application/JSON; charset=utf-8": json}, "description": "d"}),
                "body",
                json!({"type": "object", "description": "d"}),
                vec![],
            ),
            (json!({"content": {"application/merge-patch+json": json}}), "body", json!({"type": "object"}), vec![]),
            (
                json!({"content": {"text/plain": text}}),
                "body",
                json!({"type": "string"}),
                vec![" the request body is \"text/plain\" and not JSON"],
            ),
            (
                json!({"content": {"text/plain": text, "application/json": json, "text/xml": text}}),
                "body",
                json!({"type": "object"}),
                vec![
                    " the form \"text/plain\" of the request body was not used",
                    " the form \"text/xml\" of the request body was not used",
                ],
            ),
            (
                json!({"content": {"application/json": json}}),
                "request_body",
                json!({"type": "object"}),
                vec![" the request body became the property \"request_body\": a parameter has the name \"body\""],
            ),
        ] {
            let mut operation = json!({"requestBody": body});
            if name != "body" {
                operation["parameters"] = json!([{"name": "body", "in": "query", "schema": {}}]);
            }
            let tool = tool(operation);
            assert_eq!(tool.input["properties"][name], expected, "{body}");
            assert_eq!(told(&tool.changes), changes, "{body}");
        }
        let without = tool(json!({"requestBody": {"content": {}}}));
        assert_eq!(without.input["properties"], json!({}));
        assert_eq!(told(&without.changes), [" the request body was not used: it has no schema"]);
    }

    #[test]
    fn the_first_successful_response_in_json_becomes_the_output() {
        let content = |media: &str| json!({"content": {media: {"schema": {"type": "array"}}}});
        let chosen = |status: &str| format!(" the response {status} became the schema of the output");
        let unused = |statuses: &str| format!(" the responses {statuses} were not used");
        for (responses, has_output, changes) in [
            (json!({"200": content("application/json")}), true, vec![chosen("200")]),
            (json!({"2XX": content("application/json")}), true, vec![chosen("2XX")]),
            (json!({"404": content("application/json")}), false, vec![unused("404")]),
            (json!({"20": content("application/json")}), false, vec![unused("20")]),
            (json!({"200": content("text/plain")}), false, vec![unused("200")]),
            (
                json!({"201": content("application/json"), "200": content("text/plain"), "404": content("application/json")}),
                true,
                vec![chosen("201"), unused("200, 404")],
            ),
            (
                json!({"200": {"schema": {"type": "array"}, "headers": {}}, "x-own": {}, "default": {}}),
                true,
                vec![" the headers of a response were not used".to_owned(), chosen("200"), unused("default")],
            ),
        ] {
            let tool = tool(json!({"responses": responses}));
            assert_eq!(tool.output, has_output.then(|| json!({"type": "array"})), "{responses}");
            assert_eq!(told(&tool.changes), changes, "{responses}");
        }
    }
}
