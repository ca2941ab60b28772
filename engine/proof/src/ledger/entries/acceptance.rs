//! Results of delegations take effect once they are accepted.

use baton_types::call::{CallResult, CallStatus, ErrorCode};
use baton_types::config::{Accept, Tool};
use baton_types::entry::{CallFinished, CallMade, TaskEnded, TaskKind};
use baton_types::id::TaskId;
use baton_types::tool_type::Then;
use serde_json::{Value, json};

use crate::finding::Invariant;
use crate::ledger::{Ledger, TaskBook};

/// The books of a task whose results must be accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptanceBook {
    /// The number of refused results.
    refusals: u32,
    /// The turn in which the acceptor was asked last, and the number of its calls in this turn.
    asked: (u32, u32),
    /// The input of its newest call, and its verdict: whether the result is accepted, if it gave one.
    newest: Option<(Value, Option<bool>)>,
    /// Whether the task has to end, after the last refusal or without a verdict.
    ends: bool,
}

impl AcceptanceBook {
    /// Returns the books of a task that `tool` delegates, if its results must be accepted.
    pub(super) fn of(kind: TaskKind, tool: Option<&Tool>) -> Option<Self> {
        (kind == TaskKind::Delegation && tool?.accept.is_some()).then(Self::default)
    }

    /// Whether the task has to end.
    pub(crate) fn must_end(&self) -> bool {
        self.ends
    }
}

impl Ledger {
    /// Returns the acceptance that results of `task` need.
    fn accept_of(&self, task: &TaskId) -> Option<&Accept> {
        let book = self.tasks.get(task)?;
        book.acceptance.as_ref()?;
        self.tool(book.created.tool.as_deref()?)?.accept.as_ref()
    }

    /// Whether the engine may call the tool `name` about a result of `task`.
    pub(crate) fn may_accept(&self, task: &TaskId, name: &str) -> bool {
        self.accept_of(task).is_some_and(|accept| accept.by.tool().as_str() == name)
    }

    /// Checks that the engine asks the acceptor of `made.task`, at the end of its turn, about its request.
    pub(super) fn acceptance_made(&mut self, made: &CallMade) {
        let id = &made.call;
        let may = self.may_accept(&made.task, &made.asked.tool);
        self.rule(may, Invariant::ResultsAreAccepted, || format!("{id} does not ask the acceptor of results of {}", made.task));
        let is_handoff = |call| {
            let call = self.calls.get(call);
            let tool = call.and_then(|call| self.tool(&call.tool));
            tool.is_some_and(|tool| tool.tool_type.behavior().then == Then::Stop)
        };
        let early = self.unfinished_calls(&made.task).into_iter().any(|call| !is_handoff(call));
        self.rule(!early, Invariant::ResultsAreAccepted, || format!("{id} is made before the results of its turn are in"));
        let Some(book) = self.tasks.get_mut(&made.task) else { return };
        let (turn, input) = (book.turns, made.asked.input.value());
        let about = input["request"] == book.created.request.as_str();
        let Some(acceptance) = &mut book.acceptance else { return };
        let number = if acceptance.asked.0 == turn { acceptance.asked.1 + 1 } else { 1 };
        let again = acceptance.asked.0 == turn && acceptance.newest.as_ref().is_some_and(|(_, verdict)| *verdict != Some(true));
        acceptance.asked = (turn, number);
        acceptance.newest = Some((input, None));
        let named = *id == made.task.acceptance(turn, number);
        self.rule(about && named && !again, Invariant::ResultsAreAccepted, || {
            format!("{id} asks about another request, has another name, or asks again after its verdict")
        });
    }

    /// Enters the verdict of an acceptor.
    pub(super) fn acceptance_finished(&mut self, task: &TaskId, result: &CallResult) {
        let rounds = self.accept_of(task).map(|accept| accept.rounds);
        let verdict = (result.status == CallStatus::Success).then(|| result.output.value()["accepted"].as_bool()).flatten();
        let Some(acceptance) = self.tasks.get_mut(task).and_then(|book| book.acceptance.as_mut()) else { return };
        if let Some((_, known)) = &mut acceptance.newest {
            *known = verdict;
        }
        acceptance.refusals += u32::from(verdict == Some(false));
        // Configs may not ask for acceptance any more.
        let is_last = verdict != Some(true) && (verdict.is_none() || rounds.is_some_and(|rounds| acceptance.refusals >= rounds));
        acceptance.ends = rounds.is_some() && is_last;
    }

    /// Enters the verdict of the call that `finished`, if it is of an acceptor.
    pub(super) fn note_acceptance(&mut self, finished: &CallFinished) {
        if finished.call.is_acceptance() {
            self.acceptance_finished(&finished.task, &finished.result);
        }
    }

    /// Checks that a task which succeeds was accepted, and that one which ends as not accepted was refused.
    pub(super) fn check_acceptance(&mut self, ended: &TaskEnded) {
        let (id, result) = (&ended.task, &ended.result);
        let must = self.accept_of(id).is_some();
        let Some(TaskBook { acceptance: Some(book), turns, .. }) = self.tasks.get(id) else { return };
        let newest = book.newest.as_ref().filter(|_| book.asked.0 == *turns);
        let exactly = |input: &Value| input["result"] == result.output.value() && input["documents"] == json!(result.documents);
        let given = newest.is_some_and(|(input, verdict)| *verdict == Some(true) && exactly(input));
        let code = result.error.as_ref().map(|error| error.code);
        // A task may also end with the failure of a call whose task was not accepted.
        let asked = newest.is_some();
        let verdict = newest.and_then(|(_, verdict)| *verdict);
        self.rule(!must || result.status != CallStatus::Success || given, Invariant::ResultsAreAccepted, || {
            format!("{id} succeeds with a result that its acceptor has not accepted")
        });
        self.rule(
            code != Some(ErrorCode::NotAccepted) || !asked || verdict == Some(false),
            Invariant::ResultsAreAccepted,
            || format!("{id} ends as not accepted, and its acceptor has not refused its result"),
        );
        self.rule(code != Some(ErrorCode::AcceptorFailed) || !asked || verdict.is_none(), Invariant::ResultsAreAccepted, || {
            format!("{id} ends without a verdict, and its acceptor has given one")
        });
    }
}
