//! Writes results to stdout and everything else to stderr, in colour for people and never in JSON.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::Failure;
use crate::text::{Text, escaped_json, escaped_json_line};
use crate::versioned::Versioned;

/// The form of a command's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON value.
    Json,
    /// One JSON value per line, each as soon as it is known.
    Ndjson,
}

/// The form of the output, and the abilities of the streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// The form of results.
    pub(crate) output: Output,
    /// Whether the program may ask the person questions.
    pub(crate) interactive: bool,
    /// Whether a live tree may be drawn on stderr.
    pub(crate) live: bool,
    /// Whether only results, questions and errors are printed.
    pub(crate) quiet: bool,
    /// Whether the messages of all tasks are printed, not only the root's.
    pub(crate) verbose: bool,
}

impl Screen {
    /// Whether results are for people.
    pub(crate) fn is_text(self) -> bool {
        self.output == Output::Text
    }

    /// Prints one object as the result, with the version of its form: indented for `json`, on one line for `ndjson`.
    pub(crate) fn json<T: Serialize>(self, object: &T) -> Result<(), Failure> {
        self.value(&Versioned::of(object))
    }

    /// Prints one JSON value that has a form of its own, such as a schema.
    pub(crate) fn value<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let json = match self.output {
            Output::Ndjson => serde_json::to_string(value).map(escaped_json_line),
            Output::Text | Output::Json => serde_json::to_string_pretty(value).map(escaped_json),
        };
        let json = json.map_err(io::Error::from)?;
        let mut out = io::stdout().lock();
        out.write_all(json.as_bytes())?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// Prints a list of objects, each with the version of its form: one array for `json`, one line per object for `ndjson`.
    pub(crate) fn json_list<T: Serialize>(self, objects: &[T]) -> Result<(), Failure> {
        match self.output {
            Output::Ndjson => objects.iter().try_for_each(|object| self.json(object)),
            Output::Text | Output::Json => self.value(&objects.iter().map(Versioned::of).collect::<Vec<_>>()),
        }
    }

    /// Begins a list whose values have forms of their own and are printed as they come: one array, or one line per value.
    pub(crate) fn begin_list(self) -> JsonList {
        JsonList { screen: self, is_empty: true }
    }

    /// Prints text on stdout.
    #[expect(clippy::unused_self, reason = "printing goes through the screen")]
    pub(crate) fn text(self, text: &Text) -> Result<(), Failure> {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_str().as_bytes())?;
        if !text.as_str().ends_with('\n') {
            out.write_all(b"\n")?;
        }
        Ok(out.flush()?)
    }

    /// Prints content on stdout: byte for byte to a file or a pipe, with control characters escaped to a terminal.
    #[expect(clippy::unused_self, reason = "printing goes through the screen")]
    pub(crate) fn content(self, content: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            out.write_all(Text::block(&String::from_utf8_lossy(content)).as_str().as_bytes())?;
        } else {
            out.write_all(content)?;
        }
        Ok(out.flush()?)
    }

    /// Prints text that is neither a result nor an error on stderr.
    pub(crate) fn tell(self, text: &Text) {
        if !self.quiet {
            tell(text);
        }
    }
}

/// Prints text on stderr, also with `--quiet`. A closed stderr is ignored.
pub(crate) fn tell(text: &Text) {
    let text = text.as_str();
    let mut err = anstream::stderr().lock();
    let _closed = err.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { err.write_all(b"\n") });
}

/// A list that is printed value by value.
pub(crate) struct JsonList {
    screen: Screen,
    is_empty: bool,
}

impl JsonList {
    /// Prints the next value.
    pub(crate) fn add<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        if self.screen.output == Output::Ndjson {
            return self.screen.value(value);
        }
        let before = if std::mem::take(&mut self.is_empty) { "[\n  " } else { ",\n  " };
        // Line breaks inside texts are escaped, so every line break here is between tokens.
        let value = escaped_json(serde_json::to_string_pretty(value).map_err(io::Error::from)?).replace('\n', "\n  ");
        let mut out = io::stdout().lock();
        out.write_all(before.as_bytes())?;
        Ok(out.write_all(value.as_bytes())?)
    }

    /// Ends the list.
    pub(crate) fn end(self) -> Result<(), Failure> {
        if self.screen.output == Output::Ndjson {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(if self.is_empty { b"[]\n" } else { b"\n]\n" })?;
        Ok(out.flush()?)
    }
}
