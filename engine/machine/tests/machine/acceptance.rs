//! Results of delegations that an agent or a tool must accept.

use expect_test::expect;

use baton_types::call::{AfterExecution, CallResult, CallStatus, ErrorCode, Suspension};
use baton_types::config::{Acceptor, Approver, EffectClass, Join, OnFailure, Retry};
use baton_types::entry::{Entry, FinalState};
use baton_types::event::Outcome;
use baton_types::id::{AgentId, ToolId};
use baton_types::limits::Limits;
use baton_types::message::Part;
use baton_types::model::{ModelTurn, Usage};
use serde_json::{Value, json};

use crate::support::jobs::{AgentDraft, JobDraft, ToolDraft};
use crate::support::script::{call_with, handoff_with, writes};
use crate::support::{Sim, agent, ask, call, check, function, handoff, job, route, says, then, turn, write};

fn by_judge() -> Acceptor {
    Acceptor::Agent(AgentId::new("judge"))
}

fn by_check() -> Acceptor {
    Acceptor::Tool(ToolId::new("check"))
}

fn worker() -> AgentDraft {
    agent("worker", "save look last ask_master")
}

/// Returns a job whose root delegates to a worker, whose results `by` must accept.
fn shop_with(worker: AgentDraft, route: ToolDraft) -> JobDraft {
    job([agent("root", "route_to_worker look save"), worker, agent("judge", "look ask_master save").asks_a_person()]).tools([
        route,
        function("check").effect(EffectClass::Pure).input(json!({
            "type": "object",
            "properties": {"request": {"type": "string"}, "result": {}, "documents": {"type": "array"}},
            "required": ["request", "result", "documents"],
        })),
        function("look").effect(EffectClass::Pure),
        function("save").effect(EffectClass::Idempotent).writing(),
        function("last").after(AfterExecution::Terminate),
    ])
}

fn shop(by: Acceptor, rounds: u32) -> JobDraft {
    shop_with(worker(), ToolDraft::route("worker").accepted_by(by, rounds))
}

fn verdict(accepted: bool, reason: &str) -> Value {
    json!({"accepted": accepted, "reason": reason})
}

/// Returns a model that refuses a result and then accepts one.
fn once_no() -> impl FnMut(&baton_proof::script::Prompted<'_>) -> baton_proof::script::Answer {
    let mut asked = 0;
    move |_| {
        asked += 1;
        Ok(turn([handoff(verdict(asked > 1, "the title is missing"))]))
    }
}

/// Begins a run whose root delegates once and hands off, with these turns of the worker.
fn begun(job: &JobDraft, worker: impl IntoIterator<Item = ModelTurn>) -> Sim {
    Sim::new(job).agent("root", [turn([route("worker", "write it")]), turn([handoff("done")])]).agent("worker", worker)
}

fn outcome_of(sim: &Sim) -> CallResult {
    sim.result("0/1.1")
}

fn error_of(sim: &Sim) -> (ErrorCode, String) {
    let error = outcome_of(sim).error.unwrap();
    (error.code, error.message)
}

