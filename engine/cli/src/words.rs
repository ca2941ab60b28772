//! Figures and texts as people read them: durations, sizes, counts, one-line previews.

use std::time::Duration;

use baton_core::entry::ForkPoint;
use baton_core::principal::Principal;

use crate::text::{Text, text};

/// A duration with the unit that suits it: `0.2s`, `12s`, `3m 05s`, `2h 10m`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() < 100 => format!("{:.1}ms", duration.as_secs_f64() * 1_000.0),
        0..=9 => format!("{:.1}s", duration.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Elapsed time in a live row, where tenths of a second would only flicker.
pub(crate) fn elapsed(duration: Duration) -> String {
    if duration.as_secs() < 10 { format!("{:.1}s", duration.as_secs_f64()) } else { self::duration(duration) }
}

/// A size in bytes: `412 B`, `20.5 KB`, `3.1 MB` (powers of 1,000).
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=999 => format!("{bytes} B"),
        1_000..=999_949 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A count with thousands separated: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the one or the other noun: `1 entry`, `2 entries`.
pub(crate) fn counted_as(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// A count with its noun, in the plural where needed: `1 task`, `2 tasks`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number as u64))
}

/// The beginning of `text` on one line, at most `width` characters, `…` where something was left out.
pub(crate) fn preview(text: &str, width: usize) -> Text {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 {
            line.push(' ');
        }
        // One character more than fits is enough to know that the line is cut.
        line.extend(word.chars().take(width + 1));
        length += 1 + word.chars().take(width + 1).count();
        if length > width + 1 {
            break;
        }
    }
    text!("{line}").cut(width)
}

/// `text` in lines of at most `width` characters, broken between words where that is possible.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<Text> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in Text::block(text).as_str().split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let (used, needed) = (line.chars().count(), word.chars().count());
            if used > 0 && used + 1 + needed > width {
                lines.push(std::mem::take(&mut line));
            } else if used > 0 {
                line.push(' ');
            }
            let mut rest: Vec<char> = word.chars().collect();
            while line.is_empty() && rest.len() > width {
                lines.push(rest.drain(..width).collect());
            }
            line.extend(rest);
        }
        lines.push(line);
    }
    lines.iter().map(|line| Text::block(line)).collect()
}

/// Lays rows out in columns, each as wide as its widest cell; the last cell of a row is left as it is.
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

/// Who answered a question, with the run that a fork took the answer from.
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
    fn figures_read_well() {
        assert_eq!(duration(Duration::from_micros(300)), "0.3ms");
        assert_eq!(duration(Duration::from_millis(2_340)), "2.3s");
        assert_eq!(duration(Duration::from_secs(185)), "3m 05s");
        assert_eq!(duration(Duration::from_hours(25)), "1d 01h");
        assert_eq!(size(412), "412 B");
        assert_eq!(size(20_480), "20.5 KB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "task"), "1 task");
        assert_eq!(counted(0, "task"), "0 tasks");
    }

    #[test]
    fn a_preview_is_one_line_of_bounded_length() {
        let preview = |text: &str, width| super::preview(text, width).as_str().to_owned();
        assert_eq!(preview("a  b\n c", 20), "a b c");
        assert_eq!(preview("alpha beta gamma", 8), "alpha b…");
        assert_eq!(preview("alpha beta gamma", 7), "alpha…");
        assert_eq!(preview("alpha beta gamma", 10), "alpha bet…");
        assert_eq!(preview("abcdefghij", 5), "abcd…");
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
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec![text!("a"), text!("x")], vec![text!("long"), text!("")]];
        assert_eq!(columns(rows), [text!("a     x"), text!("long")]);
    }
}
