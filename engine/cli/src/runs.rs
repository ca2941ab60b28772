//! Runs by the names people give them: an id, a beginning of it, or `@last`.

use std::sync::Arc;

use baton_store::{RunRecord, Store};
use baton_timeline::{Line, Reader};
use baton_types::entry::Recorded;
use baton_types::id::RunId;

use crate::exit::Failure;
use crate::place::Place;
use crate::view::RunView;

/// How many entries are read at a time: few, because one may be as long as what a tool was given.
const PAGE: usize = 100;

/// The store and one run in it.
pub(crate) struct FoundRun {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// The run's record.
    pub(crate) record: RunRecord,
}

/// Finds the run that `name` means in the place's store, to do something with it.
pub(crate) async fn find(place: &Place, name: &str) -> Result<FoundRun, Failure> {
    find_in(place.existing_store()?, name).await
}

/// Finds the run that `name` means in the place's store, to look at it: nothing is written.
pub(crate) async fn find_to_read(place: &Place, name: &str) -> Result<FoundRun, Failure> {
    find_in(place.store_to_read()?.map(|store| store as Arc<dyn Store>), name).await
}

async fn find_in(store: Option<Arc<dyn Store>>, name: &str) -> Result<FoundRun, Failure> {
    let store = store.ok_or_else(|| Failure::not_found("run", name, []))?;
    let runs = store.runs().await.map_err(store_failure)?;
    let record = choose(runs, name)?;
    Ok(FoundRun { store, record })
}

/// The run among `runs` (newest first) that `name` means.
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

/// Whether `text` may name a run rather than something else; used where a command takes a run or another thing.
pub(crate) async fn is_run(place: &Place, text: &str) -> Result<bool, Failure> {
    match find_to_read(place, text).await {
        Ok(_) => Ok(true),
        Err(Failure::NotFound { .. }) => Ok(false),
        Err(failure) => Err(failure),
    }
}

impl FoundRun {
    /// The run's id.
    pub(crate) fn id(&self) -> &RunId {
        &self.record.id
    }

    /// Who took the run over last, as people read it.
    pub(crate) fn owner(&self) -> &str {
        self.record.owner.as_deref().unwrap_or("no process")
    }

    /// How the run stands, in the word that lists show.
    pub(crate) fn status(&self) -> &str {
        status(&*self.store, &self.record)
    }

    /// Gives the entries of the run to `with`, in order, a page at a time.
    pub(crate) async fn each_entry(&self, mut with: impl FnMut(&Recorded) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut pages = self.pages();
        while let Some(page) = pages.next().await? {
            page.iter().try_for_each(|recorded| with(recorded))?;
        }
        Ok(())
    }

    /// The entries of the run in order, a page at a time.
    pub(crate) fn pages(&self) -> Pages<'_> {
        Pages { run: self, after: Some(0) }
    }

    /// All entries of the run, in order.
    pub(crate) async fn entries(&self) -> Result<Vec<Arc<Recorded>>, Failure> {
        self.entries_after(0).await
    }

    /// The entries of the run after entry `seq`, in order.
    pub(crate) async fn entries_after(&self, seq: u64) -> Result<Vec<Arc<Recorded>>, Failure> {
        let mut entries: Vec<Arc<Recorded>> = Vec::new();
        loop {
            let after = entries.last().map_or(seq, |last| last.seq);
            let page = self.store.entries(self.id(), after, PAGE).await.map_err(store_failure)?;
            let complete = page.len() < PAGE;
            entries.extend(page);
            if complete {
                return Ok(entries);
            }
        }
    }

    /// A reader of the run's entries, before the first.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.id().clone())
    }

    /// The line of entry `seq`.
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

    /// The run, folded.
    pub(crate) async fn view(&self) -> Result<RunView, Failure> {
        let entries = self.entries().await?;
        Ok(RunView::of(entries.iter().map(AsRef::as_ref)))
    }
}

/// The entries of a run, as they are read.
pub(crate) struct Pages<'a> {
    run: &'a FoundRun,
    /// The last entry that was read; `None` after the last page.
    after: Option<u64>,
}

impl Pages<'_> {
    /// The next page; `None` when all entries were read.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Arc<Recorded>>>, Failure> {
        let Some(after) = self.after else { return Ok(None) };
        let page = self.run.store.entries(self.run.id(), after, PAGE).await.map_err(store_failure)?;
        self.after = page.last().filter(|_| page.len() == PAGE).map(|last| last.seq);
        Ok(Some(page))
    }
}

/// What lists show of a run whose process is gone.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// How a run stands, in the word that lists show: a run that proceeds is interrupted when its owner is gone.
pub(crate) fn status<'a>(store: &dyn Store, record: &'a RunRecord) -> &'a str {
    match record.status.as_str() {
        "running" if is_held(store, record) == Some(false) => INTERRUPTED,
        status => status,
    }
}

/// Whether a process that is there holds the run; `None` where that cannot be told.
pub(crate) fn is_held(store: &dyn Store, record: &RunRecord) -> Option<bool> {
    record.owner.as_deref().map_or(Some(false), |owner| store.is_there(owner))
}

/// A store's error as a failure of the command.
pub(crate) fn store_failure(error: baton_store::StoreError) -> Failure {
    match error {
        baton_store::StoreError::UnknownRun(run) => Failure::not_found("run", run.as_str(), []),
        error @ baton_store::StoreError::Held { .. } => Failure::Refused(error.to_string()),
        error => Failure::Store(error.to_string()),
    }
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