#[test]
fn a_result_takes_effect_once_it_is_accepted() {
    let worker = [turn([call("save", "a")]), turn([handoff_with("a draft", &["a.md"])])];
    let sim = begun(&shop(by_judge(), 3), worker)
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "the text")]))
        .answers("judge", [turn([handoff(verdict(true, "it is good"))])])
        .start();
    check(
        &sim,
        expect![[r#"
            run started: go
            0 created: root for root, "go" master you
            0 turn 1 asked
            0 turn 1: route_to_worker
            0/1.1 route_to_worker started → worker
              0/1.1 created: task for worker, "write it" master 0
              0/1.1 turn 1 asked
              0/1.1 turn 1: save
              0/1.1/1.1 save started
              a.md v1 by 0/1.1/1.1
              0/1.1/1.1 save success "saved"
              0/1.1 turn 2 asked
              0/1.1 turn 2: handoff
              0/1.1/2.0:accept route_to_judge made
              0/1.1/2.0:accept route_to_judge started → judge [a.md v1]
                0/1.1/2.0:accept created: question for judge, "Do you accept this result? It takes effect only if you do. If you refuse it, your reason goes to the agent that gave it.\n\nThe request, the result and the documents of the result, as JSON:\n{\"request\":\"write it\",\"result\":\"a draft\",\"documents\":[{\"path\":\"a.md\",\"version\":1}]}" [a.md v1] master you schema {"type":"object","properties":{"accepted":{"type":"boolean","description":"Whether the result is accepted."},"reason":{"type":"string","description":"The reason. After a refusal, the part that must change."}},"required":["accepted","reason"],"additionalProperties":false}
                Q1 opened: 0/1.1 asks judge, on deadline fail
                0/1.1/2.0:accept turn 1 asked
                0/1.1/2.0:accept turn 1: handoff
                0/1.1/2.0:accept/1.1 handoff success {"accepted":true,"reason":"it is good"} [terminate]
                Q1 closed: judge answers {"accepted":true,"reason":"it is good"}
                0/1.1/2.0:accept completed: success {"accepted":true,"reason":"it is good"}
              0/1.1/2.0:accept route_to_judge success {"accepted":true,"reason":"it is good"}
              0/1.1/2.1 handoff success "a draft" [a.md v1] [terminate]
              0/1.1 completed: success "a draft" [a.md v1]
            0/1.1 route_to_worker success "a draft" [a.md v1]
            0 turn 2 asked
            0 turn 2: handoff
            0/2.1 handoff success "done" [terminate]
            0 completed: success "done"
            run completed (success)
        "#]],
    );
    sim.assert_over();
}

#[test]
fn a_refused_handoff_is_an_error_and_the_agent_goes_on() {
    let worker = [turn([handoff("a draft")]), turn([handoff("a better one")])];
    let sim = begun(&shop(by_judge(), 3), worker).answers_with("judge", once_no()).start();
    let refusal = sim.refusal("0/1.1/1.1");
    assert_eq!(refusal.code, ErrorCode::NotAccepted);
    assert_eq!(refusal.message, "not accepted (round 1 of 3): the title is missing");
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a better one")));
    assert_eq!(sim.task("0/1.1").turns, 2);
    assert_eq!(sim.task("0/1.1").calls_made, 0, "the calls of the engine are not counted");
    assert_eq!(sim.task("0/1.1").children, 0);
    sim.assert_over();
}

#[test]
fn after_the_last_round_the_task_fails_and_its_documents_stay() {
    let worker = [turn([call("save", "a")]), turn([handoff("1")]), turn([handoff("2")]), turn([handoff("3")])];
    let sim = begun(&shop(by_judge(), 2), worker)
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "the text")]))
        .answers("judge", [turn([handoff(verdict(false, "it is too short"))])])
        .start();
    assert_eq!(error_of(&sim), (ErrorCode::NotAccepted, "not accepted (round 2 of 2): it is too short".to_owned()));
    let result = outcome_of(&sim);
    assert_eq!((result.status, result.documents.len()), (CallStatus::Failed, 1));
    assert_eq!(sim.task("0/1.1").turns, 3, "the third handoff is never made");
    assert_eq!(sim.task("0").result.as_ref().unwrap().status, CallStatus::Success, "the caller goes on");
    sim.assert_over();
}

#[test]
fn a_text_that_is_the_result_is_accepted_too() {
    let sim = begun(&shop(by_judge(), 3), [says("a draft"), says("a better one")]).answers_with("judge", once_no()).start();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a better one")));
    let notices: Vec<String> = notices(&sim, "0/1.1");
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("the title is missing"), "{notices:?}");
    sim.assert_over();
}

fn notices(sim: &Sim, task: &str) -> Vec<String> {
    let request = sim.request(task);
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| if let Part::Notice(notice) = part { Some(notice.text()) } else { None }).collect()
}

