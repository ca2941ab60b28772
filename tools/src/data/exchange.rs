//! The requests of one call to its model, and their sum.

use baton_tool::{ModelAsk, ModelReply, ToolContext};
use baton_types::model::Usage;

/// Requests for one answer, and their total usage.
pub(super) struct Exchange<'c> {
    pub(super) context: &'c ToolContext,
    /// Model and settings of the requests.
    pub(super) ask: ModelAsk,
    /// The last reply, with what all of them used and cost.
    pub(super) reply: Option<ModelReply>,
    /// Number of requests.
    pub(super) requests: usize,
}

impl Exchange<'_> {
    /// Adds what a reply used and cost.
    pub(super) fn count(&mut self, reply: ModelReply) {
        self.requests += 1;
        let before = self.reply.take();
        let mut usage: Usage = before.as_ref().map(|reply| reply.usage).unwrap_or_default();
        usage.add(&reply.usage);
        // Money whose amount is not known in part is not known.
        let cost = match before {
            Some(before) => before.cost.zip(reply.cost).map(|(before, now)| before.plus(now)),
            None => reply.cost,
        };
        self.reply = Some(ModelReply { usage, cost, ..reply });
    }
}
