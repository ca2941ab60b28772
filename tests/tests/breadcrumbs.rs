//! Tools for breadcrumbs: agents share records that outlive their runs.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use baton_breadcrumb::Author;
use baton_models::Model;
use baton_runtime::{Engine, LoadedJob, RunOutcome, StartOptions};
use baton_store::{Creation, MemoryStore, Store, Update};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb, Sensitivity, TtlConfig, Visibility};
use baton_types::entry::Entry;
use baton_types::id::{BreadcrumbId, JobId, MemoryId, ProjectId};
use baton_types::message::Part;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::{
    Finished, TestJob, call_error, call_output, call_result, calls, engine, finish, handoff, model, run_to_end,
};

const TOOLS: [&str; 5] =
    ["breadcrumb-create", "breadcrumb-update", "breadcrumb-context-merge", "breadcrumb-search", "breadcrumb-approve"];

fn job_with(agent: &str) -> TestJob {
    let tools: Vec<&str> = TOOLS.into_iter().chain(["handoff"]).collect();
    TOOLS.into_iter().fold(TestJob::new(agent, json!({})).agent(agent, &tools), TestJob::built_in)
}

fn job() -> LoadedJob {
    job_with("bot").load()
}

/// Returns a person of the project of the job.
fn ann() -> Author {
    Author::outside(Principal::person("ann"), ProjectId::of(&MemoryId::of_job(&JobId::new("test"), None)))
}

fn now() -> Timestamp {
    Timestamp::from_micros(i64::MAX / 2)
}

/// Returns all records that a person can find.
async fn all(store: &Arc<dyn Store>) -> Vec<Breadcrumb> {
    let query = BreadcrumbQuery { limit: 100, ..BreadcrumbQuery::default() };
    store.breadcrumbs().search(&query, &ann().viewer, now()).await.unwrap().breadcrumbs
}

/// Lets a person create a record.
async fn create(store: &Arc<dyn Store>, id: &str, new: NewBreadcrumb) {
    let creation = Creation { id: BreadcrumbId::new(id), new, by: ann(), key: None, at: Timestamp::from_micros(1) };
    store.breadcrumbs().create(creation).await.unwrap();
}

