//! Documents: listing, printing, comparing and exporting them.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::support::{Folder, Ran, wrapped};

#[test]
fn documents_are_listed_with_their_versions() {
    let folder = Folder::with_documents();
    folder.baton(&["doc", "ls", "@last"]).exits(0).says("out/page.md v2").says("source.csv v1").says("worker");
    let all = folder.baton(&["doc", "ls", "@last", "--versions", "--output", "json"]).exits(0).json();
    let names: Vec<String> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|document| format!("{}@{}", document["path"].as_str().unwrap(), document["version"]))
        .collect();
    assert_eq!(names, ["out/page.md@1", "out/page.md@2", "source.csv@1"]);
    assert_eq!(folder.baton(&["doc", "ls", "--output", "ndjson"]).exits(0).lines().len(), 2);
}

#[test]
fn a_command_that_names_a_document_is_safe_to_paste_whatever_a_model_called_it() {
    for (path, quoted) in [("a;touch pwned", "'a;touch pwned'"), ("it's.md", "'it'\\''s.md'"), ("-x", "-- RUN -x")] {
        let folder = Folder::new();
        let write = |text: &str| json!({"calls": [{"tool": "write_file", "input": {"path": path, "content": text}}]});
        let end = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
        let script = json!({"lead": {"turns": [write("one"), write("two"), end]}});
        folder.job("naming", &[("lead", &["write_file", "handoff"])], script, json!({}));
        let ran = folder.baton(&["run", "naming"]).exits(0);
        let run = folder.last_run();
        let end = if path == "-x" { quoted.replace("RUN", &run) } else { format!("{run} {quoted}") };
        let ran = ran.tells(&format!("· baton doc diff {end}\n"));
        let line = ran.stderr.lines().find_map(|line| line.split_once("baton doc diff ")).unwrap().1;
        let mut shell = Command::new("sh");
        let arguments = shell.args(["-c", &format!("printf '<%s>' {line}")]).current_dir(folder.path()).output().unwrap();
        assert!(String::from_utf8(arguments.stdout).unwrap().ends_with(&format!("<{path}>")), "{line}");
        let mut pasted = wrapped("sh", &["-c", &format!("\"$0\" doc diff {line}")], &folder.command(&[]));
        Ran::from(pasted.output().unwrap()).exits(0).says("+two");
        assert!(!folder.path().join("pwned").exists());
    }
}

#[test]
fn a_long_name_leaves_room_for_the_other_columns() {
    let folder = Folder::new();
    let long = "n".repeat(250);
    let write = |path: &str| json!({"tool": "write_file", "input": {"path": path, "content": "one\n"}});
    let end = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    let script = json!({"lead": {"turns": [{"calls": [write(&long), write("short.md")]}, end]}});
    folder.job("naming", &[("lead", &["write_file", "handoff"])], script, json!({}));
    folder.baton(&["run", "naming"]).exits(0);
    let listed = folder.baton(&["doc", "ls", "@last"]).exits(0).stdout;
    assert_eq!(listed.lines().filter(|line| line.contains("tok  lead")).count(), 2, "{listed}");
    assert!(listed.contains("nnn…"), "{listed}");
}

