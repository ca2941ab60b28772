//! DOCX: the paragraphs and tables of `word/document.xml` as Markdown.
//!
//! Headers, footers, footnotes and comments are left out, and so is deleted text. Rules: ECMA-376, part 1, §17.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Cursor, Read};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;

use super::{MAX_TEXT_BYTES, TextForm};

/// The most bytes of one part of the package.
const MAX_PART_BYTES: u64 = 128 << 20;
/// The deepest level of a heading in Markdown.
const MAX_LEVEL: usize = 6;

/// Returns the text.
pub(super) fn read(content: &[u8]) -> Result<TextForm, String> {
    let mut package = ZipArchive::new(Cursor::new(content)).map_err(|error| format!("it is not a ZIP archive: {error}"))?;
    // The styles only tell headings apart.
    let levels = part(&mut package, "word/styles.xml").map(|styles| heading_levels(&styles)).unwrap_or_default();
    let body = part(&mut package, "word/document.xml")?;
    let mut writer = Writer { levels, ..Writer::default() };
    let mut reader = Reader::from_str(&body);
    let mut form = TextForm::default();
    let mut open_elements = 0_usize;
    loop {
        match reader.read_event().map_err(|error| format!("word/document.xml is damaged: {error}"))? {
            Event::Start(tag) => {
                open_elements += 1;
                writer.start(&tag);
            }
            Event::Empty(tag) => {
                writer.start(&tag);
                writer.end(tag.local_name().as_ref());
            }
            Event::End(tag) => {
                open_elements = open_elements.saturating_sub(1);
                writer.end(tag.local_name().as_ref());
            }
            Event::Text(text) => writer.push_text(&text),
            Event::CData(text) => writer.push_text(&text),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().ok().flatten();
                match (character, &*reference) {
                    (Some(character), _) => writer.push_text(character.encode_utf8(&mut [0; 4])),
                    (None, "amp") => writer.push_text("&"),
                    (None, "lt") => writer.push_text("<"),
                    (None, "gt") => writer.push_text(">"),
                    (None, "quot") => writer.push_text("\""),
                    (None, "apos") => writer.push_text("'"),
                    (None, _) => {}
                }
            }
            Event::Eof => {
                if open_elements > 0 {
                    form.add_note("The document is damaged: its text ends early.");
                }
                break;
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
        if writer.text.len() > MAX_TEXT_BYTES {
            form.add_note(&format!("The text is cut after {} MiB.", MAX_TEXT_BYTES >> 20));
            break;
        }
    }
    form.text = writer.text;
    if form.text.trim().is_empty() {
        form.add_note("No text was found.");
    }
    Ok(form)
}

/// Returns a part of the package as text.
fn part(package: &mut ZipArchive<Cursor<&[u8]>>, name: &str) -> Result<String, String> {
    let part = package.by_name(name).map_err(|_| format!("it has no part {name}"))?;
    let mut bytes = Vec::new();
    part.take(MAX_PART_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("{name} is damaged: {error}"))?;
    if bytes.len() as u64 > MAX_PART_BYTES {
        return Err(format!("{name} has more than {} MiB", MAX_PART_BYTES >> 20));
    }
    String::from_utf8(bytes).map_err(|_| format!("{name} is not in UTF-8"))
}

/// Returns the level of each style that is a heading, by the style's id. Names of styles are English in every language of Word.
fn heading_levels(styles: &str) -> HashMap<String, usize> {
    let mut levels = HashMap::new();
    let mut reader = Reader::from_str(styles);
    let mut style = None;
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Start(tag) | Event::Empty(tag) => match tag.local_name().as_ref() {
                "style" => style = attribute(&tag, "styleId"),
                "name" => {
                    let name = attribute(&tag, "val").unwrap_or_default().to_lowercase();
                    let level = name.strip_prefix("heading ").and_then(|level| level.parse().ok());
                    let level = level.or_else(|| (name == "title").then_some(1));
                    if let (Some(level), Some(style)) = (level, style.take()) {
                        levels.insert(style, usize::min(level, MAX_LEVEL));
                    }
                }
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    levels
}

/// Returns the attribute with this name in any namespace.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = tag.attributes().flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    Some(found.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())
}

/// The text so far, and the place in the document.
#[derive(Default)]
struct Writer {
    levels: HashMap<String, usize>,
    text: String,
    /// The paragraph that is being read.
    paragraph: String,
    /// Marks before it, such as `## ` or `- `.
    mark: String,
    /// The cells of the row that is being read, of the outermost table.
    cells: Vec<String>,
    /// Number of tables around this place.
    tables: usize,
    /// Number of rows of the outermost table so far.
    rows: usize,
    /// Whether this place is inside `w:t`.
    is_text: bool,
    /// Number of open elements whose content is left out.
    skipped: usize,
}

impl Writer {
    fn start(&mut self, tag: &BytesStart<'_>) {
        let name = tag.local_name();
        if self.skipped > 0 || is_skipped(name.as_ref()) {
            self.skipped += 1;
            return;
        }
        match name.as_ref() {
            "t" => self.is_text = true,
            "tab" => self.paragraph.push('\t'),
            "br" | "cr" => self.paragraph.push('\n'),
            "noBreakHyphen" => self.paragraph.push('-'),
            "pStyle" => {
                let level = attribute(tag, "val").and_then(|style| self.levels.get(&style).copied());
                self.mark = level.map(|level| format!("{} ", "#".repeat(level))).unwrap_or_default();
            }
            "ilvl" => {
                let level = attribute(tag, "val").and_then(|level| level.parse().ok()).unwrap_or(0);
                self.mark = format!("{}- ", "  ".repeat(usize::min(level, MAX_LEVEL)));
            }
            "tbl" => {
                if self.tables == 0 {
                    self.end_list();
                }
                self.rows = if self.tables == 0 { 0 } else { self.rows };
                self.tables += 1;
            }
            "tr" if self.tables == 1 => self.cells.clear(),
            "tc" if self.tables == 1 => self.cells.push(String::new()),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match name {
            "t" => self.is_text = false,
            "p" => self.end_paragraph(),
            "tr" if self.tables == 1 => self.end_row(),
            "tbl" => {
                self.tables = self.tables.saturating_sub(1);
                if self.tables == 0 {
                    self.text.push('\n');
                }
            }
            _ => {}
        }
    }

    fn push_text(&mut self, text: &str) {
        if self.is_text && self.skipped == 0 {
            self.paragraph.push_str(text);
        }
    }

    fn end_paragraph(&mut self) {
        let (paragraph, mark) = (std::mem::take(&mut self.paragraph), std::mem::take(&mut self.mark));
        let paragraph = paragraph.trim();
        if paragraph.is_empty() {
            return;
        }
        if let Some(cell) = self.cells.last_mut().filter(|_| self.tables > 0) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.extend(paragraph.chars().map(|each| if each == '\n' { ' ' } else { each }));
        } else {
            // A heading is one line, and each item of a list follows the one before.
            let is_heading = mark.starts_with('#');
            let line = if is_heading { paragraph.replace('\n', " ") } else { paragraph.to_owned() };
            let end = if mark.trim_start().starts_with('-') { "\n" } else { "\n\n" };
            if end.len() == 2 {
                self.end_list();
            }
            let _infallible = write!(self.text, "{mark}{line}{end}");
        }
    }

    /// Separates the items of a list from the next block by an empty line.
    fn end_list(&mut self) {
        if self.text.ends_with('\n') && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn end_row(&mut self) {
        let cells: Vec<String> = self.cells.drain(..).map(|cell| cell.replace('|', "\\|")).collect();
        let _infallible = writeln!(self.text, "| {} |", cells.join(" | "));
        if self.rows == 0 {
            let _infallible = writeln!(self.text, "|{}", " --- |".repeat(cells.len()));
        }
        self.rows += 1;
    }
}

/// Whether the content of the element is not part of the text: deleted text, codes of fields, and the second form of what older
/// programs cannot show.
fn is_skipped(name: &str) -> bool {
    matches!(name, "del" | "moveFrom" | "instrText" | "delText" | "Fallback")
}
