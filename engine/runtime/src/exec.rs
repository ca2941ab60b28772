//! Commands as tools: JSON in, JSON out, no shell.
//!
//! The command is started by its arguments alone, in a fresh folder that holds the documents the input names, with
//! nothing in its environment but `PATH`, `LANG`, `BATON_CALL_ID`, `BATON_COMMAND_ID` and what the config names. It reads the call's input
//! on stdin and writes one JSON value to stdout. An object with the key `output` is an envelope ([`Envelope`]), and so is
//! one with the key `documents` where the tool may write them; any other value *is* the output. A command whose config has `"calls"` speaks
//! lines instead ([`lines`]).
//!
//! How its processes end is the business of [`processes`](crate::processes).

mod lines;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_tool::{PendingWrite, ToolContext, ToolError, ToolErrorKind, parse_path};
use baton_types::call::AfterExecution;
use baton_types::config::ExecSpec;
use baton_types::document::Content;
use baton_types::json::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::processes::{CALL_ID, Endings, Processes, Scratch};
use crate::signs::SignsOfLife;
use crate::trust::named_file;

/// The most bytes a command may write to stdout, and to stderr. Larger results belong into documents of another kind.
const OUTPUT_BYTES: usize = 64 << 20;
/// Number of bytes of stderr that an error shows: its end, where the cause usually is.
const STDERR_TAIL_BYTES: usize = 2_000;
/// Time that a pipe may stay open after the command and its descendants are gone, since an escaped process may hold
/// it.
const PIPE_GRACE: Duration = Duration::from_secs(1);

/// The variable of the environment with the key for the delivery of the call's result. Only tools with `"suspends": true` get it.
const DELIVERY_KEY: &str = "BATON_DELIVERY_KEY";

/// An envelope that a command may write to stdout instead of its output: with documents or control fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    /// The output; an empty object when the command has nothing but documents to say.
    #[serde(default = "nothing_but_documents")]
    output: Json,
    /// Documents to write; refused unless the tool's config has `"writes": true`.
    #[serde(default)]
    documents: Vec<EnvelopeDocument>,
    /// Next step after the turn's last result; refused unless the tool's config has `"controls_flow": true`.
    #[serde(default)]
    after_execution: Option<AfterExecution>,
}

fn nothing_but_documents() -> Json {
    Json::from(json!({}))
}

/// An envelope that a command may write to stdout instead of its output: the result of its call comes later.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuspendEnvelope {
    suspend: Suspend,
}

/// The moment and the output that the call waits for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suspend {
    /// Seconds from now on within which a result may be delivered. Without them, the call waits as long as its task lives.
    #[serde(default)]
    seconds: Option<u32>,
    /// The output that the call has after these seconds. Without it, it then ends as `timeout`.
    #[serde(default)]
    output: Option<Json>,
}

/// A document that a command writes. Exactly one of the two contents is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeDocument {
    path: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    content_base64: Option<String>,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Option<Vec<String>>,
}

/// A command, and the things of the shell that it needs.
pub(crate) struct Exec<'e> {
    pub(crate) spec: &'e ExecSpec,
    /// The job's folder, whose files the command may name.
    pub(crate) folder: Option<&'e Path>,
    /// Looks up an environment variable that the config names.
    pub(crate) variable: &'e (dyn Fn(&str) -> Option<String> + Send + Sync),
    /// Whether the command makes calls.
    pub(crate) makes_calls: bool,
    /// Tracks the end of a command that is stopped.
    pub(crate) endings: Endings,
    /// Receives a sign of life whenever the command writes.
    pub(crate) signs: Option<&'e SignsOfLife>,
}

/// Runs the command for the call of `context` and returns its output; its writes are collected by the context.
///
/// Dropping the future asks the command to end, and ends it by force soon after.
pub(crate) async fn run(context: &ToolContext, exec: Exec<'_>, input: &Json) -> Result<Json, ToolError> {
    let Exec { spec, folder, variable, makes_calls, endings, signs } = exec;
    let place = Scratch::new().map_err(|error| cannot("make a temporary folder", &error))?;
    lay_out_documents(context, &input.value(), place.path()).await?;
    let mut command = command(spec, folder)?;
    command.current_dir(place.path()).env(CALL_ID, context.idempotency_key());
    if context.may_suspend() {
        command.env(DELIVERY_KEY, context.delivery_key().await?);
    }
    for name in ["PATH", "LANG"].into_iter().chain(spec.env.iter().map(String::as_str)) {
        if let Some(value) = variable(name) {
            command.env(name, value);
        }
    }
    let processes =
        Processes::spawn(command, place, &endings).map_err(|error| cannot(&format!("start {:?}", spec.command[0]), &error))?;
    let text = if makes_calls {
        lines::converse(context, processes, input, signs).await?
    } else {
        answer(processes, input, signs).await?
    };
    accept(context, &text)
}

