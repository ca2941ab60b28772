//! Random jobs of any shape, and what their models and tools say: one chance names all of it.

use std::time::Duration;

use baton_types::call::{AfterExecution, CallStatus, ErrorCode, ModelCall, Suspension};
use baton_types::config::{Acceptor, Approver, EffectClass, Join, OnFailure, Retry, TaskAction};
use baton_types::document::DocumentRef;
use baton_types::event::Outcome;
use baton_types::id::{AgentId, ToolId};
use baton_types::limits::{Limits, SessionLimits};
use baton_types::model::{FinishReason, ModelTurn, Usage};
use baton_types::money::{Money, Price};
use baton_types::time::Timestamp;
use serde_json::{Value, json};

use crate::jobs::{AgentDraft, JobDraft, ToolDraft, agent, function, job, note};
use crate::random::Random;
use crate::script::{
    Answer, Execution, Prompted, call, call_with, document_path, error, handoff_with, malformed, route_with, stopped, then,
    to_user, turn, with_id, write, writes,
};

const PATHS: [&str; 4] = ["a.md", "b.csv", "c.json", "missing.md"];
const APPROVERS: [Approver; 2] = [Approver::Master, Approver::Person];
/// The tools of the jobs.
pub const TOOLS: [&str; 9] = ["work", "look", "once", "save", "jot", "plan", "errand", "hire", "last"];

/// The tools that manage tasks.
const MANAGING: [(&str, TaskAction); 4] = [
    ("await_tasks", TaskAction::Wait),
    ("see_tasks", TaskAction::List),
    ("tell_task", TaskAction::Steer),
    ("end_task", TaskAction::Cancel),
];
/// Ids that tasks near the root may have.
const TASKS: [&str; 6] = ["0/1.1", "0/1.2", "0/2.1", "0/2.2", "0/1.1/1.1", "0/3.1"];

/// Returns a number between `low` and `high`, or no limit at all once in `rarely`.
fn perhaps(random: &mut Random, rarely: usize, low: usize, high: usize) -> Option<u64> {
    (!random.once_in(rarely)).then(|| (low + random.below(high - low + 1)) as u64)
}

/// Returns up to `most` picodollars.
fn random_usd(random: &mut Random, most: usize) -> f64 {
    Money::from_picos(random.below(most) as u64).as_usd()
}

fn random_limits(random: &mut Random, generous: bool) -> Limits {
    if generous {
        let context_tokens = if random.once_in(4) { Some(600 + random.below(600) as u64) } else { None };
        return Limits { turns: Some(6 + random.below(6) as u32), inject_tokens: Some(8), context_tokens, ..Limits::default() };
    }
    let narrow = |value: Option<u64>| value.map(|value| value as u32);
    Limits {
        turns: Some(1 + random.below(10) as u32),
        depth: narrow(perhaps(random, 2, 1, 5)),
        children: narrow(perhaps(random, 2, 0, 5)),
        parallel_calls: narrow(perhaps(random, 2, 1, 3)),
        tokens: if random.once_in(3) { perhaps(random, 2, 300, 20_000) } else { None },
        calls: if random.once_in(4) { perhaps(random, 4, 0, 12).map(|calls| calls as u32) } else { None },
        cost_usd: if random.once_in(3) { Some(random_usd(random, 20_000)) } else { None },
        result_bytes: if random.once_in(4) { Some(20) } else { None },
        context_tokens: if random.once_in(3) { Some(256 + random.below(1_200) as u64) } else { None },
        turn_seconds: if random.once_in(6) { Some(25) } else { None },
        repeats: narrow(perhaps(random, 2, 2, 3)),
        worked_seconds: if random.once_in(6) { Some(40) } else { None },
        deadline_seconds: if random.once_in(6) { Some(90) } else { None },
        inject_tokens: perhaps(random, 2, 0, 8),
        ..Limits::default()
    }
}

/// Limits that a session of some runs reaches and others do not; mostly none.
fn random_session_limits(random: &mut Random) -> SessionLimits {
    SessionLimits {
        turns: if random.once_in(6) { Some(1 + random.below(60) as u32) } else { None },
        calls: if random.once_in(8) { Some(random.below(60) as u32) } else { None },
        tokens: if random.once_in(8) { Some(1_000 + random.below(60_000) as u64) } else { None },
        cost_usd: if random.once_in(8) { Some(random_usd(random, 100_000)) } else { None },
    }
}

