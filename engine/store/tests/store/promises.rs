//! The promises of the trait, each tried on every store.

use std::sync::Arc;

use baton_store::{Batch, LoggedCall, NewRun, RunSummaryUpdate, Store, StoreError};
use baton_types::entry::ForkPoint;
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use tokio::task::JoinSet;

use crate::support::{at, batch, content, entry, logged, memory, new_run, owned_run, run_id, sequence};

promises!(
    a_run_is_created_once,
    only_the_owner_of_the_newest_epoch_appends,
    a_batch_follows_the_last_entry_without_gaps,
    a_refused_batch_changes_nothing,
    entries_come_back_as_they_were,
    entries_are_read_in_slices,
    a_task_s_entries_end_where_asked,
    a_run_begins_with_entries_of_another,
    a_past_that_is_not_there_is_refused,
    contents_are_kept_once_under_their_hash,
    a_large_content_comes_back_whole,
    memories_are_recalled_oldest_first,
    a_memory_is_read_by_its_owner_alone,
    runs_are_listed_newest_first,
    commands_wait_until_a_batch_consumes_them,
    a_command_wakes_who_subscribed,
    what_is_unknown_is_said,
    one_of_two_writers_of_an_entry_wins,
    many_runs_are_written_at_the_same_time,
);

async fn a_run_is_created_once(store: Arc<dyn Store>) {
    store.create(new_run("a", 1)).await.expect("the first");
    let refused = store.create(new_run("a", 2)).await.expect_err("the second");
    assert!(matches!(refused, StoreError::RunExists(run) if run == run_id("a")));
    let record = store.run(&run_id("a")).await.expect("readable").expect("there");
    assert_eq!(
        (record.created, record.status.as_str(), record.last_seq, record.epoch, record.owner),
        (at(1), "created", 0, 0, None)
    );
}

async fn only_the_owner_of_the_newest_epoch_appends(store: Arc<dyn Store>) {
    store.create(new_run("a", 1)).await.expect("a new run");
    let run = run_id("a");
    for epoch in [0, 1] {
        let refused = store.append(Batch { epoch, ..batch(&run, 0, 1) }).await.expect_err("nobody owns the run");
        assert!(matches!(refused, StoreError::StaleEpoch { found: 0, .. }), "{refused}");
    }
    assert_eq!(store.take_over(&run, "first", 0).await.expect("there"), 1);
    store.append(batch(&run, 0, 2)).await.expect("the owner's");
    assert_eq!(store.take_over(&run, "second", 1).await.expect("there"), 2);
    let late = store.take_over(&run, "third", 1).await.expect_err("the second was faster");
    assert!(matches!(late, StoreError::StaleEpoch { expected: 1, found: 2, .. }), "{late}");
    let refused = store.append(batch(&run, 2, 1)).await.expect_err("the first owner's");
    assert!(matches!(refused, StoreError::StaleEpoch { expected: 1, found: 2, .. }), "{refused}");
    // Nor may it end what the second owner holds: a batch without entries is checked like any other.
    for releases in [true, false] {
        let refused = store.append(Batch { releases, ..batch(&run, 2, 0) }).await.expect_err("the first owner's");
        assert!(matches!(refused, StoreError::StaleEpoch { expected: 1, found: 2, .. }), "{refused}");
    }
    let record = store.run(&run).await.expect("readable").expect("there");
    assert_eq!((record.epoch, record.owner.as_deref()), (2, Some("second")));
    let refused = store.append(Batch { epoch: 3, ..batch(&run, 2, 1) }).await.expect_err("an epoch that never was");
    assert!(matches!(refused, StoreError::StaleEpoch { expected: 3, found: 2, .. }), "{refused}");
    store.append(Batch { epoch: 2, ..batch(&run, 2, 1) }).await.expect("the second owner's");
    assert_eq!(sequence(&*store, &run).await, [1, 2, 3]);
    let record = store.run(&run).await.expect("readable").expect("there");
    assert_eq!((record.epoch, record.owner.as_deref(), record.last_seq), (2, Some("second"), 3));
}

async fn a_batch_follows_the_last_entry_without_gaps(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    store.append(batch(&run, 0, 2)).await.expect("entries 1 and 2");
    for expected_seq in [0, 1, 3] {
        let refused = store.append(batch(&run, expected_seq, 1)).await.expect_err("not after entry 2");
        assert!(matches!(refused, StoreError::SequenceMismatch { found: 2, .. }), "{refused}");
    }
    let mut gap = batch(&run, 2, 3);
    gap.entries.remove(1);
    let refused = store.append(gap).await.expect_err("entry 4 is missing");
    assert!(matches!(refused, StoreError::SequenceMismatch { expected: 4, found: 5, .. }), "{refused}");
    store.append(batch(&run, 2, 0)).await.expect("a batch without entries");
    assert_eq!(sequence(&*store, &run).await, [1, 2]);
}

