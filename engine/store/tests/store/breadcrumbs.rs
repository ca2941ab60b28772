//! The promises of breadcrumbs, each tried on every store.

use std::sync::Arc;
use std::time::Duration;

use baton_breadcrumb::{Author, BreadcrumbError};
use baton_store::{Creation, Store, StoreError, Update};
use baton_types::breadcrumb::{
    Breadcrumb, BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb, SearchMethod, Sensitivity, TtlConfig, TtlSource, TtlType,
    Verdict, Viewer, Visibility,
};
use baton_types::id::{BreadcrumbId, ProjectId, ToolId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::support::at;

promises!(
    a_record_has_every_field_and_comes_back_as_it_was_written,
    a_key_creates_one_record_and_belongs_to_one_write,
    a_keyed_change_happens_once,
    a_change_needs_the_version_that_it_was_made_for,
    each_change_is_one_version_and_the_history_has_them_all,
    a_merge_goes_through_objects_and_replaces_the_rest,
    tags_are_added_and_removed,
    a_judgement_sets_the_tags_of_its_state,
    no_agent_forges_an_approval_or_a_route,
    only_a_verdict_sets_its_tags,
    an_empty_text_and_null_remove_a_field,
    a_change_by_an_agent_ends_the_approval,
    every_kind_of_end_ends_a_record,
    hostile_records_are_refused_with_the_bound,
    a_search_ranks_by_words_and_filters_by_tags_and_schema,
    words_of_a_search_are_never_operators,
    names_that_no_record_can_have_find_nothing,
    a_word_with_other_characters_in_it_is_a_phrase,
    eight_writers_lose_no_update,
);

pub(crate) fn project(name: &str) -> ProjectId {
    ProjectId::new(name)
}

/// Returns a person who works in project `p`.
pub(crate) fn ann() -> Author {
    Author::outside(Principal::person("ann"), project("p"))
}

/// Returns an agent of project `p`, for which the tool `echo` exists.
pub(crate) fn agent(name: &str) -> Author {
    let viewer = Viewer { principal: Principal::Agent(name.into()), project: project("p"), may_read_pii: false };
    Author { tools: [ToolId::new("echo")].into(), ..Author::of(viewer) }
}

pub(crate) fn new(title: &str, context: Value) -> NewBreadcrumb {
    NewBreadcrumb { title: title.to_owned(), context: context.into(), ..NewBreadcrumb::default() }
}

pub(crate) fn creation(id: &str, new: NewBreadcrumb, by: &Author) -> Creation {
    Creation { id: BreadcrumbId::new(id), new, by: by.clone(), key: None, at: at(1_000) }
}

pub(crate) async fn create(store: &dyn Store, id: &str, new: NewBreadcrumb, by: &Author) -> Result<Breadcrumb, StoreError> {
    store.breadcrumbs().create(creation(id, new, by)).await.map(|written| written.breadcrumb)
}

pub(crate) async fn change(store: &dyn Store, id: &str, change: BreadcrumbChange, by: &Author) -> Result<Breadcrumb, StoreError> {
    let update = Update { id: BreadcrumbId::new(id), change, expected: None, by: by.clone(), key: None, at: at(2_000) };
    store.breadcrumbs().change(update).await.map(|written| written.breadcrumb)
}

pub(crate) async fn find(store: &dyn Store, id: &str, viewer: &Viewer) -> Option<Breadcrumb> {
    store.breadcrumbs().find(&BreadcrumbId::new(id), viewer, at(3_000)).await.expect("readable")
}

pub(crate) async fn titles(store: &dyn Store, query: BreadcrumbQuery, viewer: &Viewer) -> Vec<String> {
    let found = store.breadcrumbs().search(&query, viewer, at(3_000)).await.expect("readable");
    assert_eq!(found.total, found.breadcrumbs.len() as u64);
    found.breadcrumbs.into_iter().map(|record| record.title).collect()
}

pub(crate) fn words(words: &str) -> BreadcrumbQuery {
    BreadcrumbQuery { words: Some(words.to_owned()), limit: 100, ..BreadcrumbQuery::default() }
}

/// Returns the reason of a refusal.
pub(crate) fn refusal(result: Result<Breadcrumb, StoreError>) -> BreadcrumbError {
    match result {
        Err(StoreError::Breadcrumb(error)) => error,
        other => panic!("expected a refusal: {other:?}"),
    }
}

async fn a_record_has_every_field_and_comes_back_as_it_was_written(store: Arc<dyn Store>) {
    let content = NewBreadcrumb {
        title: "Quarterly report".into(),
        schema_name: Some("report.text.v1".into()),
        context: Json::parse(r#"{"b": 1.50, "a": [12345678901234567890123]}"#).expect("JSON"),
        tags: vec!["team:sales".into(), "q3".into(), "team:sales".into()],
        description: Some("Figures of the third quarter, revenue by region, revenue by product".into()),
        semantic_version: Some("1.2.0".into()),
        llm_hints: Some(json!({"exclude": ["b"]}).into()),
        visibility: Visibility::Public,
        sensitivity: Sensitivity::Pii,
        ttl: Some(Timestamp::parse("2100-01-01T00:00:00Z").expect("a moment")),
        ttl_type: None,
        ttl_config: None,
    };
    let made = create(&*store, "r1", content.clone(), &ann()).await.expect("a good record");
    assert_eq!(find(&*store, "r1", &ann().viewer).await.as_ref(), Some(&made));
    assert_eq!((&made.title, &made.schema_name, &made.context), (&content.title, &content.schema_name, &content.context));
    assert_eq!(made.tags, ["q3", "team:sales"], "sorted, each once");
    assert_eq!((&made.description, &made.semantic_version), (&content.description, &content.semantic_version));
    assert_eq!(
        (made.llm_hints.clone(), made.visibility, made.sensitivity),
        (content.llm_hints, Visibility::Public, Sensitivity::Pii)
    );
    assert_eq!((made.ttl, made.ttl_type, made.ttl_source), (content.ttl, TtlType::Datetime, Some(TtlSource::Explicit)));
    assert_eq!((made.version, made.read_count, made.size_bytes), (1, 0, 43));
    // `sha256sum` of the text of the context.
    assert_eq!(made.checksum, "sha256:578c61655d0fca70c39f6272f680a4580b9a163be22a147d5284e9da00273470");
    assert_eq!(
        (&made.owner, &made.created_by, &made.updated_by),
        (&Principal::person("ann"), &Principal::person("ann"), &Principal::person("ann"))
    );
    assert_eq!((&made.project, made.created_at, made.updated_at), (&project("p"), at(1_000), at(1_000)));
    assert_eq!(made.entity_keywords.first().map(String::as_str), Some("revenue"));

    let read = store.breadcrumbs().read(&made.id, &ann().viewer, at(3_000)).await.expect("readable").expect("there");
    assert_eq!((read.read_count, read.version), (1, 1), "a read counts itself, and is no version");
    assert_eq!(find(&*store, "r1", &ann().viewer).await.map(|record| record.read_count), Some(1));
    assert_eq!(store.breadcrumbs().ids("r", &ann().viewer, 9, at(3_000)).await.expect("readable"), [made.id]);
    assert!(store.breadcrumbs().ids("x", &ann().viewer, 9, at(3_000)).await.expect("readable").is_empty());
}

async fn a_key_creates_one_record_and_belongs_to_one_write(store: Arc<dyn Store>) {
    let keyed = |id: &str, title: &str, project_name: &str| {
        let by = Author::outside(Principal::person("ann"), project(project_name));
        Creation { key: Some("k".into()), ..creation(id, new(title, json!({})), &by) }
    };
    let first = store.breadcrumbs().create(keyed("r1", "one", "p")).await.expect("new");
    let again = store.breadcrumbs().create(keyed("r2", "one", "p")).await.expect("the same write");
    assert_eq!((first.repeated, again.repeated), (false, true));
    assert_eq!(again.breadcrumb, first.breadcrumb);
    let other = store.breadcrumbs().create(keyed("r3", "other", "p")).await.expect_err("another write");
    assert!(matches!(other, StoreError::Breadcrumb(BreadcrumbError::KeyConflict(key)) if key == "k"));
    store.breadcrumbs().create(keyed("r4", "other", "q")).await.expect("a key belongs to a project");
    assert_eq!(store.breadcrumbs().ids("r", &ann().viewer, 9, at(3_000)).await.expect("readable").len(), 2);
}

async fn a_keyed_change_happens_once(store: Arc<dyn Store>) {
    create(&*store, "r1", new("one", json!({"n": 1})), &ann()).await.expect("new");
    let update = |n: u64| Update {
        id: BreadcrumbId::new("r1"),
        change: BreadcrumbChange { merge: Some(json!({"n": n}).into()), ..BreadcrumbChange::default() },
        expected: Some(1),
        by: ann(),
        key: Some("run/0/1.1".into()),
        at: at(2_000),
    };
    let first = store.breadcrumbs().change(update(2)).await.expect("version 1");
    let again = store.breadcrumbs().change(update(2)).await.expect("the same write, although the version is 2 now");
    assert_eq!((first.repeated, again.repeated, again.breadcrumb.version), (false, true, 2));
    let refused = store.breadcrumbs().change(update(3)).await.expect_err("another write");
    assert!(matches!(refused, StoreError::Breadcrumb(BreadcrumbError::KeyConflict(_))));
    assert_eq!(find(&*store, "r1", &ann().viewer).await.map(|record| record.version), Some(2));
}

async fn a_change_needs_the_version_that_it_was_made_for(store: Arc<dyn Store>) {
    create(&*store, "r1", new("one", json!({})), &ann()).await.expect("new");
    let update = |expected: u64| Update {
        id: BreadcrumbId::new("r1"),
        change: BreadcrumbChange { title: Some(format!("after {expected}")), ..BreadcrumbChange::default() },
        expected: Some(expected),
        by: ann(),
        key: None,
        at: at(2_000),
    };
    for wrong in [0, 2] {
        let refused = store.breadcrumbs().change(update(wrong)).await.expect_err("not the version");
        assert!(refused.to_string().contains("version_mismatch") && refused.to_string().contains("version 1"), "{refused}");
    }
    assert_eq!(store.breadcrumbs().change(update(1)).await.expect("the version").breadcrumb.version, 2);
    assert!(store.breadcrumbs().change(update(1)).await.is_err());
    let unknown = Update { id: BreadcrumbId::new("r9"), ..update(1) };
    let refused = store.breadcrumbs().change(unknown).await.expect_err("unknown");
    assert!(matches!(refused, StoreError::Breadcrumb(BreadcrumbError::Unknown(id)) if id.as_str() == "r9"));
}

async fn each_change_is_one_version_and_the_history_has_them_all(store: Arc<dyn Store>) {
    create(&*store, "r1", new("v1", json!({"n": 1})), &ann()).await.expect("new");
    for n in 2..=4 {
        let by = if n == 3 { agent("bot") } else { ann() };
        let next = BreadcrumbChange { title: Some(format!("v{n}")), ..BreadcrumbChange::default() };
        assert_eq!(change(&*store, "r1", next, &by).await.expect("a change").version, n);
    }
    let history = store.breadcrumbs().history(&BreadcrumbId::new("r1"), &ann().viewer, 100, at(3_000)).await.expect("readable");
    let shown: Vec<_> = history.iter().map(|version| (version.breadcrumb.version, version.breadcrumb.title.as_str())).collect();
    assert_eq!(shown, [(4, "v4"), (3, "v3"), (2, "v2"), (1, "v1")]);
    assert_eq!(history[1].breadcrumb.updated_by, Principal::Agent("bot".into()));
    assert!(history.iter().all(|version| version.breadcrumb.owner == Principal::person("ann")), "the owner stays");
    let newest = store.breadcrumbs().history(&BreadcrumbId::new("r1"), &ann().viewer, 2, at(3_000)).await.expect("readable");
    assert_eq!(newest, history[..2]);
    let refused = refusal(change(&*store, "r1", BreadcrumbChange::default(), &ann()).await);
    assert!(refused.to_string().contains("nothing is to be changed"), "{refused}");
}

async fn a_merge_goes_through_objects_and_replaces_the_rest(store: Arc<dyn Store>) {
    let context = json!({"a": {"x": 1, "y": {"z": 2}}, "list": [1, 2], "text": "old"});
    create(&*store, "r1", new("one", context), &ann()).await.expect("new");
    let merge = json!({"a": {"y": {"w": 3}, "x": null}, "list": [3], "text": {"now": "an object"}, "new": true});
    let merged =
        change(&*store, "r1", BreadcrumbChange { merge: Some(merge.into()), ..BreadcrumbChange::default() }, &ann()).await;
    let expected = json!({"a": {"x": null, "y": {"z": 2, "w": 3}}, "list": [3], "text": {"now": "an object"}, "new": true});
    assert_eq!(merged.expect("a merge").context.value(), expected);
    let replaced = BreadcrumbChange { context: Some(json!({"only": 1}).into()), ..BreadcrumbChange::default() };
    assert_eq!(change(&*store, "r1", replaced, &ann()).await.expect("a change").context.value(), json!({"only": 1}));
    let both = BreadcrumbChange { context: Some(Json::null()), merge: Some(json!({}).into()), ..BreadcrumbChange::default() };
    assert!(refusal(change(&*store, "r1", both, &ann()).await).to_string().contains("not both"));
}

async fn tags_are_added_and_removed(store: Arc<dyn Store>) {
    create(&*store, "r1", NewBreadcrumb { tags: vec!["b".into(), "a".into()], ..new("one", json!({})) }, &ann())
        .await
        .expect("new");
    let both = BreadcrumbChange {
        add_tags: vec!["c".into(), "a".into()],
        remove_tags: vec!["b".into(), "absent".into()],
        ..BreadcrumbChange::default()
    };
    assert_eq!(change(&*store, "r1", both, &ann()).await.expect("a change").tags, ["a", "c"]);
    let tagged = |tag: &str| BreadcrumbQuery { tags: vec![tag.into()], limit: 9, ..BreadcrumbQuery::default() };
    assert_eq!(titles(&*store, tagged("c"), &ann().viewer).await, ["one"]);
    assert!(titles(&*store, tagged("b"), &ann().viewer).await.is_empty(), "a tag that was removed finds nothing");
    let all = BreadcrumbChange { tags: Some(vec!["z".into()]), ..BreadcrumbChange::default() };
    assert_eq!(change(&*store, "r1", all, &ann()).await.expect("a change").tags, ["z"]);
}

pub(crate) fn verdict(approved: bool) -> BreadcrumbChange {
    let verdict = Verdict { approved, reason: Some("read it".into()) };
    BreadcrumbChange { verdict: Some(verdict), ..BreadcrumbChange::default() }
}

async fn a_judgement_sets_the_tags_of_its_state(store: Arc<dyn Store>) {
    let tags = ["draft", "pending", "q3"].map(str::to_owned).to_vec();
    create(&*store, "r1", NewBreadcrumb { tags, ..new("one", json!({})) }, &ann()).await.expect("new");
    let approved = change(&*store, "r1", verdict(true), &ann()).await.expect("a person approves");
    assert_eq!((approved.tags, approved.version), (vec!["approved".to_owned(), "q3".into(), "validated".into()], 2));
    let rejected = change(&*store, "r1", verdict(false), &ann()).await.expect("a person rejects");
    assert_eq!(rejected.tags, ["q3", "rejected"]);
    assert_eq!(
        change(&*store, "r1", verdict(true), &ann()).await.expect("a person approves").tags,
        ["approved", "q3", "validated"]
    );
    let history = store.breadcrumbs().history(&BreadcrumbId::new("r1"), &ann().viewer, 9, at(3_000)).await.expect("readable");
    let verdicts: Vec<_> = history.iter().map(|version| version.verdict.as_ref().map(|verdict| verdict.approved)).collect();
    assert_eq!(verdicts, [Some(true), Some(false), Some(true), None]);
    assert_eq!(history[0].verdict.as_ref().and_then(|verdict| verdict.reason.as_deref()), Some("read it"));
    let more = BreadcrumbChange { title: Some("other".into()), ..verdict(true) };
    assert!(refusal(change(&*store, "r1", more, &ann()).await).to_string().contains("changes nothing else"));
}

async fn no_agent_forges_an_approval_or_a_route(store: Arc<dyn Store>) {
    let bot = agent("bot");
    let forged = [
        "approved",
        "validated",
        "Approved",
        "VALIDATED",
        "rejected",
        "consumer:lead",
        "Consumer:lead",
        "session:1",
        "request:r1",
        "tool:request",
        "tool:response",
        "tool:catalog",
        "tool:echo",
        "tool:Echo",
    ];
    for tag in forged {
        let content = NewBreadcrumb { tags: vec!["note".into(), tag.into()], ..new("forged", json!({})) };
        let refused = refusal(create(&*store, "r1", content, &bot).await);
        assert!(matches!(&refused, BreadcrumbError::NotAllowed(reason) if reason.contains(tag)), "{tag}: {refused}");
    }
    let honest = ["tool:not-a-tool", "team:sales", "draft", "approved-by-nobody"].map(str::to_owned).to_vec();
    create(&*store, "r1", NewBreadcrumb { tags: honest, ..new("one", json!({})) }, &bot).await.expect("tags without powers");
    for tag in forged {
        let add = BreadcrumbChange { add_tags: vec![tag.into()], ..BreadcrumbChange::default() };
        let all = BreadcrumbChange { tags: Some(vec![tag.into()]), ..BreadcrumbChange::default() };
        assert!(matches!(refusal(change(&*store, "r1", add, &bot).await), BreadcrumbError::NotAllowed(_)), "{tag}");
        assert!(matches!(refusal(change(&*store, "r1", all, &bot).await), BreadcrumbError::NotAllowed(_)), "{tag}");
    }
    for approved in [true, false] {
        assert!(matches!(refusal(change(&*store, "r1", verdict(approved), &bot).await), BreadcrumbError::NotAllowed(_)));
    }
    assert_eq!(find(&*store, "r1", &ann().viewer).await.map(|record| record.version), Some(1), "no refusal wrote anything");
    // A person sets what an agent may not, and the agent cannot take it away.
    let routes = BreadcrumbChange { tags: Some(vec!["session:1".into(), "note".into()]), ..BreadcrumbChange::default() };
    change(&*store, "r1", routes, &ann()).await.expect("a person routes");
    change(&*store, "r1", verdict(false), &ann()).await.expect("a person rejects");
    let strip = BreadcrumbChange { tags: Some(Vec::new()), remove_tags: vec!["rejected".into()], ..BreadcrumbChange::default() };
    assert_eq!(change(&*store, "r1", strip, &bot).await.expect("a change").tags, ["rejected", "session:1"]);
}

async fn only_a_verdict_sets_its_tags(store: Arc<dyn Store>) {
    create(&*store, "r1", new("one", json!({})), &ann()).await.expect("new");
    for tag in ["approved", "validated", "REJECTED"] {
        let content = NewBreadcrumb { tags: vec![tag.into()], ..new("forged", json!({})) };
        assert!(matches!(refusal(create(&*store, "r2", content, &ann()).await), BreadcrumbError::NotAllowed(_)), "{tag}");
        let add = BreadcrumbChange { add_tags: vec![tag.into()], ..BreadcrumbChange::default() };
        assert!(matches!(refusal(change(&*store, "r1", add, &ann()).await), BreadcrumbError::NotAllowed(_)), "{tag}");
    }
    change(&*store, "r1", verdict(true), &ann()).await.expect("a person approves");
    let all = ["approved", "q3", "validated"].map(str::to_owned).to_vec();
    let same = BreadcrumbChange { tags: Some(all.clone()), ..BreadcrumbChange::default() };
    assert_eq!(change(&*store, "r1", same, &ann()).await.expect("tags that it has").tags, all);
    let fewer = BreadcrumbChange { tags: Some(vec!["q3".into()]), ..BreadcrumbChange::default() };
    assert_eq!(change(&*store, "r1", fewer, &ann()).await.expect("a person withdraws the approval").tags, ["q3"]);
}

async fn an_empty_text_and_null_remove_a_field(store: Arc<dyn Store>) {
    let content = NewBreadcrumb {
        description: Some("what for".into()),
        semantic_version: Some("1.0.0".into()),
        llm_hints: Some(json!({"exclude": ["a"]}).into()),
        ..new("one", json!({}))
    };
    create(&*store, "r1", content, &ann()).await.expect("new");
    let clear = BreadcrumbChange {
        description: Some(String::new()),
        semantic_version: Some(String::new()),
        llm_hints: Some(Json::null()),
        ..BreadcrumbChange::default()
    };
    let cleared = change(&*store, "r1", clear, &ann()).await.expect("a change");
    assert_eq!((cleared.description, cleared.semantic_version, cleared.llm_hints), (None, None, None));
}

async fn a_change_by_an_agent_ends_the_approval(store: Arc<dyn Store>) {
    create(&*store, "r1", new("one", json!({"n": 1})), &agent("bot")).await.expect("new");
    change(&*store, "r1", verdict(true), &ann()).await.expect("a person approves");
    let merge = BreadcrumbChange { merge: Some(json!({"n": 2}).into()), ..BreadcrumbChange::default() };
    let by_person = change(&*store, "r1", merge.clone(), &ann()).await.expect("a person's change");
    assert_eq!(by_person.tags, ["approved", "validated"]);
    assert!(change(&*store, "r1", merge, &agent("bot")).await.expect("an agent's change").tags.is_empty());
    // Nor may an agent open what others closed.
    let content = NewBreadcrumb { sensitivity: Sensitivity::Pii, ..new("two", json!({})) };
    create(&*store, "r2", content, &ann()).await.expect("new");
    let mut reader = agent("bot");
    reader.viewer.may_read_pii = true;
    let lower = BreadcrumbChange { sensitivity: Some(Sensitivity::Low), ..BreadcrumbChange::default() };
    let open = BreadcrumbChange { visibility: Some(Visibility::Public), ..BreadcrumbChange::default() };
    for powers in [lower, open] {
        assert!(matches!(refusal(change(&*store, "r2", powers, &reader).await), BreadcrumbError::NotAllowed(_)));
    }
}

async fn every_kind_of_end_ends_a_record(store: Arc<dyn Store>) {
    let config = |minutes: Option<u64>, max_reads: Option<u64>| Some(TtlConfig { minutes, max_reads, ..TtlConfig::default() });
    let minute = at(1_000).plus(Duration::from_mins(1));
    let ending = |ttl, ttl_type, ttl_config| NewBreadcrumb { ttl, ttl_type, ttl_config, ..new("ending", json!({})) };
    let cases = [
        ("never", ending(None, None, None), TtlType::Never),
        ("datetime", ending(Some(minute), None, None), TtlType::Datetime),
        ("duration", ending(None, None, config(Some(1), None)), TtlType::Duration),
        ("usage", ending(None, None, config(None, Some(2))), TtlType::Usage),
        ("hybrid", ending(None, Some(TtlType::Hybrid), config(Some(1), Some(2))), TtlType::Hybrid),
    ];
    let now = at(3_000);
    for (id, content, kind) in cases {
        let made = create(&*store, id, content, &ann()).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(made.ttl_type, kind, "{id}");
        let id = BreadcrumbId::new(id);
        let is_there = async |moment| store.breadcrumbs().find(&id, &ann().viewer, moment).await.expect("readable").is_some();
        assert!(is_there(now).await, "{id}");
        let ends_by_time = matches!(kind, TtlType::Datetime | TtlType::Duration | TtlType::Hybrid);
        assert_eq!(is_there(minute).await, !ends_by_time, "{id}");
        let ends_by_reads = matches!(kind, TtlType::Usage | TtlType::Hybrid);
        for _ in 0..2 {
            assert!(store.breadcrumbs().read(&id, &ann().viewer, now).await.expect("readable").is_some(), "{id}");
        }
        assert_eq!(is_there(now).await, !ends_by_reads, "{id}");
        assert_eq!(store.breadcrumbs().read(&id, &ann().viewer, now).await.expect("readable").is_some(), !ends_by_reads);
    }
    let wrong = [
        ending(Some(at(1_000)), None, None),
        ending(Some(minute), Some(TtlType::Never), None),
        ending(None, Some(TtlType::Datetime), None),
        ending(None, Some(TtlType::Duration), None),
        ending(None, Some(TtlType::Usage), config(Some(1), None)),
        ending(None, Some(TtlType::Hybrid), config(Some(1), None)),
        ending(None, None, config(Some(0), None)),
        ending(None, None, config(None, Some(0))),
        ending(None, None, config(Some(u64::MAX), None)),
    ];
    for content in wrong {
        let shown = format!("{content:?}");
        assert!(matches!(refusal(create(&*store, "wrong", content, &ann()).await), BreadcrumbError::Invalid { .. }), "{shown}");
    }
    // The next creation removes ended records, with everything that belongs to them.
    let later = Creation { at: minute.plus(Duration::from_secs(1)), ..creation("later", new("later", json!({})), &ann()) };
    store.breadcrumbs().create(later).await.expect("new");
    let left = store.breadcrumbs().ids("", &ann().viewer, 9, at(1_000)).await.expect("readable");
    assert_eq!(left, ["later", "never"].map(BreadcrumbId::new), "those that time has ended are gone at every moment");
}

async fn hostile_records_are_refused_with_the_bound(store: Arc<dyn Store>) {
    let context = |text: String| NewBreadcrumb { context: Json::stored(&text).expect("JSON"), ..new("hostile", json!({})) };
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let hostile = [
        (context(format!("\"{}\"", "x".repeat(50 << 20))), "1048576 is the most"),
        (context(deep(65)), "nested deeper than 64"),
        (context(deep(100_000)), "nested deeper than 64"),
        (NewBreadcrumb { tags: (0..65).map(|n| format!("t{n}")).collect(), ..new("tags", json!({})) }, "64 at most"),
        (NewBreadcrumb { tags: vec!["x".repeat(129)], ..new("tags", json!({})) }, "128 is the most"),
        (NewBreadcrumb { tags: vec!["a b".into()], ..new("tags", json!({})) }, "white space"),
        (NewBreadcrumb { tags: vec!["a\u{1b}[2J".into()], ..new("tags", json!({})) }, "control character"),
        (NewBreadcrumb { tags: vec!["draft\u{200b}".into()], ..new("tags", json!({})) }, "invisible character"),
        (NewBreadcrumb { tags: vec!["\u{202e}tfard".into()], ..new("tags", json!({})) }, "invisible character"),
        (NewBreadcrumb { tags: vec![String::new()], ..new("tags", json!({})) }, "empty"),
        (new("", json!({})), "empty"),
        (new("two\nlines", json!({})), "line break"),
        (new(&"x".repeat(501), json!({})), "500 is the most"),
        (NewBreadcrumb { schema_name: Some("a; DROP TABLE".into()), ..new("schema", json!({})) }, "expected a name such as"),
        (NewBreadcrumb { llm_hints: Some(json!([]).into()), ..new("hints", json!({})) }, "expected an object"),
        (
            NewBreadcrumb { llm_hints: Some(json!({"x": "x".repeat(70_000)}).into()), ..new("hints", json!({})) },
            "65536 is the most",
        ),
        (NewBreadcrumb { description: Some("x".repeat(10_001)), ..new("long", json!({})) }, "10000 is the most"),
    ];
    for (content, reason) in hostile {
        let title = content.title.chars().take(20).collect::<String>();
        let refused = refusal(create(&*store, "r1", content, &ann()).await).to_string();
        assert!(refused.contains(reason) && refused.len() < 400, "{title}: {refused}");
    }
    create(&*store, "r1", context(deep(64)), &ann()).await.expect("the deepest that is allowed");
    create(&*store, "r2", context(format!("{{\"x\": \"{}\"}}", "x".repeat((1 << 20) - 9))), &ann()).await.expect("the largest");
    let grow = BreadcrumbChange { merge: Some(json!({"y": 1}).into()), ..BreadcrumbChange::default() };
    assert!(
        refusal(change(&*store, "r2", grow, &ann()).await).to_string().contains("is the most"),
        "a merge grows over no bound"
    );
    let bomb = BreadcrumbChange {
        merge: Some(Json::stored(&format!("{{\"x\":{}}}", deep(100_000))).expect("JSON")),
        ..BreadcrumbChange::default()
    };
    assert!(refusal(change(&*store, "r2", bomb, &ann()).await).to_string().contains("nested deeper"));
}

async fn a_search_ranks_by_words_and_filters_by_tags_and_schema(store: Arc<dyn Store>) {
    let tagged = |title: &str, text: &str, tags: &[&str], schema: Option<&str>| NewBreadcrumb {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        schema_name: schema.map(str::to_owned),
        ..new(title, json!({"text": text, "nested": {"list": [text]}}))
    };
    let records = [
        ("a", tagged("Revenue of Q3", "Numbers by region", &["q3", "sales"], Some("report.v1"))),
        ("b", tagged("Minutes", "We spoke about revenue at length", &["q3"], Some("note.v1"))),
        ("c", tagged("Café menu", "Crème brûlée", &["food"], Some("note.v1"))),
        ("d", tagged("Recipes", "Soup", &["food", "q3"], None)),
    ];
    for (id, content) in records {
        create(&*store, id, content, &ann()).await.expect("new");
    }
    let viewer = ann().viewer;
    assert_eq!(
        titles(&*store, words("revenue"), &viewer).await,
        ["Revenue of Q3", "Minutes"],
        "the title counts more than the text"
    );
    assert_eq!(titles(&*store, words("creme cafe"), &viewer).await, ["Café menu"], "accents do not count");
    assert_eq!(titles(&*store, words("soup revenue"), &viewer).await.len(), 3, "one of the words is enough");
    assert_eq!(titles(&*store, words("absent"), &viewer).await, Vec::<String>::new());
    let with = |tags: &[&str], schema: Option<&str>, query: BreadcrumbQuery| BreadcrumbQuery {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        schema_name: schema.map(str::to_owned),
        limit: 100,
        ..query
    };
    let none = BreadcrumbQuery::default;
    assert_eq!(titles(&*store, with(&["q3"], None, none()), &viewer).await.len(), 3);
    assert_eq!(titles(&*store, with(&["q3", "food"], None, none()), &viewer).await, ["Recipes"]);
    assert_eq!(titles(&*store, with(&[], Some("note.v1"), none()), &viewer).await.len(), 2);
    assert_eq!(titles(&*store, with(&["q3"], Some("note.v1"), words("revenue")), &viewer).await, ["Minutes"]);
    assert_eq!(titles(&*store, with(&[], None, none()), &viewer).await.len(), 4);
    let found = store
        .breadcrumbs()
        .search(&BreadcrumbQuery { limit: 1, ..words("revenue") }, &viewer, at(3_000))
        .await
        .expect("readable");
    assert_eq!((found.total, found.breadcrumbs.len(), found.method), (2, 1, SearchMethod::Fulltext));
    let found = store.breadcrumbs().search(&with(&["q3"], None, none()), &viewer, at(3_000)).await.expect("readable");
    assert_eq!(found.method, SearchMethod::Filter);
    // A new version is found by its words, and the old ones find nothing.
    let next = BreadcrumbChange { context: Some(json!({"text": "lasagne"}).into()), ..BreadcrumbChange::default() };
    change(&*store, "d", next, &ann()).await.expect("a change");
    assert_eq!(titles(&*store, words("lasagne"), &viewer).await, ["Recipes"]);
    assert!(titles(&*store, words("soup"), &viewer).await.is_empty());
}

async fn names_that_no_record_can_have_find_nothing(store: Arc<dyn Store>) {
    create(&*store, "r1", new("alpha", json!({"text": "nul \0 byte"})), &ann()).await.expect("new");
    assert!(find(&*store, "r1\0", &ann().viewer).await.is_none());
    assert!(store.breadcrumbs().ids("r\0", &ann().viewer, 9, at(3_000)).await.expect("readable").is_empty());
    let none = BreadcrumbQuery::default;
    for query in [
        BreadcrumbQuery { tags: vec!["\0".into()], limit: 9, ..none() },
        BreadcrumbQuery { schema_name: Some("note.v1\0".into()), limit: 9, ..none() },
        words("\u{300}x"),
    ] {
        assert!(titles(&*store, query.clone(), &ann().viewer).await.is_empty(), "{query:?}");
    }
    assert!(store.breadcrumbs().definition("note.v1\0", &project("p"), at(3_000)).await.expect("readable").is_none());
    assert_eq!(titles(&*store, words("nul"), &ann().viewer).await, ["alpha"]);
}

async fn a_word_with_other_characters_in_it_is_a_phrase(store: Arc<dyn Store>) {
    let records = [
        ("a", "Send it by e-mail, please"),
        ("b", "The mail of E. Smith"),
        ("c", "Version 1.50 of https://example.org/guide"),
        ("d", "50 guides for example"),
    ];
    for (id, text) in records {
        create(&*store, id, new(&format!("record {id}"), json!({"text": text})), &ann()).await.expect("new");
    }
    for (word, expected) in [
        ("e-mail", "a"),
        ("E/MAIL!", "a"),
        ("1.50", "c"),
        ("-1.50", "c"),
        ("example.org", "c"),
        ("org/guide", "c"),
        ("https://example.org/guide?", "c"),
        ("guide", "c"),
    ] {
        assert_eq!(titles(&*store, words(word), &ann().viewer).await, [format!("record {expected}")], "{word}");
    }
}

async fn words_of_a_search_are_never_operators(store: Arc<dyn Store>) {
    create(&*store, "r1", new("alpha", json!({"text": "beta"})), &ann()).await.expect("new");
    let hostile = [
        "alpha NOT alpha",
        "\"alpha",
        "alpha\" OR \"",
        "alpha*",
        "(alpha",
        "NEAR(alpha beta)",
        "alpha\0beta",
        "{title} : alpha",
        "^alpha",
    ];
    for query in hostile {
        assert_eq!(titles(&*store, words(query), &ann().viewer).await, ["alpha"], "{query:?}");
    }
    assert!(titles(&*store, words("title:alpha"), &ann().viewer).await.is_empty(), "these two words are nowhere side by side");
    for query in ["-", "\"", "!!!", " "] {
        let found = store.breadcrumbs().search(&words(query), &ann().viewer, at(3_000)).await.expect("readable");
        assert_eq!((found.method, found.total), (SearchMethod::Filter, 1), "{query:?}: without a word it is no search by words");
    }
    assert!(titles(&*store, words(&"x ".repeat(100_000)), &ann().viewer).await.is_empty());
}

async fn eight_writers_lose_no_update(store: Arc<dyn Store>) {
    crate::breadcrumbs_at_scale::eight_writers(vec![store]).await;
}
