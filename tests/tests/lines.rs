//! Commands that make calls: what they may do, how they misbehave, and what a crash does to them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_models::Model;
use baton_runtime::{Engine, LoadedJob, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_types::entry::Entry;
use baton_types::id::RunId;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::{Gate, effects_of};
use crate::support::{
    Finished, TestJob, call_error, call_output, call_result, calls, engine, finish, handoff, model, name_of, run_to_end,
};

/// The longest time of a command that misbehaves, on a machine that is busy.
const MOST: Duration = Duration::from_secs(30);

/// The beginning of each script in Python.
const PYTHON: &str = r#"
import json, os, sys, time

def read():
    return json.loads(sys.stdin.readline())

def write(line):
    print(json.dumps(line), flush=True)

def call(tool, name=None, **fields):
    named = {} if name is None else {"name": name}
    write({"call": {"tool": tool, "input": fields, **named}})

def result():
    return read()["result"]

here = os.path.dirname(sys.argv[0])
given = read()["input"]
"#;

/// The beginning of each script for the shell: it reads its input, and writes a call of the calculator with its number.
const SHELL: &str = r#"
here=$(dirname "$0")
read -r input
call() { echo "{\"call\": {\"tool\": \"calculator\", \"input\": {\"expression\": \"$1\"}}}"; }
"#;

/// A job folder with the script of the tool `errand`.
struct Errand {
    folder: tempfile::TempDir,
    command: Vec<String>,
    config: Value,
    limits: Value,
}

impl Errand {
    fn new(program: &str, file: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        let command = vec![program.to_owned(), file.to_owned()];
        Self { folder, command, config: json!({}), limits: json!({}) }
    }

    fn python(text: &str) -> Self {
        Self::new("python3", "errand.py", &format!("{PYTHON}{text}"))
    }

    fn shell(text: &str) -> Self {
        Self::new("sh", "errand.sh", &format!("{SHELL}{text}"))
    }

    fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    fn limits(mut self, limits: Value) -> Self {
        self.limits = limits;
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the job. Besides `errand` it has tools that a command may call, of every kind.
    fn job(&self) -> LoadedJob {
        let mut errand = json!({
            "exec": {"command": self.command},
            "input_schema": {"type": "object"},
            "effect": "keyed",
            "calls": ["*"],
        });
        errand.as_object_mut().unwrap().extend(self.config.as_object().unwrap().clone());
        let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
        let pretty = json!({
            "exec": {"command": ["printf", "{\\n  \"a\":\\r\\n  [1,\\n  9007199254740993]\\n}\\n"]},
            "input_schema": {"type": "object"},
            "effect": "pure",
        });
        let slow =
            json!({"exec": {"command": ["sh", "-c", "sleep 2; echo 1"]}, "input_schema": {"type": "object"}, "effect": "pure"});
        let granted = [
            "errand",
            "calculator",
            "write_file",
            "strike",
            "pretty",
            "slow",
            "ask_master",
            "route_to_worker",
            "sleep",
            "handoff",
        ];
        let mut job = TestJob::new("root", json!({"limits": {"calls": 20_000}}))
            .agent_with("root", &granted, json!({"limits": self.limits}))
            .agent("worker", &["handoff"])
            .built_in("calculator")
            .built_in("write_file")
            .built_in("sleep")
            .tool("strike", gate, json!({"effect": "keyed"}))
            .tool_by_schema("pretty", pretty)
            .tool_by_schema("slow", slow)
            .tool_by_schema("errand", errand)
            .document("notes.md", "A note.")
            .load();
        job.folder = Some(self.folder.path().to_owned());
        job
    }

    /// Runs the command once with `input`.
    async fn call(&self, input: Value) -> Finished {
        run_to_end(&engine(memory(), &running(input)), self.job()).await
    }
}

/// Returns a model whose root calls `errand` once, and whose worker answers with its task.
fn running(input: Value) -> Arc<dyn Model> {
    model(move |agent, turn, request| match (agent, turn) {
        ("root", 1) => calls(&[("errand", input.clone())]),
        ("root", _) => handoff("done", &[]),
        _ => handoff(&format!("answer of {}", request.task), &[]),
    })
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn made(finished: &Finished) -> usize {
    finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallMade(_))).count()
}

/// Waits until the process whose number is in `file` is gone.
async fn gone(file: &Path) {
    let number = std::fs::read_to_string(file).unwrap();
    let began = Instant::now();
    loop {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
        if state.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with(['Z', 'X'])) {
            return;
        }
        assert!(began.elapsed() < MOST, "process {number} is still there");
        tokio::task::yield_now().await;
    }
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

/// Commands in the shell that break the protocol, and the beginnings of the errors of their calls.
const MISBEHAVING: &[(&str, &str)] = &[
    // Lines.
    ("echo oops", "line 1 of the command is not a JSON object: expected value"),
    ("echo", "line 1 of the command is not a JSON object: EOF while parsing"),
    ("echo '[]'", "line 1 of the command is not a JSON object: invalid type: sequence, expected a map"),
    ("echo '{\"call\": {\"tool\": \"a\"}'", "line 1 of the command is not a JSON object: EOF while parsing"),
    ("printf '\\377\\n'", "line 1 of the command is not UTF-8"),
    ("printf '\\0\\n'", "line 1 of the command is not a JSON object"),
    ("echo '{}'", "line 1 of the command is neither {\"call\""),
    ("echo '{\"result\": {}}'", "line 1 of the command is neither {\"call\""),
    ("echo '{\"call\": [\"calculator\"]}'", "line 1 of the command is neither {\"call\""),
    ("echo '{\"call\": null}'", "line 1 of the command is neither {\"call\""),
    ("echo '{\"call\": {}}'", "line 1 of the command has a call that cannot be read: missing field `tool`"),
    ("echo '{\"call\": {\"tool\": 1}}'", "line 1 of the command has a call that cannot be read: invalid type: integer"),
    (
        "echo '{\"call\": {\"tool\": \"a\", \"inputs\": {}}}'",
        "line 1 of the command has a call that cannot be read: unknown field `inputs`, expected one of `tool`, `input`, `name`",
    ),
    (
        "echo '{\"call\": {\"tool\": \"a\"}, \"output\": 1}'",
        "line 1 of the command has a call that cannot be read: unknown field `output`, expected `call`",
    ),
    (
        "echo '{\"call\": {\"tool\": \"a\", \"tool\": \"b\"}}'",
        "line 1 of the command has a call that cannot be read: the key \"tool\" occurs twice in an object",
    ),
    (
        "echo '{\"call\": {\"tool\": \"a\", \"input\": {\"x\": 1e400}}}'",
        "line 1 of the command has a call that cannot be read: the number 1e400 is out of range",
    ),
    ("echo '{\"output\": 1, \"outputs\": 2}'", "the command's answer cannot be read: unknown field `outputs`"),
    ("echo '{\"output\": 1, \"documents\": [{\"path\": \"a\", \"content\": \"\"}]}'", "this tool cannot write documents"),
    (
        "echo '{\"output\": 1, \"after_execution\": \"terminate\"}'",
        "the command of errand sets \"after_execution\", but its config lacks",
    ),
    ("echo '{\"suspend\": {}}'", "line 1 of the command is neither {\"call\""),
    // Names.
    (
        "call 1; read -r r; echo '{\"call\": {\"tool\": \"calculator\", \"name\": \"1\"}}'; read -r r",
        "line 2 of the command: this code has made a call named \"1\" already",
    ),
    (
        "echo '{\"call\": {\"tool\": \"slow\", \"name\": \"a b\"}}'; read -r r",
        "line 1 of the command: the code of 0/1.1 cannot make this call: a call cannot be named \"a b\"",
    ),
    (
        "echo '{\"call\": {\"tool\": \"slow\", \"name\": \"\"}}'; read -r r",
        "line 1 of the command: the code of 0/1.1 cannot make this call: a call cannot be named \"\"",
    ),
    (
        "for i in 1 2; do echo '{\"call\": {\"tool\": \"slow\", \"name\": \"n\"}}'; done; read -r r",
        "line 2 of the command: this code has made a call named \"n\" already",
    ),
    // Ends.
    ("exit 0", "the command ended before it wrote {\"output\": …}"),
    ("echo why >&2; exit 3", "the command failed: exit status: 3"),
    ("kill -9 $$", "the command failed: signal: 9 (SIGKILL)"),
    ("echo '{\"output\": 1}'; exit 3", "the command failed: exit status: 3"),
    (
        "echo '{\"call\": {\"tool\": \"slow\", \"name\": \"late\"}}'; exit 0",
        "the command ended while these calls had no result: late",
    ),
    ("exec >&-; sleep 600", "the command closed its stdout before it wrote {\"output\": …}"),
    (
        "echo '{\"call\": {\"tool\": \"strike\", \"name\": \"x\", \"input\": {\"gate\": \"never\"}}}'; exec >&-; sleep 600",
        "the command closed its stdout while these calls had no result: x",
    ),
    (
        "echo '{\"call\": {\"tool\": \"slow\", \"name\": \"x\"}}'; echo '{\"output\": 1}'; read -r r",
        "line 2 of the command has its output, but these calls have no result: x",
    ),
    ("echo '{\"output\": 1}'; echo '{\"output\": 2}'; sleep 600", "line 2 of the command comes after its output"),
    ("echo '{\"output\": 1}'; echo; sleep 600", "line 2 of the command comes after its output"),
    ("echo '{\"output\": 1}'; call 1; sleep 600", "line 2 of the command comes after its output"),
    // Time.
    ("sleep 600", "the call took longer than 3 s"),
    ("call 1; sleep 600", "the call took longer than 3 s"),
    ("echo '{\"output\": 1}'; sleep 600", "the call took longer than 3 s"),
    ("exec <&-; call 1; sleep 600", "the call took longer than 3 s"),
];

#[tokio::test]
async fn a_command_that_misbehaves_is_killed_with_a_clear_error() {
    for (text, expected) in MISBEHAVING {
        let errand = Errand::shell(&format!("echo $$ > \"$here/pid\"\n{text}")).config(json!({"timeout_seconds": 3}));
        let began = Instant::now();
        let finished = errand.call(json!({})).await;
        let took = began.elapsed();
        let error = call_error(&finished.entries, "0/1.1");
        println!("{:.1} s  {text}\n        {error}", took.as_secs_f32());
        assert!(error.starts_with(expected), "{text}: {error}");
        assert!(took < MOST, "{text}: {took:?}");
        assert_eq!(finished.status, "success", "{text}: the run goes on");
        gone(&errand.path().join("pid")).await;
        let open = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
            Entry::CallMade(entry) => Some(entry.call.to_string()),
            _ => None,
        });
        // Each call that was made has its result.
        open.for_each(|call| _ = call_result(&finished.entries, &call));
    }
}

