//! Templates of prompts and requests: checked when loaded, rendered strictly and within [bounds](crate::template).
//!
//! User, tool and document text is only ever a value of a template, never a template.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use baton_template::Templates;
use baton_types::config::{Agent, Catalog, Configs};
use baton_types::model::SystemPrompt;
use baton_types::spelling::nearest;
use minijinja::syntax::SyntaxConfig;
use serde_json::{Value, json};

use crate::about_tools::about_tools;
use crate::fault::one_of;

static TEMPLATES: LazyLock<Templates> = LazyLock::new(|| Templates::new(SyntaxConfig::default()));

/// Why a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} cannot be rendered: {message}")]
pub struct TemplateError {
    /// Which template.
    pub what: String,
    /// Description of the fault.
    pub message: String,
}

/// A fault of a template, found before it is rendered.
#[derive(Debug, PartialEq)]
pub(crate) enum TemplateFault {
    /// It cannot be read.
    Syntax { message: String, range: Option<Range<usize>> },
    /// It uses a variable that there will not be.
    Undefined { name: String, nearest: Option<String>, expected: String },
}

/// The variables that a template may use.
pub(crate) struct Scope {
    /// Names whose attributes are known, `job.id`.
    names: Vec<String>,
}

impl Scope {
    /// Returns the variables of a job's request.
    pub(crate) fn of_request<'i>(inputs: impl IntoIterator<Item = &'i str>) -> Self {
        let fixed = ["job.id", "job.description", "agents"].map(str::to_owned);
        Self { names: fixed.into_iter().chain(inputs.into_iter().map(|input| format!("inputs.{input}"))).collect() }
    }

    /// Returns the variables of a system prompt.
    pub(crate) fn of_prompt<'i>(inputs: impl IntoIterator<Item = &'i str>) -> Self {
        let mut scope = Self::of_request(inputs);
        scope.names.extend(["agent.id", "agent.description", "tools"].map(str::to_owned));
        scope
    }

    /// Returns the same variables and every input, for a job whose inputs could not be read.
    pub(crate) fn with_any_input(mut self) -> Self {
        self.names.push("inputs.*".to_owned());
        self
    }

    fn knows(&self, used: &str) -> bool {
        let is_input = used.starts_with("inputs.") && self.names.iter().any(|name| name == "inputs.*");
        is_input
            || used == "inputs"
            || self.names.iter().any(|name| {
                name == used
                    || name.split_once('.').is_some_and(|(object, _)| object == used)
                    || (name.starts_with("inputs.") && used.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.')))
            })
    }
}

/// Reports all faults of the template `text`.
pub(crate) fn check(text: &str, scope: &Scope) -> Vec<TemplateFault> {
    let used = match TEMPLATES.check(text) {
        Ok(used) => used,
        Err(error) => {
            let message = error.message.strip_prefix("syntax error: ").unwrap_or(&error.message).to_owned();
            return vec![TemplateFault::Syntax { message, range: error.range }];
        }
    };
    let used = used.into_iter().filter(|name| !scope.knows(name) && !TEMPLATES.is_global(name));
    used.map(|name| {
        let known: Vec<&str> = scope.names.iter().map(String::as_str).filter(|name| *name != "inputs.*").collect();
        let nearest = nearest(&name, known.iter().copied()).map(str::to_owned);
        TemplateFault::Undefined { nearest, expected: one_of(&known), name }
    })
    .collect()
}

/// Whether a template is its own rendering. A newline at its end is for minijinja to judge.
fn is_plain(text: &str) -> bool {
    !text.contains('{') && !text.ends_with('\n')
}

fn render(what: String, text: &str, variables: &Value) -> Result<String, TemplateError> {
    let values = minijinja::value::Serde(variables).into();
    TEMPLATES.render(text, values, weight(variables)).map_err(|error| {
        let message = match error.line {
            Some(line) => format!("line {line}: {error}"),
            None => error.to_string(),
        };
        TemplateError { what, message }
    })
}

