//! `run_program`: a model's own code calls the tools of its agent. `run_own_program`: the program of an agent does.
//!
//! The code runs in a process of its own ([`baton_program::worker`]), which asks for its calls and waits. The calls are numbered in the
//! order in which the program makes them, and the program gets the results of a `parallel` together. So it sees no order but its own, and
//! after a crash it makes the same calls again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::pin::pin;
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use baton_macros::tool;
use baton_program::protocol::{FromWorker, MAX_LINE_BYTES, ToWorker};
use baton_program::{Answer, Call, Fault, Finished, Limits, Program, worker};
use baton_schema::compile;
use baton_tool::{ToolContext, ToolError};
use baton_types::call::{CallResult, CallStatus, ErrorCode};
use baton_types::json;
use baton_types::spelling::nearest;
use futures_util::StreamExt;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::reading::text_of;

/// The most bytes of a worker's errors that are read.
const MAX_ERROR_BYTES: u64 = 4 << 10;
/// The most tools that an error lists.
const MAX_LISTED: usize = 20;
/// The tool by which a program asks its agent's master.
const ASKS: &str = "ask_master";
/// Prefix of the tools that delegate to an agent.
const ROUTE: &str = "route_to_";

/// Settings of the tools that run programs.
#[derive(Debug, Deserialize)]
struct Settings {
    seconds: u32,
    memory_mib: u32,
    calls: u32,
    concurrency: usize,
}

/// Output of `run_program`.
#[derive(Debug, Serialize)]
struct Output {
    output: Value,
    printed: String,
}

/// Executes `code`, which sees `input` as `inputs`.
#[tool]
async fn run_program(context: &ToolContext, code: String, input: Option<Map<String, Value>>) -> Result<Output, ToolError> {
    let Finished { result, printed } = execute(context, "program.py", code, input.unwrap_or_default(), Map::new()).await?;
    match result {
        Ok(output) => Ok(Output { output, printed }),
        Err(fault) => Err(error(&fault, &printed)),
    }
}

/// Executes `code`, the text of the file `name`, for the agent whose program it is. Its output must match `schema`.
#[tool]
async fn run_own_program(
    context: &ToolContext,
    name: String,
    code: String,
    request: String,
    inputs: Option<Map<String, Value>>,
    schema: Option<Value>,
) -> Result<Value, ToolError> {
    let values = Map::from_iter([("request".to_owned(), Value::String(request))]);
    let Finished { result, printed } = execute(context, &name, code, inputs.unwrap_or_default(), values).await?;
    context.print(&printed);
    let output = result.map_err(|fault| error(&fault, &printed))?;
    match schema.map(|schema| faults_of(&output, &schema)).transpose() {
        Ok(None | Some(None)) => Ok(output),
        Ok(Some(Some(faults))) => Err(error(
            &Fault::of_file(
                &name,
                format!("the value of the last expression is not the result that the agent promises: {faults}"),
            ),
            &printed,
        )),
        Err(why) => Err(ToolError::new(why)),
    }
}

fn error(fault: &Fault, printed: &str) -> ToolError {
    let mut detail = json!({});
    if fault.line > 0 {
        detail = json!({"line": fault.line, "column": fault.column});
    }
    if !printed.is_empty() {
        detail["printed"] = json!(printed);
    }
    let error = ToolError::new(fault.to_string());
    if detail == json!({}) { error } else { error.with_detail(detail) }
}

/// Returns why `value` does not match `schema`; `None` if it does.
fn faults_of(value: &Value, schema: &Value) -> Result<Option<String>, String> {
    let compiled = compile(schema).map_err(|why| format!("the schema cannot be used: {why}"))?;
    let faults = compiled.check(value).err().unwrap_or_default();
    let shown: Vec<String> =
        faults.iter().take(3).map(|fault| format!("{} {}", fault.pointer, fault.message).trim().to_owned()).collect();
    Ok((!faults.is_empty()).then(|| shown.join("; ")))
}

