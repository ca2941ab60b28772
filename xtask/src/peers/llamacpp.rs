//! llama.cpp behind the server of `llama-cpp-python`, with models of random weights that `tiny_model.py` makes.
//!
//! The answers are random on purpose: a grammar makes their calls match the schemas of tools, and everything else is
//! arbitrary. Random calls may fail; runs must not hang, report wrong results or break. The server has further habits:
//! it interrupts a stream when another request comes. It cuts a stream off instead of reporting an error. It rejects
//! messages without content.

mod jobs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::ensure;
use serde_json::{Value, json};

use self::Expected::{Anything, Done, Failed};
use self::jobs::Job;
use super::environment::{Environment, Installer};
use super::program::{Access, FinishedRun, KEY, KEY_VALUE, Program, WRONG_KEY, write_json};
use super::server::Server;
use super::{Checked, Row};
use crate::project::root;

/// Name of the server, and the provider whose dialect it speaks.
pub(crate) const NAME: &str = "llamacpp";

const REQUIREMENTS: &str = include_str!("../../peers/llamacpp.txt");
const TINY_MODEL: &str = include_str!("../../peers/tiny_model.py");

/// Environment of its build: the result runs on any machine of this kind, and needs no images.
const BUILD: [(&str, &str); 1] = [("CMAKE_ARGS", "-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF")];

/// The folders whose texts make its vocabulary.
const TEXTS: [&str; 2] = ["examples/q3-sales", "tool-configs"];

/// The models by the names that the server has them by.
const LOADED: [Loaded; 5] = [
    Loaded { name: "chat", format: "chatml", window: 32_768, seed: 4 },
    Loaded { name: "calls", format: CALLS, window: 32_768, seed: 4 },
    Loaded { name: "calls-2", format: CALLS, window: 32_768, seed: 2 },
    Loaded { name: "calls-9", format: CALLS, window: 32_768, seed: 9 },
    Loaded { name: "narrow", format: CALLS, window: 512, seed: 4 },
];

/// The way to write prompts that offers tools.
const CALLS: &str = "chatml-function-calling";

/// Line in the server's log once a stream has begun.
const STREAM_BEGINS: &str = "POST /v1/chat/completions HTTP/1.1\" 200";

/// Line after a stream was interrupted by another request, or its client disconnected.
const STREAM_INTERRUPTED: &str = "Disconnected from client";

/// The runs with interrupted streams, the resumed one, and the one whose server stays away.
const TWO: [&str; 2] = ["one", "other"];
const RESUMED: &str = "resumed";
const KILLED: &str = "killed";

/// The exit codes of runs that came to an end which a random model may bring about: done, failed, at a limit.
const ENDS: [Option<i32>; 3] = [Some(0), Some(1), Some(4)];

/// A model as the server has it.
struct Loaded {
    name: &'static str,
    /// Chat format of its prompts.
    format: &'static str,
    /// Its window in tokens.
    window: u32,
    /// Seed of its weights and of its answers.
    seed: u32,
}

/// One thing that the server is asked for, and what must come of it.
struct Case {
    name: &'static str,
    /// Which of the server's models is asked.
    model: &'static str,
    job: Job,
    settings: Value,
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
    /// Any end that means something; every call names a tool that was offered, and has arguments in JSON.
    Anything,
}

/// The server with all that it needs.
struct Llama<'a> {
    environment: &'a Environment,
    config: PathBuf,
}

/// Tries every case.
pub(crate) fn check(installer: &Installer<'_>, program: &Program) -> anyhow::Result<Checked> {
    let environment = installer.environment(NAME, REQUIREMENTS, &BUILD)?;
    let llama = Llama::configured(&environment, program.folder())?;
    let server = llama.start("server.log")?;
    let doomed = llama.start("doomed.log")?;
    let jobs = program.folder().join("jobs");
    jobs::write(&jobs)?;
    let cases = cases();
    let mut accesses: Vec<_> = cases.iter().map(|case| case.access(&server)).collect();
    accesses.extend(TWO.map(|name| access(name, &server, long(600))));
    accesses.extend([RESUMED, KILLED].map(|name| access(name, &doomed, long(1_000))));
    program.write_models(&accesses)?;

    let mut rows = Vec::new();
    for case in &cases {
        let arguments = [&["--model", case.name], case.arguments].concat();
        rows.push(case.row(&program.run(case.name, &case.job.folder(&jobs), &arguments)?));
    }
    let talk = Job::Talk.folder(&jobs);
    rows.push(two_at_once(program, &talk, &server)?);
    let (row, doomed) = resumed(program, &talk, &llama, doomed)?;
    rows.push(row);
    rows.push(killed(program, &talk, doomed)?);
    let installed = REQUIREMENTS.lines().next().unwrap_or_default();
    Ok(Checked { summary: format!("{installed}: {} cases", rows.len()), rows })
}

