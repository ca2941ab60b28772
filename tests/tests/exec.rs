//! Commands as tools: what they see, what they may answer, and how they are got rid of.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_models::Model;
use baton_runtime::{Engine, EngineBuilder, RunError, RunOutcome, StartOptions};
use baton_store::MemoryStore;
use baton_types::entry::Entry;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::{Finished, TestJob, call_error, call_output, call_result, calls, finish, handoff, is_alive, model, name_of};

/// A job folder with one script, and additional fields of its tool's config.
struct Script {
    folder: tempfile::TempDir,
    command: Vec<String>,
    config: Value,
    documents: Vec<(&'static str, &'static str)>,
}

impl Script {
    fn new(program: &str, file: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        Self { folder, command: vec![program.to_owned(), file.to_owned()], config: json!({}), documents: Vec::new() }
    }

    fn python(text: &str) -> Self {
        Self::new("python3", "tool.py", &format!("import json, os, sys, time\n{text}"))
    }

    fn shell(text: &str) -> Self {
        Self::new("sh", "tool.sh", text)
    }

    fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    fn document(mut self, path: &'static str, content: &'static str) -> Self {
        self.documents.push((path, content));
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn job(&self, env: &[&str]) -> baton_runtime::LoadedJob {
        let mut config = json!({
            "exec": {"command": self.command, "env": env},
            "input_schema": {"type": "object"},
            "effect": "idempotent",
        });
        config.as_object_mut().unwrap().extend(self.config.as_object().unwrap().clone());
        let mut job = TestJob::new("solo", json!({})).agent("solo", &["command", "handoff"]);
        for (path, content) in &self.documents {
            job = job.document(path, content);
        }
        let mut job = job.tool_by_schema("command", config).load();
        job.folder = Some(self.folder.path().to_owned());
        job
    }

    /// Runs the command once with `input`.
    async fn call(&self, input: Value) -> Finished {
        self.call_with(input, &[]).await.0
    }

    async fn call_with(&self, input: Value, env: &[&str]) -> (Finished, Engine) {
        let engine = engine(input);
        let handle = engine.start(self.job(env), StartOptions::default()).await.unwrap();
        (finish(&engine, &handle).await, engine)
    }
}

/// Returns an engine whose agent calls the command once, in an environment of its own.
fn engine(input: Value) -> Engine {
    builder(input).build().unwrap()
}

fn builder(input: Value) -> EngineBuilder {
    let answers: Arc<dyn Model> = model(move |_, turn, _| match turn {
        1 => calls(&[("command", input.clone())]),
        _ => handoff("done", &[]),
    });
    let variables = |name: &str| match name {
        "PATH" => std::env::var("PATH").ok(),
        "GRANTED" => Some("a secret".to_owned()),
        "HIDDEN" => Some("another".to_owned()),
        "SERVICE_TOKEN" => Some(TOKEN.to_owned()),
        _ => None,
    };
    Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .model("m", answers)
        .variables(variables)
}

/// Waits until the process whose number is in `file` is gone.
fn wait_until_gone(file: &Path) {
    let pid = std::fs::read_to_string(file).unwrap();
    let began = Instant::now();
    while is_alive(pid.trim()) {
        assert!(began.elapsed() < Duration::from_secs(10), "process {pid} is still there");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_command_reads_json_and_writes_json() {
    let script = Script::python(
        "given = json.load(sys.stdin)\nprint(json.dumps({'sum': sum(given['numbers']), 'big': 9007199254740993}))",
    );
    let finished = script.call(json!({"numbers": [1, 2, 3]})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"sum": 6, "big": 9_007_199_254_740_993_u64}));
}

#[tokio::test]
async fn an_output_controls_the_turn_only_where_the_config_says_so() {
    let ends = json!({"output": {"n": 1, "__cg_control": {"after_execution": "terminate"}}});
    let by_envelope = json!({"output": {"n": 1}, "after_execution": "terminate"});
    let turns = |finished: &Finished| finished.entries.iter().filter(|at| matches!(at.entry, Entry::ModelAnswered(_))).count();
    let answering = |answer: &Value, config: Value| Script::shell(&format!("echo '{answer}'")).config(config);
    for (answer, controls, turns_made) in [(&ends, true, 1), (&by_envelope, true, 1), (&ends, false, 2)] {
        let finished = answering(answer, json!({"controls_flow": controls})).call(json!({})).await;
        assert_eq!(call_output(&finished.entries, "0/1.1")["n"], 1);
        assert_eq!(turns(&finished), turns_made, "{answer}, controls_flow: {controls}");
    }
    // An absent field decides nothing.
    let neither = json!({"output": {"n": 1, "__cg_control": {"after_execution": null}}});
    assert_eq!(turns(&answering(&neither, json!({"controls_flow": true})).call(json!({})).await), 2);
    let unknown = json!({"output": {"__cg_control": {"after_execution": "stop"}}});
    let odd = json!({"output": {"__cg_control": "terminate"}});
    for (answer, controls, reason) in [
        (&unknown, true, "is \"stop\"; expected \"suspend\" or \"terminate\""),
        (&odd, true, "expected an object with after_execution"),
        (&by_envelope, false, "its config lacks \"controls_flow\": true"),
    ] {
        let finished = answering(answer, json!({"controls_flow": controls})).call(json!({})).await;
        let error = call_error(&finished.entries, "0/1.1");
        assert!(error.contains(reason), "{answer}: {error}");
    }
}

#[tokio::test]
async fn a_panic_outside_the_code_of_a_call_stops_the_run_and_loses_nothing() {
    let script = Script::shell("echo 1");
    let store = Arc::new(MemoryStore::default());
    let panics = |name: &str| -> Option<String> { panic!("no variable {name} today") };
    let broken = builder(json!({})).store(store.clone()).variables(panics).build().unwrap();
    let handle = broken.start(script.job(&["GRANTED"]), StartOptions::default()).await.unwrap();
    let RunOutcome::Failed(RunError::Fault { message }) = handle.outcome().await else { panic!("the run does not continue") };
    assert!(message.contains("today"), "{message}");
    drop(broken);
    let engine = builder(json!({})).store(store).build().unwrap();
    let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(1));
}

