//! Calls that the code of a call makes: `workflow`, and functions of a program's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use baton_macros::tool;
use baton_models::Model;
use baton_runtime::{Engine, ForkOptions, LoadedJob, RunError, RunHandle, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store, StoreError};
use baton_tool::ToolError;
use baton_types::entry::Entry;
use baton_types::id::{RunId, TaskId};
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::{Gate, effects_of};
use crate::support::{
    Finished, TestJob, call_error, call_output, call_result, calls, engine, finish, handoff, model, name_of, run_to_end,
};

fn job() -> LoadedJob {
    job_with(json!({}))
}

fn job_with(extra: Value) -> LoadedJob {
    job_of(extra, json!({}))
}

/// Returns the job with more keys in its file, and in that of its root.
fn job_of(extra: Value, of_root: Value) -> LoadedJob {
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    let send_out = json!({
        "count": {"type": "integer", "description": "How many.", "required": true},
        "at_once": {"type": "integer", "description": "How many at once.", "required": true},
    });
    let minds = json!({
        "first": {"type": "string", "description": "The first gate.", "required": true},
        "later": {"type": "string", "description": "The other gate.", "required": true},
    });
    let programs = json!({"effect": "pure", "calls": ["*"], "timeout_seconds": 600});
    TestJob::new("root", extra)
        .agent_with(
            "root",
            &[
                "workflow",
                "map",
                "send_out",
                "changes_its_mind",
                "gives_up",
                "strike",
                "dawdle",
                "calculator",
                "timer",
                "route_to_worker",
                "handoff",
            ],
            of_root,
        )
        .agent("worker", &["handoff"])
        .built_in("workflow")
        .built_in("map")
        .built_in("calculator")
        .built_in("timer")
        .tool("strike", gate, json!({"effect": "keyed"}))
        .tool("dawdle", json!({}), json!({"effect": "pure", "timeout_seconds": 7_200}))
        .tool("send_out", send_out, programs.clone())
        .tool("changes_its_mind", minds, programs.clone())
        .tool("gives_up", json!({}), programs)
        .load()
}

