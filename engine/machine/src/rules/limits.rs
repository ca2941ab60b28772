//! Rule *limits*: the worst case is reserved before a request, on the task, on every task above it and on the run.
//!
//! A request waits while only the reservations of others are in its way. When a limit is reached, the task uses its last
//! turn, which offers only a handoff, and ends `partial`.

use crate::prelude::*;

/// Tries to admit the first task that became ready after entry `place`, and then the next one.
pub(crate) fn admit(draft: &mut Draft<'_>, place: u64) {
    let shared = &draft.run.shared;
    if let Some((place, task)) = shared.ready.range(place + 1..).next().filter(|_| !(shared.paused || shared.releasing)) {
        draft.steps.extend([Step::Fit(*task), Step::Admit { place: *place }]);
    }
}

/// Asks the model of a ready task, leaves the task waiting, uses its last turn, or ends it with its documents so far.
pub(crate) fn request(draft: &mut Draft<'_>, task: TaskIndex) {
    let of = draft.task(task);
    let Phase::Ready(next) = &of.phase else { return };
    if let Next::Again(purpose) = *next {
        return ask_again(draft, task, purpose);
    }
    let allotment = draft.run.allot(task);
    let input_tokens = allotment.input_tokens;
    let notice = match draft.run.admission(draft.at, task, input_tokens, false) {
        Admission::Now => of.work().missed.map(|Missed { count, reason }| Notice::Reminder { count, reason }),
        Admission::Later => return,
        Admission::Reached(reached) => match draft.run.admission(draft.at, task, input_tokens, true) {
            Admission::Now => Some(Notice::LastTurn { limit: reached.limit }),
            Admission::Later => return,
            Admission::Reached(last) => {
                // The last turn needs less, so its amounts show how far the limit is from any request.
                let reached = if last.limit == reached.limit { last } else { reached };
                return draft.then_end_reached(task, reached);
            }
        },
    };
    // The request holds all messages that people sent meanwhile.
    let (turn, steers) = (of.turns + 1, of.extras().steering.clone());
    draft.request_turn(task, turn, allotment, steers, notice);
}

/// Asks again for a turn that got no answer: the same turn, rendered alike, within the same limits of tokens and money. Later
/// messages of people wait for the next turn.
fn ask_again(draft: &mut Draft<'_>, task: TaskIndex, purpose: Purpose) {
    let allotment = draft.run.allot(task);
    match draft.run.admits_budget(task, allotment.input_tokens, true) {
        Admission::Now => {
            let notice = match purpose {
                Purpose::Turn => None,
                Purpose::LastTurn(limit) => Some(Notice::LastTurn { limit }),
                Purpose::Summary { through_turn } => Some(Notice::Summarise { through_turn }),
            };
            draft.request_turn(task, draft.task(task).turns, allotment, Vec::new(), notice);
        }
        Admission::Later => {}
        Admission::Reached(reached) => {
            let last = purpose.last_turn().filter(|limit| *limit != reached.limit);
            draft.then_end_reached(task, last.map_or(reached, Into::into));
        }
    }
}
