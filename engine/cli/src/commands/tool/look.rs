//! `tool ls` and `tool show`: lists the tools, and describes one tool.

use baton_models::wire::encode_tool;
use baton_schema::provider::{Strictness, Target, Unfit, compile};
use baton_tool::registered_functions;
use baton_types::config::{Executor, Tool};
use baton_types::estimate;
use serde_json::{Value, json};

use super::tools::Tools;
use crate::exit::Failure;
use crate::place::Place;
use crate::style;
use crate::terminal;
use crate::text::{Text, text};
use crate::words;

/// Lists tools.
pub(super) fn list(tools: &Tools, place: &Place) -> Result<(), Failure> {
    if !place.screen.is_text() {
        let listed: Vec<Value> = tools
            .by_id
            .values()
            .map(|tool| {
                json!({
                    "tool": tool.id, "type": tool.tool_type, "category": tool.category, "tags": tool.tags,
                    "description": tool.description, "effect": tool.effect, "writes": tool.writes, "tokens": tokens(tool),
                    "source": tool.source,
                })
            })
            .collect();
        return place.screen.json_list(&listed);
    }
    let mut rows = vec![["TOOL", "TYPE", "CATEGORY", "TOKENS", "DESCRIPTION"].map(|title| text!("{title}")).to_vec()];
    rows.extend(tools.by_id.values().map(|tool| {
        vec![
            text!("{}", tool.id),
            text!("{}", tool.tool_type),
            text!("{}", tool.category.as_deref().unwrap_or_default()),
            text!("≈{}", tokens(tool)),
            words::preview(&tool.description, 200),
        ]
    }));
    let width = terminal::width();
    for (index, line) in words::columns(rows).iter().enumerate() {
        let line = line.cut(width);
        place.screen.text(&if index == 0 { style::faint(line) } else { line })?;
    }
    Ok(())
}

/// Returns the tokens that a tool's definition takes in every request of an agent that has the tool.
fn tokens(tool: &Tool) -> u64 {
    let bytes = tool.id.as_str().len() + tool.definition.description.len() + tool.definition.input_schema.text().len();
    estimate::text_tokens(bytes as u64)
}

/// Shows one tool.
pub(super) fn show(tool: &Tool, place: &Place) -> Result<(), Failure> {
    let screen = place.screen;
    if !screen.is_text() {
        let examples: Vec<Value> = tool
            .examples
            .iter()
            .map(|example| json!({"explanation": example.explanation, "input": example.input, "output": example.output}))
            .collect();
        return screen.json(&json!({
            "tool": tool.id, "type": tool.tool_type, "description": tool.description, "category": tool.category, "tags": tool.tags,
            "effect": tool.effect, "writes": tool.writes, "timeout_seconds": tool.timeout.as_secs(),
            "idle_seconds": tool.idle.map(|idle| idle.as_secs()), "source": tool.source,
            "executor": executor(tool), "input_schema": tool.definition.input_schema, "output_schema": tool.output.as_ref().map(|schema| schema.json().clone()),
            "examples": examples, "tokens": tokens(tool),
        }));
    }
    let row = tool.tool_type.behavior();
    screen.text(&text!("{} · {}", style::name(&tool.id), tool.tool_type))?;
    screen.text(&Text::block(&tool.description))?;
    screen.text(&text!(""))?;
    let then = format!("{:?}", row.then).to_lowercase();
    screen.text(&text!("then        {then}{}", if row.creates_task { ", creates a task" } else { "" }))?;
    if let Some(executor) = executor(tool) {
        let effect =
            serde_json::to_value(tool.effect).ok().and_then(|effect| effect.as_str().map(str::to_owned)).unwrap_or_default();
        screen.text(&text!("runs        {executor}"))?;
        screen.text(&text!(
            "effect      {effect} · at most {}{}",
            words::duration(tool.timeout),
            if tool.writes { " · writes documents" } else { "" }
        ))?;
    }
    if let Some(source) = &tool.source {
        screen.text(&text!("config      {source}"))?;
    }
    screen.text(&text!("tokens      ≈{}", tokens(tool)))?;
    table("parameters", &tool.definition.input_schema.value(), place)?;
    if let Some(output) = &tool.output {
        table("returns", &output.json().value(), place)?;
    }
    for example in &tool.examples {
        screen.text(&text!(""))?;
        screen.text(&text!("example     {}", Text::block(&example.explanation)))?;
        screen.text(&text!("  input     {}", example.input))?;
        if let Some(output) = &example.output {
            screen.text(&text!("  output    {output}"))?;
        }
    }
    Ok(())
}

/// Prints the JSON Schema of a tool's input, or the tool's definition in the dialect of `target`.
pub(super) fn schema(tool: &Tool, target: Option<Target>, place: &Place) -> Result<(), Failure> {
    let Some(target) = target else { return place.screen.value(&tool.definition.input_schema.value()) };
    let compiled = compile(target, &tool.definition).map_err(|fault| Failure::Usage(fault.to_string()))?;
    if let Strictness::Loose(unfit) = &compiled.strictness {
        let Unfit { pointer, reason } = unfit;
        place.screen.tell(&style::faint(format!("the provider does not enforce this schema: {reason} (at {pointer:?})")));
    }
    place.screen.value(&encode_tool(target, &compiled))
}

fn executor(tool: &Tool) -> Option<String> {
    match tool.executor.as_ref()? {
        Executor::Function(name) => {
            let functions = registered_functions();
            let function = functions.iter().find(|function| function.id == name.id)?;
            Some(format!("fn {} ({}:{})", function.name, function.file, function.line))
        }
        Executor::Exec(exec) => Some(exec.command.join(" ")),
        Executor::Service(service) => Some(format!("service {}", service.target_subject)),
    }
}

/// Prints the properties of an object schema, one per line.
fn table(title: &str, schema: &Value, place: &Place) -> Result<(), Failure> {
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) else { return Ok(()) };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows: Vec<Vec<Text>> = properties
        .iter()
        .map(|(name, property)| {
            let kind = match &property["type"] {
                Value::String(kind) => kind.clone(),
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
                _ => "any".to_owned(),
            };
            let must = if required.contains(&name.as_str()) { "required" } else { "" };
            let mut about = property["description"].as_str().unwrap_or_default().to_owned();
            if let Some(values) = property["enum"].as_array() {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                about = format!("{about} (one of {})", values.join(", "));
            }
            vec![text!("  {name}"), text!("{kind}"), text!("{must}"), words::preview(&about, 300)]
        })
        .collect();
    place.screen.text(&text!(""))?;
    place.screen.text(&text!("{title}"))?;
    let width = terminal::width();
    words::columns(rows).iter().try_for_each(|line| place.screen.text(&line.cut(width)))
}
