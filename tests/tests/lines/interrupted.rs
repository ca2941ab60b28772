//! Commands, and the calls that they wait for, after crashes, stops and cancellations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use baton_models::Model;
use baton_runtime::{Engine, RunError, RunOutcome, StartOptions};
use baton_store::Store;
use baton_types::id::RunId;
use baton_types::principal::Principal;
use serde_json::json;

use super::{Errand, MOST, gone, memory, running};
use crate::support::failing::{Failing, FailingStore};
use crate::support::tools::{Gate, effects_of};
use crate::support::{call_error, call_output, call_result, engine, finish, name_of, root};

/// Lets the run whose store fails after `commits` commits go as far as it comes; `None` if it ended.
async fn interrupted(
    store: &Arc<dyn Store>,
    errand: &Errand,
    commits: i64,
    failing: Failing,
    model: &Arc<dyn Model>,
) -> Option<Option<RunId>> {
    let doomed = engine(Arc::new(FailingStore::new(Arc::clone(store), commits, failing)), model);
    match doomed.start(errand.job(), StartOptions::default()).await {
        Ok(handle) => match handle.outcome().await {
            RunOutcome::Failed(RunError::Store(_)) => {}
            RunOutcome::Ended { .. } => return None,
            other => panic!("crash {failing:?} {commits}: {}", name_of(&other)),
        },
        Err(RunError::Store(_)) => {}
        Err(error) => panic!("crash {failing:?} {commits}: {error}"),
    }
    Some(store.runs().await.unwrap().first().map(|run| run.id.clone()))
}

/// Returns the calls of `strike` that have a result.
async fn finished_strikes(engine: &Engine, run: &RunId) -> Vec<String> {
    let state = engine.state(run).await.unwrap();
    let calls = state.graph().iter().flat_map(baton_machine::Task::calls);
    calls.filter(|call| call.is_finished() && call.asked.tool == "strike").map(|call| call.id.to_string()).collect()
}

#[tokio::test]
async fn a_command_takes_the_results_that_it_has_wherever_the_process_is_killed() {
    let text = r#"
call("strike", name="one")
result()
call("strike", name="two")
call("route_to_worker", name="ask", request="Work.")
names = [result()["name"], result()["name"]]
call("calculator", expression="2 + 3")
write({"output": [sorted(names), result()["output"]["result"]]})
"#;
    for effect in ["keyed", "at_most_once"] {
        let errand = Errand::python(text).config(json!({"effect": effect}));
        let mut ends = BTreeMap::<String, u32>::new();
        for failing in [Failing::Before, Failing::After] {
            for commits in 0.. {
                let (store, model) = (memory(), running(json!({})));
                let Some(run) = interrupted(&store, &errand, commits, failing, &model).await else { break };
                let Some(run) = run else { continue };
                let engine = engine(Arc::clone(&store), &model);
                let done = finished_strikes(&engine, &run).await;
                let before = effects_of(run.as_str());
                let finished = finish(&engine, &engine.resume(&run).await.unwrap()).await;
                assert_eq!(finished.status, "success", "{effect}, crash {failing:?} {commits}");
                let end = call_result(&finished.entries, "0/1.1");
                if end == "success" {
                    assert_eq!(
                        call_output(&finished.entries, "0/1.1"),
                        json!([["ask", "two"], 5]),
                        "crash {failing:?} {commits}"
                    );
                }
                *ends.entry(end).or_default() += 1;
                let after: BTreeMap<String, u32> = effects_of(run.as_str()).into_iter().collect();
                for (call, times) in before.iter().filter(|(call, _)| done.contains(call)) {
                    assert_eq!(after[call], *times, "{effect}, crash {failing:?} {commits}: {call} ran again");
                }
            }
        }
        println!("{effect}: {ends:?}");
        let unknown = ends.remove("unknown_outcome unknown_outcome").unwrap_or_default();
        assert_eq!(ends.len(), 1, "{effect}: {ends:?}");
        assert_eq!(unknown > 0, effect == "at_most_once", "{effect}: {unknown}");
    }
}

