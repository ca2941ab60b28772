//! Limits in the headers of an answer: the pause that a provider asks for, and the amounts that are left.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::governor::{Left, Quota};

/// Numbers from here on are a moment in seconds since 1970, not a duration of thirty years.
const EPOCH_SECONDS: f64 = 1e9;

/// Numbers from here on are a moment in milliseconds since 1970.
const EPOCH_MILLISECONDS: f64 = 1e11;

/// Headers that ask for a pause of so many milliseconds: `OpenAI`'s and Azure's. Their SDKs look at them before
/// `Retry-After`, which is the same in whole seconds.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// Limits, with the names of their headers: for the whole limit (`limit`), for the rest (`remaining`), and for the time until
/// the whole limit is available again (`reset`).
///
/// - `OpenAI` (<https://platform.openai.com/docs/guides/rate-limits>, "Rate limits in headers"): the time until the
///   limit "resets to its initial state", such as `1s` or `6m0s`. Azure sends plain seconds and, if unknown, `-1`.
/// - Anthropic (<https://docs.anthropic.com/en/api/rate-limits>, "Response headers"): a moment in RFC 3339. `max_tokens` "does
///   not factor into" the limit of output tokens there.
/// - `OpenRouter` (<https://openrouter.ai/docs/api-reference/limits>): a moment in milliseconds since 1970.
const LIMITS: [(Quota, &str); 7] = [
    (Quota::Requests, "x-ratelimit-{}"),
    (Quota::Requests, "x-ratelimit-{}-requests"),
    (Quota::Tokens, "x-ratelimit-{}-tokens"),
    (Quota::Requests, "anthropic-ratelimit-requests-{}"),
    (Quota::Tokens, "anthropic-ratelimit-tokens-{}"),
    (Quota::InputTokens, "anthropic-ratelimit-input-tokens-{}"),
    (Quota::OutputTokens, "anthropic-ratelimit-output-tokens-{}"),
];

/// Returns the pause that the provider asks for, if `headers` that came at `now` name one in a known form.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let milliseconds = |name: &str| Duration::try_from_secs_f64(text(headers, name)?.parse::<f64>().ok()? / 1_000.0).ok();
    let exact = MILLISECONDS.into_iter().find_map(milliseconds);
    exact.or_else(|| seconds_or_date(text(headers, RETRY_AFTER.as_str())?, now))
}

