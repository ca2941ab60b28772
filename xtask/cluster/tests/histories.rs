//! The checker itself: a fixed good history, and the faults that it must find in changed ones.

use std::fs;
use std::path::Path;

use baton_cluster::checker::{Findings, check};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The files of a trial with two runs, `a` and `b`.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        fs::create_dir(files.path().join("histories")).unwrap();
        for run in ["a", "b"] {
            files.write(&format!("histories/{run}.ndjson"), &history(run));
            files.write(&format!("histories/{run}.json"), &[json!({"run": run, "status": "success"})]);
        }
        files.write("queued.ndjson", &[json!({"run": "a", "tag": "tag-a"}), json!({"run": "b", "tag": "tag-b"})]);
        files.write("ledger.ndjson", &ledger());
        files.write("samples.ndjson", &samples());
        files
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, lines: &[Value]) {
        let text = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n") + "\n";
        fs::write(self.path().join(name), text).unwrap();
    }

    fn judged(&self) -> Findings {
        check(self.path()).unwrap()
    }

    /// Judges after `change` of the lines of a file; the one fault must contain `words` and be of `kind`.
    #[track_caller]
    fn finds(&self, name: &str, change: impl FnOnce(&mut Vec<Value>), kind: &str, words: &str) {
        let text = fs::read_to_string(self.path().join(name)).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        change(&mut lines);
        self.write(name, &lines);
        let faults = self.judged().faults();
        assert!(faults.iter().any(|fault| fault.starts_with(kind) && fault.contains(words)), "{faults:?}");
        fs::write(self.path().join(name), text).unwrap();
        assert!(self.judged().is_clean(), "the change is undone");
    }
}

/// Returns a run that makes a `keyed` and an `at_most_once` call.
fn history(run: &str) -> Vec<Value> {
    let line = |seq: u64, entry: &str, call: Option<&str>, more: Value| {
        let mut line = json!({"v": 0, "run": run, "seq": seq, "decision": seq / 2, "entry": entry, "call": call});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let input = |step: u64| json!({"input": {"tag": format!("tag-{run}"), "step": step}});
    let done = |call: &str| json!({"result": {"status": "success", "output": {}}, "closes": {"calls": [call]}});
    vec![
        line(1, "run_started", None, json!({})),
        line(2, "call_started", Some("0/1.1"), input(1)),
        line(3, "call_finished", Some("0/1.1"), done("0/1.1")),
        line(4, "call_started", Some("0/2.1"), input(2)),
        line(5, "call_finished", Some("0/2.1"), done("0/2.1")),
        line(6, "run_ended", None, json!({"data": {"state": "completed", "status": "success"}})),
    ]
}

fn ledger() -> Vec<Value> {
    let line = |tool: &str, run: &str, call: &str, step: u64| json!({"tool": tool, "key": format!("{run}:{call}"), "input": {"tag": format!("tag-{run}"), "step": step}});
    vec![
        line("note", "a", "0/1.1", 1),
        line("note", "b", "0/1.1", 1),
        // A second request under the same key.
        line("note", "b", "0/1.1", 1),
        line("stamp", "a", "0/2.1", 2),
        line("stamp", "b", "0/2.1", 2),
    ]
}

fn samples() -> Vec<Value> {
    let sample = |run: &str, status: &str, epoch: u64, last_seq: u64| json!({"run": run, "status": status, "epoch": epoch, "last_seq": last_seq});
    vec![sample("a", "running", 1, 2), sample("b", "running", 1, 3), sample("a", "running", 2, 4), sample("a", "completed", 2, 6)]
}

#[test]
fn a_whole_history_is_clean_and_counted() {
    let expected = Findings { runs: 2, calls: 4, effects: 4, repeated: 1, ..Findings::default() };
    assert_eq!(Files::new().judged(), expected);
}

#[test]
fn a_lost_run_is_found() {
    let files = Files::new();
    let more = |lines: &mut Vec<Value>| lines.push(json!({"run": "c", "tag": "tag-c"}));
    files.finds("queued.ndjson", more, "lost", "c was queued and has no history");
    files.finds(
        "histories/a.ndjson",
        |lines| drop(lines.pop()),
        "lost",
        "a is \"success\" and its history ends with call_finished",
    );
    files.finds("histories/b.json", |lines| lines[0]["status"] = json!("interrupted"), "lost", "b is \"interrupted\"");
    files.finds("histories/a.ndjson", |lines| lines[5]["data"]["state"] = json!("failed"), "lost", "a is");
}

#[test]
fn a_doubled_effect_is_found() {
    let files = Files::new();
    files.finds("ledger.ndjson", |lines| lines.push(lines[3].clone()), "doubled", "stamp acted 2 times for the key a:0/2.1");
    let second_key = |lines: &mut Vec<Value>| {
        let mut line = lines[0].clone();
        line["key"] = json!("a:0/3.1");
        lines.push(line);
    };
    files.finds("ledger.ndjson", second_key, "doubled", "2 keys acted for one call");
}

#[test]
fn a_history_that_contradicts_itself_or_the_ledger_is_found() {
    let files = Files::new();
    let history = "histories/a.ndjson";
    files.finds(history, |lines| drop(lines.remove(2)), "broken", "call 0/1.1 has no result");
    files.finds(history, |lines| lines[4]["closes"]["calls"] = json!(["0/1.1", "0/2.1"]), "broken", "call 0/1.1 has two results");
    files.finds(history, |lines| lines[3]["call"] = json!("0/1.1"), "broken", "call 0/1.1 begins twice");
    files.finds(history, |lines| lines[4]["seq"] = json!(7), "broken", "line 5 is entry 7");
    files.finds(history, |lines| lines[5]["decision"] = json!(1), "broken", "is of decision 1, after decision 2");
    files.finds("ledger.ndjson", |lines| drop(lines.remove(3)), "broken", "was successful and has no effect");
    let foreign = |lines: &mut Vec<Value>| lines.push(json!({"tool": "note", "key": "x", "input": {"tag": "tag-x", "step": 1}}));
    files.finds("ledger.ndjson", foreign, "broken", "belongs to no call with a result");
    files.finds("samples.ndjson", |lines| lines[2]["epoch"] = json!(0), "broken", "its epoch went back from 1 to 0");
    files.finds("samples.ndjson", |lines| lines[3]["last_seq"] = json!(3), "broken", "its history went back from entry 4 to 3");
    let again = |lines: &mut Vec<Value>| lines.push(json!({"run": "a", "status": "running", "epoch": 3, "last_seq": 7}));
    files.finds("samples.ndjson", again, "broken", "it continued after its end");
}

#[test]
fn a_folder_without_histories_is_no_clean_trial() {
    let folder = tempfile::tempdir().unwrap();
    assert!(check(folder.path()).unwrap_err().to_string().contains("histories"));
}
