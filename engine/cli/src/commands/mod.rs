//! The commands, one per file. Each file has its arguments and `run`, which prints the result and returns the exit code.

pub(crate) mod answer;
pub(crate) mod breadcrumb;
pub(crate) mod completions;
pub(crate) mod continue_run;
pub(crate) mod control;
pub(crate) mod deliver;
pub(crate) mod diff;
pub(crate) mod doc;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod gc;
pub(crate) mod graph;
pub(crate) mod init;
pub(crate) mod listen;
pub(crate) mod new;
pub(crate) mod ps;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod store;
pub(crate) mod timeline;
pub(crate) mod tool;
pub(crate) mod validate;
pub(crate) mod verify;
pub(crate) mod work;

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::place::Place;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a project with a job that runs at once
    #[command(after_help = "Example:\n  baton init demo")]
    Init(init::InitArgs),
    /// Create a tool, an agent, a job or a model script
    #[command(after_help = "Example:\n  baton new tool word_count")]
    New(new::NewArgs),
    /// Check the configs of jobs, and report every fault with its place and fix
    #[command(after_help = "Example:\n  baton validate jobs/sales")]
    Validate(validate::ValidateArgs),
    /// Run a job
    #[command(after_help = "Example:\n  baton run examples/q3-sales --out out")]
    Run(run::RunArgs),
    /// Continue a run that was interrupted, is paused, or waits for a person
    #[command(after_help = "Example:\n  baton resume @last")]
    Resume(resume::ResumeArgs),
    /// Send a further request to the agent of a run that has ended, in a new run
    #[command(after_help = "Example:\n  baton continue @last \"Now write it as an e-mail\"")]
    Continue(continue_run::ContinueArgs),
    /// Start a new run from a point in another run
    #[command(after_help = "Example:\n  baton fork @last --at 12 --set agents.writer.system_prompt=\"Be brief.\"")]
    Fork(fork::ForkArgs),
    /// Render every request of a run again and compare it with the recorded one
    #[command(after_help = "Example:\n  baton replay @last")]
    Replay(replay::ReplayArgs),
    /// Show where two runs first differ, why, and where to fork them
    #[command(after_help = "Example:\n  baton diff 7k2f @last")]
    Diff(diff::DiffArgs),
    /// List runs, newest first
    #[command(after_help = "Example:\n  baton ps --limit 5")]
    Ps(ps::PsArgs),
    /// Show a run: task tree, result, documents, questions, cost
    #[command(after_help = "Example:\n  baton show @last --task 0/1.1 --messages")]
    Show(show::ShowArgs),
    /// Print the timeline of a run
    #[command(after_help = "Example:\n  baton timeline @last --type function_tool --output ndjson")]
    Timeline(timeline::TimelineArgs),
    /// Answer a question that waits for a person
    #[command(after_help = "Example:\n  baton answer @last Q1 yes")]
    Answer(answer::AnswerArgs),
    /// Deliver the result of a call that waits for one from outside
    #[command(after_help = "Example:\n  baton deliver @last '{\"paid\": true}'")]
    Deliver(deliver::DeliverArgs),
    /// Execute queued runs, and resume runs that wait when a delivery, an answer or their time has come, until it is stopped
    #[command(after_help = "Example:\n  baton work --slots 16")]
    Work(work::WorkArgs),
    /// Start agents that are breadcrumbs, and tools that breadcrumbs request, whenever a record triggers one, until it is stopped
    #[command(after_help = "Example:\n  baton listen --script answers.json")]
    Listen(listen::ListenArgs),
    /// Pause a run (in any process) until it is resumed
    #[command(after_help = "Example:\n  baton pause @last")]
    Pause(control::PauseArgs),
    /// Cancel a run (in any process), or one task with all tasks below it
    #[command(after_help = "Example:\n  baton cancel @last writer --reason \"wrong file\"")]
    Cancel(control::CancelArgs),
    /// Send a message to a running task; its agent reads it with the next request
    #[command(after_help = "Example:\n  baton steer @last \"Use the figures of Q3\"")]
    Steer(control::SteerArgs),
    /// Draw the tasks of a run, or the agents of a job, as a graph
    #[command(after_help = "Example:\n  baton graph @last --format dot")]
    Graph(graph::GraphArgs),
    /// List, print, compare and export the documents of a run
    #[command(after_help = "Example:\n  baton doc diff @last report.md")]
    Doc(doc::DocArgs),
    /// Export a run as a model script for offline replay
    #[command(after_help = "Example:\n  baton export --script @last --out again.script.json")]
    Export(export::ExportArgs),
    /// Create, change, show, search and import breadcrumbs: records that outlive runs
    #[command(after_help = "Example:\n  baton breadcrumb search \"revenue of Q3\" --tag sales")]
    Breadcrumb(breadcrumb::BreadcrumbArgs),
    /// Check the store for damage, or one run for broken invariants
    #[command(after_help = "Example:\n  baton verify @last")]
    Verify(verify::VerifyArgs),
    /// Remove old runs and free their disk space
    Gc(gc::GcArgs),
    /// Copy a store: from a file to a database, back, or to another file
    #[command(after_help = "Example:\n  baton store copy .baton/baton.db postgres://baton@localhost/runs")]
    Store(store::StoreArgs),
    /// Check what runs need: store, jobs, keys, providers, models
    #[command(after_help = "Example:\n  baton doctor --offline")]
    Doctor(doctor::DoctorArgs),
    /// Write pages about the tools and agents of a job or a project, or check them
    #[command(alias = "gen-docs", after_help = "Example:\n  baton docs jobs/sales")]
    Docs(docs::DocsArgs),
    /// List, show, call and test tools
    #[command(after_help = "Example:\n  baton tool call write_file --path a.md --content \"# Title\"")]
    Tool(tool::ToolArgs),
    /// Print the completion script for a shell
    #[command(after_help = "Example:\n  baton completions bash")]
    Completions(completions::CompletionsArgs),
}

