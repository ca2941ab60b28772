//! The task tree: which tasks have rows, and what the rows contain.

use std::collections::BTreeMap;

use baton_machine::{Phase, Spent, Task, Wait};
use baton_types::call::CallStatus;
use baton_types::entry::{FinalState, QuestionEnd};
use baton_types::money::Cost;
use baton_types::time::Timestamp;

use super::RunView;
use super::table::{Fold, Line, Mark, Row, table};
use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Number of tasks above which a tree is folded. More rows would not be readable.
const FOLD_FROM: usize = 40;

/// Characters of a request in a row. The table cuts it further.
const GOAL: usize = 80;

/// Shortest waiting time that a row shows.
const SHOWN_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// A tree while its lines are added.
struct Growth<'a> {
    view: &'a RunView,
    /// The end of elapsed times.
    now: Timestamp,
    lines: Vec<Line>,
}

impl RunView {
    /// Renders the tree, at most `width` characters wide, with elapsed times up to `now`. A tree of more tasks than `rows`, or
    /// than forty, has that many rows at most: tasks that need no attention are counted in one row for each caller.
    pub(crate) fn tree(&self, now: Timestamp, width: usize, rows: usize) -> Vec<Text> {
        let mut growth = Growth { view: self, now, lines: Vec::new() };
        if let Some(root) = self.run.root() {
            growth.grow(root, "", "", rows.min(FOLD_FROM));
        }
        table(&growth.lines, width)
    }

    /// Renders the tree in a window of `rows` rows, which follows the run. A folded tree ends with the totals of the run, and a
    /// paused run with the command that continues it.
    pub(crate) fn live_tree(&self, now: Timestamp, width: usize, rows: usize) -> Vec<Text> {
        let mut below = Vec::new();
        if self.rows.len() > rows.min(FOLD_FROM) && rows > 2 {
            below.push(self.totals(now, width));
        }
        if self.run.totals().paused && rows > below.len() + 1 {
            below.push(text!("{}   → {}", style::waiting("‖ paused"), baton("resume").value(self.id())));
        }
        let mut lines = self.tree(now, width, rows - below.len());
        lines.extend(below);
        lines
    }

    /// Renders the numbers of all tasks by state, and the tokens and the time of the run, as far as they fit.
    fn totals(&self, now: Timestamp, width: usize) -> Text {
        let states = self.tally(self.run.graph().iter());
        let tokens = tokens(self.used);
        let mut parts = vec![words::counted(self.rows.len(), "task"), words::elapsed(now.since(self.began))];
        parts.extend(states);
        parts.extend(Some(tokens).filter(|tokens| !tokens.is_empty()));
        while parts.len() > 2 && parts.iter().map(|part| part.chars().count() + 3).sum::<usize>() > width + 3 {
            parts.pop();
        }
        style::faint(parts.join(" · "))
    }

    fn row_of(&self, task: &Task, branches: &str, now: Timestamp) -> Row {
        let (row, not_used) = (self.row(&task.id), self.not_used(task));
        let tokens = match (row.used.usage.total(), not_used.unknown.tokens) {
            (0, 0) => String::new(),
            (0, unknown) => format!("{} unknown", words::count(unknown)),
            _ => tokens(row.used),
        };
        // The cost has its own column if the run has any cost, or an unknown one.
        let cost = if self.used.cost == Cost::default() || task.turns == 0 { String::new() } else { row.used.cost.to_string() };
        let (mark, state, step) = match self.back_offs.row(task, now) {
            Some((state, step)) => (Mark::Blocked, vec![state], step),
            None => (self.mark(task), self.state_words(task, now), self.step_words(task)),
        };
        Row {
            branches: branches.to_owned(),
            mark,
            who: match &task.question {
                Some(question) => format!("Q{} {}", question.number, task.holder),
                None => task.holder.to_string(),
            },
            task: task.id.to_string(),
            goal: words::preview(&row.request, GOAL).as_str().to_owned(),
            state,
            step,
            tokens,
            cost,
            elapsed: words::elapsed(row.ended.unwrap_or(now).since(row.began)),
        }
    }

    fn mark(&self, task: &Task) -> Mark {
        match &task.phase {
            Phase::Ready(_) => Mark::Ready,
            Phase::Asking(_) | Phase::Acting(_) => Mark::Running,
            Phase::Waiting(Wait::Person) => Mark::Person,
            Phase::Waiting(Wait::Calls(_) | Wait::Escalated(_) | Wait::BackgroundTasks) => Mark::Blocked,
            Phase::Ended(FinalState::Completed) if self.is_short(task) => Mark::Partial,
            Phase::Ended(FinalState::Completed) => Mark::Done,
            Phase::Ended(FinalState::Failed | FinalState::Cancelled | FinalState::TimedOut) => Mark::Bad,
        }
    }

