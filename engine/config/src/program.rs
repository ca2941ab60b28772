//! Agents that are programs: the file found and checked, no keys that only a model needs, and the tool that runs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_program::{Callee, Named, worker};
use baton_types::config::{AgentProgram, Tool};
use baton_types::id::{ROUTE_PREFIX, ToolId};
use baton_types::tool_type::ToolType;
use serde_json::Value;

use crate::fault::{Fault, FaultKind};
use crate::form::{AgentForm, ToolForm};
use crate::loader::{Loader, Read, ReadAgent};
use crate::reader::{Spot, Text, pointer};
use crate::source::Role;
use crate::tool::Texts;

/// Keys that are for a model.
const OF_MODELS: [&str; 11] = [
    "model",
    "system_prompt",
    "configs",
    "invocation",
    "catalog",
    "on_text",
    "summary",
    "settings",
    "join",
    "open_tasks",
    "tell_limits",
];

impl<'s> Loader<'s> {
    /// Returns the program of an agent, if it has one without faults.
    /// It may call `granted`.
    pub(crate) fn own_program(
        &mut self,
        form: &AgentForm,
        agent: &ReadAgent<'s>,
        granted: &BTreeMap<ToolId, Arc<Tool>>,
    ) -> Option<AgentProgram> {
        let path = form.program.as_ref()?;
        let Read { text, is_shared, .. } = agent.holder("/program");
        for key in OF_MODELS {
            let place = pointer(&[key]);
            if agent.value.get(key).is_some() {
                let message = format!("\"{key}\" is for an agent with a model, and this one has a program");
                self.faults.push(agent.text(&place).fault(FaultKind::MisplacedKey, &place, Spot::Key, message));
            }
        }
        if form.limits.as_ref().is_some_and(|limits| limits.turns == Some(1)) {
            let message = "\"turns\" leaves a program no turn: one is its own, and one is set aside as the last turn";
            let fault = agent.text("/limits/turns").fault(FaultKind::OutOfRange, "/limits/turns", Spot::Value, message);
            self.faults.push(fault.expected("2 or more"));
        }
        let role = if *is_shared { Role::SharedProgram } else { Role::Program };
        let source = self.find_file(role, path, text, "/program", "program")?;
        let shown = self.sources.display(source);
        if let Some(at) = source.invalid_at {
            let fault = Fault::of_file(FaultKind::Syntax, &shown, "the file is not text in UTF-8");
            self.faults.push(fault.at(&source.text, at..at));
            return None;
        }
        let Some(tool) = self.tools.values().find(|tool| tool.runs_programs).map(|tool| tool.id.clone()) else {
            let message = "no tool runs the programs of agents";
            let fault = text.fault(FaultKind::UnknownTool, "/program", Spot::Key, message);
            self.faults.push(fault.expected("a tool with \"runs_programs\": true, such as the built-in one"));
            return None;
        };
        let named = match worker::check(path, &source.text) {
            Ok(named) => named,
            Err(fault) => {
                let at = offset(&source.text, fault.line, fault.column);
                self.faults.push(Fault::of_file(FaultKind::BadProgram, &shown, fault.message).at(&source.text, at..at));
                return None;
            }
        };
        for Named { callee, name, line, column, bytes } in named {
            let prefix = if callee == Callee::Agent && !name.starts_with(ROUTE_PREFIX) { ROUTE_PREFIX } else { "" };
            let id = format!("{prefix}{name}");
            if granted.contains_key(id.as_str()) || self.assumed_tools.contains(&id) {
                continue;
            }
            let message = format!("the program calls {id}, and agent \"{}\" has no tool of this id", form.agent_id);
            let at = offset(&source.text, line, column);
            let fault = Fault::of_file(FaultKind::UnknownTool, &shown, message).at(&source.text, at..at + bytes);
            self.faults.push(fault.near(&id, granted.keys().map(ToolId::as_str)));
        }
        Some(AgentProgram { file: path.clone(), source: Arc::from(source.text.as_str()), tool })
    }

    /// Reports a tool that is to run programs and cannot.
    pub(crate) fn check_runs_programs(&mut self, tool_type: ToolType, form: &ToolForm, value: &Value, texts: &Texts<'_, 's>) {
        if !form.runs_programs.unwrap_or_default() {
            return;
        }
        let takes = |name: &&str| {
            let places = [format!("/parameters/{name}"), format!("/input_schema/properties/{name}")];
            places.iter().any(|place| value.pointer(place).is_some())
        };
        let message = if !tool_type.behavior().runs_code || form.exec.is_some() || form.calls.is_none() {
            "\"runs_programs\" is for a function with \"calls\"".to_owned()
        } else if let Some(missing) = ["name", "code", "request", "inputs", "schema"].iter().find(|name| !takes(name)) {
            format!("a tool that runs the programs of agents needs the input \"{missing}\"")
        } else {
            return;
        };
        self.faults.push(texts.fault(FaultKind::MisplacedKey, "/runs_programs", Spot::Key, message));
    }

    /// Returns the name of the agent's model, which must be there without a program.
    pub(crate) fn model_of<'f>(&mut self, form: &'f AgentForm, agent: &ReadAgent<'s>) -> &'f str {
        form.model.as_deref().unwrap_or_else(|| {
            self.missing("model", agent);
            ""
        })
    }

    /// Reports a key that an agent without a program must have.
    pub(crate) fn missing(&mut self, key: &str, agent: &ReadAgent<'s>) {
        let place = pointer(&[key]);
        let text: &Text<'s> = agent.text(&place);
        let fault = text.fault(FaultKind::MissingKey, &place, Spot::Key, format!("key \"{key}\" is missing"));
        self.faults.push(fault.expected("\"model\" and \"system_prompt\", or \"program\""));
    }
}

/// Returns the byte at a line and a column, both from 1; the first one for a line of 0.
fn offset(text: &str, line: u32, column: u32) -> usize {
    let Some(skipped) = line.checked_sub(1) else { return 0 };
    let before: usize = text.split_inclusive('\n').take(skipped as usize).map(str::len).sum();
    let within = text[before..].chars().take(column.saturating_sub(1) as usize).map(char::len_utf8).sum::<usize>();
    before + within
}