async fn a_refused_batch_changes_nothing(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let number = store.put_command(&run, Json::null()).await.expect("the run is there");
    let before = store.run(&run).await.expect("readable");
    let (hash, bytes) = content(b"never written");
    let full = Batch {
        contents: vec![(hash, bytes)],
        logged: vec![logged("analyst", "think", "never thought")],
        summary: Some(RunSummaryUpdate { status: "completed".into(), at: at(99) }),
        consumed: vec![number],
        ..batch(&run, 0, 3)
    };
    store.append(Batch { epoch: 9, ..full.clone() }).await.expect_err("a stale epoch");
    store.append(Batch { expected_seq: 9, ..full.clone() }).await.expect_err("a wrong place");
    let mut gap = full.clone();
    gap.entries.swap(1, 2);
    store.append(gap).await.expect_err("entries in the wrong order");
    assert_eq!(store.run(&run).await.expect("readable"), before);
    assert!(sequence(&*store, &run).await.is_empty());
    assert_eq!(store.content(hash).await.expect("readable"), None);
    assert!(store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new("think"), 9).await.expect("readable").is_empty());
    assert_eq!(store.take_commands(&run, 0).await.expect("readable").len(), 1);

    store.append(full).await.expect("the same batch, in its place");
    let record = store.run(&run).await.expect("readable").expect("there");
    assert_eq!((record.status.as_str(), record.updated, record.last_seq), ("completed", at(99), 3));
    assert_eq!(store.content(hash).await.expect("readable").as_deref(), Some(&b"never written"[..]));
    assert!(store.take_commands(&run, 0).await.expect("readable").is_empty());
}

async fn entries_come_back_as_they_were(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let mut written = batch(&run, 0, 0);
    written.entries =
        vec![entry(1, "0", "quotes \" and \u{0} and ü"), entry(2, "0/1.1", &"long ".repeat(10_000)), entry(3, "0", "")];
    store.append(written.clone()).await.expect("three entries");
    assert_eq!(store.entries(&run, 0, 10).await.expect("readable"), written.entries);
    let record = store.run(&run).await.expect("readable").expect("there");
    assert_eq!(record.updated, written.entries[2].at, "a run without a summary is as old as its last entry");
}

async fn entries_are_read_in_slices(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    store.append(batch(&run, 0, 10)).await.expect("ten entries");
    let slice = |after, limit| {
        let (store, run) = (Arc::clone(&store), run.clone());
        async move { store.entries(&run, after, limit).await.expect("readable").iter().map(|entry| entry.seq).collect::<Vec<_>>() }
    };
    assert_eq!(slice(0, 3).await, [1, 2, 3]);
    assert_eq!(slice(3, 3).await, [4, 5, 6]);
    assert_eq!(slice(8, 100).await, [9, 10]);
    assert!(slice(4, 0).await.is_empty());
    assert!(slice(10, 5).await.is_empty());
    assert!(slice(u64::MAX, usize::MAX).await.is_empty());
}

async fn a_task_s_entries_end_where_asked(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let other = owned_run(&*store, "b").await;
    let mut written = batch(&run, 0, 0);
    written.entries = (1..=9).map(|seq| entry(seq, if seq % 3 == 0 { "0/1.1" } else { "0" }, "x")).collect();
    store.append(written).await.expect("nine entries of two tasks");
    store.append(batch(&other, 0, 5)).await.expect("entries of another run");
    let of = |task: &'static str, through| {
        let (store, run) = (Arc::clone(&store), run.clone());
        async move {
            let entries = store.task_entries(&run, &TaskId::new(task), through).await.expect("readable");
            entries.iter().map(|entry| entry.seq).collect::<Vec<_>>()
        }
    };
    assert_eq!(of("0/1.1", u64::MAX).await, [3, 6, 9]);
    assert_eq!(of("0/1.1", 6).await, [3, 6]);
    assert_eq!(of("0/1.1", 5).await, [3]);
    assert_eq!(of("0", 4).await, [1, 2, 4]);
    assert!(of("0", 0).await.is_empty());
    assert!(of("0/1", u64::MAX).await.is_empty(), "half a task id is not a task");
}