#[tokio::test]
async fn a_command_sees_nothing_but_what_its_config_names() {
    // The environment as the shell was given it, before anything of its own.
    let text = r#"names=$(tr '\0' '\n' < /proc/$$/environ | sed 's/=.*//' | sort | tr '\n' ' ')
        echo "{\"names\": \"$names\", \"granted\": \"$GRANTED\", \"call\": \"$BATON_CALL_ID\", \"files\": \"$(ls -A)\"}""#;
    let (finished, _) = Script::shell(text).call_with(json!({}), &["GRANTED", "ABSENT"]).await;
    let output = call_output(&finished.entries, "0/1.1");
    assert_eq!(output["names"], "BATON_CALL_ID BATON_COMMAND_ID GRANTED PATH ");
    assert_eq!(output["granted"], "a secret");
    assert_eq!(output["call"], format!("{}/0/1.1", finished.run.started().unwrap().run));
    assert_eq!(output["files"], "");
}

/// A secret that a command is given.
const TOKEN: &str = "tok-canary/3b1f77";

#[tokio::test]
async fn a_secret_that_a_command_was_given_is_taken_out_of_what_it_brings_back() {
    let text = r"
import base64
token = os.environ['SERVICE_TOKEN']
spelt = [token, token.encode().hex(), base64.b64encode(b'me:' + token.encode()).decode(), os.environ['GRANTED']]
print(json.dumps({'output': {'spelt': spelt, token: 1}, 'documents': [
    {'path': 'out.md', 'content': 'It is ' + token + '.', 'description': 'about ' + token, 'tags': [token]},
    {'path': 'out.bin', 'content_base64': base64.b64encode(b'\xff\xfe' + token.encode()).decode()},
]}))";
    let script = Script::python(text).config(json!({"writes": true}));
    let (finished, engine) = script.call_with(json!({}), &["SERVICE_TOKEN", "GRANTED"]).await;
    let output = call_output(&finished.entries, "0/1.1");
    assert_eq!((&output["spelt"][0], &output["spelt"][1], &output["[key]"]), (&json!("[key]"), &json!("[key]"), &json!(1)));
    assert_eq!(output["spelt"][3], "a secret", "a variable whose name does not say that it holds a secret stays");
    let mut kept = finished.entries.iter().map(|recorded| serde_json::to_string(&recorded.entry).unwrap()).collect::<String>();
    for path in ["out.md", "out.bin"] {
        let path = baton_types::path::DocumentPath::parse(path).unwrap();
        let document = finished.run.documents().get(&path).unwrap().current().clone();
        let content = engine.content(document.content.hash).await.unwrap().unwrap();
        assert_eq!(document.content.size_bytes, content.len() as u64);
        kept += &String::from_utf8_lossy(&content);
    }
    assert!(kept.contains("It is [key].") && kept.contains("about [key]"), "{kept}");
    for spelling in ["canary", "746f6b2d63616e617279", "b2stY2FuYXJ5"] {
        assert!(!kept.contains(spelling), "{spelling} is in {kept}");
    }

    let failing = Script::python("print(os.environ['SERVICE_TOKEN'], file=sys.stderr)\nsys.exit(3)");
    let (finished, _) = failing.call_with(json!({}), &["SERVICE_TOKEN"]).await;
    let told = call_error(&finished.entries, "0/1.1");
    assert!(!told.contains("canary"), "{told}");
}