fn random_agent(random: &mut Random, index: usize, agents: usize, generous: bool) -> AgentDraft {
    let mut tools: Vec<String> = TOOLS.iter().filter(|_| generous || !random.once_in(3)).map(|tool| (*tool).to_owned()).collect();
    tools.extend((0..agents).filter(|_| generous || !random.once_in(3)).map(|other| format!("route_to_agent{other}")));
    if generous || !random.once_in(3) {
        tools.push("ask_master".to_owned());
    }
    tools.extend(MANAGING.iter().filter(|_| !random.once_in(3)).map(|(tool, _)| (*tool).to_owned()));
    let mut draft = agent(&format!("agent{index}"), &tools.join(" "))
        .limits(random_limits(random, generous))
        .settings(json!({"max_tokens": 20 + random.below(200)}));
    if random.once_in(2) {
        draft = draft.reminded_on_text();
    }
    if random.once_in(4) {
        draft = draft.asks_a_person();
    }
    if random.once_in(2) {
        draft = draft.summarises();
    }
    if random.once_in(2) {
        draft = draft.universal();
    }
    if random.once_in(4) {
        draft = draft.cancels_open_tasks();
    }
    if random.once_in(6) {
        let tool = *random.pick(&["handoff", "look", "route_to_agent0"]);
        draft = draft.needs_approval(tool, *random.pick(&APPROVERS));
    }
    if random.once_in(3) {
        draft = draft.tells_limits();
    }
    draft.join(*random.pick(&[Join::All, Join::FailFast, Join::FirstSuccess, Join::Quorum(2), Join::Quorum(3)]))
}

/// Returns delegations with random properties. Some are tried again, at once or later. Some may run in the background. Some
/// need an approval. Some begin with the conversation of the caller. The results of some must be accepted.
fn random_routes(random: &mut Random, agents: usize) -> Vec<ToolDraft> {
    let mut routes = Vec::new();
    for index in 0..agents {
        let route = ToolDraft::route(&format!("agent{index}"));
        let route = match random.below(4) {
            0 | 1 => {
                let retry = Retry { times: 1 + random.below(3) as u32, backoff_seconds: random.below(3) as u32 * 7 };
                route.on_failure(OnFailure::Retry(retry))
            }
            2 => route.in_background().follows_up(),
            _ if random.once_in(2) => continue,
            _ => route,
        };
        let route = if random.once_in(3) { route.forks_context() } else { route };
        let route = if random.once_in(2) { accepted(random, route, agents) } else { route };
        routes.push(perhaps_approved(random, route));
    }
    routes
}

/// The tool that accepts results.
const JUDGE: &str = "judge";
/// Its effect classes.
const JUDGES: [EffectClass; 3] = [EffectClass::Pure, EffectClass::Idempotent, EffectClass::AtMostOnce];

/// Requires that one of the agents or a tool accepts the results of `route`.
fn accepted(random: &mut Random, route: ToolDraft, agents: usize) -> ToolDraft {
    let by = if random.once_in(2) {
        Acceptor::Tool(ToolId::new(JUDGE))
    } else {
        Acceptor::Agent(AgentId::new(format!("agent{}", random.below(agents))))
    };
    route.accepted_by(by, 1 + random.below(3) as u32)
}

/// Returns the verdict of an acceptor.
fn any_verdict(random: &mut Random) -> Value {
    json!({"accepted": !random.once_in(3), "reason": format!("reason {}", random.below(10))})
}

fn perhaps_approved(random: &mut Random, tool: ToolDraft) -> ToolDraft {
    if random.once_in(5) { tool.approved_by(*random.pick(&APPROVERS)) } else { tool }
}

fn perhaps_asked(random: &mut Random, tool: ToolDraft) -> ToolDraft {
    let tool = perhaps_approved(random, tool);
    if random.once_in(4) { tool } else { tool.asks_what_became_of_it() }
}

