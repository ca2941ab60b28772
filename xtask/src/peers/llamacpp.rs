//! llama.cpp's own server, with a model of random weights that `tiny_model.py` makes.
//!
//! The answers are random on purpose: a grammar makes their calls match the schemas of tools, and everything else is
//! arbitrary. Random calls may fail; runs must not hang, report wrong results or break. Where a case needs a length or an
//! alphabet, a grammar in its settings defines the text.
//!
//! The server has habits of its own. It ignores a `tool_choice` that names a function. So a call is forced by `required` and
//! one offered tool. Its limits of tokens cut calls off, and it returns the halves. A request that finds no free slot waits
//! without an answer. Streams end with their answer or with the server, never for another request.

mod jobs;

use std::path::Path;
use std::process::Stdio;

use anyhow::ensure;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use self::Expected::{Anything, Cut, Done, Failed, Full};
use self::jobs::Job;
use super::environment::{Environment, Installer};
use super::llama_server::LlamaServer;
use super::program::{Access, FinishedRun, KEY, KEY_VALUE, Program, WRONG_KEY};
use super::server::Server;
use super::{Checked, Row};
use crate::project::root;

/// Name of the peer, and the provider whose dialect the server speaks.
pub(crate) const NAME: &str = "llamacpp";

const REQUIREMENTS: &str = include_str!("../../peers/llamacpp.txt");
const TINY_MODEL: &str = include_str!("../../peers/tiny_model.py");

/// Seed of the model's weights.
const WEIGHTS: u32 = 4;

/// The folders whose texts make its vocabulary.
const TEXTS: [&str; 2] = ["examples/q3-sales", "tool-configs"];

/// The model's tokens that end an answer and begin its calls.
const END: u32 = 2;
const CALLS: u32 = 3;

/// The windows of the servers, in tokens.
const WIDE: u32 = 32_768;
const NARROW: u32 = 1_024;

/// Number of requests that a server answers at the same time.
const SLOTS: u32 = 2;

/// Path of the state of the slots.
const SLOTS_PATH: &str = "/slots";

/// The runs at once, of which one waits for a slot; the resumed run, and the one whose server stays away.
const AT_ONCE: [&str; 3] = ["one", "two", "three"];
const RESUMED: &str = "resumed";
const KILLED: &str = "killed";

/// The exit codes of runs that came to an end which a random model may bring about: done, failed, at a limit.
const ENDS: [Option<i32>; 3] = [Some(0), Some(1), Some(4)];

/// One thing that the server is asked for, and what must come of it.
struct Case {
    name: &'static str,
    job: Job,
    settings: Value,
    /// Whether the server with the small window is asked.
    is_narrow: bool,
    key: &'static str,
    arguments: &'static [&'static str],
    expected: Expected,
}

/// Expected outcome of a run.
enum Expected {
    /// Success, with these calls.
    Done(&'static [&'static str]),
    /// An exit code, the code of the error, and words of it.
    Failed(i32, &'static str, &'static str),
    /// Failure after three turns with a call that is cut off, and so not executed.
    Cut,
    /// Failure after three turns that fill the window; older ones make room for the next.
    Full,
    /// Any end that means something; every call names a tool that was offered, and has arguments in JSON.
    Anything,
}

