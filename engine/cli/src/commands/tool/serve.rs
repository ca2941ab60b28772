//! `tool serve`: executes calls of tools for agents of other programs, over the bus.

use std::path::Path;

use baton_nats::service::{Served, caller};
use baton_types::tool_type::Then;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::tools::Tools;
use crate::app::bus::{connect, failure};
use crate::app::{builder, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::scratch;
use crate::signals::Interruptions;
use crate::text::text;
use crate::trust::Manner;

/// Serves the tools until Ctrl-C, SIGTERM or SIGHUP.
pub(super) async fn run(names: &[String], job: Option<&Path>, trust: bool, place: &Place) -> Result<Exit, Failure> {
    let tools = Tools::load(place, job)?;
    let mut served = Vec::new();
    for name in names {
        let tool = tools.get(name)?;
        if tool.tool_type.behavior().then != Then::Continue {
            let kind = tool.tool_type;
            return Err(Failure::Usage(format!(
                "{name} is of type {kind}, which acts on the agent that calls it; only functions are served"
            )));
        }
        if tool.service().is_some() {
            return Err(Failure::Usage(format!("{name} has a \"target_subject\": another service executes its calls")));
        }
        served.push(Served { tool: tool.id.as_str().into(), job: scratch::job(place, job, name)? });
    }
    let Some(bus) = connect(place).await? else {
        return Err(Failure::Usage("name a NATS server with --bus or BATON_BUS".to_owned()));
    };
    let store = place.open_store()?;
    let engine = builder(&store, place.kept_in(), place, Manner::of(trust))?.model(scratch::CALLER, caller());
    let engine = engine.build().map_err(run_failure)?;
    // The person is asked for trust now, and not at the first call.
    for tool in &served {
        engine.check(&tool.job).map_err(run_failure)?;
    }
    let mut interruptions = Interruptions::catch()?;
    for tool in &served {
        let subject = bus.served_at(&tool.tool).map_err(failure)?;
        if place.screen.is_text() {
            place.screen.tell(&text!("calls of {} are executed: {subject}", tool.tool));
        } else {
            place.screen.json(&json!({"tool": tool.tool, "subject": subject}))?;
        }
    }
    place.screen.tell(&text!("stop with Ctrl-C"));
    let forever = CancellationToken::new();
    tokio::select! {
        () = bus.serve_tools(&engine, &served, &forever) => {}
        // A command that is worked on has no acknowledgement, so it comes again, to any process that serves its tool.
        _ = interruptions.next() => {}
    }
    Ok(Exit::Done)
}
