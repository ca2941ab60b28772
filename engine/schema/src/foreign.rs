//! Tools that were written for other systems: MCP's `tools/list`, functions of `OpenAI`, operations of `OpenAPI`.
//!
//! Their schemas come in several dialects. Each is rewritten as a JSON Schema that Baton accepts. Every change is reported, and
//! so is every part of a definition that is not used. Nothing is fetched, and no tool is run.

use std::collections::HashMap;

use baton_types::id::{MAX_ID_LENGTH, ROUTE_PREFIX};
use baton_types::tool_type::ToolType;
use serde_json::{Value, json};

use crate::foreign_tool::{ForeignTool, ForeignTools, not_used, tool_of};
use crate::normal::Change;
use crate::openapi;

/// Parts of a tool's definition that are used, in the forms of MCP, `OpenAI` and Anthropic.
const USED: [&str; 10] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "input_schema",
    "parameters",
    "outputSchema",
    "output_schema",
    "annotations",
    "type",
];

/// Reads the tools of `document`; the error names the forms that are known. No tool gets an id that `is_taken`.
pub fn foreign_tools(document: &Value, is_taken: &dyn Fn(&str) -> bool) -> Result<ForeignTools, String> {
    let mut foreign = ForeignTools::default();
    if document.get("paths").is_some_and(Value::is_object) {
        openapi::read(document, &mut foreign);
    } else {
        read(document, &mut foreign);
    }
    if foreign.tools.is_empty() {
        return Err(
            "no tool was found; known forms are the answer of MCP's tools/list, a list of OpenAI functions, and an OpenAPI \
                    description with paths"
                .to_owned(),
        );
    }
    let mut names = Names { is_taken, used: HashMap::new(), numbers: HashMap::new() };
    for tool in &mut foreign.tools {
        names.give(tool);
    }
    Ok(foreign)
}

/// Reads a list of definitions, or a single one.
fn read(document: &Value, foreign: &mut ForeignTools) {
    let (at, result) = document.get("result").map_or(("", document), |result| ("/result", result));
    if result.get("nextCursor").is_some_and(Value::is_string) {
        foreign.unused.push(Change::new(&format!("{at}/nextCursor"), "the list has further pages: import them, too"));
    }
    let keys = ["tools", "functions"];
    let listed = keys.iter().find_map(|key| Some((format!("{at}/{key}"), result.get(*key)?.as_array()?)));
    let listed = listed.or_else(|| Some((at.to_owned(), result.as_array()?)));
    let Some((at, listed)) = listed else {
        foreign.tools.extend(definition(result, document));
        return;
    };
    for (index, tool) in listed.iter().enumerate() {
        match definition(tool, document) {
            Some(tool) => foreign.tools.push(tool),
            None => foreign.unused.push(Change::new(&format!("{at}/{index}"), "this is not a tool: it has no name")),
        }
    }
}

/// The ids and names that are taken.
struct Names<'t> {
    is_taken: &'t dyn Fn(&str) -> bool,
    /// Ids and names that models see, by the form in which they must differ.
    used: HashMap<String, Used>,
    /// The number to try next for an id that is taken.
    numbers: HashMap<String, usize>,
}

/// A use of a name.
enum Used {
    /// It is the id of a tool.
    Id(String),
    /// Models see it as the name of a tool.
    Name(String),
}

