//! A host of programs for tests.

use std::io::{BufRead, BufReader, Write};

use baton_program::protocol::{FromWorker, ToWorker};
use baton_program::{Answer, Call, Finished, Limits, Program, worker};
use serde_json::{Value, json};

/// Executes a program whose calls `answer` answers. Returns all its calls, too.
pub(crate) fn execute(
    source: &str,
    values: Value,
    limits: Limits,
    answer: impl Fn(&Call) -> Answer,
) -> (Finished, Vec<(u32, Call)>) {
    let Value::Object(values) = values else { panic!("values have names") };
    let program = Program { name: "plan.py".to_owned(), source: source.to_owned(), values, limits, only_checks: false };
    let mut child = worker::command().unwrap().spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut line = serde_json::to_string(&program).unwrap();
    let mut made = Vec::new();
    loop {
        let _ended = writeln!(input, "{line}");
        let mut asked = String::new();
        output.read_line(&mut asked).unwrap();
        let reply = match serde_json::from_str(&asked) {
            Ok(FromWorker::Finished(finished)) => {
                assert!(child.wait().unwrap().success());
                return (finished, made);
            }
            Ok(FromWorker::Document(path)) => ToWorker::Document(Ok(json!(format!("text of {path}")))),
            Ok(FromWorker::Make { first, calls }) => {
                let answers = calls.iter().map(&answer).collect();
                made.extend((first..).zip(calls));
                ToWorker::Answers(answers)
            }
            Err(_) => {
                drop(input);
                let ended = child.wait_with_output().unwrap();
                let fault = worker::fault_of(&program, ended.status, &String::from_utf8_lossy(&ended.stderr));
                return (Finished { result: Err(fault), printed: String::new() }, made);
            }
        };
        line = serde_json::to_string(&reply).unwrap();
    }
}
