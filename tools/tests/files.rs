//! Promises of the file tools, hostile input included.

mod support;

use std::fmt::Write as _;

use baton_tool::{PendingWrite, ToolContext, ToolErrorKind};
use serde_json::{Value, json};
use support::{call, output};

fn written(context: &ToolContext) -> Vec<PendingWrite> {
    context.take_effects().writes.into_iter().map(|(write, _)| write).collect()
}

#[test]
fn write_file_collects_the_content_with_its_facts() {
    let context = ToolContext::for_test().build();
    let input = json!({"path": "./a/b.csv", "content": "x,y\n1,2\n", "why_created": " For the chart. ", "tags": ["sales", " sales ", ""]});
    let answer = output(&context, "write_file", &input);
    assert_eq!(
        answer,
        json!({"path": "a/b.csv", "size_bytes": 8, "token_count": 2, "blocks_count": 2, "mime_type": "text/csv",
               "summary": "table of 1 row with columns x, y"})
    );
    let writes = written(&context);
    assert_eq!(writes.len(), 1);
    assert_eq!(&*writes[0].content, b"x,y\n1,2\n");
    assert_eq!(writes[0].description.as_deref(), Some("For the chart."));
    assert_eq!(writes[0].tags.as_deref(), Some(&["sales".to_owned()][..]));
}

#[test]
fn write_file_without_a_reason_keeps_the_description_there_is() {
    let context = ToolContext::for_test().with_document("a.md", "x").build();
    output(&context, "write_file", &json!({"path": "a.md", "content": "", "why_created": ""}));
    let writes = written(&context);
    assert_eq!((&writes[0].description, &writes[0].tags), (&None, &None));
}

#[test]
fn write_file_decodes_base64_only_when_asked() {
    let context = ToolContext::for_test().build();
    output(&context, "write_file", &json!({"path": "a.bin", "content": "AP8\n", "encoding": "base64"}));
    output(&context, "write_file", &json!({"path": "b.txt", "content": "data:text/plain;base64,AP8="}));
    let writes = written(&context);
    assert_eq!(&*writes[0].content, [0, 255]);
    assert_eq!(&*writes[1].content, b"data:text/plain;base64,AP8=");
    let error = call(&context, "write_file", &json!({"path": "c", "content": "~~~", "encoding": "base64"})).unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::InvalidInput);
    assert!(error.message.contains("not base64"), "{error}");
}

#[test]
fn write_file_keeps_a_given_media_type_or_refuses_it() {
    let context = ToolContext::for_test().build();
    let write = |path: &str, content: &str, mime_type: &str| {
        call(&context, "write_file", &json!({"path": path, "content": content, "mime_type": mime_type}))
    };
    for (path, content, kept) in
        [("a.txt", "import os\n", "text/x-python"), ("b", "a,b\n1,2\n", "text/csv"), ("c.md", "x", "application/octet-stream")]
    {
        assert_eq!(write(path, content, kept).unwrap()["mime_type"], kept);
    }
    for (content, refused, reason) in [
        ("# Report", "application/pdf", "mime_type is application/pdf, but the content does not begin like one"),
        ("# Report", "video/mp4", "mime_type is video/mp4, but the content is text"),
        ("%PDF-1.7", "text/plain", "but the content is application/pdf (PDF document)"),
        ("# Report", "markdown", "is not a media type"),
    ] {
        let error = write("d", content, refused).unwrap_err();
        assert_eq!(error.kind, ToolErrorKind::InvalidInput);
        assert!(error.message.contains(reason), "{refused}: {error}");
    }
    assert_eq!(write("e.md", "x", " ").unwrap()["mime_type"], "text/markdown", "an empty type is none");
    assert_eq!(written(&context).len(), 4);
}

#[test]
fn write_file_refuses_paths_that_leave_or_deceive() {
    let context = ToolContext::for_test().with_document("Report.md", "x").build();
    for path in ["../x", "/etc/passwd", "a\0b", "", "CON", "a/../../b", "report.md", "rep\u{200b}ort.md", &"a".repeat(5_000)] {
        let refused = call(&context, "write_file", &json!({"path": path, "content": "x"}));
        assert!(refused.is_err(), "{path:?}");
    }
    let many: Vec<String> = (0..33).map(|number| number.to_string()).collect();
    assert!(call(&context, "write_file", &json!({"path": "a", "content": "", "tags": many})).is_err());
    assert!(call(&context, "write_file", &json!({"path": "a", "content": "", "tag": "x"})).is_err());
    let silent = ToolContext::for_test().may_write(false).build();
    assert!(call(&silent, "write_file", &json!({"path": "a", "content": "x"})).is_err());
    assert!(written(&context).is_empty() && written(&silent).is_empty());
}