/// Returns a model whose root makes one call and hands off, and whose worker answers with its request. `asked` counts the answers of
/// each task.
fn calling(tool: &'static str, input: Value, asked: &Arc<Mutex<BTreeMap<TaskId, u32>>>) -> Arc<dyn Model> {
    let asked = Arc::clone(asked);
    model(move |agent, turn, request| {
        *asked.lock().unwrap().entry(request.task.clone()).or_default() += 1;
        match (agent, turn) {
            ("root", 1) => calls(&[(tool, input.clone())]),
            ("root", _) => handoff("done", &[]),
            _ => handoff(&format!("answer of {}", request.task), &[]),
        }
    })
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

async fn run(tool: &'static str, input: Value) -> Finished {
    run_to_end(&engine(memory(), &calling(tool, input, &Arc::default())), job()).await
}

/// Lets the run whose store fails after `commits` commits go as far as it comes; `None` if it ended.
async fn interrupted(store: &Arc<dyn Store>, commits: i64, failing: Failing, model: &Arc<dyn Model>) -> Option<Option<RunId>> {
    let doomed = engine(Arc::new(FailingStore::new(Arc::clone(store), commits, failing)), model);
    match doomed.start(job(), StartOptions::default()).await {
        Ok(handle) => match handle.outcome().await {
            RunOutcome::Failed(RunError::Store(error)) => assert!(matches!(*error, StoreError::Closed)),
            RunOutcome::Ended { .. } => return None,
            other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
        },
        Err(RunError::Store(_)) => {}
        Err(error) => panic!("crash {failing:?} {commits}: {error}"),
    }
    Some(store.runs().await.unwrap().first().map(|run| run.id.clone()))
}

fn workflow_of_every_kind() -> Value {
    json!({"steps": [
        {"id": "sum", "tool": "calculator", "input": {"expression": "2 + 3"}},
        {"id": "hit", "tool": "strike", "dependencies": ["sum"]},
        {"id": "ask", "tool": "route_to_worker", "input": {"request": "double ${sum.result}"}},
        {"id": "nested", "tool": "workflow", "input": {"steps": [
            {"id": "inner", "tool": "calculator", "input": {"expression": "${sum.result} * 2"}},
            {"id": "again", "tool": "strike", "dependencies": ["inner"]},
            {"id": "text", "tool": "calculator", "input": {"expression": "$${inner.result} + 1"}}
        ]}}
    ]})
}

#[tokio::test]
async fn a_workflow_calls_the_tools_of_its_agent() {
    let finished = run("workflow", workflow_of_every_kind()).await;
    let output = call_output(&finished.entries, "0/1.1");
    assert_eq!(output["results"]["sum"]["result"], json!(5), "{output}");
    assert_eq!(output["results"]["ask"], json!({"summary": "answer of 0/1.1:ask"}));
    assert_eq!(output["results"]["nested"]["results"]["text"]["result"], json!(11));
    assert_eq!(call_output(&finished.entries, "0/1.1:nested:again"), json!({"struck": true}));
    assert_eq!(output["errors"], json!({}));
    let unknown = run("workflow", json!({"steps": [{"id": "a", "tool": "nothing"}]})).await;
    assert!(call_error(&unknown.entries, "0/1.1").contains("there is no tool \"nothing\" that the code of workflow may call"));
}

/// Returns its number. A function that is not asynchronous would run on a thread of its own.
#[tool]
#[expect(clippy::unused_async, reason = "the engine runs asynchronous functions in place")]
async fn give_back(number: u32) -> Result<Value, ToolError> {
    Ok(json!({"number": number}))
}

#[tokio::test]
async fn calls_of_code_without_effects_share_commits() {
    let number = json!({"number": {"type": "integer", "description": "The number.", "required": true}});
    let job = TestJob::new("root", json!({})).agent("root", &["map", "give_back", "handoff"]).built_in("map").tool(
        "give_back",
        number,
        json!({"effect": "pure"}),
    );
    let items: Vec<u32> = (0..500).collect();
    let input = json!({"tool": "give_back", "input": {"number": "${item}"}, "items": items, "concurrency": 10});
    let store = Arc::new(FailingStore::watching(memory()));
    let watched = Arc::clone(&store) as Arc<dyn Store>;
    let finished = run_to_end(&engine(watched, &calling("map", input, &Arc::default())), job.load()).await;
    let results = &call_output(&finished.entries, "0/1.1")["results"];
    assert_eq!((&results[0]["output"]["number"], &results[499]["output"]["number"]), (&json!(0), &json!(499)), "{results}");
    let commits = store.commit_of(finished.run.last_seq());
    assert!(commits < 20, "{commits} commits for 500 calls");
}

#[tokio::test]
async fn a_step_that_is_done_never_runs_again_wherever_the_process_is_killed() {
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let (store, model) = (memory(), calling("workflow", workflow_of_every_kind(), &Arc::default()));
            let Some(run) = interrupted(&store, commits, failing, &model).await else { break };
            crashes += 1;
            let Some(run) = run else { continue };
            let engine = engine(Arc::clone(&store), &model);
            let done: Vec<String> = finished_strikes(&engine, &run).await;
            let before = effects_of(run.as_str());
            let finished = finish(&engine, &engine.resume(&run).await.unwrap()).await;
            assert_eq!(finished.status, "success", "crash {failing:?} {commits}");
            assert_eq!(call_output(&finished.entries, "0/1.1")["errors"], json!({}), "crash {failing:?} {commits}");
            let after: BTreeMap<String, u32> = effects_of(run.as_str()).into_iter().collect();
            assert_eq!(after.len(), 2, "crash {failing:?} {commits}");
            for (call, times) in before.iter().filter(|(call, _)| done.contains(call)) {
                assert_eq!(after[call], *times, "crash {failing:?} {commits}: {call} ran again");
            }
        }
    }
    assert!(crashes >= 12, "only {crashes} crashes were tried");
}

/// Returns the calls of `strike` that have a result.
async fn finished_strikes(engine: &Engine, run: &RunId) -> Vec<String> {
    let state = engine.state(run).await.unwrap();
    let calls = state.graph().iter().flat_map(baton_machine::Task::calls);
    calls.filter(|call| call.is_finished() && call.asked.tool == "strike").map(|call| call.id.to_string()).collect()
}

