//! Measuring contents: the facts of a document, made once from its bytes and then recorded.

use baton_types::document::{ContentFacts, is_zip_package, may_be_text};
use baton_types::estimate::content_tokens;
use baton_types::id::ContentHash;
use baton_types::path::DocumentPath;

/// The most characters a summary may have.
const SUMMARY_CHARACTERS: usize = 200;
/// The most names that a summary lists.
const SUMMARY_NAMES: usize = 12;
/// Number of bytes of a JSON text that are read for its summary; parsing more would cost more than it is worth.
const SUMMARY_JSON_BYTES: usize = 4 << 20;
/// The most characters a declared media type may have (RFC 6838 §4.2 bounds each of its two names by 127).
const MIME_TYPE_CHARACTERS: usize = 255;

/// First bytes that give a format away, with its media type and its name for people.
const SIGNATURES: [(&[u8], &str, &str); 10] = [
    (b"\x89PNG\r\n\x1a\n", "image/png", "PNG image"),
    (b"\xff\xd8\xff", "image/jpeg", "JPEG image"),
    (b"GIF87a", "image/gif", "GIF image"),
    (b"GIF89a", "image/gif", "GIF image"),
    (b"%PDF-", "application/pdf", "PDF document"),
    (b"PK\x03\x04", "application/zip", "ZIP archive"),
    (b"PK\x05\x06", "application/zip", "empty ZIP archive"),
    (b"\x1f\x8b", "application/gzip", "gzip archive"),
    (b"SQLite format 3\0", "application/vnd.sqlite3", "SQLite database"),
    (b"\x7fELF", "application/x-executable", "program"),
];

/// The kinds of Office documents: the part that each has, its media type without the prefix of all, and its name for people.
const OFFICE: [(&[u8], &str, &str); 3] = [
    (b"word/document.xml", "wordprocessingml.document", "Word document"),
    (b"xl/workbook.xml", "spreadsheetml.sheet", "Excel workbook"),
    (b"ppt/presentation.xml", "presentationml.presentation", "PowerPoint presentation"),
];
/// The prefix of the media types of Office documents.
const OFFICE_TYPES: &str = "application/vnd.openxmlformats-officedocument.";
/// Number of bytes at the end of an archive that are searched for the names of its parts.
const DIRECTORY_BYTES: usize = 1 << 20;

/// Measures `content` as the future content of `path`.
///
/// The media type is what the writer `declared`, if [`check_declared`] accepts it. Otherwise it follows the content first, then the
/// extension. A text that is not UTF-8 is `application/octet-stream`, because nothing downstream could show it as text.
pub fn measure(path: &DocumentPath, content: &[u8], declared: Option<&str>) -> ContentFacts {
    measure_checked(path, content, declared.filter(|declared| check_declared(content, declared).is_ok()))
}

/// Measures like [`measure`]. `declared` must be a type that [`check_declared`] accepts for this content.
pub(crate) fn measure_checked(path: &DocumentPath, content: &[u8], declared: Option<&str>) -> ContentFacts {
    let text = std::str::from_utf8(content).ok();
    let signature = signature(content);
    let mime_type = declared.map_or_else(
        || {
            let found = signature.map(|(_, mime_type, _)| *mime_type);
            office(content).map_or_else(|| mime_type(path, text.is_some(), found), |(_, kind, _)| format!("{OFFICE_TYPES}{kind}"))
        },
        |declared| declared.trim().to_lowercase(),
    );
    let summary = match (signature, text) {
        (Some((_, "application/zip", name)), _) => {
            format!("{}, {}", package_name(&mime_type).unwrap_or(name), size(content.len()))
        }
        (Some((_, _, name)), _) => binary_summary(name, content),
        (None, Some(text)) => text_summary(&mime_type, text),
        (None, None) => String::new(),
    };
    ContentFacts {
        hash: ContentHash::of(content),
        size_bytes: content.len() as u64,
        token_count: content_tokens(&mime_type, content.len() as u64),
        mime_type,
        summary: shortened(&summary),
    }
}

/// Returns the format that the first bytes give away.
fn signature(content: &[u8]) -> Option<&'static (&'static [u8], &'static str, &'static str)> {
    if content.len() >= 12 && content.starts_with(b"RIFF") && &content[8..12] == b"WEBP" {
        return Some(&(b"RIFF", "image/webp", "WebP image"));
    }
    SIGNATURES.iter().find(|(first, _, _)| content.starts_with(first))
}

