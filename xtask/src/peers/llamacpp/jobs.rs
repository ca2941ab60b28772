//! Jobs for a random model, and the requirements that hold for any answer.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::program::{FinishedRun, write_json};
use crate::project::root;

/// The example that is run as it is, and whose agents the forced one has.
const Q3: &str = "examples/q3-sales";

/// The document that the example is about.
const SALES: &str = "sales_raw.csv";

/// Forced call of each of its agents, first to last.
const CHAIN: [(&str, &str); 3] = [("lead", "route_to_analyst"), ("analyst", "route_to_visualizer"), ("visualizer", "handoff")];

/// Number of lines in the document that is read; a line has at least ten tokens of the model.
const LINES: usize = 200;

/// Number of characters of an answer that takes seconds.
pub(super) const LONG: u32 = 8_000;

/// The most tokens of a text, which is as long at most, and of calls.
const TEXT_TOKENS: u32 = 2 * LONG;
const CALL_TOKENS: u32 = 4_000;

/// The most tokens of a report that is cut off: less than the shortest report has.
const CUT_TOKENS: u32 = 40;

/// Number of letters in the answer of [`Job::Greek`].
pub(super) const LETTERS: u32 = 40;

/// A job for the model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// One agent without tools.
    Talk,
    /// The same agent, whose answer must be Greek letters.
    Greek,
    /// One agent with a document.
    Read,
    /// One agent with one tool, whose schema has something of everything.
    Report,
    /// The same agent, with too few tokens for a report.
    Cut,
    /// The agents of the example, each with one tool: two delegations and a handoff.
    Chain,
    /// The example as it is.
    Q3,
}

impl Job {
    /// Returns its folder, if the others are in `jobs`.
    pub(super) fn folder(self, jobs: &Path) -> PathBuf {
        match self {
            Self::Talk | Self::Greek => jobs.join("talk"),
            Self::Read => jobs.join("read"),
            Self::Report => jobs.join("report"),
            Self::Cut => jobs.join("cut"),
            Self::Chain => jobs.join("chain"),
            Self::Q3 => root().join(Q3),
        }
    }

    /// Returns the faults of a successful run of it.
    pub(super) fn faults(self, finished: &FinishedRun) -> Vec<String> {
        let mut faults = Vec::new();
        match self {
            Self::Talk | Self::Cut | Self::Q3 => {}
            Self::Greek => {
                faults.extend(text_fault(finished, LETTERS));
                if !text(finished).chars().all(|letter| ('α'..='ω').contains(&letter)) {
                    faults.push(format!("{} is not Greek", finished.report["result"]));
                }
            }
            Self::Read => {
                let read = finished.report["usage"]["used"]["input_tokens"].as_u64().unwrap_or_default();
                if read < 10 * LINES as u64 {
                    faults.push(format!("the document did not reach the model: it read {read} tokens"));
                }
            }
            Self::Report => faults.extend(
                finished.inputs("report").filter(|input| !is_report(input)).map(|input| format!("{input} is not a report")),
            ),
            Self::Chain => {
                let sent = finished.inputs("route_to_analyst").chain(finished.inputs("route_to_visualizer"));
                faults.extend(
                    sent.filter(|input| input["documents"] != json!([SALES])).map(|input| format!("{input} sends no document")),
                );
                let tasks =
                    finished.entries("task_created").filter_map(|row| row["holder"]["agent"].as_str()).collect::<Vec<_>>();
                if tasks != CHAIN.map(|(agent, _)| agent) {
                    faults.push(format!("the tasks are those of {}", tasks.join(", ")));
                }
            }
        }
        faults
    }
}

/// The calls of [`Job::Chain`] in the order of their ends.
pub(super) const CHAINED: &[&str] = &["handoff", "route_to_visualizer", "route_to_analyst"];

/// Writes all of them but the example into `jobs`.
pub(super) fn write(jobs: &Path) -> anyhow::Result<()> {
    let lines: Vec<String> =
        (0..LINES).map(|line| format!("{line},2024-07-{:02},North,Lamp,{}\n", line % 31 + 1, line * 37)).collect();
    let read = Job::Read.folder(jobs);
    write_alone(&Job::Talk.folder(jobs), json!({}), &[], TEXT_TOKENS)?;
    write_alone(&read, json!({"documents": [{"path": "orders.csv", "description": "Orders"}]}), &[], TEXT_TOKENS)?;
    std::fs::create_dir_all(read.join("documents"))?;
    std::fs::write(read.join("documents/orders.csv"), lines.concat())?;
    let tool = json!({
        "tool_id": "report", "type": "non_function_tool", "description": "Reports the state and ends the task.",
        "after_execution": "terminate", "input_schema": report_schema(),
    });
    for (job, tokens) in [(Job::Report, CALL_TOKENS), (Job::Cut, CUT_TOKENS)] {
        let folder = job.folder(jobs);
        write_alone(&folder, json!({"limits": {"turns": 6}}), &["report"], tokens)?;
        write_json(&folder.join("tools/report.json"), &tool)?;
    }
    write_chain(&Job::Chain.folder(jobs))
}

