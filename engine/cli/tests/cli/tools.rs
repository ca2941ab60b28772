//! `tool`: listing, showing, calling and testing tools; commands need trust.

use serde_json::{Value, json};

use crate::support::Folder;

#[test]
fn tools_are_listed_shown_and_their_schema_printed() {
    let folder = Folder::new();
    folder.baton(&["tool", "ls"]).exits(0).says("write_file").says("function_tool").says("ask_master");
    let listed = folder.baton(&["tool", "ls", "--output", "json"]).exits(0).json();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
    assert!(names.len() >= baton::builtin_tool_configs().len() && names.contains(&"echo"), "{names:?}");
    folder.baton(&["tool", "show", "echo"]).exits(0).says("echo · function_tool").says("message").says("fn echo");
    assert_eq!(folder.baton(&["tool", "show", "echo", "--output", "json"]).exits(0).json()["type"], "function_tool");
    let schema = folder.baton(&["tool", "schema", "echo"]).exits(0).json();
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["message"])));
    folder.baton(&["tool", "show", "ecko"]).exits(6).tells("did you mean echo?");
}

#[test]
fn a_tool_is_printed_as_each_provider_is_told_of_it() {
    let folder = Folder::new();
    let printed = |provider: &str, name: &str| folder.baton(&["tool", "schema", name, "--for", provider]).exits(0);
    let function = &printed("openai", "list_files").json()["function"];
    assert_eq!((&function["name"], &function["strict"]), (&json!("list_files"), &json!(true)));
    let names: Vec<&String> = function["parameters"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(function["parameters"]["required"], json!(names), "an optional key may be null");
    let own = folder.baton(&["tool", "schema", "list_files"]).exits(0).json();
    assert_eq!(printed("anthropic", "list_files").json()["input_schema"], own);
    assert_eq!(printed("mcp", "list_files").json()["inputSchema"], own);
    assert_eq!(printed("ollama", "list_files").json()["function"]["parameters"].get("additionalProperties"), None);
    for (file, _) in baton::builtin_tool_configs() {
        let name = file.strip_suffix(".json").unwrap();
        printed("openai", name).says(name);
    }
    printed("openai", "handoff").tells("the provider does not enforce this schema").tells("/properties/result");
    folder.baton(&["tool", "schema", "echo", "--for", "opnai"]).exits(2).tells("openai");
}

#[test]
fn a_tool_that_a_provider_would_turn_down_names_the_place_and_stops_the_start() {
    let folder = Folder::new();
    folder.echo_job();
    let config = json!({
        "tool_id": "measure", "type": "non_function_tool", "description": "Notes a size.",
        "input_schema": {"type": "object", "properties": {"größe": {"type": "integer"}}},
    });
    folder.write("echoing/tools/measure.json", config.to_string());
    let agent = folder.read("echoing/agents/lead.json").replace("\"echo\"", "\"echo\",\"measure\"");
    folder.write("echoing/agents/lead.json", agent);
    let place = "tool measure cannot be offered to anthropic";
    let asked = ["tool", "schema", "measure", "--job", "echoing", "--for"];
    folder.baton(&[&asked[..], &["anthropic"]].concat()).exits(2).tells(place).tells("/properties/größe");
    folder.baton(&[&asked[..], &["openai"]].concat()).exits(0).says("größe");
    folder.write(".env", "ANTHROPIC_API_KEY=sk-none\n");
    folder.baton(&["run", "echoing", "--model", "anthropic:m", "--trust"]).exits(2).tells(place).tells("/properties/größe");
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json(), json!([]), "nothing is stored");
    folder.baton(&["run", "echoing"]).exits(0);
}

#[test]
fn an_agent_that_discovers_its_tools_may_have_more_than_a_provider_takes() {
    let folder = Folder::new();
    folder.echo_job();
    let names: Vec<String> = (0..150).map(|number| format!("tool_{number}")).collect();
    for name in &names {
        let tool = json!({"tool_id": name, "type": "non_function_tool", "description": "Notes.", "parameters": {}});
        folder.write(&format!("echoing/tools/{name}.json"), tool.to_string());
    }
    let mut agent: Value = serde_json::from_str(&folder.read("echoing/agents/lead.json")).unwrap();
    agent["model"] = json!("openai:m");
    agent["tools"].as_array_mut().unwrap().extend(names.iter().map(|name| json!(name)));
    folder.write("echoing/agents/lead.json", agent.to_string());
    folder.baton(&["validate", "echoing"]).exits(2).tells("128");
    agent["catalog"] = json!("discover");
    folder.write("echoing/agents/lead.json", agent.to_string());
    folder.baton(&["validate", "echoing"]).exits(0);
}

