//! `baton timeline`: the entries of a run in order, with the seed's five fields.

use clap::Args;

use crate::commands::completions;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::screen::style;
use crate::text::{Text, text};
use crate::timeline::{Row, Rows, sentence};
use crate::{runs, session};

/// What `timeline` takes.
#[derive(Debug, Args)]
pub(crate) struct TimelineArgs {
    /// The run: its id, a beginning of it, or @last
    #[arg(add = completions::runs())]
    run: String,
    /// Only entries of this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Only entries of this type, such as `function_tool` or `task_ended`; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    kinds: Vec<String>,
    /// Only entries after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
}

/// Prints the entries.
pub(crate) async fn run(args: &TimelineArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find_to_read(place, &args.run).await?;
    let entries = found.entries().await?;
    if let Some(task) = &args.task
        && !entries.iter().any(|entry| entry.entry.task().is_some_and(|known| known.as_str() == task))
    {
        let known = found.view().await?.order;
        return Err(Failure::not_found("task", task, known.iter().map(ToString::to_string)));
    }
    let mut reader = Rows::default();
    // Every entry is read, also those that are not shown: later rows take names and inputs from earlier ones.
    let rows: Vec<Row> = entries.iter().map(|entry| reader.row(entry)).filter(|row| args.shows(row)).collect();
    if !place.screen.is_text() {
        place.screen.json_list(&rows)?;
        return Ok(Exit::Done);
    }
    let width = session::width();
    let who = rows.iter().map(|row| label(row).width()).max().unwrap_or(0);
    for row in &rows {
        place.screen.text(&line(row, who, width))?;
    }
    Ok(Exit::Done)
}

impl TimelineArgs {
    fn shows(&self, row: &Row) -> bool {
        row.seq > self.after
            && self.task.as_ref().is_none_or(|task| row.task.as_ref() == Some(task))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == row.kind || kind == row.entry))
    }
}

/// Who an entry is about.
fn label(row: &Row) -> Text {
    row.holder.as_ref().map_or_else(|| text!("run"), |holder| text!("{}", holder))
}

/// A row on one line: number, time, who, what.
fn line(row: &Row, who: usize, width: usize) -> Text {
    let time = row.timestamp.get(11..23).unwrap_or(&row.timestamp);
    let said = sentence(row).cut(width.saturating_sub(24 + who).max(40));
    text!("{:>6} {}  {}  {}", row.seq, style::faint(time), label(row).padded(who), said)
}
