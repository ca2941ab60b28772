//! `export --script` and `run --script`: a run that requested models runs again without any.

use serde_json::{Value, json};

use crate::models::{KEY, hello, mine, server, serving};
use crate::support::{Folder, Ran, in_repository};

/// Returns path, version, hash and size of every document of the newest run.
fn documents(folder: &Folder) -> Value {
    let listed = folder.baton(&["doc", "ls", "@last", "--output", "json"]).exits(0).json();
    let all = listed.as_array().expect("a list of documents").iter();
    all.map(|document| json!([document["path"], document["version"], document["hash"], document["size_bytes"]])).collect()
}

#[test]
fn a_run_goes_again_by_its_script_without_its_model() {
    let folder = Folder::new();
    folder.writing_job();
    let first = folder.baton(&["run", "writing", "--output", "json"]).exits(0).json();
    let written = documents(&folder);
    folder.baton(&["export", "@last", "--script", "--out", "again.script.json"]).exits(0).tells("again.script.json");
    // The original model no longer exists: the agents now use a provider's model, whose key is missing.
    let agent: Value = serde_json::from_str(&folder.read("writing/agents/lead.json")).unwrap();
    for name in ["lead", "worker"] {
        let mut agent = agent.clone();
        agent["agent_id"] = json!(name);
        agent["model"] = json!("openai:gpt-4.1");
        agent["tools"] = if name == "lead" { json!(["route_to_worker", "handoff"]) } else { json!(["write_file", "handoff"]) };
        folder.write(&format!("writing/agents/{name}.json"), agent.to_string());
    }
    folder.baton(&["run", "writing"]).exits(5).tells("OPENAI_API_KEY");
    let again = folder.baton(&["run", "writing", "--script", "again.script.json", "--output", "json"]).exits(0).json();
    assert_eq!((&again["result"], &again["tasks"]), (&first["result"], &first["tasks"]));
    assert_eq!(documents(&folder), written);
    // The script is pinned to the run, and a fork of the run uses it too.
    std::fs::remove_file(folder.path().join("again.script.json")).unwrap();
    folder.baton(&["fork", "@last", "--at", "4"]).exits(0).says("written");
    folder.baton(&["replay", "@last"]).exits(0);
    assert_eq!(documents(&folder), written);
}

#[test]
fn the_example_gives_the_same_documents_by_its_exported_script() {
    let folder = Folder::new();
    let job = &in_repository("examples/q3-sales");
    folder.baton(&["run", job]).exits(0);
    let made = documents(&folder);
    assert_eq!(made.as_array().unwrap().len(), 3, "{made}");
    let script = folder.baton(&["export", "@last", "--script"]).exits(0).stdout;
    assert_eq!(folder.baton(&["export", "@last", "--script", "--out", "-"]).exits(0).stdout, script);
    assert!(!folder.path().join("-").exists());
    assert!(!script.contains("results."), "what was said stands in it, not how it was made");
    folder.write("q3.script.json", script);
    folder.baton(&["run", job, "--script", "q3.script.json"]).exits(0);
    assert_eq!(documents(&folder), made);
}

/// Returns the turns' text as the answers of a provider.
fn answers(texts: &[String]) -> Vec<String> {
    let answer = |text: &String| json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "m"});
    texts.iter().map(|text| answer(text).to_string()).collect()
}

#[test]
fn repeated_and_refused_calls_of_a_universal_run_are_so_again_by_its_script() {
    let folder = Folder::new();
    folder.job("saving", &[("lead", &["write_file"])], json!({"lead": {"turns": [{"text": "unused"}]}}), json!({}));
    let agent = folder.read("saving/agents/lead.json");
    folder.write("saving/agents/lead.json", agent.replacen('{', "{\"invocation\": \"universal\", ", 1));
    let write = |path: &str, id: &str| {
        let input = json!({"path": path, "content": "1"});
        json!({"message": "m", "tool_requests": [{"tool": "write_file", "input": input, "requestId": id}]}).to_string()
    };
    let texts = [write("a.txt", "w"), write("b.txt", "w"), write("a.txt", "w"), write("c.txt", "x"), "done".to_owned()];
    let (url, _received) = serving("200 OK", answers(&texts));
    folder.write("saving/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    folder.baton(&["run", "saving", "--model", "fast", "--trust"]).exits(0).says("done");
    let calls = || {
        let entries = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).stdout;
        let entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_calls = entries.filter(|line| line["entry"].as_str().is_some_and(|entry| entry.starts_with("call_")));
        of_calls.map(|line| json!([line["entry"], line["data"]["call"], line["data"]["result"]["status"]])).collect::<Vec<_>>()
    };
    let (made, called) = (documents(&folder), calls());
    assert_eq!(made.as_array().unwrap().len(), 2, "{made}");
    assert!(called.len() >= 5, "{called:?}");
    folder.baton(&["export", "@last", "--script", "--out", "again.script.json"]).exits(0);
    folder.baton(&["run", "saving", "--script", "again.script.json", "--trust"]).exits(0).says("done");
    assert_eq!(documents(&folder), made);
    assert_eq!(calls(), called, "a conflict and a repetition are not executed");
}