impl Names<'_> {
    /// Gives `tool` an id and a name for models that no other tool has.
    fn give(&mut self, tool: &mut ForeignTool) {
        let mut base = id_of(&tool.name);
        if base.starts_with(ROUTE_PREFIX) {
            tool.changes.push(Change::new("", format!("ids that begin with {ROUTE_PREFIX:?} belong to agents")));
            base.insert_str(0, "tool_");
            base.truncate(MAX_ID_LENGTH);
            base.truncate(base.trim_end_matches(['_', '-']).len());
        }
        let mut id = base.clone();
        while let Some(reason) = self.reason_against(&id) {
            let number = self.numbers.entry(base.clone()).and_modify(|number| *number += 1).or_insert(2);
            let end = format!("_{number}");
            if id == base {
                tool.changes.push(Change::new("", reason));
            }
            id = format!("{}{end}", base[..base.len().min(MAX_ID_LENGTH - end.len())].trim_end_matches(['_', '-']));
        }
        self.used.insert(twin(&id), Used::Id(id.clone()));
        let shown = plain(&tool.name);
        let is_own = twin(&shown) == twin(&id) || !self.is_used(&shown);
        tool.wire_name = (!shown.is_empty() && shown != id && is_own).then_some(shown);
        if let Some(shown) = &tool.wire_name {
            self.used.entry(twin(shown)).or_insert_with(|| Used::Name(shown.clone()));
        }
        if id != tool.name {
            let seen = tool.wire_name.as_ref().map_or(String::new(), |name| format!(", and models see {name:?}"));
            tool.changes.insert(0, Change::new("", format!("its name {:?} became the id {id:?}{seen}", tool.name)));
        }
        tool.id = id;
    }

    fn is_used(&self, name: &str) -> bool {
        self.used.contains_key(&twin(name))
            || (self.is_taken)(name)
            || name.starts_with(ROUTE_PREFIX)
            || name == ToolType::Root.as_str()
    }

    /// Returns the reason why no tool can have this id.
    fn reason_against(&self, id: &str) -> Option<String> {
        match self.used.get(&twin(id)) {
            Some(Used::Id(other)) => return Some(format!("another tool of the document has the id {other:?}")),
            Some(Used::Name(other)) => return Some(format!("models see another tool of the document as {other:?}")),
            None => {}
        }
        if (self.is_taken)(id) {
            return Some(format!("{id:?} is a tool of the program or of the project"));
        }
        (id == ToolType::Root.as_str()).then(|| format!("{id:?} is a name of the engine"))
    }
}

/// Returns `name` in a normal form: the names of two tools clash if their normal forms are equal.
fn twin(name: &str) -> String {
    name.replace('-', "_").to_lowercase()
}