/// Tries every case.
pub(crate) fn check(installer: &Installer<'_>, program: &Program) -> anyhow::Result<Checked> {
    let environment = installer.environment(NAME, REQUIREMENTS)?;
    let model = program.folder().join("tiny.gguf");
    make_model(&environment, program.folder(), &model)?;
    let wide = LlamaServer { environment: &environment, model, threads: 1, window: WIDE, slots: SLOTS, key: Some(KEY_VALUE) };
    let narrow = LlamaServer { window: NARROW, model: wide.model.clone(), ..wide };
    let (server, doomed) = (wide.start("server.log")?, wide.start("doomed.log")?);
    let narrow = narrow.start("narrow.log")?;
    let jobs = program.folder().join("jobs");
    jobs::write(&jobs)?;
    let cases = cases();
    let mut accesses: Vec<_> = cases.iter().map(|case| case.access(if case.is_narrow { &narrow } else { &server })).collect();
    accesses.extend(AT_ONCE.map(|name| access(name, &server, long())));
    accesses.extend([RESUMED, KILLED].map(|name| access(name, &doomed, long())));
    program.write_models(&accesses)?;

    let mut rows = Vec::new();
    for case in &cases {
        let arguments = [&["--model", case.name], case.arguments].concat();
        rows.push(case.row(&program.run(case.name, &case.job.folder(&jobs), &arguments)?));
    }
    let talk = Job::Talk.folder(&jobs);
    rows.push(at_once(program, &talk, &server)?);
    let (row, doomed) = resumed(program, &talk, &wide, doomed)?;
    rows.push(row);
    rows.push(killed(program, &talk, doomed)?);
    let installed = REQUIREMENTS.lines().next().unwrap_or_default();
    Ok(Checked { summary: format!("{installed}: {} cases", rows.len()), rows })
}

