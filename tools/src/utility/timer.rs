//! `timer`: waits.

use std::time::Duration;

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use serde::Serialize;
use serde_json::Number;

use super::number;

/// The longest wait.
const MAX_SECONDS: f64 = 60.0;

/// Output of `timer`.
#[derive(Debug, Serialize)]
struct Waited {
    waited: Option<Number>,
    message: String,
}

/// Waits for `seconds`; a cancelled call stops waiting.
#[tool]
async fn timer(context: &ToolContext, seconds: f64) -> Result<Waited, ToolError> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(ToolError::new("seconds must be between 0 and 60").of_kind(ToolErrorKind::InvalidInput));
    }
    context.sleep(Duration::from_secs_f64(seconds)).await?;
    Ok(Waited { waited: number(seconds), message: format!("Waited {seconds} seconds") })
}

#[cfg(test)]
mod tests {
    use baton_tool::ToolErrorKind;
    use baton_tool::testing::block_on;

    use super::*;

    #[test]
    fn time_passes() {
        let context = ToolContext::for_test().build();
        let begin = context.now();
        let waited = block_on(timer(&context, 2.5)).unwrap();
        assert_eq!(serde_json::json!(waited), serde_json::json!({"waited": 2.5, "message": "Waited 2.5 seconds"}));
        assert_eq!(context.now(), begin.plus(Duration::from_millis(2_500)));
        assert_eq!(block_on(timer(&context, 60.0)).unwrap().message, "Waited 60 seconds");
        assert_eq!(block_on(timer(&context, 0.0)).unwrap().message, "Waited 0 seconds");
    }

    #[test]
    fn other_waits_are_refused() {
        let context = ToolContext::for_test().build();
        for seconds in [-0.1, 60.001, 1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(block_on(timer(&context, seconds)).unwrap_err().message, "seconds must be between 0 and 60");
        }
    }

    #[test]
    fn a_cancelled_call_does_not_say_that_it_waited() {
        let context = ToolContext::for_test().cancelled().build();
        assert_eq!(block_on(timer(&context, 30.0)).unwrap_err().kind, ToolErrorKind::Cancelled);
    }
}
