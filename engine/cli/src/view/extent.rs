//! Limits how much of a value or a change is shown, and splits its lines to fit the window.

use serde_json::Value;

use crate::text::{Text, text};
use crate::words;

/// Largest number of lines of one value or change. A command shows the rest.
pub(crate) const LINES: usize = 60;

/// The shown extent of a question.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    /// At most [`LINES`] lines of a value or a change; this command shows all.
    Bounded(&'a str),
    /// The whole question.
    Whole,
}

impl Extent<'_> {
    /// Returns the first of `lines`, up to the limit, and the number of the others. Each line is a list of pieces that fit the
    /// window.
    pub(crate) fn of(self, lines: impl IntoIterator<Item = Vec<Text>>) -> Vec<Text> {
        let mut lines = lines.into_iter();
        let Self::Bounded(command) = self else { return lines.flatten().collect() };
        let mut shown: Vec<Text> = Vec::new();
        let mut more = 0;
        while shown.len() < LINES
            && let Some(pieces) = lines.next()
        {
            shown.extend(pieces);
        }
        if shown.len() > LINES {
            shown.truncate(LINES);
            more = 1;
        }
        // The other lines are only counted: they may be many, and a question is drawn often.
        more += lines.count();
        if more > 0 {
            shown.push(text!("… {}; show all: {command}", words::counted(more, "more line")));
        }
        shown
    }
}

/// Splits the lines of `value` into pieces, each after `mark`. Long lines continue on the next one.
pub(crate) fn block<'v>(value: &'v str, mark: &'static str, width: usize) -> impl Iterator<Item = Vec<Text>> + 'v {
    let room = width.saturating_sub(mark.chars().count());
    value.lines().map(move |line| pieces(line, room).iter().map(|piece| text!("{}{}", mark, piece)).collect())
}

/// Splits a line into pieces of at most `width` characters as shown; the characters of an escape count too.
pub(crate) fn pieces(line: &str, width: usize) -> Vec<Text> {
    let shown = text!("{}", line.replace('\t', "⇥   "));
    let characters: Vec<char> = shown.as_str().chars().collect();
    if characters.is_empty() {
        return vec![shown];
    }
    characters.chunks(width.max(1)).map(|piece| text!("{}", piece.iter().collect::<String>())).collect()
}

/// Returns `value` as indented JSON.
pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
