//! Where words go: results on stdout, everything else on stderr; colour for people, never in JSON.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::Failure;

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

/// What the program knows about where its words end up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// The form of results.
    pub(crate) output: Output,
    /// Whether a person can be asked.
    pub(crate) interactive: bool,
    /// Whether stderr can be drawn upon.
    pub(crate) live: bool,
}

impl Screen {
    /// Looks at the streams and the environment.
    pub(crate) fn detect(output: Output, no_input: bool, plain: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let automatic = set("CI");
        let draws = io::stderr().is_terminal() && !automatic;
        Self { output, interactive: draws && io::stdin().is_terminal() && !no_input, live: draws && !dumb && !plain }
    }

    /// Whether results are for people.
    pub(crate) fn is_text(self) -> bool {
        self.output == Output::Text
    }

    /// Prints one JSON result: indented for `json`, on one line for `ndjson`.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = match self.output {
            Output::Ndjson => serde_json::to_writer(&mut out, value),
            Output::Text | Output::Json => serde_json::to_writer_pretty(&mut out, value),
        };
        written.map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// Prints a list: one array for `json`, one line per element for `ndjson`.
    pub(crate) fn json_list<T: Serialize>(self, values: &[T]) -> Result<(), Failure> {
        match self.output {
            Output::Ndjson => values.iter().try_for_each(|value| self.json(value)),
            Output::Text | Output::Json => self.json(&values),
        }
    }

    /// Prints text on stdout as it is.
    #[expect(clippy::unused_self, reason = "printing goes through the screen")]
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        Ok(out.flush()?)
    }

    /// Tells the person something that is no result. A stderr that went away is not worth failing for.
    #[expect(clippy::unused_self, reason = "printing goes through the screen")]
    pub(crate) fn tell(self, text: &str) {
        let mut err = anstream::stderr().lock();
        let _closed =
            err.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { err.write_all(b"\n") });
    }
}

/// The few styles in use. They are named after what they say, so that a screen without colour loses nothing.
pub(crate) mod style {
    use owo_colors::{OwoColorize, Style};

    /// Applies `style` to `text`; streams that are no terminal drop it again.
    fn with(text: impl std::fmt::Display, style: Style) -> String {
        text.style(style).to_string()
    }

    /// Something good.
    pub(crate) fn good(text: impl std::fmt::Display) -> String {
        with(text, Style::new().green())
    }

    /// Something bad.
    pub(crate) fn bad(text: impl std::fmt::Display) -> String {
        with(text, Style::new().red().bold())
    }

    /// Something that needs a person, or waits.
    pub(crate) fn waiting(text: impl std::fmt::Display) -> String {
        with(text, Style::new().yellow())
    }

    /// Something at work.
    pub(crate) fn busy(text: impl std::fmt::Display) -> String {
        with(text, Style::new().cyan())
    }

    /// The name of a thing.
    pub(crate) fn name(text: impl std::fmt::Display) -> String {
        with(text, Style::new().bold())
    }

    /// Of less weight than the rest.
    pub(crate) fn faint(text: impl std::fmt::Display) -> String {
        with(text, Style::new().dimmed())
    }
}