/// Runs the job with one call for each turn.
async fn run(store: &Arc<dyn Store>, job: LoadedJob, asked: &[(&'static str, Value)]) -> Finished {
    let asked = asked.to_vec();
    let answers = model(move |_, turn, _| match asked.get(turn as usize - 1) {
        Some(call) => calls(std::slice::from_ref(call)),
        None => handoff("done", &[]),
    });
    run_to_end(&engine(Arc::clone(store), &answers), job).await
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn note(title: &str) -> Value {
    json!({"schema_name": "note.text.v1", "title": title, "tags": ["topic:revenue"], "context": {"text": "in thousands", "n": 1}})
}

#[tokio::test]
async fn only_a_call_that_uses_breadcrumbs_looks_for_the_project() {
    let lookups = Arc::new(AtomicUsize::new(0));
    let bot = TestJob::new("bot", json!({})).agent("bot", &["breadcrumb-create", "strike", "handoff"]);
    let gate = json!({"gate": {"type": "string", "description": "Where.", "required": false}});
    let bot = bot.built_in("breadcrumb-create").tool("strike", gate, json!({"effect": "idempotent"}));
    let mut job = bot.load();
    job.folder = Some("/somewhere".into());
    let answers = model(|_, turn, _| match turn {
        1..=3 => calls(&[("strike", json!({}))]),
        4 => calls(&[("breadcrumb-create", note("Figures"))]),
        _ => handoff("done", &[]),
    });
    let (counted, store) = (Arc::clone(&lookups), memory());
    let find = move |_: &Path| {
        counted.fetch_add(1, Ordering::SeqCst);
        Some(ProjectId::new("p"))
    };
    let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&store)).project_of(find);
    run_to_end(&builder.model("m", answers).build().unwrap(), job).await;
    assert_eq!(lookups.load(Ordering::SeqCst), 1);
    let reader = Author::outside(Principal::person("ann"), ProjectId::new("p")).viewer;
    let found =
        store.breadcrumbs().search(&BreadcrumbQuery { limit: 1, ..BreadcrumbQuery::default() }, &reader, now()).await.unwrap();
    assert_eq!(found.breadcrumbs.len(), 1, "the record is not the project's");
}

#[tokio::test]
async fn agents_share_records_across_runs() {
    let store = memory();
    let first = run(&store, job(), &[("breadcrumb-create", note("Figures"))]).await;
    let created = call_output(&first.entries, "0/1.1");
    assert_eq!(
        (&created["success"], &created["error"], &created["breadcrumb"]["version"]),
        (&json!(true), &Value::Null, &json!(1))
    );
    let id = created["id"].as_str().unwrap().to_owned();
    let second = run(
        &store,
        job_with("other").load(),
        &[
            (
                "breadcrumb-search",
                json!({"query": "thousands", "tag": "topic:revenue", "tags": ["topic:revenue"], "schema_name": "note.text.v1"}),
            ),
            ("breadcrumb-context-merge", json!({"breadcrumb_id": id, "context": {"n": 2}, "version": 1})),
            ("breadcrumb-update", json!({"breadcrumb_id": id, "updates": {"title": "New", "tags": []}, "version": 0})),
            ("breadcrumb-update", json!({"breadcrumb_id": id, "updates": {"title": "Late"}, "version": 1})),
            ("breadcrumb-update", json!({"breadcrumb_id": id, "updates": {}})),
            ("breadcrumb-update", json!({"breadcrumb_id": "unknown", "updates": {"title": "x"}})),
        ],
    )
    .await;
    let found = call_output(&second.entries, "0/1.1");
    assert_eq!((&found["count"], &found["total"], &found["method"]), (&json!(1), &json!(1), &json!("fulltext")));
    assert_eq!(found["breadcrumbs"][0]["context"], json!({"text": "in thousands", "n": 1}));
    assert!(found["breadcrumbs"][0].get("owner").is_none(), "the view for models");
    assert_eq!(call_output(&second.entries, "0/2.1")["new_version"], json!(2));
    let updated = call_output(&second.entries, "0/3.1");
    assert_eq!((&updated["new_version"], &updated["breadcrumb"]["title"]), (&json!(3), &json!("New")));
    assert!(call_error(&second.entries, "0/4.1").contains("version_mismatch"));
    assert!(call_error(&second.entries, "0/5.1").contains("nothing is to be changed"));
    assert!(call_error(&second.entries, "0/6.1").contains("there is no breadcrumb unknown"));
    let records = all(&store).await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].context.value(), json!({"text": "in thousands", "n": 2}));
    let by = |name: &str| Principal::Agent(name.into());
    assert_eq!((&records[0].owner, &records[0].updated_by), (&by("bot"), &by("other")));
}

/// Returns a model that creates a record, merges into it by the id that it got, and hands off.
fn creating_and_merging() -> Arc<dyn Model> {
    model(|_, turn, request| match turn {
        1 => calls(&[("breadcrumb-create", note("Once"))]),
        2 => {
            let results = request.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
                Part::Result { result: Some(result), .. } => Some(result.output.value()),
                _ => None,
            });
            let id = results.expect("the first call has a result")["id"].clone();
            calls(&[("breadcrumb-context-merge", json!({"breadcrumb_id": id, "context": {"n": 2}, "version": 1}))])
        }
        _ => handoff("done", &[]),
    })
}

