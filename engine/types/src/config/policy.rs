//! Policies of configs about calls: the number of delegations that must succeed, retries of failures, approvals, and
//! calls left in doubt by a crash.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, ROUTE_PREFIX, ToolId};

/// The join policy: how many delegations of one turn are awaited. A key of the *calling* agent.
///
/// Only delegations that begin count: a refused call touches nothing else. Questions of the turn are always awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// The result of each, whatever it is.
    #[default]
    All,
    /// The first success; the other delegations of the turn are cancelled.
    FirstSuccess,
    /// The success of each. As soon as one does not succeed, the other delegations of the turn are cancelled.
    FailFast,
    /// That many successes; once they are there, or can no longer come, the other delegations of the turn are cancelled.
    /// A turn with fewer delegations awaits all of them.
    Quorum(#[schemars(range(min = 1, max = 10_000))] u32),
}

impl Join {
    /// Returns the state of the join for the delegations in `tally`. Refused delegations do not count.
    pub fn state(self, tally: Tally) -> JoinState {
        let Tally { succeeded, failed, pending } = tally;
        let least = match self {
            Self::All => None,
            Self::FirstSuccess => Some(1),
            Self::FailFast => Some(succeeded + failed + pending),
            // A quorum that the turn could never reach would cancel everything that the agent begins. So every result is awaited.
            Self::Quorum(least) => Some(least).filter(|least| *least <= succeeded + failed + pending),
        };
        match least {
            Some(least) if succeeded >= least => JoinState::Met,
            Some(least) if succeeded + pending < least => JoinState::Impossible,
            None if pending == 0 => JoinState::Met,
            _ => JoinState::Pending,
        }
    }
}

impl std::fmt::Display for Join {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::FirstSuccess => f.write_str("first_success"),
            Self::FailFast => f.write_str("the success of all"),
            Self::Quorum(least) => write!(f, "a quorum of {least}"),
        }
    }
}

/// Numbers of the delegations of a turn, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Delegations with the status `success`. A `partial` result is kept, but is not a success, since something is missing.
    pub succeeded: u32,
    /// Delegations with another status.
    pub failed: u32,
    /// Delegations without a result, including those that wait for their next attempt.
    pub pending: u32,
}

/// The state of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// A missing result can still decide it.
    Pending,
    /// Enough delegations succeeded.
    Met,
    /// Too few delegations can still succeed.
    Impossible,
}

/// The beginning of a delegated task's conversation. A key of the delegating tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CalleeContext {
    /// Its request alone.
    #[default]
    Request,
    /// The caller's conversation up to the call, then its request.
    Fork,
}

/// The policy for the background tasks of a task whose agent wants to end it. A key of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenTasks {
    /// The task ends only after them, and its agent sees their results first.
    #[default]
    Wait,
    /// They are cancelled.
    Cancel,
}

/// The action of a call on tasks below the calling one. A key of a `non_function_tool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskAction {
    /// Waits until one or all of the background tasks have ended.
    Wait,
    /// Lists the tasks.
    List,
    /// Sends a message into one of them.
    Steer,
    /// Ends one of them.
    Cancel,
}

/// The policy for a delegated task that fails or times out. A key of the delegating tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Its result returns to the caller.
    #[default]
    Return,
    /// A new task tries again; the call has no result until one succeeds or the attempts are used up.
    Retry(Retry),
}

/// The retry policy of a failed delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The maximum of further attempts.
    #[schemars(range(min = 1, max = 100))]
    pub times: u32,
    /// Seconds before the second attempt (default: 1). They double before each further attempt, up to an hour.
    #[serde(default = "one_second")]
    #[schemars(range(max = 3600))]
    pub backoff_seconds: u32,
}

/// The longest pause between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_hours(1);

fn one_second() -> u32 {
    1
}

impl Retry {
    /// Returns the pause before the next attempt after `failed` failures; `None` if there is no further attempt.
    ///
    /// The core knows no randomness, so the pauses have no jitter: what must be spread out, such as requests to one
    /// provider, is spread out where it is sent.
    pub fn pause(&self, failed: u32) -> Option<Duration> {
        if failed == 0 || failed > self.times {
            return None;
        }
        let doubled = 1_u64.checked_shl(failed - 1).map(|factor| u64::from(self.backoff_seconds).saturating_mul(factor));
        Some(doubled.map_or(LONGEST_BACKOFF, Duration::from_secs).min(LONGEST_BACKOFF))
    }
}

/// The acceptance of results before they take effect. A key of the delegating tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The acceptor.
    pub by: Acceptor,
    /// The number of refusals that end the delegated task.
    pub rounds: u32,
}

/// The acceptor of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptor {
    /// An agent, in a question of its own.
    Agent(AgentId),
    /// A function tool.
    Tool(ToolId),
}

impl std::fmt::Display for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::Tool(tool) => write!(f, "tool:{tool}"),
        }
    }
}

impl Acceptor {
    /// Returns the tool that the engine calls: the function tool, or the one that delegates to the agent.
    pub fn tool(&self) -> ToolId {
        match self {
            Self::Agent(agent) => ToolId::new(format!("{ROUTE_PREFIX}{agent}")),
            Self::Tool(tool) => tool.clone(),
        }
    }
}

/// Approver of a call before it begins; a key of a tool, or of an agent's grant of it. The greater of two counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// The master of the calling task: the agent that called it, or a person.
    Master,
    /// A person.
    Person,
}

/// The policy for a call whose outcome a crash left unknown. A key of the tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknownOutcome {
    /// The call returns `unknown_outcome`.
    #[default]
    Return,
    /// The calling task's master is asked first, and the answer decides the result.
    Ask,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour_and_end_with_the_attempts() {
        let retry = Retry { times: 100, backoff_seconds: 2 };
        let seconds = |failed| retry.pause(failed).map(|pause| pause.as_secs());
        assert_eq!([1, 2, 3, 11, 12, 100].map(seconds), [2, 4, 8, 2_048, 3_600, 3_600].map(Some));
        assert_eq!([0, 101].map(seconds), [None, None]);
        assert_eq!(Retry { times: 1, backoff_seconds: 0 }.pause(1), Some(Duration::ZERO));
    }

    #[test]
    fn policies_are_written_as_their_words() {
        let join = |text: &str| serde_json::from_str::<Join>(text).ok();
        assert_eq!(join(r#""all""#), Some(Join::All));
        assert_eq!(join(r#""first_success""#), Some(Join::FirstSuccess));
        assert_eq!(join(r#""fail_fast""#), Some(Join::FailFast));
        assert_eq!(join(r#"{"quorum": 2}"#), Some(Join::Quorum(2)));
        let retry: OnFailure = serde_json::from_str(r#"{"retry": {"times": 2}}"#).unwrap();
        assert_eq!(retry, OnFailure::Retry(Retry { times: 2, backoff_seconds: 1 }));
    }
}
