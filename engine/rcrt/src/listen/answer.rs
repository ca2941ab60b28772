//! Records that answer: `agent.response.v1` for an agent, `tool.response.v1` for a request of a tool.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_breadcrumb::{AGENT_RESPONSE_SCHEMA, Author, Handler, RESPONSE_SCHEMA, Trigger, session_tag};
use baton_runtime::RunError;
use baton_store::{Creation, NextTrigger};
use baton_types::breadcrumb::{Breadcrumb, NewBreadcrumb, Viewer, Visibility};
use baton_types::call::{CallResult, CallStatus};
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{BreadcrumbId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::{Map, Value, json};

use super::Listener;
use super::request::Request;

/// Number of entries read at once.
const PAGE: usize = 512;

/// Bytes of an answer's context that leave room for its other fields.
const MOST_BYTES: usize = baton_breadcrumb::MAX_CONTEXT_BYTES - (64 << 10);

/// Longest request id that is a tag, in bytes.
const MOST_ID_BYTES: usize = 100;

/// Returns the answer of a run that has ended. `None` if the record that it answers has ended.
pub(super) async fn of_run(
    listener: &Listener,
    next: &NextTrigger,
    run: &RunId,
    result: &CallResult,
) -> Result<Option<Creation>, RunError> {
    let Some(record) = next.record.as_ref().or(next.trigger.record.as_deref()) else { return Ok(None) };
    let entries = own_entries(listener, run).await?;
    let author = match &next.trigger.handler {
        Handler::ToolRequest => Principal::Engine,
        Handler::Agent(_) => listener
            .engine
            .state(run)
            .await?
            .root()
            .and_then(|root| root.agent())
            .cloned()
            .map_or(Principal::Engine, Principal::Agent),
    };
    let new = match &next.trigger.handler {
        Handler::ToolRequest => {
            let call = TaskId::root().call(1, 1);
            let found = entries.iter().find_map(|recorded| match &recorded.entry {
                Entry::CallFinished(finished) if finished.call == call => Some(Arc::clone(&finished.result)),
                Entry::CallRefused(refused) if refused.call == call => {
                    Some(Arc::new(CallResult::error(CallStatus::Failed, refused.error.clone())))
                }
                _ => None,
            });
            let began = entries.first().map(|first| first.at);
            let took = began.zip(entries.last()).map(|(began, last)| last.at.since(began).as_millis() as u64);
            tool_response(record, found.as_deref().unwrap_or(result), Some(run), took)
        }
        Handler::Agent(_) => agent_response(record, run, result, &entries),
    };
    Ok(Some(creation(&next.trigger, record, new, author, Some(run.clone()), listener.engine.now())))
}

/// Returns the answer to a request of a tool that is refused. Refused triggers of agents have none.
pub(super) fn of_refusal(trigger: &Trigger, record: &Breadcrumb, reason: &str, at: Timestamp) -> Option<Creation> {
    if trigger.handler != Handler::ToolRequest {
        return None;
    }
    let error = baton_types::call::CallError::new(baton_types::call::ErrorCode::ToolFailed, reason);
    let new = tool_response(record, &CallResult::error(CallStatus::Failed, error), None, None);
    Some(creation(trigger, record, new, Principal::Engine, trigger.cause.clone(), at))
}

/// Returns the entries of a run without those of the runs that it continues.
async fn own_entries(listener: &Listener, run: &RunId) -> Result<Vec<Arc<Recorded>>, RunError> {
    let store = listener.store();
    let mut after = store.run(run).await?.and_then(|record| record.past).map_or(0, |past| past.seq);
    let mut entries = Vec::new();
    loop {
        let page = store.entries(run, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(entries) };
        after = last.seq;
        entries.extend(page);
    }
}

/// Returns the answer. It has the readers and the session of the record that it answers.
fn creation(
    trigger: &Trigger,
    record: &Breadcrumb,
    mut new: NewBreadcrumb,
    author: Principal,
    run: Option<RunId>,
    at: Timestamp,
) -> Creation {
    new.tags.extend(trigger.session.as_deref().map(session_tag));
    new.visibility = record.visibility;
    new.sensitivity = record.sensitivity;
    // A private answer is read by its owner alone.
    let author = if record.visibility == Visibility::Private { record.owner.clone() } else { author };
    let viewer = Viewer { principal: author, project: record.project.clone(), may_read_pii: true };
    Creation {
        id: BreadcrumbId::new(uuid::Uuid::now_v7().to_string()),
        new,
        by: Author { may_route: true, run, ..Author::of(viewer) },
        key: None,
        at: at.max(record.updated_at),
    }
}

fn tool_response(record: &Breadcrumb, result: &CallResult, run: Option<&RunId>, took_ms: Option<u64>) -> NewBreadcrumb {
    let request = Request::read(record).ok();
    let id = request.as_ref().and_then(|request| request.id.clone()).unwrap_or_else(|| record.id.to_string());
    let tool = request.map(|request| request.tool).unwrap_or_default();
    let mut context = Map::new();
    let mut put = |key: &str, value: Value| _ = context.insert(key.to_owned(), value);
    put("request_id", json!(id));
    put("tool", json!(tool));
    put("requestedBy", json!(author_name(&record.created_by)));
    put("metadata", json!({"run": run, "trigger": record.id, "trigger_version": record.version}));
    let is_success = matches!(result.status, CallStatus::Success | CallStatus::Partial);
    put("status", json!(if is_success { "success" } else { "error" }));
    let output = bounded(result.output.value());
    put("output", output);
    if let Some(error) = &result.error {
        put("error", json!(error.message));
        put("error_code", json!(error.code));
    }
    if let Some(took) = took_ms {
        put("execution_time_ms", json!(took));
    }
    let mut tags = vec!["tool:response".to_owned()];
    // No other request can have the id of the record.
    let ids = [id.as_str(), record.id.as_str()].into_iter().collect::<BTreeSet<_>>();
    let is_tag = |id: &&str| id.len() <= MOST_ID_BYTES && id.chars().all(|c| c.is_ascii_graphic());
    tags.extend(ids.into_iter().filter(is_tag).map(|id| format!("request:{id}")));
    NewBreadcrumb {
        title: format!("Response of {}", if tool.is_empty() { "a tool" } else { title(&tool) }),
        schema_name: Some(RESPONSE_SCHEMA.to_owned()),
        context: Json::from(Value::Object(context)),
        tags,
        ..NewBreadcrumb::default()
    }
}

fn agent_response(record: &Breadcrumb, run: &RunId, result: &CallResult, entries: &[Arc<Recorded>]) -> NewBreadcrumb {
    let output = result.output.value();
    let message = match (&result.error, &output) {
        (Some(error), _) => error.message.clone(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Object(fields)) => match fields.get("result").or_else(|| fields.get("message")) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => output.to_string(),
        },
        (None, other) => other.to_string(),
    };
    let outputs: Vec<Value> = entries
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::Output(output) => Some(json!({"call": output.call, "status": output.status, "output": output.output.value()})),
            _ => None,
        })
        .collect();
    let documents: Vec<&str> = result.documents.iter().map(|document| document.path.as_str()).collect();
    let mut context = json!({
        "message": bounded(json!(message)),
        "tool_requests": [],
        "metadata": {"run": run, "status": result.status, "trigger": record.id, "trigger_version": record.version},
    });
    if !outputs.is_empty() {
        context["outputs"] = bounded(json!(outputs));
    }
    if !documents.is_empty() {
        context["documents"] = json!(documents);
    }
    NewBreadcrumb {
        title: format!("Answer to {}", title(&record.title)),
        schema_name: Some(AGENT_RESPONSE_SCHEMA.to_owned()),
        context: Json::from(context),
        tags: vec!["agent:response".to_owned()],
        ..NewBreadcrumb::default()
    }
}

/// Returns a value, or a note in place of one that is too long for a record.
fn bounded(value: Value) -> Value {
    let bytes = value.to_string().len();
    if bytes <= MOST_BYTES / 2 { value } else { json!(format!("left out: it has {bytes} bytes; the run has it")) }
}

/// Returns the beginning of a text, for a title.
fn title(text: &str) -> &str {
    let end = text.char_indices().nth(100).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

fn author_name(author: &Principal) -> String {
    match author {
        Principal::Agent(agent) => agent.to_string(),
        other => other.to_string(),
    }
}
