//! Executors of function tools: a linked function, a command or a tool service.

use baton_types::config::{ExecSpec, Executor, ServiceSpec};
use baton_types::tool_type::ToolType;

use crate::fault::FaultKind;
use crate::form::ToolForm;
use crate::loader::{Loader, holder, place_of};
use crate::reader::Spot;
use crate::source::Role;
use crate::tool::Texts;

impl<'s> Loader<'s> {
    /// Returns the executor of the tool. A function tool has exactly one, other tools have none.
    pub(super) fn executor(&mut self, tool_type: ToolType, form: &ToolForm, texts: &Texts<'_, 's>) -> Option<Executor> {
        let id = &form.tool_id;
        let is_shared = holder(texts.files.iter().copied(), "/exec").is_shared;
        let (role, above) = if is_shared { (Role::SharedCommandFile, self.sources.above()) } else { (Role::CommandFile, 0) };
        let known = self.sources.by_path(role);
        let hash = |argument: &String| Some((argument.clone(), known.get(argument.as_str())?.text.clone()));
        let exec = form.exec.as_ref().map(|exec| ExecSpec {
            command: exec.command.clone(),
            env: exec.env.clone(),
            files: exec.command.iter().filter_map(hash).collect(),
            above,
        });
        if let Some(service) = Self::service_of(form).filter(|_| tool_type.behavior().runs_code) {
            return self.service_executor(service, form, texts);
        }
        match (tool_type.behavior().runs_code, texts.function, exec) {
            (true, Some(function), None) => Some(Executor::Function(function.name())),
            (true, None, Some(exec)) => Some(Executor::Exec(exec)),
            (true, Some(function), Some(_)) => {
                let message = format!("tool \"{id}\" has two executors: \"exec\" and fn {}", function.name);
                let fault = texts.fault(FaultKind::TooManyExecutors, "/exec", Spot::Key, message);
                self.faults.push(fault.expected("one of them").note(place_of(function)));
                None
            }
            (true, None, None) if self.reading => None,
            (true, None, None) => {
                let message = format!("the function tool \"{id}\" has no function: this program links none of that name");
                let fault = texts.fault(FaultKind::NoExecutor, "/tool_id", Spot::Value, message);
                self.faults.push(fault.near(id, self.functions.keys().copied()).expected("a #[tool] function or \"exec\""));
                None
            }
            (false, Some(function), _) => {
                let message =
                    format!("tool \"{id}\" is of type {tool_type}, which runs no code, but fn {} implements it", function.name);
                let fault = texts.fault(FaultKind::TooManyExecutors, "/type", Spot::Value, message);
                self.faults.push(fault.expected("\"function_tool\"").note(place_of(function)));
                None
            }
            (false, None, Some(_)) => {
                let message = format!("a tool of type {tool_type} runs no code, so it has no \"exec\"");
                self.faults.push(texts.fault(FaultKind::TooManyExecutors, "/exec", Spot::Key, message));
                None
            }
            (false, None, None) => None,
        }
    }

    /// Returns the executor of a tool service, which has no other.
    fn service_executor(&mut self, service: ServiceSpec, form: &ToolForm, texts: &Texts<'_, 's>) -> Option<Executor> {
        let id = &form.tool_id;
        let (place, message) = match (texts.function, &form.exec) {
            (Some(function), _) => {
                ("/target_subject", format!("tool \"{id}\" has two executors: \"target_subject\" and fn {}", function.name))
            }
            (None, Some(_)) => {
                let place = texts.newest_of(["/exec", "/target_subject"]);
                (place, format!("tool \"{id}\" has two executors: \"exec\" and \"target_subject\""))
            }
            (None, None) => return Some(Executor::Service(service)),
        };
        self.faults.push(texts.fault(FaultKind::TooManyExecutors, place, Spot::Key, message).expected("one of them"));
        None
    }
}
