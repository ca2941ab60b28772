//! `baton deliver`: delivers the result of a suspended call, in any process, and continues a run that no process executes.

use baton_runtime::{Delivery, Engine, RunError};
use baton_types::id::{CallId, RunId};
use baton_types::json::Json;
use clap::Args;
use serde_json::json;

use crate::app::{Continuation, complete, engine, resume_and_finish, run_failure, text_or_stdin};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs;
use crate::terminal;
use crate::text::text;

/// Arguments of `deliver`.
#[derive(Debug, Args)]
pub(crate) struct DeliverArgs {
    /// The key of the call, as `baton show` prints it. Or a run in which only one call waits for a delivery
    #[arg(value_name = "KEY|RUN", add = complete::runs())]
    target: String,
    /// The output of the call, as JSON, or - to read it from standard input
    #[arg(required_unless_present = "failed", conflicts_with = "failed", allow_hyphen_values = true)]
    result: Option<String>,
    /// Let the call fail, for this reason
    #[arg(long, value_name = "REASON")]
    failed: Option<String>,
    #[command(flatten)]
    continuation: Continuation,
}

/// Sends the result to the run of the call.
pub(crate) async fn run(args: &DeliverArgs, place: &Place) -> Result<Exit, Failure> {
    let result = result(args)?;
    let store = place.existing_store()?.ok_or_else(|| Failure::not_found("key", &args.target, []))?;
    let engine = engine(&store)?;
    let (run, call) = match engine.call_of_key(&args.target).await {
        Ok(found) => found,
        Err(RunError::UnknownKey) if args.target.contains(':') => return Err(Failure::not_found("key", &args.target, [])),
        Err(RunError::UnknownKey) => only_call(args, &engine, place).await?,
        Err(error) => return Err(run_failure(error)),
    };
    let found = runs::find(place, run.as_str()).await?;
    let out = args.continuation.ending.target(place)?;
    let delivered = engine.deliver(&run, &call, &terminal::person(), result).await.map_err(run_failure)?;
    // A pause lasts until a person ends it.
    let is_paused = || async { engine.state(&run).await.map(|state| state.totals().paused).map_err(run_failure) };
    let resumes = matches!(delivered, Delivery::Queued) && !args.continuation.no_resume && !is_paused().await?;
    if !resumes {
        if place.screen.is_text() {
            place.screen.text(&match delivered {
                Delivery::Queued => text!("the result for call {call} of run {run} is in the inbox, until the run continues"),
                Delivery::Sent => text!(
                    "the result for call {call} of run {run} is in the inbox; it counts if the code of the call ends without one"
                ),
                Delivery::Done => text!("delivered for call {call} of run {run}"),
            })?;
        } else {
            place.screen.json(&json!({"run": run, "call": call, "delivery": delivered.as_str()}))?;
        }
        return Ok(Exit::Done);
    }
    place.screen.tell(&text!("the result for call {call} of run {run} is in the inbox"));
    resume_and_finish(&found, &args.continuation, out.as_ref(), place).await
}

/// Returns the result as the arguments give it.
fn result(args: &DeliverArgs) -> Result<Result<Json, String>, Failure> {
    if let Some(reason) = &args.failed {
        if reason.trim().is_empty() {
            return Err(Failure::Usage("the reason of --failed is empty".to_owned()));
        }
        return Ok(Err(reason.clone()));
    }
    let text = text_or_stdin(args.result.clone().unwrap_or_default(), "the result is empty")?;
    Json::parse(&text).map(Ok).map_err(|error| Failure::of_json("the result", &error))
}

/// Returns the only suspended call of the run that `target` names.
async fn only_call(args: &DeliverArgs, engine: &Engine, place: &Place) -> Result<(RunId, CallId), Failure> {
    let found = runs::find(place, &args.target).await?;
    let state = engine.state(found.id()).await.map_err(run_failure)?;
    let calls: Vec<CallId> = state.suspended_calls().map(|call| call.id.clone()).collect();
    match calls.as_slice() {
        [only] => Ok((found.id().clone(), only.clone())),
        [] => Err(Failure::Refused(format!("no call of run {} waits for a delivery", found.id()))),
        several => {
            let mut keys = Vec::new();
            for call in several {
                keys.push(engine.delivery_key(found.id(), call).await.map_err(run_failure)?);
            }
            Err(Failure::Usage(format!("several calls wait for a delivery; choose a key:\n  {}", keys.join("\n  "))))
        }
    }
}
