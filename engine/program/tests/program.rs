//! Programs in their workers: what they see, what they call, and how they fail.

mod support;

use baton_program::{Call, Finished, Limits, worker};
use serde_json::{Value, json};

use support::execute;

fn run(source: &str) -> Finished {
    execute(source, json!({}), Limits::default(), |_| Err("nobody answers".to_owned())).0
}

fn fault(source: &str) -> String {
    run(source).result.map_or_else(|fault| fault.to_string(), |value| panic!("{source}: {value}"))
}

#[test]
fn the_last_expression_is_the_value() {
    assert_eq!(run("x = 2\nx + 3").result, Ok(json!(5)));
    assert_eq!(
        run("print('a', 1)\n{'k': [1, 2.5, None, True, (1, 2)], 3: 'n'}").result,
        Ok(json!({"k": [1, 2.5, null, true, [1, 2]], "3": "n"}))
    );
    assert_eq!(run("print('a', 1)").printed, "a 1\n");
}

#[test]
fn two_values_under_one_key_are_an_error() {
    for (source, expected) in [
        ("{1: 'a', '1': 'b'}", "has the key \"1\" twice"),
        ("call('echo', {'message': 'a'}, message='b')", "call has two values for message"),
        ("call('echo', {2: 'a', '2': 'b'})", "has the key \"2\" twice"),
        ("ask('well?', question='else?')", "ask has two values for question"),
    ] {
        let fault = fault(source);
        assert!(fault.contains(expected), "{source}: {fault}");
    }
}

#[test]
fn calls_are_numbered_in_the_order_in_which_they_are_made() {
    let source = "
a = call('first', x=1)
later_ones = [later(agent, 'checker', f'check {i}', schema={'type': 'object'}) for i in range(2)]
b = call('second', {'y': a})
c = parallel(later_ones + [later(ask, 'well?')])
[a, b, c, document('notes.md')]
";
    let (finished, made) = execute(source, json!({}), Limits::default(), |call| match call {
        Call::Tool { tool, .. } => Ok(json!(tool)),
        Call::Agent { input, .. } => Ok(json!({"checked": input["request"]})),
        Call::Ask { .. } => Ok(json!("yes")),
    });
    let answers = json!([{"checked": "check 0"}, {"checked": "check 1"}, "yes"]);
    assert_eq!(finished.result, Ok(json!(["first", "second", answers, "text of notes.md"])));
    let object = |value: Value| value.as_object().unwrap().clone();
    let agent = |request: &str| Call::Agent {
        name: "checker".to_owned(),
        input: object(json!({ "request": request })),
        schema: Some(json!({"type": "object"})),
    };
    let tool = |tool: &str, input: Value| Call::Tool { tool: tool.to_owned(), input: object(input) };
    let expected = [
        (1, tool("first", json!({"x": 1}))),
        (2, tool("second", json!({"y": "first"}))),
        (3, agent("check 0")),
        (4, agent("check 1")),
        (5, Call::Ask { input: object(json!({"question": "well?"})) }),
    ];
    assert_eq!(made, expected);
}

#[test]
fn a_failure_is_an_exception_with_its_place() {
    assert_eq!(fault("x = 1\ncall('a')"), "plan.py:2:1: RuntimeError: nobody answers");
    assert_eq!(
        run("try:\n    call('a')\nexcept RuntimeError as error:\n    why = str(error)\nwhy").result,
        Ok(json!("nobody answers"))
    );
    assert_eq!(run("parallel([later(call, 'a')], return_errors=True)").result, Ok(json!([{"error": "nobody answers"}])));
    assert_eq!(fault("parallel([later(call, 'a')])"), "plan.py:1:1: RuntimeError: item 0 of parallel: nobody answers");
    assert!(fault("parallel([lambda: call('a')])").contains("item 0 of parallel is not a call that later(function, …) has made"));
    assert!(fault("call(1)").contains("TypeError: call takes a string as tool"));
    assert!(fault("agent('a')").contains("TypeError: agent needs request"));
}

#[test]
fn a_program_sees_its_values_and_cannot_lose_them_in_functions() {
    let source = "def f():\n    return inputs['n'] + limits['calls']\nf()";
    let values = json!({"inputs": {"n": 1}, "limits": {"calls": 2}});
    assert_eq!(execute(source, values, Limits::default(), |_| Ok(Value::Null)).0.result, Ok(json!(3)));
    assert!(fault("nothing_of_this_name").contains("plan.py:1:1: NameError"));
}

