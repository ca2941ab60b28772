//! Text for people: the only type that can be printed. Every value in it is escaped.
//!
//! Names, requests, results and documents come from models, jobs and tools. Control characters in them would command the
//! terminal: set its title, write to the clipboard, clear lines. A [`Text`] therefore contains only printable characters, line
//! breaks and tabs, and this program's own styles. Values enter through [`text!`](crate::text!), which escapes them.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter, Write};

use serde::Serialize;

/// Text that cannot command a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(String);

/// Formats a [`Text`] as `format!` formats a string. Values are escaped, including their line breaks. A `Text` is inserted as it
/// is, but only as an argument of its own (`text!("{}", text)`, not `text!("{text}")`).
macro_rules! text {
    ($format:literal $(, $argument:expr)* $(,)?) => {
        $crate::text::Text::written(|sink| sink.write(format_args!($format $(, $crate::text::Argument { sink, value: &$argument })*)))
    };
}
pub(crate) use text;

impl Text {
    /// Returns the text that `write` writes.
    pub(crate) fn written(write: impl FnOnce(&Sink)) -> Self {
        let sink = Sink::default();
        write(&sink);
        Self(sink.0.into_inner())
    }

    /// Returns a text of several lines: the line breaks and tabs of `value` are kept.
    pub(crate) fn block(value: &str) -> Self {
        let mut text = String::with_capacity(value.len());
        let mut lines = value.split('\n');
        push_line(&mut text, lines.next().unwrap_or_default());
        for line in lines {
            text.push('\n');
            push_line(&mut text, line);
        }
        Self(text)
    }

    /// Returns a text of one line: each whitespace character of `value` becomes a space.
    pub(crate) fn line(value: &str) -> Self {
        let spaced: String = value.chars().map(|character| if character.is_whitespace() { ' ' } else { character }).collect();
        Self(escaped(&spaced))
    }

    /// Returns the indented JSON of `value`. Escapes keep it valid JSON.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self(escaped_json(serde_json::to_string_pretty(value).unwrap_or_default()))
    }

    /// Returns the JSON of `value` on one line.
    pub(crate) fn json_line(value: &impl Serialize) -> Self {
        Self(escaped_json_line(serde_json::to_string(value).unwrap_or_default()))
    }

    /// Joins `texts` with `separator` between them.
    pub(crate) fn joined(texts: impl IntoIterator<Item = Self>, separator: &'static str) -> Self {
        let texts: Vec<String> = texts.into_iter().map(|text| text.0).collect();
        Self(texts.join(separator))
    }

    /// Returns the text in the style that the SGR parameter `code` selects.
    pub(crate) fn styled(code: &'static str, value: impl Shown) -> Self {
        Self(format!("\u{1b}[{code}m{}\u{1b}[0m", text!("{}", value).0))
    }

    /// Returns the characters of the text, including its styles.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number of visible characters.
    pub(crate) fn width(&self) -> usize {
        Pieces(&self.0).filter(|piece| matches!(piece, Piece::Seen(_))).count()
    }

    /// Returns the text with spaces appended, up to `width` characters.
    pub(crate) fn padded(mut self, width: usize) -> Self {
        self.0.extend(std::iter::repeat_n(' ', width.saturating_sub(self.width())));
        self
    }

    /// Returns the text without spaces at its end.
    pub(crate) fn trimmed_end(mut self) -> Self {
        self.0.truncate(self.0.trim_end_matches(' ').len());
        self
    }

    /// Returns the first `width` characters. If any are left out, the last one is `…`, and styles are closed.
    pub(crate) fn cut(&self, width: usize) -> Self {
        if self.width() <= width {
            return self.clone();
        }
        let (mut kept, mut seen, mut has_styles) = (String::with_capacity(self.0.len()), 0, false);
        for piece in Pieces(&self.0) {
            match piece {
                Piece::Style(style) => {
                    has_styles = true;
                    kept.push_str(style);
                }
                Piece::Seen(_) if seen + 1 >= width => break,
                Piece::Seen(character) => {
                    kept.push(character);
                    seen += 1;
                }
            }
        }
        if width > 0 {
            kept.truncate(if has_styles { kept.len() } else { kept.trim_end_matches(' ').len() });
            kept.push('…');
        }
        Self(if has_styles { kept + "\u{1b}[0m" } else { kept })
    }

    /// Returns the lines of the text. A style does not continue on the next line.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.split('\n').map(|line| Self(line.to_owned()))
    }
}

