//! Vectors of breadcrumbs: which are made, which count, and what a search by meaning finds.

use std::sync::Arc;

use baton_breadcrumb::{Author, BreadcrumbError};
use baton_store::{Store, StoreError};
use baton_types::breadcrumb::{
    BreadcrumbChange, BreadcrumbQuery, Centre, EmbeddedText, NewBreadcrumb, RecordVector, SearchMethod, Sensitivity, TtlConfig,
    Unembedded, VectorKind, Viewer, Visibility,
};
use baton_types::principal::Principal;
use serde_json::json;

use crate::breadcrumbs::{agent, ann, change, create, new, project, words};
use crate::support::{OnDisk, at};

promises!(
    neighbours_come_before_records_found_by_words,
    a_vector_counts_for_its_version_model_and_dimensions,
    only_readers_find_a_record_by_its_vector,
    texts_have_no_excluded_fields_and_a_bound,
    a_vector_goes_with_its_record,
    wrong_vectors_are_refused,
);

fn kind() -> VectorKind {
    VectorKind { model: "m".into(), dimensions: 2 }
}

/// Returns the vector of an angle in degrees.
fn angle(degrees: f32) -> Vec<f32> {
    vec![degrees.to_radians().cos(), degrees.to_radians().sin()]
}

fn centre(degrees: f32, neighbours: usize) -> Centre {
    Centre { kind: kind(), vector: angle(degrees), neighbours }
}

/// Keeps the vector of a record's version.
async fn keep(store: &dyn Store, id: &str, version: u64, degrees: f32) -> Result<(), StoreError> {
    let kept = RecordVector { id: id.into(), version, vector: angle(degrees) };
    store.breadcrumbs().keep_vectors(&kind(), vec![kept]).await
}

async fn missing(store: &dyn Store, kind: &VectorKind, viewer: &Viewer) -> Unembedded {
    store.breadcrumbs().unembedded(&words("x"), kind, viewer, at(3_000)).await.expect("readable")
}

/// Returns the ids that a search finds, the number of all of them, and the method.
async fn found(store: &dyn Store, query: &BreadcrumbQuery, centre: &Centre, viewer: &Viewer) -> (Vec<String>, u64, SearchMethod) {
    let found = store.breadcrumbs().nearest(query, centre, viewer, at(3_000)).await.expect("readable");
    (found.breadcrumbs.into_iter().map(|record| record.id.to_string()).collect(), found.total, found.method)
}

async fn neighbours_come_before_records_found_by_words(store: Arc<dyn Store>) {
    let viewer = ann().viewer;
    for (id, title, tag) in [("a", "one", "x"), ("b", "two", "y"), ("c", "three", "x"), ("d", "needle", "x"), ("e", "other", "x")]
    {
        let content =
            NewBreadcrumb { tags: vec![tag.into()], schema_name: Some(format!("note.{id}.v1")), ..new(title, json!({})) };
        create(&*store, id, content, &ann()).await.expect("new");
    }
    let nothing = found(&*store, &words("needle"), &centre(0.0, 5), &viewer).await;
    assert_eq!(nothing, (vec!["d".to_owned()], 1, SearchMethod::Fulltext), "no vector was compared");
    for (id, degrees) in [("a", 80.0), ("b", 10.0), ("c", 40.0)] {
        keep(&*store, id, 1, degrees).await.expect("kept");
    }
    let ids = |query: BreadcrumbQuery, neighbours| {
        let (store, viewer) = (Arc::clone(&store), viewer.clone());
        async move { found(&*store, &query, &centre(0.0, neighbours), &viewer).await }
    };
    let of = |ids: &[&str], total| (ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), total, SearchMethod::Vector);
    assert_eq!(ids(words("needle"), 5).await, of(&["b", "c", "a", "d"], 4));
    assert_eq!(ids(words("needle"), 2).await, of(&["b", "c", "d"], 3));
    assert_eq!(ids(BreadcrumbQuery { limit: 1, ..words("needle") }, 2).await, of(&["b"], 3));
    assert_eq!(ids(BreadcrumbQuery { limit: 0, ..words("needle") }, 2).await, of(&[], 3));
    assert_eq!(ids(BreadcrumbQuery { tags: vec!["x".into()], ..words("nothing") }, 5).await, of(&["c", "a"], 2));
    assert_eq!(ids(BreadcrumbQuery { schema_name: Some("note.a.v1".into()), ..words("nothing") }, 5).await, of(&["a"], 1));
    // Of two that are as near, the newer one comes first.
    keep(&*store, "e", 1, 10.0).await.expect("kept");
    change(&*store, "e", BreadcrumbChange { add_tags: vec!["z".into()], ..BreadcrumbChange::default() }, &ann())
        .await
        .expect("changed");
    keep(&*store, "e", 2, 10.0).await.expect("kept");
    assert_eq!(ids(words("nothing"), 2).await, of(&["e", "b"], 2));
}

