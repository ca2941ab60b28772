//! Delegations in the background.

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::config::{Approver, EffectClass, TaskAction};
use baton_types::entry::{Entry, Notice, TurnKind};
use baton_types::limits::{LimitKind, Limits};
use baton_types::message::Part;
use baton_types::model::{FinishReason, ModelTurn};
use serde_json::{Value, json};

use crate::support::jobs::{JobDraft, ToolDraft};
use crate::support::script::{call_with, write, writes};
use crate::support::{Sim, agent, ask, call, function, handoff, job, note, route, says, then, turn};

/// Returns a job whose root delegates to a worker in the background. The worker uses `work`, which a test may hold.
fn shop() -> JobDraft {
    let tools = "look route_to_worker wait_tasks list_tasks steer_task cancel_task last ask_master";
    job([agent("root", tools), agent("worker", "work save ask_master route_to_worker wait_tasks")]).tools([
        function("look").effect(EffectClass::Pure),
        function("work").effect(EffectClass::Pure),
        function("save").effect(EffectClass::Idempotent).writing(),
        function("last").after(baton_types::call::AfterExecution::Terminate),
        ToolDraft::route("worker").in_background(),
        note("wait_tasks").manages(TaskAction::Wait),
        note("list_tasks").manages(TaskAction::List),
        note("steer_task").manages(TaskAction::Steer),
        note("cancel_task").manages(TaskAction::Cancel),
    ])
}

fn begin(request: &str) -> baton_types::call::ModelCall {
    call_with("route_to_worker", json!({"request": request, "wait": false}))
}

fn manage(tool: &str, input: Value) -> baton_types::call::ModelCall {
    call_with(tool, input)
}

/// Begins a run whose workers call `work`, which is held, and then hand off `found`.
fn begun_in(job: &JobDraft, root: impl IntoIterator<Item = ModelTurn>) -> Sim {
    let worker = [turn([call("work", "a")]), turn([handoff("found")])];
    Sim::new(job).agent("root", root).agent("worker", worker).holding("work").start()
}

fn begun(root: impl IntoIterator<Item = ModelTurn>) -> Sim {
    begun_in(&shop(), root)
}

/// Returns the results of background tasks in the newest request of the root, with their outputs.
fn told(sim: &Sim) -> Vec<(String, Value)> {
    let request = sim.request("0");
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let results = parts.filter_map(|part| match part {
        Part::TaskResult(ended) => Some((ended.task.to_string(), ended.result.output.value())),
        _ => None,
    });
    results.collect()
}

#[test]
fn a_background_call_gives_the_id_at_once_and_the_result_follows() {
    let mut sim = begun([turn([begin("a"), call("look", "b")]), turn([call("look", "c")]), says("later"), says("done")]);
    assert_eq!(sim.result("0/1.1").output.value(), json!({"task": "0/1.1"}));
    assert_eq!(sim.run.graph().get(&"0".into()).unwrap().phase.as_str(), "waiting", "a text lets the task wait");
    assert_eq!(told(&sim), []);
    sim.release("work");
    assert_eq!(told(&sim), [("0/1.1".to_owned(), json!("found"))]);
    assert_eq!(sim.task("0").turns, 4, "the end of the background task is the reason for the next turn");
    assert_eq!(sim.task("0").result.as_ref().unwrap().output.value(), json!("done"));
    let rests = sim.entries().filter(|entry| matches!(entry, Entry::ModelAnswered(answered) if answered.kind == TurnKind::Rest));
    assert_eq!(rests.count(), 1);
    sim.assert_over();
}

#[test]
fn without_wait_false_the_caller_waits_as_for_any_delegation() {
    let route = |input| call_with("route_to_worker", input);
    let calls = [route(json!({"request": "a"})), route(json!({"request": "b", "wait": true}))];
    let mut sim = begun([turn(calls), turn([handoff("done")])]);
    sim.release("work");
    sim.release("work");
    assert_eq!(sim.result("0/1.1").output.value(), json!("found"));
    assert_eq!(told(&sim), []);
    sim.assert_over();
}

