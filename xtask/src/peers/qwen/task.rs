//! A task for the model: its job folder, and what a right run of it does.

use std::path::Path;

use serde_json::{Value, json};

use super::super::program::write_json;
use super::ways::Way;

/// The name of the model in agents' files.
pub(super) const MODEL: &str = "qwen";

/// The greatest number of turns of a task.
const TURNS: u32 = 8;

/// The most tokens of an answer.
const MAX_TOKENS: u32 = 400;

/// The window of the server in tokens.
pub(super) const WINDOW: u32 = 8_192;

/// The root agent of every job.
const ROOT: &str = "worker";

/// A task of one seed.
pub(super) struct Task {
    pub(super) request: String,
    /// Documents of the job: paths and texts.
    pub(super) documents: Vec<(&'static str, String)>,
    pub(super) agents: Agents,
    /// Schema of the result.
    pub(super) schema: Value,
    /// Calls that a right run makes.
    pub(super) expected: Vec<Expected>,
    pub(super) outcome: Outcome,
}

/// The agents of a job, by the tools that they have. Few sets, so that a server can reuse the beginning of its prompts.
#[derive(Clone, Copy)]
pub(super) enum Agents {
    /// One agent with tools that need no documents.
    Basics,
    /// One agent that queries tables.
    Tables,
    /// One agent that transforms JSON.
    Json,
    /// One agent that reads and writes documents.
    Files,
    /// An agent without other tools, and an agent that computes.
    Adder,
    /// An agent without other tools, and an agent that writes documents.
    Writer,
}

/// A call, or calls, that a right run makes. Numbers are compared as numbers: 1 is 1.0.
#[derive(Debug)]
pub(super) enum Expected {
    /// Calculations. Their expressions have all `operands`, and no number except these, `constants` and earlier results.
    Computes {
        operands: Vec<f64>,
        constants: &'static [f64],
        /// Results, each of which a call returns, in this order.
        results: Vec<Vec<f64>>,
        /// The turns of the calls: all in one, or each in its own.
        turns: Turns,
    },
    /// One call of `tool` with this input.
    Call { tool: &'static str, input: Value },
    /// One draw of a number within these bounds.
    Draws { min: u32, max: u32 },
    /// A query of `table` whose rows have all `values`.
    Queries { table: &'static str, values: Vec<Value> },
    /// One write of this text, after any number of reads of the document.
    Writes { path: &'static str, content: String },
    /// A delegation to `agent` whose request has all `words`.
    Delegates { agent: &'static str, words: Vec<String> },
}

/// The turns in which calculations are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    Any,
    /// All results come from one turn.
    One,
    /// Each result comes from a later turn than the one before, and the later expression has the earlier result.
    Successive,
}

/// The result that a right run hands off.
#[derive(Debug)]
pub(super) enum Outcome {
    /// This result, and no documents that matter.
    Result(Value),
    /// This result, with a document of this text.
    Document { result: Value, path: &'static str, content: String },
    /// An object with the number that was drawn.
    Drawn(&'static str),
}

impl Agents {
    /// Returns the tools of the root agent.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Basics => &["calculator", "echo", "random", "timer", "handoff"],
            Self::Tables => &["calculator", "query_data", "handoff"],
            Self::Json => &["echo", "json-transform", "handoff"],
            Self::Files => &["load_to_context", "write_file", "handoff"],
            Self::Adder => &["route_to_adder", "handoff"],
            Self::Writer => &["route_to_writer", "handoff"],
        }
    }

    /// Returns the agent that the root agent delegates to: its name, its description and its tools.
    fn callee(self) -> Option<(&'static str, &'static str, &'static [&'static str])> {
        match self {
            Self::Adder => {
                Some(("adder", "Adds numbers with a calculator. Its result is {\"sum\": NUMBER}.", &["calculator", "handoff"]))
            }
            Self::Writer => Some((
                "writer",
                "Writes a document and hands it off. Give it the path and the exact text.",
                &["write_file", "handoff"],
            )),
            _ => None,
        }
    }
}

impl Task {
    /// Writes the job of this task into `folder`, for agents that call tools in this way.
    pub(super) fn write(&self, name: &str, way: Way, folder: &Path) -> anyhow::Result<()> {
        let documents: Vec<Value> =
            self.documents.iter().map(|(path, _)| json!({"path": path, "description": "Data of the task"})).collect();
        let job = json!({
            "job_id": name, "description": "A small task for a small model.", "root": ROOT, "request": self.request,
            "documents": documents, "limits": {"turns": TURNS},
        });
        write_json(&folder.join("job.json"), &job)?;
        for (path, content) in &self.documents {
            let path = folder.join("documents").join(path);
            std::fs::create_dir_all(folder.join("documents"))?;
            std::fs::write(path, content)?;
        }
        let mut agent = way.agent(ROOT, "Does small tasks with tools.", self.agents.tools());
        agent["result_schema"] = self.schema.clone();
        write_agent(folder, &agent)?;
        if let Some((id, description, tools)) = self.agents.callee() {
            write_agent(folder, &way.agent(id, description, tools))?;
        }
        Ok(())
    }
}

/// Writes the file of an agent, with the limits that all agents have.
fn write_agent(folder: &Path, agent: &Value) -> anyhow::Result<()> {
    let mut agent = agent.clone();
    agent["model"] = json!(MODEL);
    agent["limits"] = json!({"context_tokens": WINDOW});
    agent["settings"]["max_tokens"] = json!(MAX_TOKENS);
    write_json(&folder.join(format!("agents/{}.json", agent["agent_id"].as_str().unwrap_or_default())), &agent)
}
