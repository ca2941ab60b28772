//! Possible cuts of a timeline, and forks that continue from there.

use std::sync::Arc;
use std::time::Duration;

use baton_machine::{Run, Task};
use baton_types::entry::{Adoption, Fork, ForkPoint, ForkedEffects};
use baton_types::event::{Effect, Event};
use baton_types::id::{RunId, TaskId};
use baton_types::principal::Principal;

use crate::support::Sim;
use crate::support::random::Random;

/// Checks that decision numbers change exactly where a decision ends, and that a fork continues from one of these places: it
/// begins again what the original waited for.
pub(crate) fn may_be_cut(sim: &Sim, random: &mut Random) {
    let mut cuts = Vec::new();
    for (before, pair) in (1..).zip(sim.timeline.windows(2)) {
        let differs = pair[0].decision != pair[1].decision;
        assert_eq!(differs, sim.batches.binary_search(&before).is_ok(), "between entries {before} and {}", before + 1);
        cuts.extend(differs.then_some(before));
    }
    if cuts.is_empty() {
        return;
    }
    let cut = *random.pick(&cuts);
    let mut run = Run::fold(Arc::clone(&sim.configs), &sim.timeline[..cut]);
    let configs = run.started().expect("the first entry is before every cut").configs;
    let from = ForkPoint { run: RunId::new("original"), seq: cut as u64 };
    let (at, day) = (sim.timeline[cut - 1].at, Duration::from_hours(24));
    let deadlines = |run: &Run, id: &TaskId| run.task(id).and_then(|task| task.deadline);
    let before = run.clone();
    let fork = Fork { run: RunId::new("fork"), from, at, effects: ForkedEffects::Recorded };
    let adoption = Adoption { fork: Some(fork), ..Adoption::of(configs) };
    let event = Event::Adopted { adoption, documents: Vec::new(), by: Principal::person("ada") };
    let decision = run.handle(at.plus(day), event).expect("a run that has not ended goes on by its own configs");
    for task in run.graph().iter().filter(|task| task.is_live()) {
        let shifted = deadlines(&before, &task.id).map(|deadline| deadline.plus(day));
        let is_new = before.task(&task.id).is_none();
        assert!(is_new || task.deadline == shifted, "a day in which nothing happened costs {} no time", task.id);
    }
    let live = || run.graph().iter().filter(|task| task.is_live());
    let prompted =
        |id: &TaskId| decision.effects.iter().any(|effect| matches!(effect, Effect::Prompt { task, .. } if task == id));
    let requested = |task: &&Task| task.phase.request().is_some();
    assert!(live().filter(requested).all(|task| prompted(&task.id)), "each open request is made anew");
    let running: u32 = live().filter_map(|task| task.phase.calls()).map(|calls| calls.counts().running_functions).sum();
    // What a limit or a join ends in the same decision was begun anew first, and is stopped.
    let lives = |id: &TaskId| run.task(id).is_some_and(Task::is_live);
    let executed = decision.effects.iter().filter(|effect| matches!(effect, Effect::Execute { task, .. } if lives(task))).count();
    assert_eq!(running as usize, executed, "each call that runs is begun anew");
    assert_eq!(run.started().and_then(|started| started.forked_from.as_ref()).map(|from| from.seq), Some(cut as u64));
}
