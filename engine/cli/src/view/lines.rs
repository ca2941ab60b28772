//! One line per change of state: what a run that is piped says on stderr.

use baton_core::call::CallStatus;
use baton_core::entry::{ControlAction, Entry, FinalState, QuestionEnd, Recorded, TaskKind};

use super::RunView;
use crate::screen::style;
use crate::shell::baton;
use crate::text::{Text, text};
use crate::words;

/// How much of a request or a result one line shows.
const PREVIEW: usize = 100;

/// The line that tells `recorded`, if it is worth one; `view` has already taken it in.
pub(crate) fn line(view: &RunView, recorded: &Recorded) -> Option<Text> {
    let who = |task| view.holder(task);
    let text = match &recorded.entry {
        Entry::RunStarted(started) => {
            text!("run {} · job {} · {}", style::name(&started.run), started.job, words::preview(&started.request, PREVIEW))
        }
        Entry::TaskCreated(created) => match (created.kind, &created.caller) {
            (TaskKind::Delegation, Some(caller)) => {
                let attached = attached(&created.documents);
                let again = match created.failed_attempts {
                    0 => Text::default(),
                    failed => text!(" (attempt {})", failed + 1),
                };
                let request = words::preview(&created.request, PREVIEW);
                text!("{} → {}{}: {}{}", who(caller), created.holder, again, request, attached)
            }
            // The question's own entry says who asks whom.
            _ => return None,
        },
        Entry::FellBack(fell) => {
            let why = words::preview(&fell.error.message, PREVIEW);
            text!("{} asks {} instead of {}: {}", who(&fell.task), fell.to, fell.from, why)
        }
        Entry::CallRefused(refused) => {
            text!(
                "{} {} refused: {}",
                who(&refused.task),
                words::preview(refused.tool.as_str(), PREVIEW),
                words::preview(&refused.error.message, PREVIEW)
            )
        }
        Entry::CallFinished(finished) if finished.result.status != CallStatus::Success => {
            let why = finished.result.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
            text!(
                "{} {} {}: {}",
                who(&finished.task),
                finished.tool,
                finished.result.status.as_str(),
                words::preview(why, PREVIEW)
            )
        }
        Entry::DocumentWritten(version) => {
            text!("{} wrote {} · {}", RunView::author(version), version.reference(), words::size(version.content.size_bytes))
        }
        Entry::QuestionOpened(opened) => {
            let row = view.tasks.get(&opened.task)?;
            let attached = attached(&row.created.documents);
            let text = words::preview(&row.created.request, PREVIEW);
            text!("{} asks {} (Q{}): {}{}", who(&opened.asker), opened.holder, opened.number, text, attached)
        }
        Entry::QuestionClosed(closed) => match &closed.how {
            QuestionEnd::Answered { by, answer, recorded } => {
                let by = words::answerer(by, recorded.as_ref());
                text!("Q{} answered by {}: {}", closed.number, by, words::preview(answer.text(), PREVIEW))
            }
            QuestionEnd::Expired { .. } => text!("Q{} expired without an answer", closed.number),
            QuestionEnd::Escalated { to, .. } => text!("Q{} goes on to {to}", closed.number),
            QuestionEnd::Failed { reason } => text!("Q{} closed: {}", closed.number, words::preview(reason, PREVIEW)),
        },
        Entry::Compacted(compacted) => {
            text!("{} turns up to {} are replaced by a summary", who(&compacted.task), compacted.through_turn)
        }
        Entry::Output(output) => text!("{} output: {}", who(&output.task), words::preview(&output.output.text(), PREVIEW)),
        Entry::Control(control) => match &control.action {
            ControlAction::TakenOver { process } => text!("taken over by {process}"),
            ControlAction::Cancelled { reason } => text!("cancelled by {}: {}", control.by, words::preview(reason, PREVIEW)),
            ControlAction::Paused => {
                let run = view.started.as_ref().map(|started| started.run.to_string()).unwrap_or_default();
                text!("paused by {}   → {}", control.by, baton("resume").value(run))
            }
            ControlAction::Unpaused => text!("unpaused by {}", control.by),
            ControlAction::Steered { text } => text!("steered by {}: {}", control.by, words::preview(text, PREVIEW)),
            ControlAction::Adopted(adoption) => {
                let what = if adoption.fork.is_some() { "forked" } else { "migrated" };
                let changes = if adoption.changes.is_empty() { "no changes".to_owned() } else { adoption.changes.join(", ") };
                text!("{what} by {}: {}", control.by, words::preview(&changes, PREVIEW))
            }
            // Whoever watched was told when it happened.
            ControlAction::Waited(_) | ControlAction::Late { .. } => return None,
        },
        Entry::SubtreeClosed(closed) => {
            text!(
                "{} closed below {}: {}",
                words::counted(closed.tasks.len(), "task"),
                who(&closed.task),
                words::preview(&closed.reason, PREVIEW)
            )
        }
        Entry::TaskEnded(ended) => {
            let row = view.tasks.get(&ended.task)?;
            // How a question ended, its own entry says.
            if row.created.kind == TaskKind::Question {
                return None;
            }
            let how = match (&ended.result.error, ended.state) {
                (_, FinalState::Completed) if ended.result.status == CallStatus::Success => style::good("done"),
                (Some(error), state) => style::bad(text!("{}: {}", state.as_str(), words::preview(&error.message, PREVIEW))),
                (None, state) => style::bad(text!("{} ({})", state.as_str(), ended.result.status.as_str())),
            };
            let again = match ended.retry_at {
                Some(at) => text!(" · tried again in {}", words::elapsed(at.since(recorded.at))),
                None => Text::default(),
            };
            text!("{} {}{}{}", who(&ended.task), how, again, attached(&ended.result.documents))
        }
        Entry::ModelRequested(_)
        | Entry::ModelAnswered(_)
        | Entry::CallApproved(_)
        | Entry::CallStarted(_)
        | Entry::CallAskedModel(_)
        | Entry::CallFinished(_)
        | Entry::BudgetSettled(_)
        | Entry::RunEnded(_) => return None,
    };
    let elapsed = words::elapsed(recorded.at.since(view.began));
    Some(text!("{} {}", style::faint(text!("{elapsed:>6}")), text))
}

/// ` [a.md v1, b.csv v2]`, or nothing.
fn attached(documents: &[baton_core::document::DocumentRef]) -> Text {
    if documents.is_empty() {
        return Text::default();
    }
    let names: Vec<String> = documents.iter().map(ToString::to_string).collect();
    text!(" [{}]", names.join(", "))
}
