//! Keys that a tool config may have: by its type, and by its other keys.

use baton_types::config::{EffectClass, OnUnknownOutcome};
use baton_types::tool_type::{Then, ToolType};
use serde_json::Value;

use crate::fault::{Fault, FaultKind};
use crate::form::ToolForm;
use crate::loader::Loader;
use crate::reader::{Spot, Text, pointer};
use crate::tool::Texts;
use crate::tool::refine::ALTERNATIVES;

impl<'s> Loader<'s> {
    /// Reports keys that exclude each other or have no meaning for this type.
    pub(super) fn check_keys(&mut self, tool_type: ToolType, value: &Value, texts: &Texts<'_, 's>) {
        let row = tool_type.behavior();
        for (short, full) in ALTERNATIVES {
            if value.get(short).is_some() && value.get(full).is_some() {
                let message = format!("\"{short}\" and \"{full}\" exclude each other");
                self.faults.push(texts.fault(FaultKind::MisplacedKey, &pointer(&[full]), Spot::Key, message));
            }
        }
        let mut misplaced = |key: &str, meant: &str| {
            if value.get(key).is_some() {
                let message = format!("\"{key}\" does not apply to a tool of type {tool_type}");
                let fault = texts.fault(FaultKind::MisplacedKey, &pointer(&[key]), Spot::Key, message);
                self.faults.push(fault.expected(format!("this key only in {meant}")));
            }
        };
        if !row.runs_code {
            const KEYS: [&str; 15] = [
                "effect",
                "timeout_seconds",
                "idle_seconds",
                "writes",
                "controls_flow",
                "suspends",
                "suspend_timeout_seconds",
                "target_subject",
                "args",
                "envs",
                "calls",
                "on_unknown_outcome",
                "settings",
                "set",
                "secrets",
            ];
            for key in KEYS {
                misplaced(key, "a function_tool");
            }
        }
        if !row.creates_task {
            misplaced("limits", "an agent_as_tool or ask_master");
        }
        if tool_type != ToolType::AgentAsTool {
            for key in ["agent", "context", "on_failure", "background", "follow_up", "accept"] {
                misplaced(key, "an agent_as_tool");
            }
        }
    }

    /// Reports a tool that describes others but cannot be asked for them.
    pub(super) fn check_describes(&mut self, tool_type: ToolType, form: &ToolForm, value: &Value, texts: &Texts<'_, 's>) {
        if !form.describes_tools.unwrap_or_default() {
            return;
        }
        let row = tool_type.behavior();
        let takes_names = ["/parameters/tools/items/type", "/input_schema/properties/tools/items/type"];
        let message = if row.runs_code || row.then != Then::Continue {
            format!("\"describes_tools\" does not apply to a tool of type {tool_type}")
        } else if takes_names.iter().all(|place| value.pointer(place).and_then(Value::as_str) != Some("string")) {
            "a tool that describes others needs the input \"tools\", an array of strings".to_owned()
        } else {
            return;
        };
        let fault = texts.fault(FaultKind::MisplacedKey, "/describes_tools", Spot::Key, message);
        self.faults.push(fault.expected("a non_function_tool with the parameter \"tools\", an array of strings"));
    }

    /// Reports an approval without a possible approver, and a question that could never occur.
    pub(super) fn check_questions(&mut self, tool_type: ToolType, form: &ToolForm, texts: &Texts<'_, 's>) {
        if form.approval.is_some() && !may_need_approval(tool_type) {
            self.faults.push(unapprovable(texts.text("/approval"), "/approval", tool_type));
        }
        let effect = form.effect.unwrap_or_default();
        if form.on_unknown_outcome == Some(OnUnknownOutcome::Ask)
            && tool_type.behavior().runs_code
            && effect != EffectClass::AtMostOnce
        {
            let message = "\"on_unknown_outcome\" does not apply here: after a crash the call runs again";
            let fault = texts.fault(FaultKind::MisplacedKey, "/on_unknown_outcome", Spot::Key, message);
            self.faults.push(fault.expected("this key only with \"effect\": \"at_most_once\""));
        }
    }

    /// Reports a delegation without an agent, and one to an unknown agent.
    pub(super) fn check_agent(&mut self, tool_type: ToolType, form: &ToolForm, texts: &Texts<'_, 's>) {
        match &form.agent {
            None if tool_type == ToolType::AgentAsTool => {
                let message = "a tool of type agent_as_tool needs \"agent\"";
                self.faults.push(texts.fault(FaultKind::MissingKey, "/agent", Spot::Key, message));
            }
            Some(agent) if !self.has_agent(agent) => {
                let message = format!("tool \"{}\" delegates to the unknown agent \"{agent}\"", form.tool_id);
                let fault = texts.fault(FaultKind::UnknownAgent, "/agent", Spot::Value, message);
                self.faults.push(fault.near(agent, self.agents.keys().map(String::as_str)));
            }
            _ => {}
        }
    }
}

/// Whether calls of such a tool may have to be approved: those that act. A note is only logged, and a question asks already.
pub(crate) const fn may_need_approval(tool_type: ToolType) -> bool {
    matches!(tool_type, ToolType::FunctionTool | ToolType::AgentAsTool | ToolType::Handoff)
}

/// Returns the fault of an approval for calls that need none.
pub(crate) fn unapprovable(text: &Text<'_>, pointer: &str, tool_type: ToolType) -> Fault {
    let message = format!("\"approval\" does not apply to a tool of type {tool_type}");
    text.fault(FaultKind::MisplacedKey, pointer, Spot::Key, message)
        .expected("this key only for a function_tool, agent_as_tool or handoff")
}
