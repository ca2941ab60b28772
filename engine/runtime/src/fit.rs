//! Checks the tools of agents against the providers of their models, before any request is sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use baton_config::{Fault, FaultKind, Faults, Role, Source, Sources};
use baton_models::provider::turned_down;
use baton_schema::provider::{OfferPart, SchemaFault};
use baton_tool::ToolFunction;
use baton_types::config::{Configs, Invocation, ModelSpec};
use baton_types::id::AgentId;
use baton_types::json::Json;
use baton_types::model::ToolDefinition;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::job::LoadedJob;

/// Number of times that faulty parts are left out before the search ends.
const ROUNDS: usize = 3;

/// A tool that a model of an agent cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitTool {
    /// The tool, and what its provider would not take.
    pub fault: SchemaFault,
    /// The first agent that would be asked with it.
    pub agent: AgentId,
    /// The model that it would ask, by the job's name for it.
    pub model: String,
}

/// Returns the tools that agents' models and their fallbacks reject, each once. `stand_in` replaces the agents' own
/// models. `turned_down` returns the faults for a model's name, an agent's tools and its settings.
pub(crate) fn unfit_tools(
    configs: &Configs,
    stand_in: Option<&str>,
    turned_down: impl Fn(&str, &[Arc<ToolDefinition>], &Json) -> Vec<SchemaFault>,
) -> Vec<UnfitTool> {
    let mut unfit: Vec<UnfitTool> = Vec::new();
    // Universal invocation offers no tools to the provider.
    for agent in configs.agents.values().filter(|agent| agent.invocation == Invocation::Native && agent.program.is_none()) {
        let own = stand_in.unwrap_or(&agent.model);
        for model in std::iter::once(own).chain(configs.job.fallbacks(own).iter().map(String::as_str)) {
            let mut faults = turned_down(model, agent.offered.tools(), &agent.settings);
            // Tools that the agent discovers are offered a few at a time, so that their number has no limit.
            let discovered = agent.offer_of(|tool| agent.is_offered_described_tools() && !tool.is_known_at_once());
            faults.extend(discovered.iter().flat_map(|tool| turned_down(model, std::slice::from_ref(tool), &agent.settings)));
            for fault in faults {
                if unfit.iter().all(|known| known.fault != fault) {
                    unfit.push(UnfitTool { fault, agent: agent.id.clone(), model: model.to_owned() });
                }
            }
        }
    }
    unfit
}

impl LoadedJob {
    /// Returns the tools that would prevent the start of a run, because the models of its agents cannot be offered
    /// them. No key is read and nothing is sent.
    pub fn unfit_tools(&self) -> Vec<UnfitTool> {
        let job = &self.configs.job;
        unfit_tools(&self.configs, None, |name, tools, settings| match job.model(name) {
            Some(ModelSpec::Provided(model)) => turned_down(&model, job.providers.get(&model.provider), tools, settings),
            Some(ModelSpec::Scripted { .. }) | None => Vec::new(),
        })
    }

    /// Reports the same tools as faults of their files.
    pub fn check_tools(&self) -> Result<(), Faults> {
        Faults::none_of(self.unfit_tools().iter().map(|unfit| fault(self.sources(), unfit)).collect())
    }
}

