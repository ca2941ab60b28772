//! Digest of older turns when no model wrote a summary: their texts and calls, shortened.
//!
//! A digest is a pure function of the turns and of its maximum length. The newest lines stay, and the messages of people
//! before all others.

use std::sync::Arc;

use baton_types::call::CallOutput;
use baton_types::entry::Notice;
use baton_types::estimate::text_bytes;
use baton_types::message::{Message, Part, TaskResult};

use crate::weight::SUMMARY_FRAME_TOKENS;

/// First line if earlier lines had no room.
const LEFT_OUT: &str = "(earlier lines are left out)";

/// Prefix of a line with a person's words.
const PERSON: &str = "a person said: ";

/// Bytes kept of a person's message, and of an earlier request.
const PERSON_BYTES: usize = 1_000;
/// Bytes kept of an agent's text.
const SAID_BYTES: usize = 400;
/// Bytes kept of a call's input, and of its output.
const CALL_BYTES: usize = 160;

/// Returns the digest of the turns in `older`, of at most `tokens` tokens (≈). It begins with the lines of the summary that
/// `opening` may have.
pub(crate) fn digest(opening: &Message, older: &[&Arc<Message>], tokens: u64) -> String {
    let before = opening.parts.iter().filter_map(|part| match part {
        Part::Summary { text, .. } => Some(text.lines().map(str::to_owned)),
        _ => None,
    });
    let before: Vec<String> = before.flatten().collect();
    let cut = before.first().is_some_and(|first| first == LEFT_OUT);
    let new = older.iter().flat_map(|message| &message.parts).filter_map(line);
    let lines: Vec<String> = before.into_iter().skip(usize::from(cut)).chain(new).collect();
    let bytes = text_bytes(tokens.saturating_sub(SUMMARY_FRAME_TOKENS));
    newest(&lines, cut, usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Returns the line of `part`; `None` for parts without a meaning after their turn.
fn line(part: &Part) -> Option<String> {
    let text = match part {
        Part::Text(text) => format!("you said: {}", short(text, SAID_BYTES)),
        Part::Notice(Notice::Steer { text }) => format!("{PERSON}{}", short(text, PERSON_BYTES)),
        Part::Notice(notice @ (Notice::InputChanged(_) | Notice::NotAccepted { .. })) => {
            format!("you were told: {}", short(&notice.text(), PERSON_BYTES))
        }
        Part::Result { asked, result, said, .. } => {
            let (status, output) = result.as_ref().map_or(("waiting", None), |result| {
                let error = result.error.as_ref().map(|error| error.message.clone());
                (result.status.as_str(), error.or_else(|| output_text(&result.output)))
            });
            // A model may invent any name. A shortened name has no line break, so no line of a digest begins within one.
            let (tool, input) = (short(asked.shown_name(), CALL_BYTES), short(asked.input.text(), CALL_BYTES));
            let mut line = format!("you called {tool} {input}: {status}");
            if let Some(output) = output {
                line = format!("{line}, {}", short(&output, CALL_BYTES));
            }
            for said in said {
                let (question, answer) = (short(&said.question, CALL_BYTES), short(said.answer.text(), CALL_BYTES));
                line = format!("{line}; in your name was asked {question} and answered {answer}");
            }
            line
        }
        Part::Document(version) | Part::Repeated(version) => format!("you were shown {}", version.reference()),
        Part::Pointer(version) => format!("you got the record of {}", version.reference()),
        Part::Conflict { current, .. } => format!("you were shown {}", current.reference()),
        // Of the conversation that this one begins with.
        Part::Request(text) => format!("you were asked: {}", short(text, PERSON_BYTES)),
        Part::TaskResult(ended) => {
            let TaskResult { task, tool, result, .. } = &**ended;
            let error = result.error.as_ref().map(|error| error.message.clone());
            let output = error.or_else(|| output_text(&result.output)).map(|output| format!(", {}", short(&output, CALL_BYTES)));
            format!("the background task {task} of {tool} ended: {}{}", result.status.as_str(), output.unwrap_or_default())
        }
        Part::Instruction { from, text } => format!("the agent {from} said: {}", short(text, PERSON_BYTES)),
        Part::Question { .. }
        | Part::Attempt { .. }
        | Part::Items(_)
        | Part::Call { .. }
        | Part::Summary { .. }
        | Part::Notice(Notice::Reminder { .. } | Notice::LastTurn { .. } | Notice::Summarise { .. } | Notice::LimitsLeft(_)) => {
            return None;
        }
    };
    Some(text)
}

/// Returns an output as text; `None` if there is none.
fn output_text(output: &CallOutput) -> Option<String> {
    (!output.is_null()).then(|| output.text().into_owned())
}

/// Returns the newest of `lines` that fit into `most` bytes, people's words before all others. The first line notes
/// lines that were left out, now or before.
fn newest(lines: &[String], cut: bool, most: usize) -> String {
    let Some(mut room) = most.checked_sub(LEFT_OUT.len()) else { return String::new() };
    let mut kept = vec![false; lines.len()];
    for of_people in [true, false] {
        let newest_first = (0..lines.len()).rev().filter(|place| lines[*place].starts_with(PERSON) == of_people);
        for place in newest_first {
            let Some(left) = room.checked_sub(lines[place].len() + 1) else { break };
            (room, kept[place]) = (left, true);
        }
    }
    let head = (cut || kept.contains(&false)).then_some(LEFT_OUT);
    let kept_lines = lines.iter().zip(kept).filter(|(_, kept)| *kept).map(|(line, _)| line.as_str());
    head.into_iter().chain(kept_lines).collect::<Vec<_>>().join("\n")
}

/// Returns at most `most` bytes of `text` on one line, with a mark if it was cut.
fn short(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= most {
        return line;
    }
    let end = (0..=most).rev().find(|end| line.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &line[..end])
}
