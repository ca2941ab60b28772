//! Retention removes the selected runs and nothing else, and verification finds damage.

use std::sync::Arc;

use baton_store::{Batch, NewRun, Retention, Store, StoreError};
use baton_types::call::CallStatus;
use baton_types::entry::{Entry, FinalState, ForkPoint, Recorded, RunEnded};
use baton_types::id::{AgentId, RunId, ToolId};
use baton_types::json::Json;

use crate::support::{
    OnDisk, append_until_filed, at, batch, content, entry, logged, memory, new_run, owned_run, run_id, sequence,
};

/// Returns an entry that names a content, as documents do.
fn naming(seq: u64, bytes: &[u8]) -> Arc<Recorded> {
    entry(seq, "0", &format!("look into \"{}\"", content(bytes).0))
}

pub(crate) fn ended(seq: u64, moment: u64) -> Arc<Recorded> {
    let end = RunEnded { state: FinalState::Completed, status: CallStatus::Success, limit: None };
    Arc::new(Recorded { seq, decision: seq, at: at(moment), entry: Entry::RunEnded(end) })
}

/// Returns a run with a content of its own and one that all runs share. The run has ended at `end`, if given.
pub(crate) async fn run_with(store: &dyn Store, name: &str, end: Option<u64>) -> RunId {
    let run = owned_run(store, name).await;
    let own = format!("own {name} ").repeat(2_000).into_bytes();
    let mut first = Batch { logged: vec![logged("analyst", "save", name)], ..batch(&run, 0, 0) };
    first.entries = vec![naming(1, &own), naming(2, b"shared")];
    first.contents = vec![content(&own), content(b"shared")];
    store.append(first).await.expect("a first batch");
    if let Some(moment) = end {
        store.append(Batch { entries: vec![ended(3, moment)], ..batch(&run, 2, 0) }).await.expect("the end");
    }
    run
}

pub(crate) async fn names(store: &dyn Store) -> Vec<String> {
    let mut names: Vec<_> = store.runs().await.expect("readable").into_iter().map(|run| run.id.to_string()).collect();
    names.sort();
    names
}

pub(crate) async fn has_content(store: &dyn Store, bytes: &[u8]) -> bool {
    store.content(content(bytes).0).await.expect("readable").is_some()
}

async fn assert_whole(disk: &OnDisk) {
    assert_eq!(disk.store.verify().await.expect("readable").findings, Vec::<String>::new());
}

#[tokio::test]
async fn a_run_is_kept_until_its_trigger_is_answered_and_goes_with_it() {
    let disk = OnDisk::new();
    let definition = baton_types::breadcrumb::NewBreadcrumb {
        schema_name: Some(baton_breadcrumb::REQUEST_SCHEMA.into()),
        ..crate::breadcrumbs::new("Ask", serde_json::json!({"tool": "echo"}))
    };
    crate::breadcrumbs::create(&disk.store, "q", definition, &crate::breadcrumbs::ann()).await.expect("a request");
    let project = crate::breadcrumbs::project("p");
    let triggers = async || disk.store.breadcrumbs().next_triggers(&project, 9, at(9)).await.expect("readable");
    let trigger = triggers().await[0].trigger.number;
    let first = Batch { entries: vec![entry(1, "0", "began"), ended(2, 5)], ..batch(&run_id("r"), 0, 0) };
    disk.store.begin(NewRun { trigger: Some(trigger), ..new_run("r", 1) }, "process 1", first).await.expect("a run");
    let none = Retention { keep_newest: Some(0), ..Retention::default() };
    assert!(disk.store.collect(none.clone(), false).await.expect("a pass").runs.is_empty(), "its answer is not written yet");
    let settlement = baton_store::Settlement { trigger, answer: None, refused: None };
    disk.store.breadcrumbs().settle(settlement).await.expect("a settlement");
    assert_eq!(disk.store.collect(none, false).await.expect("a pass").runs, [run_id("r")]);
    let left: i64 =
        disk.stranger().query_row("SELECT count(*) FROM breadcrumb_triggers", [], |row| row.get(0)).expect("a number");
    assert_eq!((left, triggers().await.len()), (0, 0));
    assert_whole(&disk).await;
}