#[test]
fn edit_file_block_changes_one_block_and_keeps_the_type() {
    let context = ToolContext::for_test().with_described_document("notes", "one\r\ntwo", "mine", &["a"]).build();
    let input =
        json!({"path": "notes", "operation": "replace", "block_id": "1", "block_type": "line", "new_data": {"text": "zwei"}});
    assert_eq!(
        output(&context, "edit_file_block", &input),
        json!({"success": true, "operation": "replace", "block_id": "1", "blocks_count": 2})
    );
    let writes = written(&context);
    assert_eq!(&*writes[0].content, b"one\r\nzwei");
    assert_eq!(writes[0].mime_type.as_deref(), Some("text/plain"));
    assert_eq!((&writes[0].description, &writes[0].tags), (&None, &None), "what it is for stays as it was");
}

#[test]
fn edit_file_block_says_what_cannot_be_done_and_writes_nothing() {
    let context = ToolContext::for_test()
        .with_document("a.md", "# A\n")
        .with_document("a.json", "{")
        .with_document("a.bin", [0xff, 0xfe])
        .build();
    let cases = [
        (json!({"path": "b.md", "operation": "delete", "block_id": "0"}), "there is no document b.md"),
        (json!({"path": "../b", "operation": "delete", "block_id": "0"}), "cannot be a document path"),
        (json!({"path": "a.json", "operation": "delete", "block_id": "0"}), "not valid JSON"),
        (json!({"path": "a.bin", "operation": "delete", "block_id": "0"}), "not text"),
        (json!({"path": "a.md", "operation": "delete"}), "delete needs block_id"),
        (json!({"path": "a.md", "operation": "update", "block_id": "0"}), "update needs block_id and new_data"),
        (json!({"path": "a.md", "operation": "add", "new_data": {}}), "add needs block_type and new_data"),
        (json!({"path": "a.md", "operation": "replace", "block_id": "0"}), "replace needs block_id, block_type and new_data"),
        (json!({"path": "a.md", "operation": "delete", "block_id": "-1"}), "not a block id"),
        (json!({"path": "a.md", "operation": "delete", "block_id": "99999999999999999999"}), "not a block id"),
        (json!({"path": "a.md", "operation": "delete", "block_id": "18446744073709551615"}), "there is no block"),
        (json!({"path": "a.md", "operation": "delete", "block_id": "0", "position": 1}), "position is for add"),
        (json!({"path": "a.md", "operation": "add", "block_type": "row", "new_data": {"values": []}}), "has no row blocks"),
    ];
    for (input, reason) in cases {
        let answer = output(&context, "edit_file_block", &input);
        assert_eq!(answer["success"], false, "{input}");
        assert!(answer["error"].as_str().unwrap().contains(reason), "{input}: {answer}");
    }
    assert!(written(&context).is_empty());
}

#[test]
fn edit_file_block_sees_what_the_call_wrote_before_in_a_long_document() {
    let mut rows = String::new();
    for row in 0..50_000 {
        write!(rows, "{row},\"x{row}\"\r\n").expect("a text takes what is written");
    }
    let context = ToolContext::for_test().with_document("big.csv", format!("n,s\r\n{rows}")).build();
    let input = json!({"path": "big.csv", "operation": "update", "block_id": "40000", "new_data": {"values": {"s": "changed"}}});
    assert_eq!(output(&context, "edit_file_block", &input)["blocks_count"], 50_001);
    output(&context, "edit_file_block", &json!({"path": "big.csv", "operation": "delete", "block_id": "1"}));
    let writes = written(&context);
    assert_eq!(writes.len(), 1);
    let expected = format!("n,s\r\n{rows}").replace("39999,\"x39999\"", "39999,changed").replace("\n0,\"x0\"\r\n", "\n");
    assert!(*writes[0].content == *expected.as_bytes());
}

fn library() -> ToolContext {
    ToolContext::for_test()
        .with_described_document("reports/q3.md", "# Q3\n\nThe North grew.\n", "Findings", &["sales", "final"])
        .with_document("sales.csv", "region,units\nNorth,3\n")
        .with_document("chart.png", b"\x89PNG\r\n\x1a\n\0\0")
        .with_document("sales.csv", "region,units\nNORTH,4\n")
        .build()
}

