//! `gc`, and stores of older formats: runs that are removed, kept or refused.

use serde_json::json;

use crate::support::Folder;

/// Runs three jobs, of which one waits for a person. Returns the ids, newest first.
fn three_runs(folder: &Folder) -> Vec<String> {
    folder.writing_job();
    folder.echo_job();
    folder.asking_job();
    folder.baton(&["run", "writing"]).exits(0);
    folder.baton(&["run", "asking"]).exits(3);
    folder.baton(&["run", "echoing"]).exits(0);
    names(folder)
}

fn names(folder: &Folder) -> Vec<String> {
    let runs = folder.baton(&["ps", "--output", "json"]).exits(0).json();
    runs.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn old_runs_go_and_the_rest_is_replayed_and_goes_on() {
    let folder = Folder::new();
    let [echoing, asking, writing] = <[String; 3]>::try_from(three_runs(&folder)).unwrap();
    let shown = folder.baton(&["show", &echoing, "--output", "json"]).exits(0).json();

    let would = folder.baton(&["gc", "--keep", "1", "--dry-run", "--output", "json"]).exits(0).json();
    assert_eq!((&would["dry_run"], &would["runs"], &would["kept"]), (&json!(true), &json!([writing]), &json!(2)));
    assert_eq!(names(&folder).len(), 3, "looking removes nothing");
    folder.baton(&["gc", "--keep", "1", "--dry-run"]).exits(0).says("would remove 1 run with").says(&writing);

    let gone = folder.baton(&["gc", "--keep", "1", "--output", "ndjson"]).exits(0).lines();
    assert_eq!((gone.len(), &gone[0]["runs"]), (1, &json!([writing])));
    assert!(gone[0]["contents"].as_u64().unwrap() > 0, "{gone:?}");
    assert!(gone[0]["bytes_after"].as_u64() < gone[0]["bytes_before"].as_u64(), "{gone:?}");
    assert_eq!(names(&folder), [echoing.clone(), asking.clone()]);
    folder.baton(&["show", &writing]).exits(6);

    assert_eq!(folder.baton(&["show", &echoing, "--output", "json"]).exits(0).json(), shown);
    folder.baton(&["resume", &echoing]).exits(0);
    folder.baton(&["verify"]).exits(0).says("whole").says("2 runs");
    folder.baton(&["answer", &asking, "revenue", "--no-resume"]).exits(0);
    let ran = folder.baton(&["resume", &asking, "--output", "json"]).exits(0).json();
    assert_eq!(ran["result"], json!({"summary": "revenue"}));
}

#[test]
fn a_run_that_did_not_end_goes_by_its_name_alone() {
    let folder = Folder::new();
    let [echoing, asking, writing] = <[String; 3]>::try_from(three_runs(&folder)).unwrap();
    folder.baton(&["gc"]).exits(0).says("removed 0 runs");
    folder.baton(&["gc", "--older-than", "1"]).exits(0).says("removed 0 runs");
    assert_eq!(names(&folder).len(), 3);
    folder.baton(&["gc", "--keep", "0"]).exits(0).says("removed 2 runs").says(&echoing).says(&writing).says("1 kept");
    assert_eq!(names(&folder), std::slice::from_ref(&asking));
    folder.baton(&["gc", &asking[..6]]).exits(0).says("removed 1 run");
    assert_eq!(names(&folder), Vec::<String>::new());
    folder.baton(&["gc", "nobody"]).exits(6).tells("nobody");
    folder.baton(&["gc", "--store", "memory"]).exits(2).tells("memory");
    folder.baton(&["gc", "--store", "none.db"]).exits(6).tells("there is no store none.db");
    assert!(!folder.path().join("none.db").exists());
}

#[test]
fn verify_walks_the_timeline_of_a_run() {
    let folder = Folder::new();
    let [echoing, asking, writing] = <[String; 3]>::try_from(three_runs(&folder)).unwrap();
    folder.baton(&["verify", &echoing]).exits(0).says("holds").says("rendered again");
    folder.baton(&["verify", &asking]).exits(0).says("holds");
    let held = folder.baton(&["verify", &writing, "--output", "json"]).exits(0).json();
    assert_eq!((&held["holds"], &held["findings"]), (&json!(true), &json!([])));
    assert!(held["contents"].as_u64() > Some(0) && held["requests"].as_u64() > Some(0), "{held}");
    folder.baton(&["verify", "nobody"]).exits(6).tells("nobody");
    // The store's record of the run is changed, so it no longer fits its checksum.
    let store = rusqlite::Connection::open(folder.path().join(".baton/baton.db")).unwrap();
    store.execute("UPDATE runs SET status = 'running' WHERE id = ?1", [&writing]).unwrap();
    drop(store);
    folder.baton(&["verify", &writing]).exits(1).tells("does not match its checksum");
}

#[test]
fn verify_renders_prompts_with_the_list_of_tools() {
    let folder = Folder::new();
    for (name, key, value) in [("universal", "invocation", "universal"), ("discovering", "catalog", "discover")] {
        let handoff = json!({"tool": "handoff", "input": {"result": {"summary": "Done."}}});
        let script = json!({"lead": {"turns": [{"calls": [handoff]}]}});
        folder.job(name, &[("lead", &["echo", "handoff"])], script, json!({}));
        let place = format!("{name}/agents/lead.json");
        let mut agent: serde_json::Value = serde_json::from_str(&folder.read(&place)).unwrap();
        agent[key] = json!(value);
        folder.write(&place, agent.to_string());
        folder.baton(&["run", name]).exits(0);
        folder.baton(&["verify", "@last"]).exits(0).says("holds");
    }
}

#[test]
fn verify_says_what_is_wrong_with_the_store() {
    let folder = Folder::new();
    let [echoing, _, _] = <[String; 3]>::try_from(three_runs(&folder)).unwrap();
    let whole = folder.baton(&["verify", "--output", "json"]).exits(0).json();
    assert_eq!((&whole["whole"], &whole["runs"], &whole["findings"]), (&json!(true), &json!(3), &json!([])));
    let store = rusqlite::Connection::open(folder.path().join(".baton/baton.db")).unwrap();
    store
        .execute(
            "UPDATE batches SET entries = unhex(replace(hex(entries), hex('hello'), hex('hullo'))) WHERE run = (SELECT run FROM runs WHERE id = ?1)",
            [&echoing],
        )
        .unwrap();
    drop(store);
    folder
        .baton(&["verify"])
        .exits(1)
        .says("finding")
        .says(&format!("of run {echoing}: the stored bytes do not match their checksum"));
    let found = folder.baton(&["verify", "--output", "ndjson"]).exits(1).lines();
    assert_eq!((found.len(), &found[0]["whole"]), (1, &json!(false)));
    folder.baton(&["verify", "--store", "none.db"]).exits(6).tells("there is no store none.db");
}

#[test]
fn a_store_of_an_older_format_is_refused_in_clear_words_and_left_as_it_is() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["run", "echoing", "--store", "old.db"]).exits(0);
    let file = folder.path().join("old.db");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 3).unwrap();
    let before = std::fs::read(&file).unwrap();
    for command in [&["ps"][..], &["show", "@last"], &["run", "echoing"], &["gc"]] {
        let command: Vec<&str> = command.iter().copied().chain(["--store", "old.db"]).collect();
        folder
            .baton(&command)
            .exits(1)
            .tells("has format 3, but this program reads format 17: use the version of baton that wrote it");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
