//! Why the engine did not do what its caller asked.

use std::sync::Arc;

use baton_config::Faults;
use baton_models::CassetteError;
use baton_schema::provider::SchemaFault;
use baton_store::StoreError;
use baton_types::config::FunctionName;
use baton_types::event::Refusal;
use baton_types::id::{AgentId, ContentHash, RunId, ToolId};

/// Why a run was not started, resumed or acted on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Inputs that the job does not take, lacks, or takes in another form. All of them at once.
    #[error("the inputs do not fit the job:\n{0}")]
    Inputs(Arc<Faults>),
    /// A limit of money that cannot be kept, since a model has no known price.
    #[error("{0}")]
    Unpriced(Arc<Faults>),
    /// An input was given twice.
    #[error("input {name} is given twice")]
    InputTwice {
        /// Its name.
        name: String,
    },
    /// The template of the request or of a system prompt cannot be filled.
    #[error("{reason}")]
    Template {
        /// Which one, and why.
        reason: String,
    },
    /// Nothing in the job or the engine has this model name.
    #[error("model {name} is not known; known models: {}", known.join(", "))]
    UnknownModel {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A model of the job cannot be made.
    #[error("model {name} cannot be used: {error}")]
    Model {
        /// Its name in the job.
        name: String,
        /// Why.
        error: String,
    },
    /// A model for universal invocation would answer a native agent.
    #[error(
        "model {model} cannot answer for agent {agent}: the model has \"invocation\": \"universal\", and the agent is native; \
         set \"invocation\": \"universal\" in the file of the agent, or remove it from the model"
    )]
    Invocation {
        /// The model's name in the job.
        model: String,
        /// The first native agent.
        agent: AgentId,
    },
    /// The run cannot be recorded where it was to be.
    #[error(transparent)]
    Cassettes(#[from] CassetteError),
    /// Tools that the models of their agents cannot be offered. All of them at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Tools(Vec<SchemaFault>),
    /// The job was loaded with functions that the engine does not have, for tools that its agents are granted. All of them
    /// at once.
    #[error("the job needs functions that this engine does not have: {}", functions_of(.0))]
    MissingFunctions(Vec<FunctionName>),
    /// Granted tools have a `target_subject`, and the engine has no connection to tool services.
    #[error(
        "tool services execute these tools of the job, and there is no connection to them: {}; name a NATS server with --bus \
         or BATON_BUS",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    NoServices(Vec<ToolId>),
    /// Granted tools have a `target_subject` to which this process may send nothing. All of them at once, each with the reason.
    #[error("{}", .0.iter().map(|(tool, reason)| format!("tool {tool}: {reason}")).collect::<Vec<_>>().join("\n"))]
    Unreachable(Vec<(ToolId, String)>),
    /// No run has this id.
    #[error("there is no run {0}")]
    UnknownRun(RunId),
    /// A living process owns the run.
    #[error("{owner} owns run {run} and is still running")]
    Held {
        /// The run.
        run: RunId,
        /// The process.
        owner: String,
    },
    /// No call of the store has this key.
    #[error("this key is not valid in this store")]
    UnknownKey,
    /// The run's process died before the first entry was durable.
    #[error("run {0} never started: it has no entries")]
    NeverStarted(RunId),
    /// The run already proceeds in this process.
    #[error("run {0} is already running here")]
    AlreadyRunning(RunId),
    /// The configs that the run is pinned to no longer load with this program.
    #[error("run {run} was started with configs that this program no longer accepts:\n{faults}")]
    PinnedConfigs {
        /// The run.
        run: RunId,
        /// The faults.
        faults: Arc<Faults>,
    },
    /// The configs to adopt have faults.
    #[error("the configs cannot be used:\n{0}")]
    Configs(Arc<Faults>),
    /// A fork would begin before the first decision is complete.
    #[error("the first decision of the run ends with entry {first}: a fork can begin there or later, not after entry {at}")]
    NoSuchDecision {
        /// The entry asked for.
        at: u64,
        /// The first entry that a fork can share last.
        first: u64,
    },
    /// A fork would change what the original did before every point at which a fork can begin.
    #[error(
        "a fork cannot change {field}: it was used before every point at which a fork can begin; start a new run with `baton run`"
    )]
    ChangesThePast {
        /// The setting.
        field: &'static str,
    },
    /// A fork would begin where its original has ended.
    #[error("run {run} ended with entry {end}; a fork cannot begin there; {}", last_place(*.last))]
    PastTheEnd {
        /// The original.
        run: RunId,
        /// Its end.
        end: u64,
        /// The last entry that a fork can share last; 0 if there is none.
        last: u64,
    },
    /// A fork would begin after an entry that the original does not have.
    #[error("run {run} has {last} entries: a fork can begin after entry {first} to {last}, not after entry {at}")]
    NoSuchEntry {
        /// The original.
        run: RunId,
        /// The entry asked for.
        at: u64,
        /// The first entry that a fork can share last.
        first: u64,
        /// The last entry of the run.
        last: u64,
    },
    /// A content that the run needs is not in the store.
    #[error("the store has no content {hash} ({what})")]
    MissingContent {
        /// Its hash.
        hash: ContentHash,
        /// Kind of its content.
        what: &'static str,
    },
    /// The machine refused the event.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run no longer proceeds in this process, so it accepts no events here.
    #[error("run {0} is no longer running in this process")]
    NotRunning(RunId),
    /// The configs reach further than the policy of the engine lets them.
    #[error("{reason}")]
    Untrusted {
        /// The reach of the configs, as a person reads it.
        reason: String,
    },
    /// The engine was built without a trust policy.
    #[error("the engine has no trust policy: set one on the builder, such as TrustEverything for the program's own configs")]
    NoTrust,
    /// The engine was built without a store.
    #[error("the engine has no store: set one on the builder")]
    NoStore,
    /// The store has an entry that no run could have written.
    #[error("entry {seq} of the run ({kind}) does not fit the entries before it: {reason}")]
    BadEntry {
        /// The number of the entry.
        seq: u64,
        /// The kind of the entry.
        kind: &'static str,
        /// The contradiction.
        reason: String,
    },
    /// The engine broke one of its own rules; the run can be resumed.
    #[error("internal error of the engine: {message}")]
    Fault {
        /// Its message.
        message: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

/// Lists functions with the tools that they run.
fn functions_of(missing: &[FunctionName]) -> String {
    missing.iter().map(|function| format!("fn {} (tool {})", function.name, function.id)).collect::<Vec<_>>().join(", ")
}

/// Describes the last possible place of a fork.
fn last_place(last: u64) -> String {
    if last == 0 { "it has a single decision".to_owned() } else { format!("a fork can begin after entry {last} at the latest") }
}

impl RunError {
    /// Whether the store cannot be reached now, and may work again without anybody doing anything about it.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_outage())
    }

    /// Whether the store may work again later: after an outage, or once it has room or is free.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownRun(run) => Self::UnknownRun(run),
            error => Self::Store(Arc::new(error)),
        }
    }
}

/// Returns the message of a panic, shortened: it becomes part of a result that an agent reads.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").chars().take(500).collect()
}
