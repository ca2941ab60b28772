//! Programs: small scripts in Python that call tools and agents.
//!
//! A program sees the functions of a [`Host`], its inputs and nothing else: no clock, no chance, no files, no network. So the same
//! inputs and the same answers always give the same calls. [`Interpreter`] is the trait of an interpreter, and [`interpreter`] returns
//! the one that is used.
//!
//! A program may be hostile: it may never end, or exhaust the memory or the stack. So [`worker`] checks and runs it in a process of its own, within
//! [`Limits`]. The process asks for its calls over a protocol of lines ([`protocol`]).
//!
//! This crate makes no call itself and knows no run. The process that starts a worker answers its calls.

mod monty;
pub mod protocol;
mod value;
pub mod worker;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most bytes of a program's text.
pub const MAX_SOURCE_BYTES: usize = 256 << 10;
/// The most bytes of what a program prints. The rest is left out.
pub const MAX_PRINTED_BYTES: usize = 64 << 10;

/// The bounds of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Seconds that the program computes. Time in which it waits for answers does not count.
    pub seconds: u32,
    /// MiB of memory.
    pub memory_mib: u32,
    /// Functions that call each other.
    pub depth: u32,
    /// Calls of tools and agents, and documents that are read.
    pub calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { seconds: 20, memory_mib: 256, depth: 500, calls: 10_000 }
    }
}

/// A program to execute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The name of its file, for messages.
    pub name: String,
    /// Its text.
    pub source: String,
    /// Values that it sees, by name.
    pub values: Map<String, Value>,
    /// Its bounds.
    pub limits: Limits,
    /// Whether its text is only checked, and nothing of it is executed.
    pub only_checks: bool,
}

/// A call that a program makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// `call(tool, …)`.
    Tool {
        /// The tool's id.
        tool: String,
        /// Its input.
        input: Map<String, Value>,
    },
    /// `agent(name, request, …)`.
    Agent {
        /// The agent's id, or that of a tool that delegates.
        name: String,
        /// The input of the delegation.
        input: Map<String, Value>,
        /// The schema that its result must meet.
        schema: Option<Value>,
    },
    /// `ask(question, …)`.
    Ask {
        /// The input of the question.
        input: Map<String, Value>,
    },
}

/// Kind of a callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Callee {
    /// A tool.
    Tool,
    /// An agent.
    Agent,
}

/// A tool or an agent that the text of a program calls by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// Its kind.
    pub callee: Callee,
    /// Its id, as the text has it. The tool of `ask` is `ask_master`.
    pub name: String,
    /// The line of the name, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The length of the name in the text, in bytes.
    pub bytes: usize,
}

/// An answer: a value, or the reason why there is none.
pub type Answer = Result<Value, String>;

/// Error of a host that cannot answer any more. The execution ends.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the process that started the program is gone")]
pub struct Gone;

/// The world of a program.
pub trait Host {
    /// Makes calls at the same time. Returns an answer for each, in their order. `first` is the number of the first call among all
    /// calls of the program, from 1.
    fn make(&mut self, first: u32, calls: Vec<Call>) -> Result<Vec<Answer>, Gone>;

    /// Returns the text of a document.
    fn document(&mut self, path: &str) -> Result<Answer, Gone>;
}

/// The end of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The value of its last expression, or the fault that ended it.
    pub result: Result<Value, Fault>,
    /// The text that it printed.
    pub printed: String,
}

/// A fault of a program, with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{message}", self.place())]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 for a fault without a place.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The kind, such as `SyntaxError`, and the reason.
    pub message: String,
}

impl Fault {
    /// Returns a fault of the program as a whole.
    pub fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, message: message.into() }
    }

    fn place(&self) -> String {
        match self {
            Self { file, line: 0, .. } => format!("{file}: "),
            Self { file, line, column, .. } => format!("{file}:{line}:{column}: "),
        }
    }
}

/// An interpreter.
pub trait Interpreter: Send + Sync {
    /// Finds the first fault in the text of a program without executing it. Returns the tools and agents that a text without faults calls
    /// by name.
    fn check(&self, name: &str, source: &str) -> Result<Vec<Named>, Fault>;

    /// Executes a program. It must end by itself when it reaches one of its limits, except for memory.
    fn run(&self, program: &Program, host: &mut dyn Host) -> Result<Finished, Gone>;
}

/// Returns the interpreter of programs.
pub fn interpreter() -> &'static dyn Interpreter {
    &monty::Monty
}
