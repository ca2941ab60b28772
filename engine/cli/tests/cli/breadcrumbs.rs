//! `baton breadcrumb`: records that outlive runs.

use serde_json::{Value, json};

use crate::support::{Folder, Ran};

/// The compact catalog of seed 001, as the hints of its definition make it.
const SEED_TEMPLATE: &str = "=== TOOLS ({{activeTools}} available) ===\n\n{{#each tools}}• {{name}}: {{description}} → {{#if outputSchema.properties}}{{#each outputSchema.properties}}{{@key}}{{#unless @last}}, {{/unless}}{{/each}}{{else}}object{{/if}}\n{{/each}}\n\nINVOCATION: See \"Tool Invocation Format\" in your system prompt above.\nALL details for inputs, outputs, examples, and error handling are in the standard.";

/// Returns the file `tool-catalog-v1.json` of seed 001.
fn seed_definition() -> Value {
    json!({
        "schema_name": "schema.def.v1",
        "title": "Tool Catalog Schema Definition",
        "tags": ["schema:definition", "system:bootstrap", "defines:tool.catalog.v1"],
        "context": {"defines_schema": "tool.catalog.v1", "category": "tools"},
        "llm_hints": {
            "transform": {"formatted": {"type": "template", "template": SEED_TEMPLATE}},
            "exclude": [
                "tools[*].inputSchema", "tools[*].examples", "tools[*].capabilities", "tools[*].lastSeen", "tools[*].version",
                "tools[*].status", "workspace", "totalTools", "lastUpdated", "llm_hints"
            ],
            "mode": "replace"
        }
    })
}

fn crumb(folder: &Folder, arguments: &[&str]) -> Ran {
    folder.baton(&[&["breadcrumb"], arguments].concat())
}

fn json_of(folder: &Folder, arguments: &[&str]) -> Value {
    crumb(folder, &[arguments, &["--output", "json"]].concat()).exits(0).json()
}

