//! The lines between a worker and the process that started it: one JSON value each.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Answer, Call, Finished};

/// The most bytes of a line.
pub const MAX_LINE_BYTES: u64 = 64 << 20;

/// A line of the worker.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// It wants answers to calls, which are made at the same time. It waits for [`ToWorker::Answers`].
    Make {
        /// The number of the first call among all calls of the program, from 1.
        first: u32,
        /// The calls.
        calls: Vec<Call>,
    },
    /// It wants the text of a document. It waits for [`ToWorker::Document`].
    Document(String),
    /// The program has ended, and so does the worker.
    Finished(Finished),
}

/// A line for the worker, after the first line, which is the [`Program`](crate::Program).
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// The answers to calls, in the order of the calls.
    Answers(Vec<Answer>),
    /// The text of a document.
    Document(Answer),
}

/// Reads a line. A line that is too long is an error.
pub(crate) fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    input.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// Writes a line.
pub(crate) fn write<T: Serialize>(output: &mut impl Write, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    output.write_all(b"\n")?;
    output.flush()
}