fn paths(answer: &Value, key: &str) -> Vec<String> {
    answer[key].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn list_files_filters_by_every_given_condition() {
    let context = library();
    let listed = |input: Value| paths(&output(&context, "list_files", &input), "files");
    assert_eq!(listed(json!({})), ["chart.png", "reports/q3.md", "sales.csv"]);
    assert_eq!(listed(json!({"pattern": "*.md"})), ["reports/q3.md"]);
    assert_eq!(listed(json!({"pattern": "{sales,chart}.*"})), ["chart.png", "sales.csv"]);
    assert_eq!(listed(json!({"mime_type": "text/*"})), ["reports/q3.md", "sales.csv"]);
    assert_eq!(listed(json!({"mime_type": "image/png", "pattern": "*.csv"})), Vec::<String>::new());
    assert_eq!(listed(json!({"tags": ["draft", "final"]})), ["reports/q3.md"]);
    assert_eq!(listed(json!({"created_by": "job"})).len(), 3);
    assert_eq!(listed(json!({"created_by": "me"})), Vec::<String>::new());
    let limited = output(&context, "list_files", &json!({"limit": 1}));
    assert_eq!((limited["files"].as_array().unwrap().len(), &limited["total"]), (1, &json!(3)));
}

#[test]
fn list_files_tells_what_is_known_of_each() {
    let answer = output(&library(), "list_files", &json!({}));
    let files = answer["files"].as_array().unwrap();
    assert_eq!((&files[0]["doc_type"], &files[0]["blocks_count"]), (&json!("binary"), &json!(0)));
    assert_eq!((&files[1]["description"], &files[1]["tags"]), (&json!("Findings"), &json!(["sales", "final"])));
    assert_eq!(
        (&files[2]["doc_type"], &files[2]["blocks_count"], &files[2]["version"], &files[2]["created_by"]),
        (&json!("csv"), &json!(2), &json!(2), &json!("job"))
    );
}

#[test]
fn list_files_refuses_a_pattern_that_is_none() {
    for pattern in ["[", "{a", "a**[", &"{a,b}".repeat(1_000)] {
        let refused = call(&library(), "list_files", &json!({"pattern": pattern}));
        assert_eq!(refused.expect_err(pattern).kind, ToolErrorKind::InvalidInput);
    }
}

#[test]
fn search_documents_says_where_the_text_stands() {
    let context = library();
    let found = output(&context, "search_documents", &json!({"query": "north"}));
    assert_eq!(paths(&found, "matches"), ["reports/q3.md", "sales.csv"]);
    assert_eq!((&found["matches"][0]["line"], &found["matches"][0]["snippet"]), (&json!(3), &json!("The North grew.")));
    assert_eq!(found["matches"][1]["version"], 2);
    let tagged = output(&context, "search_documents", &json!({"query": "SALES"}));
    assert_eq!(tagged["matches"][0]["matched_in"], json!(["tags"]));
    let both = output(&context, "search_documents", &json!({"query": " q3 ", "limit": 1}));
    assert_eq!((&both["matches"][0]["matched_in"], &both["total"]), (&json!(["path", "summary", "content"]), &json!(1)));
    assert_eq!(output(&context, "search_documents", &json!({"query": "no such thing"})), json!({"matches": [], "total": 0}));
    assert!(call(&context, "search_documents", &json!({"query": " \n"})).is_err());
}

#[test]
fn search_documents_shows_several_places_of_a_document() {
    let long = (1..=9_000).map(|line| if line % 1_000 == 0 { "The North.\n" } else { "Nothing.\n" }).collect::<String>();
    let line = format!("{}{}", "north ".repeat(3), " x".repeat(400) + " north");
    let context = ToolContext::for_test().with_document("long.md", long).with_document("one.txt", line).build();
    let found = output(&context, "search_documents", &json!({"query": "north"}));
    let places = |at: usize| -> Vec<u64> {
        let snippets = found["matches"][at]["snippets"].as_array().unwrap();
        snippets.iter().map(|snippet| snippet["line"].as_u64().unwrap()).collect()
    };
    assert_eq!(paths(&found, "matches"), ["one.txt", "long.md"], "the summary of one.txt has the text too");
    assert_eq!((places(1), &found["matches"][1]["lines_matched"]), (vec![1_000, 2_000, 3_000, 4_000, 5_000], &json!(9)));
    assert_eq!(places(0), [1, 1], "a snippet may show several occurrences");
    let part = output(&context, "load_to_context", &json!({"path": "long.md", "from_line": 3_000, "to_line": 3_000}));
    assert_eq!(part["text"], "The North.\n");
    let all = output(&context, "search_documents", &json!({"query": "north", "snippets": 9}));
    assert_eq!(all["matches"][1]["snippets"].as_array().unwrap().len(), 9);
    let many: ToolContext = (0..60)
        .fold(ToolContext::for_test(), |context, number| context.with_document(&format!("{number}.md"), "north\n".repeat(50)))
        .build();
    let bounded = output(&many, "search_documents", &json!({"query": "north", "snippets": 50, "limit": 60}));
    let snippets = bounded["matches"].as_array().unwrap().iter().map(|found| found["snippets"].as_array().unwrap().len());
    assert_eq!(snippets.sum::<usize>(), 200 + 56, "one for each document beyond the bound");
}

#[test]
fn search_documents_shows_the_hit_in_a_long_line_of_any_script() {
    let line = format!("{} der Grüße GRÜSSE ṄŐŔŢĦ {}", "İß".repeat(5_000), "x".repeat(100_000));
    let context = ToolContext::for_test().with_document("a.txt", line).build();
    let found = output(&context, "search_documents", &json!({"query": "ṅőŕţħ"}));
    let snippet = found["matches"][0]["snippet"].as_str().unwrap();
    assert!(snippet.contains("ṄŐŔŢĦ") && snippet.chars().count() <= 201, "{snippet}");
}

#[test]
fn load_to_context_asks_for_the_newest_version_once() {
    let context = library();
    let loaded = output(&context, "load_to_context", &json!({"path": "sales.csv"}));
    assert_eq!(loaded, json!({"type": "document", "path": "sales.csv", "version": 2, "mime_type": "text/csv", "token_count": 6}));
    output(&context, "load_to_context", &json!({"path": "./sales.csv"}));
    let loads = context.take_effects().loads;
    assert_eq!(loads.iter().map(ToString::to_string).collect::<Vec<_>>(), ["sales.csv v2"]);
}

#[test]
fn load_to_context_numbers_blocks_and_names_what_there_is() {
    let context = library();
    let loaded = output(&context, "load_to_context", &json!({"path": "reports/q3.md", "with_blocks": true}));
    assert_eq!(loaded["blocks"][1], json!({"block_id": "1", "block_type": "paragraph", "preview": "The North grew."}));
    let image = output(&context, "load_to_context", &json!({"path": "chart.png", "with_blocks": true}));
    assert_eq!((&image["type"], image["error"].as_str().unwrap().contains("no blocks")), (&json!("document"), true));
    context.take_effects();
    let unknown = output(&context, "load_to_context", &json!({"path": "x.md"}));
    assert_eq!(unknown["error"], "there is no document x.md; the workspace holds chart.png, reports/q3.md, sales.csv");
    assert_eq!(output(&context, "load_to_context", &json!({"path": "../x"}))["type"], "error");
    assert!(context.take_effects().loads.is_empty());
}

#[test]
fn load_to_context_reads_parts_of_a_long_text() {
    let long = (1..=20_000).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n") + "\n";
    let line = "x".repeat(100_000);
    let context = ToolContext::for_test().with_document("long.txt", long.clone()).with_document("one.txt", line).build();
    let load = |input: Value| output(&context, "load_to_context", &input);
    let part = load(json!({"path": "long.txt", "from_line": 19_999}));
    assert_eq!((&part["text"], &part["last_line"]), (&json!("line 19999\nline 20000\n"), &json!(20_000)));
    let cut = load(json!({"path": "long.txt", "to_line": 19_000}));
    let shown = cut["text"].as_str().unwrap();
    assert!(cut["cut"] == true && shown.len() <= 32 << 10 && shown.ends_with(&format!("line {}\n", cut["last_line"])), "{cut}");
    let pages = load(json!({"path": "long.txt", "page": 1}))["pages_count"].as_u64().unwrap();
    let pages = (1..=pages).map(|page| load(json!({"path": "long.txt", "page": page}))["text"].as_str().unwrap().to_owned());
    assert_eq!(pages.collect::<String>(), long, "the pages are the whole text");
    assert_eq!(load(json!({"path": "one.txt", "page": 13}))["text"].as_str().unwrap().len(), 100_000 - 12 * (8 << 10));
    assert_eq!(load(json!({"path": "long.txt", "block_id": "2"}))["text"], "line 3");
    for (input, why) in [
        (json!({"path": "long.txt", "page": 0}), "has no page 0: its pages are 1 to"),
        (json!({"path": "long.txt", "from_line": 20_001}), "has 20000 lines, counted from 1"),
        (json!({"path": "long.txt", "block_id": "x"}), "has no block \"x\""),
    ] {
        let error = load(input)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(why), "{error}");
    }
    let effects = context.take_effects();
    let read: Vec<String> = effects.reads.iter().map(ToString::to_string).collect();
    assert_eq!((read, effects.loads.len()), (vec!["long.txt v1".to_owned(), "one.txt v1".to_owned()], 0));
}