#[tokio::test]
async fn a_command_finds_the_documents_that_its_input_names_and_returns_new_ones() {
    let text = r"
given = json.load(sys.stdin)
names = sorted(os.path.join(folder, name)[2:] for folder, _, names in os.walk('.') for name in names)
rows = open('data/sales.csv').read()
print(json.dumps({'output': {'names': names, 'bytes': len(rows)}, 'documents': [
    {'path': 'out/report.md', 'content': '# Report', 'description': 'What came out.'},
    {'path': 'pixel.bin', 'content_base64': 'AAEC/w=='},
]}))";
    let script = Script::python(text)
        .config(json!({"writes": true}))
        .document("data/sales.csv", "a,b\n1,2\n")
        .document("notes.md", "Notes.")
        .document("unnamed.md", "Not for the command.");
    let (finished, engine) = script.call_with(json!({"documents": ["data/sales.csv"], "path": "notes.md"}), &[]).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"names": ["data/sales.csv", "notes.md"], "bytes": 8}));
    let document = |path: &str| {
        let path = baton_types::path::DocumentPath::parse(path).unwrap();
        Arc::clone(finished.run.documents().get(&path).unwrap().current())
    };
    let report = document("out/report.md");
    assert_eq!((report.content.mime_type.as_str(), report.description.as_str()), ("text/markdown", "What came out."));
    assert_eq!(report.call.as_ref().unwrap().as_str(), "0/1.1");
    let bytes = engine.content(document("pixel.bin").content.hash).await.unwrap().unwrap();
    assert_eq!(*bytes, [0, 1, 2, 255]);
}

#[tokio::test]
async fn documents_alone_are_written_where_the_tool_may_write_and_are_its_output_elsewhere() {
    let answer = r#"{"documents": [{"path": "a.md", "content": "A"}]}"#;
    for writes in [true, false] {
        let script = Script::shell(&format!("echo '{answer}'")).config(json!({"writes": writes}));
        let finished = script.call(json!({})).await;
        let expected = if writes { json!({}) } else { serde_json::from_str(answer).unwrap() };
        assert_eq!(call_output(&finished.entries, "0/1.1"), expected);
        assert_eq!(finished.run.documents().len(), usize::from(writes));
    }
}