#[tokio::test]
async fn the_runs_that_ended_first_go_with_what_only_they_named() {
    let disk = OnDisk::new();
    for (name, end) in [("a", Some(10)), ("b", None), ("c", Some(30)), ("d", Some(20)), ("e", Some(40))] {
        run_with(&disk.store, name, end).await;
    }
    let before = disk.store.entries(&run_id("c"), 0, 9).await.expect("readable");
    let keep_two = Retention { keep_newest: Some(2), ..Retention::default() };
    let would = disk.store.collect(keep_two.clone(), true).await.expect("a look");
    assert_eq!((would.runs.clone(), would.kept), (vec![run_id("a"), run_id("d")], 3));
    assert_eq!(names(&disk.store).await, ["a", "b", "c", "d", "e"], "looking removes nothing");

    let collected = disk.store.collect(keep_two.clone(), false).await.expect("removed");
    assert_eq!((collected.runs.clone(), collected.kept, collected.entries), (would.runs, 3, 6));
    assert_eq!((collected.contents, collected.content_bytes), (2, 2 * 12_000));
    assert!(collected.shrunk && collected.bytes_after + 20_000 < collected.bytes_before, "{collected:?}");
    assert_eq!(names(&disk.store).await, ["b", "c", "e"]);
    for (name, kept) in [("a", false), ("b", true), ("c", true), ("d", false)] {
        assert_eq!(has_content(&disk.store, &format!("own {name} ").repeat(2_000).into_bytes()).await, kept, "{name}");
    }
    assert!(has_content(&disk.store, b"shared").await);
    assert_eq!(disk.store.entries(&run_id("c"), 0, 9).await.expect("readable"), before);
    let recalled = disk.store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new("save"), 9).await.expect("readable");
    assert_eq!(recalled.len(), 5, "memories outlive their runs");
    disk.store.append(batch(&run_id("b"), 2, 1)).await.expect("a run that stays goes on");
    let gone = disk.store.append(batch(&run_id("a"), 3, 1)).await.expect_err("it is gone");
    assert!(matches!(gone, StoreError::UnknownRun(_)), "{gone}");
    let again = disk.store.collect(keep_two, false).await.expect("nothing to do");
    assert_eq!((again.runs.len(), again.contents), (0, 0));
    assert_whole(&disk).await;
    run_with(&disk.store, "a", None).await;
    assert_eq!(sequence(&disk.store, &run_id("a")).await, [1, 2], "the name is free again");
    assert_whole(&disk.reopened()).await;
}

#[tokio::test]
async fn a_run_goes_by_age_only_if_it_ended_and_by_name_in_any_case() {
    let disk = OnDisk::new();
    for (name, end) in [("a", Some(10)), ("b", None), ("c", Some(30))] {
        run_with(&disk.store, name, end).await;
    }
    let old = |moment| Retention { unchanged_since: Some(at(moment)), ..Retention::default() };
    assert_eq!(disk.store.collect(Retention::default(), false).await.expect("nothing").runs, Vec::<RunId>::new());
    assert_eq!(disk.store.collect(old(10), false).await.expect("nothing is older").runs, Vec::<RunId>::new());
    assert_eq!(disk.store.collect(old(30), false).await.expect("one is").runs, [run_id("a")]);
    let both = Retention { keep_newest: Some(1), ..old(1_000_000) };
    assert_eq!(disk.store.collect(both, false).await.expect("the rule of the newest keeps it").runs, Vec::<RunId>::new());
    let nobody = Retention { named: vec![run_id("b"), run_id("nobody")], ..Retention::default() };
    let refused = disk.store.collect(nobody, false).await.expect_err("one of them is not there");
    assert!(matches!(&refused, StoreError::UnknownRun(run) if *run == run_id("nobody")), "{refused}");
    let named = Retention { named: vec![run_id("b")], ..Retention::default() };
    assert_eq!(disk.store.collect(named, false).await.expect("by its name").runs, [run_id("b")]);
    assert_eq!(names(&disk.store).await, ["c"]);
    assert_whole(&disk).await;
}

