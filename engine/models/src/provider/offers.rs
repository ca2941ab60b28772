//! The tools of a model's requests in its dialect, each compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_schema::provider::{CompiledResult, CompiledTool, OfferLimits, SchemaFault, Target, compile, compile_result};
use baton_types::call::ModelCall;
use baton_types::config::{ProvidedModel, ProviderSettings};
use baton_types::json::Json;
use baton_types::model::{ModelTurn, ToolDefinition};
use serde_json::{Map, Value};

use super::profile::Profile;
use crate::wire::{Restored, chat};

/// Setting that selects strict mode for tools, where the provider supports both.
pub(super) const STRICT_TOOLS: &str = "strict_tools";

/// Setting that selects whether a text that is exactly a call is read as that call.
pub(super) const CALLS_IN_TEXT: &str = "calls_in_text";

/// Settings for the engine itself. Each is a boolean.
pub const BOOLEAN_SETTINGS: [&str; 2] = [STRICT_TOOLS, CALLS_IN_TEXT];

/// The most tools that are kept: those of a few jobs. A model that outlives its jobs begins anew.
const MAX_KEPT: usize = 4_096;

/// Compiled tools, by the places of their definitions.
#[derive(Debug, Default)]
pub(super) struct Offers {
    known: Mutex<HashMap<(usize, Target), Kept>>,
    /// The schemas of results, by their text.
    results: Mutex<HashMap<String, Option<Arc<CompiledResult>>>>,
}

/// A compiled tool, and its definition, which therefore keeps its place.
type Kept = (Arc<ToolDefinition>, Arc<CompiledTool>);

impl Offers {
    /// Returns `tools` in the dialect of `target`, or every one that it would turn down. `strict` is the setting, where
    /// there is one.
    pub(super) fn of(
        &self,
        tools: &[Arc<ToolDefinition>],
        target: Target,
        strict: Option<bool>,
        limits: &OfferLimits,
    ) -> Result<Vec<Arc<CompiledTool>>, Vec<SchemaFault>> {
        let target = match (target, strict) {
            (Target::OpenAi, Some(false)) => Target::Compatible,
            (Target::Compatible, Some(true)) => Target::OpenAi,
            (target, _) => target,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut compiled, mut faults) = (Vec::with_capacity(tools.len()), Vec::new());
        for tool in tools {
            let place = (Arc::as_ptr(tool).addr(), target);
            if let Some((_, known)) = known.get(&place) {
                compiled.push(Arc::clone(known));
                continue;
            }
            match compile(target, tool) {
                Err(fault) => faults.push(fault),
                Ok(new) => {
                    if known.len() >= MAX_KEPT {
                        known.clear();
                    }
                    let new = Arc::new(new);
                    known.insert(place, (Arc::clone(tool), Arc::clone(&new)));
                    compiled.push(new);
                }
            }
        }
        faults.extend(limits.exceeded(target, &compiled));
        if faults.is_empty() { Ok(compiled) } else { Err(faults) }
    }
}

/// Returns the settings of a request: those of its model, overridden by the `own` ones of its agent.
pub(super) fn settings(of_model: &Map<String, Value>, own: &Json) -> Map<String, Value> {
    let mut settings = of_model.clone();
    settings.extend(own.value().as_object().cloned().unwrap_or_default());
    settings
}

/// Returns whether models must match the schemas of tools, if `settings` set that.
pub(super) fn strict_tools(settings: &Map<String, Value>) -> Option<bool> {
    settings.get(STRICT_TOOLS).and_then(Value::as_bool)
}

/// Returns the faults of `tools` that the provider of `model` would reject under an agent's `own` settings. Gives the
/// same result as the model's own check before its first request, without needing a key. An unknown provider accepts
/// everything. `of_provider` are the provider's settings.
pub fn turned_down(
    model: &ProvidedModel,
    of_provider: Option<&ProviderSettings>,
    tools: &[Arc<ToolDefinition>],
    own: &Json,
) -> Vec<SchemaFault> {
    let like = of_provider.map_or(model.provider.as_str(), |settings| settings.like.as_str());
    let strict = strict_tools(&settings(&model.settings, own));
    let offered = Profile::named(like).map(|profile| Offers::default().of(tools, profile.schemas, strict, &profile.offers));
    offered.and_then(Result::err).unwrap_or_default()
}

