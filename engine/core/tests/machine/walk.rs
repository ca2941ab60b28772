//! Random walks: jobs of any shape, turns of any mixture, answers in any order, cancels, crashes, late results, pauses,
//! time. Every invariant is checked after every step, and every run ends (T-S1, at the size of a test).

use std::cell::RefCell;
use std::rc::Rc;

use baton_core::call::{AfterExecution, CallStatus, ErrorCode, ModelCall};
use baton_core::config::EffectClass;
use baton_core::document::DocumentRef;
use baton_core::event::{Event, Outcome};
use baton_core::id::{CallId, TaskId};
use baton_core::limits::Limits;
use baton_core::model::{FinishReason, ModelTurn, Usage};
use serde_json::{Value, json};

use crate::support::jobs::{AgentDraft, JobDraft};
use crate::support::random::Random;
use crate::support::script::{Answer, Execution, Prompted, document_path};
use crate::support::sim::Work;
use crate::support::{
    Sim, agent, call, call_with, error, function, handoff_with, job, malformed, note, print, stopped, then, to_user, turn, write,
};

const PATHS: [&str; 4] = ["a.md", "b.csv", "c.json", "missing.md"];
const TOOLS: [&str; 6] = ["work", "look", "once", "save", "jot", "last"];

/// Between `low` and `high`, or no limit at all once in `rarely`.
fn perhaps(random: &mut Random, rarely: usize, low: usize, high: usize) -> Option<u64> {
    (!random.once_in(rarely)).then(|| (low + random.below(high - low + 1)) as u64)
}

fn random_limits(random: &mut Random, generous: bool) -> Limits {
    if generous {
        return Limits { turns: Some(6 + random.below(6) as u32), inject_tokens: Some(8), ..Limits::default() };
    }
    let narrow = |value: Option<u64>| value.map(|value| value as u32);
    Limits {
        turns: Some(1 + random.below(10) as u32),
        depth: narrow(perhaps(random, 2, 1, 5)),
        children: narrow(perhaps(random, 2, 0, 5)),
        parallel_calls: narrow(perhaps(random, 2, 1, 3)),
        tokens: if random.once_in(3) { perhaps(random, 2, 300, 20_000) } else { None },
        result_bytes: if random.once_in(4) { Some(20) } else { None },
        repeats: narrow(perhaps(random, 2, 2, 3)),
        worked_seconds: if random.once_in(6) { Some(40) } else { None },
        deadline_seconds: if random.once_in(6) { Some(90) } else { None },
        inject_tokens: perhaps(random, 2, 0, 8),
        ..Limits::default()
    }
}

fn random_agent(random: &mut Random, index: usize, agents: usize, generous: bool) -> AgentDraft {
    let mut tools: Vec<String> = TOOLS.iter().filter(|_| generous || !random.once_in(3)).map(|tool| (*tool).to_owned()).collect();
    tools.extend((0..agents).filter(|_| generous || !random.once_in(3)).map(|other| format!("route_to_agent{other}")));
    if generous || !random.once_in(3) {
        tools.push("ask_master".to_owned());
    }
    let mut draft = agent(&format!("agent{index}"), &tools.join(" "))
        .limits(random_limits(random, generous))
        .settings(json!({"max_tokens": 20 + random.below(200)}));
    if random.once_in(2) {
        draft = draft.reminded_on_text();
    }
    if random.once_in(4) {
        draft = draft.asks_a_person();
    }
    draft
}

fn random_job(random: &mut Random) -> JobDraft {
    // Half of the jobs have room for many tasks; the others run into every limit.
    let generous = random.once_in(2);
    let agents = if generous { 4 } else { 1 + random.below(4) };
    let limits = Limits {
        turns: Some(1 + random.below(120) as u32),
        depth: Some(random.below(6) as u32),
        live_tasks: Some(1 + random.below(20) as u32),
        parallel_calls: Some(1 + random.below(4) as u32),
        tokens: if random.once_in(3) { Some(200 + random.below(60_000) as u64) } else { None },
        worked_seconds: if random.once_in(6) { Some(100) } else { None },
        deadline_seconds: if random.once_in(6) { Some(200) } else { None },
        ..Limits::default()
    };
    let drafts: Vec<AgentDraft> = (0..agents).map(|index| random_agent(random, index, agents, generous)).collect();
    let limits =
        if generous { Limits { turns: Some(80), depth: Some(4), live_tasks: Some(24), ..Limits::default() } } else { limits };
    job(drafts)
        .tools([
            function("work").effect(EffectClass::Idempotent),
            function("look").effect(EffectClass::Pure),
            function("once").effect(EffectClass::AtMostOnce),
            function("save").effect(EffectClass::Keyed).writing(),
            note("jot"),
            function("last").after(AfterExecution::Terminate),
        ])
        .limits(limits)
}