#[test]
fn an_import_names_the_other_tool_of_a_clash() {
    let folder = Folder::new();
    let tool = |name: &str| json!({"name": name, "description": "d", "inputSchema": {"type": "object"}});
    let names = ["get.user", "get-user", "sendMessage", "sendmessage", "echo"];
    folder.write("mcp.json", json!({"tools": names.map(tool)}).to_string());
    let ran = folder.baton(&["tool", "import", "mcp.json", "--out", "tools", "--output", "json"]).exits(0).json();
    let changes = |index: usize| -> Vec<&str> {
        ran[index]["changed"].as_array().unwrap().iter().map(|change| change["change"].as_str().unwrap()).collect()
    };
    assert_eq!(changes(1)[1..], ["another tool of the document has the id \"get_user\""]);
    assert_eq!(ran[2]["tool"], "send_message");
    assert_eq!(changes(3)[1..], ["models see another tool of the document as \"sendMessage\""]);
    assert_eq!(changes(4)[1..], ["\"echo\" is a tool of the program or of the project"]);
}

#[test]
fn tools_of_other_systems_become_configs_and_every_change_is_told() {
    let folder = Folder::new();
    folder.echo_job();
    let listed = json!({"tools": [
        {"name": "sendMessage", "description": "Sends a message.", "inputSchema": {"type": "object", "properties": {
            "text": {"type": "string"}, "weight": {"type": "float"}}, "required": ["text"]}},
        {"name": "room.list", "description": "Lists rooms.", "inputSchema": {"type": "object"}},
    ]});
    folder.write("mcp.json", listed.to_string());
    folder.write("echoing/chat.py", "");
    let import = ["tool", "import", "mcp.json", "--out", "echoing/tools"];
    folder
        .baton(&import)
        .exits(0)
        .says("echoing/tools/send_message.json")
        .says("its name \"sendMessage\" became the id \"send_message\"")
        .says("/properties/weight/type: type \"float\" became \"number\"")
        .tells("calls of these tools are only recorded");
    let agent = folder.read("echoing/agents/lead.json").replace("\"echo\"", "\"echo\",\"send_message\",\"room_list\"");
    folder.write("echoing/agents/lead.json", agent);
    folder.baton(&["validate", "echoing"]).exits(0);
    folder.baton(&["tool", "show", "send_message", "--job", "echoing"]).exits(0).says("non_function_tool").says("weight");
    folder.baton(&import).exits(2).tells("is not empty; expected a new or empty folder, or --force");
    let forced = [&import[..], &["--force", "--exec", "python3", "--exec", "chat.py", "--output", "json"]].concat();
    let report = folder.baton(&forced).exits(0).json();
    assert_eq!((&report[1]["tool"], &report[1]["name"]), (&json!("room_list"), &json!("room.list")));
    let config: serde_json::Value = serde_json::from_str(&folder.read("echoing/tools/room_list.json")).unwrap();
    assert_eq!(config["exec"]["command"], json!(["python3", "chat.py", "room.list"]));
    folder.baton(&["validate", "echoing"]).exits(0);
    folder.write("api.yaml", "openapi: 3.1.0\npaths: {}\n");
    folder.baton(&["tool", "import", "api.yaml"]).exits(2).tells("api.yaml is YAML and not JSON; convert it to JSON first");
    folder.write("broken.json", "{\"tools\": [");
    folder.baton(&["tool", "import", "broken.json"]).exits(2).tells("broken.json is not JSON");
    folder
        .write("options.json", json!([{"name": "--rm", "title": "x".repeat(61), "description": "é".repeat(20_001)}]).to_string());
    folder.baton(&["tool", "import", "options.json", "--out", "options", "--exec", "docker"]).exits(2).tells("the tool \"--rm\"");
    let ran = folder.baton(&["tool", "import", "options.json", "--out", "options"]).exits(0);
    ran.says("options/rm.json").says("its title was not used").says("the description was cut to 20000 characters");
    folder.write("none.json", "{}");
    folder.baton(&["tool", "import", "none.json", "--out", "new"]).exits(2).tells("no tool was found").tells("tools/list");
}