#[tokio::test]
async fn results_come_in_the_same_order_again() {
    let gates = ["the first in order", "the last in order"];
    let text = r#"
call("strike", name="slow", gate=given["first"])
call("strike", name="quick")
order = [result()["name"], result()["name"]]
call("strike", name="last", gate=given["last"])
result()
write({"output": order})
"#;
    let errand = Errand::python(text);
    let (store, model) = (memory(), running(json!({"first": gates[0], "last": gates[1]})));
    let engine = engine(store, &model);
    let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
    let (first, last) = (Gate::named(gates[0]), Gate::named(gates[1]));
    first.reached().await;
    let began = Instant::now();
    while effects_of(handle.id().as_str()).len() < 2 {
        assert!(began.elapsed() < MOST);
        tokio::task::yield_now().await;
    }
    let finished = |call: &'static str| {
        let (engine, run) = (&engine, handle.id());
        async move { finished_strikes(engine, run).await.iter().any(|done| done == call) }
    };
    while !finished("0/1.1:quick").await {
        assert!(began.elapsed() < MOST);
        tokio::task::yield_now().await;
    }
    first.open();
    last.reached().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let again = engine.resume(handle.id()).await.unwrap();
    last.reached().await;
    last.open();
    let finished = finish(&engine, &again).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!(["quick", "slow"]));
}

#[tokio::test]
async fn a_command_that_does_something_else_the_second_time_ends_its_call() {
    let gate = "another mind";
    let text = r#"
again = os.path.exists(here + "/once")
open(here + "/once", "w").close()
call("strike", name="only", gate="no gate" if again else given["gate"])
result()
write({"output": 1})
"#;
    let errand = Errand::python(text);
    let model = running(json!({"gate": gate}));
    let engine = engine(memory(), &model);
    let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
    Gate::named(gate).reached().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome", "its keyed call was stopped");
    assert!(call_error(&finished.entries, "0/1.1").contains("the code does not do the same as before"));
    assert_eq!(call_result(&finished.entries, "0/1.1:only"), "unknown_outcome unknown_outcome");
}

#[tokio::test]
async fn cancelling_kills_a_command_that_waits_and_ends_its_calls() {
    let text = "sleep 600 & echo $! > \"$here/child\"\necho $$ > \"$here/pid\"\n\
        echo '{\"call\": {\"tool\": \"ask_master\", \"name\": \"q\", \"input\": {\"question\": \"May I?\"}}}'\nread -r r\nwait";
    let errand = Errand::shell(text);
    let engine = engine(memory(), &running(json!({})));
    let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
    handle.cancel(root(), "enough", &Principal::person("ann")).await.unwrap();
    let finished = finish(&engine, &handle).await;
    assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome", "a keyed command may have acted");
    assert_eq!(call_result(&finished.entries, "0/1.1:q"), "cancelled cancelled");
    for file in ["pid", "child"] {
        gone(&errand.path().join(file)).await;
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_command_that_waits() {
    let text =
        "call(\"ask_master\", name=\"q\", question=\"May I?\")\nanswer = result()[\"output\"]\nwrite({\"output\": answer})";
    for (effect, expected) in [("at_most_once", "unknown_outcome unknown_outcome"), ("keyed", "success")] {
        let errand = Errand::python(text).config(json!({"effect": effect}));
        let engine = engine(memory(), &running(json!({})));
        let handle = engine.start(errand.job(), StartOptions::default()).await.unwrap();
        assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
        let stopped = tokio::time::timeout(MOST, handle.stop()).await.expect("a stop takes little time");
        assert!(matches!(stopped, RunOutcome::Stopped), "{}", name_of(&stopped));
        let again = engine.resume(handle.id()).await.unwrap();
        if effect == "keyed" {
            assert!(matches!(again.outcome_without_people().await, RunOutcome::WaitingForPerson));
            let question = again.open_questions().await.remove(0);
            again.answer(question.task, &Principal::person("ann"), json!("yes").into(), Vec::new()).await.unwrap();
        }
        let finished = finish(&engine, &again).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), expected, "{effect}");
        let answered = if effect == "keyed" { "success" } else { "cancelled cancelled" };
        assert_eq!(call_result(&finished.entries, "0/1.1:q"), answered, "{effect}");
    }
}
