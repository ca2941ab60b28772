//! `baton doc log`: the versions of one document, who wrote them and who read them, folded from the timeline.
//!
//! A task reads a version when a request of it shows the content, or a part of it. A version whose record alone is shown, for lack of
//! room, is not read.

use std::collections::{BTreeMap, HashMap};

use baton_types::document::{Document, DocumentRef, DocumentVersion};
use baton_types::entry::{CallFinished, Entry, Holder, Recorded};
use baton_types::id::{CallId, TaskId, ToolId};
use baton_types::path::DocumentPath;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde::Serialize;

use crate::exit::Failure;
use crate::place::Place;
use crate::runs::FoundRun;
use crate::style;
use crate::terminal;
use crate::text::{Text, text};
use crate::view::RunView;
use crate::words;

/// A version in the output.
#[derive(Serialize)]
struct VersionReport<'a> {
    path: &'a DocumentPath,
    version: u32,
    base: Option<u32>,
    /// The author; `null` for the job's own documents.
    written_by: &'a Option<Principal>,
    written_at: String,
    task: &'a Option<TaskId>,
    call: &'a Option<CallId>,
    tool: Option<&'a ToolId>,
    mime_type: &'a str,
    size_bytes: u64,
    token_count: u64,
    hash: String,
    summary: &'a str,
    description: &'a str,
    readers: &'a [Reading],
}

/// The first time that a task read a version.
#[derive(Clone, Serialize)]
struct Reading {
    task: TaskId,
    holder: Option<Holder>,
    turn: u32,
    read_at: String,
    /// Whether the task was shown the whole content, rather than a part.
    whole: bool,
}

/// Prints the versions of `document`, oldest first.
pub(super) async fn print(found: &FoundRun, document: &Document, place: &Place) -> Result<(), Failure> {
    let mut history = History::of(document.current().path.clone());
    found
        .each_entry(|recorded| {
            history.apply(recorded);
            Ok(())
        })
        .await?;
    let reports: Vec<VersionReport<'_>> = document.versions().map(|version| history.report(version)).collect();
    if !place.screen.is_text() {
        return place.screen.json_list(&reports);
    }
    let width = terminal::width();
    for (report, version) in reports.iter().zip(document.versions()) {
        lines(report, version).iter().try_for_each(|line| place.screen.text(&line.cut(width)))?;
    }
    Ok(())
}

/// Returns one line for the version, and one for its readers.
fn lines(report: &VersionReport<'_>, version: &DocumentVersion) -> Vec<Text> {
    let mut by = RunView::author(version);
    let origin = [report.task.as_ref().map(|task| format!("task {task}")), report.tool.map(ToString::to_string)];
    let origin: Vec<String> = origin.into_iter().flatten().collect();
    if !origin.is_empty() {
        by = format!("{by} ({})", origin.join(", "));
    }
    let base = report.base.map(|base| format!("  from v{base}")).unwrap_or_default();
    let at = report.written_at.get(..19).unwrap_or(&report.written_at).replace('T', " ");
    let size = words::size(report.size_bytes);
    let mut lines = vec![text!("{}  {at}  {size}  by {by}{base}", style::name(format!("v{}", report.version)))];
    let reader = |reading: &Reading| {
        let holder = reading.holder.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let part = if reading.whole { "" } else { ", a part" };
        format!("{holder} (task {}, turn {}{part})", reading.task, reading.turn)
    };
    if report.readers.is_empty() {
        lines.push(text!("    {}", style::faint("not read yet")));
    } else {
        let readers: Vec<String> = report.readers.iter().map(reader).collect();
        lines.push(text!("    {}", style::faint(format!("read by {}", readers.join("; ")))));
    }
    lines
}

/// The form of a version in a request.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Whole.
    Whole,
    /// By its changes after a conflict.
    Changes,
    /// In part.
    Part,
}

/// The readers of one document, and the tools that wrote it.
struct History {
    path: DocumentPath,
    holders: HashMap<TaskId, Holder>,
    /// The contents that the next request of a task shows.
    fresh: HashMap<TaskId, Vec<(u32, Way)>>,
    /// The tools of the calls that ended.
    tools: HashMap<CallId, ToolId>,
    readings: BTreeMap<u32, Vec<Reading>>,
}

impl History {
    fn of(path: DocumentPath) -> Self {
        let (holders, fresh, tools) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { path, holders, fresh, tools, readings: BTreeMap::new() }
    }

    fn apply(&mut self, recorded: &Recorded) {
        match &recorded.entry {
            Entry::TaskCreated(created) => {
                self.holders.insert(created.task.clone(), created.holder.clone());
                self.brings(&created.task, &created.documents, Way::Whole);
            }
            Entry::CallFinished(finished) => self.finished(finished),
            Entry::ModelRequested(requested) => {
                for (version, way) in self.fresh.remove(&requested.task).unwrap_or_default() {
                    let left_out = match way {
                        Way::Whole => requested.pointers.as_slice(),
                        Way::Changes => &requested.conflicts,
                        Way::Part => &[],
                    };
                    if !left_out.iter().any(|left| left.version == version && left.path == self.path) {
                        self.reads(version, &requested.task, requested.turn, way != Way::Part, recorded.at);
                    }
                }
            }
            _ => {}
        }
    }

    fn finished(&mut self, finished: &CallFinished) {
        self.tools.insert(finished.call.clone(), finished.tool.clone());
        self.brings(&finished.task, &finished.result.documents, Way::Whole);
        self.brings(&finished.task, &finished.read, Way::Part);
        let conflicts = finished.conflicts.iter();
        let current = conflicts.map(|conflict| DocumentRef { path: conflict.path.clone(), version: conflict.current });
        self.brings(&finished.task, &current.collect::<Vec<_>>(), Way::Changes);
    }

    fn brings(&mut self, task: &TaskId, documents: &[DocumentRef], way: Way) {
        let versions: Vec<u32> = documents.iter().filter(|of| of.path == self.path).map(|of| of.version).collect();
        if !versions.is_empty() {
            self.fresh.entry(task.clone()).or_default().extend(versions.into_iter().map(|version| (version, way)));
        }
    }

    fn reads(&mut self, version: u32, task: &TaskId, turn: u32, whole: bool, at: Timestamp) {
        let readings = self.readings.entry(version).or_default();
        if let Some(before) = readings.iter_mut().find(|reading| reading.task == *task) {
            before.whole |= whole;
        } else {
            let holder = self.holders.get(task).cloned();
            readings.push(Reading { task: task.clone(), holder, turn, read_at: at.to_string(), whole });
        }
    }

    fn report<'a>(&'a self, version: &'a DocumentVersion) -> VersionReport<'a> {
        VersionReport {
            path: &version.path,
            version: version.version,
            base: version.base,
            written_by: &version.created_by,
            written_at: version.at.to_string(),
            task: &version.task,
            call: &version.call,
            tool: version.call.as_ref().and_then(|call| self.tools.get(call)),
            mime_type: &version.content.mime_type,
            size_bytes: version.content.size_bytes,
            token_count: version.content.token_count,
            hash: version.content.hash.to_string(),
            summary: &version.content.summary,
            description: &version.description,
            readers: self.readings.get(&version.version).map(Vec::as_slice).unwrap_or_default(),
        }
    }
}
