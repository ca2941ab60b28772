//! Breadcrumbs: versioned, tagged JSON records that outlive runs (seeds 000, 001 and 003).
//!
//! The fields have the names that the seeds use. The rules of these records are in `baton-breadcrumb`, and stores keep them.

use serde::{Deserialize, Serialize};

use crate::id::{BreadcrumbId, ProjectId};
use crate::json::Json;
use crate::principal::Principal;
use crate::time::Timestamp;

/// A record, as its owner reads it: every field of one version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breadcrumb {
    /// Its id, unique within a store.
    pub id: BreadcrumbId,
    /// Its creator.
    pub owner: Principal,
    /// The project in which it was created.
    pub project: ProjectId,
    /// One line for lists.
    pub title: String,
    /// Name of its schema, in the form `noun.verb.vN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// The payload.
    pub context: Json,
    /// Routing, pointers and state, sorted, each once.
    pub tags: Vec<String>,
    /// Purpose of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A version for people, such as `1.2.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic_version: Option<String>,
    /// Changes to the context before a model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_hints: Option<Json>,
    /// Readers of the record.
    pub visibility: Visibility,
    /// Content of the record.
    pub sensitivity: Sensitivity,
    /// The moment from which it is gone.
    #[serde(default, with = "moment::optional", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Timestamp>,
    /// The kind of its end.
    pub ttl_type: TtlType,
    /// Numbers of the end: durations and reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_config: Option<TtlConfig>,
    /// Origin of its end; `None` if nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_source: Option<TtlSource>,
    /// Number of the version, from 1.
    pub version: u64,
    /// `sha256:` and the hash of the context's text.
    pub checksum: String,
    /// Length of the context's text.
    pub size_bytes: u64,
    /// Number of reads that counted, of all versions.
    #[serde(default)]
    pub read_count: u64,
    /// When it was created.
    #[serde(with = "moment")]
    pub created_at: Timestamp,
    /// Creator of the first version.
    pub created_by: Principal,
    /// When this version was created.
    #[serde(with = "moment")]
    pub updated_at: Timestamp,
    /// Creator of this version.
    pub updated_by: Principal,
    /// The most frequent words of its texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entity_keywords: Vec<String>,
}

/// Readers of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// The store.
    Public,
    /// The project.
    #[default]
    Team,
    /// The owner.
    Private,
}

/// Content of a record, by the harm of a disclosure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    /// Any model may read it.
    #[default]
    Low,
    /// Personal data: only agents that may read them.
    Pii,
    /// No model may read it.
    Secret,
}

/// Kind of a record's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TtlType {
    /// It has no end.
    #[default]
    Never,
    /// At a moment.
    Datetime,
    /// Some time after the end was set.
    Duration,
    /// After a number of reads.
    Usage,
    /// At a moment, or after some time, or after a number of reads: the first of them.
    Hybrid,
}

/// Numbers of a record's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TtlConfig {
    /// Minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
    /// Hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<u64>,
    /// Days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u64>,
    /// The read after which the record is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_reads: Option<u64>,
}

/// Origin of a record's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TtlSource {
    /// A change of the record named it.
    Manual,
    /// The definition of its schema.
    SchemaDefault,
    /// A condition in the definition of its schema.
    AutoApplied,
    /// The creation of the record named it.
    Explicit,
}

/// The content of a record to be created. Files of records have this form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBreadcrumb {
    /// See [`Breadcrumb::title`].
    pub title: String,
    /// See [`Breadcrumb::schema_name`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// See [`Breadcrumb::context`].
    #[serde(default)]
    pub context: Json,
    /// See [`Breadcrumb::tags`].
    #[serde(default)]
    pub tags: Vec<String>,
    /// See [`Breadcrumb::description`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// See [`Breadcrumb::semantic_version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic_version: Option<String>,
    /// See [`Breadcrumb::llm_hints`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_hints: Option<Json>,
    /// See [`Breadcrumb::visibility`].
    #[serde(default)]
    pub visibility: Visibility,
    /// See [`Breadcrumb::sensitivity`].
    #[serde(default)]
    pub sensitivity: Sensitivity,
    /// See [`Breadcrumb::ttl`].
    #[serde(default, with = "moment::optional", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Timestamp>,
    /// See [`Breadcrumb::ttl_type`]; without it, `ttl` and `ttl_config` decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_type: Option<TtlType>,
    /// See [`Breadcrumb::ttl_config`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_config: Option<TtlConfig>,
}