/// Checks and executes a program.
async fn execute(
    context: &ToolContext,
    name: &str,
    source: String,
    inputs: Map<String, Value>,
    mut values: Map<String, Value>,
) -> Result<Finished, ToolError> {
    let settings: Settings = context.settings()?;
    let limits =
        Limits { seconds: settings.seconds, memory_mib: settings.memory_mib, calls: settings.calls, ..Limits::default() };
    let failed = |fault| Finished { result: Err(fault), printed: String::new() };
    values.insert("inputs".to_owned(), Value::Object(inputs));
    values.insert("limits".to_owned(), json!(limits));
    let program = Program { name: name.to_owned(), source, values, limits, only_checks: false };
    let mut running =
        Running::start(&program).map_err(|why| ToolError::new(format!("no process can be started for the program: {why}")))?;
    let mut line = to_line(&program)?;
    loop {
        let Some(asked) = running.exchange(context, line).await? else {
            return Ok(failed(running.fault(context, &program).await?));
        };
        let answer = match asked {
            FromWorker::Finished(finished) => return Ok(finished),
            FromWorker::Document(path) => {
                let text = text_of(context, &path).await;
                ToWorker::Document(text.map(|text| json!(text.as_str())).map_err(|why| why.to_string()))
            }
            FromWorker::Make { first, calls } => {
                let made = (first..).zip(calls).map(|(number, call)| make(context, number, call));
                let answers: Vec<Result<Answer, ToolError>> =
                    stream::iter(made).buffered(settings.concurrency.max(1)).collect().await;
                ToWorker::Answers(answers.into_iter().collect::<Result<_, _>>()?)
            }
        };
        line = to_line(&answer)?;
    }
}

fn to_line(value: &impl Serialize) -> Result<Vec<u8>, ToolError> {
    let mut line = serde_json::to_vec(value).map_err(|why| ToolError::new(format!("the program cannot be answered: {why}")))?;
    line.push(b'\n');
    if line.len() as u64 > MAX_LINE_BYTES {
        return Err(ToolError::new(format!("the program gets more than {} MiB at once", MAX_LINE_BYTES >> 20)));
    }
    Ok(line)
}

/// Makes a call of the program.
async fn make(context: &ToolContext, number: u32, call: Call) -> Result<Answer, ToolError> {
    let (tool, input, schema) = match call {
        Call::Tool { tool, input } => (tool, input, None),
        Call::Ask { input } => (ASKS.to_owned(), input, None),
        Call::Agent { name, mut input, schema } => {
            if let (Some(schema), Some(Value::String(request))) = (&schema, input.get_mut("request")) {
                request.push_str("\n\nThe result must be a JSON value that meets this JSON Schema:\n");
                request.push_str(&schema.to_string());
            }
            let tool = if name.starts_with(ROUTE) { name } else { format!("{ROUTE}{name}") };
            (tool, input, schema)
        }
    };
    let result = context.call_tool(Some(&number.to_string()), &tool, Value::Object(input)).await?;
    Ok(answer_of(&tool, &result, schema.as_ref()))
}

/// Returns the output of a call, or the reason why it has none.
fn answer_of(tool: &str, result: &CallResult, schema: Option<&Value>) -> Answer {
    if result.status != CallStatus::Success {
        let hint = known_tools(tool, result).unwrap_or_default();
        return Err(format!("{tool} ended as {}: {}{hint}", result.status.as_str(), result.reason()));
    }
    let output = result.output.value();
    let Some(schema) = schema else { return Ok(output) };
    // An agent whose result is a text may have written JSON in it.
    let written = output.as_str().and_then(|text| json::read(text).ok());
    let mut why = None;
    for candidate in [Some(output), written].into_iter().flatten() {
        match faults_of(&candidate, schema)? {
            None => return Ok(candidate),
            Some(faults) => why = why.or(Some(faults)),
        }
    }
    Err(format!("the result of {tool} does not meet the schema: {}", why.unwrap_or_default()))
}