async fn a_run_begins_with_entries_of_another(store: Arc<dyn Store>) {
    let first = owned_run(&*store, "first").await;
    let mut long = batch(&first, 0, 0);
    long.entries = (1..=6).map(|seq| entry(seq, if seq % 2 == 0 { "0/1.1" } else { "0" }, "of the first")).collect();
    store.append(long).await.expect("six entries in one batch");
    store.append(batch(&first, 6, 2)).await.expect("two more");
    // The second begins inside a batch of the first; the third inside what the second took over.
    let second = NewRun { past: Some(ForkPoint { run: first.clone(), seq: 4 }), ..new_run("second", 2) };
    let own = Batch {
        entries: vec![entry(5, "0/1.1", "of the second"), entry(6, "0", "of the second")],
        ..batch(&run_id("second"), 4, 0)
    };
    store.begin(second.clone(), "owner", own.clone()).await.expect("a batch that follows its past");
    let third = NewRun { past: Some(ForkPoint { run: second.id.clone(), seq: 3 }), ..new_run("third", 3) };
    store.create(third.clone()).await.expect("a run that begins with a run that begins with a run");
    assert_eq!(store.run(&third.id).await.expect("readable").expect("there").last_seq, 3);
    assert_eq!(store.take_over(&third.id, "owner", 0).await.expect("there"), 1);
    for wrong in [0, 2, 4] {
        let refused = store.append(batch(&third.id, wrong, 1)).await.expect_err("it follows entry 3");
        assert!(matches!(refused, StoreError::SequenceMismatch { found: 3, .. }), "{refused}");
    }
    store.append(Batch { entries: vec![entry(4, "0/1.1", "of the third")], ..batch(&third.id, 3, 0) }).await.expect("its own");

    let of_first = store.entries(&first, 0, 100).await.expect("readable");
    assert_eq!(of_first.len(), 8, "the first is as it was");
    let of_second = store.entries(&second.id, 0, 100).await.expect("readable");
    assert_eq!((&of_second[..4], &of_second[4..]), (&of_first[..4], &own.entries[..]));
    assert_eq!(store.entries(&second.id, 3, 2).await.expect("readable"), of_second[3..5]);
    assert_eq!(store.entries(&second.id, 4, 9).await.expect("readable"), of_second[4..]);
    let of_third = store.entries(&third.id, 0, 100).await.expect("readable");
    assert_eq!((&of_third[..3], &of_third[3..]), (&of_first[..3], &[entry(4, "0/1.1", "of the third")][..]));
    let of_task = |run: RunId, through| {
        let store = Arc::clone(&store);
        async move {
            let entries = store.task_entries(&run, &"0/1.1".into(), through).await.expect("readable");
            entries.iter().map(|entry| entry.seq).collect::<Vec<_>>()
        }
    };
    assert_eq!(of_task(second.id.clone(), u64::MAX).await, [2, 4, 5]);
    assert_eq!(of_task(second.id.clone(), 4).await, [2, 4]);
    assert_eq!(of_task(second.id.clone(), 3).await, [2]);
    assert_eq!(of_task(third.id.clone(), u64::MAX).await, [2, 4]);
    assert_eq!(of_task(first.clone(), u64::MAX).await, [2, 4, 6]);
    let record = store.run(&second.id).await.expect("readable").expect("there");
    assert_eq!((record.past, record.last_seq), (second.past, 6));
    let listed = store.runs().await.expect("readable");
    assert_eq!(listed.iter().map(|record| record.past.is_some()).collect::<Vec<_>>(), [true, true, false]);
}

async fn a_past_that_is_not_there_is_refused(store: Arc<dyn Store>) {
    let first = owned_run(&*store, "first").await;
    store.append(batch(&first, 0, 2)).await.expect("two entries");
    let after = |run: &RunId, seq| NewRun { past: Some(ForkPoint { run: run.clone(), seq }), ..new_run("second", 2) };
    let refused = store.create(after(&run_id("nobody"), 1)).await.expect_err("nothing to begin with");
    assert!(matches!(&refused, StoreError::UnknownRun(run) if *run == run_id("nobody")), "{refused}");
    let own = batch(&run_id("second"), 3, 1);
    let refused = store.begin(after(&first, 3), "owner", own).await.expect_err("it has two entries");
    assert!(matches!(&refused, StoreError::SequenceMismatch { run, expected: 3, found: 2 } if *run == first), "{refused}");
    let own = batch(&run_id("second"), 0, 1);
    let refused = store.begin(after(&first, 2), "owner", own).await.expect_err("the batch does not follow the past");
    assert!(matches!(refused, StoreError::SequenceMismatch { expected: 0, found: 2, .. }), "{refused}");
    assert_eq!(store.run(&run_id("second")).await.expect("readable"), None);
}

