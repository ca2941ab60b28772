//! Retention, verification and pages of runs, on every store.

use std::sync::Arc;

use baton_store::{Batch, MemoryStore, NewRun, RECALLED_CALLS, Retention, Store, StoreError};
use baton_types::entry::ForkPoint;
use baton_types::id::{AgentId, ToolId};
use baton_types::json::Json;

use crate::keeping::{has_content, names, run_with};
use crate::support::{batch, logged, memory, new_run, owned_run, run_id, sequence};

promises!(
    runs_that_ended_first_go_with_what_only_they_named,
    a_run_that_another_begins_with_stays,
    a_named_run_goes_unless_it_is_unknown,
    whole_stores_have_no_findings,
    runs_are_listed_in_pages,
);

async fn runs_that_ended_first_go_with_what_only_they_named(store: Arc<dyn Store>) {
    for (name, end) in [("a", Some(10)), ("b", None), ("c", Some(30)), ("d", Some(20)), ("e", Some(40))] {
        run_with(&*store, name, end).await;
    }
    let keep_two = Retention { keep_newest: Some(2), ..Retention::default() };
    let would = store.collect(keep_two.clone(), true).await.expect("a look");
    assert_eq!((would.runs.clone(), would.kept), (vec![run_id("a"), run_id("d")], 3));
    assert_eq!(names(&*store).await, ["a", "b", "c", "d", "e"], "looking removes nothing");
    let collected = store.collect(keep_two.clone(), false).await.expect("removed");
    assert_eq!((collected.runs.clone(), collected.kept, collected.entries), (would.runs, 3, 6));
    assert_eq!((collected.contents, collected.content_bytes), (2, 2 * 12_000));
    assert_eq!(names(&*store).await, ["b", "c", "e"]);
    for (name, kept) in [("a", false), ("b", true), ("c", true), ("d", false)] {
        assert_eq!(has_content(&*store, &format!("own {name} ").repeat(2_000).into_bytes()).await, kept, "{name}");
    }
    assert!(has_content(&*store, b"shared").await);
    let recalled = store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new("save"), 9).await.expect("readable");
    assert_eq!(recalled.len(), 5, "memories outlive their runs");
    store.append(batch(&run_id("b"), 2, 1)).await.expect("a run that stays continues");
    let gone = store.append(batch(&run_id("a"), 3, 1)).await.expect_err("it is gone");
    assert!(matches!(gone, StoreError::UnknownRun(_)), "{gone}");
    let again = store.collect(keep_two, false).await.expect("nothing to do");
    assert_eq!((again.runs.len(), again.contents), (0, 0));
    run_with(&*store, "a", None).await;
    assert_eq!(sequence(&*store, &run_id("a")).await, [1, 2], "the name is free again");
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
}

async fn a_run_that_another_begins_with_stays(store: Arc<dyn Store>) {
    run_with(&*store, "first", Some(10)).await;
    run_with(&*store, "other", Some(5)).await;
    let past = Some(ForkPoint { run: run_id("first"), seq: 2 });
    store.create(NewRun { past, ..new_run("second", 9) }).await.expect("a run that begins with it");
    let none = Retention { keep_newest: Some(0), ..Retention::default() };
    let collected = store.collect(none, false).await.expect("a pass");
    assert_eq!((collected.runs, collected.held), (vec![run_id("other")], vec![(run_id("first"), run_id("second"))]));
    assert_eq!(sequence(&*store, &run_id("second")).await, [1, 2]);
    let both = Retention { named: vec![run_id("first"), run_id("second")], ..Retention::default() };
    assert_eq!(store.collect(both, false).await.expect("a pass").runs.len(), 2);
    assert!(names(&*store).await.is_empty());
}

async fn a_named_run_goes_unless_it_is_unknown(store: Arc<dyn Store>) {
    run_with(&*store, "a", None).await;
    run_with(&*store, "b", None).await;
    let named = |names: &[&str]| Retention { named: names.iter().map(|name| run_id(name)).collect(), ..Retention::default() };
    let refused = store.collect(named(&["a", "nobody"]), false).await.expect_err("one is unknown");
    assert!(matches!(refused, StoreError::UnknownRun(run) if run == run_id("nobody")));
    assert_eq!(store.collect(named(&["a"]), false).await.expect("a pass").runs, [run_id("a")]);
    assert_eq!(names(&*store).await, ["b"]);
}

async fn whole_stores_have_no_findings(store: Arc<dyn Store>) {
    let run = run_with(&*store, "a", Some(10)).await;
    run_with(&*store, "b", None).await;
    store.put_command(&run, Json::null()).await.expect("the run is there");
    let found = store.verify().await.expect("readable");
    assert_eq!(found.findings, Vec::<String>::new());
    assert_eq!((found.runs, found.entries, found.contents, found.logged, found.commands), (2, 5, 3, 2, 1));
}

async fn runs_are_listed_in_pages(store: Arc<dyn Store>) {
    for (name, created) in [("c", 5), ("e", 9), ("d", 5), ("b", 3), ("a", 1)] {
        store.create(new_run(name, created)).await.expect("a new run");
    }
    let mut listed = Vec::new();
    loop {
        let page = store.runs_after(listed.last(), 2).await.expect("readable");
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|run| run.id));
    }
    assert_eq!(listed, ["e", "d", "c", "b", "a"].map(run_id));
    let refused = store.runs_after(Some(&run_id("nobody")), 2).await.expect_err("it is unknown");
    assert!(matches!(refused, StoreError::UnknownRun(_)), "{refused}");
}

#[tokio::test]
async fn a_store_that_forgets_runs_keeps_as_many_logged_calls_as_are_recalled() {
    let store = MemoryStore::keeping(1);
    let run = owned_run(&store, "a").await;
    let calls: Vec<_> = (0..RECALLED_CALLS + 2).map(|number| logged("analyst", "save", &number.to_string())).collect();
    let other = logged("analyst", "think", "alone");
    let batch = Batch { logged: calls.iter().cloned().chain([other]).collect(), ..batch(&run, 0, 1) };
    store.append(batch).await.expect("its entry");
    let recalled = async |tool: &str| {
        let recalled = store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new(tool), usize::MAX).await;
        recalled.expect("memory never fails").into_iter().map(|(_, call)| call).collect::<Vec<_>>()
    };
    assert!(recalled("save").await == calls[2..], "the newest calls, oldest of them first");
    assert_eq!(recalled("think").await.len(), 1);
}
