//! The terminal of the program: its width, its clock and the person at it.

use std::io::{self, IsTerminal};

use baton_types::principal::Principal;
use baton_types::time::Timestamp;

/// Returns the largest width of lines. Without a terminal, it is 160.
pub(crate) fn width() -> usize {
    if !io::stdout().is_terminal() && !io::stderr().is_terminal() {
        return 160;
    }
    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).clamp(40, 160)
}

/// Returns the current time, for elapsed times on the screen only.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}

/// Returns the person at this terminal.
pub(crate) fn person() -> Principal {
    let name = ["BATON_USER", "USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| "unknown".to_owned());
    Principal::person(name)
}
