//! `baton timeline`: the entries of a run in order, with the seed's five fields.

use baton_core::entry::Recorded;
use clap::Args;

use crate::commands::completions;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::FoundRun;
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
    args.check_task(&found).await?;
    // Every entry is read, also those that are not shown: later rows take names and inputs from earlier ones.
    let mut reader = Rows::default();
    if !place.screen.is_text() {
        let mut list = place.screen.begin_list();
        let print = |entry: &Recorded| Some(reader.row(entry)).filter(|row| args.shows(row)).map_or(Ok(()), |row| list.add(&row));
        found.each_entry(print).await?;
        list.end()?;
        return Ok(Exit::Done);
    }
    // Read twice rather than kept: a timeline may be larger than the memory.
    let (width, mut who) = (session::width(), 0);
    found
        .each_entry(|entry| {
            let shown = Some(reader.row(entry)).filter(|row| args.shows(row));
            who = shown.map_or(0, |row| label(&row).width()).max(who);
            Ok(())
        })
        .await?;
    reader = Rows::default();
    found
        .each_entry(|entry| {
            let shown = Some(reader.row(entry)).filter(|row| args.shows(row));
            shown.map_or(Ok(()), |row| place.screen.text(&line(&row, who, width)))
        })
        .await?;
    Ok(Exit::Done)
}

impl TimelineArgs {
    /// Refuses the name of a task that the run does not have.
    async fn check_task(&self, found: &FoundRun) -> Result<(), Failure> {
        let Some(task) = &self.task else { return Ok(()) };
        let mut is_known = false;
        found
            .each_entry(|entry| {
                is_known |= entry.entry.task().is_some_and(|known| known.as_str() == task);
                Ok(())
            })
            .await?;
        if is_known {
            return Ok(());
        }
        let known = found.view().await?.order;
        Err(Failure::not_found("task", task, known.iter().map(ToString::to_string)))
    }

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
