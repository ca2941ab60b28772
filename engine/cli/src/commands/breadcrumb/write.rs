//! `breadcrumb create`, `update`, `approve` and `reject`.

use baton_breadcrumb::hint_warning;
use baton_store::{Creation, Update, Written};
use baton_types::breadcrumb::{BreadcrumbChange, NewBreadcrumb, Sensitivity, TtlConfig, Verdict, Visibility};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Desk, desk_with, new_id};
use crate::app::given_text;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::style;
use crate::terminal;
use crate::text::{Text, text};

/// Fields that a creation and a change can set alike.
#[derive(Debug, Args)]
struct Fields {
    /// Purpose of the record. `update --description ''` removes it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A version for people, such as 1.2.0
    #[arg(long, value_name = "VERSION")]
    semantic_version: Option<String>,
    /// Changes to the context for models: JSON with `exclude`, `transform` and `mode`, @FILE, or - for standard input. `update --hints
    /// null` removes them
    #[arg(long, value_name = "JSON")]
    hints: Option<String>,
    /// Readers of the record [default: team]
    #[arg(long, value_name = "READERS")]
    visibility: Option<Readers>,
    /// Content of the record [default: low]
    #[arg(long, value_name = "KIND")]
    sensitivity: Option<Content>,
    /// The moment from which the record is gone, such as 2027-01-31T09:00:00Z
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    ttl: Option<Timestamp>,
    /// Minutes after which the record is gone, such as 90
    #[arg(long, value_name = "COUNT")]
    ttl_minutes: Option<u64>,
    /// Days after which the record is gone, such as 30
    #[arg(long, value_name = "COUNT")]
    ttl_days: Option<u64>,
    /// Number of reads after which the record is gone, such as 1
    #[arg(long, value_name = "COUNT")]
    max_reads: Option<u64>,
    /// A key for this write: repeating it with the same key changes nothing
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Readers of a record.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Readers {
    /// All agents that use the store
    Public,
    /// The agents of this project
    Team,
    /// The owner
    Private,
}

/// Content of a record.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Content {
    /// Any model may read it
    Low,
    /// Personal data, for agents that may read them
    Pii,
    /// No model may read it
    Secret,
}

impl From<Readers> for Visibility {
    fn from(readers: Readers) -> Self {
        match readers {
            Readers::Public => Self::Public,
            Readers::Team => Self::Team,
            Readers::Private => Self::Private,
        }
    }
}

impl From<Content> for Sensitivity {
    fn from(content: Content) -> Self {
        match content {
            Content::Low => Self::Low,
            Content::Pii => Self::Pii,
            Content::Secret => Self::Secret,
        }
    }
}

impl Fields {
    fn ttl_config(&self) -> Option<TtlConfig> {
        let config = TtlConfig { minutes: self.ttl_minutes, hours: None, days: self.ttl_days, max_reads: self.max_reads };
        Some(config).filter(|config| *config != TtlConfig::default())
    }

    fn hints(&self, place: &Place) -> Result<Option<Json>, Failure> {
        self.hints.clone().map(|hints| json_given(place, hints, "the hints")).transpose()
    }
}

/// Arguments of `create`.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// One line for lists
    #[arg(long, value_name = "TEXT")]
    title: String,
    /// The payload: JSON, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// Name of the schema, such as report.text.v1
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<String>,
    /// A tag. May be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    fields: Fields,
}

/// Arguments of `update`.
#[derive(Debug, Args)]
pub(super) struct UpdateArgs {
    /// The breadcrumb: its id or the beginning of its id
    id: String,
    /// The version that is to be changed. If the record has another version, nothing changes
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// The new title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The whole new context: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", conflicts_with = "merge")]
    context: Option<String>,
    /// Values for the context: an object that is merged into it at every depth. JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    merge: Option<String>,
    /// A tag to add. May be repeated
    #[arg(long, value_name = "TAG")]
    add_tag: Vec<String>,
    /// A tag to remove. May be repeated
    #[arg(long, value_name = "TAG")]
    remove_tag: Vec<String>,
    #[command(flatten)]
    fields: Fields,
}

