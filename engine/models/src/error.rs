//! Why a model gave no answer, and whether asking again can help.

use std::time::Duration;

use baton_schema::provider::SchemaFault;
use baton_types::id::{AgentId, ContentHash};

use crate::cassette::CassetteError;
use crate::wire::{Class, Fault, class_of};

/// Reasons why a provider is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Nothing is there to answer.
    Unreachable,
    /// It fails to answer, or does not answer in time.
    Failing,
    /// It answers with something that is not an answer. Each attempt may cost money.
    Broken,
    /// It rejects all requests with this key for now.
    Limited {
        /// Time that it asks to pause.
        retry_after: Option<Duration>,
    },
    /// It takes no requests until a person acts: the key is refused, the account has no credit, something else answers in
    /// the provider's place, or the answer exceeds every bound.
    NeedsPerson,
}

/// Reasons why a model gave no answer. They never contain a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A script was asked something it has no answer for: the agents did something that its writer did not foresee.
    #[error("the script has no answer for agent {agent} at turn {turn}: {reason}")]
    Unexpected {
        /// The agent.
        agent: AgentId,
        /// The turn of its task, from 1.
        turn: u32,
        /// Content that the script does have.
        reason: String,
    },
    /// A script has no answer to a request of a tool's code.
    #[error(
        "the script has no answer to request {request} of the tool {tool}; add it to \"tools\": {{\"{tool}\": {{\"turns\": […]}}}}"
    )]
    NoReply {
        /// The tool.
        tool: String,
        /// The number of the request within its call, from 1.
        request: u32,
    },
    /// A template of a script could not be filled.
    #[error("the template at {place} cannot be rendered: {message}")]
    Template {
        /// JSON pointer into the script.
        place: String,
        /// Why.
        message: String,
    },
    /// The content of a document could not be read.
    #[error("content {hash} cannot be read: {reason}")]
    Content {
        /// The content.
        hash: ContentHash,
        /// Why.
        reason: String,
    },
    /// A tool of the request cannot be offered to the provider.
    #[error(transparent)]
    Tool(SchemaFault),
    /// Nothing answered, or nothing that could.
    #[error("the model is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// The provider cannot be reached: no address, no connection, no secure connection.
    #[error("{provider} cannot be reached at {url}: {reason}")]
    Unreachable {
        /// The provider.
        provider: String,
        /// Its address.
        url: String,
        /// Why.
        reason: String,
    },
    /// The connection broke before the answer was whole.
    #[error("the answer of {provider} is broken: the connection failed: {reason}")]
    Interrupted {
        /// The provider.
        provider: String,
        /// Why.
        reason: String,
    },
    /// Something else answered than the provider, such as the page of a proxy.
    #[error("the answer came from a proxy or another server, not from {provider} (status {status}, {}): {words}", kind(.content_type))]
    NotAnAnswer {
        /// The provider.
        provider: String,
        /// The status of the answer.
        status: u16,
        /// Content type of the answer.
        content_type: String,
        /// Its first words.
        words: String,
    },
    /// One attempt took longer than the task allows.
    #[error("the model did not answer within the {} s that limits.turn_seconds allows", .limit.as_secs_f64())]
    TurnTimedOut {
        /// Longest allowed time.
        limit: Duration,
    },
    /// The exchange could not be recorded, or is not the recorded one.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// The model's own code panicked.
    #[error("the model's code panicked: {message}")]
    Panicked {
        /// Message of the provider.
        message: String,
    },
    /// The provider will not take the request: it would not take it a second time either.
    #[error("{provider} rejected the request{}: {message}", in_parentheses(*.status))]
    Rejected {
        /// The provider.
        provider: String,
        /// The status of its answer, if it had one.
        status: Option<u16>,
        /// Message of the provider.
        message: String,
    },
    /// The provider has no such model, or not for this key.
    #[error("{provider} has no such model: {message}")]
    NoModel {
        /// The provider.
        provider: String,
        /// Message of the provider.
        message: String,
    },
    /// The model wrote a call or a text that its provider could not read. The agent can be asked again with these words.
    #[error("{provider} could not parse the model's output: {message}")]
    BadTurn {
        /// The provider.
        provider: String,
        /// Message of the provider.
        message: String,
    },
    /// The request is longer than what the model takes.
    #[error("the request exceeds the model's context window, according to {provider}: {message}")]
    ContextExceeded {
        /// The provider.
        provider: String,
        /// Message of the provider.
        message: String,
    },
    /// The provider or the model withheld the answer for what was asked.
    #[error("{provider} withheld the answer: {message}")]
    Filtered {
        /// The provider.
        provider: String,
        /// Message of the provider.
        message: String,
    },
    /// The provider does not take the key.
    #[error("{provider} refused the key{}: {message}", named(.variable.as_ref()))]
    KeyRefused {
        /// The provider.
        provider: String,
        /// The variable of the environment that holds the key.
        variable: Option<String>,
        /// Message of the provider.
        message: String,
    },
    /// The account behind the key cannot pay.
    #[error("the account at {provider} has no credit: {message}")]
    NoCredit {
        /// The provider.
        provider: String,
        /// Message of the provider.
        message: String,
    },
    /// Too many requests or tokens in too little time.
    #[error("{provider} reports a rate limit{}: {message}", wait(*.retry_after))]
    RateLimited {
        /// The provider.
        provider: String,
        /// Message of the provider.
        message: String,
        /// Time that it asks to pause.
        retry_after: Option<Duration>,
    },
    /// The answer was cut, or is none.
    #[error("the answer of {provider} is broken: {reason}")]
    Broken {
        /// The provider.
        provider: String,
        /// Description of the fault.
        reason: String,
    },
    /// The answer exceeds what is taken.
    #[error("the answer of {provider} exceeds {most} bytes")]
    TooLong {
        /// The provider.
        provider: String,
        /// The most that is taken.
        most: usize,
    },
    /// The provider took too long.
    #[error("{provider} took too long: {what} within {} s", .limit.as_secs_f64())]
    TimedOut {
        /// The provider.
        provider: String,
        /// Step that did not happen in time.
        what: &'static str,
        /// In how much time.
        limit: Duration,
    },
}

