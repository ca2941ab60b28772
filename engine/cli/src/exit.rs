//! The exit codes of the program, and the failures that lead to them.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::io;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use baton_breadcrumb::BreadcrumbError;
use baton_store::StoreError;
use baton_types::call::CallStatus;
use baton_types::entry::{FinalState, RunEnded};
use baton_types::json::JsonError;
use serde_json::json;

use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};
use crate::versioned::Versioned;

/// The outcomes that a script can distinguish by the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done,
    /// The job, or the called tool, failed.
    Failed,
    /// The command line or a config is wrong; nothing was started.
    Usage,
    /// The run needs a person's answer to continue.
    Waiting,
    /// A limit was reached.
    Limit,
    /// A provider or its key is not available.
    Unavailable,
    /// The named run, task, document, tool or file does not exist.
    NotFound,
    /// The run stopped before its end, for example by Ctrl-C, and can be resumed.
    Interrupted,
}

impl Exit {
    /// Returns the exit code of the process.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Limit => 4,
            Self::Unavailable => 5,
            Self::NotFound => 6,
            Self::Interrupted => 130,
        }
    }

    /// Returns the outcome of a run that has ended.
    pub(crate) fn of_run(ended: &RunEnded) -> Self {
        match (ended.status, ended.state) {
            _ if ended.limit.is_some() => Self::Limit,
            (CallStatus::Success, FinalState::Completed) => Self::Done,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The reason why a command failed. Its text is one line, or several if it lists the known names.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for something that is not possible.
    #[error("{0}")]
    Usage(String),
    /// The configs are faulty; the text is the loader's report.
    #[error("{0}")]
    Faults(String),
    /// A name on the command line has no match.
    #[error("there is no {what} {}{}", quoted(.name), nearest(.known, .name))]
    NotFound {
        /// The kind of thing, such as "run".
        what: &'static str,
        /// The name on the command line.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The request is valid, but was refused.
    #[error("{0}")]
    Refused(String),
    /// A provider or its key is not available.
    #[error("{0}")]
    Unavailable(String),
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The result could not be written to stdout.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// The store failed.
    #[error("{0}")]
    Store(String),
    /// Another process has taken over the run and continues it.
    #[error("another process has taken over run {run} and continues it: {show}", run = .0, show = baton("show").value(.0))]
    Taken(String),
    /// The store cannot be written to at the moment, so the run stopped. It can be resumed once the store works again.
    #[error("{reason}\nnext:       {}", baton("resume").value(.run))]
    Stopped {
        /// The run.
        run: String,
        /// The store's error.
        reason: String,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(String),
}

impl Failure {
    /// Returns a [`Failure::NotFound`] with the existing names.
    pub(crate) fn not_found(what: &'static str, name: impl Into<String>, known: impl IntoIterator<Item = String>) -> Self {
        Self::NotFound { what, name: name.into(), known: known.into_iter().collect() }
    }

    /// Returns a [`Failure::File`], or a [`Failure::NotFound`] if the file does not exist.
    pub(crate) fn file(path: &std::path::Path, error: io::Error) -> Self {
        let path = path.display().to_string();
        if error.kind() == io::ErrorKind::NotFound { Self::not_found("file", path, []) } else { Self::File { path, error } }
    }

    /// Returns the fault of JSON from the command line. `what` names it.
    pub(crate) fn of_json(what: &str, error: &JsonError) -> Self {
        Self::Usage(match error {
            JsonError::Unreadable(error) => format!("{what} is not JSON: {error}. A text needs quotes, as in '\"paid\"'"),
            JsonError::NoValue { .. } => format!("{what} cannot be used: {error}"),
        })
    }

    /// Returns a store's error as a failure of the command.
    pub(crate) fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::UnknownRun(run) => Self::not_found("run", run.as_str(), []),
            error @ (StoreError::Held { .. }
            | StoreError::NotEmpty { .. }
            | StoreError::InUse { .. }
            | StoreError::Changed { .. }) => Self::Refused(error.to_string()),
            StoreError::Breadcrumb(error) => match error {
                BreadcrumbError::Unknown(id) => Self::not_found("breadcrumb", id.as_str(), []),
                BreadcrumbError::Invalid { .. } | BreadcrumbError::Schema { .. } => Self::Usage(error.to_string()),
                _ => Self::Refused(error.to_string()),
            },
            error => Self::Store(match error.to_string() {
                reason if reason.contains("readonly database") => {
                    "the store cannot be written to: its runs can be read, but none can be started or changed; make its file and its folder \
                     writable, or choose another store with --store FILE"
                        .to_owned()
                }
                reason => reason,
            }),
        }
    }

    /// Returns the exit code for this failure.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Faults(_) => Exit::Usage,
            Self::NotFound { .. } => Exit::NotFound,
            Self::Unavailable(_) => Exit::Unavailable,
            Self::Taken(_) | Self::Stopped { .. } => Exit::Interrupted,
            Self::Refused(_) | Self::File { .. } | Self::Output(_) | Self::Store(_) | Self::Engine(_) => Exit::Failed,
        }
    }

    /// Returns the failure for programs, as one line of JSON.
    pub(crate) fn json(&self) -> Text {
        let code = match self {
            Self::Usage(_) => "usage",
            Self::Faults(_) => "config",
            Self::NotFound { .. } => "not_found",
            Self::Refused(_) => "refused",
            Self::Unavailable(_) => "unavailable",
            Self::File { .. } => "file",
            Self::Output(_) => "output",
            Self::Store(_) => "store",
            Self::Taken(_) => "taken",
            Self::Stopped { .. } => "stopped",
            Self::Engine(_) => "engine",
        };
        error_line(code, &self.to_string(), self.exit())
    }

    /// Renders the failure for stderr: the loader's report as it is, any other failure after `error:`.
    pub(crate) fn shown(&self) -> Text {
        match self {
            Self::Faults(report) => Text::block(report),
            other => text!("{} {}", style::bad("error:"), Text::block(&other.to_string())),
        }
    }

    /// Whether the reader of stdout is gone (`baton timeline … | head`), which needs no message.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Renders an error as one line of JSON.
