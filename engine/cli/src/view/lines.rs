//! The outputs of a run for its user, and one line per milestone: the progress of a run without a live tree.

use std::borrow::Cow;

use baton_timeline::{Line, Sentence, Tone, sentence};
use baton_types::entry::{Control, ControlAction, Entry, UserOutput};
use baton_types::time::Timestamp;
use serde_json::Value;

use super::extent::pretty;
use crate::shell::baton;
use crate::text::{Text, text};
use crate::{style, words};

/// The mark before each line of an output.
const MARK: &str = "       │ ";

/// Returns the progress line of `line`, if it is a milestone of the run that began at `began`.
pub(crate) fn progress(line: &Line, began: Timestamp) -> Option<Text> {
    let sentence = sentence(line);
    sentence.is_milestone.then_some(())?;
    let elapsed = words::elapsed(line.at.since(began));
    let task = line.task.as_ref().map(|task| text!("{task} ")).unwrap_or_default();
    let hint = match &line.entry {
        Entry::Control(Control { action: ControlAction::Paused | ControlAction::Quarantined { .. }, .. }) => {
            text!("   → {}", baton("resume").value(&line.run))
        }
        _ => Text::default(),
    };
    let subject = &sentence.subject;
    Some(text!("{} {}{} {}{}", style::faint(text!("{elapsed:>6}")), style::faint(task), subject, self::words(&sentence), hint))
}

/// Whether an output is printed and reported. Messages of the turns of other tasks than the root are, if they are wanted from
/// `all_tasks`.
pub(crate) fn is_shown(output: &UserOutput<'_>, all_tasks: bool) -> bool {
    match output {
        UserOutput::Message { task, .. } => all_tasks || task.is_root(),
        UserOutput::Result { .. } => true,
    }
}

/// Returns the lines of the output in `line`, if it has one that is shown. The mark before each line cannot be imitated by the
/// output.
pub(crate) fn output(line: &Line, began: Timestamp, all_tasks: bool, width: usize) -> Vec<Text> {
    let Some(output) = line.entry.user_output().filter(|output| is_shown(output, all_tasks)) else { return Vec::new() };
    let value = match output {
        UserOutput::Message { message, .. } => Cow::Borrowed(message),
        UserOutput::Result { output, .. } => Cow::Owned(match output.value() {
            Value::String(text) => text,
            other => pretty(&other),
        }),
    };
    let elapsed = words::elapsed(line.at.since(began));
    let task = line.task.as_ref().map(ToString::to_string).unwrap_or_default();
    let holder = line.holder.as_ref().map(ToString::to_string).unwrap_or_default();
    let head = text!("{} {} {holder} → you", style::faint(text!("{elapsed:>6}")), style::faint(task));
    // Spaces at the beginning of the first line may belong to a list or to code.
    let value = value.trim_end().trim_start_matches(['\n', '\r']);
    let body = words::wrap(value, width.saturating_sub(MARK.chars().count()));
    std::iter::once(head).chain(body.into_iter().map(|line| text!("{}{}", style::faint(MARK), line))).collect()
}

/// Returns the words of `sentence` after its subject, escaped.
pub(crate) fn words(sentence: &Sentence) -> Text {
    let part = |part: &baton_timeline::Part| {
        let text = Text::line(&part.text);
        match part.tone {
            Tone::Plain => text,
            Tone::Name => style::name(text),
            Tone::Faint => style::faint(text),
            Tone::Good => style::good(text),
            Tone::Bad => style::bad(text),
        }
    };
    Text::joined(sentence.parts.iter().map(part), "")
}
