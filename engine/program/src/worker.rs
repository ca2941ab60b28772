//! The process that executes one program: the program that links this crate, started again.
//!
//! It reads the program from its standard input and writes its calls to its standard output. It has no environment and no folder, it
//! cannot open files or start processes, and it ends by itself once it used its time or memory, or when the process that started it is gone. A
//! constructor that runs before `main` checks the variable [`RUNS_PROGRAM`] and does not return, so programs that embed the engine need no
//! hook in their `main`.
//!
//! The system counts the time in which a worker computes. A worker that gets no processor, or is stopped, uses none. So the process that
//! started it kills it when it takes [`GRACE`] longer than its program may.

use std::io::{self, BufReader, StdinLock, StdoutLock};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getppid, setrlimit};
use serde_json::{Map, json};

use crate::protocol::{FromWorker, ToWorker, read, write};
use crate::{Answer, Call, Fault, Finished, Gone, Host, Limits, MAX_SOURCE_BYTES, Named, Program, interpreter};

/// Time that a worker has in addition to the seconds of its program: for its start, its lines, and an operation that the interpreter
/// cannot interrupt. Then it is killed.
pub const GRACE: Duration = Duration::from_secs(3);

/// The variable that makes a process a worker: the number of the process that started it.
const RUNS_PROGRAM: &str = "BATON_RUNS_PROGRAM";
/// Bytes of address space for the worker itself, besides the memory of its program, where the system does not report them.
const OWN_MEMORY: u64 = 512 << 20;
/// Bytes of a page, as `/proc/self/statm` counts them. On systems with larger pages a program has more memory.
const PAGE: u64 = 4096;
/// Bytes of the stack of the thread that executes the program.
const STACK: usize = 64 << 20;

/// Returns the command that starts a worker, with pipes for its input, output and errors.
///
/// # Errors
///
/// If this program cannot be executed again, for instance because it is a library in the process of another program.
pub fn command() -> io::Result<Command> {
    let program = baton_files::own_program()?;
    let program = program.ok_or_else(|| {
        io::Error::other("a program in Python needs a second process of this executable, which cannot be started")
    })?;
    let mut command = Command::new(program);
    // In a group of its own: a Ctrl-C is for the process that started it, which may continue the run later.
    command.env_clear().env(RUNS_PROGRAM, std::process::id().to_string()).current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Checks the text of a program in a worker, which this thread waits for. Nothing of it is executed. Returns the tools and agents that it calls by
/// name.
///
/// # Errors
///
/// The first fault, or the reason why no worker can be started.
pub fn check(name: &str, source: &str) -> Result<Vec<Named>, Fault> {
    let lock = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    let known =
        lock().iter().find(|checked| checked.name == name && checked.source == source).map(|checked| checked.found.clone());
    if let Some(found) = known {
        return found;
    }
    let found = check_in_worker(name, source);
    let mut checked = lock();
    checked.truncate(MAX_CHECKED - 1);
    checked.insert(0, Checked { name: name.to_owned(), source: source.to_owned(), found: found.clone() });
    found
}

/// The most results of checks that are cached.
const MAX_CHECKED: usize = 32;

/// The results of the last checks, the newest first: a job is loaded several times.
static CHECKED: Mutex<Vec<Checked>> = Mutex::new(Vec::new());

/// A text and the result of its check.
struct Checked {
    name: String,
    source: String,
    found: Result<Vec<Named>, Fault>,
}

fn check_in_worker(name: &str, source: &str) -> Result<Vec<Named>, Fault> {
    let (name, source) = (name.to_owned(), source.to_owned());
    let program = Program { name, source, values: Map::new(), limits: Limits::default(), only_checks: true };
    let failed = |why: io::Error| Fault::of_file(&program.name, format!("the program cannot be checked: {why}"));
    let mut child = command().and_then(|mut command| command.spawn()).map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A worker that ends early returns the reason.
        let _ended = write(&mut input, &program);
    }
    let ended = child.wait_with_output().map_err(failed)?;
    match serde_json::from_slice(&ended.stdout) {
        Ok(FromWorker::Finished(finished)) => {
            let unreadable =
                |why: serde_json::Error| Fault::of_file(&program.name, format!("the program cannot be checked: {why}"));
            finished.result.and_then(|named| serde_json::from_value(named).map_err(unreadable))
        }
        Ok(_) | Err(_) => Err(fault_of(&program, ended.status, &String::from_utf8_lossy(&ended.stderr))),
    }
}