/// Returns the kind of the Office document in `content`, by the names of its parts. An archive has them at its end.
fn office(content: &[u8]) -> Option<&'static (&'static [u8], &'static str, &'static str)> {
    if !content.starts_with(b"PK\x03\x04") {
        return None;
    }
    let directory = &content[content.len().saturating_sub(DIRECTORY_BYTES)..];
    let has = |part: &[u8]| directory.windows(part.len()).any(|window| window == part);
    OFFICE.iter().find(|(part, _, _)| has(part))
}

/// Returns the name of documents of this type, which are ZIP archives.
fn package_name(mime_type: &str) -> Option<&'static str> {
    let essence = mime_type.split(';').next().unwrap_or_default();
    if let Some(kind) = essence.strip_prefix(OFFICE_TYPES) {
        return OFFICE.iter().find(|(_, known, _)| *known == kind).map(|(_, _, name)| *name);
    }
    match essence {
        "application/vnd.oasis.opendocument.text" => Some("OpenDocument text"),
        "application/vnd.oasis.opendocument.spreadsheet" => Some("OpenDocument spreadsheet"),
        "application/epub+zip" => Some("EPUB book"),
        _ => None,
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

/// Checks the media type that a writer declared for `content`: the first bytes of known binary formats, the kind of an Office
/// document, UTF-8 for texts, the syntax of JSON, and the first character of XML. Other types are taken as they are declared.
///
/// # Errors
///
/// The reason, as a sentence for the writer, if the content is not of this type.
pub fn check_declared(content: &[u8], declared: &str) -> Result<(), String> {
    let declared = declared.trim().to_lowercase();
    if !is_mime_type(&declared) {
        return Err(format!("mime_type {declared:?} is not a media type; expected one such as text/markdown, or leave it out"));
    }
    let essence = declared.split(';').next().unwrap_or_default().trim();
    // Any content is a sequence of bytes.
    if essence == "application/octet-stream" {
        return Ok(());
    }
    let refuse =
        |what: &str| Err(format!("mime_type is {declared}, but {what}; give the type of the content, or leave mime_type out"));
    let has_signature = |mime_type: &str| SIGNATURES.iter().any(|(_, known, _)| *known == mime_type) || mime_type == "image/webp";
    match signature(content) {
        Some((_, found, _)) if *found == essence => Ok(()),
        Some((_, "application/zip", _))
            if essence.strip_prefix(OFFICE_TYPES).is_some_and(|declared| differs(content, declared)) =>
        {
            refuse(&format!("the content is another kind ({})", office(content).map_or("", |(_, _, name)| name)))
        }
        // Office documents, e-books and the like are archives.
        Some((_, "application/zip" | "application/gzip", _)) if !may_be_text(essence) && !has_signature(essence) => Ok(()),
        Some((_, found, name)) => refuse(&format!("the content is {found} ({name})")),
        None if has_signature(essence) || is_zip_package(essence) => refuse("the content does not begin like one"),
        None if is_text(essence) && std::str::from_utf8(content).is_err() => refuse("the content is not text in UTF-8"),
        None if !may_be_text(essence) && std::str::from_utf8(content).is_ok() => refuse("the content is text"),
        None if is_json(essence) => match serde_json::from_slice::<serde::de::IgnoredAny>(content) {
            Ok(_) => Ok(()),
            Err(error) => refuse(&format!("the content is not JSON ({error})")),
        },
        None if is_xml(essence) && !content.trim_ascii_start().starts_with(b"<") && !content.starts_with(b"\xef\xbb\xbf") => {
            refuse("the content does not begin like one")
        }
        None => Ok(()),
    }
}

/// Whether `content` is an Office document of another kind than the declared one.
fn differs(content: &[u8], declared: &str) -> bool {
    let is_known = OFFICE.iter().any(|(_, kind, _)| *kind == declared);
    is_known && office(content).is_some_and(|(_, kind, _)| *kind != declared)
}

fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence.ends_with("+json")
}

fn is_xml(essence: &str) -> bool {
    matches!(essence, "application/xml" | "text/xml") || essence.ends_with("+xml")
}