/// A part of a text.
enum Piece<'a> {
    /// One of the program's own styles, `ESC [ … m`.
    Style(&'a str),
    /// A visible character.
    Seen(char),
}

/// The parts of a text, in order.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let first = self.0.chars().next()?;
        let length = if first == '\u{1b}' { self.0.find('m').map_or(self.0.len(), |end| end + 1) } else { first.len_utf8() };
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(if first == '\u{1b}' { Piece::Style(piece) } else { Piece::Seen(first) })
    }
}

/// An argument of [`text!`](crate::text!): a [`Text`] is inserted as it is, any other value is escaped.
///
/// `Text` does not implement `Display`. It could otherwise become a plain string, whose styles would be escaped, and these
/// implementations would overlap.
pub(crate) trait Shown {
    /// Writes the value to `sink`. The `formatter` writes to the same sink and escapes.
    fn show(&self, sink: &Sink, formatter: &mut Formatter<'_>) -> fmt::Result;
}

impl<T: Display + ?Sized> Shown for T {
    fn show(&self, _: &Sink, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.fmt(formatter)
    }
}

impl Shown for Text {
    fn show(&self, sink: &Sink, _: &mut Formatter<'_>) -> fmt::Result {
        sink.0.borrow_mut().push_str(&self.0);
        Ok(())
    }
}

impl Shown for &Text {
    fn show(&self, sink: &Sink, formatter: &mut Formatter<'_>) -> fmt::Result {
        (*self).show(sink, formatter)
    }
}

/// A text under construction. Everything written to it is escaped, except arguments that are texts.
#[derive(Default)]
pub(crate) struct Sink(RefCell<String>);

impl Sink {
    /// Writes the result of `format_args!`.
    pub(crate) fn write(&self, arguments: fmt::Arguments<'_>) {
        let _infallible = Escaper(self).write_fmt(arguments);
    }
}

/// A writer that escapes everything before it reaches the sink.
struct Escaper<'a>(&'a Sink);

impl Write for Escaper<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        push_escaped(&mut self.0.0.borrow_mut(), piece);
        Ok(())
    }
}

/// An argument of [`text!`](crate::text!), and the `sink` that it is written to.
pub(crate) struct Argument<'a, T: ?Sized> {
    /// The text under construction.
    pub(crate) sink: &'a Sink,
    /// The value.
    pub(crate) value: &'a T,
}

impl<T: Shown + ?Sized> Display for Argument<'_, T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.value.show(self.sink, formatter)
    }
}

/// Returns `value` with all hidden characters escaped: `\n`, `\u{1b}`.
pub(crate) fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    push_escaped(&mut text, value);
    text
}

/// Returns true if `value` is printed without escapes.
pub(crate) fn is_plain(value: &str) -> bool {
    !value.chars().any(is_hidden)
}

/// Returns `json` with hidden characters escaped, such as `\u001b`. Tabs and carriage returns become spaces. A value keeps the
/// white space between its tokens that a model wrote; everywhere else, hidden characters occur only inside strings. So the value
/// is the same.
pub(crate) fn escaped_json(json: String) -> String {
    if !json.chars().any(|character| is_hidden(character) && character != '\n') {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        match character {
            '\t' | '\r' => text.push(' '),
            _ if is_hidden(character) && character != '\n' => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _infallible = write!(text, "\\u{unit:04x}");
                }
            }
            _ => text.push(character),
        }
    }
    text
}

/// Returns `json` as [`escaped_json`] does, on one line.
pub(crate) fn escaped_json_line(json: String) -> String {
    escaped_json(json).replace('\n', " ")
}

fn push_line(text: &mut String, line: &str) {
    let mut cells = line.strip_suffix('\r').unwrap_or(line).split('\t');
    push_escaped(text, cells.next().unwrap_or_default());
    for cell in cells {
        text.push('\t');
        push_escaped(text, cell);
    }
}

fn push_escaped(text: &mut String, value: &str) {
    let mut before = None;
    let mut rest = value.chars().peekable();
    while let Some(character) = rest.next() {
        if !is_hidden(character) || (is_joiner(character) && joinable(before) && joinable(rest.peek().copied())) {
            text.push(character);
        } else {
            text.extend(character.escape_default());
        }
        before = Some(character);
    }
}

