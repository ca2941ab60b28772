//! The command line: what may be typed. One command per file in [`crate::commands`].

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::screen::Output;

/// Runs hierarchical multi-agent jobs from JSON.
#[derive(Debug, Parser)]
#[command(
    name = "baton",
    version,
    propagate_version = true,
    max_term_width = 110,
    after_help = "Exit codes: 0 done · 1 failed · 2 bad usage or config · 3 waiting for a person · 4 limit reached ·\n\
                  5 provider or key unavailable · 6 not found · 130 interrupted (resumable)\n\
                  Runs are named by id, by a beginning of it, or by @last."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
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

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a project, with a job that runs at once
    Init(commands::init::InitArgs),
    /// Write a new tool, agent or job
    New(commands::new::NewArgs),
    /// Check a job's configs and report every fault
    Validate(commands::validate::ValidateArgs),
    /// Run a job
    Run(commands::run::RunArgs),
    /// Continue a run that was interrupted, waited or is paused
    Resume(commands::resume::ResumeArgs),
    /// Start a new run from some point of another
    Fork(commands::fork::ForkArgs),
    /// Read a run again without models and tools, and compare every request
    Replay(commands::replay::ReplayArgs),
    /// Show where two runs differ first, and why
    Diff(commands::diff::DiffArgs),
    /// List runs, newest first
    Ps(commands::ps::PsArgs),
    /// Show a run: tree, result, documents, questions
    Show(commands::show::ShowArgs),
    /// Print a run's entries in order
    Timeline(commands::timeline::TimelineArgs),
    /// Answer a question that waits for a person
    Answer(commands::answer::AnswerArgs),
    /// Let a run take no further step until it is resumed, wherever it runs
    Pause(commands::control::PauseArgs),
    /// End a run, or one of its tasks with all below it, wherever it runs
    Cancel(commands::control::CancelArgs),
    /// Send a message into a running task's next request
    Steer(commands::control::SteerArgs),
    /// Draw who delegates to whom, of a run or a job
    Graph(commands::graph::GraphArgs),
    /// Look at the documents of a run
    Doc(commands::doc::DocArgs),
    /// Write a run as something else: the script by which it runs again without a model
    Export(commands::export::ExportArgs),
    /// Check that the whole store is as it was written
    Verify(commands::verify::VerifyArgs),
    /// Remove old runs and give their room back
    Gc(commands::gc::GcArgs),
    /// Check what runs need: store, jobs, keys, providers and their models
    Doctor(commands::doctor::DoctorArgs),
    /// Look at tools and try them
    Tool(commands::tool::ToolArgs),
    /// Print the script that completes commands in a shell
    Completions(commands::completions::CompletionsArgs),
}