#[test]
fn a_result_that_came_before_the_text_is_shown_before_the_task_ends() {
    // The worker ends while the request of the root is open, so the answer of the root cannot know of it.
    let mut sim = Sim::new(&shop())
        .agent("root", [turn([begin("a")]), says("too early"), says("done")])
        .agent("worker", [turn([handoff("found")])])
        .start();
    sim.settle();
    assert_eq!(told(&sim), [("0/1.1".to_owned(), json!("found"))]);
    assert_eq!(sim.task("0").result.as_ref().unwrap().output.value(), json!("done"));
    sim.assert_over();
}

#[test]
fn a_handoff_waits_for_background_tasks_and_for_what_they_found() {
    let waits = turn([manage("wait_tasks", json!({}))]);
    let mut sim = begun([turn([begin("a")]), turn([handoff("early")]), waits, turn([handoff("done")])]);
    let refusal = sim.refusal("0/2.1");
    assert_eq!(refusal.code, ErrorCode::HandoffRefused);
    assert_eq!(refusal.detail.value(), json!({"running": ["0/1.1"]}));
    let ways = "wait for them with wait_tasks, cancel them with cancel_task, or answer with a text";
    assert!(refusal.message.contains(ways), "{}", refusal.message);
    sim.release("work");
    assert_eq!(sim.result("0/3.1").output.value(), json!({"ended": [{"task": "0/1.1", "state": "completed"}], "running": []}));
    assert_eq!(told(&sim), [("0/1.1".to_owned(), json!("found"))]);
    assert_eq!(sim.task("0").result.as_ref().unwrap().output.value(), json!("done"));
    sim.assert_over();
}

#[test]
fn a_refused_handoff_names_only_tools_that_the_agent_has() {
    let job = job([agent("root", "route_to_worker"), agent("worker", "work")])
        .tools([function("work").effect(EffectClass::Pure), ToolDraft::route("worker").in_background()]);
    let mut sim = begun_in(&job, [turn([begin("a")]), turn([handoff("early")]), says("wait"), turn([handoff("done")])]);
    let message = sim.refusal("0/2.1").message.clone();
    assert!(message.ends_with("still run: answer with a text, and you are asked again when one ends"), "{message}");
    sim.release("work");
    assert_eq!(sim.task("0").result.as_ref().unwrap().output.value(), json!("done"));
    sim.assert_over();
}

#[test]
fn a_result_that_would_end_the_task_does_so_only_without_background_tasks() {
    let mut sim = begun([turn([begin("a")]), turn([call("last", "b")]), says("wait"), turn([call("last", "c")])]);
    assert_eq!(sim.task("0").turns, 3, "the agent is asked again");
    sim.release("work");
    assert_eq!(sim.task("0").turns, 4);
    sim.assert_over();
}

#[test]
fn an_agent_may_end_before_its_background_tasks_if_its_config_says_so() {
    let job = job([agent("root", "route_to_worker").cancels_open_tasks(), agent("worker", "work")])
        .tools([function("work").effect(EffectClass::Pure), ToolDraft::route("worker").in_background()]);
    let sim = begun_in(&job, [turn([begin("a")]), says("done")]);
    assert_eq!(sim.task("0/1.1").ended.map(baton_types::entry::FinalState::as_str), Some("cancelled"));
    assert_eq!(sim.task("0").result.as_ref().unwrap().output.value(), json!("done"));
    sim.assert_over();
}

#[test]
fn a_limit_ends_the_task_and_its_background_tasks() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let tools = [function("work").effect(EffectClass::Pure), ToolDraft::route("worker").in_background()];
    let job = job([agent("root", "route_to_worker").limits(limits), agent("worker", "work")]).tools(tools);
    let sim = begun_in(&job, [turn([begin("a")]), turn([handoff("what I have")])]);
    assert!(sim.entries().any(|entry| matches!(entry, Entry::ModelRequested(requested)
        if matches!(requested.notice, Some(baton_types::entry::Notice::LastTurn { limit: LimitKind::Turns })))));
    assert_eq!(sim.task("0").result.as_ref().unwrap().output.value(), json!("what I have"));
    assert!(sim.task("0/1.1").result.is_none(), "it was closed with its caller");
    sim.assert_over();
}

