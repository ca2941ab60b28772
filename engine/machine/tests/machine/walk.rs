//! Random walks: jobs of any shape, turns of any mixture, answers in any order, cancels, crashes, late results, pauses,
//! time. Every invariant is checked after every step, and every run ends, at the size of a test.

use std::cell::RefCell;
use std::rc::Rc;

use baton_types::entry::{Concern, Entry};
use baton_types::event::{Event, Outcome};
use baton_types::id::{CallId, TaskId};
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::cuts::may_be_cut;
use crate::support::jobs::JobDraft;
use crate::support::random::Random;
use crate::support::script::Prompted;
use crate::support::shapes::{TOOLS, any_decision, any_outcome, any_turn, job_of_any_shape};
use crate::support::sim::Work;
use crate::support::{Sim, print, write};

/// Returns a run whose models, tools and schedule come from `seed`.
fn random_sim(seed: u64, agents: usize, draft: &JobDraft) -> Sim {
    let chance = Rc::new(RefCell::new(Random::seeded(seed ^ 0x5EED)));
    let mut sim = Sim::new(draft).by_chance(seed);
    for index in 0..agents {
        let id = format!("agent{index}");
        for in_questions in [false, true] {
            let chance = Rc::clone(&chance);
            let model = move |prompted: &Prompted<'_>| any_turn(&mut chance.borrow_mut(), prompted);
            sim = if in_questions { sim.answers_with(&id, model) } else { sim.agent_with(&id, model) };
        }
    }
    for tool in TOOLS.iter().filter(|tool| **tool != "jot") {
        let chance = Rc::clone(&chance);
        sim = sim.tool(tool, move |execution| any_outcome(&mut chance.borrow_mut(), execution));
    }
    sim
}

/// Sends an event from outside, whatever the run is doing.
fn disturb(random: &mut Random, sim: &mut Sim) {
    let any_task = |random: &mut Random, sim: &Sim| {
        let tasks: Vec<TaskId> = sim.ledger.tasks.keys().cloned().collect();
        random.pick(&tasks).clone()
    };
    match random.below(9) {
        0 => sim.crash(),
        1 | 2 => {
            let task = any_task(random, sim);
            if task == TaskId::root() && !random.once_in(10) {
                return;
            }
            let lives = sim.ledger.tasks[&task].ended.is_none();
            let event = Event::CancelRequested { task, reason: "enough".to_owned(), by: Principal::person("ada") };
            assert_eq!(sim.event(event).is_ok(), lives, "what lives can be cancelled and nothing else");
        }
        3 => {
            // What was stopped answers after all, or an answer comes twice.
            if let Some(late) = (!sim.stopped.is_empty()).then(|| sim.stopped.remove(random.below(sim.stopped.len()))) {
                deliver_late(sim, late);
            }
        }
        4 => {
            let foreign = ["0/1.1", "0/7.7", "0", "nonsense", "0/1.1/1.2"];
            let call = CallId::from(*random.pick(&foreign));
            let runs = |work: &Work| matches!(work, Work::Execute(execution) if execution.call == call);
            if !sim.pending.iter().any(runs) {
                deliver(sim, Event::CallReturned { call, outcome: Outcome::success(json!("from nowhere")) });
            }
        }
        5 => sim.wait(random.below(30) as u64),
        6 => {
            let task = any_task(random, sim);
            let listens = sim.run.task(&task).is_some_and(|task| task.is_live() && task.agent().is_some());
            let event = Event::Steered { task, text: "hurry".to_owned(), by: Principal::person("ada") };
            assert_eq!(sim.event(event).is_ok(), listens);
        }
        7 => {
            let _ = sim.event(Event::PauseRequested { by: Principal::person("ada") });
        }
        _ => answer_somebody(random, sim),
    }
}

fn deliver_late(sim: &mut Sim, late: Work) {
    match late {
        Work::Prompt { task, turn, request, until: _until } => {
            // After a crash the same turn may be asked again, and then any answer to it is a good one.
            let asked_again = sim.pending.iter().any(|work| matches!(work, Work::Prompt { task: other, .. } if *other == task));
            if !asked_again {
                deliver(
                    sim,
                    Event::ModelAnswered { task, turn, request: request.hash, answer: ModelTurn::text("late"), recorded: None },
                );
            }
        }
        Work::Execute(execution) => {
            let runs = |work: &Work| matches!(work, Work::Execute(other) if other.call == execution.call);
            if !sim.pending.iter().any(runs) {
                deliver(sim, Event::CallReturned { call: execution.call, outcome: Outcome::success(json!("late")) });
            }
        }
    }
}

