//! The approver of a call: the rules of its agent and of all agents above bind it.

use baton_types::config::Approver;

use crate::agent;
use crate::prelude::*;

impl Run {
    /// Returns the approver that calls of `tool` by `task` need, and the task whose agent has the rule. Of several rules the one with
    /// the higher approver counts. Of several masters it is the master of the highest task with such a rule: a task below cannot
    /// permit what its own master has not.
    ///
    /// A rule for a handoff binds the agent that has it alone, because each handoff is about a result of its own.
    pub(crate) fn approver_of(&self, task: TaskIndex, tool: &Tool) -> Option<(Approver, TaskIndex)> {
        let own =
            self.graph[task].agent().and_then(|id| agent(&self.configs, id).approver(tool)).map(|approver| (approver, task));
        if tool.tool_type.behavior().then == Then::Stop {
            return own;
        }
        let rule = |above: TaskIndex| {
            let id = self.graph[above].agent()?;
            Some((*agent(&self.configs, id).approvals.get(&tool.id)?, above))
        };
        let rules = self.graph.upwards(task).skip(1).filter_map(rule);
        own.into_iter().chain(rules).max_by_key(|(approver, _)| *approver)
    }
}
