//! The tools that a call may name: those of an agent, or those that the code of a call may call.

use crate::bounded;
use crate::prelude::*;

impl Run {
    /// Returns the tool that a call of `task` names, or a call that the code of `outer` makes.
    ///
    /// # Errors
    /// The names that such a call may have.
    pub(crate) fn callable(&self, task: TaskIndex, outer: Option<&Tool>, named: &str) -> Result<&Arc<Tool>, CallError> {
        let agent = self.agent_of(task);
        let approver = |tool: &Tool| self.approver_of(task, tool).map(|(approver, _)| approver);
        let is_question = self.graph[task].kind == TaskKind::Question;
        let is_offered = |tool: &&Arc<Tool>| !is_question || tool.allowed_in_questions(approver(tool));
        if let Some(tool) = self.configs.callable(agent, outer, named).filter(is_offered) {
            return Ok(tool);
        }
        let offered = self.configs.all_callable(agent, outer).into_iter().filter(is_offered);
        let names: Vec<&str> = offered.map(|tool| tool.definition.shown_name()).collect();
        let named = bounded(named);
        let (message, detail) = match outer {
            None => (format!("you have no tool {named:?}"), json!({"granted_tools": names})),
            Some(outer) => {
                let code = outer.definition.shown_name();
                (format!("there is no tool {named:?} that the code of {code} may call"), json!({"callable_tools": names}))
            }
        };
        Err(CallError::new(ErrorCode::UnknownTool, message).with_detail(detail))
    }
}