    /// Returns true for a task that came to its end without a success, such as a partial one.
    fn is_short(&self, task: &Task) -> bool {
        let result = &self.row(&task.id).result;
        result.as_ref().is_some_and(|result| result.status != CallStatus::Success)
    }

    /// Returns the wordings of a task's state, the longest first.
    fn state_words(&self, task: &Task, now: Timestamp) -> Vec<String> {
        let one = |words: &str| vec![words.to_owned()];
        match &task.phase {
            Phase::Ready(_) if self.run.totals().paused => one("paused"),
            Phase::Ready(_) => one("ready"),
            Phase::Asking(_) | Phase::Acting(_) if self.run.totals().paused => {
                vec![format!("turn {}, then paused", task.turns), format!("turn {}", task.turns)]
            }
            Phase::Asking(_) | Phase::Acting(_) => vec![format!("turn {}", task.turns)],
            Phase::Waiting(Wait::Person) => one("waits for you"),
            Phase::Waiting(Wait::BackgroundTasks) => one("waits for background tasks"),
            Phase::Waiting(Wait::Escalated(to)) => vec![format!("waits for {}", self.holder(to)), format!("waits for {to}")],
            Phase::Waiting(Wait::Calls(calls)) => {
                let (mut whom, mut since): (BTreeMap<String, usize>, Option<Timestamp>) = (BTreeMap::new(), None);
                for call in calls.iter().filter(|call| call.is_awaited()) {
                    *whom.entry(self.awaited_of(call)).or_default() += 1;
                    let began = self.rows.get(&Self::awaited_task(call)).map(|row| row.began);
                    since = since.into_iter().chain(began).min();
                }
                let count =
                    |(name, count): (&String, &usize)| if *count == 1 { name.clone() } else { format!("{count} × {name}") };
                let tasks = format!("waits for {}", words::counted(whom.values().sum(), "task"));
                let mut wordings = match whom.len() {
                    1 | 2 => vec![format!("waits for {}", whom.iter().map(count).collect::<Vec<_>>().join(", ")), tasks],
                    _ => vec![tasks],
                };
                if let Some(waited) = since.map(|since| now.since(since)).filter(|waited| *waited >= SHOWN_WAIT) {
                    let waited = words::elapsed(waited);
                    wordings = wordings.into_iter().flat_map(|words| [format!("{words} · {waited}"), words]).collect();
                }
                wordings
            }
            Phase::Ended(_) => one(self.end_word(task)),
        }
    }

    /// Returns the end of a task in one word: `completed` for a success only.
    fn end_word(&self, task: &Task) -> &'static str {
        match &task.phase {
            Phase::Ended(FinalState::Completed) => match &self.row(&task.id).result {
                Some(result) if result.status != CallStatus::Success => result.status.as_str(),
                _ => FinalState::Completed.as_str(),
            },
            Phase::Ended(FinalState::TimedOut) => "timed out",
            phase => super::state(phase),
        }
    }

    fn step_words(&self, task: &Task) -> String {
        let row = self.row(&task.id);
        let answer = task.question.as_ref().and_then(|question| match question.closed.as_deref() {
            Some(QuestionEnd::Answered { by, answer, .. }) => Some(format!("→ {} ({by})", answer.text())),
            _ => None,
        });
        if let Some(answer) = answer {
            return answer;
        }
        match &task.phase {
            Phase::Ended(FinalState::Completed) if self.is_short(task) => row.step.clone(),
            Phase::Ended(FinalState::Completed) => {
                let wrote: Vec<String> = row.wrote.iter().map(ToString::to_string).collect();
                wrote.join(", ")
            }
            Phase::Ended(_) => match row.result.as_ref().and_then(|result| result.error.as_ref()) {
                Some(error) => error.message.clone(),
                None => row.step.clone(),
            },
            Phase::Waiting(_) => String::new(),
            Phase::Ready(_) | Phase::Asking(_) | Phase::Acting(_) => row.step.clone(),
        }
    }

    /// Returns the numbers of `tasks` by state, tasks that need attention first.
    pub(crate) fn tally<'a>(&self, tasks: impl Iterator<Item = &'a Task>) -> Vec<String> {
        let mut counts: BTreeMap<(u8, &str), usize> = BTreeMap::new();
        for task in tasks {
            let key = match task.phase {
                Phase::Asking(_) | Phase::Acting(_) => (0, "running"),
                Phase::Waiting(_) => (1, "waiting"),
                Phase::Ready(_) => (2, "ready"),
                Phase::Ended(FinalState::Failed | FinalState::TimedOut) => (3, self.end_word(task)),
                Phase::Ended(FinalState::Completed) if self.is_short(task) => (4, self.end_word(task)),
                Phase::Ended(FinalState::Cancelled) => (5, self.end_word(task)),
                Phase::Ended(FinalState::Completed) => (6, self.end_word(task)),
            };
            *counts.entry(key).or_default() += 1;
        }
        counts.into_iter().map(|((_, name), count)| format!("{} {name}", words::count(count as u64))).collect()
    }

    /// Returns the rank of a row in a folded tree. A task that is done, is cancelled or has not begun needs no row: `None`.
    pub(crate) fn urgency(&self, task: &Task) -> Option<u8> {
        match task.phase {
            Phase::Waiting(Wait::Person) => Some(0),
            Phase::Ended(FinalState::Failed | FinalState::TimedOut) => Some(1),
            Phase::Waiting(_) => Some(2),
            Phase::Asking(_) | Phase::Acting(_) => Some(3),
            Phase::Ended(FinalState::Completed) if self.is_short(task) => Some(4),
            Phase::Ready(_) | Phase::Ended(FinalState::Completed | FinalState::Cancelled) => None,
        }
    }
}

