//! The options of every command, and the output for a wrong command line.

use clap::Args;

use crate::exit::Exit;
use crate::screen::{self, Output};
use crate::style;
use crate::text::{Text, text};

/// The options that every command has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Common {
    /// Form of the result on stdout: text, json, or ndjson (one JSON value per line). Everything else goes to stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        env = "BATON_OUTPUT",
        value_name = "FORM",
        hide_env = true,
        hide_possible_values = true
    )]
    pub(crate) output: Output,
    /// Store of the runs: a file, or `memory` [default: .baton/baton.db in the project]
    #[arg(long, global = true, env = "BATON_STORE", value_name = "STORE", hide_env = true)]
    pub(crate) store: Option<String>,
    /// Never ask questions, even on a terminal
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Print one line per event instead of a live tree
    #[arg(long, global = true)]
    pub(crate) plain: bool,
}

/// Prints what is wrong with the arguments, or the requested help; returns the exit code.
pub(crate) fn refused(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _closed = error.print();
        return Exit::Done;
    }
    // The message quotes the arguments. A file's name may be among them through completion, so its characters are escaped.
    let shown = error.render().to_string();
    screen::tell(&match shown.trim_end().strip_prefix("error:") {
        Some(rest) => text!("{}{}", style::bad("error:"), Text::block(rest)),
        None => Text::block(&shown),
    });
    Exit::Usage
}