/// Returns the definition of one tool in the form of MCP, `OpenAI` or Anthropic.
fn definition(tool: &Value, document: &Value) -> Option<ForeignTool> {
    let inner = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
    let name = inner.get("name")?.as_str().filter(|name| !name.trim().is_empty())?.to_owned();
    let mut unused = Vec::new();
    let outer = tool.as_object().filter(|_| !std::ptr::eq(inner, tool));
    let outer = outer.into_iter().flatten().filter(|(key, _)| *key != "function");
    for (key, _) in inner.as_object().into_iter().flatten().chain(outer) {
        if !USED.contains(&key.as_str()) {
            unused.push(not_used(key));
        }
    }
    for (key, _) in inner.get("annotations").and_then(Value::as_object).into_iter().flatten().filter(|(key, _)| *key != "title") {
        unused.push(Change::new("", format!("the hint {key:?} was not used: a config sets the effect of a tool by \"effect\"")));
    }
    let none = json!({"type": "object", "properties": {}});
    let given = ["inputSchema", "input_schema", "parameters"].iter().find_map(|key| inner.get(*key));
    let input = given.filter(|schema| schema.is_object()).unwrap_or_else(|| {
        let message = if given.is_some() { "its input is not a schema" } else { "it declares no input" };
        unused.push(Change::new("", format!("{message}: it takes an empty object")));
        &none
    });
    let given = ["outputSchema", "output_schema"].iter().find_map(|key| inner.get(*key));
    let output = given.filter(|schema| schema.is_object());
    if given.is_some() && output.is_none() {
        unused.push(Change::new("", "its output is not a schema: it was not used"));
    }
    let text = |key: &str| inner.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let title = text("title").or_else(|| inner.pointer("/annotations/title").and_then(Value::as_str).map(str::to_owned));
    let description = text("description");
    let mut tool = tool_of(name, title, description, input, output, document);
    tool.changes.extend(unused);
    Some(tool)
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

/// Returns `name` in the characters and the length that providers accept for a tool.
fn plain(name: &str) -> String {
    let is_plain = |each: &char| each.is_ascii_alphanumeric() || matches!(each, '_' | '-');
    let plain = name.chars().map(|each| if is_plain(&each) { each } else { '_' }).take(MAX_ID_LENGTH);
    plain.collect::<String>().trim_start_matches(|first: char| !first.is_ascii_alphabetic()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check_keywords, read};

    #[track_caller]
    fn imported(document: Value) -> Vec<ForeignTool> {
        let tools =
            foreign_tools(&document, &|id| id.eq_ignore_ascii_case("echo")).unwrap_or_else(|error| panic!("{error}")).tools;
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
            " its name \"geo.findPlace\" became the id \"geo_find_place\", and models see \"geo_findPlace\"",
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
            "/properties/n/default removed: the default does not match its schema",
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
    fn names_become_ids_that_are_unique_and_models_see_a_name_like_the_original() {
        for (name, id) in [
            ("sendMessage", "send_message"),
            ("mcp__gh__list", "mcp_gh_list"),
            ("Summarize Detection", "summarize_detection"),
            ("3d", "tool_3d"),
            ("a-b", "a-b"),
            ("a--b", "a-b"),
            ("a_-b", "a_b"),
            ("a-_b", "a-b"),
            ("--rm", "rm"),
            ("é", "tool"),
            (&"ö.".repeat(100), "tool"),
            (&format!("{}.b", "a".repeat(63)), &"a".repeat(63)),
        ] {
            assert_eq!(id_of(name), id);
            assert!(baton_types::id::is_valid_id(id), "{id}");
        }
        let names = ["aB", "a_b", "A-B", "echo", "Echo", "root", "route_to_x", "repo.list", "repo_list", "é"];
        let document: Vec<Value> = names.iter().map(|name| json!({"name": name, "description": "d"})).collect();
        let tools = imported(Value::Array(document));
        let given: Vec<(&str, Option<&str>)> = tools.iter().map(|tool| (tool.id.as_str(), tool.wire_name.as_deref())).collect();
        assert_eq!(
            given,
            [
                ("a_b", Some("aB")),
                ("a_b_2", None),
                ("a-b_3", None),
                ("echo_2", None),
                ("echo_3", None),
                ("root_2", None),
                ("tool_route_to_x", None),
                ("repo_list", None),
                ("repo_list_2", None),
                ("tool", None),
            ]
        );
        assert!(
            told(&tools[3]).contains(&" \"echo\" is a tool of the program or of the project".to_owned()),
            "{:?}",
            told(&tools[3])
        );
        assert!(told(&tools[8]).contains(&" another tool of the document has the id \"repo_list\"".to_owned()));
        assert!(foreign_tools(&json!({"a": 1}), &|_| false).unwrap_err().contains("tools/list"));
    }

    #[test]
    fn ten_thousand_tools_of_one_name_are_numbered_quickly() {
        let document: Vec<Value> = (0..10_000).map(|_| json!({"name": "same", "inputSchema": {"type": "object"}})).collect();
        let tools = foreign_tools(&Value::Array(document), &|_| false).unwrap().tools;
        assert_eq!(tools.last().unwrap().id, "same_10000");
    }

    #[test]
    fn parts_of_a_definition_that_are_not_used_are_reported() {
        let document = json!({"result": {"nextCursor": "more", "tools": [
            {"name": "a", "description": "A.", "inputSchema": {"type": "object"}, "icons": [], "strict": true,
                "annotations": {"title": "An a", "readOnlyHint": true}, "outputSchema": 1},
            {"description": "no name"},
            {"name": "b"}
        ]}});
        let foreign = foreign_tools(&document, &|_| false).unwrap();
        let unused: Vec<String> = foreign.unused.iter().map(|change| format!("{} {}", change.pointer, change.message)).collect();
        assert_eq!(
            unused,
            [
                "/result/nextCursor the list has further pages: import them, too",
                "/result/tools/1 this is not a tool: it has no name"
            ]
        );
        let first = told(&foreign.tools[0]);
        for expected in [
            "\"icons\" was not used",
            "\"strict\" was not used",
            "the hint \"readOnlyHint\" was not used",
            "its output is not a schema",
        ] {
            assert!(first.iter().any(|line| line.contains(expected)), "{expected} is not in {first:#?}");
        }
        assert_eq!(first.len(), 4, "{first:#?}");
        let second = told(&foreign.tools[1]);
        assert!(second.iter().any(|line| line.contains("it declares no input")), "{second:#?}");
    }

    #[test]
    fn unused_parts_around_a_function_and_changes_of_an_output_are_reported_at_their_places() {
        let document = json!([{"type": "function", "strict": true, "function": {"name": "a", "description": "A.",
            "parameters": {"type": "dict"}, "outputSchema": {"type": "dict"}}}]);
        assert_eq!(
            told(&imported(document)[0]),
            [
                "/type type \"dict\" became \"object\"",
                "output /type type \"dict\" became \"object\"",
                " \"strict\" was not used: a tool config has no place for it",
            ]
        );
    }

    #[test]
    fn parameters_of_one_name_and_responses_of_operations_are_kept() {
        let document = json!({"openapi": "3.0.3", "info": {}, "security": [], "servers": [{"url": "https://x"}], "paths": {
            "/a/{id}": {
                "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}, {"name": "n", "in": "query", "schema": {}}],
                "head": {},
                "get": {
                    "operationId": "getA", "deprecated": true, "callbacks": {}, "security": [],
                    "parameters": [
                        {"name": "id", "in": "query", "schema": {"type": "integer", "nullable": true}, "style": "form"},
                        {"name": "n", "in": "query", "schema": {"type": "number", "minimum": 0, "exclusiveMinimum": true}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                        {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                        {"name": "far", "$ref": "other.json#/a"}
                    ],
                    "responses": {
                        "201": {"description": "Made.", "content": {"text/plain": {}, "application/json": {"schema": {"type": "object"}}}},
                        "200": {"$ref": "#/components/responses/A"},
                        "404": {"description": "Gone."}
                    }
                }
            }
        }, "components": {"responses": {"A": {"content": {"application/json; charset=utf-8": {"schema": {"type": "array"}}}}}}});
        let foreign = foreign_tools(&document, &|_| false).unwrap();
        let unused: Vec<&str> = foreign.unused.iter().map(|change| change.pointer.as_str()).collect();
        assert_eq!(unused, ["/security", "/servers", "/paths/~1a~1{id}/head"]);
        let tool = &foreign.tools[0];
        assert_eq!(
            tool.input,
            json!({"type": "object", "properties": {
                "id": {"type": ["integer", "null"]}, "n": {"type": "number", "exclusiveMinimum": 0}, "X-Trace": {"type": "string"},
                "path_id": {"type": "string"}
            }, "required": ["path_id"]})
        );
        assert_eq!(tool.output, Some(json!({"type": "array"})));
        let told = told(tool);
        for expected in [
            "the path parameter \"id\" became the property \"path_id\": another parameter has its name",
            "the header parameter \"X-Trace\" became the property \"X-Trace\"",
            "the header \"Authorization\" was not used",
            "\"other.json#/a\" is not a part of this document",
            "\"style\" of the query parameter \"id\" was not used",
            "the response 200 became the schema of the output",
            "the responses 201, 404 were not used",
            "\"deprecated\" was not used",
            "\"callbacks\" was not used",
            "\"security\" was not used",
            "\"nullable\" became the type null",
        ] {
            assert!(told.iter().any(|line| line.contains(expected)), "{expected} is not in {told:#?}");
        }
    }
}
