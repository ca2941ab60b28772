//! An answer while it comes: from a provider, or from a cassette.

use std::time::{Duration, SystemTime};

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tokio::time::timeout;

use super::headers;
use crate::cassette::{Heard, NoAnswer, Wait};
use crate::governor::Left;

/// An answer whose head has come.
pub(super) struct Incoming<'h> {
    pub(super) status: u16,
    pub(super) content_type: String,
    /// Time that the provider asks to pause.
    pub(super) retry_after: Option<Duration>,
    /// Remaining limits, as far as announced.
    pub(super) left: Vec<Left>,
    source: Source,
    /// Recording of the answer.
    heard: Option<&'h mut Heard>,
}

/// Source of the body.
enum Source {
    /// From the provider, whose next bytes may take so long.
    Provider(Response, Duration),
    /// Recorded body, and the reason why it ended early.
    Cassette(Option<Vec<u8>>, Option<NoAnswer>),
}

impl<'h> Incoming<'h> {
    /// Returns the answer that `response` begins. Records it in `heard`.
    pub(super) fn of(response: Response, between_bytes: Duration, mut heard: Option<&'h mut Heard>) -> Self {
        let (head, now) = (response.headers(), SystemTime::now());
        let content_type = head.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_lowercase();
        let (status, retry_after, left) = (response.status().as_u16(), headers::retry_after(head, now), headers::left(head, now));
        if let Some(heard) = &mut heard {
            heard.head = Some((status, content_type.clone(), retry_after));
        }
        Self { status, content_type, retry_after, left, source: Source::Provider(response, between_bytes), heard }
    }

    /// Returns the answer that was recorded in `heard`, if one came.
    pub(super) fn played(heard: Heard) -> Result<Self, Option<NoAnswer>> {
        let Heard { head, body, no_answer } = heard;
        let Some((status, content_type, retry_after)) = head else { return Err(no_answer) };
        let source = Source::Cassette(Some(body), no_answer);
        Ok(Self { status, content_type, retry_after, left: Vec::new(), source, heard: None })
    }

    /// Returns the next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, NoAnswer> {
        let next = match &mut self.source {
            Source::Cassette(body, no_answer) => match (body.take(), no_answer.take()) {
                (Some(body), left) => {
                    *no_answer = left;
                    Ok(Some(body))
                }
                (None, Some(no_answer)) => Err(no_answer),
                (None, None) => Ok(None),
            },
            Source::Provider(response, limit) => match timeout(*limit, response.chunk()).await {
                Err(_) => Err(NoAnswer::TimedOut { waiting_for: Wait::NextBytes }),
                Ok(Ok(bytes)) => Ok(bytes.map(Vec::from)),
                Ok(Err(error)) => Err(NoAnswer::Broke { reason: innermost_cause(&error) }),
            },
        };
        if let Some(heard) = &mut self.heard {
            match &next {
                Ok(bytes) => heard.body.extend_from_slice(bytes.as_deref().unwrap_or_default()),
                Err(no_answer) => heard.no_answer = Some(no_answer.clone()),
            }
        }
        next
    }

    /// Reads the rest of the body into `body`, at most `most` bytes. Returns whether that was all of it.
    pub(super) async fn whole(&mut self, most: usize, body: &mut Vec<u8>) -> Result<bool, NoAnswer> {
        while let Some(bytes) = self.next().await? {
            let room = most - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the innermost cause of an HTTP error, which is the most specific. It contains no address.
pub(super) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}