async fn contents_are_kept_once_under_their_hash(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let (hash, bytes) = content(b"same");
    let (empty_hash, empty) = content(b"");
    let twice = vec![(hash, Arc::clone(&bytes)), (hash, Arc::clone(&bytes)), (empty_hash, empty)];
    store.append(Batch { contents: twice, ..batch(&run, 0, 1) }).await.expect("one content twice in a batch");
    store.append(Batch { contents: vec![(hash, Arc::clone(&bytes))], ..batch(&run, 1, 1) }).await.expect("and in the next");
    store.put_content(hash, Arc::clone(&bytes)).await.expect("and by itself");
    assert_eq!(store.content(hash).await.expect("readable"), Some(bytes));
    assert_eq!(store.content(empty_hash).await.expect("readable").as_deref(), Some(&[][..]));
    assert_eq!(store.content(ContentHash::of(b"other")).await.expect("readable"), None);
    let refused = store.put_content(hash, content(b"other").1).await.expect_err("another content under this hash");
    assert!(matches!(refused, StoreError::WrongHash { size: 5 }), "{refused}");
}

async fn a_large_content_comes_back_whole(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let bytes: Vec<u8> = (0..10_u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (hash, large) = content(&bytes);
    store.append(Batch { contents: vec![(hash, Arc::clone(&large))], ..batch(&run, 0, 1) }).await.expect("10 MiB");
    assert_eq!(store.content(hash).await.expect("readable"), Some(large));
}

async fn a_memory_is_read_by_its_owner_alone(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let keys = ["job q3 in /a", "job q3 in /b", "job q3", "project /a"];
    let call = |key: &str| LoggedCall { memory: MemoryId::new(key), ..logged("analyst", "save", key) };
    store.append(Batch { logged: keys.iter().copied().map(call).collect(), ..batch(&run, 0, 1) }).await.expect("its entry");
    for key in keys {
        let recalled =
            store.recall(&MemoryId::new(key), &AgentId::new("analyst"), &ToolId::new("save"), 9).await.expect("readable");
        assert_eq!(recalled, [(run.clone(), call(key))]);
    }
    let other = store.recall(&MemoryId::new("job q3 in /"), &AgentId::new("analyst"), &ToolId::new("save"), 9).await;
    assert!(other.expect("readable").is_empty());
}

async fn memories_are_recalled_oldest_first(store: Arc<dyn Store>) {
    let (first, second) = (owned_run(&*store, "a").await, owned_run(&*store, "b").await);
    let remember = |text: &str| logged("analyst", "save", text);
    let calls = vec![remember("1"), logged("analyst", "think", "no"), remember("2")];
    store.append(Batch { logged: calls, ..batch(&first, 0, 1) }).await.expect("in the first run");
    let calls = vec![logged("visualizer", "save", "no"), remember("3")];
    store.append(Batch { logged: calls, ..batch(&second, 0, 1) }).await.expect("in the second");
    store.append(Batch { logged: vec![remember("4")], ..batch(&first, 1, 1) }).await.expect("in the first again");
    let recall = |limit| {
        let store = Arc::clone(&store);
        async move { store.recall(&memory(), &AgentId::new("analyst"), &ToolId::new("save"), limit).await.expect("readable") }
    };
    let all = recall(10).await;
    let runs: Vec<_> = all.iter().map(|(run, _)| run.as_str()).collect();
    assert_eq!(runs, ["a", "a", "b", "a"]);
    let calls: Vec<_> = all.into_iter().map(|(_, call)| call).collect();
    assert_eq!(calls, ["1", "2", "3", "4"].map(remember));
    let newest: Vec<_> = recall(2).await.into_iter().map(|(_, call)| call.input.text().to_owned()).collect();
    assert_eq!(newest, ["\"3\"", "\"4\""]);
    assert!(recall(0).await.is_empty());
}

async fn runs_are_listed_newest_first(store: Arc<dyn Store>) {
    for (name, created) in [("old", 5), ("new", 9), ("twin of old", 5), ("oldest", 1)] {
        store.create(new_run(name, created)).await.expect("a new run");
    }
    let names: Vec<_> = store.runs().await.expect("readable").into_iter().map(|record| record.id.as_str().to_owned()).collect();
    assert_eq!(names, ["new", "twin of old", "old", "oldest"]);
    assert_eq!(store.run(&run_id("none")).await.expect("readable"), None);
}

async fn commands_wait_until_a_batch_consumes_them(store: Arc<dyn Store>) {
    let (run, other) = (owned_run(&*store, "a").await, owned_run(&*store, "b").await);
    let put = |text: &'static str| {
        let (store, run) = (Arc::clone(&store), run.clone());
        async move { store.put_command(&run, Json::of(text).expect("JSON")).await.expect("the run is there") }
    };
    let (first, second) = (put("one").await, put("two").await);
    let others = store.put_command(&other, Json::null()).await.expect("the run is there");
    assert!(first < second && second < others, "{first} {second} {others}");
    let waiting = [(first, Json::of("one").expect("JSON")), (second, Json::of("two").expect("JSON"))];
    assert_eq!(store.take_commands(&run, 0).await.expect("readable"), waiting);
    assert_eq!(store.take_commands(&run, 0).await.expect("readable"), waiting, "reading takes nothing away");
    assert_eq!(store.take_commands(&run, first).await.expect("readable"), waiting[1..]);

    let consumed = vec![first, second, others, 1_000];
    store.append(Batch { consumed, ..batch(&run, 0, 1) }).await.expect("a batch that carried them out");
    assert!(store.take_commands(&run, 0).await.expect("readable").is_empty());
    assert_eq!(
        store.take_commands(&other, 0).await.expect("readable").len(),
        1,
        "another run's command is not this run's to consume"
    );
    let third = put("three").await;
    assert!(third > others, "no number is used twice");
}