/// Writes a job of one agent with these tools, whose answers have at most `tokens`.
fn write_alone(folder: &Path, more: Value, tools: &[&str], tokens: u32) -> anyhow::Result<()> {
    let mut job = json!({"job_id": "alone", "description": "One agent, asked.", "root": "one", "request": "Report the state.",
        "outage_seconds": 5});
    job.as_object_mut().into_iter().for_each(|job| job.extend(more.as_object().cloned().unwrap_or_default()));
    write_json(&folder.join("job.json"), &job)?;
    let agent = json!({
        "agent_id": "one", "description": "Reports the state.", "model": "llamacpp:any", "tools": tools,
        "system_prompt": "You report the state.", "settings": {"max_tokens": tokens},
    });
    write_json(&folder.join("agents/one.json"), &agent)
}

/// Writes the example's agents and document, with one tool for each.
fn write_chain(folder: &Path) -> anyhow::Result<()> {
    let example = root().join(Q3);
    let read = |path: &str| -> anyhow::Result<Value> { Ok(serde_json::from_slice(&std::fs::read(example.join(path))?)?) };
    let mut job = read("job.json")?;
    job.as_object_mut().into_iter().for_each(|job| {
        job.remove("models");
    });
    write_json(&folder.join("job.json"), &job)?;
    for (agent, tool) in CHAIN {
        let path = format!("agents/{agent}.json");
        let mut config = read(&path)?;
        config["model"] = json!("llamacpp:any");
        config["tools"] = json!([tool]);
        config["settings"] = json!({"max_tokens": CALL_TOKENS});
        write_json(&folder.join(path), &config)?;
        let schema = if tool == "handoff" {
            object(json!({"result": report_schema()}))
        } else {
            let documents = json!({"type": "array", "items": {"type": "string", "enum": [SALES]}, "minItems": 1, "maxItems": 1});
            object(json!({"request": {"type": "string"}, "documents": documents}))
        };
        // What a delegation comes to ends the task that made it. Examples of other inputs would break the schema.
        let mut refined = json!({"tool_id": tool, "input_schema": schema, "examples": []});
        if tool != "handoff" {
            refined["after_execution"] = json!("terminate");
        }
        write_json(&folder.join(format!("tools/{tool}.json")), &refined)?;
    }
    std::fs::create_dir_all(folder.join("documents"))?;
    std::fs::copy(example.join("documents").join(SALES), folder.join("documents").join(SALES))?;
    Ok(())
}

/// Returns a schema with something of everything that grammars are made of.
fn report_schema() -> Value {
    let region = json!({"enum": ["North", "South", "East", "West"]});
    let figure = object(json!({"region": region, "units": {"type": "integer"}, "rising": {"type": "boolean"}}));
    object(json!({
        "title": {"type": "string"},
        "level": {"enum": ["low", "high"]},
        "figures": {"type": "array", "items": figure, "minItems": 1, "maxItems": 3},
        "note": {"type": ["string", "null"]},
    }))
}

/// Returns the text that ended a run.
fn text(finished: &FinishedRun) -> &str {
    finished.report["result"].as_str().unwrap_or_default()
}

/// Returns a fault unless the text that ended a run has this number of characters.
pub(super) fn text_fault(finished: &FinishedRun, characters: u32) -> Option<String> {
    let found = text(finished).chars().count();
    (found != characters as usize).then(|| format!("the text has {found} characters instead of {characters}"))
}

/// Returns the schema of an object that has all of `properties` and nothing else.
fn object(properties: Value) -> Value {
    let required: Vec<String> = properties.as_object().into_iter().flat_map(|each| each.keys().cloned()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Whether `input` is what [`report_schema`] asks for, judged without it.
fn is_report(input: &Value) -> bool {
    let figures = input["figures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_figure = |figure: &Value| figure["region"].is_string() && figure["units"].is_i64() && figure["rising"].is_boolean();
    input.as_object().is_some_and(|input| input.len() == 4)
        && input["title"].is_string()
        && matches!(input["level"].as_str(), Some("low" | "high"))
        && (1..=3).contains(&figures.len())
        && figures.iter().all(is_figure)
        && (input["note"].is_null() || input["note"].is_string())
}