/// Whether every content of this media type is text.
fn is_text(essence: &str) -> bool {
    let text_applications = ["json", "xml", "yaml", "toml", "sql", "javascript", "x-ndjson", "jsonl"];
    match essence.split_once('/') {
        Some(("text", _) | ("image", "svg+xml")) => true,
        Some(("application", subtype)) => {
            text_applications.contains(&subtype) || subtype.ends_with("+json") || subtype.ends_with("+xml")
        }
        _ => false,
    }
}

/// Returns the media type by content and extension, in that order.
fn mime_type(path: &DocumentPath, is_text: bool, by_content: Option<&str>) -> String {
    let by_extension = mime_guess::from_path(path.as_str()).first_raw();
    if let Some(found) = by_content {
        // Only their extensions distinguish the formats that are ZIP archives.
        let refined = by_extension.filter(|guess| found == "application/zip" && guess.starts_with("application/"));
        return refined.unwrap_or(found).to_owned();
    }
    match (is_text, by_extension) {
        (true, Some(guess)) if may_be_text(guess) => guess.to_owned(),
        (true, _) => "text/plain".to_owned(),
        (false, Some(guess)) if !may_be_text(guess) => guess.to_owned(),
        (false, _) => "application/octet-stream".to_owned(),
    }
}

/// Whether `text` has the form of a media type (RFC 6838), parameters allowed.
fn is_mime_type(text: &str) -> bool {
    let name = |part: &str| {
        !part.is_empty() && part.chars().all(|character| character.is_ascii_alphanumeric() || "!#$&-^_.+".contains(character))
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    text.len() <= MIME_TYPE_CHARACTERS
        && parameters.chars().all(|character| character.is_ascii_graphic() || character == ' ')
        && essence.trim().split_once('/').is_some_and(|(kind, subtype)| name(kind) && name(subtype))
}

/// Returns the kind of data, with the size of an image if its header has it.
fn binary_summary(name: &str, content: &[u8]) -> String {
    let side = |start: usize| content.get(start..start + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    match (name, side(16), side(20)) {
        ("PNG image", Some(width), Some(height)) => format!("PNG image, {width} × {height} pixels"),
        _ => name.to_owned(),
    }
}

/// Returns the summary of a text: the shape of data, else the first heading, else the first words.
fn text_summary(mime_type: &str, text: &str) -> String {
    let shape = match mime_type.split(';').next().unwrap_or_default() {
        "text/csv" => table_summary(text, b','),
        "text/tab-separated-values" => table_summary(text, b'\t'),
        "application/json" => json_summary(text),
        "image/svg+xml" => Some("SVG image".to_owned()),
        _ => None,
    };
    if let Some(shape) = shape {
        return shape;
    }
    let heading = text.lines().take(50).find_map(|line| line.trim_start().strip_prefix('#'));
    match heading.map(|heading| heading.trim_start_matches('#').trim()).filter(|heading| !heading.is_empty()) {
        Some(heading) => heading.to_owned(),
        None => first_lines(text).to_owned(),
    }
}

/// Returns the first five lines of `text` that are not blank, cut where no summary reaches.
fn first_lines(text: &str) -> &str {
    let text = text.trim_start();
    // Blanks between words do not count, so this is more than a summary of ordinary text can hold.
    let text = &text[..text.floor_char_boundary(SUMMARY_CHARACTERS * 16)];
    let mut lines = text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end, !line.trim().is_empty()))
    });
    lines.by_ref().filter(|(_, says)| *says).nth(4).map_or(text, |(end, _)| &text[..end])
}

/// Columns and number of rows; `None` if the text is no table.
fn table_summary(text: &str, delimiter: u8) -> Option<String> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
    let columns = reader.headers().ok()?.clone();
    if columns.is_empty() {
        return None;
    }
    let mut record = csv::ByteRecord::new();
    let mut rows = 0_u64;
    while reader.read_byte_record(&mut record).ok()? {
        rows += 1;
    }
    Some(format!("table of {rows} row{} with columns {}", plural(rows), listed(columns.iter(), columns.len())))
}