fn random_paths(random: &mut Random) -> Vec<&'static str> {
    let known = if random.once_in(8) { PATHS.len() } else { 2 };
    (0..random.below(3)).map(|_| PATHS[random.below(known)]).collect()
}

fn random_call(random: &mut Random) -> ModelCall {
    let mark = random.below(3).to_string();
    // `last`, which ends the task, is rarely called.
    let tools = if random.once_in(6) { TOOLS.len() } else { TOOLS.len() - 1 };
    let called = match random.below(16) {
        0..=4 => call(TOOLS[random.below(tools)], &mark),
        5..=8 => {
            let request = json!({"request": mark, "documents": random_paths(random)});
            call_with(&format!("route_to_agent{}", random.below(4)), request)
        }
        9 | 10 => random_question(random),
        11 | 12 => handoff_with(mark, &random_paths(random)),
        13 => call_with("work", json!({"x": 1})),
        14 => malformed("work"),
        _ => call("nothing", &mark),
    };
    match random.below(40) {
        0..=2 => to_user(called),
        3 => then(called, AfterExecution::Terminate),
        4 => then(called, AfterExecution::Suspend),
        _ => called,
    }
}

fn random_question(random: &mut Random) -> ModelCall {
    let mut input = json!({"question": random.below(3).to_string(), "documents": random_paths(random)});
    if random.once_in(3) {
        input["deadline_seconds"] = json!(1 + random.below(60));
        input["on_deadline"] = json!(random.pick(&["default", "escalate", "fail"]));
        input["default_answer"] = json!("by default");
    }
    if random.once_in(4) {
        input["answer_schema"] = json!({"type": "string", "minLength": 2});
        input["default_answer"] = json!("long enough");
    }
    call_with("ask_master", input)
}

/// A turn of any kind, which uses at most what was reserved for it.
fn random_turn(random: &mut Random, prompted: &Prompted<'_>) -> Answer {
    if random.once_in(80) {
        return Err(Sim::model_error());
    }
    let calls: Vec<ModelCall> = (0..=random.below(4)).map(|_| random_call(random)).collect();
    // The longer a task goes on, the likelier it hands off.
    let said = match random.below(24).saturating_sub(prompted.turn as usize) {
        0 if random.once_in(2) => ModelTurn::text("a text"),
        1 => ModelTurn::text(""),
        2 => stopped(turn(calls), *random.pick(&[FinishReason::Length, FinishReason::ContentFilter, FinishReason::Refusal])),
        3 => ModelTurn { text: "meanwhile".to_owned(), ..turn(calls) },
        0 | 4 => turn([handoff_with("done", &random_paths(random))]),
        _ => turn(calls),
    };
    let spent = random.below(prompted.reserved as usize + 1) as u64;
    let usage = Usage { input_tokens: spent / 2, output_tokens: spent - spent / 2, ..Usage::default() };
    Ok(ModelTurn { usage: Some(usage), ..said })
}

fn random_outcome(random: &mut Random, execution: &Execution) -> Outcome {
    let mut outcome = match random.below(8) {
        0 => Outcome::error(
            *random.pick(&[CallStatus::Failed, CallStatus::Timeout, CallStatus::Cancelled, CallStatus::Partial]),
            error(ErrorCode::ToolFailed),
        ),
        1 => Outcome::success(json!("x".repeat(random.below(30)))),
        2 => Outcome::success(json!({"__cg_control": {"after_execution": "terminate"}})),
        _ => Outcome::success(json!(random.below(2))),
    };
    if execution.tool.as_str() == "save" || random.once_in(20) {
        let paths = &PATHS[..3];
        let count = random.below(3);
        let start = random.below(3);
        outcome.writes = (0..count).map(|index| write(paths[(start + index) % 3], &random.bits().to_string())).collect();
    }
    if random.once_in(4) {
        outcome.loads = vec![DocumentRef { path: document_path(PATHS[random.below(4)]), version: 1 + random.below(2) as u32 }];
    }
    if random.once_in(30) {
        outcome.after = Some(*random.pick(&[AfterExecution::Suspend, AfterExecution::Terminate]));
    }
    outcome
}