#[tokio::test]
async fn what_another_run_begins_with_stays_as_long_as_that_run() {
    let disk = OnDisk::new();
    for name in ["a", "b"] {
        run_with(&disk.store, name, Some(10)).await;
    }
    for (name, other) in [("fork", "a"), ("fork of fork", "fork")] {
        let past = Some(ForkPoint { run: run_id(other), seq: 1 });
        disk.store.create(NewRun { past, ..new_run(name, 2) }).await.expect("a run that begins with another");
    }
    let all_ended = Retention { keep_newest: Some(0), ..Retention::default() };
    let collected = disk.store.collect(all_ended.clone(), false).await.expect("the others go");
    assert_eq!((collected.runs, collected.held), (vec![run_id("b")], vec![(run_id("a"), run_id("fork"))]));
    assert_eq!(sequence(&disk.store, &run_id("fork of fork")).await, [1]);
    let named = |names: [&str; 2]| Retention { named: names.map(run_id).to_vec(), ..Retention::default() };
    let collected = disk.store.collect(named(["a", "fork"]), false).await.expect("both are needed");
    assert_eq!((collected.runs, collected.held.len()), (Vec::new(), 2));
    let collected = disk.store.collect(named(["fork", "fork of fork"]), false).await.expect("they go together");
    assert_eq!(collected.runs, [run_id("fork"), run_id("fork of fork")]);
    assert_eq!(disk.store.collect(all_ended, false).await.expect("and then what they began with").runs, [run_id("a")]);
    assert_eq!(names(&disk.store).await, Vec::<String>::new());
    assert!(!has_content(&disk.store, b"shared").await);
    assert_whole(&disk).await;
}

#[tokio::test]
async fn a_content_that_a_command_names_or_that_nobody_named_yet_stays() {
    let disk = OnDisk::new();
    let (ended, open) = (run_with(&disk.store, "a", Some(10)).await, run_with(&disk.store, "b", None).await);
    let own = content(&"own a ".repeat(2_000).into_bytes());
    disk.store.put_command(&open, Json::of(&own.0.to_string()).expect("JSON")).await.expect("the run is there");
    let (hash, bytes) = content(b"put for a command that is still to come");
    disk.store.put_content(hash, bytes).await.expect("a content");
    let collected = disk.store.collect(Retention { named: vec![ended], ..Retention::default() }, false).await.expect("it goes");
    assert_eq!((collected.runs.len(), collected.contents), (1, 0));
    assert!(has_content(&disk.store, &own.1).await);
    assert!(disk.store.content(hash).await.expect("readable").is_some());
    assert_eq!(disk.store.verify().await.expect("readable").unnamed, 1);
}

#[tokio::test]
async fn a_run_goes_with_all_its_batches() {
    let disk = OnDisk::new();
    let (long, other) = (run_with(&disk.store, "a", Some(10)).await, run_with(&disk.store, "b", Some(10)).await);
    append_until_filed(&disk, &long, 3).await;
    let collected = disk.store.collect(Retention { named: vec![long], ..Retention::default() }, false).await.expect("it goes");
    assert_eq!(collected.runs, [run_id("a")]);
    let left = |table: &str| -> i64 {
        disk.stranger().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a number")
    };
    assert_eq!((left("batches"), left("places")), (2, 0));
    assert_eq!(names(&disk.store).await, [other.to_string()]);
    assert_whole(&disk).await;
}

