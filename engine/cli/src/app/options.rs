//! The options of every command, and the output for a wrong command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::Args;

use crate::exit::{Exit, error_line};
use crate::screen::{self, Output, Screen};
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
    /// Store of the runs: a file, `postgres://USER@HOST/DATABASE`, or `memory` [default: .baton/baton.db in the project]
    #[arg(long, global = true, env = "BATON_STORE", value_name = "STORE", hide_env = true)]
    pub(crate) store: Option<String>,
    /// NATS server of tool services and workers, such as `nats://localhost:4222`
    #[arg(long, global = true, env = "BATON_BUS", value_name = "URL", hide_env = true, hide_env_values = true)]
    pub(crate) bus: Option<String>,
    /// Never ask questions, even on a terminal
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Print one line per event instead of a live tree
    #[arg(long, global = true)]
    pub(crate) plain: bool,
    /// Print only results, questions and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print the messages of all tasks, not only the root's
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

impl Common {
    /// Detects the abilities of the streams from the options, the terminal and the environment.
    pub(crate) fn screen(&self) -> Screen {
        let &Self { output, store: _, bus: _, no_input, plain, quiet, verbose } = self;
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let automatic = set("CI");
        let draws = io::stderr().is_terminal() && !automatic;
        let interactive = draws && io::stdin().is_terminal() && !no_input;
        Screen { output, interactive, live: draws && !dumb && !plain && !quiet, quiet, verbose }
    }
}

/// Whether arguments that cannot be read ask for JSON.
fn wants_json(arguments: &[OsString]) -> bool {
    let is_json = |form: &str| matches!(form, "json" | "ndjson");
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let pairs = words.windows(2).any(|pair| pair[0] == "--output" && is_json(pair[1]));
    let joined = words.iter().any(|word| word.strip_prefix("--output=").is_some_and(is_json));
    let is_set = words.iter().any(|word| word.starts_with("--output"));
    pairs || joined || (!is_set && std::env::var("BATON_OUTPUT").is_ok_and(|form| is_json(&form)))
}

/// Prints what is wrong with the arguments, or the requested help; returns the exit code.
pub(crate) fn refused(error: &clap::Error, arguments: &[OsString]) -> Exit {
    if !error.use_stderr() {
        let _closed = error.print();
        return Exit::Done;
    }
    // The message quotes the arguments. A file's name may be among them through completion, so its characters are escaped.
    let shown = error.render().to_string();
    if wants_json(arguments) {
        let message = shown.trim_end();
        screen::tell(&error_line("usage", message.strip_prefix("error: ").unwrap_or(message), Exit::Usage));
        return Exit::Usage;
    }
    screen::tell(&match shown.trim_end().strip_prefix("error:") {
        Some(rest) => text!("{}{}", style::bad("error:"), Text::block(rest)),
        None => Text::block(&shown),
    });
    Exit::Usage
}
