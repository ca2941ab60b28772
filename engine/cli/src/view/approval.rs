//! The question whether a call may begin, as a person reads it: the tool, then its input, each text as its lines.
//!
//! The request of the question is written for agents too. It has the input as JSON, where a text is one escaped line.

use baton_core::json::Json;
use serde_json::Value;

use crate::text::{Text, text};
use crate::words;

/// The most lines of one value. The timeline has the rest.
const LINES: usize = 200;

/// The lines of an input, at most `width` characters each.
pub(crate) fn input_lines(input: &Json, width: usize) -> Vec<Text> {
    let width = width.max(20);
    match input.value() {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().flat_map(|(name, value)| field_lines(name, value, width)).collect()
        }
        Value::Object(_) | Value::Null => vec![text!("no input")],
        other => block(&pretty(&other), "", width),
    }
}

/// `name: value`, or the name and below it the lines of the value.
fn field_lines(name: &str, value: &Value, width: usize) -> Vec<Text> {
    let shown = match value {
        Value::String(text) => text.clone(),
        other => pretty(other),
    };
    let is_short = !shown.contains('\n') && name.chars().count() + 2 + shown.chars().count() <= width;
    if is_short {
        return vec![text!("{}: {}", Text::line(name), Text::line(&shown))];
    }
    let mut lines = vec![text!("{}:", Text::line(name))];
    lines.extend(block(&shown, "│ ", width));
    lines
}

/// The lines of `value`, each behind `mark`; long ones are continued on the next.
fn block(value: &str, mark: &'static str, width: usize) -> Vec<Text> {
    let room = width.saturating_sub(mark.chars().count()).max(1);
    let mut lines = Vec::new();
    for line in value.lines() {
        let characters: Vec<char> = line.chars().collect();
        let pieces: Vec<String> = characters.chunks(room).map(|piece| piece.iter().collect()).collect();
        let pieces = if pieces.is_empty() { vec![String::new()] } else { pieces };
        lines.extend(pieces.iter().map(|piece| text!("{}{}", mark, Text::line(piece))));
    }
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if more > 0 {
        lines.push(text!("{}… {}; the timeline has them", mark, words::counted(more, "more line")));
    }
    lines
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(input: Value, width: usize) -> String {
        let lines: Vec<String> = input_lines(&Json::from(input), width).iter().map(|line| line.as_str().to_owned()).collect();
        lines.join("\n")
    }

    #[test]
    fn a_text_of_several_lines_is_shown_as_lines() {
        let input = json!({"path": "a.md", "content": "# One\n\n  indented", "tags": ["x"]});
        let expected = "path: a.md\ncontent:\n│ # One\n│ \n│   indented\ntags:\n│ [\n│   \"x\"\n│ ]";
        assert_eq!(shown(input, 60), expected);
        assert_eq!(shown(json!({}), 60), "no input");
    }

    #[test]
    fn long_lines_are_continued_long_texts_are_counted_and_nothing_commands_a_terminal() {
        assert_eq!(shown(json!({"a": "x".repeat(40)}), 22), format!("a:\n│ {}\n│ {}", "x".repeat(20), "x".repeat(20)));
        let long = shown(json!({"a": "x\n".repeat(LINES + 2)}), 60);
        assert!(long.ends_with("│ … 2 more lines; the timeline has them"), "{long}");
        assert!(!shown(json!({"a": "\u{1b}]0;title\u{7}"}), 60).contains('\u{1b}'));
    }
}