#[test]
fn the_log_of_a_document_names_the_writers_and_readers_of_each_version() {
    let folder = Folder::with_documents();
    let log = folder.baton(&["doc", "log", "out/page.md", "--output", "json"]).exits(0).json();
    let of = |at: usize, names: &[&str]| -> Vec<_> { names.iter().map(|name| log[at][*name].clone()).collect() };
    let names = ["version", "base", "written_by", "task", "call", "tool", "size_bytes", "mime_type"];
    let worker = json!({"agent": "worker"});
    let first = json!([1, null, worker, "0/1.1", "0/1.1/1.1", "write_file", 18, "text/markdown"]);
    let second = json!([2, 1, worker, "0/1.1", "0/1.1/2.1", "write_file", 19, "text/markdown"]);
    assert_eq!((json!(of(0, &names)), json!(of(1, &names))), (first, second));
    assert_eq!(log[0]["readers"], json!([]), "its writer is no reader");
    let reader = &log[1]["readers"][0];
    assert_eq!(
        (&reader["task"], &reader["holder"], &reader["turn"], &reader["whole"]),
        (&json!("0"), &json!({"agent": "lead"}), &json!(2), &json!(true))
    );
    let source = folder.baton(&["doc", "log", "source.csv", "@last", "--output", "ndjson"]).exits(0).lines();
    assert_eq!((&source[0]["written_by"], source[0].get("tool")), (&json!(null), Some(&json!(null))));
    let readers: Vec<_> =
        source[0]["readers"].as_array().unwrap().iter().map(|reader| reader["holder"]["agent"].clone()).collect();
    assert_eq!(readers, ["lead", "worker"]);
    folder
        .baton(&["doc", "log", "out/page.md"])
        .exits(0)
        .says("19 B  by worker (task 0/1.1, write_file)  from v1")
        .says("read by lead (task 0, turn 2)")
        .says("not read yet");
    folder.baton(&["doc", "log", "out/pag.md"]).exits(6).tells("did you mean out/page.md?");
}

#[test]
fn a_document_has_the_author_of_its_first_and_of_its_newest_version() {
    let folder = Folder::new();
    let write = |text: &str| json!({"calls": [{"tool": "write_file", "input": {"path": "source.csv", "content": text}}]});
    let end = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    let script = json!({"lead": {"turns": [write("a,b\n3,4\n"), end]}});
    folder.write("editing/documents/source.csv", "a,b\n1,2\n");
    folder.job("editing", &[("lead", &["write_file", "handoff"])], script, json!({"documents": [{"path": "source.csv"}]}));
    folder.baton(&["run", "editing"]).exits(0);
    let listed = folder.baton(&["doc", "ls", "--output", "json"]).exits(0).json();
    let all = folder.baton(&["doc", "ls", "--versions", "--output", "json"]).exits(0).json();
    assert_eq!(
        (&listed[0]["version"], &listed[0]["created_by"], &listed[0]["updated_by"]),
        (&json!(2), &json!(null), &json!({"agent": "lead"}))
    );
    assert_eq!((&listed[0]["created_at"], &listed[0]["updated_at"]), (&all[0]["updated_at"], &all[1]["updated_at"]));
    assert!(listed[0]["created_at"].as_str() < listed[0]["updated_at"].as_str());
}

#[test]
fn the_blocks_of_a_document_are_printed_whole() {
    let folder = Folder::new();
    let long = "word ".repeat(100);
    let text = format!("# Plan\n\n{long}\n\n- one\n- two\n");
    let write = |path: &str, content: &str| json!({"tool": "write_file", "input": {"path": path, "content": content}});
    let calls = [write("a.md", &text), write("a.csv", "n,s\n1,\"x,y\"\n"), write("a.json", "{\"k\": [1]}")];
    let image =
        json!({"tool": "write_file", "input": {"path": "dot.gif", "content": "R0lGODlhAQABAAAAACw=", "encoding": "base64"}});
    let end = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    let script = json!({"lead": {"turns": [{"calls": calls}, {"calls": [image]}, end]}});
    folder.job("writing", &[("lead", &["write_file", "handoff"])], script, json!({}));
    folder.baton(&["run", "writing"]).exits(0);
    let blocks = |path: &str| {
        let printed = folder.baton(&["doc", "cat", "@last", path, "--blocks", "--output", "json"]).exits(0).json();
        printed["blocks"].clone()
    };
    assert_eq!(
        blocks("a.md"),
        json!({
            "0": {"type": "heading", "data": {"level": 1, "text": "Plan"}},
            "1": {"type": "paragraph", "data": {"text": long}},
            "2": {"type": "list", "data": {"ordered": false, "items": ["one", "two"]}},
        })
    );
    assert_eq!(
        blocks("a.csv@1"),
        json!({"0": {"type": "header", "data": {"columns": ["n", "s"]}}, "1": {"type": "row", "data": {"values": ["1", "x,y"]}}})
    );
    assert_eq!(blocks("a.json"), json!({"0": {"type": "array", "data": {"key": "k", "value": [1]}}}));
    folder.baton(&["doc", "cat", "@last", "a.md", "--blocks"]).exits(0).says("0 heading\n  level: 1\n  text: Plan\n").says(&long);
    folder.baton(&["doc", "cat", "@last", "dot.gif", "--blocks"]).exits(2).tells("dot.gif v1 has no blocks: it is image/gif");
}

