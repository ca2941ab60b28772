//! A tool's schema in the dialect of each provider, made once, and the way back of the inputs that come for it.
//!
//! What a dialect can say exactly, a model is held to. What it cannot say is told in words, or the schema is offered without
//! holding the model to it; only what a provider would turn down altogether is a fault. It is *not* here that an input is
//! judged: the machine checks every call against the tool's own schema, whatever a model was shown.

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

/// A tool as a model of one dialect is told about it.
#[derive(Debug)]
pub struct CompiledTool {
    /// Its id.
    pub id: ToolId,
    /// What it does and when to use it, with what the schema cannot say.
    pub description: String,
    /// The schema of its input, in the dialect.
    pub parameters: Value,
    /// Whether the model is held to it; if it is not and might have been, why.
    pub strictness: Strictness,
    back: Back,
}

/// Whether a model is held to a schema.
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
#[error("tool {tool} cannot be offered to {target}: {} (at {:?} of its input's schema)", .unfit.reason, .unfit.pointer)]
pub struct SchemaFault {
    /// The tool.
    pub tool: ToolId,
    /// The dialect.
    pub target: Target,
    /// Where in its schema, and why.
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
    /// Whether the model is held to the schema.
    pub fn is_strict(&self) -> bool {
        self.strictness == Strictness::Strict
    }

    /// `input`, which a model gave for the compiled schema, as the tool's own schema has it: without the nulls that stand
    /// for what is left out. Numbers keep every digit.
    pub fn restored(&self, input: &Json) -> Json {
        self.back.restored(input)
    }
}
