//! Triggers: a version of a record has to start an agent, or to execute a tool.

use baton_types::breadcrumb::{Breadcrumb, Viewer};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{AgentDefinition, Author, may_read};

/// The schema of requests to execute a tool.
pub const REQUEST_SCHEMA: &str = "tool.request.v1";
/// The schema of their answers.
pub const RESPONSE_SCHEMA: &str = "tool.response.v1";
/// The schema of an agent's answers.
pub const AGENT_RESPONSE_SCHEMA: &str = "agent.response.v1";

/// The beginning of the tag that names a session.
const SESSION_TAG: &str = "session:";

/// A version of a record that has to be handled once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Its number in the store: later triggers have greater ones.
    pub number: u64,
    /// The project of the record and of its handler.
    pub project: ProjectId,
    /// The handler.
    pub handler: Handler,
    /// The record.
    pub breadcrumb: BreadcrumbId,
    /// The version.
    pub version: u64,
    /// The session that its tag `session:ID` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Number of triggers in the chain that ends with it.
    pub depth: u32,
    /// The run of the call that wrote the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<RunId>,
    /// When the version was written, in microseconds.
    pub at: i64,
    /// The version itself, if its record may end before the trigger is settled. A run that has begun is answered all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<Breadcrumb>>,
    /// Why it gets no run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Its state.
    pub state: TriggerState,
}

/// The handler of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handler {
    /// The agent that the record defines.
    Agent(BreadcrumbId),
    /// The execution of the tool that the request names.
    ToolRequest,
}

/// State of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerState {
    /// No run was started.
    Waiting,
    /// A run handles it.
    Started {
        /// The run.
        run: RunId,
    },
    /// It is handled.
    Settled {
        /// The run, if one was started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// The record that answers it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<BreadcrumbId>,
        /// Why there was no run or no answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
}

impl TriggerState {
    /// Whether something is left to do.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Settled { .. })
    }

    /// Returns the run that handles or handled it.
    pub fn run(&self) -> Option<&RunId> {
        match self {
            Self::Waiting => None,
            Self::Started { run } => Some(run),
            Self::Settled { run, .. } => run.as_ref(),
        }
    }
}

impl Trigger {
    /// Returns the queue in which it waits: triggers of one agent in one session are handled one after another.
    pub fn queue(&self) -> Option<String> {
        match (&self.handler, &self.session) {
            (Handler::Agent(definition), Some(session)) => Some(format!("{definition}\n{session}")),
            _ => None,
        }
    }

    /// Returns when the version was written.
    pub fn written(&self) -> Timestamp {
        Timestamp::from_micros(self.at)
    }
}

/// Returns the session that a tag of the record names.
pub fn session_of(record: &Breadcrumb) -> Option<&str> {
    record.tags.iter().find_map(|tag| tag.strip_prefix(SESSION_TAG)).filter(|session| !session.is_empty())
}

/// Returns the tag of a session.
pub fn session_tag(session: &str) -> String {
    format!("{SESSION_TAG}{session}")
}

/// Whether a version of a record asks for the execution of a tool. A request is executed once, whatever changes it later.
pub fn is_new_request(record: &Breadcrumb, before: Option<&Breadcrumb>) -> bool {
    let is_request = |record: &Breadcrumb| record.schema_name.as_deref() == Some(REQUEST_SCHEMA);
    is_request(record) && !before.is_some_and(is_request)
}

/// Whether a version of a record starts an agent. `before` is the version before it.
///
/// A change starts no agent that the version before it started. No agent starts itself, and none is started by a record that it may
/// not read.
pub fn starts(agent: &AgentDefinition, record: &Breadcrumb, before: Option<&Breadcrumb>, by: &Author) -> bool {
    let principal = Principal::Agent(agent.agent.clone());
    if by.viewer.principal == principal {
        return false;
    }
    let viewer = Viewer { principal, project: record.project.clone(), may_read_pii: false };
    agent.selects(record) && may_read(&viewer, record) && !before.is_some_and(|before| agent.selects(before))
}
