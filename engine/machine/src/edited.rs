//! The input that a person gives a call with its approval, in place of the agent's.

use baton_types::config::Named;

use crate::prelude::*;

impl Run {
    /// Returns the call that the approval question `question` is about, with the input that `answer` gives it; `None` if the answer
    /// leaves the input as it is.
    ///
    /// # Errors
    /// Why the input is none for this tool.
    pub(crate) fn edited(&self, question: &Task, answer: &Value) -> Result<Option<ModelCall>, String> {
        let (Some(true), Some(input @ Value::Object(_))) = (answer["approved"].as_bool(), answer.get("input")) else {
            return Ok(None);
        };
        let id = question.id.originating_call();
        let caller = self.task(&id.task());
        let (Some(Concern::Approval { .. }), Some(caller)) = (question.concern(), caller) else { return Ok(None) };
        let (Some(open), Some(agent)) = (caller.call(&id), caller.agent()) else { return Ok(None) };
        let edited = ModelCall { input: Json::from(input), ..(*open.asked).clone() };
        if edited.input == open.asked.input {
            return Ok(None);
        }
        let agent = crate::agent(&self.configs, agent);
        let tool = self.configs.tool_of(Some(&agent.id), &edited).ok_or_else(|| format!("there is no tool {}", edited.tool))?;
        let effective = tool.effective_input(&edited.input, &agent.id, &id);
        tool.input.check_text(&effective).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(|fault| format!("/input{}: {}", fault.pointer, fault.message)).collect();
            faults.join("; ")
        })?;
        match agent.named(tool, &edited) {
            Named::None | Named::Granted(_) | Named::OfSetting(_) => Ok(Some(edited)),
            Named::Unknown(id) => Err(format!("the agent has no configuration {id:?} of tool {}", edited.shown_name())),
            Named::Ambiguous => Err("\"config_id\" of the call and of its input differ".to_owned()),
        }
    }
}
