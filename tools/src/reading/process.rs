//! The process that reads one document: this program, executed again.
//!
//! It gets the document on its standard input, and writes the text form as one line of JSON. It has no environment, no folder and no
//! network to know of, and ends by itself once it used its time or memory. A constructor that runs before `main` checks the variable
//! [`READS`] and does not return, so programs that embed the tools need no hook in their `main`.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use baton_tool::{ToolContext, ToolError};
use baton_types::document::Content;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::{Format, MAX_DOCUMENT_BYTES, MAX_TEXT_BYTES, TextForm};

/// The variable that makes a process a reader of the format that it names.
const READS: &str = "BATON_READS";
/// The most memory of the process, in bytes of address space.
const MEMORY: u64 = 1 << 30;
/// The most seconds that the process computes.
const SECONDS: u64 = 20;
/// The most bytes of its answer: text as JSON, with the list of sections.
const MAX_ANSWER_BYTES: u64 = 4 * MAX_TEXT_BYTES as u64;

/// A running reader, which is killed if its call is over first.
struct Reader(Child);

impl Drop for Reader {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Reads `content` in a process of its own. The inner error is the reason why the document cannot be read.
pub(super) async fn read(context: &ToolContext, format: Format, content: Content) -> Result<Result<TextForm, String>, ToolError> {
    let mut reader = match start(format, &content) {
        Ok(reader) => reader,
        Err(reason) => return Ok(Err(reason)),
    };
    let Some((input, output)) = reader.pipes() else { return Ok(Err(NO_PIPES.to_owned())) };
    let answer = context.blocking(move || exchange(input, output, &content)).await?;
    Ok(answer.map_err(not_started).and_then(|answer| form_in(&answer, &mut reader)))
}

/// Reads `content` in a process of its own, which this thread waits for. The error is the reason why it cannot be read.
pub(super) fn read_here(format: Format, content: &Content) -> Result<TextForm, String> {
    let mut reader = start(format, content)?;
    let (input, output) = reader.pipes().ok_or(NO_PIPES)?;
    let answer = exchange(input, output, content).map_err(not_started)?;
    form_in(&answer, &mut reader)
}

const NO_PIPES: &str = "its reader has no pipes";

fn not_started(error: io::Error) -> String {
    format!("no process can be started to read it: {error}")
}

impl Reader {
    fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.0.stdin.take().zip(self.0.stdout.take())
    }
}

/// Sends the document and returns the answer.
fn exchange(mut input: ChildStdin, output: ChildStdout, content: &Content) -> io::Result<Vec<u8>> {
    std::thread::scope(|scope| {
        // It may end before it has read everything.
        scope.spawn(move || input.write_all(content).ok());
        let mut answer = Vec::new();
        output.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).map(|_| answer)
    })
}

/// Returns the form in the answer of a reader, whose end it waits for.
fn form_in(answer: &[u8], reader: &mut Reader) -> Result<TextForm, String> {
    let status = reader.0.wait().map_err(not_started)?;
    // A library may have printed something before.
    let line = answer.iter().rposition(|byte| *byte == b'\n').map_or(answer, |at| &answer[at + 1..]);
    serde_json::from_slice(line).unwrap_or_else(|_cut_or_absent| Err(ended(status)))
}

fn start(format: Format, content: &Content) -> Result<Reader, String> {
    if content.len() > MAX_DOCUMENT_BYTES {
        return Err(format!("it has {} bytes; at most {} MiB can be read", content.len(), MAX_DOCUMENT_BYTES >> 20));
    }
    let program = baton_files::own_program().map_err(not_started)?;
    let mut command = Command::new(program.ok_or("this program cannot be executed again, which reading it needs")?);
    // It keeps no folder, no terminal and no secret.
    command.env_clear().env(READS, format.as_str()).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map(Reader).map_err(not_started)
}

/// Returns the reason for a process that ended without an answer.
fn ended(status: ExitStatus) -> String {
    const SIGXCPU: i32 = rustix::process::Signal::XCPU.as_raw();
    match status.signal() {
        Some(SIGXCPU) => format!("reading it takes longer than {SECONDS} seconds"),
        _ => format!("its reader failed or needed more than {} MiB of memory ({status})", MEMORY >> 20),
    }
}

// The macro writes the `unsafe` that a constructor needs. Nothing here needs what `main` sets up: no threads and no arguments.
ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn before_main() {
        if let Some(format) = std::env::var_os(READS) {
            let is_done = Format::named(&format.to_string_lossy()).is_some_and(|format| answer(format).is_ok());
            std::process::exit(i32::from(!is_done));
        }
    }
}

/// Reads the document from standard input, and writes its form.
fn answer(format: Format) -> io::Result<()> {
    let limit = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Core, limit(0))?;
    setrlimit(Resource::Cpu, Rlimit { current: Some(SECONDS), maximum: Some(SECONDS + 1) })?;
    setrlimit(Resource::As, limit(MEMORY))?;
    let mut content = Vec::new();
    io::stdin().lock().read_to_end(&mut content)?;
    let form = std::panic::catch_unwind(|| format.read(&content)).unwrap_or_else(|_| Err("its reader failed".to_owned()));
    let mut output = io::stdout().lock();
    output.write_all(b"\n")?;
    serde_json::to_writer(&mut output, &form)?;
    output.flush()
}
