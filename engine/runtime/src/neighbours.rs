//! Searches of breadcrumbs by meaning: the nearest neighbours of the words.
//!
//! Vectors are made when a search needs them, so no write waits for a provider or fails because of one. A search makes a bounded number of
//! vectors in a bounded time, and the next search continues. A failure never fails the search: records without a vector are
//! searched by words, and the answer names the reason.

use std::collections::VecDeque;
use std::time::Duration;

use baton_models::{Embedder, ModelError, Vectors};
use baton_store::{Breadcrumbs, StoreError};
use baton_types::breadcrumb::{
    BreadcrumbQuery, Centre, DEFAULT_NEIGHBOURS, EmbeddedText, FoundBreadcrumbs, RecordVector, Unembedded, VectorKind, Viewer,
};
use baton_types::id::TaskId;
use baton_types::text::shortened;
use baton_types::time::Timestamp;
use tokio::time::Instant;

/// The time that the requests of one search may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most requests of one search, after that for its words.
const MAX_REQUESTS: usize = 16;
/// The most texts of a request.
const MAX_TEXTS: usize = 64;
/// The most bytes of the texts of a request: about 8,000 tokens, which a small model on a processor reads in a few seconds.
const MAX_BYTES: usize = 32 << 10;
/// The most bytes of the words of a search that are sent.
const MAX_WORDS: usize = 4_000;
/// The most characters of a reason.
const MAX_REASON: usize = 300;

/// Makes vectors of texts.
pub trait Embeds: Send + Sync {
    /// Returns a text that is the same for two models only if their vectors can be compared.
    fn identity(&self) -> String;

    /// Returns a vector of length 1 for each text, within the time `limit`.
    fn embed(&self, texts: &[&str], limit: Duration) -> impl Future<Output = Result<Vec<Vec<f32>>, NoVectors>> + Send;
}

/// Why texts have no vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoVectors {
    /// The reason.
    pub reason: String,
    /// Whether one of the texts is the reason, so that others may get vectors.
    pub is_of_texts: bool,
}

impl From<ModelError> for NoVectors {
    fn from(error: ModelError) -> Self {
        let is_of_texts = matches!(
            error,
            ModelError::Rejected { .. }
                | ModelError::ContextExceeded { .. }
                | ModelError::Filtered { .. }
                | ModelError::BadTurn { .. }
        ) && !error.is_unavailable();
        Self { reason: error.to_string(), is_of_texts }
    }
}

/// A model that a person asks, outside of any run.
impl Embeds for Embedder {
    fn identity(&self) -> String {
        Self::identity(self)
    }

    async fn embed(&self, texts: &[&str], limit: Duration) -> Result<Vec<Vec<f32>>, NoVectors> {
        Ok(Self::embed(self, texts, &TaskId::root(), limit).await.map(|Vectors { vectors, .. }| vectors)?)
    }
}

/// Returns the records that meet all conditions: the nearest neighbours of the words, if `embedder` is a model for that, else those with at
/// least one of the words. `embedder` is `Ok(None)` if none is configured, and has the reason if the configured one cannot be asked.
pub async fn search<E: Embeds>(
    breadcrumbs: &dyn Breadcrumbs,
    query: &BreadcrumbQuery,
    viewer: &Viewer,
    now: Timestamp,
    embedder: &Result<Option<E>, String>,
) -> Result<FoundBreadcrumbs, StoreError> {
    let words = query.words.as_deref().filter(|words| words.contains(char::is_alphanumeric) && query.neighbours != Some(0));
    let answer = match (words, embedder) {
        (None, _) => Err(None),
        (Some(_), Ok(None)) => Err(query.neighbours.map(|_| "models.json names no model for embeddings".to_owned())),
        (Some(_), Err(reason)) => Err(Some(reason.clone())),
        (Some(words), Ok(Some(embedder))) => by_meaning(breadcrumbs, query, words, viewer, now, embedder).await?.map_err(Some),
    };
    match answer {
        Ok(found) => Ok(found),
        Err(reason) => {
            let found = breadcrumbs.search(query, viewer, now).await?;
            Ok(FoundBreadcrumbs { warning: reason.map(|reason| format!("searched by words: {}", reason_line(&reason))), ..found })
        }
    }
}

