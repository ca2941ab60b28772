//! The rows of a task tree as a table that fits the window.
//!
//! Columns take their widths in an order of priority. The mark, the agent, the elapsed time, the task's id and its state come
//! first. The goal comes last, so it is the first column to shrink. A cell is cut between words. An id is shown whole or not at
//! all, because people copy it.

use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Space between two columns.
const GAP: usize = 2;

/// Fewest characters of an agent's name.
const MIN_NAME: usize = 8;

/// One line of the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A task.
    Task(Row),
    /// Several tasks that have no rows of their own.
    Fold(Fold),
}

/// One task, in columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Branches drawn before the mark.
    pub(super) branches: String,
    /// Mark of the state.
    pub(super) mark: Mark,
    /// Holder of the task.
    pub(super) who: String,
    /// Id of the task.
    pub(super) task: String,
    /// First words of the request.
    pub(super) goal: String,
    /// Wordings of the state, the longest first. The first one that fits is shown.
    pub(super) state: Vec<String>,
    /// Step of the task, or its error.
    pub(super) step: String,
    /// Tokens.
    pub(super) tokens: String,
    /// Cost.
    pub(super) cost: String,
    /// Elapsed time.
    pub(super) elapsed: String,
}

/// Counts of tasks without rows of their own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fold {
    /// Branches drawn before the mark.
    pub(super) branches: String,
    /// Number of the tasks, such as `37 more tasks`.
    pub(super) number: String,
    /// Number of tasks in each state, such as `30 completed`.
    pub(super) states: Vec<String>,
    /// Tokens of all these tasks.
    pub(super) tokens: String,
}

/// The mark of a state. Marks differ in shape, so colour adds no information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not begun.
    #[default]
    Ready,
    /// In progress.
    Running,
    /// Waits for other tasks.
    Blocked,
    /// Waits for a person.
    Person,
    /// Done.
    Done,
    /// Ended with a part of its result.
    Partial,
    /// Ended without a result.
    Bad,
}

impl Mark {
    fn drawn(self) -> Text {
        match self {
            Self::Ready => style::faint("○"),
            Self::Running => style::busy("●"),
            Self::Blocked => style::waiting("◌"),
            Self::Person => style::waiting("?"),
            Self::Done => style::good("✓"),
            Self::Partial => style::waiting("◐"),
            Self::Bad => style::bad("✗"),
        }
    }
}

/// Columns, in the order in which they are drawn.
#[derive(Clone, Copy, Debug)]
enum Column {
    Lead,
    Task,
    Goal,
    State,
    Step,
    Tokens,
    Cost,
    Elapsed,
}

/// Number of columns.
const COLUMNS: usize = Column::Elapsed as usize + 1;

/// Renders `lines`, each at most `width` characters wide.
pub(super) fn table(lines: &[Line], width: usize) -> Vec<Text> {
    let widths = widths(lines, width);
    let drawn = |line: &Line| match line {
        Line::Task(row) => row.drawn(&widths, width),
        Line::Fold(fold) => fold.drawn(width),
    };
    lines.iter().map(drawn).collect()
}

/// Returns the width of each column; zero for a column without room.
fn widths(lines: &[Line], width: usize) -> [usize; COLUMNS] {
    let rows = || lines.iter().filter_map(|line| if let Line::Task(row) = line { Some(row) } else { None });
    let widest = |cell: &dyn Fn(&Row) -> usize| rows().map(cell).max().unwrap_or(0);
    let length = |text: &str| words::preview(text, width).width();
    let shortest_lead = |row: &Row| row.lead(width).chars().count() + 2 + length(&row.who).min(MIN_NAME);
    let lead = widest(&|row| row.lead(width).chars().count() + 2 + length(&row.who));
    // A longer id is left out of its row.
    let task = rows().map(|row| row.task.len()).filter(|length| *length <= width / 4).max().unwrap_or(0);
    let state = widest(&|row| row.state.first().map_or(0, |state| length(state)));
    let short_state = |most: usize| {
        let fits = |state: &&String| length(state) <= most;
        widest(&|row| row.state.iter().find(fits).or(row.state.last()).map_or(0, |state| length(state)))
    };
    let step = widest(&|row| length(&row.step));
    let goal = widest(&|row| length(&row.goal));
    let tokens = widest(&|row| row.tokens.chars().count());
    let cost = widest(&|row| row.cost.chars().count());
    let elapsed = widest(&|row| row.elapsed.chars().count());
    // A column with its least and its largest width. A column may occur several times, and then grows.
    let claims = [
        (Column::Lead, 1, widest(&shortest_lead)),
        (Column::Elapsed, elapsed, elapsed),
        (Column::State, 1, short_state(0).min(18)),
        (Column::Task, task, task),
        (Column::Lead, 1, lead),
        (Column::State, 1, short_state(26).min(26)),
        (Column::Tokens, tokens, tokens),
        (Column::Cost, cost, cost),
        (Column::Step, step.min(10), step.min(16)),
        (Column::Goal, goal.min(10), goal.min(24)),
        (Column::Step, step.min(10), step.min(28)),
        (Column::Goal, goal.min(10), goal.min(40)),
        (Column::State, state, state),
        (Column::Step, step.min(10), step),
        (Column::Goal, goal.min(10), goal),
    ];
    let mut widths = [0; COLUMNS];
    let mut room = width;
    for (column, least, most) in claims {
        let has = widths[column as usize];
        let gap = if has > 0 || matches!(column, Column::Lead) { 0 } else { GAP };
        let more = most.saturating_sub(has).min(room.saturating_sub(gap));
        if more > 0 && has + more >= least {
            widths[column as usize] += more;
            room -= gap + more;
        }
    }
    widths
}