#[tokio::test]
async fn code_with_many_calls_sees_one_order_and_asks_nobody_twice() {
    const CALLS: u32 = 1_000;
    let input = json!({"count": CALLS, "at_once": 7});
    let mut crashes = 0;
    for crash in 1.. {
        let asked = Arc::default();
        let (store, model) = (memory(), calling("send_out", input.clone(), &asked));
        let Some(run) = interrupted(&store, crash, Failing::After, &model).await else { break };
        crashes = crash;
        let engine = engine(Arc::clone(&store), &model);
        let answered = answered_turns(&engine, &run.clone().unwrap()).await;
        let before = asked.lock().unwrap().clone();
        let finished = finish(&engine, &engine.resume(&run.unwrap()).await.unwrap()).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "crash {crash}");
        let answers = call_output(&finished.entries, "0/1.1")["answers"].as_array().unwrap().len();
        assert_eq!(answers, CALLS as usize, "crash {crash}");
        let after = asked.lock().unwrap();
        for task in answered {
            assert_eq!(after[&task], before[&task], "crash {crash}: {task} was asked again");
        }
    }
    assert!(crashes >= 15, "only {crashes} crashes were tried");
}

/// Returns the tasks of workers whose only turn is answered.
async fn answered_turns(engine: &Engine, run: &RunId) -> Vec<TaskId> {
    let state = engine.state(run).await.unwrap();
    state.graph().iter().filter(|task| !task.id.is_root() && !task.is_live()).map(|task| task.id.clone()).collect()
}

#[tokio::test]
async fn a_fork_at_any_entry_takes_the_effects_of_inner_calls_from_its_original() {
    let model = calling("workflow", workflow_of_every_kind(), &Arc::default());
    let engine = engine(memory(), &model);
    let handle = engine.start(job(), StartOptions::default()).await.unwrap();
    let original = finish(&engine, &handle).await;
    let mut forks = 0;
    let ends = original.entries.windows(2).filter(|pair| pair[0].decision != pair[1].decision);
    for at in ends.map(|pair| pair[0].seq) {
        let options = ForkOptions { at: Some(at), ..ForkOptions::default() };
        let fork = engine.fork(handle.id(), &Principal::person("ann"), options).await.unwrap();
        let finished = finish(&engine, &fork).await;
        assert_eq!(finished.status, "success", "fork at {at}");
        assert_eq!(call_output(&finished.entries, "0/1.1")["errors"], json!({}), "fork at {at}");
        assert_eq!(effects_of(fork.id().as_str()), [], "fork at {at}: nothing is struck again");
        forks += 1;
    }
    assert!(forks >= 15, "only {forks} forks were made");
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_code_waits_for_its_calls_is_not_its_own() {
    let steps = json!([{"id": "slow", "tool": "dawdle"}, {"id": "after", "tool": "calculator", "input": {"expression": "1"}, "dependencies": ["slow"]}]);
    let finished = run("workflow", json!({"steps": steps})).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "an hour is more than the minute of workflow");
}

#[tokio::test]
async fn an_agent_works_on_each_item_of_a_list() {
    let request = json!({"request": "translate ${item.word} (${index})"});
    let items = json!([{"word": "one"}, {"word": "two"}, {"word": "three"}]);
    let input = json!({"tool": "route_to_worker", "input": request, "items": items, "concurrency": 2});
    let finished = run("map", input).await;
    let output = call_output(&finished.entries, "0/1.1");
    assert_eq!(output["results"][2], json!({"status": "success", "output": {"summary": "answer of 0/1.1:3"}}), "{output}");
    assert_eq!((&output["succeeded"], &output["failed"]), (&json!(3), &json!(0)));
    let requests = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::TaskCreated(created) if !created.task.is_root() => Some(created.request.as_str()),
        _ => None,
    });
    assert_eq!(requests.collect::<Vec<_>>(), ["translate one (0)", "translate two (1)", "translate three (2)"]);
}

