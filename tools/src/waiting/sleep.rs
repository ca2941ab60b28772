//! `sleep`: waits for a moment, without a process.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::time::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::moment_in;

/// Output of `sleep`.
#[derive(Debug, Serialize)]
struct Slept {
    woke_at: String,
}

/// Waits for `seconds`, or until the moment `until`. A moment that has passed is not waited for.
#[tool]
fn sleep(context: &ToolContext, seconds: Option<u64>, until: Option<String>) -> Result<Slept, ToolError> {
    let moment = match (seconds, until) {
        (Some(seconds), None) => moment_in(context, seconds)?,
        (None, Some(until)) => read(&until)?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(ToolError::new("exactly one of seconds and until is needed").of_kind(ToolErrorKind::InvalidInput));
        }
    };
    let slept = Slept { woke_at: moment.to_string() };
    if moment <= context.now() {
        return Ok(slept);
    }
    Err(context.wait_until(moment, json!(slept)))
}

fn read(until: &str) -> Result<Timestamp, ToolError> {
    Timestamp::parse(until).map_err(|error| {
        let message = format!("until is not a moment such as 2027-01-31T09:00:00Z: {error}");
        ToolError::new(message).of_kind(ToolErrorKind::InvalidInput)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sleep_ends_the_code_and_names_its_moment() {
        let context = ToolContext::for_test().build();
        let begin = context.now();
        for (seconds, until) in [(Some(86_400), None), (None, Some("2100-01-01T00:00:00Z"))] {
            let error = sleep(&context, seconds, until.map(str::to_owned)).unwrap_err();
            assert_eq!(error.kind, ToolErrorKind::Suspended);
            let suspension = context.take_effects().suspension.unwrap();
            let moment = suspension.until.unwrap();
            assert_eq!(suspension.output.unwrap().value(), json!({"woke_at": moment.to_string()}));
            assert!(seconds.is_none_or(|seconds| moment == begin.plus(Duration::from_secs(seconds))));
        }
    }

    #[test]
    fn a_moment_that_has_passed_is_not_waited_for() {
        let context = ToolContext::for_test().build();
        let slept = sleep(&context, None, Some("1971-01-01T00:00:00Z".to_owned())).unwrap();
        assert_eq!(slept.woke_at, "1971-01-01T00:00:00.000000Z");
        assert!(sleep(&context, Some(0), None).is_ok());
    }

    #[test]
    fn other_inputs_are_refused_with_the_reason() {
        let context = ToolContext::for_test().build();
        for (seconds, until, reason) in [
            (None, None, "exactly one"),
            (Some(1), Some("2100-01-01T00:00:00Z"), "exactly one"),
            (None, Some("tomorrow"), "not a moment"),
            (Some(u64::MAX), None, "ten years"),
        ] {
            let error = sleep(&context, seconds, until.map(str::to_owned)).unwrap_err();
            assert_eq!(error.kind, ToolErrorKind::InvalidInput);
            assert!(error.message.contains(reason), "{}", error.message);
        }
    }
}