/// Returns about the number of bytes of `value` as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + weight(field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// Renders the system prompt of `agent`. The same inputs give the same bytes.
pub fn render_prompt(configs: &Configs, agent: &Agent, inputs: &BTreeMap<String, Value>) -> Result<SystemPrompt, TemplateError> {
    let (own, tools) = (own_prompt(configs, agent, inputs)?, about_tools(agent));
    Ok(match agent.catalog {
        Catalog::Prompt => SystemPrompt::of_two(&own, &tools),
        Catalog::Full | Catalog::Discover => SystemPrompt::new(own + &tools),
    })
}

fn own_prompt(configs: &Configs, agent: &Agent, inputs: &BTreeMap<String, Value>) -> Result<String, TemplateError> {
    if is_plain(&agent.system_prompt) {
        return Ok(agent.system_prompt.clone());
    }
    let tools: Vec<Value> =
        agent.tools.values().map(|tool| json!({"id": tool.id.as_str(), "description": tool.description})).collect();
    let variables = json!({
        "job": job_variables(configs),
        "agent": {"id": agent.id.as_str(), "description": agent.description},
        "inputs": inputs,
        "tools": tools,
        "agents": agent_variables(configs),
    });
    render(format!("system prompt of agent {}", agent.id), &agent.system_prompt, &variables)
}

/// Renders the job's request.
pub fn render_request(configs: &Configs, inputs: &BTreeMap<String, Value>) -> Result<String, TemplateError> {
    if is_plain(&configs.job.request) {
        return Ok(configs.job.request.clone());
    }
    let variables = json!({"job": job_variables(configs), "inputs": inputs, "agents": agent_variables(configs)});
    render(format!("request of job {}", configs.job.id), &configs.job.request, &variables)
}

fn job_variables(configs: &Configs) -> Value {
    json!({"id": configs.job.id.as_str(), "description": configs.job.description})
}

fn agent_variables(configs: &Configs) -> Vec<Value> {
    configs.agents.values().map(|agent| json!({"id": agent.id.as_str(), "description": agent.description})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undefined(text: &str) -> Vec<String> {
        check(text, &Scope::of_prompt(["year", "point"]))
            .into_iter()
            .map(|fault| match fault {
                TemplateFault::Undefined { name, .. } => name,
                TemplateFault::Syntax { message, .. } => format!("syntax: {message}"),
            })
            .collect()
    }

    #[test]
    fn known_variables_pass() {
        let text = "{{ job.id }} {{ agent.description }} {{ inputs.year }} {{ inputs.point.x }} {{ inputs | tojson }}\
                    {% for tool in tools %}{{ tool.id }}{{ loop.index }}{% endfor %}{% for n in range(3) %}{{ n }}{% endfor %}";
        assert_eq!(undefined(text), Vec::<String>::new());
    }

    #[test]
    fn every_undefined_variable_is_named() {
        assert_eq!(
            undefined("{{ jobs.id }} {{ job.name }} {{ inputs.yaer }} {{ x }}"),
            ["inputs.yaer", "job.name", "jobs.id", "x"]
        );
        assert!(undefined("{{ inputs.year ")[0].starts_with("syntax"));
    }

    #[test]
    fn a_template_that_never_ends_runs_out_of_fuel() {
        let endless = "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}";
        assert!(render("test".to_owned(), endless, &json!({})).is_err());
    }

    #[test]
    fn values_weigh_about_as_much_as_their_json() {
        for (value, bytes) in [
            (json!("four"), 4),
            (json!(["four", 1, true, null]), 4 + 3 * 8),
            (json!({"name": "four", "list": [{"a": "b"}]}), 4 + 4 + 4 + (1 + 1)),
            (json!({}), 0),
        ] {
            assert_eq!(weight(&value), bytes, "{value}");
        }
    }
}