#[test]
fn a_document_is_printed_byte_for_byte_at_any_version() {
    let folder = Folder::with_documents();
    assert_eq!(folder.baton(&["doc", "cat", "@last", "out/page.md"]).exits(0).stdout, "# One\n\nsecond line\n");
    assert_eq!(folder.baton(&["doc", "cat", "@last", "out/page.md@1"]).exits(0).stdout, "# One\n\nfirst line\n");
    folder.baton(&["doc", "cat", "@last", "out/page.md@9"]).exits(6).tells("there is no version 9 of out/page.md");
    folder.baton(&["doc", "cat", "@last", "out/pag.md"]).exits(6).tells("did you mean out/page.md?");
    folder.baton(&["doc", "cat", "@last", "../x"]).exits(2).tells("cannot be a document path");
}

#[test]
fn a_difference_names_both_versions_and_who_wrote_them() {
    let folder = Folder::with_documents();
    let ran = folder.baton(&["doc", "diff", "@last", "out/page.md"]).exits(0).says("--- out/page.md v1 (worker)");
    ran.says("+++ out/page.md v2 (worker)").says("-first line").says("+second line");
    let report =
        folder.baton(&["doc", "diff", "@last", "out/page.md", "--from", "1", "--to", "2", "--output", "json"]).exits(0).json();
    assert_eq!((&report["from"], &report["to"]), (&json!(1), &json!(2)));
    folder.baton(&["doc", "diff", "@last", "source.csv"]).exits(2).tells("only one version");
}

#[test]
fn out_writes_what_the_root_handed_off_and_nothing_else() {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["run", "writing", "--out", "result"]).exits(0).tells("result/out/page.md");
    assert_eq!(folder.read("result/out/page.md"), "# One\n\nsecond line\n");
    assert_eq!(fs::read_dir(folder.path().join("result")).unwrap().count(), 1);
}

#[test]
fn a_link_in_the_folder_leads_nothing_outside() {
    let folder = Folder::new();
    folder.writing_job();
    fs::create_dir_all(folder.path().join("result")).unwrap();
    fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), folder.path().join("result/out")).unwrap();
    folder.baton(&["run", "writing", "--out", "result", "--force"]).exits(1).tells("is a link");
    assert_eq!(fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_document_that_cannot_be_written_out_does_not_cost_the_result() {
    let folder = Folder::new();
    folder.writing_job();
    fs::create_dir_all(folder.path().join("result/out/page.md")).unwrap();
    let ran = folder.baton(&["run", "writing", "--out", "result", "--force", "--output", "json"]).exits(1).tells("out/page.md:");
    assert_eq!(ran.json()["result"], json!({"summary": "written"}));
    folder.write("taken", "a file");
    folder.baton(&["run", "writing", "--out", "taken"]).exits(2).tells("--out taken is a file; expected a folder");
}

#[test]
fn a_folder_that_is_not_empty_is_left_alone_without_force() {
    let folder = Folder::with_documents();
    folder.write("mine/source.csv", "my own");
    folder.baton(&["run", "writing", "--out", "mine"]).exits(2).tells("mine is not empty").tells("--force");
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json().as_array().unwrap().len(), 1, "no second run began");
    folder.baton(&["doc", "export", "@last", "--out", "mine"]).exits(2).tells("mine is not empty");
    folder.baton(&["doc", "export", "@last", "--out", "."]).exits(2).tells("is not empty");
    assert_eq!(folder.read("mine/source.csv"), "my own");
    let plan = folder.baton(&["doc", "export", "@last", "--out", "mine", "--force", "--dry-run"]).exits(0);
    plan.says("mine/out/page.md").says("mine/source.csv   (replaces a file)");
    assert_eq!(folder.read("mine/source.csv"), "my own", "a plan writes nothing");
    folder.baton(&["doc", "export", "@last", "--out", "mine", "--force"]).exits(0).tells("replaces a file");
    assert_eq!(folder.read("mine/source.csv"), "a,b\n1,2\n");
}

