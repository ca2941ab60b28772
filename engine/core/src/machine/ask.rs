//! The code of a running call asks a model: what it may spend is reserved before, and settled after, as for a
//! task's own requests. What others have reserved makes it wait; a limit that leaves no room is an error to the code.

use super::admit::Admission;
use super::task::OpenAsk;
use super::{CallStage, Draft, Run};
use crate::entry::{BudgetSettled, CallAskedModel, CallRequest, Entry};
use crate::event::Refusal;
use crate::id::{CallId, TaskId};
use crate::model::Usage;
use crate::money::Money;

impl Draft<'_> {
    /// Reserves for a request of a call's code, which may be made once this is durable.
    pub(super) fn call_asks_model(
        &mut self,
        by: CallRequest,
        model: String,
        input_tokens: u64,
        output_tokens: u64,
        worst_cost: Option<Money>,
    ) {
        let (task, reserved_tokens) = (by.call.task(), input_tokens.saturating_add(output_tokens));
        let asked = CallAskedModel { task, by, model, input_tokens, reserved_tokens, reserved_cost: worst_cost };
        self.push(Entry::CallAskedModel(Box::new(asked)));
    }

    /// A model answered the code of a call, or did not. A call that has ended meanwhile was settled with its end.
    pub(super) fn call_heard_model(&mut self, by: &CallRequest, used: Option<(Usage, Option<Money>)>) {
        if let Some(ask) = self.run.open_ask(by).cloned() {
            match used {
                Some((usage, cost)) => self.settle_ask(&by.call.task(), ask, usage.bounded(), cost, false),
                None => self.settle_ask_at_worst(&by.call.task(), ask),
            }
        }
    }

    /// Settles what the code of `call`, or of every call of `id`, asks at what was reserved for it: nobody will say any more what
    /// it used.
    pub(super) fn settle_asks(&mut self, id: &TaskId, call: Option<&CallId>) {
        for ask in self.asks(id, call) {
            self.settle_ask_at_worst(id, ask);
        }
    }

    /// Settles what the calls of `id` ask in the original of a fork, which has it in its books.
    pub(super) fn leave_asks_to_original(&mut self, id: &TaskId) {
        for ask in self.asks(id, None) {
            self.settle_ask(id, ask, Usage::default(), Some(Money::ZERO), false);
        }
    }

    fn asks(&self, id: &TaskId, call: Option<&CallId>) -> Vec<OpenAsk> {
        let asks = self.task(id).open.iter().flat_map(|open| &open.asks);
        asks.filter(|ask| call.is_none_or(|call| ask.by.call == *call)).cloned().collect()
    }

    /// Settles a request of which nobody knows what it used.
    fn settle_ask_at_worst(&mut self, id: &TaskId, ask: OpenAsk) {
        let (usage, cost) = worst(&ask);
        self.settle_ask(id, ask, usage, cost, true);
    }

    fn settle_ask(&mut self, id: &TaskId, ask: OpenAsk, usage: Usage, cost: Option<Money>, unknown: bool) {
        let turn = self.task(id).turns;
        let OpenAsk { by, input_tokens: _, reserved_tokens, reserved_cost: _ } = ask;
        let settled = BudgetSettled { task: id.clone(), turn, by: Some(Box::new(by)), reserved_tokens, usage, unknown, cost };
        self.push(Entry::BudgetSettled(settled));
    }
}

impl Run {
    /// Whether the code of a call may make a request now.
    pub(super) fn check_ask(
        &self,
        by: &CallRequest,
        input_tokens: u64,
        output_tokens: u64,
        worst_cost: Option<Money>,
    ) -> Result<(), Refusal> {
        let Some((task, _)) = self.running_function(&by.call) else {
            return Err(Refusal::NotRunning { call: by.call.clone() });
        };
        if self.open_ask(by).is_some() {
            return Err(Refusal::AlreadyAsked { call: by.call.clone(), request: by.request });
        }
        match self.admits_ask(&task, input_tokens, output_tokens, worst_cost) {
            Admission::Now => Ok(()),
            Admission::Later => Err(Refusal::NoRoom),
            Admission::Reached(limit) => Err(Refusal::LimitReached { limit }),
        }
    }

    fn open_ask(&self, by: &CallRequest) -> Option<&OpenAsk> {
        let open = self.task(&by.call.task())?.open.as_ref()?;
        open.asks.iter().find(|ask| ask.by == *by)
    }

    /// The task and the place of `call`, if a function runs for it.
    pub(super) fn running_function(&self, call: &CallId) -> Option<(TaskId, usize)> {
        let id = call.task();
        let open = self.task(&id)?.open.as_ref()?;
        let index = open.index_of(call)?;
        let found = &open.calls[index];
        (found.stage == CallStage::Running && found.is_function()).then_some((id, index))
    }
}

/// All that was reserved for `ask`.
fn worst(ask: &OpenAsk) -> (Usage, Option<Money>) {
    let (input_tokens, output_tokens) = (ask.input_tokens, ask.reserved_tokens - ask.input_tokens);
    (Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() }, ask.reserved_cost)
}
