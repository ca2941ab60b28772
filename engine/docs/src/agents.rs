//! The page of agents: for each job its inputs, documents and limits, who may call whom, and every agent.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use baton_types::config::{Agent, Configs, Invocation, Join, MasterRule, ModelSpec, OnText, first_sentence};
use baton_types::id::AgentId;
use baton_types::tool_type::ToolType;
use serde_json::{Map, Value, json};

use crate::described::{DescribedTool, Job};
use crate::markdown::{anchor, code, fence, line, paragraphs};
use crate::tools::{add_input, heading as tool_heading, name_of};
use crate::values::{Line, compact_json, inline_code, lines};

/// Returns the page. It refers to the page of `tools` beside it, a file called `tools_page`.
pub fn agents_page(first_line: &str, jobs: &[Job<'_>], tools_page: &str, tools: &[DescribedTool]) -> String {
    let mut page = format!("{first_line}\n\n# Agents\n");
    if jobs.is_empty() {
        page.push_str("\nThere is no job.\n");
    }
    for Job { configs, .. } in jobs {
        JobPage { configs, tools_page, tools, is_only: jobs.len() == 1 }.add(&mut page);
    }
    page
}

/// The part of the page about one job.
struct JobPage<'p> {
    configs: &'p Configs,
    tools_page: &'p str,
    tools: &'p [DescribedTool],
    is_only: bool,
}

