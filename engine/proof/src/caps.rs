//! I18: limits hold at all times, worked out from the ledger and the configs alone.

use baton_core::config::Configs;
use baton_core::entry::{Holder, TaskCreated};
use baton_core::id::{TaskId, ToolId};
use baton_core::limits::Limits;

use crate::ledger::Ledger;

/// The limits of a task: those of the tool that delegated, then those of its agent.
fn limits(configs: &Configs, created: &TaskCreated) -> Limits {
    let Holder::Agent(agent) = &created.holder else { return Limits::default() };
    let tool = created.tool.as_deref().and_then(|tool| configs.tools.get(&ToolId::from(tool)));
    tool.map(|tool| tool.limits.clone()).unwrap_or_default().or(&configs.agents[agent].limits)
}

/// Asserts every limit that entries can show.
pub fn check(ledger: &Ledger, configs: &Configs) {
    let run = &configs.job.limits;
    let within = |used: u64, allowed: Option<u64>, what: &str| {
        assert!(allowed.is_none_or(|allowed| used <= allowed), "I18: {used} of {allowed:?} {what}");
    };
    let wide = |value: Option<u32>| value.map(u64::from);
    within(u64::from(ledger.turns), wide(run.turns), "turns of the run");
    within(ledger.live_tasks().count() as u64, wide(run.live_tasks), "live tasks");
    within(ledger.running_calls() as u64, wide(run.parallel_calls), "parallel calls of the run");
    if run.tokens.is_some() {
        within(ledger.tokens(&TaskId::root()), run.tokens, "tokens of the run");
    }
    for (id, book) in ledger.live_tasks() {
        let own = limits(configs, &book.created);
        within(u64::from(book.turns), wide(own.turns), "turns of a task");
        within(u64::from(book.children), wide(own.children), "children of a task");
        within(u64::from(book.created.depth), wide(run.depth), "depth");
        if own.parallel_calls.is_some() {
            within(ledger.running_calls_of(id) as u64, wide(own.parallel_calls), "parallel calls of a task");
        }
        if own.tokens.is_some() {
            within(ledger.tokens(id), own.tokens, &format!("tokens of {id}"));
        }
    }
}
