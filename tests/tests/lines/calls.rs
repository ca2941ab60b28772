//! Calls that commands may make, and the time and the place that these take.

use std::path::Path;

use baton_types::entry::Entry;
use serde_json::json;

use super::{Errand, memory, running};
use crate::support::{Finished, TestJob, call_output, call_result, engine, run_to_end};

fn made(finished: &Finished) -> usize {
    finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallMade(_))).count()
}

#[tokio::test]
async fn the_command_of_the_documentation_makes_its_calls() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tools.md")).unwrap();
    let fenced =
        page.split("```python\n").skip(1).find_map(|rest| rest.split("```").next().filter(|text| text.contains("\"call\"")));
    let errand = Errand::new("python3", "errand.py", fenced.expect("the page has the script"));
    let job = |errand: &Errand| {
        let command =
            json!({"exec": {"command": errand.command}, "input_schema": {"type": "object"}, "effect": "keyed", "calls": ["*"]});
        let mut job = TestJob::new("root", json!({}))
            .agent("root", &["errand", "route_to_north", "route_to_south", "handoff"])
            .agent("north", &["handoff"])
            .agent("south", &["handoff"])
            .tool_by_schema("errand", command)
            .load();
        job.folder = Some(errand.path().to_owned());
        job
    };
    let finished = run_to_end(&engine(memory(), &running(json!({"part": "bolts"}))), job(&errand)).await;
    let output = call_output(&finished.entries, "0/1.1");
    let offers = json!({"north": {"summary": "answer of 0/1.1:north"}, "south": {"summary": "answer of 0/1.1:south"}});
    assert_eq!(output, offers);
}

#[tokio::test]
async fn a_command_makes_calls_of_every_kind() {
    let text = r#"
call("calculator", expression="2 + 3")
first = result()
call("route_to_worker", name="ask", request="Work.")
second = result()
call("write_file", path="a.md", content="A", why_created="a test")
third = result()
call("pretty")
fourth = result()
write({"output": [given, first, second, third["status"], fourth]})
"#;
    for effect in ["pure", "idempotent", "keyed", "at_most_once"] {
        let finished = Errand::python(text).config(json!({"effect": effect})).call(json!({"n": 9_007_199_254_740_993_u64})).await;
        let output = call_output(&finished.entries, "0/1.1");
        assert_eq!(output[0], json!({"n": 9_007_199_254_740_993_u64}));
        assert_eq!(
            (&output[1]["name"], &output[1]["status"], &output[1]["output"]["result"]),
            (&json!("1"), &json!("success"), &json!(5))
        );
        assert_eq!(output[2], json!({"name": "ask", "status": "success", "output": {"summary": "answer of 0/1.1:ask"}}));
        assert_eq!(output[3], "success");
        assert_eq!(output[4]["output"], json!({"a": [1, 9_007_199_254_740_993_u64]}), "line breaks in an output end no line");
        assert_eq!(call_output(&finished.entries, "0/1.1:1")["result"], 5);
        assert!(finished.run.documents().iter().any(|(path, _)| path.as_str() == "a.md"));
        assert_eq!(made(&finished), 4);
    }
}

#[tokio::test]
async fn a_result_without_success_is_a_line_as_any_other() {
    let text = r#"
call("nothing")
call("handoff", result={"summary": "out"})
call("calculator", expression=3)
lines = sorted((result() for _ in range(3)), key=lambda line: line["name"])
write({"output": [[line["status"], line["error"]["code"], "output" in line] for line in lines]})
"#;
    let finished = Errand::python(text).call(json!({})).await;
    let unknown = json!(["failed", "unknown_tool", true]);
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!([unknown, unknown, ["failed", "invalid_input", true]]));
}

#[tokio::test]
async fn many_calls_are_open_at_once_and_results_are_matched_by_name() {
    let text = r#"
for n in range(300):
    call("calculator", name=f"square-{n}", expression=f"{n} * {n}")
squares = {}
for _ in range(300):
    line = result()
    squares[line["name"]] = line["output"]["result"]
write({"output": all(squares[f"square-{n}"] == n * n for n in range(300))})
"#;
    let finished = Errand::python(text).call(json!({})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(true));
    let started = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::CallMade(entry) => Some(entry.call.to_string()),
        _ => None,
    });
    let lines: Vec<String> = (0..300).map(|n| format!("0/1.1:square-{n}")).collect();
    assert_eq!(started.collect::<Vec<_>>(), lines, "calls are made in the order of their lines");
}

#[tokio::test]
async fn the_time_in_which_a_command_waits_for_its_calls_is_not_its_own() {
    let waits = "call(\"slow\")\nresult()\nwrite({\"output\": 1})";
    let limited = json!({"timeout_seconds": 1, "idle_seconds": 1});
    let finished = Errand::python(waits).config(limited.clone()).call(json!({})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(1), "two seconds of waiting are more than it has");
    let works = format!("{waits}\ntime.sleep(600)");
    let finished = Errand::python(&works).config(limited).call(json!({})).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "timeout timed_out");
}

#[tokio::test]
async fn a_command_that_waits_leaves_its_place_to_its_calls() {
    let text = "call(\"write_file\", path=\"a.md\", content=\"A\", why_created=\"a test\")\ncall(\"slow\")\nresult()\nresult()\nwrite({\"output\": 1})";
    let finished = Errand::python(text).limits(json!({"parallel_calls": 1})).call(json!({})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(1));
}
