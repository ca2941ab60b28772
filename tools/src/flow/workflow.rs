//! `workflow`: calls of tools as a graph of steps (seed 000). A step starts when the outputs that it reads are there.
//!
//! Everything that can be checked without an output is checked before the first call.

use std::collections::BTreeMap;

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::call::{CallResult, CallStatus, ModelCall};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bounded;
use super::filling::{Room, Values, reason_of};
use super::reference::Template;

/// The most steps of one workflow.
const MAX_STEPS: usize = 500;

/// The longest outputs, as JSON, that the error of a failed workflow holds.
const MAX_OUTPUTS_IN_ERROR: usize = 16 * 1024;

/// A step: a call of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Its id, unique in the workflow.
    id: String,
    /// The tool.
    tool: String,
    /// The input, with references to the outputs of other steps.
    input: Option<Map<String, Value>>,
    /// The ids of steps that must be done before, in addition to those that the input reads.
    dependencies: Option<Vec<String>>,
}

/// Output of `workflow`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output {
    /// All outputs.
    All(All),
    /// The output of `returnStep` alone.
    Of(Value),
}

#[derive(Debug, Serialize)]
struct All {
    /// The outputs of the steps that succeeded, by id.
    results: Map<String, Value>,
    /// The ids of the steps whose calls have ended, in that order.
    #[serde(rename = "executionOrder")]
    execution_order: Vec<String>,
    /// The reasons why steps failed or were skipped, by id.
    errors: BTreeMap<String, String>,
}

/// Calls the tools of `steps`, each as soon as its dependencies are done. The first failure ends the workflow, unless
/// `continueOnError` is set: then the steps that depend on the failed one are skipped. With `returnStep`, the output is that of this
/// step alone.
#[tool]
#[expect(non_snake_case, reason = "seed 000 names the parameters so")]
async fn workflow(
    context: &ToolContext,
    steps: Vec<Step>,
    returnStep: Option<String>,
    continueOnError: Option<bool>,
) -> Result<Output, ToolError> {
    let graph = Graph::new(steps).map_err(invalid)?;
    let wanted = returnStep
        .map(|id| graph.index_of(&id).ok_or_else(|| invalid(format!("returnStep: there is no step {:?}", bounded(&id)))));
    let wanted = wanted.transpose()?;
    context.check_ahead(graph.least_calls()).await?;
    let (mut state, room) = (State::new(&graph), Room::new());
    let mut running = FuturesUnordered::new();
    loop {
        while let Some(index) = state.next_ready() {
            let step = &graph.steps[index];
            let (of, noun) = (|id: &str| state.output(id), |id: &str| format!("the output of step {id:?}"));
            match (Values { room: &room, of: &of, noun: &noun }).fill(&step.input, &step.tool) {
                Ok(input) => running.push(async move { (index, context.call_tool(Some(&step.id), &step.tool, input).await) }),
                Err(error) => state.fail(index, error.to_string()),
            }
            state.end_at_failure(continueOnError)?;
        }
        let Some((index, result)) = running.next().await else { break };
        match result {
            Ok(result) => state.take(index, &result),
            Err(error) if error.kind == ToolErrorKind::Cancelled => return Err(error),
            // The call could not be made, for instance because calls are nested too deep.
            Err(error) => state.fail(index, error.message),
        }
        state.end_at_failure(continueOnError)?;
    }
    match wanted {
        None => Ok(Output::All(state.into_output())),
        Some(index) => match state.outputs[index].take() {
            Some(output) => Ok(Output::Of(output)),
            None => Err(ToolError::new(format!("step {:?} gave no output: {}", graph.steps[index].id, state.reason(index)))),
        },
    }
}

fn invalid(message: String) -> ToolError {
    ToolError::new(message).of_kind(ToolErrorKind::InvalidInput)
}

/// The steps, checked.
struct Graph {
    steps: Vec<Checked>,
    indices: BTreeMap<String, usize>,
}

struct Checked {
    id: String,
    tool: String,
    input: Template,
    /// The indices of the steps that must be done before.
    needs: Vec<usize>,
}

impl Graph {
    /// Checks ids, dependencies, references and the order of `steps`.
    fn new(steps: Vec<Step>) -> Result<Self, String> {
        if steps.len() > MAX_STEPS {
            return Err(format!("a workflow has {MAX_STEPS} steps at most, and this one has {}", steps.len()));
        }
        let mut indices = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            // A reference could not name a step with a '.'.
            if !baton_types::id::is_call_name(&step.id) || step.id.contains(['.', '%']) {
                return Err(format!(
                    "a step cannot have the id {:?}; use 1 to 64 letters of ASCII, digits, '_' or '-'",
                    bounded(&step.id)
                ));
            }
            if indices.insert(step.id.clone(), index).is_some() {
                return Err(format!("two steps have the id {:?}", step.id));
            }
        }
        let mut graph = Self { steps: Vec::with_capacity(steps.len()), indices };
        for step in steps {
            let of_step = |reason: String| format!("step {:?}: {reason}", step.id);
            let input = Template::parse(Value::Object(step.input.unwrap_or_default())).map_err(of_step)?;
            let mut needs = Vec::new();
            for id in step.dependencies.iter().flatten() {
                let index = graph.index_of(id);
                needs.push(index.ok_or_else(|| of_step(format!("it depends on {:?}, and there is no such step", bounded(id))))?);
            }
            for reference in input.references() {
                let unknown =
                    || of_step(format!("it reads {reference}, and there is no such step; for a text write ${reference}"));
                needs.push(graph.index_of(&reference.name).ok_or_else(unknown)?);
            }
            needs.sort_unstable();
            needs.dedup();
            graph.steps.push(Checked { id: step.id, tool: step.tool, input, needs });
        }
        graph.check_order()?;
        Ok(graph)
    }

    /// Returns a call for each step. Their inputs are not known yet, so they are empty.
    fn least_calls(&self) -> Vec<ModelCall> {
        self.steps.iter().map(|step| ModelCall::new(step.tool.as_str(), json!({}))).collect()
    }

    fn index_of(&self, id: &str) -> Option<usize> {
        self.indices.get(id).copied()
    }

    /// Returns the error of steps that wait for each other.
    fn check_order(&self) -> Result<(), String> {
        let mut state = State::new(self);
        while let Some(index) = state.next_ready() {
            state.done(index);
        }
        let blocked: Vec<usize> = (0..self.steps.len()).filter(|index| state.missing[*index] > 0).collect();
        let Some(mut at) = blocked.first().copied() else { return Ok(()) };
        // Every blocked step needs a blocked one, so the way along these needs comes to a cycle.
        let mut way = Vec::new();
        while !way.contains(&at) {
            way.push(at);
            at = *self.steps[at].needs.iter().find(|need| blocked.contains(need)).expect("a blocked step needs one");
        }
        let from = way.iter().position(|index| *index == at).unwrap_or_default();
        let cycle: Vec<&str> = way[from..].iter().chain([&at]).map(|index| self.steps[*index].id.as_str()).collect();
        Err(format!("steps wait for each other: {}", cycle.join(" needs ")))
    }
}

