//! Tools that were written for other systems: MCP's `tools/list`, functions of `OpenAI`, operations of `OpenAPI`.
//!
//! Their schemas come in several dialects. Each is rewritten as a JSON Schema that Baton accepts, and every change is
//! reported. Nothing is fetched, and no tool is run.

use baton_types::id::MAX_ID_LENGTH;
use serde_json::{Map, Value, json};

use crate::normal::{Change, Normalizer};

/// Largest number of tools whose names become the same id.
const MAX_SAME_NAME: usize = 10_000;

/// A tool of another system.
#[derive(Debug)]
pub struct ForeignTool {
    /// Its name there.
    pub name: String,
    /// An id of the same meaning: small letters and digits in words joined by `_` or `-`.
    pub id: String,
    /// A short name for people.
    pub title: Option<String>,
    /// Its purpose.
    pub description: String,
    /// The schema of its input.
    pub input: Value,
    /// The schema of its output.
    pub output: Option<Value>,
    /// Everything that is different from the original.
    pub changes: Vec<Change>,
}

/// Reads the tools of `document`; the error names the forms that are known.
pub fn foreign_tools(document: &Value) -> Result<Vec<ForeignTool>, String> {
    let mut tools = if document.get("paths").is_some_and(Value::is_object) {
        operations(document)
    } else {
        let result = document.get("result").unwrap_or(document);
        let listed = [result.get("tools"), result.get("functions"), Some(result)].into_iter().flatten().find_map(Value::as_array);
        let single = std::slice::from_ref(result);
        let listed = listed.map_or(single, Vec::as_slice);
        listed.iter().filter_map(|tool| definition(tool, document)).collect()
    };
    if tools.is_empty() {
        return Err(
            "no tool was found; known forms are the answer of MCP's tools/list, a list of OpenAI functions, and an OpenAPI \
                    description with paths"
                .to_owned(),
        );
    }
    let mut taken: Vec<String> = Vec::new();
    for tool in &mut tools {
        let base = id_of(&tool.name);
        let numbered = (2..MAX_SAME_NAME).map(|number| {
            let end = format!("_{number}");
            format!("{}{end}", &base[..base.len().min(MAX_ID_LENGTH - end.len())])
        });
        let id = std::iter::once(base.clone()).chain(numbered).find(|id| !taken.contains(id)).unwrap_or(base);
        if id != tool.name {
            tool.changes.insert(0, Change::new("", format!("its name {:?} became the id {id:?}", tool.name)));
        }
        taken.push(id.clone());
        tool.id = id;
    }
    Ok(tools)
}

/// Returns the definition of one tool in the form of MCP, `OpenAI` or Anthropic.
fn definition(tool: &Value, document: &Value) -> Option<ForeignTool> {
    let inner = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
    let name = inner.get("name")?.as_str()?.to_owned();
    let keys = ["inputSchema", "input_schema", "parameters"];
    let none = json!({"type": "object", "properties": {}});
    let input = keys.iter().find_map(|key| inner.get(*key)).filter(|schema| schema.is_object()).unwrap_or(&none);
    let output = ["outputSchema", "output_schema"].iter().find_map(|key| inner.get(*key)).filter(|schema| schema.is_object());
    let text = |key: &str| inner.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let title = text("title").or_else(|| inner.pointer("/annotations/title").and_then(Value::as_str).map(str::to_owned));
    let description = text("description");
    Some(tool_of(name, title, description, input, output, document))
}

fn tool_of(
    name: String,
    title: Option<String>,
    description: Option<String>,
    input: &Value,
    output: Option<&Value>,
    document: &Value,
) -> ForeignTool {
    let mut normalizer = Normalizer::new(document);
    let input = normalizer.input(input);
    let mut changes = normalizer.changes;
    let output = output.map(|output| {
        let mut normalizer = Normalizer::new(document);
        let output = normalizer.whole(output);
        let moved = normalizer.changes.into_iter();
        changes.extend(moved.map(|change| Change { pointer: format!("output {}", change.pointer), ..change }));
        output
    });
    let description = description.unwrap_or_else(|| {
        changes.push(Change::new("", "it has no description: its name is used"));
        name.clone()
    });
    ForeignTool { id: String::new(), name, title, description, input, output, changes }
}