impl Row {
    /// Returns the branches. Those of a deep task are cut at their beginning.
    fn lead(&self, width: usize) -> String {
        let (count, most) = (self.branches.chars().count(), width / 3);
        if count <= most {
            return self.branches.clone();
        }
        std::iter::once('…').chain(self.branches.chars().skip(count + 1 - most.max(1))).collect()
    }

    fn drawn(&self, widths: &[usize; COLUMNS], width: usize) -> Text {
        let of = |column: Column| widths[column as usize];
        let branches = self.lead(width);
        let name = words::preview(&self.who, of(Column::Lead).saturating_sub(branches.chars().count() + 2));
        let lead = text!("{}{} {}", style::faint(&branches), self.mark.drawn(), style::name(name));
        let state_width = of(Column::State);
        let fitting = self.state.iter().find(|state| text!("{state}").width() <= state_width);
        let state = fitting.or(self.state.last()).map_or("", String::as_str);
        let state = words::preview(state, state_width).padded(state_width);
        let state = match self.mark {
            Mark::Bad => style::bad(state),
            Mark::Person | Mark::Blocked | Mark::Partial => style::waiting(state),
            Mark::Done => style::good(state),
            Mark::Ready | Mark::Running => state,
        };
        let task = if self.task.len() <= of(Column::Task) { self.task.as_str() } else { "" };
        let figures = |text: &str, column: Column| style::faint(format!("{text:>0$}", of(column)));
        let cells = [
            (Column::Lead, lead),
            (Column::Task, style::faint(task)),
            (Column::Goal, words::preview(&self.goal, of(Column::Goal))),
            (Column::State, state),
            (Column::Step, words::preview(&self.step, of(Column::Step))),
            (Column::Tokens, figures(&self.tokens, Column::Tokens)),
            (Column::Cost, figures(&self.cost, Column::Cost)),
            (Column::Elapsed, figures(&self.elapsed, Column::Elapsed)),
        ];
        let cells = cells.into_iter().filter(|(column, _)| of(*column) > 0).map(|(column, cell)| cell.padded(of(column)));
        Text::joined(cells, "  ").trimmed_end()
    }
}