#[tokio::test]
async fn a_program_of_the_job_folder_is_found_there() {
    let mut script = Script::shell("#!/bin/sh\necho '{\"here\": true}'\n");
    std::fs::set_permissions(script.path().join("tool.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    script.command = vec!["tool.sh".to_owned()];
    assert_eq!(call_output(&script.call(json!({})).await.entries, "0/1.1"), json!({"here": true}));
}

#[tokio::test]
async fn what_a_command_gets_wrong_becomes_an_error_that_says_so() {
    let cases = [
        ("exit 0", "the command wrote nothing to stdout, where one JSON value is expected"),
        ("echo oops >&2; exit 3", "the command failed: exit status: 3"),
        ("kill -9 $$", "the command failed: signal: 9 (SIGKILL)"),
        ("echo '{\"a\": 1'", "the command's answer cannot be read: EOF while parsing"),
        ("echo '{} {}'", "the command's answer cannot be read: trailing characters"),
        // Readers would make null of the whole answer, so that its other keys are ignored, or keep the last of equal keys.
        (
            "echo '{\"output\": 1e400, \"documents\": [{}]}'",
            "the command's answer cannot be read: the number 1e400 is out of range",
        ),
        (r#"printf '%s' '["\ud800"]'"#, "the command's answer cannot be read: half a surrogate pair"),
        (
            "printf '[%.0s' $(seq 128); printf ']%.0s' $(seq 128)",
            "the command's answer cannot be read: objects and arrays are nested",
        ),
        (
            "echo '{\"accepted\": false, \"accepted\": true}'",
            "the command's answer cannot be read: the key \"accepted\" occurs twice in an object at line 1 column 21",
        ),
        ("echo '{\"output\": 1, \"document\": []}'", "the command's answer cannot be read: unknown field `document`"),
        ("echo '{\"output\": 1, \"documents\": [{\"path\": \"a\"}]}'", "the command's document \"a\" needs exactly one of"),
        (
            "echo '{\"output\": 1, \"documents\": [{\"path\": \"a\", \"content_base64\": \"?\"}]}'",
            "the command's document \"a\" holds no base64",
        ),
        (
            "echo '{\"output\": 1, \"documents\": [{\"path\": \"../a\", \"content\": \"\"}]}'",
            "\"../a\" cannot be a document path",
        ),
        (
            "echo '{\"output\": 1, \"documents\": [{\"path\": \"/etc/a\", \"content\": \"\"}]}'",
            "\"/etc/a\" cannot be a document path",
        ),
        ("printf '\\377'", "the command wrote something to stdout that is not UTF-8"),
    ];
    for (text, expected) in cases {
        let finished = Script::shell(text).config(json!({"writes": true})).call(json!({})).await;
        let error = call_error(&finished.entries, "0/1.1");
        assert!(error.starts_with(expected), "{text}: {error}");
        assert!(finished.run.documents().is_empty(), "{text}");
    }
    let refused =
        Script::shell("echo '{\"output\": 1, \"documents\": [{\"path\": \"a\", \"content\": \"\"}]}'").call(json!({})).await;
    assert_eq!(call_error(&refused.entries, "0/1.1"), "this tool cannot write documents: its config lacks \"writes\": true");
    let mut missing = Script::shell("");
    missing.command = vec!["no-such-program-anywhere".to_owned()];
    let error = call_error(&missing.call(json!({})).await.entries, "0/1.1");
    assert!(error.starts_with("cannot start \"no-such-program-anywhere\""), "{error}");
}

#[tokio::test]
async fn the_end_of_stderr_tells_why_a_command_failed() {
    let script = Script::python("sys.stderr.write('x' * 100000 + 'the cause\\n'); sys.exit(7)");
    let finished = script.call(json!({})).await;
    let detail = finished.entries.iter().find_map(|recorded| match &recorded.entry {
        baton_types::entry::Entry::CallFinished(entry) if entry.call.as_str() == "0/1.1" => entry.result.error.clone(),
        _ => None,
    });
    let detail = detail.unwrap().detail.value();
    assert_eq!(detail["exit_code"], 7);
    let stderr = detail["stderr"].as_str().unwrap();
    assert!(stderr.ends_with("the cause") && stderr.len() <= 2_000, "{} bytes", stderr.len());
}

#[tokio::test]
async fn a_document_that_the_input_names_must_exist() {
    let finished = Script::shell("echo 1").call(json!({"documents": ["missing.csv"]})).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "failed unknown_document");
}

#[tokio::test]
async fn a_command_that_never_reads_its_input_still_ends() {
    let finished = Script::shell("echo '{\"done\": true}'").call(json!({"text": "x".repeat(900_000)})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"done": true}));
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_its_children() {
    let script = Script::shell("sleep 600 & echo $! > \"$1\"; sleep 600").config(json!({"timeout_seconds": 1}));
    let pid = script.path().join("pid");
    let mut script = script;
    script.command.push(pid.to_string_lossy().into_owned());
    let finished = script.call(json!({})).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "timeout timed_out");
    wait_until_gone(&pid);
}

