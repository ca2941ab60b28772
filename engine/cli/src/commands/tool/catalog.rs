//! `tool catalog`: prints the catalog of tools in one of its forms. It is computed from the configs.

use baton_models::provider::openai_tools;
use baton_rcrt::{Filter, ToolCatalog};
use baton_types::estimate;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::tools::Tools;
use crate::exit::Failure;
use crate::place::Place;
use crate::screen;
use crate::style;
use crate::text::Text;

/// Form of the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// One line for each tool: name, summary and outputs
    #[default]
    Compact,
    /// A prompt with names and descriptions, for models that call tools by JSON in their text
    Prompt,
    /// The list of tools that `OpenAI` receives, byte for byte
    Openai,
    /// The record `tool.catalog.v1`: schemas, examples, time limits
    Json,
}

/// Prints the catalog of `tools`, of those that `filter` selects, and its tokens if `counts_tokens`.
pub(super) fn print(tools: &Tools, filter: &Filter, form: Form, counts_tokens: bool, place: &Place) -> Result<(), Failure> {
    let catalog = ToolCatalog::of(tools.by_id.values(), filter).map_err(|missing| match missing.kind {
        "category" => Failure::not_found("category", missing.name, missing.known),
        _ => Failure::not_found("tag", missing.name, missing.known),
    })?;
    let (content, size) = match form {
        Form::Compact => {
            let lines = tools.agent.as_ref().map(|agent| agent.configuration_lines_of(catalog.tools()));
            text_of(catalog.compact(&lines.unwrap_or_default()))
        }
        Form::Prompt => text_of(catalog.prompt()),
        Form::Openai => {
            let bytes = openai_tools(&catalog.definitions(), &tools.settings);
            let bytes =
                bytes.map_err(|faults| Failure::Usage(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
            let size = bytes.len();
            (Content::Bytes(bytes), size)
        }
        Form::Json => {
            let record = catalog.record();
            let size = record.to_string().len();
            (Content::Record(record), size)
        }
    };
    let tokens = estimate::text_tokens(size as u64);
    match content {
        Content::Text(content) if place.screen.is_text() => place.screen.text(&Text::block(&content))?,
        Content::Text(content) => {
            let names: Vec<_> = catalog.tools().iter().map(|tool| &tool.id).collect();
            return place.screen.json(&json!({"tools": names, "text": content, "tokens": tokens}));
        }
        Content::Bytes(mut bytes) => {
            bytes.push(b'\n');
            place.screen.content(&bytes)?;
        }
        Content::Record(record) => place.screen.value(&record)?,
    }
    if counts_tokens {
        screen::tell(&style::faint(format!("≈{tokens} tokens, estimated from bytes")));
    }
    Ok(())
}

/// A catalog in one of its forms.
enum Content {
    Text(String),
    /// JSON as a provider receives it.
    Bytes(Vec<u8>),
    Record(Value),
}

fn text_of(text: String) -> (Content, usize) {
    let size = text.len();
    (Content::Text(text), size)
}
