//! Agents and tools of a project, which its jobs share.

use baton_config::{Role, Sources};
use baton_types::config::{Executor, Origin};
use serde_json::json;

use crate::support::{Files, sound};

/// Returns the files of `files`, with those of a project two folders above.
fn in_project(files: &Files, shared: &[(Role, &str, &str)]) -> Sources {
    let mut sources = files.sources();
    sources.share("home", 2);
    for (role, path, text) in shared {
        sources.add(*role, *path, text);
    }
    sources
}

fn faults(files: &Files, shared: &[(Role, &str, &str)]) -> String {
    files.load_from(&in_project(files, shared)).expect_err("the job is faulty").to_string()
}

const ANALYST: &str = r#"{ "agent_id": "analyst", "description": "Analyses.", "model": "scripted", "system_prompt": { "file": "prompts/analyst.md" },
    "tools": ["handoff", "count_lines"], "limits": { "turns": 9 } }"#;
const COUNT_LINES: &str = r#"{ "tool_id": "count_lines", "type": "function_tool", "description": "Counts lines.",
    "parameters": { "text": { "type": "string", "description": "The text", "required": true } }, "exec": { "command": ["python3", "tools/count.py"] } }"#;
const PROMPT: (Role, &str, &str) = (Role::SharedPrompt, "prompts/analyst.md", "You analyse.");
const SHARED: [(Role, &str, &str); 4] = [
    (Role::SharedAgent, "agents/analyst.json", ANALYST),
    (Role::SharedTool, "tools/count_lines.json", COUNT_LINES),
    PROMPT,
    (Role::SharedCommandFile, "tools/count.py", "00ff"),
];

/// Returns the sound job, whose lead delegates to the shared analyst.
fn using() -> Files {
    sound().edited("agents/lead.json", "\"route_to_counter\"", "\"route_to_counter\", \"route_to_analyst\"")
}

#[test]
fn a_job_sees_the_agents_and_tools_of_its_project() {
    let files = using();
    let configs = files.load_from(&in_project(&files, &SHARED)).unwrap();
    let analyst = &configs.agents["analyst"];
    assert_eq!((analyst.system_prompt.as_str(), analyst.limits.turns), ("You analyse.", Some(9)));
    let tool = &analyst.tools["count_lines"];
    let Some(Executor::Exec(exec)) = &tool.executor else { panic!("a command") };
    assert_eq!((exec.above, exec.files["tools/count.py"].as_str()), (2, "00ff"));
    assert!(tool.reaches.iter().all(|reach| reach.origin == Origin::Job), "what a project says counts as the job's");
    let pinned: Sources = serde_json::from_str(&serde_json::to_string(&in_project(&files, &SHARED)).unwrap()).unwrap();
    assert!(files.load_from(&pinned).unwrap().agents.contains_key("analyst"), "a run is loaded again from its pinned texts");
}

#[test]
fn a_job_refines_a_shared_agent_and_a_shared_tool_by_keys() {
    let files = using()
        .with(
            Role::Agent,
            "agents/analyst.json",
            r#"{ "agent_id": "analyst", "system_prompt": "You analyse sales.", "limits": { "turns": 3 } }"#,
        )
        .with(
            Role::Tool,
            "tools/count_lines.json",
            r#"{ "tool_id": "count_lines", "description": "Counts the lines of sales." }"#,
        );
    let configs = files.load_from(&in_project(&files, &SHARED)).unwrap();
    let analyst = &configs.agents["analyst"];
    assert_eq!((analyst.system_prompt.as_str(), analyst.limits.turns), ("You analyse sales.", Some(3)));
    assert_eq!((analyst.description.as_str(), analyst.tools.len()), ("Analyses.", 2));
    let tool = &analyst.tools["count_lines"];
    assert_eq!(tool.description, "Counts the lines of sales.");
    assert!(matches!(&tool.executor, Some(Executor::Exec(exec)) if exec.above == 2), "the command is still the project's");
}

