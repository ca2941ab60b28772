//! Finds runs by the names that people use: an id, the beginning of an id, or `@last`.

use std::sync::Arc;

use baton_machine::Run;
use baton_store::{RunRecord, Store};
use baton_timeline::{Line, Reader};
use baton_types::call::CallStatus;
use baton_types::document::Documents;
use baton_types::entry::{Entry, FinalState, Recorded};
use baton_types::id::RunId;

use crate::app::engine::{engine, run_failure};
use crate::exit::Failure;
use crate::place::Place;
use crate::view::RunView;

/// Number of entries per read. It is small, since one entry may contain a tool's whole input.
const PAGE: usize = 100;

/// A run and the store that has it.
pub(crate) struct FoundRun {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// The run's record.
    pub(crate) record: RunRecord,
}

/// Finds the run that `name` means in the place's store, for changes.
pub(crate) async fn find(place: &Place, name: &str) -> Result<FoundRun, Failure> {
    find_in(place.existing_store()?, name).await
}

/// Finds the run that `name` means in the place's store, for reading only.
pub(crate) async fn find_to_read(place: &Place, name: &str) -> Result<FoundRun, Failure> {
    find_in(place.store_to_read()?, name).await
}

async fn find_in(store: Option<Arc<dyn Store>>, name: &str) -> Result<FoundRun, Failure> {
    let store = store.ok_or_else(|| Failure::not_found("run", name, []))?;
    let runs = store.runs().await.map_err(Failure::of_store)?;
    let record = choose(runs, name)?;
    Ok(FoundRun { store, record })
}

/// Returns the run among `runs` (newest first) that `name` means.
fn choose(runs: Vec<RunRecord>, name: &str) -> Result<RunRecord, Failure> {
    if name == "@last" {
        return runs.into_iter().next().ok_or_else(|| Failure::not_found("run", name, []));
    }
    let mut matching: Vec<RunRecord> = runs.iter().filter(|run| run.id.as_str() == name).cloned().collect();
    if matching.is_empty() && !name.is_empty() {
        matching = runs.iter().filter(|run| run.id.as_str().starts_with(name)).cloned().collect();
    }
    match matching.len() {
        0 => Err(Failure::not_found("run", name, runs.iter().take(12).map(|run| run.id.to_string()))),
        1 => Ok(matching.remove(0)),
        _ => {
            let ids: Vec<&str> = matching.iter().take(5).map(|run| run.id.as_str()).collect();
            Err(Failure::Usage(format!("several runs begin with {name}: {}", ids.join(", "))))
        }
    }
}

/// Returns the run that `run` continues, if it continues one of `runs`.
///
/// It begins with all entries of that run, whose end is the last one. A fork never begins there.
pub(crate) fn continued<'r>(runs: &'r [RunRecord], run: &RunRecord) -> Option<&'r RunRecord> {
    let past = run.past.as_ref()?;
    let before = runs.iter().find(|other| other.id == past.run)?;
    (before.last_seq == past.seq && is_over(&before.status)).then_some(before)
}

/// Returns the first run of the session of `run`: itself, unless it continues another.
pub(crate) fn first_of_session<'r>(runs: &'r [RunRecord], run: &'r RunRecord) -> &'r RunRecord {
    std::iter::successors(Some(run), |run| continued(runs, run)).last().unwrap_or(run)
}

/// Returns all runs of the session of `run`, oldest first.
pub(crate) fn session<'r>(runs: &'r [RunRecord], run: &'r RunRecord) -> Vec<&'r RunRecord> {
    let first = &first_of_session(runs, run).id;
    let mut session: Vec<&RunRecord> = runs.iter().filter(|other| first_of_session(runs, other).id == *first).collect();
    session.sort_by_key(|run| run.created);
    session
}

/// Returns the runs of a session as text: `A → B → C`, or `A → B, A → C` if two runs continue the same one.
pub(crate) fn session_text(runs: &[RunRecord], session: &[&RunRecord]) -> String {
    let mut text = String::new();
    let mut last = None;
    for run in session {
        let before = continued(runs, run).map(|before| before.id.as_str());
        match before {
            Some(before) if last != Some(before) => text.extend([", ", before, " → "]),
            Some(_) => text.push_str(" → "),
            None => {}
        }
        text.push_str(run.id.as_str());
        last = Some(run.id.as_str());
    }
    text
}

/// Whether a run with this status has ended.
pub(crate) fn is_over(status: &str) -> bool {
    let states = [FinalState::Completed, FinalState::Failed, FinalState::Cancelled, FinalState::TimedOut];
    status == CallStatus::Partial.as_str() || states.iter().any(|state| state.as_str() == status)
}

/// Returns true if `text` names a run. Commands that take a run or something else use it.
pub(crate) async fn is_run(place: &Place, text: &str) -> Result<bool, Failure> {
    match find_to_read(place, text).await {
        Ok(_) => Ok(true),
        Err(Failure::NotFound { .. }) => Ok(false),
        Err(failure) => Err(failure),
    }
}

impl FoundRun {
    /// Returns the run's id.
    pub(crate) fn id(&self) -> &RunId {
        &self.record.id
    }

    /// Returns the process that took the run last, as text for people.
    pub(crate) fn owner(&self) -> &str {
        self.record.owner.as_deref().unwrap_or("no process")
    }

