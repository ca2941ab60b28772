//! The suspended calls of a run, with the keys by which their results are delivered.

use baton_machine::OpenCall;
use baton_runtime::{Command, RunError};
use baton_types::call::Suspension;
use baton_types::id::{CallId, RunId};
use baton_types::json::Json;
use serde::Serialize;

use crate::shell::baton;
use crate::text::{Text, text};
use crate::view::RunView;
use crate::words;

/// The most suspended calls that are listed for a person.
const LISTED: usize = 20;

/// A suspended call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SuspendedReport {
    call: CallId,
    tool: String,
    input: Json,
    /// When the call ends without a delivery; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The key for `baton deliver`.
    key: String,
    /// Whether a result is in the inbox of the run.
    #[serde(rename = "delivered")]
    is_delivered: bool,
    /// Whether the call has an output at its moment, without a delivery.
    #[serde(skip)]
    wakes_up: bool,
}

impl RunView {
    /// Reads the suspended calls, for reports and [`RunView::suspended_lines`].
    pub(crate) async fn look_at_suspended(&mut self) -> Result<(), RunError> {
        let inbox = self.engine.store().take_commands(&RunId::from(self.id()), 0).await?;
        let commands = inbox.iter().filter_map(|(_, text)| serde_json::from_str(text.text()).ok());
        let delivered: Vec<CallId> = commands
            .filter_map(|command| match command {
                Command::Deliver { call, .. } => Some(call),
                _ => None,
            })
            .collect();
        let mut suspended = Vec::new();
        for call in self.run.suspended_calls() {
            let report = self.suspended_report(call).await?;
            suspended.push(SuspendedReport { is_delivered: delivered.contains(&call.id), ..report });
        }
        self.suspended = suspended;
        Ok(())
    }

    /// Returns what the first suspended calls wait for, and the command that lists all.
    pub(crate) fn suspended_lines(&self, width: usize) -> Vec<Text> {
        let mut lines: Vec<Text> = self.suspended.iter().take(LISTED).flat_map(|suspended| suspended.lines(width)).collect();
        if let Some(more @ 1..) = self.suspended.len().checked_sub(LISTED) {
            let all = baton("show").value(self.id()).option("--output", "json");
            lines.push(text!("            … {}; list them: {all}", words::counted(more, "more call")));
        }
        lines
    }

    /// Returns the lines about `call`, if its result is to be delivered and few calls are suspended.
    pub(crate) async fn lines_about_suspended(&self, call: &CallId, width: usize) -> Result<Vec<Text>, RunError> {
        let Some(open) = self.run.task(&call.task()).and_then(|task| task.call(call)) else { return Ok(Vec::new()) };
        if self.run.totals().suspended_calls as usize > LISTED {
            return Ok(Vec::new());
        }
        let report = self.suspended_report(open).await?;
        Ok(if report.wakes_up { Vec::new() } else { report.lines(width) })
    }

    /// Returns the report of a suspended call.
    async fn suspended_report(&self, call: &OpenCall) -> Result<SuspendedReport, RunError> {
        let Suspension { until, output } = call.suspension().cloned().unwrap_or_default();
        Ok(SuspendedReport {
            call: call.id.clone(),
            tool: call.asked.shown_name().to_owned(),
            input: call.asked.input.clone(),
            until: until.map(|until| until.to_string()),
            key: self.engine.delivery_key(&RunId::from(self.id()), &call.id).await?,
            is_delivered: false,
            wakes_up: output.is_some(),
        })
    }
}

impl SuspendedReport {
    /// Returns what the call waits for, and the command that delivers its result.
    fn lines(&self, width: usize) -> Vec<Text> {
        let until = self.until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
        let what = format!("{} ({}){until}: {}", self.tool, self.call, self.input.text());
        let mut lines = words::labelled(text!("waits"), words::preview(&what, width * 2).as_str(), width);
        if self.is_delivered {
            lines.push(text!("            a result is delivered, and counts when the run continues"));
        } else if !self.wakes_up {
            lines.push(text!("            {} JSON", baton("deliver").value(&self.key)));
        }
        lines
    }
}
