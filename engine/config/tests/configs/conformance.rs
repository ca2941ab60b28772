//! Conformance of tools: typed and described fields, and examples of fields that exist.

use baton_config::{FaultKind, Role, Sources, conformance};

/// Returns the findings about a tool config: code, place and message.
fn findings(tool: &str) -> Vec<String> {
    let mut sources = Sources::new("job");
    sources.add(Role::Tool, "tools/lookup.json", tool);
    let faults = conformance(&sources).err();
    faults.iter().flatten().map(|fault| format!("{} {} {}", fault.kind.code(), fault.pointer, fault.message)).collect()
}

#[test]
fn every_field_has_a_type_and_a_description_at_every_depth() {
    let tool = r#"{
      "tool_id": "lookup",
      "input_schema": {
        "type": "object",
        "properties": {
          "filter": {
            "type": "object", "description": "Which rows",
            "properties": {"any": {"description": "Any value"}, "of": {"type": "array", "description": "Rows",
              "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}}
          },
          "free": true
        }
      },
      "returns": {"count": "integer", "name": {"type": "string", "description": " "}, "sum": {"type": "number", "description": "The sum"}}
    }"#;
    assert_eq!(
        findings(tool),
        [
            "B0132 /input_schema/properties/filter/properties/any the field \"any\" has no type",
            "B0133 /input_schema/properties/filter/properties/of/items/properties/id the field \"id\" has no description",
            "B0132 /input_schema/properties/free the field \"free\" has no type",
            "B0133 /input_schema/properties/free the field \"free\" has no description",
            "B0133 /returns/count the field \"count\" has no description",
            "B0133 /returns/name the field \"name\" has no description",
        ]
    );
}

#[test]
fn an_example_shows_only_fields_that_the_input_and_the_output_have() {
    let tool = r##"{
      "tool_id": "lookup",
      "input_schema": {"type": "object", "properties": {
        "sort": {"type": "object", "description": "Order", "properties": {"by": {"type": "string", "description": "Key"}}}
      }},
      "output_schema": {
        "type": "object",
        "properties": {
          "rows": {"type": "array", "description": "Rows", "items": {"$ref": "#/$defs/row"}},
          "open": {"type": "object", "description": "Any keys", "properties": {}, "additionalProperties": {"type": "string"}}
        },
        "$defs": {"row": {"type": "object", "properties": {"id": {"type": "integer", "description": "Its id"}}}}
      },
      "examples": [{"input": {"sort": {"buy": "id"}, "limit": 1}, "run": false, "output": {
        "rows": [{"id": 1}, {"idd": 2}], "open": {"x": "y"}, "total": 2
      }}]
    }"##;
    assert_eq!(
        findings(tool),
        [
            "B0134 /examples/0/input/sort/buy the example shows the field \"buy\", which the input does not have",
            "B0134 /examples/0/input/limit the example shows the field \"limit\", which the input does not have",
            "B0134 /examples/0/output/rows/1/idd the example shows the field \"idd\", which the output does not have",
            "B0134 /examples/0/output/total the example shows the field \"total\", which the output does not have",
        ]
    );
}

#[test]
fn each_tool_of_this_program_conforms() {
    let mut sources = Sources::new("tools");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tool-configs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        sources.add(Role::BuiltinTool, name, std::fs::read(path).unwrap());
    }
    if let Err(faults) = conformance(&sources) {
        panic!("{faults}");
    }
}

#[test]
fn unreadable_files_are_left_to_the_loader() {
    assert_eq!(findings("{"), Vec::<String>::new());
    assert_eq!(findings(r#"{"parameters": [1], "returns": 7, "examples": {"0": 1}}"#), Vec::<String>::new());
}

#[test]
fn each_kind_of_fault_has_its_own_code() {
    let codes: std::collections::BTreeSet<&str> = FaultKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes.len(), FaultKind::ALL.len());
}
