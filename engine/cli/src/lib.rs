//! Hierarchical multi-agent jobs from JSON: library and program.
//!
//! As a library: [`Engine::builder`] embeds the engine. As a program: [`main`] is the whole command line, with your own tools:

mod app;
mod approvals;
mod args;
mod cassettes;
mod commands;
mod embedded;
mod environment;
mod exit;
mod export;
mod job;
mod person;
mod place;
mod programs;
mod project;
mod question;
mod records;
mod runs;
mod scaffold;
mod scratch;
mod screen;
mod session;
mod shell;
mod signals;
mod skeleton;
mod style;
mod terminal;
mod text;
mod trust;
mod variables;
mod versioned;
mod view;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

pub use baton_config as config;
pub use baton_machine as machine;
pub use baton_macros::tool;
pub use baton_models as models;
pub use baton_runtime as runtime;
pub use baton_runtime::{Engine, EngineBuilder, RunHandle, TrustEverything};
pub use baton_schema as schema;
pub use baton_store as store;
pub use baton_tool as function;
pub use baton_tool::{ToolContext, ToolError};
pub use baton_types as types;

// Names the built-in tools, so that they are linked.
use baton_tools as _;

use crate::exit::Exit;
use crate::place::Place;

/// Returns the configs of the built-in tools, as `(file name, text)`, ordered by name.
pub fn builtin_tool_configs() -> &'static [(&'static str, &'static str)] {
    embedded::TOOL_CONFIGS
}

/// Runs the whole command line, with every tool that is linked into the program. A program with its own tools calls this from
/// its `main`.
///
/// From here on, other processes of the same user on Linux can neither trace this process nor read it through `/proc`. Commands
/// of tools must not read API keys from its environment or memory. The process leaves no core dumps either.
pub fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let _not_permitted = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    std::panic::set_hook(Box::new(|panic| screen::tell(&exit::panicked(panic))));
    clap_complete::CompleteEnv::with_factory(args::program).complete();
    ExitCode::from(run_with(std::env::args_os()))
}

/// Runs the command line with `arguments`, the program's name first; returns the exit code. Meant for tests of a program's own
/// tools.
pub fn run_with<I, T>(arguments: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let cli = match args::parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => return app::options::refused(&error, &arguments).code(),
    };
    let screen = cli.common.screen();
    let ended = Place::here(screen, cli.common.store, cli.common.bus).and_then(|place| {
        let tokio =
            tokio::runtime::Runtime::new().map_err(|error| exit::Failure::Engine(format!("tokio cannot start: {error}")))?;
        let ended = tokio.block_on(commands::perform(cli.command, &place));
        // A thread that waits for the keyboard, or a tool that ignores cancellation, must not delay the exit.
        tokio.shutdown_background();
        ended
    });
    match ended {
        Ok(exit) => exit.code(),
        Err(failure) if failure.is_broken_pipe() => Exit::Done.code(),
        Err(failure) => {
            screen::tell(&if screen.is_text() { failure.shown() } else { failure.json() });
            failure.exit().code()
        }
    }
}
