//! The facts of contents: formats, media types and summaries.

use baton_tool::measure::{is_told_by_words, measure, summary_of};
use baton_types::path::DocumentPath;

fn path(text: &str) -> DocumentPath {
    DocumentPath::parse(text).unwrap()
}

fn summary(text: &str, content: &[u8]) -> String {
    measure(&path(text), content, None).summary
}

fn mime_type(text: &str, content: &[u8], declared: Option<&str>) -> String {
    measure(&path(text), content, declared).mime_type
}

#[test]
fn a_format_is_told_by_its_first_bytes_and_by_nothing_less() {
    assert_eq!(mime_type("a", b"RIFF\0\0\0\0WEBP", None), "image/webp");
    assert_eq!(mime_type("a", b"RIFF\0\0\0\0WAVE", None), "text/plain");
    assert_eq!(mime_type("a", b"xIFF\0\0\0\0WEBP", None), "text/plain");
    assert_eq!(mime_type("a", b"RIFF\0\0\0\0WEB", None), "text/plain");
    assert_eq!(mime_type("a.docx", b"%PDF-1.7", None), "application/pdf", "only archives are refined by their extension");
    assert_eq!(mime_type("a.png", b"PK\x03\x04", None), "application/zip", "and only by that of an archive");
}

#[test]
fn bytes_decide_whether_an_extension_can_be_right() {
    let binary = b"\xff\xfe\0\x01";
    for (name, expected) in [
        ("a.svg", "application/octet-stream"),
        ("a.mp3", "audio/mpeg"),
        ("a.json", "application/octet-stream"),
        ("a.wasm", "application/wasm"),
        ("a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.xls", "application/vnd.ms-excel"),
        ("a.bmp", "image/bmp"),
    ] {
        assert_eq!(mime_type(name, binary, None), expected, "{name}");
    }
    for (name, expected) in
        [("a.svg", "image/svg+xml"), ("a.bmp", "text/plain"), ("a.xls", "text/plain"), ("a.xlsx", "text/plain")]
    {
        assert_eq!(mime_type(name, b"text", None), expected, "{name}");
    }
}

#[test]
fn a_declared_type_must_have_the_form_of_one() {
    let text = |declared: &str| mime_type("a", b"text", Some(declared));
    assert_eq!(text("text/markdown"), "text/markdown");
    assert_eq!(text("Text/Markdown; charset=utf-8 "), "text/markdown; charset=utf-8");
    assert_eq!(text("application/vnd.a-b+yaml"), "application/vnd.a-b+yaml");
    let longest = format!("text/{}", "x".repeat(250));
    assert_eq!(text(&longest), longest);
    for wrong in ["text", "text/", "/markdown", "te xt/markdown", "text/mark down", "text/a; b=\u{7}", &format!("{longest}x"), ""]
    {
        assert_eq!(text(wrong), "text/plain", "{wrong:?}");
    }
}

#[test]
fn summaries_of_tables_and_json_count_what_there_is() {
    assert_eq!(summary("a.tsv", b"a\tb\n1\t2\n"), "table of 1 row with columns a, b");
    assert_eq!(summary("a.svg", b"<svg/>"), "SVG image");
    assert_eq!(summary("a.json", b"[1]"), "JSON array of 1 value");
    assert_eq!(summary("a.json", b"7"), "JSON value 7");
    let names = |count: usize| (0..count).map(|name| format!("k{name}")).collect::<Vec<_>>();
    let twelve = names(12).join(", ");
    assert_eq!(summary("a.csv", (names(12).join(",") + "\n").as_bytes()), format!("table of 0 rows with columns {twelve}"));
    assert_eq!(summary("a.csv", (names(13).join(",") + "\n").as_bytes()), format!("table of 0 rows with columns {twelve}, …"));
}

#[test]
fn a_long_json_text_is_summarised_by_its_first_words() {
    let array = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
    assert_eq!(summary("a.json", array(4 << 20).as_bytes()), "JSON array of 1 value");
    assert!(summary("a.json", array((4 << 20) + 1).as_bytes()).starts_with("[\"xxx"));
}

#[test]
fn a_text_without_heading_is_summarised_by_its_first_five_lines_that_say_something() {
    let text = b"\n one\n\n two\n three\n\n\n four\n five\n six\n";
    assert_eq!(summary("a.txt", text), "one two three four five");
    assert_eq!(summary("a.txt", b"one\ntwo"), "one two");
}

#[test]
fn a_summary_ends_with_dots_only_where_something_is_left_out() {
    let words = |count: usize| vec!["abcd"; count].join(" ");
    assert_eq!(summary("a.txt", words(40).as_bytes()), words(40), "199 characters");
    assert_eq!(summary("a.txt", format!("{}e", words(40)).as_bytes()), format!("{}e", words(40)), "200 characters");
    let cut = summary("a.txt", format!("{}ef", words(40)).as_bytes());
    assert_eq!(cut, format!("{}…", words(40)));
    assert_eq!(summary("a.txt", "ä".repeat(201).as_bytes()), format!("{}…", "ä".repeat(199)));
}

#[test]
fn texts_are_told_by_their_words_and_data_by_its_shape() {
    let told_by_words = |name: &str, content: &[u8]| is_told_by_words(&measure(&path(name), content, None));
    for (name, content) in [("a.md", b"# A".as_slice()), ("a.txt", b"words"), ("a.html", b"<p>words"), ("a.rs", b"fn a() {}")] {
        assert!(told_by_words(name, content), "{name}");
    }
    for (name, content) in
        [("a.csv", b"a,b\n1,2".as_slice()), ("a.tsv", b"a\tb"), ("a.json", b"{}"), ("a.png", b"\x89PNG\r\n\x1a\n")]
    {
        assert!(!told_by_words(name, content), "{name}");
    }
    let declared = measure(&path("a.txt"), b"a,b\n1,2", Some("text/csv; header=present"));
    assert!(!is_told_by_words(&declared), "parameters of a type do not make a table a text");
}

#[test]
fn what_a_model_says_of_a_text_becomes_one_short_line_or_none() {
    assert_eq!(summary_of(" Two\nlines,\tone\u{7} bell. ").as_deref(), Some("Two lines, one bell."));
    assert_eq!(summary_of(&"word ".repeat(100)).expect("it says something").chars().count(), 200);
    assert_eq!(summary_of(" \n\t"), None);
}