#[tokio::test]
async fn what_the_limits_cannot_admit_is_refused_before_the_first_call() {
    let request = format!("${{item}} {}", "word ".repeat(400));
    let many = json!({"tool": "route_to_worker", "input": {"request": request}, "items": (0..90).collect::<Vec<_>>()});
    for (limits, needs) in [
        (json!({"turns": 80}), "these calls need 90 or more"),
        (json!({"calls": 10}), "10 allowed, 1 used, and these calls need 90 or more"),
        (json!({"tokens": 22_000}), "22000 allowed"),
    ] {
        let limited = job_with(json!({"limits": limits}));
        let finished = run_to_end(&engine(memory(), &calling("map", many.clone(), &Arc::default())), limited).await;
        let error = call_error(&finished.entries, "0/1.1");
        assert!(error.contains(needs), "{limits}: {error}");
        assert!(!finished.entries.iter().any(|recorded| matches!(recorded.entry, Entry::CallMade(_))), "{limits}");
    }
}

#[tokio::test]
async fn a_tool_that_nobody_has_is_refused_before_the_first_call() {
    let finished = run("map", json!({"tool": "calculater", "input": {}, "items": [1, 2]})).await;
    assert!(call_error(&finished.entries, "0/1.1").contains("there is no tool \"calculater\" that the code of map may call"));
    assert!(!finished.entries.iter().any(|recorded| matches!(recorded.entry, Entry::CallMade(_))));
    let finished = run("map", json!({"tool": "handoff", "input": {"result": {}}, "items": [1, 2]})).await;
    assert!(call_error(&finished.entries, "0/1.1").contains("there is no tool \"handoff\" that the code of map may call"));
    assert!(!finished.entries.iter().any(|recorded| matches!(recorded.entry, Entry::CallMade(_))));
}

#[tokio::test]
async fn results_of_calls_that_are_made_are_never_lost_for_their_length() {
    let mapped = |text: &str| json!({"tool": "calculator", "input": {"expression": text}, "items": (0..40).collect::<Vec<_>>()});
    let map = mapped("${item} + 1");
    let nested = json!({"steps": [{"id": "many", "tool": "map", "input": mapped("$${item} + 1")}, {"id": "one", "tool": "calculator", "input": {"expression": "1"}}]});
    for limits in [json!({"result_bytes": 1_000}), json!({"result_bytes": 1_000, "inline_result_bytes": 1_000_000})] {
        let limited = || job_of(json!({}), json!({"limits": limits}));
        let finished = run_to_end(&engine(memory(), &calling("map", map.clone(), &Arc::default())), limited()).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "{limits}");
        let pointer = call_output(&finished.entries, "0/1.1");
        assert!(pointer["size_bytes"].as_u64().unwrap() > 1_000, "{limits}: {pointer}");
        let written = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::DocumentWritten(_))).count();
        assert_eq!(written, 1, "{limits}: the document has all results");
        let finished = run_to_end(&engine(memory(), &calling("workflow", nested.clone(), &Arc::default())), limited()).await;
        let output = call_output(&finished.entries, "0/1.1");
        assert!(output["results"]["many"]["document"].is_string(), "{limits}: the code receives the pointer: {output}");
    }
}

#[tokio::test]
async fn a_number_in_place_of_a_text_is_explained_with_the_way_out() {
    let steps = |expression: &str| json!({"steps": [{"id": "n", "tool": "calculator", "input": {"expression": "2 + 3"}}, {"id": "again", "tool": "calculator", "input": {"expression": expression}}]});
    let finished = run("workflow", steps("${n.result}")).await;
    let error = call_error(&finished.entries, "0/1.1");
    assert!(error.contains("step \"again\" failed") && error.contains("write \"${text n.result}\""), "{error}");
    let finished = run("workflow", steps("${text n.result}")).await;
    assert_eq!(call_output(&finished.entries, "0/1.1")["results"]["again"]["result"], json!(5));
}

#[tokio::test(start_paused = true)]
async fn code_that_gives_up_a_call_is_held_to_its_own_time() {
    let finished = run("gives_up", json!({})).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "timeout timed_out");
    assert_eq!(call_result(&finished.entries, "0/1.1:1"), "cancelled cancelled");
}