impl Growth<'_> {
    /// Adds the row of `task` and the rows below it, `room` rows at most. `own` is drawn before its mark, `below` before the
    /// branches of its callees.
    fn grow(&mut self, task: &Task, own: &str, below: &str, room: usize) {
        self.lines.push(Line::Task(self.view.row_of(task, own, self.now)));
        let graph = self.view.run.graph();
        // Number of rows that each callee and the tasks below it need.
        let callees: Vec<(&Task, usize)> =
            graph.callees(&task.id).into_iter().map(|callee| (callee, 1 + graph.descendants(&callee.id).len())).collect();
        let needed: usize = callees.iter().map(|(_, needed)| needed).sum();
        let shown = if needed < room { callees.clone() } else { self.chosen(&callees, room.saturating_sub(2)) };
        let is_folded = shown.len() < callees.len();
        for (index, (callee, rows)) in shown.iter().enumerate() {
            let last = index + 1 == shown.len() && !is_folded;
            let (branch, gap) = if last { ("└─", "  ") } else { ("├─", "│ ") };
            self.grow(callee, &format!("{below}{branch}"), &format!("{below}{gap}"), *rows);
        }
        if is_folded && room > 1 {
            let is_shown = |callee: &Task| shown.iter().any(|(shown, _)| shown.id == callee.id);
            let folded = callees.iter().map(|(callee, _)| *callee).filter(|callee| !is_shown(callee));
            let folded: Vec<&Task> =
                folded.flat_map(|callee| std::iter::once(callee).chain(graph.descendants(&callee.id))).collect();
            let fold = self.fold(&folded, shown.is_empty(), format!("{below}└─"));
            self.lines.push(Line::Fold(fold));
        }
    }

    /// Chooses the callees that need attention most, and shares `room` rows among them. A callee that called others has at least
    /// two rows: its own, and one that counts the tasks below it.
    fn chosen<'t>(&self, callees: &[(&'t Task, usize)], room: usize) -> Vec<(&'t Task, usize)> {
        let mut urgent: Vec<(u8, &Task, usize)> =
            callees.iter().filter_map(|(task, needed)| Some((self.view.urgency(task)?, *task, *needed))).collect();
        urgent.sort_by_key(|(urgency, _, _)| *urgency);
        let mut left = room;
        let mut chosen: Vec<(&Task, usize, usize)> = Vec::new();
        for (_, task, needed) in urgent {
            let least = needed.min(2);
            let Some(rest) = left.checked_sub(least) else { break };
            left = rest;
            chosen.push((task, least, needed));
        }
        let count = chosen.len();
        let share = |(index, (task, least, needed)): (usize, (&'t Task, usize, usize))| {
            let rows = needed.min(least + left / (count - index));
            left -= rows - least;
            (task, rows)
        };
        chosen.into_iter().enumerate().map(share).collect()
    }

    fn fold(&self, tasks: &[&Task], are_all: bool, branches: String) -> Fold {
        let mut used = Spent::default();
        for task in tasks {
            used.add(self.view.row(&task.id).used);
        }
        Fold {
            branches,
            number: words::counted(tasks.len(), if are_all { "task" } else { "more task" }),
            states: self.view.tally(tasks.iter().copied()),
            tokens: tokens(used),
        }
    }
}

/// Renders used tokens, or an empty text without any.
fn tokens(used: Spent) -> String {
    match used.usage.total() {
        0 => String::new(),
        total => format!("{}{} tok", approx(used.usage.estimated), words::count(total)),
    }
}

/// Returns `≈` for an estimate.
pub(super) fn approx(estimated: bool) -> &'static str {
    if estimated { "≈" } else { "" }
}