/// Makes the model's file in `folder`.
fn make_model(environment: &Environment, folder: &Path, model: &Path) -> anyhow::Result<()> {
    let script = folder.join("tiny_model.py");
    std::fs::write(&script, TINY_MODEL)?;
    let mut make = environment.python();
    make.arg(&script).arg(model).arg(WEIGHTS.to_string()).args(TEXTS.map(|texts| root().join(texts)));
    let made = make.stdin(Stdio::null()).output()?;
    ensure!(made.status.success(), "the model cannot be made: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// Returns all cases of one run against a server that stays.
fn cases() -> Vec<Case> {
    let talk = |stream: bool| settings(stream, json!({"grammar": "root ::= [ -~]{8,}"}));
    // Each letter is two bytes, and each byte a token.
    let greek = |stream: bool| settings(stream, json!({"grammar": format!("root ::= [α-ω]{{{}}}", jobs::LETTERS)}));
    let forced = |stream: bool| settings(stream, json!({"tool_choice": "required", "parallel_tool_calls": false}));
    let cut = |stream: bool| settings(stream, json!({"tool_choice": "required", "logit_bias": [[CALLS, 20]]}));
    // Hardly ever an answer without calls.
    let auto =
        |stream: bool, seed: u32| settings(stream, json!({"tool_choice": "auto", "seed": seed, "logit_bias": [[END, -5]]}));
    let endless = settings(true, json!({"logit_bias": [[END, false]]}));
    let case = |name, job, settings, expected| Case { name, job, settings, is_narrow: false, key: KEY, arguments: &[], expected };
    let narrow = |case: Case| Case { is_narrow: true, ..case };
    let bounded = |case: Case| Case { arguments: &["--max-tokens", "100000"], ..case };
    let too_long = || Failed(1, "context_exceeded", "exceeds the available context size");
    let refused = Failed(5, "model_unavailable", WRONG_KEY);
    vec![
        case("plain", Job::Talk, talk(false), Done(&[])),
        case("plain-streamed", Job::Talk, talk(true), Done(&[])),
        case("greek", Job::Greek, greek(false), Done(&[])),
        case("greek-streamed", Job::Greek, greek(true), Done(&[])),
        case("documents", Job::Read, talk(false), Done(&[])),
        case("call", Job::Report, forced(false), Done(&["report"])),
        case("call-streamed", Job::Report, forced(true), Done(&["report"])),
        case("call-cut", Job::Cut, cut(false), Cut),
        case("call-cut-streamed", Job::Cut, cut(true), Cut),
        case("calls-auto", Job::Report, auto(false, 4), Anything),
        case("calls-auto-streamed", Job::Report, auto(true, 4), Anything),
        case("q3-forced", Job::Chain, forced(false), Done(jobs::CHAINED)),
        case("q3-forced-streamed", Job::Chain, forced(true), Done(jobs::CHAINED)),
        bounded(case("q3-auto", Job::Q3, auto(false, 4), Anything)),
        bounded(case("q3-auto-2", Job::Q3, auto(true, 2), Anything)),
        bounded(case("q3-auto-9", Job::Q3, auto(true, 9), Anything)),
        narrow(case("too-long", Job::Read, talk(false), too_long())),
        narrow(case("too-long-streamed", Job::Read, talk(true), too_long())),
        narrow(case("full-window", Job::Talk, endless, Full)),
        Case { key: WRONG_KEY, ..case("wrong-key", Job::Talk, talk(true), refused) },
    ]
}

impl Case {
    fn access(&self, server: &Server) -> Access<'_> {
        Access { key: self.key, ..access(self.name, server, self.settings.clone()) }
    }

    /// Returns the row of `finished`, with its faults.
    fn row(&self, finished: &FinishedRun) -> Row {
        let mut row = Row { case: self.name.to_owned(), saw: finished.seen(), faults: finished.faults() };
        let code = finished.report["error"]["code"].as_str();
        match self.expected {
            Done(calls) => {
                row.expect("exit code", &finished.exit, &Some(0));
                row.expect("error", &code, &None);
                row.expect("calls", &finished.executed(), &calls.to_vec());
                row.expect("usage is reported by the server", &finished.usage_is_reported(), &true);
                row.faults.extend(self.job.faults(finished));
            }
            Failed(exit, error, expected) => {
                row.expect("exit code", &finished.exit, &Some(exit));
                row.expect("error", &code, &Some(error));
                let words = &finished.report["error"]["message"];
                if !words.to_string().contains(expected) {
                    row.faults.push(format!("{words} does not contain {expected:?}"));
                }
            }
            Cut | Full => {
                row.expect("exit code", &finished.exit, &Some(1));
                row.expect("error", &code, &Some("no_handoff"));
                row.expect("answers", &finished.entries("model_answered").count(), &3);
                row.expect("calls", &finished.executed(), &Vec::new());
                let (cut, compacted) = if matches!(self.expected, Cut) { (3, 0) } else { (0, 2) };
                row.expect("calls that were cut off", &finished.refused_as("turn_discarded"), &cut);
                row.expect("compactions", &finished.entries("compacted").count(), &compacted);
            }
            Anything => {
                row.expect("the exit code is that of an end", &ENDS.contains(&finished.exit), &true);
                row.expect("calls were made", &(finished.calls_made() > 0), &true);
                // What the grammar must hold it to.
                row.expect("calls of tools that were not offered", &finished.refused_as("unknown_tool"), &0);
                row.expect("calls whose arguments are not JSON", &not_json(finished), &0);
            }
        }
        row.faults.extend(halves(finished));
        row
    }
}

/// Returns the settings of an answer: what every case has, and over it `more`.
fn settings(stream: bool, more: Value) -> Value {
    let mut settings = json!({"stream": stream, "seed": 4});
    settings.as_object_mut().into_iter().for_each(|settings| settings.extend(more.as_object().cloned().unwrap_or_default()));
    settings
}

/// Returns the model at `server` under `name`.
fn access<'a>(name: &'a str, server: &Server, settings: Value) -> Access<'a> {
    Access { name, model: "tiny", like: NAME, address: server.address("/v1"), key: KEY, settings }
}

/// Returns the settings of a streamed answer of [`jobs::LONG`] characters.
fn long() -> Value {
    let grammar = format!("root ::= line{{{}}}\nline ::= [ -~]{{20}}", jobs::LONG / 20);
    settings(true, json!({ "grammar": grammar }))
}