impl JobPage<'_> {
    fn add(&self, page: &mut String) {
        let Configs { job, agents, .. } = self.configs;
        let _infallible = write!(page, "\n## Job {}\n\n{}\n", code(job.id.as_str()), paragraphs(&job.description));
        let _infallible = write!(page, "\nA run begins with the agent {}.\n", self.link(&job.root));
        let limits = limit_list(&json!(job.limits));
        if !limits.is_empty() {
            let _infallible = write!(page, "\nLimits of a run: {limits}.\n");
        }
        let of_session = limit_list(&json!(job.session_limits));
        if !of_session.is_empty() {
            let _infallible = write!(page, "\nLimits of a session: {of_session}.\n");
        }
        self.add_diagram(page);
        self.add_inputs(page);
        self.add_documents(page);
        for agent in agents.values() {
            self.add_agent(page, agent);
        }
    }

    /// Adds a diagram of the agents, with an arrow from each agent to those that it may call.
    fn add_diagram(&self, page: &mut String) {
        let agents: Vec<&AgentId> = self.configs.agents.keys().collect();
        page.push_str("\nAn arrow leads from an agent to one that it may call.\n\n```mermaid\ngraph TD\n");
        for (index, id) in agents.iter().enumerate() {
            let root = if **id == self.configs.job.root { ":::root" } else { "" };
            let _infallible = writeln!(page, "  a{index}[\"{id}\"]{root}");
        }
        for (from, agent) in self.configs.agents.values().enumerate() {
            for called in called_by(agent) {
                if let Some(to) = agents.iter().position(|known| **known == called) {
                    let _infallible = writeln!(page, "  a{from} --> a{to}");
                }
            }
        }
        page.push_str("  classDef root stroke-width:3px\n```\n");
    }

    fn add_inputs(&self, page: &mut String) {
        let inputs = &self.configs.job.inputs;
        if inputs.is_empty() {
            return;
        }
        page.push_str("\n| input of a run | type | required | default | description |\n| --- | --- | --- | --- | --- |\n");
        for (name, input) in inputs {
            let parts = Map::from_iter([(name.clone(), input.schema.json().value())]);
            for Line { name: part, kind, required, description, .. } in lines(&parts, None) {
                let is_input = part == *name;
                let required = if is_input { input.default.is_none() } else { required };
                let default = input.default.as_ref().filter(|_| is_input).map(inline_code).unwrap_or_default();
                let description = if is_input { &input.description } else { &description };
                let required = if required { "yes" } else { "no" };
                let _infallible = writeln!(page, "| {} | {kind} | {required} | {default} | {} |", code(&part), line(description));
            }
        }
    }

    fn add_documents(&self, page: &mut String) {
        let documents = &self.configs.job.documents;
        if documents.is_empty() {
            return;
        }
        page.push_str("\n| document | tags | description |\n| --- | --- | --- |\n");
        for document in documents {
            let tags: Vec<_> = document.tags.iter().map(|tag| line(tag)).collect();
            let (path, description) = (code(document.path.as_str()), line(&document.description));
            let _infallible = writeln!(page, "| {path} | {} | {description} |", tags.join(", "));
        }
    }

    fn add_agent(&self, page: &mut String, agent: &Agent) {
        let _infallible = write!(page, "\n### {}\n\n{}\n\n", self.heading(&agent.id), paragraphs(&agent.description));
        page.push_str("| | |\n| --- | --- |\n");
        let mut row = |name: &str, value: &str| {
            let _infallible = writeln!(page, "| {name} | {value} |");
        };
        row("model", &self.model(agent));
        row("may call", &self.links(&called_by(agent)));
        row("called by", &self.links(&self.callers_of(&agent.id)));
        let asks = agent.tools.values().any(|tool| tool.tool_type == ToolType::AskMaster);
        let master = match agent.master {
            _ if !asks => "none: it has no tool to ask",
            MasterRule::Caller if agent.id == self.configs.job.root => "the agent that called it; a person for the root task",
            MasterRule::Caller => "the agent that called it",
            MasterRule::Person => "a person",
        };
        row("asks", master);
        if agent.invocation == Invocation::Universal {
            row("calls tools", "by JSON in its text");
        }
        let on_text = match agent.on_text {
            OnText::Handoff => "is the result",
            OnText::Remind => "is answered with a reminder to use a tool",
        };
        row("a text without calls", on_text);
        if agent.join != Join::All {
            row("waits for", &format!("{} of the delegations of a turn", agent.join));
        }
        row("limits of a task", &limit_list(&json!(agent.limits)));
        if agent.tell_limits {
            row("each request ends with", "what is left of its limits");
        }
        self.add_tools(page, agent);
        Self::add_configurations(page, agent);
        self.add_input_of(page, agent);
        if let Some(schema) = &agent.result_schema {
            let _infallible = write!(page, "\nIts result must match:\n\n{}", fence(&compact_json(&schema.json().value())));
        }
    }

    fn add_tools(&self, page: &mut String, agent: &Agent) {
        if agent.tools.is_empty() {
            page.push_str("\nIt has no tools.\n");
            return;
        }
        page.push_str("\n| tool | type | approval | description |\n| --- | --- | --- | --- |\n");
        for tool in agent.tools.values() {
            let approval = agent.approver(tool).map(name_of).unwrap_or_default();
            let id = code(tool.id.as_str());
            let described = self.tools.iter().find(|known| known.tool.id == tool.id && known.jobs.contains(&self.configs.job.id));
            let name = match described {
                Some(described) => format!("[{id}]({}#{})", self.tools_page, anchor(&tool_heading(described, self.tools))),
                None => id,
            };
            let description = line(first_sentence(&tool.description));
            let _infallible = writeln!(page, "| {name} | `{}` | {approval} | {description} |", tool.tool_type);
        }
    }

    /// Adds the configurations that calls of the agent may choose, with their differences from the tools.
    fn add_configurations(page: &mut String, agent: &Agent) {
        if agent.configurations.is_empty() {
            return;
        }
        page.push_str("\n| configuration | tool | settings | key |\n| --- | --- | --- | --- |\n");
        for (id, configured) in &agent.configurations {
            let base = agent.tools.get(&configured.id).map(|tool| tool.settings.value()).unwrap_or_default();
            let settings = configured.settings.value();
            let changed = settings.as_object().into_iter().flatten().filter(|(name, value)| base.get(name) != Some(value));
            let changed: Vec<String> = changed.map(|(name, value)| format!("{} = {}", code(name), inline_code(value))).collect();
            let key = configured.configuration.as_ref().and_then(|of| of.model_key.as_ref().or(of.secret.as_ref()));
            let key = key.map(|key| code(key)).unwrap_or_default();
            let _infallible =
                writeln!(page, "| {} | {} | {} | {key} |", code(id), code(configured.id.as_str()), changed.join(", "));
        }
    }

    /// Adds the inputs of the tools by which other agents call this one.
    fn add_input_of(&self, page: &mut String, agent: &Agent) {
        let tools = self.configs.tools.values().filter(|tool| tool.agent.as_ref() == Some(&agent.id));
        let granted = |id| self.configs.agents.values().any(|agent| agent.tools.contains_key(id));
        for tool in tools.filter(|tool| granted(&tool.id)) {
            let _infallible = write!(page, "\nIts input, from {}:\n", code(tool.id.as_str()));
            add_input(page, &tool.input.json().value());
        }
    }

    /// Returns the name of the agent's model, and the provider's model behind it.
    fn model(&self, agent: &Agent) -> String {
        if let Some(program) = &agent.program {
            return format!("none: the program {}", code(&program.file));
        }
        let name = code(&agent.model);
        match self.configs.job.model(&agent.model) {
            Some(ModelSpec::Scripted { .. }) => format!("{name}: a script"),
            Some(ModelSpec::Provided(model)) => {
                let behind = format!("{}:{}", model.provider, model.model);
                if behind == agent.model { name } else { format!("{name}: {}", code(&behind)) }
            }
            None => name,
        }
    }

    fn callers_of(&self, called: &AgentId) -> BTreeSet<AgentId> {
        let calls = |agent: &&Arc<Agent>| called_by(agent).contains(called);
        self.configs.agents.values().filter(calls).map(|agent| agent.id.clone()).collect()
    }

    fn heading(&self, agent: &AgentId) -> String {
        let agent = code(agent.as_str());
        if self.is_only { agent } else { format!("{agent} of {}", code(self.configs.job.id.as_str())) }
    }

    fn link(&self, agent: &AgentId) -> String {
        format!("[{}](#{})", code(agent.as_str()), anchor(&self.heading(agent)))
    }

    fn links(&self, agents: &BTreeSet<AgentId>) -> String {
        let links: Vec<_> = agents.iter().map(|agent| self.link(agent)).collect();
        if links.is_empty() { "no agent".to_owned() } else { links.join(", ") }
    }
}

/// Returns the agents that `agent` may call.
fn called_by(agent: &Agent) -> BTreeSet<AgentId> {
    agent.tools.values().filter_map(|tool| tool.agent.clone()).collect()
}

/// Returns the limits that are set.
fn limit_list(limits: &Value) -> String {
    let set = limits.as_object().into_iter().flatten().map(|(name, value)| format!("`{name}` {value}"));
    set.collect::<Vec<_>>().join(", ")
}
