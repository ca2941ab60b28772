//! Programs that tool functions start. They end like commands: with their run, with the handle, and with the engine.

use std::io;
use std::process::Stdio;

use baton_tool::{Arrange, RunProgram};
use tokio::process::Command;

use super::Host;
use crate::processes::{CALL_ID, Processes, Scratch};

/// Variables that a program gets from the engine's environment.
const VARIABLES: [&str; 2] = ["PATH", "LANG"];

/// Starts `program`, with the changes that `arrange` makes to its command, in a folder of its own.
pub(super) fn start(host: &Host, program: &str, arrange: Arrange<'_>) -> io::Result<RunProgram> {
    let place = Scratch::new()?;
    let folder = place.path().to_owned();
    let mut command = std::process::Command::new(program);
    command.env_clear();
    for name in VARIABLES {
        if let Some(value) = (host.shared.variable)(name) {
            command.env(name, value);
        }
    }
    arrange(&folder, &mut command);
    let mut command = Command::from(command);
    // The id of the call has the run in it, so the next owner of the run finds processes that a dead engine left.
    command.current_dir(&folder).env(CALL_ID, format!("{}/{}", host.caller.run, host.caller.call));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut processes = Processes::spawn(command, place, &host.endings)?;
    let pipes = processes.take_pipes()?.ok_or_else(|| io::Error::other("the program has no pipes"))?;
    Ok(RunProgram::new(folder, pipes, processes))
}
