//! The six tool types and what a call of each does.

use serde::{Deserialize, Serialize};

/// The kind of a tool. What a call does follows from the row of its type, not from code written for the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolType {
    /// Runs code and returns its result to the agent.
    FunctionTool,
    /// Records its input: thinking, planning, memory.
    NonFunctionTool,
    /// Finishes the task; result and documents go back to the caller.
    Handoff,
    /// Delegates to another agent and waits for what it hands back.
    AgentAsTool,
    /// Asks the master, an agent or a person, and waits for the answer.
    AskMaster,
    /// The entry point of a run. The engine's own: no agent can be offered it.
    Root,
}

/// One row of the table: what a call of a tool type does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behavior {
    /// Whether a call creates a task.
    pub creates_task: bool,
    /// Whether the calling task waits until the created task ends.
    pub blocks_caller: bool,
    /// Whether a call runs an executor: a function, a command, a service.
    pub runs_code: bool,
    /// Part of a call that the timeline keeps.
    pub logs: Logs,
    /// Whether documents may be attached to a call.
    pub passes_documents: bool,
    /// Next step of the calling task after the call.
    pub then: Then,
}

/// Part of a call that the timeline keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logs {
    /// Input and result.
    InputAndResult,
    /// Input only.
    InputOnly,
    /// Input and the attached documents.
    InputAndDocuments,
    /// Input and status at once; result or answer later.
    InputAndStatus,
    /// The request of the run.
    Request,
}

/// Next step of the calling task after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It continues with the result.
    Continue,
    /// It ends; result and documents are injected into its caller.
    Stop,
    /// It waits, then continues with the result and its documents.
    Block,
    /// It begins.
    Enter,
}

/// Writes one row of the table.
const fn row(
    creates_task: bool,
    blocks_caller: bool,
    runs_code: bool,
    logs: Logs,
    passes_documents: bool,
    then: Then,
) -> Behavior {
    Behavior { creates_task, blocks_caller, runs_code, logs, passes_documents, then }
}

impl ToolType {
    /// All six, in the order of the table.
    pub const ALL: [Self; 6] =
        [Self::FunctionTool, Self::NonFunctionTool, Self::Handoff, Self::AgentAsTool, Self::AskMaster, Self::Root];

    /// Returns this type's row. `TOOLS.md` prints the same rows, so the page stays true.
    #[rustfmt::skip]
    #[expect(clippy::match_same_arms, reason = "one row per type, so that the table can be read")]
    pub const fn behavior(self) -> Behavior {
        use Logs::{InputAndDocuments, InputAndResult, InputAndStatus, InputOnly, Request};
        use Then::{Block, Continue, Enter, Stop};
        //                              creates blocks  runs                      passes
        match self {           //       task    caller  code   logs               docs   then
            Self::FunctionTool    => row(false, false,  true,  InputAndResult,    false, Continue),
            Self::NonFunctionTool => row(false, false,  false, InputOnly,         false, Continue),
            Self::Handoff         => row(false, false,  false, InputAndDocuments, true,  Stop),
            Self::AgentAsTool     => row(true,  true,   false, InputAndStatus,    true,  Block),
            Self::AskMaster       => row(true,  true,   false, InputAndStatus,    true,  Block),
            Self::Root            => row(true,  false,  false, Request,           false, Enter),
        }
    }

    /// Returns the name used in configs and on timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FunctionTool => "function_tool",
            Self::NonFunctionTool => "non_function_tool",
            Self::Handoff => "handoff",
            Self::AgentAsTool => "agent_as_tool",
            Self::AskMaster => "ask_master",
            Self::Root => "root",
        }
    }
}

impl std::fmt::Display for ToolType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
