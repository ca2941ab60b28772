//! `baton timeline`: prints the entries of a run in order.

use baton_timeline::{Kind, Line, Sentence, sentence};
use baton_types::call::CallStatus;
use baton_types::entry::{Entry, Recorded};
use clap::Args;

use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::text::{Text, text};
use crate::view::lines::words;
use crate::{style, terminal};

/// Arguments of `timeline`.
#[derive(Debug, Args)]
pub(crate) struct TimelineArgs {
    /// The run: its id, the beginning of its id, or @last
    #[arg(add = complete::runs())]
    run: String,
    /// Only entries of this task, such as 0/2.1
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Only entries of this type, such as `function_tool` or `task_ended`. May be repeated
    #[arg(long = "type", value_name = "TYPE", value_parser = known_type)]
    types: Vec<String>,
    /// Only entries with a number above SEQ, such as 40
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
}

/// Checks that `name` is a type of entry.
fn known_type(name: &str) -> Result<String, String> {
    if Kind::names().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let nearest =
        baton_types::spelling::nearest(name, Kind::names()).map(|known| format!("did you mean {known}? ")).unwrap_or_default();
    Err(format!("no entry has this type; {nearest}known: {}", Kind::names().collect::<Vec<_>>().join(", ")))
}

/// Prints the selected entries.
pub(crate) async fn run(args: &TimelineArgs, place: &Place) -> Result<Exit, Failure> {
    let found = runs::find_to_read(place, &args.run).await?;
    args.check_task(&found).await?;
    // Every entry is read, even if it is not printed: later lines take names and inputs from earlier entries.
    let mut reader = found.reader();
    if !place.screen.is_text() {
        let mut list = place.screen.begin_list();
        let print = |entry: &Recorded| args.chosen(reader.line(entry)).map_or(Ok(()), |line| list.add(&line));
        found.each_entry(print).await?;
        list.end()?;
        return Ok(Exit::Done);
    }
    // The timeline is read twice, because it may be larger than the memory.
    let mut columns = Columns { task: 0, subject: 0, screen: terminal::width() };
    found
        .each_entry(|entry| {
            if let Some(line) = args.chosen(reader.line(entry)) {
                columns.widen(&line, &sentence(&line));
            }
            Ok(())
        })
        .await?;
    reader = found.reader();
    let mut has_failed = false;
    found
        .each_entry(|entry| {
            let Some(line) = args.chosen(reader.line(entry)) else { return Ok(()) };
            has_failed = matches!(&line.entry, Entry::RunEnded(ended) if ended.status != CallStatus::Success);
            place.screen.text(&columns.row(&line, &sentence(&line)))
        })
        .await?;
    if has_failed {
        found.view().await?.failure_lines(terminal::width()).iter().for_each(|line| place.screen.tell(line));
    }
    Ok(Exit::Done)
}

impl TimelineArgs {
    /// Refuses a task that the run does not have.
    async fn check_task(&self, found: &FoundRun) -> Result<(), Failure> {
        let Some(task) = &self.task else { return Ok(()) };
        let mut known = Vec::new();
        found
            .each_entry(|entry| {
                if let Entry::TaskCreated(created) = &entry.entry {
                    known.push(created.task.to_string());
                }
                Ok(())
            })
            .await?;
        if known.contains(task) { Ok(()) } else { Err(Failure::not_found("task", task, known)) }
    }

    /// Returns `line` if the arguments select it.
    fn chosen(&self, line: Line) -> Option<Line> {
        let is_chosen = line.seq > self.after
            && self.task.as_ref().is_none_or(|task| line.task.as_ref().is_some_and(|of| of.as_str() == task))
            && (self.types.is_empty() || self.types.iter().any(|name| name == line.kind.as_str() || name == line.entry.name()));
        is_chosen.then_some(line)
    }
}

/// The widths of the columns of the text form.
struct Columns {
    task: usize,
    subject: usize,
    screen: usize,
}

impl Columns {
    fn widen(&mut self, line: &Line, sentence: &Sentence) {
        self.task = self.task.max(task(line).width());
        self.subject = self.subject.max(text!("{}", sentence.subject).width());
    }

    /// Renders an entry as a line of text: number, time, task, subject, sentence.
    fn row(&self, line: &Line, sentence: &Sentence) -> Text {
        let moment = line.at.to_string();
        let time = moment.get(11..23).unwrap_or(&moment);
        let said = words(sentence).cut(self.screen.saturating_sub(26 + self.task + self.subject).max(40));
        let (task, subject) = (style::faint(task(line).padded(self.task)), text!("{}", sentence.subject).padded(self.subject));
        text!("{:>6} {}  {}  {}  {}", line.seq, style::faint(time), task, subject, said)
    }
}

fn task(line: &Line) -> Text {
    line.task.as_ref().map_or_else(|| text!("-"), |task| text!("{task}"))
}
