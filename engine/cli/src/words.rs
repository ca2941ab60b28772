//! Figures and texts for people: durations, sizes, counts, one-line previews.

use baton_timeline::figures;
pub(crate) use baton_timeline::figures::{count, counted, duration, elapsed, size};
use baton_types::entry::ForkPoint;
use baton_types::principal::Principal;

use crate::text::{Text, text};

/// Renders a count with its noun: `1 entry`, `2 entries`.
pub(crate) fn counted_as(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// Returns the beginning of `text` on one line, at most `width` characters, with `…` for the rest. It is cut between words,
/// or inside a word that is longer than half of the line.
pub(crate) fn preview(text: &str, width: usize) -> Text {
    let line = text!("{}", figures::preview(text, width.saturating_mul(2).min(100_000)));
    let characters: Vec<char> = line.as_str().chars().collect();
    if characters.len() <= width {
        return line;
    }
    let Some(room) = width.checked_sub(1) else { return Text::default() };
    let between = (room / 2 + 1..=room).rev().find(|end| characters[*end] == ' ').unwrap_or(room);
    let kept: String = characters[..between].iter().collect();
    text!("{}…", kept.trim_end())
}

/// Wraps `text` into lines of at most `width` characters, between words if possible. Spaces at the beginning of a line are kept, up to
/// half of the width, and repeated on the lines that continue it.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<Text> {
    let mut lines = Vec::new();
    for paragraph in Text::block(text).as_str().split('\n') {
        let words = paragraph.trim_start_matches(' ');
        // A space is one byte.
        let indent = " ".repeat((paragraph.len() - words.len()).min(width / 2));
        let width = (width - indent.len()).max(1);
        let mut line = String::new();
        for word in words.split(' ') {
            let (used, needed) = (line.chars().count(), word.chars().count());
            if used > 0 && used + 1 + needed > width {
                lines.push(indent.clone() + &std::mem::take(&mut line));
            } else if used > 0 {
                line.push(' ');
            }
            let mut rest: Vec<char> = word.chars().collect();
            while line.is_empty() && rest.len() > width {
                lines.push(indent.clone() + &rest.drain(..width).collect::<String>());
            }
            line.extend(rest);
        }
        lines.push(if line.is_empty() { line } else { indent + &line });
    }
    lines.iter().map(|line| Text::block(line)).collect()
}

/// Width of the labels before the lines of a report.
pub(crate) const LABEL: usize = 12;

/// Renders `text` after `label`, wrapped between words into lines of at most `width` characters.
pub(crate) fn labelled(label: Text, text: &str, width: usize) -> Vec<Text> {
    beside(label, wrap(text, width.saturating_sub(LABEL).max(LABEL)))
}

/// Renders `lines` after `label`, which is before the first one.
pub(crate) fn beside(label: Text, lines: impl IntoIterator<Item = Text>) -> Vec<Text> {
    let mut label = Some(label);
    lines.into_iter().map(|line| text!("{}{}", label.take().unwrap_or_default().padded(LABEL), line).trimmed_end()).collect()
}

/// Renders commands after `label`: as many on a line as fit into `width` characters, and none of them in two parts. If one of them
/// does not fit after the label, all begin on the next line.
pub(crate) fn commands(label: Text, commands: &[String], width: usize) -> Vec<Text> {
    if commands.iter().any(|command| LABEL + command.chars().count() > width) {
        return std::iter::once(label).chain(commands.iter().map(|command| text!("{command}"))).collect();
    }
    let mut lines: Vec<String> = Vec::new();
    for command in commands {
        match lines.last_mut() {
            Some(line) if LABEL + line.chars().count() + 3 + command.chars().count() <= width => {
                line.push_str(" · ");
                line.push_str(command);
            }
            _ => lines.push(command.clone()),
        }
    }
    beside(label, lines.iter().map(|line| text!("{line}")))
}

/// Aligns rows in columns, each as wide as its widest cell. Spaces at the end of a line are removed.
pub(crate) fn columns(rows: Vec<Vec<Text>>) -> Vec<Text> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..count).map(|column| rows.iter().filter_map(|row| row.get(column)).map(Text::width).max().unwrap_or(0)).collect();
    let lay = |row: Vec<Text>| {
        let cells = row.into_iter().enumerate().map(|(index, cell)| cell.padded(widths[index]));
        Text::joined(cells, "  ").trimmed_end()
    };
    rows.into_iter().map(lay).collect()
}

/// Renders the principal that answered a question, and the run from which a fork took the answer.
pub(crate) fn answerer(by: &Principal, recorded: Option<&ForkPoint>) -> Text {
    match recorded {
        Some(from) => text!("{by}, in run {}", from.run),
        None => text!("{by}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_one_line_of_bounded_length() {
        let preview = |text: &str, width| super::preview(text, width).as_str().to_owned();
        assert_eq!(preview("a  b\n c", 20), "a b c");
        assert_eq!(preview("alpha beta gamma", 8), "alpha…");
        assert_eq!(preview("alpha beta gamma", 11), "alpha beta…");
        assert_eq!(preview("a bcdefghij", 6), "a bcd…");
        assert_eq!(preview("abcdefghij", 5), "abcd…");
        assert_eq!((preview("abc", 0), preview("abc", 1)), (String::new(), "…".to_owned()));
        assert_eq!(preview("\u{1b}[2Jred", 20), "\\u{1b}[2Jred");
        assert!(preview(&"wörd ".repeat(100), 30).chars().count() <= 30);
    }

    #[test]
    fn lines_are_broken_between_words() {
        let wrap =
            |text, width| -> Vec<String> { super::wrap(text, width).iter().map(|line| line.as_str().to_owned()).collect() };
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("a\n\nb", 5), ["a", "", "b"]);
        assert_eq!(wrap("- a\n  - b c\n\n    x = 1", 9), ["- a", "  - b c", "", "    x = 1"]);
        assert_eq!(wrap("  - one two\n   ", 7), ["  - one", "  two", ""]);
        assert_eq!(wrap("          deep", 6), ["   dee", "   p"]);
        assert_eq!(wrap(" a", 0), ["a"]);
    }

    #[test]
    fn commands_are_never_broken() {
        let shown = |width| -> Vec<String> {
            let lines = commands(text!("next:"), &["baton show 7k2f".to_owned(), "baton doc ls 7k2f".to_owned()], width);
            lines.iter().map(|line| line.as_str().to_owned()).collect()
        };
        assert_eq!(shown(80), ["next:       baton show 7k2f · baton doc ls 7k2f"]);
        assert_eq!(shown(40), ["next:       baton show 7k2f", "            baton doc ls 7k2f"]);
        assert_eq!(shown(10), ["next:", "baton show 7k2f", "baton doc ls 7k2f"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec![text!("a"), text!("x")], vec![text!("long"), text!("")]];
        assert_eq!(columns(rows), [text!("a     x"), text!("long")]);
    }
}
