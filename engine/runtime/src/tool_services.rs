//! Tool services: programs outside that execute calls, and get a command for each.

use baton_types::call::AfterExecution;
use baton_types::config::ServiceSpec;
use baton_types::id::{AgentId, CallId, RunId, ToolId};
use futures_util::future::BoxFuture;

/// Sends commands to tool services. The engine sends a command when the suspension of its call is durable, and again while no result
/// comes. A command that is lost only delays its call.
pub trait ToolServices: Send + Sync + 'static {
    /// Checks that commands can be sent to `service` from here.
    ///
    /// # Errors
    /// The reason as a sentence, such as the subject of another project.
    fn check(&self, service: &ServiceSpec) -> Result<(), String>;

    /// Sends commands; returns when they are stored where services get them from.
    ///
    /// # Errors
    /// The first reason why a command could not be sent. Others may have been sent.
    fn send<'a>(&'a self, commands: &'a [ServiceCommand]) -> BoxFuture<'a, Result<(), String>>;
}

/// A command for a tool service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceCommand {
    /// The run.
    pub run: RunId,
    /// The call. It is suspended.
    pub call: CallId,
    /// The agent whose call it is.
    pub agent: AgentId,
    /// The tool.
    pub tool: ToolId,
    /// The service.
    pub service: ServiceSpec,
    /// The next step after the result, unless the result sets another.
    pub after: AfterExecution,
    /// Whether the command was sent before and had no answer since.
    pub is_repeated: bool,
}
