//! llama.cpp's own server, which the package `xllamacpp` contains. `llama_server.py` starts it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::Environment;
use super::server::Server;

const SCRIPT: &str = include_str!("../../peers/llama_server.py");

/// Path that the server answers with success once its model is loaded. It needs no key.
const HEALTH: &str = "/health";

/// A server that can be started any number of times.
pub(crate) struct LlamaServer<'a> {
    pub(crate) environment: &'a Environment,
    /// File of the model.
    pub(crate) model: PathBuf,
    pub(crate) threads: u32,
    /// Window of each slot in tokens.
    pub(crate) window: u32,
    /// Number of requests that it answers at the same time.
    pub(crate) slots: u32,
    /// Value of the key that requests must have; `None` if it needs none.
    pub(crate) key: Option<&'a str>,
}

impl LlamaServer<'_> {
    /// Starts it at a free port. `log` is the name of its log file in the folder of the environment.
    pub(crate) fn start(&self, log: &str) -> anyhow::Result<Server> {
        let script = self.script()?;
        Server::start(|port| self.command(&script, port), HEALTH, &self.environment.folder.join(log))
    }

    /// Starts it at `port`, as [`start`](Self::start) does.
    pub(crate) fn start_at(&self, port: u16, log: &str) -> anyhow::Result<Server> {
        let command = self.command(&self.script()?, port);
        Server::start_at(port, command, HEALTH, &self.environment.folder.join(log))
    }

    /// Writes the script and returns its path.
    fn script(&self) -> anyhow::Result<PathBuf> {
        let script = self.environment.folder.join("llama_server.py");
        std::fs::write(&script, SCRIPT)?;
        Ok(script)
    }

    /// Returns the command that starts it at `port` of this machine alone.
    fn command(&self, script: &Path, port: u16) -> Command {
        let mut server = self.environment.python();
        server.arg(script).arg(&self.model).args([u32::from(port), self.threads, self.window].map(|number| number.to_string()));
        server.args(["--slots", &self.slots.to_string()]);
        server.args(self.key.map(|key| format!("--key={key}")));
        // Threads that wait for each other sleep, so that other programs may run.
        server.env("OMP_WAIT_POLICY", "passive");
        server
    }
}
