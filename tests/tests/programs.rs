//! Programs: agents that are programs, and programs that a model writes for one call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_models::Model;
use baton_runtime::{Engine, FollowUp, RunError, RunHandle, RunOutcome, StartOptions};
use baton_store::{MemoryStore, Store};
use baton_types::entry::Entry;
use baton_types::id::TaskId;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::failing::{Failing, FailingStore};
use crate::support::{
    Finished, TestJob, call_error, call_output, call_result, calls, engine, finish, handoff, model, name_of, run_to_end,
};

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Returns a job whose root is the program `source`. Its agents `worker` and `asker` answer by a model.
fn planned(source: &str, extra: Value) -> TestJob {
    TestJob::new("root", json!({"limits": {"calls": 20_000, "tokens": 50_000_000, "turns": 10_000}}))
        .program("root", source, &["calculator", "write_file", "ask_master", "route_to_worker", "route_to_asker"], extra)
        .agent("worker", &["handoff"])
        .agent("asker", &["ask_master", "handoff"])
        .built_in("run_own_program")
        .built_in("calculator")
        .built_in("write_file")
        .document("notes.md", "A note.")
}

/// Returns a model whose workers answer with their request, and whose askers ask first. `asked` counts the answers of each task.
fn working(asked: &Arc<Mutex<BTreeMap<TaskId, u32>>>) -> Arc<dyn Model> {
    let asked = Arc::clone(asked);
    model(move |agent, turn, request| {
        *asked.lock().unwrap().entry(request.task.clone()).or_default() += 1;
        match (agent, turn) {
            ("asker", 1) => calls(&[("ask_master", json!({"question": "May I?"}))]),
            (_, _) => handoff(&format!("answer of {}", request.task), &[]),
        }
    })
}

async fn run_planned(source: &str, extra: Value) -> Finished {
    run_to_end(&engine(memory(), &working(&Arc::default())), planned(source, extra).load()).await
}

#[tokio::test]
async fn a_program_runs_again_when_its_run_is_continued() {
    let engine = engine(memory(), &working(&Arc::default()));
    let job = planned("{'asked': request}", json!({})).load();
    let first = engine.start(job, StartOptions::default()).await.unwrap();
    assert_eq!(finish(&engine, &first).await.status, "success");
    let options = FollowUp { request: "And then?".to_owned(), ..FollowUp::default() };
    let second = engine.continue_run(first.id(), &Principal::person("ann"), options).await.unwrap();
    assert_eq!(finish(&engine, &second).await.result, json!({"asked": "And then?"}));
}

#[tokio::test]
async fn a_program_is_an_agent_without_a_model() {
    let source = "
total = 0
for n in inputs.get('numbers', [1, 2]):
    total = call('calculator', expression=f'{total} + {n}')['result']
answers = parallel([later(agent, 'worker', f'{request} {i}') for i in range(2)])
print('total', total)
{'total': total, 'answers': [answer['summary'] for answer in answers], 'note': document('notes.md')}
";
    let finished = run_planned(source, json!({})).await;
    let expected = json!({"total": 3, "answers": ["answer of 0/1.1:3", "answer of 0/1.1:4"], "note": "A note."});
    assert_eq!((finished.status, finished.result), ("success", expected));
    let turns = finished.entries.iter().filter(|recorded| match &recorded.entry {
        Entry::ModelAnswered(entry) => entry.task.is_root(),
        _ => false,
    });
    assert_eq!(turns.count(), 1);
    let settled = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::BudgetSettled(entry) if entry.task.is_root() => Some(entry.usage.total()),
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), [0], "no model is asked");
}

