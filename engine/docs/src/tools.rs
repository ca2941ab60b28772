//! The page of tools: the six types, then every tool with its input, its output, its settings and its examples.

use std::fmt::Write as _;

use baton_types::call::AfterExecution;
use baton_types::config::{Approver, EffectClass, Example, Executor, Tool, first_sentence};
use baton_types::json::Json;
use baton_types::tool_type::{Logs, Then, ToolType};
use serde_json::{Map, Value, json};

use crate::described::{DescribedTool, Grant};
use crate::markdown::{anchor, code, fence, line, paragraphs};
use crate::values::{Line, compact_json, inline_code, lines};

/// Keys of an input's schema that its table shows, or that add nothing to it.
const SHOWN_KEYS: [&str; 7] = ["$schema", "type", "title", "description", "properties", "required", "additionalProperties"];

/// The parts of the page that differ between places.
#[derive(Clone, Copy, Debug)]
pub struct Introduction<'t> {
    /// The first line ([`crate::first_line`]).
    pub first_line: &'t str,
    /// The text after the heading, in Markdown.
    pub text: &'t str,
    /// The heading of the table of all tools.
    pub overview: &'t str,
}

/// Returns the page. `tools` are in the order of their types.
pub fn tools_page(introduction: &Introduction<'_>, tools: &[DescribedTool]) -> String {
    let Introduction { first_line, text, overview } = introduction;
    let mut page = format!("{first_line}\n\n# Tools\n\n{text}\n\n## The six types\n\n");
    add_behavior_table(&mut page);
    let _infallible = write!(page, "\n## {overview}\n\n");
    if tools.is_empty() {
        page.push_str("None.\n");
        return page;
    }
    add_overview(&mut page, tools);
    for tool_type in ToolType::ALL {
        let of_type: Vec<_> = tools.iter().filter(|described| described.tool.tool_type == tool_type).collect();
        if !of_type.is_empty() {
            let _infallible = write!(page, "\n## Type `{tool_type}`\n");
        }
        for described in of_type {
            let _infallible = write!(page, "\n### {}\n\n", heading(described, tools));
            page.push_str(&section(described));
            add_grants(&mut page, described);
        }
    }
    page
}

/// Returns the heading of a tool: its id, with its jobs if other jobs have another version of it.
pub(crate) fn heading(described: &DescribedTool, tools: &[DescribedTool]) -> String {
    let id = code(described.tool.id.as_str());
    let versions = tools.iter().filter(|other| other.tool.id == described.tool.id).count();
    match described.jobs.as_slice() {
        [] => id,
        _ if versions < 2 => id,
        [job] => format!("{id} of the job {}", code(job.as_str())),
        jobs => {
            let jobs: Vec<_> = jobs.iter().map(|job| code(job.as_str())).collect();
            format!("{id} of the jobs {}", jobs.join(", "))
        }
    }
}

