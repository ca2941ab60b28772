//! Retention and verification of the store in memory.

use baton_types::id::{ContentHash, RunId};

use super::{Forgotten, MemoryStore, State};
use crate::retention::{Candidate, choose, is_end};
use crate::{Collected, Retention, StoreError, Verification};

/// See [`crate::Store::collect`].
pub(super) fn collect(store: &MemoryStore, retention: &Retention, dry_run: bool) -> Result<Collected, StoreError> {
    // Dropped after the lock, which is released first.
    let mut gone = Vec::new();
    let mut state = store.lock();
    if let Some(unknown) = retention.named.iter().find(|run| !state.runs.contains_key(*run)) {
        return Err(StoreError::UnknownRun((*unknown).clone()));
    }
    let unanswered = store.breadcrumbs.unanswered_runs()?;
    let candidates = state.created.iter().map(|id| {
        let run = &state.runs[id];
        let has_ended = run.entries.iter().rev().take(crate::retention::LAST_ENTRIES).any(|recorded| is_end(&recorded.entry));
        Candidate {
            run: id.clone(),
            updated: run.record.updated,
            has_ended: has_ended && !unanswered.contains(id),
            past: run.record.past.as_ref().map(|past| past.run.clone()),
        }
    });
    let candidates: Vec<_> = candidates.collect();
    let (leaving, held) = choose(&candidates, retention);
    let mut collected = Collected { held, kept: (candidates.len() - leaving.len()) as u64, ..Collected::default() };
    let before = bytes(&state);
    (collected.bytes_before, collected.bytes_after) = (before, before);
    for id in leaving {
        let record = &state.runs[&id].record;
        collected.entries += record.last_seq - record.past.as_ref().map_or(0, |past| past.seq);
        if !dry_run {
            state.ended.retain(|run| *run != id);
            let forgotten = state.forget(&id);
            collected.contents += forgotten.contents.len() as u64;
            collected.content_bytes += forgotten.contents.iter().map(|content| content.len() as u64).sum::<u64>();
            gone.push(forgotten);
        }
        collected.runs.push(id);
    }
    if !dry_run {
        store.breadcrumbs.forget_triggers(&collected.runs)?;
        collected.bytes_after = bytes(&state);
    }
    Ok(collected)
}

/// Returns the bytes of all contents.
fn bytes(state: &State) -> u64 {
    state.contents.values().map(|(content, _)| content.len() as u64).sum()
}

/// See [`crate::Store::verify`]. Memory does not rot, but a content may have been given under a wrong hash.
pub(super) fn verify(store: &MemoryStore) -> Result<Verification, StoreError> {
    let state = store.lock();
    let mut found = Verification { runs: state.runs.len() as u64, ..Verification::default() };
    for run in state.runs.values() {
        let own = run.record.last_seq - run.record.past.as_ref().map_or(0, |past| past.seq);
        found.entries += own;
        found.commands += run.commands.len() as u64;
    }
    for (hash, (content, named)) in &state.contents {
        found.contents += 1;
        found.content_bytes += content.len() as u64;
        found.unnamed += u64::from(*named == 0);
        if ContentHash::of(content) != *hash {
            found.findings.push(format!("content {hash} no longer has that hash"));
        }
    }
    found.logged = state.logged.values().map(|calls| calls.len() as u64).sum();
    store.breadcrumbs.verify(&mut found)?;
    Ok(found)
}

impl State {
    /// Forgets a run, and returns it with the contents that only it named.
    pub(super) fn forget(&mut self, id: &RunId) -> Forgotten {
        if let Some(place) = self.created.iter().position(|run| run == id) {
            self.created.remove(place);
        }
        let mut contents = Vec::new();
        let run = self.runs.remove(id);
        for hash in run.iter().flat_map(|run| &run.contents) {
            if let Some((_, named)) = self.contents.get_mut(hash) {
                *named -= 1;
                if *named == 0 {
                    contents.extend(self.contents.remove(hash).map(|(content, _)| content));
                }
            }
        }
        Forgotten { _run: run, contents }
    }
}