/// Returns a job of one to four agents; half of them have room for many tasks, the others run into every limit.
pub fn job_of_any_shape(random: &mut Random) -> JobDraft {
    // Half of the jobs have room for many tasks; the others run into every limit.
    let generous = random.once_in(2);
    let agents = if generous { 4 } else { 1 + random.below(4) };
    let limits = Limits {
        turns: Some(1 + random.below(120) as u32),
        depth: Some(random.below(6) as u32),
        live_tasks: Some(1 + random.below(20) as u32),
        parallel_calls: Some(1 + random.below(4) as u32),
        tokens: if random.once_in(3) { Some(200 + random.below(60_000) as u64) } else { None },
        calls: if random.once_in(6) { Some(random.below(60) as u32) } else { None },
        cost_usd: if random.once_in(4) { Some(random_usd(random, 100_000)) } else { None },
        turn_seconds: if random.once_in(8) { Some(20) } else { None },
        worked_seconds: if random.once_in(6) { Some(100) } else { None },
        deadline_seconds: if random.once_in(6) { Some(200) } else { None },
        ..Limits::default()
    };
    let drafts: Vec<AgentDraft> = (0..agents).map(|index| random_agent(random, index, agents, generous)).collect();
    let fallbacks: &[&str] = if random.once_in(2) { &["second", "third"] } else { &[] };
    let limits =
        if generous { Limits { turns: Some(80), depth: Some(4), live_tasks: Some(24), ..Limits::default() } } else { limits };
    let hire = hire(random);
    let judge = function(JUDGE).effect(*random.pick(&JUDGES)).suspending();
    job(drafts)
        .tools(random_routes(random, agents))
        .tools([
            perhaps_approved(random, function("work").effect(EffectClass::Idempotent).suspending()),
            function("look").effect(EffectClass::Pure).suspending(),
            perhaps_asked(random, function("once").effect(EffectClass::AtMostOnce).suspending()),
            perhaps_approved(random, function("save").effect(EffectClass::Keyed).writing()),
            note("jot"),
            perhaps_approved(random, function("plan").effect(EffectClass::Pure).calls(&["*", "once"])),
            perhaps_asked(random, function("errand").effect(EffectClass::AtMostOnce).calls(&["*", "work"])),
            hire,
            function("last").after(AfterExecution::Terminate),
            perhaps_asked(random, judge),
        ])
        .tools(MANAGING.map(|(tool, action)| note(tool).manages(action)))
        .limits(limits)
        .session_limits(random_session_limits(random))
        .price("script", price())
        .price("second", Price { output: Money::from_picos(9), ..price() })
        .price("third", price())
        .fallbacks("script", fallbacks)
}

/// Returns a few picodollars a token: so little that limits of some thousands are reached by some requests and not by others.
fn price() -> Price {
    let rate = Money::from_picos;
    Price {
        input: rate(2),
        cached_input: rate(1),
        output: rate(5),
        source: "a random job".to_owned(),
        context_tokens: None,
        output_tokens: None,
        is_estimate: false,
    }
}

/// Returns a tool whose calls a service executes. Some of its calls wait for a limited time.
fn hire(random: &mut Random) -> ToolDraft {
    let tool = function("hire").effect(*random.pick(&[EffectClass::Keyed, EffectClass::AtMostOnce])).served();
    let tool = perhaps_approved(random, tool);
    if random.once_in(3) { tool.suspended_for(Duration::from_secs(1 + random.below(300) as u64)) } else { tool }
}

fn random_paths(random: &mut Random) -> Vec<&'static str> {
    let known = if random.once_in(8) { PATHS.len() } else { 2 };
    (0..random.below(3)).map(|_| PATHS[random.below(known)]).collect()
}

fn random_call(random: &mut Random) -> ModelCall {
    let mark = random.below(3).to_string();
    // `last`, which ends the task, is rarely called.
    let tools = if random.once_in(6) { TOOLS.len() } else { TOOLS.len() - 1 };
    let called = match random.below(17) {
        0..=4 => call(TOOLS[random.below(tools)], &mark),
        5..=8 => {
            let mut request = json!({"request": mark, "documents": random_paths(random)});
            if random.once_in(4) {
                request["wait"] = json!(false);
            }
            if random.once_in(12) {
                request["continues"] = json!(random.pick(&TASKS));
            }
            call_with(&format!("route_to_agent{}", random.below(4)), request)
        }
        9 | 10 => random_question(random),
        11 | 12 => handoff_with(mark, &random_paths(random)),
        13 => call_with("work", json!({"x": 1})),
        14 => malformed("work"),
        15 => random_management(random),
        _ => call("nothing", &mark),
    };
    let called = if random.once_in(3) { with_id(&random.below(4).to_string(), called) } else { called };
    match random.below(40) {
        0..=2 => to_user(called),
        3 => then(called, AfterExecution::Terminate),
        4 => then(called, AfterExecution::Suspend),
        _ => called,
    }
}