#[tokio::test]
async fn what_a_command_writes_and_does_not_read_is_bounded() {
    for (text, expected) in [
        // No line ever ends.
        ("while True: sys.stdout.write('x' * 65536)", "the command wrote more than 64 MiB to stdout"),
        ("while True: sys.stderr.write('x' * 65536)", "the command wrote more than 64 MiB to stderr"),
        ("while True: print('\\n' * 65536)", "line 1 of the command is not a JSON object"),
        ("write({'output': 1})\nwhile True: print('x' * 65536)", "line 2 of the command comes after its output"),
        // Results that stay unread, and calls that never end.
        (
            "for n in range(3000): call('calculator', expression='x' * 100), time.sleep(0.002)\ntime.sleep(600)",
            "the command does not read the results",
        ),
        ("for n in range(1001): call('strike', gate='never')\ntime.sleep(600)", "a command may have 1000 calls without a result"),
        ("for n in range(10001):\n    call('nothing')\n    result()", "a command makes 10000 calls at most"),
    ] {
        let began = Instant::now();
        let finished = Errand::python(text).config(json!({"timeout_seconds": 100})).call(json!({})).await;
        let error = call_error(&finished.entries, "0/1.1");
        println!("{:.1} s  {text}\n        {error}", began.elapsed().as_secs_f32());
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_command_that_reads_nothing_may_succeed_all_the_same() {
    let text = "exec <&-\necho '{\"output\": {\"done\": true}}'";
    let errand = Errand::new("sh", "errand.sh", text);
    let finished = errand.call(json!({"text": "x".repeat(900_000)})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"done": true}));
    // Its call has ended before its output, although it never reads the result.
    let finished = Errand::shell("call 1; sleep 1; echo '{\"output\": 2}'").call(json!({})).await;
    let output = finished
        .entries
        .iter()
        .any(|recorded| matches!(&recorded.entry, Entry::CallFinished(entry) if entry.call.as_str() == "0/1.1:1"));
    assert!(output, "the call was made");
}

