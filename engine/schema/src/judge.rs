//! JSON Schemas as values of [`Schema`]: what the rest of the engine judges by.

use baton_types::json::Json;
use baton_types::schema::{Judge, Schema, SchemaFault};
use serde_json::Value;

use crate::program::Program;

/// Largest number of reported faults of a check.
const MAX_FAULTS: usize = 20;

/// Largest number of faults of a schema that one message has.
const MAX_TOGETHER: usize = 5;

/// Compiles `schema`; the error names the places where it is no schema. Nothing is ever fetched.
pub fn compile(schema: &Value) -> Result<Schema, String> {
    read(schema).map_err(|faults| {
        let each = faults.iter().take(MAX_TOGETHER).map(|fault| format!("{} (at {:?})", fault.message, fault.pointer));
        each.collect::<Vec<_>>().join("; ")
    })
}

/// Compiles `schema`; the error has all its faults, each with the pointer of its place.
pub fn read(schema: &Value) -> Result<Schema, Vec<SchemaFault>> {
    let program = Program::read(schema)?;
    Ok(Schema::new(Json::from(schema), Compiled { program: Ok(program) }))
}

/// Keeps a schema that the engine derived from checked parts.
pub fn derived(schema: &Value) -> Schema {
    Schema::new(Json::from(schema), Compiled { program: Program::read(schema) })
}

/// Checks `value` against a schema that the engine derived and does not keep.
pub fn judge(schema: &Value, value: &Value) -> Vec<SchemaFault> {
    Compiled { program: Program::read(schema) }.check(value).err().unwrap_or_default()
}

/// A compiled schema, or what is wrong with it.
#[derive(Debug)]
struct Compiled {
    program: Result<Program, Vec<SchemaFault>>,
}

impl Judge for Compiled {
    fn accepts_text(&self, text: &str) -> bool {
        self.program.as_ref().is_ok_and(|program| program.accepts_text(text))
    }

    fn check(&self, value: &Value) -> Result<(), Vec<SchemaFault>> {
        let program = match &self.program {
            Ok(program) => program,
            Err(faults) => {
                let unread =
                    |fault: &SchemaFault| format!("the schema cannot be read: {} (at {:?})", fault.message, fault.pointer);
                return Err(faults.iter().map(|fault| SchemaFault { pointer: String::new(), message: unread(fault) }).collect());
            }
        };
        let mut faults = Vec::new();
        for finding in program.findings(value, MAX_FAULTS) {
            let fault = SchemaFault { message: finding.to_string(), pointer: finding.pointer };
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_that_leave_the_schema_are_refused() {
        for target in ["http://example.com/x.json", "file:///etc/passwd", "other.json#/a", "#anchor"] {
            let error = compile(&json!({"properties": {"a": {"$ref": target}}})).unwrap_err();
            assert!(error.contains("/properties/a/$ref"), "{target}: {error}");
        }
        assert!(compile(&json!({"$dynamicRef": "#a"})).is_err());
    }

    #[test]
    fn references_that_lead_back_to_themselves_are_refused_and_recursive_values_are_not() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}),
        ] {
            assert!(compile(&schema).is_err(), "{schema}");
        }
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let schema = compile(&tree).unwrap();
        assert!(schema.check(&json!({"children": [{"children": []}]})).is_ok());
        assert!(schema.check(&json!({"children": [{"children": 1}]})).is_err());
    }

    #[test]
    fn references_that_double_with_every_line_are_refused() {
        let doubling = |lines: usize| {
            let twice =
                |next: usize| json!({"anyOf": [{"$ref": format!("#/$defs/d{next}")}, {"$ref": format!("#/$defs/d{next}")}]});
            let mut definitions: serde_json::Map<String, Value> =
                (0..lines).map(|line| (format!("d{line}"), twice(line + 1))).collect();
            definitions.insert(format!("d{lines}"), json!({"type": "null"}));
            json!({"$defs": definitions, "$ref": "#/$defs/d0"})
        };
        assert!(compile(&doubling(60)).unwrap_err().contains("branch too often"));
        let few = compile(&doubling(5)).unwrap();
        assert!(few.check(&json!(null)).is_ok() && few.check(&json!(1)).is_err());
    }

    #[test]
    fn patterns_run_in_linear_time_or_are_refused() {
        let schema = compile(&json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
        let hostile = "a".repeat(50_000) + "!";
        assert!(schema.check(&Value::String(hostile)).is_err());
        assert!(compile(&json!({"pattern": "(\\w{1000}){1000}"})).is_err());
        assert!(compile(&json!({"pattern": "(?=a)b"})).is_err());
    }

    #[test]
    fn a_schema_that_is_none_says_where() {
        let error = compile(&json!({"type": "object", "properties": {"a": {"type": "strng"}}})).unwrap_err();
        assert!(error.contains("/properties/a/type"), "{error}");
    }
}