/// Arguments of `approve` and `reject`.
#[derive(Debug, Args)]
pub(super) struct VerdictArgs {
    /// The breadcrumb: its id or the beginning of its id
    id: String,
    /// The version that is judged. If the record has another version, nothing changes
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|error| format!("expected a moment such as 2027-01-31T09:00:00Z: {error}"))
}

/// Returns the JSON in `text`, in a file or on standard input.
fn json_given(place: &Place, text: String, what: &str) -> Result<Json, Failure> {
    let text = given_text(place, text, &format!("{what}: there is no JSON"))?;
    Json::parse(&text).map_err(|error| Failure::of_json(what, &error))
}

/// Creates a record.
pub(super) async fn create(args: CreateArgs, place: &Place) -> Result<Exit, Failure> {
    let CreateArgs { title, context, schema, tags, fields } = args;
    let new = NewBreadcrumb {
        title,
        schema_name: schema,
        context: json_given(place, context.unwrap_or_else(|| "{}".to_owned()), "the context")?,
        tags,
        llm_hints: fields.hints(place)?,
        visibility: fields.visibility.map(Visibility::from).unwrap_or_default(),
        sensitivity: fields.sensitivity.map(Sensitivity::from).unwrap_or_default(),
        ttl: fields.ttl,
        ttl_type: None,
        ttl_config: fields.ttl_config(),
        description: fields.description,
        semantic_version: fields.semantic_version,
    };
    let Desk { store, author } = Desk::open(place)?;
    let creation = Creation { id: new_id(), new, by: author, key: fields.key, at: terminal::now() };
    report(store.breadcrumbs().create(creation).await.map_err(Failure::of_store)?, place)
}

/// Changes a record.
pub(super) async fn update(args: UpdateArgs, place: &Place) -> Result<Exit, Failure> {
    let UpdateArgs { id, if_version, title, context, merge, add_tag, remove_tag, fields } = args;
    let change = BreadcrumbChange {
        title,
        context: context.map(|context| json_given(place, context, "the context")).transpose()?,
        merge: merge.map(|merge| json_given(place, merge, "the values for the context")).transpose()?,
        tags: None,
        add_tags: add_tag,
        remove_tags: remove_tag,
        llm_hints: fields.hints(place)?,
        visibility: fields.visibility.map(Visibility::from),
        sensitivity: fields.sensitivity.map(Sensitivity::from),
        ttl: fields.ttl,
        ttl_type: None,
        ttl_config: fields.ttl_config(),
        verdict: None,
        description: fields.description,
        semantic_version: fields.semantic_version,
    };
    perform(&id, change, if_version, fields.key, place).await
}

/// Approves or rejects a record.
pub(super) async fn judge(args: VerdictArgs, approved: bool, place: &Place) -> Result<Exit, Failure> {
    let verdict = Some(Verdict { approved, reason: args.reason });
    perform(&args.id, BreadcrumbChange { verdict, ..BreadcrumbChange::default() }, args.if_version, None, place).await
}

async fn perform(
    name: &str,
    change: BreadcrumbChange,
    expected: Option<u64>,
    key: Option<String>,
    place: &Place,
) -> Result<Exit, Failure> {
    let (Desk { store, author }, id) = desk_with(name, place).await?;
    let update = Update { id, change, expected, by: author, key, at: terminal::now() };
    report(store.breadcrumbs().change(update).await.map_err(Failure::of_store)?, place)
}

/// Prints the version that a write made, and warns of hints that cannot be followed.
fn report(written: Written, place: &Place) -> Result<Exit, Failure> {
    let Written { breadcrumb, repeated, .. } = written;
    let warning = hint_warning(&breadcrumb);
    if place.screen.is_text() {
        let again = if repeated { " (made by an earlier write with this key)" } else { "" };
        place.screen.text(&text!("{} version {}{again}", style::name(&breadcrumb.id), breadcrumb.version))?;
        if let Some(warning) = warning {
            place.screen.tell(&text!("{} {}", style::faint("warning:"), Text::line(&warning)));
        }
    } else {
        let (id, version, tags) = (&breadcrumb.id, breadcrumb.version, &breadcrumb.tags);
        place.screen.json(&json!({"id": id, "version": version, "tags": tags, "repeated": repeated, "warning": warning}))?;
    }
    Ok(Exit::Done)
}
