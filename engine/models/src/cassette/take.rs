//! Recording: one take for each request that is made.

use std::sync::Arc;

use tokio::time::Instant;

use super::body::{Body, InPieces};
use super::form::{Came, Cassette, Heard, NoAnswer, Occasion, Sent, milliseconds};
use super::{CassetteError, Cassettes, folder};

/// The requests that one model is asked on one occasion, as they are recorded.
pub(crate) struct Takes {
    cassettes: Arc<Cassettes>,
    /// The next cassette, before anything came.
    blank: Cassette,
}

/// A request that is being made. If it is dropped before anything came of it, it was given up, and recorded so.
pub(crate) struct Take {
    cassettes: Arc<Cassettes>,
    /// `None` once it is written.
    blank: Option<Cassette>,
    begun: Instant,
    /// Answer so far.
    pub(crate) heard: Heard,
}

impl Cassettes {
    /// Records the requests that ask for `body` on this occasion, from the first of them on.
    ///
    /// Cassettes of an earlier process that died before the answer was durable are replaced. Cassettes of other models
    /// for the same occasion stay: this model is asked because they gave no answer.
    pub(crate) fn takes(
        self: &Arc<Self>,
        occasion: Occasion,
        provider: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Takes, CassetteError> {
        if let Some(fault) = self.fault() {
            return Err(fault.clone());
        }
        let mut first = 1;
        while let Some(earlier) = folder::read::<Cassette>(&self.folder, &occasion.file(first))?
            && earlier.occasion.model != occasion.model
        {
            first += 1;
        }
        let mut stale = first;
        while folder::remove(&self.folder, &occasion.file(stale))? {
            stale += 1;
        }
        let body = self.body(body, &occasion.file(first), provider)?;
        let request = Sent { provider: provider.to_owned(), path: path.to_owned(), body };
        let blank =
            Cassette { occasion, attempt: first, request, answer: None, failure: None, given_up_after_milliseconds: None };
        Ok(Takes { cassettes: Arc::clone(self), blank })
    }

    /// `bytes` as a cassette may have them.
    pub(super) fn body(&self, bytes: &[u8], name: &str, provider: &str) -> Result<Body, CassetteError> {
        Body::of(bytes, &self.secrets())
            .map_err(|InPieces| CassetteError::SecretInPieces { file: self.folder.join(name), provider: provider.to_owned() })
    }
}

impl Takes {
    /// Begins the next request.
    pub(crate) fn next(&mut self) -> Take {
        let next = Cassette { attempt: self.blank.attempt + 1, ..self.blank.clone() };
        let blank = Some(std::mem::replace(&mut self.blank, next));
        Take { cassettes: Arc::clone(&self.cassettes), blank, begun: Instant::now(), heard: Heard::default() }
    }
}

impl Take {
    /// Writes down what came of the request.
    ///
    /// A few kilobytes, written where the answer came, and not by another thread: no cancellation may come between.
    pub(crate) fn keep(mut self) -> Result<(), CassetteError> {
        let Some(blank) = self.blank.take() else { return Ok(()) };
        let heard = std::mem::take(&mut self.heard);
        let name = blank.occasion.file(blank.attempt);
        let scrubbed = |text: &str| self.cassettes.secrets().scrubbed(text).into_owned();
        let answer = match heard.head {
            Some((status, content_type, retry_after)) => Some(Came {
                status,
                content_type: scrubbed(&content_type),
                retry_after_milliseconds: retry_after.map(milliseconds),
                body: self.cassettes.body(&heard.body, &name, &blank.request.provider)?,
            }),
            None => None,
        };
        let failure = heard.no_answer.map(|no_answer| match no_answer {
            NoAnswer::Unreachable { reason } => NoAnswer::Unreachable { reason: scrubbed(&reason) },
            NoAnswer::Broke { reason } => NoAnswer::Broke { reason: scrubbed(&reason) },
            other @ (NoAnswer::TimedOut { .. } | NoAnswer::LeftAlone { .. }) => other,
        });
        folder::write(&self.cassettes.folder, &name, &Cassette { answer, failure, ..blank })
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        let Some(blank) = self.blank.take() else { return };
        let given_up_after_milliseconds = Some(milliseconds(self.begun.elapsed()));
        let name = blank.occasion.file(blank.attempt);
        if let Err(error) = folder::write(&self.cassettes.folder, &name, &Cassette { given_up_after_milliseconds, ..blank }) {
            tracing::error!(%error, "the recording is incomplete");
            // The next request fails for it.
            let _the_first_counts = self.cassettes.fault.set(error);
        }
    }
}