#[tokio::test]
async fn a_project_has_one_record_of_the_models_of_openrouter() {
    let store = memory();
    let job = |ago: Duration, models: usize| {
        let since_1970 = (SystemTime::now() - ago).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at = Timestamp::from_micros(since_1970.as_micros().try_into().unwrap()).to_string();
        let model = |id: usize| json!({"id": format!("maker/{id}"), "name": "Model", "input": 0.5, "output": 2.0});
        let models: Vec<Value> = (0..models).map(model).collect();
        let catalogue = json!({"last_updated": at, "source": "a test", "models": models}).to_string();
        TestJob::new("bot", json!({}))
            .agent("bot", &["openrouter_models_sync", "breadcrumb-search", "handoff"])
            .built_in("openrouter_models_sync")
            .built_in("breadcrumb-search")
            .document("openrouter-models.json", &catalogue)
            .document("prices.json", "{}")
            .load()
    };
    let search = json!({"schema_name": "openrouter.models.catalog.v1"});
    let steps = [("openrouter_models_sync", json!({})), ("breadcrumb-search", search)];
    let hour = Duration::from_hours(1);
    let old = job(2 * hour, 2);
    for (job, version, models) in [(old.clone(), 1, 2), (old, 1, 2), (job(hour, 3), 2, 3)] {
        let finished = run(&store, job, &steps).await;
        let output = call_output(&finished.entries, "0/1.1");
        assert_eq!(output["models_count"], json!(models), "{output}");
        let found = call_output(&finished.entries, "0/2.1");
        let record = &found["breadcrumbs"][0];
        assert_eq!((&found["total"], &record["id"]), (&json!(1), &output["catalog_id"]));
        assert_eq!((&record["version"], &record["context"]["models_count"]), (&json!(version), &json!(models)));
        assert_eq!(record["context"].get("models"), None, "the list is too long for a request");
    }
    assert_eq!(all(&store).await[0].context.value()["models"][2]["output"], json!(2.0));
}

#[tokio::test]
async fn a_write_happens_once_wherever_the_process_is_killed() {
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let store = memory();
            let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), commits, failing)), &creating_and_merging());
            let is_over = match doomed.start(job(), StartOptions::default()).await {
                Ok(handle) => matches!(handle.outcome().await, RunOutcome::Ended { .. }),
                Err(_) => false,
            };
            if is_over {
                break;
            }
            crashes += 1;
            let Some(known) = store.runs().await.unwrap().first().map(|run| run.id.clone()) else { continue };
            let healthy = engine(Arc::clone(&store), &creating_and_merging());
            let handle = healthy.resume(&known).await.unwrap();
            let finished = finish(&healthy, &handle).await;
            let records = all(&store).await;
            let shown: Vec<_> = records.iter().map(|record| (record.title.as_str(), record.version)).collect();
            assert_eq!(shown, [("Once", 2)], "crash {failing:?} {commits}");
            assert_eq!(records[0].context.value()["n"], json!(2));
            assert_eq!(call_output(&finished.entries, "0/1.1")["id"], json!(records[0].id), "crash {failing:?} {commits}");
        }
    }
    assert!(crashes >= 8, "only {crashes} crashes were tried");
}

#[tokio::test]
async fn a_person_approves_a_record_or_does_not() {
    for (approved, expected) in [(true, vec!["approved", "validated"]), (false, vec!["draft"])] {
        let store = memory();
        create(&store, "r1", NewBreadcrumb { title: "Draft".into(), tags: vec!["draft".into()], ..NewBreadcrumb::default() })
            .await;
        let answers = model(|_, turn, _| match turn {
            1 => calls(&[("breadcrumb-approve", json!({"breadcrumb_id": "r1", "reason": "It is right", "version": 1}))]),
            _ => handoff("done", &[]),
        });
        let engine = engine(Arc::clone(&store), &answers);
        let handle = engine.start(job(), StartOptions::default()).await.unwrap();
        assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
        assert_eq!(all(&store).await[0].version, 1, "nothing happens before the answer");
        let question = handle.open_questions().await.remove(0);
        handle.answer(question.task, &Principal::person("ann"), json!({"approved": approved}).into(), Vec::new()).await.unwrap();
        finish(&engine, &handle).await;
        assert_eq!(all(&store).await[0].tags, expected);
    }
}

