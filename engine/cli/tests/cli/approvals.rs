//! The question whether a call may begin: the person sees the tool's title, the input, and the change of a document.

use std::fs;

use serde_json::{Value, json};

use crate::screens::Screen;
use crate::support::{Folder, Ran};

const FOUR_EYES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/four-eyes");

/// Writes a job whose lead calls `tool` with `input` after a person's approval. `document` already exists, at `doc/NAME`.
fn approving(folder: &Folder, tool: &str, input: Value, name: &str, document: &str) {
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "load_to_context", "input": {"path": name}}]},
        {"calls": [{"tool": tool, "input": input}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]},
    ]}});
    folder.write(&format!("approving/documents/{name}"), document);
    folder.job("approving", &[], script, json!({"root": "lead", "documents": [{"path": name, "description": "d"}]}));
    let agent = json!({
        "agent_id": "lead", "description": "An agent for a test.", "model": "scripted", "system_prompt": "Do it.",
        "tools": ["load_to_context", {"tool": tool, "approval": "person"}, "handoff"],
    });
    folder.write("approving/agents/lead.json", agent.to_string());
}

/// Returns the open question in every view: the end of `run`, `answer` without an answer, `show`, and the question alone.
fn views(folder: &Folder, job: &str) -> Vec<(&'static str, String)> {
    let ran = folder.baton(&["run", job]).exits(3).stderr;
    let listed = folder.baton(&["answer", "@last", "Q1"]).exits(2).stderr;
    let shown = folder.baton(&["show", "@last"]).exits(0).stderr;
    let whole = folder.baton(&["show", "@last", "--question", "Q1"]).exits(0).stdout;
    vec![("run", ran), ("answer", listed), ("show", shown), ("show --question", whole)]
}

#[track_caller]
fn each_says(views: &[(&str, String)], lines: &[&str]) {
    for (view, said) in views {
        for line in lines {
            assert!(said.lines().any(|said| said.trim() == *line), "{line:?} is no line of {view}:\n{said}");
        }
    }
}

