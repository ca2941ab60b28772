//! The rules of breadcrumbs: what a record may hold, what a change makes of it, who may read it, and what a model sees.
//!
//! Records are documents of strangers. So size, nesting and number of their parts are bounded before anything else is done
//! with them, and their text is only ever data: a template in a record sees that record alone.
//!
//! This crate keeps no records and knows no clock: stores call it within their transactions, so that a rule and the write
//! that it permits cannot be separated.

mod access;
mod agent;
mod bounds;
mod change;
mod definition;
mod hints;
mod import;
mod schedule;
mod selector;
mod tags;
mod trigger;
mod ttl;
mod words;

use baton_types::breadcrumb::{Breadcrumb, Sensitivity};
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;
use serde_json::{Value, json};

pub use access::{Access, Author, may_read, may_write};
pub use agent::{AGENT_SCHEMA, AgentDefinition, BuilderKind, ContextBuilder, DEFAULT_TRIGGER_DEPTH, Transform};
pub use bounds::{MAX_CONTEXT_BYTES, MAX_DEPTH, MAX_TAGS};
pub use change::{changed, created};
pub use definition::{DEFINITION_SCHEMA, Definition};
pub use import::import;
pub use schedule::{Missed, SCHEDULE_SCHEMA, Schedule, TICK_SCHEMA};
pub use selector::{CATALOG_SCHEMA, Fetch, FetchMethod, Selector};
pub use trigger::{
    AGENT_RESPONSE_SCHEMA, Handler, REQUEST_SCHEMA, RESPONSE_SCHEMA, Trigger, TriggerState, is_new_request, session_of,
    session_tag, starts,
};
pub use ttl::is_gone;

/// Why a record was not created, changed or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BreadcrumbError {
    /// No record of this id exists for the reader: there is none, it has ended, or the reader may not know of it.
    #[error("there is no breadcrumb {0}")]
    Unknown(BreadcrumbId),
    /// The record has another version than the writer knows.
    #[error(
        "version_mismatch: the breadcrumb has version {found}, and the change was made for version {expected}; read it again and repeat \
         the change for version {found}"
    )]
    VersionMismatch {
        /// The version that the writer knows.
        expected: u64,
        /// The version that the record has.
        found: u64,
    },
    /// An imported file and its record were both changed.
    #[error(
        "conflict: the file and its record were both changed since the last import, which made version {imported}; the record has version \
         {found}. `import --replace` replaces the record"
    )]
    ImportConflict {
        /// The version that the last import made.
        imported: u64,
        /// The version that the record has.
        found: u64,
    },
    /// The idempotency key belongs to another write.
    #[error("the idempotency key {0:?} belongs to another write; use a new key, or repeat that write unchanged")]
    KeyConflict(String),
    /// The writer may not do this.
    #[error("{0}")]
    NotAllowed(String),
    /// A field has a value that no record may have.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The reason, with the limit and the cure.
        reason: String,
    },
    /// The context does not meet the definition of its schema.
    #[error("the context does not meet the schema {schema}: {}", faults.join("; "))]
    Schema {
        /// The schema.
        schema: String,
        /// One fragment for each fault.
        faults: Vec<String>,
    },
}

impl BreadcrumbError {
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }
}

/// A record as a model reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelView {
    /// The record without owner, checksum and end, its context changed as the hints describe.
    pub record: Value,
    /// Why the context was left as it is, if a hint cannot be followed.
    pub warning: Option<String>,
}

/// Returns a context as `hints` change it, and the reason if they cannot be followed: then the context is left as it is.
pub fn context_for_models(context: &Json, hints: Option<&Json>) -> (Value, Option<String>) {
    match hints {
        Some(hints) => hints::applied(context, hints),
        None => (context.value(), None),
    }
}

/// Returns what is wrong with the hints of a record, as its readers would meet it. The hints of a definition are for other contexts, so
/// only their form is checked.
pub fn hint_warning(record: &Breadcrumb) -> Option<String> {
    let hints = record.llm_hints.as_ref()?;
    match record.schema_name.as_deref() {
        Some(DEFINITION_SCHEMA) => hints::fault(hints),
        _ => hints::applied(&record.context, hints).1,
    }
}

/// Returns the texts of a record's context that a search looks through. Fields that hints exclude are not among them: an agent that
/// guesses a word would learn whether the record has it.
pub fn searched_text(record: &Breadcrumb, definition: Option<&Definition>) -> String {
    let context = record.context.value();
    let visible = match hints_of(record, definition) {
        Some(hints) => hints::without_excluded(context, hints),
        None => context,
    };
    words::of_value(&visible)
}

/// The most bytes of a text for a model that makes vectors of texts: about 1,000 tokens, which most such models take.
const MAX_EMBEDDED_BYTES: usize = 4_000;

/// Returns the text of a record for a model that makes vectors of texts: the texts that a search looks through, up to a bound. `None` if
/// the record must not be sent to one: only records of the sensitivity `low` are.
pub fn embedded_text(record: &Breadcrumb, definition: Option<&Definition>) -> Option<String> {
    if record.sensitivity != Sensitivity::Low {
        return None;
    }
    let description = record.description.as_deref().unwrap_or_default();
    let parts = [record.title.clone(), description.to_owned(), record.tags.join(" "), searched_text(record, definition)];
    let mut text = parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n");
    text.truncate(text.floor_char_boundary(MAX_EMBEDDED_BYTES));
    Some(text)
}

/// Returns the hints that count for a record: its own, else those of the definition of its schema.
fn hints_of<'a>(record: &'a Breadcrumb, definition: Option<&'a Definition>) -> Option<&'a Json> {
    record.llm_hints.as_ref().or_else(|| definition.and_then(Definition::hints))
}

/// Returns the view of a record for models. Its own hints count, else those of the definition of its schema.
pub fn view(record: &Breadcrumb, definition: Option<&Definition>) -> ModelView {
    let (context, warning) = context_for_models(&record.context, hints_of(record, definition));
    let mut view = json!({"id": record.id, "title": record.title});
    let fields = view.as_object_mut().expect("it was made as an object");
    let texts = [
        ("schema_name", &record.schema_name),
        ("description", &record.description),
        ("semantic_version", &record.semantic_version),
    ];
    for (name, text) in texts {
        fields.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
    }
    fields.insert("tags".to_owned(), json!(record.tags));
    fields.insert("context".to_owned(), context);
    fields.insert("version".to_owned(), json!(record.version));
    fields.insert("updated_at".to_owned(), json!(record.updated_at.to_string()));
    ModelView { record: view, warning }
}
