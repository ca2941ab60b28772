//! Texts that command a terminal, in every field that a sent job, its models and tools, its documents, a store or a file's name
//! can set; then every command in every mode on a pseudo-terminal. What reaches the terminal may hold the program's own
//! sequences only: styles, and the movements of the live tree.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{Ran, Scene, Size, Tally, Terminal};

/// Title, clipboard, a cleared screen, an erased line, C1 sequences in both encodings, a style, direction, what is not seen, and a
/// line of its own.
const PAYLOAD: &str = "a\u{1b}]0;owned\u{7}\u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[2J\u{1b}[3J\u{1b}c\r\u{1b}[2K\u{9b}2J\u{9d}0;owned\u{9c}\u{90}q\u{9c}\
                       \u{1b}[35mstyled\u{8}\u{7f}\u{202e}turned\u{2066}\u{200f}\u{61c}\u{200b}\u{2060}\u{feff}\u{e0041}\u{85}\u{2028}\nFORGED";

/// Sequences that the program and its argument parser send: styles, and what the live tree moves and clears.
const OWN: &[&str] = &[
    "[0m", "[1m", "[2m", "[4m", "[31m", "[32m", "[33m", "[36m", "[1;31m", "[J", "[1G", "[?7l", "[?7h", "[?25l", "[?25h",
    "[?2026h", "[?2026l",
];

/// The forms in which a command prints.
const MODES: &[&[&str]] = &[&[], &["--plain"], &["--output", "json"], &["--output", "ndjson"]];

/// A command on a terminal.
struct Try<'a> {
    arguments: Vec<&'a str>,
    /// Keys to press once these words are drawn.
    keys: Option<(&'a str, &'a str)>,
    /// Whether each of its lines begins with the program's own words, so that no text may begin one.
    has_own_lines: bool,
}