#[test]
fn a_wait_may_be_for_the_first_of_several_tasks() {
    let wait = |input| turn([manage("wait_tasks", input)]);
    let first = wait(json!({"tasks": ["0/1.1", "0/1.2"], "until": "any"}));
    let all = wait(json!({"tasks": ["0/1.1", "0/1.2", "0/1.1"]}));
    let mut sim = Sim::new(&shop())
        .agent("root", [turn([begin("a"), begin("b")]), first, all, turn([handoff("done")])])
        .agent_with("worker", |prompted| match (prompted.task.as_str(), prompted.turn) {
            ("0/1.1", 1) => Ok(turn([call("work", "a")])),
            _ => Ok(turn([handoff(prompted.task.as_str())])),
        })
        .holding("work")
        .start();
    let ended = json!({"ended": [{"task": "0/1.2", "state": "completed"}], "running": ["0/1.1"]});
    assert_eq!(sim.result("0/2.1").output.value(), ended);
    assert!(!sim.run.graph().get(&"0".into()).unwrap().phase.is_active(), "the second call waits");
    sim.release("work");
    let both = json!([{"task": "0/1.1", "state": "completed"}, {"task": "0/1.2", "state": "completed"}]);
    assert_eq!(sim.result("0/3.1").output.value(), json!({"ended": both, "running": []}), "a repeated id counts once");
    sim.assert_over();
}

#[test]
fn only_own_background_tasks_are_waited_for_and_only_tasks_below_are_managed() {
    let calls = turn([
        manage("wait_tasks", json!({"tasks": ["0/9.9"]})),
        manage("steer_task", json!({"task": "0", "message": "stop"})),
        manage("cancel_task", json!({"task": "0/9.9"})),
        manage("wait_tasks", json!({})),
    ]);
    let mut sim = begun([turn([begin("a")]), calls, says("wait"), turn([handoff("done")])]);
    for (call, key, known) in [
        ("0/2.1", "background_tasks", json!(["0/1.1"])),
        ("0/2.2", "tasks", json!(["0/1.1"])),
        ("0/2.3", "tasks", json!(["0/1.1"])),
    ] {
        let refusal = sim.refusal(call);
        assert_eq!((refusal.code, &refusal.detail.value()[key]), (ErrorCode::InvalidInput, &known), "{call}");
        assert!(refusal.message.contains("background task") || refusal.message.contains("not a task below yours"));
    }
    sim.release("work");
    sim.assert_over();
}

#[test]
fn tasks_below_are_listed_steered_and_cancelled() {
    let list = turn([manage("list_tasks", json!({})), manage("steer_task", json!({"task": "0/1.1", "message": "faster"}))]);
    let cancel = turn([manage("cancel_task", json!({"task": "0/1.2", "reason": "one is enough"}))]);
    let mut sim = begun([turn([begin("a"), begin("b")]), list, cancel, says("wait"), turn([handoff("done")])]);
    let listed = sim.result("0/2.1").output.value();
    assert_eq!(listed["tasks"][0]["task"], json!("0/1.1"), "{listed}");
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(listed["ended"], json!([]));
    assert_eq!(sim.task("0/1.2").result.as_ref().unwrap().status, CallStatus::Cancelled);
    assert_eq!(sim.task("0/1.2").result.as_ref().unwrap().reason(), "one is enough");
    sim.release("work");
    let request = sim.request("0/1.1");
    let last = request.messages.last().unwrap();
    assert!(
        matches!(&last.parts[0], Part::Instruction { from, text } if from.as_str() == "root" && text == "faster"),
        "{last:?}"
    );
    sim.assert_over();
}

