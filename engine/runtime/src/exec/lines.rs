//! Commands that make calls: a protocol of lines on stdin and stdout.
//!
//! Each line is one JSON object. The command first reads `{"input": …}`. For each call it writes
//! `{"call": {"tool": …, "input": …, "name": …}}` and reads `{"result": {"name": …, "status": …, "output": …, "error": …}}`. Its last
//! line is `{"output": …}`, the envelope of other commands. Several calls may be open, and their results are in the order of the timeline.
//!
//! A command that breaks the protocol is killed at once, and its call fails with the reason. Time and memory are bounded, whatever
//! the command does. A result that the command does not read waits as a reference to the run's own copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use baton_tool::{BoxFuture, ToolContext, ToolError};
use baton_types::call::{CallError, CallResult, CallStatus};
use baton_types::document::DocumentRef;
use baton_types::json::{self, Json};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;

use super::{End, OUTPUT_BYTES, PIPE_GRACE, ReadsStdout, finish, preview, too_much};
use crate::processes::Processes;
use crate::signs::SignsOfLife;

/// The most calls of a command without a result, and the most results that it has not read.
const OPEN_CALLS: usize = 1_000;
/// The most calls of a command.
const CALLS: u32 = 10_000;
/// The most bytes of a line that an error is made from.
const PREVIEWED_BYTES: usize = 1_000;
/// The most names of calls in an error.
const SHOWN_CALLS: usize = 5;

/// A line with a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    call: Asked,
}

/// A call that a command makes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    tool: String,
    #[serde(default = "no_input")]
    input: Json,
    /// Its name among the calls of this command. Without one it has its number, from 1.
    #[serde(default)]
    name: Option<String>,
}

fn no_input() -> Json {
    Json::from(json!({}))
}

/// A line for the command.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ForCommand {
    Input(Json),
    Result(Named),
}

/// A result, and the name of its call.
struct Named(String, Arc<CallResult>);

impl Serialize for Named {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'r> {
            name: &'r str,
            status: CallStatus,
            output: &'r Json,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'r CallError>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            documents: &'r [DocumentRef],
        }
        let Self(name, result) = self;
        let CallResult { status, output, error, documents } = &**result;
        Shown { name, status: *status, output: &output.shown(), error: error.as_ref(), documents }.serialize(serializer)
    }
}

impl ForCommand {
    /// Returns the line. JSON has line breaks between its parts alone, where a space means the same.
    fn line(&self) -> serde_json::Result<String> {
        let mut line = serde_json::to_string(self)?.replace(['\n', '\r'], " ");
        line.push('\n');
        Ok(line)
    }
}

/// Lets the command of `processes` make its calls. Returns the line with its output, once it has ended with success.
pub(super) async fn converse(
    context: &ToolContext,
    processes: Processes,
    input: &Json,
    signs: Option<&SignsOfLife>,
) -> Result<String, ToolError> {
    let (to_command, for_command) = mpsc::channel(OPEN_CALLS + 1);
    let mut conversation = Conversation {
        context,
        to_command: Some(to_command),
        lines: 0,
        calls: 0,
        numbered: 0,
        open: BTreeSet::new(),
        output: None,
        fault: None,
    };
    conversation.send(ForCommand::Input(input.clone()))?;
    let end = finish(processes, |stdin| tokio::spawn(feed(stdin, for_command)), &mut conversation, signs).await?;
    conversation.output(&end)
}

/// Writes lines to the command, as fast as it reads them. Closes the pipe after the last one.
async fn feed(stdin: Option<ChildStdin>, mut lines: mpsc::Receiver<ForCommand>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(line) = lines.recv().await {
        let Ok(line) = line.line() else { return };
        // A command may close stdin without reading it; that is its own affair.
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A call in progress, which ends with its name.
type CallInProgress<'c> = BoxFuture<'c, (String, Result<Arc<CallResult>, ToolError>)>;

/// The calls of a command.
struct Conversation<'c> {
    context: &'c ToolContext,
    /// `None` once nothing more is sent: its stdin is closed.
    to_command: Option<mpsc::Sender<ForCommand>>,
    /// Number of lines that it wrote.
    lines: u32,
    /// Number of calls that it made.
    calls: u32,
    /// Number of calls without a name of their own.
    numbered: u32,
    /// The names of its calls without a result.
    open: BTreeSet<String>,
    output: Option<String>,
    /// The reason why it was killed.
    fault: Option<ToolError>,
}

impl ReadsStdout for Conversation<'_> {
    async fn read(&mut self, stdout: Option<&mut ChildStdout>, signs: Option<&SignsOfLife>) -> Duration {
        self.fault = match stdout {
            Some(stdout) => self.listen(stdout, signs).await.err(),
            None => None,
        };
        self.to_command = None;
        match (&self.fault, &self.output) {
            (Some(_), _) => Duration::ZERO,
            // A command that ends closes its stdout first. Its exit status explains more.
            (None, None) => PIPE_GRACE,
            (None, Some(_)) => Duration::MAX,
        }
    }
}

