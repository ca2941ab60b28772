//! The acceptance of a delegated task's results: what the acceptor is asked, and its verdict.

use baton_render::acceptance::Judgement;
use baton_types::config::Accept;

use crate::agent;
use crate::prelude::*;
use crate::task::AcceptanceFacts;

/// The state of the acceptance in a turn.
pub(crate) enum Acceptance {
    /// No acceptor was asked yet, or none is needed.
    Open,
    /// The acceptor was asked and has not answered.
    Pending,
    /// The acceptor accepted the result.
    Given,
    /// The acceptor refused the result, and the agent may improve it.
    Refused(CallError),
    /// The task ends with this result: the last refusal, or no verdict.
    Over(CallResult),
}

impl Run {
    /// Returns the acceptance that a success of `task` needs, with the facts of the task. A last turn because of a limit other than
    /// the task's turns ends without success, so it needs none.
    fn accept_of(&self, task: TaskIndex) -> Option<(&Accept, &AcceptanceFacts)> {
        let of = &self.graph[task];
        let facts = of.extras().acceptance.as_ref()?;
        let accept = self.configs.tools.get(of.tool.as_ref()?)?.accept.as_ref()?;
        of.last_turn().is_none_or(|limit| limit == LimitKind::Turns).then_some((accept, facts))
    }

    /// Returns the state of the acceptance in the open turn of `task`.
    pub(crate) fn acceptance(&self, task: TaskIndex) -> Acceptance {
        let of = &self.graph[task];
        let (Some((accept, facts)), Some(calls)) = (self.accept_of(task), of.phase.calls()) else { return Acceptance::Open };
        let Some(call) = calls.acceptance() else { return Acceptance::Open };
        let Some(result) = call.finish().and_then(|finish| finish.result.as_ref()) else { return Acceptance::Pending };
        let (rounds, round) = (accept.rounds, facts.refused);
        match Judgement::of(result) {
            Judgement::Yes => Acceptance::Given,
            Judgement::No(reason) => {
                let error = CallError::new(ErrorCode::NotAccepted, format!("not accepted (round {round} of {rounds}): {reason}"));
                let is_program = of.agent().is_some_and(|id| agent(&self.configs, id).program.is_some());
                if round < rounds && of.last_turn().is_none() && !is_program {
                    Acceptance::Refused(error)
                } else {
                    Acceptance::Over(self.without_acceptance(task, error))
                }
            }
            Judgement::Missing(reason) => {
                let message = format!("the result was not accepted, because its acceptor gave no verdict: {reason}");
                Acceptance::Over(self.without_acceptance(task, CallError::new(ErrorCode::AcceptorFailed, message)))
            }
        }
    }

    /// Returns the call that must accept `output` and `documents` before `task` ends with them; `None` if they are accepted or need
    /// no acceptance.
    pub(crate) fn acceptance_call(&self, task: TaskIndex, output: &Json, documents: &[DocumentRef]) -> Option<ModelCall> {
        let (accept, facts) = self.accept_of(task)?;
        let input = json!({"request": facts.request, "result": output.value(), "documents": documents});
        let asked = ModelCall::new(accept.by.tool().as_str(), input);
        let answered = self.graph[task].phase.calls()?.acceptance().filter(|call| call.is_finished());
        answered.is_none_or(|call| !call.asked.asks_the_same(&asked)).then_some(asked)
    }

    /// Notes in the partial result of `task` that it was not accepted, if its delegation asks for acceptance.
    pub(crate) fn note_not_accepted(&self, task: TaskIndex, result: &mut CallResult) {
        if self.graph[task].extras().acceptance.is_some() {
            result.add_detail("accepted", false.into());
        }
    }

    /// Returns the result of a task without acceptance. The documents that it wrote stay.
    fn without_acceptance(&self, task: TaskIndex, error: CallError) -> CallResult {
        let documents = self.graph[task].written().cloned().collect();
        CallResult { documents, ..CallResult::error(CallStatus::Failed, error) }
    }
}