    /// Returns the run's status, as lists show it.
    pub(crate) fn status(&self) -> &str {
        status(&*self.store, &self.record)
    }

    /// Calls `with` for each entry of the run in order. Entries are read in pages.
    pub(crate) async fn each_entry(&self, mut with: impl FnMut(&Recorded) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut pages = self.pages();
        while let Some(page) = pages.next().await? {
            page.iter().try_for_each(|recorded| with(recorded))?;
        }
        Ok(())
    }

    /// Returns a reader of the run's entries in order, a page at a time.
    pub(crate) fn pages(&self) -> Pages<'_> {
        Pages { run: self, after: Some(0) }
    }

    /// Returns all entries of the run, in order.
    pub(crate) async fn entries(&self) -> Result<Vec<Arc<Recorded>>, Failure> {
        self.entries_after(0).await
    }

    /// Returns the entries of the run after entry `seq`, in order.
    pub(crate) async fn entries_after(&self, seq: u64) -> Result<Vec<Arc<Recorded>>, Failure> {
        let mut entries: Vec<Arc<Recorded>> = Vec::new();
        loop {
            let after = entries.last().map_or(seq, |last| last.seq);
            let page = self.store.entries(self.id(), after, PAGE).await.map_err(Failure::of_store)?;
            let complete = page.len() < PAGE;
            entries.extend(page);
            if complete {
                return Ok(entries);
            }
        }
    }

    /// Returns a reader that renders the run's entries as lines, from the first entry on.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.id().clone())
    }

    /// Returns the line of entry `seq`.
    pub(crate) async fn line(&self, seq: u64) -> Result<Option<Line>, Failure> {
        let (mut reader, mut found) = (self.reader(), None);
        self.each_entry(|entry| {
            let line = reader.line(entry);
            if entry.seq == seq {
                found = Some(line);
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// Returns the run for people.
    pub(crate) async fn view(&self) -> Result<RunView, Failure> {
        let mut view = RunView::new(engine(&self.store)?, self.id()).await.map_err(run_failure)?;
        let mut pages = self.pages();
        while let Some(page) = pages.next().await? {
            for recorded in &page {
                view.apply(recorded).await.map_err(run_failure)?;
            }
        }
        Ok(view)
    }

    /// Returns the state of the run.
    pub(crate) async fn state(&self) -> Result<Run, Failure> {
        engine(&self.store)?.state(self.id()).await.map_err(run_failure)
    }

    /// Returns the workspace of the run. Its configs are not needed for that.
    pub(crate) async fn documents(&self) -> Result<Documents, Failure> {
        let mut documents = Documents::default();
        self.each_entry(|recorded| {
            if let Entry::DocumentWritten(version) = &recorded.entry {
                documents.insert(Arc::clone(version));
            }
            Ok(())
        })
        .await?;
        Ok(documents)
    }
}

/// A reader of a run's entries in pages.
pub(crate) struct Pages<'a> {
    run: &'a FoundRun,
    /// The last entry that was read; `None` after the last page.
    after: Option<u64>,
}

impl Pages<'_> {
    /// Returns the next page; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Arc<Recorded>>>, Failure> {
        let Some(after) = self.after else { return Ok(None) };
        let page = self.run.store.entries(self.run.id(), after, PAGE).await.map_err(Failure::of_store)?;
        self.after = page.last().filter(|_| page.len() == PAGE).map(|last| last.seq);
        Ok(Some(page))
    }
}

/// The status of a run whose process is gone.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Returns a run's status, as lists show it. A running run is interrupted if the process that owns it is gone.
pub(crate) fn status<'a>(store: &dyn Store, record: &'a RunRecord) -> &'a str {
    match record.status.as_str() {
        "running" if is_held(store, record) == Some(false) => INTERRUPTED,
        status => status,
    }
}

/// Returns whether a live process owns the run; `None` if that cannot be found out.
pub(crate) fn is_held(store: &dyn Store, record: &RunRecord) -> Option<bool> {
    record.owner.as_deref().map_or(Some(false), |owner| store.is_there(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::id::JobId;
    use baton_types::time::Timestamp;

    fn run(id: &str) -> RunRecord {
        RunRecord {
            id: RunId::new(id),
            job: JobId::new("job"),
            status: "completed".to_owned(),
            created: Timestamp::default(),
            updated: Timestamp::default(),
            last_seq: 1,
            past: None,
            epoch: 1,
            owner: None,
        }
    }

    #[test]
    fn a_run_is_found_by_id_beginning_and_last() {
        let runs = || vec![run("b7c2"), run("a1f0"), run("a1"), run("a2")];
        let chosen = |name: &str| choose(runs(), name).map(|run| run.id.to_string());
        assert_eq!(chosen("@last").unwrap(), "b7c2");
        assert_eq!(chosen("b").unwrap(), "b7c2");
        assert_eq!(chosen("a1").unwrap(), "a1", "a whole id is never ambiguous");
        assert_eq!(chosen("a").unwrap_err().exit().code(), 2);
        assert_eq!(chosen("zz").unwrap_err().exit().code(), 6);
        assert_eq!(choose(Vec::new(), "@last").unwrap_err().exit().code(), 6);
    }
}