fn random_management(random: &mut Random) -> ModelCall {
    let (tool, _) = *random.pick(&MANAGING);
    let mut input = json!({"task": random.pick(&TASKS), "message": "more", "until": random.pick(&["all", "any"])});
    if random.once_in(3) {
        input["tasks"] = json!([random.pick(&TASKS), random.pick(&TASKS)]);
    }
    call_with(tool, input)
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

/// Returns an answer to one of the engine's own questions, or to another question.
pub fn any_decision(random: &mut Random) -> Value {
    random
        .pick(&[
            json!({"approved": true}),
            json!({"approved": true, "reason": "it is fine"}),
            json!({"approved": true, "input": {"request": "something else"}}),
            json!({"approved": true, "class": [{"pointer": "/x", "prefix": ""}]}),
            json!({"approved": false, "reason": "not now"}),
            json!({"outcome": "done", "output": 1}),
            json!({"outcome": "not_done", "note": "nothing came"}),
            json!({"outcome": "unknown"}),
        ])
        .clone()
}

/// Whether an agent is asked whether it accepts a result.
fn is_acceptance(prompted: &Prompted<'_>) -> bool {
    prompted.task.originating_call().is_acceptance()
}

/// Returns a turn of any kind, which uses at most what was reserved for it.
pub fn any_turn(random: &mut Random, prompted: &Prompted<'_>) -> Answer {
    if random.once_in(40) {
        let codes = [ErrorCode::ModelFailed, ErrorCode::ModelUnavailable, ErrorCode::ContextExceeded, ErrorCode::TimedOut];
        return Err(error(*random.pick(&codes)));
    }
    let calls: Vec<ModelCall> = (0..=random.below(4)).map(|_| random_call(random)).collect();
    // The longer a task runs, the likelier it hands off.
    let said = match random.below(24).saturating_sub(prompted.turn as usize) {
        0 if random.once_in(2) => ModelTurn::text("a text"),
        1 => ModelTurn::text(""),
        2 => stopped(turn(calls), *random.pick(&[FinishReason::Length, FinishReason::ContentFilter, FinishReason::Refusal])),
        3 => ModelTurn { text: "meanwhile".to_owned(), ..turn(calls) },
        _ if is_acceptance(prompted) && !random.once_in(3) => turn([handoff_with(any_verdict(random), &[])]),
        _ if prompted.request.is_question && random.once_in(2) => turn([handoff_with(any_decision(random), &[])]),
        0 | 4 => turn([handoff_with("done", &random_paths(random))]),
        _ => turn(calls),
    };
    let input_tokens = random.below(prompted.input as usize + 1) as u64;
    let usage = Usage {
        input_tokens,
        output_tokens: random.below((prompted.reserved - prompted.input) as usize + 1) as u64,
        cached_tokens: random.below(input_tokens as usize + 1) as u64,
        ..Usage::default()
    };
    Ok(ModelTurn { usage: Some(usage), ..said })
}

/// Returns the outcome of a call: any status, writes, loads, an envelope.
pub fn any_outcome(random: &mut Random, execution: &Execution) -> Outcome {
    let mut outcome = match random.below(8) {
        _ if execution.tool.as_str() == JUDGE && !random.once_in(4) => Outcome::success(any_verdict(random)),
        0 => Outcome::error(
            *random.pick(&[CallStatus::Failed, CallStatus::Timeout, CallStatus::Cancelled, CallStatus::Partial]),
            error(ErrorCode::ToolFailed),
        ),
        1 if random.once_in(3) => Outcome::success(json!("long ".repeat(200 + random.below(300)))),
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
        outcome.reads = vec![DocumentRef { path: document_path(PATHS[random.below(4)]), version: 1 + random.below(2) as u32 }];
        outcome.loads = vec![DocumentRef { path: document_path(PATHS[random.below(4)]), version: 1 + random.below(2) as u32 }];
    }
    if random.once_in(10) {
        outcome.printed = Some("step by step".into());
    }
    if random.once_in(30) {
        outcome.after = Some(*random.pick(&[AfterExecution::Suspend, AfterExecution::Terminate]));
    }
    outcome
}

/// Returns what a suspended call waits for from `now` on: a moment with the same output each time, or sometimes a delivery.
pub fn any_suspension(random: &mut Random, now: Timestamp, straight: bool) -> Suspension {
    let until = now.plus(Duration::from_secs(1 + random.below(120) as u64));
    if straight || random.once_in(2) {
        return Suspension { until: Some(until), output: Some(json!(random.below(1_000)).into()) };
    }
    Suspension { until: random.once_in(2).then_some(until), output: None }
}

/// Returns a job in which one thing happens at a time, so that no schedule and no crash can change what comes out.
pub fn straight_job(random: &mut Random) -> JobDraft {
    let agents = 2 + random.below(3);
    let tools = |index: usize| {
        let routes = (index + 1..agents).map(|other| format!("route_to_agent{other}"));
        routes.chain(["work look save jot plan errand hire ask_master".to_owned()]).collect::<Vec<_>>().join(" ")
    };
    let drafts: Vec<AgentDraft> = (0..agents).map(|index| agent(&format!("agent{index}"), &tools(index))).collect();
    let mut routes = Vec::new();
    for index in 1..agents {
        if random.once_in(2) {
            routes.push(accepted(random, ToolDraft::route(&format!("agent{index}")), agents));
        }
    }
    job(drafts).tools(routes).tools([
        function(JUDGE).effect(EffectClass::Idempotent),
        function("work").effect(EffectClass::Idempotent).suspending(),
        function("look").effect(EffectClass::Pure),
        function("save").effect(EffectClass::Keyed).writing(),
        note("jot"),
        function("plan").effect(EffectClass::Pure).calls(&["*"]),
        function("errand").effect(EffectClass::Keyed).calls(&["*"]),
        function("hire").effect(EffectClass::Keyed).served(),
    ])
}

/// Returns a turn of one call, or of a text; after a few of them a handoff.
pub fn straight_turn(random: &mut Random, prompted: &Prompted<'_>) -> Answer {
    if is_acceptance(prompted) {
        return Ok(ModelTurn::text(any_verdict(random).to_string()));
    }
    if prompted.request.is_question {
        return Ok(ModelTurn::text(format!("answer {}", random.below(100))));
    }
    let mark = format!("{} {}", prompted.turn, random.below(1_000));
    if prompted.turn as usize > 3 + random.below(3) {
        return Ok(turn([handoff_with(mark, &["a.md"])]));
    }
    Ok(turn([straight_call(random, &mark)]))
}

fn straight_call(random: &mut Random, mark: &str) -> ModelCall {
    match random.below(10) {
        0 => call("work", mark),
        9 => call("hire", mark),
        1 => call("look", mark),
        2 | 3 => call("save", mark),
        4 => call("jot", mark),
        5 => call_with("ask_master", json!({"question": mark})),
        6 => call(["plan", "errand"][random.below(2)], mark),
        // An agent that was not granted this one, or that does not exist, is refused. The refusal must be the same
        // each time.
        _ => route_with(&format!("agent{}", 1 + random.below(4)), mark, &["a.md"]),
    }
}

/// The calls of code, and when it makes them: the same each time.
pub struct CodeShape {
    /// The calls that it makes, in order.
    pub calls: Vec<ModelCall>,
    /// Whether it makes the next call once the one before has its result, and not all of them at once.
    pub one_by_one: bool,
    /// Whether it ends although calls that it made have no result.
    pub leaves_early: bool,
}

/// Returns what the code of a call does. `random` must be seeded by the call.
pub fn code_shape(random: &mut Random, straight: bool) -> CodeShape {
    let count = random.below(4);
    let call = |random: &mut Random, number: usize| {
        let asked = if straight { straight_call(random, &format!("inner {number}")) } else { random_call(random) };
        ModelCall::new(asked.tool, asked.input)
    };
    let calls = (0..count).map(|number| call(random, number)).collect();
    let (one_by_one, leaves_early) = (straight || random.once_in(2), !straight && random.once_in(6));
    CodeShape { calls, one_by_one, leaves_early }
}

/// Returns the outcome of a call of a straight job: a success, with a write if the tool writes.
pub fn straight_outcome(random: &mut Random, execution: &Execution) -> Outcome {
    let output = json!(random.below(1_000));
    match execution.tool.as_str() {
        JUDGE => Outcome::success(any_verdict(random)),
        "save" => {
            let path = *random.pick(&["a.md", "d.md", "e.md"]);
            writes(output, vec![write(path, &format!("{} {}", execution.call, random.bits()))])
        }
        _ => Outcome::success(output),
    }
}