#[test]
fn a_person_who_approves_a_breadcrumb_reads_the_version_that_the_call_names() {
    let folder = Folder::new();
    let arguments = ["breadcrumb", "create", "--title", "Prices", "--context", r#"{"beans": 4}"#, "--output", "json"];
    let id = folder.baton(&arguments).exits(0).json()["id"].as_str().unwrap().to_owned();
    approving(&folder, "breadcrumb-approve", json!({"breadcrumb_id": id, "version": 1}), "a.md", "text");
    let lines = [format!("→ approves version 1 of the breadcrumb {id}:")];
    let lines: Vec<&str> =
        lines.iter().map(String::as_str).chain(["│ title: Prices", "│ context: {", "│   \"beans\": 4"]).collect();
    each_says(&views(&folder, "approving"), &lines);
    // Another version than the named one is not shown in its place.
    folder.baton(&["breadcrumb", "update", &id, "--title", "Other"]).exits(0);
    let late = folder.baton(&["show", "@last"]).exits(0);
    late.tells(&format!("approves nothing: the breadcrumb {id} has version 2 now, and the call names 1"));
}

#[test]
fn a_question_shows_the_title_the_input_and_the_new_document_in_every_view() {
    let folder = Folder::new();
    let views = views(&folder, FOUR_EYES);
    each_says(
        &views,
        &[
            "? publisher wants to call write_file: \"Write a document\" (Q1). It begins only once you approve it, as it is or with another input:",
            "path: published.md",
            "why_created: The notice, as visitors read it",
            "content: as shown below",
            "→ creates the document published.md: 3 lines",
            "+ # The museum is closed on 4 March",
            "+ All halls stay closed on Tuesday, 4 March. Tickets for that day are valid until the end of April.",
        ],
    );
    let call = |report: &Value| report["questions"][0]["call"].clone();
    let shown = folder.baton(&["show", "@last", "--output", "json"]).exits(0).json();
    assert_eq!((&call(&shown)["tool"], &call(&shown)["title"]), (&json!("write_file"), &json!("Write a document")));
    let change = &call(&shown)["change"];
    assert_eq!((&change["document"], &change["from"], &change["kind"]), (&json!("published.md"), &Value::Null, &json!("text")));
    assert!(change["diff"].as_str().unwrap().contains("+# The museum is closed on 4 March\n"), "{change}");
    let resumed = folder.baton(&["resume", "@last", "--output", "json"]).exits(3).json();
    assert_eq!(call(&resumed), call(&shown), "the end of a run reports the same");
    folder.baton(&["answer", "@last", "Q1", "yes", "--no-resume"]).exits(0);
    folder.baton(&["resume", "@last"]).exits(0);
    let done = folder.baton(&["show", "@last", "--output", "json"]).exits(0).json();
    assert_eq!(call(&done), Value::Null, "a call that was decided waits no more");
    folder.baton(&["show", "@last"]).exits(0).says("May I call write_file (Write a document)?");
    folder.baton(&["show", "@last", "--question", "q1"]).exits(0).says("Its input:").says("answered by ann");
    folder.baton(&["show", "@last", "--question", "Q2"]).exits(6).tells("Q1");
}

#[test]
fn a_change_of_a_document_is_shown_as_a_diff_and_the_rest_by_a_command() {
    let folder = Folder::new();
    let lines = |is_changed: bool| -> Vec<String> {
        let line = |number: u32| match number {
            7 if is_changed => "line seven".to_owned(),
            201.. if is_changed => format!("row {number}"),
            _ => format!("line {number}"),
        };
        (1..=300).map(line).collect()
    };
    let (before, after) = (lines(false).join("\n") + "\n", lines(true).join("\n") + "\n");
    approving(&folder, "write_file", json!({"path": "a.md", "content": after}), "a.md", &before);
    let views = views(&folder, "approving");
    each_says(&views, &["→ changes a.md v1: 101 lines removed, 101 added", "@@ -4,7 +4,7 @@", "- line 7", "+ line seven"]);
    let run = folder.last_run();
    for (view, said) in &views {
        let is_whole = *view == "show --question";
        assert_eq!(said.contains("+ row 300"), is_whole, "{view}: {said}");
        assert!(!said.contains("line 100\n"), "{view} shows what does not change: {said}");
        let rest = format!("… 153 more lines; show all: baton show {run} --question Q1");
        assert_eq!(said.contains(&rest), !is_whole, "{view}: {said}");
    }
}

#[test]
fn an_edited_block_is_shown_as_the_diff_of_its_document() {
    let folder = Folder::new();
    let input = json!({"path": "sales.csv", "operation": "update", "block_id": "2", "new_data": {"values": {"units": 4}}});
    approving(&folder, "edit_file_block", input, "sales.csv", "region,units\nNorth,3\nSouth,1\n");
    let views = views(&folder, "approving");
    each_says(
        &views,
        &[
            "? lead wants to call edit_file_block: \"Change one block of a document\" (Q1). It begins only once you approve it, as it is or with another input:",
            "operation: update",
            "│     \"units\": 4",
            "→ changes sales.csv v1: 1 line removed, 1 added",
            "- South,1",
            "+ South,4",
        ],
    );
}

#[test]
fn what_cannot_be_compared_is_told_by_its_size() {
    let folder = Folder::new();
    let input = json!({"path": "dot.gif", "content": "R0lGODlhAQABAAAAACw=", "encoding": "base64"});
    approving(&folder, "write_file", input, "dot.gif", "old");
    each_says(
        &views(&folder, "approving"),
        &["→ writes 14 B of image/gif over dot.gif v1, 3 B of text/plain: not text", "content: as shown below"],
    );
    let folder = Folder::new();
    approving(&folder, "write_file", json!({"path": "a.md", "content": "same\n"}), "a.md", "same\n");
    each_says(&views(&folder, "approving"), &["→ keeps a.md v1 unchanged", "content: as shown below"]);
    let folder = Folder::new();
    approving(
        &folder,
        "write_file",
        json!({"path": "a.md", "content": format!("{}\n", "x".repeat(1023)).repeat(2 << 10)}),
        "a.md",
        "x\n",
    );
    let shown = "→ writes 2.1 MB of text/markdown over a.md v1, 2 B of text/markdown: too long to be compared line by line";
    each_says(&views(&folder, "approving"), &[shown]);
    let folder = Folder::new();
    let input = json!({"path": "a.csv", "operation": "delete", "block_id": "7"});
    approving(&folder, "edit_file_block", input, "a.csv", "a,b\n1,2\n");
    let views_of_edit = views(&folder, "approving");
    assert!(
        views_of_edit.iter().all(|(_, said)| said.contains("→ would change nothing: a.csv was not changed: ")),
        "{views_of_edit:?}"
    );
    let folder = Folder::new();
    let input = json!({"kind": "pie", "title": "t", "path": "a.svg", "rows": [{"x": "a", "y": 1}]});
    approving(&folder, "draw_chart", input, "a.svg", "<svg/>");
    each_says(&views(&folder, "approving"), &["→ writes a.svg v1; its content is known once the call has run"]);
}

/// Returns the config of a command whose calls need a person's approval, with `title` and `changes`.
fn command(title: &str, changes: &Value) -> String {
    let tool = json!({
        "tool_id": "publish", "type": "function_tool", "title": title, "description": "Publishes.", "effect": "pure",
        "input_schema": {"type": "object", "properties": {"where": {"type": "string"}, "text": {"type": "string"}, "at": {"type": "integer"}}},
        "writes": true, "changes": changes, "exec": {"command": ["cat"]},
    });
    tool.to_string()
}

#[test]
fn of_a_block_that_a_command_changes_what_is_there_and_what_the_call_gives_are_shown() {
    let folder = Folder::new();
    approving(&folder, "publish", json!({"where": "a.md", "at": 1, "text": "New.\n\nText."}), "a.md", "# A\n\nOld.\n");
    folder.write("approving/tools/publish.json", command("Publish", &json!({"path": "where", "block": "at", "data": "text"})));
    let ran = folder.baton(&["run", "approving", "--trust"]).exits(3);
    let lines =
        ["text: as shown below", "→ changes block 1 of a.md v1, which is now:", "│ Old.", "→ the call's data for it:", "│ New."];
    each_says(&[("run", ran.stderr)], &lines);
}

#[test]
fn no_input_reads_as_a_line_of_the_change() {
    let folder = Folder::new();
    let input = json!({
        "where": "a.md", "text": "- kept\n+ old\n\\ no line break at the end\n@@ -1 +1 @@\n",
        "→ keeps a.md v1 unchanged": "x", "- old": "", "+ forged": "x\ny", "changes a.md v1": "1 line removed, 1 added", "│": "",
    });
    approving(&folder, "publish", input, "a.md", "old\n");
    let title = "Publish (Q1). It begins only once you approve \u{202e}this:";
    folder.write("approving/tools/publish.json", command(title, &json!({"path": "where", "content": "text"})));
    let ran = folder.baton(&["run", "approving", "--trust"]).exits(3);
    let question = ran.stderr.lines().skip_while(|line| !line.starts_with("? lead wants"));
    let lines: Vec<&str> = question.filter_map(|line| line.strip_prefix("    ")).collect();
    let change: Vec<&str> = lines.iter().copied().filter(|line| line.starts_with(['→', '+', '-', '@', '\\'])).collect();
    let expected = [
        "→ changes a.md v1: 1 line removed, 4 added",
        "@@ -1 +1,4 @@",
        "- old",
        "+ - kept",
        "+ + old",
        "+ \\ no line break at the end",
        "+ @@ -1 +1 @@",
    ];
    assert_eq!(change, expected, "{}", ran.stderr);
    assert!(lines.contains(&"\"- old\": ") || lines.contains(&"\"- old\":"), "{lines:?}");
    assert!(ran.stderr.contains("approve \\u{202e}this:"), "{}", ran.stderr);
}

#[test]
fn a_document_that_changed_since_or_cannot_be_read_is_no_reason_not_to_answer() {
    let folder = Folder::new();
    approving(&folder, "write_file", json!({"path": "a.md", "content": "new\n"}), "a.md", "old\n");
    folder.baton(&["run", "approving"]).exits(3);
    let run = folder.last_run();
    folder.write("other.md", "other\n");
    let asked = folder.baton(&["timeline", &run, "--type", "question_opened", "--output", "json"]).exits(0).json();
    let at = asked[0]["seq"].as_u64().unwrap().to_string();
    let forked = folder.baton(&["fork", &run, "--at", &at, "--edit", "a.md=other.md"]).exits(3).stderr;
    let lines = [
        "→ changes a.md v2: 1 line removed, 1 added",
        "- other",
        "+ new",
        "→ a.md has changed since this question was asked; it was v1 then",
    ];
    each_says(&[("fork", forked)], &lines);
    let change = folder.baton(&["show", "@last", "--output", "json"]).exits(0).json()["questions"][0]["call"]["change"].clone();
    assert_eq!((&change["from"]["version"], &change["asked_about"]), (&json!(2), &json!(1)), "{change}");
    let store = rusqlite::Connection::open(folder.path().join(".baton/baton.db")).unwrap();
    store.execute("DELETE FROM contents WHERE bytes = ?1", ["old\n".as_bytes()]).unwrap();
    drop(store);
    let shown = folder.baton(&["answer", &run, "Q1"]).exits(2).stderr;
    let fault = "→ changes a.md, whose current version cannot be read: the content of a.md v1 is missing";
    each_says(&[("answer", shown)], &[fault, "│ new", "[1] yes   [2] no"]);
    folder.baton(&["answer", &run, "Q1", "no", "--no-resume"]).exits(0);
    folder.baton(&["resume", &run]).exits(0);
}

#[test]
fn what_a_call_and_a_document_say_cannot_command_the_terminal_or_hide() {
    let folder = Folder::new();
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{200b}";
    let before = format!("{evil} was\nkept\r\n");
    let after = format!("{evil} is\n{}the end\nkept\n", "\u{1b}".repeat(200));
    let input = json!({"path": "a.md", "content": after, "why_created": evil});
    approving(&folder, "write_file", input, "a.md", &before);
    let commands =
        [&["run", "approving"][..], &["show", "@last"], &["show", "@last", "--question", "Q1"], &["answer", "@last", "Q1"]];
    for arguments in commands {
        // Colours are forced, because without them every sequence would be removed from the output.
        let ran = Ran::from(folder.command(arguments).env("CLICOLOR_FORCE", "1").output().unwrap());
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let plain: Vec<&str> =
            said.split("\u{1b}[").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')).collect();
        assert!(plain.iter().skip(1).all(|part| part.starts_with('m')), "{arguments:?} lets a sequence through: {said:?}");
        let plain: String = plain.concat();
        assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{200b}', '\r']), "{arguments:?}: {said:?}");
        assert!(plain.contains("\\u{1b}[2J") && plain.contains(" was") && plain.contains("kept\\r"), "{arguments:?}: {said}");
        assert!(said.contains("the end"), "{said}");
        let widest = plain.lines().filter(|line| line.contains("\\u{1b}\\u{1b}")).map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= 160, "the end of a line is pushed out of the window: {said}");
    }
    let json = folder.baton(&["show", "@last", "--output", "json"]).exits(0);
    assert!(!json.stdout.contains(['\u{1b}', '\u{202e}']), "{}", json.stdout);
    assert!(json.json()["questions"][0]["call"]["change"]["diff"].as_str().unwrap().contains(evil));
}

