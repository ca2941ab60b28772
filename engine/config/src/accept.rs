//! Acceptance: agents and tools that accept the results of delegations.

use baton_types::config::{Accept, Acceptor, Tool};
use baton_types::id::{AgentId, CallId, ToolId};
use baton_types::json::Json;
use baton_types::tool_type::ToolType;
use serde_json::{Value, json};

use crate::fault::FaultKind;
use crate::form::ToolForm;
use crate::loader::Loader;
use crate::needed::OF_TOOL;
use crate::reader::Spot;
use crate::tool::Texts;

/// Beginning of an acceptor that is an agent.
const OF_AGENT: &str = "agent:";

/// Number of refusals that end a task (default).
const DEFAULT_ROUNDS: u32 = 3;

/// Place of the acceptor in a tool config.
const BY: &str = "/accept/by";

/// Inputs of a tool that accepts results.
const INPUTS: [&str; 3] = ["request", "result", "documents"];

impl<'s> Loader<'s> {
    /// Returns the acceptance of a delegation's results. The acceptor is checked when all tools are known.
    pub(crate) fn accept(&mut self, tool_type: ToolType, form: &ToolForm, texts: &Texts<'_, 's>) -> Option<Accept> {
        let accept = form.accept.as_ref().filter(|_| tool_type == ToolType::AgentAsTool)?;
        let fault = |message: String| texts.fault(FaultKind::UnusableAcceptor, BY, Spot::Value, message);
        let by = if let Some(agent) = accept.by.strip_prefix(OF_AGENT) {
            Acceptor::Agent(AgentId::new(agent))
        } else if let Some(tool) = accept.by.strip_prefix(OF_TOOL) {
            Acceptor::Tool(ToolId::new(tool))
        } else {
            let message = format!("\"{}\" names neither an agent nor a tool", accept.by);
            self.faults.push(fault(message).expected("\"agent:\" and the id of an agent, or \"tool:\" and the id of a tool"));
            return None;
        };
        if form.agent.as_deref().is_some_and(|agent| by == Acceptor::Agent(AgentId::new(agent))) {
            let message = format!("the acceptor \"{}\" cannot accept its own results", accept.by);
            self.faults.push(fault(message).expected("another agent, or a tool"));
            return None;
        }
        self.acceptors.push((by.clone(), fault(format!("tool \"{}\" cannot be an acceptor", by.tool()))));
        Some(Accept { by, rounds: accept.rounds.unwrap_or(DEFAULT_ROUNDS) })
    }

    /// Reports acceptors that do not exist, or that cannot accept results.
    pub(crate) fn check_acceptors(&mut self) {
        for (by, mut fault) in std::mem::take(&mut self.acceptors) {
            match &by {
                Acceptor::Agent(agent) if !self.has_agent(agent.as_str()) => {
                    fault.kind = FaultKind::UnknownAgent;
                    fault.message = format!("the acceptor \"{agent}\" is not an agent of the job");
                    let known = self.agents.keys().map(String::as_str);
                    self.faults.push(fault.near(agent.as_str(), known));
                }
                Acceptor::Agent(agent) => {
                    let form = self.agents.get(agent.as_str()).and_then(|agent| agent.form.as_ref());
                    if form.is_some_and(|form| form.program.is_some()) {
                        fault.message = format!("the agent \"{agent}\" is a program, which answers no questions");
                        self.faults.push(fault.expected("an agent with a model, or \"tool:\" and a function tool"));
                    }
                }
                Acceptor::Tool(id) => match self.tools.get(id) {
                    None if self.assumed_tools.contains(id.as_str()) => {}
                    None => {
                        fault.kind = FaultKind::UnknownTool;
                        fault.message = format!("the acceptor \"{id}\" is not a tool of the job");
                        let functions = self.tools.values().filter(|tool| tool.tool_type == ToolType::FunctionTool);
                        self.faults.push(fault.near(id.as_str(), functions.map(|tool| tool.id.as_str())));
                    }
                    Some(tool) => {
                        if let Err((message, expected)) = check_tool(tool) {
                            fault.message = message;
                            self.faults.push(fault.expected(expected));
                        }
                    }
                },
            }
        }
    }
}

/// Checks whether `tool` can accept results. The error has the reason and what is expected instead.
fn check_tool(tool: &Tool) -> Result<(), (String, String)> {
    let id = &tool.id;
    if !tool.tool_type.behavior().runs_code {
        let message = format!("tool \"{id}\" is of type {}, which runs no code", tool.tool_type);
        return Err((message, "a function_tool, or \"agent:\" and an agent".to_owned()));
    }
    if tool.writes {
        let message = format!("tool \"{id}\" writes documents, so it cannot be an acceptor");
        return Err((message, "a tool without \"writes\"".to_owned()));
    }
    let schema = tool.input.json().value();
    let takes = |input: &str| schema["properties"].get(input).is_some() || schema["additionalProperties"] != false;
    let sample = json!({"request": "text", "result": "text", "documents": [{"path": "report.md", "version": 1}]});
    // The type of a result is that of the callee.
    let is_fault = |pointer: &str| pointer != "/result" && !pointer.starts_with("/result/");
    let effective = tool.effective_input(&Json::from(&sample), &AgentId::from("agent"), &CallId::from("0/1.1"));
    let faults = tool.input.check(&effective.value()).err().unwrap_or_default();
    let fault = faults.into_iter().find(|fault| is_fault(&fault.pointer));
    let missing = INPUTS.into_iter().find(|input| !takes(input));
    if let Some(reason) = missing.map(|input| format!("it has no input \"{input}\"")).or(fault.map(|fault| fault.message)) {
        let message = format!("tool \"{id}\" cannot take a result to accept: {reason}");
        let expected = "the inputs \"request\" (a string), \"result\" and \"documents\" (an array of objects with \"path\" and \"version\"), \
                        and no other required input";
        return Err((message, expected.to_owned()));
    }
    let output = tool.output.as_ref().map(|output| output.json().value());
    let verdict = output.as_ref().map(|output| output.pointer("/properties/accepted/type").and_then(Value::as_str));
    if verdict.is_some_and(|verdict| verdict != Some("boolean")) {
        let message = format!("the output of tool \"{id}\" has no boolean \"accepted\"");
        return Err((message, "an output with \"accepted\", a boolean, and \"reason\", a string".to_owned()));
    }
    Ok(())
}
