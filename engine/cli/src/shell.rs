//! Command lines that a person may paste into a shell.
//!
//! They contain names of documents, folders and runs, which come from models, jobs and received stores. Therefore every value is
//! added through [`CommandLine`], which quotes it.

use std::fmt::{self, Display, Formatter};

/// A command line of this program.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine {
    /// The command, which the program sets itself and which needs no quotes.
    words: &'static str,
    values: Vec<String>,
    options: Vec<String>,
}

/// Returns the command line of `baton` with `words`, such as `doc diff`.
pub(crate) const fn baton(words: &'static str) -> CommandLine {
    CommandLine { words, values: Vec::new(), options: Vec::new() }
}

impl CommandLine {
    /// Adds a positional argument.
    pub(crate) fn value(mut self, value: impl Display) -> Self {
        self.values.push(value.to_string());
        self
    }

    /// Adds an option without a value. The program sets its name itself.
    pub(crate) fn flag(mut self, name: &'static str) -> Self {
        self.options.push(name.to_owned());
        self
    }

    /// Adds an option with a value.
    pub(crate) fn option(mut self, name: &'static str, value: impl Display) -> Self {
        let value = value.to_string();
        let between = if value.starts_with('-') { '=' } else { ' ' };
        self.options.push(format!("{name}{between}{}", quoted(&value)));
        self
    }
}

impl Display for CommandLine {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(|value| quoted(value)).collect();
        write!(formatter, "baton {}", self.words)?;
        // A value that looks like an option comes last, after `--`.
        if self.values.iter().any(|value| value.starts_with('-')) {
            let words = self.options.iter().map(String::as_str).chain(["--"]).chain(values.iter().map(String::as_str));
            return words.into_iter().try_for_each(|word| write!(formatter, " {word}"));
        }
        values.iter().chain(&self.options).try_for_each(|word| write!(formatter, " {word}"))
    }
}

/// Quotes `value` so that every POSIX shell reads it as one literal word.
pub(crate) fn quoted(value: &str) -> String {
    if !value.is_empty() && value.chars().all(is_plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}

/// Returns true for a character without a special meaning in any shell, at any place in an argument.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "._-/:@,+".contains(character)
}

/// Returns true if every shell and this program's own parser read `text` as one literal word.
pub(crate) fn is_plain_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphanumeric())
        && text.chars().all(|character| character.is_alphanumeric() || "._-".contains(character))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_every_value() {
        let values =
            ["plain/page.md", "a;touch pwned", "it's", "$(touch pwned)", "`x`", "~", "*", "a b", "", "\\", "!x", "a\"b", "#c"];
        let line = values.iter().fold(baton("doc diff"), CommandLine::value).to_string();
        let arguments = line.strip_prefix("baton doc diff ").unwrap();
        let read = Command::new("sh").args(["-c", &format!("printf '%s\\n' {arguments}")]).output().unwrap();
        assert_eq!(String::from_utf8(read.stdout).unwrap(), values.map(|value| format!("{value}\n")).concat());
    }

    #[test]
    fn a_value_that_looks_like_an_option_stays_a_value() {
        assert_eq!(baton("doc cat").value("7f3a").value("-x").flag("--raw").to_string(), "baton doc cat --raw -- 7f3a -x");
        assert_eq!(baton("new agent").value("NAME").option("--job", "-j").to_string(), "baton new agent NAME --job=-j");
        assert_eq!(baton("show").value("7f3a").option("--task", "t0.1").to_string(), "baton show 7f3a --task t0.1");
    }
}