#[test]
fn three_files_of_a_tool_refine_each_other() {
    let files = sound().with(Role::Tool, "tools/word_count.json", r#"{ "tool_id": "word_count", "timeout_seconds": 5 }"#);
    let shared = r#"{ "tool_id": "word_count", "timeout_seconds": 9, "title": "Count words" }"#;
    let configs = files.load_from(&in_project(&files, &[(Role::SharedTool, "tools/word_count.json", shared)])).unwrap();
    let tool = &configs.tools["word_count"];
    assert_eq!(
        (tool.timeout.as_secs(), tool.title.as_deref(), tool.description.as_str()),
        (5, Some("Count words"), "Counts words")
    );
}

#[test]
fn another_description_of_a_tool_replaces_its_summary() {
    let shared = r#"{ "tool_id": "word_count", "summary": "Words of a text" }"#;
    let shared = [(Role::SharedTool, "tools/word_count.json", shared)];
    let refined = |text: &str| sound().with(Role::Tool, "tools/word_count.json", text);
    for (text, expected) in [
        (r#"{ "tool_id": "word_count", "timeout_seconds": 5 }"#, Some("Words of a text")),
        (r#"{ "tool_id": "word_count", "description": "Counts long words." }"#, None),
        (r#"{ "tool_id": "word_count", "description": "Counts long words.", "summary": "Long words" }"#, Some("Long words")),
    ] {
        let files = refined(text);
        let configs = files.load_from(&in_project(&files, &shared)).unwrap();
        assert_eq!(configs.tools["word_count"].summary.as_deref(), expected, "{text}");
    }
}

#[test]
fn an_agent_of_the_project_that_the_job_does_not_use_is_no_agent_of_the_job() {
    let files = sound();
    // The model that it names is none of this job's.
    let analyst = ANALYST.replace("scripted", "smart");
    let shared = [(Role::SharedAgent, "agents/analyst.json", analyst.as_str()), SHARED[1], SHARED[2]];
    let configs = files.load_from(&in_project(&files, &shared)).unwrap();
    assert!(!configs.agents.contains_key("analyst") && !configs.tools.contains_key("route_to_analyst"));
    let told = faults(&using(), &shared);
    assert!(told.contains("home/agents/analyst.json") && told.contains("uses the model \"smart\""), "{told}");
}

#[test]
fn an_agent_of_the_job_needs_no_caller_and_one_of_the_project_a_chain_of_them() {
    let without_route = sound().edited("agents/lead.json", "\"route_to_counter\", ", "");
    assert!(without_route.load().unwrap().agents.contains_key("counter"));
    let routing = ANALYST.replace("\"handoff\"", "\"handoff\", \"route_to_second\"");
    let second = ANALYST.replace("\"agent_id\": \"analyst\"", "\"agent_id\": \"second\"");
    let chain = [
        (Role::SharedAgent, "agents/analyst.json", routing.as_str()),
        (Role::SharedAgent, "agents/second.json", second.as_str()),
        SHARED[1],
        PROMPT,
    ];
    let agents = |files: Files| -> Vec<String> {
        files.load_from(&in_project(&files, &chain)).unwrap().agents.keys().map(ToString::to_string).collect()
    };
    assert_eq!(agents(using()), ["analyst", "counter", "lead", "second"]);
    assert_eq!(agents(sound()), ["counter", "lead"]);
}

#[test]
fn a_fault_of_a_shared_file_names_it_even_if_no_agent_uses_it() {
    let files = sound();
    for (shared, expected) in [
        (SHARED[0], "the prompt file \"prompts/analyst.md\" does not exist"),
        ((Role::SharedAgent, "agents/analyst.json", "{"), "home/agents/analyst.json:1:"),
        ((Role::SharedTool, "tools/x.json", r#"{ "tool_id": "x" }"#), "home/tools/x.json:1:"),
        (
            (Role::SharedTool, "tools/word_count.json", r#"{ "tool_id": "word_count", "type": "handoff" }"#),
            "home/tools/word_count.json:1:",
        ),
    ] {
        let told = faults(&files, &[shared]);
        assert!(told.contains(expected) && told.contains("home/"), "{told}");
    }
    let told = faults(&files, &SHARED[..1]);
    assert!(told.contains("home/prompts/analyst.md"), "the expected file is one of the project: {told}");
}

#[test]
fn a_fault_of_a_refined_agent_is_placed_in_the_file_that_holds_the_key() {
    let refined = |text: &str| using().with(Role::Agent, "agents/analyst.json", text);
    let told = faults(&refined(r#"{ "agent_id": "analyst", "tools": ["nothing_like_it"] }"#), &SHARED);
    assert!(told.contains("demo/agents/analyst.json:1:") && told.contains("nothing_like_it"), "{told}");
    let told = faults(&refined(r#"{ "agent_id": "analyst", "turns": 3 }"#), &SHARED);
    assert!(told.contains("demo/agents/analyst.json:1:") && told.contains("unknown key \"turns\""), "{told}");
    let told = faults(&refined(r#"{ "limits": { "turns": 3 } }"#), &SHARED);
    assert!(told.contains("demo/agents/analyst.json:1:") && told.contains("key \"agent_id\" is missing"), "{told}");
    let broken = json!({"agent_id": "counter", "description": "Counts.", "turns": 3}).to_string();
    let told = faults(&sound(), &[(Role::SharedAgent, "agents/counter.json", &broken)]);
    assert!(told.contains("home/agents/counter.json:1:") && told.contains("unknown key \"turns\""), "{told}");
}