#[test]
fn a_terminating_result_and_results_for_the_user_are_accepted_too() {
    let job = shop(by_judge(), 3);
    let worker = [turn([call("last", "a")]), turn([crate::support::to_user(call("look", "b"))]), turn([handoff("c")])];
    let mut asked = 0;
    let judge = move |_: &baton_proof::script::Prompted<'_>| {
        asked += 1;
        Ok(turn([handoff(verdict(asked > 2, "again"))]))
    };
    let sim = begun(&job, worker).answers_with("judge", judge).start();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("c")));
    assert_eq!(notices(&sim, "0/1.1").len(), 2);
    sim.assert_over();
}

#[test]
fn a_tool_accepts_what_its_code_accepts() {
    let mut seen = Vec::new();
    let code = move |execution: &baton_proof::script::Execution| {
        seen.push(execution.input.value());
        let input = execution.input.value();
        assert_eq!(input["request"], "write it");
        assert_eq!(input["documents"], json!([]));
        Outcome::success(verdict(input["result"] == "a better one", "the title is missing"))
    };
    let sim =
        begun(&shop(by_check(), 3), [turn([handoff("a draft")]), turn([handoff("a better one")])]).tool("check", code).start();
    assert_eq!(sim.refusal("0/1.1/1.1").message, "not accepted (round 1 of 3): the title is missing");
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a better one")));
    assert_eq!(sim.executions("0/1.1/1.0:accept"), 1);
    let request = serde_json::to_string(sim.request("0/1.1").messages.as_ref()).unwrap();
    assert!(!request.contains(":accept"), "the call of the engine is in no request");
    sim.assert_over();
}

#[test]
fn without_a_verdict_nothing_is_accepted() {
    let nonsense = [json!("fine"), json!({"accepted": "yes"}), json!({"reason": "fine"}), json!(null)];
    for output in nonsense {
        let shown = output.clone();
        let sim =
            begun(&shop(by_check(), 3), [turn([handoff("a")])]).tool("check", move |_| Outcome::success(output.clone())).start();
        assert_eq!(error_of(&sim).0, ErrorCode::AcceptorFailed, "{shown}");
        sim.assert_over();
    }
    let failing = begun(&shop(by_check(), 3), [turn([handoff("a")])])
        .tool("check", |_| Outcome::error(CallStatus::Failed, baton_proof::script::error(ErrorCode::ToolFailed)))
        .start();
    let (code, message) = error_of(&failing);
    assert_eq!(code, ErrorCode::AcceptorFailed);
    assert!(message.contains("it went wrong"), "{message}");
    failing.assert_over();
    let silent = begun(&shop(by_judge(), 3), [turn([handoff("a")])]).answers_with("judge", |_| Err(Sim::model_error())).start();
    assert_eq!(error_of(&silent).0, ErrorCode::AcceptorFailed);
    silent.assert_over();
}