async fn a_command_wakes_who_subscribed(store: Arc<dyn Store>) {
    let (run, other) = (owned_run(&*store, "a").await, owned_run(&*store, "b").await);
    let mut mine = store.subscribe(&run);
    let mut second_listener = store.subscribe(&run);
    let others = store.subscribe(&other);
    let waiting = tokio::spawn(async move {
        mine.changed().await.expect("the store is open");
        *mine.borrow_and_update()
    });
    let number = store.put_command(&run, Json::null()).await.expect("the run is there");
    assert_eq!(waiting.await.expect("no panic"), number);
    second_listener.changed().await.expect("the store is open");
    assert!(!others.has_changed().expect("the store is open"), "another run's owner sleeps on");
}

async fn what_is_unknown_is_said(store: Arc<dyn Store>) {
    let run = run_id("nobody");
    let unknown = [
        store.take_over(&run, "x", 0).await.map(drop),
        store.append(batch(&run, 0, 1)).await,
        store.entries(&run, 0, 1).await.map(drop),
        store.task_entries(&run, &TaskId::root(), 1).await.map(drop),
        store.put_command(&run, Json::null()).await.map(drop),
        store.take_commands(&run, 0).await.map(drop),
    ];
    for (index, answer) in unknown.into_iter().enumerate() {
        assert!(matches!(answer, Err(StoreError::UnknownRun(_))), "question {index}: {answer:?}");
    }
}

async fn one_of_two_writers_of_an_entry_wins(store: Arc<dyn Store>) {
    let run = owned_run(&*store, "a").await;
    let mut wins = 0;
    for seq in 0..50 {
        let mut racers = JoinSet::new();
        for _ in 0..4 {
            let (store, racing) = (Arc::clone(&store), batch(&run, seq, 1));
            racers.spawn(async move { store.append(racing).await });
        }
        wins += racers.join_all().await.into_iter().flatten().count();
    }
    assert_eq!(wins, 50);
    assert_eq!(sequence(&*store, &run).await, (1..=50).collect::<Vec<_>>());
}

async fn many_runs_are_written_at_the_same_time(store: Arc<dyn Store>) {
    let mut writers = JoinSet::new();
    for index in 0..64 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let run = owned_run(&*store, &format!("run {index}")).await;
            for step in 0..20 {
                let text = format!("shared {}", (index + step) % 8);
                let written = Batch { contents: vec![content(text.as_bytes())], ..batch(&run, step * 3, 3) };
                store.append(written).await.expect("only this task writes this run");
            }
        });
    }
    writers.join_all().await;
    for index in 0..64 {
        let run = run_id(&format!("run {index}"));
        let expected: Vec<_> = batch(&run, 0, 60).entries;
        assert_eq!(store.entries(&run, 0, usize::MAX).await.expect("readable"), expected, "{run}");
    }
    for index in 0..8 {
        let (hash, bytes) = content(format!("shared {index}").as_bytes());
        assert_eq!(store.content(hash).await.expect("readable"), Some(bytes));
    }
}
