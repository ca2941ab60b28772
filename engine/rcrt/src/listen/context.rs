//! The request of an agent that a record starts: `Process: {json}` (seed 003), and the records that its selectors and builders give it.

use baton_breadcrumb::{AgentDefinition, CATALOG_SCHEMA, FetchMethod, Selector, view};
use baton_runtime::{InitialDocument, search_breadcrumbs};
use baton_store::StoreError;
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbQuery, Viewer};
use baton_types::path::DocumentPath;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use super::{Listener, NoRun};

/// A text of more bytes is given as a document, so that the context budget decides what the agent sees of it.
const MOST_INLINE: usize = 32 << 10;

/// The most records of a builder without `limit`.
const DEFAULT_LIMIT: usize = 10;

/// Returns the request, and the documents that are too long for it.
pub(super) async fn request(
    listener: &Listener,
    definition: &Breadcrumb,
    record: &Breadcrumb,
) -> Result<(String, Vec<InitialDocument>), NoRun> {
    let agent = AgentDefinition::read(definition).map_err(|error| NoRun::Failed(error.to_string()))?;
    let viewer =
        Viewer { principal: Principal::Agent(agent.agent.clone()), project: record.project.clone(), may_read_pii: false };
    let shown = shown(listener, record).await?;
    let mut documents = Vec::new();
    let mut request = part("Process:", "trigger.json", &shown["context"], &mut documents);
    for (name, found) in contexts(listener, &agent, record, &viewer).await? {
        let path = format!("context/{}.json", file_name(&name));
        request += "\n\n";
        request += &part(&format!("Context {name}:"), &path, &found, &mut documents);
    }
    Ok((request, documents))
}

/// Returns the records that the agent gets, by the names of the selectors and builders that select them.
async fn contexts(
    listener: &Listener,
    agent: &AgentDefinition,
    record: &Breadcrumb,
    viewer: &Viewer,
) -> Result<Vec<(String, Value)>, NoRun> {
    let mut contexts = Vec::new();
    for selector in agent.selectors.iter().filter(|selector| !is_catalog(selector.schema_name.as_deref())) {
        let found = match selector.fetch.method {
            FetchMethod::EventData if selector.is_trigger() => continue,
            // Not the trigger: the records of such a selector are the newest.
            _ => fetched(listener, selector, record, viewer).await?,
        };
        let name = selector.key.clone().or_else(|| selector.schema_name.clone()).unwrap_or_else(|| "records".to_owned());
        contexts.push((name, found));
    }
    for (name, builder) in agent.builders.iter().filter(|(_, builder)| !is_catalog(builder.schema_name.as_deref())) {
        let query = BreadcrumbQuery {
            words: builder.query.clone(),
            schema_name: builder.schema_name.clone(),
            tags: builder.tags.clone(),
            neighbours: None,
            limit: builder.limit.unwrap_or(DEFAULT_LIMIT),
        };
        contexts.push((name.clone(), searched(listener, &query, None, viewer).await?));
    }
    Ok(contexts)
}

fn is_catalog(schema: Option<&str>) -> bool {
    schema == Some(CATALOG_SCHEMA)
}

/// Returns the records of a selector.
async fn fetched(listener: &Listener, selector: &Selector, record: &Breadcrumb, viewer: &Viewer) -> Result<Value, NoRun> {
    let words = match selector.fetch.method {
        FetchMethod::Vector => Some(selector.fetch.query.clone().unwrap_or_else(|| words_of(record))),
        _ => None,
    };
    let limit = selector.fetch.limit();
    // Conditions that the store does not know are judged here, so more records are read than are given.
    let is_exact = selector.any_tags.is_empty() && selector.context_match.is_empty();
    let query = BreadcrumbQuery {
        words,
        schema_name: selector.schema_name.clone(),
        tags: selector.all_tags.clone(),
        neighbours: Some(limit),
        limit: if is_exact { limit } else { MOST_READ },
    };
    searched(listener, &query, Some((selector, limit)), viewer).await
}

/// The most records that are read for a selector whose conditions the store does not know.
const MOST_READ: usize = 1_000;

/// Returns the text by which records like `record` are found.
fn words_of(record: &Breadcrumb) -> String {
    format!("{} {}", record.title, record.entity_keywords.join(" "))
}

/// Returns the views of the records that a search finds, and that `selector` selects.
async fn searched(
    listener: &Listener,
    query: &BreadcrumbQuery,
    selector: Option<(&Selector, usize)>,
    viewer: &Viewer,
) -> Result<Value, NoRun> {
    let breadcrumbs = listener.store().breadcrumbs();
    let found = search_breadcrumbs(breadcrumbs, query, viewer, listener.engine.now(), &listener.embedder).await?;
    if let Some(warning) = &found.warning {
        tracing::warn!("{warning}");
    }
    let mut views = Vec::new();
    for record in &found.breadcrumbs {
        let is_selected = selector.is_none_or(|(selector, _)| selector.matches(record, &record.context.value()));
        if is_selected && views.len() < selector.map_or(usize::MAX, |(_, limit)| limit) {
            views.push(shown(listener, record).await?);
        }
    }
    Ok(json!(views))
}

/// Returns the view of a record for models.
async fn shown(listener: &Listener, record: &Breadcrumb) -> Result<Value, StoreError> {
    let definition = match &record.schema_name {
        Some(schema) => listener.store().breadcrumbs().definition(schema, &record.project, listener.engine.now()).await?,
        None => None,
    };
    let seen = view(record, definition.as_ref());
    if let Some(warning) = seen.warning {
        tracing::warn!(breadcrumb = record.id.as_str(), "{warning}");
    }
    Ok(seen.record)
}

/// Returns a part of a request. A value that is too long becomes a document, which the part names.
fn part(label: &str, path: &str, value: &Value, documents: &mut Vec<InitialDocument>) -> String {
    let text = value.to_string();
    if text.len() <= MOST_INLINE {
        return format!("{label} {text}");
    }
    match DocumentPath::parse(path) {
        Ok(parsed) => {
            documents.push(InitialDocument::new(parsed, text.into_bytes()));
            format!("{label} the document {path}")
        }
        Err(_) => format!("{label} {text}"),
    }
}

/// Returns a name as a file has it.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' }).take(64).collect()
}
