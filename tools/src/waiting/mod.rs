//! Tools that wait for hours or days. Their calls are suspended: nothing runs meanwhile, and no process is needed.

mod event;
mod sleep;

use std::time::Duration;

use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::time::Timestamp;

/// The longest wait: ten years. A longer one is a mistake, most likely of the unit.
const MAX_SECONDS: u64 = 10 * 366 * 24 * 60 * 60;

/// Returns the moment `seconds` from now.
fn moment_in(context: &ToolContext, seconds: u64) -> Result<Timestamp, ToolError> {
    if seconds > MAX_SECONDS {
        let message = format!("{seconds} seconds are more than ten years, the longest wait");
        return Err(ToolError::new(message).of_kind(ToolErrorKind::InvalidInput));
    }
    Ok(context.now().plus(Duration::from_secs(seconds)))
}
