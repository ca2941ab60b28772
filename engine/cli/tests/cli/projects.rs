//! `init`, `new` and `validate`: the created files work as they are.

use serde_json::{Value, json};

use crate::support::Folder;

#[test]
fn a_new_project_runs_at_once_and_asks_its_question() {
    let folder = Folder::new();
    folder.baton(&["init", "demo"]).exits(0).says("demo/baton.json").says("demo/jobs/sales/job.json").tells("baton run sales");
    let baton = |arguments: &[&str]| {
        let mut command = folder.command(arguments);
        command.current_dir(folder.path().join("demo"));
        crate::support::Ran::from(command.output().unwrap())
    };
    baton(&["validate"]).exits(0).says("3 agents");
    baton(&["run", "sales"]).exits(3).tells("reviewer asks (Q1)").tells("attached: draft.md v1");
    baton(&["answer", "@last", "revenue", "--no-resume"]).exits(0);
    let by_revenue = baton(&["resume", "@last", "--out", "out"]).exits(0).says("% by revenue.");
    assert!(folder.read("demo/out/report.md").contains("| Q3 |"));
    baton(&["run", "sales", "--input", "quarter=Q4"]).exits(3);
    baton(&["answer", "@last", "units", "--no-resume"]).exits(0);
    let by_units = baton(&["resume", "@last"]).exits(0).says("Q4 against Q3").says("% by units.");
    assert_ne!(by_revenue.stdout, by_units.stdout);
    baton(&["run", "sales", "--input", "quarter=Q9"]).exits(2).tells("Q9");
    assert!(folder.read("demo/.gitignore").contains(".baton"));
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let folder = Folder::new();
    folder.write("baton.json", "{}");
    folder.baton(&["init"]).exits(2).tells("baton.json already exists; nothing was written");
    assert_eq!(folder.read("baton.json"), "{}");
    assert!(!folder.path().join("jobs").exists());
}

#[test]
fn a_new_tool_never_takes_the_name_of_a_built_in_one() {
    let folder = Folder::new();
    folder.baton(&["new", "job", "first"]).exits(0);
    for name in ["write_file", "write-file", "json_transform", "handoff", "root"] {
        folder.baton(&["new", "tool", name, "--job", "first"]).exits(2).tells("is a built-in tool");
    }
    folder.baton(&["validate", "first"]).exits(0);
}

#[test]
fn a_new_job_and_a_new_agent_work_as_they_are() {
    let folder = Folder::new();
    folder.baton(&["new", "job", "hello"]).exits(0).says("hello/job.json").tells("baton run hello");
    folder.baton(&["run", "hello"]).exits(0).says("Done: Greet the world.");
    folder.baton(&["run", "hello", "--input", "who=Ann"]).exits(0).says("Done: Greet Ann.");
    folder.baton(&["new", "agent", "helper"]).exits(0).says("hello/agents/helper.json").tells("route_to_helper");
    folder.baton(&["validate", "hello"]).exits(0).says("2 agents");
    folder.baton(&["new", "agent", "helper"]).exits(2).tells("already exists");
    for (what, name) in [("job", "Bad Name"), ("agent", "x__y"), ("tool", "route_to_x")] {
        folder.baton(&["new", what, name]).exits(2).tells("cannot be the id");
    }
    folder.baton(&["new", "job", "second"]).exits(0);
    folder.baton(&["new", "agent", "other"]).exits(2).tells("hello | second");
}

#[test]
fn a_new_tool_without_a_crate_is_a_command_that_passes_its_example() {
    let folder = Folder::new();
    folder.baton(&["new", "tool", "word-count"]).exits(2).tells("baton new job");
    folder.baton(&["new", "job", "hello"]).exits(0);
    let ran = folder
        .baton(&["new", "tool", "word-count"])
        .exits(0)
        .says("hello/tools/word-count.py")
        .says("hello/tools/word-count.json");
    ran.tells("baton tool call word-count --job hello --text 'a b' --trust");
    folder.baton(&["tool", "test", "word-count", "--job", "hello", "--trust"]).exits(0).says("1 example passed");
}

#[test]
fn validate_checks_all_jobs_of_a_project() {
    let folder = Folder::new();
    folder.echo_job();
    folder.writing_job();
    folder.baton(&["validate"]).exits(0).says("echoing").says("writing").says("0 faults");
    folder.write("writing/agents/worker.json", "{");
    let report = folder.baton(&["validate", "--output", "json"]).exits(2).json();
    let valid: Vec<&Value> = report.as_array().unwrap().iter().map(|job| &job["valid"]).collect();
    assert_eq!(valid, [true, false]);
    folder.baton(&["validate", "echoing"]).exits(0);
    Folder::new().baton(&["validate"]).exits(2).tells("name one");
}

#[test]
fn the_project_file_says_where_runs_and_jobs_are() {
    let folder = Folder::new();
    folder.echo_job();
    folder.write("baton.json", r#"{"store": "state", "jobs": "work"}"#);
    std::fs::create_dir(folder.path().join("work")).unwrap();
    std::fs::rename(folder.path().join("echoing"), folder.path().join("work/echoing")).unwrap();
    folder.baton(&["run", "echoing"]).exits(0);
    assert!(folder.path().join("state/baton.db").is_file() && !folder.path().join(".baton").exists());
    folder.baton(&["new", "job", "second"]).exits(0).says("work/second/job.json");
    folder.write("baton.json", r#"{"stor": "state"}"#);
    folder.baton(&["ps"]).exits(2).tells("baton.json:1:2").tells("did you mean \"store\"?");
}

#[test]
fn validate_counts_undescribed_fields_and_fails_for_them_if_strict() {
    let folder = Folder::new();
    folder.job("looking", &[("lead", &["lookup", "handoff"])], json!({"lead": {"turns": [{"text": "Done."}]}}), json!({}));
    let tool = json!({
        "tool_id": "lookup", "type": "function_tool", "description": "Finds a row.", "returns": {"row": "integer"},
        "parameters": {"key": {"type": "string", "description": "The key", "required": true}}, "exec": {"command": ["true"]},
    });
    folder.write("looking/tools/lookup.json", tool.to_string());
    folder.baton(&["validate", "looking"]).exits(0).says("0 faults").says("1 field of tools without");
    folder.baton(&["validate", "looking", "--strict"]).exits(2).tells("B0133").tells("\"row\" has no description");
    let report = folder.baton(&["validate", "looking", "--output", "json"]).exits(0).json();
    assert_eq!((&report["valid"], &report["conformance"][0]["code"]), (&json!(true), &json!("B0133")));
}
