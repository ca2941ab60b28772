//! The tools of several jobs as one list. Jobs may refine the same tool differently, so a tool may have several versions.

use std::sync::Arc;

use crate::described::{DescribedTool, Grant, Job};
use crate::tools::section;

/// Returns the tools that `jobs` own or grant to an agent, after `others`. Equal tools of several jobs are one.
pub fn tools_of(jobs: &[Job<'_>], others: Vec<DescribedTool>) -> Vec<DescribedTool> {
    let mut tools = others;
    for Job { configs, settings, own } in jobs {
        for (id, tool) in &configs.tools {
            let grants: Vec<Grant> = configs
                .agents
                .values()
                .filter_map(|agent| {
                    let seen = agent.tools.get(id)?;
                    let (agent, approval) = (agent.id.clone(), agent.approvals.get(id).copied());
                    Some(Grant { job: configs.job.id.clone(), agent, tool: Arc::clone(seen), approval })
                })
                .collect();
            if grants.is_empty() && !own.contains(id) {
                continue;
            }
            let settings = settings.get(id).cloned().unwrap_or_default();
            let described = DescribedTool { tool: Arc::clone(tool), settings, jobs: vec![configs.job.id.clone()], grants };
            match tools.iter_mut().find(|known| is_same(known, &described)) {
                Some(known) => {
                    known.jobs.extend(described.jobs);
                    known.grants.extend(described.grants);
                }
                None => tools.push(described),
            }
        }
    }
    // Stable, so that the versions of one tool stay in the order of the jobs.
    tools.sort_by(|a, b| (a.tool.tool_type, &a.tool.id).cmp(&(b.tool.tool_type, &b.tool.id)));
    tools
}

/// Whether a page describes both with the same text.
fn is_same(one: &DescribedTool, other: &DescribedTool) -> bool {
    one.tool.id == other.tool.id && section(one) == section(other)
}
