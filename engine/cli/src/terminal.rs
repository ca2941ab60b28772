//! The terminal that the program runs in: its width, its clock, its person.

use std::io::{self, IsTerminal};

use baton_types::principal::Principal;
use baton_types::time::Timestamp;

/// How wide lines may be; a file has no width.
pub(crate) fn width() -> usize {
    if !io::stdout().is_terminal() && !io::stderr().is_terminal() {
        return 160;
    }
    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).clamp(40, 160)
}

/// The moment now, for elapsed times on the screen only.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}

/// The person at this terminal.
pub(crate) fn person() -> Principal {
    let name = ["BATON_USER", "USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| "unknown".to_owned());
    Principal::person(name)
}
