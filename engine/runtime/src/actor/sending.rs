//! Commands for tool services: one for each suspended call, sent when the suspension is durable.
//!
//! A command is sent again while its call has no result: one minute after the suspension, two minutes after, and so on with doubled
//! times, at most an hour apart. Commands that the bus does not take are tried again within seconds, in the background. After a death
//! between a commit and its message, the next owner sends the commands of all calls that wait.

use std::sync::Arc;
use std::time::Duration;

use baton_machine::CallStage;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::{CallId, RunId};
use baton_types::time::Timestamp;

use super::Actor;
use crate::tool_services::{ServiceCommand, ToolServices};

/// Time after which a command is sent again.
const FIRST_PAUSE: Duration = Duration::from_mins(1);

/// Longest time between two commands of a call.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Longest time that the run waits until the bus has its commands.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pauses before commands that the bus did not take are tried again. A cluster that has lost a server chooses new leaders in this time.
const TRY_AGAIN: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// The state of the commands of a run.
pub(crate) struct Sending {
    /// The moment up to which commands that had to be repeated were sent.
    through: Timestamp,
    /// The next moment at which a command may have to be repeated.
    next: Option<Timestamp>,
    /// Whether a former owner may not have sent its commands: it did not release the run.
    is_behind: bool,
}

impl Sending {
    /// Returns the state for a run whose last entry was decided at `last`. Without tool services, no command is ever sent.
    pub(crate) fn new(last: Timestamp, is_behind: bool, has_services: bool) -> Self {
        Self { through: last, next: has_services.then_some(last), is_behind }
    }

    /// Returns the next moment at which a command may have to be repeated.
    pub(crate) const fn next(&self) -> Option<Timestamp> {
        self.next
    }
}

/// Returns the first moment after `after` at which the command of a call that was suspended at `since` is repeated.
fn repetition_after(since: Timestamp, after: Timestamp) -> Timestamp {
    let mut pause = FIRST_PAUSE;
    let mut moment = since.plus(pause);
    while moment <= after {
        if pause == LONGEST_PAUSE {
            // Of a call that waits for years, only the next moment is of interest.
            let passed = after.since(moment).as_secs() / pause.as_secs() + 1;
            return moment.plus(pause.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX)));
        }
        moment = since.plus(pause * 2);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    moment
}

impl Actor {
    /// Sends the commands of the calls that `entries`, which are durable, suspend.
    pub(super) async fn send_commands(&mut self, entries: &[Arc<Recorded>]) {
        if self.shared.dispatcher.is_none() {
            return;
        }
        let mut commands = Vec::new();
        for recorded in entries {
            let Entry::CallSuspended(suspended) = &recorded.entry else { continue };
            let Some(command) = self.command(&suspended.call, false) else { continue };
            let again = repetition_after(recorded.at, recorded.at);
            self.sending.next = Some(self.sending.next.map_or(again, |next| next.min(again)));
            commands.push(command);
        }
        send(self.shared.dispatcher.clone(), self.id.clone(), commands).await;
    }

    /// Sends again the commands whose moment has come.
    pub(super) async fn repeat_commands(&mut self) {
        let Some(next) = self.sending.next else { return };
        let now = self.shared.clock.now();
        if next > now {
            return;
        }
        let through = std::mem::replace(&mut self.sending.through, now);
        let is_behind = std::mem::take(&mut self.sending.is_behind);
        let (mut commands, mut next) = (Vec::new(), None);
        for call in self.run.suspended_calls() {
            let since = call.suspended_at().unwrap_or(now);
            let is_due = is_behind || repetition_after(since, through) <= now;
            let Some(command) = self.command(&call.id, !is_behind) else { continue };
            commands.extend(Some(command).filter(|_| is_due));
            let again = repetition_after(since, now);
            next = Some(next.map_or(again, |next: Timestamp| next.min(again)));
        }
        self.sending.next = next;
        send(self.shared.dispatcher.clone(), self.id.clone(), commands).await;
    }

    /// Returns the command of a suspended call, if it is one of a tool service.
    fn command(&self, call: &CallId, is_repeated: bool) -> Option<ServiceCommand> {
        let of = self.run.task(&call.task())?;
        let open = of.call(call).filter(|open| open.stage == CallStage::Suspended)?;
        let tool = self.run.configs().tools.get(open.asked.tool.as_str())?;
        Some(ServiceCommand {
            run: self.id.clone(),
            call: call.clone(),
            agent: of.agent()?.clone(),
            tool: tool.id.clone(),
            service: tool.service()?.clone(),
            after: tool.after_by_default(),
            is_repeated,
        })
    }
}

/// Sends the commands of `run`. Those that the bus does not take are tried again after [`TRY_AGAIN`], without the run waiting for it. A
/// service answers a second command as the first one.
async fn send(services: Option<Arc<dyn ToolServices>>, run: RunId, commands: Vec<ServiceCommand>) {
    let Some(services) = services.filter(|_| !commands.is_empty()) else { return };
    if try_to_send(&*services, &run, &commands).await {
        return;
    }
    tokio::spawn(async move {
        for pause in TRY_AGAIN {
            tokio::time::sleep(pause).await;
            if try_to_send(&*services, &run, &commands).await {
                return;
            }
        }
    });
}

/// Returns whether the bus took the commands.
async fn try_to_send(services: &dyn ToolServices, run: &RunId, commands: &[ServiceCommand]) -> bool {
    let sent = tokio::time::timeout(PATIENCE, services.send(commands)).await;
    let sent = sent.unwrap_or_else(|_| Err(format!("the bus did not take them within {} s", PATIENCE.as_secs())));
    if let Err(reason) = &sent {
        tracing::warn!(%run, commands = commands.len(), %reason, "commands for tool services are sent again later");
    }
    sent.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_repeated_after_doubled_times_at_most_an_hour_apart() {
        let since = Timestamp::from_micros(1_000_000);
        let mut moments = vec![since];
        for _ in 0..10 {
            moments.push(repetition_after(since, moments[moments.len() - 1]));
        }
        let minutes: Vec<u64> = moments.iter().map(|moment| moment.since(since).as_secs() / 60).collect();
        assert_eq!(minutes, [0, 1, 2, 4, 8, 16, 32, 64, 124, 184, 244]);
        let years = since.plus(Duration::from_hours(24 * 365 * 3));
        let next = repetition_after(since, years);
        assert!(next > years && next <= years.plus(LONGEST_PAUSE), "{next}");
    }
}
