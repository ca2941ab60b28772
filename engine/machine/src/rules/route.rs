//! Rule *route*: `"return_to_llm": false` on a call sends its result to the user as an output. A handoff's result always goes
//! to the caller, and a refused call always returns to the agent.

use crate::prelude::*;

/// Whether the result of a call goes to the user.
pub(crate) fn goes_to_user(asked: &ModelCall, tool_type: ToolType) -> bool {
    asked.return_to_llm == Some(false) && tool_type.behavior().then != Then::Stop
}