/// Returns the operations of an `OpenAPI` description.
fn operations(document: &Value) -> Vec<ForeignTool> {
    let mut tools = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for method in ["get", "put", "post", "delete", "patch"] {
            let Some(operation) = item.get(method).filter(|operation| operation.is_object()) else { continue };
            let text = |key: &str| operation.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            let name = text("operationId").map_or_else(|| format!("{method} {path}"), str::to_owned);
            let request = format!("{} {path}", method.to_uppercase());
            let described: Vec<&str> = [text("summary"), text("description")].into_iter().flatten().collect();
            let description = format!("{}{}({request})", described.join("\n\n"), if described.is_empty() { "" } else { " " });
            let (mut properties, mut required) = (Map::new(), Vec::new());
            let own = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
            let shared = item.get("parameters").and_then(Value::as_array).into_iter().flatten();
            for parameter in own.chain(shared) {
                let parameter = resolved(parameter, document);
                let Some(name) = parameter["name"].as_str().filter(|name| !properties.contains_key(*name)) else { continue };
                let mut schema = parameter.get("schema").cloned().unwrap_or_else(|| own_schema(parameter));
                if let (Some(keywords), Some(text)) = (schema.as_object_mut(), parameter["description"].as_str()) {
                    keywords.entry("description").or_insert_with(|| text.into());
                }
                if parameter["required"] == true || parameter["in"] == "path" {
                    required.push(name.to_owned());
                }
                properties.insert(name.to_owned(), schema);
            }
            if let Some(body) = operation.get("requestBody").map(|body| resolved(body, document)) {
                let content = body["content"].as_object();
                let schema = content.and_then(|content| content.get("application/json").or_else(|| content.values().next()));
                if let Some(schema) = schema.and_then(|media| media.get("schema")) {
                    let name = if properties.contains_key("body") { "request_body" } else { "body" };
                    properties.insert(name.to_owned(), schema.clone());
                    if body["required"] == true {
                        required.push(name.to_owned());
                    }
                }
            }
            let input = json!({"type": "object", "properties": properties, "required": required});
            tools.push(tool_of(name, text("summary").map(str::to_owned), Some(description), &input, None, document));
        }
    }
    tools
}

/// Returns the target of a reference to another place of the document, or the part itself.
fn resolved<'d>(part: &'d Value, document: &'d Value) -> &'d Value {
    let target = part.get("$ref").and_then(Value::as_str).and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(part)
}