#[tokio::test]
async fn a_command_that_falls_silent_is_killed() {
    let silent = Script::shell("echo begun; exec sleep 600").config(json!({"timeout_seconds": 500, "idle_seconds": 1}));
    let finished = silent.call(json!({})).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "timeout timed_out");
    assert_eq!(call_error(&finished.entries, "0/1.1"), "the call reported no progress for 1 s");
}

#[tokio::test]
async fn children_that_a_command_leaves_behind_are_killed_and_do_not_delay_its_answer() {
    // The child holds stdout open, so waiting for the end of the pipe alone would wait for the child.
    let mut script =
        Script::shell("sleep 600 & echo $! > \"$1\"; echo '{\"done\": true}'").config(json!({"timeout_seconds": 30}));
    let pid = script.path().join("pid");
    script.command.push(pid.to_string_lossy().into_owned());
    let began = Instant::now();
    let finished = script.call(json!({})).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"done": true}));
    assert!(began.elapsed() < Duration::from_secs(20));
    wait_until_gone(&pid);
}

#[tokio::test]
async fn a_command_that_floods_its_output_is_killed() {
    for (target, name) in [("stdout", "stdout"), ("stderr", "stderr")] {
        let script = Script::python(&format!("while True: sys.{target}.write('x' * 65536)"));
        let finished = script.call(json!({})).await;
        let error = call_error(&finished.entries, "0/1.1");
        assert_eq!(error, format!("the command wrote more than 64 MiB to {name}"));
    }
}

#[test]
fn stopping_kills_a_command_with_its_children() {
    let mut script = Script::shell("sleep 600 & echo $! > \"$1.tmp\"; mv \"$1.tmp\" \"$1\"; wait");
    let pid = script.path().join("pid");
    script.command.push(pid.to_string_lossy().into_owned());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let handle = engine(json!({})).start(script.job(&[]), StartOptions::default()).await.unwrap();
        let began = Instant::now();
        while !pid.exists() {
            assert!(began.elapsed() < Duration::from_secs(10), "the command did not start");
            tokio::task::yield_now().await;
        }
        assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    });
    runtime.shutdown_background();
    wait_until_gone(&pid);
}

#[tokio::test]
async fn cancelling_kills_a_command_with_its_children() {
    let mut script = Script::shell("sleep 600 & echo $! > \"$1.tmp\"; mv \"$1.tmp\" \"$1\"; wait");
    let pid = script.path().join("pid");
    script.command.push(pid.to_string_lossy().into_owned());
    let engine = engine(json!({}));
    let handle = engine.start(script.job(&[]), StartOptions::default()).await.unwrap();
    let began = Instant::now();
    while !pid.exists() {
        assert!(began.elapsed() < Duration::from_secs(10), "the command did not start");
        tokio::task::yield_now().await;
    }
    handle.cancel(crate::support::root(), "enough", &Principal::person("ann")).await.unwrap();
    let outcome = handle.outcome().await;
    assert!(matches!(outcome, RunOutcome::Ended { .. }), "{}", name_of(&outcome));
    tokio::task::spawn_blocking(move || wait_until_gone(&pid)).await.unwrap();
}

