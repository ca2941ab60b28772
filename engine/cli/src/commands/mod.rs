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

use crate::args::Command;
use crate::exit::{Exit, Failure};
use crate::place::Place;

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