#[tokio::test]
async fn nothing_goes_from_a_store_whose_rest_cannot_be_read() {
    let disk = OnDisk::new();
    for (name, end) in [("a", Some(10)), ("b", None)] {
        run_with(&disk.store, name, end).await;
    }
    disk.stranger()
        .execute_batch("UPDATE batches SET entries = unhex(replace(hex(entries), hex('look'), hex('Look'))) WHERE run = 2")
        .expect("damage");
    let refused =
        disk.store.collect(Retention { keep_newest: Some(0), ..Retention::default() }, false).await.expect_err("damaged");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    assert_eq!(names(&disk.store).await, ["a", "b"]);
    assert!(has_content(&disk.store, &"own a ".repeat(2_000).into_bytes()).await);
}

#[tokio::test]
async fn verify_counts_what_is_there_and_names_what_is_wrong() {
    let checks = [
        ("", ""),
        (
            "UPDATE batches SET entries = unhex(replace(hex(entries), hex('look'), hex('Look'))) WHERE batch = 1",
            "entries 1 to 2 of run a",
        ),
        ("DELETE FROM batches WHERE batch = 3", "run b"),
        ("DELETE FROM places WHERE run = 1 AND task NOT IN (0, 1)", "missing"),
        ("INSERT INTO places VALUES (1, 77, 2, 1)", "a place of task key 77 is wrong"),
        ("UPDATE places SET batch = 9 WHERE run = 1 AND task = 1", "task key 1"),
        ("DELETE FROM contents WHERE length(bytes) > 100", "configs"),
        ("UPDATE contents SET bytes = x'00' WHERE length(bytes) = 6", "no longer has that hash"),
        ("DELETE FROM runs WHERE run = 2", "1 runs are stored, expected 2"),
        ("DELETE FROM memories", "0 memories are stored, expected 1"),
        ("DELETE FROM logged WHERE nth = 2", "number 2"),
        ("DELETE FROM commands", "0 commands are stored, expected 1"),
        ("UPDATE totals SET runs = 5", "totals"),
        ("INSERT INTO batches VALUES (99, 1, 9, 0, x'00', x'00')", "rows, but only"),
    ];
    for (damage, finding) in checks {
        let disk = OnDisk::new();
        let (a, _) = (run_with(&disk.store, "a", Some(10)).await, run_with(&disk.store, "b", None).await);
        disk.store.put_command(&a, Json::null()).await.expect("the run is there");
        let started = baton_types::entry::RunStarted {
            run: run_id("c"),
            job: "job".into(),
            configs: content(&[7; 200]).0,
            folder: None,
            memory: "job".into(),
            request: "do".into(),
            inputs: Json::null(),
            model: None,
            prices: std::collections::BTreeMap::new(),
            engine: "0".into(),
            forked_from: None,
            continues: None,
        };
        let first = Arc::new(Recorded { seq: 3, decision: 3, at: at(1), entry: Entry::RunStarted(Box::new(started)) });
        let written = Batch { entries: vec![first], contents: vec![content(&[7; 200])], ..batch(&run_id("b"), 2, 0) };
        disk.store.append(written).await.expect("configs");
        let more = append_until_filed(&disk, &a, 3).await;
        disk.stranger().execute_batch(&format!("PRAGMA foreign_keys = OFF; {damage}")).expect("somebody else's write");
        let found = disk.store.verify().await.expect("readable");
        if damage.is_empty() {
            assert_eq!(found.findings, Vec::<String>::new());
            assert_eq!((found.runs, found.entries, found.batches), (2, 6 + 2 * more, 4 + more));
            assert_eq!((found.contents, found.unnamed, found.logged, found.commands), (4, 0, 2, 1));
        } else {
            let named = found.findings.iter().any(|said| said.contains(finding));
            assert!(named, "{damage}: {:#?}", found.findings);
        }
    }
}