#[test]
fn a_list_names_the_delegations_below_that_run_and_the_own_ones_that_have_ended() {
    // Both workers ask their master. The first one gets its answer and ends. The other question is open.
    let list = turn([manage("list_tasks", json!({})), manage("steer_task", json!({"task": "0/1.1", "message": "stop"}))]);
    let begin_both = turn([begin("a"), begin("b")]);
    let mut sim = Sim::new(&shop())
        .agent("root", [begin_both, says("wait"), turn([ask("which?")]), list, says("wait"), says("done")])
        .answers_with("root", |prompted| match (prompted.task.as_str(), prompted.turn) {
            ("0/1.2/1.1", 1) => Ok(turn([call("look", "q")])),
            _ => Ok(says("42")),
        })
        .agent("worker", [turn([ask("how many?")]), turn([handoff("found")])])
        .holding("look")
        .start();
    sim.person_answers("0/3.1", "this").unwrap();
    let listed = sim.result("0/4.1").output.value();
    let ids = |key: &str| listed[key].as_array().unwrap().iter().map(|task| task["task"].clone()).collect::<Vec<_>>();
    assert_eq!((ids("tasks"), ids("ended")), (vec![json!("0/1.2")], vec![json!("0/1.1")]), "{listed}");
    assert_eq!(sim.refusal("0/4.2").message, "task \"0/1.1\" has ended");
    sim.release("look");
    sim.assert_over();
}

#[test]
fn the_end_of_a_background_task_ends_no_call_that_does_not_wait_for_it() {
    let delegation = call_with("route_to_worker", json!({"request": "b"}));
    for (beside, held) in [(delegation, "save"), (call("look", "b"), "look")] {
        let mut sim = Sim::new(&shop())
            .agent("root", [turn([begin("a")]), turn([beside]), says("wait"), says("done")])
            .agent_with("worker", |prompted| match (prompted.task.as_str(), prompted.turn) {
                ("0/1.1", 1) => Ok(turn([call("work", "a")])),
                ("0/2.1", 1) => Ok(turn([call("save", "b")])),
                _ => Ok(turn([handoff("found")])),
            })
            .holding("work")
            .holding(held)
            .start();
        sim.release("work");
        assert!(sim.task("0/1.1").ended.is_some());
        let call = |sim: &Sim| sim.run.task(&"0".into()).unwrap().call(&"0/2.1".into()).unwrap().is_running();
        assert!(call(&sim), "{held} still runs");
        sim.release(held);
        assert_eq!(told(&sim), [("0/1.1".to_owned(), json!("found"))]);
        sim.assert_over();
    }
}

#[test]
fn documents_of_a_background_task_arrive_with_its_result() {
    let mut sim = Sim::new(&shop())
        .agent("root", [turn([begin("a")]), says("wait"), turn([handoff("done")])])
        .agent("worker", [turn([call("save", "a")]), turn([call("work", "b")]), turn([then_documents()])])
        .tool("save", |_| writes(json!({}), vec![write("r.md", "a report")]))
        .holding("work")
        .start();
    sim.release("work");
    let request = sim.request("0");
    let parts: Vec<&Part> = request.messages.last().unwrap().parts.iter().collect();
    assert!(matches!(parts[..], [Part::TaskResult(_), Part::Document(version)] if version.path.as_str() == "r.md"), "{parts:?}");
    sim.assert_over();
}