/// Waits until `server` has begun `number` answers that it has not ended.
fn wait_for_answers(server: &Server, number: usize) -> anyhow::Result<()> {
    let is_answering = |slot: &Value| slot["is_processing"] == true && slot["next_token"][0]["n_decoded"].as_u64() > Some(0);
    server.wait_until(SLOTS_PATH, KEY_VALUE, |slots| {
        slots.as_array().is_some_and(|slots| slots.iter().filter(|slot| is_answering(slot)).count() == number)
    })
}

/// Runs more jobs at once than the server has slots: each gets its whole answer.
fn at_once(program: &Program, job: &Path, server: &Server) -> anyhow::Result<Row> {
    let begun = AT_ONCE.map(|name| program.begin(name, job, &["--model", name]));
    wait_for_answers(server, SLOTS as usize)?;
    let mut row = Row { case: "three-at-once".to_owned(), saw: String::new(), faults: Vec::new() };
    let mut exits = Vec::new();
    for run in begun {
        let finished = run?.finished()?;
        row.expect("exit code", &finished.exit, &Some(0));
        row.expect("requests", &finished.entries("model_requested").count(), &1);
        row.faults.extend(finished.faults().into_iter().chain(halves(&finished)).chain(jobs::text_fault(&finished, jobs::LONG)));
        exits.push(finished.exit.unwrap_or(-1).to_string());
    }
    row.saw = format!("exits {} with {SLOTS} slots", exits.join(", "));
    Ok(row)
}

/// Kills the server in the middle of an answer; it stays away.
fn killed(program: &Program, job: &Path, server: Server) -> anyhow::Result<Row> {
    let run = program.begin(KILLED, job, &["--model", KILLED])?;
    wait_for_answers(&server, 1)?;
    drop(server);
    let finished = run.finished()?;
    let mut row = Row { case: KILLED.to_owned(), saw: finished.seen(), faults: finished.faults() };
    row.expect("exit code", &finished.exit, &Some(5));
    row.expect("error", &finished.report["error"]["code"].as_str(), &Some("model_unavailable"));
    row.expect("answers", &finished.entries("model_answered").count(), &0);
    Ok(row)
}

/// Kills server and program in the middle of an answer, starts both again, and resumes the run.
fn resumed(program: &Program, job: &Path, llama: &LlamaServer<'_>, server: Server) -> anyhow::Result<(Row, Server)> {
    let run = program.begin(RESUMED, job, &["--model", RESUMED])?;
    wait_for_answers(&server, 1)?;
    let port = server.port;
    drop(server);
    run.kill()?;
    let server = llama.start_at(port, "doomed-again.log")?;
    let finished = program.resume(RESUMED)?;
    let mut row = Row { case: RESUMED.to_owned(), saw: finished.seen(), faults: finished.faults() };
    row.expect("exit code", &finished.exit, &Some(0));
    row.expect("requests", &finished.entries("model_requested").count(), &2);
    row.expect("answers", &finished.entries("model_answered").count(), &1);
    row.faults.extend(halves(&finished).into_iter().chain(jobs::text_fault(&finished, jobs::LONG)));
    Ok((row, server))
}

/// Returns the number of calls whose arguments are not JSON. Numbers in JSON may be of any size, unlike those that Baton takes.
fn not_json(finished: &FinishedRun) -> usize {
    let refused = finished.entries("call_refused").filter(|row| row["result"]["error"]["code"] == "malformed_input");
    let is_json = |row: &&Value| row["input"].as_str().is_some_and(|input| serde_json::from_str::<IgnoredAny>(input).is_ok());
    refused.filter(|row| !is_json(row)).count()
}

/// Returns the faulty answers of a run: accepted ones without a finish reason.
fn halves(finished: &FinishedRun) -> Vec<String> {
    let answers = finished.entries("model_answered").filter(|row| row["data"]["answered"]["finish"].is_null());
    answers.map(|row| format!("turn {} of task {} was taken without its end", row["data"]["turn"], row["task"])).collect()
}