/// Creates a record and returns its id.
fn created(folder: &Folder, arguments: &[&str]) -> String {
    json_of(folder, &[&["create"], arguments].concat())["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_record_is_created_changed_shown_and_judged() {
    let folder = Folder::new();
    let id = created(
        &folder,
        &["--title", "Prices", "--context", r#"{"beans": 4, "rice": {"kg": 2}}"#, "--tag", "draft", "--schema", "price.list.v1"],
    );
    crumb(&folder, &["update", &id, "--if-version", "1", "--merge", r#"{"rice": {"g": 5}}"#, "--add-tag", "q3"])
        .exits(0)
        .says("version 2");
    crumb(&folder, &["update", &id, "--if-version", "1", "--title", "Late"]).exits(1).tells("version_mismatch");
    crumb(&folder, &["approve", &id, "--reason", "checked"]).exits(0).says("version 3");
    let shown = json_of(&folder, &["show", &id]);
    assert_eq!(shown["context"], json!({"beans": 4, "rice": {"kg": 2, "g": 5}}));
    assert_eq!((&shown["version"], &shown["tags"]), (&json!(3), &json!(["approved", "q3", "validated"])));
    assert!(shown.get("owner").is_none() && shown.get("checksum").is_none(), "models see neither");
    let full = json_of(&folder, &["show", &id, "--full"]);
    assert_eq!((&full["visibility"], &full["sensitivity"], &full["ttl_type"]), (&json!("team"), &json!("low"), &json!("never")));
    assert_eq!((&full["read_count"], &full["size_bytes"]), (&json!(1), &json!(33)));
    crumb(&folder, &["reject", &id]).exits(0);
    let history = json_of(&folder, &["history", &id]);
    let versions: Vec<_> = history.as_array().unwrap().iter().map(|version| (&version["version"], &version["verdict"])).collect();
    let judged = |approved: bool, reason: Option<&str>| match reason {
        Some(reason) => json!({"approved": approved, "reason": reason}),
        None => json!({"approved": approved}),
    };
    let (approved, rejected) = (judged(true, Some("checked")), judged(false, None));
    assert_eq!(versions, [(&json!(4), &rejected), (&json!(3), &approved), (&json!(2), &Value::Null), (&json!(1), &Value::Null)]);
    crumb(&folder, &["history", &id]).exits(0).says("approved: checked");
    // The beginning of an id is enough where it is the only one.
    crumb(&folder, &["show", &id[..8]]).exits(0).says("Prices");
    crumb(&folder, &["show", "zzz"]).exits(6).tells("there is no breadcrumb zzz");
}

#[test]
fn a_key_makes_a_creation_repeatable() {
    let folder = Folder::new();
    let arguments = ["create", "--title", "Once", "--key", "k1"];
    let first = json_of(&folder, &arguments);
    let again = json_of(&folder, &arguments);
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    assert_eq!(first["id"], again["id"]);
    crumb(&folder, &["create", "--title", "Other", "--key", "k1"]).exits(1).tells("belongs to another write");
}

#[test]
fn records_are_found_by_words_tags_and_schema() {
    let folder = Folder::new();
    crumb(&folder, &["search", "beans"]).exits(0);
    assert!(!folder.path().join(".baton").exists(), "a search creates no store");
    created(&folder, &["--title", "Prices of beans", "--tag", "sales"]);
    created(&folder, &["--title", "Menu", "--context", r#"{"text": "rice and beans"}"#, "--schema", "menu.v1"]);
    let titles = |arguments: &[&str]| -> Vec<String> {
        let found = json_of(&folder, &[&["search"], arguments].concat());
        found["breadcrumbs"].as_array().unwrap().iter().map(|found| found["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles(&["beans"]), ["Prices of beans", "Menu"]);
    assert_eq!(titles(&["beans", "--tag", "sales"]), ["Prices of beans"]);
    assert_eq!(titles(&["--schema", "menu.v1"]), ["Menu"]);
    assert_eq!(json_of(&folder, &["search", "beans", "--limit", "1"])["total"], json!(2));
    assert_eq!(json_of(&folder, &["search", "beans"])["method"], json!("fulltext"));
    assert_eq!(json_of(&folder, &["search", "--tag", "sales"])["method"], json!("filter"));
    crumb(&folder, &["search", "beans"]).exits(0).says("Prices of beans");
    folder.baton(&["verify"]).exits(0).says("2 breadcrumbs");
}

#[test]
fn a_secret_record_is_shown_to_its_person_alone() {
    let folder = Folder::new();
    let id = created(&folder, &["--title", "Key", "--context", r#""s3cret""#, "--sensitivity", "secret"]);
    crumb(&folder, &["show", &id]).exits(1).tells("no model reads it");
    crumb(&folder, &["show", &id, "--full"]).exits(0).says("s3cret");
}

#[test]
fn wrong_records_are_refused_with_the_cure() {
    let folder = Folder::new();
    for (arguments, reason) in [
        (
            &["create", "--title", "x", "--context", r#"{"n": 1e400}"#][..],
            "the context cannot be used: the number 1e400 is out of range",
        ),
        (&["create", "--title", "x", "--context", "{"], "the context is not JSON"),
        (&["create", "--title", " "], "title: it is empty"),
        (&["create", "--title", "x", "--tag", "two words"], "white space"),
        (&["create", "--title", "x", "--tag", "a\u{200b}"], "invisible character"),
        (&["create", "--title", "x", "--tag", "\u{202e}a"], "invisible character"),
        (&["create", "--title", "x", "--ttl", "tomorrow"], "expected a moment"),
        (&["create", "--title", "x", "--ttl-days", "0"], "expected minutes, hours or days above 0"),
        (&["create", "--title", "x", "--visibility", "internal"], "possible values"),
    ] {
        crumb(&folder, arguments).exits(2).tells(reason);
    }
    let id = created(&folder, &["--title", "x"]);
    crumb(&folder, &["update", &id]).exits(2).tells("nothing is to be changed");
    let lost = r#"{"n": "\ud800"}"#;
    crumb(&folder, &["update", &id, "--merge", lost])
        .exits(2)
        .tells("the values for the context cannot be used: half a surrogate pair");
    assert_eq!(json_of(&folder, &["show", &id, "--full"])["version"], json!(1));
    crumb(&folder, &["update", &id, "--merge", "[]"]).exits(2).tells("expected an object to merge");
}

#[test]
fn a_folder_is_imported_as_often_as_one_likes() {
    let folder = Folder::new();
    folder.write("boot/schemas/catalog.json", seed_definition().to_string());
    let note = |text: &str| {
        json!({"schema_name": "note.v1", "title": "Welcome", "tags": ["start"], "context": {"text": text}}).to_string()
    };
    folder.write("boot/note.json", note("one"));
    let code = json!({"schema_name": "tool.code.v1", "title": "counter", "context": {"name": "counter", "code": {"language": "typescript", "source": "export async function execute() {}"}}});
    folder.write("boot/tools/counter.json", code.to_string());
    folder.write("boot/README.md", "no record");
    let statuses = || -> Vec<String> {
        let listed = json_of(&folder, &["import", "boot"]);
        listed.as_array().unwrap().iter().map(|record| record["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(), ["created", "created", "created"]);
    assert_eq!(statuses(), ["unchanged", "unchanged", "unchanged"]);
    folder.write("boot/note.json", note("two"));
    assert_eq!(statuses(), ["updated", "unchanged", "unchanged"]);
    crumb(&folder, &["import", "boot"]).exits(0).tells("its code does not run");
    let found = json_of(&folder, &["search", "--schema", "note.v1"]);
    assert_eq!((&found["total"], &found["breadcrumbs"][0]["version"]), (&json!(1), &json!(2)));
}

#[test]
fn an_import_leaves_alone_what_did_not_change_in_the_folder() {
    let folder = Folder::new();
    let note = |text: &str| json!({"schema_name": "note.v1", "title": "Welcome", "tags": ["start"], "description": "Greets", "context": {"text": text}});
    folder.write("boot/note.json", note("one").to_string());
    let import = |arguments: &[&str], code: i32| {
        let ran = crumb(&folder, &[&["import", "boot", "--output", "json"], arguments].concat()).exits(code);
        let listed = ran.json();
        (listed[0]["status"].as_str().unwrap().to_owned(), ran)
    };
    import(&[], 0);
    let id = json_of(&folder, &["search", "--schema", "note.v1"])["breadcrumbs"][0]["id"].as_str().unwrap().to_owned();
    crumb(&folder, &["update", &id, "--merge", r#"{"text": "mine"}"#, "--add-tag", "kept"]).exits(0);
    assert_eq!(import(&[], 0).0, "unchanged", "the file is as it was imported");
    let full = || json_of(&folder, &["show", &id, "--full"]);
    assert_eq!((&full()["version"], &full()["context"]), (&json!(2), &json!({"text": "mine"})));
    // Both have changed.
    folder.write("boot/note.json", note("two").to_string());
    let (status, ran) = import(&[], 1);
    assert_eq!(status, "conflict");
    ran.tells("note.json: conflict: the file and its record were both changed").tells("--replace");
    assert_eq!(full()["context"], json!({"text": "mine"}));
    crumb(&folder, &["approve", &id]).exits(0);
    assert_eq!(import(&["--replace"], 0).0, "updated");
    assert_eq!(full()["context"], json!({"text": "two"}));
    assert_eq!(full()["tags"], json!(["kept", "start"]), "tags stay, but the approval was for other content");
    // A verdict and tags are no changes of the content. A field that is missing in the file now is removed.
    crumb(&folder, &["approve", &id]).exits(0);
    let mut bare = note("three");
    bare.as_object_mut().unwrap().remove("description");
    folder.write("boot/note.json", bare.to_string());
    assert_eq!(import(&[], 0).0, "updated");
    assert_eq!((&full()["description"], &full()["tags"]), (&Value::Null, &json!(["kept", "start"])));
    // Back to an earlier content, which is a change too.
    folder.write("boot/note.json", note("two").to_string());
    assert_eq!(import(&[], 0).0, "updated");
    assert_eq!(import(&[], 0).0, "unchanged");
    folder.baton(&["verify"]).exits(0).says("1 breadcrumb");
}

#[test]
fn hints_that_cannot_be_followed_are_a_warning_of_the_write() {
    let folder = Folder::new();
    let bad = r#"{"transform": {"x": {"type": "template", "template": "{{#each a}}"}}}"#;
    crumb(&folder, &["create", "--title", "x", "--hints", bad])
        .exits(0)
        .tells("warning: llm_hints were not followed: transform.x");
    let id = created(&folder, &["--title", "y", "--hints", r#"{"exclude": ["a"]}"#]);
    let warned = json_of(&folder, &["update", &id, "--hints", r#"{"exclude": ["a["]}"#]);
    assert!(warned["warning"].as_str().unwrap().contains("the path \"a[\" cannot be read"), "{warned}");
    assert_eq!(json_of(&folder, &["update", &id, "--hints", "null", "--description", ""])["warning"], Value::Null);
    let mut definition = seed_definition();
    folder.write("boot/catalog.json", definition.to_string());
    assert_eq!(json_of(&folder, &["import", "boot"])[0]["notes"], json!([]), "its template is for other contexts");
    definition["llm_hints"]["transform"]["formatted"]["template"] = json!("{% for x in %}");
    folder.write("boot/catalog.json", definition.to_string());
    let noted = json_of(&folder, &["import", "boot"]);
    assert!(noted[0]["notes"][0].as_str().unwrap().contains("transform.formatted"), "{noted}");
}

#[test]
fn a_verdict_names_its_version_and_its_tags_come_with_it_alone() {
    let folder = Folder::new();
    let id = created(&folder, &["--title", "x"]);
    crumb(&folder, &["update", &id, "--merge", r#"{"a": 1}"#]).exits(0);
    crumb(&folder, &["approve", &id, "--if-version", "1"]).exits(1).tells("version_mismatch");
    crumb(&folder, &["approve", &id, "--if-version", "2"]).exits(0).says("version 3");
    for tag in ["approved", "Validated", "rejected"] {
        crumb(&folder, &["create", "--title", "y", "--tag", tag]).exits(1).tells("comes with a verdict");
        crumb(&folder, &["update", &id, "--add-tag", tag, "--title", "z"]).exits(i32::from(tag != "approved"));
    }
}

#[test]
fn all_faults_of_a_folder_are_reported_and_nothing_of_it_is_written() {
    let folder = Folder::new();
    folder.write("boot/a.json", r#"{"title": "good"}"#);
    folder.write("boot/b.json", r#"{"titel": "bad"}"#);
    folder.write("boot/c.json", "{");
    folder.write("boot/d.json", r#"{"title": "good"}"#);
    folder.write("boot/e.json", r#"["a list"]"#);
    folder.write("boot/f.json", r#"{"title": "x", "context": {"n": 1e400}}"#);
    folder.write("boot/g.json", r#"{"title": "y", "context": {"n": 1, "n": 2}}"#);
    let ran = crumb(&folder, &["import", "boot"]).exits(2);
    ran.tells("b.json: unknown field `titel`")
        .tells("c.json: EOF")
        .tells("d.json: ")
        .tells("e.json: a record is an object")
        .tells("f.json: the number 1e400 is out of range")
        .tells("g.json: the key \"n\" occurs twice");
    assert!(!folder.path().join(".baton").exists());
    crumb(&folder, &["import", "absent"]).exits(6);
    folder.write("empty/x.txt", "");
    crumb(&folder, &["import", "empty"]).exits(2).tells("has no JSON files");
}

#[test]
fn the_catalog_of_tools_is_a_derived_record() {
    let folder = Folder::new();
    crumb(&folder, &["show", "tool.catalog.v1"]).exits(0).says("=== TOOLS (").says("• calculator: ");
    let full = json_of(&folder, &["show", "tool.catalog.v1", "--full"]);
    assert_eq!(full["schema_name"], json!("tool.catalog.v1"));
    // The hint of the seed's definition renders the same record.
    folder.write("boot/catalog.json", seed_definition().to_string());
    crumb(&folder, &["import", "boot"]).exits(0);
    let seen = json_of(&folder, &["show", "tool.catalog.v1"]);
    let text = seen["context"]["formatted"].as_str().unwrap();
    assert!(text.starts_with("=== TOOLS (") && text.contains(" available) ===\n\n• "), "{text}");
    assert!(text.contains("→ result, expression, formatted\n") && !text.contains("inputSchema"), "{text}");
    assert!(text.contains("\n\nINVOCATION: See \"Tool Invocation Format\""), "{text}");
}

#[test]
fn the_hint_of_the_seed_renders_the_catalog_of_the_seed() {
    let folder = Folder::new();
    folder.write("boot/catalog.json", seed_definition().to_string());
    crumb(&folder, &["import", "boot"]).exits(0);
    let outputs = |names: &[&str]| json!({"properties": names.iter().map(|name| ((*name).to_owned(), json!({}))).collect::<serde_json::Map<_, _>>()});
    let context = json!({"activeTools": 3, "totalTools": 9, "tools": [
        {"name": "calculator", "description": "Math operations", "inputSchema": {"x": 1}, "outputSchema": outputs(&["result", "expression", "formatted"])},
        {"name": "echo", "description": "Echo input", "outputSchema": outputs(&["echo"])},
        {"name": "raw", "description": "Anything", "examples": [1]},
    ]});
    let id = created(&folder, &["--title", "Catalog", "--schema", "tool.catalog.v1", "--context", &context.to_string()]);
    let expected = "=== TOOLS (3 available) ===\n\n• calculator: Math operations → result, expression, formatted\n\
                    • echo: Echo input → echo\n• raw: Anything → object\n\nINVOCATION: See \"Tool Invocation Format\" in your system prompt above.\n\
                    ALL details for inputs, outputs, examples, and error handling are in the standard.";
    assert_eq!(json_of(&folder, &["show", &id])["context"], json!({"formatted": expected}));
    // Hints of the record itself come first, and a bad one leaves the context as it is.
    crumb(
        &folder,
        &["update", &id, "--hints", r#"{"exclude": ["tools"], "transform": {"x": {"type": "template", "template": "{{#each"}}}"#],
    )
    .exits(0);
    crumb(&folder, &["show", &id]).exits(0).tells("llm_hints were not followed").says("totalTools");
}
