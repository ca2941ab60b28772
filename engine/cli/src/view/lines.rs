//! One line per milestone: the progress of a run without a live tree.

use baton_timeline::{Line, Sentence, Tone, sentence};
use baton_types::entry::{Control, ControlAction, Entry};
use baton_types::time::Timestamp;

use crate::shell::baton;
use crate::text::{Text, text};
use crate::{style, words};

/// Returns the progress line of `line`, if it is a milestone of the run that began at `began`.
pub(crate) fn progress(line: &Line, began: Timestamp) -> Option<Text> {
    let sentence = sentence(line);
    sentence.is_milestone.then_some(())?;
    let elapsed = words::elapsed(line.at.since(began));
    let task = line.task.as_ref().map(|task| text!("{task} ")).unwrap_or_default();
    let hint = match &line.entry {
        Entry::Control(Control { action: ControlAction::Paused, .. }) => text!("   → {}", baton("resume").value(&line.run)),
        _ => Text::default(),
    };
    let subject = &sentence.subject;
    Some(text!("{} {}{} {}{}", style::faint(text!("{elapsed:>6}")), style::faint(task), subject, self::words(&sentence), hint))
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