/// Returns the `faults` of a job, and with them the faults of tools that its models cannot be offered. Faulty parts
/// are left out first; if the rest is a valid job, its tools are checked.
pub fn with_unfit_tools(sources: &Sources, faults: Faults, functions: &[&'static ToolFunction]) -> Faults {
    let mut rest = without(sources, &faults);
    for _ in 0..ROUNDS {
        match LoadedJob::from_sources(rest.clone(), functions) {
            Err(more) => rest = without(&rest, &more),
            Ok(job) => {
                let unfit = job.unfit_tools();
                let all = faults.iter().cloned().chain(unfit.iter().map(|unfit| fault(sources, unfit))).collect();
                return Faults::none_of(all).err().unwrap_or(faults);
            }
        }
    }
    faults
}

/// Returns `sources` without the parts that `faults` point at.
fn without(sources: &Sources, faults: &Faults) -> Sources {
    let mut rest = sources.clone();
    // From the end of each file, so that places in lists stay what they are.
    for place in faults.iter().rev().filter_map(|fault| place_of(sources, fault)) {
        let _nothing_to_leave_out = rest.set(&place, Value::Null);
    }
    rest
}

/// Returns the place of `fault` as [`Sources::set`] takes it.
fn place_of(sources: &Sources, fault: &Fault) -> Option<String> {
    let source = sources.files().find(|source| sources.display(source) == fault.file)?;
    let mut place = match source.role {
        Role::Job => "job".to_owned(),
        Role::Agent | Role::SharedAgent => format!("agents.\"{}\"", stem(source)?),
        Role::Tool | Role::SharedTool | Role::BuiltinTool => format!("tools.\"{}\"", stem(source)?),
        Role::Configuration | Role::SharedConfiguration => format!("configs.\"{}\"", stem(source)?),
        _ => return None,
    };
    for token in tokens(&fault.pointer) {
        place.extend([".\"", &token, "\""]);
    }
    Some(place)
}

/// Returns `unfit` as a fault at its place in the tool's config, or at the agent's file if no config has that place.
fn fault(sources: &Sources, unfit: &UnfitTool) -> Fault {
    let SchemaFault { tool, target, part, unfit: what } = &unfit.fault;
    let message = format!("tool {tool} cannot be offered to {target}: {}", what.reason);
    let note = format!("the model {} of agent {}", unfit.model, unfit.agent);
    let said = [Role::Tool, Role::SharedTool, Role::BuiltinTool].iter().find_map(|role| {
        let source = named(sources, *role, tool.as_str())?;
        places(*part, &what.pointer).into_iter().find_map(|pointer| Some((source, range(&source.text, &pointer)?, pointer)))
    });
    if let Some((source, range, pointer)) = said {
        let fault = Fault::of_file(FaultKind::BadSchema, sources.display(source), message).at(&source.text, range);
        return Fault { pointer, ..fault.note(note) };
    }
    let file = [Role::Agent, Role::SharedAgent].iter().find_map(|role| named(sources, *role, unfit.agent.as_str()));
    let file = file.map(|source| sources.display(source));
    let fault = Fault::of_file(FaultKind::BadSchema, file.unwrap_or_default(), message).note(note);
    match part {
        OfferPart::InputSchema => fault.found(format!("{:?} in the schema of its input", what.pointer)),
        OfferPart::Description | OfferPart::Name | OfferPart::Whole => fault,
    }
}

/// Returns the name of a file without its folder and `.json`: the id of the tool or agent in it.
fn stem(source: &Source) -> Option<&str> {
    source.path.rsplit('/').next()?.strip_suffix(".json")
}

/// Returns the keys and indexes that `pointer` leads by.
fn tokens(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}

/// Returns the file of `role` that is named after `id`, as files of tools and agents are.
fn named<'s>(sources: &'s Sources, role: Role, id: &str) -> Option<&'s Source> {
    sources.of(role).find(|source| stem(source) == Some(id))
}

/// Returns the possible places in a tool's config for `pointer` of its input schema, or for another part of it.
fn places(part: OfferPart, pointer: &str) -> Vec<String> {
    match part {
        OfferPart::InputSchema => {
            let short = pointer.strip_prefix("/properties").map(|rest| format!("/parameters{rest}"));
            short.into_iter().chain([format!("/input_schema{pointer}")]).collect()
        }
        OfferPart::Description => vec!["/description".to_owned()],
        OfferPart::Name => vec!["/tool_id".to_owned()],
        // Too many tools are a fault of the agent that offers them.
        OfferPart::Whole => Vec::new(),
    }
}

/// Returns the byte range of the key that `pointer` leads to in the JSON `text`, or of the nearest key around it;
/// `None` if not even its first key exists.
fn range(text: &str, pointer: &str) -> Option<Range<usize>> {
    let (mut here, mut found) = (text, None);
    for token in tokens(pointer) {
        let keys: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(here).ok();
        let members = || serde_json::from_str::<Vec<&RawValue>>(here).ok();
        let below = match &keys {
            Some(keys) => keys.get(&token).copied(),
            None => token.parse::<usize>().ok().and_then(|at| members()?.get(at).copied()),
        };
        let Some(below) = below else { break };
        here = below.get();
        let start = here.as_ptr().addr() - text.as_ptr().addr();
        let key = serde_json::to_string(&token).unwrap_or_default();
        let before = text[..start].trim_end().trim_end_matches(':').trim_end();
        found = Some(if before.ends_with(&key) { before.len() - key.len()..before.len() } else { start..start + here.len() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_schema_is_found_in_the_text_that_says_it() {
        let text =
            r#"{ "tool_id": "t", "parameters" : {"a b": {"type": "array", "items": [{"x": 1}, {"größe": 2}]}, "c/d": {}}}"#;
        let at = |pointer: &str| range(text, pointer).map(|range| &text[range]);
        assert_eq!(at("/parameters/a b"), Some("\"a b\""));
        assert_eq!(at("/parameters/a b/items/1/größe"), Some("\"größe\""));
        assert_eq!(at("/parameters/a b/items/0"), Some("{\"x\": 1}"));
        assert_eq!(at("/parameters/c~1d"), Some("\"c/d\""));
        // A missing part is reported at its parent.
        assert_eq!(at("/parameters/c~1d/properties/e"), Some("\"c/d\""));
        assert_eq!(at("/input_schema/properties/a b"), None);
        assert_eq!(range("no JSON", "/parameters"), None);
    }
}