/// Tries every command.
pub(crate) fn attack(size: Size) -> anyhow::Result<Tally> {
    let scene = Scene::new()?;
    let folder = format!("sent-{}", PAYLOAD.replace('/', "-"));
    prepare(&scene, &folder)?;
    let document = "notes.md";
    let tries = [
        block(&["run", "speaking"]),
        answered(&["run", "asking"], "Ctrl-C stops", "1\r"),
        answered(&["run", "asking"], "Ctrl-C stops", "nothing of that\r\u{3}"),
        answered(&["run", "untrusted"], "y/N", "n\r"),
        block(&["run", "failing", "--trust"]),
        block(&["resume", "@last"]),
        lines(&["ps", "--all"]),
        block(&["ps", "--all", "--store", "damaged.db"]),
        block(&["verify", "--store", "damaged.db"]),
        block(&["show", "SPEAKING"]),
        block(&["show", "SPEAKING", "--task", "0"]),
        block(&["show", "SPEAKING", "--task", "0", "--messages"]),
        block(&["show", "WAITING"]),
        lines(&["timeline", "SPEAKING"]),
        lines(&["timeline", "SPEAKING", "--task", "0"]),
        lines(&["timeline", "WAITING"]),
        lines(&["timeline", "FAILED"]),
        block(&["show", "FAILED"]),
        lines(&["graph", "SPEAKING"]),
        lines(&["graph", "SPEAKING", "--format", "dot"]),
        lines(&["graph", "speaking"]),
        lines(&["doc", "ls", "SPEAKING", "--versions"]),
        block(&["doc", "cat", "SPEAKING", document]),
        block(&["doc", "diff", "SPEAKING", document]),
        block(&["answer", "WAITING", "Q1"]),
        block(&["show", "APPROVING"]),
        block(&["show", "APPROVING", "--question", "Q1"]),
        block(&["answer", "APPROVING", "Q1"]),
        answered(&["run", "approving", "--trust"], "Ctrl-C stops", "\u{3}"),
        block(&["answer", "WAITING", "Q1", PAYLOAD, "--no-resume"]),
        lines(&["diff", "SPEAKING", "WAITING"]),
        block(&["fork", "SPEAKING"]),
        block(&["replay", "SPEAKING"]),
        block(&["export", "SPEAKING", "--script"]),
        block(&["verify"]),
        block(&["verify", "SPEAKING"]),
        block(&["steer", "WAITING", PAYLOAD]),
        block(&["cancel", "WAITING", "--reason", PAYLOAD]),
        block(&["gc", "--keep", "0", "--dry-run"]),
        block(&["validate", "faulty"]),
        block(&["validate", &folder]),
        block(&["validate", "speaking"]),
        block(&["run", "faulty"]),
        block(&["run", &folder]),
        block(&["doctor", "--offline", "speaking", "failing", "faulty"]),
        lines(&["tool", "ls", "--job", "failing"]),
        block(&["tool", "show", "broken", "--job", "failing"]),
        block(&["tool", "schema", "broken", "--job", "failing"]),
        block(&["tool", "call", "broken", "--job", "failing", "--help"]),
        block(&["tool", "call", "broken", "--job", "failing", "--trust", "--text", PAYLOAD]),
        block(&["tool", "call", "broken", "--job", "failing", "--input", "{\"owned\\u001b[2J\": 1}"]),
        block(&["tool", "test", "broken", "--job", "failing", "--trust"]),
        block(&["show", PAYLOAD]),
        block(&["run", PAYLOAD]),
        block(&[PAYLOAD]),
        block(&["ps", "--output", PAYLOAD]),
        block(&["run", "speaking", "--input", PAYLOAD]),
        block(&["doc", "cat", "SPEAKING", PAYLOAD]),
        block(&["tool", "show", PAYLOAD]),
    ];
    let named = [("SPEAKING", "speaking"), ("WAITING", "asking"), ("APPROVING", "approving"), ("FAILED", "failing")];
    let runs = named.map(|(name, job)| newest(&scene, job).map(|run| (name, run)));
    let runs: Vec<(&str, String)> = runs.into_iter().collect::<Result<_, _>>()?;
    write_damaged_store(&scene)?;
    let (mut tally, mut carried) = (Tally::default(), 0);
    for (number, attempt) in tries.iter().enumerate() {
        let modes = match (size, number % 3) {
            (Size::Full, _) => MODES,
            (Size::Everyday, 2) => &MODES[2..3],
            (Size::Everyday, _) => &MODES[..1],
        };
        for mode in modes {
            let of_run = |argument: &&str| runs.iter().find(|(name, _)| name == argument).map(|(_, run)| run.as_str());
            let arguments: Vec<&str> = attempt.arguments.iter().map(|argument| of_run(argument).unwrap_or(argument)).collect();
            let arguments = [&arguments, *mode].concat();
            let ran = on_terminal(&scene, &arguments, attempt.keys)?;
            carried += usize::from(String::from_utf8_lossy(&ran.stdout).contains("owned"));
            let found = ran.crash().or_else(|| obeyed(&ran.stdout, attempt.has_own_lines && mode.len() < 2));
            tally.count(found.map(|found| format!("{arguments:?}: {found}")));
        }
    }
    // A text that never arrives proves nothing.
    ensure!(carried * 2 > tally.tried, "only {carried} of {} commands printed the hostile text", tally.tried);
    Ok(tally)
}

fn block<'a>(arguments: &[&'a str]) -> Try<'a> {
    Try { arguments: arguments.to_vec(), keys: None, has_own_lines: false }
}

fn lines<'a>(arguments: &[&'a str]) -> Try<'a> {
    Try { has_own_lines: true, ..block(arguments) }
}

fn answered<'a>(arguments: &[&'a str], once: &'a str, keys: &'a str) -> Try<'a> {
    Try { keys: Some((once, keys)), ..block(arguments) }
}

fn on_terminal(scene: &Scene, arguments: &[&str], keys: Option<(&str, &str)>) -> anyhow::Result<Ran> {
    let mut terminal = Terminal::open(scene.command(arguments)?)?;
    if let Some((once, keys)) = keys {
        terminal.wait_for(once)?;
        terminal.press(keys)?;
    }
    terminal.finish()
}

