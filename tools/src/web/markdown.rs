//! Pages as Markdown: what a reader sees of HTML, in one pass over its tags.
//!
//! No tree is built. Trees of HTML can be quadratically larger than the page (formatting tags that are left open are
//! opened again in every paragraph), and recursion over a tree as deep as its page is long overflows the stack. Here
//! the cost is linear in the size of the page, and content is nested at most `MAX_NESTING` deep.
//!
//! Parts that a reader does *not* see are left out: scripts, hidden parts, characters without a shape. Images are
//! named and not linked, so that showing the text makes no request.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{HtmlString, StartTag, Token, Tokenizer};
use reqwest::Url;

/// Deepest nesting of lists and quotes; deeper content is shown at this depth.
const MAX_NESTING: usize = 12;
/// The longest address of a link that is kept.
const MAX_LINK_BYTES: usize = 500;
/// Elements of which nothing is shown.
const UNSEEN: [&[u8]; 14] = [
    b"script",
    b"style",
    b"noscript",
    b"template",
    b"svg",
    b"math",
    b"iframe",
    b"object",
    b"canvas",
    b"nav",
    b"select",
    b"audio",
    b"video",
    b"noembed",
];
/// Elements that have no end.
const VOID: [&[u8]; 10] = [b"br", b"hr", b"img", b"input", b"link", b"meta", b"area", b"source", b"wbr", b"col"];

/// A page as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markdown {
    /// Its title, on one line.
    pub(super) title: String,
    /// The text.
    pub(super) text: String,
    /// Whether the text was cut.
    pub(super) truncated: bool,
}

/// Reads the HTML of the page at `base`; at most about `most` bytes of text come out.
pub(super) fn of_html(html: &str, base: &Url, most: usize) -> Markdown {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut writer = Writer { base: Some(base), ..Writer::default() };
    let mut truncated = false;
    for token in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Ok(Token::StartTag(tag)) => writer.open(&tag),
            Ok(Token::EndTag(tag)) => writer.close(&tag.name),
            Ok(Token::String(text)) => writer.say(&String::from_utf8_lossy(&text)),
            Ok(_) => {}
        }
        if writer.out.len() > most {
            truncated = true;
            break;
        }
    }
    writer.end_block(Gap::Line);
    let mut text = writer.out;
    text.truncate(text.floor_char_boundary(most));
    let title = writer.title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    Markdown { title, text: text.trim().to_owned(), truncated }
}

/// Returns text that is no HTML, without invisible characters.
pub(super) fn of_text(text: &str, most: usize) -> Markdown {
    let cut = &text[..text.floor_char_boundary(most)];
    let seen = cut.chars().filter(|character| !is_unseen(*character)).collect();
    Markdown { title: String::new(), text: seen, truncated: cut.len() < text.len() }
}

