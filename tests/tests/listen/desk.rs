//! A store with a project, for tests of listeners.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_breadcrumb::{AGENT_SCHEMA, Author, REQUEST_SCHEMA, RESPONSE_SCHEMA};
use baton_config::{Role, Sources};
use baton_models::Model;
use baton_rcrt::{Heard, Listener, Outcome, ProjectFiles};
use baton_runtime::Engine;
use baton_store::{Creation, MemoryStore, Store};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbQuery, NewBreadcrumb};
use baton_types::id::{BreadcrumbId, ProjectId};
use baton_types::message::{Part, Role as Speaker};
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::model;

pub(super) const BUILT_IN: [&str; 8] =
    ["handoff", "ask_master", "describe_tools", "echo", "calculator", "breadcrumb-create", "breadcrumb-update", "timer"];

/// The moment at which the records of the tests are written.
const WRITTEN: Timestamp = Timestamp::from_micros(1_000);

/// A store with a project, and the person who works there.
pub(super) struct Desk {
    pub(super) store: Arc<dyn Store>,
    pub(super) ann: Author,
    pub(super) heard: Arc<Mutex<Vec<(String, Outcome)>>>,
    pub(super) changed: watch::Sender<usize>,
}

/// Returns the files of the test's project: the built-in tools, and `more`.
pub(super) fn files(job: &str, more: &[(Role, String, Value)]) -> ProjectFiles {
    let mut sources = Sources::new("project");
    sources.add(Role::Job, "job.json", job);
    for id in BUILT_IN {
        let file = format!("tool-configs/{id}.json");
        let text = std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(&file)).unwrap();
        sources.add(Role::BuiltinTool, file, text);
    }
    for (role, path, config) in more {
        sources.add(*role, path.clone(), config.to_string());
    }
    ProjectFiles { sources, folder: PathBuf::from("/project") }
}

impl Desk {
    pub(super) fn new() -> Self {
        let ann = Author::outside(Principal::person("ann"), ProjectId::new("p"));
        Self { store: Arc::new(MemoryStore::new()), ann, heard: Arc::default(), changed: watch::Sender::new(0) }
    }

    pub(super) fn engine(&self, model: &Arc<dyn Model>) -> Engine {
        let builder = Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&self.store));
        builder.project_of(|_| Some(ProjectId::new("p"))).model("m", Arc::clone(model)).build().unwrap()
    }

    pub(super) fn listener(engine: &Engine, more: Vec<(Role, String, Value)>) -> Arc<Listener> {
        let read = move |job: &str| Ok(files(job, &more));
        Listener::new(engine.clone(), ProjectId::new("p"), Box::new(read), Some("m".to_owned()), Ok(None))
    }

    /// Listens until `work` is done.
    pub(super) async fn listen_with(
        &self,
        model: &Arc<dyn Model>,
        more: Vec<(Role, String, Value)>,
        work: impl Future<Output = ()>,
    ) {
        let engine = self.engine(model);
        let listener = Self::listener(&engine, more);
        let report = |heard: &Heard| {
            // Shown if the test fails.
            eprintln!("{heard:?}");
            self.heard.lock().unwrap().push((heard.trigger.breadcrumb.to_string(), heard.outcome.clone()));
            self.changed.send_modify(|heard| *heard += 1);
        };
        listener.listen(work, report).await.unwrap();
    }

    /// Waits until `count` outcomes were reported.
    pub(super) async fn reported(&self, count: usize) {
        let mut changed = self.changed.subscribe();
        let enough = changed.wait_for(|heard| *heard >= count);
        tokio::time::timeout(Duration::from_mins(1), enough).await.expect("in time").unwrap();
    }

    /// Listens until `count` outcomes were reported.
    pub(super) async fn listen(&self, model: &Arc<dyn Model>, count: usize) {
        self.listen_with(model, Vec::new(), self.reported(count)).await;
    }

    pub(super) async fn create_by(&self, id: &str, new: NewBreadcrumb, by: &Author) {
        let creation = Creation { id: BreadcrumbId::new(id), new, by: by.clone(), key: None, at: WRITTEN };
        self.store.breadcrumbs().create(creation).await.unwrap();
    }

    pub(super) async fn create(&self, id: &str, schema: &str, tags: &[&str], context: Value) {
        let new = NewBreadcrumb {
            title: id.to_owned(),
            schema_name: Some(schema.to_owned()),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            context: context.into(),
            ..NewBreadcrumb::default()
        };
        self.create_by(id, new, &self.ann).await;
    }

    /// Creates an agent that is started by the schema `user.message.v1`; `more` is merged into its definition.
    pub(super) async fn agent(&self, id: &str, more: Value) {
        let mut context = json!({
            "agent_id": id, "model": "anything/else", "system_prompt": format!("You are {id}."),
            "subscriptions": {"selectors": [{"schema_name": "user.message.v1"}]},
        });
        context.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.create(id, AGENT_SCHEMA, &[], context).await;
    }

    pub(super) async fn message(&self, id: &str, tags: &[&str]) {
        self.create(id, "user.message.v1", tags, json!({"content": id, "session_id": "s"})).await;
    }

    /// Returns the records of a schema, the oldest first.
    pub(super) async fn all(&self, schema: &str) -> Vec<Breadcrumb> {
        let query = BreadcrumbQuery { schema_name: Some(schema.to_owned()), limit: 10_000, ..BreadcrumbQuery::default() };
        let later = Timestamp::from_micros(i64::MAX / 2);
        let mut found = self.store.breadcrumbs().search(&query, &self.ann.viewer, later).await.unwrap().breadcrumbs;
        found.reverse();
        found
    }

    pub(super) fn outcomes(&self) -> BTreeMap<String, Outcome> {
        self.heard.lock().unwrap().drain(..).collect()
    }
}

pub(super) fn texts(request: &ModelRequest, speaker: Speaker) -> Vec<String> {
    let of_speaker = request.messages.iter().filter(|message| message.role == speaker);
    let parts = of_speaker.flat_map(|message| &message.parts);
    parts.filter_map(|part| if let Part::Request(text) | Part::Text(text) = part { Some(text.clone()) } else { None }).collect()
}

pub(super) fn answering(text: &'static str) -> Arc<dyn Model> {
    model(move |_, _, _| ModelTurn::text(text))
}

/// Returns the context of the one answer to a request with this id.
pub(super) async fn response(desk: &Desk, id: &str) -> Value {
    let tag = format!("request:{id}");
    let found: Vec<Breadcrumb> =
        desk.all(RESPONSE_SCHEMA).await.into_iter().filter(|record| record.tags.contains(&tag)).collect();
    assert_eq!(found.len(), 1, "{id} has one answer");
    assert!(found[0].tags.contains(&"tool:response".to_owned()) && found[0].created_by == Principal::Engine);
    assert!(found[0].created_at > WRITTEN, "an answer has the date of the answer");
    found[0].context.value()
}

pub(super) fn request_record(id: &str, tool: &str, input: Value) -> Value {
    json!({
        "schema_name": REQUEST_SCHEMA, "title": id,
        "context": {"tool": tool, "input": input, "requestId": id, "requestedBy": "lead", "approved": true},
    })
}
