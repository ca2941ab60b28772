//! The streams that JetStream keeps for a project, and their consumers.
//!
//! All but the dead letters are work queues: a message is removed as soon as one receiver has acknowledged it. A stream that was lost is made
//! again, empty. Its commands are sent again, since the store knows which calls wait; services answer them with the same callbacks.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode};
use baton_utp::subject::{Family, Token};

use crate::BusError;

/// Time after which a message without an acknowledgement comes again.
pub const ACK_WAIT: Duration = Duration::from_secs(30);

/// Number of copies in a cluster. A server alone keeps one.
const REPLICAS: usize = 3;

/// Longest time that a message stays in its stream. Commands are sent again, and services repeat callbacks.
const MAX_AGE: Duration = Duration::from_hours(24 * 7);

/// A stream of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Commands for tool services.
    Commands,
    /// Callbacks of tool services.
    Callbacks,
    /// Runs that need an owner.
    Wakeups,
    /// Messages that were refused.
    DeadLetters,
}

impl Kept {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Commands, Self::Callbacks, Self::Wakeups, Self::DeadLetters];

    /// Returns the name of the stream of `project`: `baton-PROJECT-commands`. Characters that names of streams cannot have are written as
    /// `_` and their code.
    pub fn name(self, project: &Token) -> String {
        let kind = match self {
            Self::Commands => "commands",
            Self::Callbacks => "callbacks",
            Self::Wakeups => "wakeups",
            Self::DeadLetters => "dead-letters",
        };
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let spelled =
            |character| if is_plain(character) { character.to_string() } else { format!("_{:x}", u32::from(character)) };
        let project: String = project.as_str().chars().map(spelled).collect();
        format!("baton-{project}-{kind}")
    }

    /// Returns the subjects of its messages.
    fn subjects(self, project: &Token) -> Vec<String> {
        let family = match self {
            Self::Commands => Family::Tool,
            Self::Callbacks => Family::ToolResult,
            Self::Wakeups => Family::Wakeup,
            Self::DeadLetters => Family::DeadLetter,
        };
        vec![family.in_project(project)]
    }

    fn config(self, project: &Token, replicas: usize) -> Config {
        let is_queue = self != Self::DeadLetters;
        Config {
            name: self.name(project),
            subjects: self.subjects(project),
            retention: if is_queue { RetentionPolicy::WorkQueue } else { RetentionPolicy::Limits },
            discard: if is_queue { DiscardPolicy::New } else { DiscardPolicy::Old },
            max_messages: if is_queue { -1 } else { 10_000 },
            max_bytes: -1,
            max_messages_per_subject: -1,
            max_age: MAX_AGE,
            storage: StorageType::File,
            num_replicas: replicas,
            ..Config::default()
        }
    }

    /// Makes the stream if it is not there. One that is there stays as it is.
    ///
    /// # Errors
    /// The server has no JetStream, or refuses the stream.
    pub(crate) async fn ensure(self, jetstream: &Context, project: &Token) -> Result<(), BusError> {
        if jetstream.get_stream(self.name(project)).await.is_ok() {
            return Ok(());
        }
        let mut made = jetstream.create_stream(self.config(project, REPLICAS)).await.map(drop);
        if matches!(&made, Err(error) if is_single(error.kind())) {
            made = jetstream.create_stream(self.config(project, 1)).await.map(drop);
        }
        match made {
            // Another process may have made it meanwhile.
            Err(error) if jetstream.get_stream(self.name(project)).await.is_err() => {
                Err(BusError::Stream { stream: self.name(project), reason: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Writes `owner` into the description of the stream, unless another one is there.
    ///
    /// # Errors
    /// Another owner is there, or the stream cannot be read.
    pub(crate) async fn claim(self, jetstream: &Context, project: &Token, owner: &str) -> Result<(), BusError> {
        let refused = |reason: String| BusError::Stream { stream: self.name(project), reason };
        let stream = jetstream.get_stream(self.name(project)).await.map_err(|error| refused(error.to_string()))?;
        let config = stream.cached_info().config.clone();
        match config.description.as_deref() {
            Some(present) if present == owner => Ok(()),
            Some(_) => Err(BusError::OtherStore { project: project.to_string(), stream: self.name(project) }),
            None => {
                let config = Config { description: Some(owner.to_owned()), ..config };
                jetstream.update_stream(config).await.map(drop).map_err(|error| refused(error.to_string()))
            }
        }
    }

    /// Returns the durable consumer `name` of the stream.
    pub(crate) async fn consumer(
        self,
        jetstream: &Context,
        project: &Token,
        name: &str,
        filter: &str,
    ) -> Result<Consumer<pull::Config>, BusError> {
        let refused = |reason: String| BusError::Stream { stream: self.name(project), reason };
        let stream = jetstream.get_stream(self.name(project)).await.map_err(|error| refused(error.to_string()))?;
        let config = pull::Config {
            durable_name: Some(name.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            max_ack_pending: 10_000,
            filter_subject: filter.to_owned(),
            ..pull::Config::default()
        };
        stream.get_or_create_consumer(name, config).await.map_err(|error| refused(error.to_string()))
    }
}

/// Whether the server is alone, or its cluster too small for the copies.
fn is_single(kind: CreateStreamErrorKind) -> bool {
    let CreateStreamErrorKind::JetStream(error) = kind else { return false };
    matches!(
        error.error_code(),
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED | ErrorCode::INSUFFICIENT_RESOURCES | ErrorCode::CLUSTER_NO_PEERS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_has_streams_of_its_own() {
        let name = |project: &str| Kept::Commands.name(&Token::parse(project).expect("a token"));
        assert_eq!(name("acme"), "baton-acme-commands");
        assert_eq!(name("a/b"), "baton-a_2fb-commands");
        assert_ne!(name("a_2fb"), name("a/b"));
    }
}