/// Executes the command.
pub(crate) async fn perform(command: Command, place: &Place) -> Result<Exit, Failure> {
    match command {
        Command::Init(args) => init::run(&args, place),
        Command::New(args) => new::run(&args, place),
        Command::Validate(args) => validate::run(&args, place),
        Command::Run(args) => run::run(args, place).await,
        Command::Resume(args) => resume::run(args, place).await,
        Command::Continue(args) => continue_run::run(args, place).await,
        Command::Fork(args) => fork::run(args, place).await,
        Command::Replay(args) => replay::run(&args, place).await,
        Command::Diff(args) => diff::run(&args, place).await,
        Command::Ps(args) => ps::run(&args, place).await,
        Command::Show(args) => show::run(&args, place).await,
        Command::Timeline(args) => timeline::run(&args, place).await,
        Command::Answer(args) => answer::run(&args, place).await,
        Command::Deliver(args) => deliver::run(&args, place).await,
        Command::Work(args) => work::run(&args, place).await,
        Command::Listen(args) => listen::run(&args, place).await,
        Command::Pause(args) => control::pause(&args, place).await,
        Command::Cancel(args) => control::cancel(&args, place).await,
        Command::Steer(args) => control::steer(&args, place).await,
        Command::Graph(args) => graph::run(&args, place).await,
        Command::Doc(args) => doc::run(&args, place).await,
        Command::Docs(args) => docs::run(&args, place),
        Command::Doctor(args) => doctor::run(&args, place).await,
        Command::Export(args) => export::run(&args, place).await,
        Command::Breadcrumb(args) => breadcrumb::run(args, place).await,
        Command::Gc(args) => gc::run(args, place).await,
        Command::Store(args) => store::run(args, place).await,
        Command::Verify(args) => verify::run(&args, place).await,
        Command::Tool(args) => tool::run(&args, place).await,
        Command::Completions(args) => completions::run(&args, place),
    }
}
