//! `baton completions`: prints the completion script for a shell. The values come from [`crate::app::complete`].

use clap::Args;
use clap_complete::env::Shells;

use crate::exit::{Exit, Failure};
use crate::place::Place;

/// The environment variable through which the script asks this program for values.
const VARIABLE: &str = "COMPLETE";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete commands in
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish"])]
    shell: String,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, place: &Place) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(&args.shell)
        .ok_or_else(|| Failure::not_found("shell", &args.shell, shells.names().map(str::to_owned)))?;
    let name = env!("CARGO_PKG_NAME").to_owned();
    let program = std::env::current_exe().ok().map_or_else(|| name.clone(), |path| path.display().to_string());
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, &name, &name, &program, &mut script)?;
    place.screen.content(&script)?;
    Ok(Exit::Done)
}