/// Whether `character` is invisible to people, though a model may read it: controls, marks of direction, joiners,
/// tags.
fn is_unseen(character: char) -> bool {
    matches!(character,
        '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Separator between two pieces of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

/// Surroundings of text.
enum Frame {
    Quote,
    List { next: Option<u32> },
    Item,
}

#[derive(Default)]
struct Writer<'a> {
    base: Option<&'a Url>,
    out: String,
    title: String,
    gap: Gap,
    frames: Vec<Frame>,
    /// Number of frames that have been around everything since the last text: an empty line belongs to these.
    shared: usize,
    /// Start of the next line of text: a heading's signs, an item's bullet.
    lead: String,
    /// Marks of emphasis that are open, and how many of them are written.
    marks: Vec<&'static str>,
    marked: usize,
    /// A link that is open: where its text begins and where it leads.
    link: Option<(usize, String)>,
    /// The text of a `pre`, verbatim.
    verbatim: Option<String>,
    /// An element of which nothing is shown, and how often it is open.
    unseen: Option<(HtmlString, u32)>,
    in_title: bool,
    in_code: bool,
    /// The cells of the table's row so far; `None` outside of rows.
    cells: Option<usize>,
    is_first_row: bool,
}

impl Writer<'_> {
    fn open(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((unseen, depth)) = &mut self.unseen {
            *depth += u32::from(unseen.0 == name);
            return;
        }
        let attribute = |name: &[u8]| tag.attributes.get(name).map(|value| String::from_utf8_lossy(&value.0).into_owned());
        if !VOID.contains(&name) && !tag.self_closing && (UNSEEN.contains(&name) || is_hidden(&attribute)) {
            self.unseen = Some((tag.name.clone(), 1));
            return;
        }
        if self.verbatim.is_some() && name != b"br" {
            return;
        }
        match name {
            b"title" => self.in_title = self.title.is_empty(),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.end_block(Gap::Paragraph);
                self.lead = "#".repeat(usize::from(name[1] - b'0')) + " ";
            }
            b"b" | b"strong" => self.marks.extend((self.marks.len() < 4).then_some("**")),
            b"i" | b"em" => self.marks.extend((self.marks.len() < 4).then_some("*")),
            b"code" | b"kbd" | b"samp" if !self.in_code => {
                self.write("`");
                self.in_code = true;
            }
            b"pre" => {
                self.end_block(Gap::Paragraph);
                self.verbatim = Some(String::new());
            }
            b"a" => {
                self.end_link();
                let target = attribute(b"href").and_then(|href| self.target(&href));
                if let Some(target) = target {
                    self.flush_gap();
                    self.link = Some((self.out.len(), target));
                }
            }
            b"img" => {
                let alt = attribute(b"alt").unwrap_or_default();
                if !alt.trim().is_empty() {
                    self.say(" (image: ");
                    self.say(alt.trim());
                    self.say(") ");
                }
            }
            b"br" => match &mut self.verbatim {
                Some(text) => text.push('\n'),
                None => self.end_line(Gap::Line),
            },
            b"hr" => {
                self.end_block(Gap::Paragraph);
                self.write("---");
                self.end_block(Gap::Paragraph);
            }
            b"blockquote" => self.enter(Frame::Quote, Gap::Paragraph),
            b"ul" => self.enter(Frame::List { next: None }, Gap::Line),
            b"ol" => self.enter(Frame::List { next: Some(1) }, Gap::Line),
            b"li" => self.item(),
            b"tr" => {
                self.end_block(Gap::Line);
                self.cells = Some(0);
                self.write("|");
            }
            b"td" | b"th" => self.cell(),
            b"table" => {
                self.end_block(Gap::Paragraph);
                self.is_first_row = true;
            }
            _ if is_block(name) => self.end_block(Gap::Paragraph),
            _ => {}
        }
    }

    fn close(&mut self, name: &HtmlString) {
        if let Some((unseen, depth)) = &mut self.unseen {
            *depth -= u32::from(unseen == name);
            if *depth == 0 {
                self.unseen = None;
            }
            return;
        }
        let name: &[u8] = name;
        if self.verbatim.is_some() && name != b"pre" {
            return;
        }
        match name {
            b"title" => self.in_title = false,
            b"b" | b"strong" => self.end_mark("**"),
            b"i" | b"em" => self.end_mark("*"),
            b"code" | b"kbd" | b"samp" if self.in_code => {
                self.in_code = false;
                self.out.push('`');
            }
            b"pre" => self.end_verbatim(),
            b"a" => self.end_link(),
            b"blockquote" => self.leave(|frame| matches!(frame, Frame::Quote), Gap::Paragraph),
            b"ul" | b"ol" => {
                let gap = if self.frames.len() > 1 { Gap::Line } else { Gap::Paragraph };
                self.leave(|frame| matches!(frame, Frame::List { .. }), gap);
            }
            b"li" => self.leave(|frame| matches!(frame, Frame::Item), Gap::Line),
            b"tr" => self.end_row(),
            b"table" => {
                self.end_row();
                self.end_block(Gap::Paragraph);
            }
            _ if is_block(name) => self.end_block(Gap::Paragraph),
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        if self.unseen.is_some() {
            return;
        }
        let seen = text.chars().filter(|character| !is_unseen(*character));
        if self.in_title {
            self.title.extend(seen.take(1_000));
        } else if let Some(verbatim) = &mut self.verbatim {
            verbatim.extend(seen);
        } else {
            for character in seen {
                self.put(character);
            }
        }
    }

    /// Adds one character of running text.
    fn put(&mut self, character: char) {
        if character.is_whitespace() {
            self.gap = self.gap.max(Gap::Space);
            return;
        }
        let begins_line = self.flush_gap();
        while let Some(mark) = self.marks.get(self.marked) {
            self.out.push_str(mark);
            self.marked += 1;
        }
        match character {
            '`' if self.in_code => return self.out.push('\''),
            _ if self.in_code => {}
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' => self.out.push('\\'),
            '|' if self.cells.is_some() => self.out.push('\\'),
            '#' | '>' | '-' | '+' | '=' | '~' if begins_line => self.out.push('\\'),
            _ => {}
        }
        self.out.push(character);
    }

    /// Signs of our own.
    fn write(&mut self, signs: &str) {
        self.flush_gap();
        self.out.push_str(signs);
    }

    /// Writes the separator of the next text from the last. Returns true if it begins a line.
    fn flush_gap(&mut self) -> bool {
        let gap = std::mem::take(&mut self.gap);
        let begins_line = self.out.is_empty() || gap >= Gap::Line;
        if self.out.is_empty() {
            self.prefix(self.frames.len());
        } else if gap >= Gap::Line {
            if gap == Gap::Paragraph {
                self.out.push('\n');
                self.prefix(self.shared);
                let end = self.out.trim_end_matches(' ').len();
                self.out.truncate(end);
            }
            self.out.push('\n');
            self.prefix(self.frames.len());
        } else if gap == Gap::Space && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        self.shared = self.frames.len();
        if begins_line {
            let lead = std::mem::take(&mut self.lead);
            if lead.ends_with(". ") || lead == "- " {
                // The bullet takes the place of the item's indentation.
                let end = self.out.len() - self.out.len().min(2);
                if self.out.ends_with("  ") {
                    self.out.truncate(end);
                }
            }
            self.out.push_str(&lead);
        }
        begins_line
    }

    /// Writes the prefix of every line in the outermost `frames` frames.
    fn prefix(&mut self, frames: usize) {
        for frame in self.frames.iter().take(frames) {
            match frame {
                Frame::Quote => self.out.push_str("> "),
                Frame::Item => self.out.push_str("  "),
                Frame::List { .. } => {}
            }
        }
    }

    fn enter(&mut self, frame: Frame, gap: Gap) {
        self.end_block(gap);
        self.shared = self.shared.min(self.frames.len());
        if self.frames.len() < MAX_NESTING {
            self.frames.push(frame);
        }
    }

    /// Leaves the innermost frame of a kind, and those that were left open in it.
    fn leave(&mut self, is_kind: impl Fn(&Frame) -> bool, gap: Gap) {
        self.end_block(gap);
        if let Some(place) = self.frames.iter().rposition(is_kind) {
            self.frames.truncate(place);
            self.shared = self.shared.min(place);
        }
        self.lead.clear();
    }

    fn item(&mut self) {
        // An item ends where the next of its list begins.
        if let Some(Frame::Item) = self.frames.last() {
            self.frames.pop();
            self.shared = self.shared.min(self.frames.len());
        }
        self.end_block(Gap::Line);
        let lead = match self.frames.last_mut() {
            Some(Frame::List { next: Some(next) }) => {
                *next += 1;
                format!("{}. ", *next - 1)
            }
            _ => "- ".to_owned(),
        };
        if self.frames.len() < MAX_NESTING {
            self.frames.push(Frame::Item);
        }
        self.lead = lead;
    }

    fn cell(&mut self) {
        if let Some(cells) = &mut self.cells {
            *cells += 1;
            if *cells > 1 {
                self.end_spans();
                self.write(" |");
            }
            self.gap = Gap::Space;
        }
    }

    fn end_row(&mut self) {
        let Some(cells) = self.cells.take() else { return };
        self.end_spans();
        self.gap = Gap::None;
        self.out.push_str(" |");
        if std::mem::take(&mut self.is_first_row) && cells < 100 {
            self.gap = Gap::Line;
            self.write(&format!("|{}", " --- |".repeat(cells.max(1))));
        }
        self.gap = Gap::Line;
    }

    fn end_verbatim(&mut self) {
        let Some(text) = self.verbatim.take() else { return };
        let mut fence = 3;
        let mut run = 0;
        for character in text.chars() {
            run = if character == '`' { run + 1 } else { 0 };
            fence = fence.max(run + 1);
        }
        let fence = "`".repeat(fence);
        self.write(&fence);
        for line in text.trim_matches('\n').split('\n') {
            self.gap = Gap::Line;
            self.flush_gap();
            self.out.push_str(line);
        }
        self.gap = Gap::Line;
        self.write(&fence);
        self.gap = Gap::Paragraph;
    }

    fn end_mark(&mut self, mark: &'static str) {
        let Some(place) = self.marks.iter().rposition(|open| *open == mark) else { return };
        // What was opened in it ends with it.
        while self.marks.len() > place {
            let mark = self.marks.pop().unwrap_or_default();
            if self.marks.len() < self.marked {
                self.marked -= 1;
                self.out.push_str(mark);
            }
        }
    }

    fn end_link(&mut self) {
        let Some((start, target)) = self.link.take() else { return };
        if self.out[start..].trim().is_empty() {
            return;
        }
        self.out.insert(start, '[');
        self.out.push_str("](");
        self.out.push_str(&target);
        self.out.push(')');
    }

    /// Ends what may not reach over the end of a block.
    fn end_spans(&mut self) {
        if std::mem::take(&mut self.in_code) {
            self.out.push('`');
        }
        while let Some(mark) = self.marks.last().copied() {
            self.end_mark(mark);
        }
        self.end_link();
    }

    fn end_block(&mut self, gap: Gap) {
        self.end_spans();
        self.end_line(gap);
    }

    fn end_line(&mut self, gap: Gap) {
        // A row of a table is one line, whatever its cells hold, and an item begins with its first block.
        let gap = if self.cells.is_some() { Gap::Space } else { gap };
        let gap = if self.lead.is_empty() { gap } else { gap.min(Gap::Line) };
        self.gap = self.gap.max(gap);
    }

    /// Returns the target of a link; `None` for one that leads nowhere on the web.
    fn target(&self, href: &str) -> Option<String> {
        let target = self.base?.join(href.trim()).ok().filter(|target| matches!(target.scheme(), "http" | "https"))?;
        let text = target.as_str();
        (text.len() <= MAX_LINK_BYTES).then(|| text.replace('(', "%28").replace(')', "%29"))
    }
}

/// Whether an element is marked as hidden.
fn is_hidden(attribute: &impl Fn(&[u8]) -> Option<String>) -> bool {
    let style = attribute(b"style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    attribute(b"hidden").is_some()
        || attribute(b"aria-hidden").is_some_and(|value| value == "true")
        || ["display:none", "visibility:hidden", "font-size:0", "opacity:0;"].iter().any(|unseen| style.contains(unseen))
        || style.ends_with("opacity:0")
}

fn is_block(name: &[u8]) -> bool {
    matches!(
        name,
        b"p" | b"div"
            | b"section"
            | b"article"
            | b"main"
            | b"header"
            | b"footer"
            | b"aside"
            | b"figure"
            | b"figcaption"
            | b"address"
            | b"dl"
            | b"dt"
            | b"dd"
            | b"form"
            | b"fieldset"
            | b"details"
            | b"summary"
            | b"caption"
            | b"body"
            | b"head"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"option"
            | b"legend"
    )
}

#[cfg(test)]
#[path = "tests/markdown.rs"]
mod tests;
