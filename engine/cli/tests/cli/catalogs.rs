//! `tool catalog`: the tools of the program, of a job or of an agent in four forms.

use serde_json::{Value, json};

use crate::models::{KEY, hello, server};
use crate::support::Folder;

/// Returns the lines of tools in the compact form.
fn lines(stdout: &str) -> Vec<&str> {
    stdout.lines().filter(|line| line.starts_with('•')).collect()
}

#[test]
fn the_compact_catalog_has_a_header_a_line_for_each_tool_and_a_note() {
    let folder = Folder::new();
    let ran = folder.baton(&["tool", "catalog", "--tokens"]).exits(0).tells("tokens, estimated from bytes");
    let count = baton::builtin_tool_configs().len();
    assert!(ran.stdout.starts_with(&format!("=== TOOLS ({count} available) ===\n\n• ")), "{}", ran.stdout);
    assert_eq!(lines(&ran.stdout).len(), count);
    let note = "\n\nINVOCATION: See \"Tool Invocation Format\" in your system prompt above.\n\
        ALL details for input schemas, examples, and error handling are defined in the standard.\n";
    assert!(ran.stdout.ends_with(note), "{}", ran.stdout);
    assert!(lines(&ran.stdout).contains(&"• timer: Delay/wait → message, waited"), "{}", ran.stdout);
    let report = folder.baton(&["tool", "catalog", "--output", "json"]).exits(0).json();
    assert_eq!((&report["text"], report["tools"].as_array().unwrap().len()), (&json!(ran.stdout), count));
    let quiet = folder.baton(&["tool", "catalog", "--quiet", "--tokens"]).exits(0).says("• echo: Echo input → echo");
    quiet.tells("tokens, estimated from bytes");
}

#[test]
fn every_built_in_tool_has_a_summary_that_fits_a_catalog() {
    for (file, text) in baton::builtin_tool_configs() {
        let config: Value = serde_json::from_str(text).unwrap();
        let summary = config["summary"].as_str().unwrap_or_else(|| panic!("{file} has no summary"));
        assert!(!summary.is_empty() && summary.chars().count() <= 60, "{file}: {summary}");
    }
}

#[test]
fn a_catalog_is_filtered_by_category_and_tags_and_teaches_the_nearest_name() {
    let folder = Folder::new();
    let ran = folder.baton(&["tool", "catalog", "--category", "utility", "--tag", "json", "--tag", "jq"]).exits(0);
    assert_eq!(lines(&ran.stdout), ["• json-transform: Transform JSON → result, operation"]);
    folder
        .baton(&["tool", "catalog", "--category", "utilty"])
        .exits(6)
        .tells("there is no category utilty; did you mean utility?");
    folder.baton(&["tool", "catalog", "--tag", "jsonn"]).exits(6).tells("there is no tag jsonn; did you mean json?");
    folder.baton(&["tool", "catalog", "--format", "compct"]).exits(2).tells("compact");
}

#[test]
fn the_catalog_of_an_agent_has_its_tools_in_its_words() {
    let folder = Folder::new();
    folder.echo_job();
    let agent = folder.read("echoing/agents/lead.json");
    let own = json!({"tool": "echo", "description": "Repeat the word of the day. Only once."}).to_string();
    folder.write("echoing/agents/lead.json", agent.replace("\"echo\"", &own));
    let of_lead = ["tool", "catalog", "--job", "echoing", "--for", "lead"];
    let ran = folder.baton(&of_lead).exits(0);
    assert!(ran.stdout.starts_with("=== TOOLS (2 available) ==="), "{}", ran.stdout);
    assert_eq!(lines(&ran.stdout)[0], "• echo: Repeat the word of the day → echo");
    folder.baton(&["tool", "catalog", "--job", "echoing"]).exits(0).says("• echo: Echo input → echo").says("• route_to_lead: ");
    folder.baton(&["tool", "catalog", "--job", "echoing", "--for", "laed"]).exits(6).tells("did you mean lead?");
    folder.baton(&["tool", "catalog", "--for", "lead"]).exits(2).tells("add --job JOB");
    let record = folder.baton(&[&of_lead[..], &["--format", "json"]].concat()).exits(0).json();
    assert_eq!(record["schema_name"], "tool.catalog.v1");
    assert_eq!(record["context"]["tools"][0]["description"], "Repeat the word of the day. Only once.");
    folder.write("echoing/tools/echo.json", json!({"tool_id": "echo", "description": "Repeat a word. Once."}).to_string());
    folder.baton(&["tool", "catalog", "--job", "echoing"]).exits(0).says("• echo: Repeat a word → echo");
    folder.write("echoing/tools/echo.json", json!({"tool_id": "echo", "summary": "Two\nlines"}).to_string());
    folder.baton(&["tool", "catalog", "--job", "echoing"]).exits(2).tells("\"summary\" is not well-formed");
}

