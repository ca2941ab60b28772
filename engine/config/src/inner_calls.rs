//! `calls` of a tool's config: the tools that its code may call.

use baton_types::config::{ALL_GRANTED, EffectClass, Executor};
use baton_types::id::ToolId;
use baton_types::tool_type::ToolType;

use crate::fault::FaultKind;
use crate::form::ToolForm;
use crate::loader::Loader;
use crate::reader::{Spot, pointer};
use crate::tool::Texts;

impl<'s> Loader<'s> {
    /// Reports code that could not make its calls again after a crash, and calls of handoffs. The names are checked once all tools
    /// are known.
    pub(super) fn check_inner_calls(
        &mut self,
        tool_type: ToolType,
        form: &ToolForm,
        executor: Option<&Executor>,
        texts: &Texts<'_, 's>,
    ) {
        let Some(calls) = form.calls.as_ref().filter(|_| tool_type.behavior().runs_code) else { return };
        // The fault is in the file that joined the two keys.
        let misplaced = |other: &str, message: &str, expected: &str| {
            let place = texts.newest_of(["/calls", other]);
            texts.fault(FaultKind::MisplacedKey, place, Spot::Key, message).expected(expected)
        };
        if texts.function.is_some_and(|function| function.blocking) {
            self.faults.push(misplaced("/calls", "a blocking function cannot make calls", "an \"async fn\""));
        }
        // A command is a process of its own: its effect class decides what happens after a crash, or while a call waits for a person.
        let is_command = matches!(executor, Some(Executor::Exec(_)));
        if is_command && form.effect.is_none() {
            let message = "a command that makes calls needs an \"effect\": its process may end while a call waits for a person";
            let expected = "\"keyed\", \"idempotent\" or \"pure\" if the command may run again (calls keep their results), else \"at_most_once\"";
            self.faults.push(texts.fault(FaultKind::MissingKey, "/calls", Spot::Key, message).expected(expected));
        }
        if !is_command && form.effect.unwrap_or_default() != EffectClass::Pure {
            let message = "a function that makes calls runs again after a crash, so it must have no effect of its own";
            self.faults.push(misplaced("/effect", message, "\"effect\": \"pure\"; the called tools keep their own effects"));
        }
        for key in ["suspends", "writes"] {
            let is_set = if key == "suspends" { form.suspends } else { form.writes };
            if is_set.unwrap_or_default() {
                let message = format!("\"calls\" and \"{key}\" exclude each other");
                self.faults.push(misplaced(&pointer(&[key]), &message, "a tool of its own for each"));
            }
        }
        for (index, id) in calls.iter().enumerate() {
            if calls[..index].contains(id) {
                let message = format!("\"calls\" names \"{id}\" twice");
                self.faults.push(texts.fault(FaultKind::SameId, &pointer(&["calls", &index.to_string()]), Spot::Value, message));
                continue;
            }
            if id == ALL_GRANTED {
                continue;
            }
            let message = format!("tool \"{}\" calls the unknown tool \"{id}\"", form.tool_id);
            let place = pointer(&["calls", &index.to_string()]);
            let fault = texts.fault(FaultKind::UnknownTool, &place, Spot::Value, message);
            self.inner_calls.push((id.clone(), fault));
        }
    }

    /// Reports the names in `calls` that are no tools which code may call.
    pub(super) fn check_named_calls(&mut self) {
        for (id, mut fault) in std::mem::take(&mut self.inner_calls) {
            match self.tools.get(id.as_str()) {
                None if self.assumed_tools.contains(&id) => {}
                None => {
                    let fault = fault.near(&id, self.tools.keys().map(ToolId::as_str));
                    self.faults.push(fault);
                }
                Some(tool) if tool.is_for_models_only() => {
                    fault.message = format!("code cannot call \"{id}\", a tool of type {}", tool.tool_type);
                    self.faults.push(fault.expected("a tool that gives a result to its caller"));
                }
                Some(_) => {}
            }
        }
    }
}