/// Returns all cases of one run against a server that stays.
fn cases() -> Vec<Case> {
    let talk = |stream: bool| json!({"stream": stream, "min_tokens": 8});
    let calls = |stream: bool| json!({ "stream": stream });
    let forced = |stream: bool| json!({"stream": stream, "tool_choice": jobs::forced("report")});
    // The server streams no calls that the model may choose.
    let auto = || json!({"stream": false, "tool_choice": "auto"});
    let case = |name, model, job, settings, expected| Case { name, model, job, settings, key: KEY, arguments: &[], expected };
    let bounded = |case: Case| Case { arguments: &["--max-tokens", "100000"], ..case };
    let too_long = Failed(1, "context_exceeded", "maximum context length is 512 tokens");
    let broken_off = Failed(5, "model_unavailable", "without");
    let refused = Failed(5, "model_unavailable", WRONG_KEY);
    vec![
        case("plain", "chat", Job::Talk, talk(false), Done(&[])),
        case("plain-streamed", "chat", Job::Talk, talk(true), Done(&[])),
        case("documents", "chat", Job::Read, talk(false), Done(&[])),
        case("call", "calls", Job::Report, forced(false), Done(&["report"])),
        case("call-streamed", "calls", Job::Report, forced(true), Done(&["report"])),
        case("calls-auto", "calls", Job::Report, auto(), Anything),
        case("q3-forced", "calls", Job::Chain, calls(false), Done(jobs::CHAINED)),
        case("q3-forced-streamed", "calls", Job::Chain, calls(true), Done(jobs::CHAINED)),
        bounded(case("q3-auto", "calls", Job::Q3, auto(), Anything)),
        bounded(case("q3-auto-2", "calls-2", Job::Q3, auto(), Anything)),
        bounded(case("q3-auto-9", "calls-9", Job::Q3, auto(), Anything)),
        case("too-long", "narrow", Job::Read, talk(false), too_long),
        case("too-long-streamed", "narrow", Job::Read, talk(true), broken_off),
        Case { key: WRONG_KEY, ..case("wrong-key", "chat", Job::Talk, talk(true), refused) },
    ]
}

impl Case {
    fn access(&self, server: &Server) -> Access<'_> {
        Access { model: self.model, key: self.key, ..access(self.name, server, self.settings.clone()) }
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
                // It reports no usage in a stream.
                row.expect("usage is reported by the server", &finished.usage_is_reported(), &(self.settings["stream"] == false));
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
            Anything => {
                row.expect("the exit code is that of an end", &ENDS.contains(&finished.exit), &true);
                row.expect("calls were made", &(finished.calls_made() > 0), &true);
                // What the grammar must hold it to.
                row.expect("calls of tools that were not offered", &finished.refused_as("unknown_tool"), &0);
                row.expect("calls whose arguments are not JSON", &finished.refused_as("malformed_input"), &0);
            }
        }
        row.faults.extend(halves(finished));
        row
    }
}

impl<'a> Llama<'a> {
    /// Makes the models and the server's config in `folder`.
    fn configured(environment: &'a Environment, folder: &Path) -> anyhow::Result<Self> {
        let [script, config] = ["tiny_model.py", "config.json"].map(|name| folder.join(name));
        std::fs::write(&script, TINY_MODEL)?;
        let seeds = LOADED.map(|loaded| loaded.seed.to_string()).join(",");
        let mut make = environment.python();
        make.arg(&script).arg(folder).arg(seeds).args(TEXTS.map(|texts| root().join(texts)));
        let made = make.stdin(Stdio::null()).output()?;
        ensure!(made.status.success(), "the models cannot be made: {}", String::from_utf8_lossy(&made.stderr));
        let loaded = LOADED.map(|Loaded { name, format, window, seed }| {
            json!({
                "model": folder.join(format!("tiny-{seed}.gguf")), "model_alias": name, "chat_format": format, "n_ctx": window,
                "seed": seed, "n_threads": 1, "verbose": false,
            })
        });
        write_json(&config, &json!({"api_key": KEY_VALUE, "models": loaded}))?;
        Ok(Self { environment, config })
    }