/// Adds the table of the six tool types, from the rows that the machine reads.
fn add_behavior_table(page: &mut String) {
    page.push_str("| type | creates a task | blocks the caller | runs code | logs | passes documents | then |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    let yes = |is: bool| if is { "yes" } else { "no" };
    for tool_type in ToolType::ALL {
        let row = tool_type.behavior();
        let logs = match row.logs {
            Logs::InputAndResult => "input and result",
            Logs::InputOnly => "input",
            Logs::InputAndDocuments => "input and documents",
            Logs::InputAndStatus => "input and status, later the result",
            Logs::Request => "request",
        };
        let then = match row.then {
            Then::Continue => "the agent continues",
            Then::Stop => "the task ends; result and documents go back to its caller",
            Then::Block => "the task waits, then continues with the result and its documents",
            Then::Enter => "the run begins",
        };
        let (creates, blocks, runs, passes) =
            (yes(row.creates_task), yes(row.blocks_caller), yes(row.runs_code), yes(row.passes_documents));
        let _infallible = writeln!(page, "| `{tool_type}` | {creates} | {blocks} | {runs} | {logs} | {passes} | {then} |");
    }
    page.push_str("\n`root` is the engine's own: the entry point of a run. No agent can be offered it.\n");
}

/// Adds one row per tool, by type.
fn add_overview(page: &mut String, tools: &[DescribedTool]) {
    page.push_str("| type | tool | category | what it does |\n| --- | --- | --- | --- |\n");
    for described in tools {
        let DescribedTool { tool, .. } = described;
        let heading = heading(described, tools);
        let (tool_type, category) = (tool.tool_type, line(tool.category.as_deref().unwrap_or_default()));
        let what = line(first_sentence(&tool.description));
        let anchor = anchor(&heading);
        let _infallible = writeln!(page, "| `{tool_type}` | [{heading}](#{anchor}) | {category} | {what} |");
    }
}

/// Returns the text about one tool, without its heading and its grants.
pub(crate) fn section(described: &DescribedTool) -> String {
    let DescribedTool { tool, settings, .. } = described;
    let mut page = paragraphs(&tool.description) + "\n";
    if let Some(name) = &tool.definition.name {
        let _infallible = write!(page, "\nModels see the name {}.\n", code(name));
    }
    if let Some(summary) = &tool.summary {
        let _infallible = write!(page, "\nSummary in lists of tools: {}\n", line(summary));
    }
    add_input(&mut page, &tool.definition.input_schema.value());
    let returns = tool.output.as_ref().map(|output| properties(output.json())).unwrap_or_default();
    if !returns.is_empty() {
        page.push_str("\n| returns | type | description |\n| --- | --- | --- |\n");
        for Line { name, kind, description, .. } in returns {
            let _infallible = writeln!(page, "| {} | {kind} | {} |", code(&name), line(&description));
        }
    }
    add_settings(&mut page, tool, settings);
    let _infallible = write!(page, "\n{}\n", facts(tool));
    for example in &tool.examples {
        add_example(&mut page, example);
    }
    page
}

/// Adds the table of an input, and its schema if the table does not show all of it.
pub(crate) fn add_input(page: &mut String, schema: &Value) {
    let keys = schema.as_object();
    let parameters = keys.map(lines_of).unwrap_or_default();
    if parameters.is_empty() {
        page.push_str("\nNo parameters.\n");
    } else {
        page.push_str("\n| parameter | type | required | default | description |\n| --- | --- | --- | --- | --- |\n");
        for Line { name, kind, required, default, description } in parameters {
            let required = if required { "yes" } else { "no" };
            let default = default.map(|value| inline_code(&value)).unwrap_or_default();
            let _infallible = writeln!(page, "| {} | {kind} | {required} | {default} | {} |", code(&name), line(&description));
        }
    }
    let is_shown = |key: &String| SHOWN_KEYS.contains(&key.as_str());
    if keys.is_some_and(|keys| !keys.keys().all(is_shown)) || refers(schema) {
        let _infallible = write!(page, "\nThe whole schema:\n\n{}", fence(&compact_json(schema)));
    }
}

/// Whether a part of `schema` refers to another part, which tables do not follow.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(keys) => keys.iter().any(|(key, value)| (key == "$ref" && value.is_string()) || refers(value)),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// Returns the lines about the properties of an object's schema.
fn properties(schema: &Json) -> Vec<Line> {
    schema.value().as_object().map(lines_of).unwrap_or_default()
}

fn lines_of(schema: &Map<String, Value>) -> Vec<Line> {
    schema.get("properties").and_then(Value::as_object).map(|parts| lines(parts, Some(schema))).unwrap_or_default()
}

/// Adds the settings that the tool declares. The values that a job sets are not shown.
fn add_settings(page: &mut String, tool: &Tool, settings: &Map<String, Value>) {
    if settings.is_empty() {
        return;
    }
    let file = code(&format!("tools/{}.json", tool.id));
    let _infallible =
        write!(page, "\nA job's {file} may `set`:\n\n| setting | type | default | description |\n| --- | --- | --- | --- |\n");
    for Line { name, kind, default, description, .. } in lines(settings, None) {
        let needs_trust = settings.get(&name).is_some_and(|setting| setting["needs_trust"] == true);
        let trust = if needs_trust { " *Needs trust.*" } else { "" };
        let default = default.map(|value| inline_code(&value)).unwrap_or_default();
        let _infallible = writeln!(page, "| {} | {kind} | {default} | {}{trust} |", code(&name), line(&description));
    }
    for (name, setting) in settings {
        if let Some(schema) = setting.get("schema") {
            let schema = format!("{schema:#}");
            let _infallible = write!(page, "\n{} must match this schema:\n\n{}", code(name), fence(&schema));
        }
    }
}

/// Returns one line about crashes, time limit and writes of a call.
fn facts(tool: &Tool) -> String {
    let mut facts = Vec::new();
    if tool.tool_type.behavior().runs_code {
        let (name, after_a_crash) = match tool.effect {
            EffectClass::Pure => ("pure", "run again after a crash"),
            EffectClass::Idempotent => ("idempotent", "run again after a crash"),
            EffectClass::Keyed => ("keyed", "run again after a crash, under the same key"),
            EffectClass::AtMostOnce => ("at_most_once", "never run again: after a crash its outcome is unknown"),
        };
        facts.push(format!("**Effect** `{name}` ({after_a_crash})"));
        facts.push(format!("**time limit** {} s", tool.timeout.as_secs()));
        facts.push(format!("**writes documents** {}", if tool.writes { "yes" } else { "no" }));
    } else {
        facts.push("**Runs no code**".to_owned());
    }
    if let Some(after) = tool.after {
        let after = match after {
            AfterExecution::Suspend => "suspend",
            AfterExecution::Terminate => "terminate",
        };
        facts.push(format!("**after execution** `{after}`"));
    }
    if let Some(approver) = tool.approval {
        facts.push(format!("**approval** by {}", name_of(approver)));
    }
    if let Some(accept) = &tool.accept {
        facts.push(format!("**results accepted** by {}", code(&accept.by.to_string())));
    }
    // The command itself may name places of a machine.
    if let Some(Executor::Exec(exec)) = &tool.executor {
        facts.push("**runs** a command".to_owned());
        if !exec.env.is_empty() {
            facts.push(format!("**reads variables** {}", codes(&exec.env)));
        }
    }
    if !tool.secrets.is_empty() {
        facts.push(format!("**reads secrets** {}", codes(&tool.secrets)));
    }
    if !tool.tags.is_empty() {
        let tags: Vec<_> = tool.tags.iter().map(|tag| line(tag)).collect();
        facts.push(format!("**tags** {}", tags.join(", ")));
    }
    facts.join(" · ")
}

fn codes(names: &[String]) -> String {
    names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn name_of(approver: Approver) -> &'static str {
    match approver {
        Approver::Master => "the master",
        Approver::Person => "a person",
    }
}

fn add_example(page: &mut String, example: &Example) {
    let Example { explanation, input, output, documents, answers: _, runs: _ } = example;
    let explanation = if explanation.is_empty() { "Example" } else { explanation.trim_end_matches(['.', ':']) };
    let mut shown = Map::new();
    if !documents.is_empty() {
        shown.insert("documents".to_owned(), json!(documents));
    }
    shown.insert("input".to_owned(), input.clone());
    shown.extend(output.clone().map(|output| ("output".to_owned(), output)));
    let json = compact_json(&Value::Object(shown));
    let _infallible = write!(page, "\n{}:\n\n{}", line(explanation), fence(&json));
}

/// Adds the agents that may use the tool, and what differs in their descriptions of it.
fn add_grants(page: &mut String, described: &DescribedTool) {
    let DescribedTool { tool, jobs, grants, .. } = described;
    if jobs.is_empty() && grants.is_empty() {
        return;
    }
    let name = |Grant { job, agent, approval, .. }: &Grant| {
        let approval = approval.map(|approver| format!(" (approval by {})", name_of(approver))).unwrap_or_default();
        format!("{} of {}{approval}", code(agent.as_str()), code(job.as_str()))
    };
    let names: Vec<_> = grants.iter().map(name).collect();
    let names = if names.is_empty() { "no agent".to_owned() } else { names.join(", ") };
    let _infallible = write!(page, "\nGranted to {names}.\n");
    for grant in grants {
        add_wording(page, tool, grant);
    }
}

/// Adds the descriptions that an agent sees instead of the tool's own.
fn add_wording(page: &mut String, tool: &Tool, grant: &Grant) {
    let seen = &grant.tool.definition;
    let parameters = |schema: &Json| -> Vec<(String, String)> {
        properties(schema).into_iter().map(|Line { name, description, .. }| (name, description)).collect()
    };
    let own = parameters(tool.input.json());
    let differ: Vec<_> = parameters(&seen.input_schema).into_iter().filter(|parameter| !own.contains(parameter)).collect();
    let has_description = seen.description != tool.description;
    if has_description || !differ.is_empty() {
        let (agent, job) = (code(grant.agent.as_str()), code(grant.job.as_str()));
        let _infallible = write!(page, "\n{agent} of {job} sees other descriptions.\n");
    }
    if has_description {
        let _infallible = write!(page, "\n{}\n", paragraphs(&seen.description));
    }
    if !differ.is_empty() {
        page.push_str("\n| parameter | description |\n| --- | --- |\n");
        for (name, description) in differ {
            let _infallible = writeln!(page, "| {} | {} |", code(&name), line(&description));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_config::{Role, Sources, Unconfigured, declared_settings, load_tools};

    use super::*;

    const INTRODUCTION: Introduction<'_> = Introduction { first_line: "<!-- first -->", text: "Text.", overview: "All tools" };

    fn page(configs: &[Value]) -> String {
        let mut sources = Sources::new("");
        for config in configs {
            sources.add(Role::Tool, format!("tools/{}.json", config["tool_id"].as_str().unwrap()), config.to_string());
        }
        let tools = load_tools(&sources, &[], Unconfigured::Reading).unwrap_or_else(|faults| panic!("{faults}"));
        let settings = declared_settings(&sources);
        let described: Vec<_> = tools
            .into_values()
            .map(|tool| DescribedTool::without_job(Arc::clone(&tool), settings.get(&tool.id).cloned().unwrap_or_default()))
            .collect();
        tools_page(&INTRODUCTION, &described)
    }

    #[test]
    fn a_tool_s_section_has_everything_that_its_config_has() {
        let config = json!({
            "tool_id": "shout", "type": "function_tool", "category": "text", "tags": ["loud"],
            "description": "Make text v1.2 loud. Use it rarely.", "summary": "Make text loud",
            "parameters": {
                "text": {"type": "string", "description": "What | to\nshout", "required": true},
                "times": {"type": "integer", "description": "How often", "required": false, "default": 1, "maximum": 3}
            },
            "returns": {"text": "string"},
            "settings": {"volume": {"type": "integer", "description": "How loud", "default": 5, "needs_trust": true}},
            "examples": [{"explanation": "Once.", "input": {"text": "a"}, "output": {"text": "A!"}}],
            "effect": "pure", "timeout_seconds": 5, "writes": true
        });
        let page = page(&[config]);
        assert!(page.starts_with("<!-- first -->\n\n# Tools\n\nText.\n\n## The six types\n"), "{page}");
        let (overview, section) = page.split_once("### `shout`").expect("a section");
        assert!(overview.contains("| `function_tool` | [`shout`](#shout) | text | Make text v1.2 loud. |"), "{overview}");
        let expected = "\n\nMake text v1.2 loud. Use it rarely.\n\nSummary in lists of tools: Make text loud\n\n\
            | parameter | type | required | default | description |\n| --- | --- | --- | --- | --- |\n\
            | `text` | string | yes |  | What \\| to shout |\n\
            | `times` | integer, at most 3 | no | `1` | How often |\n\n\
            | returns | type | description |\n| --- | --- | --- |\n| `text` | string |  |\n\n\
            A job's `tools/shout.json` may `set`:\n\n\
            | setting | type | default | description |\n| --- | --- | --- | --- |\n\
            | `volume` | integer | `5` | How loud *Needs trust.* |\n\n\
            **Effect** `pure` (run again after a crash) · **time limit** 5 s · **writes documents** yes · **tags** loud\n\n\
            Once:\n\n```json\n{\n  \"input\": {\"text\": \"a\"},\n  \"output\": {\"text\": \"A!\"}\n}\n```\n";
        assert_eq!(section, expected);
    }

    #[test]
    fn a_schema_that_a_table_cannot_show_is_shown_whole() {
        let config = |schema: Value| json!({"tool_id": "note", "type": "non_function_tool", "description": "Notes.", "input_schema": schema});
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        assert!(!page(&[config(plain)]).contains("The whole schema"));
        let either =
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert!(page(&[config(either)]).contains("The whole schema:\n\n```json\n{\n  \"type\": \"object\",\n"));
        let reference = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#"}}}});
        assert!(page(&[config(reference)]).contains("\"$ref\": \"#\""));
    }

    #[test]
    fn the_table_of_types_has_a_row_for_each() {
        let page = page(&[]);
        let row = "| `ask_master` | yes | yes | no | input and status, later the result | yes | the task waits, then continues with the result and its documents |";
        assert!(page.lines().any(|line| line == row), "{page}");
        for tool_type in ToolType::ALL {
            assert!(page.contains(&format!("\n| `{tool_type}` | ")), "{tool_type}");
        }
    }
}
