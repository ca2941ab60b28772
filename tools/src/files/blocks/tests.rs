//! Promises of the block view, kind by kind: blocks are found, and a change affects nothing else.

use serde_json::{Value, json};

use super::{BlockType, Change, DocType, blocks, edit};

const CSV: DocType = DocType::Csv(b',');

fn found(text: &str, doc_type: DocType) -> Vec<(&'static str, &str)> {
    blocks(text, doc_type).unwrap().into_iter().map(|block| (block.block_type.as_str(), &text[block.range])).collect()
}

fn data(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn update(id: usize, value: Value) -> Change {
    Change::Update { id, data: data(value) }
}

fn add(position: Option<usize>, block_type: BlockType, value: Value) -> Change {
    Change::Add { position, block_type, data: data(value) }
}

fn replace(id: usize, block_type: BlockType, value: Value) -> Change {
    Change::Replace { id, block_type, data: data(value) }
}

fn edited(text: &str, doc_type: DocType, change: Change) -> String {
    edit(text, doc_type, &change).map_or_else(|error| format!("refused: {error}"), |changed| changed.text)
}

fn refused(text: &str, doc_type: DocType, change: Change, because: &str) {
    let error = edit(text, doc_type, &change).expect_err("the change is refused").to_string();
    assert!(error.contains(because), "{error}");
}

#[test]
fn markdown_is_divided_as_a_reader_would() {
    let text = "---\ntitle: x\n---\n\n# One\nText\nmore.\n\n- a\n- b\n\n  deeper\n- c\n\nTitle\n=====\n1. x\n2. y\n\n***\n```rust\n\n# no heading\n```\n| a | b |\n|---|---|\n> quote\n#hash\n";
    assert_eq!(
        found(text, DocType::Markdown),
        [
            ("paragraph", "---\ntitle: x\n---"),
            ("heading", "# One"),
            ("paragraph", "Text\nmore."),
            ("list", "- a\n- b\n\n  deeper\n- c"),
            ("heading", "Title\n====="),
            ("list", "1. x\n2. y"),
            ("paragraph", "***"),
            ("code", "```rust\n\n# no heading\n```"),
            ("paragraph", "| a | b |\n|---|---|\n> quote\n#hash"),
        ]
    );
    assert_eq!(found("```\nnever closed\n\n", DocType::Markdown), [("code", "```\nnever closed\n")]);
    assert!(found(" \n\t\n", DocType::Markdown).is_empty());
}

#[test]
fn a_change_in_markdown_keeps_every_other_byte() {
    let text = "# One  \r\n\r\n\r\nText.\r\nMore.\r\n\r\n* a\r\n* b";
    let changed = |change| edited(text, DocType::Markdown, change);
    assert_eq!(changed(update(1, json!({"text": "New\nlines."}))), "# One  \r\n\r\n\r\nNew\r\nlines.\r\n\r\n* a\r\n* b");
    assert_eq!(changed(update(0, json!({"text": "Two"}))), "# Two\r\n\r\n\r\nText.\r\nMore.\r\n\r\n* a\r\n* b");
    assert_eq!(changed(update(0, json!({"level": 3}))), "### One\r\n\r\n\r\nText.\r\nMore.\r\n\r\n* a\r\n* b");
    assert_eq!(
        changed(add(None, BlockType::Code, json!({"text": "let ``` = 1;\n", "language": "rust"}))),
        format!("{text}\r\n\r\n````rust\r\nlet ``` = 1;\r\n````")
    );
    assert_eq!(
        changed(add(Some(1), BlockType::List, json!({"items": ["x\ny", "z"], "ordered": true}))),
        "# One  \r\n\r\n\r\n1. x\r\n   y\r\n2. z\r\n\r\nText.\r\nMore.\r\n\r\n* a\r\n* b"
    );
    assert_eq!(changed(Change::Delete { id: 1 }), "# One  \r\n\r\n\r\n* a\r\n* b");
    assert_eq!(changed(Change::Delete { id: 2 }), "# One  \r\n\r\n\r\nText.\r\nMore.");
    assert_eq!(edited("", DocType::Markdown, add(None, BlockType::Heading, json!({"text": "A", "level": 2}))), "## A\n");
    assert_eq!(edited("a\n", DocType::Markdown, add(None, BlockType::Paragraph, json!({"text": "b"}))), "a\n\nb\n");
    assert_eq!(edited("only\n", DocType::Markdown, Change::Delete { id: 0 }), "\n");
}

#[test]
fn blank_lines_keep_blocks_apart_where_they_would_join() {
    let text = "# One\ntext\n## Two\nmore\n";
    assert_eq!(
        edited(text, DocType::Markdown, replace(0, BlockType::Paragraph, json!({"text": "p"}))),
        "p\n\ntext\n## Two\nmore\n"
    );
    assert_eq!(edited(text, DocType::Markdown, Change::Delete { id: 2 }), "# One\ntext\n\nmore\n");
    refused("- a\n\ntext\n\n- b\n", DocType::Markdown, Change::Delete { id: 1 }, "join or split");
    refused("```\nopen\n", DocType::Markdown, add(None, BlockType::Paragraph, json!({"text": "x"})), "join or split");
}

#[test]
fn a_markdown_block_is_one_block_of_its_type() {
    let text = "# One\n\ntext\n";
    let markdown = |change, because| refused(text, DocType::Markdown, change, because);
    markdown(update(1, json!({"text": "a\n\nb"})), "paragraph, paragraph instead of one paragraph");
    markdown(update(1, json!({"text": "# a"})), "heading instead of one paragraph");
    markdown(update(1, json!({"text": " \n"})), "must hold the text of the paragraph");
    markdown(update(0, json!({"text": "a\nb"})), "no line break");
    markdown(update(0, json!({"level": 7})), "from 1 to 6");
    markdown(update(0, json!({"level": "2"})), "from 1 to 6");
    markdown(update(0, json!({"txt": "x"})), "unknown key \"txt\"; a heading has text and level");
    markdown(add(None, BlockType::Row, json!({"values": []})), "a markdown document has no row blocks");
    markdown(add(None, BlockType::List, json!({"items": []})), "at least one item");
    markdown(add(None, BlockType::List, json!({"items": [1]})), "a text, not a number");
    markdown(Change::Delete { id: 2 }, "there is no block 2; the blocks are 0 to 1");
    markdown(add(Some(3), BlockType::Paragraph, json!({"text": "x"})), "0 to 2");
}

#[test]
fn a_list_is_read_and_written_item_by_item() {
    let text = "1) first\n   more\n2) second\n   - nested\n";
    let changed = edited(text, DocType::Markdown, update(0, json!({"ordered": false})));
    assert_eq!(changed, "- first\n  more\n- second\n  - nested\n");
}

#[test]
fn a_change_in_a_table_keeps_quotes_endings_and_blank_lines() {
    let text = "\u{feff}region,\"unit, price\"\r\n\r\n\"North\",3\r\nSouth,\"1\"\r\n";
    let changed = |change| edited(text, CSV, change);
    assert_eq!(found(text, CSV), [("header", "region,\"unit, price\""), ("row", "\"North\",3"), ("row", "South,\"1\"")]);
    assert_eq!(changed(update(2, json!({"values": {"unit, price": 2}}))), text.replace("\"1\"", "2"));
    assert_eq!(
        changed(update(1, json!({"values": {"1": "a \"b\", c", "region": "North"}}))),
        text.replace(",3", ",\"a \"\"b\"\", c\"")
    );
    assert_eq!(changed(update(0, json!({"columns": {"0": "area"}}))), text.replace("region", "area"));
    assert_eq!(changed(add(None, BlockType::Row, json!({"values": ["East", null]}))), format!("{text}East,\r\n"));
    assert_eq!(
        changed(add(Some(1), BlockType::Row, json!({"values": {"region": true}}))),
        text.replace("\"North\"", "true,\r\n\"North\"")
    );
    assert_eq!(changed(Change::Delete { id: 1 }), text.replace("\"North\",3\r\n", ""));
    assert_eq!(edited("a\n1", CSV, Change::Delete { id: 1 }), "a");
    assert_eq!(edited("a\n1", CSV, add(None, BlockType::Row, json!({"values": [""]}))), "a\n1\n\"\"");
    assert_eq!(edited("", CSV, add(None, BlockType::Header, json!({"columns": ["a", "b"]}))), "a,b\n");
    assert_eq!(edited("a\tb\n1\t2\n", DocType::Csv(b'\t'), update(1, json!({"values": {"b": "x\ty"}}))), "a\tb\n1\t\"x\ty\"\n");
}

#[test]
fn a_table_stays_a_table() {
    let text = "region,units\nNorth,3\n";
    let table = |change, because| refused(text, CSV, change, because);
    table(add(Some(0), BlockType::Row, json!({"values": ["x", "y"]})), "position 0 is the header's");
    table(add(None, BlockType::Header, json!({"columns": ["x"]})), "one header");
    table(add(None, BlockType::Row, json!({"values": ["x"]})), "1 values, but the table has 2 columns");
    table(update(1, json!({"values": {"unit": 1}})), "no column \"unit\"; the columns are region, units");
    table(update(1, json!({"values": {"9": 1}})), "no column \"9\"");
    table(update(1, json!({"values": {"units": 1, "1": 2}})), "given twice");
    table(update(1, json!({"values": {"units": [1]}})), "not a list");
    table(update(1, json!({"values": "x"})), "must be a list or an object");
    table(update(1, json!({})), "must hold values");
    table(update(0, json!({"columns": ["a", "b", "c"]})), "the header has 2 columns");
    table(replace(0, BlockType::Row, json!({"values": ["x", "y"]})), "block 0 is the header");
    table(replace(1, BlockType::Line, json!({"text": "x"})), "it has a header and rows");
    table(Change::Delete { id: 0 }, "first row would become the header");
    refused("", CSV, add(None, BlockType::Row, json!({"values": ["x"]})), "block 0 is the header");
}

#[test]
fn a_change_in_json_keeps_numbers_order_and_layout() {
    let text = "{\r\n\t\"b\" : 1.50,\r\n\t\"a\": [1,  2],\r\n\t\"c\": {\"x\": null}\r\n}\r\n";
    let changed = |change| edited(text, DocType::Json, change);
    assert_eq!(
        found(text, DocType::Json),
        [("value", "\"b\" : 1.50"), ("array", "\"a\": [1,  2]"), ("object", "\"c\": {\"x\": null}")]
    );
    assert_eq!(changed(update(1, json!({"value": "q\"\n"}))), text.replace("[1,  2]", "\"q\\\"\\n\""));
    assert_eq!(changed(update(0, json!({"key": "z"}))), text.replace("\"b\"", "\"z\""));
    assert_eq!(changed(update(2, json!({"value": {"y": 1}}))), text.replace("{\"x\": null}", "{\r\n\t\t\"y\": 1\r\n\t}"));
    assert_eq!(
        changed(add(Some(1), BlockType::Value, json!({"key": "n", "value": true}))),
        text.replace("\"a\"", "\"n\": true,\r\n\t\"a\"")
    );
    assert_eq!(
        changed(add(None, BlockType::Value, json!({"key": "n", "value": 0}))),
        text.replace("null}", "null},\r\n\t\"n\": 0")
    );
    assert_eq!(changed(Change::Delete { id: 0 }), text.replace("\"b\" : 1.50,\r\n\t", ""));
    assert_eq!(changed(Change::Delete { id: 2 }), text.replace(",\r\n\t\"c\": {\"x\": null}", ""));
    assert_eq!(edited("[1,\"]\",{\"a\":[2]}]", DocType::Json, update(1, json!({"value": 5}))), "[1,5,{\"a\":[2]}]");
    assert_eq!(edited("[1,2]", DocType::Json, add(Some(1), BlockType::Value, json!({"value": 9}))), "[1,9,2]");
    assert_eq!(
        edited("{\"a\":1}", DocType::Json, add(None, BlockType::Value, json!({"key": "b", "value": 2}))),
        "{\"a\":1, \"b\":2}"
    );
    assert_eq!(edited("{ }", DocType::Json, add(None, BlockType::Value, json!({"key": "a", "value": 1}))), "{\"a\": 1 }");
    assert_eq!(edited("[ 1 ]\n", DocType::Json, Change::Delete { id: 0 }), "[]\n");
    assert_eq!(edited("1e2", DocType::Json, update(0, json!({"value": 2}))), "2");
}

#[test]
fn json_stays_json() {
    let text = "{\"a\": 1, \"a\": 2, \"b\": \"\\ud800\"}";
    let json = |change, because| refused(text, DocType::Json, change, because);
    assert_eq!(found("[{\"a\":1},{\"a\":1}]", DocType::Json).len(), 2);
    json(add(None, BlockType::Value, json!({"key": "b", "value": 1})), "already an entry \"b\"");
    json(add(None, BlockType::Value, json!({"value": 1})), "must hold the key");
    json(add(None, BlockType::Object, json!({"key": "c", "value": 1})), "of block_type value, not object");
    json(update(0, json!({"key": "b"})), "already an entry");
    json(update(0, json!({})), "must hold the value");
    json(replace(0, BlockType::Line, json!({"text": ""})), "values, objects and arrays");
    refused("[1]", DocType::Json, update(0, json!({"key": "a"})), "have no keys");
    refused("7", DocType::Json, Change::Delete { id: 0 }, "one value");
    refused("7", DocType::Json, add(None, BlockType::Value, json!({"value": 1})), "nothing to add to");
    for broken in ["", "{", "{\"a\":1,}", "[1] 2", &"[".repeat(100_000)] {
        refused(broken, DocType::Json, update(0, json!({"value": 1})), "not valid JSON");
    }
}

#[test]
fn a_change_of_a_line_keeps_endings() {
    let text = "a\r\n\nb";
    assert_eq!(found(text, DocType::Text), [("line", "a"), ("line", ""), ("line", "b")]);
    let changed = |change| edited(text, DocType::Text, change);
    assert_eq!(changed(update(1, json!({"text": "x"}))), "a\r\nx\nb");
    assert_eq!(changed(add(Some(0), BlockType::Line, json!({"text": ""}))), "\r\na\r\n\nb");
    assert_eq!(changed(add(None, BlockType::Line, json!({"text": "c"}))), "a\r\n\nb\r\nc");
    assert_eq!(changed(Change::Delete { id: 0 }), "\nb");
    assert_eq!(changed(Change::Delete { id: 2 }), "a\r\n\n");
    assert_eq!(edited("a\nb", DocType::Text, Change::Delete { id: 1 }), "a");
    assert_eq!(edited("a", DocType::Text, add(None, BlockType::Line, json!({"text": ""}))), "a\n\n");
    assert_eq!(edited("x\n", DocType::Text, Change::Delete { id: 0 }), "");
    refused(text, DocType::Text, update(0, json!({"text": "x\ny"})), "no line break");
    refused(text, DocType::Text, add(None, BlockType::Heading, json!({"text": "x"})), "it has lines");
}

/// Every block of odd texts can be deleted or refused, and what is kept is kept byte by byte.
#[test]
fn whatever_is_deleted_or_updated_the_rest_survives() {
    let parts = [
        "# h\n",
        "text\n",
        "\n",
        "- a\n",
        "  b\n",
        "1. x\r\n",
        "```\n",
        "---\n",
        "a,\"b\n\"\n",
        "\u{feff}",
        "é\u{301}\t",
        "===\n",
        "\"",
        ",",
        "[1]",
        "{}",
    ];
    let mut seed = 1_u32;
    for _ in 0..3_000 {
        let mut text = String::new();
        for _ in 0..6 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(parts[(seed >> 16) as usize % parts.len()]);
        }
        for doc_type in [DocType::Markdown, CSV, DocType::Text, DocType::Json] {
            let Ok(before) = blocks(&text, doc_type) else { continue };
            assert!(before.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start), "{text:?}");
            for (id, block) in before.iter().enumerate() {
                for change in [Change::Delete { id }, update(id, json!({"text": "new"})), update(id, json!({"value": 1}))] {
                    let Ok(changed) = edit(&text, doc_type, &change) else { continue };
                    // What `edit` itself checks block by block, here by bytes.
                    let front = &text[..id.checked_sub(1).map_or(0, |previous| before[previous].range.end)];
                    let back = before.get(id + 1).map_or("", |next| &text[next.range.start..]);
                    assert!(changed.text.starts_with(front) && changed.text.ends_with(back), "{text:?} {change:?} {block:?}");
                }
            }
        }
    }
}
