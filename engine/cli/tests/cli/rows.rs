//! `tool import` and `tool export` of rows of `resource.tools`.

use serde_json::{Value, json};

use crate::support::Folder;

fn row(name: &str) -> Value {
    json!({
        "project_id": "acme", "tool_name": name, "description": "Searches the library.",
        "parameters": {
            "type": "object",
            "properties": {
                "q": {"type": "string"}, "limit": {"type": "integer"}, "region": {"type": "string"}, "key": {"type": "string"}
            },
            "required": ["q", "region", "key"]
        },
        "target_subject": "cg.v1r3.{project_id}.{channel_id}.cmd.tool.library", "after_execution": "terminate",
        "options": {
            "args": {"defaults": {"limit": 5}, "fixed": {"region": "eu"}}, "envs": {"key": "LIBRARY_KEY"},
            "suspend_timeout_seconds": 120
        }
    })
}

#[test]
fn a_row_is_a_tool_like_any_other_and_is_exported_as_it_was() {
    let folder = Folder::new();
    folder.echo_job();
    let rows = json!([row("library_search"), row("library_list")]);
    folder.write("rows.json", rows.to_string());
    let imported = folder.baton(&["tool", "import", "rows.json", "--out", "echoing/tools", "--output", "json"]).exits(0).json();
    assert_eq!(imported[0]["tool"], "library_search");
    assert_eq!(imported[0]["changed"][0]["pointer"], "/project_id");
    folder.baton(&["tool", "show", "library_search", "--job", "echoing"]).exits(0).says("service cg.v1r3").says("limit");
    let seen = folder.baton(&["tool", "schema", "library_search", "--job", "echoing"]).exits(0).json();
    assert_eq!(seen["required"], json!(["q"]), "models see neither fixed values nor variables");
    let export = ["tool", "export", "--project", "acme", "--job", "echoing"];
    let mut sorted = rows.as_array().unwrap().clone();
    sorted.sort_by_key(|row| row["tool_name"].to_string());
    assert_eq!(folder.baton(&export).exits(0).json(), json!(sorted));
    let one = folder.baton(&[&export[..], &["library_search"]].concat()).exits(0).json();
    assert_eq!(one, json!([row("library_search")]));
    folder.baton(&[&export[..], &["echo"]].concat()).exits(2).tells("has no \"target_subject\"");
    folder.baton(&["validate", "echoing"]).exits(0);
}

#[test]
fn a_folder_of_rows_is_imported_and_all_faults_are_reported_at_once() {
    let folder = Folder::new();
    let mut bad = row("fork_join");
    bad["after_execution"] = json!("stop");
    folder.write("rows/one.json", row("one").to_string());
    folder.write("rows/two.json", json!([bad, {"tool_name": "three"}]).to_string());
    folder.write("rows/notes.txt", "no JSON");
    let run = folder.baton(&["tool", "import", "rows", "--out", "out"]).exits(2);
    let run = run.tells("row 2 (\"fork_join\"): /tool_name: the name \"fork_join\" belongs to a built-in tool");
    let run = run.tells("/after_execution: is \"stop\"");
    run.tells("row 3 (\"three\"): \"target_subject\" is missing");
    folder.baton(&["tool", "import", "out"]).exits(6);
    folder.write("rows/two.json", row("two").to_string());
    folder.baton(&["tool", "import", "rows", "--out", "out"]).exits(0).says("one.json").says("two.json");
    folder.baton(&["tool", "import", "rows", "--out", "other", "--exec", "sh"]).exits(2).tells("--exec does not apply");
    folder.write("rows/three.json", r#"{"tools": []}"#);
    folder.baton(&["tool", "import", "rows", "--out", "more"]).exits(2).tells("three.json has no rows of resource.tools");
}

#[test]
fn a_repeated_key_of_a_row_is_refused() {
    let folder = Folder::new();
    let text = row("one").to_string().replacen('{', "{\"tool_name\": \"two\", ", 1);
    folder.write("row.json", text);
    folder.baton(&["tool", "import", "row.json"]).exits(2).tells("the key \"tool_name\" occurs twice");
}