#[tokio::test]
async fn an_entry_that_no_run_could_have_written_is_an_error() {
    let store = memory();
    let engine = engine(Arc::clone(&store), &calling("workflow", workflow_of_every_kind(), &Arc::default()));
    let finished = run_to_end(&engine, job()).await;
    let run = store.runs().await.unwrap()[0].id.clone();
    let place = finished.entries.iter().position(|recorded| matches!(recorded.entry, Entry::CallMade(_))).unwrap();
    for call in ["0/1.7:x", "0/1.1:sum:x", "0/1.1", "0/9.1:x", "0/9.0:accept", "nonsense"] {
        let mut state = engine.unstarted(&run).await.unwrap();
        for recorded in &finished.entries[..place] {
            engine.apply(&mut state, recorded).await.unwrap();
        }
        let mut forged = (*finished.entries[place]).clone();
        if let Entry::CallMade(made) = &mut forged.entry {
            made.call = call.into();
        }
        let error = engine.apply(&mut state, &forged).await.unwrap_err();
        assert!(matches!(error, RunError::BadEntry { .. }), "{call}: {error}");
    }
}

#[tokio::test]
async fn a_fork_takes_results_over_in_the_order_of_its_original() {
    let gates = ["the slow step", "the slower step"];
    let input = json!({"steps": [
        {"id": "slower", "tool": "strike", "input": {"gate": gates[1]}},
        {"id": "slow", "tool": "strike", "input": {"gate": gates[0]}},
        {"id": "ask", "tool": "route_to_worker", "input": {"request": "Work."}},
        {"id": "quick", "tool": "strike"},
        {"id": "sum", "tool": "calculator", "input": {"expression": "2 + 3"}, "dependencies": ["quick"]},
        {"id": "after", "tool": "strike", "dependencies": ["sum", "ask"]},
        {"id": "pause", "tool": "timer", "input": {"seconds": 0.05}}
    ]});
    let asked: Arc<Mutex<BTreeMap<TaskId, u32>>> = Arc::default();
    let engine = engine(memory(), &calling("workflow", input, &asked));
    let handle = engine.start(job(), StartOptions::default()).await.unwrap();
    let is_finished = |call: &'static str| {
        let (engine, run) = (&engine, handle.id().clone());
        async move {
            let state = engine.state(&run).await.unwrap();
            state.task(&TaskId::root()).and_then(|root| root.call(&call.into())).is_some_and(baton_machine::OpenCall::is_finished)
        }
    };
    let wait_for = |call: &'static str| async move {
        while !is_finished(call).await {
            tokio::task::yield_now().await;
        }
    };
    wait_for("0/1.1:after").await;
    wait_for("0/1.1:pause").await;
    Gate::named(gates[0]).open();
    wait_for("0/1.1:slow").await;
    Gate::named(gates[1]).open();
    let original = finish(&engine, &handle).await;
    let order = |finished: &Finished| call_output(&finished.entries, "0/1.1")["executionOrder"].clone();
    let steps: Vec<Value> = order(&original).as_array().unwrap().clone();
    assert_eq!(steps[4..], ["pause", "slow", "slower"].map(Value::from), "the timer is the last of the others");
    let turns = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!(turns.len(), 2, "the root and the worker");
    let forked = engine.fork(handle.id(), &Principal::person("ada"), ForkOptions::default()).await.unwrap();
    let fork = finish(&engine, &forked).await;
    assert_eq!(order(&fork), order(&original));
    assert!(asked.lock().unwrap().is_empty(), "no model is asked");
    let ends = |finished: &Finished| -> Vec<String> {
        let end = |entry: &Entry| match entry {
            Entry::CallFinished(entry) => Some(entry.call.to_string()),
            Entry::ModelAnswered(entry) => Some(format!("turn {} of {}", entry.turn, entry.task)),
            _ => None,
        };
        finished.entries.iter().filter_map(|recorded| end(&recorded.entry)).collect()
    };
    assert_eq!(ends(&fork), ends(&original));
}

#[tokio::test]
async fn code_that_does_something_else_the_second_time_ends_its_call() {
    let input = json!({"first": "mind one", "later": "mind two"});
    let (store, model) = (memory(), calling("changes_its_mind", input, &Arc::default()));
    let engine = engine(store, &model);
    let handle: RunHandle = engine.start(job(), StartOptions::default()).await.unwrap();
    Gate::named("mind one").reached().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome", "its keyed call was stopped");
    assert!(call_error(&finished.entries, "0/1.1").contains("the code does not do the same as before"));
    assert_eq!(call_result(&finished.entries, "0/1.1:only"), "unknown_outcome unknown_outcome");
    let made = finished.entries.iter().filter(|recorded| matches!(recorded.entry, Entry::CallMade(_))).count();
    assert_eq!(made, 1);
}
