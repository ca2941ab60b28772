//! What a run counts of its living tasks beside the tasks themselves: each number must be what counting again gives.
//!
//! The fold cannot tell a wrong number, since it goes wrong with the run; and the machine relies on these to know, without
//! looking at every task, what may begin, who waits and when nothing can proceed.

use baton_core::Run;
use baton_core::machine::{CallStage, OpenTurn, TaskState};

/// Every number that is not what it counts: what, the number, and the count.
pub(crate) fn miscounted(run: &Run) -> Vec<String> {
    let totals = run.totals();
    let (mut agents, mut people, mut active, mut ready, mut queued, mut alarms) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let mut wrong = Vec::new();
    for task in run.graph().iter().filter(|task| task.is_live()) {
        if task.agent().is_none() {
            people += 1;
        } else if task.escalated.is_none() {
            // Of a question that went on to another master, no turn is set aside any more.
            agents += 1;
        }
        active += u64::from(matches!(task.state, TaskState::Ready | TaskState::Running));
        if task.state == TaskState::Ready {
            ready += 1;
            let place = task.place.and_then(|place| totals.ready.get(&place));
            if place != Some(&task.id) {
                wrong.push(format!("{} is ready and not in the queue", task.id));
            }
        }
        if task.working_since.is_some() != matches!(task.state, TaskState::Ready | TaskState::Running) {
            wrong.push(format!("{} is {:?} and has worked since {:?}", task.id, task.state, task.working_since));
        }
        // A question that went on to another master has rung already.
        let deadline = task.deadline.filter(|_| task.escalated.is_none());
        alarms += u64::from(deadline.is_some());
        if let Some(deadline) = deadline
            && !totals.deadlines.contains(&(deadline, task.id.clone()))
        {
            wrong.push(format!("nobody wakes {} at its deadline", task.id));
        }
        if let Some(open) = &task.open {
            // A blocked task waits for something else first, and keeps no place from others.
            queued += u64::from(open.waiting_functions > 0 && task.state == TaskState::Running);
            let miscounted = of_turn(open).into_iter().filter(|(_, number, count)| number != count);
            wrong
                .extend(miscounted.map(|(what, number, count)| format!("{} counts {number} calls {what}, not {count}", task.id)));
        }
    }
    let counts = [
        ("tasks of agents", u64::from(totals.live_agent_tasks), agents),
        ("questions to people", u64::from(totals.open_questions), people),
        ("tasks that are active", u64::from(totals.active_tasks), active),
        ("tasks that are ready", totals.ready.size() as u64, ready),
        ("tasks with calls that have not begun", totals.waiting_for_calls.size() as u64, queued),
        ("deadlines", totals.deadlines.size() as u64, alarms),
        ("stretches of work", u64::from(totals.active_since.is_some()), u64::from(active > 0)),
    ];
    let miscounted = counts.into_iter().filter(|(_, number, count)| number != count);
    wrong.extend(miscounted.map(|(what, number, count)| format!("the run counts {number} {what}, not {count}")));
    wrong
}

fn of_turn(open: &OpenTurn) -> [(&'static str, u32, u32); 6] {
    let mut counts = [0_u32; 6];
    let [unfinished, waiting, running, awaited, asking, doubtful] = &mut counts;
    for call in open.calls.iter().filter(|call| !call.is_finished()) {
        *unfinished += 1;
        match call.stage {
            CallStage::Waiting | CallStage::Approval if call.is_function() => *waiting += 1,
            CallStage::Running if call.is_function() => *running += 1,
            CallStage::Running => *awaited += 1,
            CallStage::Doubt => *doubtful += 1,
            CallStage::Waiting | CallStage::Approval | CallStage::Refused | CallStage::Finished(_) => {}
        }
        *asking += u32::from(call.stage == CallStage::Approval);
    }
    [
        ("without a result", open.unfinished, *unfinished),
        ("of functions that have not begun", open.waiting_functions, *waiting),
        ("of functions that run", open.running_functions, *running),
        ("that others work on", open.awaited, *awaited),
        ("that wait for an approval", open.asking, *asking),
        ("in doubt", open.doubtful, *doubtful),
    ]
}
