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
    /// The name that models see and use.
    pub name: String,
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

/// A tool that a provider would turn down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool {tool} cannot be offered to {target}: {}{}", .unfit.reason, .part.place(&.unfit.pointer))]
pub struct SchemaFault {
    /// The tool.
    pub tool: ToolId,
    /// The dialect.
    pub target: Target,
    /// The faulty part of the tool.
    pub part: OfferPart,
    /// Place in its schema, and the reason.
    pub unfit: Unfit,
}

/// A part of a tool that a provider limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferPart {
    /// The schema of its input.
    InputSchema,
    /// The description.
    Description,
    /// The name.
    Name,
    /// The tool as one of many.
    Whole,
}

impl OfferPart {
    fn place(self, pointer: &str) -> String {
        match self {
            Self::InputSchema => format!(" (at {pointer:?} in its input schema)"),
            Self::Description | Self::Name | Self::Whole => String::new(),
        }
    }
}

/// Limits of a provider for the tools of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferLimits {
    /// The most tools.
    pub tools: Option<usize>,
    /// The most characters of a name.
    pub name: Option<usize>,
    /// The most characters of a description.
    pub description: Option<usize>,
}

impl OfferLimits {
    /// Returns the faults of `tools` together: those beyond the limit of their number, and what is too long.
    pub fn exceeded(&self, target: Target, tools: &[std::sync::Arc<CompiledTool>]) -> Vec<SchemaFault> {
        let over = |count: usize, most: Option<usize>| most.filter(|most| count > *most);
        let fault = |tool: &CompiledTool, part, reason| SchemaFault {
            tool: tool.id.clone(),
            target,
            part,
            unfit: Unfit::new("", reason),
        };
        let mut faults = Vec::new();
        if let Some(most) = over(tools.len(), self.tools) {
            let reason = format!("the agent offers {} tools, and at most {most} are allowed in a request", tools.len());
            faults.push(fault(&tools[most], OfferPart::Whole, reason));
        }
        for tool in tools {
            let (name, description) = (tool.name.chars().count(), tool.description.chars().count());
            if let Some(most) = over(name, self.name) {
                let reason = format!("its name has {name} characters, and at most {most} are allowed");
                faults.push(fault(tool, OfferPart::Name, reason));
            }
            if let Some(most) = over(description, self.description) {
                let reason = format!("its description has {description} characters, and at most {most} are allowed");
                faults.push(fault(tool, OfferPart::Description, reason));
            }
        }
        faults
    }
}

/// `tool` in the dialect of `target`.
pub fn compile(target: Target, tool: &ToolDefinition) -> Result<CompiledTool, SchemaFault> {
    let schema = tool.input_schema.value();
    let fault = |unfit| SchemaFault { tool: tool.id.clone(), target, part: OfferPart::InputSchema, unfit };
    if schema.get("type").is_none_or(|name| name != "object") {
        return Err(fault(Unfit { pointer: "/type".to_owned(), reason: "an input is an object".to_owned() }));
    }
    let mut compiled = CompiledTool {
        id: tool.id.clone(),
        name: tool.name.clone().unwrap_or_else(|| tool.id.to_string()),
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
