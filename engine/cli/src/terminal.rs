//! The terminal of the program: its width, its clock and the person at it.

use std::io::{self, IsTerminal};

use baton_types::principal::Principal;
use baton_types::time::Timestamp;

/// Returns the largest width of lines. Without a terminal, it is 160.
pub(crate) fn width() -> usize {
    if !io::stdout().is_terminal() && !io::stderr().is_terminal() {
        return 160;
    }
    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).clamp(20, 160)
}

/// Returns the width at which texts on stdout are wrapped; `None` without a terminal, since programs read whole lines.
pub(crate) fn wrap_width() -> Option<usize> {
    io::stdout().is_terminal().then(width)
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
        .or_else(account)
        .unwrap_or_else(|| "somebody".to_owned());
    Principal::person(name)
}

/// Returns the name of the account that runs this process. Services and containers often have no variable with it.
#[cfg(unix)]
fn account() -> Option<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, of) = (fields.next()?, fields.next()?, fields.next()?);
        (of == id && !name.trim().is_empty()).then(|| name.to_owned())
    })
}

/// Returns no name: the variables above exist on every other system.
#[cfg(not(unix))]
fn account() -> Option<String> {
    None
}