/// Returns kind and keys; `None` if the text is not JSON or too long to parse.
fn json_summary(text: &str) -> Option<String> {
    if text.len() > SUMMARY_JSON_BYTES {
        return None;
    }
    let keys = |object: &serde_json::Map<String, serde_json::Value>| listed(object.keys().map(String::as_str), object.len());
    Some(match serde_json::from_str(text).ok()? {
        serde_json::Value::Object(object) => format!("JSON object with keys {}", keys(&object)),
        serde_json::Value::Array(items) => match items.first() {
            Some(serde_json::Value::Object(first)) => {
                format!("JSON array of {} object{} with keys {}", items.len(), plural(items.len() as u64), keys(first))
            }
            _ => format!("JSON array of {} value{}", items.len(), plural(items.len() as u64)),
        },
        other => format!("JSON value {other}"),
    })
}

/// Returns the first `count` names, and a note if there are more.
fn listed<'a>(names: impl Iterator<Item = &'a str>, count: usize) -> String {
    let mut text = names.take(SUMMARY_NAMES).collect::<Vec<_>>().join(", ");
    if count > SUMMARY_NAMES {
        text.push_str(", …");
    }
    text
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Whether a text of this media type is summarized by its first words, so that a model may summarize it better.
pub fn is_told_by_words(facts: &ContentFacts) -> bool {
    let kind = facts.mime_type.split(';').next().unwrap_or_default();
    kind.starts_with("text/") && !matches!(kind, "text/csv" | "text/tab-separated-values")
}

/// Returns a model's answer in the form of a summary; `None` if it is empty.
pub fn summary_of(said: &str) -> Option<String> {
    Some(shortened(said)).filter(|summary| !summary.is_empty())
}

/// Returns `text` on one line, without control characters and with at most [`SUMMARY_CHARACTERS`]. Reads no more of it than needed.
fn shortened(text: &str) -> String {
    let (mut short, mut count, mut is_next_word) = (String::with_capacity(text.len().min(SUMMARY_CHARACTERS + 8)), 0, false);
    let mut rest = text;
    while count <= SUMMARY_CHARACTERS
        && let Some(next) = rest.chars().next()
    {
        if next.is_whitespace() || next.is_control() {
            is_next_word |= next.is_whitespace() && count > 0;
            rest = &rest[next.len_utf8()..];
            continue;
        }
        if std::mem::take(&mut is_next_word) {
            short.push(' ');
            count += 1;
        }
        // Most texts are ASCII, whose words are copied at once.
        let word = rest.bytes().take(SUMMARY_CHARACTERS + 1 - count).take_while(u8::is_ascii_graphic).count();
        let (copied, after) = rest.split_at(word.max(next.len_utf8()));
        short.push_str(copied);
        count += word.max(1);
        rest = after;
    }
    if count > SUMMARY_CHARACTERS {
        let end = short.char_indices().nth(SUMMARY_CHARACTERS - 1).map_or(short.len(), |(end, _)| end);
        short.truncate(end);
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(path: &str, content: &[u8]) -> (String, String) {
        let facts = measure(&DocumentPath::parse(path).unwrap(), content, None);
        (facts.mime_type, facts.summary)
    }

    #[test]
    fn a_text_is_shortened_to_one_line_at_every_length() {
        for word in ["word", "wörd", "wo\u{7}rd", "w\u{a0}o\u{85}rd"] {
            for count in 1..=203 {
                let text = format!(" \n{}  {}\n", "x".repeat(count), [word; 60].join(" \t"));
                let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\u{7}', "");
                let expected = if line.chars().count() > SUMMARY_CHARACTERS {
                    line.chars().take(SUMMARY_CHARACTERS - 1).chain(['…']).collect()
                } else {
                    line
                };
                assert_eq!(shortened(&text), expected);
            }
        }
    }

    #[test]
    fn the_content_outranks_the_extension() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([0, 0, 3, 32, 0, 0, 2, 88]);
        assert_eq!(facts("a.txt", &png), ("image/png".into(), "PNG image, 800 × 600 pixels".into()));
        assert_eq!(facts("a.md", b"%PDF-1.7 ..").0, "application/pdf");
        assert_eq!(facts("program.ts", b"let a = 1;").0, "text/plain");
        assert_eq!(facts("film.mp4", &[0xff, 0xfe, 0, 1]).0, "video/mp4");
        assert_eq!(facts("latin.csv", b"name\ncaf\xe9\n").0, "application/octet-stream");
        assert_eq!(
            facts("x.docx", b"PK\x03\x04....").0,
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        );
        assert_eq!(facts("notes", "Grüße".as_bytes()).0, "text/plain");
    }

    #[test]
    fn a_declared_type_counts_unless_the_content_belies_it() {
        let measured = |content: &[u8], declared| measure(&DocumentPath::parse("a").unwrap(), content, Some(declared)).mime_type;
        assert_eq!(measured(b"a,b\n1,2\n", "text/csv"), "text/csv");
        assert_eq!(measured(b"\xff\xd8\xff\xe0", "text/csv"), "image/jpeg");
        assert_eq!(measured(b"\xff\xfe\x00", "text/csv"), "application/octet-stream");
        assert_eq!(measured(b"plain", "not a type\n"), "text/plain");
        assert_eq!(measured(b"import os", "text/x-python"), "text/x-python");
        assert_eq!(measured(b"PK\x03\x04..", "application/epub+zip"), "application/epub+zip");
    }

    #[test]
    fn a_declared_type_that_the_content_belies_is_refused_with_the_reason() {
        for (content, declared, reason) in [
            (&b"plain"[..], "application/pdf", "the content does not begin like one"),
            (b"plain", "audio/mpeg", "the content is text"),
            (b"plain", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "does not begin like one"),
            (b"%PDF-1.7 ..", "text/plain", "the content is application/pdf (PDF document)"),
            (b"PK\x03\x04..", "image/png", "the content is application/zip (ZIP archive)"),
            (b"\xff\xfe\x00", "text/csv", "the content is not text in UTF-8"),
            (b"plain", "markdown", "is not a media type"),
            (b"{\"a\": }", "application/json", "the content is not JSON (expected value at line 1 column 7)"),
            (b"plain", "application/ld+json", "the content is not JSON"),
            (b"plain", "application/xml", "the content does not begin like one"),
            (b"plain", "image/png", "the content does not begin like one"),
        ] {
            let refused = check_declared(content, declared).unwrap_err();
            assert!(refused.contains(reason), "{declared}: {refused}");
        }
        for (content, declared) in [
            (&b"a: 1"[..], "application/yaml"),
            (b" [1]\n", "application/json"),
            (b"\n<a/>", "application/xml"),
            (b"<svg/>", "image/svg+xml; charset=utf-8"),
            (b"plain", "application/octet-stream"),
            (b"\xff\xfe\x00", "application/x-custom"),
        ] {
            check_declared(content, declared).unwrap_or_else(|reason| panic!("{reason}"));
        }
    }

    #[test]
    fn an_office_document_is_known_by_its_parts_and_has_its_own_name() {
        let package = |part: &str| [b"PK\x03\x04".as_slice(), &[0; 1_500], part.as_bytes()].concat();
        let word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        let excel = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
        assert_eq!(facts("a.docx", &package("word/document.xml")), (word.to_owned(), "Word document, 2 kB".to_owned()));
        assert_eq!(facts("a.zip", &package("xl/workbook.xml")), (excel.to_owned(), "Excel workbook, 2 kB".to_owned()));
        assert_eq!(facts("a.zip", b"PK\x03\x04").1, "ZIP archive, 4 B");
        assert_eq!(facts("a.epub", b"PK\x03\x04").1, "EPUB book, 4 B");
        let measured = measure(&DocumentPath::parse("a.docx").unwrap(), &package("word/document.xml"), None);
        assert_eq!(measured.token_count, 0, "no model is shown the bytes");
        let refused = check_declared(&package("xl/workbook.xml"), word).unwrap_err();
        assert!(refused.contains("the content is another kind (Excel workbook)"), "{refused}");
        check_declared(&package("xl/workbook.xml"), excel).unwrap();
    }

    #[test]
    fn summaries_say_what_there_is() {
        assert_eq!(facts("a.csv", b"region,amount\n\"A\nB\",1\nC,2\n").1, "table of 2 rows with columns region, amount");
        assert_eq!(facts("a.json", br#"[{"x":1,"y":2}]"#).1, "JSON array of 1 object with keys x, y");
        assert_eq!(facts("a.json", b"{").1, "{");
        assert_eq!(facts("a.md", b"\n# Q3 analysis\n\nText.").1, "Q3 analysis");
        assert_eq!(facts("a.txt", b"One.\n\nTwo\x07.").1, "One. Two.");
        assert_eq!(facts("a.txt", "ä".repeat(300).as_bytes()).1.chars().count(), SUMMARY_CHARACTERS);
        assert_eq!(facts("empty.txt", b"").1, "");
    }
}