/// Returns the command with its arguments; one that names a file of the folder of the job or project is made absolute.
fn command(spec: &ExecSpec, folder: Option<&Path>) -> Result<Command, ToolError> {
    let resolve = |argument: &String| match named_file(spec.folder(folder), argument) {
        Ok(file) => Ok(file.unwrap_or_else(|| PathBuf::from(argument))),
        Err(error) => Err(cannot(&format!("use the file {argument}"), &error)),
    };
    let mut arguments = spec.command.iter().map(resolve).collect::<Result<Vec<PathBuf>, ToolError>>()?.into_iter();
    let program = arguments.next().ok_or_else(|| ToolError::new("the tool's command is empty"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Writes the documents that the input names into `place`: every path in `documents`, and the one in `path` if it exists.
async fn lay_out_documents(context: &ToolContext, input: &Value, place: &Path) -> Result<(), ToolError> {
    let mut paths: Vec<&str> = match input.get("documents") {
        Some(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if let Some(path) = input.get("path").and_then(Value::as_str)
        && context.document(path).is_ok()
    {
        paths.push(path);
    }
    for path in paths {
        let content = context.read(path).await?;
        let file = place.join(parse_path(path)?.as_str());
        let written = async {
            tokio::fs::create_dir_all(file.parent().unwrap_or(place)).await?;
            tokio::fs::write(&file, &content).await
        };
        written.await.map_err(|error| cannot(&format!("write document {path}"), &error))?;
    }
    Ok(())
}

/// The part of the shell that reads the stdout of a command.
trait ReadsStdout {
    /// Reads up to the end of the pipe. Returns the time that the command has from then on to end by itself.
    async fn read(&mut self, stdout: Option<&mut ChildStdout>, signs: Option<&SignsOfLife>) -> Duration;
}

/// End of a command.
struct End {
    status: ExitStatus,
    /// Whether it ended by itself.
    by_itself: bool,
    stderr: Captured,
}

/// Output of a pipe, at most [`OUTPUT_BYTES`].
#[derive(Default)]
struct Captured {
    bytes: Vec<u8>,
    overflowed: bool,
}

/// Feeds `input` to a command without calls. Returns the text that it writes, if it succeeds.
async fn answer(processes: Processes, input: &Json, signs: Option<&SignsOfLife>) -> Result<String, ToolError> {
    let input = input.text().as_bytes().to_vec();
    let feed = |stdin: Option<ChildStdin>| {
        tokio::spawn(async move {
            if let Some(mut stdin) = stdin {
                // A command may close stdin without reading it; that is its own affair.
                let _closed_early = stdin.write_all(&input).await;
            }
        })
    };
    let mut stdout = Captured::default();
    let end = finish(processes, feed, &mut stdout, signs).await?;
    if stdout.overflowed {
        return Err(end.failure(too_much("stdout")));
    }
    end.check()?;
    match std::str::from_utf8(&stdout.bytes).map(str::trim) {
        Ok("") => Err(end.failure("the command wrote nothing to stdout, where one JSON value is expected".to_owned())),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(end.failure("the command wrote something to stdout that is not UTF-8".to_owned())),
    }
}

/// Reads both outputs of a command, waits for its end, then ends whatever is left of it. `feed` starts a task that feeds its stdin: a
/// command that never reads its input must not keep its output from being read.
async fn finish(
    mut processes: Processes,
    feed: impl FnOnce(Option<ChildStdin>) -> JoinHandle<()>,
    reader: &mut impl ReadsStdout,
    signs: Option<&SignsOfLife>,
) -> Result<End, ToolError> {
    let group = processes.group();
    let (stdin, stdout, stderr) = processes.pipes();
    let feeding = feed(stdin);
    let mut err = Captured::default();
    let mut left = group.exit();
    let grace = {
        let read = async {
            let (first, second) = (reader.read(stdout, signs), err.fill(stderr, signs));
            tokio::pin!(first, second);
            // The command may never close the other pipe.
            tokio::select! {
                grace = &mut first => tokio::time::timeout(grace, second).await.map_or(Duration::ZERO, |other| grace.min(other)),
                grace = &mut second => tokio::time::timeout(grace, first).await.map_or(Duration::ZERO, |other| grace.min(other)),
            }
        };
        tokio::pin!(read);
        tokio::select! {
            grace = &mut read => grace,
            _ = &mut left => {
                group.kill().await;
                tokio::time::timeout(PIPE_GRACE, &mut read).await.unwrap_or_default()
            }
        }
    };
    feeding.abort();
    let mut by_itself = left.is_finished();
    if !by_itself {
        by_itself = tokio::time::timeout(grace, left).await.is_ok_and(|left| left.is_ok());
    }
    let status = processes.end().await.map_err(|error| cannot("wait for the command", &error))?;
    Ok(End { status, by_itself, stderr: err })
}

impl ReadsStdout for Captured {
    async fn read(&mut self, stdout: Option<&mut ChildStdout>, signs: Option<&SignsOfLife>) -> Duration {
        self.fill(stdout, signs).await
    }
}

impl Captured {
    /// Reads `pipe` to its end, or more than [`OUTPUT_BYTES`] of it. Returns the time that the command has from then on.
    async fn fill(&mut self, pipe: Option<impl AsyncRead + Unpin>, signs: Option<&SignsOfLife>) -> Duration {
        if let Some(pipe) = pipe {
            let mut pipe = pipe.take(OUTPUT_BYTES as u64 + 1);
            // An unreadable pipe counts as closed: the exit status decides.
            while let Ok(1..) = pipe.read_buf(&mut self.bytes).await {
                signs.into_iter().for_each(SignsOfLife::show);
            }
        }
        self.overflowed = self.bytes.len() > OUTPUT_BYTES;
        if self.overflowed { Duration::ZERO } else { Duration::MAX }
    }

    /// Returns the end of it, as text.
    fn tail(&self) -> String {
        let start = self.bytes.len().saturating_sub(STDERR_TAIL_BYTES);
        String::from_utf8_lossy(&self.bytes[start..]).trim().to_owned()
    }
}

impl End {
    /// Checks that the command ended with success.
    fn check(&self) -> Result<(), ToolError> {
        if self.stderr.overflowed {
            return Err(self.failure(too_much("stderr")));
        }
        if !self.status.success() {
            return Err(self.failure(format!("the command failed: {}", self.status)));
        }
        Ok(())
    }

    fn failure(&self, message: String) -> ToolError {
        ToolError::new(message).with_detail(json!({ "exit_code": self.status.code(), "stderr": self.stderr.tail() }))
    }
}

/// Reads what the command wrote, and collects its documents.
fn accept(context: &ToolContext, text: &str) -> Result<Json, ToolError> {
    let unreadable = |reason: String| {
        ToolError::new(format!("the command's answer cannot be read: {reason}")).with_detail(json!({ "stdout": preview(text) }))
    };
    let not_json = |error: serde_json::Error| unreadable(error.to_string());
    // Once the whole is checked, its parts are too.
    let whole = Json::parse(text).map_err(|error| unreadable(error.to_string()))?;
    let value = whole.value();
    if context.may_suspend() && value.get("suspend").is_some() {
        let Suspend { seconds, output } = serde_json::from_str::<SuspendEnvelope>(text).map_err(not_json)?.suspend;
        let until = seconds.map(|seconds| context.now().plus(Duration::from_secs(seconds.into())));
        return Err(match (until, output) {
            (Some(until), Some(output)) => context.wait_until(until, output),
            (until, None) => context.wait_for_delivery(until),
            (None, Some(_)) => ToolError::new("the command's answer has an output for a moment, but no seconds until then"),
        });
    }
    let is_envelope = value.get("output").is_some() || (context.may_write() && value.get("documents").is_some());
    if !is_envelope {
        return Ok(whole);
    }
    let envelope: Envelope = serde_json::from_str(text).map_err(not_json)?;
    for document in envelope.documents {
        let path = parse_path(&document.path)?;
        let content = document.bytes()?;
        context.write(PendingWrite {
            path,
            content,
            mime_type: document.mime_type,
            description: document.description,
            tags: document.tags,
        })?;
    }
    if let Some(after) = envelope.after_execution {
        context.after_execution(after);
    }
    Ok(envelope.output)
}

impl EnvelopeDocument {
    /// Returns the new content of the document.
    fn bytes(&self) -> Result<Content, ToolError> {
        let refuse = |reason: &str| Err(ToolError::new(format!("the command's document {:?} {reason}", self.path)));
        match (&self.content, &self.content_base64) {
            (Some(text), None) => Ok(text.as_bytes().into()),
            (None, Some(encoded)) => match BASE64.decode(encoded) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => refuse(&format!("holds no base64: {error}")),
            },
            _ => refuse("needs exactly one of content and content_base64"),
        }
    }
}

/// Returns the message about a command that writes more than [`OUTPUT_BYTES`] to a pipe.
fn too_much(pipe: &str) -> String {
    format!("the command wrote more than {} MiB to {pipe}", OUTPUT_BYTES >> 20)
}

/// Returns the beginning of what a command wrote, for an error.
fn preview(text: &str) -> String {
    text.chars().take(200).collect()
}

fn cannot(what: &str, error: &io::Error) -> ToolError {
    ToolError::new(format!("cannot {what}: {error}")).of_kind(ToolErrorKind::Failed)
}
