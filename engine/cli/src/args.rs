//! The command line: its verbs and options. [`crate::commands`] has one file per command.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{CommandFactory, FromArgMatches, Parser};

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
                  A run is named by its id, by the beginning of its id, or by @last."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs, grouped under the headings of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Set up", &["init", "new", "validate", "doctor", "docs", "tool", "completions"]),
    ("Run jobs", &["run", "resume", "continue", "answer", "deliver", "work", "listen", "pause", "steer", "cancel"]),
    ("Look at runs", &["ps", "show", "timeline", "graph", "doc"]),
    ("Repeat and compare", &["fork", "replay", "diff", "export"]),
    ("Share records", &["breadcrumb"]),
    ("Keep the store", &["verify", "gc", "store"]),
];

/// Returns the program's command line. Its help lists the verbs in groups.
pub(crate) fn program() -> clap::Command {
    let program = Cli::command();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, verbs) in GROUPS {
        let _infallible = writeln!(template, "\n{heading}:");
        for verb in verbs {
            let about = program.find_subcommand(verb).and_then(clap::Command::get_about).map(ToString::to_string);
            let _infallible = writeln!(template, "  {verb:<12} {}", about.unwrap_or_default());
        }
    }
    program.help_template(template + "\nGlobal options:\n{options}{after-help}\n")
}

/// Reads the command line.
pub(crate) fn parse(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
    let matches = program().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Splits a command line into words, as a shell does: a quoted part may hold spaces and the other kind of quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for character in line.chars() {
            match (quote, character) {
                (Some(open), _) if open == character => quote = None,
                (None, '"' | '\'') => quote = Some(character),
                (None, ' ') => words.push(String::new()),
                _ => words.last_mut().expect("there is a word").push(character),
            }
        }
        words
    }

    #[test]
    fn every_verb_has_a_heading_and_one_example_that_parses() {
        let program = program();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let verbs: BTreeSet<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(grouped.len(), verbs.len(), "each verb is in one group");
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), verbs);
        for verb in program.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Example:\n").unwrap_or_else(|| panic!("{} has no example", verb.get_name()));
            let words = words(examples.trim());
            assert_eq!(words[1], verb.get_name());
            parse(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }
}
