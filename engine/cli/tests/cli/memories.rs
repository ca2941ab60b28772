//! Long-term memories belong to a job, or to a project that shares them.

use serde_json::{Value, json};

use crate::support::{Folder, Ran};

/// Writes a job whose agent `lead` saves a note and reports how many it recalls.
fn remembering_job(folder: &Folder, path: &str) {
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "save_to_long_term_memory", "input": {"memory": "The board wants thousands."}}]},
        {"calls": [{"tool": "recall_memory", "input": {"scope": "long_term"}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "knows {{ results.recall_memory.total }}"}}}]},
    ]}});
    folder.job(path, &[("lead", &["save_to_long_term_memory", "recall_memory", "handoff"])], script, json!({"job_id": "mem"}));
}

fn project(settings: &Value) -> Folder {
    let folder = Folder::new();
    folder.write("home/baton.json", settings.to_string());
    for job in ["one", "two"] {
        remembering_job(&folder, &format!("home/jobs/{job}"));
    }
    folder
}

fn run(folder: &Folder, here: &str, arguments: &[&str]) -> Ran {
    let mut command = folder.command(&["run"]);
    command.args(arguments).current_dir(folder.path().join(here));
    Ran::from(command.output().unwrap())
}

#[test]
fn a_job_does_not_read_the_memories_of_a_namesake() {
    for settings in [json!({}), json!({"memory": "job"})] {
        let folder = project(&settings);
        run(&folder, "home", &["one"]).exits(0).says("knows 1");
        run(&folder, "home", &["two"]).exits(0).says("knows 1");
        run(&folder, "home", &["one"]).exits(0).says("knows 2");
        // A project that somebody sent, with a job at the same place in it, and the person's own store.
        remembering_job(&folder, "received/jobs/one");
        folder.write("received/baton.json", "{}");
        run(&folder, "received", &["one", "--store", "../home/.baton/baton.db"]).exits(0).says("knows 1");
        run(&folder, "home", &["../received/jobs/one"]).exits(0).says("knows 2");
    }
}

#[test]
fn the_jobs_of_a_project_share_their_memories_if_it_says_so() {
    let folder = project(&json!({"memory": "project"}));
    run(&folder, "home", &["one"]).exits(0).says("knows 1");
    run(&folder, "home", &["two"]).exits(0).says("knows 2");
    // A job of another project does not, wherever the command is run.
    remembering_job(&folder, "received/one");
    folder.write("received/baton.json", json!({"memory": "project"}).to_string());
    run(&folder, "home", &["../received/one"]).exits(0).says("knows 1");
    // Neither does a project inside of the project.
    remembering_job(&folder, "home/jobs/received/one");
    folder.write("home/jobs/received/baton.json", json!({"memory": "project"}).to_string());
    run(&folder, "home", &["jobs/received/one"]).exits(0).says("knows 1");
}

#[test]
fn a_project_that_is_moved_takes_its_memories_along() {
    let folder = project(&json!({}));
    run(&folder, "home", &["one"]).exits(0).says("knows 1");
    std::fs::rename(folder.path().join("home"), folder.path().join("moved")).unwrap();
    run(&folder, "moved", &["one"]).exits(0).says("knows 2");
}

#[test]
fn a_project_names_a_known_owner_of_memories() {
    let folder = project(&json!({"memory": "store"}));
    run(&folder, "home", &["one"]).exits(2).tells("baton.json:1:11").tells("expected one of \"job\", \"project\"");
}
