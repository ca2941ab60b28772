//! Texts of configs as Markdown: in a line, in a cell, in a paragraph and in a fence.
//!
//! A description may hold code between backticks, which stays code. Everything else of Markdown and HTML becomes plain text.

use std::fmt::Write as _;

/// Returns text on one line, for a cell, a heading or the inside of a paragraph.
pub(crate) fn line(text: &str) -> String {
    let text = shown(text, ' ');
    let (mut line, mut rest) = (String::new(), text.as_str());
    while let Some(start) = rest.find('`') {
        let (before, from) = rest.split_at(start);
        escape(&mut line, before);
        let run = from.len() - from.trim_start_matches('`').len();
        rest = &from[run..];
        match end_of_code(rest, run) {
            Some(end) => {
                line.push_str(&code(&rest[..end]));
                rest = &rest[end + run..];
            }
            None => line.push_str(&"\\`".repeat(run)),
        }
    }
    escape(&mut line, rest);
    line
}

/// Returns text as code within a line.
pub(crate) fn code(text: &str) -> String {
    let text = shown(text, ' ');
    let is_plain = !text.contains(['`', '|']) && text.trim() == text && !text.is_empty();
    if is_plain {
        return format!("`{text}`");
    }
    // No Markdown and no end of a cell can be made of references to characters.
    let mut html = "<code>".to_owned();
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            let _infallible = write!(html, "&#{};", u32::from(character));
        } else {
            html.push(character);
        }
    }
    html + "</code>"
}

/// Returns text as one or several paragraphs. Its lines stay apart, but they are no lists, headings or fences.
pub(crate) fn paragraphs(text: &str) -> String {
    let text = shown(text, '\n');
    let mut paragraphs = String::new();
    let mut is_open = false;
    for text in text.lines().map(str::trim) {
        if text.is_empty() {
            is_open = false;
            continue;
        }
        if !paragraphs.is_empty() {
            paragraphs.push_str(if is_open { "\\\n" } else { "\n\n" });
        }
        paragraphs.push_str(&inside(line(text)));
        is_open = true;
    }
    paragraphs
}

/// Returns JSON in a fence that no text in it can close.
pub(crate) fn fence(json: &str) -> String {
    // Control characters occur in strings only, where JSON has an escape for each.
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_hidden(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let _infallible = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(character);
        }
    }
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or_default();
    let ticks = "`".repeat(longest.max(2) + 1);
    format!("{ticks}json\n{text}\n{ticks}\n")
}

/// Returns the anchor that renderers give to a heading, without the backticks in it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = |character: char| match character {
        ' ' => Some('-'),
        _ if character.is_alphanumeric() || "-_".contains(character) => Some(character),
        _ => None,
    };
    heading.to_lowercase().chars().filter_map(kept).collect()
}

/// Returns the place after `text` up to the next run of exactly `run` backticks.
fn end_of_code(text: &str, run: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(start) = text[from..].find('`') {
        let start = from + start;
        let length = text[start..].len() - text[start..].trim_start_matches('`').len();
        if length == run {
            return (start > 0).then_some(start);
        }
        from = start + length;
    }
    None
}

/// Adds `text` without backticks, so that no character of it has a meaning in Markdown or HTML.
fn escape(line: &mut String, text: &str) {
    let mut before = line.chars().next_back();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_word = |other: Option<char>| other.is_some_and(char::is_alphanumeric);
        match character {
            '<' => line.push_str("&lt;"),
            '&' => line.push_str("&amp;"),
            '\\' | '*' | '[' | '|' | '~' => line.extend(['\\', character]),
            '_' if !(is_word(before) && is_word(characters.peek().copied())) => line.push_str("\\_"),
            _ => line.push(character),
        }
        before = Some(character);
    }
}

/// Returns a line that begins no block: no list, heading, quote, rule or table.
fn inside(line: String) -> String {
    let digits = line.len() - line.trim_start_matches(|first: char| first.is_ascii_digit()).len();
    match line[digits..].chars().next() {
        Some('.' | ')') if digits > 0 => format!("{}\\{}", &line[..digits], &line[digits..]),
        Some('#' | '>' | '-' | '+' | '=' | ':') if digits == 0 => format!("\\{line}"),
        _ => line,
    }
}

/// Returns text without characters that people cannot see or that change the direction of a text. Ends of lines become `end`.
fn shown(text: &str, end: char) -> String {
    let text = text.replace("\r\n", "\n");
    let shown = |character: char| match character {
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => end,
        '\t' => ' ',
        _ if is_hidden(character) => '\u{fffd}',
        _ => character,
    };
    text.chars().map(shown).collect()
}

/// Whether a character is a control, reorders a text (Unicode's annex 9) or is invisible. Joiners, which some scripts need, are not.
fn is_hidden(character: char) -> bool {
    let marks = ['\u{61c}', '\u{200b}', '\u{200e}', '\u{200f}', '\u{feff}'];
    let is_format = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}');
    character.is_control() || is_format || marks.contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_line_or_its_cell() {
        let cases = [
            ("a | b", "a \\| b"),
            ("a\nb\r\nc", "a b c"),
            ("<script>x</script>", "&lt;script>x&lt;/script>"),
            ("[x](http://a) ![y](b)", "\\[x](http://a) !\\[y](b)"),
            ("&lt; \\| *b* _c_ snake_case", "&amp;lt; \\\\\\| \\*b\\* \\_c\\_ snake_case"),
            ("use `rows[].x` or `", "use `rows[].x` or \\`"),
            ("``a`b`` and ```", "<code>a&#96;b</code> and \\`\\`\\`"),
            ("`a|b` `` ` ``", "<code>a&#124;b</code> <code> &#96; </code>"),
            ("end\u{202e}txt\u{1b}[31m", "end\u{fffd}txt\u{fffd}\\[31m"),
        ];
        for (text, expected) in cases {
            assert_eq!(line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_paragraph_begins_no_block() {
        let text = "One.\n# two\n\n- three\n```\n1. four\n~~~\n| a |\n    code\n===\n> quote";
        let expected =
            "One.\\\n\\# two\n\n\\- three\\\n\\`\\`\\`\\\n1\\. four\\\n\\~\\~\\~\\\n\\| a \\|\\\ncode\\\n\\===\\\n\\> quote";
        assert_eq!(paragraphs(text), expected);
    }

    #[test]
    fn code_is_never_ended_by_its_text() {
        assert_eq!(code("a b"), "`a b`");
        assert_eq!(code("a`|<b>\\"), "<code>a&#96;&#124;&#60;b&#62;&#92;</code>");
        assert_eq!(code(""), "<code></code>");
    }

    #[test]
    fn a_fence_is_longer_than_every_run_of_backticks_in_it() {
        assert_eq!(fence("{}"), "```json\n{}\n```\n");
        assert_eq!(fence("\"````\u{202e}\""), "`````json\n\"````\\u202e\"\n`````\n");
    }

    #[test]
    fn an_anchor_is_that_of_the_heading() {
        assert_eq!(anchor("route_to_<agent_id>"), "route_to_agent_id");
        assert_eq!(anchor("count-lines of the job sales"), "count-lines-of-the-job-sales");
    }
}
