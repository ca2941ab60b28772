//! The task tree as lines: one row per task, with state, the tasks it waits for, step, tokens and time.

use std::collections::BTreeMap;

use baton_machine::{Phase, Task, Wait};
use baton_types::entry::{FinalState, TaskKind};
use baton_types::id::TaskId;
use baton_types::money::Cost;
use baton_types::time::Timestamp;

use super::RunView;
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Number of tasks above which a tree is folded. More rows would not be readable and would not fit into a terminal.
const FOLD_FROM: usize = 40;

/// Largest number of one caller's tasks that have their own rows in a folded tree.
const MAX_SIBLINGS: usize = 8;

/// One row of the tree, in columns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeLine {
    /// The branches drawn before the mark.
    branches: String,
    /// The state's mark.
    mark: Mark,
    /// The holder of the task.
    who: Text,
    /// The state, and the holders that it waits for.
    state: String,
    /// The step of the task.
    step: String,
    /// Tokens and elapsed time.
    figures: String,
}

/// The mark of a state. Marks differ in shape, so colour adds no information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Ready,
    Running,
    Blocked,
    Person,
    Done,
    Bad,
    Folded,
}

impl Mark {
    fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Ready(_) => Self::Ready,
            Phase::Asking(_) | Phase::Acting(_) => Self::Running,
            Phase::Waiting(Wait::Person) => Self::Person,
            Phase::Waiting(Wait::Calls(_) | Wait::Escalated(_)) => Self::Blocked,
            Phase::Ended(FinalState::Completed) => Self::Done,
            Phase::Ended(FinalState::Failed | FinalState::Cancelled | FinalState::TimedOut) => Self::Bad,
        }
    }

    fn drawn(self) -> Text {
        match self {
            Self::Ready => style::faint("○"),
            Self::Running => style::busy("●"),
            Self::Blocked => style::waiting("◌"),
            Self::Person => style::waiting("?"),
            Self::Done => style::good("✓"),
            Self::Bad => style::bad("✗"),
            Self::Folded => style::faint("…"),
        }
    }
}

impl TreeLine {
    /// Renders the line with the given widths of columns.
    fn drawn(&self, who_width: usize, state_width: usize, step_width: usize) -> Text {
        let lead = text!("{}{} {}", style::faint(&self.branches), self.mark.drawn(), style::name(&self.who));
        let state = words::preview(&self.state, state_width).padded(state_width);
        let state = match self.mark {
            Mark::Bad => style::bad(state),
            Mark::Person | Mark::Blocked => style::waiting(state),
            Mark::Done => style::good(state),
            Mark::Ready | Mark::Running | Mark::Folded => state,
        };
        let step = words::preview(&self.step, step_width).padded(step_width);
        text!("{}  {}  {}  {}", lead.padded(who_width), state, step, style::faint(&self.figures))
    }
}

impl RunView {
    /// Renders the tree, one line per task, at most `width` columns wide if possible. Elapsed times end at `now`. If there are
    /// more than `rows` tasks, or more than forty, the tasks that need no attention are folded into counts.
    pub(crate) fn tree(&self, now: Timestamp, width: usize, rows: usize) -> Vec<Text> {
        let lines = self.tree_lines(now, rows.min(FOLD_FROM));
        let widest = |column: &dyn Fn(&TreeLine) -> usize| lines.iter().map(column).max().unwrap_or(0);
        let who = widest(&|line| line.branches.chars().count() + 2 + line.who.width());
        let state = widest(&|line| words::preview(&line.state, width).width()).min(width / 3);
        let figures = widest(&|line| line.figures.chars().count());
        let room = width.saturating_sub(who + state + figures + 6).max(8);
        let step = widest(&|line| words::preview(&line.step, width).width()).min(room);
        lines.iter().map(|line| line.drawn(who, state, step)).collect()
    }

    fn tree_lines(&self, now: Timestamp, rows: usize) -> Vec<TreeLine> {
        let mut lines = Vec::new();
        let room = (self.rows.len() > rows).then_some(rows);
        if let Some(root) = self.run.task(&TaskId::root()) {
            self.grow(root, "", "", room, now, &mut lines);
        }
        lines
    }

    /// Adds the row of `task` and the rows below it. `own` is drawn before its mark, `below` before its callees' branches.
    fn grow(&self, task: &Task, own: &str, below: &str, room: Option<usize>, now: Timestamp, lines: &mut Vec<TreeLine>) {
        // Only the run's depth limit bounds a chain of delegations, and that limit may be 10,000. Rows that are deeper than a
        // terminal is wide could not be seen. The walk ends there, so it never exhausts the stack.
        if below.chars().count() > 120 {
            return;
        }
        lines.push(self.line(task, own, now));
        let callees = self.run.graph().callees(&task.id);
        let mut shown = callees.clone();
        if let Some(rows) = room {
            shown.retain(|callee| urgency(callee).is_some());
            shown.sort_by_key(|callee| urgency(callee));
            shown.truncate(MAX_SIBLINGS.min(rows.saturating_sub(lines.len() + 1)));
        }
        let rest = callees.len() - shown.len();
        for (index, callee) in shown.iter().enumerate() {
            let last = index + 1 == shown.len() && rest == 0;
            let (branch, gap) = if last { ("└─", "  ") } else { ("├─", "│ ") };
            self.grow(callee, &format!("{below}{branch}"), &format!("{below}{gap}"), room, now, lines);
        }
        if rest > 0 {
            let is_shown = |callee: &Task| shown.iter().any(|shown| shown.id == callee.id);
            let folded = callees.into_iter().filter(|callee| !is_shown(callee));
            lines.push(self.folded(folded, shown.is_empty(), &format!("{below}└─")));
        }
    }

