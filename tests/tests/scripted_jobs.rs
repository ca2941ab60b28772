//! Small jobs with scripts, for tests that run the same work in two ways. Each covers what no example covers.

use std::path::Path;

use serde_json::{Map, Value, json};

/// A job as data: its name, its agents with their tools, and the turns of each agent.
struct ScriptedJob {
    name: &'static str,
    agents: Vec<(&'static str, Vec<&'static str>)>,
    turns: Value,
}

fn call(tool: &str, input: Value) -> Value {
    json!({"tool": tool, "input": input})
}

fn turn(calls: Vec<Value>) -> Value {
    json!({"text": "I continue.", "calls": calls})
}

fn handoff(result: Value, documents: &[&str]) -> Value {
    turn(vec![call("handoff", json!({"result": {"found": result}, "documents": documents}))])
}

/// Writes the jobs below `folder`, one folder each, and returns their names.
pub(crate) fn write_jobs(folder: &Path) -> Vec<&'static str> {
    jobs().iter().map(|job| job.write(&folder.join(job.name))).collect()
}

impl ScriptedJob {
    fn write(&self, folder: &Path) -> &'static str {
        std::fs::create_dir_all(folder.join("agents")).unwrap();
        let scripted: Map<String, Value> = self.turns.as_object().unwrap().clone();
        let job = json!({
            "job_id": self.name, "description": "A job for tests.", "root": self.agents[0].0, "request": {"text": "Work."},
            "documents": ["notes.csv"], "models": {"scripted": {"provider": "scripted", "script": "job.script.json"}},
        });
        std::fs::write(folder.join("job.json"), job.to_string()).unwrap();
        std::fs::create_dir_all(folder.join("documents")).unwrap();
        std::fs::write(folder.join("documents/notes.csv"), "name,count\na,3\nb,4\n").unwrap();
        std::fs::write(folder.join("job.script.json"), json!({"agents": scripted}).to_string()).unwrap();
        for (agent, tools) in &self.agents {
            let config = json!({
                "agent_id": agent, "description": format!("The agent {agent}."), "model": "scripted", "system_prompt": "Work.",
                "tools": tools,
            });
            std::fs::write(folder.join(format!("agents/{agent}.json")), config.to_string()).unwrap();
        }
        self.name
    }
}

fn jobs() -> Vec<ScriptedJob> {
    let turns = |turns: Vec<Value>| json!({"turns": turns});
    let write = |path: &str, content: &str| call("write_file", json!({"path": path, "content": content}));
    vec![
        ScriptedJob {
            name: "parallel-calls",
            agents: vec![("solo", vec!["calculator", "echo", "handoff"])],
            turns: json!({"solo": turns(vec![
                turn(vec![
                    call("calculator", json!({"expression": "2 * 3"})),
                    call("echo", json!({"message": "a \"quoted\" word, a brace } and a fence ```"})),
                    call("calculator", json!({"expression": "7 - 5"})),
                ]),
                handoff(json!("{{ results.calculator.result }}"), &[]),
            ])}),
        },
        ScriptedJob {
            name: "three-levels",
            agents: vec![
                ("top", vec!["route_to_middle", "handoff"]),
                ("middle", vec!["route_to_leaf", "handoff"]),
                ("leaf", vec!["write_file", "handoff"]),
            ],
            turns: json!({
                "top": turns(vec![
                    turn(vec![call("route_to_middle", json!({"request": "Have it written.", "documents": ["notes.csv"]}))]),
                    handoff(json!("{{ results.route_to_middle.found }}"), &["leaf.md"]),
                ]),
                "middle": turns(vec![
                    turn(vec![call("route_to_leaf", json!({"request": "Write it."}))]),
                    handoff(json!("passed on"), &["leaf.md"]),
                ]),
                "leaf": turns(vec![turn(vec![write("leaf.md", "# Leaf\n\nText.\n")]), handoff(json!("written"), &["leaf.md"])]),
            }),
        },
        ScriptedJob {
            name: "parallel-children",
            agents: vec![("lead", vec!["route_to_worker", "handoff"]), ("worker", vec!["random", "handoff"])],
            turns: json!({
                "lead": turns(vec![
                    turn(["one", "two", "three"].map(|request| call("route_to_worker", json!({"request": request}))).to_vec()),
                    handoff(json!("{{ calls | length }}"), &[]),
                ]),
                "worker": turns(vec![
                    turn(vec![call("random", json!({"min": 5, "max": 5}))]),
                    handoff(json!("{{ results.random.numbers }}"), &[]),
                ]),
            }),
        },
        ScriptedJob {
            name: "question-to-a-person",
            agents: vec![("solo", vec!["ask_master", "handoff"])],
            turns: json!({"solo": turns(vec![
                turn(vec![call("ask_master", json!({"question": "Which quarter?"}))]),
                handoff(json!("answered"), &[]),
            ])}),
        },
        ScriptedJob {
            name: "corrected-calls",
            agents: vec![("solo", vec!["calculator", "handoff"])],
            turns: json!({"solo": turns(vec![
                turn(vec![call("calculate", json!({"expression": "1"})), call("calculator", json!({"formula": "1 + 1"}))]),
                turn(vec![call("calculator", json!({"expression": "1 +"}))]),
                turn(vec![call("calculator", json!({"expression": "1 + 1"}))]),
                handoff(json!("{{ results.calculator.result }}"), &[]),
            ])}),
        },
        ScriptedJob {
            name: "edited-document",
            agents: vec![("solo", vec!["write_file", "edit_file_block", "load_to_context", "list_files", "handoff"])],
            turns: json!({"solo": turns(vec![
                turn(vec![write("report.md", "# Title\n\nFirst.\n")]),
                turn(vec![call("load_to_context", json!({"path": "report.md", "with_blocks": true}))]),
                turn(vec![call("edit_file_block", json!({
                    "path": "report.md", "operation": "update", "block_id": "1", "new_data": {"text": "Second."},
                }))]),
                turn(vec![call("list_files", json!({}))]),
                handoff(json!("edited"), &["report.md"]),
            ])}),
        },
        ScriptedJob {
            name: "results-for-the-user",
            agents: vec![("solo", vec!["calculator", "echo", "handoff"])],
            turns: json!({"solo": turns(vec![
                turn(vec![
                    json!({"tool": "echo", "input": {"message": "for the user"}, "return_to_llm": false}),
                    call("calculator", json!({"expression": "6 * 7"})),
                ]),
                handoff(json!("{{ results.calculator.result }}"), &[]),
            ])}),
        },
        ScriptedJob {
            name: "text-as-result",
            agents: vec![("lead", vec!["route_to_writer", "handoff"]), ("writer", vec!["echo"])],
            turns: json!({
                "lead": turns(vec![
                    turn(vec![call("route_to_writer", json!({"request": "Say it."}))]),
                    handoff(json!("{{ results.route_to_writer }}"), &[]),
                ]),
                "writer": turns(vec![turn(vec![call("echo", json!({"message": "x"}))]), json!({"text": "It is {x}."})]),
            }),
        },
    ]
}
