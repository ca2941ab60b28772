//! Commands: one for each call of a tool service, published when the suspension of the call is durable.

use baton_runtime::{ServiceCommand, ToolServices};
use baton_types::config::ServiceSpec;
use baton_utp::command::ToolCommand;
use baton_utp::id::turn_epoch;
use baton_utp::subject::{Subject, TargetSubject};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};

use crate::Bus;
use crate::streams::Kept;

/// Number of commands that are published at the same time.
const AT_ONCE: usize = 256;

impl ToolServices for Bus {
    fn check(&self, service: &ServiceSpec) -> Result<(), String> {
        self.target(service).map(drop)
    }

    fn send<'a>(&'a self, commands: &'a [ServiceCommand]) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let mut outcome = Ok(());
            for commands in commands.chunks(AT_ONCE) {
                let sent = join_all(commands.iter().map(|command| self.send_command(command))).await;
                outcome = sent.into_iter().fold(outcome, Result::and);
            }
            outcome
        }
        .boxed()
    }
}

impl Bus {
    /// Returns the subject of a service's commands.
    pub(crate) fn target(&self, service: &ServiceSpec) -> Result<Subject, String> {
        let target = TargetSubject::parse(&service.target_subject).map_err(|error| error.to_string())?;
        target.at(&self.0.address).map_err(|error| error.to_string())
    }

    async fn send_command(&self, command: &ServiceCommand) -> Result<(), String> {
        let ServiceCommand { run, call, agent, tool, service, after, is_repeated } = command;
        let subject = self.target(service)?.to_string();
        let payload = ToolCommand::of(run, call, agent, tool, turn_epoch(call), *after);
        // A repetition is meant to be a second message.
        let id = (!is_repeated).then(|| format!("{run}:{call}"));
        self.publish(Kept::Commands, subject, id, &payload).await
    }
}