#[test]
fn a_report_is_no_part_of_a_request_that_is_open() {
    let mut sim = Sim::new(&shop())
        .agent("root", [turn([begin("a")]), says("wait"), turn([handoff("done")])])
        .agent("worker", [turn([call("save", "a")]), turn([then_documents()])])
        .tool("save", |_| writes(json!({}), vec![write("r.md", "a report")]));
    sim.begin(Vec::new());
    while sim.task("0").turns < 2 {
        assert!(sim.step());
    }
    while !sim.entries().any(|entry| matches!(entry, Entry::TaskReported(_))) {
        // The model of the root takes its time.
        sim.pending.sort_by_key(|work| work.task().is_root());
        assert!(sim.step());
    }
    let knows = |sim: &Sim| sim.run.task(&"0".into()).unwrap().known(&crate::support::script::document_path("r.md"));
    assert_eq!(knows(&sim), None, "the open request does not show the document");
    sim.crash();
    assert_eq!(knows(&sim), None, "nor does the same request once more");
    sim.settle();
    assert_eq!(sim.task("0").turns, 3);
    assert_eq!(told(&sim).len(), 1);
    sim.assert_over();
}

#[test]
fn a_background_delegation_does_not_count_for_the_join() {
    let tools = [function("work").effect(EffectClass::Pure), ToolDraft::route("worker").in_background()];
    let root = agent("root", "route_to_worker").join(baton_types::config::Join::FirstSuccess).cancels_open_tasks();
    let job = job([root, agent("worker", "work")]).tools(tools);
    let both = turn([begin("a"), call_with("route_to_worker", json!({"request": "b"}))]);
    let mut sim = begun_in(&job, [both, turn([handoff("done")])]);
    assert!(sim.task("0/1.2").ended.is_none(), "the id of a background task is no success");
    sim.release("work");
    assert_eq!(sim.result("0/1.2").output.value(), json!("found"));
    sim.assert_over();
}

#[test]
fn an_agent_does_not_reach_the_tasks_beside_its_own() {
    let shop = job([agent("root", "route_to_worker"), agent("worker", "work steer_task cancel_task")]).tools([
        function("work").effect(EffectClass::Pure),
        ToolDraft::route("worker").in_background(),
        note("steer_task").manages(TaskAction::Steer),
        note("cancel_task").manages(TaskAction::Cancel),
    ]);
    let calls = |task: &str| {
        turn([manage("steer_task", json!({"task": task, "message": "stop"})), manage("cancel_task", json!({"task": task}))])
    };
    let mut sim = Sim::new(&shop)
        .agent("root", [turn([begin("a"), begin("b")]), says("wait"), says("wait"), says("done")])
        .agent_with("worker", move |prompted| match (prompted.task.as_str(), prompted.turn) {
            ("0/1.1", 1) => Ok(turn([call("work", "a")])),
            ("0/1.2", 1) => Ok(calls("0/1.1")),
            _ => Ok(turn([handoff("found")])),
        })
        .holding("work")
        .start();
    for call in ["0/1.2/1.1", "0/1.2/1.2"] {
        assert_eq!(sim.refusal(call).detail.value(), json!({"tasks": []}), "{call}");
    }
    sim.release("work");
    sim.assert_over();
}

fn then_documents() -> baton_types::call::ModelCall {
    crate::support::script::handoff_with("written", &["r.md"])
}

#[test]
fn a_question_of_a_background_task_does_not_need_a_waiting_master() {
    let mut sim = Sim::new(&shop())
        .agent("root", [turn([begin("a")]), says("wait"), says("done")])
        .answers("root", [says("42")])
        .agent("worker", [turn([ask("how many?")]), turn([handoff("found")])])
        .start();
    sim.settle();
    let request = sim.request("0");
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let said = parts.filter_map(|part| match part {
        Part::TaskResult(ended) => Some(ended.said.len()),
        _ => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), [1], "the caller learns what was answered in its name");
    sim.assert_over();
}

#[test]
fn a_crash_loses_no_background_task_and_no_result() {
    let mut sim = begun([turn([begin("a")]), says("wait"), turn([call("look", "b")]), says("done")]).holding("look");
    sim.crash();
    sim.settle();
    sim.release("work");
    assert_eq!(told(&sim), [("0/1.1".to_owned(), json!("found"))]);
    sim.crash();
    sim.settle();
    sim.release("look");
    assert_eq!(told(&sim), [("0/1.1".to_owned(), json!("found"))]);
    sim.assert_over();
}