impl ModelError {
    /// Whether the error means that a script or a recording no longer matches the run. Continuing would only hide
    /// that.
    ///
    /// The shell then ends the whole run, not only the task.
    pub fn fails_run(&self) -> bool {
        matches!(self, Self::Unexpected { .. } | Self::Template { .. } | Self::Cassette(_))
    }

    /// Returns the reason why the provider is away, if it is. The request is then valid, and waits.
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Unreachable { .. } => Some(Outage::Unreachable),
            Self::Unavailable { .. } | Self::Interrupted { .. } | Self::TimedOut { .. } => Some(Outage::Failing),
            Self::Broken { .. } => Some(Outage::Broken),
            Self::RateLimited { retry_after, .. } => Some(Outage::Limited { retry_after: *retry_after }),
            // No model gives an answer that exceeds the bound, and asking again would transfer as much again.
            Self::KeyRefused { .. } | Self::NoCredit { .. } | Self::NotAnAnswer { .. } | Self::TooLong { .. } => {
                Some(Outage::NeedsPerson)
            }
            Self::Unexpected { .. }
            | Self::NoReply { .. }
            | Self::Template { .. }
            | Self::Content { .. }
            | Self::Tool(_)
            | Self::Cassette(_)
            | Self::Panicked { .. }
            | Self::Rejected { .. }
            | Self::NoModel { .. }
            | Self::BadTurn { .. }
            | Self::ContextExceeded { .. }
            | Self::Filtered { .. }
            | Self::TurnTimedOut { .. } => None,
        }
    }

    /// Whether the provider may have answered, and be paid for it, although the request ended so.
    pub fn may_cost(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Interrupted { .. }
                | Self::NotAnAnswer { status: 200..300, .. }
                | Self::Panicked { .. }
                | Self::Filtered { .. }
                | Self::BadTurn { .. }
                | Self::Broken { .. }
                | Self::TooLong { .. }
                | Self::TimedOut { .. }
                | Self::TurnTimedOut { .. }
        )
    }

    /// Whether the same request may be answered a moment later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Unreachable { .. }
                | Self::Interrupted { .. }
                | Self::RateLimited { .. }
                | Self::Broken { .. }
                | Self::TimedOut { .. }
        )
    }

    /// Whether the provider, the model, the key or the connection is at fault, and not the request. Then another model may
    /// answer the same request.
    pub fn is_unavailable(&self) -> bool {
        let is_missing = |status: &Option<u16>| matches!(status, Some(404 | 501));
        match self {
            Self::Rejected { status, .. } => is_missing(status),
            Self::NoModel { .. } => true,
            error => error.is_retryable() || error.outage().is_some(),
        }
    }

    /// Returns the error for `fault`, which the provider sent with `status` or in the middle of an answer.
    pub fn of_fault(provider: &str, status: Option<u16>, fault: &Fault, retry_after: Option<Duration>) -> Self {
        let (provider, message) = (provider.to_owned(), fault.to_string());
        // The words of a fault in the middle of an answer count; before it, the status does.
        let status = status.filter(|status| *status >= 300).or(fault.status);
        let retry_after = retry_after.or(fault.retry_after);
        match (class_of(fault, status), status) {
            (Some(Class::NoCredit), _) | (None, Some(402)) => Self::NoCredit { provider, message },
            (Some(Class::TooLong), _) => Self::ContextExceeded { provider, message },
            (Some(Class::Filtered), _) => Self::Filtered { provider, message },
            (Some(Class::NoModel), _) => Self::NoModel { provider, message },
            (Some(Class::BadTurn), _) => Self::BadTurn { provider, message },
            (Some(Class::KeyRefused), _) | (None, Some(401 | 403)) => Self::KeyRefused { provider, variable: None, message },
            (Some(Class::Rate), _) | (None, Some(429)) => Self::RateLimited { provider, message, retry_after },
            (Some(Class::Rejected), status) => Self::Rejected { provider, status, message },
            (None, Some(status @ (408 | 409 | 425))) => unavailable(&provider, Some(status), &message),
            (None, Some(status @ (..=499 | 501))) => Self::Rejected { provider, status: Some(status), message },
            (None, status) => unavailable(&provider, status, &message),
        }
    }
}

fn unavailable(provider: &str, code: Option<u16>, message: &str) -> ModelError {
    ModelError::Unavailable { reason: format!("{provider} failed{}: {message}", in_parentheses(code)) }
}

fn in_parentheses(status: Option<u16>) -> String {
    status.map(|status| format!(" with status {status}")).unwrap_or_default()
}

fn kind(content_type: &str) -> &str {
    if content_type.is_empty() { "no content type" } else { content_type }
}

fn named(variable: Option<&String>) -> String {
    variable.map(|variable| format!(" in {variable}")).unwrap_or_default()
}

fn wait(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!(" and asks to wait {} s", wait.as_secs())).unwrap_or_default()
}
