//! The command line: what may be typed. One command per file in [`crate::commands`].

use clap::Parser;

use crate::app::options::Common;
use crate::commands::Command;

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