pub(crate) fn error_line(code: &str, message: &str, exit: Exit) -> Text {
    let error = json!({"error": {"code": code, "message": message, "exit_code": exit.code()}});
    Text::json_line(&Versioned::of(&error))
}

/// Renders a panic for stderr. The message is escaped, because it may quote any text.
pub(crate) fn panicked(panic: &PanicHookInfo<'_>) -> Text {
    let backtrace = Backtrace::capture();
    let panic = text!("{} {}", style::bad("internal error:"), Text::block(&panic.to_string()));
    match backtrace.status() {
        BacktraceStatus::Captured => Text::joined([panic, Text::block(&backtrace.to_string())], "\n"),
        _ => panic,
    }
}

/// Returns the end of a "there is no …" sentence: the nearest known name, or all of them if they are few.
pub(crate) fn nearest(known: &[String], name: &str) -> String {
    match baton_types::spelling::nearest(name, known.iter().map(String::as_str)) {
        Some(candidate) => format!("; did you mean {}?", quoted(candidate)),
        None if known.is_empty() => String::new(),
        None if known.len() <= 12 => {
            format!("; known: {}", known.iter().map(|known| quoted(known)).collect::<Vec<_>>().join(", "))
        }
        None => format!("; {} are known", known.len()),
    }
}

/// Returns a name as a sentence shows it: in quotation marks if it cannot be seen.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.trim().is_empty() { Cow::Owned(format!("\"{name}\"")) } else { Cow::Borrowed(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_one() {
        let known = ["write_file".to_owned(), "list_files".to_owned()];
        let failure = Failure::not_found("tool", "wirte_file", known);
        assert_eq!(failure.to_string(), "there is no tool wirte_file; did you mean write_file?");
        assert_eq!(failure.exit().code(), 6);
    }

    #[test]
    fn a_name_that_cannot_be_seen_is_quoted() {
        let failure = Failure::not_found("tag", "", ["     ".to_owned(), "csv".to_owned()]);
        assert_eq!(failure.to_string(), "there is no tag \"\"; known: \"     \", csv");
    }

    #[test]
    fn an_error_that_quotes_a_hostile_text_commands_no_terminal() {
        let shown = Failure::Usage("\u{1b}[2Jno\u{9b}31m \u{202e}job\nat all".to_owned()).shown();
        assert!(shown.as_str().ends_with(" \\u{1b}[2Jno\\u{9b}31m \\u{202e}job\nat all"), "{shown:?}");
    }

    #[test]
    fn a_reached_limit_outranks_the_state_of_the_run() {
        use baton_types::limits::LimitKind;
        let ended = |status, state, limit| RunEnded { state, status, limit };
        assert_eq!(Exit::of_run(&ended(CallStatus::Success, FinalState::Completed, None)), Exit::Done);
        assert_eq!(Exit::of_run(&ended(CallStatus::Partial, FinalState::Completed, Some(LimitKind::Turns))), Exit::Limit);
        assert_eq!(Exit::of_run(&ended(CallStatus::Failed, FinalState::Failed, None)), Exit::Failed);
        assert_eq!(Exit::of_run(&ended(CallStatus::Failed, FinalState::Completed, None)), Exit::Failed);
    }
}