#[tokio::test]
async fn the_result_of_a_program_meets_the_schema_of_its_agent() {
    let schema = json!({"result_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}});
    assert_eq!(run_planned("{'n': 1}", schema.clone()).await.result, json!({"n": 1}));
    let broken = run_planned("{'n': 'one'}", schema).await;
    assert_eq!(broken.status, "failed");
    let error = call_error(&broken.entries, "0/1.1");
    assert!(
        error.contains("programs/root.py: the value of the last expression is not the result that the agent promises"),
        "{error}"
    );
}

#[tokio::test]
async fn a_fault_of_a_program_ends_its_task_with_the_place() {
    let finished = run_planned("x = 1\ncall('calculator', expression='nonsense(')", json!({})).await;
    assert_eq!(finished.status, "failed");
    let error = call_error(&finished.entries, "0/1.1");
    assert!(error.starts_with("programs/root.py:2:1: RuntimeError: calculator ended as failed: "), "{error}");
    let unknown = run_planned("name = 'nothing'\ncall(name)", json!({})).await;
    assert!(call_error(&unknown.entries, "0/1.1").contains("there is no tool \"nothing\""));
}

#[tokio::test]
async fn a_schema_binds_the_result_of_a_called_agent() {
    let source = "
good = agent('worker', 'one', schema={'type': 'object', 'required': ['summary']})
try:
    agent('worker', 'two', schema={'type': 'object', 'required': ['figure']})
    bad = 'none'
except RuntimeError as error:
    bad = str(error)
[good, bad]
";
    let result = run_planned(source, json!({})).await.result;
    assert_eq!(result[0], json!({"summary": "answer of 0/1.1:1"}));
    let bad = result[1].as_str().unwrap();
    assert!(bad.starts_with("the result of route_to_worker does not meet the schema"), "{bad}");
}

#[tokio::test]
async fn questions_of_the_agents_that_a_program_calls_go_past_it() {
    let engine = engine(memory(), &working(&Arc::default()));
    let source = "[ask('Which one?'), agent('asker', 'go')['summary']]";
    let handle = engine.start(planned(source, json!({})).load(), StartOptions::default()).await.unwrap();
    for (expected, answer) in [("Which one?", "this"), ("May I?", "yes")] {
        let outcome = handle.outcome_without_people().await;
        assert!(
            matches!(outcome, RunOutcome::WaitingForPerson),
            "{expected}: {}: {:?}",
            name_of(&outcome),
            finish(&engine, &handle).await.result
        );
        let question = handle.open_questions().await.remove(0);
        assert_eq!(question.text, expected);
        handle.answer(question.task, &Principal::person("ann"), json!(answer).into(), Vec::new()).await.unwrap();
    }
    assert_eq!(finish(&engine, &handle).await.result, json!(["this", "answer of 0/1.1:2"]));
}

/// The calls of agents of the program that is killed.
const CALLS: usize = 1_000;

#[tokio::test]
async fn a_program_with_a_thousand_agents_that_is_killed_fifty_times_asks_nobody_twice() {
    let source = "
answers, round = [], 0
while len(answers) < 1000:
    round = round + 1
    width = min(25 * round, 1000 - len(answers))
    answers = answers + parallel([later(agent, 'worker', f'{round}.{i}') for i in range(width)])
{'rounds': round, 'answers': [answer['summary'] for answer in answers]}
";
    let many = || json!({"limits": {"children": 2_000}});
    let expected = run_planned(source, many()).await;
    assert_eq!(expected.status, "success");
    assert_eq!(expected.result["answers"].as_array().unwrap().len(), CALLS);
    let (store, asked) = (memory(), Arc::default());
    let model = working(&asked);
    let (mut run, mut kills, mut answered) = (None, 0, BTreeMap::new());
    while kills < 50 {
        let failing = if kills % 2 == 0 { Failing::After } else { Failing::Before };
        let doomed = engine(Arc::new(FailingStore::new(Arc::clone(&store), 2 + kills % 3, failing)), &model);
        let started: Result<RunHandle, RunError> = match &run {
            None => doomed.start(planned(source, many()).load(), StartOptions::default()).await,
            Some(run) => doomed.resume(run).await,
        };
        match started {
            Ok(handle) => match handle.outcome().await {
                RunOutcome::Failed(RunError::Store(_)) => {}
                other => panic!("kill {kills}: {}", name_of(&other)),
            },
            Err(RunError::Store(_)) => {}
            Err(error) => panic!("kill {kills}: {error}"),
        }
        kills += 1;
        run = store.runs().await.unwrap().first().map(|run| run.id.clone());
        // Agents whose turn is on the timeline have not been asked again since.
        let counts = asked.lock().unwrap().clone();
        for (task, count) in &answered {
            assert_eq!(counts[task], *count, "kill {kills}: {task} was asked again");
        }
        let state = engine(Arc::clone(&store), &model).state(run.as_ref().unwrap()).await.unwrap();
        let ended = state.graph().iter().filter(|task| !task.id.is_root() && !task.is_live());
        answered = ended.map(|task| (task.id.clone(), counts[&task.id])).collect();
    }
    println!("{} of {CALLS} agents had answered after {kills} kills", answered.len());
    assert!(answered.len() > 100 && answered.len() < CALLS, "{}", answered.len());
    let engine: Engine = engine(Arc::clone(&store), &model);
    let finished = finish(&engine, &engine.resume(&run.unwrap()).await.unwrap()).await;
    assert_eq!((finished.status, &finished.result), ("success", &expected.result));
    let counts = asked.lock().unwrap();
    assert!(answered.iter().all(|(task, count)| counts[task] == *count));
}

/// Returns a job whose root may write programs.
fn code_mode(settings: Value, approval: &str) -> TestJob {
    let write = json!({"tool": "write_file", "approval": approval});
    let tools = json!({"tools": ["run_program", "calculator", "route_to_worker", write, "handoff"]});
    TestJob::new("root", json!({}))
        .agent_with("root", &[], tools)
        .agent("worker", &["handoff"])
        .built_in("run_program")
        .built_in("calculator")
        .built_in("write_file")
        .changed_tool("run_program", json!({"set": settings}))
}

/// Returns a model whose root runs `code`, hands off, and whose worker answers with its task.
fn coding(code: &str) -> Arc<dyn Model> {
    let code = code.to_owned();
    model(move |agent, turn, request| match (agent, turn) {
        ("root", 1) => calls(&[("run_program", json!({"code": code, "input": {"n": 4}}))]),
        _ => handoff(&format!("answer of {}", request.task), &[]),
    })
}

async fn run_code(code: &str, settings: Value) -> Finished {
    run_to_end(&engine(memory(), &coding(code)), code_mode(settings, "person").load()).await
}

#[tokio::test]
async fn a_model_writes_a_program_over_its_tools() {
    let code = "print('begin')\nx = call('calculator', expression=f\"{inputs['n']} * 2\")['result']\n[x, agent('worker', 'go')['summary']]";
    let finished = run_code(code, json!({})).await;
    let expected = json!({"output": [8, "answer of 0/1.1:2"], "printed": "begin\n"});
    assert_eq!(call_output(&finished.entries, "0/1.1"), expected);
    assert_eq!(call_output(&finished.entries, "0/1.1:1")["result"], json!(8));
}

#[tokio::test]
async fn each_call_of_a_program_has_its_own_approval() {
    let code = "call('write_file', path='a.md', content='A', why_created='a test')";
    let engine = engine(memory(), &coding(code));
    let handle = engine.start(code_mode(json!({}), "person").load(), StartOptions::default()).await.unwrap();
    assert!(matches!(handle.outcome_without_people().await, RunOutcome::WaitingForPerson));
    let question = handle.open_questions().await.remove(0);
    assert!(question.text.starts_with("May I call write_file"), "{}", question.text);
    let no = json!({"approved": false, "reason": "not now"});
    handle.answer(question.task, &Principal::person("ann"), no.into(), Vec::new()).await.unwrap();
    let finished = finish(&engine, &handle).await;
    let error = call_error(&finished.entries, "0/1.1");
    assert!(
        error.starts_with("program.py:1:1: RuntimeError: write_file ended as failed") && error.contains("not now"),
        "{error}"
    );
    assert_eq!(finished.run.documents().iter().count(), 0);
}

#[tokio::test]
async fn a_program_that_ends_badly_ends_its_call_and_not_the_run() {
    for (code, expected) in [
        ("while True: pass", "time limit exceeded"),
        ("x = [0]\nwhile True: x = x + x", "memory"),
        ("def f(): return f()\nf()", "maximum recursion depth exceeded"),
        ("x = 1\nif x\n    2", "program.py:2:5: SyntaxError"),
        ("import socket", "program.py:1:8: ModuleNotFoundError"),
        ("open('/etc/passwd')", "a program has no files, no clock and no environment"),
    ] {
        let begun = Instant::now();
        let finished = run_code(code, json!({"seconds": 1, "memory_mib": 64})).await;
        assert_eq!((finished.status, call_result(&finished.entries, "0/1.1").as_str()), ("success", "failed tool_failed"));
        let error = call_error(&finished.entries, "0/1.1");
        assert!(error.contains(expected), "{code}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{code}");
    }
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_names_the_nearest_and_all_that_may_be_called() {
    let error = |code: &'static str| async move { call_error(&run_code(code, json!({})).await.entries, "0/1.1") };
    let unknown = error("call('calculater', expression='1')").await;
    let expected = "calculater ended as failed: there is no tool \"calculater\" that the code of run_program may call; did you mean \
                    \"calculator\"? It may call ";
    assert!(unknown.contains(expected), "{unknown}");
    let (_, tools) = unknown.split_once("It may call ").unwrap();
    let mut tools: Vec<&str> = tools.split(", ").collect();
    tools.sort_unstable();
    assert_eq!(tools, ["calculator", "route_to_worker", "run_program", "write_file"]);
    let unknown = error("call('nope')").await;
    assert!(unknown.contains("that the code of run_program may call. It may call "), "{unknown}");
    let unknown = error("agent('wroker', 'go')").await;
    assert!(unknown.contains("did you mean \"route_to_worker\"?"), "{unknown}");
}

#[tokio::test]
async fn a_prepared_call_is_no_result() {
    let expected = "has a call of later(…) in place of its result: parallel([…]) makes such calls and returns their results";
    let source = "later(agent, 'worker', 'go')";
    let finished = run_planned(source, json!({})).await;
    assert_eq!(finished.status, "failed");
    let error = call_error(&finished.entries, "0/1.1");
    assert!(error.contains("programs/root.py: the value of the last expression") && error.contains(expected), "{error}");
    let finished = run_code(source, json!({})).await;
    assert!(call_error(&finished.entries, "0/1.1").contains(expected));
}

#[tokio::test]
async fn what_an_agent_that_is_a_program_prints_is_kept_for_people() {
    let printed = |finished: &Finished| {
        let found = finished.entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::CallFinished(entry) if entry.call.as_str() == "0/1.1" => Some(entry.printed.clone()),
            _ => None,
        });
        found.unwrap()
    };
    let finished = run_planned("print('begin')\nprint('end')\n{'n': 1}", json!({})).await;
    assert_eq!((finished.result.clone(), printed(&finished).as_deref()), (json!({"n": 1}), Some("begin\nend\n")));
    assert_eq!(printed(&run_planned("1", json!({})).await), None);
    let much = run_planned("for i in range(100000): print('x' * 80)\n1", json!({})).await;
    assert_eq!(printed(&much).unwrap().len(), 64 << 10);
}

/// Stops the worker whose program may compute for two seconds, once it runs.
#[cfg(target_os = "linux")]
fn stop_the_worker() {
    let own = format!("BATON_RUNS_PROGRAM={}\0", std::process::id());
    let is_it = |folder: &std::path::Path| {
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        let time = |line: &&str| line.starts_with("Max cpu time");
        read("environ") == own
            && read("limits").lines().find(time).is_some_and(|line| line.split_whitespace().nth(3) == Some("3"))
    };
    let began = Instant::now();
    let worker = loop {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        if let Some(found) = processes.into_iter().find(|folder| is_it(folder)) {
            break found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no worker runs");
        std::thread::yield_now();
    };
    let number = worker.file_name().unwrap();
    assert!(std::process::Command::new("kill").arg("-STOP").arg(number).status().unwrap().success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_that_gets_no_processor_is_killed_after_its_time() {
    let stopping = std::thread::spawn(stop_the_worker);
    let begun = Instant::now();
    let finished = run_code("while True: pass", json!({"seconds": 2})).await;
    stopping.join().unwrap();
    let error = call_error(&finished.entries, "0/1.1");
    assert_eq!(error, "program.py: the program computes for longer than 2 seconds");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