#[test]
fn code_may_delegate_in_the_background_and_a_program_waits() {
    for is_program in [false, true] {
        let root = agent("root", "flow route_to_worker");
        let root = if is_program { root.works_by_program() } else { root };
        let job = job([root, agent("worker", "work")]).tools([
            function("flow").effect(EffectClass::Pure).calls(&["*"]),
            function("work").effect(EffectClass::Pure),
            ToolDraft::route("worker").in_background(),
        ]);
        let mut sim = Sim::new(&job)
            .agent("root", [turn([call("flow", "a")]), says("wait"), turn([handoff("done")])])
            .agent("worker", [turn([call("work", "b")]), turn([handoff("found")])])
            .holding("flow")
            .holding("work")
            .start();
        sim.makes("0/1.1", "1", begin("a")).unwrap();
        if is_program {
            assert_eq!(sim.refusal("0/1.1:1").message, "a program waits for its calls: leave \"wait\" out");
            continue;
        }
        assert_eq!(sim.given_to_code(), [("0/1.1:1", CallStatus::Success)], "the code has the id at once");
        sim.release("flow");
        assert!(sim.task("0/1.1:1").ended.is_none(), "the task outlives the call that began it");
        sim.release("work");
        assert_eq!(told(&sim), [("0/1.1:1".to_owned(), json!("found"))]);
        sim.assert_over();
    }
}

#[test]
fn a_background_call_ends_no_turn() {
    let mut sim = begun([turn([then(begin("a"), baton_types::call::AfterExecution::Terminate)]), says("wait"), says("done")]);
    sim.release("work");
    assert_eq!(sim.task("0").turns, 3);
    sim.assert_over();
}

#[test]
fn a_task_that_has_ended_may_be_continued_by_its_caller() {
    let job = job([agent("root", "route_to_worker list_tasks"), agent("worker", "save work")]).tools([
        function("work").effect(EffectClass::Pure),
        function("save").effect(EffectClass::Idempotent).writing(),
        ToolDraft::route("worker").in_background().follows_up(),
        note("list_tasks").manages(TaskAction::List),
    ]);
    let again = |task: &str| call_with("route_to_worker", json!({"request": "and then?", "continues": task}));
    let first = turn([call_with("route_to_worker", json!({"request": "begin"}))]);
    let list = turn([manage("list_tasks", json!({})), again("0/9.9"), begin("beside")]);
    let both = turn([again("0/1.1"), again("0/2.3")]);
    let mut sim = Sim::new(&job)
        .agent("root", [first, list, both, says("wait"), turn([handoff("done")])])
        .agent_with("worker", |prompted| match (prompted.task.as_str(), prompted.turn) {
            ("0/1.1", 1) => Ok(turn([call("save", "a")])),
            ("0/2.3", 1) => Ok(turn([call("work", "b")])),
            _ => Ok(turn([handoff(prompted.task.as_str())])),
        })
        .tool("save", |_| writes(json!({}), vec![write("r.md", "a report")]))
        .holding("work")
        .start();
    assert_eq!(sim.result("0/2.1").output.value()["ended"][0]["task"], json!("0/1.1"));
    assert_eq!(sim.refusal("0/2.2").detail.value(), json!({"ended_tasks": ["0/1.1"]}));
    assert_eq!(sim.refusal("0/3.2").detail.value(), json!({"ended_tasks": ["0/1.1"]}), "0/2.3 still runs");
    assert_eq!(sim.refusal("0/3.2").message, "task \"0/2.3\" still runs, and only a task that has ended can be continued");
    assert_eq!(sim.result("0/3.1").output.value(), json!("0/3.1"));
    let conversation = super::follow_ups::told(&sim.request("0/3.1").messages);
    assert_eq!(conversation.first().map(String::as_str), Some("request begin"), "{conversation:?}");
    assert_eq!(conversation.last().map(String::as_str), Some("request and then?"), "{conversation:?}");
    assert_eq!(
        sim.run.task(&"0/3.1".into()).unwrap().known(&crate::support::script::document_path("r.md")),
        Some(1),
        "it may write over what it wrote"
    );
    sim.release("work");
    sim.assert_over();
}

