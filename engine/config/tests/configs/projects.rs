//! Project files: folders and names that they may have.

use baton_config::load_project;

/// Returns the message about a project file; empty if it has no fault.
fn told(content: &str) -> String {
    load_project("baton.json", content.as_bytes()).err().map(|faults| faults.to_string()).unwrap_or_default()
}

#[test]
fn a_project_keeps_runs_in_a_folder_of_its_own() {
    for store in [".baton", ".baton/runs", "runs", "./runs/here"] {
        assert_eq!(told(&format!(r#"{{"store": "{store}"}}"#)), "", "{store}");
    }
    for (store, why) in [
        ("../runs", "outside of the project"),
        ("/tmp/runs", "outside of the project"),
        (".git", "in a hidden folder"),
        ("runs/.hidden/x", "in a hidden folder"),
        (".", "the project itself"),
    ] {
        let told = told(&format!(r#"{{"store": "{store}"}}"#));
        assert!(told.contains(&format!("\"store\" is set to {store:?}, which is {why}")), "{told}");
    }
}

#[test]
fn jobs_of_a_project_are_in_any_of_its_folders() {
    for jobs in [".", "jobs", ".hidden/jobs"] {
        assert_eq!(told(&format!(r#"{{"jobs": "{jobs}"}}"#)), "", "{jobs}");
    }
    let told = told(r#"{"jobs": "../jobs"}"#);
    assert!(told.contains("\"jobs\" is set to \"../jobs\", which is outside of the project"), "{told}");
}

#[test]
fn names_of_a_project_are_parts_of_subjects() {
    assert_eq!(told(r#"{"project": "sales", "channel": "north-1"}"#), "");
    for (key, name) in [("project", "a.b"), ("project", "a b"), ("channel", "*"), ("channel", ">")] {
        let told = told(&format!(r#"{{"{key}": "{name}"}}"#));
        assert!(told.contains(&format!("\"{key}\" is set to {name:?}, which cannot be part of a subject")), "{told}");
    }
}
