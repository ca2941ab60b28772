//! `scheduler`: one pass over the schedules of the project (seed 001). `baton work` makes passes by itself.

use std::time::Instant;

use baton_macros::tool;
use baton_tool::{BreadcrumbAsk, BreadcrumbReply, ToolContext, ToolError};
use serde::Serialize;

/// Output of `scheduler`.
#[derive(Serialize)]
struct Pass {
    status: &'static str,
    schedules_loaded: usize,
    ticks_published: usize,
    /// Time that the pass took.
    uptime_ms: u64,
    /// The schedules whose ticks could not be published, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

/// Publishes the ticks that are due. A tick that another pass has published is not published again.
#[tool]
async fn scheduler(call: &ToolContext) -> Result<Pass, ToolError> {
    let began = Instant::now();
    match call.breadcrumbs(BreadcrumbAsk::PublishTicks, false).await? {
        BreadcrumbReply::Ticks { schedules, published, errors } => Ok(Pass {
            status: if errors.is_empty() { "ok" } else { "failed" },
            schedules_loaded: schedules,
            ticks_published: published,
            uptime_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            errors,
        }),
        BreadcrumbReply::Written { .. } | BreadcrumbReply::Found { .. } => {
            Err(ToolError::new("the shell answered a pass with records"))
        }
    }
}