/// Sends an event that nothing waits for. It is recorded or refused, and changes nothing else.
fn deliver(sim: &mut Sim, event: Event) {
    let (live, documents) = (sim.ledger.live_tasks().count(), sim.ledger.heads.clone());
    let calls = sim.ledger.calls.values().filter(|call| call.status.is_some()).count();
    let _ = sim.event(event);
    assert_eq!(sim.ledger.live_tasks().count(), live, "what comes late changes nothing");
    assert_eq!(sim.ledger.heads, documents, "what comes late changes nothing");
    assert_eq!(sim.ledger.calls.values().filter(|call| call.status.is_some()).count(), calls, "what comes late changes nothing");
}

fn answer_somebody(random: &mut Random, sim: &mut Sim) {
    if sim.asked.is_empty() {
        return;
    }
    let question = random.pick(&sim.asked).clone();
    let answer: Value = match sim.ledger.tasks[&question].created.concern {
        Some(_) => any_decision(random),
        None => random.pick(&[json!("yes"), json!("x"), json!(7)]).clone(),
    };
    let documents = if random.once_in(3) { vec![write("a.md", &random.bits().to_string())] } else { Vec::new() };
    let answer = baton_types::json::Json::from(answer);
    let _ = sim.event(Event::PersonAnswered { question, by: Principal::person("ada"), answer, documents, recorded: None });
}

/// Walks with `seed` to the end of the run.
fn walk(seed: u64) -> Sim {
    let mut random = Random::seeded(seed);
    let draft = job_of_any_shape(&mut random);
    let agents = draft.build().agents.len();
    let mut sim = random_sim(seed, agents, &draft);
    sim.begin(vec![write("a.md", "one"), write("b.csv", "two")]);
    for _ in 0..20_000 {
        if sim.ended {
            return sim;
        }
        if random.once_in(12) {
            disturb(&mut random, &mut sim);
        } else if !sim.step() {
            // Nothing runs: a person has to answer or to continue the run, or time has to pass.
            let _ = sim.event(Event::UnpauseRequested { by: Principal::person("ada") });
            let waits = |sim: &Sim| sim.ledger.live_tasks().any(|(task, _)| sim.ledger.waits_for_an_attempt(task));
            if sim.pending.is_empty() && !sim.ended && waits(&sim) {
                assert!(!sim.run.waits_only_for_people());
                sim.wait(60);
            } else if sim.pending.is_empty() && !sim.ended {
                assert!(!sim.asked.is_empty(), "nothing runs and nobody is asked:\n{}", print::timeline(&sim.timeline));
                assert!(sim.run.waits_only_for_people());
                answer_somebody(&mut random, &mut sim);
            }
        }
    }
    panic!("the walk does not end:\n{}", print::timeline(&sim.timeline));
}

/// Numbers over all walks: tasks, entries, approved calls, retried delegations, questions about outcomes.
type Seen = [usize; 5];

/// Walks with `seed`; what there was.
fn walk_checked(seed: u64) -> Seen {
    let walked = std::panic::catch_unwind(|| {
        let sim = walk(seed);
        sim.assert_over();
        may_be_cut(&sim, &mut Random::seeded(seed));
        let count = |wanted: fn(&Entry) -> bool| sim.timeline.iter().filter(|recorded| wanted(&recorded.entry)).count();
        [
            sim.ledger.tasks.len(),
            sim.timeline.len(),
            count(|entry| matches!(entry, Entry::CallApproved(_))),
            count(|entry| matches!(entry, Entry::TaskCreated(created) if created.failed_attempts > 0)),
            count(|entry| matches!(entry, Entry::TaskCreated(created) if created.concern == Some(Concern::Outcome))),
        ]
    });
    walked.unwrap_or_else(|_| panic!("seed {seed} breaks: BATON_FIRST_WALK={seed} BATON_WALKS=1 walks it again"))
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_walks_keep_every_invariant_and_end() {
    let (first, walks) = (number("BATON_FIRST_WALK", 0), number("BATON_WALKS", 2_000));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let walked: Vec<Seen> = std::thread::scope(|scope| {
        let parts = (0..threads).map(|part| {
            let seeds = (first..first + walks).filter(move |seed| seed % threads == part);
            scope.spawn(|| seeds.map(walk_checked).collect::<Vec<_>>())
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().expect("a walk breaks")).collect()
    });
    let [tasks, entries, approved, retried, doubted] =
        walked.iter().fold(Seen::default(), |sum, seen| std::array::from_fn(|index| sum[index] + seen[index]));
    println!("{walks} walks, {tasks} tasks, {entries} entries, {approved} approvals, {retried} retries, {doubted} doubts");
    let all = [tasks / 2, approved * 8, retried * 100, doubted * 400];
    assert!(walks < 100 || all.iter().all(|seen| *seen as u64 > walks), "the walks went somewhere: {all:?}");
}