/// Cancels a call whose command executes `text`, once each of its processes has written its number to a pipe of
/// `pipes`. Checks that all of them are gone when the run is over. A command that is asked to end is given `grace`.
async fn cancelled_once_begun(text: &str, pipes: &[&str], grace: Duration) -> Script {
    let script = Script::shell(&format!("{HERE}{text}"));
    for pipe in pipes {
        mkfifo(&script.path().join(pipe));
    }
    let engine = builder(json!({})).command_grace(grace).build().unwrap();
    let handle = engine.start(script.job(&[]), StartOptions::default()).await.unwrap();
    let mut processes = Vec::new();
    for pipe in pipes {
        processes.push(tokio::fs::read_to_string(script.path().join(pipe)).await.unwrap());
    }
    handle.cancel("0".into(), "enough", &Principal::person("ann")).await.unwrap();
    assert!(matches!(handle.outcome().await, RunOutcome::Ended { .. }));
    for (process, pipe) in processes.iter().zip(pipes) {
        assert!(!is_alive(process.trim()), "{pipe}, process {process}, outlives the run");
    }
    script
}

fn mkfifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Sets a shell variable to the folder of the script, which runs in a fresh folder.
const HERE: &str = "here=$(dirname \"$0\")\n";

#[tokio::test]
async fn a_cancelled_command_may_clean_up_before_it_ends() {
    // A shell acts on a signal between two commands: the signal may come just before it begins to sleep, so it sleeps briefly.
    let text = "trap 'echo cleaned > \"$here/cleaned\"; exit 0' TERM\necho $$ > \"$here/began\"\nwhile :; do sleep 0.1; done";
    // It ends by itself, however long the machine takes for that.
    let script = cancelled_once_begun(text, &["began"], Duration::from_mins(10)).await;
    assert_eq!(std::fs::read_to_string(script.path().join("cleaned")).unwrap(), "cleaned\n");
}

#[tokio::test]
async fn a_cancelled_command_that_ignores_the_signal_is_gone_when_the_run_is() {
    let text = "trap '' TERM\necho $$ > \"$here/began\"\nwhile :; do sleep 600; done";
    cancelled_once_begun(text, &["began"], Duration::from_millis(100)).await;
}

/// Returns a shell command that starts a process in a session of its own. The process ignores the signal and writes
/// its number to the pipe `name`.
#[cfg(target_os = "linux")]
fn stray(name: &str) -> String {
    let script = format!("trap \"\" TERM; echo $$ > \"$0/{name}\"; while :; do sleep 600; done");
    format!("setsid sh -c '{script}' \"$here\" > /dev/null 2>&1 < /dev/null &")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn descendants_in_sessions_of_their_own_are_gone_too() {
    // One descends from the command; the caller of the other has ended.
    let text = format!("{}\n({})\necho $$ > \"$here/began\"\nwhile :; do sleep 600; done", stray("child"), stray("orphan"));
    cancelled_once_begun(&text, &["child", "orphan", "began"], Duration::from_millis(100)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_command_leaves_in_a_session_of_its_own_ends_with_its_call() {
    let script = Script::shell(&format!("{HERE}({})\nread go < \"$here/go\"\necho '{{\"ok\": true}}'", stray("orphan")));
    let (orphan, go) = (script.path().join("orphan"), script.path().join("go"));
    mkfifo(&orphan);
    mkfifo(&go);
    let let_go = async {
        let process = tokio::fs::read_to_string(&orphan).await.unwrap();
        tokio::fs::write(&go, "go\n").await.unwrap();
        process
    };
    let (finished, process) = tokio::join!(script.call(json!({})), let_go);
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"ok": true}));
    assert!(!is_alive(process.trim()), "process {process} outlives its call");
}
