//! Agents that are programs, in the place of their models: the first turn of a task calls the tool that runs its program.
//!
//! The turn is a pure function of the request, the configs and the inputs of the job. It uses no tokens. The result of the call ends the task,
//! so there is no second turn, unless the call was refused. Then the reason is the text of the next turns, until the task fails.

use std::collections::BTreeMap;

use async_trait::async_trait;
use baton_types::call::{AfterExecution, ModelCall};
use baton_types::config::{AgentProgram, Configs};
use baton_types::id::AgentId;
use baton_types::json::Json;
use baton_types::message::Part;
use baton_types::model::{ModelRequest, ModelTurn, Usage};

use serde_json::{Value, json};

use crate::error::ModelError;
use crate::model::{ContentSource, Model};

/// The programs of a job's agents.
#[derive(Debug)]
pub struct OwnPrograms {
    programs: BTreeMap<AgentId, (AgentProgram, Option<Value>)>,
    /// The inputs of the job; `null` if it has none.
    inputs: Json,
}

impl OwnPrograms {
    /// Returns the programs of `configs`, in a run with these inputs of its job.
    pub fn of(configs: &Configs, inputs: Json) -> Self {
        let programs = configs.agents.values().filter_map(|agent| {
            let schema = agent.result_schema.as_ref().map(|schema| schema.json().value());
            Some((agent.id.clone(), (agent.program.clone()?, schema)))
        });
        Self { programs: programs.collect(), inputs }
    }

    fn turn(&self, request: &ModelRequest) -> Option<ModelTurn> {
        let (program, schema) = self.programs.get(&request.agent)?;
        let parts = || request.messages.iter().flat_map(|message| message.parts.iter()).rev();
        let refused = parts().find_map(|part| match part {
            // A conversation may begin with that of another task.
            Part::Result { call, result: Some(result), .. } if call.task() == request.task => Some(result.reason().to_owned()),
            _ => None,
        });
        if let Some(reason) = refused {
            return Some(ModelTurn {
                usage: Some(Usage::default()),
                ..ModelTurn::text(format!("the program was not run: {reason}"))
            });
        }
        let text = parts().find_map(|part| if let Part::Request(text) = part { Some(text.as_str()) } else { None });
        let mut input = json!({"name": program.file, "code": &*program.source, "request": text.unwrap_or_default()});
        if !self.inputs.is_null() {
            input["inputs"] = self.inputs.value();
        }
        if let Some(schema) = schema {
            input["schema"] = schema.clone();
        }
        let call = ModelCall { after_execution: Some(AfterExecution::Terminate), ..ModelCall::new(program.tool.as_str(), input) };
        Some(ModelTurn { calls: vec![call], usage: Some(Usage::default()), ..ModelTurn::text(String::new()) })
    }
}

#[async_trait]
impl Model for OwnPrograms {
    fn makes_calls_itself(&self) -> bool {
        true
    }

    async fn answer(&self, request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        let reason = || "it has no program".to_owned();
        let unexpected = || ModelError::Unexpected { agent: request.agent.clone(), turn: request.turn, reason: reason() };
        self.turn(request).ok_or_else(unexpected)
    }
}
