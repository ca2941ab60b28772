//! Reservations for model requests: made with each request, and settled when its usage is known or can no longer become
//! known.

use baton_types::config::OnText;
use baton_types::entry::{BudgetSettled, ModelRequested};

use crate::prelude::*;

/// Requests of tasks.
impl Draft<'_> {
    /// Records a request for `turn` and asks the model. A turn whose request got no answer is asked for again.
    pub(super) fn request_turn(&mut self, task: TaskIndex, turn: u32, steers: Vec<String>, notice: Option<Notice>) {
        let (id, input_tokens, output_tokens) = (self.id(task), self.task(task).context_tokens, self.run.output_tokens(task));
        let costs = self.run.prices(task).flatten().map(|price| price.worst_case(input_tokens, output_tokens));
        let entry = ModelRequested {
            task: id.clone(),
            turn,
            model: self.run.model_name(task).unwrap_or_default().to_owned(),
            input_tokens,
            reserved_tokens: self.run.needed_tokens(task),
            reserved_cost: costs.max().unwrap_or(Money::ZERO),
            says_result_schema: !matches!(notice, Some(Notice::Summarise { .. })) && self.text_has_schema(task),
            steers,
            notice,
        };
        self.push(Entry::ModelRequested(entry));
        self.decision.effects.push(Effect::Prompt { task: id, turn });
    }

    /// Whether a text of the task's agent is a result that must meet a schema.
    fn text_has_schema(&self, task: TaskIndex) -> bool {
        if let Some(question) = &self.task(task).question {
            return !question.answer_schema.is_null();
        }
        let agent = self.agent(task);
        agent.on_text == OnText::Handoff && agent.result_schema.is_some()
    }

    /// Settles the open request of `task` with its usage. `unknown` is true if the real usage is not known.
    pub(super) fn settle_request(&mut self, task: TaskIndex, usage: Usage, cost: Option<Money>, unknown: bool) {
        let of = self.task(task);
        let (id, turn, reserved_tokens) = (of.id.clone(), of.turns, of.reserved_tokens);
        self.push(Entry::BudgetSettled(BudgetSettled { task: id, turn, by: None, reserved_tokens, usage, unknown, cost }));
    }

    /// Settles an open request that cost nothing here: its provider was unavailable, or a fork's original accounts for it.
    pub(super) fn settle_at_nothing(&mut self, task: TaskIndex) {
        self.settle_request(task, Usage::default(), Some(Money::ZERO), false);
    }

    /// Settles an open request at its reservation.
    pub(super) fn settle_at_worst(&mut self, task: TaskIndex) {
        let of = self.task(task);
        let (reserved_tokens, reserved_cost) = (of.reserved_tokens, of.reserved_cost);
        let input_tokens = of.context_tokens.min(reserved_tokens);
        let usage = Usage { input_tokens, output_tokens: reserved_tokens - input_tokens, estimated: true, ..Usage::default() };
        let cost = (self.run.price(task).is_some() || !reserved_cost.is_zero()).then_some(reserved_cost);
        self.settle_request(task, usage, cost, true);
    }
}

/// Requests that the code of calls makes.
impl Draft<'_> {
    /// Settles an open request of a call's code with its usage. `unknown` is true if the real usage is not known.
    pub(super) fn settle_ask(&mut self, task: TaskIndex, ask: OpenAsk, usage: Usage, cost: Option<Money>, unknown: bool) {
        let of = self.task(task);
        let OpenAsk { by, input_tokens: _, reserved_tokens, reserved_cost: _ } = ask;
        let (task, turn, by) = (of.id.clone(), of.turns, Some(Box::new(by)));
        self.push(Entry::BudgetSettled(BudgetSettled { task, turn, by, reserved_tokens, usage, unknown, cost }));
    }

    /// Settles an open request of a call's code at its reservation.
    pub(super) fn settle_ask_at_worst(&mut self, task: TaskIndex, ask: OpenAsk) {
        let (input_tokens, output_tokens) = (ask.input_tokens, ask.reserved_tokens - ask.input_tokens);
        let usage = Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() };
        let cost = ask.reserved_cost;
        self.settle_ask(task, ask, usage, cost, true);
    }

    /// Settles the open requests of the code of `call` at their reservations; those of every call of `task` if `call` is
    /// `None`.
    pub(super) fn settle_asks_at_worst(&mut self, task: TaskIndex, call: Option<&CallId>) {
        for ask in self.asks(task, call) {
            self.settle_ask_at_worst(task, ask);
        }
    }

    /// Settles the open requests of calls' code at no cost, because the original of the fork accounts for them.
    pub(super) fn leave_asks_to_original(&mut self, task: TaskIndex) {
        for ask in self.asks(task, None) {
            self.settle_ask(task, ask, Usage::default(), Some(Money::ZERO), false);
        }
    }

    fn asks(&self, task: TaskIndex, call: Option<&CallId>) -> Vec<OpenAsk> {
        let asks = self.task(task).phase.calls().into_iter().flat_map(|calls| &calls.asks);
        asks.filter(|ask| call.is_none_or(|call| ask.by.call == *call)).cloned().collect()
    }
}