#[test]
fn a_tool_is_called_with_json_a_file_stdin_or_flags() {
    let folder = Folder::new();
    folder.write("in.json", r#"{"message": "from a file"}"#);
    folder.baton(&["tool", "call", "echo", "--input", r#"{"message": "json"}"#]).exits(0).says("json");
    folder.baton(&["tool", "call", "echo", "--input", "@in.json"]).exits(0).says("from a file");
    folder.baton_with_input(&["tool", "call", "echo", "--input", "-"], r#"{"message": "stdin"}"#).exits(0).says("stdin");
    folder.baton(&["tool", "call", "echo", "--message", "a flag"]).exits(0).says("a flag");
    folder.baton(&["tool", "call", "--help"]).exits(0).says("baton tool call").says("NAME --help");
    folder.baton(&["help"]).exits(0).says("Exit codes");
    folder.baton(&["help", "run"]).exits(0).says("--max-cost");
    folder.baton(&["tool", "call", "echo", "--help"]).exits(0).says("--message <STRING>");
    let report = folder.baton(&["tool", "call", "echo", "--message", "x", "--output", "json"]).exits(0).json();
    assert_eq!(report["status"], "success");
    assert!(report["duration_ms"].is_number());
    assert!(!folder.path().join(".baton").exists(), "a call by itself keeps nothing");
}

#[test]
fn numbers_and_lists_are_made_from_flags() {
    let folder = Folder::new();
    folder.write("a.csv", "x\n1\n2\n");
    let call = ["tool", "call", "query_data", "--document", "a.csv", "--sql", "SELECT sum(x) AS s FROM a"];
    let report =
        folder.baton(&[&call[..], &["--documents", "a.csv", "--max_rows", "5", "--output", "json"]].concat()).exits(0).json();
    assert_eq!(report["output"]["rows"], json!([{"s": 3}]));
    let ran = folder.baton(&[&call[..], &["--max_rows", "many"]].concat()).exits(1);
    assert!(ran.stderr.contains("/max_rows"), "{}", ran.stderr);
}

#[test]
fn a_wrong_input_is_told_and_exits_1() {
    let folder = Folder::new();
    folder
        .baton(&["tool", "call", "echo", "--input", r#"{"massage": 1}"#])
        .exits(1)
        .tells("message")
        .tells("baton tool show echo");
    let report = folder.baton(&["tool", "call", "echo", "--input", "{}", "--output", "json"]).exits(1).json();
    assert_eq!(report["error"]["code"], "invalid_input");
    folder.baton(&["tool", "call", "echo", "--input", "{"]).exits(2).tells("not JSON");
    folder.baton(&["tool", "call", "echo", "--massage", "x"]).exits(2).tells("--message");
    folder.baton(&["tool", "call", "ecko", "--message", "x"]).exits(6).tells("did you mean echo?");
    folder.baton(&["tool", "call", "handoff", "--input", r#"{"result": {}}"#]).exits(2).tells("needs a run");
}

#[test]
fn a_dry_run_checks_and_does_nothing() {
    let folder = Folder::new();
    folder.baton(&["tool", "call", "timer", "--seconds", "60", "--dry-run"]).exits(0).says("ok");
    folder.baton(&["tool", "call", "timer", "--seconds", "soon", "--dry-run"]).exits(1).tells("/seconds");
}

#[test]
fn a_tool_that_fails_exits_1_with_its_own_words() {
    let folder = Folder::new();
    let call = ["tool", "call", "query_data", "--sql", "SELECT a FROM nowhere"];
    folder.baton(&call).exits(1).tells("failed").tells("nowhere");
    let report = folder.baton(&[&call[..], &["--output", "json"]].concat()).exits(1).json();
    assert_eq!((&report["status"], &report["error"]["code"]), (&json!("failed"), &json!("tool_failed")));
}

#[test]
fn what_a_call_writes_is_told_and_can_be_kept() {
    let folder = Folder::new();
    let call = ["tool", "call", "write_file", "--path", "a/b.md", "--content", "# Hi", "--out", "kept"];
    folder.baton(&call).exits(0).tells("wrote a/b.md v1");
    assert_eq!(folder.read("kept/a/b.md"), "# Hi");
}

#[test]
fn the_examples_of_every_built_in_tool_hold() {
    let folder = Folder::new();
    folder.baton(&["tool", "test"]).exits(0).says("examples passed");
    let reports = folder.baton(&["tool", "test", "echo", "--output", "ndjson"]).exits(0).lines();
    assert!(reports.iter().all(|report| report["tool"] == "echo" && report["holds"] == true) && !reports.is_empty());
}

#[test]
fn an_example_that_does_not_hold_is_named() {
    let folder = Folder::new();
    folder.echo_job();
    let config =
        json!({"tool_id": "echo", "examples": [{"explanation": "wrong", "input": {"message": "a"}, "output": {"echo": "b"}}]});
    folder.write("echoing/tools/echo.json", config.to_string());
    folder.baton(&["tool", "test", "echo", "--job", "echoing"]).exits(1).tells("echo example 1 (wrong)").tells("should be \"b\"");
}

#[test]
fn commands_run_only_where_they_are_trusted() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["new", "tool", "word_count", "--job", "echoing"]).exits(0).says("echoing/tools/word_count.py");
    let agent = folder.read("echoing/agents/lead.json").replace("\"echo\"", "\"echo\",\"word_count\"");
    folder.write("echoing/agents/lead.json", agent);
    let call = ["tool", "call", "word_count", "--job", "echoing", "--text", "a b"];
    folder
        .baton(&["run", "echoing"])
        .exits(2)
        .tells(r#"word_count runs the command "python3" "tools/word_count.py""#)
        .tells("--trust");
    folder.baton(&call).exits(2).tells("--trust");
    folder.baton(&["run", "echoing", "--trust"]).exits(0);
    folder.baton(&["run", "echoing"]).exits(0);
    folder.baton(&[&call[..], &["--trust"]].concat()).exits(0).says("\"words\": 2");
    folder.baton(&["tool", "test", "word_count", "--job", "echoing"]).exits(0).says("1 example passed");
    let config = folder.read("echoing/tools/word_count.json").replace("\"python3\"", "\"python3\", \"-I\"");
    folder.write("echoing/tools/word_count.json", config);
    folder.baton(&["run", "echoing"]).exits(2).tells(r#""python3" "-I" "tools/word_count.py""#);
}

/// Writes the tool `counter` of the job `echoing`, with this command.
fn command_tool(folder: &Folder, command: &[&str]) {
    let tool = json!({
        "tool_id": "counter", "type": "function_tool", "description": "Counts.", "effect": "pure",
        "exec": {"command": command}, "parameters": {"text": {"type": "string", "description": "A text", "required": true}}, "returns": {"words": "integer"},
        "examples": [{"explanation": "Two words", "input": {"text": "a b"}, "output": {"words": 2}}],
    });
    folder.write("echoing/tools/counter.json", serde_json::to_string_pretty(&tool).unwrap());
}

#[test]
fn a_command_whose_program_or_script_is_missing_is_a_fault_before_any_run() {
    let folder = Folder::new();
    folder.echo_job();
    folder.write("echoing/tools/counter.sh", "echo '{\"words\": 2}'\n");
    command_tool(&folder, &["sh", "tools/counter.sh", "out/report.md"]);
    folder.baton(&["validate", "echoing"]).exits(0);
    command_tool(&folder, &["sh", "tools/cuonter.sh"]);
    let place = "echoing/tools/counter.json:";
    let told = "the file \"tools/cuonter.sh\" of the command does not exist";
    for verb in [&["validate", "echoing"][..], &["run", "echoing", "--trust"]] {
        folder.baton(verb).exits(2).tells("B0127").tells(told).tells(place).tells("did you mean \"tools/counter.sh\"?");
    }
    folder.baton(&["doctor", "echoing", "--offline"]).exits(2).says("1 fault");
    command_tool(&folder, &["no-such-program-here", "tools/counter.sh"]);
    folder.baton(&["validate", "echoing"]).exits(2).tells("the program \"no-such-program-here\" is not on PATH").tells(place);
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json(), json!([]), "no run was started");
    // All faults of a job are reported at once.
    folder.write("echoing/agents/lead.json", folder.read("echoing/agents/lead.json").replace("\"echo\"", "\"ecko\""));
    folder.baton(&["validate", "echoing"]).exits(2).tells("no-such-program-here").tells("ecko");
}

#[test]
fn a_failed_example_of_a_command_shows_what_the_command_wrote_to_stderr() {
    let folder = Folder::new();
    folder.echo_job();
    folder.write("echoing/tools/counter.sh", "echo 'line 7: no such column' >&2\nexit 1\n");
    command_tool(&folder, &["sh", "tools/counter.sh"]);
    let test = ["tool", "test", "counter", "--job", "echoing", "--trust"];
    folder.baton(&test).exits(1).tells("│ line 7: no such column").says("1 of 1 example failed");
    let report = folder.baton(&[&test[..], &["--output", "json"]].concat()).exits(1).json();
    assert_eq!(report[0]["stderr"], "line 7: no such column");
}
