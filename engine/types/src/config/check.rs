//! Checks of one call that need the configs alone, and no run.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Agent, Catalog, Configs, Named, Tool};
use crate::call::{CallError, CallStatus, ErrorCode, ModelCall};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::schema::SchemaFault;
use crate::text::{MODEL_TEXT_SHOWN, shortened};

impl Agent {
    /// Refuses a configuration that the agent was not granted for this tool. The error names those that it was.
    pub fn check_configuration(&self, tool: &Tool, asked: &ModelCall) -> Result<(), CallError> {
        let named = match self.named(tool, asked) {
            Named::None | Named::Granted(_) | Named::OfSetting(_) => return Ok(()),
            Named::Ambiguous => {
                let message = "\"config_id\" of the call and of its input differ; give one of them";
                return Err(CallError::new(ErrorCode::InvalidInput, message));
            }
            Named::Unknown(id) => id,
        };
        let of_setting = tool.configs_in_setting();
        let granted: BTreeSet<&str> = self.configurations_of(tool).chain(of_setting.iter().map(String::as_str)).collect();
        let hint = if granted.is_empty() { "; leave \"config_id\" out" } else { "" };
        let message = format!(
            "you have no configuration {:?} of tool {}{hint}",
            shortened(&named, MODEL_TEXT_SHOWN),
            tool.definition.shown_name()
        );
        Err(CallError::new(ErrorCode::InvalidInput, message).with_detail(json!({"granted_configurations": granted})))
    }

    /// Returns the error for an input that breaks the tool's schema: the faults, and a valid example if the tool has one.
    pub fn invalid_input(&self, tool: &Tool, faults: &[SchemaFault]) -> CallError {
        let first = faults.first().map(|fault| fault.message.clone()).unwrap_or_default();
        let mut detail = json!({"faults": faults});
        if let Some(example) = tool.examples.first() {
            detail["valid_example"] = example.input.clone();
        }
        // The agent may have called the tool without its definition.
        if self.catalog != Catalog::Full && !tool.is_known_at_once() {
            detail["input_schema"] = tool.definition.input_schema.value();
        }
        CallError::new(
            ErrorCode::InvalidInput,
            format!("the input of {} is invalid: {}", tool.definition.shown_name(), shortened(&first, MODEL_TEXT_SHOWN)),
        )
        .with_detail(detail)
    }
}

impl Configs {
    /// Checks a question's own schema and its default answer, before the question is asked.
    pub fn check_question(&self, input: &Value) -> Result<(), CallError> {
        let refuse = |message: String| Err(CallError::new(ErrorCode::InvalidInput, message));
        let default = input.get("default_answer").filter(|value| !value.is_null());
        if let Some(schema) = input.get("answer_schema").filter(|schema| !schema.is_null()) {
            let compiled = match self.compile(schema) {
                Ok(compiled) => compiled,
                Err(error) => return refuse(format!("answer_schema is not a JSON Schema: {error}")),
            };
            if default.is_some_and(|default| compiled.check(default).is_err()) {
                return refuse("default_answer does not meet answer_schema".to_owned());
            }
        }
        let on_deadline = input.get("on_deadline").and_then(Value::as_str);
        if on_deadline == Some("default") && default.is_none() {
            return refuse("on_deadline is \"default\", but there is no default_answer".to_owned());
        }
        Ok(())
    }
}

impl Tool {
    /// Checks the length of an output and, if the call succeeded, whether it meets the output schema.
    pub fn check_output(&self, result_bytes: Option<u64>, status: CallStatus, output: Option<&Json>) -> Result<(), CallError> {
        let size = output.map_or(0, |output| output.text().len() as u64);
        if let Some(allowed) = result_bytes.filter(|allowed| size > *allowed) {
            let detail = json!({"received_bytes": size, "allowed_bytes": allowed});
            return Err(LimitKind::ResultBytes.error(allowed).with_detail(detail));
        }
        let Some((schema, output)) = self.output.as_ref().zip(output).filter(|_| status == CallStatus::Success) else {
            return Ok(());
        };
        schema.check_text(output).map_err(|faults| {
            let message = format!("the output of {} does not match its output schema", self.definition.shown_name());
            CallError::new(ErrorCode::InvalidOutput, message).with_detail(json!({"faults": faults}))
        })
    }
}