#[test]
fn documents_are_exported_into_a_folder_named_after_the_run() {
    let folder = Folder::with_documents();
    let run = folder.last_run();
    folder.baton(&["doc", "export", "@last"]).exits(0).says(&format!("{run}/out/page.md")).tells("exports 2 documents");
    assert_eq!(folder.read(&format!("{run}/source.csv")), "a,b\n1,2\n");
    folder.baton(&["doc", "export", "@last"]).exits(2).tells("is not empty");
}

/// Runs a job whose agent writes a document at each of `paths`; returns its folder.
fn writes(paths: &[&str]) -> Folder {
    let folder = Folder::new();
    let calls: Vec<_> = paths
        .iter()
        .map(|path| json!({"tool": "write_file", "input": {"path": path, "content": format!("of {path}")}}))
        .collect();
    let script = json!({"lead": {"turns": [
        {"calls": calls},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "written"}, "documents": paths}}]},
    ]}});
    folder.job("named", &[("lead", &["write_file", "handoff"])], script, json!({}));
    folder
}

#[test]
fn a_hidden_name_becomes_a_visible_one_and_what_is_there_stays() {
    let folder = writes(&[".git/config", ".env", "a*.md", "AUX .txt", "notes.md"]);
    folder.write("repo/.git/config", "mine");
    folder.write("repo/.env", "MINE=1");
    folder.baton(&["run", "named", "--out", "repo", "--force"]).exits(0).tells("renamed: .git/config");
    assert_eq!((folder.read("repo/.git/config"), folder.read("repo/.env")), ("mine".to_owned(), "MINE=1".to_owned()));
    assert_eq!(folder.read("repo/dot-git/config"), "of .git/config");
    let listed = folder.baton(&["doc", "export", "@last", "--out", "new", "--output", "json"]).exits(0).json();
    let mut files: Vec<&str> = listed.as_array().unwrap().iter().map(|written| written["file"].as_str().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["new/_AUX .txt", "new/a_.md", "new/dot-env", "new/dot-git/config", "new/notes.md"]);
}

#[test]
fn one_name_that_cannot_be_written_does_not_stop_the_others() {
    let long = format!("{}.md", "n".repeat(252));
    let folder = writes(&["before.md", &long, "taken.md"]);
    fs::create_dir_all(folder.path().join("out/before.md")).unwrap();
    folder.baton(&["run", "named", "--out", "out", "--force"]).exits(1).tells("before.md:");
    assert_eq!(folder.read(&format!("out/{long}")), format!("of {long}"));
    assert_eq!(folder.read("out/taken.md"), "of taken.md");
}

#[test]
fn a_document_is_never_called_like_a_version() {
    let folder = writes(&["report.md"]);
    folder.baton(&["run", "named"]).exits(0);
    folder.baton(&["doc", "cat", "@last", "report.md@1"]).exits(0).says("of report.md");
    for path in ["report.md@1", "report.md@v1", "gap\u{3164}.md", "\u{440}eport.md"] {
        let folder = writes(&["report.md", path]);
        folder.baton(&["run", "named"]).exits(1).tells("lead write_file → failed: ");
        let listed = folder.baton(&["doc", "ls", "@last", "--output", "json"]).exits(0).json();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{path}: {listed}");
    }
}

#[test]
fn documents_are_exported_by_name_and_version() {
    let folder = Folder::with_documents();
    folder.baton(&["doc", "export", "@last", "--out", "all"]).exits(0).says("all/out/page.md").says("all/source.csv");
    folder.baton(&["doc", "export", "@last", "out/page.md@1", "--out", "first"]).exits(0);
    assert_eq!(folder.read("first/out/page.md"), "# One\n\nfirst line\n");
}