/// Returns the remaining amounts, as far as `headers` that came at `now` name them in a known form. Nothing if the
/// headers name a pause: a reset is the moment when the *full* amount is available, which would be too long.
pub(super) fn left(headers: &HeaderMap, now: SystemTime) -> Vec<Left> {
    if retry_after(headers, now).is_some() {
        return Vec::new();
    }
    let announced = |(quota, names): (Quota, &str)| {
        let value = |what| text(headers, &names.replace("{}", what));
        let reset = until_reset(value("reset")?, now)?;
        Some(Left {
            quota,
            amount: value("remaining")?.parse().ok()?,
            most: value("limit").and_then(|most| most.parse().ok()),
            reset,
        })
    };
    LIMITS.into_iter().filter_map(announced).collect()
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Parses a `Retry-After` header at `now`: seconds or a date (RFC 9110, section 10.2.3). `None` if it is neither.
fn seconds_or_date(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?;
    Some(SystemTime::from(date.timestamp()).duration_since(now).unwrap_or_default())
}

/// Returns the time from `now` until the reset in `value`: seconds, a duration with units, or a moment. Zero if that
/// is past, `None` if it is none of them.
fn until_reset(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(number) = value.parse::<f64>() {
        let scale = if number >= EPOCH_MILLISECONDS { 1_000.0 } else { 1.0 };
        let duration = Duration::try_from_secs_f64(number / scale).ok()?;
        let since = |moment: SystemTime| moment.duration_since(now).unwrap_or_default();
        return if number < EPOCH_SECONDS { Some(duration) } else { SystemTime::UNIX_EPOCH.checked_add(duration).map(since) };
    }
    if let Ok(moment) = value.parse::<jiff::Timestamp>() {
        return Some(SystemTime::from(moment).duration_since(now).unwrap_or_default());
    }
    Duration::try_from(value.parse::<jiff::SignedDuration>().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    /// Returns 2015-10-21T07:27:40Z.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480 - 20)
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        pairs.iter().map(header).collect()
    }

    #[test]
    fn retry_after_is_seconds_a_date_or_nothing() {
        let asked = |value| retry_after(&headers(&[("retry-after", value)]), now());
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked(" 3600 "), Some(Duration::from_hours(1)));
        assert_eq!(asked("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(20)));
        assert_eq!(asked("Wed, 21 Oct 2009 07:28:00 GMT"), Some(Duration::ZERO));
        for garbage in ["", "soon", "-1", "NaN", "1e400"] {
            assert_eq!(asked(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn milliseconds_say_it_more_exactly_unless_they_cannot_be_read() {
        let asked = |pairs: &[(&str, &str)]| retry_after(&headers(pairs), now());
        for name in MILLISECONDS {
            assert_eq!(asked(&[(name, "20"), ("retry-after", "1")]), Some(Duration::from_millis(20)));
            assert_eq!(asked(&[(name, "1500.5")]), Some(Duration::from_micros(1_500_500)));
            for garbage in ["", "soon", "-20", "NaN", "inf", "1e400"] {
                assert_eq!(asked(&[(name, garbage), ("retry-after", "2")]), Some(Duration::from_secs(2)), "{garbage}");
                assert_eq!(asked(&[(name, garbage)]), None, "{garbage}");
            }
        }
    }

    #[test]
    fn a_reset_is_seconds_a_duration_or_a_moment() {
        let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
        #[rustfmt::skip]
        let cases = [
            // The forms of OpenAI, Azure and Groq.
            ("1s", seconds(1.0)), ("6m0s", seconds(360.0)), ("20ms", seconds(0.02)), ("1h2m3s", seconds(3_723.0)),
            ("0s", seconds(0.0)), ("2m59.56s", seconds(179.56)), ("7.66s", seconds(7.66)), ("37", seconds(37.0)), ("0.5", seconds(0.5)),
            // As Anthropic, Venice and OpenRouter do.
            ("2015-10-21T07:28:00Z", seconds(20.0)), ("2015-10-21T09:28:00.5+02:00", seconds(20.5)),
            ("1445412480", seconds(20.0)), ("1445412480000", seconds(20.0)), ("1445412460500", seconds(0.5)),
            // What is past is no wait.
            ("2009-10-21T07:28:00Z", seconds(0.0)), ("1000000000", seconds(0.0)), ("1000000000000", seconds(0.0)), ("0", seconds(0.0)),
            // Whatever cannot be read is none either.
            ("", None), ("soon", None), ("-1", None), ("-1s", None), ("1s ago", None), ("NaN", None), ("inf", None), ("1e400", None),
            ("s", None), ("6m0", None), ("2015-10-21", None), ("99999999999999999999h", None),
        ];
        for (value, expected) in cases {
            assert_eq!(until_reset(value, now()), expected, "{value}");
        }
        assert!(until_reset("9000-01-01T00:00:00Z", now()) > seconds(1e10), "how long is too long, who waits says");
    }

    #[test]
    fn every_dialect_tells_what_is_left() {
        let read = |pairs: &[(&str, &str)]| left(&headers(pairs), now());
        let limit = |quota, amount, most, seconds| Left { quota, amount, most, reset: Duration::from_secs(seconds) };
        let openai = [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1s"),
            ("X-RateLimit-Limit-Tokens", "150000"),
            ("X-RateLimit-Remaining-Tokens", "149984"),
            ("X-RateLimit-Reset-Tokens", "6m0s"),
        ];
        let expected = [limit(Quota::Requests, 0, Some(60), 1), limit(Quota::Tokens, 149_984, Some(150_000), 360)];
        assert_eq!(read(&openai), expected);
        let moment = "2015-10-21T07:28:00Z";
        let quotas = [
            ("requests", Quota::Requests),
            ("tokens", Quota::Tokens),
            ("input-tokens", Quota::InputTokens),
            ("output-tokens", Quota::OutputTokens),
        ];
        for (name, quota) in quotas {
            let (remaining, reset) =
                (format!("anthropic-ratelimit-{name}-remaining"), format!("anthropic-ratelimit-{name}-reset"));
            assert_eq!(read(&[(&remaining, "0"), (&reset, moment)]), [limit(quota, 0, None, 20)]);
        }
        let openrouter = [("X-RateLimit-Limit", "20"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1445412480000")];
        assert_eq!(read(&openrouter), [limit(Quota::Requests, 0, Some(20), 20)]);
    }

    #[test]
    fn limits_that_are_unreadable_or_incomplete_are_ignored() {
        let read = |amount, reset| left(&headers(&[("x-ratelimit-remaining", amount), ("x-ratelimit-reset", reset)]), now());
        for amount in ["", "-1", "none", "0.0", "NaN", "99999999999999999999"] {
            assert_eq!(read(amount, "1s"), [], "{amount}");
        }
        assert_eq!(read("0", "-1"), []);
        assert_eq!(left(&headers(&[("x-ratelimit-remaining", "0")]), now()), []);
        assert_eq!(left(&headers(&[("x-ratelimit-reset", "1s")]), now()), []);
        let binary = HeaderValue::from_bytes(b"\xff0").unwrap();
        let binary: HeaderMap = [(HeaderName::from_static("x-ratelimit-remaining"), binary)].into_iter().collect();
        assert_eq!(left(&binary, now()), []);
    }

    #[test]
    fn retry_after_is_followed_exactly() {
        let empty = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1m")];
        assert_eq!(left(&headers(&[empty[0], empty[1], ("retry-after", "2")]), now()), []);
        assert_eq!(left(&headers(&[empty[0], empty[1], ("retry-after", "soon")]), now()).len(), 1);
    }
}