/// Returns the nearest tool and the tools that a program may call, if `tool` is none of them. The program sees only the text of an error.
fn known_tools(tool: &str, result: &CallResult) -> Option<String> {
    let error = result.error.as_ref().filter(|error| error.code == ErrorCode::UnknownTool)?;
    let detail = error.detail.value();
    let known: Vec<&str> = detail["callable_tools"].as_array()?.iter().filter_map(Value::as_str).collect();
    let listed = known.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
    let more = known.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let list = if known.is_empty() { "It may call none".to_owned() } else { format!("It may call {listed}{more}") };
    Some(match nearest(tool, known.iter().copied()) {
        Some(name) => format!("; did you mean {name:?}? {list}"),
        None => format!(". {list}"),
    })
}

/// A worker with its program. It is killed with its call.
struct Running {
    child: Child,
    /// The pipes; `None` while a line is exchanged.
    pipes: Option<Pipes>,
    /// The rest of the time in which it must answer.
    left: Duration,
    /// Whether it was killed because that time was over.
    is_late: bool,
}

struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Running {
    fn start(program: &Program) -> io::Result<Self> {
        let mut child = worker::command()?.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        let left = Duration::from_secs(program.limits.seconds.into()) + worker::GRACE;
        Ok(Self { child, pipes: Some(Pipes { input, output: BufReader::new(output) }), left, is_late: false })
    }

    /// Sends a line and returns the line that follows; `None` if the worker has ended. The program computes meanwhile. A worker that
    /// takes too long is killed.
    async fn exchange(&mut self, context: &ToolContext, line: Vec<u8>) -> Result<Option<FromWorker>, ToolError> {
        let Some(mut pipes) = self.pipes.take() else { return Ok(None) };
        // The time before a thread is free does not count.
        let (begin, begun) = oneshot::channel();
        let exchange = move || {
            let began = Instant::now();
            let _not_awaited = begin.send(());
            let mut asked = Vec::new();
            let sent = pipes.input.write_all(&line).and_then(|()| pipes.input.flush());
            // A worker that ends early may have sent its last line.
            let read = (&mut pipes.output).take(MAX_LINE_BYTES).read_until(b'\n', &mut asked);
            (pipes, sent.and(read).is_ok().then_some(asked), began.elapsed())
        };
        let mut exchanged = pin!(context.blocking(exchange));
        let late = async {
            match begun.await {
                Ok(()) => context.sleep(self.left).await,
                Err(_) => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            biased;
            done = &mut exchanged => Some(done),
            _ = late => None,
        };
        let (pipes, asked, took) = if let Some(done) = done {
            done?
        } else {
            self.is_late = true;
            let _already_gone = self.child.kill();
            exchanged.await?
        };
        self.pipes = Some(pipes);
        self.left = self.left.saturating_sub(took);
        if asked.as_ref().is_some_and(|asked| asked.len() as u64 == MAX_LINE_BYTES) {
            let message = "the program gives more than {} MiB at once, in its result or in calls";
            return Err(ToolError::new(message.replace("{}", &(MAX_LINE_BYTES >> 20).to_string())));
        }
        Ok(asked.and_then(|asked| serde_json::from_slice(&asked).ok()))
    }

    /// Returns the fault that ended the worker.
    async fn fault(&mut self, context: &ToolContext, program: &Program) -> Result<Fault, ToolError> {
        // A worker that is not ended by itself has written something else than a line. Without its pipes it ends.
        self.pipes = None;
        let stderr = self.child.stderr.take();
        let read = move || {
            let mut errors = Vec::new();
            if let Some(stderr) = stderr {
                let _unreadable = stderr.take(MAX_ERROR_BYTES).read_to_end(&mut errors);
            }
            errors
        };
        let errors = context.blocking(read).await?;
        Ok(match self.child.wait() {
            Ok(_) if self.is_late => worker::late(program),
            Ok(status) => worker::fault_of(program, status, &String::from_utf8_lossy(&errors)),
            Err(why) => Fault::of_file(&program.name, format!("the process of the program was lost: {why}")),
        })
    }
}
