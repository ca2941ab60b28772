//! Agents and tools of a project, which its jobs share.

use serde_json::json;

use crate::support::{Folder, Ran};

const SCRIPT: &str = "import json, sys\njson.dump({\"lines\": len(json.load(sys.stdin)[\"text\"].splitlines())}, sys.stdout)\n";

/// Writes a project with an agent and a command that its jobs share, and a job whose lead delegates to that agent.
fn project() -> Folder {
    let folder = Folder::new();
    folder.write("home/baton.json", "{}");
    let analyst = json!({
        "agent_id": "analyst", "description": "Analyses.", "model": "scripted", "system_prompt": {"file": "prompts/analyst.md"},
        "tools": ["count_lines", "handoff"],
    });
    let count_lines = json!({
        "tool_id": "count_lines", "type": "function_tool", "description": "Counts lines.", "effect": "pure",
        "parameters": {"text": {"type": "string", "description": "The text", "required": true}},
        "returns": {"lines": "integer"}, "exec": {"command": ["python3", "tools/count_lines.py"]},
    });
    folder.write("home/agents/analyst.json", analyst.to_string());
    folder.write("home/prompts/analyst.md", "You analyse.");
    folder.write("home/tools/count_lines.json", count_lines.to_string());
    folder.write("home/tools/count_lines.py", SCRIPT);
    let script = json!({
        "lead": {"turns": [
            {"calls": [{"tool": "route_to_analyst", "input": {"request": "Count."}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.route_to_analyst.summary }}"}}}]},
        ]},
        "analyst": {"turns": [
            {"calls": [{"tool": "count_lines", "input": {"text": "a\nb"}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.count_lines.lines }} lines"}}}]},
        ]},
    });
    folder.job("home/jobs/counting", &[("lead", &["route_to_analyst", "handoff"])], script, json!({"job_id": "counting"}));
    folder
}

fn baton(folder: &Folder, here: &str, arguments: &[&str]) -> Ran {
    let mut command = folder.command(arguments);
    command.current_dir(folder.path().join(here));
    Ran::from(command.output().unwrap())
}

#[test]
fn a_job_uses_the_agents_and_commands_of_its_project_once_they_are_trusted() {
    let folder = project();
    baton(&folder, "home", &["validate", "counting"]).exits(0).says("2 agents");
    // A command needs the same trust as one in the job's own folder, and the list shows its script.
    baton(&folder, "home", &["run", "counting"])
        .exits(2)
        .tells("not trusted yet")
        .tells("runs the file \"tools/count_lines.py\" (blake3 ");
    baton(&folder, "home", &["run", "counting", "--trust"]).exits(0).says("2 lines");
    baton(&folder, "home", &["run", "counting"]).exits(0).says("2 lines");
    baton(&folder, "home/jobs/counting", &["run", "."]).exits(0).says("2 lines");
    // A script that changed is asked about again.
    folder.write("home/tools/count_lines.py", format!("# changed\n{SCRIPT}"));
    baton(&folder, "home", &["run", "counting"]).exits(2).tells("not trusted yet");
    // The job's folder alone, as somebody may have received it, has no such agent.
    std::fs::rename(folder.path().join("home/jobs/counting"), folder.path().join("received")).unwrap();
    baton(&folder, "home", &["run", "../received", "--trust"]).exits(2).tells("route_to_analyst");
}

#[test]
fn a_job_refines_what_its_project_shares() {
    let folder = project();
    let text = json!({"agent_id": "analyst", "description": "Analyses sales."}).to_string();
    folder.write("home/jobs/counting/agents/analyst.json", text);
    folder.write(
        "home/jobs/counting/tools/count_lines.json",
        json!({"tool_id": "count_lines", "title": "Count lines"}).to_string(),
    );
    baton(&folder, "home", &["run", "counting", "--trust"]).exits(0).says("2 lines");
    folder.write("home/jobs/counting/agents/analyst.json", json!({"agent_id": "analyst", "turns": 3}).to_string());
    baton(&folder, "home", &["validate", "counting"]).exits(2).tells("jobs/counting/agents/analyst.json:1:");
}

#[test]
fn a_broken_shared_file_is_a_fault_of_every_job() {
    let folder = project();
    folder.write("home/tools/unused.json", "{");
    baton(&folder, "home", &["validate", "counting"]).exits(2).tells("tools/unused.json:1:");
}

#[test]
fn a_shared_command_that_does_not_exist_is_a_fault_of_every_job() {
    let folder = project();
    std::fs::rename(folder.path().join("home/tools/count_lines.py"), folder.path().join("home/tools/count_line.py")).unwrap();
    for (here, job) in [("home", "counting"), ("home/jobs/counting", ".")] {
        let ran = baton(&folder, here, &["validate", job]).exits(2);
        let ran = ran.tells("B0127: the file \"tools/count_lines.py\" of the command does not exist");
        ran.tells("did you mean \"tools/count_line.py\"?");
    }
    let config = folder.read("home/tools/count_lines.json").replace("\"python3\"", "\"no-such-python\"");
    folder.write("home/tools/count_lines.json", config);
    baton(&folder, "home", &["validate", "counting"]).exits(2).tells("the program \"no-such-python\" is not on PATH");
}

#[test]
fn shared_tools_need_no_job() {
    let folder = project();
    baton(&folder, "home", &["tool", "ls"]).exits(0).says("count_lines");
    baton(&folder, "home", &["tool", "call", "count_lines", "--text", "a", "--trust"]).exits(0).says("\"lines\": 1");
    let call = ["tool", "call", "count_lines", "--job", "counting", "--text", "a", "--trust"];
    baton(&folder, "home", &call).exits(0).says("\"lines\": 1");
}

#[test]
fn new_creates_agents_and_tools_for_all_jobs_of_a_project() {
    let folder = project();
    baton(&folder, "home", &["new", "agent", "writer", "--shared"]).exits(0).says("agents/writer.json").tells("route_to_writer");
    baton(&folder, "home", &["new", "tool", "word-count", "--shared"]).exits(0).says("tools/word-count.json");
    baton(&folder, "home", &["tool", "call", "word-count", "--text", "a b", "--trust"]).exits(0).says("\"words\": 2");
    baton(&folder, "home", &["validate"]).exits(0);
    baton(&folder, "", &["new", "agent", "writer", "--shared"]).exits(2).tells("baton init");
}

#[test]
fn a_tool_is_shown_as_an_agent_sees_it() {
    let folder = project();
    let analyst = json!({"agent_id": "analyst", "tools": ["handoff", {
        "tool": "count_lines", "description": "Counts the lines of a report.", "parameters": {"text": {"description": "The report"}},
    }]});
    folder.write("home/jobs/counting/agents/analyst.json", analyst.to_string());
    let show = |more: &[&str]| baton(&folder, "home", &[&["tool", "show", "count_lines", "--job", "counting"], more].concat());
    show(&[]).exits(0).says("Counts lines.").says("The text");
    show(&["--for", "analyst"]).exits(0).says("Counts the lines of a report.").says("The report");
    show(&["--for", "analist"]).exits(6).tells("analyst");
    show(&["--for", "lead"]).exits(6);
    baton(&folder, "home", &["tool", "show", "count_lines", "--for", "analyst"]).exits(2).tells("--job");
}