impl<'c> Conversation<'c> {
    /// Makes the calls that the command writes, and sends it their results, up to the end of its stdout.
    async fn listen(&mut self, stdout: &mut ChildStdout, signs: Option<&SignsOfLife>) -> Result<(), ToolError> {
        let mut stdout = BufReader::new(stdout.take(OUTPUT_BYTES as u64 + 1));
        let (mut open, mut line) = (FuturesUnordered::<CallInProgress<'c>>::new(), Vec::new());
        loop {
            tokio::select! {
                // A call is made before the next line is read, so calls have the order of their lines.
                biased;
                Some((name, result)) = open.next() => {
                    self.open.remove(&name);
                    let result = result?;
                    self.send(ForCommand::Result(Named(name, result)))?;
                }
                read = stdout.read_until(b'\n', &mut line) => {
                    signs.into_iter().for_each(SignsOfLife::show);
                    if stdout.get_ref().limit() == 0 {
                        return Err(ToolError::new(too_much("stdout")));
                    }
                    // An unreadable pipe counts as closed: the exit status decides.
                    let is_closed = read.is_err() || !line.ends_with(b"\n");
                    if !line.is_empty() {
                        open.extend(self.take_line(&line)?);
                        line.clear();
                    }
                    if is_closed {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes a line of the command. Returns the call that it makes, if it makes one.
    fn take_line(&mut self, line: &[u8]) -> Result<Option<CallInProgress<'c>>, ToolError> {
        self.lines += 1;
        let fault = |lines: u32, why: String| {
            let written = preview(&String::from_utf8_lossy(&line[..line.len().min(PREVIEWED_BYTES)]));
            ToolError::new(format!("line {lines} of the command {why}")).with_detail(json!({ "stdout": written }))
        };
        if self.output.is_some() {
            return Err(fault(self.lines, "comes after its output, which must be its last line".to_owned()));
        }
        // Without its end, the places in errors are all in line 1.
        let text = std::str::from_utf8(line).map_err(|_| fault(self.lines, "is not UTF-8".to_owned()))?.trim_end();
        let parts = serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
        let parts = parts.map_err(|error| fault(self.lines, format!("is not a JSON object: {error}")))?;
        // The derived reader would take a list for an object.
        let is_call = parts.get("call").is_some_and(|call| call.get().starts_with('{'));
        if is_call {
            let read = json::read::<CallLine>(text);
            let CallLine { call } =
                read.map_err(|error| fault(self.lines, format!("has a call that cannot be read: {error}")))?;
            return self.make(call).map(Some);
        }
        if !parts.contains_key("output") {
            let why = "is neither {\"call\": {\"tool\": …, \"input\": …}} nor {\"output\": …}";
            return Err(fault(self.lines, why.to_owned()));
        }
        if !self.open.is_empty() {
            let why = format!("has its output, but these calls have no result: {}", self.open_calls());
            return Err(fault(self.lines, why));
        }
        self.output = Some(text.to_owned());
        self.to_command = None;
        Ok(None)
    }

    /// Begins a call.
    fn make(&mut self, asked: Asked) -> Result<CallInProgress<'c>, ToolError> {
        self.calls += 1;
        if self.calls > CALLS {
            return Err(ToolError::new(format!("a command makes {CALLS} calls at most")));
        }
        if self.open.len() >= OPEN_CALLS {
            return Err(ToolError::new(format!("a command may have {OPEN_CALLS} calls without a result at the same time")));
        }
        let Asked { tool, input, name } = asked;
        let name = name.unwrap_or_else(|| {
            self.numbered += 1;
            self.numbered.to_string()
        });
        self.open.insert(name.clone());
        let (context, line) = (self.context, self.lines);
        Ok(Box::pin(async move {
            let mut result = context.call_tool(Some(&name), &tool, input).await;
            if let Err(error) = &mut result {
                error.message = format!("line {line} of the command: {}", error.message);
            }
            (name, result)
        }))
    }

    /// Sends a line to the command. An error if it has not read too many.
    fn send(&mut self, line: ForCommand) -> Result<(), ToolError> {
        match self.to_command.as_ref().map(|to_command| to_command.try_send(line)) {
            Some(Err(mpsc::error::TrySendError::Full(_))) => {
                Err(ToolError::new(format!("the command does not read the results of its calls: {OPEN_CALLS} of them wait")))
            }
            // It has closed its stdin.
            Some(Err(mpsc::error::TrySendError::Closed(_)) | Ok(())) | None => Ok(()),
        }
    }

    /// Returns the first names of the calls without a result.
    fn open_calls(&self) -> String {
        let names: Vec<&str> = self.open.iter().map(String::as_str).take(SHOWN_CALLS).collect();
        let more = if self.open.len() > SHOWN_CALLS { " and others" } else { "" };
        format!("{}{more}", names.join(", "))
    }

    /// Returns the line with the output of a command that has ended.
    fn output(self, end: &End) -> Result<String, ToolError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if end.by_itself || self.output.is_some() || end.stderr.overflowed {
            end.check()?;
        }
        let why = match self.output {
            Some(output) => return Ok(output),
            None if !self.open.is_empty() => {
                format!("while these calls had no result: {}", self.open_calls())
            }
            None => "before it wrote {\"output\": …}".to_owned(),
        };
        let what = if end.by_itself { "ended" } else { "closed its stdout" };
        Err(end.failure(format!("the command {what} {why}")))
    }
}
