//! Requests of calls' code to models.

use baton_types::entry::{BudgetSettled, CallAskedModel, CallRequest};
use baton_types::id::CallId;

use super::{Ledger, TOO_MANY};
use crate::finding::Invariant;
use crate::ledger::AskBook;

impl Ledger {
    pub(super) fn call_asked_model(&mut self, asked: &CallAskedModel) {
        let CallAskedModel { task: id, by: CallRequest { call, request }, reserved_tokens, .. } = asked;
        if !self.live(id, "a request of a call's code") {
            return;
        }
        let runs = self.calls.get(call).is_some_and(|book| book.has_code() && book.task == *id);
        self.rule(runs, Invariant::OneOwnerOneTurn, || format!("{call} of {id} asks a model and does not run"));
        let sane = *reserved_tokens < TOO_MANY && asked.input_tokens <= *reserved_tokens;
        self.rule(sane, Invariant::LimitsHold, || format!("{call} reserves {reserved_tokens} tokens"));
        let reserved = if sane { *reserved_tokens } else { 0 };
        let cost = asked.reserved_cost.map(|cost| u128::from(cost.picos()));
        let book = AskBook { task: id.clone(), asked_at: self.last_seq, reserved, cost };
        if let Some(before) = self.asks.insert((call.clone(), *request), book) {
            self.broken(Invariant::OneOwnerOneTurn, format!("request {request} of {call} is made twice at once"));
            self.release(id, (before.reserved, before.cost.unwrap_or(0)), (0, 0));
        }
        self.reserve(id, (reserved, cost.unwrap_or(0)));
        self.check_reservation(id);
    }

    pub(super) fn ask_settled(&mut self, settled: &BudgetSettled, by: &CallRequest) {
        let CallRequest { call, request } = by;
        let Some(ask) = self.asks.remove(&(call.clone(), *request)) else {
            return self
                .broken(Invariant::BooksBalance, format!("request {request} of {call} is settled and was not reserved for"));
        };
        let (id, used) = (&settled.task, settled.usage.total());
        let same = ask.task == *id && ask.reserved == settled.reserved_tokens;
        self.rule(same, Invariant::BooksBalance, || format!("what is settled for {call} is not what was reserved"));
        let reported = settled.cost.map(|cost| u128::from(cost.picos()));
        self.rule(reported.is_some() || ask.cost.is_none(), Invariant::BooksBalance, || {
            format!("{call} asked at a known price and has no known cost")
        });
        if let Some(task) = self.tasks.get_mut(id) {
            task.spent = task.spent.saturating_add(used);
        }
        self.settled.add(&settled.usage);
        self.settled_cost = self.settled_cost.saturating_add(reported.unwrap_or(0));
        self.unpriced = self.unpriced.saturating_add(u64::from(reported.is_none()));
        self.release(id, (ask.reserved, ask.cost.unwrap_or(0)), (used, reported.unwrap_or(0)));
    }

    /// Between two batches, only calls that run have requests without an answer, and none of another process.
    pub(in crate::ledger) fn asks_at_rest(&mut self, call: &CallId) {
        let runs = self.calls.get(call).is_some_and(super::CallBook::has_code);
        let mut asks = self.asks.range((call.clone(), 0)..=(call.clone(), u32::MAX));
        let stale = asks.any(|(_, ask)| !runs || (ask.asked_at < self.last_takeover && !self.quarantined));
        self.rule(!stale, Invariant::BooksBalance, || format!("requests of {call} outlive their call and are not settled"));
    }
}
