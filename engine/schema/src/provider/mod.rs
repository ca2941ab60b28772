//! A tool's schema in the dialect of each provider, made once, and the way back of the inputs that come for it.
//!
//! A schema that a dialect can express exactly is enforced. Rules that it cannot express become text, or the whole
//! schema is offered without enforcement. Only a schema that the provider would reject is a fault. This module does
//! *not* validate inputs: the machine checks every call against the tool's own schema.

mod anthropic;
mod back;
mod choices;
mod guidance;
mod limits;
mod loose;
mod ollama;
mod openai;
mod result;
mod source;
mod target;

use baton_types::id::ToolId;
use baton_types::json::Json;
use baton_types::model::ToolDefinition;
use serde_json::Value;

pub use result::{CompiledResult, compile_result};
pub use source::Unfit;
pub use target::Target;

use back::Back;

/// A tool as sent to a model of one dialect.
#[derive(Debug)]
pub struct CompiledTool {
    /// Its id.
    pub id: ToolId,
    /// Purpose and use of the tool, with the rules that the schema cannot express.
    pub description: String,
    /// The schema of its input, in the dialect.
    pub parameters: Value,
    /// Enforcement of the schema, with the reason if there is none.
    pub strictness: Strictness,
    back: Back,
}

/// Enforcement of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It is.
    Strict,
    /// The dialect does not know how.
    Unknown,
    /// The dialect has no words for a part of the schema.
    Loose(Unfit),
}

/// A schema that a provider would turn down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool {tool} cannot be offered to {target}: {} (at {:?} in its input schema)", .unfit.reason, .unfit.pointer)]
pub struct SchemaFault {
    /// The tool.
    pub tool: ToolId,
    /// The dialect.
    pub target: Target,
    /// Place in its schema, and the reason.
    pub unfit: Unfit,
}

/// `tool` in the dialect of `target`.
pub fn compile(target: Target, tool: &ToolDefinition) -> Result<CompiledTool, SchemaFault> {
    let schema = tool.input_schema.value();
    let fault = |unfit| SchemaFault { tool: tool.id.clone(), target, unfit };
    if schema.get("type").is_none_or(|name| name != "object") {
        return Err(fault(Unfit { pointer: "/type".to_owned(), reason: "an input is an object".to_owned() }));
    }
    let mut compiled = CompiledTool {
        id: tool.id.clone(),
        description: tool.description.clone(),
        parameters: Value::Null,
        strictness: Strictness::Unknown,
        back: Back::default(),
    };
    let (parameters, rules) = match target {
        Target::OpenAi => match openai::strict(&schema) {
            Ok((parameters, back)) => {
                compiled.strictness = Strictness::Strict;
                compiled.back = back;
                (parameters, Vec::new())
            }
            Err(unfit) => {
                compiled.strictness = Strictness::Loose(unfit);
                loose_with_items(&schema)
            }
        },
        Target::Compatible => loose_with_items(&schema),
        Target::Anthropic => anthropic::offered(&schema).map_err(fault)?,
        Target::Ollama => ollama::offered(&schema),
        // Clients take JSON Schema (2020-12) as it is: <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>.
        Target::Mcp => (schema, Vec::new()),
    };
    compiled.description = guidance::joined(&compiled.description, &rules);
    compiled.parameters = parameters;
    Ok(compiled)
}

fn loose_with_items(schema: &Value) -> (Value, Vec<String>) {
    let (mut schema, rules) = loose::rooted(schema);
    loose::with_items(&mut schema);
    (schema, rules)
}

impl CompiledTool {
    /// Whether the schema is enforced.
    pub fn is_strict(&self) -> bool {
        self.strictness == Strictness::Strict
    }

    /// Returns `input`, which a model gave for the compiled schema, in the form of the tool's own schema: without the
    /// nulls that mean omitted properties. Numbers keep every digit.
    pub fn restored(&self, input: &Json) -> Json {
        self.back.restored(input)
    }
}
