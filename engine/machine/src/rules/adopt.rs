//! Adoption of other configs: a fork's first own entry, or a migration.
//!
//! State that followed from earlier configs stays as it is: tasks keep their holders, deadlines and open turns. From here on,
//! checks, offered tools and admission follow the new configs.

use baton_types::config::Named;
use baton_types::entry::Adoption;

use super::crash::Recovery;
use super::people;
use crate::prelude::*;

/// Adopts configs, writes a person's documents, and lets every task continue as after a take-over.
pub(crate) fn adopt(draft: &mut Draft<'_>, adoption: Adoption, documents: Vec<Write>, by: Principal) {
    let recovery = if adoption.fork.is_some() { Recovery::InFork } else { Recovery::AfterCrash };
    let request = adoption.follow_up.clone();
    draft.control(None, ControlAction::Adopted(Box::new(adoption)), by.clone());
    let documents = documents.into_iter().map(|write| draft.write(write, Some(by.clone()), None).reference()).collect();
    if let Some(request) = request {
        return people::follow_up(draft, request, documents);
    }
    draft.then(Step::WithdrawApprovals);
    // The new configs may have another join for the delegations of a turn.
    draft.steps.extend(draft.run.graph.live().flat_map(|task| [Step::Recover { task, recovery }, Step::Advance(task)]));
}

/// Refuses configs that lack something that a living task needs, with all reasons at once. Also checks the new documents.
pub(crate) fn check(run: &Run, adoption: &Adoption, documents: &[Write]) -> Result<(), Refusal> {
    let reasons = hindrances(run, run.known(adoption.configs));
    if !reasons.is_empty() {
        return Err(Refusal::CannotAdopt { reasons });
    }
    run.check_new_documents(documents)
}

/// Returns the reasons against `configs`: agents and tools that living tasks need and `configs` lack.
fn hindrances(run: &Run, configs: &Configs) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(root) = run.root().filter(|root| !root.is_live())
        && let Some(agent) = root.agent().filter(|agent| !configs.agents.contains_key(*agent))
    {
        reasons.push(format!("the configs lack agent {agent}, whose conversation is to be continued"));
    }
    for task in run.graph.iter().filter(|task| task.is_live()) {
        if let Some(agent) = task.agent().filter(|agent| !configs.agents.contains_key(*agent)) {
            reasons.push(format!("the configs lack agent {agent}, which holds task {}", task.id));
        }
        for call in task.calls().filter(|call| !call.is_finished()) {
            let Some(tool_type) = call.tool_type else { continue };
            let (id, tool) = (&call.id, call.asked.tool.as_str());
            match configs.tools.get(tool) {
                None => reasons.push(format!("the configs lack tool {tool}, for which call {id} waits")),
                Some(now) if now.tool_type != tool_type => {
                    let (was, is) = (tool_type.as_str(), now.tool_type.as_str());
                    reasons.push(format!("call {id} waits for tool {tool} as a {was}, which is a {is} in them"));
                }
                Some(now) => {
                    let agent = task.agent().and_then(|agent| configs.agents.get(agent));
                    // Without it the call would run with other settings than it asked for.
                    if let Some(Named::Unknown(config)) = agent.map(|agent| agent.named(now, &call.asked)) {
                        reasons.push(format!(
                            "the configs do not grant configuration {config} of {tool}, for which call {id} waits"
                        ));
                    }
                }
            }
        }
    }
    reasons
}
