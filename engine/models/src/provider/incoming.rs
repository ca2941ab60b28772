//! An answer while it comes: from a provider, or from a cassette.

use std::time::{Duration, SystemTime};

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use tokio::time::timeout;

use crate::cassette::{Heard, NoAnswer, Wait};

/// An answer whose head has come.
pub(super) struct Incoming<'h> {
    pub(super) status: u16,
    pub(super) content_type: String,
    /// How long the provider wants to be left alone.
    pub(super) retry_after: Option<Duration>,
    source: Source,
    /// Where what comes is put down.
    heard: Option<&'h mut Heard>,
}

/// Where the body comes from.
enum Source {
    /// From the provider, whose next bytes may take so long.
    Provider(Response, Duration),
    /// What was recorded of it, and why there was no more.
    Cassette(Option<Vec<u8>>, Option<NoAnswer>),
}

impl<'h> Incoming<'h> {
    /// The answer that `response` begins. What comes of it is put down in `heard`.
    pub(super) fn of(response: Response, between_bytes: Duration, mut heard: Option<&'h mut Heard>) -> Self {
        let header = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (status, content_type) = (response.status().as_u16(), header(CONTENT_TYPE).unwrap_or_default().to_lowercase());
        let retry_after = header(RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
        if let Some(heard) = &mut heard {
            heard.head = Some((status, content_type.clone(), retry_after));
        }
        Self { status, content_type, retry_after, source: Source::Provider(response, between_bytes), heard }
    }

    /// The answer that was put down in `heard`, if one came.
    pub(super) fn played(heard: Heard) -> Result<Self, Option<NoAnswer>> {
        let Heard { head, body, no_answer } = heard;
        let Some((status, content_type, retry_after)) = head else { return Err(no_answer) };
        Ok(Self { status, content_type, retry_after, source: Source::Cassette(Some(body), no_answer), heard: None })
    }

    /// The next bytes; `None` at the end.
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
                Ok(Err(error)) => Err(NoAnswer::Broke { reason: told(&error) }),
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

    /// The rest of the body; `None` if it has more than `most` bytes.
    pub(super) async fn whole(&mut self, most: usize) -> Result<Option<Vec<u8>>, NoAnswer> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next().await? {
            if body.len() + bytes.len() > most {
                return Ok(None);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(Some(body))
    }
}

/// The innermost reason of an error of HTTP, which says more than the outer ones. No address is in it.
pub(super) fn told(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}

/// What a `Retry-After` header asks for at `now`: seconds or a date; `None` if it is neither.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?;
    let until = SystemTime::from(date.timestamp());
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_a_date_or_nothing() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480 - 20);
        let asked = |value| retry_after(value, now);
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked("3600"), Some(Duration::from_hours(1)));
        assert_eq!(asked("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(20)));
        assert_eq!(asked("Wed, 21 Oct 2009 07:28:00 GMT"), Some(Duration::ZERO));
        for garbage in ["", "soon", "-1", "NaN", "1e400"] {
            assert_eq!(asked(garbage), None, "{garbage}");
        }
    }
}