    /// Starts it at a free port.
    fn start(&self, log: &str) -> anyhow::Result<Server> {
        Server::start(|port| self.at(port), HEALTH, &self.log(log))
    }

    /// Returns the log file of a server.
    fn log(&self, name: &str) -> PathBuf {
        self.environment.folder.join(name)
    }

    /// Returns the command that starts it at `port` of this machine alone.
    fn at(&self, port: u16) -> Command {
        let mut server = self.environment.python();
        server.args(["-m", "llama_cpp.server", "--config_file"]).arg(&self.config);
        server.env("HOST", "127.0.0.1").env("PORT", port.to_string());
        server
    }
}

/// Path that it answers without a key, and without waiting for its model.
const HEALTH: &str = "/openapi.json";

/// Returns the model `chat` at `server` under `name`.
fn access<'a>(name: &'a str, server: &Server, settings: Value) -> Access<'a> {
    Access { name, model: "chat", like: NAME, address: server.address("/v1"), key: KEY, settings }
}

/// Returns the settings of a streamed answer of at least `tokens`.
fn long(tokens: u32) -> Value {
    json!({"stream": true, "min_tokens": tokens})
}

/// Runs two jobs whose streams interrupt each other: each gets whole answers or none.
fn two_at_once(program: &Program, job: &Path, server: &Server) -> anyhow::Result<Row> {
    let interrupted = server.count_in_log(STREAM_INTERRUPTED)?;
    let begun = TWO.map(|name| program.begin(name, job, &["--model", name]));
    let mut row = Row { case: "two-at-once".to_owned(), saw: String::new(), faults: Vec::new() };
    let mut exits = Vec::new();
    for run in begun {
        let finished = run?.finished()?;
        row.expect("the exit code is 0 or 5", &matches!(finished.exit, Some(0 | 5)), &true);
        row.faults.extend(finished.faults().into_iter().chain(halves(&finished)));
        exits.push(finished.exit.unwrap_or(-1).to_string());
    }
    let interrupted = server.count_in_log(STREAM_INTERRUPTED)? - interrupted;
    row.expect("streams were interrupted", &(interrupted > 0), &true);
    row.saw = format!("exits {}, {interrupted} streams were interrupted", exits.join(" and "));
    Ok(row)
}

/// Kills the server in the middle of an answer; it stays away.
fn killed(program: &Program, job: &Path, server: Server) -> anyhow::Result<Row> {
    let run = program.begin(KILLED, job, &["--model", KILLED])?;
    server.wait_for_log(STREAM_BEGINS)?;
    drop(server);
    let finished = run.finished()?;
    let mut row = Row { case: KILLED.to_owned(), saw: finished.seen(), faults: finished.faults() };
    row.expect("exit code", &finished.exit, &Some(5));
    row.expect("error", &finished.report["error"]["code"].as_str(), &Some("model_unavailable"));
    row.expect("answers", &finished.entries("model_answered").count(), &0);
    Ok(row)
}

/// Kills server and program in the middle of an answer, starts both again, and resumes the run.
fn resumed(program: &Program, job: &Path, llama: &Llama<'_>, server: Server) -> anyhow::Result<(Row, Server)> {
    let run = program.begin(RESUMED, job, &["--model", RESUMED])?;
    server.wait_for_log(STREAM_BEGINS)?;
    let port = server.port;
    drop(server);
    run.kill()?;
    let server = Server::start_at(port, llama.at(port), HEALTH, &llama.log("doomed-again.log"))?;
    let finished = program.resume(RESUMED)?;
    let mut row = Row { case: RESUMED.to_owned(), saw: finished.seen(), faults: finished.faults() };
    row.expect("exit code", &finished.exit, &Some(0));
    row.expect("requests", &finished.entries("model_requested").count(), &2);
    row.expect("answers", &finished.entries("model_answered").count(), &1);
    row.faults.extend(halves(&finished));
    Ok((row, server))
}

/// Returns the faulty answers of a run: accepted ones without a finish reason.
fn halves(finished: &FinishedRun) -> Vec<String> {
    let answers = finished.entries("model_answered").filter(|row| row["data"]["answered"]["finish"].is_null());
    answers.map(|row| format!("turn {} of task {} was taken without its end", row["data"]["turn"], row["task"])).collect()
}