/// Returns the schema of a parameter of `OpenAPI` 2, which has its keywords beside the name.
fn own_schema(parameter: &Value) -> Value {
    let keys = ["type", "items", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern", "format"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), parameter.get(*key)?.clone()))).collect::<Map<_, _>>().into()
}

/// Returns the id that a foreign name becomes: `sendMessage` is `send_message`, `repo.list` is `repo_list`.
fn id_of(name: &str) -> String {
    let mut id = String::new();
    let mut before = ' ';
    for each in name.chars() {
        if each.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            id.push('_');
        }
        match each {
            each if each.is_ascii_alphanumeric() => id.push(each.to_ascii_lowercase()),
            '-' if !id.ends_with(['_', '-']) => id.push('-'),
            _ if !id.ends_with(['_', '-']) => id.push('_'),
            _ => {}
        }
        before = each;
    }
    let mut id = id.trim_matches(['_', '-']).to_owned();
    if !id.starts_with(|first: char| first.is_ascii_lowercase()) {
        id.insert_str(0, if id.is_empty() { "tool" } else { "tool_" });
    }
    id.truncate(MAX_ID_LENGTH);
    id.trim_end_matches(['_', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check_keywords, read};

    #[track_caller]
    fn imported(document: Value) -> Vec<ForeignTool> {
        let tools = foreign_tools(&document).unwrap_or_else(|error| panic!("{error}"));
        for tool in &tools {
            assert_eq!(read(&tool.input).err(), None, "{}", tool.input);
            assert_eq!(check_keywords(&tool.input), [], "{}", tool.input);
            assert_eq!(tool.input["type"], "object");
        }
        tools
    }

    fn told(tool: &ForeignTool) -> Vec<String> {
        tool.changes.iter().map(|change| format!("{} {}", change.pointer, change.message)).collect()
    }

    #[test]
    fn the_answer_of_tools_list_is_read_and_a_sound_tool_is_not_changed() {
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
        let document = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [
            {"name": "search", "title": "Search", "description": "Searches.", "inputSchema": schema, "outputSchema": {"type": "object"}}
        ]}});
        let tools = imported(document);
        let tool = &tools[0];
        assert_eq!((tool.id.as_str(), tool.title.as_deref(), tool.description.as_str()), ("search", Some("Search"), "Searches."));
        assert_eq!((&tool.input, &tool.output, told(tool).len()), (&schema, &Some(json!({"type": "object"})), 0));
    }

    #[test]
    fn dialects_are_normalized_and_every_change_is_reported() {
        let document = json!([{"type": "function", "function": {"name": "geo.findPlace", "description": "Finds.", "parameters": {
            "type": "dict",
            "properties": {
                "lat": {"type": "float", "required": true},
                "kind": {"type": "string", "nullable": true, "enum": ["a", "b"]},
                "n": {"type": "integer", "default": "many"},
                "x": {"type": "any", "example": 1},
                "code": {"type": "string", "pattern": "^(?=.*[0-9]).+$"},
                "pair": {"type": "tuple", "items": [{"type": "int"}, {"type": "str"}]},
                "above": {"type": "number", "minimum": 1, "exclusiveMinimum": true}
            },
            "required": ["kind", "gone"]
        }}}]);
        let tools = imported(document);
        assert_eq!(
            tools[0].input,
            json!({
                "type": "object",
                "properties": {
                    "lat": {"type": "number"},
                    "kind": {"type": ["string", "null"], "enum": ["a", "b", null]},
                    "n": {"type": "integer"},
                    "x": {"examples": [1]},
                    "code": {"type": "string", "x-pattern": "^(?=.*[0-9]).+$"},
                    "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
                    "above": {"type": "number", "exclusiveMinimum": 1}
                },
                "required": ["kind", "lat"]
            })
        );
        let told = told(&tools[0]);
        for expected in [
            " its name \"geo.findPlace\" became the id \"geo_find_place\"",
            "/type type \"dict\" became \"object\"",
            "/properties/lat/type type \"float\" became \"number\"",
            "/properties/kind/nullable \"nullable\" became the type null",
            "/properties/x/type type \"any\" was removed: any value is accepted",
            "/properties/x/example \"example\" became \"examples\"",
            "/properties/pair/items a list of \"items\" became \"prefixItems\"",
            "/properties/above/exclusiveMinimum \"exclusiveMinimum\": true became the bound 1",
        ] {
            assert!(told.iter().any(|line| line == expected), "{expected} is not in {told:#?}");
        }
        for beginning in [
            "/properties/n/default removed: the default breaks",
            "/properties/code/pattern kept as \"x-pattern\"",
            "/required/1 removed: \"gone\" is required",
        ] {
            assert!(told.iter().any(|line| line.starts_with(beginning)), "{beginning} is not in {told:#?}");
        }
    }

    #[test]
    fn operations_become_tools_with_the_schemas_that_they_refer_to() {
        let document = json!({"openapi": "3.0.3", "components": {
            "schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Pet"}},
                "required": ["name"], "discriminator": {"propertyName": "name"}}},
            "parameters": {"Id": {"name": "petId", "in": "path", "schema": {"type": "integer"}}}
        }, "paths": {"/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "put": {"operationId": "updatePet", "summary": "Updates a pet.", "requestBody": {"required": true, "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
            "get": {"description": "One pet."}
        }}});
        let tools = imported(document);
        let ids: Vec<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
        assert_eq!(ids, ["get_pets_pet_id", "update_pet"]);
        assert_eq!(
            tools[1].input,
            json!({"type": "object", "properties": {"petId": {"type": "integer"}, "body": {"$ref": "#/$defs/Pet"}},
            "required": ["petId", "body"], "$defs": {"Pet": {"type": "object", "properties": {"name": {"type": "string"},
                "parent": {"$ref": "#/$defs/Pet"}}, "required": ["name"], "x-discriminator": {"propertyName": "name"}}}})
        );
        assert_eq!(tools[1].description, "Updates a pet. (PUT /pets/{petId})");
    }

    #[test]
    fn names_become_ids_that_are_unique() {
        for (name, id) in [
            ("sendMessage", "send_message"),
            ("mcp__gh__list", "mcp_gh_list"),
            ("Summarize Detection", "summarize_detection"),
            ("3d", "tool_3d"),
            ("a-b", "a-b"),
            ("é", "tool"),
        ] {
            assert_eq!(id_of(name), id);
            assert!(baton_types::id::is_valid_id(id), "{id}");
        }
        let twice = json!([{"name": "aB", "description": "d"}, {"name": "a_b", "description": "d"}]);
        let ids: Vec<String> = imported(twice).into_iter().map(|tool| tool.id).collect();
        assert_eq!(ids, ["a_b", "a_b_2"]);
        assert!(foreign_tools(&json!({"a": 1})).unwrap_err().contains("tools/list"));
    }
}