#[test]
fn a_task_that_ended_before_its_first_turn_is_continued_with_its_request() {
    let draft = job([agent("root", "route_to_worker"), agent("worker", "")]).tool(ToolDraft::route("worker").follows_up());
    let begins = call_with("route_to_worker", json!({"request": "begin", "documents": ["a.md"]}));
    let again = json!({"request": "and then?", "documents": ["a.md"], "continues": "0/1.1"});
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([begins]), turn([call_with("route_to_worker", again)]), turn([handoff("done")])])
        .agent("worker", [turn([handoff("worked")])]);
    sim.begin(vec![write("a.md", "one")]);
    sim.step();
    sim.cancel("0/1.1").unwrap();
    sim.step();
    let conversation = super::follow_ups::told(&sim.request("0/2.1").messages);
    assert_eq!(conversation.first().map(String::as_str), Some("request begin"), "{conversation:?}");
    sim.settle();
    sim.assert_over();
}

#[test]
fn an_input_from_a_person_continues_no_other_task() {
    let draft = job([agent("root", "route_to_worker").needs_approval("route_to_worker", Approver::Person), agent("worker", "")])
        .tool(ToolDraft::route("worker").in_background().follows_up());
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([call_with("route_to_worker", json!({"request": "begin"}))]), turn([handoff("done")])])
        .agent("worker", [turn([handoff("worked")])])
        .start();
    let changed = json!({"approved": true, "input": {"request": "and then?", "continues": "0"}});
    sim.person_answers("0/1.1/approval", changed).unwrap();
    assert_eq!(sim.refusal("0/1.1").code, ErrorCode::InvalidInput);
    assert_eq!(sim.refusal("0/1.1").detail.value(), json!({"ended_tasks": []}));
    sim.assert_over();
}

#[test]
fn a_cut_turn_is_no_rest_while_background_tasks_run() {
    let cut = crate::support::stopped(says("I wai"), FinishReason::Length);
    let mut sim = begun([turn([begin("a")]), cut, says("I wait"), turn([handoff("done")])]);
    let reminded =
        |entry: &Entry| matches!(entry, Entry::ModelRequested(asked) if matches!(asked.notice, Some(Notice::Reminder { .. })));
    assert_eq!(sim.entries().filter(|entry| reminded(entry)).count(), 1);
    sim.release("work");
    sim.assert_over();
}

#[test]
fn the_long_result_of_a_background_task_leaves_that_of_its_call_as_it_is() {
    let limits = Limits { inline_result_bytes: Some(1_000), ..Limits::default() };
    let draft = job([agent("root", "route_to_worker route_to_slow").limits(limits), agent("worker", ""), agent("slow", "look")])
        .tools([function("look").effect(EffectClass::Pure), ToolDraft::route("worker").in_background()]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([begin("a"), route("slow", "b")]), turn([handoff("done")])])
        .agent("slow", [turn([call("look", "c")]), turn([handoff("slow")])])
        .agent("worker", [turn([handoff("long ".repeat(1_000))])])
        .holding("look")
        .start();
    sim.release("look");
    sim.assert_over();
    let request = sim.request("0");
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let shown = parts.filter_map(|part| match part {
        Part::Result { call, result: Some(result), .. } => Some((call.to_string(), result.output.value())),
        Part::TaskResult(ended) => Some((ended.task.to_string(), json!(ended.result.output.kept().is_some()))),
        _ => None,
    });
    let shown: Vec<(String, Value)> = shown.collect();
    assert_eq!(shown[0], ("0/1.1".to_owned(), json!({"task": "0/1.1"})));
    assert_eq!(shown[2], ("0/1.1".to_owned(), json!(true)), "a document holds it");
    assert_eq!(shown.len(), 3);
}