#[test]
fn an_answer_of_another_form_is_returned_to_the_acceptor() {
    let answers =
        [says("it is fine"), turn([handoff(json!({"accepted": true}))]), says(r#"{"accepted": true, "reason": "fine"}"#)];
    let sim = begun(&shop(by_judge(), 3), [turn([handoff("a")])]).answers("judge", answers).start();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a")));
    assert_eq!(sim.task("0/1.1/1.0:accept").turns, 3);
    sim.assert_over();
}

#[test]
fn an_acceptor_that_takes_too_long_gives_no_verdict() {
    let limits = Limits { deadline_seconds: Some(30), ..Limits::default() };
    let route = ToolDraft::route("worker").accepted_by(by_judge(), 3);
    let job = shop_with(worker(), route).tool(ToolDraft::route("judge").limits(limits));
    let mut sim = begun(&job, [turn([handoff("a")])]).answers("judge", [turn([ask("which?")])]).start();
    assert_eq!(sim.asked.len(), 1);
    sim.wait(31);
    assert_eq!(error_of(&sim).0, ErrorCode::AcceptorFailed);
    sim.assert_over();
}

#[test]
fn a_cancelled_acceptor_gives_no_verdict() {
    let mut sim = begun(&shop(by_judge(), 3), [turn([handoff("a")])]).answers("judge", [turn([ask("which?")])]).start();
    sim.cancel("0/1.1/1.0:accept").unwrap();
    assert_eq!(error_of(&sim).0, ErrorCode::AcceptorFailed);
    sim.assert_over();
}

#[test]
fn the_end_of_the_caller_ends_the_acceptor() {
    let mut sim = begun(&shop(by_judge(), 3), [turn([handoff("a")])]).answers("judge", [turn([ask("which?")])]).start();
    sim.cancel("0").unwrap();
    assert_eq!(sim.task("0/1.1/1.0:accept").ended, Some(FinalState::Cancelled));
    sim.assert_over();
    let mut held = begun(&shop(by_check(), 3), [turn([handoff("a")])]).holding("check").start();
    held.cancel("0/1.1").unwrap();
    assert_eq!(error_of(&held).0, ErrorCode::Cancelled);
    held.assert_over();
}

#[test]
fn the_acceptor_sees_the_pinned_documents_and_nothing_of_the_conversation() {
    let worker = [turn([call("save", "a")]), turn([handoff_with("a draft", &["a.md"])])];
    let sim = begun(&shop(by_judge(), 3), worker)
        .tool("save", |_| writes(json!("a secret output"), vec![write("a.md", "the text")]))
        .answers("judge", [turn([handoff(verdict(true, "good"))])])
        .start();
    let created = &sim.task("0/1.1/2.0:accept").created;
    assert_eq!(created.documents.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.md v1"]);
    assert!(created.request.contains("write it") && created.request.contains("a draft"), "{}", created.request);
    let request = serde_json::to_string(sim.request("0/1.1/2.0:accept").messages.as_ref()).unwrap();
    assert!(!request.contains("a secret output"), "{request}");
    sim.assert_over();
}

#[test]
fn a_document_that_changes_meanwhile_is_judged_again() {
    // The worker never saw the document, so its newest version would be handed off.
    let job = shop(by_judge(), 3);
    let mut sim = Sim::new(&job)
        .agent("root", [turn([route("worker", "write it")]), turn([handoff("done")])])
        .agent("worker", [turn([handoff_with("a draft", &["z.md"])])])
        .answers("judge", [turn([ask("which?")]), turn([handoff(verdict(true, "good"))])])
        .start_with(vec![write("z.md", "old")]);
    let question = sim.asked[0].to_string();
    sim.person_sends(&question, json!("this one"), vec![write("z.md", "new")]).unwrap();
    assert_eq!(sim.asked.len(), 1, "the acceptor is asked about the new version");
    let question = sim.asked[0].to_string();
    sim.person_answers(&question, json!("that one")).unwrap();
    assert!(sim.ledger.tasks.contains_key("0/1.1/1.0:accept.2"));
    assert_eq!(outcome_of(&sim).documents[0].version, 2);
    sim.assert_over();
}

#[test]
fn a_no_in_the_last_turn_ends_the_task() {
    let limits = Limits { turns: Some(1), ..Limits::default() };
    let job = shop_with(worker().limits(limits), ToolDraft::route("worker").accepted_by(by_judge(), 3));
    for accepts in [true, false] {
        let sim = begun(&job, [turn([handoff("a")])]).answers("judge", [turn([handoff(verdict(accepts, "so"))])]).start();
        let expected = if accepts { None } else { Some(ErrorCode::NotAccepted) };
        assert_eq!(outcome_of(&sim).error.map(|error| error.code), expected);
        sim.assert_over();
    }
}

#[test]
fn what_a_limit_cuts_short_is_partial_and_not_judged() {
    let used = |turn: ModelTurn| ModelTurn { usage: Some(Usage { input_tokens: 5_000, ..Usage::default() }), ..turn };
    let limits = Limits { tokens: Some(10_000), ..Limits::default() };
    for is_judged in [true, false] {
        let route = ToolDraft::route("worker");
        let route = if is_judged { route.accepted_by(by_judge(), 3) } else { route };
        let job = shop_with(worker().limits(limits.clone()).settings(json!({"max_tokens": 2_000})), route);
        let turns = [used(turn([call("look", "a")])), used(turn([handoff("c")]))];
        let sim = begun(&job, turns).start();
        let result = outcome_of(&sim);
        assert_eq!((result.status, result.output.value()), (CallStatus::Partial, json!("c")));
        let accepted = is_judged.then_some(false);
        assert_eq!(result.error.unwrap().detail.value().get("accepted").and_then(Value::as_bool), accepted);
        sim.assert_over();
    }
}

#[test]
fn a_failed_acceptance_is_tried_again_like_any_failure() {
    let retry = OnFailure::Retry(Retry { times: 1, backoff_seconds: 0 });
    let route = ToolDraft::route("worker").accepted_by(by_judge(), 1).on_failure(retry);
    let sim = begun(&shop_with(worker(), route), [turn([handoff("a draft")])]).answers_with("judge", once_no()).start();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a draft")));
    assert_eq!(
        sim.task("0/1.1/retry.2").created.last_failure.as_deref(),
        Some("not accepted (round 1 of 1): the title is missing")
    );
    sim.assert_over();
}

#[test]
fn a_join_counts_a_judged_delegation_as_pending() {
    let root = agent("root", "route_to_worker route_to_other").join(Join::FirstSuccess);
    let job = job([root, worker(), agent("other", "look"), agent("judge", "ask_master").asks_a_person()]).tools([
        ToolDraft::route("worker").accepted_by(by_judge(), 3),
        function("look").effect(EffectClass::Idempotent),
        function("save"),
        function("last"),
    ]);
    let mut sim = Sim::new(&job)
        .agent("root", [turn([route("worker", "a"), route("other", "b")]), turn([handoff("done")])])
        .agent("worker", [turn([handoff("from the worker")])])
        .agent("other", [turn([call("look", "a")]), turn([handoff("from the other")])])
        .answers("judge", [turn([ask("which?")])])
        .holding("look")
        .start();
    assert!(sim.task("0/1.1").ended.is_none() && sim.task("0/1.2").ended.is_none());
    sim.release("look");
    assert_eq!(sim.result("0/1.1").status, CallStatus::Cancelled, "the success of the other one ends it");
    sim.assert_over();
}

#[test]
fn a_background_task_is_reported_once_its_result_is_accepted() {
    let route = ToolDraft::route("worker").accepted_by(by_judge(), 3).in_background();
    let begins = call_with("route_to_worker", json!({"request": "write it", "wait": false}));
    let sim = Sim::new(&shop_with(worker(), route))
        .agent("root", [turn([begins]), says("wait"), says("done")])
        .agent("worker", [turn([handoff("a draft")]), turn([handoff("a better one")])])
        .answers_with("judge", once_no())
        .start();
    let reported = sim.entries().find_map(|entry| match entry {
        Entry::TaskReported(reported) => Some(reported.result.output.value()),
        _ => None,
    });
    assert_eq!(reported, Some(json!("a better one")));
    sim.assert_over();
}

#[test]
fn a_crash_loses_no_verdict_and_asks_nobody_twice() {
    let mut sim = begun(&shop(by_check(), 3), [turn([handoff("a draft")]), turn([handoff("a better one")])])
        .tool("check", |execution| Outcome::success(verdict(execution.input.value()["result"] == "a better one", "again")))
        .holding("check")
        .start();
    sim.crash();
    sim.settle();
    assert_eq!(sim.executions("0/1.1/1.0:accept"), 2, "a pure acceptor runs again");
    sim.release("check");
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a better one")));
    assert_eq!(sim.executions("0/1.1/2.0:accept"), 1);
    sim.assert_over();
}

#[test]
fn an_acceptor_may_be_suspended_and_may_need_an_approval() {
    let checks = |tool: ToolDraft| shop(by_check(), 3).tool(tool.effect(EffectClass::Pure).input(json!({"type": "object"})));
    let mut sim = begun(&checks(function("check").suspending()), [turn([handoff("a")])]).holding("check").start();
    sim.suspended("0/1.1/1.0:accept", Suspension::default());
    assert!(sim.task("0/1.1").ended.is_none());
    sim.delivered("0/1.1/1.0:accept", Outcome::success(verdict(true, "so"))).unwrap();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a")));
    sim.assert_over();
    let mut sim = begun(&checks(function("check").approved_by(Approver::Person)), [turn([handoff("a")])])
        .tool("check", |_| Outcome::success(verdict(true, "so")))
        .start();
    sim.person_answers("0/1.1/1.0:accept/approval", json!({"approved": true})).unwrap();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a")));
    sim.assert_over();
}

#[test]
fn a_person_approves_a_handoff_after_it_is_accepted() {
    let job =
        shop_with(worker().needs_approval("handoff", Approver::Person), ToolDraft::route("worker").accepted_by(by_judge(), 3));
    let mut sim =
        begun(&job, [turn([handoff("a draft")]), turn([handoff("a better one")])]).answers_with("judge", once_no()).start();
    assert_eq!(sim.task("0/1.1").turns, 2, "nobody approves what was refused");
    sim.person_answers("0/1.1/2.1/approval", json!({"approved": true})).unwrap();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a better one")));
    sim.assert_over();
}

#[test]
fn an_acceptor_without_room_gives_no_verdict() {
    let limits = Limits { live_tasks: Some(2), ..Limits::default() };
    let sim = begun(&shop(by_judge(), 3).limits(limits), [turn([handoff("a")])]).start();
    let (code, message) = error_of(&sim);
    assert_eq!(code, ErrorCode::AcceptorFailed);
    assert!(message.contains("live_tasks"), "{message}");
    sim.assert_over();
}

#[test]
fn a_wish_to_terminate_does_not_get_around_the_acceptor() {
    let worker = [turn([then(call("look", "a"), AfterExecution::Terminate)]), turn([handoff("b")])];
    let sim = begun(&shop(by_judge(), 3), worker).answers_with("judge", once_no()).start();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("b")));
    sim.assert_over();
}

#[test]
fn the_master_of_an_acceptor_is_that_of_the_task() {
    let job = job([agent("root", "route_to_worker"), worker(), agent("judge", "ask_master")]).tools([
        ToolDraft::route("worker").accepted_by(by_judge(), 3),
        function("look"),
        function("save"),
        function("last"),
    ]);
    let sim = begun(&job, [turn([handoff("a")])])
        .answers("judge", [turn([ask("which?")]), turn([handoff(verdict(true, "so"))])])
        .answers("root", [turn([handoff("this one")])])
        .start();
    assert_eq!(sim.task("0/1.1/1.0:accept/1.1").created.answers_for, Some("0".into()));
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a")));
    sim.assert_over();
}

#[test]
fn what_an_acceptor_uses_counts_for_the_task_and_above() {
    let usage = Usage { input_tokens: 5, output_tokens: 7, ..Usage::default() };
    let judged = ModelTurn { usage: Some(usage), ..turn([handoff(verdict(true, "so"))]) };
    let limits = Limits { tokens: Some(100_000), ..Limits::default() };
    let sim = begun(&shop(by_judge(), 3).limits(limits), [turn([handoff("a")])]).answers("judge", [judged]).start();
    let spent = |task: &str| sim.run.spent(&task.into()).unwrap().usage.total();
    let own = |task: &str| sim.run.graph().get(&task.into()).unwrap().work().usage.total();
    assert_eq!(spent("0/1.1/1.0:accept"), 12);
    assert_eq!(spent("0/1.1"), own("0/1.1") + 12);
    assert_eq!(spent("0"), own("0") + own("0/1.1") + 12);
    sim.assert_over();
}

#[test]
fn an_approval_of_an_acceptor_cannot_change_what_it_judges() {
    let check = function("check").effect(EffectClass::Pure).input(json!({"type": "object"})).approved_by(Approver::Person);
    let mut sim = begun(&shop(by_check(), 3).tool(check), [turn([handoff("a")])])
        .tool("check", |execution| Outcome::success(verdict(execution.input.value()["result"] == "a", "so")))
        .start();
    let other = json!({"approved": true, "input": {"request": "x", "result": "b", "documents": []}});
    sim.person_answers("0/1.1/1.0:accept/approval", other).unwrap_err();
    sim.person_answers("0/1.1/1.0:accept/approval", json!({"approved": true})).unwrap();
    assert_eq!(outcome_of(&sim), CallResult::success(json!("a")));
    sim.assert_over();
}