/// Returns the JSON array that is the value of `tools` in a request to `OpenAI`'s chat completions which offers `tools`: the same bytes.
/// `settings` are those of the request; `strict_tools` counts. The error has every tool that `OpenAI` would reject.
pub fn openai_tools(tools: &[Arc<ToolDefinition>], settings: &Map<String, Value>) -> Result<Vec<u8>, Vec<SchemaFault>> {
    let profile = Profile::named("openai").expect("there is a profile of OpenAI");
    let compiled = Offers::default().of(tools, profile.schemas, strict_tools(settings), &profile.offers)?;
    Ok(serde_json::to_vec(&chat::tools(&compiled)).expect("a JSON tree always serialises"))
}

impl Offers {
    /// Returns the `schema` of a result in the dialect of `target`, if the dialect can express it.
    pub(super) fn result(&self, schema: &Json, target: Target) -> Option<Arc<CompiledResult>> {
        let mut known = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(schema.text()) {
            return known.clone();
        }
        if known.len() >= MAX_KEPT {
            known.clear();
        }
        let compiled = compile_result(target, &schema.value()).map(Arc::new);
        known.insert(schema.text().to_owned(), compiled.clone());
        compiled
    }
}

/// Returns the inputs of a turn's calls as the tools' own schemas have them, and a text without calls as the result's has it.
pub(super) fn restored(turn: &ModelTurn, tools: &[Arc<CompiledTool>], result: Option<&CompiledResult>) -> Restored {
    let text = result.filter(|_| turn.calls.is_empty()).and_then(|result| result.restored(&turn.text));
    let readable = turn.calls.iter().enumerate().filter(|(_, call)| call.malformed.is_none());
    let input = |(index, call): (usize, &ModelCall)| {
        let tool = tools.iter().find(|tool| tool.name == call.tool)?;
        Some((index, tool.restored(&call.input))).filter(|(_, input)| *input != call.input)
    };
    Restored { text: text.filter(|text| *text != turn.text), inputs: readable.filter_map(input).collect() }
}

/// Gives the calls of a turn the ids of the `tools` whose names the model used. The names are kept, since the provider gets them
/// back.
pub(super) fn identify(calls: &mut [ModelCall], tools: &[Arc<CompiledTool>]) {
    for call in calls {
        let named = tools.iter().find(|tool| tool.name == call.tool && tool.id.as_str() != call.tool);
        if let Some(tool) = named {
            call.name = Some(std::mem::replace(&mut call.tool, tool.id.to_string()).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::id::ToolId;
    use serde_json::json;

    #[test]
    fn a_tool_is_compiled_once_and_the_setting_decides_where_there_is_a_choice() {
        let schema = Json::from(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        let tool = ToolDefinition { id: ToolId::new("t"), name: None, description: String::new(), input_schema: schema };
        let (tools, offers) = ([Arc::new(tool)], Offers::default());
        let of = |target, strict| {
            offers.of(&tools, target, strict, &OfferLimits::default()).expect("every dialect has words for it").remove(0)
        };
        assert!(Arc::ptr_eq(&of(Target::OpenAi, None), &of(Target::OpenAi, Some(true))));
        assert!(Arc::ptr_eq(&of(Target::OpenAi, None), &of(Target::Compatible, Some(true))));
        assert!(Arc::ptr_eq(&of(Target::Compatible, None), &of(Target::OpenAi, Some(false))));
        assert!(of(Target::OpenAi, None).is_strict() && !of(Target::Compatible, None).is_strict());
        assert!(!of(Target::Anthropic, Some(true)).is_strict() && !of(Target::Ollama, Some(true)).is_strict());
    }
}
