//! Model scripts: the examples of their page, and skeletons for a job's agents.

use serde_json::{Value, json};

use crate::support::{Folder, in_repository};

/// Writes a job with the agents and the input of the page.
fn job(folder: &Folder) {
    let lead: &[&str] = &["route_to_worker", "handoff"];
    let agents: &[(&str, &[&str])] = &[("lead", lead), ("worker", &["echo", "ask_master", "handoff"])];
    let request = json!({"text": "Do it.", "inputs": {"quarter": {"type": "string", "default": "Q1"}}});
    let script = json!({"lead": {"turns": [{"text": "x"}]}, "worker": {"turns": [{"text": "x"}]}});
    folder.job("paged", agents, script, json!({"request": request}));
}

#[test]
fn the_examples_of_the_page_run_and_see_the_inputs_of_the_job() {
    let folder = Folder::new();
    job(&folder);
    let page = include_str!("../../../../docs/scripts.md");
    let scripts: Vec<&str> = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let expected = ["Q3", "Count Q3."];
    assert_eq!(scripts.len(), expected.len());
    for (script, expected) in scripts.iter().zip(expected) {
        folder.write("page.script.json", script);
        let run = ["run", "paged", "--script", "page.script.json", "--input", "quarter=Q3", "--output", "json"];
        let report = folder.baton(&run).exits(0).json();
        assert_eq!(report["result"], json!({"summary": expected}), "{report}");
    }
    // A resumed or forked run has the inputs of its start.
    let fork = folder.baton(&["fork", "@last", "--set", "agents.lead.description=other", "--output", "json"]).exits(0).json();
    assert_eq!(fork["result"], json!({"summary": "Count Q3."}));
}

#[test]
fn a_skeleton_for_the_agents_of_a_job_runs_as_it_is() {
    let folder = Folder::new();
    job(&folder);
    let config: Value = serde_json::from_str(&folder.read("paged/agents/worker.json")).unwrap();
    let schema = json!({"type": "object", "required": ["unit"], "properties": {"unit": {"enum": ["percent", "absolute"]}}});
    let config = json!({"result_schema": schema}).as_object().unwrap().iter().fold(config, |mut config, (key, value)| {
        config[key] = value.clone();
        config
    });
    folder.write("paged/agents/worker.json", config.to_string());
    let run = "baton run paged --script paged/new.script.json";
    folder.baton(&["new", "script", "paged"]).exits(0).says("paged/new.script.json").tells(run);
    let script: Value = serde_json::from_str(&folder.read("paged/new.script.json")).unwrap();
    let turns = &script["agents"]["worker"]["turns"];
    assert_eq!(turns[0]["calls"][0]["input"]["result"], json!({"unit": "percent"}), "{script}");
    let report = folder.baton(&["run", "paged", "--script", "paged/new.script.json", "--output", "json"]).exits(0).json();
    assert_eq!((&report["result"], report["tasks"].as_array().unwrap().len()), (&json!({"summary": "Done: Do it."}), 2));
    folder.baton(&["new", "script", "paged"]).exits(2).tells("already exists; nothing was written");
    folder.baton(&["new", "script", "paged", "--out", "other.script.json"]).exits(0);
    // The shipped jobs have skeletons too.
    for example in ["q3-sales", "ask-the-master", "four-eyes", "iowa-electricity", "second-draft"] {
        let path = in_repository(&format!("examples/{example}"));
        let out = format!("{example}.script.json");
        folder.baton(&["new", "script", &path, "--out", &out]).exits(0);
        let ran = folder.baton(&["run", &path, "--script", &out, "--no-input"]);
        assert!([0, 3].contains(&ran.code), "{example}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn the_acceptor_of_the_page_about_tools_refuses_a_long_summary() {
    let folder = Folder::new();
    let page = include_str!("../../../../docs/tools.md");
    let fenced = |language: &str, part: &str| {
        let fence = format!("```{language}\n");
        let mut blocks = page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
        blocks.find(|text| text.contains(part)).unwrap_or_else(|| panic!("the page has no {part}")).to_owned()
    };
    let hand_off = |summary: Value| json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": summary}}}]});
    let script = json!({
        "lead": {"turns": [
            {"calls": [{"tool": "route_to_writer", "input": {"request": "Write."}}]},
            hand_off(json!("{{ results.route_to_writer.summary }}")),
        ]},
        "writer": {"turns": [hand_off(json!("x".repeat(81))), hand_off(json!("x".repeat(80)))]},
    });
    folder.job("judged", &[("lead", &["route_to_writer", "handoff"]), ("writer", &["handoff"])], script, json!({}));
    folder.write("judged/tools/route_to_writer.json", r#"{"tool_id": "route_to_writer", "accept": {"by": "tool:short_enough"}}"#);
    folder.write("judged/tools/short_enough.json", fenced("json", "\"tool_id\": \"short_enough\""));
    folder.write("judged/short_enough.py", fenced("python", "is_short"));
    let report = folder.baton(&["run", "judged", "--trust", "--output", "json"]).exits(0).json();
    assert_eq!(report["result"], json!({"summary": "x".repeat(80)}), "{report}");
    folder
        .baton(&["timeline", "@last"])
        .exits(0)
        .says("accepted: false, reason: A summary of at most 80 characters is needed.")
        .says("refused: not accepted (round 1 of 3)");
}