/// Returns true for the joiners, which Persian, Hindi and many emoji need.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200C}' | '\u{200D}')
}

/// Returns true if a joiner may be next to `character`. In ASCII it may not, since it could only hide something there.
fn joinable(character: Option<char>) -> bool {
    character.is_some_and(|character| !character.is_ascii() && !is_hidden(character))
}

/// Returns true if `character` is not printed as itself: it commands the terminal, ends the line, changes the direction of
/// writing or is invisible. These are the control characters and, except variation selectors, Unicode's
/// `Default_Ignorable_Code_Point`.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180E}'
            | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers title, clipboard, erased line, C1 sequences, direction of writing and invisible characters.
    const HOSTILE: &str =
        "a\u{1b}]0;owned\u{7}\u{1b}]52;c;aGk=\u{7}\r\u{1b}[2K\u{9b}31m\u{202e}b\u{2066}\u{200b}\u{feff}\u{e0041}\nc";

    #[test]
    fn a_value_can_only_be_seen() {
        let shown = text!("{} and {HOSTILE}", HOSTILE);
        assert!(is_plain(shown.as_str()), "{:?}", shown.as_str());
        assert_eq!(text!("{}", "\u{1b}[31m\n").as_str(), "\\u{1b}[31m\\n");
        assert_eq!(Text::block("a\u{1b}b\tc\r\nd\re").as_str(), "a\\u{1b}b\tc\nd\\re");
        assert_eq!(Text::line("a\nb\u{9b}").as_str(), "a b\\u{9b}");
    }

    #[test]
    fn a_text_in_a_text_keeps_its_styles_and_its_lines() {
        let inner = Text::styled("1", "a\nb");
        assert_eq!(inner.as_str(), "\u{1b}[1ma\\nb\u{1b}[0m");
        assert_eq!(text!("<{}> {}", inner, &inner).as_str(), "<\u{1b}[1ma\\nb\u{1b}[0m> \u{1b}[1ma\\nb\u{1b}[0m");
        assert_eq!(text!("{}", Text::block("a\nb")).as_str(), "a\nb");
        assert_eq!(text!("{:>4}|{:<3}|", 12, "x").as_str(), "  12|x  |");
    }

    #[test]
    fn widths_and_cuts_count_what_is_seen() {
        let styled = text!("{}cd", Text::styled("1", "ab"));
        assert_eq!((styled.width(), styled.clone().padded(6).as_str()), (4, "\u{1b}[1mab\u{1b}[0mcd  "));
        assert_eq!(styled.cut(4), styled);
        assert_eq!(styled.cut(3).as_str(), "\u{1b}[1mab\u{1b}[0m…\u{1b}[0m");
        assert_eq!(Text::styled("1", "abcd").cut(3).as_str(), "\u{1b}[1mab…\u{1b}[0m");
        assert_eq!(text!("ab cd").cut(4).as_str(), "ab…");
        assert_eq!(text!("abc").cut(0).as_str(), "");
    }

    #[test]
    fn joiners_stay_between_letters_that_need_them() {
        for word in ["می\u{200c}خواهم", "👩\u{200d}💻"] {
            assert_eq!(escaped(word), word);
        }
        assert_eq!(escaped("a\u{200d}b"), "a\\u{200d}b");
        assert_eq!(escaped("é\u{200d}\u{200d}é"), "é\\u{200d}\\u{200d}é");
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({HOSTILE: [HOSTILE, "plain ü"]});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let safe = escaped_json(json);
            assert!(is_plain(&safe.replace('\n', "")), "{safe:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        }
    }

    #[test]
    fn white_space_between_tokens_breaks_neither_json_nor_its_line() {
        let kept = "{\"a\"\r\n\t:\t[\"b\\t\"\n]}";
        let value = serde_json::value::RawValue::from_string(kept.to_owned()).unwrap();
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        let line = Text::json_line(&value);
        assert!(is_plain(line.as_str()), "{line:?}");
        for text in [line, Text::json(&value)] {
            assert!(is_plain(&text.as_str().replace('\n', "")), "{text:?}");
            assert_eq!(read(text.as_str()), read(kept));
        }
    }
}