#[test]
fn the_openai_form_has_the_bytes_that_a_request_has() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, received) = server("200 OK", hello());
    let provider = json!({"like": "openai", "base_url": url, "key": {"env": "MINE_KEY"}});
    for strict in [true, false] {
        let models = json!({"models": {"fast": {"model": "mine:m", "settings": {"strict_tools": strict}}}, "providers": {"mine": provider}});
        folder.write("echoing/models.json", models.to_string());
        folder.write(".env", format!("MINE_KEY={KEY}\n"));
        let mut agent: Value = serde_json::from_str(&folder.read("echoing/agents/lead.json")).unwrap();
        agent["model"] = json!("fast");
        folder.write("echoing/agents/lead.json", agent.to_string());
        let of_lead = ["tool", "catalog", "--job", "echoing", "--for", "lead", "--format", "openai"];
        let printed = folder.baton(&of_lead).exits(0).stdout;
        assert_eq!(printed.contains("\"strict\":true"), strict, "{printed}");
        folder.baton(&["run", "echoing", "--trust"]).exits(0);
        let request = received.recv().unwrap();
        let expected = format!(",\"tools\":{},", printed.trim_end());
        assert!(request.contains(&expected), "{expected} in {request}");
    }
}

#[test]
fn a_tool_that_openai_would_reject_is_named() {
    let folder = Folder::new();
    folder.echo_job();
    let long = json!({"tool_id": "echo", "description": "word ".repeat(300)});
    folder.write("echoing/tools/echo.json", long.to_string());
    let ran = folder.baton(&["tool", "catalog", "--job", "echoing", "--format", "openai"]).exits(2);
    ran.tells("tool echo cannot be offered to openai").tells("at most 1024 are allowed");
}

#[test]
fn the_catalog_of_an_agent_has_the_configurations_that_its_calls_may_name() {
    let folder = Folder::new();
    folder.job("asking", &[("lead", &["openrouter", "handoff"])], json!({"lead": {"turns": [{"text": "done"}]}}), json!({}));
    folder.write("asking/configs/fast.json", r#"{"tool": "openrouter", "set": {"max_tokens": 9}}"#);
    let agent = folder.read("asking/agents/lead.json").replacen('{', r#"{"configs": ["fast"], "#, 1);
    folder.write("asking/agents/lead.json", agent);
    let of_lead = folder.baton(&["tool", "catalog", "--job", "asking", "--for", "lead"]).exits(0);
    of_lead.says("\n  config_id of openrouter: fast\n\nINVOCATION: ");
    let selected = folder.baton(&["tool", "catalog", "--job", "asking", "--for", "lead", "--tag", "llm"]).exits(0);
    selected.says("\n  config_id of openrouter: fast\n");
    let others = folder.baton(&["tool", "catalog", "--job", "asking", "--for", "lead", "--category", "flow"]).exits(0);
    assert!(!others.stdout.contains("config_id"), "a tool that is not listed has no line: {}", others.stdout);
}
