//! Commands that make calls, when the engine is killed while they wait.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Folder, wait_until_gone};

/// Makes a job whose command `errand` calls `log`, and then `hang`, which hangs the first time.
fn errands(effect: &str) -> Folder {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "errand", "input": {}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "all done"}}}]},
    ]}});
    folder.job("errands", &[("lead", &["errand", "handoff"])], script, json!({}));
    let home = folder.path().display().to_string();
    let tool = |id: &str, effect: &str, text: String, more: Value| {
        let mut config = json!({
            "tool_id": id, "type": "function_tool", "description": "Runs.", "effect": effect,
            "exec": {"command": ["sh", format!("{id}.sh")]}, "input_schema": {"type": "object"},
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        folder.write(&format!("errands/tools/{id}.json"), config.to_string());
        folder.write(&format!("errands/{id}.sh"), text);
    };
    let errand = format!(
        "echo $$ >> '{home}/pids'\nread -r input\necho '{{\"call\": {{\"tool\": \"log\"}}}}'\nread -r one\n\
         echo '{{\"call\": {{\"tool\": \"hang\"}}}}'\nread -r two\nprintf '{{\"output\": [%s, %s]}}\\n' \"$one\" \"$two\"\n"
    );
    tool("errand", effect, errand, json!({"calls": ["log", "hang"]}));
    tool("log", "idempotent", format!("echo once >> '{home}/effects'\necho 1\n"), json!({}));
    let hang =
        format!("mkdir '{home}/once' && {{ echo $$ >> '{home}/pids'; echo begun > '{home}/began'; sleep 600; }}\necho 2\n");
    tool("hang", "idempotent", hang, json!({}));
    folder
}

#[test]
fn a_command_that_waits_dies_with_its_engine_and_its_class_decides() {
    for (effect, expected) in [("keyed", "success"), ("at_most_once", "unknown_outcome")] {
        let folder = errands(effect);
        let mut command = folder.command(&["run", "errands", "--trust", "--output", "json"]);
        let mut engine = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = folder.path().join("began");
        while !began.exists() {
            assert!(engine.try_wait().unwrap().is_none(), "the run is over");
            std::thread::yield_now();
        }
        engine.kill().unwrap();
        engine.wait().unwrap();
        let processes = folder.read("pids");
        assert_eq!(processes.lines().count(), 2, "the command and its call");
        processes.lines().for_each(wait_until_gone);
        let ended = folder.baton(&["resume", "@last", "--output", "json"]).exits(0).json();
        assert_eq!(ended["result"], json!({"summary": "all done"}));
        assert_eq!(folder.read("effects"), "once\n", "{effect}: a call that has its result is not made again");
        let timeline = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0);
        let entries: Vec<Value> = timeline.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let result = |call: &str| {
            let found = entries.iter().find(|line| line["entry"] == "call_finished" && line["data"]["call"] == call);
            found.unwrap_or_else(|| panic!("{call} has no result"))["data"]["result"].clone()
        };
        assert_eq!(result("0/1.1")["status"], expected, "{effect}");
        if effect == "keyed" {
            let named = |name: &str, output: u32| json!({"result": {"name": name, "status": "success", "output": output}});
            assert_eq!(result("0/1.1")["output"]["inline"], json!([named("1", 1), named("2", 2)]));
        } else {
            assert_eq!(result("0/1.1:2")["status"], "cancelled");
        }
        folder.baton(&["verify", &folder.last_run()]).exits(0);
    }
}