#[tokio::test]
async fn a_job_that_takes_the_question_away_approves_nothing() {
    let store = memory();
    create(&store, "r1", NewBreadcrumb { title: "Draft".into(), ..NewBreadcrumb::default() }).await;
    let text = |what: &str, required: bool| json!({"type": "string", "description": what, "required": required});
    let parameters = json!({
        "breadcrumb_id": text("The record.", true),
        "reason": text("Why.", false),
        "version": {"type": "integer", "description": "The version.", "required": true, "minimum": 1},
    });
    for extra in [json!({"effect": "keyed"}), json!({"effect": "keyed", "approval": "master"})] {
        let job = TestJob::new("lead", json!({}))
            .agent("lead", &["route_to_bot", "handoff"])
            .agent("bot", &["breadcrumb-approve", "handoff"])
            .tool("breadcrumb-approve", parameters.clone(), extra)
            .load();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&errors);
        let answers = model(move |agent, turn, request| match (agent, turn, request.is_question) {
            ("lead", _, true) => handoff("yes", &[]),
            ("lead", 1, _) => calls(&[("route_to_bot", json!({"request": "approve it"}))]),
            ("bot", 1, _) => calls(&[("breadcrumb-approve", json!({"breadcrumb_id": "r1", "version": 1}))]),
            ("bot", _, _) => {
                seen.lock().unwrap().push(format!("{:?}", request.messages));
                handoff("done", &[])
            }
            _ => handoff("done", &[]),
        });
        run_to_end(&engine(Arc::clone(&store), &answers), job).await;
        assert_eq!(errors.lock().unwrap().len(), 1);
        let record = all(&store).await.remove(0);
        assert_eq!((record.tags, record.version), (Vec::new(), 1));
    }
}

#[tokio::test]
async fn forged_records_are_refused_with_the_reason() {
    let store = memory();
    let tagged = |tag: &str| json!({"schema_name": "note.text.v1", "title": "Forged", "tags": [tag]});
    let forged = ["approved", "consumer:lead", "session:1", "tool:response", "tool:breadcrumb-create", "tool:Handoff"];
    let asked: Vec<_> = forged.iter().map(|tag| ("breadcrumb-create", tagged(tag))).collect();
    let finished = run(&store, job(), &asked).await;
    for (turn, tag) in (1..).zip(forged) {
        let error = call_error(&finished.entries, &format!("0/{turn}.1"));
        assert!(error.contains(tag) && error.contains("cannot be set or removed by an agent"), "{error}");
        assert_eq!(call_result(&finished.entries, &format!("0/{turn}.1")), "failed invalid_input");
    }
    let failed = finished.entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallFinished(entry) => entry.result.error.as_ref().map(|error| error.detail.value()),
        _ => None,
    });
    let detail = failed.expect("a call failed");
    assert!(detail["success"] == json!(false) && detail["error"].is_string(), "{detail}: the fields of the seeds");
    let big = json!({"schema_name": "note.text.v1", "title": "Big", "context": {"text": "x".repeat(2 << 20)}});
    let secret = json!({"schema_name": "note.text.v1", "title": "Key", "sensitivity": "secret"});
    let finished = run(&store, job(), &[("breadcrumb-create", big), ("breadcrumb-create", secret)]).await;
    assert!(call_error(&finished.entries, "0/1.1").contains("is the most; keep a longer text in a document"));
    assert!(call_error(&finished.entries, "0/2.1").contains("an agent cannot create a secret record"));
    assert!(all(&store).await.is_empty());
}

#[tokio::test]
async fn an_agent_finds_what_it_may_read() {
    let store = memory();
    for (id, sensitivity) in [("low", Sensitivity::Low), ("pii", Sensitivity::Pii), ("secret", Sensitivity::Secret)] {
        let new = NewBreadcrumb { title: format!("needle {id}"), sensitivity, ..NewBreadcrumb::default() };
        create(&store, id, new).await;
    }
    let diary = NewBreadcrumb { title: "needle diary".into(), visibility: Visibility::Private, ..NewBreadcrumb::default() };
    create(&store, "diary", diary).await;
    let may_read = job_with("bot").changed_tool("breadcrumb-search", json!({"set": {"may_read": ["pii"]}})).load();
    for (job, expected) in [(job(), vec!["low"]), (may_read, vec!["low", "pii"])] {
        let finished = run(&store, job, &[("breadcrumb-search", json!({"query": "needle"}))]).await;
        let found = call_output(&finished.entries, "0/1.1");
        let mut ids: Vec<_> =
            found["breadcrumbs"].as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected);
        assert_eq!(found["total"], json!(expected.len()), "what is not seen is not counted");
    }
}

