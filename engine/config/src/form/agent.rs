//! Agent configs.

use std::collections::BTreeMap;

use baton_types::config::{Approver, Catalog, Invocation, Join, MasterRule, OnText, OpenTasks, Summary};
use baton_types::id::ID_PATTERN;
use baton_types::limits::Limits;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

/// An agent config: a prompt and a model, or a program; tools and limits.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton agent config")]
pub struct AgentForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The agent's name; the file is named after it.
    #[validate(length(min = 1, max = 55))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent_id: String,
    /// Skills of the agent, for agents that may call it.
    #[validate(length(min = 1, max = 20_000))]
    pub description: String,
    /// The name of its model among the job's `models`. Required without `program`.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub model: Option<String>,
    /// The system prompt, a template: the text itself, or the file that holds it. Required without `program`.
    #[serde(default)]
    pub system_prompt: Option<PromptForm>,
    /// In place of a model and a prompt: the file of a program in Python, which calls the agent's tools. The path is relative to the folder
    /// with `agents/`: the job's, or the project's for an agent that its jobs share.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub program: Option<String>,
    /// The tools it may use: their ids, ids with approvals and descriptions, or all tools of a category or with a tag.
    /// `route_to_<agent_id>` delegates to an agent.
    #[serde(default)]
    pub tools: Vec<GrantForm>,
    /// Ids of the tool configurations in `configs/` that its calls may name as `config_id`.
    #[serde(default)]
    pub configs: Vec<String>,
    /// Its way to call tools: by the tool calls of its provider (`native`), or by JSON in its text (`universal`), for
    /// models without tool calling (default: what its model says, or `native`).
    #[serde(default)]
    pub invocation: Option<Invocation>,
    /// The knowledge of its model about its tools at first. `full` (default for `native`) is the definition of every tool. `discover`
    /// (default for `universal`) is a line for each tool. It asks for the definitions of those that it needs. `prompt` is a shorter text, in
    /// a system message of its own.
    #[serde(default)]
    pub catalog: Option<Catalog>,
    /// Meaning of a turn without calls: its text is the result (`handoff`, the default), or the agent is reminded to
    /// use a tool.
    #[serde(default)]
    pub on_text: Option<OnText>,
    /// Recipient of its questions: the agent that called it (the default), or a person.
    #[serde(default)]
    pub master: Option<MasterRule>,
    /// Number of awaited delegations of one turn: the result of each (`all`, the default), the first success, the success of
    /// each (`fail_fast`: the first failure cancels the others), or a number of successes.
    #[serde(default)]
    pub join: Option<Join>,
    /// Background tasks that still run when it wants to end its task: the task ends after them, and it sees their results first
    /// (`wait`, the default), or they are cancelled (`cancel`).
    #[serde(default)]
    pub open_tasks: Option<OpenTasks>,
    /// Whether each request ends with what is left of turns, time, tokens and money (default: `false`). Only what a limit bounds is named.
    #[serde(default)]
    pub tell_limits: Option<bool>,
    /// Replacement of older turns once a conversation comes near the end of its window (`limits.context_tokens`, or
    /// that of the model). It is a digest of texts and calls (`digest`, the default), or a summary that its model
    /// writes in a turn of its own (`model`).
    #[serde(default)]
    pub summary: Option<Summary>,
    /// Limits of its tasks.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// A JSON Schema (2020-12) that its results must meet.
    #[serde(default)]
    pub result_schema: Option<Map<String, Value>>,
    /// Settings for its model, such as `temperature`.
    #[serde(default)]
    pub settings: Option<Map<String, Value>>,
}

/// A tool that an agent may use: its id, or its id and more; or several tools by their category or tag.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Grant")]
pub enum GrantForm {
    /// Its id.
    Tool(String),
    /// Its id and more.
    Full(FullGrantForm),
    /// All tools of a category or with a tag.
    Selected(SelectorForm),
}

/// All tools of a category, with a tag, or both. Tools that are also granted by their ids are granted as these grants define.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Selector")]
pub struct SelectorForm {
    /// The category of the tools.
    #[serde(default)]
    #[schemars(length(min = 1, max = 64))]
    pub category: Option<String>,
    /// A tag of the tools.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub tag: Option<String>,
    /// Approver of each call of these tools by this agent. Tools that need no approval are granted without one.
    #[serde(default)]
    pub approval: Option<Approver>,
}

impl SelectorForm {
    /// Whether it selects a tool of `category` with `tags`.
    pub fn selects<'a>(&self, category: Option<&str>, mut tags: impl Iterator<Item = &'a str>) -> bool {
        let is_category = self.category.as_ref().is_none_or(|wanted| category == Some(wanted));
        let has_tag = self.tag.as_ref().is_none_or(|wanted| tags.any(|tag| tag == wanted));
        is_category && has_tag && (self.category.is_some() || self.tag.is_some())
    }
}

/// A tool that an agent may use, with its approval and its descriptions for this agent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FullGrant")]
pub struct FullGrantForm {
    /// The tool's id.
    pub tool: String,
    /// Approver of each call by this agent before it begins: a person, or its master. Where the tool's config requires
    /// an approval as well, a person's counts.
    #[serde(default)]
    pub approval: Option<Approver>,
    /// The description of the tool that this agent sees, instead of the one in the tool's config.
    #[serde(default)]
    #[schemars(length(min = 1, max = 20_000))]
    pub description: Option<String>,
    /// Words for this agent about parameters of the tool, by name. The schema of the input stays as it is.
    #[serde(default)]
    pub parameters: BTreeMap<String, WordingForm>,
}

/// Words about a parameter of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wording")]
pub struct WordingForm {
    /// The description of the parameter that the agent sees.
    #[schemars(length(min = 1, max = 20_000))]
    pub description: String,
}

/// A system prompt: the text itself, or the file that holds it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Prompt")]
pub enum PromptForm {
    /// The text.
    Text(#[schemars(length(min = 1))] String),
    /// A file.
    File(FileForm),
}

/// A file that holds a text.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "File")]
pub struct FileForm {
    /// The file's path, relative to the folder with `agents/`: the job's, or the project's for an agent that its jobs share.
    #[schemars(length(min = 1))]
    pub file: String,
}
