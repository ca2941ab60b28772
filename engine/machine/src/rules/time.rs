//! Deadlines, further attempts and ends of suspensions that are due.

use crate::prelude::*;

/// Handles what is due first, and then the next.
pub(crate) fn pass(draft: &mut Draft<'_>) {
    let (graph, shared) = (&draft.run.graph, &draft.run.shared);
    let deadline = shared.deadlines.first().filter(|(at, _)| *at <= draft.at);
    let alarm = shared.alarms.first().filter(|(at, _)| *at <= draft.at);
    match (deadline, alarm) {
        (Some((at, id)), alarm) if alarm.is_none_or(|(alarm_at, _)| at <= alarm_at) => {
            let Some(task) = graph.find(id.as_str()) else { return };
            time_out(draft, task);
        }
        (_, Some((_, id))) => {
            let Some(task) = graph.find(id.task_text()) else { return };
            let index = draft.calls(task).position_of(id);
            let call = CallAt { task, index };
            draft.then(match draft.call(call).stage {
                CallStage::Suspended => Step::WakeUp(call),
                _ => Step::Retry(call),
            });
        }
        (_, None) => return,
    }
    draft.then(Step::PassTime);
}

/// Handles the passed deadline of `task`. A question follows its asker's policy. Any other task times out.
fn time_out(draft: &mut Draft<'_>, task: TaskIndex) {
    let of = draft.task(task);
    let Some(question) = of.question.clone().filter(|question| question.closed.is_none()) else {
        let error = CallError::new(ErrorCode::TimedOut, format!("the deadline of task {} has passed", of.id));
        return draft.then_time_out(task, LimitKind::Deadline, error);
    };
    match &question.on_deadline {
        OnDeadline::Default(default) => {
            draft.close_question(task, &question, QuestionEnd::Expired { default: default.clone() });
            draft.then(Step::end(task, CallResult::success(default.clone())));
        }
        OnDeadline::Escalate if may_escalate(draft.run, task) => {
            draft.then(Step::Close { task, reason: "the question was passed on to the next master" });
            draft.then(Step::Escalate(task));
        }
        OnDeadline::Escalate | OnDeadline::Fail => {
            draft.close_question(task, &question, QuestionEnd::Expired { default: Json::null() });
            let message = format!("question Q{} was not answered in time", question.number);
            let error = CallError::new(ErrorCode::Unanswered, message);
            draft.then(Step::end(task, CallResult::error(CallStatus::Timeout, error)));
        }
    }
}

/// Whether a question can be escalated to the next master. An agent must hold it, and limits must admit one more live task.
/// If the next master is an agent, a turn must be left for it. The agent that did not answer in time may have used its own.
fn may_escalate(run: &Run, task: TaskIndex) -> bool {
    let (limits, shared) = (&run.configs.job.limits, &run.shared);
    run.graph[task].holder != Holder::Person
        && limits.live_tasks.is_none_or(|allowed| shared.live_tasks < allowed)
        && (run.master_of(task).holder == Holder::Person
            || limits.turns.is_none_or(|allowed| shared.turns + shared.live_agent_tasks <= allowed))
}