    fn line(&self, task: &Task, branches: &str, now: Timestamp) -> TreeLine {
        let (row, not_used) = (self.row(&task.id), self.not_used(task));
        let (usage, spent) = (row.used.usage, row.used.usage.total());
        let tokens = match (spent, not_used.unknown.tokens) {
            (0, 0) => String::new(),
            (0, unknown) => format!("{} unknown", words::count(unknown)),
            (spent, _) => format!("{}{} tok", approx(usage.estimated), words::count(spent)),
        };
        // The cost has its own column if the run has any cost, or an unknown one.
        let cost = match (self.used.cost == Cost::default(), task.turns) {
            (true, _) => String::new(),
            (false, 0) => " ".repeat(11),
            (false, _) => format!("  {:>9}", row.used.cost.to_string()),
        };
        let time = words::elapsed(row.ended.unwrap_or(now).since(row.began));
        TreeLine {
            branches: branches.to_owned(),
            mark: Mark::of(&task.phase),
            who: title(task),
            state: self.state_words(task),
            step: self.step_words(task),
            figures: format!("{tokens:>12}{cost}  {time:>7}"),
        }
    }

    fn state_words(&self, task: &Task) -> String {
        match &task.phase {
            Phase::Ready(_) if self.run.totals().paused => "paused".to_owned(),
            Phase::Ready(_) => "ready".to_owned(),
            Phase::Asking(_) | Phase::Acting(_) => format!("turn {}", task.turns),
            Phase::Waiting(Wait::Person) => "waits for you".to_owned(),
            Phase::Waiting(Wait::Escalated(to)) => format!("waits for {}", self.holder(to)),
            Phase::Waiting(Wait::Calls(calls)) => {
                let mut whom: BTreeMap<String, usize> = BTreeMap::new();
                for call in calls.iter().filter(|call| call.is_awaited()) {
                    *whom.entry(self.awaited_of(call)).or_default() += 1;
                }
                let count =
                    |(name, count): (&String, &usize)| if *count == 1 { name.clone() } else { format!("{count} × {name}") };
                match whom.len() {
                    1 | 2 => format!("waits for {}", whom.iter().map(count).collect::<Vec<_>>().join(", ")),
                    _ => format!("waits for {} tasks", whom.values().sum::<usize>()),
                }
            }
            Phase::Ended(FinalState::Completed) => match &self.row(&task.id).result {
                Some(result) if result.status != baton_types::call::CallStatus::Success => result.status.as_str().to_owned(),
                _ => FinalState::Completed.as_str().to_owned(),
            },
            Phase::Ended(FinalState::TimedOut) => "timed out".to_owned(),
            Phase::Ended(state) => state.as_str().to_owned(),
        }
    }

    fn step_words(&self, task: &Task) -> String {
        let row = self.row(&task.id);
        match &task.phase {
            Phase::Ended(FinalState::Completed) => {
                let wrote: Vec<String> = row.wrote.iter().map(ToString::to_string).collect();
                wrote.join(", ")
            }
            Phase::Ended(_) => match row.result.as_ref().and_then(|result| result.error.as_ref()) {
                Some(error) => error.message.clone(),
                None => row.step.clone(),
            },
            Phase::Waiting(_) if task.kind == TaskKind::Question => row.request.clone(),
            Phase::Waiting(_) => String::new(),
            Phase::Ready(_) | Phase::Asking(_) | Phase::Acting(_) => row.step.clone(),
        }
    }

    /// Renders one line for many tasks: their numbers by state, as the rows of these tasks would show it.
    fn folded<'a>(&self, tasks: impl Iterator<Item = &'a Task>, are_all: bool, branches: &str) -> TreeLine {
        let mut counts: BTreeMap<(u8, String), usize> = BTreeMap::new();
        for task in tasks {
            for task in std::iter::once(task).chain(self.run.graph().descendants(&task.id)) {
                let key = match task.phase {
                    Phase::Asking(_) | Phase::Acting(_) => (0, "running".to_owned()),
                    Phase::Waiting(_) => (1, "waiting".to_owned()),
                    Phase::Ready(_) => (2, "ready".to_owned()),
                    Phase::Ended(_) => (3, self.state_words(task)),
                };
                *counts.entry(key).or_default() += 1;
            }
        }
        let words: Vec<String> =
            counts.iter().map(|((_, name), count)| format!("{} {name}", words::count(*count as u64))).collect();
        let all = counts.values().sum();
        TreeLine {
            branches: branches.to_owned(),
            mark: Mark::Folded,
            who: text!("{}", words::counted(all, if are_all { "task" } else { "more task" })),
            state: words.join(", "),
            step: String::new(),
            figures: String::new(),
        }
    }
}

/// Returns the rank of a row in a folded tree. A task that is done, is cancelled or has not begun needs no row: `None`.
fn urgency(task: &Task) -> Option<u8> {
    match task.phase {
        Phase::Waiting(Wait::Person) => Some(0),
        Phase::Ended(FinalState::Failed | FinalState::TimedOut) => Some(1),
        Phase::Waiting(_) => Some(2),
        Phase::Asking(_) | Phase::Acting(_) => Some(3),
        Phase::Ready(_) | Phase::Ended(FinalState::Completed | FinalState::Cancelled) => None,
    }
}

fn title(task: &Task) -> Text {
    match &task.question {
        Some(question) => text!("Q{} {}", question.number, task.holder),
        None => text!("{}", task.holder),
    }
}

/// Returns `≈` for an estimate.
pub(super) fn approx(estimated: bool) -> &'static str {
    if estimated { "≈" } else { "" }
}
