//! Values put into the files of a job by their places, and files in an order of their own.

use baton_config::{Role, Sources};
use serde_json::{Value, json};

/// Files whose job does not come first and whose agents and tools are more than one.
fn files() -> Sources {
    let mut sources = Sources::new("demo");
    let files = [
        (Role::BuiltinTool, "tool-configs/echo.json", json!({"tool_id": "echo"})),
        (Role::Agent, "agents/lead.json", json!({"agent_id": "lead", "tools": [{"tool": "echo"}, "handoff"]})),
        (Role::Agent, "agents/counter.json", json!({"agent_id": "counter"})),
        (Role::Tool, "tools/note.json", json!({"tool_id": "note"})),
        (Role::Job, "job.json", json!({"job_id": "j", "limits": {"turns": 5}})),
    ];
    for (role, path, content) in files {
        sources.add(role, path, content.to_string());
    }
    sources
}

fn read(sources: &Sources, path: &str) -> Value {
    let source = sources.files().find(|source| source.path == path).expect("the file is there");
    serde_json::from_str(&source.text).expect("the file is JSON")
}

#[test]
fn a_place_names_one_file_and_the_others_stay_as_they_are() {
    for (place, path) in [
        ("job.description", "job.json"),
        ("agents.lead.description", "agents/lead.json"),
        ("agents.counter.description", "agents/counter.json"),
        ("tools.note.description", "tools/note.json"),
        ("tools.echo.description", "tool-configs/echo.json"),
    ] {
        let mut sources = files();
        sources.set(place, json!("new")).expect("the place is there");
        assert_eq!(read(&sources, path)["description"], "new", "{place}");
        assert_eq!(sources.changes_from(&files()), [format!("{path}: description")], "{place}");
    }
}

#[test]
fn a_list_is_changed_by_index_up_to_its_end_and_not_beyond() {
    let tools = |place: &str, value: Value| {
        let mut sources = files();
        let set = sources.set(&format!("agents.lead.{place}"), value);
        set.map(|()| read(&sources, "agents/lead.json")["tools"].clone()).map_err(|fault| fault.to_string())
    };
    let echo = || json!({"tool": "echo"});
    for (place, value, expected) in [
        ("tools.0", json!("note"), json!(["note", "handoff"])),
        ("tools.1", json!("note"), json!([echo(), "note"])),
        ("tools.2", json!("note"), json!([echo(), "handoff", "note"])),
        ("tools.0", Value::Null, json!(["handoff"])),
        ("tools.1", Value::Null, json!([echo()])),
        ("tools.0.approval", json!("person"), json!([{"tool": "echo", "approval": "person"}, "handoff"])),
    ] {
        assert_eq!(tools(place, value.clone()), Ok(expected), "{place} = {value}");
    }
    for (place, value) in [
        ("tools.3", json!("note")),
        ("tools.2", Value::Null),
        ("tools.3", Value::Null),
        ("tools.first", json!("note")),
        ("tools.2.approval", json!("person")),
    ] {
        let told = tools(place, value.clone()).expect_err("there is no such place");
        assert!(told.contains("tools is a list without that index"), "{place} = {value}: {told}");
    }
}

#[test]
fn null_removes_a_key_and_whoever_lacks_it_stays_without() {
    let mut sources = files();
    sources.set("job.limits.turns", Value::Null).expect("the place is there");
    sources.set("agents.counter.model", Value::Null).expect("nothing is removed");
    assert_eq!(read(&sources, "job.json"), json!({"job_id": "j", "limits": {}}));
    assert_eq!(read(&sources, "agents/counter.json"), json!({"agent_id": "counter"}));
}

#[test]
fn equal_files_are_in_one_order_however_they_were_found() {
    let found =
        [(Role::Tool, "tools/b.json"), (Role::Agent, "agents/z.json"), (Role::Tool, "tools/a.json"), (Role::Job, "job.json")];
    let ordered = |files: Vec<(Role, &str)>| {
        let mut sources = Sources::default();
        for (role, path) in files {
            sources.add(role, path, "{}");
        }
        let sources = sources.in_order();
        sources.files().map(|source| source.path.clone()).collect::<Vec<_>>()
    };
    let once = ordered(found.to_vec());
    assert_eq!(once, ordered(found.into_iter().rev().collect()));
    assert_eq!(once, ["job.json", "agents/z.json", "tools/a.json", "tools/b.json"]);
}