/// A change of a record: one new version, whatever it changes. Absent fields stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreadcrumbChange {
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The whole context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Json>,
    /// Values for the context: objects are merged at every depth, all else is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Json>,
    /// All tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Further tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_tags: Vec<String>,
    /// Tags to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_tags: Vec<String>,
    /// The description. An empty one removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version for people. An empty one removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic_version: Option<String>,
    /// The hints. Null removes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_hints: Option<Json>,
    /// The readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// The content's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity>,
    /// The end at a moment.
    #[serde(default, with = "moment::optional", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Timestamp>,
    /// The kind of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_type: Option<TtlType>,
    /// Numbers of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_config: Option<TtlConfig>,
    /// A judgement of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// A judgement of a record, by its effect on the tags that are its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether the record is approved, or rejected.
    pub approved: bool,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One version of a record, with the change that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreadcrumbVersion {
    /// The record from then on.
    pub breadcrumb: Breadcrumb,
    /// The judgement, if the version was made by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The version whose definition of a schema counts from then on, if the record defines one: this version or an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defines_by: Option<u64>,
}

/// The reader or writer of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// Its name.
    pub principal: Principal,
    /// The project in which it works.
    pub project: ProjectId,
    /// Whether an agent may read personal data.
    pub may_read_pii: bool,
}

impl Viewer {
    /// Whether the contents that it reads reach a model.
    pub fn is_model(&self) -> bool {
        matches!(self.principal, Principal::Agent(_))
    }
}

/// Conditions of a search. A record must meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreadcrumbQuery {
    /// Words of which a record has at least one. The records that fit best come first.
    pub words: Option<String>,
    /// The schema.
    pub schema_name: Option<String>,
    /// Tags, each of which the record has.
    pub tags: Vec<String>,
    /// The most neighbours of a search by meaning (default: [`DEFAULT_NEIGHBOURS`]). 0 searches by words. Stores do not read it.
    pub neighbours: Option<usize>,
    /// The most records.
    pub limit: usize,
}

/// The number of neighbours that a search by meaning finds unless its query sets another.
pub const DEFAULT_NEIGHBOURS: usize = 5;

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundBreadcrumbs {
    /// The records: the best fit first, or without words the newest.
    pub breadcrumbs: Vec<Breadcrumb>,
    /// Number of records found, with those beyond the limit.
    pub total: u64,
    /// The way that the search was done.
    pub method: SearchMethod,
    /// The reason why records were searched by words, if they should have been searched by meaning.
    pub warning: Option<String>,
}

/// A text of a record for a model that makes vectors of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedText {
    /// The record.
    pub id: BreadcrumbId,
    /// The version that has the text.
    pub version: u64,
    /// Title, description, tags and context, without the fields that hints exclude.
    pub text: String,
}

/// The records that a search would compare and that have no current vector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unembedded {
    /// The texts of the newest of them.
    pub texts: Vec<EmbeddedText>,
    /// Number of all of them.
    pub total: u64,
}

/// The most components of a vector.
pub const MAX_DIMENSIONS: usize = 8_192;

/// The kind of the vectors that can be compared with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorKind {
    /// The model that made them, with all that changes its vectors.
    pub model: String,
    /// Number of their components.
    pub dimensions: usize,
}

/// A vector of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordVector {
    /// The record.
    pub id: BreadcrumbId,
    /// The version that it was made of.
    pub version: u64,
    /// Components of a vector of length 1.
    pub vector: Vec<f32>,
}

/// The centre of a search by meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Centre {
    /// Kind of the vectors.
    pub kind: VectorKind,
    /// The vector of the words of the search, of length 1.
    pub vector: Vec<f32>,
    /// The most neighbours.
    pub neighbours: usize,
}

/// The way that a search was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMethod {
    /// By the distance of vectors.
    Vector,
    /// By the words of the record, ranked.
    Fulltext,
    /// By conditions alone.
    Filter,
}

/// Moments as records have them: text in ISO 8601.
mod moment {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Timestamp;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(moment)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }

    fn parse<E: Error>(text: &str) -> Result<Timestamp, E> {
        Timestamp::parse(text).map_err(|error| E::custom(format!("expected a moment such as 2027-01-31T09:00:00Z: {error}")))
    }

    /// Moments that may be absent.
    pub(super) mod optional {
        use serde::{Deserialize, Deserializer, Serializer};

        use super::Timestamp;

        #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
        pub(in super::super) fn serialize<S: Serializer>(moment: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
            match moment {
                Some(moment) => super::serialize(moment, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
            Option::<String>::deserialize(deserializer)?.as_deref().map(super::parse).transpose()
        }
    }
}
