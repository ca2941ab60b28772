//! The benchmark jobs as an engine's user writes them: configs in JSON, loaded and checked like any others.

use std::collections::HashSet;

use anyhow::anyhow;
use baton_config::{Role, Sources};
use baton_runtime::{InitialDocument, LoadedJob};
use baton_tool::registered_functions;
use baton_types::path::DocumentPath;
use serde_json::{Value, json};

use crate::Workload;
use crate::contents::table;

macro_rules! builtin {
    ($id:literal) => {
        ($id, concat!("tool-configs/", $id, ".json"), include_str!(concat!("../../../tool-configs/", $id, ".json")))
    };
}

/// The built-in tools that the jobs use.
const BUILTIN: [(&str, &str, &str); 7] = [
    builtin!("ask_master"),
    builtin!("handoff"),
    builtin!("load_to_context"),
    builtin!("map"),
    builtin!("stop_and_think"),
    builtin!("wait_for_event"),
    builtin!("write_file"),
];

/// Returns the job of `workload`, loaded: every check of a real start.
pub(crate) fn load(workload: Workload, n: usize) -> anyhow::Result<LoadedJob> {
    let (root, agents, tools) = parts(workload, n);
    let mut sources = Sources::new("");
    let job = json!({
        "job_id": "bench",
        "description": "A benchmark.",
        "root": root,
        "request": "Do the job.",
        "models": {"m": {"provider": "scripted", "script": "m.script.json"}},
        "limits": {"turns": 10_000_000, "depth": 10_000, "live_tasks": 10_000_000},
    });
    sources.add(Role::Job, "job.json", job.to_string());
    sources.add(Role::ModelScript, "m.script.json", json!({"agents": {}}).to_string());
    for (id, granted) in agents {
        sources.add(Role::Agent, format!("agents/{id}.json"), agent(id, &granted).to_string());
    }
    let mut own = Vec::new();
    for (id, config) in tools {
        sources.add(Role::Tool, format!("tools/{id}.json"), config.to_string());
        own.push(id);
    }
    for (_, path, text) in BUILTIN {
        sources.add(Role::BuiltinTool, path, text);
    }
    let used: HashSet<&str> = own.iter().map(String::as_str).chain(BUILTIN.map(|(id, ..)| id)).collect();
    let functions: Vec<_> = registered_functions().into_iter().filter(|function| used.contains(function.id)).collect();
    let loaded = LoadedJob::from_sources(sources, &functions).map_err(|faults| anyhow!("{faults}"))?;
    Ok(match workload {
        Workload::Q3 => {
            let path = DocumentPath::parse("sales_raw.csv").expect("a valid path");
            loaded.with_document(InitialDocument::new(path, table().into_bytes()))
        }
        _ => loaded,
    })
}

/// The root agent, the agents with their tools, and the job's own tools.
type Parts = (&'static str, Vec<(&'static str, Vec<String>)>, Vec<(String, Value)>);

fn parts(workload: Workload, n: usize) -> Parts {
    let granted = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>();
    let calc = || vec![("calc".to_owned(), calc_config())];
    match workload {
        Workload::Q3 => {
            let analyst = granted(&["stop_and_think", "write_file", "handoff", "route_to_visualizer"]);
            let visualizer = granted(&["load_to_context", "write_file", "handoff"]);
            ("root", vec![("root", granted(&["route_to_analyst"])), ("analyst", analyst), ("visualizer", visualizer)], Vec::new())
        }
        Workload::Wide => {
            let worker = granted(&["calc", "write_file", "handoff"]);
            ("root", vec![("root", granted(&["route_to_worker"])), ("worker", worker)], calc())
        }
        Workload::Deep => ("level", vec![("level", granted(&["write_file", "handoff", "route_to_level"]))], Vec::new()),
        Workload::Long | Workload::Resume => ("counter", vec![("counter", granted(&["calc"]))], calc()),
        Workload::Startup => {
            let tools: Vec<_> = (0..n).map(|number| (format!("tool_{number:03}"), numbered_config(number))).collect();
            ("counter", vec![("counter", tools.iter().map(|(id, _)| id.clone()).collect())], tools)
        }
        Workload::Blocked => {
            let agents = vec![
                ("root", granted(&["route_to_lead"])),
                ("lead", granted(&["route_to_asker"])),
                ("asker", granted(&["ask_master"])),
            ];
            ("root", agents, Vec::new())
        }
        Workload::Children => {
            ("root", vec![("root", granted(&["calc", "map", "route_to_worker"])), ("worker", granted(&[]))], calc())
        }
        Workload::Suspended => ("root", vec![("root", granted(&["wait_for_event"]))], Vec::new()),
    }
}

fn agent(id: &str, tools: &[String]) -> Value {
    let mut config = json!({
        "agent_id": id,
        "description": format!("Does the work of the {id}."),
        "model": "m",
        "system_prompt": format!("You are the {id}. Do what you are asked and hand back what you made."),
        "tools": tools,
        "limits": {"turns": 10_000_000, "children": 10_000_000, "parallel_calls": 100_000},
    });
    if id == "asker" {
        config["master"] = json!("person");
    }
    config
}

fn calc_config() -> Value {
    json!({
        "tool_id": "calc",
        "type": "function_tool",
        "description": "Adds two numbers.",
        "parameters": {
            "a": {"type": "integer", "description": "One.", "required": true, "minimum": 0},
            "b": {"type": "integer", "description": "The other.", "required": true, "minimum": 0},
        },
        "returns": {"sum": "integer", "note": "string"},
        "effect": "pure",
        "timeout_seconds": 30,
    })
}

fn numbered_config(number: usize) -> Value {
    json!({
        "tool_id": format!("tool_{number:03}"),
        "type": "function_tool",
        "description": format!("Looks something up in one of the places that belong to tool number {number}."),
        "category": "lookup",
        "tags": ["lookup", "bench"],
        "parameters": {
            "path": {"type": "string", "description": "Where to look.", "required": true},
            "count": {"type": "integer", "description": "How many to find.", "required": true},
            "exact": {"type": "boolean", "description": "Whether near misses count.", "required": false, "default": false},
            "names": {"type": "array", "description": "Whom to ask.", "required": false, "items": {"type": "string"}},
        },
        "returns": {"path": "string", "found": "integer"},
        "examples": [{
            "explanation": "Find one",
            "input": {"path": "a.md", "count": 1},
            "output": {"path": "a.md", "found": 1},
        }],
        "effect": "pure",
        "timeout_seconds": 30,
    })
}
