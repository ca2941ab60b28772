//! A run as a script: what its models said, to be said again without them.
//!
//! Task ids are paths of call positions, so the same job run by the script asks the same tasks, and each gets its turns
//! again. What people and tools said is *not* in it: people are asked again, and tools run. Neither are the answers that models
//! gave to tools: a timeline has only their usage.

use baton_types::entry::{Entry, Holder};
use baton_types::id::{AgentId, TaskId};
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::script::{AgentScript, CallScript, MalformedScript, ScriptFile, TurnScript};

/// Returns the script of the run with these `entries`, in their order. `has_requests` returns true for agents whose ids
/// of calls are requests, as in universal invocation. Without these ids, a repeated or refused call would be executed.
pub fn script_of<'a>(entries: impl IntoIterator<Item = &'a Entry>, has_requests: impl Fn(&AgentId) -> bool) -> ScriptFile {
    let mut script = ScriptFile::default();
    let mut holders: FxHashMap<&TaskId, &AgentId> = FxHashMap::default();
    for entry in entries {
        match entry {
            Entry::TaskCreated(created) => {
                if let Holder::Agent(agent) = &created.holder {
                    holders.insert(&created.task, agent);
                }
            }
            Entry::ModelAnswered(answered) => {
                let Some(agent) = holders.get(&answered.task) else { continue };
                let has_requests = has_requests(agent);
                let calls = answered.calls.iter().map(|call| {
                    let (input, malformed) = match (call.input.value(), &call.malformed) {
                        (Value::Object(input), None) => (input, None),
                        (arguments, reason) => {
                            let malformed = MalformedScript { arguments, reason: reason.as_deref().map(str::to_owned) };
                            (serde_json::Map::new(), Some(malformed))
                        }
                    };
                    CallScript {
                        tool: call.tool.clone(),
                        name: None,
                        input,
                        malformed,
                        request_id: call.provider_id.as_deref().filter(|_| has_requests).map(str::to_owned),
                        return_to_llm: call.return_to_llm,
                        after_execution: call.after_execution,
                        config_id: call.config_id.clone(),
                    }
                });
                let turn = TurnScript {
                    text: answered.text.clone(),
                    calls: calls.collect(),
                    finish: Some(answered.finish),
                    literal: true,
                };
                let agent: &mut AgentScript = script.agents.entry(agent.to_string()).or_default();
                agent.tasks.entry(answered.task.to_string()).or_default().push(turn);
            }
            _ => {}
        }
    }
    script
}
