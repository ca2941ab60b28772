//! The skeleton of a model script for a job: each agent is called once and hands off a result that its schema accepts. Acceptors
//! accept every result. Tools that ask models get the answers of their examples.

use std::collections::BTreeSet;

use baton_types::config::{Acceptor, Agent, Configs, Tool};
use baton_types::id::AgentId;
use baton_types::tool_type::ToolType;
use serde_json::{Map, Value, json};

/// Deepest level of a generated value.
const MAX_DEPTH: usize = 8;

/// Returns the skeleton. It has turns for every agent that the root reaches, and for the tools of these agents that ask models.
pub(crate) fn skeleton(configs: &Configs) -> Value {
    let (mut agents, mut tools, mut acceptors) = (Map::new(), Map::new(), BTreeSet::new());
    let mut reached = BTreeSet::from([configs.job.root.clone()]);
    let mut waiting = vec![configs.job.root.clone()];
    while let Some(id) = waiting.pop() {
        let Some(agent) = configs.agents.get(&id) else { continue };
        let calls = new_delegations(agent, &mut reached);
        waiting.extend(calls.iter().rev().filter_map(|tool| tool.agent.clone()));
        acceptors.extend(agent.tools.values().filter_map(|tool| match &tool.accept.as_ref()?.by {
            Acceptor::Agent(id) => Some(id),
            Acceptor::Tool(_) => None,
        }));
        agents.insert(id.to_string(), script(agent, &calls));
        tools.extend(agent.tools.values().filter_map(|tool| Some((tool.id.to_string(), replies(tool)?))));
    }
    for id in acceptors {
        let Some(acceptor) = configs.agents.get(id) else { continue };
        let Some(handoff) = acceptor.tools.values().find(|tool| tool.tool_type == ToolType::Handoff) else { continue };
        let yes = json!({"calls": [{"tool": handoff.id, "input": {"result": {"accepted": true, "reason": "…"}}}]});
        agents.entry(id.as_str()).or_insert_with(|| script(acceptor, &[]))["answers"] = json!([yes]);
    }
    if tools.is_empty() { json!({ "agents": agents }) } else { json!({ "agents": agents, "tools": tools }) }
}

/// Returns the answers to requests of `tool`, from its first example with any; `None` if it asks no model.
fn replies(tool: &Tool) -> Option<Value> {
    let answers = tool.examples.iter().map(|example| &example.answers).find(|answers| !answers.is_empty())?;
    let turn = |text: &String| json!({"text": text, "literal": true});
    Some(json!({"turns": answers.iter().map(turn).collect::<Vec<_>>()}))
}

/// Returns the delegations of `agent` to agents that were not called so far, and adds these agents to `reached`.
fn new_delegations<'a>(agent: &'a Agent, reached: &mut BTreeSet<AgentId>) -> Vec<&'a Tool> {
    let delegations = agent.tools.values().filter(|tool| tool.tool_type == ToolType::AgentAsTool);
    delegations.map(AsRef::as_ref).filter(|tool| tool.agent.as_ref().is_some_and(|to| reached.insert(to.clone()))).collect()
}

fn script(agent: &Agent, delegations: &[&Tool]) -> Value {
    let mut turns = Vec::new();
    if !delegations.is_empty() {
        let call = |tool: &&Tool| {
            let mut input = example(&tool.input.json().value());
            let to = tool.agent.as_ref().map(ToString::to_string).unwrap_or_default();
            if input.get("request").is_some_and(Value::is_string) {
                input["request"] = json!(format!("The request for {to}"));
            }
            json!({"tool": tool.id, "as": to.replace('-', "_"), "input": input})
        };
        turns.push(json!({"calls": delegations.iter().map(call).collect::<Vec<_>>()}));
    }
    let handoff = agent.tools.values().find(|tool| tool.tool_type == ToolType::Handoff);
    turns.push(match handoff {
        Some(tool) => {
            let mut input = example(&tool.input.json().value());
            let result = agent.result_schema.as_ref().map(|schema| example(&schema.json().value()));
            input["result"] = result.unwrap_or_else(|| json!({"summary": "Done: {{ request }}"}));
            json!({"calls": [{"tool": tool.id, "input": input}]})
        }
        None => json!({"text": "Done: {{ request }}"}),
    });
    let mut script = json!({ "turns": turns });
    // Questions of the agents below reach this one.
    if !delegations.is_empty() {
        script["answers"] = json!([{"text": "The answer to: {{ question.text }}"}]);
    }
    script
}

/// Returns a value that `schema` accepts, by its simple keywords.
fn example(schema: &Value) -> Value {
    example_at(schema, MAX_DEPTH)
}

fn example_at(schema: &Value, depth: usize) -> Value {
    if let Some(known) = schema.get("const").or_else(|| schema["enum"].get(0)).or_else(|| schema.get("default")) {
        return known.clone();
    }
    let alternative = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].get(0));
    if let Some(alternative) = alternative.filter(|_| depth > 0) {
        return example_at(alternative, depth - 1);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("string") => json!("…"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("array") => {
            let fewest = schema["minItems"].as_u64().unwrap_or(0).min(10);
            let item = if depth > 0 { example_at(&schema["items"], depth - 1) } else { Value::Null };
            Value::Array((0..fewest).map(|_| item.clone()).collect())
        }
        Some("null") => Value::Null,
        _ => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let field = |name: &str| (name.to_owned(), example_at(&schema["properties"][name], depth.saturating_sub(1)));
            let fields: Map<String, Value> = if depth > 0 { required.map(field).collect() } else { Map::new() };
            Value::Object(fields)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_meets_its_schema() {
        let schema = json!({
            "type": "object", "required": ["unit", "rows", "note", "count", "ok"],
            "properties": {
                "unit": {"enum": ["percent", "absolute"]}, "count": {"type": "integer", "minimum": 3},
                "rows": {"type": "array", "minItems": 2, "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "ok": {"type": "boolean"}, "more": {"type": "string"},
            },
        });
        let example = example(&schema);
        assert_eq!(example, json!({"unit": "percent", "rows": [{"n": 1}, {"n": 1}], "note": "…", "count": 3, "ok": true}));
        baton_schema::compile(&schema).unwrap().check(&example).unwrap();
    }
}