#[test]
fn an_export_that_cannot_be_made_or_followed_says_why() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["export", "zzzz", "--script"]).exits(6);
    folder.baton(&["run", "echoing"]).exits(0);
    folder.baton(&["export", "@last"]).exits(2).tells("--script");
    folder.write("there.json", "mine");
    folder
        .baton(&["export", "@last", "--script", "--out", "there.json"])
        .exits(1)
        .tells("there.json already exists; choose another --out");
    assert_eq!(folder.read("there.json"), "mine", "nothing is overwritten");
    folder.baton(&["run", "echoing", "--script", "nowhere.json"]).exits(6).tells("nowhere.json");
    folder.baton(&["run", "echoing", "--script", "there.json", "--model", "scripted"]).exits(2).tells("--model");
    folder.write("wrong.json", "{\n  \"agents\": {\"lead\": {\"turns\": [{\"txt\": \"a\"}]}}\n}\n");
    folder.baton(&["run", "echoing", "--script", "wrong.json"]).exits(2).tells("wrong.json:2:").tells("did you mean \"text\"?");
    folder.write("others.json", "{\"agents\": {\"nobody\": {\"turns\": [{\"text\": \"a\"}]}}}");
    folder.baton(&["run", "echoing", "--script", "others.json"]).exits(1).says("it has turns for nobody only");
}

#[test]
fn a_script_answers_in_place_of_the_models_that_tools_ask() {
    let folder = Folder::new();
    let (url, received) = server("200 OK", hello());
    let turns = json!({"lead": {"turns": [
        {"calls": [{"tool": "ask_gpt", "input": {"question": "Which is larger?"}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"calls": "{{ calls }}"}}}]},
    ]}});
    folder.job("asking", &[("lead", &["ask_gpt", "handoff"])], turns.clone(), json!({}));
    folder.write("asking/models.json", json!({"providers": {"openai": {"base_url": url}}}).to_string());
    folder.write("silent.script.json", json!({"agents": turns}).to_string());
    let reply = json!({"ask_gpt": {"turns": [{"text": "The answer to: {{ request }}"}]}});
    folder.write("full.script.json", json!({"agents": turns, "tools": reply}).to_string());
    let call = |script: &str| {
        let mut command =
            folder.command(&["run", "asking", "--script", script, "--trust", "--max-cost", "1", "--output", "json"]);
        let report = Ran::from(command.env("OPENAI_API_KEY", KEY).output().unwrap()).exits(0).json();
        report["result"]["calls"][0].clone()
    };
    let error = call("silent.script.json")["error"]["message"].as_str().unwrap().to_owned();
    let expected =
        "the script has no answer to request 1 of the tool ask_gpt; add it to \"tools\": {\"ask_gpt\": {\"turns\": […]}}";
    assert_eq!(error, expected);
    let output = &call("full.script.json")["output"];
    assert_eq!((&output["answer"], &output["model"]), (&json!("The answer to: Which is larger?"), &json!("--script")));
    assert!(received.try_recv().is_err(), "no request reaches the provider");
    folder.baton(&["export", "@last", "--script"]).exits(0).tells("that ask_gpt asked are in no timeline");
    folder.baton(&["new", "script", "asking"]).exits(0);
    let skeleton: Value = serde_json::from_str(&folder.read("asking/new.script.json")).unwrap();
    assert_eq!(skeleton["tools"], json!({"ask_gpt": {"turns": [{"text": "B.", "literal": true}]}}));
    // The script's file has no entry for another tool.
    folder.write("bad.script.json", json!({"tools": {"ask_gpt": {}, "ask_data": {"turns": [{"calls": []}]}}}).to_string());
    folder.baton(&["run", "asking", "--script", "bad.script.json"]).exits(2).tells("unknown key \"calls\"");
}