#[tokio::test]
async fn hints_of_a_record_change_what_its_reader_sees_and_nothing_else() {
    let store = memory();
    let hints = json!({"exclude": ["internal"], "mode": "merge", "transform": {
        "line": {"type": "template", "template": "{{name}} is {{ name | upper }} {% for x in list %}{{ x }}{% endfor %}"}
    }});
    let context = json!({"name": "tea", "internal": "margin 80 %", "list": [1, 2]});
    let content = NewBreadcrumb {
        title: "needle".into(),
        context: context.into(),
        llm_hints: Some(hints.into()),
        ..NewBreadcrumb::default()
    };
    create(&store, "r1", content).await;
    let search = [("breadcrumb-search", json!({"query": "needle"}))];
    let finished = run(&store, job(), &search).await;
    let seen = call_output(&finished.entries, "0/1.1")["breadcrumbs"][0]["context"].clone();
    assert_eq!(seen, json!({"name": "tea", "list": [1, 2], "line": "tea is TEA 12"}));
    let bad = BreadcrumbChange {
        llm_hints: Some(json!({"transform": {"x": {"type": "template", "template": "{% if %}"}}}).into()),
        ..BreadcrumbChange::default()
    };
    let update =
        Update { id: BreadcrumbId::new("r1"), change: bad, expected: None, by: ann(), key: None, at: Timestamp::from_micros(2) };
    store.breadcrumbs().change(update).await.unwrap();
    let finished = run(&store, job(), &search).await;
    let seen = call_output(&finished.entries, "0/1.1")["breadcrumbs"][0]["context"].clone();
    assert_eq!(seen["internal"], json!("margin 80 %"), "hints that cannot be followed change nothing");
}

#[tokio::test]
async fn reads_of_agents_count_where_reads_are_limited() {
    let store = memory();
    let limit = TtlConfig { max_reads: Some(2), ..TtlConfig::default() };
    let content = || NewBreadcrumb { title: "needle".into(), ttl_config: Some(limit), ..NewBreadcrumb::default() };
    create(&store, "r1", content()).await;
    create(&store, "r2", content()).await;
    create(&store, "free", NewBreadcrumb { title: "needle".into(), ..NewBreadcrumb::default() }).await;
    let search = || ("breadcrumb-search", json!({"query": "needle"}));
    // A write shows the record too.
    let merge = ("breadcrumb-context-merge", json!({"breadcrumb_id": "r2", "context": {"n": 1}}));
    let finished = run(&store, job(), &[search(), merge, search(), search()]).await;
    let counts = ["0/1.1", "0/3.1", "0/4.1"].map(|call| call_output(&finished.entries, call)["count"].clone());
    assert_eq!(counts, [json!(3), json!(2), json!(1)], "r2 ended with the answer of the merge, r1 with the second search");
    let left: Vec<String> = all(&store).await.into_iter().map(|record| record.id.to_string()).collect();
    assert_eq!(left, ["free"]);
}

#[tokio::test]
async fn words_of_excluded_fields_are_not_searched() {
    let store = memory();
    let hints = || json!({"exclude": ["internal"]});
    let context = || json!({"name": "tea", "internal": "margin"});
    let own = NewBreadcrumb {
        title: "own".into(),
        context: context().into(),
        llm_hints: Some(hints().into()),
        ..NewBreadcrumb::default()
    };
    create(&store, "own", own).await;
    let definition = NewBreadcrumb {
        title: "Goods".into(),
        schema_name: Some("schema.def.v1".into()),
        context: json!({"defines_schema": "goods.v1"}).into(),
        llm_hints: Some(hints().into()),
        ..NewBreadcrumb::default()
    };
    create(&store, "definition", definition).await;
    let defined = NewBreadcrumb {
        title: "defined".into(),
        schema_name: Some("goods.v1".into()),
        context: context().into(),
        ..NewBreadcrumb::default()
    };
    create(&store, "defined", defined).await;
    let search = |word: &str| ("breadcrumb-search", json!({"query": word}));
    let finished = run(&store, job(), &[search("margin"), search("internal"), search("tea")]).await;
    let totals = ["0/1.1", "0/2.1", "0/3.1"].map(|call| call_output(&finished.entries, call)["total"].clone());
    assert_eq!(totals, [json!(0), json!(0), json!(2)]);
}