/// The progress of a workflow.
struct State<'g> {
    graph: &'g Graph,
    /// For each step, how many of the steps that it needs are not done.
    missing: Vec<usize>,
    /// For each step, the steps that need it.
    needed_by: Vec<Vec<usize>>,
    /// Steps that may start.
    ready: std::collections::VecDeque<usize>,
    outputs: Vec<Option<Value>>,
    errors: BTreeMap<usize, String>,
    /// The first step that failed.
    failed: Option<usize>,
    ended: Vec<usize>,
}

impl<'g> State<'g> {
    fn new(graph: &'g Graph) -> Self {
        let missing: Vec<usize> = graph.steps.iter().map(|step| step.needs.len()).collect();
        let mut needed_by = vec![Vec::new(); graph.steps.len()];
        for (index, step) in graph.steps.iter().enumerate() {
            step.needs.iter().for_each(|need| needed_by[*need].push(index));
        }
        let ready = (0..graph.steps.len()).filter(|index| missing[*index] == 0).collect();
        let outputs = vec![None; graph.steps.len()];
        Self { graph, missing, needed_by, ready, outputs, errors: BTreeMap::new(), failed: None, ended: Vec::new() }
    }

    fn next_ready(&mut self) -> Option<usize> {
        self.ready.pop_front()
    }

    fn output(&self, id: &str) -> Option<&Value> {
        self.outputs[self.graph.index_of(id)?].as_ref()
    }

    /// Takes the result of a step.
    fn take(&mut self, index: usize, result: &CallResult) {
        self.ended.push(index);
        if result.status == CallStatus::Success {
            self.outputs[index] = Some(result.output.value());
            return self.done(index);
        }
        let reason = reason_of(result, &self.graph.steps[index].input);
        let is_failure = result.status == CallStatus::Failed || reason == result.status.as_str();
        self.fail(index, if is_failure { reason } else { format!("{}: {reason}", result.status.as_str()) });
    }

    /// Queues the steps whose last open dependency was `index`.
    fn done(&mut self, index: usize) {
        for next in self.needed_by[index].clone() {
            self.missing[next] -= 1;
            if self.missing[next] == 0 {
                self.ready.push_back(next);
            }
        }
    }

    /// Records the failure of a step, and skips all steps that depend on it.
    fn fail(&mut self, index: usize, reason: String) {
        self.failed.get_or_insert(index);
        self.errors.insert(index, reason);
        let mut left = self.needed_by[index].clone();
        while let Some(next) = left.pop() {
            if !self.errors.contains_key(&next) {
                self.errors.insert(next, format!("skipped: step {:?} failed", self.graph.steps[index].id));
                left.extend(&self.needed_by[next]);
            }
        }
    }

    /// Returns the error that ends the workflow, if a step failed and the others shall not continue.
    fn end_at_failure(&self, continue_on_error: Option<bool>) -> Result<(), ToolError> {
        let Some(failed) = self.failed.filter(|_| continue_on_error != Some(true)) else { return Ok(()) };
        let id = &self.graph.steps[failed].id;
        let mut detail = json!({"step": id, "executionOrder": self.ids(&self.ended)});
        // The effects of the other steps remain.
        let results = self.results();
        if serde_json::to_string(&results).is_ok_and(|text| text.len() <= MAX_OUTPUTS_IN_ERROR) {
            detail["results"] = Value::Object(results);
        } else {
            detail["succeeded"] = results.keys().map(String::as_str).collect();
        }
        Err(ToolError::new(format!("step {id:?} failed: {}", self.reason(failed))).with_detail(detail))
    }

    fn reason(&self, index: usize) -> &str {
        self.errors.get(&index).map_or("it did not run", String::as_str)
    }

    fn ids(&self, indices: &[usize]) -> Vec<String> {
        indices.iter().map(|index| self.graph.steps[*index].id.clone()).collect()
    }

    /// Returns the outputs of the steps that succeeded, by id.
    fn results(&self) -> Map<String, Value> {
        let outputs = self.graph.steps.iter().zip(&self.outputs);
        outputs.filter_map(|(step, output)| Some((step.id.clone(), output.clone()?))).collect()
    }

    fn into_output(self) -> All {
        let id = |index: usize| self.graph.steps[index].id.clone();
        All {
            results: self.results(),
            execution_order: self.ids(&self.ended),
            errors: self.errors.into_iter().map(|(index, reason)| (id(index), reason)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