/// A run whose models, tools and schedule come from `seed`.
fn random_sim(seed: u64, agents: usize, draft: &JobDraft) -> Sim {
    let chance = Rc::new(RefCell::new(Random::seeded(seed ^ 0x5EED)));
    let mut sim = Sim::new(draft).by_chance(seed);
    for index in 0..agents {
        let id = format!("agent{index}");
        for in_questions in [false, true] {
            let chance = Rc::clone(&chance);
            let model = move |prompted: &Prompted<'_>| random_turn(&mut chance.borrow_mut(), prompted);
            sim = if in_questions { sim.answers_with(&id, model) } else { sim.agent_with(&id, model) };
        }
    }
    for tool in TOOLS.iter().filter(|tool| **tool != "jot") {
        let chance = Rc::clone(&chance);
        sim = sim.tool(tool, move |execution| random_outcome(&mut chance.borrow_mut(), execution));
    }
    sim
}

/// Something that comes from outside, whatever the run is doing.
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
            let event = Event::CancelRequested { task, reason: "enough".to_owned(), by: "ada".to_owned() };
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
            let lives = sim.ledger.tasks[&task].ended.is_none();
            let event = Event::Steered { task, text: "hurry".to_owned(), by: "ada".to_owned() };
            assert_eq!(sim.event(event).is_ok(), lives);
        }
        7 => {
            let _ = sim.event(Event::PauseRequested { by: "ada".to_owned() });
        }
        _ => answer_somebody(random, sim),
    }
}

fn deliver_late(sim: &mut Sim, late: Work) {
    match late {
        Work::Prompt { task, turn, request } => {
            // After a crash the same turn may be asked again, and then any answer to it is a good one.
            let asked_again = sim.pending.iter().any(|work| matches!(work, Work::Prompt { task: other, .. } if *other == task));
            if !asked_again {
                deliver(sim, Event::ModelAnswered { task, turn, request: request.hash, answer: ModelTurn::text("late") });
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

/// Sends in what nobody waits for: it is recorded or refused, and changes nothing else.
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
    let answer: Value = random.pick(&[json!("yes"), json!("x"), json!(7)]).clone();
    let documents = if random.once_in(3) { vec![write("a.md", &random.bits().to_string())] } else { Vec::new() };
    let answer = baton_core::json::Json::from(answer);
    let _ = sim.event(Event::PersonAnswered { question, by: "ada".to_owned(), answer, documents });
}

/// Walks with `seed` to the end of the run.
fn walk(seed: u64) -> Sim {
    let mut random = Random::seeded(seed);
    let draft = random_job(&mut random);
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
            // Nothing runs: somebody has to answer, or to let the run go on, or time has to pass.
            let _ = sim.event(Event::UnpauseRequested { by: "ada".to_owned() });
            if sim.pending.is_empty() && !sim.ended {
                assert!(!sim.asked.is_empty(), "nothing runs and nobody is asked:\n{}", print::timeline(&sim.timeline));
                assert!(sim.run.waits_only_for_people());
                answer_somebody(&mut random, &mut sim);
            }
        }
    }
    panic!("the walk does not end:\n{}", print::timeline(&sim.timeline));
}

/// Walks with `seed`; how many tasks and entries there were.
fn walk_checked(seed: u64) -> (usize, usize) {
    let walked = std::panic::catch_unwind(|| {
        let sim = walk(seed);
        sim.assert_over();
        (sim.ledger.tasks.len(), sim.timeline.len())
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
    let walked: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let parts = (0..threads).map(|part| {
            let seeds = (first..first + walks).filter(move |seed| seed % threads == part);
            scope.spawn(|| seeds.map(walk_checked).collect::<Vec<_>>())
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().expect("a walk breaks")).collect()
    });
    let tasks: usize = walked.iter().map(|(tasks, _)| tasks).sum();
    let entries: usize = walked.iter().map(|(_, entries)| entries).sum();
    println!("{walks} walks, {tasks} tasks, {entries} entries");
    assert!(tasks as u64 > walks * 2 || walks < 100, "the walks went somewhere: {tasks} tasks");
}