#[tokio::test]
async fn children_of_a_command_do_not_delay_its_output() {
    let text = "sleep 600 & echo $! > \"$here/pid\"\ncall 1; read -r r; echo '{\"output\": 2}'";
    let errand = Errand::shell(text).config(json!({"timeout_seconds": 100}));
    let began = Instant::now();
    let finished = errand.call(json!({})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(2));
    assert!(began.elapsed() < MOST);
    gone(&errand.path().join("pid")).await;
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

/// Lets the run whose store fails after `commits` commits go as far as it comes; `None` if it ended.
async fn interrupted(
    store: &Arc<dyn Store>,
    errand: &Errand,
    commits: i64,
    failing: Failing,
    model: &Arc<dyn Model>,
) -> Option<Option<RunId>> {
    let doomed = engine(Arc::new(FailingStore::new(Arc::clone(store), commits, failing)), model);
    match doomed.start(errand.job(), StartOptions::default()).await {
        Ok(handle) => match handle.outcome().await {
            RunOutcome::Failed(RunError::Store(_)) => {}
            RunOutcome::Ended { .. } => return None,
            other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
        },
        Err(RunError::Store(_)) => {}
        Err(error) => panic!("crash {failing:?} {commits}: {error}"),
    }
    Some(store.runs().await.unwrap().first().map(|run| run.id.clone()))
}

/// Returns the calls of `strike` that have a result.
async fn finished_strikes(engine: &Engine, run: &RunId) -> Vec<String> {
    let state = engine.state(run).await.unwrap();
    let calls = state.graph().iter().flat_map(baton_machine::Task::calls);
    calls.filter(|call| call.is_finished() && call.asked.tool == "strike").map(|call| call.id.to_string()).collect()
}

#[tokio::test]
async fn a_command_takes_the_results_that_it_has_wherever_the_process_is_killed() {
    let text = r#"
call("strike", name="one")
result()
call("strike", name="two")
call("route_to_worker", name="ask", request="Work.")
names = [result()["name"], result()["name"]]
call("calculator", expression="2 + 3")
write({"output": [sorted(names), result()["output"]["result"]]})
"#;
    for effect in ["keyed", "at_most_once"] {
        let errand = Errand::python(text).config(json!({"effect": effect}));
        let mut ends = std::collections::BTreeMap::<String, u32>::new();
        for failing in [Failing::Before, Failing::After] {
            for commits in 0.. {
                let (store, model) = (memory(), running(json!({})));
                let Some(run) = interrupted(&store, &errand, commits, failing, &model).await else { break };
                let Some(run) = run else { continue };
                let engine = engine(Arc::clone(&store), &model);
                let done = finished_strikes(&engine, &run).await;
                let before = effects_of(run.as_str());
                let finished = finish(&engine, &engine.resume(&run).await.unwrap()).await;
                assert_eq!(finished.status, "success", "{effect}, crash {failing:?} {commits}");
                let end = call_result(&finished.entries, "0/1.1");
                if end == "success" {
                    assert_eq!(
                        call_output(&finished.entries, "0/1.1"),
                        json!([["ask", "two"], 5]),
                        "crash {failing:?} {commits}"
                    );
                }
                *ends.entry(end).or_default() += 1;
                let after: std::collections::BTreeMap<String, u32> = effects_of(run.as_str()).into_iter().collect();
                for (call, times) in before.iter().filter(|(call, _)| done.contains(call)) {
                    assert_eq!(after[call], *times, "{effect}, crash {failing:?} {commits}: {call} ran again");
                }
            }
        }
        println!("{effect}: {ends:?}");
        let unknown = ends.remove("unknown_outcome unknown_outcome").unwrap_or_default();
        assert_eq!(ends.len(), 1, "{effect}: {ends:?}");
        assert_eq!(unknown > 0, effect == "at_most_once", "{effect}: {unknown}");
    }
}

#[tokio::test]
async fn results_come_in_the_same_order_again() {
    let gates = ["the first in order", "the last in order"];
    let text = r#"
call("strike", name="slow", gate=given["first"])
call("strike", name="quick")
order = [result()["name"], result()["name"]]
call("strike", name="last", gate=given["last"])
result()
write({"output": order})
"#;
    let errand = Errand::python(text);
    let (store, model) = (memory(), running(json!({"first": gates[0], "last": gates[1]})));
    let engine = engine(store, &model);
    let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
    let (first, last) = (Gate::named(gates[0]), Gate::named(gates[1]));
    first.reached().await;
    let began = Instant::now();
    while effects_of(handle.id().as_str()).len() < 2 {
        assert!(began.elapsed() < MOST);
        tokio::task::yield_now().await;
    }
    let finished = |call: &'static str| {
        let (engine, run) = (&engine, handle.id());
        async move { finished_strikes(engine, run).await.iter().any(|done| done == call) }
    };
    while !finished("0/1.1:quick").await {
        assert!(began.elapsed() < MOST);
        tokio::task::yield_now().await;
    }
    first.open();
    last.reached().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let again = engine.resume(handle.id()).await.unwrap();
    last.reached().await;
    last.open();
    let finished = finish(&engine, &again).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(["quick", "slow"]));
}