#[test]
fn a_person_approves_with_another_input() {
    let folder = Folder::new();
    let input = json!({"path": "notes.md", "content": "too much", "why_created": "Notes"});
    approving(&folder, "write_file", input, "known.md", "known");
    folder.baton(&["run", "approving"]).exits(3);
    let answer = |more: &[&str]| folder.baton(&[&["answer", "@last", "Q1"], more].concat());
    answer(&["no", "--input", "{}"]).exits(2).tells("so the answer must be yes");
    answer(&[r#"{"approved": false, "input": {}}"#]).exits(1).tells("\"input\" approves the call, so \"approved\" must be true");
    answer(&[r#"{"approved": true, "class": []}"#]).exits(2).tells("/class");
    answer(&[r#"{"approved": true, "foo": 1}"#]).exits(2).tells("foo");
    answer(&["--input", "{"]).exits(2).tells("--input is not JSON");
    answer(&["--input", r#"{"path": 7}"#]).exits(1).tells("/input");
    folder.write("input.json", r#"{"path": "notes.md", "content": "enough", "why_created": "Notes"}"#);
    answer(&["yes", "--input", "@input.json"]).exits(0);
    folder.baton(&["doc", "cat", "@last", "notes.md"]).exits(0).says("enough");
    folder.baton(&["timeline", "@last"]).exits(0).says("write_file").says("approved with {").says("enough");
}

#[test]
fn a_person_approves_later_calls_as_well() {
    let folder = Folder::new();
    let write = |path: &str| json!({"calls": [{"tool": "write_file", "input": {"path": path, "content": "text", "why_created": "Notes"}}]});
    approving(&folder, "write_file", json!({}), "known.md", "known");
    let handoff = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    let turns = json!({"agents": {"lead": {"turns": [write("drafts/a.md"), write("drafts/b.md"), write("final.md"), handoff]}}});
    folder.write("approving/the.script.json", turns.to_string());
    folder.baton(&["run", "approving"]).exits(3);
    let answer = |more: &[&str]| folder.baton(&[&["answer", "@last"], more].concat());
    answer(&["Q1", "--also", "path"]).exits(2).tells("cannot be read as a condition");
    answer(&["Q1", "--also", "/path=final*"]).exits(1).tells("the class must match this call");
    answer(&["Q1", "yes", "--also", "/path=drafts/*", "--also", "/content=text"]).exits(3).tells("(Q2)");
    folder
        .baton(&["timeline", "@last"])
        .exits(0)
        .says("also later calls where /path begins with")
        .says("approved with the class of call 0/1.1");
    answer(&["Q2", "no"]).exits(0);
    folder.baton(&["doc", "cat", "@last", "drafts/b.md"]).exits(0).says("text");
}

#[test]
fn a_terminal_asks_with_the_title_and_the_change() {
    let folder = Folder::new();
    approving(&folder, "write_file", json!({"path": "a.md", "content": "new\n"}), "a.md", "old\n");
    let mut screen = Screen::open(&folder, &["run", "approving"]);
    screen.shows("Ctrl-C stops");
    for words in ["write_file: \"Write a document\" (Q1)", "→ changes a.md v1: 1 line removed, 1 added", "- old", "+ new"] {
        screen.shows(words);
    }
    screen.types("yes\r");
    let (exit, drawn) = screen.ends();
    assert_eq!(exit, Some(0), "{drawn}");
    folder.baton(&["doc", "cat", "@last", "a.md"]).exits(0).says("new");
}

#[test]
fn an_approval_of_a_command_holds_for_the_script_that_the_run_knows() {
    let folder = Folder::new();
    let script = |word: &str| format!("echo {word} >> '{}'\necho '{{}}'\n", folder.path().join("ran").display());
    let ran = || fs::read_to_string(folder.path().join("ran")).unwrap_or_default();
    approving(&folder, "publish", json!({"text": "a"}), "a.md", "old\n");
    let tool = json!({
        "tool_id": "publish", "type": "function_tool", "description": "Publishes.", "effect": "pure",
        "input_schema": {"type": "object"}, "exec": {"command": ["sh", "publish.sh"]},
    });
    folder.write("approving/tools/publish.json", tool.to_string());
    // The script changes between the question and the call.
    folder.write("approving/publish.sh", script("first"));
    let mut screen = Screen::open(&folder, &["run", "approving", "--trust"]);
    screen.shows("(Q1)");
    folder.write("approving/publish.sh", script("second"));
    screen.types("yes\r");
    screen.ends();
    let run = folder.last_run();
    assert_eq!(ran(), "", "neither what was approved nor what was not has run");
    folder.baton(&["timeline", &run]).exits(0).says("what was approved is not what would run: the file publish.sh");
    // The script changes between the question and the next process of the run.
    folder.baton(&["run", "approving", "--trust"]).exits(3);
    let run = folder.last_run();
    folder.write("approving/publish.sh", script("unseen"));
    folder.baton(&["answer", &run, "Q1", "yes", "--no-resume"]).exits(0);
    folder.baton(&["resume", &run, "--trust"]).exits(2).tells("publish.sh").tells("has changed since").tells("--migrate");
    assert_eq!(ran(), "", "nothing has run");
    // A migration adopts the changed script. The question is about another call then, and is asked again.
    folder.baton(&["run", "approving", "--trust"]).exits(3);
    let run = folder.last_run();
    folder.write("approving/publish.sh", script("third"));
    folder.baton(&["resume", &run, "--migrate", "--yes", "--trust"]).exits(3).tells("publish.sh changed").tells("(Q2)");
    folder.baton(&["answer", &run, "Q1", "yes", "--no-resume"]).exits(1);
    folder.baton(&["answer", &run, "Q2", "yes", "--no-resume"]).exits(0);
    folder.baton(&["resume", &run]).exits(0);
    assert_eq!(ran(), "third\n");
    folder.baton(&["verify", &run]).exits(0);
}
