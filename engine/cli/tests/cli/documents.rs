//! Documents: listed, read, compared, and written out of the workspace.

use std::fs;

use serde_json::json;

use crate::support::Folder;

fn written() -> Folder {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["run", "writing"]).exits(0);
    folder
}

#[test]
fn documents_are_listed_with_their_versions() {
    let folder = written();
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
fn a_document_is_printed_byte_for_byte_at_any_version() {
    let folder = written();
    assert_eq!(folder.baton(&["doc", "cat", "@last", "out/page.md"]).exits(0).stdout, "# One\n\nsecond line\n");
    assert_eq!(folder.baton(&["doc", "cat", "@last", "out/page.md@1"]).exits(0).stdout, "# One\n\nfirst line\n");
    folder.baton(&["doc", "cat", "@last", "out/page.md@9"]).exits(6).tells("there is no version 9 of out/page.md");
    folder.baton(&["doc", "cat", "@last", "out/pag.md"]).exits(6).tells("did you mean out/page.md?");
    folder.baton(&["doc", "cat", "@last", "../x"]).exits(2).tells("cannot be a document path");
}

#[test]
fn a_difference_names_both_versions_and_who_wrote_them() {
    let folder = written();
    let ran = folder.baton(&["doc", "diff", "@last", "out/page.md"]).exits(0).says("--- out/page.md v1 (worker)");
    ran.says("+++ out/page.md v2 (worker)").says("-first line").says("+second line");
    let report =
        folder.baton(&["doc", "diff", "@last", "out/page.md", "--from", "1", "--to", "2", "--output", "json"]).exits(0).json();
    assert_eq!((&report["from"], &report["to"]), (&json!(1), &json!(2)));
    folder.baton(&["doc", "diff", "@last", "source.csv"]).exits(2).tells("one version only");
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
    folder.baton(&["run", "writing", "--out", "result"]).exits(1).tells("is a link");
    assert_eq!(fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_document_that_cannot_be_written_out_does_not_cost_the_result() {
    let folder = Folder::new();
    folder.writing_job();
    fs::create_dir_all(folder.path().join("result/out/page.md")).unwrap();
    let ran = folder.baton(&["run", "writing", "--out", "result", "--output", "json"]).exits(1).tells("out/page.md:");
    assert_eq!(ran.json()["result"], serde_json::json!({"summary": "written"}));
    folder.write("taken", "a file");
    folder.baton(&["run", "writing", "--out", "taken"]).exits(2).tells("--out taken is a file; expected a folder");
}

#[test]
fn documents_are_exported_by_name_and_version() {
    let folder = written();
    folder.baton(&["doc", "export", "@last", "--out", "all"]).exits(0).says("all/out/page.md").says("all/source.csv");
    folder.baton(&["doc", "export", "@last", "out/page.md@1", "--out", "first"]).exits(0);
    assert_eq!(folder.read("first/out/page.md"), "# One\n\nfirst line\n");
}