/// Returns the fault of a worker that ended without the end of its program. `errors` is what it wrote to its standard error.
pub fn fault_of(program: &Program, status: ExitStatus, errors: &str) -> Fault {
    const CPU: i32 = Signal::XCPU.as_raw();
    const KILL: i32 = Signal::KILL.as_raw();
    const SEGMENT: i32 = Signal::SEGV.as_raw();
    let Limits { memory_mib, .. } = program.limits;
    let message = match status.signal() {
        Some(CPU) => return late(program),
        _ if errors.contains("memory allocation of") => format!("the program needs more than {memory_mib} MiB of memory"),
        Some(SEGMENT) => "the program is nested too deeply: its process had no stack left".to_owned(),
        _ if errors.contains("overflowed its stack") => {
            "the program is nested too deeply: its process had no stack left".to_owned()
        }
        Some(KILL) => "the process of the program was killed".to_owned(),
        _ => format!("the process of the program failed ({status})"),
    };
    Fault::of_file(&program.name, message)
}

/// Returns the fault of a program that takes too long.
pub fn late(program: &Program) -> Fault {
    let seconds = program.limits.seconds;
    Fault::of_file(&program.name, format!("the program computes for longer than {seconds} seconds"))
}

// The macro writes the `unsafe` that a constructor needs. Nothing here needs what `main` sets up: no arguments, and threads of its own only.
ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn before_main() {
        if let Some(parent) = std::env::var_os(RUNS_PROGRAM) {
            let parent = parent.to_string_lossy().parse().unwrap_or_default();
            let work = std::thread::Builder::new().stack_size(STACK).spawn(move || work(parent));
            let is_done = work.is_ok_and(|work| matches!(work.join(), Ok(Ok(()))));
            std::process::exit(i32::from(!is_done));
        }
    }
}

/// Executes the program on standard input, for the process `parent`.
fn work(parent: i32) -> io::Result<()> {
    // A program that computes would not notice that the process which started it was killed. That process may be gone already.
    std::thread::spawn(move || {
        while getppid().is_some_and(|now| now.as_raw_pid() == parent) {
            std::thread::sleep(Duration::from_secs(1));
        }
        std::process::exit(1);
    });
    let mut lines = Lines { input: BufReader::new(io::stdin().lock()), output: io::stdout().lock() };
    let program: Program = read(&mut lines.input)?;
    confine(program.limits)?;
    let checked = check_text(&program);
    let finished = if program.only_checks || checked.is_err() {
        Finished { result: checked.map(|named| json!(named)), printed: String::new() }
    } else {
        interpreter().run(&program, &mut lines).map_err(io::Error::other)?
    };
    write(&mut lines.output, &FromWorker::Finished(finished))
}

/// Checks the text of a program before anything of it is executed.
fn check_text(Program { name, source, .. }: &Program) -> Result<Vec<Named>, Fault> {
    if source.len() > MAX_SOURCE_BYTES {
        let most = MAX_SOURCE_BYTES >> 10;
        return Err(Fault::of_file(name, format!("a program has {most} KiB at most, and this one has {} bytes", source.len())));
    }
    interpreter().check(name, source)
}

/// Takes from this process what its program must not use.
fn confine(limits: Limits) -> io::Result<()> {
    let limit = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    let seconds = u64::from(limits.seconds) + 1;
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds + 1) })?;
    setrlimit(Resource::As, limit(address_space().unwrap_or(OWN_MEMORY) + (u64::from(limits.memory_mib) << 20)))?;
    for nothing in [Resource::Core, Resource::Fsize, Resource::Nofile, Resource::Nproc] {
        setrlimit(nothing, limit(0))?;
    }
    Ok(())
}

/// Returns the bytes of address space that this process has now. They include the stack and the memory pool of this thread.
fn address_space() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse().ok()?;
    pages.checked_mul(PAGE)
}

/// The other end of a worker, as the host of its program.
struct Lines {
    input: BufReader<StdinLock<'static>>,
    output: StdoutLock<'static>,
}

impl Lines {
    fn exchange(&mut self, question: &FromWorker) -> Result<ToWorker, Gone> {
        write(&mut self.output, question).map_err(|_| Gone)?;
        read(&mut self.input).map_err(|_| Gone)
    }
}

impl Host for Lines {
    fn make(&mut self, first: u32, calls: Vec<Call>) -> Result<Vec<Answer>, Gone> {
        let asked = calls.len();
        match self.exchange(&FromWorker::Make { first, calls })? {
            ToWorker::Answers(answers) if answers.len() == asked => Ok(answers),
            ToWorker::Answers(_) | ToWorker::Document(_) => Err(Gone),
        }
    }

    fn document(&mut self, path: &str) -> Result<Answer, Gone> {
        match self.exchange(&FromWorker::Document(path.to_owned()))? {
            ToWorker::Document(answer) => Ok(answer),
            ToWorker::Answers(_) => Err(Gone),
        }
    }
}