/// Searches by meaning. `Ok(Err(_))` is the reason why that is not possible.
async fn by_meaning(
    breadcrumbs: &dyn Breadcrumbs,
    query: &BreadcrumbQuery,
    words: &str,
    viewer: &Viewer,
    now: Timestamp,
    embedder: &impl Embeds,
) -> Result<Result<FoundBreadcrumbs, String>, StoreError> {
    let until = Instant::now() + PATIENCE;
    let words = &words[..words.floor_char_boundary(MAX_WORDS)];
    let vector = match embedder.embed(&[words], PATIENCE).await.map(|mut vectors| vectors.pop()) {
        Ok(Some(vector)) => vector,
        Ok(None) => return Ok(Err("the provider sent no vector".to_owned())),
        Err(NoVectors { reason, .. }) => return Ok(Err(reason)),
    };
    let kind = VectorKind { model: embedder.identity(), dimensions: vector.len() };
    let missing = breadcrumbs.unembedded(query, &kind, viewer, now).await?;
    let warning = add_vectors(breadcrumbs, &kind, &missing, embedder, until).await;
    let centre = Centre { kind, vector, neighbours: query.neighbours.unwrap_or(DEFAULT_NEIGHBOURS) };
    let found = breadcrumbs.nearest(query, &centre, viewer, now).await?;
    Ok(Ok(FoundBreadcrumbs { warning, ..found }))
}

/// Makes the missing vectors, as many as fit into the bounds. Returns a warning if some are missing still.
async fn add_vectors(
    breadcrumbs: &dyn Breadcrumbs,
    kind: &VectorKind,
    missing: &Unembedded,
    embedder: &impl Embeds,
    until: Instant,
) -> Option<String> {
    let mut batches = batches(&missing.texts);
    let (mut made, mut reason) = (0, None);
    for _ in 0..MAX_REQUESTS {
        let left = until.saturating_duration_since(Instant::now());
        let Some(batch) = (if left.is_zero() { None } else { batches.pop_front() }) else { break };
        let texts: Vec<&str> = batch.iter().map(|text| text.text.as_str()).collect();
        match embedder.embed(&texts, left).await {
            Ok(vectors) => {
                let vectors = batch.iter().zip(vectors).map(|(text, vector)| {
                    let EmbeddedText { id, version, .. } = text;
                    RecordVector { id: id.clone(), version: *version, vector }
                });
                if let Err(error) = breadcrumbs.keep_vectors(kind, vectors.collect()).await {
                    reason = Some(format!("the vectors cannot be stored: {error}"));
                    break;
                }
                made += batch.len() as u64;
            }
            // One text that the provider does not take must not keep the others out.
            Err(failed) if failed.is_of_texts => {
                if let (first, second @ [_, ..]) = batch.split_at(batch.len().div_ceil(2)) {
                    batches.extend([first, second]);
                }
                reason = Some(failed.reason);
            }
            Err(failed) => {
                reason = Some(failed.reason);
                break;
            }
        }
    }
    let left = missing.total.saturating_sub(made);
    let reason = reason.map(|reason| format!(" ({})", reason_line(&reason))).unwrap_or_default();
    (left > 0).then(|| format!("records without a vector, searched by words: {left}{reason}. The next search makes more vectors"))
}

/// Returns the texts in parts for a request each.
fn batches(texts: &[EmbeddedText]) -> VecDeque<&[EmbeddedText]> {
    let (mut batches, mut begin, mut bytes) = (VecDeque::new(), 0, 0);
    for (place, text) in texts.iter().enumerate() {
        if place > begin && (place - begin == MAX_TEXTS || bytes + text.text.len() > MAX_BYTES) {
            batches.push_back(&texts[begin..place]);
            (begin, bytes) = (place, 0);
        }
        bytes += text.text.len();
    }
    batches.extend(Some(&texts[begin..]).filter(|rest| !rest.is_empty()));
    batches
}

/// Returns a reason in one line of bounded length: it may have the words of a server.
fn reason_line(reason: &str) -> String {
    let line: Vec<&str> = reason.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    shortened(&line.join(" "), MAX_REASON)
}