impl Fold {
    /// Renders the numbers; states without room are left out, from the last one on.
    fn drawn(&self, width: usize) -> Text {
        let row = Row { branches: self.branches.clone(), ..Row::default() };
        let lead = row.lead(width);
        let room = width.saturating_sub(lead.chars().count() + 2);
        let whole = |states: &[String], more: &str, tokens: &str| {
            let states = if states.is_empty() { String::new() } else { format!(": {}", states.join(", ")) };
            format!("{}{states}{more}{tokens}", self.number)
        };
        let tokens = if self.tokens.is_empty() { String::new() } else { format!(" · {}", self.tokens) };
        let shorter = (0..self.states.len()).rev().map(|count| whole(&self.states[..count], ", …", ""));
        let mut wordings = [whole(&self.states, "", &tokens), whole(&self.states, "", "")].into_iter().chain(shorter);
        let words = wordings.find(|words| words.chars().count() <= room).unwrap_or_else(|| self.number.clone());
        text!("{}{} {}", style::faint(&lead), style::faint("…"), words::preview(&words, room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(branches: &str, mark: Mark, who: &str, task: &str, state: &[&str]) -> Row {
        Row {
            branches: branches.to_owned(),
            mark,
            who: who.to_owned(),
            task: task.to_owned(),
            state: state.iter().map(|&state| state.to_owned()).collect(),
            elapsed: "12s".to_owned(),
            ..Row::default()
        }
    }

    /// Returns a tree with names of 24 characters, long requests, costs, a failure and a fold.
    fn lines() -> Vec<Line> {
        let waits = [
            "waits for 3 × section_editor_of_quarters · 2m 10s",
            "waits for 3 × section_editor_of_quarters",
            "waits for 3 tasks",
        ];
        let running = |task: &str, goal: &str| Row {
            goal: goal.to_owned(),
            step: "query_data".to_owned(),
            tokens: "≈12,345 tok".to_owned(),
            cost: "$0.0123".to_owned(),
            ..row("├─", Mark::Running, "section_editor_of_quarters", task, &["turn 12"])
        };
        vec![
            Line::Task(Row { goal: "Write the report of the year".to_owned(), ..row("", Mark::Blocked, "lead", "0", &waits) }),
            Line::Task(running("0/1.1", "Describe the sales of the first quarter in the north")),
            Line::Task(running("0/1.2", "Describe the sales of the second quarter in the north")),
            Line::Task(Row {
                step: "the script has no answer for agent section_editor_of_quarters at turn 4".to_owned(),
                elapsed: "1h 02m".to_owned(),
                ..row("├─", Mark::Bad, "section_editor_of_quarters", "0/1.3", &["failed"])
            }),
            Line::Fold(Fold {
                branches: "└─".to_owned(),
                number: "37 more tasks".to_owned(),
                states: ["2 failed", "1 partial", "4 cancelled", "30 completed"].map(str::to_owned).to_vec(),
                tokens: "≈1,234 tok".to_owned(),
            }),
        ]
    }

    fn drawn(lines: &[Line], width: usize) -> String {
        let drawn = table(lines, width);
        let drawn: Vec<String> = drawn.iter().map(|line| plain(line.as_str())).collect();
        for line in &drawn {
            assert!(line.chars().count() <= width, "{line}");
        }
        "\n".to_owned() + &drawn.join("\n")
    }

    /// Removes the styles.
    fn plain(text: &str) -> String {
        let parts = text.split('\u{1b}').enumerate();
        parts.map(|(index, part)| if index == 0 { part } else { part.split_once('m').unwrap().1 }).collect()
    }

    #[test]
    fn a_tree_with_long_names_fits_120_columns() {
        assert_eq!(
            drawn(&lines(), 120),
            concat!(
                "\n◌ lead                          0      Write the…      waits for 3 tasks                                             12s",
                "\n├─● section_editor_of_quarters  0/1.1  Describe the…   turn 12            query_data        ≈12,345 tok  $0.0123     12s",
                "\n├─● section_editor_of_quarters  0/1.2  Describe the…   turn 12            query_data        ≈12,345 tok  $0.0123     12s",
                "\n├─✗ section_editor_of_quarters  0/1.3                  failed             the script has…                         1h 02m",
                "\n└─… 37 more tasks: 2 failed, 1 partial, 4 cancelled, 30 completed · ≈1,234 tok",
            )
        );
    }

    #[test]
    fn a_tree_with_long_names_fits_80_columns() {
        assert_eq!(
            drawn(&lines(), 80),
            concat!(
                "\n◌ lead                          0      waits for 3 tasks                  12s",
                "\n├─● section_editor_of_quarters  0/1.1  turn 12            ≈12,345 tok     12s",
                "\n├─● section_editor_of_quarters  0/1.2  turn 12            ≈12,345 tok     12s",
                "\n├─✗ section_editor_of_quarters  0/1.3  failed                          1h 02m",
                "\n└─… 37 more tasks: 2 failed, 1 partial, 4 cancelled, 30 completed · ≈1,234 tok",
            )
        );
    }

    #[test]
    fn a_tree_with_long_names_fits_60_columns() {
        assert_eq!(
            drawn(&lines(), 60),
            concat!(
                "\n◌ lead                      0      waits for 3 tasks     12s",
                "\n├─● section_editor_of_qua…  0/1.1  turn 12               12s",
                "\n├─● section_editor_of_qua…  0/1.2  turn 12               12s",
                "\n├─✗ section_editor_of_qua…  0/1.3  failed             1h 02m",
                "\n└─… 37 more tasks: 2 failed, 1 partial, 4 cancelled, …",
            )
        );
    }

    #[test]
    fn elapsed_times_and_whole_ids_stay_at_any_width() {
        for width in 20..160 {
            for line in drawn(&lines(), width).lines().skip(1).filter(|line| !line.contains("more tasks")) {
                assert!(line.ends_with("12s") || line.ends_with("1h 02m"), "{width}: {line}");
                let id = line.split_whitespace().find(|word| word.starts_with("0/"));
                assert!(id.is_none_or(|id| ["0/1.1", "0/1.2", "0/1.3"].contains(&id)), "{width}: {line}");
            }
        }
    }

    #[test]
    fn branches_of_a_deep_task_are_cut_at_their_beginning() {
        let deep = row(&format!("{}└─", "  ".repeat(200)), Mark::Running, "worker", &"0/1.1".repeat(60), &["turn 1"]);
        assert_eq!(drawn(&[Line::Task(deep)], 40), "\n…          └─● worker  turn 1  12s");
    }
}
