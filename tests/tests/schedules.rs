//! Schedules whose ticks a worker publishes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_breadcrumb::{Author, SCHEDULE_SCHEMA, Schedule};
use baton_runtime::{Clock, Engine, SteadyClock, WorkOptions, WorkReport};
use baton_store::{Creation, MemoryStore, Store};
use baton_types::breadcrumb::{Breadcrumb, NewBreadcrumb};
use baton_types::id::{BreadcrumbId, JobId, MemoryId, ProjectId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::support::{TestJob, call_output, calls, handoff, model, run_to_end};

/// Creates a schedule of the project `p`, as a person.
async fn scheduled(store: &dyn Store, id: &str, context: Value, at: Timestamp) -> Breadcrumb {
    scheduled_in(store, ProjectId::new("p"), id, context, at).await
}

async fn scheduled_in(store: &dyn Store, project: ProjectId, id: &str, context: Value, at: Timestamp) -> Breadcrumb {
    let new = NewBreadcrumb {
        title: id.to_owned(),
        schema_name: Some(SCHEDULE_SCHEMA.to_owned()),
        context: context.into(),
        ..NewBreadcrumb::default()
    };
    let by = Author::outside(Principal::person("ann"), project);
    let creation = Creation { id: BreadcrumbId::new(id), new, by, key: None, at };
    store.breadcrumbs().create(creation).await.unwrap().breadcrumb
}

fn engine(store: &Arc<MemoryStore>, clock: &Arc<SteadyClock>) -> Engine {
    Engine::builder().trust(baton_runtime::TrustEverything).store(store.clone()).clock(clock.clone()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn two_processes_publish_each_tick_once() {
    const DAYS: u64 = 2;
    let store = Arc::new(MemoryStore::new());
    // The clocks of Berlin change on 28 March: 02:30 does not exist.
    let began = Timestamp::parse("2027-03-27T00:00:00Z").unwrap();
    let clock = Arc::new(SteadyClock::starting_at(began));
    let daily = json!({"interval": {"type": "daily", "time": "02:30"}, "timezone": "Europe/Berlin"});
    let monthly = json!({"interval": {"type": "monthly", "day_of_month": 28, "time": "09:00"}});
    let mut expected = BTreeMap::new();
    for (id, context) in [("daily", daily), ("monthly", monthly)] {
        let record = scheduled(&*store, id, context, began).await;
        let until = began.plus(Duration::from_hours(24 * DAYS));
        let ticks: Vec<String> = Schedule::read(&record).unwrap().ticks(began, until).map(|tick| tick.to_string()).collect();
        expected.insert(id.to_owned(), ticks);
    }
    assert_eq!((expected["daily"].len(), expected["monthly"].len()), (2, 1));
    let published = Mutex::new(BTreeMap::<String, Vec<String>>::new());
    let report = |report: WorkReport<'_>| {
        let WorkReport::Schedules(pass) = report else { panic!("there is no run") };
        assert_eq!((pass.schedules, &pass.failed[..]), (2, &[][..]));
        for tick in &pass.published {
            let context = tick.context.value();
            let [schedule, at] = ["schedule", "scheduled_at"].map(|field| context[field].as_str().unwrap().to_owned());
            published.lock().unwrap().entry(schedule).or_default().push(at);
        }
    };
    let (one, other) = (engine(&store, &clock), engine(&store, &clock));
    let until = || tokio::time::sleep(Duration::from_hours(24 * DAYS));
    let (first, second) =
        tokio::join!(one.work(WorkOptions::default(), until(), report), other.work(WorkOptions::default(), until(), report));
    first.and(second).unwrap();
    assert_eq!(published.into_inner().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_tick_is_published_at_its_moment_and_a_fault_is_reported_once() {
    let store = Arc::new(MemoryStore::new());
    let began = Timestamp::parse("2027-01-01T00:00:30Z").unwrap();
    let clock = Arc::new(SteadyClock::starting_at(began));
    scheduled(&*store, "minutely", json!({"interval": {"type": "minutely"}}), began).await;
    let strict =
        json!({"defines_schema": "schedule.tick.v1", "field_definitions": {"owner": {"type": "string", "required": true}}});
    let passes = Mutex::new(Vec::new());
    let report = |report: WorkReport<'_>| {
        let WorkReport::Schedules(pass) = report else { panic!("there is no run") };
        let late = |tick: &Breadcrumb| {
            let moment = |field: &str| Timestamp::parse(tick.context.value()[field].as_str().unwrap()).unwrap();
            moment("published_at").since(moment("scheduled_at"))
        };
        assert!(pass.published.iter().all(|tick| late(tick) < Duration::from_secs(1)));
        passes.lock().unwrap().push((pass.published.len(), pass.failed.len()));
    };
    let engine = engine(&store, &clock);
    let changes = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        let new = NewBreadcrumb {
            title: "Ticks".to_owned(),
            schema_name: Some("schema.def.v1".to_owned()),
            context: strict.into(),
            ..NewBreadcrumb::default()
        };
        let by = Author::outside(Principal::person("ann"), ProjectId::new("p"));
        let creation = Creation { id: BreadcrumbId::new("def"), new, by, key: None, at: clock.now() };
        store.breadcrumbs().create(creation).await.unwrap();
        tokio::time::sleep(Duration::from_secs(200)).await;
    };
    engine.work(WorkOptions::default(), changes, report).await.unwrap();
    assert_eq!(passes.into_inner().unwrap(), [(1, 0), (1, 0), (0, 1)]);
}

#[tokio::test]
async fn an_agent_makes_a_pass_over_the_schedules_of_its_project() {
    let store = Arc::new(MemoryStore::new());
    let job = TestJob::new("solo", json!({})).agent("solo", &["scheduler", "handoff"]).built_in("scheduler").load();
    let project = ProjectId::of(&MemoryId::of_job(&JobId::new("test"), None));
    let past = Timestamp::parse("2026-01-01T00:00:30Z").unwrap();
    let last = json!({"interval": {"type": "monthly", "day_of_month": 1, "time": "09:00"}, "missed": "last"});
    scheduled_in(&*store, project, "own", last.clone(), past).await;
    scheduled(&*store, "of another project", last, past).await;
    let model = model(|_, turn, _| if turn <= 2 { calls(&[("scheduler", json!({}))]) } else { handoff("done", &[]) });
    let finished = run_to_end(&crate::support::engine(store, &model), job).await;
    for (call, published) in [("0/1.1", 1), ("0/2.1", 0)] {
        let output = call_output(&finished.entries, call);
        assert_eq!(
            (&output["status"], &output["schedules_loaded"], &output["ticks_published"]),
            (&json!("ok"), &json!(1), &json!(published))
        );
    }
}
