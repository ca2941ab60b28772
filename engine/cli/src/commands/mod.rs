//! The commands, one per file. Each has its arguments and `run`, which prints its result and says how to exit.

pub(crate) mod answer;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod diff;
pub(crate) mod doc;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod gc;
pub(crate) mod graph;
pub(crate) mod init;
pub(crate) mod new;
pub(crate) mod ps;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod timeline;
pub(crate) mod tool;
pub(crate) mod validate;
pub(crate) mod verify;

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::place::Place;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a project, with a job that runs at once
    Init(init::InitArgs),
    /// Write a new tool, agent or job
    New(new::NewArgs),
    /// Check a job's configs and report every fault
    Validate(validate::ValidateArgs),
    /// Run a job
    Run(run::RunArgs),
    /// Continue a run that was interrupted, waited or is paused
    Resume(resume::ResumeArgs),
    /// Start a new run from some point of another
    Fork(fork::ForkArgs),
    /// Read a run again without models and tools, and compare every request
    Replay(replay::ReplayArgs),
    /// Show where two runs differ first, and why
    Diff(diff::DiffArgs),
    /// List runs, newest first
    Ps(ps::PsArgs),
    /// Show a run: tree, result, documents, questions
    Show(show::ShowArgs),
    /// Print a run's entries in order
    Timeline(timeline::TimelineArgs),
    /// Answer a question that waits for a person
    Answer(answer::AnswerArgs),
    /// Let a run take no further step until it is resumed, wherever it runs
    Pause(control::PauseArgs),
    /// End a run, or one of its tasks with all below it, wherever it runs
    Cancel(control::CancelArgs),
    /// Send a message into a running task's next request
    Steer(control::SteerArgs),
    /// Draw who delegates to whom, of a run or a job
    Graph(graph::GraphArgs),
    /// Look at the documents of a run
    Doc(doc::DocArgs),
    /// Write a run as something else: the script by which it runs again without a model
    Export(export::ExportArgs),
    /// Check that the whole store is as it was written
    Verify(verify::VerifyArgs),
    /// Remove old runs and give their room back
    Gc(gc::GcArgs),
    /// Check what runs need: store, jobs, keys, providers and their models
    Doctor(doctor::DoctorArgs),
    /// Look at tools and try them
    Tool(tool::ToolArgs),
    /// Print the script that completes commands in a shell
    Completions(completions::CompletionsArgs),
}

/// Does what the command line asks.
pub(crate) async fn perform(command: Command, place: &Place) -> Result<Exit, Failure> {
    match command {
        Command::Init(args) => init::run(&args, place),
        Command::New(args) => new::run(&args, place),
        Command::Validate(args) => validate::run(&args, place),
        Command::Run(args) => run::run(args, place).await,
        Command::Resume(args) => resume::run(args, place).await,
        Command::Fork(args) => fork::run(args, place).await,
        Command::Replay(args) => replay::run(&args, place).await,
        Command::Diff(args) => diff::run(&args, place).await,
        Command::Ps(args) => ps::run(&args, place).await,
        Command::Show(args) => show::run(&args, place).await,
        Command::Timeline(args) => timeline::run(&args, place).await,
        Command::Answer(args) => answer::run(&args, place).await,
        Command::Pause(args) => control::pause(&args, place).await,
        Command::Cancel(args) => control::cancel(&args, place).await,
        Command::Steer(args) => control::steer(&args, place).await,
        Command::Graph(args) => graph::run(&args, place).await,
        Command::Doc(args) => doc::run(&args, place).await,
        Command::Doctor(args) => doctor::run(&args, place).await,
        Command::Export(args) => export::run(&args, place).await,
        Command::Gc(args) => gc::run(args, place).await,
        Command::Verify(args) => verify::run(&args, place).await,
        Command::Tool(args) => tool::run(&args, place).await,
        Command::Completions(args) => completions::run(&args, place),
    }
}