#[test]
fn faults_of_the_text_are_found_before_anything_is_executed() {
    let found_in =
        |file: &str, source: &str| worker::check(file, source).map_or_else(|fault| fault.to_string(), |_| "none".to_owned());
    let found = |source: &str| found_in("plan.py", source);
    assert_eq!(found("x = 1\nx"), "none");
    assert_eq!(found("x = 1\nwhile True\n    x"), "plan.py:2:11: SyntaxError: Expected `:`, found newline");
    assert_eq!(found_in("other.py", "x = 1\nwhile True\n    x"), "other.py:2:11: SyntaxError: Expected `:`, found newline");
    assert_eq!(found(&"x = 1\n".repeat(60_000)), "plan.py: a program has 256 KiB at most, and this one has 360000 bytes");
    let unknown = found("call('a')\ndef f():\n    import os, socket");
    assert!(
        unknown.starts_with("plan.py:3:16: ModuleNotFoundError: No module named 'socket'; a program can import asyncio, "),
        "{unknown}"
    );
    assert!(found("import collections.abc").starts_with("plan.py:1:8: ModuleNotFoundError: No module named 'collections.abc'"));
    assert!(found("import __future__").starts_with("plan.py:1:8: ModuleNotFoundError: No module named '__future__'"));
    assert_eq!(found("from __future__ import annotations"), "none");
    assert_eq!(run("from __future__ import annotations\n1").result, Ok(json!(1)));
    assert!(found("from x import y").starts_with("plan.py:1:1: ModuleNotFoundError: No module named 'x'"));
    assert_eq!(found("try:\n    import numpy\nexcept ImportError:\n    numpy = None"), "none");
    let (finished, made) = execute("call('a')\nimport socket", json!({}), Limits::default(), |_| Ok(Value::Null));
    assert!(finished.result.is_err());
    assert_eq!(made, [], "nothing was executed");
}

#[test]
fn a_worker_whose_starter_is_gone_ends_before_it_reads_a_program() {
    // Another process is the parent from the beginning, as for a worker whose starter was killed at once.
    let mut orphan = worker::command().unwrap().env("BATON_RUNS_PROGRAM", "1").spawn().unwrap();
    let input = orphan.stdin.take();
    assert_eq!(orphan.wait().unwrap().code(), Some(1), "its input is still open: {input:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_has_nothing_of_the_environment() {
    let mut command = worker::command().unwrap();
    let mut idle = command.spawn().unwrap();
    // The system shows the new environment once the process executes its program.
    let environment = loop {
        let shown = std::fs::read(format!("/proc/{}/environ", idle.id())).unwrap();
        if shown.windows(b"BATON_RUNS_PROGRAM".len()).any(|name| name == b"BATON_RUNS_PROGRAM") {
            break String::from_utf8(shown).unwrap();
        }
        std::thread::yield_now();
    };
    assert_eq!(environment, format!("BATON_RUNS_PROGRAM={}\0", std::process::id()));
    // It ends when it reads no program.
    drop(idle.stdin.take());
    assert!(!idle.wait().unwrap().success());
}

#[test]
fn a_prepared_call_is_no_value() {
    for source in ["later(call, 'a')", "[1, {'n': later(call, 'a')}]", "call('a', n=later(call, 'b'))"] {
        let fault = fault(source);
        assert!(
            fault.contains(
                "has a call of later(…) in place of its result: parallel([…]) makes such calls and returns their results"
            ),
            "{source}: {fault}"
        );
    }
    assert_eq!(run("parallel([later(call, 'a')], return_errors=True)[0]['error']").result, Ok(json!("nobody answers")));
}

#[test]
fn an_error_says_what_cannot_be_json() {
    for (source, kind) in [
        ("lambda: 1", "a function"),
        ("def f():\n    return 1\nf", "a function"),
        ("call", "a function"),
        ("len", "a function"),
        ("iter([1])", "an iterator"),
        ("range(3)", "a range"),
        ("import math\nmath", "a module"),
        ("from pathlib import Path\nPath('a')", "a path"),
        ("...", "`...`"),
        ("int", "a type"),
    ] {
        let fault = fault(source);
        let expected = format!("plan.py: the value of the last expression has {kind}, which JSON cannot hold");
        assert_eq!(fault, expected, "{source}");
    }
    assert_eq!(fault("call('a', n=lambda: 1)"), "plan.py:1:1: TypeError: n of call has a function, which JSON cannot hold");
}

#[test]
fn every_module_that_the_check_knows_can_be_imported() {
    let unknown = worker::check("plan.py", "import nothing").unwrap_err().message;
    let (_, modules) = unknown.rsplit_once("can import ").unwrap();
    assert!(modules.split(", ").count() > 10, "{modules}");
    let page = include_str!("../../../docs/programs.md");
    for module in modules.split(", ") {
        assert!(page.contains(&format!("`{module}`")), "docs/programs.md does not list {module}");
        assert_eq!(run(&format!("import {module}\n1")).result, Ok(json!(1)), "{module}");
    }
}

#[test]
fn the_same_program_makes_the_same_calls_in_every_process() {
    let source = "s = set(str(i) + 'x' for i in range(100))\n[list(s), hash('a'), id([]), str(object), repr(call)]";
    let first = run(source);
    println!("{first:?}");
    assert!(first.result.is_ok());
    assert_eq!(first, run(source));
}
