//! The options that every command has, and how a command line that is wrong is refused.

use clap::Args;

use crate::exit::Exit;
use crate::screen::{self, Output};
use crate::style;
use crate::text::{Text, text};

/// The options that every command has.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The form of the result on stdout; everything else goes to stderr
    #[arg(long, global = true, value_enum, default_value = "text", env = "BATON_OUTPUT", value_name = "FORM", hide_env = true)]
    pub(crate) output: Output,
    /// Where runs are kept: `memory`, or a file [default: .baton/baton.db beside the project]
    #[arg(long, global = true, env = "BATON_STORE", value_name = "STORE", hide_env = true)]
    pub(crate) store: Option<String>,
    /// Ask nothing, even on a terminal
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Draw nothing: one line per change of state
    #[arg(long, global = true)]
    pub(crate) plain: bool,
}

/// Prints what is wrong with the arguments, or the help that they ask for; returns how to exit.
pub(crate) fn refused(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _closed = error.print();
        return Exit::Done;
    }
    // It quotes the arguments, and a file's name may have become one by completion.
    let shown = error.render().to_string();
    screen::tell(&match shown.trim_end().strip_prefix("error:") {
        Some(rest) => text!("{}{}", style::bad("error:"), Text::block(rest)),
        None => Text::block(&shown),
    });
    Exit::Usage
}
