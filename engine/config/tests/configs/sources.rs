//! The files of a job: their paths in messages, their origins, and what a run is pinned to.

use baton_config::{Role, Sources, declared_settings};
use baton_types::config::Origin;
use serde_json::{Value, json};

/// Returns the files of a small job, whose folder is shown as `folder`.
fn files(folder: &str) -> Sources {
    let mut sources = Sources::new(folder);
    sources.add(Role::Job, "job.json", "{}");
    sources.add_from(Origin::BuiltIn, Role::BuiltinTool, "tool-configs/note.json", "{}");
    sources.add(Role::Tool, "tools/note.json", "{}");
    sources
}

/// Returns the path and the origin of each file.
fn origins(sources: &Sources) -> Vec<(&str, Origin)> {
    sources.files().map(|source| (source.path.as_str(), source.origin)).collect()
}

#[test]
fn messages_show_the_folder_before_each_path() {
    for (folder, expected) in [("", "job.json"), ("demo", "demo/job.json"), ("demo/", "demo/job.json"), ("/", "/job.json")] {
        let mut sources = files(folder);
        sources.share(folder, 1);
        let shown: Vec<String> = sources.files().map(|source| sources.display(source)).collect();
        assert_eq!((shown[0].as_str(), shown[1].as_str()), (expected, "tool-configs/note.json"), "{folder:?}");
        assert_eq!(sources.display_path(Role::SharedAgent, "job.json"), expected, "{folder:?}");
    }
}

#[test]
fn the_folder_of_shared_files_is_pinned_if_there_is_one() {
    for (above, pinned) in [(0, Value::Null), (2, json!(2))] {
        let mut sources = files("demo");
        sources.share("home", above);
        let text = serde_json::to_value(&sources).expect("texts are JSON");
        assert_eq!(text["above"], pinned);
        let read: Sources = serde_json::from_value(text).expect("it is read again");
        assert_eq!(read.above(), above);
    }
}

#[test]
fn files_are_removed_by_role_and_attributed_one_by_one() {
    let mut sources = files("demo").without(Role::Job);
    assert_eq!(origins(&sources), [("tool-configs/note.json", Origin::BuiltIn), ("tools/note.json", Origin::Job)]);
    sources.attribute(|source| (source.role == Role::Tool).then_some(Origin::Person));
    assert_eq!(origins(&sources), [("tool-configs/note.json", Origin::BuiltIn), ("tools/note.json", Origin::Person)]);
}

#[test]
fn settings_are_those_of_the_first_file_that_declares_them() {
    let declaration = |description: &str| json!({"most": {"type": "integer", "description": description}});
    let tool = |description: &str| json!({"tool_id": "count", "settings": declaration(description)}).to_string();
    let mut sources = files("demo");
    sources.add(Role::Tool, "tools/count.json", tool("of the job"));
    sources.add(Role::SharedTool, "tools/count.json", tool("of the project"));
    sources.add(Role::Tool, "tools/broken.json", "{");
    let declared: Vec<_> = declared_settings(&sources).into_iter().map(|(id, settings)| (id.to_string(), settings)).collect();
    assert_eq!(declared, [("count".to_owned(), declaration("of the project").as_object().expect("an object").clone())]);
}
