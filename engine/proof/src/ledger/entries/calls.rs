//! Calls are refused, approved, begun and finished.

use std::sync::Arc;

use baton_types::approval::ArgumentMatch;
use baton_types::call::{AfterExecution, CallResult, CallStatus, ErrorCode, ModelCall, Suspension};
use baton_types::config::{TaskAction, Tool};
use baton_types::document::DocumentRef;
use baton_types::entry::{
    CallApproved, CallFinished, CallMade, CallRefused, CallStarted, CallSuspended, Concern, Conflict, FinalState, Output,
};
use baton_types::id::{AgentId, CallId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use baton_types::tool_type::Then;

use crate::finding::Invariant;
use crate::ledger::{CallBook, Ledger};

impl Ledger {
    pub(super) fn call_made(&mut self, made: &CallMade) {
        let id = &made.call;
        if !self.live(&made.task, "a call of code") {
            return;
        }
        let is_acceptance = id.is_acceptance();
        let Some((outer, _)) = id.outer() else {
            return self.broken(Invariant::EveryCallHasOneResult, format!("code made call {id}, which names no other call"));
        };
        let by = self.calls.get(&outer).filter(|outer| outer.task == made.task && outer.has_code());
        let may = is_acceptance || by.and_then(|by| self.tool(&by.tool)).is_some_and(|tool| !tool.calls.is_empty());
        self.rule(may, Invariant::OnlyTheGrantedIsUsed, || format!("{id} is made by code that does not run or makes no calls"));
        let twice = self.calls.contains_key(id);
        self.rule(!twice, Invariant::EveryCallHasOneResult, || format!("the call id {id} was used twice"));
        if is_acceptance {
            self.acceptance_made(made);
        }
        let Some(task) = self.tasks.get_mut(&made.task).filter(|_| may && !twice) else { return };
        task.open.insert(id.clone());
        let book = CallBook::new(made.task.clone(), Arc::clone(&made.asked), Some(outer));
        if !is_acceptance {
            self.count_call(&made.task, &book.tool, true);
        }
        self.calls.insert(id.clone(), book);
        self.call_mut(id);
        self.count_inner(id, true);
    }

    pub(super) fn call_refused(&mut self, refused: &CallRefused) {
        if !self.live(&refused.task, "a refused call") {
            return;
        }
        let Some(call) = self.open_call(&refused.call, &refused.task, refused.tool.as_str()) else { return };
        call.refused = true;
        let started = call.started.is_some();
        self.count_inner(&refused.call, false);
        self.rule(!started, Invariant::EveryCallHasOneResult, || format!("{} was refused after it had started", refused.call));
        if refused.call.is_acceptance() {
            let result = CallResult::error(CallStatus::Failed, refused.error.clone());
            return self.acceptance_finished(&refused.task, &result);
        }
        // Any other refused call counts as made.
        if matches!(refused.error.code, ErrorCode::LimitReached | ErrorCode::TurnDiscarded) {
            self.count_call(&refused.task, refused.tool.as_str(), false);
        }
    }

    /// Returns a call with another input, and the tool that it then names.
    fn edited_call(&self, id: &CallId, input: &Json) -> Option<(ModelCall, Arc<Tool>)> {
        let call = self.calls.get(id)?;
        let edited = ModelCall { input: input.clone(), ..(*call.asked).clone() };
        let tool = Arc::clone(self.configs.tool_of(self.agent_of(&call.task).map(|agent| &agent.id), &edited)?);
        Some((edited, tool))
    }

    pub(super) fn call_approved(&mut self, approved: &CallApproved) {
        let id = &approved.call;
        if !self.live(&approved.task, "an approval") {
            return;
        }
        if let Some(by) = &approved.by_class {
            return self.call_approved_by_class(approved, by);
        }
        let asked = self.calls.get(id).and_then(|call| call.question.clone());
        let said = asked.as_ref().and_then(|(question, _)| self.tasks.get(question)).and_then(|question| question.result.clone());
        let granted = said.is_some_and(|said| said.status == CallStatus::Success && said.output.value()["approved"] == true);
        let edited = approved.input.as_ref().and_then(|input| self.edited_call(id, input));
        let call = self.calls.get(id).map(|call| call.asked.input.clone()).unwrap_or_default();
        let input = approved.input.as_ref().unwrap_or(&call);
        let tool = self.edited_call(id, input).map(|(_, tool)| tool.call_hash(&Json::null()));
        let own = approved.class.iter().all(|condition| condition.check().is_ok() && condition.holds(&input.value()));
        self.rule(own, Invariant::OnlyTheGrantedIsUsed, || format!("{id} approves a class that it is not of"));
        if !approved.class.is_empty() {
            self.classes.extend(tool.map(|tool| (id.clone(), tool, approved.class.clone())));
        }
        let said = asked.as_ref().and_then(|(question, _)| self.tasks.get(question)).and_then(|question| question.result.clone());
        let bound = match (&asked, &edited) {
            (Some((_, Concern::Approval { call_hash })), None) => *call_hash == approved.call_hash && approved.input.is_none(),
            // The approval binds the input of the person, which the tool must accept.
            (Some((_, Concern::Approval { .. })), Some((edited, tool))) => {
                let written = said.is_some_and(|said| said.output.value()["input"] == edited.input.value());
                let effective = tool.effective_input(&edited.input, &AgentId::from("agent"), id);
                let is_input = tool.input.check(&effective.value()).is_ok();
                written && is_input && tool.call_hash(&edited.input) == approved.call_hash
            }
            _ => false,
        };
        let Some(call) = self.open_call(id, &approved.task, approved.tool.as_str()) else { return };
        let early = call.started.is_none() && !std::mem::replace(&mut call.approved, true);
        call.call_hash = Some(approved.call_hash);
        if let Some((edited, _)) = edited {
            call.asked = Arc::new(edited);
        }
        self.rule(early, Invariant::EveryCallHasOneResult, || format!("{id} is approved twice, or too late"));
        self.rule(granted && bound, Invariant::OnlyTheGrantedIsUsed, || format!("{id} begins by an approval that was not given"));
    }

    /// Enters the approval of a call without a question: a person approved its class with the call `by`.
    fn call_approved_by_class(&mut self, approved: &CallApproved, by: &CallId) {
        let id = &approved.call;
        let input = self.calls.get(id).map(|call| call.asked.input.clone()).unwrap_or_default();
        let is_of_class = self.edited_call(id, &input).is_some_and(|(_, tool)| {
            let (hash, value) = (tool.call_hash(&Json::null()), input.value());
            let is_of = |(call, of, conditions): &(CallId, _, Vec<ArgumentMatch>)| {
                call == by && *of == hash && conditions.iter().all(|condition| condition.holds(&value))
            };
            tool.call_hash(&input) == approved.call_hash && self.classes.iter().any(is_of)
        });
        let is_plain = approved.input.is_none() && approved.class.is_empty();
        let Some(call) = self.open_call(id, &approved.task, approved.tool.as_str()) else { return };
        call.approved = true;
        call.call_hash = Some(approved.call_hash);
        let early = call.started.is_none();
        self.rule(early, Invariant::EveryCallHasOneResult, || format!("{id} is approved too late"));
        self.rule(is_of_class && is_plain, Invariant::OnlyTheGrantedIsUsed, || {
            format!("{id} begins by the approved class of {by}, but does not match it")
        });
    }

    pub(super) fn call_started(&mut self, started: &CallStarted, seq: u64) {
        let (id, name) = (&started.call, started.tool.as_str());
        if !self.live(&started.task, "a call's start") {
            return;
        }
        let row = started.tool_type.behavior();
        let typed = self.tool(name).is_some_and(|tool| tool.tool_type == started.tool_type);
        self.rule(typed, Invariant::TypeDecidesBehaviour, || {
            format!("{id} starts {name} as a {}, which is not the type of the tool", started.tool_type)
        });
        let granted = self.granted(&started.task, id, name).cloned();
        let is_inner = self.calls.get(id).is_some_and(|call| call.outer.is_some());
        self.rule(granted.is_some(), Invariant::OnlyTheGrantedIsUsed, || {
            format!("{id} starts {name}, which its agent was not granted")
        });
        let known = started.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::HandedOverArrivesOnce, || format!("{id} attaches documents that do not exist"));
        if row.runs_code {
            self.check_place(&started.task);
            let paused = self.paused;
            self.rule(!paused, Invariant::CancelledStaysQuiet, || format!("{id} begins while the run is paused"));
            let writes = self.tool(name).is_some_and(|tool| tool.writes);
            let counts = self.counts(&started.task);
            // Calls of code hold each other back only where two of them write.
            let alone =
                if is_inner { !writes || counts.writing == 0 } else { counts.running == 0 || (!writes && counts.writing == 0) };
            self.rule(alone, Invariant::VersionsFormAChain, || format!("{id} runs beside a call that writes"));
            self.rule(is_inner || counts.calling == 0, Invariant::VersionsFormAChain, || {
                format!("{id} starts before the calls are over that the code of an earlier call made")
            });
        } else {
            let waits = self.tool(name).is_some_and(|tool| tool.manages_tasks == Some(TaskAction::Wait));
            self.rule(row.creates_task || waits, Invariant::TypeDecidesBehaviour, || {
                format!("{id} starts {name}, of which nothing runs")
            });
        }
        let needed = granted.is_some_and(|tool| self.needs_approval(&started.task, &tool));
        let agent = self.agent_of(&started.task).map(|agent| agent.id.clone());
        let asked = self.calls.get(id).map(|call| Arc::clone(&call.asked));
        let tool = asked.and_then(|asked| self.configs.tool_of(agent.as_ref(), &asked).cloned());
        let Some(call) = self.open_call(id, &started.task, name) else { return };
        let approved = call.approved || (!needed && call.question.is_none());
        let again = call.started.replace((seq, started.tool_type)).is_some();
        let as_approved = tool.is_none() || call.is_as_approved(tool.as_deref());
        call.attached.clone_from(&started.documents);
        self.rule(!again, Invariant::NoEffectTwice, || format!("{id} started twice"));
        self.rule(approved, Invariant::OnlyTheGrantedIsUsed, || format!("{id} began without its approval"));
        self.rule(as_approved, Invariant::OnlyTheGrantedIsUsed, || {
            format!("{id} began as another call than the one that was approved")
        });
        if row.then == Then::Block
            && self.tool(name).is_some_and(|tool| tool.agent.is_some())
            && !id.is_acceptance()
            && let Some(task) = self.tasks.get_mut(&started.task)
        {
            task.children = task.children.saturating_add(1);
        }
    }

    pub(super) fn call_suspended(&mut self, suspended: &CallSuspended) {
        let (id, name) = (&suspended.call, suspended.tool.as_str());
        if !self.live(&suspended.task, "a suspended call") {
            return;
        }
        let may = self.tool(name).is_some_and(|tool| tool.suspends);
        self.rule(may, Invariant::OnlyTheGrantedIsUsed, || format!("{id} is suspended, and its tool may not be"));
        let Some(call) = self.open_call(id, &suspended.task, name) else { return };
        let ran = call.runs();
        call.suspension = Some(suspended.suspension.clone());
        self.rule(ran, Invariant::EveryCallHasOneResult, || format!("{id} is suspended and did not run"));
    }

    /// Checks the result of a suspended call: somebody outside delivered it, or its moment has come, or it was stopped.
    fn check_suspended(&mut self, finished: &CallFinished, suspension: Option<&Suspension>, at: Timestamp) {
        let (id, result) = (&finished.call, &finished.result);
        let delivered = finished.delivered_by.as_deref();
        self.rule(delivered.is_none() || suspension.is_some(), Invariant::EveryCallHasOneResult, || {
            format!("a result is delivered for {id}, which was not suspended")
        });
        self.rule(delivered.is_none_or(Principal::is_outside), Invariant::OnlyTheGrantedIsUsed, || {
            format!("the result of {id} is delivered from inside of the run")
        });
        let Some(suspension) = suspension.filter(|_| delivered.is_none() && result.status != CallStatus::Cancelled) else {
            return;
        };
        let due = suspension.until.is_some_and(|until| until <= at);
        let same = match &suspension.output {
            Some(output) => {
                matches!(result.status, CallStatus::Success | CallStatus::Failed) && {
                    result.status == CallStatus::Failed
                        || result.output.kept().is_some()
                        || result.output.value() == output.value()
                }
            }
            None => result.status == CallStatus::Timeout,
        };
        self.rule(due && same, Invariant::EveryCallHasOneResult, || {
            format!("{id} has a result that is neither delivered nor that of its moment")
        });
    }

    pub(super) fn call_finished(&mut self, finished: &CallFinished, at: Timestamp) {
        let (id, result) = (&finished.call, &finished.result);
        if !self.live(&finished.task, "a call's result") {
            return;
        }
        let takeover = self.last_crash;
        let name = finished.tool.as_str();
        let hands_off = finished.tool_type.behavior().then == Then::Stop && result.status == CallStatus::Success;
        let suspended = self.counts(&finished.task).suspended;
        self.rule(!hands_off || suspended == 0, Invariant::EveryCallHasOneResult, || {
            format!("{id} hands off while {suspended} calls of its turn are suspended")
        });
        let Some(call) = self.open_call(id, &finished.task, name) else { return };
        let (started, wrote, asked) = (call.started, std::mem::take(&mut call.wrote), Arc::clone(&call.asked));
        let never_begun = call.asks() && result.status == CallStatus::Cancelled;
        let suspension = call.suspension.clone();
        let informed = call.is_doubtful() || suspension.is_some();
        call.status = Some(result.status);
        call.result = Some(Arc::clone(result));
        let is_inner = call.outer.is_some();
        self.count_inner(id, false);
        let row = finished.tool_type.behavior();
        let waits = self.tool(name).is_some_and(|tool| tool.manages_tasks == Some(TaskAction::Wait));
        let must_start = (row.runs_code || row.creates_task || waits) && finished.result_of.is_none();
        self.rule(started.is_some() == must_start || never_begun, Invariant::NoEffectTwice, || {
            format!("{id} has a result and never started")
        });
        let has_printed = finished.printed.is_some();
        self.rule(!has_printed || (row.runs_code && started.is_some()), Invariant::TypeDecidesBehaviour, || {
            format!("{id} printed a text and no code of it ran")
        });
        if let Some(tool) = self.tool(name).cloned() {
            // A tool that may not write keeps its own output at most.
            let kept = result.output.kept().map(|kept| &kept.document);
            let may_write = tool.writes || wrote.iter().all(|written| Some(written) == kept);
            self.rule(may_write, Invariant::OnlyTheGrantedIsUsed, || format!("{id} wrote documents and its tool may not"));
            self.rule(tool.tool_type == finished.tool_type, Invariant::TypeDecidesBehaviour, || {
                format!("{id} ends as another kind of tool")
            });
            // A call that a join cancels does not affect the end of the turn.
            let joined = result.status == CallStatus::Cancelled && tool.agent.is_some();
            let is_background = finished.result_of.is_none() && tool.is_background(&asked.input);
            let said = match row.then {
                Then::Block if (joined || is_background) && finished.after == AfterExecution::Suspend => true,
                Then::Stop => finished.after == AfterExecution::Terminate,
                // An executor may set it in its envelope; nothing else may.
                _ => {
                    (row.runs_code && finished.result_of.is_none())
                        || finished.after == asked.after_execution.unwrap_or_else(|| tool.after_by_default())
                }
            };
            self.rule(said, Invariant::ContentControlsNothing, || {
                format!("what happens after {id} was not asked for by anything that may")
            });
            let in_doubt = tool.is_lost_in_crash() && row.runs_code && started.is_some_and(|(at, _)| at < takeover);
            let doubted = result.status == CallStatus::UnknownOutcome;
            let stopped = result.status == CallStatus::Cancelled;
            self.rule(!in_doubt || doubted || stopped || informed, Invariant::NoEffectTwice, || {
                format!("{id} was in doubt and has a result")
            });
            let ended = result.error.as_ref().is_some_and(|error| error.code == ErrorCode::Cancelled);
            let acted = tool.effect.acts_each_time() && row.runs_code && started.is_some() && suspension.is_none();
            self.rule(!(stopped && ended && acted), Invariant::NoEffectTwice, || {
                format!("{id} was stopped while it worked, and its result does not say that its outcome is unknown")
            });
        }
        self.rule(wrote.is_empty() || result.status == CallStatus::Success, Invariant::VersionsFormAChain, || {
            format!("{id} wrote and did not succeed")
        });
        let known = result.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::HandedOverArrivesOnce, || format!("the result of {id} brings documents that do not exist"));
        for conflict in &finished.conflicts {
            let head = self.heads.get(conflict.path.as_str()).copied();
            let real = head == Some(conflict.current)
                && conflict.base != head
                && result.status == CallStatus::Failed
                && wrote.is_empty();
            self.rule(real, Invariant::VersionsFormAChain, || format!("{id} has a conflict that is none"));
        }
        self.check_suspended(finished, suspension.as_ref(), at);
        self.note_unknown(finished);
        self.note_acceptance(finished);
        if let Some(earlier) = &finished.result_of {
            self.check_repeated(finished, earlier, &asked);
        } else if self.tool(name).is_some_and(|tool| tool.is_background(&asked.input)) {
            let given = result.status == CallStatus::Cancelled || result.output.value()["task"] == id.created_task().as_str();
            self.rule(given, Invariant::EndingWakesTheCaller, || format!("{id} does not give the id of its background task"));
        } else if row.creates_task {
            self.check_callee_result(finished);
        }
        if is_inner {
            // Its result goes to code, and into no request.
            return;
        }
        // The agent gets a receipt alone for a result that goes to the user.
        let to_user = asked.return_to_llm == Some(false) && row.then != Then::Stop;
        if let Some(task) = self.tasks.get_mut(&finished.task) {
            if !to_user {
                task.injected.extend(result.documents.iter().cloned());
                task.brought.extend(result.documents.iter().cloned());
                task.arrived.extend(result.documents.iter().cloned());
                task.arrived_parts.extend(finished.read.iter().map(|document| (finished.call.clone(), document.clone())));
            }
            let current = |conflict: &Conflict| DocumentRef { path: conflict.path.clone(), version: conflict.current };
            task.arrived_conflicts.extend(finished.conflicts.iter().map(current));
        }
    }

    /// Checks the result of a repeated request: it is that of an earlier call of the same task with the same id, tool and
    /// input.
    fn check_repeated(&mut self, finished: &CallFinished, earlier: &CallId, asked: &ModelCall) {
        let same = self.calls.get(earlier).is_some_and(|call| {
            call.task == finished.task
                && call.asked.provider_id.is_some()
                && call.asked.provider_id == asked.provider_id
                && (&call.asked.tool, call.asked.input.value()) == (&asked.tool, asked.input.value())
                && call.result.as_ref() == Some(&finished.result)
        });
        self.rule(same && *earlier != finished.call, Invariant::NoEffectTwice, || {
            format!("{} has the result of {earlier}, which was another request", finished.call)
        });
    }

    /// Checks the result of a delegation or a question: it is that of its task. After retries it is that of the last
    /// task, with a note on the others.
    pub(super) fn check_callee_result(&mut self, finished: &CallFinished) {
        let Some(call) = self.call_mut(&finished.call) else { return };
        let (waited, tried_again) = (call.retry_at.take().is_some(), call.failed_attempts > 0);
        let callee = call.worked_on_by.clone();
        let Some(callee) = callee.and_then(|callee| self.tasks.get(&callee)) else { return };
        let (ended, given) = (callee.ended, callee.result.clone());
        self.rule(ended.is_some(), Invariant::TimelineHasNoGaps, || {
            format!("the result of {} before the end of its task", finished.call)
        });
        let result = &finished.result;
        let same = match (given, ended) {
            _ if waited && result.status == CallStatus::Cancelled => true,
            (Some(given), _) if tried_again => {
                let code = |result: &CallResult| result.error.as_ref().map(|error| (error.code, error.message.clone()));
                (given.status, &given.output, &given.documents) == (result.status, &result.output, &result.documents)
                    && code(&given) == code(result)
            }
            (Some(given), _) => given == *result,
            (None, Some(FinalState::Cancelled)) => result.status == CallStatus::Cancelled,
            (None, _) => true,
        };
        self.rule(same, Invariant::EndingWakesTheCaller, || format!("{} has another result than its task", finished.call));
    }

    pub(super) fn output(&mut self, output: &Output) {
        let id = &output.call;
        if !self.live(&output.task, "an output") {
            return;
        }
        let Some(call) = self.calls.get_mut(id) else {
            return self.broken(Invariant::EveryCallHasOneResult, format!("an output of call {id}, which no turn made"));
        };
        let again = std::mem::replace(&mut call.sent, true);
        let wanted = call.asked.return_to_llm == Some(false);
        let same = call.result.as_ref().is_some_and(|result| result.status == output.status && result.output == output.output);
        self.rule(!again, Invariant::EveryCallHasOneResult, || format!("the result of {id} goes to the user twice"));
        self.rule(wanted && same, Invariant::ContentControlsNothing, || {
            format!("the output for the user is not the result of {id}, or was not requested")
        });
    }
}
