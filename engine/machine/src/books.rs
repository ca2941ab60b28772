//! Reservations for model requests: made with each request, and settled when its usage is known or can no longer become
//! known.

use baton_types::config::OnText;
use baton_types::entry::{BudgetSettled, CallRequest, ModelRequested};

use crate::prelude::*;
use crate::rules::allot::{Allotment, LeftOut};

impl Draft<'_> {
    /// Records a request for `turn` and asks the model. A turn whose request got no answer is asked for again.
    pub(super) fn request_turn(
        &mut self,
        task: TaskIndex,
        turn: u32,
        mut allotment: Allotment,
        steers: Vec<String>,
        notice: Option<Notice>,
    ) {
        let LeftOut { pointers, conflicts, kept, bundle } = self.keep_left_out(task, &mut allotment);
        let (id, input_tokens, output_tokens) = (self.id(task), allotment.input_tokens, self.run.output_tokens(task));
        let expected = self.run.counted(task).expected(input_tokens);
        // A repeated request is rendered as it was, and a summary is written for later turns.
        let is_summary = matches!(notice, Some(Notice::Summarise { .. }));
        let (agent, of) = (self.agent(task), self.task(task));
        let says_result_schema = !is_summary && text_has_schema(agent, of);
        let tells = agent.tell_limits && of.turns != turn && !is_summary;
        let limits_left = tells.then(|| self.run.limits_left(self.at, task)).flatten().map(Box::new);
        let entry = ModelRequested {
            task: id.clone(),
            turn,
            model: self.run.model_name(task).unwrap_or_default().to_owned(),
            input_tokens,
            reserved_tokens: expected.saturating_add(output_tokens),
            reserved_cost: self.run.highest_cost(task, expected, output_tokens),
            says_result_schema,
            steers,
            notice,
            limits_left,
            pointers,
            conflicts,
            kept,
            bundle,
        };
        self.push(Entry::ModelRequested(entry));
        self.decision.effects.push(Effect::Prompt { task: id, turn });
    }

    /// Settles the open request of `task`.
    pub(super) fn settle_request(&mut self, task: TaskIndex, used: Used) {
        let of = self.task(task);
        let Reservation { tokens, cost, input_tokens, input_cost: _ } = of.work().reservation;
        let is_priced = self.run.price(task).is_some() || !cost.is_zero();
        self.settle(task, None, used, (input_tokens, tokens, is_priced.then_some(cost)));
    }

    /// Settles an open request of a call's code.
    pub(super) fn settle_ask(&mut self, task: TaskIndex, ask: OpenAsk, used: Used) {
        let OpenAsk { by, input_tokens, reserved_tokens, reserved_cost } = ask;
        self.settle(task, Some(Box::new(by)), used, (input_tokens, reserved_tokens, reserved_cost));
    }

    /// Settles the open requests of the code of `call`; those of every call of `task` if `call` is `None`.
    pub(super) fn settle_asks(&mut self, task: TaskIndex, call: Option<&CallId>, used: Used) {
        let asks = self.task(task).phase.calls().into_iter().flat_map(OpenCalls::asks);
        let asks: Vec<OpenAsk> = asks.filter(|ask| call.is_none_or(|call| ask.by.call == *call)).cloned().collect();
        for ask in asks {
            self.settle_ask(task, ask, used);
        }
    }

    /// Settles a request for which these tokens and this money are reserved: of its input, in all, and their cost if known.
    fn settle(&mut self, task: TaskIndex, by: Option<Box<CallRequest>>, used: Used, reserved: (u64, u64, Option<Money>)) {
        let (input_tokens, reserved_tokens, reserved_cost) = reserved;
        let output_tokens = reserved_tokens - input_tokens;
        let (usage, cost, unknown) = match used {
            Used::Known(usage, cost) => (usage, cost, false),
            Used::Nothing => (Usage::default(), Some(Money::ZERO), false),
            Used::Reservation => {
                (Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() }, reserved_cost, true)
            }
        };
        let (task, turn) = (self.id(task), self.task(task).turns);
        self.push(Entry::BudgetSettled(BudgetSettled { task, turn, by, reserved_tokens, usage, unknown, cost }));
    }
}

/// Whether a text of `task` is a result that must meet a schema of its `agent`, or of its question.
fn text_has_schema(agent: &Agent, task: &Task) -> bool {
    match &task.question {
        Some(question) => !question.answer_schema.is_null(),
        None => agent.on_text == OnText::Handoff && agent.result_schema.is_some(),
    }
}
