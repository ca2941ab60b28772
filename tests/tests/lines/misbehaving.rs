//! Commands that break the protocol, write too much, read nothing or leave processes behind.

use std::time::Instant;

use baton_types::entry::Entry;
use serde_json::json;

use super::{Errand, MOST, gone};
use crate::support::{call_error, call_output, call_result};

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
