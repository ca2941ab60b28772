//! Counts, sizes, durations and previews in sentences.

use std::time::Duration;

/// Formats a duration with the unit that suits it: `0.3ms`, `2.3s`, `12s`, `3m 05s`, `2h 10m`.
pub fn duration(duration: Duration) -> String {
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

/// Formats an elapsed time. It never shows less than tenths of a second, because live rows would flicker.
pub fn elapsed(duration: Duration) -> String {
    if duration.as_secs() < 10 { format!("{:.1}s", duration.as_secs_f64()) } else { self::duration(duration) }
}

/// Formats a size in bytes: `412 B`, `20.5 KB`, `3.1 MB` (powers of 1,000).
pub fn size(bytes: u64) -> String {
    match bytes {
        0..=999 => format!("{bytes} B"),
        1_000..=999_949 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Formats a count with its thousands separated: `12,345`.
pub fn count(number: u64) -> String {
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

/// Formats a count with its noun, in the plural where needed: `1 task`, `2 tasks`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number as u64))
}

/// Returns the beginning of `text` on one line: at most `width` characters, `…` where the rest is left out.
pub fn preview(text: &str, width: usize) -> String {
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
    if line.chars().count() <= width {
        return line;
    }
    let mut cut: String = line.chars().take(width.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_that_suits_them() {
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
        assert_eq!(preview("a  b\n c", 20), "a b c");
        assert_eq!(preview("alpha beta gamma", 8), "alpha b…");
        assert_eq!(preview("alpha beta gamma", 7), "alpha…");
        assert_eq!(preview("alpha beta gamma", 10), "alpha bet…");
        assert_eq!(preview("abcdefghij", 5), "abcd…");
        assert!(preview(&"wörd ".repeat(100), 30).chars().count() <= 30);
    }
}
