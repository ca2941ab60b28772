//! The objects of `--output json` have the keys that docs/json.md lists, and a version.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::Folder;

/// Returns the names in backticks of a cell.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the keys that each command always prints, and those that it prints in some cases, from the table of the page.
fn documented() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let page = include_str!("../../../../docs/json.md");
    let table = page.split("## Objects").nth(1).unwrap().split("## A run").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let keys = (names(cells[2]), names(cells[3]));
        names(cells[1]).into_iter().map(move |command| (command, keys.clone())).collect::<Vec<_>>()
    };
    rows.flat_map(row).collect()
}

#[test]
fn every_command_prints_the_documented_keys_and_a_version() {
    let folder = Folder::new();
    folder.asking_job();
    folder.writing_job();
    let mut objects: Vec<(&str, Value)> = Vec::new();
    let mut print = |command: &'static str, code: i32, arguments: &[&str]| {
        let ran = folder.baton(&[arguments, &["--output", "json"]].concat()).exits(code);
        objects.push((command, ran.json()));
    };
    print("run", 3, &["run", "asking"]);
    print("show --question", 0, &["show", "@last", "--question", "Q1"]);
    print("answer --no-resume", 0, &["answer", "@last", "units", "--no-resume"]);
    print("resume", 0, &["resume", "@last"]);
    print("run", 3, &["run", "asking"]);
    print("pause", 0, &["pause", "@last"]);
    print("steer", 0, &["steer", "@last", "Hurry"]);
    print("cancel", 0, &["cancel", "@last"]);
    print("show", 0, &["show", "@last"]);
    print("run", 0, &["run", "writing"]);
    print("show --task", 0, &["show", "@last", "--task", "0/1.1"]);
    print("show --messages", 0, &["show", "@last", "--task", "0", "--messages"]);
    print("doc ls", 0, &["doc", "ls", "@last"]);
    print("doc log", 0, &["doc", "log", "out/page.md", "@last"]);
    print("doc cat", 0, &["doc", "cat", "@last", "out/page.md"]);
    print("doc cat --blocks", 0, &["doc", "cat", "@last", "out/page.md", "--blocks"]);
    print("doc diff", 0, &["doc", "diff", "@last", "out/page.md"]);
    print("doc export", 0, &["doc", "export", "@last", "--out", "exported"]);
    print("graph", 0, &["graph", "@last"]);
    print("replay", 0, &["replay", "@last"]);
    print("diff", 0, &["diff", "@last", "@last"]);
    print("fork", 0, &["fork", "@last"]);
    print("continue", 0, &["continue", "@last", "More."]);
    print("validate", 0, &["validate", "writing"]);
    print("doctor", 0, &["doctor", "--offline"]);
    print("docs", 0, &["docs", "writing"]);
    print("tool ls", 0, &["tool", "ls"]);
    print("tool show", 0, &["tool", "show", "echo"]);
    print("tool catalog", 0, &["tool", "catalog"]);
    print("tool test", 0, &["tool", "test", "echo"]);
    print("tool call", 0, &["tool", "call", "echo", "--message", "x"]);
    folder.write("foreign.json", r#"[{"name": "foreign", "description": "A tool.", "inputSchema": {"type": "object"}}]"#);
    print("tool import", 0, &["tool", "import", "foreign.json", "--out", "imported"]);
    print("verify", 0, &["verify"]);
    print("verify RUN", 0, &["verify", "@last"]);
    print("ps", 0, &["ps"]);
    print("gc", 0, &["gc", "--dry-run"]);
    print("store copy", 0, &["store", "copy", ".baton/baton.db", "copy.db"]);
    print("init", 0, &["init", "demo"]);
    print("new", 0, &["new", "job", "other"]);
    let documented = documented();
    let mut seen = BTreeSet::new();
    for (command, printed) in &objects {
        let (always, sometimes) = documented.get(*command).unwrap_or_else(|| panic!("{command} is not in docs/json.md"));
        seen.insert((*command).to_owned());
        let list = printed.as_array().cloned().unwrap_or_else(|| vec![printed.clone()]);
        assert!(!list.is_empty(), "{command} printed nothing");
        for object in list {
            let mut keys: BTreeSet<String> = object.as_object().unwrap().keys().cloned().collect();
            assert!(keys.remove("v") && object["v"] == 0, "{command}: {object}");
            let unknown: Vec<&String> = keys.iter().filter(|key| !always.contains(*key) && !sometimes.contains(*key)).collect();
            let missing: Vec<&String> = always.difference(&keys).collect();
            assert!(unknown.is_empty() && missing.is_empty(), "{command}: undocumented {unknown:?}, missing {missing:?}");
        }
    }
    assert_eq!(seen, documented.into_keys().collect(), "each documented command is tried");
}
