//! Classes of calls that a person approved at once: calls of one tool whose inputs meet some conditions, until the run ends.

use baton_types::approval::ArgumentMatch;

use crate::prelude::*;

/// An approved class.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovedClass {
    /// The call with whose approval the class was approved.
    pub call: CallId,
    /// The hash of the tool with its configuration, as it was then.
    pub tool: ContentHash,
    /// The conditions, all of which a call meets.
    pub conditions: Vec<ArgumentMatch>,
}

/// Returns the hash of `tool` without an input.
pub(crate) fn tool_hash(tool: &Tool) -> ContentHash {
    tool.call_hash(&Json::null())
}

impl Run {
    /// Returns the call with whose approval a person approved calls of `tool` with `input`.
    pub(crate) fn class_of(&self, tool: &Tool, input: &Json) -> Option<&CallId> {
        if self.shared.classes.is_empty() {
            return None;
        }
        let (hash, input) = (tool_hash(tool), input.value());
        let meets =
            |class: &&ApprovedClass| class.tool == hash && class.conditions.iter().all(|condition| condition.holds(&input));
        self.shared.classes.iter().find(meets).map(|class| &class.call)
    }

    /// Returns the class that `answer` approves together with the call of the approval question `question`; `edited` is the call
    /// with the input that the answer gives it. The call itself must be of the class.
    ///
    /// # Errors
    /// Why it is no class of this call.
    pub(crate) fn class_in(
        &self,
        question: &Task,
        answer: &Value,
        edited: Option<&ModelCall>,
    ) -> Result<Vec<ArgumentMatch>, String> {
        let (Some(true), Some(class)) = (answer["approved"].as_bool(), answer.get("class")) else { return Ok(Vec::new()) };
        let id = question.id.originating_call();
        let open = self.task(&id.task()).and_then(|caller| caller.call(&id));
        let (Some(Concern::Approval { .. }), Some(open)) = (question.concern(), open) else { return Ok(Vec::new()) };
        let class: Vec<ArgumentMatch> = serde_json::from_value(class.clone()).map_err(|error| format!("/class: {error}"))?;
        let input = edited.map_or_else(|| open.asked.input.value(), |edited| edited.input.value());
        for condition in &class {
            condition.check().map_err(|reason| format!("/class: {reason}"))?;
            if !condition.holds(&input) {
                return Err(format!("/class: the class must match this call, but its condition {condition} does not"));
            }
        }
        Ok(class)
    }
}
