//! Playing: what was recorded of a request that is asked again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::difference::{Difference, difference};
use super::form::{Cassette, Heard, Occasion, Sent};
use super::{CassetteError, Cassettes, folder};

/// Additional time to wait for an answer that the recorded run gave up.
const GRACE: Duration = Duration::from_secs(10);

/// The recorded requests of one model on one occasion.
pub(crate) struct Playback {
    cassettes: Arc<Cassettes>,
    occasion: Occasion,
    /// The request as it is now, in the form of a cassette's.
    now: Value,
    /// The number of the cassette that comes next.
    next: u32,
}

impl Cassettes {
    /// Finds what was recorded of the requests that ask for `body` on this occasion.
    ///
    /// Fails with [`CassetteError::Missing`] if nothing was asked on this occasion, and with [`CassetteError::Different`] if only
    /// other models were.
    pub(crate) fn playback(
        self: &Arc<Self>,
        occasion: Occasion,
        provider: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Playback, CassetteError> {
        let body = self.body(body, &occasion.file(1), provider)?;
        let now = json!(Sent { provider: provider.to_owned(), path: path.to_owned(), body });
        let mut next = 1;
        while let Some(recorded) = folder::read::<Cassette>(&self.folder, &occasion.file(next))? {
            if recorded.occasion.model == occasion.model {
                return Ok(Playback { cassettes: Arc::clone(self), occasion, now, next });
            }
            next += 1;
        }
        // A first cassette of another model is a more useful error than a missing one.
        let first = folder::read::<Cassette>(&self.folder, &occasion.file(1))?;
        let file = self.folder.join(occasion.file(1));
        Err(match first.and_then(|first| difference("/occasion", &json!(first.occasion), &json!(occasion))) {
            Some(Difference { pointer, first: recorded, second: now }) => {
                CassetteError::Different { file, pointer, recorded, now }
            }
            None => CassetteError::Missing { file },
        })
    }
}

impl Playback {
    /// Returns the answer to the next request, which must equal the recorded one. An answer that the recorded run gave
    /// up is waited for as long as in that run.
    pub(crate) async fn next(&mut self) -> Result<Heard, CassetteError> {
        let name = self.occasion.file(self.next);
        let file = self.cassettes.folder.join(&name);
        let Some(recorded) = folder::read::<Cassette>(&self.cassettes.folder, &name)? else {
            return Err(CassetteError::Missing { file });
        };
        if let Some(found) = difference("/request", &json!(recorded.request), &self.now) {
            let Difference { pointer, first: recorded, second: now } = found;
            return Err(CassetteError::Different { file, pointer, recorded, now });
        }
        self.next += 1;
        if let Some(milliseconds) = recorded.given_up_after_milliseconds {
            // The same timeout applies here, and ends the wait earlier.
            tokio::time::sleep(Duration::from_millis(milliseconds).saturating_add(GRACE)).await;
            return Err(CassetteError::NotGivenUp { file, waited_milliseconds: milliseconds });
        }
        let unreadable = |reason: String| CassetteError::Unreadable { file: file.clone(), reason };
        if recorded.answer.is_none() && recorded.failure.is_none() {
            return Err(unreadable("it has neither an answer nor a failure".to_owned()));
        }
        let mut heard = Heard { no_answer: recorded.failure, ..Heard::default() };
        if let Some(answer) = recorded.answer {
            heard.body = answer.body.bytes().map_err(|error| unreadable(format!("the answer's base64: {error}")))?;
            let retry_after = answer.retry_after_milliseconds.map(Duration::from_millis);
            heard.head = Some((answer.status, answer.content_type, retry_after));
        }
        Ok(heard)
    }

    /// Whether the recorded run made the same request again.
    pub(crate) fn goes_on(&self) -> Result<bool, CassetteError> {
        let recorded = folder::read::<Cassette>(&self.cassettes.folder, &self.occasion.file(self.next))?;
        Ok(recorded.is_some_and(|recorded| recorded.occasion.model == self.occasion.model && json!(recorded.request) == self.now))
    }
}
