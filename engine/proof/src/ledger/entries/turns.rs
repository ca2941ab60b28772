//! A model is asked and answers, and what that cost is settled.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_types::config::ModelSpec;
use baton_types::document::DocumentRef;
use baton_types::entry::{BudgetSettled, Compacted, FellBack, ModelAnswered, ModelRequested, Notice, TurnKind};
use baton_types::id::{CallId, TaskId};
use baton_types::model::Usage;
use baton_types::tool_type::Then;

use super::TOO_MANY;
use crate::finding::Invariant;
use crate::ledger::{CallBook, Ledger, OpenRequest, cost};

impl Ledger {
    pub(super) fn model_requested(&mut self, requested: &ModelRequested, seq: u64) {
        let id = &requested.task;
        if !self.live(id, "a model request") {
            return;
        }
        let unfinished = self.counts(id).unfinished;
        self.rule(unfinished == 0, Invariant::EveryCallHasOneResult, || {
            format!("{id} asks its model while {unfinished} calls have no result")
        });
        let paused = self.paused;
        self.rule(!paused, Invariant::CancelledStaysQuiet, || format!("{id} asks its model while the run is paused"));
        let by_agent = self.agent_of(id).is_some();
        self.rule(by_agent, Invariant::OneOwnerOneTurn, || format!("task {id} has no agent and asks a model"));
        let wanted = requested.limits_left.is_none() || self.agent_of(id).is_some_and(|agent| agent.tell_limits);
        self.rule(wanted, Invariant::RequestsAreReproducible, || {
            format!("a request of {id} has the rest of its limits, which its agent does not want")
        });
        let sane = requested.reserved_tokens < TOO_MANY && requested.input_tokens <= requested.reserved_tokens;
        self.rule(sane, Invariant::LimitsHold, || format!("{id} reserves {} tokens", requested.reserved_tokens));
        let reserved = if sane { requested.reserved_tokens } else { 0 };
        let cost = u128::from(requested.reserved_cost.picos());
        self.check_window(requested);
        let Some(task) = self.tasks.get_mut(id) else { return };
        let asked_for = match requested.notice {
            Some(Notice::Summarise { through_turn }) => Some(through_turn),
            _ => None,
        };
        let unheard = std::mem::replace(&mut task.summarising, asked_for).filter(|_| !task.interrupted);
        let (before, again, open) = (task.turns, task.interrupted, task.request.is_some());
        task.interrupted = false;
        task.turns = requested.turn;
        task.last_turn = matches!(requested.notice, Some(Notice::LastTurn { .. }));
        if !again {
            task.unseen.clear();
        }
        let written = std::mem::take(&mut task.kept);
        let brought = std::mem::take(&mut task.brought);
        if let Some(bundle) = &requested.bundle {
            // The list in the document arrives in place of the records.
            for listed in brought.iter().filter(|document| bundle.documents.contains(document)) {
                let place = task.injected.iter().position(|document| document == listed);
                task.injected.remove(place.expect("what was brought was handed to the task"));
            }
            task.injected.push(bundle.document.clone());
        }
        let bundle = requested.bundle.as_ref().map(|bundle| &bundle.document);
        let named = |document: &DocumentRef| {
            requested.kept.iter().map(|kept| &kept.output.document).chain(bundle).any(|kept| kept == document)
        };
        let unnamed: Vec<&DocumentRef> = written.iter().filter(|document| !named(document)).collect();
        let missing = requested.kept.iter().map(|kept| &kept.output.document).chain(bundle);
        let missing: Vec<&DocumentRef> = missing
            .filter(|document| self.heads.get(document.path.as_str()).is_none_or(|head| *head < document.version))
            .collect();
        // The changes after a conflict and the document itself are left out separately.
        let conflicts = std::mem::take(&mut task.arrived_conflicts).into_iter().map(|document| (document, &requested.conflicts));
        let documents = std::mem::take(&mut task.arrived).into_iter().map(|document| (document, &requested.pointers));
        let shown = documents.chain(conflicts).filter(|(document, left_out)| !left_out.contains(document));
        let bundled = requested.bundle.iter().flat_map(|bundle| &bundle.results);
        let outputs_left_out: Vec<&CallId> = requested.kept.iter().map(|kept| &kept.call).chain(bundled).collect();
        let parts = std::mem::take(&mut task.arrived_parts).into_iter();
        let parts = parts.filter(|(call, _)| !outputs_left_out.contains(&call)).map(|(_, document)| document);
        for document in shown.map(|(document, _)| document).chain(parts) {
            let known = task.known.entry(document.path.as_str().to_owned()).or_default();
            *known = document.version.max(*known);
        }
        let (turn, model, input) = (requested.turn, requested.model.clone(), requested.input_tokens);
        task.request = Some(OpenRequest { turn, model, fell_from: None, input, reserved, cost });
        task.requested_at = seq;
        let expected = if again { before } else { before.saturating_add(1) };
        let [unnamed, missing] =
            [unnamed, missing].map(|documents| documents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        self.rule(unnamed.is_empty(), Invariant::OnlyTheGrantedIsUsed, || {
            format!("{unnamed} was written for an output of {id}, and the next request does not name it")
        });
        self.rule(missing.is_empty(), Invariant::RequestsAreReproducible, || {
            format!("a request of {id} names {missing}, which does not exist")
        });
        self.rule(unheard.is_none(), Invariant::RequestsAreReproducible, || {
            format!("{id} was asked for a summary, and nothing came of it")
        });
        self.rule(!open, Invariant::OneOwnerOneTurn, || format!("two model requests of {id} are open at once"));
        self.rule(requested.turn == expected, Invariant::OneOwnerOneTurn, || {
            format!("turn {} of {id} after turn {before}", requested.turn)
        });
        self.turns = self.turns.saturating_add(u32::from(!again));
        self.open_calls(id, BTreeSet::new());
        self.reserve(id, (reserved, cost));
        self.check_reservation(id);
    }

    pub(super) fn fell_back(&mut self, fell: &FellBack) {
        let (id, to) = (&fell.task, &fell.to);
        if !self.live(id, "a fallback") {
            return;
        }
        let Some(request) = self.tasks.get_mut(id).and_then(|task| task.request.as_mut()) else {
            return self.broken(Invariant::OneOwnerOneTurn, format!("{id} falls back to {to} without an open request"));
        };
        let same = (request.turn, &request.model) == (fell.turn, &fell.from);
        let first = request.fell_from.get_or_insert_with(|| request.model.clone());
        let fallbacks = match self.configs.job.models.get(first) {
            Some(ModelSpec::Provided(model)) => model.fallbacks.as_slice(),
            Some(ModelSpec::Scripted { .. }) | None => &[],
        };
        let chain: Vec<&String> = std::iter::once(&*first).chain(fallbacks).collect();
        let is_next = chain.windows(2).any(|pair| *pair[0] == request.model && pair[1] == to);
        // One reservation covers every model of the chain.
        let (input_tokens, reserved) = (request.input, request.cost);
        let worst = Usage { input_tokens, output_tokens: request.reserved.saturating_sub(input_tokens), ..Usage::default() };
        let needed = self.prices.get(to).map_or(0, |price| cost(price, &worst)).min(u128::from(u64::MAX));
        request.model.clone_from(to);
        self.rule(same, Invariant::OneOwnerOneTurn, || format!("{id} falls back from {}, which it did not ask", fell.from));
        self.rule(is_next, Invariant::OneOwnerOneTurn, || format!("{id} falls back to {to}, which is not the next to be asked"));
        self.rule(needed <= reserved, Invariant::LimitsHold, || {
            format!("{to} may cost {id} {needed} picodollars of {reserved} reserved")
        });
    }

    pub(super) fn model_answered(&mut self, answered: &ModelAnswered) {
        let id = &answered.task;
        if !self.live(id, "a model answer") {
            return;
        }
        self.answers += 1;
        let Some(task) = self.tasks.get_mut(id) else { return };
        let asked = task.request.as_ref().is_some_and(|request| request.turn == answered.turn) && task.answered < answered.turn;
        task.answered = answered.turn;
        let received = std::mem::take(&mut task.received);
        task.receive(&received);
        let may_rest = !task.background.is_empty() || !task.unseen.is_empty();
        task.rests = answered.kind == TurnKind::Rest && task.unseen.is_empty();
        self.rule(may_rest || answered.kind != TurnKind::Rest, Invariant::BlockedTaskCanWake, || {
            format!("{id} waits for background tasks and has none")
        });
        let calls = (1..).zip(&answered.calls).map(|(position, call)| (id.call(answered.turn, position), call));
        let calls: Vec<_> = calls.collect();
        self.rule(asked, Invariant::OneOwnerOneTurn, || {
            format!("an answer to turn {} of {id} without an open request", answered.turn)
        });
        self.open_calls(id, calls.iter().map(|(call, _)| call.clone()).collect());
        for (call, asked) in calls {
            let book = CallBook::new(id.clone(), Arc::clone(asked), None);
            let twice = self.calls.contains_key(&call);
            self.rule(!twice, Invariant::EveryCallHasOneResult, || format!("the call id {call} was used twice"));
            if !twice {
                self.count_call(id, &book.tool, true);
                self.calls.insert(call, book);
            }
        }
    }

    pub(super) fn compacted(&mut self, compacted: &Compacted) {
        let id = &compacted.task;
        if !self.live(id, "a compaction") {
            return;
        }
        let unfinished = self.counts(id).unfinished;
        self.rule(unfinished == 0, Invariant::EveryCallHasOneResult, || {
            format!("turns of {id} are replaced while {unfinished} calls have no result")
        });
        let Some(task) = self.tasks.get_mut(id) else { return };
        let (open, newest, before) = (task.request.is_some(), task.turns, task.compacted_through);
        task.compacted_through = compacted.through_turn;
        let summarised = task.summarising.take();
        if summarised.is_some() {
            task.interrupted = false;
        }
        if !task.interrupted {
            let received = std::mem::take(&mut task.received);
            task.receive(&received);
        }
        let matches = summarised.is_none_or(|through| through == compacted.through_turn);
        let begins_with_other = std::mem::take(&mut task.begins_with_other);
        let first = if begins_with_other { 0 } else { before.saturating_add(1) };
        let older = (first..newest).contains(&compacted.through_turn);
        self.rule(!open, Invariant::OneOwnerOneTurn, || format!("turns of {id} are replaced while its request is open"));
        self.rule(older, Invariant::RequestsAreReproducible, || {
            format!("turns up to {} of {newest} of {id} are replaced, after those up to {before}", compacted.through_turn)
        });
        self.rule(matches, Invariant::RequestsAreReproducible, || {
            format!("the summary of {id} was to replace turns up to {summarised:?}")
        });
    }

    /// Counts a call of `tool` that was made, or no longer one that was refused after all; handoffs are not counted.
    pub(super) fn count_call(&mut self, task: &TaskId, tool: &str, is_made: bool) {
        let hands_off = self.tool(tool).is_some_and(|tool| tool.tool_type.behavior().then == Then::Stop);
        let Some(task) = self.tasks.get_mut(task).filter(|_| !hands_off) else { return };
        for count in [&mut task.calls_made, &mut self.calls_made] {
            *count = if is_made { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }

    pub(super) fn budget_settled(&mut self, settled: &BudgetSettled) {
        let id = &settled.task;
        if !self.live(id, "a settlement") {
            return;
        }
        let usage = &settled.usage;
        let used = [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens];
        if used.iter().any(|tokens| *tokens >= TOO_MANY) {
            return self.broken(Invariant::BooksBalance, format!("turn {} of {id} used {used:?} tokens", settled.turn));
        }
        if let Some(by) = &settled.by {
            return self.ask_settled(settled, by);
        }
        let Some(task) = self.tasks.get_mut(id) else { return };
        let Some(request) = task.request.take() else {
            return self
                .broken(Invariant::BooksBalance, format!("turn {} of {id} is settled and was not reserved for", settled.turn));
        };
        let (turn, reserved) = (request.turn, request.reserved);
        task.spent = task.spent.saturating_add(usage.total());
        task.interrupted = task.answered < turn;
        let is_worst = task.interrupted;
        let same = (turn, reserved) == (settled.turn, settled.reserved_tokens);
        self.settled.add(usage);
        self.rule(same, Invariant::BooksBalance, || format!("what is settled for {id} is not what was reserved"));
        // An unanswered request costs its reservation. Others cost their usage, at the prices of the start.
        let price = self.prices.get(&request.model);
        let reported = settled.cost.map(|cost| u128::from(cost.picos()));
        let known = match price {
            // What was asked for in the original of a fork is in its books.
            _ if is_worst && usage.total() == 0 => Some(0),
            _ if is_worst && (reported.is_some() || request.cost > 0) => Some(request.cost),
            _ if is_worst => None,
            price => price.map(|price| cost(price, usage).min(u128::from(u64::MAX))),
        };
        self.rule(reported == known, Invariant::BooksBalance, || {
            format!("turn {turn} of {id} cost {known:?} picodollars, not {reported:?}")
        });
        self.settled_cost = self.settled_cost.saturating_add(reported.unwrap_or(0));
        self.unpriced = self.unpriced.saturating_add(u64::from(reported.is_none()));
        self.release(id, (reserved, request.cost), (usage.total(), reported.unwrap_or(0)));
    }
}
