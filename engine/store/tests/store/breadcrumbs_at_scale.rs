//! Breadcrumbs of many writers, of many records, and of files that are old or damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_breadcrumb::BreadcrumbError;
use baton_store::{Creation, SqliteStore, Store, StoreError, Update};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb, Sensitivity, Visibility};
use baton_types::id::BreadcrumbId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::breadcrumbs::{agent, ann, change, create, creation, find, new, titles, words};
use crate::support::{OnDisk, at};

promises!(
    expected_versions_let_one_of_several_writers_win,
    two_thousand_records_are_searched_right,
    random_writes_do_what_a_simple_model_expects,
    one_of_several_writers_with_one_key_creates_the_record,
    one_of_several_writers_of_one_id_creates_the_record,
    a_word_at_the_end_of_the_largest_context_is_found,
);

const WRITERS: u64 = 8;
const UPDATES: u64 = 1_000;

/// Lets eight writers change one record through `stores`, which keep the same records.
pub(crate) async fn eight_writers(stores: Vec<Arc<dyn Store>>) {
    create(&*stores[0], "shared", new("shared", json!({})), &ann()).await.expect("new");
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&stores[writer as usize % stores.len()]);
        writers.spawn(async move {
            for n in 1..=UPDATES {
                let merge = json!({format!("w{writer}"): n});
                let next = BreadcrumbChange { merge: Some(merge.into()), ..BreadcrumbChange::default() };
                change(&*store, "shared", next, &agent("bot")).await.expect("an update");
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer");
    }
    let record = find(&*stores[0], "shared", &ann().viewer).await.expect("there");
    assert_eq!(record.version, 1 + WRITERS * UPDATES);
    let context = record.context.value();
    assert!((0..WRITERS).all(|writer| context[format!("w{writer}")] == UPDATES), "{context}");
    let history = stores[0].breadcrumbs().history(&record.id, &ann().viewer, usize::MAX, at(3_000)).await.expect("readable");
    assert_eq!(history.len() as u64, 1 + WRITERS * UPDATES);
    // Each version differs from the one before by one step of one writer.
    let sum =
        |record: &Breadcrumb| record.context.value().as_object().map(|fields| fields.values().filter_map(Value::as_u64).sum());
    assert!(history.iter().rev().zip(0..).all(|(version, expected)| sum(&version.breadcrumb) == Some(expected)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn eight_writers_in_four_openings_of_a_file_lose_no_update() {
    let OnDisk { store, folder } = OnDisk::new();
    let path = store.path().to_owned();
    let others = (1..4).map(|_| Arc::new(SqliteStore::open(&path).expect("the same store")) as Arc<dyn Store>);
    let stores: Vec<Arc<dyn Store>> = others.chain([Arc::new(store) as Arc<dyn Store>]).collect();
    eight_writers(stores).await;
    drop(folder);
}

async fn expected_versions_let_one_of_several_writers_win(store: Arc<dyn Store>) {
    create(&*store, "r1", new("counter", json!({"n": 0})), &ann()).await.expect("new");
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut done = 0;
            while done < 100 {
                let record = find(&*store, "r1", &ann().viewer).await.expect("there");
                let n = record.context.value()["n"].as_u64().expect("a number");
                let change = BreadcrumbChange { context: Some(json!({"n": n + 1}).into()), ..BreadcrumbChange::default() };
                let update =
                    Update { id: record.id, change, expected: Some(record.version), by: ann(), key: None, at: at(2_000) };
                match store.breadcrumbs().change(update).await {
                    Ok(_) => done += 1,
                    Err(StoreError::Breadcrumb(BreadcrumbError::VersionMismatch { .. })) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer");
    }
    let record = find(&*store, "r1", &ann().viewer).await.expect("there");
    assert_eq!((record.context.value(), record.version), (json!({"n": 800}), 801));
}

async fn one_of_several_writers_with_one_key_creates_the_record(store: Arc<dyn Store>) {
    for round in 0..20 {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let store = Arc::clone(&store);
            let content = new(&format!("round {round}"), json!({}));
            let creation =
                Creation { key: Some(format!("key {round}")), ..creation(&format!("r{round}-{writer}"), content, &ann()) };
            writers.spawn(async move { store.breadcrumbs().create(creation).await.expect("one record for all") });
        }
        let written = writers.join_all().await;
        assert_eq!(written.iter().filter(|written| !written.repeated).count(), 1);
        assert!(written.iter().all(|each| each.breadcrumb == written[0].breadcrumb));
        let ids = store.breadcrumbs().ids(&format!("r{round}-"), &ann().viewer, 99, at(3_000)).await.expect("readable");
        assert_eq!(ids, [written[0].breadcrumb.id.clone()]);
    }
}

async fn one_of_several_writers_of_one_id_creates_the_record(store: Arc<dyn Store>) {
    for round in 0..20 {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let store = Arc::clone(&store);
            writers.spawn(async move {
                create(&*store, &format!("r{round}"), new(&format!("writer {writer}"), json!({})), &ann()).await
            });
        }
        let (made, refused): (Vec<_>, Vec<_>) = writers.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!(made.len(), 1);
        let is_conflict =
            |refused: &Result<_, _>| matches!(refused, Err(StoreError::Breadcrumb(BreadcrumbError::KeyConflict(_))));
        assert!(refused.iter().all(is_conflict), "{refused:?}");
        assert_eq!(
            find(&*store, &format!("r{round}"), &ann().viewer).await.map(Ok::<_, ()>),
            made[0].as_ref().ok().cloned().map(Ok)
        );
    }
}

async fn a_word_at_the_end_of_the_largest_context_is_found(store: Arc<dyn Store>) {
    // All words differ, so that no index has room to spare.
    let mut text: String = (0..)
        .map(|n| format!("w{n:x} "))
        .take_while({
            let mut bytes = 0;
            move |word| {
                bytes += word.len();
                bytes < (1 << 20) - 100
            }
        })
        .collect();
    text.push_str("needle");
    create(&*store, "large", new("large", json!(text)), &ann()).await.expect("a large record");
    for (word, found) in [("w0", 1), ("w1ffff", 1), ("needle", 1), ("absent", 0)] {
        assert_eq!(titles(&*store, words(word), &ann().viewer).await.len(), found, "{word}");
    }
}

/// The number of records on a disk.
const RECORDS: usize = 20_000;

fn text_of(n: usize) -> String {
    let rare = if n.is_multiple_of(1_999) { "heliotrope" } else { "plain" };
    format!("record number{n} of group{} in colour{} is {rare}", n % 100, n % 7)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn twenty_thousand_records_are_searched_right() {
    let on_disk = OnDisk::new();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(on_disk.store.path()).expect("the same store"));
    searched_right(store, RECORDS).await;
    let report = on_disk.store.verify().await.expect("readable");
    assert_eq!((report.findings, report.breadcrumbs), (Vec::new(), RECORDS as u64));
}

async fn two_thousand_records_are_searched_right(store: Arc<dyn Store>) {
    searched_right(store, 2_000).await;
}

/// Writes records and compares the results of searches with the texts.
async fn searched_right(store: Arc<dyn Store>, records: usize) {
    let mut writers = JoinSet::new();
    for n in 0..records {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut content = new(&format!("Record {n}"), json!({"text": text_of(n)}));
            content.tags = vec![format!("mod:{}", n % 10)];
            content.visibility = if n % 3 == 0 { Visibility::Private } else { Visibility::Team };
            create(&*store, &format!("r{n:05}"), content, &agent("bot")).await.expect("new");
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer");
    }
    // An independent judgement: every text is looked through.
    let other = agent("other").viewer;
    let expect = |word: &str, tag: Option<usize>, is_owner: bool| -> Vec<usize> {
        let has = |n: &usize| text_of(*n).split(' ').any(|found| found == word) && tag.is_none_or(|tag| n % 10 == tag);
        (0..records).filter(has).filter(|n| is_owner || n % 3 != 0).collect()
    };
    for (word, tag) in [
        ("heliotrope", None),
        ("group42", None),
        ("group42", Some(2)),
        ("colour3", Some(4)),
        ("number1999", None),
        ("nothing", None),
    ] {
        for (viewer, is_owner) in [(&agent("bot").viewer, true), (&other, false)] {
            let tags = tag.iter().map(|tag| format!("mod:{tag}")).collect();
            let query = BreadcrumbQuery { tags, limit: records, ..words(word) };
            let found = store.breadcrumbs().search(&query, viewer, at(3_000)).await.expect("readable");
            let mut ids: Vec<usize> =
                found.breadcrumbs.iter().filter_map(|record| record.id.as_str()[1..].parse().ok()).collect();
            ids.sort_unstable();
            assert_eq!(ids, expect(word, tag, is_owner), "{word} {tag:?}");
            assert_eq!(found.total as usize, ids.len());
        }
    }
}

#[tokio::test]
async fn damage_to_a_record_is_noticed() {
    let damage: [(&str, &str); 7] = [
        ("UPDATE breadcrumb_versions SET record = replace(record, 'one', 'two') WHERE version = 2", "version 2 of breadcrumb r1"),
        ("UPDATE breadcrumbs SET sensitivity = '\"low\"'", "the row of breadcrumb r1"),
        ("DELETE FROM breadcrumb_versions WHERE version = 1", "lacks version 1"),
        ("DELETE FROM breadcrumbs", "expected Totals"),
        ("DELETE FROM breadcrumb_tags", "tag"),
        ("DELETE FROM breadcrumb_keys", "keys"),
        ("DELETE FROM breadcrumb_words WHERE rowid = 1", "words"),
    ];
    for (statement, finding) in damage {
        let on_disk = OnDisk::new();
        let store = &on_disk.store;
        let content = NewBreadcrumb { tags: vec!["t".into()], sensitivity: Sensitivity::Pii, ..new("one", json!({})) };
        let keyed = Creation { key: Some("k".into()), ..creation("r1", content, &ann()) };
        store.breadcrumbs().create(keyed).await.expect("new");
        let next = BreadcrumbChange { description: Some("one".into()), ..BreadcrumbChange::default() };
        change(store, "r1", next, &ann()).await.expect("a change");
        assert!(store.verify().await.expect("readable").findings.is_empty());
        on_disk.stranger().execute(statement, []).expect("damage");
        let findings = store.verify().await.expect("readable").findings;
        assert!(findings.iter().any(|found| found.contains(finding)), "{statement}: {findings:?}");
    }
    // A record that is missing is never believed to be unknown, and a key that is missing never makes a second record.
    let on_disk = OnDisk::new();
    let keyed = |id: &str| Creation { key: Some("k".into()), ..creation(id, new("one", json!({})), &ann()) };
    on_disk.store.breadcrumbs().create(keyed("r1")).await.expect("new");
    on_disk.stranger().execute("DELETE FROM breadcrumb_keys", []).expect("damage");
    let refused = on_disk.store.breadcrumbs().create(keyed("r2")).await.expect_err("the key is missing");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    on_disk.stranger().execute("DELETE FROM breadcrumbs", []).expect("damage");
    let refused = on_disk.store.breadcrumbs().find(&BreadcrumbId::new("r1"), &ann().viewer, at(1)).await.expect_err("missing");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
}

/// A small generator of numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// The version, the tags and the context of a record.
type ExpectedRecord = (u64, BTreeSet<String>, BTreeMap<String, u64>);

/// Expectations of a simple model: versions, tags, contexts, and the version that each key made.
#[derive(Default)]
struct Expected {
    records: BTreeMap<String, ExpectedRecord>,
    keys: BTreeMap<String, (String, u64)>,
}

async fn random_writes_do_what_a_simple_model_expects(store: Arc<dyn Store>) {
    for seed in 0..10 {
        // Each seed has records, keys and tags of its own.
        let (mut dice, mut expected) = (Dice(seed), Expected::default());
        let scoped = |key: &Option<String>| key.as_ref().map(|key| format!("{seed} {key}"));
        for step in 0..200 {
            let key = (dice.below(3) == 0).then(|| format!("k{}", dice.below(40)));
            // The same key always comes with the same write.
            let choice = key.as_ref().map_or_else(|| dice.below(1_000), |key| key[1..].parse().expect("a number"));
            let id = format!("{seed}r{}", choice % 7);
            let known = key.as_ref().and_then(|key| expected.keys.get(key)).cloned();
            let what = format!("seed {seed}, step {step}, {id}, {key:?}");
            if choice % 5 == 0 {
                let content =
                    NewBreadcrumb { tags: vec![format!("{seed}t{}", choice % 3)], ..new(&format!("title{choice}"), json!({})) };
                let fresh = key.as_ref().map_or_else(|| id.clone(), |key| format!("{seed}of-{key}"));
                let written =
                    store.breadcrumbs().create(Creation { key: scoped(&key), ..creation(&fresh, content, &ann()) }).await;
                if let Some((_, version)) = known {
                    let written = written.expect("a repetition");
                    assert!(written.repeated && written.breadcrumb.version == version, "{what}");
                } else if expected.records.contains_key(&fresh) {
                    assert!(written.is_err(), "{what}: the id is taken");
                } else {
                    assert_eq!(written.expect("a new record").breadcrumb.version, 1, "{what}");
                    expected
                        .records
                        .insert(fresh.clone(), (1, BTreeSet::from([format!("{seed}t{}", choice % 3)]), BTreeMap::new()));
                    expected.keys.extend(key.map(|key| (key, (fresh, 1))));
                }
                continue;
            }
            let change = BreadcrumbChange {
                merge: Some(json!({format!("f{}", choice % 4): choice}).into()),
                add_tags: vec![format!("{seed}t{}", choice % 6)],
                remove_tags: vec![format!("{seed}t{}", choice % 4)],
                ..BreadcrumbChange::default()
            };
            let wanted = (choice % 3 == 0).then_some(choice % 4);
            let update = Update {
                id: BreadcrumbId::new(id.as_str()),
                change,
                expected: wanted,
                by: ann(),
                key: scoped(&key),
                at: at(2_000),
            };
            let written = store.breadcrumbs().change(update).await;
            match (known, expected.records.get_mut(&id)) {
                (Some((_, version)), _) => {
                    let written = written.expect("a repetition");
                    assert!(written.repeated && written.breadcrumb.version == version, "{what}");
                }
                (None, None) => assert!(matches!(written, Err(StoreError::Breadcrumb(BreadcrumbError::Unknown(_)))), "{what}"),
                (None, Some((version, ..))) if wanted.is_some_and(|wanted| wanted != *version) => {
                    let mismatch = matches!(written, Err(StoreError::Breadcrumb(BreadcrumbError::VersionMismatch { .. })));
                    assert!(mismatch, "{what}");
                }
                (None, Some((version, tags, context))) => {
                    *version += 1;
                    tags.insert(format!("{seed}t{}", choice % 6));
                    tags.remove(&format!("{seed}t{}", choice % 4));
                    context.insert(format!("f{}", choice % 4), choice);
                    assert_eq!(written.expect("a change").breadcrumb.version, *version, "{what}");
                    expected.keys.extend(key.map(|key| (key, (id, *version))));
                }
            }
        }
        for (id, (version, tags, context)) in &expected.records {
            let record = find(&*store, id, &ann().viewer).await.expect("it was created");
            assert_eq!((record.version, record.tags.iter().cloned().collect()), (*version, tags.clone()), "seed {seed}, {id}");
            assert_eq!(record.context.value(), json!(context), "seed {seed}, {id}");
            let history = store.breadcrumbs().history(&record.id, &ann().viewer, usize::MAX, at(3_000)).await.expect("readable");
            assert_eq!(history.len() as u64, *version, "seed {seed}, {id}");
        }
        for tag in (0..6).map(|tag| format!("{seed}t{tag}")) {
            let query = BreadcrumbQuery { tags: vec![tag.clone()], limit: 1_000, ..BreadcrumbQuery::default() };
            let with_tag = expected.records.values().filter(|(_, tags, _)| tags.contains(&tag)).count();
            assert_eq!(titles(&*store, query, &ann().viewer).await.len(), with_tag, "seed {seed}, {tag}");
        }
    }
}