async fn a_vector_counts_for_its_version_model_and_dimensions(store: Arc<dyn Store>) {
    let viewer = ann().viewer;
    create(&*store, "a", NewBreadcrumb { description: Some("why".into()), ..new("one", json!({"k": "v"})) }, &ann())
        .await
        .expect("new");
    let text = |version, text: &str| EmbeddedText { id: "a".into(), version, text: text.to_owned() };
    let one = Unembedded { texts: vec![text(1, "one\nwhy\nk v ")], total: 1 };
    assert_eq!(missing(&*store, &kind(), &viewer).await, one);
    keep(&*store, "a", 1, 0.0).await.expect("kept");
    assert_eq!(missing(&*store, &kind(), &viewer).await, Unembedded::default());
    for other in [VectorKind { model: "n".into(), ..kind() }, VectorKind { dimensions: 3, ..kind() }] {
        assert_eq!(missing(&*store, &other, &viewer).await, one);
        let vector = vec![1.0; other.dimensions];
        let (_, total, _) = found(&*store, &words("nothing"), &Centre { kind: other, vector, neighbours: 5 }, &viewer).await;
        assert_eq!(total, 0);
    }
    // A read makes no version.
    store.breadcrumbs().read(&"a".into(), &viewer, at(3_000)).await.expect("readable");
    assert_eq!(missing(&*store, &kind(), &viewer).await.total, 0);
    change(&*store, "a", BreadcrumbChange { title: Some("two".into()), ..BreadcrumbChange::default() }, &ann())
        .await
        .expect("changed");
    assert_eq!(missing(&*store, &kind(), &viewer).await, Unembedded { texts: vec![text(2, "two\nwhy\nk v ")], total: 1 });
    // The text of version 1 was on its way while the record changed.
    keep(&*store, "a", 1, 0.0).await.expect("no error");
    assert_eq!(missing(&*store, &kind(), &viewer).await.total, 1);
    assert_eq!(found(&*store, &words("two"), &centre(0.0, 5), &viewer).await, (vec!["a".to_owned()], 1, SearchMethod::Fulltext));
}

async fn only_readers_find_a_record_by_its_vector(store: Arc<dyn Store>) {
    let viewer = |principal: Principal, name: &str, may_read_pii| Viewer { principal, project: project(name), may_read_pii };
    let bot = |name: &str| Principal::Agent(name.into());
    let owner = Author::of(viewer(bot("owner"), "p", true));
    #[rustfmt::skip]
    let viewers = [
        owner.viewer.clone(),
        viewer(bot("other"), "p", true),
        viewer(bot("other"), "q", true),
        viewer(bot("owner"), "q", true),
        viewer(Principal::person("ann"), "q", true),
    ];
    // One letter for each viewer, in their order: `y` reads, `-` does not.
    for (visibility, expected) in [(Visibility::Public, "yyyyy"), (Visibility::Team, "yy--y"), (Visibility::Private, "y---y")] {
        for sensitivity in [Sensitivity::Low, Sensitivity::Pii, Sensitivity::Secret] {
            let id = format!("{visibility:?}-{sensitivity:?}");
            create(&*store, &id, NewBreadcrumb { visibility, ..new("needle", json!({})) }, &owner).await.expect("new");
            let sensitive = BreadcrumbChange { sensitivity: Some(sensitivity), ..BreadcrumbChange::default() };
            keep(&*store, &id, 1, 0.0).await.expect("kept");
            change(&*store, &id, sensitive, &ann()).await.expect("a person's change");
            keep(&*store, &id, 2, 0.0).await.expect("no error");
            for (viewer, expected) in viewers.iter().zip(expected.chars()) {
                let what = format!("{id}, {viewer:?}");
                let (ids, total, _) = found(&*store, &words("nothing"), &centre(0.0, 50), viewer).await;
                let is_found = sensitivity == Sensitivity::Low && expected == 'y';
                assert_eq!(ids.contains(&id), is_found, "by its vector, {what}");
                assert_eq!(total, ids.len() as u64, "nothing unseen is counted, {what}");
                let is_missing = |missing: Unembedded| missing.texts.iter().any(|text| text.id.as_str() == id);
                let other = VectorKind { model: "n".into(), ..kind() };
                assert_eq!(is_missing(missing(&*store, &other, viewer).await), is_found, "its text, {what}");
                // Sensitive records are found by words, by those who may read them.
                let (ids, ..) = found(&*store, &words("needle"), &centre(0.0, 50), viewer).await;
                let is_secret_of_agent = sensitivity == Sensitivity::Secret && viewer.is_model();
                assert_eq!(ids.contains(&id), expected == 'y' && !is_secret_of_agent, "by words, {what}");
            }
        }
    }
}