/// Returns the first sequence in `bytes` that a terminal would obey, or that is invisible to a reader, and that is not
/// the program's own.
fn obeyed(bytes: &[u8], has_own_lines: bool) -> Option<String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Some("bytes that are not UTF-8".to_owned()) };
    let around = |at: usize| {
        let start = text[..at].char_indices().rev().nth(30).map_or(0, |(start, _)| start);
        let end = text[at..].char_indices().nth(30).map_or(text.len(), |(length, _)| at + length);
        text[start..end].escape_debug().to_string()
    };
    for (at, character) in text.char_indices() {
        let rest = &text[at + character.len_utf8()..];
        let is_known = match character {
            '\n' | '\t' => true,
            '\r' => rest.trim_start_matches('\r').starts_with('\n'),
            '\u{1b}' => is_own(rest),
            hidden => !hidden.is_control() && !is_invisible(hidden),
        };
        if !is_known {
            return Some(format!("{character:?} in \"{}\"", around(at)));
        }
    }
    let forged = text.split('\n').find(|line| line.trim_start().starts_with("FORGED")).filter(|_| has_own_lines);
    forged.map(|line| format!("a line of its own: {line:?}"))
}

/// Whether an escape character followed by `rest` begins a sequence of the program.
fn is_own(rest: &str) -> bool {
    let is_upward = |rest: &str| {
        let digits = rest.strip_prefix('[').map(|rest| rest.trim_start_matches(|digit: char| digit.is_ascii_digit()));
        digits.is_some_and(|rest| rest.starts_with('A'))
    };
    OWN.iter().any(|own| rest.starts_with(own)) || is_upward(rest)
}

fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Returns the id of the newest run of `job`.
fn newest(scene: &Scene, job: &str) -> anyhow::Result<String> {
    let listed = scene.run(&["ps", "--all", "--output", "json"])?;
    let listed: Value = serde_json::from_slice(&listed.stdout)?;
    let run = listed.as_array().into_iter().flatten().find(|run| run["job"] == job);
    Ok(run.and_then(|run| run["run"].as_str()).with_context(|| format!("{job} has no run in {listed}"))?.to_owned())
}