#[tokio::test]
async fn a_command_that_does_something_else_the_second_time_ends_its_call() {
    let gate = "another mind";
    let text = r#"
again = os.path.exists(here + "/once")
open(here + "/once", "w").close()
call("strike", name="only", gate="no gate" if again else given["gate"])
result()
write({"output": 1})
"#;
    let errand = Errand::python(text);
    let model = running(json!({"gate": gate}));
    let engine = engine(memory(), &model);
    let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
    Gate::named(gate).reached().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome", "its keyed call was stopped");
    assert!(call_error(&finished.entries, "0/1.1").contains("the code does not do the same as before"));
    assert_eq!(call_result(&finished.entries, "0/1.1:only"), "unknown_outcome unknown_outcome");
}

#[tokio::test]
async fn cancelling_kills_a_command_that_waits_and_ends_its_calls() {
    let text = "sleep 600 & echo $! > \"$here/child\"\necho $$ > \"$here/pid\"\n\
        echo '{\"call\": {\"tool\": \"ask_master\", \"name\": \"q\", \"input\": {\"question\": \"May I?\"}}}'\nread -r r\nwait";
    let errand = Errand::shell(text);
    let engine = engine(memory(), &running(json!({})));
    let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
    handle.cancel(crate::support::root(), "enough", &Principal::person("ann")).await.unwrap();
    let finished = finish(&engine, &handle).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome", "a keyed command may have acted");
    assert_eq!(call_result(&finished.entries, "0/1.1:q"), "cancelled cancelled");
    for file in ["pid", "child"] {
        gone(&errand.path().join(file)).await;
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_command_that_waits() {
    let text =
        "call(\"ask_master\", name=\"q\", question=\"May I?\")\nanswer = result()[\"output\"]\nwrite({\"output\": answer})";
    for (effect, expected) in [("at_most_once", "unknown_outcome unknown_outcome"), ("keyed", "success")] {
        let errand = Errand::python(text).config(json!({"effect": effect}));
        let engine = engine(memory(), &running(json!({})));
        let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
        assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
        let stopped = tokio::time::timeout(MOST, handle.stop()).await.expect("a stop takes little time");
        assert!(matches!(stopped, RunOutcome::Stopped), "{}", name_of(&stopped));
        let again = engine.resume(handle.id()).await.unwrap();
        if effect == "keyed" {
            assert!(matches!(again.outcome_without_people().await, RunOutcome::WaitingForPerson));
            let question = again.open_questions().await.remove(0);
            again.answer(question.task, &Principal::person("ann"), json!("yes").into(), Vec::new()).await.unwrap();
        }
        let finished = finish(&engine, &again).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), expected, "{effect}");
        let answered = if effect == "keyed" { "success" } else { "cancelled cancelled" };
        assert_eq!(call_result(&finished.entries, "0/1.1:q"), answered, "{effect}");
    }
}