async fn texts_have_no_excluded_fields_and_a_bound(store: Arc<dyn Store>) {
    let hints = json!({"exclude": ["internal"]});
    let context = || json!({"name": "tea", "internal": "margin"});
    let own = NewBreadcrumb { llm_hints: Some(hints.clone().into()), ..new("own", context()) };
    create(&*store, "own", own, &ann()).await.expect("new");
    let definition = NewBreadcrumb {
        schema_name: Some("schema.def.v1".into()),
        llm_hints: Some(hints.into()),
        ..new("Goods", json!({"defines_schema": "goods.v1"}))
    };
    create(&*store, "definition", definition, &ann()).await.expect("new");
    create(&*store, "defined", NewBreadcrumb { schema_name: Some("goods.v1".into()), ..new("defined", context()) }, &ann())
        .await
        .expect("new");
    create(&*store, "long", new("long", json!("ä".repeat(100_000))), &ann()).await.expect("new");
    let Unembedded { texts, total } = missing(&*store, &kind(), &agent("bot").viewer).await;
    assert_eq!((texts.len(), total), (4, 4));
    for EmbeddedText { id, text, .. } in &texts {
        assert!(!text.contains("margin") && !text.contains("internal"), "{id}: {text}");
        assert!(text.len() <= 4_000 && text.contains(if id.as_str() == "long" { "ä" } else { " " }), "{id}");
    }
    for n in 0..300 {
        create(&*store, &format!("n{n}"), new("many", json!({})), &ann()).await.expect("new");
    }
    let Unembedded { texts, total } = missing(&*store, &kind(), &agent("bot").viewer).await;
    assert_eq!((texts.len(), total), (256, 304));
}

async fn a_vector_goes_with_its_record(store: Arc<dyn Store>) {
    let viewer = ann().viewer;
    let once = TtlConfig { max_reads: Some(1), ..TtlConfig::default() };
    create(&*store, "once", NewBreadcrumb { ttl_config: Some(once), ..new("one", json!({})) }, &ann()).await.expect("new");
    keep(&*store, "once", 1, 0.0).await.expect("kept");
    store.breadcrumbs().read(&"once".into(), &viewer, at(3_000)).await.expect("the last read");
    let (ids, total, _) = found(&*store, &words("one"), &centre(0.0, 5), &viewer).await;
    assert_eq!((ids, total, missing(&*store, &kind(), &viewer).await.total), (Vec::new(), 0, 0));
    // The creation removes what has ended. The number of the record is free then, and its vector must not be that of the next one.
    let later = baton_store::Creation { at: at(4_000), ..crate::breadcrumbs::creation("next", new("next", json!({})), &ann()) };
    store.breadcrumbs().create(later).await.expect("new");
    let missing = store.breadcrumbs().unembedded(&words("x"), &kind(), &viewer, at(5_000)).await.expect("readable");
    assert_eq!(missing.texts.iter().map(|text| text.id.as_str()).collect::<Vec<_>>(), ["next"]);
    keep(&*store, "once", 1, 0.0).await.expect("a record that is gone keeps none");
}

fn is_refused(kept: &Result<(), StoreError>) -> bool {
    matches!(kept, Err(StoreError::Breadcrumb(BreadcrumbError::Invalid { field: "vector", .. })))
}

async fn wrong_vectors_are_refused(store: Arc<dyn Store>) {
    create(&*store, "a", new("one", json!({})), &ann()).await.expect("new");
    for vector in [vec![1.0], vec![1.0; 3], vec![f32::NAN, 0.0], vec![f32::INFINITY, 0.0], vec![]] {
        let kept = RecordVector { id: "a".into(), version: 1, vector };
        assert!(is_refused(&store.breadcrumbs().keep_vectors(&kind(), vec![kept.clone()]).await), "{kept:?}");
    }
    let huge = VectorKind { dimensions: 10_000, ..kind() };
    let kept = RecordVector { id: "a".into(), version: 1, vector: vec![0.01; 10_000] };
    assert!(is_refused(&store.breadcrumbs().keep_vectors(&huge, vec![kept]).await));
    assert_eq!(missing(&*store, &kind(), &ann().viewer).await.total, 1);
}

#[tokio::test]
async fn damage_to_a_vector_is_noticed_and_hides_nothing_from_a_search_by_words() {
    for (statement, finding) in [
        ("UPDATE breadcrumb_vectors SET vector = zeroblob(8)", "does not match its checksum"),
        ("UPDATE breadcrumb_vectors SET vector = zeroblob(7)", "does not match its checksum"),
        ("UPDATE breadcrumb_vectors SET vector = x'0000c07f0000c07f'", "does not match its checksum"),
        ("UPDATE breadcrumb_vectors SET version = 7", "is not that of its newest version"),
        ("UPDATE breadcrumb_vectors SET breadcrumb = 7", "is not that of its newest version"),
    ] {
        let on_disk = OnDisk::new();
        let store = &on_disk.store;
        create(store, "a", new("needle", json!({})), &ann()).await.expect("new");
        keep(store, "a", 1, 0.0).await.expect("kept");
        assert!(store.verify().await.expect("readable").findings.is_empty());
        on_disk.stranger().execute(statement, []).expect("damage");
        let findings = store.verify().await.expect("readable").findings;
        assert!(findings.iter().any(|found| found.contains(finding)), "{statement}: {findings:?}");
        let (ids, total, _) = found(store, &words("needle"), &centre(0.0, 5), &ann().viewer).await;
        assert_eq!((ids, total), (vec!["a".to_owned()], 1), "{statement}");
    }
}