/// Writes the jobs and runs each once, so that every field is in the store.
fn prepare(scene: &Scene, folder: &str) -> anyhow::Result<()> {
    let described = json!({"description": PAYLOAD, "request": PAYLOAD});
    let write = |text: &str| json!({"tool": "write_file", "input": {"path": "notes.md", "content": format!("# {PAYLOAD}\n\n{text} {PAYLOAD}\n"), "why_created": PAYLOAD}});
    let script = json!({
        "lead": {"turns": [
            {"text": PAYLOAD, "calls": [
                {"tool": format!("x{PAYLOAD}"), "input": {"a": PAYLOAD}},
                {"tool": "echo", "input": {"message": PAYLOAD}},
                {"tool": "echo", "input": {PAYLOAD: PAYLOAD}},
                {"tool": "route_to_worker", "input": {"request": PAYLOAD}},
            ]},
            {"calls": [write("one")]},
            {"calls": [write("two")]},
            {"calls": [{"tool": "handoff", "input": {"result": {PAYLOAD: PAYLOAD, "list": [PAYLOAD]}, "documents": ["notes.md"]}}]},
        ]},
        "worker": {"turns": [{"calls": [{"tool": "handoff", "input": {"result": {PAYLOAD: PAYLOAD}}}]}]},
    });
    let agents: &[(&str, &[&str])] = &[("lead", &["echo", "write_file", "route_to_worker", "handoff"]), ("worker", &["handoff"])];
    scene.write_job("speaking", agents, script.clone(), described.clone())?;
    scene.write_job(folder, agents, script, described.clone())?;

    let script = json!({"lead": {"turns": [
        {"calls": [write("one")]},
        {"text": PAYLOAD, "calls": [{"tool": "ask_master", "as": "choice", "input": {
            "question": PAYLOAD, "documents": ["notes.md"], "answer_schema": {"type": "string", "enum": [PAYLOAD, "other"]},
        }}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.choice }}"}}}]},
    ]}});
    scene.write_job("asking", &[("lead", &["ask_master", "write_file", "handoff"])], script, described.clone())?;

    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "broken", "input": {"text": PAYLOAD}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": PAYLOAD}}}]},
    ]}});
    scene.write_job("failing", &[("lead", &["broken", "handoff"])], script, described.clone())?;
    let tool = json!({
        "tool_id": "broken", "type": "function_tool", "description": PAYLOAD, "effect": "idempotent",
        "parameters": {"text": {"type": "string", "description": PAYLOAD, "required": true}},
        "examples": [{"explanation": PAYLOAD, "input": {"text": PAYLOAD}, "output": {"said": PAYLOAD}}],
        "exec": {"command": ["sh", "-c", "printf '%s' \"$1\" >&2; exit 3", "sh", PAYLOAD]},
    });
    scene.write("failing/tools/broken.json", tool.to_string())?;
    let script = json!({"lead": {"turns": [{"text": "never asked"}]}});
    scene.write_job("untrusted", &[("lead", &["broken"])], script, described)?;
    scene.write("untrusted/tools/broken.json", tool.to_string())?;

    // The question whether a call may begin: title, input, and the diff of a document.
    let script = json!({"lead": {"turns": [
        {"calls": [write("one")]},
        {"calls": [{"tool": "publish", "input": {"path": "notes.md", "content": format!("- {PAYLOAD}\n+ {PAYLOAD}\n"), PAYLOAD: PAYLOAD}}]},
    ]}});
    scene.write_job("approving", &[("lead", &["write_file", "publish", "handoff"])], script, json!({}))?;
    let tool = json!({
        "tool_id": "publish", "type": "function_tool", "title": "Publish \u{202e}turned\u{200b}\u{2060}owned", "description": PAYLOAD,
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
        "writes": true, "changes": {"path": "path", "content": "content"}, "approval": "person", "exec": {"command": ["cat"]},
    });
    scene.write("approving/tools/publish.json", tool.to_string())?;
    let mut titled = tool;
    titled["title"] = json!(PAYLOAD);
    titled["changes"] = json!({"path": PAYLOAD});
    scene.write("faulty/tools/publish.json", titled.to_string())?;

    scene.write_job(
        "faulty",
        &[("lead", &["handoff", &format!("y{PAYLOAD}")])],
        json!({}),
        json!({PAYLOAD: PAYLOAD, "root": PAYLOAD}),
    )?;
    scene.write(&format!("faulty/agents/{}.json", PAYLOAD.replace('/', "-")), "{")?;

    let first_runs: [(&[&str], i32); 4] = [
        (&["run", "speaking"], 0),
        (&["run", "asking", "--no-input"], 3),
        (&["run", "approving", "--no-input", "--trust"], 3),
        (&["run", "failing", "--trust"], 0),
    ];
    for (arguments, code) in first_runs {
        let ran = scene.run(arguments)?;
        ensure!(ran.code == Some(code), "{arguments:?} prepares nothing: {}", ran.text());
    }
    Ok(())
}

/// Copies the store and replaces a run's name in it by the text: the sender of a store controls its content.
fn write_damaged_store(scene: &Scene) -> anyhow::Result<()> {
    let script = "import sqlite3, sys\nstore, copy = sqlite3.connect('.baton/baton.db'), sqlite3.connect('damaged.db')\n\
                  store.backup(copy)\ncopy.execute('UPDATE runs SET id = ?1, job = ?1 WHERE job = \"asking\"', [sys.argv[1]])\n\
                  copy.commit()\n";
    let mut command = Command::new("python3");
    let status = command.args(["-c", script, PAYLOAD]).current_dir(scene.folder()).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "the store cannot be copied");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_found() {
        assert_eq!(obeyed("\u{1b}[1;31merror:\u{1b}[0m x\r\n\u{1b}[12A\u{1b}[J".as_bytes(), true), None);
        for hostile in
            ["\u{1b}]0;x\u{7}", "\u{1b}[2J", "\u{1b}[35m", "\r\u{1b}[2K", "a\rb", "\u{9b}2J", "\u{202e}", "\u{200b}", "\u{7f}"]
        {
            assert!(obeyed(hostile.as_bytes(), false).is_some(), "{hostile:?}");
        }
        assert!(obeyed(b"\x9b2J", false).is_some());
        assert!(obeyed(b"a\nFORGED", true).is_some() && obeyed(b"a\nFORGED", false).is_none());
    }
}
