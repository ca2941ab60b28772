//! Rule *limits*: the worst case is reserved before a request, on the task, on every task above it and on the run.
//!
//! A request waits while only reservations of others stand in its way. When a limit is reached, the task uses its last turn,
//! which offers only a handoff, and ends `partial`.

use baton_types::entry::Notice;
use baton_types::json::Json;

use super::{Step, Steps};
use crate::draft::Draft;
use crate::graph::TaskIndex;
use crate::phase::{Next, Phase, Purpose};
use crate::room::Admission;
use crate::task::Missed;

/// Looks at the first ready task that became so after entry `place`, and then at the next.
pub(crate) fn admit(draft: &Draft<'_>, place: u64) -> Steps {
    let shared = &draft.run.shared;
    let first = shared.ready.range(place + 1..).next().filter(|_| !shared.paused);
    first.map_or_else(Vec::new, |(place, task)| vec![Step::Fit(*task), Step::Admit { place: *place }])
}

/// Asks the model of a ready task, leaves it waiting, uses its last turn, or ends it with what it has.
pub(crate) fn request(draft: &mut Draft<'_>, task: TaskIndex) -> Steps {
    let of = draft.task(task);
    let Phase::Ready(next) = &of.phase else { return Vec::new() };
    if let Next::Again(purpose) = *next {
        return ask_again(draft, task, purpose);
    }
    let notice = match draft.run.admission(draft.at, task, false) {
        Admission::Now => of.missed.map(|Missed { count, reason }| Notice::Reminder { count, reason }),
        Admission::Later => return Vec::new(),
        Admission::Reached(limit) => match draft.run.admission(draft.at, task, true) {
            Admission::Now => Some(Notice::LastTurn { limit }),
            Admission::Later => return Vec::new(),
            Admission::Reached(_) => {
                return vec![Step::end_partial(task, limit, Json::null(), of.written().cloned().collect())];
            }
        },
    };
    // The request holds all that people said meanwhile.
    let (turn, steers) = (of.turns + 1, of.steering().to_vec());
    draft.request_turn(task, turn, steers, notice);
    Vec::new()
}

/// Asks for a turn again that got no answer: the same turn, rendered alike, within the same limits of tokens and money. What
/// people said since waits for the turn after it.
fn ask_again(draft: &mut Draft<'_>, task: TaskIndex, purpose: Purpose) -> Steps {
    let of = draft.task(task);
    match draft.run.admits_budget(task, true) {
        Admission::Now => {
            let notice = match purpose {
                Purpose::Turn => None,
                Purpose::LastTurn(limit) => Some(Notice::LastTurn { limit }),
                Purpose::Summary { through_turn } => Some(Notice::Summarise { through_turn }),
            };
            draft.request_turn(task, of.turns, Vec::new(), notice);
            Vec::new()
        }
        Admission::Later => Vec::new(),
        Admission::Reached(limit) => {
            let limit = purpose.last_turn().unwrap_or(limit);
            vec![Step::end_partial(task, limit, Json::null(), of.written().cloned().collect())]
        }
    }
}
